//! A client of a CQL cluster: connections, their requests, and repeats after failures.

mod ring;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use cassette_client::{Connection, ConnectionOptions, OpenError};
use cassette_protocol::request::{
    Batch, BatchStatement, BatchType, Execute, Prepare, Query, StatementSource,
};
use cassette_protocol::response::{Error, ErrorDetail};
use cassette_protocol::{
    Consistency, QueryParameters, Request, Response, ResultMessage, Rows, Value, Values, Version,
};
use cassette_tls::ClientTls;

use crate::error::{MoveError, Result};
use crate::page::{Page, PageRequest};
use ring::Ring;

/// Maximum number of requests in flight on a connection.
pub const IN_FLIGHT_MAX: usize = 32;
/// Maximum time without data from a server that owes responses.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// Pause before the first repeat; it doubles up to the maximum.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// How to reach a cluster.
#[derive(Clone)]
pub struct ClusterSettings {
    /// Contact points, `host:port`.
    pub contacts: Vec<String>,
    /// User and password.
    pub credentials: Option<(String, String)>,
    /// Encrypts connections. `None`: without TLS.
    pub tls: Option<ClientTls>,
    /// Consistency level of reads and writes.
    pub consistency: Consistency,
    /// How long a cluster may fail to respond before the move stops.
    pub patience: Duration,
}

impl ClusterSettings {
    /// Returns the default settings for a contact point.
    pub fn new(contact: impl Into<String>) -> Self {
        Self {
            contacts: vec![contact.into()],
            credentials: None,
            tls: None,
            consistency: Consistency::LocalQuorum,
            patience: Duration::from_secs(300),
        }
    }

    /// Connects to one of the contact points or nodes, `host:port`, and logs in.
    fn open(&self, address: &str) -> std::result::Result<Connection, Failure> {
        let options = ConnectionOptions {
            client_name: "cassette move",
            versions: &[Version::V5],
            credentials: self.credentials.as_ref(),
            tls: self.tls.as_ref(),
            silence_max: SILENCE_MAX,
            interrupt: None,
        };
        Ok(Connection::open(address, &options)?)
    }

    /// Returns the addresses as one text.
    pub fn address(&self) -> String {
        self.contacts.join(", ")
    }
}

/// A failed attempt.
pub enum Failure {
    /// It may succeed later or on another node; its effect is unknown.
    Retry(String),
    /// It fails again.
    Refused(String),
    /// The server has evicted a prepared statement.
    Unprepared,
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Failed(reason) => Self::Retry(reason),
            OpenError::Rejected(reason) => Self::Refused(reason),
            OpenError::Version(reason) => Self::Refused(format!(
                "expected version 5 of the native protocol, which Cassandra has since 4.0: {reason}"
            )),
            OpenError::LoginRequired(_) => Self::Refused("it requires a user and a password file".to_owned()),
            OpenError::Server(error) => refusal(Response::Error(error)),
        }
    }
}

/// A cluster and its ring, shared by all workers.
pub struct Cluster {
    pub settings: ClusterSettings,
    /// Whether clients must log in.
    pub requires_login: bool,
    ring: Ring,
}

impl Cluster {
    /// Connects, and reads the ring.
    ///
    /// # Errors
    /// `Unreachable` if no contact point responds, or `Unsuitable` if it rejects the login or the
    /// version of the protocol.
    pub fn connect(settings: ClusterSettings) -> Result<Self> {
        let mut last = String::from("there is no contact point");
        for contact in &settings.contacts {
            match settings.open(contact) {
                Ok(mut connection) => {
                    let ring = Ring::read(&mut connection, contact, &settings)?;
                    return Ok(Self { settings, requires_login: connection.requires_login, ring });
                }
                Err(Failure::Refused(reason)) => {
                    return Err(MoveError::Unsuitable(format!("{contact} refused the connection: {reason}")));
                }
                Err(Failure::Retry(reason)) => last = reason,
                Err(Failure::Unprepared) => {}
            }
        }
        Err(MoveError::Unreachable { address: settings.address(), reason: last })
    }

