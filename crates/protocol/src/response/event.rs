//! EVENT.

use std::net::SocketAddr;

use crate::{
    ProtocolError, Version,
    notation::{Reader, write_inet, write_string},
    request::EventType,
    response::SchemaChange,
};

/// An event to which the client has subscribed. Sent on stream -1.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the variants are the specification's names")]
pub enum Event {
    TopologyChange { change: TopologyChange, address: SocketAddr },
    StatusChange { status: StatusChange, address: SocketAddr },
    SchemaChange(SchemaChange),
}

/// A change of a node's membership of the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the variants are the specification's names")]
pub enum TopologyChange {
    NewNode,
    RemovedNode,
    MovedNode,
}

/// The new state of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the variants are the specification's names")]
pub enum StatusChange {
    Up,
    Down,
}

impl Event {
    /// The stream of all events.
    pub const STREAM: i16 = -1;

    /// Returns the type of this event, for subscriptions.
    pub fn event_type(&self) -> EventType {
        match self {
            Self::TopologyChange { .. } => EventType::TopologyChange,
            Self::StatusChange { .. } => EventType::StatusChange,
            Self::SchemaChange(_) => EventType::SchemaChange,
        }
    }

    /// `<event_type>…`
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, ProtocolError> {
        match EventType::from_name(reader.read_string()?)? {
            EventType::TopologyChange => {
                let change = match reader.read_string()? {
                    "NEW_NODE" => TopologyChange::NewNode,
                    "REMOVED_NODE" => TopologyChange::RemovedNode,
                    "MOVED_NODE" => TopologyChange::MovedNode,
                    other => {
                        return Err(ProtocolError::Invalid(format!("Invalid value '{other}' for Change")));
                    }
                };
                Ok(Self::TopologyChange { change, address: reader.read_inet()? })
            }
            EventType::StatusChange => {
                let status = match reader.read_string()? {
                    "UP" => StatusChange::Up,
                    "DOWN" => StatusChange::Down,
                    other => {
                        return Err(ProtocolError::Invalid(format!("Invalid value '{other}' for Status")));
                    }
                };
                Ok(Self::StatusChange { status, address: reader.read_inet()? })
            }
            EventType::SchemaChange => Ok(Self::SchemaChange(SchemaChange::decode(reader)?)),
            EventType::TraceComplete => {
                Err(ProtocolError::Invalid("TRACE_COMPLETE events have no defined content".into()))
            }
        }
    }

    /// The reverse of [`Event::decode`].
    pub fn encode(&self, version: Version, buffer: &mut Vec<u8>) {
        write_string(self.event_type().name(), buffer);
        match self {
            Self::TopologyChange { change, address } => {
                let name = match change {
                    TopologyChange::NewNode => "NEW_NODE",
                    TopologyChange::RemovedNode => "REMOVED_NODE",
                    TopologyChange::MovedNode => "MOVED_NODE",
                };
                write_string(name, buffer);
                write_inet(*address, buffer);
            }
            Self::StatusChange { status, address } => {
                let name = match status {
                    StatusChange::Up => "UP",
                    StatusChange::Down => "DOWN",
                };
                write_string(name, buffer);
                write_inet(*address, buffer);
            }
            Self::SchemaChange(change) => change.encode(version, buffer),
        }
    }
}
