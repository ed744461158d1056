//! Responses and events of servers. One file per message, with the specification's names.

mod auth_challenge;
mod auth_success;
mod authenticate;
mod error;
mod event;
mod prelude;
mod prepared;
mod result;
mod schema_change;
mod supported;

pub use auth_challenge::AuthChallenge;
pub use auth_success::AuthSuccess;
pub use authenticate::Authenticate;
pub use error::{Error, ErrorDetail, Failures, WriteType};
pub use event::{Event, StatusChange, TopologyChange};
pub use prelude::Prelude;
pub use prepared::Prepared;
pub use result::{ResultKind, ResultMessage};
pub use schema_change::{ChangeType, SchemaChange, SchemaTarget};
pub use supported::Supported;

use crate::{Direction, Envelope, Opcode, ProtocolError, Version, notation::Reader};

/// A response's message.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the variants are the specification's names")]
pub enum Response {
    Error(Error),
    /// READY: the connection accepts requests. Its body is empty.
    Ready,
    Authenticate(Authenticate),
    Supported(Supported),
    Result(ResultMessage),
    Event(Event),
    AuthChallenge(AuthChallenge),
    AuthSuccess(AuthSuccess),
}

impl Response {
    /// Decodes an envelope's body: the prelude and the message.
    pub fn decode(envelope: &Envelope) -> Result<(Self, Prelude), ProtocolError> {
        let version = envelope.header.version;
        let mut reader = Reader::new(&envelope.body);
        let prelude = Prelude::decode(&mut reader, envelope.header.flags)?;
        let response = match envelope.header.opcode {
            Opcode::Result => Self::Result(ResultMessage::decode(&mut reader, version)?),
            Opcode::Error => Self::Error(Error::decode(&mut reader, version)?),
            Opcode::Ready => Self::Ready,
            Opcode::Authenticate => Self::Authenticate(Authenticate::decode(&mut reader)?),
            Opcode::Supported => Self::Supported(Supported::decode(&mut reader)?),
            Opcode::Event => Self::Event(Event::decode(&mut reader)?),
            Opcode::AuthChallenge => Self::AuthChallenge(AuthChallenge::decode(&mut reader)?),
            Opcode::AuthSuccess => Self::AuthSuccess(AuthSuccess::decode(&mut reader)?),
            opcode @ (Opcode::Startup
            | Opcode::Options
            | Opcode::Query
            | Opcode::Prepare
            | Opcode::Execute
            | Opcode::Register
            | Opcode::Batch
            | Opcode::AuthResponse) => {
                return Err(ProtocolError::WrongDirection { opcode, got: Direction::Response });
            }
        };
        Ok((response, prelude))
    }

    /// Appends the message to `buffer`.
    pub fn encode(&self, version: Version, buffer: &mut Vec<u8>) {
        match self {
            Self::Error(error) => error.encode(version, buffer),
            Self::Ready => {}
            Self::Authenticate(authenticate) => authenticate.encode(buffer),
            Self::Supported(supported) => supported.encode(buffer),
            Self::Result(result) => result.encode(version, buffer),
            Self::Event(event) => event.encode(version, buffer),
            Self::AuthChallenge(challenge) => challenge.encode(buffer),
            Self::AuthSuccess(success) => success.encode(buffer),
        }
    }

    /// Returns the kind of the message.
    pub fn opcode(&self) -> Opcode {
        match self {
            Self::Error(_) => Opcode::Error,
            Self::Ready => Opcode::Ready,
            Self::Authenticate(_) => Opcode::Authenticate,
            Self::Supported(_) => Opcode::Supported,
            Self::Result(_) => Opcode::Result,
            Self::Event(_) => Opcode::Event,
            Self::AuthChallenge(_) => Opcode::AuthChallenge,
            Self::AuthSuccess(_) => Opcode::AuthSuccess,
        }
    }
}
