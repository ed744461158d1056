//! Estimates of the contents of an SSTable before it is written.

use std::sync::Arc;

use cassette_rows::{ColumnId, TableMetadata};
use cassette_sstable::reader::Salvage;
use cassette_sstable::writer::EncodingStats;
use hashbrown::HashSet;

use super::sstable_handle::SSTable;
use crate::memory::memtable::Memtable;

/// An estimate of the rows to be written.
pub(crate) struct Contents {
    /// The maximum number of partitions.
    pub expected_keys: u64,
    /// The maximum bytes of Data on disk; 0 if unknown.
    pub bytes: u64,
    /// The tokens of the first and the last partition.
    pub tokens: (i64, i64),
    pub encoding_stats: EncodingStats,
    /// The columns that may occur.
    pub columns: Vec<ColumnId>,
}

impl Contents {
    pub fn of_memtable(memtable: &Memtable) -> Self {
        let stats = memtable.stats();
        let mut encoding_stats = EncodingStats::default();
        if stats.min_timestamp != i64::MAX {
            let ttl = if stats.min_ttl == u32::MAX { cassette_rows::NO_TTL } else { stats.min_ttl };
            encoding_stats.add(stats.min_timestamp, ttl, stats.min_local_deletion_time);
        }
        Self {
            expected_keys: memtable.partition_count() as u64,
            bytes: 0,
            tokens: (i64::MIN, i64::MAX),
            encoding_stats,
            columns: stats.columns().collect(),
        }
    }

    /// Returns the estimate for one SSTable, which may be damaged.
    pub fn of_salvage(salvage: &Salvage, table: &TableMetadata) -> Self {
        let header = &salvage.statistics().header;
        let columns = header.static_columns.iter().chain(&header.regular_columns);
        let known = columns.filter_map(|column| {
            table.columns.iter().flatten().find(|known| known.name == column.name).map(|known| known.id)
        });
        let keys = u64::try_from(salvage.statistics().stats.partition_sizes.count()).unwrap_or(0);
        Self {
            expected_keys: keys.max(u64::from(table.params.min_index_interval)),
            bytes: salvage.data_bytes_on_disk(),
            tokens: (i64::MIN, i64::MAX),
            encoding_stats: EncodingStats::of_header(header),
            columns: known.collect(),
        }
    }

    /// Returns the estimate for the inputs of a compaction.
    pub fn of_sstables(sstables: &[Arc<SSTable>], table: &TableMetadata) -> Self {
        let mut encoding_stats = EncodingStats::default();
        let mut columns = HashSet::new();
        for sstable in sstables {
            let header = sstable.reader.header();
            encoding_stats.merge(&EncodingStats::of_header(header));
            for column in header.static_columns.iter().chain(&header.regular_columns) {
                let known = table.columns.iter().flatten().find(|known| known.name == column.name);
                columns.extend(known.map(|known| known.id));
            }
        }
        Self {
            expected_keys: sstables.iter().map(|sstable| sstable.reader.estimated_keys()).sum(),
            bytes: sstables.iter().map(|sstable| sstable.reader.data_bytes_on_disk()).sum(),
            tokens: sstables
                .iter()
                .map(|sstable| sstable.tokens())
                .reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
                .unwrap_or((i64::MIN, i64::MAX)),
            encoding_stats,
            columns: columns.into_iter().collect(),
        }
    }
}
