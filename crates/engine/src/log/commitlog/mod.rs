//! The commit log: acknowledged writes that SSTables do not contain yet.
//!
//! A directory of segments, which are written sequentially. A record is opaque bytes for one or
//! more tables; it is replayed as a whole or not at all. A segment is removed when every table is
//! clean in it.
//!
//! # What an acknowledgement guarantees
//!
//! [`CommitLog::append`] returns when the record survives
//!
//! | mode | a crash of the process | a crash of the machine |
//! | --- | --- | --- |
//! | [`SyncMode::Periodic`] | yes | once the next sync is complete: within 1.5 periods, or appends wait for it |
//! | [`SyncMode::Group`] | yes | yes; one sync every window serves all waiting appenders |
//! | [`SyncMode::Batch`] | yes | yes; one sync serves all appenders that arrived during the previous one |
//!
//! [`CommitLog::append_ahead`] returns earlier, with the guarantee of the next appended record: the
//! log has no gaps, so a caller that writes two records, the first meaningless without the second,
//! waits once.
//!
//! # How a record is written
//!
//! 1. Under the append lock, the record is encoded into the pending buffer and its checksums are
//!    computed. No I/O is done under this lock. A large record is encoded before the lock is taken,
//!    and its buffer is moved: appenders of small records never wait while megabytes are copied.
//! 2. An appender that needs its record written and finds no writer becomes the writer: it takes
//!    the whole buffer, releases the lock, and writes it with one system call. Concurrent appenders
//!    fill the next buffer; they observe the write without the lock, and sleep only if it takes
//!    long.
//! 3. An appender that needs its record synced and finds no thread syncing writes everything
//!    pending and syncs it, in the same manner. Those that find one wait for it, and write nothing.
//!    When it is done, it wakes those whose records are durable, and one of the others, which syncs
//!    next.
//!
//! Why not map the segment, as Cassandra does? Measured here (ext4, 1 KiB records): 0.6 us per
//! record for writes into reserved space, each shared by all waiting appenders; 0.5 us through a
//! mapping populated beforehand, 1.7 us through a fresh one. For that tenth of a microsecond, a
//! full or failing disk would raise a signal that kills the process, where a write returns an
//! error; two writers copying concurrently could leave a hole before an acknowledged record at
//! `kill -9`; and it requires unsafe code.
//!
//! # Segments
//!
//! A segment has the configured size, and is reserved ahead of time. A record that does not fit
//! gets a larger one of exactly its size: the reserved segment is enlarged, since segments are used
//! in the order of their ids.
//!
//! # Encryption
//!
//! With [`CommitLogOptions::encryption`], the dictionaries and entries of new segments are
//! encrypted one by one, by the thread that writes them, without the append lock. Framing, sync
//! marks and checksums stay readable, so that torn tails are recognized as in other segments. A
//! segment names its key; segments of other keys, and unencrypted ones, are read beside it.
//!
//! # Archive
//!
//! With [`CommitLogOptions::archive`], a segment is removed only after it has a durable link in the
//! archive ([`archive`]), from where a consumer copies it elsewhere. Such segments contain times,
//! so that they can be replayed up to a moment, and the changes of tables that are no records.
//!
//! # Failures
//!
//! - **No space**: records are refused ([`AppendError::Refused`]), and accepted again once there is
//!   space. Segments are reserved completely before use, so this normally occurs when the next one
//!   is needed, before anything is written. If a write into reserved space fails nevertheless, the
//!   segment is truncated to its last acknowledged record and abandoned. If a record that was
//!   appended ahead is among the refused ones, whose writer has continued, the log ends.
//! - **Any other failed write or sync** ends the log, because it is unknown what reached the disk.
//!   Later appends fail with the first cause ([`AppendError::Failed`]); replay at the next start
//!   finds what the log contains.

pub(crate) mod archive;
mod background;
pub(crate) mod cdc;
pub(crate) mod chain;
mod chunk;
mod dirty;
mod error;
mod format;
mod log;
mod options;
mod position;
mod progress;
mod removal;
mod replay;
mod reserve;
mod segment;
mod shared;
mod state;
mod sync_waiters;
mod tracked;
pub(crate) mod unclaimed;

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use tests::encryption;

use std::path::Path;
use std::sync::Arc;

use cassette_vfs::{Clock, FileSystem};

pub use archive::{ArchivedSegment, SegmentContent, archived_segments, remove_archived};
pub use cdc::{CapturedStats, CdcOptions};
pub use error::{AppendError, OpenError};
pub use format::{Event, EventKind};
pub use log::{CommitLog, CommitLogStats};
pub use options::{CommitLogOptions, ReadOptions, ReplayPolicy, SyncMode};
pub use position::{CapturePoint, Position, TableVersion};
pub(crate) use replay::cipher_of;
pub use replay::{Entry, HandlerError, ReplaySummary, Torn};
pub use segment::segment_id;
pub(crate) use segment::{SegmentBody, SegmentRecord, first_record, read_record};

/// A record to log. Its methods are called under the append lock, except [`encode`](Self::encode)
/// of a large record. They must be fast, acquire no locks, and only append to `out`.
pub trait Record {
    /// Returns the distinct tables of the record, with the schema version of its bytes. At least
    /// one.
    fn tables(&self) -> &[TableVersion];

    /// Appends the dictionary that replay needs to read records of this table version. It is
    /// written once in a segment, before the first record of the table.
    fn encode_dictionary(&self, table: TableVersion, out: &mut Vec<u8>);

    /// Appends the record's bytes.
    fn encode(&self, out: &mut Vec<u8>);

    /// Returns the approximate number of bytes that [`encode`](Self::encode) appends.
    fn size_hint(&self) -> usize;

    /// Whether it has changes of captured tables; see [`CommitLogOptions::cdc`].
    fn is_captured(&self) -> bool {
        false
    }
}

/// Passes every record of the log in `directory` to `handler`, as [`CommitLog::open`] does, and
/// leaves the log closed: torn tails are cleared and all records are durable, but no segment is
/// removed. It can be read again.
pub fn read(
    fs: &Arc<dyn FileSystem>,
    clock: &Arc<dyn Clock>,
    directory: &Path,
    options: &ReadOptions,
    handler: &mut dyn FnMut(Entry<'_>) -> Result<(), HandlerError>,
) -> Result<ReplaySummary, OpenError> {
    let cdc = cdc::CdcDirectory::of(fs, clock, options.cdc.as_ref(), directory)?;
    let access = replay::Access { encryption: options.encryption.as_deref(), cdc: cdc.as_ref() };
    replay::replay(fs.as_ref(), directory, options.replay, access, handler).map(|replayed| replayed.summary)
}
