//! AUTHENTICATE.

use crate::{
    ProtocolError,
    notation::{Reader, write_string},
};

/// Requires the client to authenticate itself with AUTH_RESPONSE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authenticate {
    /// Full class name of the authenticator. Drivers choose the mechanism by it.
    pub authenticator: String,
}

impl Authenticate {
    /// `<authenticator>`
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, ProtocolError> {
        Ok(Self { authenticator: reader.read_string()?.to_owned() })
    }

    /// The reverse of [`Authenticate::decode`].
    pub fn encode(&self, buffer: &mut Vec<u8>) {
        write_string(&self.authenticator, buffer);
    }
}
