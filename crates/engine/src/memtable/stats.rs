//! What is known of a memtable's contents without reading them.

use cassette_rows::{DeletionTime, LivenessInfo, NO_DELETION_TIME, NO_TTL, PartitionUpdate, Row};

/// Bounds over everything that was written to a memtable, overwritten data included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MemtableStats {
    /// Least write timestamp, microseconds; `i64::MAX` when there is none.
    pub min_timestamp: i64,
    /// Greatest write timestamp, microseconds; `i64::MIN` when there is none.
    pub max_timestamp: i64,
    /// Least local deletion time, seconds; `NO_DELETION_TIME` when nothing is deleted or expires.
    pub min_local_deletion_time: u32,
    /// Least TTL of what expires, seconds; `u32::MAX` when nothing does.
    pub min_ttl: u32,
    /// Rows written, overwritten ones included.
    pub rows_written: u64,
}

impl Default for MemtableStats {
    fn default() -> Self {
        Self {
            min_timestamp: i64::MAX,
            max_timestamp: i64::MIN,
            min_local_deletion_time: NO_DELETION_TIME,
            min_ttl: u32::MAX,
            rows_written: 0,
        }
    }
}

impl MemtableStats {
    /// Takes an update into account.
    pub fn add(&mut self, update: &PartitionUpdate) {
        self.deletion(update.deletion);
        for tombstone in update.range_tombstones.as_slice() {
            self.deletion(tombstone.deletion);
        }
        for row in update.static_row.iter().chain(&update.rows) {
            self.row(row);
        }
    }

    /// Takes everything that `other` knows into account.
    pub fn merge(&mut self, other: &Self) {
        self.min_timestamp = self.min_timestamp.min(other.min_timestamp);
        self.max_timestamp = self.max_timestamp.max(other.max_timestamp);
        self.min_local_deletion_time = self.min_local_deletion_time.min(other.min_local_deletion_time);
        self.min_ttl = self.min_ttl.min(other.min_ttl);
        self.rows_written += other.rows_written;
    }

    fn row(&mut self, row: &Row) {
        self.rows_written += 1;
        self.liveness(row.liveness());
        self.deletion(row.deletion());
        for (_, deletion) in row.complex_deletions() {
            self.deletion(*deletion);
        }
        let has_deletions = row.has_deletions();
        for cell in row.cells() {
            self.timestamp(cell.timestamp);
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

    fn timestamp(&mut self, timestamp: i64) {
        self.min_timestamp = self.min_timestamp.min(timestamp);
        self.max_timestamp = self.max_timestamp.max(timestamp);
    }
}
