//! Errors of the engine.

use std::path::PathBuf;
use std::sync::Arc;

use cassette_rows::{Interrupted, StorageError, TableId};

use crate::log::commitlog::{AppendError, OpenError};

/// The error of an operation of the engine.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// Stored data could not be read or written.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// No table with this id was created, or it has been dropped.
    #[error("no table with id {}", .0.0)]
    UnknownTable(TableId),
    /// A table with this id exists.
    #[error("table {name} with id {} exists", id.0)]
    TableExists {
        /// The table's id.
        id: TableId,
        /// The table's name.
        name: String,
    },
    /// Commit log records that were kept for the table have columns that it lacks: their cells
    /// would be lost.
    #[error(
        "{table}: its commit log records have columns that it lacks: {}; create it with them (CREATE TABLE \
         ... WITH id = {})",
        columns.join(", "), id.0
    )]
    MissingColumns {
        /// The table.
        table: String,
        /// Its id.
        id: TableId,
        /// The names of the columns.
        columns: Vec<String>,
    },
    /// The table's options require something that is not supported.
    #[error("{table}: {detail}")]
    InvalidOptions {
        /// Keyspace and name of the table.
        table: String,
        /// The reason, in Cassandra's words if it has some.
        detail: String,
    },
    /// A setting of the engine is invalid.
    #[error("{detail}")]
    InvalidSetting {
        /// The setting and its valid values, in Cassandra's words if it has some.
        detail: String,
    },
    /// Caches and memtables would exceed the memory.
    #[error("{what} of {size} bytes is more than the memory of {memory} bytes that there is")]
    TooLargeForMemory {
        /// The setting, or settings, by their names in cassandra.yaml.
        what: String,
        /// The configured size, bytes.
        size: u64,
        /// The memory available to this process, bytes.
        memory: u64,
    },
    /// The write was not logged, or it is unknown whether it was; see the cause.
    #[error(transparent)]
    CommitLog(#[from] AppendError),
    /// The write changes a table with change data capture, whose space is used up. Nothing was
    /// written. In Cassandra's words.
    #[error(
        "Rejecting mutation to keyspace {keyspace}. Free up space in {} by processing CDC logs. Total CDC bytes on \
         disk is {used}.",
        directory.display()
    )]
    CdcFull {
        /// The keyspace of the table.
        keyspace: String,
        /// The directory of captured segments.
        directory: PathBuf,
        /// Their bytes.
        used: u64,
    },
    /// The commit log could not be opened or replayed.
    #[error(transparent)]
    OpenCommitLog(#[from] OpenError),
    /// Memtables hold the maximum memory, and could not be flushed. Flushes are retried every
    /// second; writes are accepted again after one succeeds. Reads continue.
    #[error(
        "write refused: memtables hold their limit of {limit} bytes (memtable_heap_space), and flushing failed: {cause}"
    )]
    MemtablesFull {
        /// `memtable_heap_space`.
        limit: usize,
        /// The error of the last flush.
        cause: Arc<EngineError>,
    },
    /// A schema change took effect, and could be written neither to the schema journal nor to
    /// SSTables.
    #[error(
        "the schema change took effect, but only the commit log holds it: {cause}; writing it elsewhere is \
         retried every second"
    )]
    OnlyInLog {
        /// The error of writing the schema journal.
        cause: StorageError,
    },
    /// A partition key, or the clustering of a row, exceeds the length that Cassandra's files
    /// support.
    #[error(
        "{table}: Key length of {length} is longer than maximum of {}",
        cassette_rows::key::MAX_KEY_LENGTH
    )]
    KeyTooLong {
        /// The table.
        table: String,
        /// The bytes of its values.
        length: usize,
    },
    /// Writes are refused before [`Engine::finish_recovery`](crate::Engine::finish_recovery).
    #[error("the engine is recovering and accepts no writes yet")]
    Recovering,
    /// Replay comes before [`Engine::finish_recovery`](crate::Engine::finish_recovery).
    #[error("recovery has ended: nothing can be replayed")]
    Recovered,
    /// An SSTable of the table could not be opened at the start, so some of its rows would be
    /// missing.
    #[error(
        "{table} cannot be read, since one of its SSTables could not be opened: {cause}; repair it, or move the \
         SSTable's files away to continue without its rows (cassette sstable shows and exports them), then run \
         nodetool refresh or restart"
    )]
    TableIncomplete {
        /// The table.
        table: String,
        /// The file, and its damage.
        cause: Arc<StorageError>,
    },
    /// The engine has been closed.
    #[error("the engine is closed")]
    Closed,
    /// The engine rejects all operations until the next start: after a corruption
    /// (`disk_failure_policy: stop`), or because a background thread has panicked.
    #[error("the engine has stopped: {reason}")]
    Stopped {
        /// The reason.
        reason: String,
    },
    /// A flush or compaction was cancelled: its table was dropped, the engine is closing, or a
    /// command replaced it.
    #[error("cancelled: the table was dropped, the engine is closing, or a command replaced it")]
    Cancelled,
    /// A compaction, or a command that compacts, was stopped by a command.
    #[error("{table}: compaction stopped by a command; its inputs are unchanged")]
    CompactionStopped {
        /// The table.
        table: String,
    },
    /// No compaction of the table may run before the next start.
    #[error(
        "compactions are disabled until the next start, since the outcome of an earlier one is unknown: {reason}"
    )]
    CompactionsForbidden {
        /// The reason.
        reason: String,
    },
    /// No memtable of the table may be flushed before the next start.
    #[error(
        "{table}: flushes are disabled until the next start, since it is unknown whether the table is \
         truncated: {reason}"
    )]
    FlushesForbidden {
        /// The table.
        table: String,
        /// The reason.
        reason: String,
    },
    /// A command names an SSTable that the table does not have.
    #[error("{table} has no SSTable {id}")]
    UnknownSSTable {
        /// The table.
        table: String,
        /// The SSTable's id.
        id: cassette_sstable::SSTableId,
    },
    /// A compaction needs more space than is available.
    #[error("{table}: compacting needs up to {needed} bytes, and {available} are available")]
    NoSpaceToCompact {
        /// The table.
        table: String,
        /// Bytes of the inputs.
        needed: u64,
        /// Available bytes.
        available: u64,
    },
    /// A write was stalled by compaction debt for the maximum time.
    #[error(
        "{table}: write refused: {sstables} SSTables wait to be compacted, and writes stop at {limit} \
         (compaction_backpressure_stop_sstables)"
    )]
    CompactionDebt {
        /// The table.
        table: String,
        /// SSTables that reads would be spared if compaction had caught up.
        sstables: usize,
        /// The maximum.
        limit: usize,
    },
    /// The request of this thread was interrupted while its write waited for admission. Nothing was
    /// written.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    /// A background thread could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
    /// The requested snapshot is invalid.
    #[error("{detail}")]
    InvalidSnapshot {
        /// The reason, in Cassandra's words if it has some.
        detail: String,
    },
    /// A table has a snapshot of this name.
    #[error("Snapshot {name} already exists.")]
    SnapshotExists {
        /// The name.
        name: String,
    },
    /// A directory was not imported, and the table is unchanged.
    #[error("{}: not imported: {cause}", directory.display())]
    ImportRefused {
        /// The directory.
        directory: PathBuf,
        /// The file that does not match, and the reason.
        cause: Box<EngineError>,
    },
    /// Another process has the data directory open.
    #[error(
        "{} is in use: {} holds the lock on cassette.lock in it",
        directory.display(), holder.map_or_else(|| "another process".to_owned(), |id| format!("process {id}"))
    )]
    Locked {
        /// The data directory.
        directory: PathBuf,
        /// The id of the process, if it is known.
        holder: Option<u32>,
    },
    /// The data directory has the layout of another version.
    #[error("{} has layout {found}; this version reads and writes layout {expected}", directory.display())]
    AnotherVersion {
        /// The data directory.
        directory: PathBuf,
        /// The version in the directory.
        found: String,
        /// The version of this program.
        expected: &'static str,
    },
    /// The directory contains data of another program.
    #[error(
        "{} contains {found}, but no `cassette.version`: it seems to belong to another program. Choose another \
         directory; `cassette adopt` creates one from directories of Cassandra",
        directory.display()
    )]
    NotOurs {
        /// The directory.
        directory: PathBuf,
        /// What belongs to the other program.
        found: String,
    },
}

/// A result with an [`EngineError`].
pub type Result<T, E = EngineError> = std::result::Result<T, E>;

impl EngineError {
    /// Whether the cause is a full disk: the request may succeed when space is available again.
    pub fn is_disk_full(&self) -> bool {
        let full = |error: &std::io::Error| error.kind() == std::io::ErrorKind::StorageFull;
        match self {
            Self::CommitLog(AppendError::Refused { source } | AppendError::Failed { source }) => full(source),
            Self::Storage(StorageError::Io { source, .. }) => full(source),
            Self::MemtablesFull { cause, .. } => cause.is_disk_full(),
            _ => false,
        }
    }
}
