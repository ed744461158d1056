//! EXECUTE.

use bytes::Bytes;

use crate::{
    ProtocolError, QueryParameters, Version,
    notation::{Reader, write_short_bytes},
};

/// Executes a prepared statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Execute {
    /// The id from the answer to PREPARE.
    pub id: Bytes,
    /// The id of the result metadata that the client has (v5). If it is out of date, the result
    /// contains the new metadata.
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

    /// The reverse of [`Execute::decode`]. In v5 an unknown metadata id is sent empty; v3 and v4
    /// cannot encode one.
    pub fn encode(&self, version: Version, buffer: &mut Vec<u8>) {
        write_short_bytes(&self.id, buffer);
        if version >= Version::V5 {
            write_short_bytes(self.result_metadata_id.as_deref().unwrap_or_default(), buffer);
        }
        self.parameters.encode(version, buffer);
    }
}
