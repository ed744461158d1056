//! Options of a writer.

use cassette_rows::{ColumnId, TableMetadata};

use super::EncodingStats;
use crate::checksums::ROWS_BLOCK;
use crate::compression::ChunkFormat;
use crate::statistics::CommitLogPosition;

/// Cassandra's default `column_index_size` for this format, in bytes.
pub const DEFAULT_COLUMN_INDEX_SIZE: u32 = 64 << 10;

/// The properties of a new SSTable that do not depend on rows.
#[derive(Debug, Clone)]
pub struct WriterOptions {
    /// The number of partitions, or an estimate that is not too low: it sizes the filter.
    pub expected_keys: u64,
    /// The base values of times.
    pub encoding_stats: EncodingStats,
    /// The columns that can occur, static and regular; others must not. A superfluous one costs a
    /// few bits per row.
    pub columns: Vec<ColumnId>,
    /// The compression of Data; [`ChunkFormat::from_params`] creates it from the table's options.
    pub compression: Option<ChunkFormat>,
    /// Whether another thread compresses and writes Data once that is long (1 MiB): for callers
    /// that write one SSTable and have an idle processor. The files are the same; the order of
    /// writes to the files of one SSTable, and so the operation that fails first, is not
    /// deterministic then.
    pub pipelined: bool,
    /// Whether Data will hardly be read, so that the operating system need not keep it in memory.
    pub is_cold: bool,
    /// Bytes of a partition per block of its row index.
    pub column_index_size: u32,
    /// Bytes of uncompressed rows per checksum, a power of two: they can be read at once.
    pub rows_block: u32,
    /// The present time, in seconds: data expired by then counts as a tombstone.
    pub now_seconds: u32,
    /// The level in leveled compaction.
    pub level: i32,
    /// The time of its repair, in milliseconds since 1970; 0 if never.
    pub repaired_at: i64,
    /// The node that writes it, if there are commit log positions.
    pub host_id: Option<uuid::Uuid>,
    /// The parts of the commit log of that node from which the rows originate.
    pub commit_log_intervals: Vec<(CommitLogPosition, CommitLogPosition)>,
}

impl WriterOptions {
    /// Creates options for about `expected_keys` partitions of `table`, of any of its columns, with
    /// the table's compression.
    ///
    /// The error is a text for users: the compression of the table's options does not exist.
    pub fn new(table: &TableMetadata, expected_keys: u64) -> Result<Self, String> {
        Ok(Self {
            expected_keys,
            encoding_stats: EncodingStats::default(),
            columns: table.columns.iter().flatten().map(|column| column.id).collect(),
            compression: ChunkFormat::from_params(&table.params.compression)?,
            pipelined: false,
            is_cold: false,
            column_index_size: DEFAULT_COLUMN_INDEX_SIZE,
            rows_block: ROWS_BLOCK,
            now_seconds: 0,
            level: 0,
            repaired_at: 0,
            host_id: None,
            commit_log_intervals: Vec::new(),
        })
    }
}
