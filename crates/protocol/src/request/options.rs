//! OPTIONS.

/// Requests the STARTUP options that the server supports; answered by SUPPORTED. Its body is empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options;
