//! `unknowntables`.

use cassette_admin_api::UnknownTableReport;

use super::text::{Table, file_size};

/// Formats data of tables that are missing from the schema.
pub(super) fn list(found: &[UnknownTableReport]) -> String {
    if found.is_empty() {
        return "There are no unknown tables\n".to_owned();
    }
    let mut table = Table::default();
    table.row(["Keyspace", "Table", "Index", "Table id", "SSTables", "Size", "Log segments", "Directory"]);
    for unknown in found {
        table.row([
            unknown.keyspace.clone(),
            unknown.table.clone(),
            unknown.index.clone().unwrap_or_default(),
            unknown.id.clone().unwrap_or_default(),
            unknown.sstables.to_string(),
            file_size(unknown.bytes),
            unknown.log_segments.to_string(),
            unknown.directory.clone().unwrap_or_default(),
        ]);
    }
    table.text(" ")
}
