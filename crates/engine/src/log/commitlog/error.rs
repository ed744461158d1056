//! Errors of the commit log.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use cassette_vfs::encryption::EncryptionError;

use super::replay::HandlerError;
use super::{CommitLogOptions, Position};

/// The error of an append.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AppendError {
    /// The record exceeds the maximum of these options.
    #[error(
        "write of {size} bytes with its index entries and view rows: expected at most {maximum} (the larger of half of \
         commitlog_segment_size and memtable_heap_space); divide it, or raise memtable_heap_space"
    )]
    TooLarge {
        /// The record's bytes, including framing.
        size: u64,
        /// The maximum.
        maximum: u32,
    },
    /// The record was not logged, and replay will not find it; the log itself is intact. If the
    /// source is [`io::ErrorKind::StorageFull`], there was no space: the append can be retried when
    /// there is.
    #[error("record refused by the commit log: {source}")]
    Refused {
        /// The error of the file system.
        source: Arc<io::Error>,
    },
    /// The log has failed, now or earlier. A record that was being written may be found by replay;
    /// all later ones are not logged.
    #[error("the commit log has failed and accepts no writes until it is opened again: {source}")]
    Failed {
        /// The first failure.
        source: Arc<io::Error>,
    },
    /// The record has changes of captured tables, and the space for change data capture is used
    /// up. The append can be retried when a consumer has removed segments.
    #[error("no space for change data capture in {}: {used} bytes are used", directory.display())]
    CdcFull {
        /// The directory of captured segments.
        directory: PathBuf,
        /// Their bytes.
        used: u64,
    },
    /// Finished segments could not be linked in the archive. The records are in the log.
    #[error("cannot archive commit log segments in {}: {source}", directory.display())]
    Archive {
        /// The directory of archived segments.
        directory: PathBuf,
        /// The error of the file system.
        source: Arc<io::Error>,
    },
    /// The log has been closed.
    #[error("the commit log is closed")]
    Closed,
}

/// The error of opening a commit log.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The segment size is out of bounds.
    #[error(
        "commitlog_segment_size of {segment_size} bytes is not between {} and {}",
        CommitLogOptions::SEGMENT_SIZE_MIN,
        CommitLogOptions::SEGMENT_SIZE_MAX
    )]
    SegmentSize {
        /// The configured size.
        segment_size: u32,
    },
    /// The file system failed.
    #[error("commit log in {}: {source}", directory.display())]
    Io {
        /// The log's directory.
        directory: PathBuf,
        /// The failed operation, and its path.
        source: io::Error,
    },
    /// A segment of another version of the log.
    #[error(
        "commit log segment {} has version {version}; this is version {}: \
         start the version that wrote it, drain it, and try again",
        file.display(),
        super::format::VERSION
    )]
    UnknownVersion {
        /// The segment's file.
        file: PathBuf,
        /// The version in its header.
        version: u64,
    },
    /// A segment is encrypted, and its key is not available or another one. Nothing was changed.
    #[error(
        "commit log segment {} is encrypted and cannot be read: {reason}. Nothing was removed; see \
         transparent_data_encryption_options",
        file.display()
    )]
    Key {
        /// The segment's file.
        file: PathBuf,
        /// The reason, which names the key; not a source, because the text contains it.
        reason: EncryptionError,
    },
    /// A segment is damaged in a way that a crash does not explain.
    #[error(
        "commit log segment {} is damaged at offset {offset}: {damage}. Records that were acknowledged are affected. \
         Restore the file from a copy, or skip the damaged records (`--skip-damaged-log`), which removes no files \
         of tables",
        file.display()
    )]
    Corrupt {
        /// The segment's file.
        file: PathBuf,
        /// The start of the damage, in bytes from the start of the file.
        offset: u64,
        /// The kind of damage.
        damage: String,
    },
    /// The handler of the records returned an error.
    #[error("commit log record at {position} in {} could not be replayed: {source}", file.display())]
    Handler {
        /// The segment's file.
        file: PathBuf,
        /// The record.
        position: Position,
        /// The handler's error.
        source: HandlerError,
    },
}
