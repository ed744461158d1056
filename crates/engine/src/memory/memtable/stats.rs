//! Statistics of a memtable's contents.

use cassette_rows::{ColumnId, DeletionTime, LivenessInfo, NO_DELETION_TIME, NO_TTL, PartitionUpdate, Row};

/// Bounds of everything that was written to a memtable, including overwritten data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MemtableStats {
    /// Minimum write timestamp, microseconds; `i64::MAX` if there is none.
    pub min_timestamp: i64,
    /// Maximum write timestamp, microseconds; `i64::MIN` if there is none.
    pub max_timestamp: i64,
    /// Minimum local deletion time, seconds; `NO_DELETION_TIME` if nothing is deleted or expires.
    pub min_local_deletion_time: u32,
    /// Minimum TTL, seconds; `u32::MAX` if nothing expires.
    pub min_ttl: u32,
    /// Written rows, including static ones, and deletions of ranges and partitions: what Cassandra
    /// counts as a memtable's cells.
    pub operations: u64,
    /// Bytes of their values and paths.
    pub data_bytes: u64,
    /// The columns with data, as bits: column `n` is bit `n % 64` of word `n / 64`.
    columns: Vec<u64>,
}

impl Default for MemtableStats {
    fn default() -> Self {
        Self {
            min_timestamp: i64::MAX,
            max_timestamp: i64::MIN,
            min_local_deletion_time: NO_DELETION_TIME,
            min_ttl: u32::MAX,
            operations: 0,
            data_bytes: 0,
            columns: Vec::new(),
        }
    }
}

impl MemtableStats {
    /// Includes an update.
    pub fn add(&mut self, update: &PartitionUpdate) {
        self.operations += u64::from(!update.deletion.is_live())
            + update.range_tombstones.as_slice().len() as u64
            + u64::from(update.static_row.is_some())
            + update.rows.len() as u64;
        self.deletion(update.deletion);
        for tombstone in update.range_tombstones.as_slice() {
            self.deletion(tombstone.deletion);
        }
        for row in update.static_row.iter().chain(&update.rows) {
            self.row(row);
        }
    }

    /// Includes the statistics of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.min_timestamp = self.min_timestamp.min(other.min_timestamp);
        self.max_timestamp = self.max_timestamp.max(other.max_timestamp);
        self.min_local_deletion_time = self.min_local_deletion_time.min(other.min_local_deletion_time);
        self.min_ttl = self.min_ttl.min(other.min_ttl);
        self.operations += other.operations;
        self.data_bytes += other.data_bytes;
        if self.columns.len() < other.columns.len() {
            self.columns.resize(other.columns.len(), 0);
        }
        for (word, other) in self.columns.iter_mut().zip(&other.columns) {
            *word |= other;
        }
    }

    fn row(&mut self, row: &Row) {
        self.liveness(row.liveness());
        self.deletion(row.deletion());
        for (column, deletion) in row.complex_deletions() {
            self.deletion(*deletion);
            self.column(*column);
        }
        let has_deletions = row.has_deletions();
        for cell in row.cells() {
            self.timestamp(cell.timestamp);
            self.column(cell.column);
            self.data_bytes += (cell.value.len() + cell.path.map_or(0, <[u8]>::len)) as u64;
            if has_deletions {
                self.min_local_deletion_time = self.min_local_deletion_time.min(cell.local_deletion_time);
                if cell.ttl != NO_TTL {
                    self.min_ttl = self.min_ttl.min(cell.ttl);
                }
            }
        }
    }

    fn liveness(&mut self, liveness: LivenessInfo) {
        if liveness.is_empty() {
            return;
        }
        self.timestamp(liveness.timestamp);
        if liveness.is_expiring() {
            self.min_local_deletion_time = self.min_local_deletion_time.min(liveness.local_expiration);
            self.min_ttl = self.min_ttl.min(liveness.ttl);
        }
    }

    fn deletion(&mut self, deletion: DeletionTime) {
        if !deletion.is_live() {
            self.timestamp(deletion.timestamp);
            self.min_local_deletion_time = self.min_local_deletion_time.min(deletion.local_deletion_time);
        }
    }

    /// Returns the columns with data, ascending.
    pub fn columns(&self) -> impl Iterator<Item = ColumnId> {
        let words = self.columns.iter().enumerate();
        words.flat_map(|(word, bits)| {
            (0..64).filter(move |bit| bits & 1 << bit != 0).map(move |bit| ColumnId((word * 64 + bit) as u16))
        })
    }

    #[inline]
    fn column(&mut self, column: ColumnId) {
        let (word, bit) = (usize::from(column.0) / 64, column.0 % 64);
        if word >= self.columns.len() {
            self.columns.resize(word + 1, 0);
        }
        self.columns[word] |= 1 << bit;
    }

    fn timestamp(&mut self, timestamp: i64) {
        self.min_timestamp = self.min_timestamp.min(timestamp);
        self.max_timestamp = self.max_timestamp.max(timestamp);
    }
}
