//! EXECUTE.

use bytes::Bytes;

use crate::{
    ProtocolError, QueryParameters, Version,
    notation::{Reader, write_short_bytes},
};

/// Executes a prepared statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Execute {
    /// The id that PREPARE was answered with.
    pub id: Bytes,
    /// The id of the result metadata that the client knows (v5). When it is no longer the current one, the result says so
    /// and brings the new metadata along.
    pub result_metadata_id: Option<Bytes>,
    /// Its values and options.
    pub parameters: QueryParameters,
}

impl Execute {
    /// `<id>[<result_metadata_id>]<query_parameters>`
    pub fn decode(reader: &mut Reader<'_>, version: Version) -> Result<Self, ProtocolError> {
        let id = reader.read_short_bytes()?;
        let result_metadata_id = if version >= Version::V5 { Some(reader.read_short_bytes()?) } else { None };
        Ok(Self { id, result_metadata_id, parameters: QueryParameters::decode(reader, version)? })
    }

    /// The reverse of [`Execute::decode`]. In v5 an unknown metadata id is sent empty, in v3 and v4 there is no place
    /// for one.
    pub fn encode(&self, version: Version, buffer: &mut Vec<u8>) {
        write_short_bytes(&self.id, buffer);
        if version >= Version::V5 {
            write_short_bytes(self.result_metadata_id.as_deref().unwrap_or_default(), buffer);
        }
        self.parameters.encode(version, buffer);
    }
}
