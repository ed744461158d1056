//! What a request meets instead of, or besides, its result.

use std::time::Duration;

use crate::basics::request::Consistency;

/// What a request meets.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Injected {
    /// How long it is delayed before it is executed or fails.
    pub delay: Duration,
    /// How it fails; `None` if it does not.
    pub failure: Option<Failure>,
    /// Whether it is executed before it fails. If that fails, its own error is reported.
    pub is_applied: bool,
    /// The number of rows of its page, if that is limited.
    pub page_size: Option<i32>,
}

/// How a request fails.
#[derive(Debug, Clone, PartialEq)]
pub enum Failure {
    /// With an error, and its message.
    Error(FaultError, String),
    /// The connection is closed without an answer.
    DropConnection,
    /// The connection is closed within the answer.
    CutResponse,
}

/// An error of the native protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the variants and fields are the protocol's")]
pub enum FaultError {
    ReadTimeout {
        consistency: Consistency,
        received: i32,
        required: i32,
        data_present: bool,
    },
    WriteTimeout {
        consistency: Consistency,
        received: i32,
        required: i32,
        write_type: &'static str,
    },
    ReadFailure {
        consistency: Consistency,
        received: i32,
        required: i32,
        failures: i32,
        reason: u16,
        data_present: bool,
    },
    WriteFailure {
        consistency: Consistency,
        received: i32,
        required: i32,
        failures: i32,
        reason: u16,
        write_type: &'static str,
    },
    CasWriteUnknown {
        consistency: Consistency,
        received: i32,
        required: i32,
    },
    Unavailable {
        consistency: Consistency,
        required: i32,
        alive: i32,
    },
    Overloaded,
    Bootstrapping,
    ServerError,
    TruncateError,
}
