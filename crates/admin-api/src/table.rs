//! Tables, their levels and their storage-attached indexes.

#![expect(missing_docs, reason = "many names need no explanation")]

use std::collections::BTreeMap;

use crate::{DistributionReport, metric::report};

report! {
    pub struct TableReport {
        keyspace: String,
        table: String,
        /// Whether it is the hidden table of a secondary index.
        is_index: bool,
        /// The directory of its files.
        directory: String,
        /// The class of the compaction strategy, without its package, and its options.
        compaction: BTreeMap<String, String>,
        /// Whether compactions start automatically.
        autocompaction: bool,
        sstables: u64 = Gauge("cassette_table_sstables", "SSTables in use."),
        #[serde(alias = "sstables_set_aside")]
        sstables_quarantined: u64 =
            Gauge("cassette_table_sstables_quarantined", "Corrupt SSTables that reads omit."),
        /// SSTables in use of a version other than the one that is written.
        old_sstables: u64,
        /// SSTables of each level, from 0, and their bytes; empty except for leveled compaction.
        levels: Vec<LevelReport>,
        /// The size ratio of a level to the one before.
        fanout: u64,
        /// Bytes of the largest SSTable.
        max_sstable_bytes: u64,
        /// The longest span of write times in an SSTable, in milliseconds.
        max_sstable_millis: u64,
        live_bytes: u64 = Gauge("cassette_table_live_bytes", "Bytes of the SSTables in use."),
        /// Bytes of all existing SSTables.
        total_bytes: u64,
        uncompressed_bytes: u64 =
            Gauge("cassette_table_uncompressed_bytes", "Bytes of their rows before compression."),
        snapshot_bytes: u64 =
            Gauge("cassette_table_snapshot_bytes", "Bytes that only snapshots occupy."),
        /// Of the uncompressed bytes, those that Cassandra marked as repaired.
        repaired_bytes: u64,
        /// Of the uncompressed bytes, those that Cassandra marked as pending repair.
        pending_repair_bytes: u64,
        /// Compressed bytes by uncompressed bytes; -1 if nothing is compressed, as in Cassandra.
        compression_ratio: f64,
        partitions: u64 = Gauge("cassette_table_partitions", "Estimated partitions."),
        /// Rows and deletions written to the memtable; Cassandra calls them cells.
        memtable_operations: u64,
        /// Bytes of the values in the memtable.
        memtable_data_bytes: u64,
        memtable_bytes: u64 = Gauge("cassette_table_memtable_bytes", "Heap bytes of memtables."),
        flushes: u64 = Counter("cassette_table_flushes_total", "Memtables flushed."),
        bytes_flushed: u64 =
            Counter("cassette_table_flushed_bytes_total", "Bytes written by flushes."),
        pending_flushes: u64 =
            Gauge("cassette_table_pending_flushes", "Memtables waiting for a flush."),
        pending_compactions: u64 =
            Gauge("cassette_table_pending_compactions", "Pending compactions."),
        compactions: u64 = Counter("cassette_table_compactions_total", "Completed compactions."),
        bytes_compacted: u64 =
            Counter("cassette_table_compacted_bytes_total", "Bytes written by compactions."),
        read: DistributionReport =
            Histogram("cassette_table_read_latency_seconds", "Latency of reads of one partition.", 1e6),
        write: DistributionReport =
            Histogram("cassette_table_write_latency_seconds", "Latency of changes of one partition.", 1e6),
        scan: DistributionReport =
            Histogram("cassette_table_scan_latency_seconds", "Latency of scans over partitions.", 1e6),
        sstables_per_read: DistributionReport =
            Histogram("cassette_table_sstables_per_read", "SSTables that contained the partition of a read."),
        live_scanned: DistributionReport =
            Histogram("cassette_table_live_scanned", "Live rows that a read scanned."),
        tombstones_scanned: DistributionReport =
            Histogram("cassette_table_tombstones_scanned", "Tombstones that a read scanned."),
        /// Bytes of partitions in SSTables; `None` without SSTables.
        partition_bytes: Option<DistributionReport>,
        /// Cells of partitions in SSTables.
        partition_cells: Option<DistributionReport>,
        filter_false_positives: u64 = Counter("cassette_table_filter_false_positives_total",
            "Filter checks that passed for an absent key."),
        filter_true_positives: u64 = Counter("cassette_table_filter_true_positives_total",
            "Filter checks that passed for a present key."),
        filter_true_negatives: u64 =
            Counter("cassette_table_filter_true_negatives_total", "Filter checks that excluded a key."),
        /// Bytes of filters on disk.
        filter_disk_bytes: u64,
        filter_bytes: u64 = Gauge("cassette_table_filter_bytes", "Bytes of filters in memory."),
        summary_bytes: u64 = Gauge("cassette_table_summary_bytes", "Bytes of index summaries in memory."),
        compression_metadata_bytes: u64 = Gauge("cassette_table_compression_metadata_bytes",
            "Bytes of the offsets of compressed chunks in memory."),
        checksum_bytes: u64 = Gauge("cassette_table_checksum_bytes",
            "Bytes of the checksums of rows and of indexes in memory."),
        /// Bytes of the smallest partition in an SSTable.
        min_partition_bytes: u64,
        max_partition_bytes: u64 = Gauge("cassette_table_max_partition_bytes",
            "Estimated bytes of the largest partition in an SSTable."),
        mean_partition_bytes: u64,
        droppable_ratio: f64 =
            Gauge("cassette_table_droppable_ratio", "Fraction of cells that a compaction could drop."),
        /// `None` without storage-attached indexes.
        attached_indexes: Option<AttachedIndexesReport>,
    }
}

report! {
    /// The storage-attached indexes of a table, and all queries that they have answered.
    pub struct AttachedIndexesReport {
        /// The number of indexes.
        indexes: u64,
        /// The number of indexes that are built, so that queries can use them.
        queryable: u64,
        /// Bytes of their SSTables.
        disk_bytes: u64,
        queries: DistributionReport =
            Histogram("cassette_table_sai_query_latency_seconds", "Latency of queries by SAI indexes.", 1e6),
        filtering: DistributionReport = Histogram("cassette_table_sai_filtering_latency_seconds",
            "Time to read and check the rows that SAI indexes found in one partition.", 1e6),
        sstables_hit: DistributionReport = Histogram("cassette_table_sai_sstables_per_query",
            "SSTables of SAI indexes in which a query found entries."),
        rows_filtered: DistributionReport =
            Histogram("cassette_table_sai_rows_filtered", "Rows that a query by SAI indexes checked."),
    }
}

report! {
    pub struct LevelReport {
        sstables: u64 =
            Gauge("cassette_table_level_sstables", "SSTables on a level of leveled compaction."),
        /// Bytes of their Data components.
        bytes: u64,
    }
}
