//! What is stored: types, keys, tokens, clusterings, rows, cells, tombstones; how two versions merge.
//!
//! The ground floor beside `vfs`. Nothing here does I/O and nothing knows CQL text.

pub mod token;
pub mod types;
pub mod vint;
