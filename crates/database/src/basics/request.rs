//! The values and options of a request.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
pub use cassette_rows::Consistency;

use crate::basics::error::{DatabaseError, Result};

/// Cassandra's rules for consistency levels of statements.
pub(crate) trait ConsistencyRules {
    /// Rejects levels that a SELECT cannot have.
    fn validate_for_read(self) -> Result<()>;
    /// Rejects levels that an unconditional write cannot have.
    fn validate_for_write(self) -> Result<()>;
    /// Rejects levels that a conditional write cannot have; `serial` is the level of its serial
    /// phase.
    fn validate_for_conditional(self, serial: Consistency) -> Result<()>;
    /// Rejects levels that a counter write of `table` cannot have.
    fn validate_for_counters(self, table: &str) -> Result<()>;
}

impl ConsistencyRules for Consistency {
    fn validate_for_read(self) -> Result<()> {
        match self {
            Self::Any => Err(DatabaseError::invalid("ANY ConsistencyLevel is only supported for writes")),
            _ => Ok(()),
        }
    }

    fn validate_for_write(self) -> Result<()> {
        if self.is_serial() {
            Err(DatabaseError::invalid("You must use conditional updates for serializable writes"))
        } else {
            Ok(())
        }
    }

    fn validate_for_conditional(self, serial: Consistency) -> Result<()> {
        if !serial.is_serial() {
            return Err(DatabaseError::invalid(
                "Invalid consistency for conditional update. Must be one of SERIAL or LOCAL_SERIAL",
            ));
        }
        if self.is_serial() {
            Err(DatabaseError::Invalid(format!(
                "{self} is not supported as conditional update commit consistency. Use ANY if you \
                 mean \"make sure it is accepted but I don't care how many replicas commit it for \
                 non-SERIAL reads\""
            )))
        } else {
            Ok(())
        }
    }

    fn validate_for_counters(self, table: &str) -> Result<()> {
        match self {
            Self::Any => Err(DatabaseError::Invalid(format!(
                "Consistency level ANY is not yet supported for counter table {table}"
            ))),
            level if level.is_serial() => {
                Err(DatabaseError::invalid("Counter operations are inherently non-serializable"))
            }
            _ => Ok(()),
        }
    }
}

/// The options of a request, without its statement and values.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StatementOptions {
    /// The consistency level.
    pub consistency: Consistency,
    /// The level of the serial phase of a conditional statement; SERIAL by default.
    pub serial_consistency: Option<Consistency>,
    /// The number of rows of a page; no paging if absent, zero or negative.
    pub page_size: Option<i32>,
    /// The position after an earlier page.
    pub paging_state: Option<Bytes>,
    /// The write timestamp in microseconds of statements without USING TIMESTAMP.
    pub timestamp: Option<i64>,
    /// The current time (seconds since 1970) for TTLs and expiration, instead of the clock's.
    pub now_in_seconds: Option<u32>,
    /// The keyspace for unqualified names, instead of the session's.
    pub keyspace: Option<String>,
    /// Who executes it.
    pub caller: Caller,
    /// The address of the client, which `CassandraCIDRAuthorizer` checks; none for requests that do
    /// not come over a network.
    pub client_address: Option<IpAddr>,
    /// The virtual node that coordinates the request, by its index; the first by default.
    pub node: u16,
    /// Whether the request is internal to the database and exempt from the guardrails on batch
    /// sizes and tombstones.
    pub is_internal: bool,
}

/// Who executes a statement.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Caller {
    /// The program that opened the database: every statement is permitted.
    #[default]
    Program,
    /// A client of a server without authentication. Like Cassandra, it may read and write
    /// everything, but execute no statement about roles.
    Anonymous,
    /// A client that has logged in as this role.
    Role(Arc<str>),
}

/// One bound value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BoundValue<'a> {
    /// Null: deletes the column.
    Null,
    /// Unset: leaves the column unchanged.
    Unset,
    /// The bytes of the value, not yet validated.
    Set(&'a [u8]),
}

impl<'a> From<Option<&'a [u8]>> for BoundValue<'a> {
    fn from(bytes: Option<&'a [u8]>) -> Self {
        bytes.map_or(Self::Null, Self::Set)
    }
}

/// The values of one statement, by position or by name.
#[derive(Debug, Clone, Copy)]
pub struct Values<'a> {
    /// The values.
    pub values: &'a [BoundValue<'a>],
    /// The name of each value, or `None` for values by position.
    pub names: Option<&'a [&'a str]>,
}

impl<'a> Values<'a> {
    /// No values.
    pub const NONE: Values<'static> = Values { values: &[], names: None };

    /// Returns values by position.
    pub const fn positional(values: &'a [BoundValue<'a>]) -> Self {
        Self { values, names: None }
    }

    /// Returns the values in the order of `markers`, as many as there are markers.
    ///
    /// # Errors
    /// Returns Cassandra's messages for too many or too few values, and for a missing name.
    pub(crate) fn in_marker_order<'m>(
        &self,
        markers: impl ExactSizeIterator<Item = &'m str>,
        scratch: &'a mut Vec<BoundValue<'a>>,
    ) -> Result<&'a [BoundValue<'a>]> {
        let Some(names) = self.names else {
            if self.values.len() != markers.len() {
                return Err(DatabaseError::Invalid(format!(
                    "there were {} markers(?) in CQL but {} bound variables",
                    markers.len(),
                    self.values.len()
                )));
            }
            return Ok(self.values);
        };
        scratch.clear();
        for marker in markers {
            let index = names.iter().position(|name| *name == marker);
            match index.and_then(|index| self.values.get(index)) {
                Some(value) => scratch.push(*value),
                None => {
                    return Err(DatabaseError::Invalid(format!("Missing value for bind marker {marker}")));
                }
            }
        }
        Ok(scratch)
    }
}
