//! AUTH_CHALLENGE.

use bytes::Bytes;

use crate::{
    ProtocolError,
    notation::{Reader, write_bytes},
};

/// The server's part in an exchange that authenticates the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthChallenge {
    /// The SASL token; what is in it is between client and authenticator.
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