    /// Number of nodes in the data center.
    pub fn nodes(&self) -> usize {
        self.ring.nodes.len()
    }
}

/// A prepared statement on one connection.
#[derive(Clone)]
struct PreparedId {
    id: Bytes,
    result_metadata_id: Option<Bytes>,
}

struct Node {
    connection: Connection,
    prepared: HashMap<String, PreparedId>,
}

/// A statement with its values.
pub struct Statement<'a> {
    pub text: &'a str,
    pub values: Vec<Value<'a>>,
}

/// The writes of one request, on one partition.
pub struct Write<'a> {
    pub token: i64,
    pub statements: Vec<Statement<'a>>,
    pub is_counter: bool,
    pub now: u32,
}

/// The connections of one worker.
pub struct Client<'c> {
    cluster: &'c Cluster,
    nodes: HashMap<usize, Node>,
}

impl<'c> Client<'c> {
    pub fn new(cluster: &'c Cluster) -> Self {
        Self { cluster, nodes: HashMap::new() }
    }

    /// Returns the number of the first node that is asked for a token.
    pub fn node_of(&self, token: i64) -> usize {
        self.cluster.ring.node(token, 0)
    }

    /// Executes a statement without values, such as DDL, and returns its rows.
    pub fn query(&mut self, text: &str) -> Result<Page> {
        self.repeat(text, |client, attempt| {
            let parameters =
                QueryParameters { consistency: client.cluster.settings.consistency, ..Default::default() };
            let request = Request::Query(Query { query: text.into(), parameters });
            let index = client.cluster.ring.node(0, attempt);
            let node = client.node(index)?;
            let answer = call(&mut node.connection, &request)?;
            page(answer)
        })
    }

    /// Executes a statement without values on one of the nodes, by its number.
    pub fn query_node(&mut self, index: usize, text: &str) -> Result<Page> {
        self.repeat(text, |client, _| {
            let parameters = QueryParameters { consistency: Consistency::One, ..QueryParameters::default() };
            let request = Request::Query(Query { query: text.into(), parameters });
            page(call(&mut client.node(index)?.connection, &request)?)
        })
    }

    /// Reads a page; `None` if the statement returns no rows.
    pub fn rows(&mut self, request: &PageRequest<'_>) -> Result<Option<Rows>> {
        self.repeat(request.text, |client, attempt| {
            let consistency = client.cluster.settings.consistency;
            let index = client.cluster.ring.node(request.token, attempt);
            let node = client.node(index)?;
            let prepared = node.prepare(request.text)?;
            let values = request.values.iter().map(|value| Value::Set(value));
            let parameters = QueryParameters {
                consistency,
                values: Values::new(values),
                page_size: Some(request.page_size),
                paging_state: request.paging_state.clone(),
                now_in_seconds: Some(request.now),
                ..Default::default()
            };
            let PreparedId { id, result_metadata_id } = prepared;
            let execute = Request::Execute(Execute { id, result_metadata_id, parameters });
            rows(call(&mut node.connection, &execute)?)
        })
    }

