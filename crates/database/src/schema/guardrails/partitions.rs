//! Guardrails on the partitions that flushes and compactions write: `partition_size_*` and
//! `partition_tombstones_*`. Those on their collections are in [`collections`](super::collections).
//!
//! As in Cassandra, they only log: a violation of the failure threshold is logged as an error, and
//! the flush or compaction continues.

use cassette_cql::values::text::to_text;
use cassette_engine::{PartitionObserver, PartitionSize, WrittenPartition, WrittenRow};
use cassette_rows::{DecoratedKey, TableMetadata, key};

use super::guard::{self, Level, Threshold};
use super::{Guardrails, Key};

/// The maximum number of violations of one guardrail logged in a minute; each names another
/// partition.
pub(super) const LOGGED_MAX: u64 = 20;

const SIZE: Threshold = Threshold {
    name: "partition_size",
    warn: Key::PartitionSizeWarn,
    fail: Key::PartitionSizeFail,
    reason: "Too large partitions can cause performance problems.",
};
const TOMBSTONES: Threshold = Threshold {
    name: "partition_tombstones",
    warn: Key::PartitionTombstonesWarn,
    fail: Key::PartitionTombstonesFail,
    reason: "Partitions with too many tombstones can cause performance problems.",
};

impl PartitionObserver for Guardrails {
    fn wants(&self, size: PartitionSize) -> bool {
        self.crossed(&SIZE, size.bytes).or_else(|| self.crossed(&TOMBSTONES, size.tombstones)).is_some()
    }

    fn written(&self, partition: WrittenPartition<'_>) {
        for (name, level, message) in self.violations(partition) {
            self.log.note_some(name, level, &message, LOGGED_MAX);
        }
    }

    fn wants_rows(&self, table: &TableMetadata) -> bool {
        self.checks_written_collections(table)
    }

    fn row(&self, row: WrittenRow<'_>) {
        for (name, level, message) in self.violations_of_collections(row) {
            self.log.note_some(name, level, &message, LOGGED_MAX);
        }
    }
}

impl Guardrails {
    /// Returns the violations by a partition, with Cassandra's messages.
    fn violations(&self, partition: WrittenPartition<'_>) -> Vec<(&'static str, Level, String)> {
        let WrittenPartition { table, key, size, path } = partition;
        let found = [(&SIZE, size.bytes, "size ", ""), (&TOMBSTONES, size.tombstones, "", " tombstones")];
        let violation = |(limit, value, before, after): (&Threshold, u64, &str, &str)| {
            let (level, threshold) = self.crossed(limit, value)?;
            let message = format!(
                "Partition {}:{} on sstable {} has {before}{value}{after}, this exceeds the {} threshold of \
                 {threshold}.",
                table.qualified_name(),
                key_text(table, key),
                path.display(),
                level.name()
            );
            Some((limit.name, level, guard::violation(limit.name, &message, limit.reason)))
        };
        found.into_iter().filter_map(violation).collect()
    }

    /// Returns the threshold of `limit` that `value` exceeds.
    pub(super) fn crossed(&self, limit: &Threshold, value: u64) -> Option<(Level, i64)> {
        [(limit.fail, Level::Fail), (limit.warn, Level::Warn)].into_iter().find_map(|(key, level)| {
            let threshold = self.threshold(key)?;
            u64::try_from(threshold).is_ok_and(|threshold| value > threshold).then_some((level, threshold))
        })
    }
}

/// Returns a partition key in Cassandra's notation: its values separated by colons.
fn key_text(table: &TableMetadata, key: &DecoratedKey) -> String {
    let values = key::components(key.key(), table.partition_key.len()).unwrap_or_default();
    let texts =
        table.partition_key.iter().zip(values).map(|(column, value)| to_text(&column.data_type, value));
    texts.collect::<Vec<_>>().join(":")
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use cassette_vfs::FakeFileSystem;

    use super::*;
    use crate::api::database::{Database, Options};

    /// Cassandra 5.0.8 logged these messages.
    #[test]
    fn large_partitions_and_many_tombstones_are_logged_with_the_words_of_cassandra() {
        let options = Options { file_system: Arc::new(FakeFileSystem::new()), ..Options::new("/data") };
        let database = Database::open(options).unwrap();
        let session = database.session();
        for statement in [
            "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "CREATE TABLE ks.t (a int, b text, c int, PRIMARY KEY ((a, b), c))",
        ] {
            session.execute(statement, ()).unwrap();
        }
        let catalog = database.catalog();
        let table = catalog.table("ks", "t").unwrap();
        let key = DecoratedKey::new([0, 4, 0, 0, 0, 7, 0, 0, 1, b'x', 0].to_vec().into());
        let guardrails = database.guardrails();
        let changes = [
            (Key::PartitionSizeWarn, "10KiB"),
            (Key::PartitionSizeFail, "1MiB"),
            (Key::PartitionTombstonesWarn, "5"),
            (Key::PartitionTombstonesFail, "20"),
        ];
        guardrails.set(&changes).unwrap();
        let path = Path::new("/data/nb-1-big-Data.db");
        let of = |bytes, tombstones| {
            let size = PartitionSize { bytes, tombstones };
            let violations = guardrails.violations(WrittenPartition { table, key: &key, size, path });
            assert_eq!(guardrails.wants(size), !violations.is_empty());
            violations
        };
        assert!(of(10240, 5).is_empty());
        let size = "Guardrail partition_size violated: Partition ks.t:7:x on sstable /data/nb-1-big-Data.db has size";
        let tombstones = "Guardrail partition_tombstones violated: Partition ks.t:7:x on sstable \
            /data/nb-1-big-Data.db has";
        let size_reason = "Too large partitions can cause performance problems.";
        let reason = "Partitions with too many tombstones can cause performance problems.";
        let warning = format!("{size} 10241, this exceeds the warning threshold of 10240. {size_reason}");
        assert_eq!(of(10241, 0), [("partition_size", Level::Warn, warning)]);
        let failures = [
            (
                "partition_size",
                Level::Fail,
                format!("{size} 1048577, this exceeds the failure threshold of 1048576. {size_reason}"),
            ),
            (
                "partition_tombstones",
                Level::Fail,
                format!("{tombstones} 21 tombstones, this exceeds the failure threshold of 20. {reason}"),
            ),
        ];
        assert_eq!(of(1_048_577, 21), failures);
    }
}
