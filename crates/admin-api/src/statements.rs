//! Running statements, queries of the dashboard, and lines of the log.

use serde::{Deserialize, Serialize};

/// A statement that runs on a request thread or waits for one. Those that are answered from memory
/// end too soon to be listed.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
pub struct RunningStatementReport {
    /// Identifies it to [`CancelStatement`](crate::Operation::CancelStatement).
    pub id: u64,
    /// Its text, without the values of bind markers.
    pub text: String,
    /// How long it waited for its thread.
    pub queued_millis: f64,
    /// How long it has been running.
    pub running_millis: f64,
}

/// A statement to execute: SELECT or DESCRIBE.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct QueryRequest {
    /// Its text, without bind markers.
    pub statement: String,
    /// The keyspace of unqualified names.
    #[serde(default)]
    pub keyspace: Option<String>,
}

/// The first rows of the result of a [`QueryRequest`].
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
pub struct QueryAnswer {
    /// The columns.
    pub columns: Vec<QueryColumn>,
    /// The values as CQL literals; of long ones the length.
    pub rows: Vec<Vec<String>>,
    /// Whether the result has more rows.
    pub has_more: bool,
    /// Warnings of guardrails.
    pub warnings: Vec<String>,
    /// The time of the execution.
    pub millis: f64,
}

/// A column of a result.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct QueryColumn {
    /// Its name.
    pub name: String,
    /// Its CQL type.
    #[serde(rename = "type")]
    pub data_type: String,
}

/// A line of the log.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct LogLine {
    /// Milliseconds since 1970.
    pub time_millis: u64,
    /// `ERROR`, `WARN`, `INFO`, `DEBUG` or `TRACE`.
    pub level: String,
    /// The module.
    pub target: String,
    /// The message and its fields.
    pub message: String,
}
