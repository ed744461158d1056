//! Reading a log, and distinguishing torn tails from other damage.
//!
//! A segment is intact if it ends with its end record, or if its file ends at the end of a record.
//! Otherwise the writer was interrupted there, or bytes have been lost since. It is **damage** if
//!
//! 1. a later sync mark states that everything up to a later position had been synced: no crash
//!    loses synced bytes; or
//! 2. an intact record follows, in this segment or a later one, and the machine has not been
//!    restarted since the segment was created (by its boot id; or that is unknown): a process
//!    crashes with its writes in order, so only a crash of the machine leaves gaps before later
//!    writes.
//!
//! Otherwise it is a **torn tail**: replay stops there, and everything after it (which was written
//! after the last sync) is cleared before the log continues, so that no later replay reads it.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cassette_vfs::FileSystem;
use cassette_vfs::encryption::{Encryption, PieceCipher};
use hashbrown::HashMap;

use super::cdc::{Captured, CdcDirectory, CdcIndex};
use super::dirty::DirtyTables;
use super::format::{self, Body, ENCRYPTION_LEN_MAX, Found, HEADER_LEN, Header};
use super::tracked::Tracked;
use super::{CommitLogOptions, OpenError, Position, ReplayPolicy, TableVersion};

/// The error of a handler of entries.
pub type HandlerError = Box<dyn Error + Send + Sync>;

/// An entry passed to the handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry<'a> {
    /// The output of [`encode_dictionary`](super::Record::encode_dictionary), once in each segment
    /// with records of the table.
    Dictionary {
        /// The table.
        table: TableVersion,
        /// Its bytes.
        content: &'a [u8],
    },
    /// The output of [`encode`](super::Record::encode).
    Record {
        /// The end of the record, as returned by `append`.
        position: Position,
        /// Its tables, in their original order.
        tables: &'a [TableVersion],
        /// Its bytes.
        content: &'a [u8],
    },
}

/// The result of replay.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReplaySummary {
    /// Segments read.
    pub segments: usize,
    /// Records passed to the handler.
    pub records: u64,
    /// Their bytes, without framing.
    pub bytes: u64,
    /// The torn tail, if there was one.
    pub torn: Option<Torn>,
    /// Places where damage was skipped, as allowed by the policy.
    pub skipped: u64,
}

/// A torn tail: records that were being written, or written and not yet synced, when the machine or
/// the process crashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Torn {
    /// The end of the last intact record.
    pub position: Position,
    /// Later segments that were removed.
    pub segments_discarded: usize,
}

/// A log that has been read and repaired.
pub(super) struct Replayed {
    pub(super) summary: ReplaySummary,
    pub(super) segments: BTreeMap<u64, Tracked>,
    /// The end of the last record; everything up to here is durable.
    pub(super) end: Position,
    /// The highest id in use so far.
    pub(super) last_id: u64,
}

type Handler<'a> = &'a mut dyn FnMut(Entry<'_>) -> Result<(), HandlerError>;

/// What replay uses besides the log.
#[derive(Clone, Copy)]
pub(super) struct Access<'a> {
    pub(super) encryption: Option<&'a dyn Encryption>,
    pub(super) cdc: Option<&'a CdcDirectory>,
}

