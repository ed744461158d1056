//! The error of a statement that is no CQL.

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
}
