//! The database layer as the server's backend: requests become statements, outcomes become results.

use std::{
    net::SocketAddr,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU16, AtomicU64, Ordering},
    },
};

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use cassette_database::{
    self as db, BatchKind, BatchSource, BoundValue, Caller, Database, DatabaseError, Executed, Injected,
    Outcome, Prepared, ResolvedStatement, StatementOptions, without_waiting,
};
use cassette_protocol::{
    Prelude, QueryParameters, Request, ResultMessage, Value, Values, Version,
    request::{Batch, BatchType, Execute, Prepare, Query, StatementSource},
    response::{self, ChangeType, Error, ErrorDetail, Failures, SchemaChange, SchemaTarget},
};
use cassette_rows::interrupt::Interrupted;
use smallvec::SmallVec;
use uuid::Uuid;

mod description;
mod faulted;
mod tracing;

use crate::{
    Body,
    backend::{Answer, Backend, Effort},
    result::{MetadataWanted, ResultSink, columns, result_metadata},
};

/// Cassandra's result metadata id of statements without a result: the MD5 digest of an empty input.
const EMPTY_METADATA_ID: [u8; 16] =
    [0xd4, 0x1d, 0x8c, 0xd9, 0x8f, 0x00, 0xb2, 0x04, 0xe9, 0x80, 0x09, 0x98, 0xec, 0xf8, 0x42, 0x7e];

/// The longest text that is parsed on a thread that serves other clients, too, in bytes. Parsing
/// cannot be interrupted.
const AT_ONCE_TEXT_MAX: usize = 4 << 10;

/// The maximum bytes of values that are bound there: JSON, sets and maps must be decoded
/// completely.
const AT_ONCE_VALUES_MAX: usize = 256 << 10;

/// The longest error message that is sent, in bytes. Messages quote parts of the statement.
const MESSAGE_LENGTH_MAX: usize = 4 << 10;

/// The state of a connection between its requests.
#[derive(Debug, Default)]
pub struct ClientSession {
    /// The keyspace of USE.
    keyspace: ArcSwapOption<String>,
    peer: Option<SocketAddr>,
    /// The index of the virtual node that it has connected to.
    node: AtomicU16,
    /// The number of the connection since the start of the process.
    id: u64,
    /// The role that has logged in; none without authentication.
    role: OnceLock<Arc<str>>,
}

impl ClientSession {
    /// Returns the client's address.
    pub(crate) fn peer(&self) -> Option<SocketAddr> {
        self.peer
    }

    /// Returns the number of the connection since the start of the process.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Returns the role that has logged in.
    pub(crate) fn role(&self) -> Option<&str> {
        self.role.get().map(|role| &**role)
    }

    /// Returns the keyspace of USE.
    pub(crate) fn keyspace(&self) -> Option<Arc<String>> {
        self.keyspace.load_full()
    }

    fn caller(&self) -> Caller {
        self.role.get().map_or(Caller::Anonymous, |role| Caller::Role(role.clone()))
    }
}

impl Backend for Database {
    type Session = ClientSession;
    type Subscription = db::Subscription;

    fn open_session(&self, peer: SocketAddr) -> ClientSession {
        static CONNECTIONS: AtomicU64 = AtomicU64::new(1);
        let id = CONNECTIONS.fetch_add(1, Ordering::Relaxed);
        ClientSession { peer: Some(peer), id, ..ClientSession::default() }
    }

    fn connected_to(&self, session: &ClientSession, node: usize) {
        session.node.store(u16::try_from(node).unwrap_or(0), Ordering::Relaxed);
    }

    fn logged_in(&self, session: &ClientSession, role: &str) {
        // A connection logs in once.
        let _ = session.role.set(role.into());
    }

    fn new_trace(&self) -> Uuid {
        Database::new_trace(self)
    }

    fn traces_by_chance(&self) -> bool {
        Database::traces_by_chance(self)
    }

    fn keyspace(session: &ClientSession) -> Option<String> {
        session.keyspace.load().as_deref().cloned()
    }

    fn describe(&self, request: &Request) -> String {
        description::describe(self, request)
    }