/// Reads the log in `directory`, passes its entries to `handler`, and makes the remaining log
/// intact and durable.
pub(super) fn replay(
    fs: &dyn FileSystem,
    directory: &Path,
    policy: ReplayPolicy,
    access: Access<'_>,
    handler: Handler<'_>,
) -> Result<Replayed, OpenError> {
    let io_error = |source| OpenError::Io { directory: directory.to_owned(), source };
    fs.create_dir_all(directory).map_err(io_error)?;
    if let Some(parent) = directory.parent() {
        fs.sync_dir(parent).map_err(io_error)?;
    }
    let files = list(fs, directory, access.encryption)?;
    let last_id = files.last().map_or(0, |file| file.id);
    let mut reader = Reader {
        fs,
        directory,
        files,
        policy,
        is_captured: access.cdc.map(|cdc| cdc.options.is_captured),
        handler,
        summary: ReplaySummary::default(),
        read: Vec::new(),
        synced: Position::ZERO,
    };
    let torn_at = reader.read_all()?;
    let Reader { files, summary, read, synced, .. } = reader;
    if let Some(torn_at) = torn_at {
        let behind = &files[torn_at + 1..];
        if let Some(cdc) = access.cdc {
            cdc.unlink(behind.iter().map(|file| file.path.as_path())).map_err(io_error)?;
        }
        clear_behind(fs, directory, behind).map_err(io_error)?;
    }
    for segment in &read {
        settle(fs, segment, synced, access.cdc).map_err(io_error)?;
    }
    fs.sync_dir(directory).map_err(io_error)?;
    let remaining = read.iter().filter(|segment| segment.end > 0);
    let entry = |segment: &Read| (segment.id, (segment.path.clone(), segment.end, segment.is_captured));
    let mut captured: BTreeMap<u64, (PathBuf, u32, bool)> = remaining.map(entry).collect();
    match access.cdc {
        Some(cdc) => cdc.settle(&mut captured).map_err(io_error)?,
        None => captured.clear(),
    }

    let end =
        read.last().map_or(Position::ZERO, |segment| Position { segment: segment.id, offset: segment.end });
    let segments = read.into_iter().map(|segment| {
        let tracked = Tracked {
            path: segment.path,
            size: u64::from(segment.end),
            dirty: segment.dirty,
            syncer: None,
            unsynced: false,
            going: false,
            sealed: Some(segment.end),
            captured: match captured.get(&segment.id) {
                Some((_, offset, true)) => Captured::Some(CdcIndex { offset: *offset, completed: true }),
                _ => Captured::Unlinked,
            },
            archived: false,
        };
        (segment.id, tracked)
    });
    Ok(Replayed { summary, segments: segments.collect(), end, last_id })
}

struct SegmentPath {
    id: u64,
    path: PathBuf,
    cipher: Option<Arc<dyn PieceCipher>>,
}

/// Returns the segments in the directory, by id.
fn list(
    fs: &dyn FileSystem,
    directory: &Path,
    encryption: Option<&dyn Encryption>,
) -> Result<Vec<SegmentPath>, OpenError> {
    let io_error = |source| OpenError::Io { directory: directory.to_owned(), source };
    let mut files = Vec::new();
    for entry in fs.read_dir(directory).map_err(io_error)? {
        let Some((version, id)) = format::parse_file_name(&entry.name) else { continue };
        let path = directory.join(&entry.name);
        if !format::is_known_version(version) {
            return Err(OpenError::UnknownVersion { file: path, version });
        }
        let cipher = check_start(fs, directory, id, &path, encryption)?;
        files.push(SegmentPath { id, path, cipher });
    }
    files.sort_by_key(|file| file.id);
    Ok(files)
}

/// Rejects a segment whose header does not match its name, and returns the cipher of an encrypted
/// one: before anything is read, so that a missing key changes nothing. A segment whose start is
/// damaged may still be torn.
fn check_start(
    fs: &dyn FileSystem,
    directory: &Path,
    id: u64,
    path: &Path,
    encryption: Option<&dyn Encryption>,
) -> Result<Option<Arc<dyn PieceCipher>>, OpenError> {
    let io_error = |source| OpenError::Io { directory: directory.to_owned(), source };
    let mut bytes = [0; (HEADER_LEN + ENCRYPTION_LEN_MAX) as usize];
    let length = fs.open(path).and_then(|file| file.read_at(&mut bytes, 0)).map_err(io_error)?;
    let bytes = &bytes[..length];
    let Ok(header) = Header::decode(bytes) else { return Ok(None) };
    if !format::is_known_version(header.version.into()) {
        return Err(OpenError::UnknownVersion { file: path.to_owned(), version: u64::from(header.version) });
    }
    if header.id != id {
        let damage = format!("the header is that of segment {}", header.id);
        return Err(OpenError::Corrupt { file: path.to_owned(), offset: 12, damage });
    }
    cipher_of(id, path, bytes, encryption)
}

/// Returns the cipher of a segment that begins with `bytes`; `None` if it has none, or its
/// parameters are damaged.
pub(crate) fn cipher_of(
    id: u64,
    path: &Path,
    bytes: &[u8],
    encryption: Option<&dyn Encryption>,
) -> Result<Option<Arc<dyn PieceCipher>>, OpenError> {
    let Found::Body(body, _) = format::find(id, bytes, HEADER_LEN as usize) else { return Ok(None) };
    let Some(Body::Encryption(parameters)) = Body::decode(body) else { return Ok(None) };
    let cipher = match encryption {
        Some(encryption) => encryption.resume(parameters),
        None => Err("no keys are configured".into()),
    };
    cipher.map(Some).map_err(|reason| OpenError::Key { file: path.to_owned(), reason })
}

