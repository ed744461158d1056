//! `listsnapshots`.

use cassette_admin_api::SnapshotReport;

use super::text::{Table, file_size, instant};

/// Formats all snapshots.
pub(super) fn list(snapshots: &[SnapshotReport], ephemeral: bool) -> String {
    let text = "Snapshot Details: \n".to_owned();
    if snapshots.is_empty() {
        return text + "There are no snapshots\n";
    }
    let mut table = Table::default();
    let labels = [
        "Snapshot name",
        "Keyspace name",
        "Column family name",
        "True size",
        "Size on disk",
        "Creation time",
        "Expiration time",
    ];
    table.row(labels.into_iter().chain(ephemeral.then_some("Ephemeral")));
    for snapshot in snapshots {
        let cells = [
            snapshot.name.clone(),
            snapshot.keyspace.clone(),
            snapshot.table.clone(),
            file_size(snapshot.true_bytes),
            file_size(snapshot.bytes),
            instant(snapshot.created_at),
            snapshot.expires_at.map(instant).unwrap_or_default(),
        ];
        table.row(cells.into_iter().chain(ephemeral.then(|| "false".to_owned())));
    }
    let all: u64 = snapshots.iter().map(|snapshot| snapshot.true_bytes).sum();
    text + &table.text(" ") + &format!("\nTotal TrueDiskSpaceUsed: {}\n\n", file_size(all))
}
