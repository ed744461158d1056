//! What a writer is told.

use cassette_rows::{ColumnId, TableMetadata};

use super::EncodingStats;
use crate::compression::ChunkFormat;
use crate::statistics::CommitLogPosition;

/// Cassandra's default `column_index_size` for this format, in bytes.
pub const DEFAULT_COLUMN_INDEX_SIZE: u32 = 64 << 10;

/// What the rows do not say about the SSTable they go to.
#[derive(Debug, Clone)]
pub struct WriterOptions {
    /// The number of partitions, or a guess at it that is not too low: it sizes the filter.
    pub expected_keys: u64,
    /// What times are written relative to.
    pub encoding_stats: EncodingStats,
    /// The columns that occur, static and regular; others may not be met. Listing more costs a few bits a row.
    pub columns: Vec<ColumnId>,
    /// How Data is compressed; [`ChunkFormat::from_params`] makes it from the table's options.
    pub compression: Option<ChunkFormat>,
    /// Whether a thread beside compresses and writes Data once that gets long (1 MiB): for who writes one SSTable and has a
    /// processor to spare. The files are the same; in which order those of one SSTable are written to, and so which operation fails
    /// first, is not certain then.
    pub pipelined: bool,
    /// Bytes of a partition that its index of rows sums up in one block.
    pub column_index_size: u32,
    /// The time, in seconds: what has expired by then counts as a tombstone.
    pub now_seconds: u32,
    /// The level in leveled compaction.
    pub level: i32,
    /// When it was repaired, milliseconds since 1970; 0 if never.
    pub repaired_at: i64,
    /// The node that writes it, if commit log positions are given.
    pub host_id: Option<uuid::Uuid>,
    /// The parts of the commit log of that node that the rows came from.
    pub commit_log_intervals: Vec<(CommitLogPosition, CommitLogPosition)>,
}

impl WriterOptions {
    /// For about `expected_keys` partitions of `table`, of any of its columns, compressed as the table says.
    ///
    /// The error is a sentence for people: the compression that the table's options ask for does not exist.
    pub fn new(table: &TableMetadata, expected_keys: u64) -> Result<Self, String> {
        Ok(Self {
            expected_keys,
            encoding_stats: EncodingStats::default(),
            columns: table.columns.iter().flatten().map(|column| column.id).collect(),
            compression: ChunkFormat::from_params(&table.params.compression)?,
            pipelined: false,
            column_index_size: DEFAULT_COLUMN_INDEX_SIZE,
            now_seconds: 0,
            level: 0,
            repaired_at: 0,
            host_id: None,
            commit_log_intervals: Vec::new(),
        })
    }
}
