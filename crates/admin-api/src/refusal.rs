//! Why something was not done, and whose fault that is.

use serde::{Deserialize, Serialize};

/// Why something was not done.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct Refused {
    /// What was attempted, and why it failed.
    pub error: String,
    /// Whose fault it is.
    pub kind: RefusalKind,
}

/// Whose fault it is that something was not done. The kinds are those that scripts tell apart by what Cassandra's nodetool prints and by
/// its exit code; an HTTP status says less.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum RefusalKind {
    /// The words are wrong: a value that cannot be, a name of nothing. Nodetool points to its help.
    WrongUse,
    /// There is no such table to work on, where nodetool looks for it before it asks for anything.
    NotFound,
    /// The words are right, but what is asked for cannot be done with what there is.
    Invalid,
    /// Something went wrong while it was done.
    Failed,
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

    /// That a table is not there, in Cassandra's words.
    pub fn no_table(keyspace: &str, table: &str) -> Self {
        let error = format!("ColumnFamilyStore for {keyspace}/{table} not found.");
        Self { error, kind: RefusalKind::NotFound }
    }
}

impl RefusalKind {
    /// The HTTP status of an answer.
    pub fn status(self) -> u16 {
        match self {
            Self::WrongUse | Self::Invalid => 400,
            Self::NotFound => 404,
            Self::Failed => 500,
        }
    }
}
