//! Layer 2: the catalog with definitions of tables, indexes and views, table options, guardrails,
//! and the system tables with the encoding of their rows.

pub(crate) mod authorization;
pub(crate) mod catalog;
pub(crate) mod conditions;
pub(crate) mod functions;
pub(crate) mod guardrails;
pub(crate) mod indexes;
pub(crate) mod options;
pub(crate) mod system;
pub(crate) mod testing;
pub(crate) mod topology;
pub(crate) mod views;

/// Java's `\w+`: the characters allowed in directory names.
pub(crate) fn is_word(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
