//! REGISTER.

use std::fmt;

use crate::{
    ProtocolError,
    notation::{Reader, write_count, write_string},
};

/// Subscribes this connection to events of some types; answered by READY.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Register {
    /// The subscribed types.
    pub event_types: Vec<EventType>,
}

/// The type of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventType {
    /// Nodes were added or removed.
    TopologyChange,
    /// Nodes went up or down.
    StatusChange,
    /// The schema changed.
    SchemaChange,
    /// A traced request is complete. Cassandra accepts the registration (v4 and later) and never
    /// sends the event.
    TraceComplete,
}

impl EventType {
    /// All types.
    pub const ALL: [Self; 4] =
        [Self::TopologyChange, Self::StatusChange, Self::SchemaChange, Self::TraceComplete];

    /// The type by its name, in any case.
    pub fn from_name(name: &str) -> Result<Self, ProtocolError> {
        Self::ALL
            .into_iter()
            .find(|event_type| event_type.name().eq_ignore_ascii_case(name))
            .ok_or_else(|| ProtocolError::Invalid(format!("Invalid value '{name}' for Type")))
    }

    /// The name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::TopologyChange => "TOPOLOGY_CHANGE",
            Self::StatusChange => "STATUS_CHANGE",
            Self::SchemaChange => "SCHEMA_CHANGE",
            Self::TraceComplete => "TRACE_COMPLETE",
        }
    }
}

impl fmt::Display for EventType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Register {
    /// \[string list\]
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, ProtocolError> {
        let event_types = reader
            .read_string_list()?
            .iter()
            .map(|name| EventType::from_name(name))
            .collect::<Result<_, _>>()?;
        Ok(Self { event_types })
    }

    /// The reverse of [`Register::decode`].
    pub fn encode(&self, buffer: &mut Vec<u8>) {
        write_count(self.event_types.len(), buffer);
        for event_type in &self.event_types {
            write_string(event_type.name(), buffer);
        }
    }
}
