//! Change data capture: segments with changes of its tables stay available in `cdc_raw`.
//!
//! ```text
//! <cdc_raw>/CommitLog-<version>-<id>.log       a hard link to the segment
//! <cdc_raw>/CommitLog-<version>-<id>_cdc.idx   "<offset>" or "<offset>\nCOMPLETED": how much of it is durable
//! <cdc_raw>/chain                              which segments belong together, see chain.rs
//! ```
//!
//! # Invariants
//!
//! 1. A record of change data capture is logged only in a segment whose link is durable.
//! 2. A segment with such records is removed from the log only after it has been synced and its
//!    index, with COMPLETED, is durable. The link stays until a consumer removes it.
//! 3. The link of a segment without such records, or whose records replay discards, is durably
//!    removed before the segment is.
//!
//! So every acknowledged change of a captured table is in a linked segment, and after each start
//! every linked segment that is not active has a durable index.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cassette_vfs::{Clock, FileSystem};
use parking_lot::Mutex;

use super::chain::Chain;
use super::format::{self, Found, HEADER_LEN};
use super::{CommitLogOptions, OpenError, Position};

/// The second line of the index of a segment that is not written any more.
const COMPLETED: &str = "COMPLETED";

/// The maximum length of an index, bytes: more than ten digits and COMPLETED take.
const INDEX_LENGTH_MAX: u64 = 64;

/// How change data capture is done, with Cassandra's names.
#[derive(Debug, Clone)]
pub struct CdcOptions {
    /// `cdc_enabled`. Without it, segments that exist in `directory` are kept and completed.
    pub enabled: bool,
    /// `cdc_raw_directory`, on the volume of the commit log.
    pub directory: PathBuf,
    /// `cdc_total_space`, bytes.
    pub total_space: u64,
    /// `cdc_block_writes`: whether writes of captured tables are refused when there is no space.
    /// Otherwise the oldest segments are removed.
    pub block_writes: bool,
    /// `cdc_free_space_check_interval`: how often the directory is measured while writes are
    /// refused.
    pub check_interval: Duration,
    /// Whether a dictionary is that of a captured table.
    pub is_captured: fn(&[u8]) -> bool,
    /// A unique number for the chain of captured segments that begins if none is continued.
    pub chain: u128,
}

/// What is captured and has not been removed by a consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CapturedStats {
    /// Bytes that consumers can read, of segments with captured changes.
    pub bytes: u64,
    /// Bytes on disk, including those reserved in the active segment.
    pub disk_bytes: u64,
    /// `cdc_total_space`, bytes.
    pub total_space: u64,
    /// Time since the first segment with captured changes was created; zero without any.
    pub oldest_age: Duration,
}

/// The content of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct CdcIndex {
    /// Bytes of the segment that are durable.
    pub offset: u32,
    /// Nothing will be appended.
    pub completed: bool,
}

impl CdcIndex {
    fn encode(self) -> String {
        let Self { offset, completed } = self;
        if completed { format!("{offset}\n{COMPLETED}") } else { offset.to_string() }
    }

    /// `None` if the text is not an index.
    pub fn decode(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        let (offset, completed) = match text.split_once('\n') {
            Some((offset, rest)) => (offset, rest.trim_end() == COMPLETED),
            None => (text, false),
        };
        Some(Self { offset: offset.trim_end().parse().ok()?, completed })
    }
}

/// Reads an index; `None` if there is none, or the file is not an index. What is longer than any
/// index is not read.
pub(crate) fn read_index(fs: &dyn FileSystem, path: &Path) -> io::Result<Option<CdcIndex>> {
    let file = match fs.open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    if file.len()? > INDEX_LENGTH_MAX {
        return Ok(None);
    }
    let mut text = [0; INDEX_LENGTH_MAX as usize];
    let length = file.read_at(&mut text, 0)?;
    Ok(text.get(..length).and_then(CdcIndex::decode))
}

/// Returns the name of the index of the segment with this name.
pub(crate) fn index_name(segment: &str) -> String {
    format!("{}_cdc.idx", segment.strip_suffix(".log").unwrap_or(segment))
}

/// The directory of linked segments.
pub(super) struct CdcDirectory {
    fs: Arc<dyn FileSystem>,
    clock: Arc<dyn Clock>,
    pub(super) options: CdcOptions,
    /// When the directory was last found to be full, and its bytes.
    full: Mutex<Option<(Duration, u64)>>,
    /// `None` if nothing is captured and nothing was.
    chain: Mutex<Option<Chain>>,
}

