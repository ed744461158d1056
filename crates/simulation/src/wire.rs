//! A client's connection to the node: requests and responses cross it as bytes, as on a socket.
//!
//! Both ends are in this process, and a request is executed completely before the next one is
//! decoded. The steps are those of the server's connection, in the same order: a request is
//! executed with [`Effort::MemoryOnly`], and again with [`Effort::MayBlock`] if it would block.

use std::collections::HashMap;
use std::net::SocketAddr;

use bytes::{Bytes, BytesMut};
use cassette_database::Database;
use cassette_protocol::request::{Execute, Prepare, Query, Startup};
use cassette_protocol::response::{Error, ErrorDetail};
use cassette_protocol::{
    Compression, Decoder, Direction, Encoder, MESSAGE_LENGTH_MAX_DEFAULT, Opcode, Prelude, QueryParameters,
    Request, Response, ResultMessage, Rows, Version,
};
use cassette_server::{Answer, Backend, Body, ClientSession, Effort};

/// A CQL text and the values of its bind markers; `None` is null.
#[derive(Debug, Clone, Default)]
pub struct Cql {
    /// The text.
    pub text: String,
    /// The values.
    pub values: Vec<Option<Vec<u8>>>,
}

impl Cql {
    /// A text without bind markers.
    pub fn plain(text: impl Into<String>) -> Self {
        Self { text: text.into(), values: Vec::new() }
    }
}

/// Result that a client received.
#[derive(Debug)]
pub enum Reply {
    /// The rows of a page.
    Rows(Rows),
    /// The schema has changed.
    SchemaChanged,
    /// Any other result, including that of a schema change without effect.
    Done,
    /// An error.
    Refused(Error),
}

/// One client.
pub struct Wire {
    version: Version,
    session: ClientSession,
    client: (Encoder, Decoder),
    server: (Encoder, Decoder),
    stream: i16,
    /// The ids of prepared statements. The node loses them when it restarts.
    prepared: HashMap<String, Known>,
}

/// Response to PREPARE.
#[derive(Clone)]
struct Known {
    id: Bytes,
    result_metadata_id: Option<Bytes>,
}

impl Wire {
    /// Connects and sends STARTUP.
    pub fn connect(
        database: &Database,
        version: Version,
        compression: Option<Compression>,
    ) -> Result<Self, String> {
        let peer = SocketAddr::from(([127, 0, 0, 1], 40_000));
        let length = MESSAGE_LENGTH_MAX_DEFAULT;
        let mut wire = Self {
            version,
            session: database.open_session(peer),
            client: (Encoder::new(version), Decoder::new(Direction::Response, length)),
            server: (Encoder::new(version), Decoder::new(Direction::Request, length)),
            stream: 0,
            prepared: HashMap::new(),
        };
        let mut options = vec![(Startup::CQL_VERSION.to_owned(), "3.4.7".to_owned())];
        if let Some(compression) = compression {
            options.push((Startup::COMPRESSION.to_owned(), compression.name().to_owned()));
        }
        match wire.send(database, &Request::Startup(Startup { options }))? {
            Response::Ready => {}
            other => return Err(format!("STARTUP was answered with {:?}", other.opcode())),
        }
        for (encoder, decoder) in [&mut wire.client, &mut wire.server] {
            encoder.fix_version(version, compression);
            decoder.fix_version(version, compression);
        }
        Ok(wire)
    }

    /// The negotiated protocol version.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Executes a statement as text, or, if `prepared`, by its id.
    pub fn execute(
        &mut self,
        database: &Database,
        cql: &Cql,
        prepared: bool,
        parameters: QueryParameters,
    ) -> Result<Reply, String> {
        let values = cassette_protocol::Values::new(cql.values.iter().map(|value| value.as_deref().into()));
        let parameters = QueryParameters { values, ..parameters };
        if !prepared {
            return self
                .reply(database, &Request::Query(Query { query: cql.text.as_str().into(), parameters }));
        }
        let known = match self.prepared.get(&cql.text).cloned() {
            Some(known) => known,
            None => match self.prepare(database, &cql.text)? {
                Ok(known) => known,
                Err(error) => return Ok(Reply::Refused(error)),
            },
        };
        let execute = |known: Known| {
            let Known { id, result_metadata_id } = known;
            Request::Execute(Execute { id, result_metadata_id, parameters: parameters.clone() })
        };
        match self.reply(database, &execute(known))? {
            Reply::Refused(Error { detail: ErrorDetail::Unprepared { .. }, .. }) => {
                match self.prepare(database, &cql.text)? {
                    Ok(known) => self.reply(database, &execute(known)),
                    Err(error) => Ok(Reply::Refused(error)),
                }
            }
            reply => Ok(reply),
        }
    }