/// A segment that has been read.
struct Read {
    id: u64,
    path: PathBuf,
    /// The end of its last intact record.
    end: u32,
    /// Whether damage in it has been skipped: it remains unchanged.
    damaged: bool,
    /// Whether its bytes may come from the page cache rather than the disk.
    written_since_boot: bool,
    dirty: DirtyTables,
    /// Whether it has changes of captured tables.
    is_captured: bool,
    /// By dictionary index: the table, and whether it is captured.
    dictionary: HashMap<u16, (TableVersion, bool)>,
}

struct Reader<'a> {
    fs: &'a dyn FileSystem,
    directory: &'a Path,
    files: Vec<SegmentPath>,
    policy: ReplayPolicy,
    /// Whether a dictionary is that of a captured table.
    is_captured: Option<fn(&[u8]) -> bool>,
    handler: Handler<'a>,
    summary: ReplaySummary,
    read: Vec<Read>,
    /// The highest sync mark.
    synced: Position,
}

/// The place where a segment stops being intact.
struct Break {
    offset: usize,
    damage: &'static str,
    /// The boot id of the machine when the segment was created.
    boot_id: Option<u128>,
}

impl Reader<'_> {
    /// Reads all segments. Returns the number of the one with a torn tail, where reading stopped.
    fn read_all(&mut self) -> Result<Option<usize>, OpenError> {
        for number in 0..self.files.len() {
            let bytes = self.load(number)?;
            self.summary.segments += 1;
            if self.read_segment(number, &bytes)? {
                return Ok(Some(number));
            }
        }
        Ok(None)
    }

    fn load(&self, number: usize) -> Result<Vec<u8>, OpenError> {
        let path = &self.files[number].path;
        let io_error = |source| OpenError::Io { directory: self.directory.to_owned(), source };
        let length = self.fs.metadata(path).map_err(io_error)?.len;
        if length > u64::from(CommitLogOptions::SEGMENT_SIZE_MAX) {
            let maximum = u64::from(CommitLogOptions::SEGMENT_SIZE_MAX);
            return Err(self.corrupt(number, maximum, "the file is longer than any segment".into()));
        }
        self.fs.read(path).map_err(io_error)
    }

    fn corrupt(&self, number: usize, offset: u64, damage: String) -> OpenError {
        OpenError::Corrupt { file: self.files[number].path.clone(), offset, damage }
    }

    /// Reads one segment; returns true if its tail is torn.
    fn read_segment(&mut self, number: usize, bytes: &[u8]) -> Result<bool, OpenError> {
        let SegmentPath { id, path, .. } = &self.files[number];
        let id = *id;
        let mut read = Read {
            id,
            path: path.clone(),
            end: 0,
            damaged: false,
            written_since_boot: true,
            dirty: DirtyTables::default(),
            is_captured: false,
            dictionary: HashMap::new(),
        };
        let mut offset = 0;
        let mut boot_id = None;
        let mut broken = match Header::decode(bytes) {
            Ok(header) => {
                offset = HEADER_LEN as usize;
                boot_id = header.boot_id;
                read.written_since_boot = !self.restarted_since(boot_id);
                None
            }
            Err(damage) => Some(Break { offset, damage, boot_id }),
        };
        let torn = loop {
            if let Some(found) = broken.take() {
                if self.is_torn(number, bytes, &found)? {
                    let untouched = first_nonzero(&bytes[found.offset..]).is_none();
                    let segments_discarded = self.files.len() - number - 1;
                    if !untouched {
                        let position = Position { segment: id, offset: found.offset as u32 };
                        self.summary.torn = Some(Torn { position, segments_discarded });
                    }
                    break true;
                }
                read.damaged = true;
                self.summary.skipped += 1;
                tracing::warn!(file = %self.files[number].path.display(), offset = found.offset, damage = found.damage,
                    "skipping damage in a commit log segment");
                match next_record(id, bytes, found.offset + 1) {
                    Some(next) => offset = next,
                    None => break false,
                }
            }
            match format::find(id, bytes, offset) {
                Found::Body(body, end) => {
                    if !self.take(number, body, end, &mut read)? {
                        read.end = end as u32;
                        break false;
                    }
                    offset = end;
                    read.end = end as u32;
                }
                Found::EndOfFile => {
                    read.end = offset as u32;
                    break false;
                }
                Found::Untouched => {
                    read.end = offset as u32;
                    let damage = "nothing, where a record or the end of the segment should be";
                    broken = Some(Break { offset, damage, boot_id });
                }
                Found::Damaged(damage) => {
                    read.end = offset as u32;
                    broken = Some(Break { offset, damage, boot_id });
                }
            }
        };
        self.read.push(read);
        Ok(torn)
    }

    /// Processes a record whose checksums match; returns false if it ends the segment.
    fn take(&mut self, number: usize, body: &[u8], end: usize, read: &mut Read) -> Result<bool, OpenError> {
        let SegmentPath { id, cipher, .. } = &self.files[number];
        let position = Position { segment: *id, offset: end as u32 };
        let opened;
        let mut decoded = Body::decode(body);
        if let Some(Body::Encrypted(sealed)) = decoded {
            let Some(body) = cipher.as_ref().and_then(|cipher| sealed.open(*id, end, cipher.as_ref())) else {
                return self.skip_or_stop(number, end, "an encrypted record that fails its authentication");
            };
            opened = body;
            decoded = Body::decode(&opened);
        }
        let handled = match decoded {
            Some(Body::Encryption(_) | Body::Time(_) | Body::Event(_)) => return Ok(true),
            Some(Body::End) => return Ok(false),
            Some(Body::SyncMark(synced)) => {
                self.synced = self.synced.max(synced);
                return Ok(true);
            }
            Some(Body::Dictionary { index, table, content }) => {
                let is_captured = self.is_captured.is_some_and(|is_captured| is_captured(content));
                read.dictionary.insert(index, (table, is_captured));
                (self.handler)(Entry::Dictionary { table, content })
            }
            Some(Body::Entry { indexes, content }) => {
                let tables: Option<Vec<(TableVersion, bool)>> =
                    indexes.iter().map(|index| read.dictionary.get(&index).copied()).collect();
                let Some(tables) = tables else {
                    return self.skip_or_stop(
                        number,
                        end,
                        "an entry of a table that the segment does not define",
                    );
                };
                read.is_captured |= tables.iter().any(|(_, is_captured)| *is_captured);
                let tables: Vec<TableVersion> = tables.into_iter().map(|(table, _)| table).collect();
                for table in &tables {
                    read.dirty.mark_dirty(table.table, position.offset);
                }
                self.summary.records += 1;
                self.summary.bytes += content.len() as u64;
                (self.handler)(Entry::Record { position, tables: &tables, content })
            }
            Some(Body::Encrypted(_)) | None => {
                return self.skip_or_stop(number, end, "a record of no known kind");
            }
        };
        let file = &self.files[number].path;
        handled.map_err(|source| OpenError::Handler { file: file.clone(), position, source })?;
        Ok(true)
    }

    /// Whether the machine has certainly restarted since it had this boot id.
    fn restarted_since(&self, boot_id: Option<u128>) -> bool {
        matches!((boot_id, self.fs.boot_id()), (Some(then), Some(now)) if then != now)
    }

    /// Handles a record with matching checksums and invalid contents.
    fn skip_or_stop(&mut self, number: usize, end: usize, damage: &str) -> Result<bool, OpenError> {
        if self.policy == ReplayPolicy::Stop {
            return Err(self.corrupt(number, end as u64, format!("{damage} ends there")));
        }
        self.summary.skipped += 1;
        Ok(true)
    }

    /// Whether a crash explains the break. If it does not: an error, or false if the policy is to
    /// continue.
    fn is_torn(&self, number: usize, bytes: &[u8], found: &Break) -> Result<bool, OpenError> {
        let id = self.files[number].id;
        let here = Position { segment: id, offset: found.offset as u32 };
        let mut behind = Behind::default();
        behind.look(id, bytes, found.offset);
        for later in number + 1..self.files.len() {
            behind.look(self.files[later].id, &self.load(later)?, 0);
        }
        let why = if behind.synced > here {
            format!("{}, though it had been synced (up to {})", found.damage, behind.synced)
        } else if behind.records > 0 && !self.restarted_since(found.boot_id) {
            format!("{}, and {} whole records follow", found.damage, behind.records)
        } else {
            return Ok(true);
        };
        match self.policy {
            ReplayPolicy::Stop => Err(self.corrupt(number, found.offset as u64, why)),
            ReplayPolicy::SkipDamaged => Ok(false),
        }
    }
}

