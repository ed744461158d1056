//! Encodings of timestamps, commit records and coordination values. Pure functions; every format is
//! persisted and never changes.

pub mod coordination;
pub mod index_keys;
pub mod layout;
pub mod plain;
pub mod sweep;
pub mod tickets;
pub mod two_stage;
pub mod var_long;

#[cfg(test)]
mod tests;

/// Malformed bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {why}")]
pub struct DecodeError {
    /// What was decoded, with its bytes or value.
    pub what: String,
    /// What is wrong with it.
    pub why: String,
}

impl DecodeError {
    /// Creates an error for these bytes.
    pub fn new(what: &str, bytes: &[u8], why: impl Into<String>) -> Self {
        Self { what: format!("{what} 0x{}", hex(bytes)), why: why.into() }
    }
}

/// Formats bytes in hexadecimal, for messages.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
