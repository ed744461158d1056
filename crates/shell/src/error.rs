//! Errors of the shell, and those of servers with the texts of cqlsh.

use cassette_protocol::response::{Error, ErrorDetail};

/// A failed statement or command.
#[derive(Debug, thiserror::Error)]
pub enum ShellError {
    /// The server's error.
    #[error("{}", server_text(.0))]
    Server(Box<Error>),
    /// The connection is lost.
    #[error("{0}")]
    Lost(String),
    /// A command is invalid or failed.
    #[error("{0}")]
    Command(String),
}

/// Results of this crate.
pub type Result<T> = std::result::Result<T, ShellError>;

impl From<std::io::Error> for ShellError {
    fn from(error: std::io::Error) -> Self {
        Self::Command(error.to_string())
    }
}

/// Creates the error of a command.
pub fn command(text: impl Into<String>) -> ShellError {
    ShellError::Command(text.into())
}

/// The name of an error in cqlsh, and its description.
fn names(detail: &ErrorDetail) -> (&'static str, &'static str) {
    match detail {
        ErrorDetail::ServerError => ("ServerError", "Server error"),
        ErrorDetail::ProtocolError => ("ProtocolException", "Protocol error"),
        ErrorDetail::BadCredentials => ("AuthenticationFailed", "Bad credentials"),
        ErrorDetail::Unavailable { .. } => ("Unavailable", "Unavailable exception"),
        ErrorDetail::Overloaded => ("OverloadedErrorMessage", "Coordinator node overloaded"),
        ErrorDetail::IsBootstrapping => ("IsBootstrappingErrorMessage", "Coordinator node is bootstrapping"),
        ErrorDetail::TruncateError => ("TruncateError", "Error during truncate"),
        ErrorDetail::WriteTimeout { .. } => {
            ("WriteTimeout", "Coordinator node timed out waiting for replica nodes' responses")
        }
        ErrorDetail::ReadTimeout { .. } => {
            ("ReadTimeout", "Coordinator node timed out waiting for replica nodes' responses")
        }
        ErrorDetail::ReadFailure { .. } => ("ReadFailure", "Replica(s) failed to execute read"),
        ErrorDetail::FunctionFailure { .. } => ("FunctionFailure", "User Defined Function failure"),
        ErrorDetail::WriteFailure { .. } => ("WriteFailure", "Replica(s) failed to execute write"),
        ErrorDetail::CdcWriteFailure => {
            ("CDCWriteException", "Failed to execute write due to CDC space exhaustion.")
        }
        ErrorDetail::CasWriteUnknown { .. } => ("CasWriteUnknownException", "CAS write result unknown"),
        ErrorDetail::SyntaxError => ("SyntaxException", "Syntax error in CQL query"),
        ErrorDetail::Unauthorized => ("Unauthorized", "Unauthorized"),
        ErrorDetail::Invalid => ("InvalidRequest", "Invalid query"),
        ErrorDetail::ConfigError => {
            ("ConfigurationException", "Query invalid because of configuration issue")
        }
        ErrorDetail::AlreadyExists { .. } => ("AlreadyExists", "Item already exists"),
        ErrorDetail::Unprepared { .. } => {
            ("PreparedQueryNotFound", "Matching prepared statement not found on this node")
        }
    }
}

/// Formats an error as cqlsh does: name, code, description and message.
pub fn server_text(error: &Error) -> String {
    let Error { detail, message } = error;
    let (name, description) = names(detail);
    match detail {
        ErrorDetail::AlreadyExists { keyspace, table } if table.is_empty() => {
            format!("{name}: Keyspace '{keyspace}' already exists")
        }
        ErrorDetail::AlreadyExists { keyspace, table } => {
            format!("{name}: Table '{keyspace}.{table}' already exists")
        }
        _ => {
            let code = detail.code();
            format!(
                "{name}: Error from server: code={code:04x} [{description}] message=\"{message}\"{}",
                info(detail)
            )
        }
    }
}

/// The replicas of an error, as cqlsh shows them.
fn info(detail: &ErrorDetail) -> String {
    match detail {
        ErrorDetail::Unavailable { consistency, required, alive } => format!(
            " info={{'consistency': '{consistency}', 'required_replicas': {required}, 'alive_replicas': {alive}}}"
        ),
        ErrorDetail::WriteTimeout { consistency, received, block_for, write_type, .. } => format!(
            " info={{'consistency': '{consistency}', 'required_responses': {block_for}, 'received_responses': \
             {received}, 'write_type': '{}'}}",
            write_type.name()
        ),
        ErrorDetail::ReadTimeout { consistency, received, block_for, .. } => format!(
            " info={{'consistency': '{consistency}', 'required_responses': {block_for}, 'received_responses': \
             {received}}}"
        ),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_servers_read_as_in_cqlsh() {
        let text = |detail| server_text(&Error { detail, message: "m".to_owned() });
        assert_eq!(
            text(ErrorDetail::Invalid),
            "InvalidRequest: Error from server: code=2200 [Invalid query] message=\"m\""
        );
        assert_eq!(
            text(ErrorDetail::ProtocolError),
            "ProtocolException: Error from server: code=000a [Protocol error] message=\"m\""
        );
        let exists = ErrorDetail::AlreadyExists { keyspace: "k".to_owned(), table: String::new() };
        assert_eq!(text(exists), "AlreadyExists: Keyspace 'k' already exists");
    }
}