/// The contents after a break.
#[derive(Default)]
struct Behind {
    records: u64,
    /// The highest sync mark.
    synced: Position,
}

impl Behind {
    fn look(&mut self, id: u64, bytes: &[u8], from: usize) {
        let mut from = from;
        while let Some(offset) = next_record(id, bytes, from) {
            let Found::Body(body, end) = format::find(id, bytes, offset) else { break };
            match Body::decode(body) {
                // Written when the segment was reserved, and synced before its first record.
                Some(Body::Encryption(_)) => {}
                Some(Body::SyncMark(synced)) => {
                    self.records += 1;
                    self.synced = self.synced.max(synced);
                }
                _ => self.records += 1,
            }
            from = end;
        }
    }
}

/// Returns the first offset from `from` on at which a record's checksums match.
pub(super) fn next_record(id: u64, bytes: &[u8], from: usize) -> Option<usize> {
    let mut offset = from;
    while offset < bytes.len() {
        // At least one of the four bytes of a length is not zero: continue where the next nonzero
        // byte could be the last of four.
        let zeros = first_nonzero(&bytes[offset..])?;
        offset += zeros.saturating_sub(3);
        if matches!(format::find(id, bytes, offset), Found::Body(..)) {
            return Some(offset);
        }
        offset += 1;
    }
    None
}