    fn executes_in_order(&self) -> bool {
        self.is_seeded()
    }

    fn tick(&self) {
        self.tick_metrics();
    }

    fn execute(
        &self,
        session: &ClientSession,
        request: &Request,
        version: Version,
        effort: Effort,
        trace: Option<Uuid>,
        body: Body<'_>,
    ) -> Result<Answer, Error> {
        if trace.is_some() && effort == Effort::MemoryOnly {
            // A traced request must be executed only once.
            return Ok(Answer::WouldBlock);
        }
        if let Some(id) = trace {
            let describe = || tracing::describe(self, session, request);
            return self.traced(id, describe, || {
                Backend::execute(self, session, request, version, effort, None, body)
            });
        }
        match answer(self, session, request, version, effort, body) {
            Err(DatabaseError::WouldBlock) if effort == Effort::MemoryOnly => Ok(Answer::WouldBlock),
            answer => answer.map_err(error_response),
        }
    }

    #[inline]
    fn injected_fault(&self, session: &ClientSession, request: &Request) -> Option<Injected> {
        if !self.faults()?.is_active() {
            return None;
        }
        faulted::injected(self, session, request)
    }

    fn subscribe(&self, listener: Box<dyn Fn(&SchemaChange) + Send + Sync>) -> db::Subscription {
        self.on_schema_change(move |change| listener(&schema_change(change)))
    }
}

/// Answers a request; returns [`Answer::WouldBlock`], or the error of that name, if it must not
/// wait and would have to.
fn answer(
    database: &Database,
    session: &ClientSession,
    request: &Request,
    version: Version,
    effort: Effort,
    body: Body<'_>,
) -> db::Result<Answer> {
    let handler = RequestHandler { database, session, version };
    // Writes that wait for the disk on dedicated threads share one sync.
    let must_wait = || database.engine().apply_would_wait();
    let answer = match request {
        Request::Execute(execute) => {
            let statement = database.resolve(&execute.id)?;
            if effort == Effort::MemoryOnly
                && (bytes_of(&execute.parameters.values) > AT_ONCE_VALUES_MAX
                    || statement.description().may_take_long()
                    || writes(&statement) && must_wait())
            {
                return Ok(Answer::WouldBlock);
            }
            match effort {
                Effort::MemoryOnly => without_waiting(|| handler.execute(execute, &statement, body)),
                Effort::MayBlock => handler.execute(execute, &statement, body),
            }
        }
        Request::Batch(batch) if effort == Effort::MemoryOnly && (is_long(batch) || must_wait()) => {
            return Ok(Answer::WouldBlock);
        }
        Request::Batch(batch) if effort == Effort::MemoryOnly => {
            without_waiting(|| handler.batch(batch, body))
        }
        Request::Batch(batch) => handler.batch(batch, body),
        Request::Prepare(prepare)
            if effort == Effort::MemoryOnly && prepare.query.len() > AT_ONCE_TEXT_MAX =>
        {
            return Ok(Answer::WouldBlock);
        }
        Request::Prepare(prepare) => handler.prepare(prepare, body),
        // The effect of a text is known only after parsing. Frequent texts are prepared.
        Request::Query(_) if effort == Effort::MemoryOnly => return Ok(Answer::WouldBlock),
        Request::Query(query) => handler.query(query, body),
        other => Err(DatabaseError::Protocol(format!("{} is not a request to execute", other.opcode()))),
    };
    answer.map(Answer::Result)
}

/// Handles one request: each kind has a method.
struct RequestHandler<'a> {
    database: &'a Database,
    session: &'a ClientSession,
    version: Version,
}