/// A linked segment.
struct Linked {
    path: PathBuf,
    length: u64,
    index: Option<CdcIndex>,
}

/// The result of linking a segment.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Linking {
    Done,
    /// There is no space: the directory has this many bytes.
    NoSpace(u64),
}

impl CdcDirectory {
    /// [`open`](Self::open), if there are options. `log` is the directory of the log.
    pub(super) fn of(
        fs: &Arc<dyn FileSystem>,
        clock: &Arc<dyn Clock>,
        options: Option<&CdcOptions>,
        log: &Path,
    ) -> Result<Option<Self>, OpenError> {
        let Some(options) = options else { return Ok(None) };
        Self::open(fs.clone(), clock.clone(), options.clone(), log)
            .map_err(|source| OpenError::Io { directory: options.directory.clone(), source })
    }

    /// Creates the directory if change data capture is enabled; `None` if it is not and there is
    /// no directory.
    fn open(
        fs: Arc<dyn FileSystem>,
        clock: Arc<dyn Clock>,
        options: CdcOptions,
        log: &Path,
    ) -> io::Result<Option<Self>> {
        let chain;
        if options.enabled {
            fs.create_dir_all(&options.directory)?;
            if let Some(parent) = options.directory.parent() {
                fs.sync_dir(parent)?;
            }
            chain = Some(Chain::begin_or_continue(fs.as_ref(), &options.directory, log, options.chain)?);
        } else if fs.exists(&options.directory)? {
            chain = Chain::read_valid(fs.as_ref(), &options.directory)?;
        } else {
            return Ok(None);
        }
        Ok(Some(Self { fs, clock, options, full: Mutex::default(), chain: Mutex::new(chain) }))
    }

    /// Returns the number of the chain, and its last segment; `None` without one.
    pub(super) fn chain(&self) -> Option<(u128, Option<u64>)> {
        self.chain.lock().as_ref().map(|chain| (chain.number, chain.segments.last().copied()))
    }

    /// Durably adds a segment to the chain. No-op if it belongs to it.
    fn add_to_chain(&self, segment: &Path) -> io::Result<()> {
        let (Some(id), mut chain) = (id_of(segment), self.chain.lock()) else { return Ok(()) };
        let Some(chain) = &mut *chain else { return Ok(()) };
        let exists = || Ok(self.list()?.into_keys().collect::<BTreeSet<_>>());
        chain.add(self.fs.as_ref(), &self.options.directory, id, exists)
    }

    fn link_of(&self, segment: &Path) -> PathBuf {
        self.options.directory.join(segment.file_name().unwrap_or_default())
    }

    fn index_of(&self, segment: &Path) -> PathBuf {
        let name = segment.file_name().unwrap_or_default().to_string_lossy();
        self.options.directory.join(index_name(&name))
    }

    /// Returns statistics of the directory.
    pub(super) fn stats(&self) -> io::Result<CapturedStats> {
        let linked = self.list()?;
        let captured = || linked.iter().filter_map(|(id, linked)| Some((*id, linked.index?)));
        let now = u64::try_from(self.clock.now_micros() / 1000).unwrap_or(0);
        // Ids are times in milliseconds.
        let age = |(id, _): (u64, CdcIndex)| Duration::from_millis(now.saturating_sub(id));
        Ok(CapturedStats {
            bytes: captured().map(|(_, index)| u64::from(index.offset)).sum(),
            disk_bytes: total_length(&linked),
            total_space: self.options.total_space,
            oldest_age: captured().next().map_or(Duration::ZERO, age),
        })
    }

    /// Lists the linked segments by id.
    fn list(&self) -> io::Result<BTreeMap<u64, Linked>> {
        let mut found = BTreeMap::new();
        for entry in self.fs.read_dir(&self.options.directory)? {
            let Some((_, id)) = format::parse_file_name(&entry.name) else { continue };
            let path = self.options.directory.join(&entry.name);
            let index = read_index(self.fs.as_ref(), &self.index_of(&path))?;
            found.insert(id, Linked { path, length: entry.len, index });
        }
        Ok(found)
    }

