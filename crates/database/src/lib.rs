//! Execution of CQL statements: catalog, planning, execution, conditions, system tables.
//!
//! The embedded API is [`Database::open`] and [`Session`]. A server uses [`Database::query`],
//! [`Database::prepare`], [`Database::resolve`] and [`Database::execute_resolved`]: values are raw
//! bytes, and rows are pushed into a [`RowSink`]. Callers that own tables of a fixed layout read
//! and write rows by their keys: [`Database::first_row`], [`Database::write_rows`],
//! [`Database::put_row_unless_exists`].
//!
//! The modules are layers, with the public API on top; imports only go down (`ARCHITECTURE.md`).

mod api;
mod basics;
mod execution;
mod planning;
mod schema;
mod statements;
mod store;

pub use api::authentication::{AdminAccess, DEFAULT_SUPERUSER, IdentityLogin, Login, Superuser};
pub use api::cidr::CidrGroup;
pub use api::compaction_history::CompactionRecord;
pub use api::database::{BatchSource, BatchStatement, Database, FORWARDING_FILE, Options, pools};
pub use api::deferred::{DeferError, DeferredWrite, NotApplied, Undeferrable};
pub use api::embedded;
pub use api::embedded::{
    Applied, Batch, ErrorKind, MaybeUnset, OpenOptions, OwnedRow, Query, RestoreNames, Row, RowIter, Rows,
    Session, SnapshotRestore, Statement, Unset, Value, keyspace_definitions,
};
pub use api::faults::{BatchPart, RequestStatements};
pub use api::foreign::{ForeignNode, ForeignTable, Unflushed};
pub use api::log_point::LogPoint;
pub use api::prepared::{Prepared, PreparedDescription, ResolvedStatement, StatementId};
pub use api::running_builds::RunningBuild;
pub use api::tracing::TracedRequest;
pub use api::unknown_tables::AdoptedSchema;
pub use basics::error::{AbortReason, Cause, DatabaseError, Result, WriteType};
pub use basics::metrics;
pub use basics::request::{BoundValue, Caller, Consistency, StatementOptions, Values};
pub use basics::response::{
    ColumnSpec, Executed, Outcome, ResultMetadata, RowSink, SchemaChange, SchemaChangeKind,
    SchemaChangeTarget,
};
pub use basics::server_metrics::{
    Client, Encryption, Pool, PreparedMetrics, RunningRequest, SeenClient, ServerMetrics,
};
pub use basics::slow_queries::SlowQuery;
pub use basics::timeouts::{RequestTimeouts, Timeout};
pub use cassette_cql::ast::BatchKind;
pub use cassette_cql::split_statements;
pub use cassette_engine::cdc::{
    CapturedSegment, Change, ChangeRecord, ChangeStream, ChangeStreamError, captured_chain,
    captured_segments, remove_captured,
};
pub use cassette_engine::commitlog::Position;
pub use cassette_engine::without_waiting;
pub use cassette_engine::{
    Durability, ImportOptions, ImportedSSTable, Snapshot, SnapshotFilter, SnapshotOptions, VerifiedSSTable,
};
pub use cassette_functions::Settings as FunctionSettings;
pub use schema::authorization::AuthCacheKind;
pub use schema::catalog::{
    Catalog, Keyspace, KeyspaceKind, KeyspaceParams, Replication, SchemaEvents, Subscription,
};
pub use schema::guardrails::{
    Guardrails, Key as GuardrailKey, Kind as GuardrailKind, SETTINGS as GUARDRAILS, Setting as Guardrail,
};
pub use schema::indexes::{Index, IndexKind};
pub use schema::options::compaction::from_map as compaction_params;
pub use schema::system::local::{Node, PARTITIONER, RELEASE_VERSION, TOKEN};
pub use schema::topology::{NodePlace, VirtualNode};
pub use schema::views::View;
pub use store::authorization::{AuthCacheSettings, AuthSettings, CidrFiltering, CidrSettings};
pub use store::faults::{
    EFFECTS as FAULT_EFFECTS, Failure as FaultFailure, FaultCounts, FaultError, FaultRule, FaultValue,
    Faults, Injected,
};
pub use store::indexes::SearchMetrics;
pub use store::seeded::Seed;
pub use store::virtual_nodes::{NodeCounts, NodeEvent, NodeState, NodeSwitch, VirtualNodes};
