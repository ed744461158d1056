//! What a statement does: catalog, planning, execution, conditions, system tables.
//!
//! Two doors lead in. The embedded one is [`Database::open`] and [`Session`]. The server's is [`Database::query`],
//! [`Database::prepare`] and [`Database::execute`]: raw bytes in, rows pushed into a [`RowSink`] out. Who keeps tables of a shape that he knows
//! may read and write rows by their keys: [`Database::first_row`], [`Database::write_rows`], [`Database::put_row_unless_exists`].

mod builds;
mod catalog;
mod columns;
mod compaction_history;
mod data_files;
mod database;
mod describe;
mod direct;
pub mod embedded;
mod error;
mod execution;
mod guardrails;
mod indexes;
pub mod metrics;
mod modification;
mod paging_key;
mod plan;
mod prepared;
mod request;
mod response;
mod restrictions;
mod schema;
mod select;
mod server_figures;
mod system;
mod terms;
mod time_uuids;
mod timeouts;
mod tracing;
mod unknown_tables;
mod views;
mod virtual_tables;
mod write_clock;

pub use builds::RunningBuild;
pub use cassette_cql::ast::BatchKind;
pub use cassette_engine::without_waiting;
pub use cassette_engine::{
    ImportOptions, ImportedSSTable, Promise, Snapshot, SnapshotFilter, SnapshotOptions, VerifiedSSTable,
};
pub use catalog::{Catalog, Keyspace, KeyspaceKind, KeyspaceParams, Replication, SchemaEvents, Subscription};
pub use compaction_history::CompactionRecord;
pub use database::{BatchSource, BatchStatement, Database, Options};
pub use embedded::{
    Applied, Batch, MaybeUnset, OwnedRow, Query, Row, RowIter, Rows, Session, Statement, Unset, Value,
};
pub use error::{AbortReason, DatabaseError, Result, WriteType};
pub use guardrails::{
    Guardrails, Key as GuardrailKey, Kind as GuardrailKind, SETTINGS as GUARDRAILS, Setting as Guardrail,
};
pub use indexes::{Index, IndexKind, SearchFigures};
pub use prepared::{Prepared, PreparedDescription, PreparedFigures, StatementId};
pub use request::{BoundValue, Consistency, StatementOptions, Values};
pub use response::{
    ColumnSpec, Executed, Outcome, ResultMetadata, RowSink, SchemaChange, SchemaChangeKind,
    SchemaChangeTarget,
};
pub use schema::compaction::from_map as compaction_params;
pub use server_figures::pools;
pub use server_figures::{Client, Pool, RunningRequest, SeenClient, ServerFigures};
pub use system::local::{Node, PARTITIONER, RELEASE_VERSION, TOKEN};
pub use timeouts::{RequestTimeouts, Timeout};
pub use tracing::TracedRequest;
pub use unknown_tables::AdoptedSchema;
pub use views::View;
