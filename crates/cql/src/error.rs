//! The error of a statement that is not valid CQL.

use cassette_rows::interrupt::Interrupted;

/// The reason why a text is not a statement. The message is that of Cassandra's SyntaxException:
/// mostly `line L:C reason (the [offending] text)`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SyntaxError {
    /// The whole message, including the position if there is one.
    pub message: String,
    /// The line of the offending token, counted from 1; `None` if the message refers to no single
    /// token.
    pub line: Option<u32>,
    /// Its column in that line, in UTF-16 units, counted from 0; `None` as above, and at the
    /// unexpected end of the text, which Cassandra reports at line 0, column -1.
    pub column: Option<u32>,
    /// The reason why parsing ended early; the text may be a statement.
    pub interrupted: Option<Interrupted>,
}

impl SyntaxError {
    /// Creates the error of an interrupted parser.
    pub(crate) fn interrupted(reason: Interrupted) -> Self {
        Self { message: reason.to_string(), line: None, column: None, interrupted: Some(reason) }
    }
}
