//! Schema changes: the result of a schema statement, and the event for other clients.

use crate::{
    ProtocolError, Version,
    notation::{Reader, write_string, write_string_list},
};

/// A change of a part of the schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaChange {
    /// The kind of change.
    pub change: ChangeType,
    /// The changed keyspace, or that of the changed part.
    pub keyspace: String,
    /// The changed element.
    pub target: SchemaTarget,
}

/// The kind of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the variants are the specification's names")]
pub enum ChangeType {
    Created,
    Updated,
    Dropped,
}

/// The part of the keyspace that changed. A change of an index is one of its table.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the variants are the specification's names")]
pub enum SchemaTarget {
    Keyspace,
    Table(String),
    Type(String),
    Function { name: String, arg_types: Vec<String> },
    Aggregate { name: String, arg_types: Vec<String> },
}

impl ChangeType {
    fn name(self) -> &'static str {
        match self {
            Self::Created => "CREATED",
            Self::Updated => "UPDATED",
            Self::Dropped => "DROPPED",
        }
    }
}

impl SchemaTarget {
    fn name(&self) -> &'static str {
        match self {
            Self::Keyspace => "KEYSPACE",
            Self::Table(_) => "TABLE",
            Self::Type(_) => "TYPE",
            Self::Function { .. } => "FUNCTION",
            Self::Aggregate { .. } => "AGGREGATE",
        }
    }
}

impl SchemaChange {
    /// `<change_type><target><options>`
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, ProtocolError> {
        let change = match reader.read_string()? {
            "CREATED" => ChangeType::Created,
            "UPDATED" => ChangeType::Updated,
            "DROPPED" => ChangeType::Dropped,
            other => return Err(ProtocolError::Invalid(format!("Invalid value '{other}' for Change"))),
        };
        let target = reader.read_string()?;
        let keyspace = reader.read_string()?.to_owned();
        let target = match target {
            "KEYSPACE" => SchemaTarget::Keyspace,
            "TABLE" => SchemaTarget::Table(reader.read_string()?.to_owned()),
            "TYPE" => SchemaTarget::Type(reader.read_string()?.to_owned()),
            "FUNCTION" => SchemaTarget::Function {
                name: reader.read_string()?.to_owned(),
                arg_types: reader.read_string_list()?,
            },
            "AGGREGATE" => SchemaTarget::Aggregate {
                name: reader.read_string()?.to_owned(),
                arg_types: reader.read_string_list()?,
            },
            other => return Err(ProtocolError::Invalid(format!("Invalid value '{other}' for Target"))),
        };
        Ok(Self { change, keyspace, target })
    }

    /// The reverse of [`SchemaChange::decode`]. v3 supports neither functions nor aggregates and
    /// receives an update of their keyspace.
    pub fn encode(&self, version: Version, buffer: &mut Vec<u8>) {
        let unknown_to_peer = version < Version::V4
            && matches!(self.target, SchemaTarget::Function { .. } | SchemaTarget::Aggregate { .. });
        let (change, target) = if unknown_to_peer {
            (ChangeType::Updated, &SchemaTarget::Keyspace)
        } else {
            (self.change, &self.target)
        };
        write_string(change.name(), buffer);
        write_string(target.name(), buffer);
        write_string(&self.keyspace, buffer);
        match target {
            SchemaTarget::Keyspace => {}
            SchemaTarget::Table(name) | SchemaTarget::Type(name) => write_string(name, buffer),
            SchemaTarget::Function { name, arg_types } | SchemaTarget::Aggregate { name, arg_types } => {
                write_string(name, buffer);
                write_string_list(arg_types, buffer);
            }
        }
    }
}
