//! The base values of a header's timestamps, local deletion times and TTLs.

use cassette_rows::{DeletionTime, LivenessInfo, NO_DELETION_TIME, NO_TIMESTAMP, NO_TTL, Row};

use crate::data::deletion_codec::{self, to_stored};
use crate::statistics::{SerializationHeader, header};

/// The smallest write timestamp, local deletion time and TTL of the data to be written, or an
/// estimate: a smaller difference takes fewer bytes, and nothing else depends on it.
///
/// A flush computes them from everything that the memtable received, a compaction from its inputs'
/// headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EncodingStats {
    min_timestamp: i64,
    min_local_deletion_time: i32,
    min_ttl: i32,
}

impl Default for EncodingStats {
    /// Returns the values without data.
    fn default() -> Self {
        Self { min_timestamp: i64::MAX, min_local_deletion_time: i32::MAX, min_ttl: i32::MAX }
    }
}

impl EncodingStats {
    /// Returns the values of a header.
    pub fn of_header(header: &SerializationHeader) -> Self {
        let none = header::NO_MINIMA;
        let known = |value: i64, none: i64, unknown: i64| if value == none { unknown } else { value };
        Self {
            min_timestamp: known(header.min_timestamp, none.0, i64::MAX),
            min_local_deletion_time: known(
                header.min_local_deletion_time.into(),
                none.1.into(),
                i32::MAX.into(),
            ) as i32,
            min_ttl: known(header.min_ttl.into(), none.2.into(), i32::MAX.into()) as i32,
        }
    }

    /// Merges another one.
    pub fn merge(&mut self, other: &Self) {
        self.min_timestamp = self.min_timestamp.min(other.min_timestamp);
        self.min_local_deletion_time = self.min_local_deletion_time.min(other.min_local_deletion_time);
        self.min_ttl = self.min_ttl.min(other.min_ttl);
    }

    /// Adds a timestamp, a TTL ([`NO_TTL`] if none) and a local deletion time ([`NO_DELETION_TIME`]
    /// if none).
    #[inline]
    pub fn add(&mut self, timestamp: i64, ttl: u32, local_deletion_time: u32) {
        if timestamp != NO_TIMESTAMP {
            self.min_timestamp = self.min_timestamp.min(timestamp);
        }
        if local_deletion_time != NO_DELETION_TIME {
            self.min_local_deletion_time = self.min_local_deletion_time.min(to_stored(local_deletion_time));
        }
        if ttl != NO_TTL {
            self.min_ttl = self.min_ttl.min(ttl as i32);
        }
    }

    /// Adds a deletion.
    pub fn add_deletion(&mut self, deletion: DeletionTime) {
        if !deletion.is_live() {
            self.add(deletion.timestamp, NO_TTL, deletion.local_deletion_time);
        }
    }

    /// Adds everything in a row.
    pub fn add_row(&mut self, row: &Row) {
        let LivenessInfo { timestamp, ttl, local_expiration } = row.liveness();
        self.add(timestamp, ttl, local_expiration);
        self.add_deletion(row.deletion());
        row.complex_deletions().iter().for_each(|(_, deletion)| self.add_deletion(*deletion));
        row.cells().for_each(|cell| self.add(cell.timestamp, cell.ttl, cell.local_deletion_time));
    }

    /// Returns the base values: Cassandra's epoch without data.
    pub(crate) fn base_values(&self) -> (i64, i32, i32) {
        let (timestamp, local_deletion_time, ttl) = header::NO_MINIMA;
        (
            if self.min_timestamp == i64::MAX { timestamp } else { self.min_timestamp },
            match self.min_local_deletion_time {
                deletion_codec::NONE => local_deletion_time,
                known => known,
            },
            if self.min_ttl == i32::MAX { ttl } else { self.min_ttl },
        )
    }
}
