//! PREPARE.

use crate::{
    ProtocolError, Text, Version,
    notation::{Reader, write_int, write_long_string, write_string},
};

/// The bit of `<flags>` (v5) for a keyspace.
const WITH_KEYSPACE: i32 = 0x01;

/// Prepares a statement for later execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prepare {
    /// The CQL text.
    pub query: Text,
    /// The keyspace for unqualified names, instead of the connection's (v5).
    pub keyspace: Option<String>,
}

impl Prepare {
    /// `<query>`, and from v5 on `<flags>[<keyspace>]`
    pub fn decode(reader: &mut Reader<'_>, version: Version) -> Result<Self, ProtocolError> {
        let query = reader.read_long_string_shared()?;
        let flags = if version >= Version::V5 { reader.read_int()? } else { 0 };
        let keyspace = if flags & WITH_KEYSPACE != 0 { Some(reader.read_string()?.to_owned()) } else { None };
        Ok(Self { query, keyspace })
    }

    /// The reverse of [`Prepare::decode`]. Before v5 the keyspace cannot be encoded and is omitted.
    pub fn encode(&self, version: Version, buffer: &mut Vec<u8>) {
        write_long_string(&self.query, buffer);
        if version >= Version::V5 {
            write_int(if self.keyspace.is_some() { WITH_KEYSPACE } else { 0 }, buffer);
            if let Some(keyspace) = &self.keyspace {
                write_string(keyspace, buffer);
            }
        }
    }
}
