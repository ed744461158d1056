//! Failures of compilations and calls.

use cassette_rows::Interrupted;

/// Why a function has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallError {
    /// The function cannot be executed: functions are disabled, or the language is not supported.
    Refused(String),
    /// The body does not compile, fails, exceeds a limit, or returns no value of the declared type.
    Failed(String),
    /// The request that calls it was interrupted.
    Interrupted(Interrupted),
}
