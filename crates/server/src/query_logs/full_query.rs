//! The full query log: its settings, and records of requests.

use std::path::PathBuf;

use cassette_cql::obscure_password_literals;
use cassette_database::Database;
use cassette_protocol::{
    QueryParameters, Request, Value, Values, Version,
    request::{BatchType, StatementSource},
};
use cassette_query_log::{
    BatchKind, LoggedQuery, LoggedStatement, LoggedValue, LoggedValues, Options, RollCycle,
};

/// The settings of the full query log (`full_query_logging_options`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FullQuerySettings {
    /// The directory of the files (`log_dir`); without one, the log cannot be enabled.
    pub directory: Option<PathBuf>,
    /// See [`Options::roll_cycle`].
    pub roll_cycle: RollCycle,
    /// See [`Options::block`].
    pub block: bool,
    /// See [`Options::max_queue_weight`].
    pub max_queue_weight: u64,
    /// See [`Options::max_log_size`].
    pub max_log_size: u64,
}

impl Default for FullQuerySettings {
    fn default() -> Self {
        let Options { roll_cycle, block, max_queue_weight, max_log_size, .. } = Options::new("");
        Self { directory: None, roll_cycle, block, max_queue_weight, max_log_size }
    }
}

impl FullQuerySettings {
    /// Returns the options of the log; `None` without a directory.
    pub(super) fn options(&self) -> Option<Options> {
        let Self { directory, roll_cycle, block, max_queue_weight, max_log_size } = self.clone();
        Some(Options { directory: directory?, roll_cycle, block, max_queue_weight, max_log_size })
    }
}

/// When and where a request was executed.
#[derive(Clone, Copy)]
pub(super) struct Execution<'a> {
    pub started_micros: i64,
    pub duration_micros: u64,
    pub connection: u64,
    pub version: Version,
    pub keyspace: Option<&'a str>,
}

/// Returns the record of a request; `None` for those that are neither queries nor batches.
pub(super) fn record(
    database: &Database,
    request: &Request,
    execution: &Execution<'_>,
) -> Option<LoggedQuery> {
    let text = |query: &str| obscure_password_literals(query, true).into_owned();
    let of_id = |id: &[u8], values: &Values| {
        let prepared = database.prepared(id).ok()?;
        let values = logged_values(values);
        Some(LoggedStatement { query: text(prepared.cql()), is_prepared: true, values })
    };
    let of_text = |query: &str, values: &Values| LoggedStatement {
        query: text(query),
        is_prepared: false,
        values: logged_values(values),
    };
    let (parameters, batch, statements) = match request {
        Request::Query(query) => {
            (&query.parameters, None, vec![of_text(&query.query, &query.parameters.values)])
        }
        Request::Execute(execute) => {
            (&execute.parameters, None, vec![of_id(&execute.id, &execute.parameters.values)?])
        }
        Request::Batch(batch) => {
            let kind = match batch.batch_type {
                BatchType::Logged => BatchKind::Logged,
                BatchType::Unlogged => BatchKind::Unlogged,
                BatchType::Counter => BatchKind::Counter,
            };
            let statements = batch.statements.iter().map(|statement| match &statement.source {
                StatementSource::Query(query) => Some(of_text(query, &statement.values)),
                StatementSource::Prepared(id) => of_id(id, &statement.values),
            });
            (&batch.parameters, Some(kind), statements.collect::<Option<_>>()?)
        }
        _ => return None,
    };
    Some(of_parameters(parameters, execution, batch, statements))
}

fn of_parameters(
    parameters: &QueryParameters,
    execution: &Execution<'_>,
    batch: Option<BatchKind>,
    statements: Vec<LoggedStatement>,
) -> LoggedQuery {
    let keyspace = parameters.keyspace.as_deref().or(execution.keyspace);
    LoggedQuery {
        started_micros: execution.started_micros,
        duration_micros: execution.duration_micros,
        connection: execution.connection,
        protocol_version: execution.version as u8,
        consistency: parameters.consistency as u16,
        serial_consistency: parameters.serial_consistency.map(|serial| serial as u16),
        page_size: parameters.page_size,
        is_next_page: parameters.paging_state.is_some(),
        timestamp: parameters.timestamp,
        now_in_seconds: parameters.now_in_seconds,
        keyspace: keyspace.map(str::to_owned),
        batch,
        statements,
    }
}

fn logged_values(values: &Values) -> LoggedValues {
    let logged = |value| match value {
        Value::Null => LoggedValue::Null,
        Value::Unset => LoggedValue::Unset,
        Value::Set(bytes) => LoggedValue::Set(bytes.to_vec()),
    };
    if values.name(0).is_none() {
        return LoggedValues::Positional(values.iter().map(logged).collect());
    }
    let names = (0..values.len()).map(|index| values.name(index).unwrap_or_default().to_owned());
    LoggedValues::Named(names.zip(values.iter().map(logged)).collect())
}
