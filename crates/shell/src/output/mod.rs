//! Where output goes, and rows in the formats of the shell.

mod columnize;
mod formats;
mod table;
mod target;

pub use columnize::columnize;
pub use formats::{Format, write_csv, write_json, write_markdown};
pub use table::{Header, expanded, header_only, table};
pub use target::Target;