    /// Durably links a segment of `size` bytes, if there is space for it or can be made. No-op if
    /// it is linked.
    pub(super) fn link(&self, segment: &Path, size: u32) -> io::Result<Linking> {
        let now = self.clock.monotonic();
        if let Some((at, used)) = *self.full.lock()
            && now.saturating_sub(at) < self.options.check_interval
        {
            return Ok(Linking::NoSpace(used));
        }
        let linked = self.list()?;
        let used = total_length(&linked);
        let excess = used.saturating_add(u64::from(size)).saturating_sub(self.options.total_space);
        if excess > 0 && self.options.block_writes {
            *self.full.lock() = Some((now, used));
            return Ok(Linking::NoSpace(used));
        }
        *self.full.lock() = None;
        if excess > 0 {
            self.remove_oldest(&linked, excess)?;
        }
        match self.fs.hard_link(segment, &self.link_of(segment)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            linked => linked?,
        }
        self.fs.sync_dir(&self.options.directory)?;
        Ok(Linking::Done)
    }

    /// Removes the oldest completed segments until `excess` bytes are free, or there is none left.
    fn remove_oldest(&self, linked: &BTreeMap<u64, Linked>, mut excess: u64) -> io::Result<()> {
        for old in linked.values().filter(|linked| linked.index.is_some_and(|index| index.completed)) {
            if excess == 0 {
                break;
            }
            tracing::warn!(
                segment = %old.path.display(),
                "removing the oldest segment of change data capture: cdc_total_space is used up"
            );
            self.remove(&old.path)?;
            excess = excess.saturating_sub(old.length);
        }
        Ok(())
    }

    /// Removes the link and the index of a segment; not durable yet. No-op if it has none.
    fn remove(&self, segment: &Path) -> io::Result<()> {
        for path in [self.link_of(segment), self.index_of(segment)] {
            match self.fs.remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Durably removes the links of segments without changes of captured tables, before the
    /// segments are removed.
    pub(super) fn unlink<'a>(&self, segments: impl Iterator<Item = &'a Path> + Clone) -> io::Result<()> {
        if let Some(chain) = &mut *self.chain.lock() {
            let ids: Vec<u64> = segments.clone().filter_map(id_of).collect();
            chain.discard(self.fs.as_ref(), &self.options.directory, &ids)?;
        }
        let mut removed = false;
        for segment in segments {
            if self.fs.exists(&self.link_of(segment))? || self.fs.exists(&self.index_of(segment))? {
                self.remove(segment)?;
                removed = true;
            }
        }
        if removed { self.fs.sync_dir(&self.options.directory) } else { Ok(()) }
    }

    /// Writes the index of a segment, so that readers see either the previous one or this one. A
    /// crash of the machine can lose it, unless it is `durable`; the next start writes it again.
    pub(super) fn publish(&self, segment: &Path, index: CdcIndex, durable: bool) -> io::Result<()> {
        self.add_to_chain(segment)?;
        let path = self.index_of(segment);
        let text = index.encode();
        if durable {
            return self.fs.write_atomically(&path, text.as_bytes());
        }
        let new = path.with_extension("tmp");
        self.fs.create(&new)?.write_all(text.as_bytes())?;
        self.fs.rename(&new, &path)
    }

    /// Links the replayed segments that have changes of captured tables, up to their ends, and
    /// removes the links of the others. Completes segments that are not in the log any more.
    /// `replayed` has the path and end of each, and whether it has such changes; changes the last
    /// to whether it is linked.
    pub(super) fn settle(&self, replayed: &mut BTreeMap<u64, (PathBuf, u32, bool)>) -> io::Result<()> {
        let mut linked = self.list()?;
        for (id, (path, end, is_captured)) in replayed {
            let is_known = linked.remove(id).is_some();
            if !*is_captured {
                self.unlink(std::iter::once(path.as_path()))?;
                continue;
            }
            if !is_known && self.options.enabled {
                self.fs.hard_link(path, &self.link_of(path))?;
                self.fs.sync_dir(&self.options.directory)?;
            }
            *is_captured = is_known || self.options.enabled;
            if *is_captured {
                self.complete(path, CdcIndex { offset: *end, completed: true })?;
            }
        }
        // Those that the log has removed.
        for (id, old) in linked {
            if old.index.is_none_or(|index| !index.completed) {
                let offset = self.end_of(id, &old)?;
                self.complete(&old.path, CdcIndex { offset, completed: true })?;
            }
        }
        Ok(())
    }

    fn complete(&self, segment: &Path, index: CdcIndex) -> io::Result<()> {
        match read_index(self.fs.as_ref(), &self.index_of(segment)) {
            // It may not be durable, but the next start writes the same again.
            Ok(found) if found == Some(index) => Ok(()),
            _ => self.publish(segment, index, true),
        }
    }

    /// Returns the end of the last intact record of a segment.
    fn end_of(&self, id: u64, segment: &Linked) -> io::Result<u32> {
        if segment.length > u64::from(CommitLogOptions::SEGMENT_SIZE_MAX) {
            return Ok(0);
        }
        let bytes = self.fs.read(&segment.path)?;
        let mut offset = HEADER_LEN as usize;
        while let Found::Body(_, end) = format::find(id, &bytes, offset) {
            offset = end;
        }
        Ok(u32::try_from(offset.min(bytes.len())).unwrap_or(0))
    }
}

/// Returns the id in the name of a segment.
fn id_of(segment: &Path) -> Option<u64> {
    let (_, id) = format::parse_file_name(segment.file_name()?.to_str()?)?;
    Some(id)
}

/// Returns the bytes of segments: sparse files can add up to more than any disk has.
fn total_length(linked: &BTreeMap<u64, Linked>) -> u64 {
    linked.values().fold(0, |total, linked| total.saturating_add(linked.length))
}

/// The captured changes of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Captured {
    /// It is not linked: changes of captured tables are not logged in it.
    #[default]
    Unlinked,
    /// It is linked and has none.
    None,
    /// It has some; its index was last written with this.
    Some(CdcIndex),
}

