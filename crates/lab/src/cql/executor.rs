//! Executes recorded queries on a server, one after the other on a connection.

use std::collections::HashMap;

use bytes::Bytes;
use cassette_protocol::request::{
    Batch, BatchStatement, BatchType, Execute, Prepare, Query, StatementSource,
};
use cassette_protocol::response::{Error, ErrorDetail};
use cassette_protocol::{
    Consistency, QueryParameters, Request, Response, ResultMessage, Value, Values, Version,
};
use cassette_query_log::{BatchKind, LoggedQuery, LoggedStatement, LoggedValue, LoggedValues};
use cassette_rows::types::quote_identifier;

use super::CqlSettings;
use super::connection::{Connection, error_class};
use crate::LabError;

/// The maximum number of statements that are kept prepared on a connection.
const PREPARED_MAX: usize = 10_000;

/// The result of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Rows of serialized values.
    Rows(Vec<Vec<Option<Vec<u8>>>>),
    /// Success without rows.
    Done,
    /// An error.
    Failed(String),
}

/// A connection that executes recorded queries.
#[derive(Debug)]
pub(crate) struct QueryExecutor {
    connection: Connection,
    version: Version,
    /// The keyspace of the session.
    keyspace: Option<String>,
    /// By keyspace and text.
    prepared: HashMap<(Option<String>, String), Prepared>,
}

#[derive(Debug, Clone)]
struct Prepared {
    id: Bytes,
    result_metadata_id: Option<Bytes>,
}

/// A server's answer to a request.
enum Answer {
    Outcome(Outcome),
    /// It evicted this statement.
    Unprepared,
}

impl QueryExecutor {
    /// Connects to an address.
    pub fn open(contact: &str, settings: &CqlSettings) -> Result<Self, LabError> {
        let connection = Connection::open(contact, settings)?;
        Ok(Self { connection, version: settings.version, keyspace: None, prepared: HashMap::new() })
    }

    /// Executes a query. Errors of the server are outcomes.
    ///
    /// # Errors
    /// If the connection fails.
    pub fn execute(&mut self, query: &LoggedQuery) -> Result<Outcome, LabError> {
        if let Some(failed) = self.use_keyspace(query)? {
            return Ok(failed);
        }
        for _ in 0..2 {
            let request = match self.request(query)? {
                Ok(request) => request,
                Err(failed) => return Ok(failed),
            };
            match self.call(&request)? {
                Answer::Outcome(outcome) => return Ok(outcome),
                Answer::Unprepared => self.prepared.clear(),
            }
        }
        Ok(Outcome::Failed("Unprepared".to_owned()))
    }

    /// Selects the keyspace of the query, if it is another than that of the session.
    fn use_keyspace(&mut self, query: &LoggedQuery) -> Result<Option<Outcome>, LabError> {
        let Some(keyspace) =
            query.keyspace.as_ref().filter(|keyspace| self.keyspace.as_ref() != Some(*keyspace))
        else {
            return Ok(None);
        };
        let text = format!("USE {}", quote_identifier(keyspace));
        let request = Request::Query(Query { query: text.into(), parameters: QueryParameters::default() });
        match self.call(&request)? {
            Answer::Outcome(failed @ Outcome::Failed(_)) => Ok(Some(failed)),
            _ => Ok(None),
        }
    }

    /// Returns the request of a query, whose statements are prepared if they were when it was
    /// recorded.
    fn request(&mut self, query: &LoggedQuery) -> Result<Result<Request, Outcome>, LabError> {
        let parameters = parameters(query, self.version);
        let Some(kind) = query.batch else {
            let Some(statement) = query.statements.first() else {
                return Ok(Err(Outcome::Failed("no statement".to_owned())));
            };
            let parameters = QueryParameters { values: values(&statement.values), ..parameters };
            if !statement.is_prepared {
                let query = statement.query.as_str().into();
                return Ok(Ok(Request::Query(Query { query, parameters })));
            }
            return Ok(self.prepare(query, statement)?.map(|Prepared { id, result_metadata_id }| {
                Request::Execute(Execute { id, result_metadata_id, parameters })
            }));
        };
        let mut statements = Vec::with_capacity(query.statements.len());
        for statement in &query.statements {
            let source = if statement.is_prepared {
                match self.prepare(query, statement)? {
                    Ok(prepared) => StatementSource::Prepared(prepared.id),
                    Err(failed) => return Ok(Err(failed)),
                }
            } else {
                StatementSource::Query(statement.query.as_str().into())
            };
            statements.push(BatchStatement { source, values: values(&statement.values) });
        }
        let batch_type = match kind {
            BatchKind::Logged => BatchType::Logged,
            BatchKind::Unlogged => BatchType::Unlogged,
            BatchKind::Counter => BatchType::Counter,
        };
        Ok(Ok(Request::Batch(Batch { batch_type, statements, parameters })))
    }

