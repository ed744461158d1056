//! Requests of clients. One file per message, with the specification's names.

mod auth_response;
mod batch;
mod execute;
mod options;
mod prepare;
mod query;
mod register;
mod startup;

use bytes::Bytes;

pub use auth_response::AuthResponse;
pub use batch::{Batch, BatchStatement, BatchType, StatementSource};
pub use execute::Execute;
pub use options::Options;
pub use prepare::Prepare;
pub use query::Query;
pub use register::{EventType, Register};
pub use startup::Startup;

use crate::{Direction, Envelope, Flags, Opcode, ProtocolError, Version, notation::Reader};

/// A request's message.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the variants are the specification's names")]
pub enum Request {
    Startup(Startup),
    Options(Options),
    AuthResponse(AuthResponse),
    Query(Query),
    Prepare(Prepare),
    Execute(Execute),
    Batch(Batch),
    Register(Register),
}

/// The content of an envelope with a request: the message, and the flags of its header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodedRequest {
    /// The message.
    pub request: Request,
    /// Whether the client requests a trace.
    pub tracing: bool,
    /// Data for a custom query handler.
    pub custom_payload: Vec<(String, Option<Bytes>)>,
}

impl Request {
    /// Decodes an envelope's body: the prelude and the message.
    pub fn decode(envelope: &Envelope) -> Result<DecodedRequest, ProtocolError> {
        let version = envelope.header.version;
        let mut reader = Reader::new(&envelope.body);
        let custom_payload = if envelope.header.flags.contains(Flags::CUSTOM_PAYLOAD) {
            if version < Version::V4 {
                return Err(ProtocolError::Invalid(
                    "Received frame with CUSTOM_PAYLOAD flag for native protocol version < 4".into(),
                ));
            }
            reader.read_bytes_map()?
        } else {
            Vec::new()
        };
        let request = Self::decode_message(envelope.header.opcode, &mut reader, version)?;
        Ok(DecodedRequest {
            request,
            tracing: envelope.header.flags.contains(Flags::TRACING),
            custom_payload,
        })
    }

    fn decode_message(
        opcode: Opcode,
        reader: &mut Reader<'_>,
        version: Version,
    ) -> Result<Self, ProtocolError> {
        Ok(match opcode {
            Opcode::Execute => Self::Execute(Execute::decode(reader, version)?),
            Opcode::Query => Self::Query(Query::decode(reader, version)?),
            Opcode::Batch => Self::Batch(Batch::decode(reader, version)?),
            Opcode::Prepare => Self::Prepare(Prepare::decode(reader, version)?),
            Opcode::Startup => Self::Startup(Startup::decode(reader)?),
            Opcode::Options => Self::Options(Options),
            Opcode::AuthResponse => Self::AuthResponse(AuthResponse::decode(reader)?),
            Opcode::Register => Self::Register(Register::decode(reader)?),
            Opcode::Error
            | Opcode::Ready
            | Opcode::Authenticate
            | Opcode::Supported
            | Opcode::Result
            | Opcode::Event
            | Opcode::AuthChallenge
            | Opcode::AuthSuccess => {
                return Err(ProtocolError::WrongDirection { opcode, got: Direction::Request });
            }
        })
    }

    /// Appends the message to `buffer`.
    pub fn encode(&self, version: Version, buffer: &mut Vec<u8>) {
        match self {
            Self::Startup(startup) => startup.encode(buffer),
            Self::Options(Options) => {}
            Self::AuthResponse(response) => response.encode(buffer),
            Self::Query(query) => query.encode(version, buffer),
            Self::Prepare(prepare) => prepare.encode(version, buffer),
            Self::Execute(execute) => execute.encode(version, buffer),
            Self::Batch(batch) => batch.encode(version, buffer),
            Self::Register(register) => register.encode(buffer),
        }
    }

    /// Returns the kind of the message.
    pub fn opcode(&self) -> Opcode {
        match self {
            Self::Startup(_) => Opcode::Startup,
            Self::Options(_) => Opcode::Options,
            Self::AuthResponse(_) => Opcode::AuthResponse,
            Self::Query(_) => Opcode::Query,
            Self::Prepare(_) => Opcode::Prepare,
            Self::Execute(_) => Opcode::Execute,
            Self::Batch(_) => Opcode::Batch,
            Self::Register(_) => Opcode::Register,
        }
    }
}