/// Returns the index of a segment that ends at `sealed`, if it is not written any more, when
/// everything up to `synced` is durable.
pub(super) fn index_at(segment: u64, sealed: Option<u32>, synced: Position) -> CdcIndex {
    let durable = match synced.segment.cmp(&segment) {
        std::cmp::Ordering::Less => 0,
        std::cmp::Ordering::Equal => synced.offset,
        std::cmp::Ordering::Greater => u32::MAX,
    };
    match sealed {
        Some(end) => CdcIndex { offset: durable.min(end), completed: durable >= end },
        // The active segment is the last one.
        None if durable == u32::MAX => CdcIndex::default(),
        None => CdcIndex { offset: durable, completed: false },
    }
}

#[cfg(test)]
mod tests {
    use cassette_vfs::FakeFileSystem;

    use super::*;

    #[test]
    fn indexes_have_the_form_of_cassandra() {
        for (index, text) in [
            (CdcIndex { offset: 4_076_672, completed: true }, "4076672\nCOMPLETED"),
            (CdcIndex { offset: 7, completed: false }, "7"),
        ] {
            assert_eq!(index.encode(), text);
            assert_eq!(CdcIndex::decode(text.as_bytes()), Some(index));
        }
        assert_eq!(CdcIndex::decode(b"7\n"), Some(CdcIndex { offset: 7, completed: false }));
        for text in ["", "x", "-1", "\nCOMPLETED", "99999999999"] {
            assert_eq!(CdcIndex::decode(text.as_bytes()), None, "{text}");
        }
        assert_eq!(index_name("CommitLog-101-12.log"), "CommitLog-101-12_cdc.idx");
    }

    #[test]
    fn an_index_that_is_too_long_is_not_read() {
        let fs = FakeFileSystem::new();
        let shared: &dyn FileSystem = &fs;
        let path = Path::new("/cdc/CommitLog-101-12_cdc.idx");
        shared.create_dir_all(Path::new("/cdc")).unwrap();
        let write = |text: &[u8]| shared.create(path).unwrap().write_all(text).unwrap();
        assert_eq!(read_index(shared, path).unwrap(), None);
        write(b"70\nCOMPLETED");
        assert_eq!(read_index(shared, path).unwrap(), Some(CdcIndex { offset: 70, completed: true }));
        // Valid text at its beginning, and more than memory holds after it.
        shared.open_writable(path, 0).unwrap().allocate(1 << 20).unwrap();
        let before = fs.operations();
        assert_eq!(read_index(shared, path).unwrap(), None);
        assert_eq!(fs.operations() - before, 1, "it is opened and not read");
    }

    #[test]
    fn an_index_never_covers_more_than_is_durable_and_written() {
        let at = |offset| Position { segment: 5, offset };
        let index = |offset, completed| CdcIndex { offset, completed };
        assert_eq!(index_at(5, None, at(70)), index(70, false));
        assert_eq!(index_at(5, Some(100), at(70)), index(70, false));
        assert_eq!(index_at(5, Some(100), at(100)), index(100, true));
        // Cut off before records that were refused.
        assert_eq!(index_at(5, Some(60), at(70)), index(60, true));
        assert_eq!(index_at(4, Some(60), at(0)), index(60, true));
        assert_eq!(index_at(6, Some(60), at(70)), index(0, false));
        assert_eq!(index_at(6, None, at(70)), index(0, false));
    }
}