impl RequestHandler<'_> {
    fn query(&self, query: &Query, body: Body<'_>) -> db::Result<Prelude> {
        let wanted = if query.parameters.skip_metadata { MetadataWanted::Skip } else { MetadataWanted::Full };
        let mut sink = ResultSink::new(body, self.version, wanted);
        let bound = Bound::new(&query.parameters.values);
        let keyspace = self.session.keyspace.load();
        let executed = self.database.query(
            keyspace.as_deref().map(String::as_str),
            &query.query,
            bound.values(),
            &self.options(&query.parameters),
            &mut sink,
        )?;
        Ok(self.finish(executed, sink))
    }

    fn execute(
        &self,
        execute: &Execute,
        statement: &ResolvedStatement,
        body: Body<'_>,
    ) -> db::Result<Prelude> {
        let mut sink = ResultSink::new(body, self.version, metadata_wanted(statement, execute));
        let bound = Bound::new(&execute.parameters.values);
        let keyspace = self.session.keyspace.load();
        let executed = self.database.execute_resolved(
            keyspace.as_deref().map(String::as_str),
            statement,
            bound.values(),
            &self.options(&execute.parameters),
            &mut sink,
        )?;
        Ok(self.finish(executed, sink))
    }

    fn batch(&self, batch: &Batch, body: Body<'_>) -> db::Result<Prelude> {
        /// A statement's source without the borrow that the database requires.
        enum Source<'a> {
            Query(&'a str),
            Prepared(Arc<Prepared>),
        }
        let statements = batch
            .statements
            .iter()
            .map(|statement| {
                let source = match &statement.source {
                    StatementSource::Query(query) => Source::Query(query),
                    StatementSource::Prepared(id) => Source::Prepared(self.database.prepared(id)?),
                };
                Ok((source, Bound::new(&statement.values)))
            })
            .collect::<db::Result<Vec<_>>>()?;
        let statements: Vec<_> = statements
            .iter()
            .map(|(source, bound)| db::BatchStatement {
                source: match source {
                    Source::Query(query) => BatchSource::Query(query),
                    Source::Prepared(prepared) => BatchSource::Prepared(prepared),
                },
                values: &bound.values,
            })
            .collect();
        let kind = batch_kind(batch.batch_type);
        let mut sink = ResultSink::new(body, self.version, MetadataWanted::Full);
        let keyspace = self.session.keyspace.load();
        let executed = self.database.batch(
            keyspace.as_deref().map(String::as_str),
            kind,
            &statements,
            &self.options(&batch.parameters),
            &mut sink,
        )?;
        Ok(self.finish(executed, sink))
    }

    fn prepare(&self, prepare: &Prepare, body: Body<'_>) -> db::Result<Prelude> {
        let keyspace = self.session.keyspace.load();
        let keyspace = prepare.keyspace.as_deref().or(keyspace.as_deref().map(String::as_str));
        let prepared = self.database.prepare_and_keep(keyspace, &prepare.query)?;
        let description = prepared.description();
        let result = description.result();
        let metadata_id = result.map_or(&EMPTY_METADATA_ID, |result| result.id());
        let message = response::Prepared {
            id: Bytes::copy_from_slice(&prepared.id()),
            result_metadata_id: Some(Bytes::copy_from_slice(metadata_id)),
            bind_markers: columns(description.markers()),
            partition_key_indexes: description.partition_key_indexes().to_vec(),
            result_metadata: result.map(|result| result_metadata(result)).unwrap_or_default(),
        };
        ResultMessage::Prepared(message).encode(self.version, body.buffer);
        Ok(Prelude { warnings: description.warnings().to_vec(), ..Prelude::default() })
    }

    fn options(&self, parameters: &QueryParameters) -> StatementOptions {
        let mut options = options(parameters, self.session);
        if self.database.is_seeded() {
            // Drivers send the time of their own clock with each request.
            options.timestamp = None;
        }
        options
    }

    /// Completes the body with the outcome of the statement.
    fn finish(&self, executed: Executed, sink: ResultSink<'_>) -> Prelude {
        match executed.outcome {
            Outcome::Rows { paging_state } => sink.finish_rows(paging_state.as_deref()),
            Outcome::Void => sink.finish(&ResultMessage::Void),
            Outcome::SetKeyspace(keyspace) => {
                self.session.keyspace.store(Some(Arc::new(keyspace.clone())));
                sink.finish(&ResultMessage::SetKeyspace(keyspace));
            }
            Outcome::SchemaChange(change) => {
                sink.finish(&ResultMessage::SchemaChange(schema_change(&change)))
            }
        }
        Prelude { warnings: executed.warnings, ..Prelude::default() }
    }
}

