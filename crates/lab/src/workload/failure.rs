//! Failed operations.

use std::borrow::Cow;

/// A failed operation: counted by class, excluded from latencies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Class of the failure, such as the engine's name of the error.
    pub class: Cow<'static, str>,
    /// Details; the first of each class is shown.
    pub message: String,
}

impl Failure {
    /// Creates a failure of class `class`.
    pub fn new(class: impl Into<Cow<'static, str>>, message: impl std::fmt::Display) -> Self {
        Self { class: class.into(), message: message.to_string() }
    }

    /// Creates the failure of a missing record.
    pub fn not_found(key: &str) -> Self {
        Self::new("not found", format_args!("record {key} not found"))
    }
}
