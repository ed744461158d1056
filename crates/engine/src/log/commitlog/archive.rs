//! The archive: finished segments stay available to a consumer that copies them elsewhere.
//!
//! ```text
//! <log's directory>/archive/chain                                 the number of the chain, 32 hexadecimal digits
//! <log's directory>/archive/<number>/CommitLog-<version>-<id>.log a hard link to a finished segment
//! ```
//!
//! A chain is a sequence of segments without a gap. It ends when the log is opened without
//! archiving, because segments are removed without a link from then on.
//!
//! # Invariants
//!
//! 1. A segment is linked only when it is finished and synced, so a linked file never changes.
//! 2. A segment of a chain is removed from the log only after its link is durable. The link stays
//!    until the consumer removes it; a segment that the log still has may then be linked again.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cassette_vfs::FileSystem;

use super::format::{self, Body, Found, HEADER_LEN, Header};
use super::{CommitLogOptions, OpenError};

const DIRECTORY: &str = "archive";
const CHAIN: &str = "chain";

/// The archive of an open log.
pub(super) struct Archive {
    fs: Arc<dyn FileSystem>,
    pub(super) chain: u128,
    pub(super) directory: PathBuf,
}

impl Archive {
    /// Continues the chain of the log, or begins the chain `new`. With `None`, ends a chain that
    /// exists. Called before the log accepts records.
    pub(super) fn of(fs: &Arc<dyn FileSystem>, log: &Path, new: Option<u128>) -> io::Result<Option<Self>> {
        let root = log.join(DIRECTORY);
        let path = root.join(CHAIN);
        let Some(new) = new else {
            if fs.exists(&path)? {
                fs.remove_file(&path)?;
                fs.sync_dir(&root)?;
            }
            return Ok(None);
        };
        fs.create_dir_all(&root)?;
        fs.sync_dir(log)?;
        let continued = if fs.exists(&path)? { parse_chain(&fs.read(&path)?) } else { None };
        let chain = continued.unwrap_or(new);
        let directory = root.join(format!("{chain:032x}"));
        fs.create_dir_all(&directory)?;
        fs.sync_dir(&root)?;
        if continued.is_none() {
            fs.write_atomically(&path, format!("{chain:032x}").as_bytes())?;
        }
        Ok(Some(Self { fs: fs.clone(), chain, directory }))
    }

    /// Durably links finished segments. No-op for those that are linked, or that the log has
    /// removed, which it does only after linking them.
    pub(super) fn link<'a>(&self, segments: impl Iterator<Item = &'a Path>) -> io::Result<()> {
        let mut is_changed = false;
        for segment in segments {
            let link = self.directory.join(segment.file_name().unwrap_or_default());
            match self.fs.hard_link(segment, &link) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound && !self.fs.exists(segment)? => {}
                linked => linked?,
            }
            is_changed = true;
        }
        // Also for links that exist: they may not be durable yet.
        if is_changed { self.fs.sync_dir(&self.directory) } else { Ok(()) }
    }
}

fn parse_chain(text: &[u8]) -> Option<u128> {
    let text = std::str::from_utf8(text).ok().filter(|text| text.len() == 32)?;
    u128::from_str_radix(text, 16).ok()
}

/// A finished segment that waits for its consumer.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ArchivedSegment {
    /// Its chain.
    pub chain: u128,
    /// Its id. A later segment of a chain has a higher one.
    pub id: u64,
    /// The link.
    pub path: PathBuf,
}

/// The content of a finished segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentContent {
    /// Its bytes up to the end of its last record.
    pub bytes: Vec<u8>,
    /// The earliest time in it, microseconds since 1970; `None` without records, and in segments
    /// that were written before the log was archived.
    pub earliest: Option<i64>,
    /// The latest time in it.
    pub latest: Option<i64>,
}

/// Returns the segments that wait for a consumer in the log's directory, in the order of chains
/// and ids.
///
/// # Errors
/// If a directory cannot be read.
pub fn archived_segments(fs: &dyn FileSystem, log: &Path) -> io::Result<Vec<ArchivedSegment>> {
    let root = log.join(DIRECTORY);
    let entries = match fs.read_dir(&root) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for directory in entries.into_iter().filter(|entry| entry.is_dir) {
        let Some(chain) = parse_chain(directory.name.as_bytes()) else { continue };
        let path = root.join(&directory.name);
        for entry in fs.read_dir(&path)? {
            if let Some((_, id)) = format::parse_file_name(&entry.name) {
                found.push(ArchivedSegment { chain, id, path: path.join(entry.name) });
            }
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// Removes the link of a segment that its consumer has stored durably.
///
/// # Errors
/// If it cannot be removed.
pub fn remove_archived(fs: &dyn FileSystem, segment: &ArchivedSegment) -> io::Result<()> {
    match fs.remove_file(&segment.path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        removed => removed?,
    }
    fs.sync_dir(segment.path.parent().unwrap_or(Path::new("")))
}

impl SegmentContent {
    /// Reads a finished segment, and checks that it is intact.
    ///
    /// # Errors
    /// If it is damaged: it must not end within a record.
    pub fn load(fs: &dyn FileSystem, path: &Path) -> Result<Self, OpenError> {
        let io_error = |source| OpenError::Io { directory: path.to_owned(), source };
        let length = fs.metadata(path).map_err(io_error)?.len;
        if length > u64::from(CommitLogOptions::SEGMENT_SIZE_MAX) {
            let damage = "the file is longer than any segment".to_owned();
            return Err(OpenError::Corrupt { file: path.to_owned(), offset: length, damage });
        }
        Self::of(path, fs.read(path).map_err(io_error)?)
    }

    fn of(path: &Path, mut bytes: Vec<u8>) -> Result<Self, OpenError> {
        let corrupt = |offset: usize, damage: &str| {
            let (file, damage) = (path.to_owned(), damage.to_owned());
            OpenError::Corrupt { file, offset: offset as u64, damage }
        };
        let header = Header::decode(&bytes).map_err(|damage| corrupt(0, damage))?;
        let (mut offset, mut earliest, mut latest) = (HEADER_LEN as usize, None::<i64>, None::<i64>);
        loop {
            match format::find(header.id, &bytes, offset) {
                Found::Body(body, end) => {
                    offset = end;
                    match Body::decode(body) {
                        Some(Body::Time(time)) => {
                            earliest = Some(earliest.map_or(time, |earliest| earliest.min(time)));
                            latest = latest.max(Some(time));
                        }
                        Some(Body::End) => break,
                        _ => {}
                    }
                }
                Found::EndOfFile => break,
                Found::Untouched => {
                    return Err(corrupt(
                        offset,
                        "nothing, where a record or the end of the segment should be",
                    ));
                }
                Found::Damaged(damage) => return Err(corrupt(offset, damage)),
            }
        }
        bytes.truncate(offset);
        Ok(Self { bytes, earliest, latest })
    }
}
