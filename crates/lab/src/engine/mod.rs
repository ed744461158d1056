//! Engines under test that a thread calls and waits for.
//!
//! An [`Engine`] is shared by all threads of a phase; each thread has its own [`Session`]. Engines that answer many
//! requests at a time over a socket are driven differently, see [`crate::cql`].

pub mod cells;
pub mod embedded;
#[cfg(feature = "fjall")]
pub mod fjall;
pub mod key_value;
#[cfg(feature = "leveldb")]
pub mod leveldb;
pub mod noop;
#[cfg(feature = "rocksdb")]
pub mod rocksdb;
pub mod rows;
pub(crate) mod statements;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::LabError;
use crate::run::{Action, Sampler};
use crate::workload::StatementWorkload;
use crate::ycsb::FieldValues;
pub use rows::RowSink;

/// What a report says of the engine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct EngineInfo {
    /// Its name and, where that says something, where it is.
    pub name: String,
    /// Its version, as it tells it or as its library was built.
    pub version: String,
    /// The settings that matter for speed and durability.
    pub settings: BTreeMap<String, String>,
}

/// The table a workload works on: a text key and text fields.
#[derive(Debug, Clone)]
pub struct TableShape {
    /// Its name.
    pub table: String,
    /// The names of its fields, in order; operations name fields by their index here.
    pub field_names: Vec<String>,
    /// What is to be made and prepared instead, for a workload of statements.
    pub statements: Option<Arc<StatementWorkload>>,
}

/// A store that can hold the records of a workload.
pub trait Engine: Send + Sync {
    /// What a report says of it.
    fn describe(&self) -> EngineInfo;

    /// Makes the table, if it is not there; `replace` empties it first, if it is.
    fn create_table(&mut self, shape: &TableShape, replace: bool) -> Result<(), LabError>;

    /// Takes the table as it is for the sessions to come; it must have been made, now or before.
    fn use_table(&mut self, shape: &TableShape) -> Result<(), LabError>;

    /// Does something to the engine while no session is open.
    fn act(&mut self, action: &Action) -> Result<(), LabError> {
        let name = self.describe().name;
        Err(LabError::Usage(format!("the engine {name} cannot be told to {action}")))
    }

    /// What looks at the engine's counters, if it has any.
    fn sampler(&self) -> Option<Sampler<'_>> {
        None
    }

    /// Opens a session for one thread, after the table was chosen.
    fn session(&self) -> Result<Box<dyn Session + '_>, LabError>;
}

/// One thread's way to the engine. A method returns when the operation is done, durable as the engine's settings say.
pub trait Session: Send {
    /// Writes a new record with all its fields.
    fn insert(&mut self, key: &str, values: &FieldValues) -> Result<(), Failure>;

    /// Writes some fields of a record, leaving the others as they are.
    fn update(&mut self, key: &str, values: &FieldValues) -> Result<(), Failure>;

    /// Reads a record, all its fields or one, into `rows`; an absent record adds no row.
    fn read(&mut self, key: &str, field: Option<usize>, rows: &mut RowSink) -> Result<(), Failure>;

    /// Reads up to `length` records from `key` on, in the engine's order, into `rows`.
    fn scan(
        &mut self,
        key: &str,
        length: usize,
        field: Option<usize>,
        rows: &mut RowSink,
    ) -> Result<(), Failure>;

    /// Executes a step of a workload of statements with the values it binds.
    fn statement(&mut self, _step: usize, _values: &FieldValues, _rows: &mut RowSink) -> Result<(), Failure> {
        Err(Failure::new("unsupported", "this engine executes no CQL statements"))
    }
}

/// Has the system forget what it keeps of files in memory.
pub(crate) fn drop_page_cache() -> Result<(), LabError> {
    let path = "/proc/sys/vm/drop_caches";
    rustix::fs::sync();
    std::fs::write(path, "3").map_err(|error| {
        LabError::io(format!("dropping the system's caches needs to write {path}, as root"), error)
    })
}

/// An operation that did not do what it should: counted by class, never part of a latency.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What failures are counted by, such as the engine's name of the error.
    pub class: Cow<'static, str>,
    /// What exactly happened; the first of each class is shown.
    pub message: String,
}

impl Failure {
    /// A failure of class `class`.
    pub fn new(class: impl Into<Cow<'static, str>>, message: impl std::fmt::Display) -> Self {
        Self { class: class.into(), message: message.to_string() }
    }

    /// A record that should be there is not.
    pub fn not_found(key: &str) -> Self {
        Self::new("not found", format_args!("no record {key}"))
    }
}