/// The values of a statement in the database's form: up to 16 without allocation.
struct Bound<'a> {
    values: SmallVec<[BoundValue<'a>; 16]>,
    /// As many as values, or none.
    names: Vec<&'a str>,
}

impl<'a> Bound<'a> {
    fn new(values: &'a Values) -> Self {
        let bound = |value| match value {
            Value::Null => BoundValue::Null,
            Value::Unset => BoundValue::Unset,
            Value::Set(bytes) => BoundValue::Set(bytes),
        };
        Self {
            values: values.iter().map(bound).collect(),
            names: (0..values.len()).map_while(|index| values.name(index)).collect(),
        }
    }

    fn values(&self) -> db::Values<'_> {
        db::Values { values: &self.values, names: (!self.names.is_empty()).then_some(&*self.names) }
    }
}

/// Returns the bytes of bound values.
fn bytes_of(values: &Values) -> usize {
    let length = |value| match value {
        Value::Set(bytes) => bytes.len(),
        Value::Null | Value::Unset => 0,
    };
    values.iter().map(length).sum()
}

/// Returns whether a batch has too many texts or values to be planned and bound at once.
fn is_long(batch: &Batch) -> bool {
    let (mut text, mut values) = (0, 0);
    batch.statements.iter().any(|statement| {
        if let StatementSource::Query(query) = &statement.source {
            text += query.len();
        }
        values += bytes_of(&statement.values);
        text > AT_ONCE_TEXT_MAX || values > AT_ONCE_VALUES_MAX
    })
}

/// Returns whether a statement changes data or the schema.
fn writes(statement: &ResolvedStatement) -> bool {
    statement.description().result().is_none()
}

/// Returns the metadata for the result of a prepared statement.
fn metadata_wanted<'a>(statement: &ResolvedStatement, execute: &'a Execute) -> MetadataWanted<'a> {
    // The columns of a conditional statement's result depend on its outcome, so the client cannot
    // have them.
    if statement.description().result().is_none() {
        return MetadataWanted::Full;
    }
    let skip = execute.parameters.skip_metadata;
    match &execute.result_metadata_id {
        Some(known_id) => MetadataWanted::UnlessKnown { known_id, skip },
        // Before v5 a client cannot name the columns that it has. It may have only the original
        // ones.
        None if skip && !statement.prepared().result_has_changed() => MetadataWanted::Skip,
        None => MetadataWanted::Full,
    }
}

fn batch_kind(batch_type: BatchType) -> BatchKind {
    match batch_type {
        BatchType::Logged => BatchKind::Logged,
        BatchType::Unlogged => BatchKind::Unlogged,
        BatchType::Counter => BatchKind::Counter,
    }
}

fn options(parameters: &QueryParameters, session: &ClientSession) -> StatementOptions {
    StatementOptions {
        consistency: parameters.consistency,
        serial_consistency: parameters.serial_consistency,
        page_size: parameters.page_size,
        paging_state: parameters.paging_state.clone(),
        timestamp: parameters.timestamp,
        now_in_seconds: parameters.now_in_seconds,
        keyspace: parameters.keyspace.clone(),
        caller: session.caller(),
        client_address: session.peer.map(|peer| peer.ip().to_canonical()),
        node: session.node.load(Ordering::Relaxed),
        is_internal: false,
    }
}

fn schema_change(change: &db::SchemaChange) -> SchemaChange {
    SchemaChange {
        change: match change.kind {
            db::SchemaChangeKind::Created => ChangeType::Created,
            db::SchemaChangeKind::Updated => ChangeType::Updated,
            db::SchemaChangeKind::Dropped => ChangeType::Dropped,
        },
        keyspace: change.keyspace.clone(),
        target: match change.target {
            db::SchemaChangeTarget::Keyspace => SchemaTarget::Keyspace,
            db::SchemaChangeTarget::Table => SchemaTarget::Table(change.name.clone()),
            db::SchemaChangeTarget::Type => SchemaTarget::Type(change.name.clone()),
            db::SchemaChangeTarget::Function => {
                SchemaTarget::Function { name: change.name.clone(), arg_types: change.arguments.clone() }
            }
            db::SchemaChangeTarget::Aggregate => {
                SchemaTarget::Aggregate { name: change.name.clone(), arg_types: change.arguments.clone() }
            }
        },
    }
}