    fn prepare(
        &mut self,
        query: &LoggedQuery,
        statement: &LoggedStatement,
    ) -> Result<Result<Prepared, Outcome>, LabError> {
        let key = (query.keyspace.clone(), statement.query.clone());
        if let Some(prepared) = self.prepared.get(&key) {
            return Ok(Ok(prepared.clone()));
        }
        let text = statement.query.as_str().into();
        let request = Request::Prepare(Prepare { query: text, keyspace: None });
        match self.connection.call("PREPARE", &request)? {
            Response::Result(ResultMessage::Prepared(prepared)) => {
                if self.prepared.len() == PREPARED_MAX {
                    self.prepared.clear();
                }
                let result_metadata_id = prepared.result_metadata_id;
                let prepared = Prepared { id: prepared.id, result_metadata_id };
                self.prepared.insert(key, prepared.clone());
                Ok(Ok(prepared))
            }
            Response::Error(error) => Ok(Err(failed(&error))),
            other => Err(self.connection.unexpected("PREPARE", &other)),
        }
    }

    fn call(&mut self, request: &Request) -> Result<Answer, LabError> {
        let attempt = "a recorded query";
        let outcome = match self.connection.call(attempt, request)? {
            Response::Result(ResultMessage::Rows(rows)) => {
                let rows = rows
                    .decode(None)
                    .map_err(|error| LabError::engine(self.connection.contact(), attempt, error))?;
                Outcome::Rows(
                    rows.iter().map(|row| row.map(|cell| cell.map(<[u8]>::to_vec)).collect()).collect(),
                )
            }
            Response::Result(ResultMessage::SetKeyspace(keyspace)) => {
                self.keyspace = Some(keyspace);
                Outcome::Done
            }
            Response::Result(_) => Outcome::Done,
            Response::Error(Error { detail: ErrorDetail::Unprepared { .. }, .. }) => {
                return Ok(Answer::Unprepared);
            }
            Response::Error(error) => failed(&error),
            other => return Err(self.connection.unexpected(attempt, &other)),
        };
        Ok(Answer::Outcome(outcome))
    }
}

fn failed(error: &Error) -> Outcome {
    Outcome::Failed(format!("{}: {}", error_class(&error.detail), error.message))
}

fn parameters(query: &LoggedQuery, version: Version) -> QueryParameters {
    QueryParameters {
        consistency: Consistency::from_number(query.consistency).unwrap_or_default(),
        values: Values::default(),
        skip_metadata: false,
        page_size: query.page_size,
        paging_state: None,
        serial_consistency: query.serial_consistency.and_then(Consistency::from_number),
        // Two targets store the same timestamps, so that later conflicts have the same winner.
        timestamp: Some(query.timestamp.unwrap_or(query.started_micros)),
        keyspace: None,
        now_in_seconds: query.now_in_seconds.filter(|_| version >= Version::V5),
    }
}

fn values(values: &LoggedValues) -> Values {
    match values {
        LoggedValues::Positional(values) => Values::new(values.iter().map(value)),
        LoggedValues::Named(values) => {
            Values::named(values.iter().map(|(name, logged)| (name.clone(), value(logged))))
        }
    }
}

fn value(value: &LoggedValue) -> Value<'_> {
    match value {
        LoggedValue::Null => Value::Null,
        LoggedValue::Unset => Value::Unset,
        LoggedValue::Set(bytes) => Value::Set(bytes),
    }
}
