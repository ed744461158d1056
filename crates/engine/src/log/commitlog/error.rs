//! What can go wrong with a commit log.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::replay::HandlerError;
use super::{CommitLogOptions, Position};

/// Why a record was not logged.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AppendError {
    /// The record can never be logged with these options.
    #[error(
        "write of {size} bytes with its index entries and view rows: expected at most {maximum} (the larger of half of \
         commitlog_segment_size and memtable_heap_space); divide it, or raise memtable_heap_space"
    )]
    TooLarge {
        /// The record's bytes, framing included.
        size: u64,
        /// The most there may be.
        maximum: u32,
    },
    /// The record was not logged, nor will replay find it; the log itself is whole. With a source
    /// of [`io::ErrorKind::StorageFull`], there was no space: try again when there is.
    #[error("record refused by the commit log: {source}")]
    Refused {
        /// What the file system said.
        source: Arc<io::Error>,
    },
    /// The log has failed, now or earlier. Whether replay will find the record is unknown if it was
    /// being written just then; all later ones are not logged.
    #[error("the commit log has failed and takes no more writes until it is opened again: {source}")]
    Failed {
        /// The first failure.
        source: Arc<io::Error>,
    },
    /// The log has been closed.
    #[error("the commit log is closed")]
    Closed,
}

/// Why a commit log could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The segment size is out of bounds.
    #[error(
        "commitlog_segment_size of {segment_size} bytes is not between {} and {}",
        CommitLogOptions::SEGMENT_SIZE_MIN,
        CommitLogOptions::SEGMENT_SIZE_MAX
    )]
    SegmentSize {
        /// The size asked for.
        segment_size: u32,
    },
    /// The file system failed.
    #[error("commit log in {}: {source}", directory.display())]
    Io {
        /// The log's directory.
        directory: PathBuf,
        /// What failed, and where.
        source: io::Error,
    },
    /// A segment that another version of the log wrote.
    #[error(
        "commit log segment {} has version {version}; this is version {}: \
         start the version that wrote it, drain it, and try again",
        file.display(),
        super::format::VERSION
    )]
    UnknownVersion {
        /// The segment's file.
        file: PathBuf,
        /// The version it names.
        version: u64,
    },
    /// A segment is damaged where no crash damages it.
    #[error(
        "commit log segment {} is damaged at offset {offset}: {damage}. Records that were acknowledged are affected. \
         Restore the file from a copy, or, giving up what is damaged, start with it skipped (`--skip-damaged-log`), which removes no files of tables",
        file.display()
    )]
    Corrupt {
        /// The segment's file.
        file: PathBuf,
        /// Where the damage begins, bytes from the start of the file.
        offset: u64,
        /// What is wrong there.
        damage: String,
    },
    /// The one who asked for the records could not take one.
    #[error("commit log record at {position} in {} could not be replayed: {source}", file.display())]
    Handler {
        /// The segment's file.
        file: PathBuf,
        /// The record.
        position: Position,
        /// Its taker's error.
        source: HandlerError,
    },
}
