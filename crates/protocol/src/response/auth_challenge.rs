//! AUTH_CHALLENGE.

use bytes::Bytes;

use crate::{
    ProtocolError,
    notation::{Reader, write_bytes},
};

/// The server's message of an authentication exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthChallenge {
    /// The SASL token, whose content only client and authenticator interpret.
    pub token: Option<Bytes>,
}

impl AuthChallenge {
    /// `<token>`
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, ProtocolError> {
        Ok(Self { token: reader.read_bytes_shared()? })
    }

    /// The reverse of [`AuthChallenge::decode`].
    pub fn encode(&self, buffer: &mut Vec<u8>) {
        write_bytes(self.token.as_deref(), buffer);
    }
}
