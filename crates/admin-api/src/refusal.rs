//! Reasons for rejected or failed operations.

use serde::{Deserialize, Serialize};

/// The reason for a rejected or failed operation.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct Refused {
    /// The operation and the cause.
    pub error: String,
    /// The kind.
    pub kind: RefusalKind,
}

/// The category of a rejection. Scripts distinguish these by the output and exit code of
/// Cassandra's nodetool; an HTTP status is less specific.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum RefusalKind {
    /// Invalid arguments, such as an impossible value or an unknown name. Nodetool refers to its
    /// help.
    WrongUse,
    /// A table does not exist, and nodetool checks that before it starts an operation.
    NotFound,
    /// Valid arguments, but the present state does not allow the operation.
    Invalid,
    /// The operation failed.
    Failed,
    /// Whether the operation has taken effect is unknown.
    Unknown,
}

impl Refused {
    /// Returns a refusal of wrong arguments.
    pub fn wrong_use(error: impl Into<String>) -> Self {
        Self { error: error.into(), kind: RefusalKind::WrongUse }
    }

    /// Returns a refusal of an operation that the present state does not allow.
    pub fn invalid(error: impl Into<String>) -> Self {
        Self { error: error.into(), kind: RefusalKind::Invalid }
    }

    /// Returns a refusal of an operation that failed.
    pub fn failed(error: impl Into<String>) -> Self {
        Self { error: error.into(), kind: RefusalKind::Failed }
    }

    /// Returns the answer to an operation that may have taken effect.
    pub fn unknown(error: impl Into<String>) -> Self {
        Self { error: error.into(), kind: RefusalKind::Unknown }
    }

    /// Returns a rejection for a missing table, in Cassandra's words.
    pub fn no_table(keyspace: &str, table: &str) -> Self {
        let error = format!("ColumnFamilyStore for {keyspace}/{table} not found.");
        Self { error, kind: RefusalKind::NotFound }
    }
}

impl RefusalKind {
    /// Returns the HTTP status of the response.
    pub fn status(self) -> u16 {
        match self {
            Self::WrongUse | Self::Invalid => 400,
            Self::NotFound => 404,
            Self::Failed | Self::Unknown => 500,
        }
    }
}
