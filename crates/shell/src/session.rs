//! A session: its link, the settings of its requests, and the execution of statements.

use std::time::Duration;

use bytes::Bytes;
use cassette_protocol::request::{Prepare, Query};
use cassette_protocol::response::Prepared;
use cassette_protocol::{
    Consistency, Prelude, QueryParameters, Request, Response, ResultMessage, Rows, Version,
};
use cassette_rows::DataType;
use cassette_rows::types::collection;
use uuid::Uuid;

use crate::error::{Result, ShellError, command};
use crate::link::{Endpoint, Link};

/// Rows of a page by default, as in cqlsh.
pub const PAGE_SIZE: i32 = 100;

/// A session with a server or a database.
pub struct Session {
    endpoint: Box<dyn Endpoint>,
    link: Option<Box<dyn Link>>,
    /// The keyspace of USE.
    pub keyspace: Option<String>,
    /// The consistency level of requests.
    pub consistency: Consistency,
    /// That of the serial phase of conditional writes.
    pub serial_consistency: Consistency,
    /// Rows of a page; `None` if paging is off.
    pub page_size: Option<i32>,
    /// Whether requests are traced.
    pub traces: bool,
}

/// The result of a statement.
pub struct Done {
    /// The rows, if the statement returns any.
    pub rows: Option<Rows>,
    /// Warnings of the server.
    pub warnings: Vec<String>,
    /// The trace of the request.
    pub trace: Option<Uuid>,
    /// Whether the statement changed the schema or the keyspace in use.
    pub schema_changed: bool,
}

/// How a request differs from the session's settings.
#[derive(Default)]
pub struct RequestOptions {
    /// The consistency level, unless it is the session's.
    pub consistency: Option<Consistency>,
    /// Where the page starts.
    pub paging_state: Option<Bytes>,
    /// Whether all rows are wanted at once.
    pub unpaged: bool,
    /// Whether the session's tracing applies.
    pub traced: bool,
}

impl Session {
    /// Opens a session.
    ///
    /// # Errors
    /// If the endpoint cannot be reached, or the keyspace does not exist.
    pub fn open(endpoint: Box<dyn Endpoint>, keyspace: Option<&str>) -> Result<Self> {
        let link = endpoint.open(None)?;
        let mut session = Self {
            endpoint,
            link: Some(link),
            keyspace: None,
            consistency: Consistency::One,
            serial_consistency: Consistency::Serial,
            page_size: Some(PAGE_SIZE),
            traces: false,
        };
        if let Some(keyspace) = keyspace {
            session.select_keyspace(keyspace)?;
        }
        Ok(session)
    }

    /// Returns where statements are executed.
    pub fn endpoint(&self) -> &dyn Endpoint {
        self.endpoint.as_ref()
    }

    /// Continues with another login. The session stays as it is if the login fails.
    ///
    /// # Errors
    /// If the login fails.
    pub fn log_in(&mut self, user: String, password: String) -> Result<()> {
        let endpoint = self.endpoint.with_login((user, password))?;
        self.link = Some(opened(endpoint.as_ref(), self.keyspace.as_deref(), None)?);
        self.endpoint = endpoint;
        Ok(())
    }

    /// Opens a further link in the same keyspace. `timeout` is the maximum time for a response, if
    /// it is not the session's.
    ///
    /// # Errors
    /// If the endpoint cannot be reached.
    pub fn open_link(&self, timeout: Option<Duration>) -> Result<Box<dyn Link>> {
        opened(self.endpoint.as_ref(), self.keyspace.as_deref(), timeout)
    }

    /// Returns the version of the protocol.
    pub fn version(&self) -> Version {
        self.link.as_ref().map_or(Version::V5, |link| link.version())
    }

    fn select_keyspace(&mut self, keyspace: &str) -> Result<()> {
        let statement = format!("USE {}", cassette_cql::quote_identifier(keyspace));
        self.execute(&statement, RequestOptions::default()).map(drop)
    }

    /// Executes a statement.
    ///
    /// # Errors
    /// The server's error, or that of the connection. The next statement opens a new one.
    pub fn execute(&mut self, statement: &str, options: RequestOptions) -> Result<Done> {
        let parameters = QueryParameters {
            consistency: options.consistency.unwrap_or(self.consistency),
            serial_consistency: Some(self.serial_consistency),
            page_size: if options.unpaged { None } else { self.page_size },
            paging_state: options.paging_state,
            ..QueryParameters::default()
        };
        let request = Request::Query(Query { query: statement.into(), parameters });
        let (response, prelude) = self.call(&request, self.traces && options.traced)?;
        self.done(response, prelude)
    }

