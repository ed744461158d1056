//! BATCH.

use bytes::Bytes;

use crate::{
    ProtocolError, QueryParameters, Text, Values, Version,
    notation::{Reader, write_byte, write_count, write_long_string, write_short_bytes},
};

/// Executes several modifications as one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// The atomicity of the batch.
    pub batch_type: BatchType,
    /// The modifications in order.
    pub statements: Vec<BatchStatement>,
    /// Options for all of them; its `values` are empty.
    pub parameters: QueryParameters,
}

/// The atomicity of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum BatchType {
    /// Atomic: all or none, over any number of partitions.
    Logged = 0,
    /// Atomic within each partition only.
    Unlogged = 1,
    /// Counter updates, and nothing else.
    Counter = 2,
}

/// One statement of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchStatement {
    /// The text or the id.
    pub source: StatementSource,
    /// Its bound values, never named.
    pub values: Values,
}

/// A statement by its text or by its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StatementSource {
    /// CQL text.
    Query(Text),
    /// The id from the answer to PREPARE.
    Prepared(Bytes),
}

/// `<kind>` of a statement given as text.
const KIND_QUERY: u8 = 0;

/// `<kind>` of a prepared statement.
const KIND_PREPARED: u8 = 1;

impl Batch {
    /// `<type><n><query_1>…<query_n><consistency><flags>…`
    pub fn decode(reader: &mut Reader<'_>, version: Version) -> Result<Self, ProtocolError> {
        let batch_type = match reader.read_byte()? {
            0 => BatchType::Logged,
            1 => BatchType::Unlogged,
            2 => BatchType::Counter,
            other => return Err(ProtocolError::Invalid(format!("Invalid BATCH message type {other}"))),
        };
        let count = usize::from(reader.read_short()?);
        // The shortest statement: its kind, an empty id and no values.
        let mut statements = Vec::with_capacity(reader.bounded(count, 5));
        for _ in 0..count {
            statements.push(BatchStatement::decode(reader, version)?);
        }
        let parameters = QueryParameters::decode(reader, version)?;
        if !parameters.values.is_empty() {
            return Err(ProtocolError::Invalid(
                "Invalid BATCH message: values belong to its statements, not to the batch".into(),
            ));
        }
        Ok(Self { batch_type, statements, parameters })
    }

    /// The reverse of [`Batch::decode`].
    pub fn encode(&self, version: Version, buffer: &mut Vec<u8>) {
        write_byte(self.batch_type as u8, buffer);
        write_count(self.statements.len(), buffer);
        for statement in &self.statements {
            statement.encode(buffer);
        }
        self.parameters.encode(version, buffer);
    }
}

impl BatchStatement {
    /// `<kind><string_or_id><n><value_1>…<value_n>`
    ///
    /// Names of values precede the flag that would announce them, so no server can parse them and
    /// none does (CASSANDRA-10246).
    fn decode(reader: &mut Reader<'_>, version: Version) -> Result<Self, ProtocolError> {
        let source = match reader.read_byte()? {
            KIND_QUERY => StatementSource::Query(reader.read_long_string_shared()?),
            KIND_PREPARED => StatementSource::Prepared(reader.read_short_bytes()?),
            other => {
                return Err(ProtocolError::Invalid(format!(
                    "Invalid query kind in BATCH messages. Must be 0 or 1 but got {other}"
                )));
            }
        };
        Ok(Self { source, values: Values::decode(reader, version, false)? })
    }

    fn encode(&self, buffer: &mut Vec<u8>) {
        match &self.source {
            StatementSource::Query(query) => {
                write_byte(KIND_QUERY, buffer);
                write_long_string(query, buffer);
            }
            StatementSource::Prepared(id) => {
                write_byte(KIND_PREPARED, buffer);
                write_short_bytes(id, buffer);
            }
        }
        self.values.encode(buffer);
    }
}