    /// Sends a BATCH.
    pub fn batch(
        &mut self,
        database: &Database,
        batch: cassette_protocol::request::Batch,
    ) -> Result<Reply, String> {
        self.reply(database, &Request::Batch(batch))
    }

    fn prepare(&mut self, database: &Database, text: &str) -> Result<Result<Known, Error>, String> {
        let prepare = Request::Prepare(Prepare { query: text.into(), keyspace: None });
        match self.send(database, &prepare)? {
            Response::Result(ResultMessage::Prepared(prepared)) => {
                let known = Known { id: prepared.id, result_metadata_id: prepared.result_metadata_id };
                self.prepared.insert(text.to_owned(), known.clone());
                Ok(Ok(known))
            }
            Response::Error(error) => Ok(Err(error)),
            other => Err(format!("PREPARE was answered with {:?}", other.opcode())),
        }
    }

    fn reply(&mut self, database: &Database, request: &Request) -> Result<Reply, String> {
        match self.send(database, request)? {
            Response::Result(ResultMessage::Rows(rows)) => {
                Ok(Reply::Rows(rows.decode(None).map_err(|error| error.to_string())?))
            }
            Response::Result(ResultMessage::SchemaChange(_)) => Ok(Reply::SchemaChanged),
            Response::Result(_) => Ok(Reply::Done),
            Response::Error(error) => Ok(Reply::Refused(error)),
            other => Err(format!("{:?} was answered with {:?}", request.opcode(), other.opcode())),
        }
    }

    /// Sends a request through both ends and returns the response.
    fn send(&mut self, database: &Database, request: &Request) -> Result<Response, String> {
        self.stream = (self.stream + 1) & 0x3fff;
        self.client.0.request(self.stream, request, false);
        let mut bytes = taken(&mut self.client.0);
        let envelope = self.server.1.next(&mut bytes).map_err(|rejected| rejected.error.to_string())?;
        let envelope = envelope.ok_or("the server waits for more bytes of a request")?;
        let decoded = Request::decode(&envelope).map_err(|error| error.to_string())?;
        if decoded.request.opcode() != request.opcode() {
            return Err(format!("{:?} arrived as {:?}", request.opcode(), decoded.request.opcode()));
        }
        self.serve(database, envelope.header.stream, &decoded.request);
        let mut bytes = taken(&mut self.server.0);
        let envelope = self.client.1.next(&mut bytes).map_err(|rejected| rejected.error.to_string())?;
        let envelope = envelope.ok_or("the client waits for more bytes of a response")?;
        if envelope.header.stream != self.stream || !bytes.is_empty() {
            return Err(format!("stream {}, {} bytes left over", envelope.header.stream, bytes.len()));
        }
        Response::decode(&envelope).map(|(response, _)| response).map_err(|error| error.to_string())
    }

    fn serve(&mut self, database: &Database, stream: i16, request: &Request) {
        let encoder = &mut self.server.0;
        if matches!(request, Request::Startup(_)) {
            return encoder.response(stream, &Response::Ready, &Prelude::default());
        }
        for effort in [Effort::MemoryOnly, Effort::MayBlock] {
            let begun = encoder.begin();
            let done = Backend::execute(
                database,
                &self.session,
                request,
                self.version,
                effort,
                None,
                Body::new(encoder.body()),
            );
            match done {
                Ok(Answer::Result(prelude)) => {
                    return encoder.finish_response(begun, stream, Opcode::Result, &prelude);
                }
                Ok(Answer::WouldBlock) => encoder.abandon(begun),
                Err(error) => {
                    encoder.abandon(begun);
                    return encoder.response(stream, &Response::Error(error), &Prelude::default());
                }
            }
        }
        let error = Error::new(ErrorDetail::ServerError, "a request that may block would block");
        encoder.response(stream, &Response::Error(error), &Prelude::default());
    }
}

/// Returns the bytes that an encoder has to send.
fn taken(encoder: &mut Encoder) -> BytesMut {
    encoder.seal();
    let bytes = BytesMut::from(encoder.bytes());
    encoder.clear(1 << 16);
    bytes
}