fn protocol_write_type(write_type: db::WriteType) -> response::WriteType {
    match write_type {
        db::WriteType::Simple => response::WriteType::Simple,
        db::WriteType::Batch => response::WriteType::Batch,
        db::WriteType::UnloggedBatch => response::WriteType::UnloggedBatch,
        db::WriteType::Cas => response::WriteType::Cas,
        db::WriteType::Counter => response::WriteType::Counter,
    }
}

/// Maps the database's errors to CQL's codes. This node is the single replica that has to answer.
fn error_response(error: DatabaseError) -> Error {
    let mut message = error.to_string();
    if message.len() > MESSAGE_LENGTH_MAX {
        let end = (0..=MESSAGE_LENGTH_MAX).rev().find(|&index| message.is_char_boundary(index));
        message.truncate(end.unwrap_or(0));
        message.push_str("...");
    }
    let detail = match error {
        DatabaseError::Server(_)
        | DatabaseError::Failed { .. }
        | DatabaseError::SchemaCorrupt { .. }
        | DatabaseError::Storage { .. }
        | DatabaseError::WouldBlock => ErrorDetail::ServerError,
        DatabaseError::Protocol(_) => ErrorDetail::ProtocolError,
        // Drivers send overloaded requests again.
        DatabaseError::Interrupted(Interrupted::Cancelled) => ErrorDetail::ServerError,
        DatabaseError::Overloaded(_) | DatabaseError::Interrupted(_) => ErrorDetail::Overloaded,
        DatabaseError::Unavailable { consistency, required, alive, .. } => {
            ErrorDetail::Unavailable { consistency, required, alive }
        }
        DatabaseError::Truncate { .. } => ErrorDetail::TruncateError,
        DatabaseError::ReadTimeout { consistency, .. } => {
            ErrorDetail::ReadTimeout { consistency, received: 0, block_for: 1, data_present: false }
        }
        DatabaseError::WriteTimeout { consistency, write_type, .. } => ErrorDetail::WriteTimeout {
            consistency,
            received: 0,
            block_for: 1,
            write_type: protocol_write_type(write_type),
            contentions: 0,
        },
        DatabaseError::ReadFailure { consistency, .. } => ErrorDetail::ReadFailure {
            consistency,
            received: 0,
            block_for: 1,
            failures: Failures::Count(1),
            data_present: false,
        },
        DatabaseError::ReadAborted { consistency, reason, address, data_present, .. } => {
            ErrorDetail::ReadFailure {
                consistency,
                received: 0,
                block_for: 1,
                failures: Failures::Reasons(vec![(address, reason.code())]),
                data_present,
            }
        }
        DatabaseError::FunctionFailure { keyspace, function, argument_types, .. } => {
            ErrorDetail::FunctionFailure { keyspace, function, arg_types: argument_types }
        }
        DatabaseError::WriteFailure { consistency, write_type, .. } => ErrorDetail::WriteFailure {
            consistency,
            received: 0,
            block_for: 1,
            failures: Failures::Count(1),
            write_type: protocol_write_type(write_type),
        },
        DatabaseError::Syntax { .. } => ErrorDetail::SyntaxError,
        DatabaseError::Unauthorized(_) => ErrorDetail::Unauthorized,
        DatabaseError::Invalid(_) | DatabaseError::Refused(_) | DatabaseError::ReadOnly => {
            ErrorDetail::Invalid
        }
        DatabaseError::Config(_) => ErrorDetail::ConfigError,
        DatabaseError::AlreadyExists { keyspace, table } => ErrorDetail::AlreadyExists { keyspace, table },
        DatabaseError::Unprepared { id } => ErrorDetail::Unprepared { id: id.into() },
        // The enum may grow without this crate.
        _ => ErrorDetail::ServerError,
    };
    Error::new(detail, message)
}
