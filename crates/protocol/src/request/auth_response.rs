//! AUTH_RESPONSE.

use std::fmt;

use bytes::Bytes;

use crate::{
    ProtocolError,
    notation::{Reader, write_bytes},
};

/// The client's message of an authentication exchange.
#[derive(Clone, PartialEq, Eq)]
pub struct AuthResponse {
    /// The SASL token, whose content only client and authenticator interpret.
    pub token: Option<Bytes>,
}

/// Tokens contain passwords, so they are not printed.
impl fmt::Debug for AuthResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthResponse").finish_non_exhaustive()
    }
}

impl AuthResponse {
    /// `<token>`
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, ProtocolError> {
        Ok(Self { token: reader.read_bytes_shared()? })
    }

    /// The reverse of [`AuthResponse::decode`].
    pub fn encode(&self, buffer: &mut Vec<u8>) {
        write_bytes(self.token.as_deref(), buffer);
    }
}
