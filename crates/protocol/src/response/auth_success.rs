//! AUTH_SUCCESS.

use bytes::Bytes;

use crate::{
    ProtocolError,
    notation::{Reader, write_bytes},
};

/// The end of an exchange that has authenticated the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthSuccess {
    /// The SASL token, whose content only client and authenticator interpret.
    pub token: Option<Bytes>,
}

impl AuthSuccess {
    /// `<token>`
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, ProtocolError> {
        Ok(Self { token: reader.read_bytes_shared()? })
    }

    /// The reverse of [`AuthSuccess::decode`].
    pub fn encode(&self, buffer: &mut Vec<u8>) {
        write_bytes(self.token.as_deref(), buffer);
    }
}
