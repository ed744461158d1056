//! Engines under test with a blocking interface.
//!
//! All threads of a phase share an [`Engine`]; each has its [`Session`]. Engines that serve many
//! requests at a time over a socket are driven by [`crate::cql`].

pub mod cells;
pub mod embedded;
#[cfg(feature = "fjall")]
pub mod fjall;
pub mod key_value;
mod kind;
#[cfg(feature = "leveldb")]
pub mod leveldb;
pub mod noop;
#[cfg(feature = "rocksdb")]
pub mod rocksdb;
pub(crate) mod statements;
pub mod threads;

use crate::LabError;
use crate::results::EngineInfo;
use crate::run::{Action, Sampler};
use crate::workload::{Failure, RowSink, TableShape};
use crate::ycsb::FieldValues;
pub use kind::EngineKind;
pub use threads::Threads;

/// A store that can hold the records of a workload.
pub trait Engine: Send + Sync {
    /// Describes the engine for a report.
    fn describe(&self) -> EngineInfo;

    /// Creates the table if needed; `replace` empties an existing one first.
    fn create_table(&mut self, shape: &TableShape, replace: bool) -> Result<(), LabError>;

    /// Uses the existing table for the following sessions.
    fn use_table(&mut self, shape: &TableShape) -> Result<(), LabError>;

    /// Executes an action while no session is open.
    fn act(&mut self, action: &Action) -> Result<(), LabError> {
        let name = self.describe().name;
        Err(LabError::Usage(format!("engine {name} cannot {action}")))
    }

    /// Returns a sampler of the engine's counters, if it has any.
    fn sampler(&self) -> Option<Sampler<'_>> {
        None
    }

    /// Returns whether the engine runs in this process alone.
    fn is_embedded(&self) -> bool {
        true
    }

    /// Opens a session for one thread, after the table was chosen.
    fn session(&self) -> Result<Box<dyn Session + '_>, LabError>;
}

/// One thread's connection to the engine. Methods return when the operation is complete, with the
/// durability of the engine's settings.
pub trait Session: Send {
    /// Writes a new record with all its fields.
    fn insert(&mut self, key: &str, values: &FieldValues) -> Result<(), Failure>;

    /// Writes some fields of a record, preserving the others.
    fn update(&mut self, key: &str, values: &FieldValues) -> Result<(), Failure>;

    /// Reads all fields of a record, or one, into `rows`; a missing record adds no row.
    fn read(&mut self, key: &str, field: Option<usize>, rows: &mut RowSink) -> Result<(), Failure>;

    /// Reads up to `length` records from `key` on, in the engine's order, into `rows`.
    fn scan(
        &mut self,
        key: &str,
        length: usize,
        field: Option<usize>,
        rows: &mut RowSink,
    ) -> Result<(), Failure>;

    /// Executes a step of a workload of statements with its bound values.
    fn statement(&mut self, _step: usize, _values: &FieldValues, _rows: &mut RowSink) -> Result<(), Failure> {
        Err(Failure::new("unsupported", "this engine executes no CQL statements"))
    }
}

/// Drops the system's page cache.
pub(crate) fn drop_page_cache() -> Result<(), LabError> {
    let path = "/proc/sys/vm/drop_caches";
    rustix::fs::sync();
    std::fs::write(path, "3").map_err(|error| {
        LabError::io(format!("dropping the page cache requires writing {path} as root"), error)
    })
}