    /// Attempts writes once, each on a node that depends on its token and `attempt`. Returns the
    /// failure of each.
    pub fn write(&mut self, writes: &[Write<'_>], attempt: usize) -> Vec<Option<Failure>> {
        let mut failures: Vec<Option<Failure>> = writes.iter().map(|_| None).collect();
        let mut by_node: HashMap<usize, Vec<usize>> = HashMap::new();
        for (index, write) in writes.iter().enumerate() {
            by_node.entry(self.cluster.ring.node(write.token, attempt)).or_default().push(index);
        }
        for (node, indexes) in by_node {
            for chunk in indexes.chunks(IN_FLIGHT_MAX) {
                let chunk_writes: Vec<&Write<'_>> = chunk.iter().map(|index| &writes[*index]).collect();
                match self.write_to(node, &chunk_writes) {
                    Ok(results) => {
                        for (index, failure) in chunk.iter().zip(results) {
                            failures[*index] = failure;
                        }
                    }
                    Err(failure) => {
                        self.forget(node, &failure);
                        let reason = match failure {
                            Failure::Retry(reason) => reason,
                            Failure::Unprepared => "a statement was evicted".to_owned(),
                            Failure::Refused(reason) => {
                                failures[chunk[0]] = Some(Failure::Refused(reason));
                                return failures;
                            }
                        };
                        for index in chunk {
                            failures[*index] = Some(Failure::Retry(reason.clone()));
                        }
                    }
                }
            }
        }
        failures
    }

    fn write_to(
        &mut self,
        node: usize,
        writes: &[&Write<'_>],
    ) -> std::result::Result<Vec<Option<Failure>>, Failure> {
        let consistency = self.cluster.settings.consistency;
        let node = self.node(node)?;
        let mut requests = Vec::with_capacity(writes.len());
        for write in writes {
            let mut statements = Vec::with_capacity(write.statements.len());
            for statement in &write.statements {
                let id = node.prepare(statement.text)?.id;
                let values = Values::new(statement.values.iter().copied());
                statements.push(BatchStatement { source: StatementSource::Prepared(id), values });
            }
            let parameters =
                QueryParameters { consistency, now_in_seconds: Some(write.now), ..Default::default() };
            let batch_type = if write.is_counter { BatchType::Counter } else { BatchType::Unlogged };
            requests.push(Request::Batch(Batch { batch_type, statements, parameters }));
        }
        let lost = |error: std::io::Error| Failure::Retry(error.to_string());
        let answers = node.connection.call_all(&requests).map_err(lost)?;
        let failure = |answer| match answer {
            Response::Result(_) => None,
            other => Some(refusal(other)),
        };
        let failures: Vec<_> = answers.into_iter().map(failure).collect();
        if failures.iter().any(|failure| matches!(failure, Some(Failure::Unprepared))) {
            node.prepared.clear();
        }
        Ok(failures)
    }

    /// Repeats an idempotent attempt until it succeeds, is refused, or the cluster's time is over.
    fn repeat<T>(
        &mut self,
        statement: &str,
        mut attempt: impl FnMut(&mut Self, usize) -> std::result::Result<T, Failure>,
    ) -> Result<T> {
        let mut repeats = Repeats::new(self.cluster);
        loop {
            match attempt(self, repeats.count) {
                Ok(done) => return Ok(done),
                Err(failure) => {
                    let index = self.cluster.ring.node(0, repeats.count);
                    self.forget(index, &failure);
                    if matches!(failure, Failure::Retry(_)) {
                        // Any connection may be the broken one.
                        self.nodes.clear();
                    }
                    repeats.after(statement, failure)?;
                }
            }
        }
    }

    /// Drops what a failure has made unusable.
    fn forget(&mut self, node: usize, failure: &Failure) {
        match failure {
            Failure::Unprepared => self.nodes.values_mut().for_each(|node| node.prepared.clear()),
            Failure::Retry(_) => _ = self.nodes.remove(&node),
            Failure::Refused(_) => {}
        }
    }

    fn node(&mut self, index: usize) -> std::result::Result<&mut Node, Failure> {
        use std::collections::hash_map::Entry;
        match self.nodes.entry(index) {
            Entry::Occupied(entry) => Ok(entry.into_mut()),
            Entry::Vacant(entry) => {
                let address = &self.cluster.ring.nodes[index];
                let connection = self.cluster.settings.open(address)?;
                Ok(entry.insert(Node { connection, prepared: HashMap::new() }))
            }
        }
    }

    /// Starts to count repeats of an operation.
    pub fn repeats(&self) -> Repeats<'c> {
        Repeats::new(self.cluster)
    }
}

impl Node {
    fn prepare(&mut self, text: &str) -> std::result::Result<PreparedId, Failure> {
        if let Some(prepared) = self.prepared.get(text) {
            return Ok(prepared.clone());
        }
        let request = Request::Prepare(Prepare { query: text.into(), keyspace: None });
        match call(&mut self.connection, &request)? {
            Response::Result(ResultMessage::Prepared(prepared)) => {
                let prepared =
                    PreparedId { id: prepared.id, result_metadata_id: prepared.result_metadata_id };
                self.prepared.insert(text.to_owned(), prepared.clone());
                Ok(prepared)
            }
            other => Err(refusal(other)),
        }
    }
}

/// Pauses between the attempts of an operation, and their end.
pub struct Repeats<'c> {
    cluster: &'c Cluster,
    since: Option<Instant>,
    pub count: usize,
}

