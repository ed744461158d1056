//! QUERY.

use crate::{
    ProtocolError, QueryParameters, Text, Version,
    notation::{Reader, write_long_string},
};

/// Executes a statement given as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// The CQL text.
    pub query: Text,
    /// Its values and options.
    pub parameters: QueryParameters,
}

impl Query {
    /// `<query><query_parameters>`
    pub fn decode(reader: &mut Reader<'_>, version: Version) -> Result<Self, ProtocolError> {
        let query = reader.read_long_string_shared()?;
        Ok(Self { query, parameters: QueryParameters::decode(reader, version)? })
    }

    /// The reverse of [`Query::decode`].
    pub fn encode(&self, version: Version, buffer: &mut Vec<u8>) {
        write_long_string(&self.query, buffer);
        self.parameters.encode(version, buffer);
    }
}