/// Returns the offset of the first byte that is not zero. Compares blocks, because the reserved
/// part of a segment is megabytes of zeros; comparing slices is fast in debug builds, too.
fn first_nonzero(bytes: &[u8]) -> Option<usize> {
    const BLOCK: usize = 1024;
    const ZEROS: [u8; BLOCK] = [0; BLOCK];
    let is_touched = |block: &[u8]| *block != ZEROS[..block.len()];
    let start = bytes.chunks(BLOCK).position(is_touched)? * BLOCK;
    Some(start + bytes[start..].iter().position(|byte| *byte != 0)?)
}

/// Removes the segments after a torn tail, the last one first, before the tail itself is truncated:
/// a crash in between leaves a log with the same contents.
fn clear_behind(fs: &dyn FileSystem, directory: &Path, files: &[SegmentPath]) -> io::Result<()> {
    for file in files.iter().rev() {
        fs.remove_file(&file.path)?;
        fs.sync_dir(directory)?;
    }
    Ok(())
}

/// Makes a segment intact and durable, as it was read.
fn settle(
    fs: &dyn FileSystem,
    segment: &Read,
    synced: Position,
    cdc: Option<&CdcDirectory>,
) -> io::Result<()> {
    if segment.end == 0 {
        // Without a complete header, it was being reserved.
        if let Some(cdc) = cdc {
            cdc.unlink(std::iter::once(segment.path.as_path()))?;
        }
        return fs.remove_file(&segment.path);
    }
    let start = match segment.id.cmp(&synced.segment) {
        Ordering::Less => segment.end,
        Ordering::Equal => synced.offset.min(segment.end),
        Ordering::Greater => 0,
    };
    let mut file = fs.open_writable(&segment.path, u64::from(start))?;
    if segment.written_since_boot && start < segment.end {
        // Bytes that are not known to be synced are rewritten. A sync of the previous process may
        // have failed, after which the kernel considers these bytes written: they can be read, but
        // no sync would write them to the disk.
        let mut bytes = vec![0; (segment.end - start) as usize];
        fs.open(&segment.path)?.read_exact_at(&mut bytes, u64::from(start))?;
        file.write_all(&bytes)?;
    }
    if !segment.damaged {
        drop(file);
        file = fs.open_writable(&segment.path, u64::from(segment.end))?;
        // Also if the file has this length: the truncation may never have reached the disk.
        file.truncate(u64::from(segment.end))?;
    }
    file.sync()
}

#[cfg(test)]
mod tests {
    use super::first_nonzero;

    #[test]
    fn the_first_byte_that_is_not_zero_is_found_at_every_offset() {
        assert_eq!(first_nonzero(&[]), None);
        for length in [1, 1023, 1024, 1025, 2100] {
            let mut bytes = vec![0; length];
            assert_eq!(first_nonzero(&bytes), None);
            for offset in (0..length).rev() {
                bytes[offset] = 1;
                assert_eq!(first_nonzero(&bytes), Some(offset), "of {length} bytes");
            }
        }
    }
}