    /// Prepares a statement.
    ///
    /// # Errors
    /// See [`execute`](Self::execute).
    pub fn prepare(&mut self, statement: &str) -> Result<Prepared> {
        match self.call(&Request::Prepare(Prepare { query: statement.into(), keyspace: None }), false)? {
            (Response::Result(ResultMessage::Prepared(prepared)), _) => Ok(prepared),
            (other, _) => Err(unexpected(other)),
        }
    }

    /// Reads all rows of a query of the shell itself.
    ///
    /// # Errors
    /// See [`execute`](Self::execute).
    pub fn query(&mut self, statement: &str) -> Result<Table> {
        let options = RequestOptions {
            unpaged: true,
            consistency: Some(Consistency::One),
            ..RequestOptions::default()
        };
        let done = self.execute(statement, options)?;
        let rows = done.rows.ok_or_else(|| command(format!("{statement}: expected rows")))?;
        Ok(Table::new(&rows))
    }

    fn call(&mut self, request: &Request, trace: bool) -> Result<(Response, Prelude)> {
        if self.link.is_none() {
            self.link = Some(opened(self.endpoint.as_ref(), self.keyspace.as_deref(), None)?);
        }
        let Some(link) = &mut self.link else { return Err(command("there is no connection")) };
        let answer = link.call(request, trace);
        if answer.is_err() {
            self.link = None;
        }
        answer
    }

    fn done(&mut self, response: Response, prelude: Prelude) -> Result<Done> {
        let mut done =
            Done { rows: None, warnings: prelude.warnings, trace: prelude.tracing_id, schema_changed: false };
        match response {
            Response::Result(ResultMessage::Rows(rows)) => {
                let rows = rows.decode(None);
                done.rows = Some(rows.map_err(|error| ShellError::Lost(format!("invalid rows: {error}")))?);
            }
            Response::Result(ResultMessage::SetKeyspace(keyspace)) => {
                self.keyspace = Some(keyspace);
                done.schema_changed = true;
            }
            Response::Result(ResultMessage::SchemaChange(_)) => done.schema_changed = true,
            Response::Result(_) => {}
            other => return Err(unexpected(other)),
        }
        Ok(done)
    }
}

/// Opens a link, and selects a keyspace there.
fn opened(
    endpoint: &dyn Endpoint,
    keyspace: Option<&str>,
    timeout: Option<Duration>,
) -> Result<Box<dyn Link>> {
    let mut link = endpoint.open(timeout)?;
    if let Some(keyspace) = keyspace {
        let query = format!("USE {}", cassette_cql::quote_identifier(keyspace)).into();
        let request = Request::Query(Query { query, parameters: QueryParameters::default() });
        if let (Response::Error(error), _) = link.call(&request, false)? {
            return Err(ShellError::Server(Box::new(error)));
        }
    }
    Ok(link)
}

/// Returns the error of a response that is no result.
pub fn unexpected(response: Response) -> ShellError {
    match response {
        Response::Error(error) => ShellError::Server(Box::new(error)),
        other => ShellError::Lost(format!("unexpected response {}", other.opcode())),
    }
}

/// The rows of a query of the shell itself.
pub struct Table {
    columns: Vec<(String, DataType)>,
    rows: Vec<Vec<Option<Bytes>>>,
}

impl Table {
    fn new(rows: &Rows) -> Self {
        let columns = rows.metadata.columns().iter();
        Self {
            columns: columns.map(|column| (column.name.to_string(), column.data_type.clone())).collect(),
            rows: rows.iter().map(|row| row.map(|cell| cell.map(Bytes::copy_from_slice)).collect()).collect(),
        }
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns the bytes of a cell.
    pub fn cell(&self, row: usize, column: &str) -> Option<&[u8]> {
        let index = self.columns.iter().position(|(name, _)| name == column)?;
        self.rows.get(row)?.get(index)?.as_deref()
    }

    /// Returns a cell as text; empty if it is null or absent.
    pub fn text(&self, row: usize, column: &str) -> String {
        let Some((_, data_type)) = self.columns.iter().find(|(name, _)| name == column) else {
            return String::new();
        };
        let cell = self.cell(row, column);
        cell.map_or_else(String::new, |bytes| cassette_cql::values::text::to_text(data_type, bytes))
    }

    /// Returns a cell that is a list or a set of texts.
    pub fn texts(&self, row: usize, column: &str) -> Vec<String> {
        let items = self.cell(row, column).map(collection::read_list).into_iter().flatten().flatten();
        items.map(|item| String::from_utf8_lossy(item).into_owned()).collect()
    }

    /// Returns a whole number of 1 to 8 bytes.
    pub fn number(&self, row: usize, column: &str) -> Option<i64> {
        let bytes = self.cell(row, column)?;
        match *bytes {
            [a, b, c, d] => Some(i32::from_be_bytes([a, b, c, d]).into()),
            _ => bytes.try_into().ok().map(i64::from_be_bytes),
        }
    }
}