impl<'c> Repeats<'c> {
    fn new(cluster: &'c Cluster) -> Self {
        Self { cluster, since: None, count: 0 }
    }

    /// Waits for the next attempt.
    ///
    /// # Errors
    /// If the failure is final, or the cluster has failed for too long.
    pub fn after(&mut self, statement: &str, failure: Failure) -> Result<()> {
        let address = self.cluster.settings.address();
        let reason = match failure {
            Failure::Refused(reason) => {
                let reason = with_advice(reason);
                return Err(MoveError::Refused { address, statement: shortened(statement), reason });
            }
            Failure::Unprepared => "statements are evicted again and again".to_owned(),
            Failure::Retry(reason) => reason,
        };
        let since = *self.since.get_or_insert_with(Instant::now);
        if since.elapsed() > self.cluster.settings.patience {
            return Err(MoveError::Unreachable { address, reason });
        }
        let doubled = PAUSE * 2u32.pow(u32::try_from(self.count.min(8)).unwrap_or(8));
        std::thread::sleep(doubled.min(PAUSE_MAX).min(self.cluster.settings.patience));
        self.count += 1;
        Ok(())
    }
}

/// Adds what to do to the reason of a refusal, if an older version is that.
fn with_advice(reason: String) -> String {
    if reason.starts_with("Cannot use selection function") && reason.contains("on non-frozen") {
        return format!(
            "{reason}: Cassandra has that since 5.0; compare with the files of the nodes (--target-files), and move \
             the table by files (--by files) or adopt the directories of the nodes"
        );
    }
    reason
}

/// Returns the beginning of a long statement.
fn shortened(statement: &str) -> String {
    const LENGTH_MAX: usize = 200;
    match statement.char_indices().nth(LENGTH_MAX) {
        Some((at, _)) => format!("{}...", &statement[..at]),
        None => statement.to_owned(),
    }
}

/// Sends a request and waits for its response.
fn call(connection: &mut Connection, request: &Request) -> std::result::Result<Response, Failure> {
    match connection.call(request, false) {
        Ok((answer, _)) => Ok(answer),
        Err(error) => Err(Failure::Retry(error.to_string())),
    }
}

fn rows(answer: Response) -> std::result::Result<Option<Rows>, Failure> {
    match answer {
        Response::Result(ResultMessage::Rows(rows)) => {
            rows.decode(None).map(Some).map_err(|error| Failure::Refused(error.to_string()))
        }
        Response::Result(_) => Ok(None),
        other => Err(refusal(other)),
    }
}

fn page(answer: Response) -> std::result::Result<Page, Failure> {
    let Some(rows) = rows(answer)? else { return Ok(Page::default()) };
    let cell = |cell: Option<&[u8]>| cell.map(Bytes::copy_from_slice);
    Ok(Page {
        columns: rows.metadata.columns().iter().map(|column| column.name.to_string()).collect(),
        rows: rows.iter().map(|row| row.map(cell).collect()).collect(),
    })
}

/// Classifies a response that is not a result.
fn refusal(answer: Response) -> Failure {
    let Response::Error(Error { detail, message }) = answer else {
        return Failure::Refused(format!("unexpected response {}", answer.opcode()));
    };
    match detail {
        ErrorDetail::Unprepared { .. } => Failure::Unprepared,
        ErrorDetail::Unavailable { .. }
        | ErrorDetail::Overloaded
        | ErrorDetail::IsBootstrapping
        | ErrorDetail::WriteTimeout { .. }
        | ErrorDetail::ReadTimeout { .. }
        | ErrorDetail::ReadFailure { .. }
        | ErrorDetail::WriteFailure { .. } => Failure::Retry(message),
        _ => Failure::Refused(message),
    }
}
