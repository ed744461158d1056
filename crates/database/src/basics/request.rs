//! What comes with a statement: values and options.

use bytes::Bytes;
pub use cassette_rows::Consistency;

use crate::basics::error::{DatabaseError, Result};

/// What Cassandra lets statements have of the consistency levels.
pub(crate) trait ConsistencyRules {
    /// Refuses what a SELECT cannot have.
    fn validate_for_read(self) -> Result<()>;
    /// Refuses what an unconditional write cannot have.
    fn validate_for_write(self) -> Result<()>;
    /// Refuses what a conditional write cannot have, `serial` being the level of its serial phase.
    fn validate_for_conditional(self, serial: Consistency) -> Result<()>;
    /// Refuses what a write of counters in `table` cannot have.
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
                "{self} is not supported as conditional update commit consistency. Use ANY if you mean \"make sure it is accepted but I don't care how many replicas commit it for non-SERIAL reads\""
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

/// What a request says beside the statement and its values.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StatementOptions {
    /// The consistency level.
    pub consistency: Consistency,
    /// The level of the serial phase of a conditional statement; SERIAL when not given.
    pub serial_consistency: Option<Consistency>,
    /// Rows a page; no paging if absent, zero or negative.
    pub page_size: Option<i32>,
    /// Where to go on, as an earlier page said.
    pub paging_state: Option<Bytes>,
    /// Write time in microseconds for statements that do not say theirs.
    pub timestamp: Option<i64>,
    /// What to take for "now" (seconds since 1970) in expiring and testing for expiry.
    pub now_in_seconds: Option<u32>,
    /// The keyspace to resolve names in, instead of the session's.
    pub keyspace: Option<String>,
    /// Whether it belongs to a program that is part of the database, to which guardrails on the size of batches and on
    /// tombstones do not apply.
    pub is_internal: bool,
}

/// One bound value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BoundValue<'a> {
    /// Deletes what it is bound to.
    Null,
    /// Leaves what it is bound to as it is.
    Unset,
    /// The value's bytes, not yet checked.
    Set(&'a [u8]),
}

impl<'a> From<Option<&'a [u8]>> for BoundValue<'a> {
    fn from(bytes: Option<&'a [u8]>) -> Self {
        bytes.map_or(Self::Null, Self::Set)
    }
}

/// The values that come with one statement: by position, or by name.
#[derive(Debug, Clone, Copy)]
pub struct Values<'a> {
    /// The values.
    pub values: &'a [BoundValue<'a>],
    /// As many names as values, or `None` for values by position.
    pub names: Option<&'a [&'a str]>,
}

impl<'a> Values<'a> {
    /// No values.
    pub const NONE: Values<'static> = Values { values: &[], names: None };

    /// Values by position.
    pub const fn positional(values: &'a [BoundValue<'a>]) -> Self {
        Self { values, names: None }
    }

    /// The values in the order of the markers called `markers`, as many as there are markers.
    ///
    /// # Errors
    /// Too many or too few values, or a name that is missing, with Cassandra's texts.
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
