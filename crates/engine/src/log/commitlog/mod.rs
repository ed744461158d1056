//! The commit log: what has been acknowledged and is not yet in an SSTable.
//!
//! A directory of segments, written front to back, one after the other. A record is opaque bytes
//! that touch one or more tables; it is replayed whole or not at all. A segment goes when every
//! table is clean in it.
//!
//! # What an acknowledgement guarantees
//!
//! [`CommitLog::append`] returns when the record survives
//!
//! | mode | the death of the process | the death of the machine |
//! | --- | --- | --- |
//! | [`SyncMode::Periodic`] | yes | once the next sync is done: within 1.5 periods, or appends wait for it |
//! | [`SyncMode::Group`] | yes | yes; one sync every window serves all who wait |
//! | [`SyncMode::Batch`] | yes | yes; one sync serves all who came while the last one ran |
//!
//! [`CommitLog::append_ahead`] returns sooner, and guarantees what is guaranteed of the next record
//! that is appended: the log has no gaps, so that a caller that writes two records, the first
//! meaningless without the second, waits once.
//!
//! # How a record gets to the file
//!
//! 1. Under the append lock, the record is encoded straight into the pending buffer and
//!    checksummed. No I/O happens under this lock. A large record is encoded and checksummed before
//!    the lock is taken, and its buffer is moved: those who append little never wait while
//!    megabytes are copied.
//! 2. An appender that needs the record written and finds no writer becomes the writer: takes the
//!    whole buffer, releases the lock, and hands it to the operating system in one write. Those who
//!    come meanwhile fill the next buffer; they watch the write without the lock, and sleep only if
//!    it takes long.
//! 3. An appender that needs it synced and finds no thread syncing syncs everything written so far,
//!    in the same manner.
//!
//! Why not map the segment, as Cassandra does? Measured here (ext4, 1 KiB records): 0.6 us per
//! record for one write each into reserved space, shared by all who wait at the moment; 0.5 us
//! through a mapping populated beforehand, 1.7 us through a fresh one. For that tenth of a
//! microsecond a full disk or a failing one would be a signal that kills the process, where a write
//! is an error that can be answered; two writers copying side by side could leave a hole before an
//! acknowledged record at `kill -9`; and it takes unsafe code.
//!
//! # Segments
//!
//! A segment has the size of the setting, and is reserved ahead of time. A record that does not fit
//! gets a larger one, of exactly its size: the reserved segment is enlarged, since segments are
//! used in the order of their ids.
//!
//! # Failures
//!
//! - **No space**: records are refused ([`AppendError::Refused`]), and accepted again once there is
//!   space. Segments are reserved whole before use, so this normally shows when the next one is
//!   wanted, before anything is written. Should a write into reserved space fail all the same, the
//!   segment is cut back to its last acknowledged record and abandoned; if a record that was
//!   appended ahead is among those refused, whose writer has gone on, the log ends.
//! - **Any other failed write or sync** ends the log: what reached the disk is unknown from then
//!   on. Later appends fail with that first cause ([`AppendError::Failed`]); replay at the next
//!   start finds what the log has.

mod background;
mod dirty;
mod error;
mod format;
mod log;
mod options;
mod position;
mod progress;
mod replay;
mod shared;
mod state;
pub(crate) mod unclaimed;

#[cfg(test)]
mod tests;

pub use error::{AppendError, OpenError};
pub use log::{CommitLog, CommitLogStats};
pub use options::{CommitLogOptions, ReplayPolicy, SyncMode};
pub use position::{Position, TableVersion};
pub use replay::{Entry, HandlerError, ReplaySummary, Torn};

/// Something to log. Its methods are called under the append lock, [`encode`](Self::encode) of a
/// large record before: they must be quick, take no locks, and only ever extend `out`.
pub trait Record {
    /// The tables it touches, each once, with the schema version its bytes are encoded by. At least
    /// one.
    fn tables(&self) -> &[TableVersion];

    /// Appends what replay needs to know to read records of this table version: written once per
    /// segment, before the first record that touches it.
    fn encode_dictionary(&self, table: TableVersion, out: &mut Vec<u8>);

    /// Appends the record's bytes.
    fn encode(&self, out: &mut Vec<u8>);

    /// Returns about how many bytes [`encode`](Self::encode) appends.
    fn size_hint(&self) -> usize;
}

/// Hands every record of the log in `directory` to `handler`, as [`CommitLog::open`] does, and
/// leaves the log closed: torn tails are cleared away and everything in it is durable, but nothing
/// is removed. It can be read again.
pub fn read(
    fs: &dyn cassette_vfs::FileSystem,
    directory: &std::path::Path,
    policy: ReplayPolicy,
    handler: &mut dyn FnMut(Entry<'_>) -> Result<(), HandlerError>,
) -> Result<ReplaySummary, OpenError> {
    replay::replay(fs, directory, policy, handler).map(|replayed| replayed.summary)
}
