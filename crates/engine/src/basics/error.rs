//! What the engine refuses or fails with.

use std::path::PathBuf;
use std::sync::Arc;

use cassette_rows::{Interrupted, StorageError, TableId};

use crate::log::commitlog::{AppendError, OpenError};

/// Why the engine did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// Stored data could not be read or written.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// No table with this id was created, or it has been dropped.
    #[error("no table with id {}", .0.0)]
    UnknownTable(TableId),
    /// A table with this id is there already.
    #[error("table {name} with id {} is open already", id.0)]
    TableExists {
        /// The id.
        id: TableId,
        /// The table that has it.
        name: String,
    },
    /// Commit log records that were kept for the table have columns that it lacks: their cells
    /// would be lost.
    #[error(
        "{table}: its commit log records have columns that it lacks: {}; create it with them (CREATE TABLE ... WITH id = {})",
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
        /// What is wrong, in Cassandra's words where it has some.
        detail: String,
    },
    /// A setting of the engine cannot work.
    #[error("{detail}")]
    InvalidSetting {
        /// The setting and what it must be, in Cassandra's words where it has some.
        detail: String,
    },
    /// Caches and memtables would not fit into memory.
    #[error("{what} of {size} bytes is more than the memory of {memory} bytes that there is")]
    TooLargeForMemory {
        /// The setting, or settings, by their names in cassandra.yaml.
        what: String,
        /// What it says, bytes.
        size: u64,
        /// What this process may use, bytes.
        memory: u64,
    },
    /// The write was not logged, or it is not known whether it was; see the cause.
    #[error(transparent)]
    CommitLog(#[from] AppendError),
    /// The commit log could not be opened or replayed.
    #[error(transparent)]
    OpenCommitLog(#[from] OpenError),
    /// Memtables hold all the memory they may, and could not be flushed. Writes are accepted again
    /// when that succeeds; it is tried every second. Reads go on.
    #[error(
        "write refused: memtables hold their limit of {limit} bytes (memtable_heap_space), and flushing failed: {cause}"
    )]
    MemtablesFull {
        /// `memtable_heap_space`.
        limit: usize,
        /// Why the last flush failed.
        cause: Arc<EngineError>,
    },
    /// A schema change took effect, and could be written neither to the schema journal nor to
    /// SSTables.
    #[error(
        "the schema change took effect, but only the commit log holds it: {cause}; writing it elsewhere is tried again every \
         second"
    )]
    OnlyInLog {
        /// Why it is not in the schema journal.
        cause: StorageError,
    },
    /// A partition key, or the clustering of a row, is longer than Cassandra's files have room for.
    #[error(
        "{table}: Key length of {length} is longer than maximum of {}",
        cassette_rows::key::MAX_KEY_LENGTH
    )]
    KeyTooLong {
        /// The table.
        table: String,
        /// Bytes of its values.
        length: usize,
    },
    /// Writes are refused before [`Engine::finish_recovery`](crate::Engine::finish_recovery).
    #[error("the engine is recovering and takes no writes yet")]
    Recovering,
    /// Replay comes before [`Engine::finish_recovery`](crate::Engine::finish_recovery).
    #[error("recovery has ended: nothing can be replayed")]
    Recovered,
    /// An SSTable of the table could not be opened at the start, so that some of its rows would be
    /// missing.
    #[error(
        "{table} cannot be read, since one of its SSTables could not be opened: {cause}; put that right, or move the SSTable's \
         files away to go on without its rows (cassette sstable shows and exports them), then nodetool refresh or start again"
    )]
    TableIncomplete {
        /// The table.
        table: String,
        /// The file, and what is wrong with it.
        cause: Arc<StorageError>,
    },
    /// The engine has been closed.
    #[error("the engine is closed")]
    Closed,
    /// The engine refuses everything until the next start: after a corruption
    /// (`disk_failure_policy: stop`), or because a background thread has panicked.
    #[error("the engine has stopped: {reason}")]
    Stopped {
        /// Why.
        reason: String,
    },
    /// A flush or compaction gave up: its table was dropped, the engine is closing, or a command
    /// took its place.
    #[error("given up: the table was dropped, the engine is closing, or a command came in between")]
    Cancelled,
    /// A compaction, or a command that compacts, was told to stop.
    #[error("{table}: stopped, as a command asked; what it was to rewrite stays as it is")]
    CompactionStopped {
        /// The table.
        table: String,
    },
    /// No compaction of the table may run before the next start.
    #[error(
        "compactions wait for the next start, since it is unknown whether an earlier one took place: {reason}"
    )]
    CompactionsForbidden {
        /// What went wrong.
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
    /// A compaction would need more space than there is.
    #[error("{table}: compacting needs up to {needed} bytes, and {available} are available")]
    NoSpaceToCompact {
        /// The table.
        table: String,
        /// Bytes of the inputs.
        needed: u64,
        /// Bytes left.
        available: u64,
    },
    /// A write was stalled by compaction debt for as long as it may be.
    #[error(
        "{table}: write refused: {sstables} SSTables wait to be compacted, and writes stop at {limit} (compaction_backpressure_stop_sstables)"
    )]
    CompactionDebt {
        /// The table.
        table: String,
        /// SSTables that reads would be spared if compaction had caught up.
        sstables: usize,
        /// How many there may be.
        limit: usize,
    },
    /// The request of this thread was interrupted while its write waited for admission. Nothing was
    /// written.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    /// A background thread could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
    /// What is asked for cannot be a snapshot.
    #[error("{detail}")]
    InvalidSnapshot {
        /// Why, in Cassandra's words where it has some.
        detail: String,
    },
    /// A table has a snapshot of this name.
    #[error("Snapshot {name} already exists.")]
    SnapshotExists {
        /// The name.
        name: String,
    },
    /// A directory was not imported, and nothing of it is left in the table.
    #[error("{}: not imported: {cause}", directory.display())]
    ImportRefused {
        /// The directory.
        directory: PathBuf,
        /// The file that does not fit, and why.
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
        /// The version it names.
        found: String,
        /// The version of this program.
        expected: &'static str,
    },
    /// The directory holds data of another program.
    #[error(
        "{} has a `data` or `commitlog` directory with something in it but no `cassette.version`: it seems to belong to \
         another program. Choose another directory",
        directory.display()
    )]
    NotOurs {
        /// The directory.
        directory: PathBuf,
    },
}

/// A result with an [`EngineError`].
pub type Result<T, E = EngineError> = std::result::Result<T, E>;

impl EngineError {
    /// Whether the cause is a full disk: the request may succeed when there is space again.
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
