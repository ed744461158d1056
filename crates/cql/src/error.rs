//! The error of a statement that is no CQL.

use cassette_rows::interrupt::Interrupted;

/// Why a text is no statement. The message is what Cassandra's SyntaxException would say: mostly
/// `line L:C what is wrong (the [offending] text)`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SyntaxError {
    /// The whole message, position included where there is one.
    pub message: String,
    /// The line of the offending token, counted from 1; `None` where the message is about no single token.
    pub line: Option<u32>,
    /// Its column in that line, in UTF-16 units, counted from 0; `None` as above, and at the unexpected end of the
    /// text, which Cassandra places at line 0, column -1.
    pub column: Option<u32>,
    /// Why the text was not read to its end, where it may be a statement.
    pub interrupted: Option<Interrupted>,
}

impl SyntaxError {
    /// That reading the text was interrupted.
    pub(crate) fn interrupted(reason: Interrupted) -> Self {
        Self { message: reason.to_string(), line: None, column: None, interrupted: Some(reason) }
    }
}
