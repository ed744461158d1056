//! Settings of user-defined functions.

use std::time::Duration;

/// Whether functions can be created and called, and the limits of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// `user_defined_functions_enabled`. Default: false.
    pub enabled: bool,
    /// `user_defined_functions_warn_timeout`: calls that run longer cause a warning. Default: 500
    /// ms.
    pub warn_timeout: Duration,
    /// `user_defined_functions_fail_timeout`: calls that run longer fail. Default: 1500 ms.
    pub fail_timeout: Duration,
    /// The memory of one call in bytes, including the arguments and the result. Default: 32 MiB.
    pub memory: usize,
    /// The number of instructions of one call. Default: 1,000,000,000.
    pub instructions: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            enabled: false,
            warn_timeout: Duration::from_millis(500),
            fail_timeout: Duration::from_millis(1500),
            memory: 32 << 20,
            instructions: 1_000_000_000,
        }
    }
}
