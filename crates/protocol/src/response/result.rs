//! RESULT.

use crate::{
    ProtocolError, Version,
    notation::{Reader, write_int, write_string},
    response::{Prepared, SchemaChange},
    rows::EncodedRows,
};

/// The result of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResultMessage {
    /// No result.
    Void,
    /// Rows in their encoding; [`EncodedRows::decode`] decodes them.
    Rows(EncodedRows),
    /// USE selected this keyspace.
    SetKeyspace(String),
    /// The answer to PREPARE.
    Prepared(Prepared),
    /// The statement changed the schema.
    SchemaChange(SchemaChange),
}

/// `<kind>`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the variants are the specification's names")]
#[repr(i32)]
pub enum ResultKind {
    Void = 0x0001,
    Rows = 0x0002,
    SetKeyspace = 0x0003,
    Prepared = 0x0004,
    SchemaChange = 0x0005,
}

impl ResultKind {
    /// Appends the kind, the first field of a RESULT body.
    pub fn encode(self, buffer: &mut Vec<u8>) {
        write_int(self as i32, buffer);
    }
}

impl ResultMessage {
    /// Returns the kind of the result.
    pub fn kind(&self) -> ResultKind {
        match self {
            Self::Void => ResultKind::Void,
            Self::Rows(_) => ResultKind::Rows,
            Self::SetKeyspace(_) => ResultKind::SetKeyspace,
            Self::Prepared(_) => ResultKind::Prepared,
            Self::SchemaChange(_) => ResultKind::SchemaChange,
        }
    }

    /// `<kind>…`
    pub fn decode(reader: &mut Reader<'_>, version: Version) -> Result<Self, ProtocolError> {
        match reader.read_int()? {
            0x0001 => Ok(Self::Void),
            0x0002 => Ok(Self::Rows(EncodedRows::new(reader.rest(), version))),
            0x0003 => Ok(Self::SetKeyspace(reader.read_string()?.to_owned())),
            0x0004 => Ok(Self::Prepared(Prepared::decode(reader, version)?)),
            0x0005 => Ok(Self::SchemaChange(SchemaChange::decode(reader)?)),
            other => Err(ProtocolError::Invalid(format!("Unknown kind id {other} in RESULT message"))),
        }
    }

    /// The reverse of [`ResultMessage::decode`].
    pub fn encode(&self, version: Version, buffer: &mut Vec<u8>) {
        self.kind().encode(buffer);
        match self {
            Self::Void => {}
            Self::Rows(rows) => buffer.extend_from_slice(rows.body()),
            Self::SetKeyspace(keyspace) => write_string(keyspace, buffer),
            Self::Prepared(prepared) => prepared.encode(version, buffer),
            Self::SchemaChange(change) => change.encode(version, buffer),
        }
    }
}
