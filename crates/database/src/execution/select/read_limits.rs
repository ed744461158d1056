//! Guardrails on what one read scans: tombstones, bytes and row indexes.
//!
//! `tombstone_warn_threshold` and `tombstone_failure_threshold` always apply.
//! `read_thresholds_enabled` enables those on sizes, and replaces the texts of those on tombstones
//! by the coordinator's summaries.

use std::fmt::Write as _;
use std::ops::Bound;

use cassette_engine::{KeyRange, PartitionPosition, row_index_reads};
use cassette_rows::{DecoratedKey, Token};

use super::reader::{Reader, Seen};
use crate::basics::error::{AbortReason, DatabaseError, Result};
use crate::schema::catalog::KeyspaceKind;
use crate::schema::guardrails::{Guard, Key};

/// The limits of one read; `u64::MAX` for no limit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadLimits {
    tombstones: u64,
    bytes: u64,
    row_index: u64,
    /// Whether `read_thresholds_enabled` is set.
    pub tracks: bool,
    /// Whether bytes are counted.
    pub measures: bool,
    /// Whether the table is a system table, which has no limits.
    exempt: bool,
}

/// The partitions of a read, as named in warnings.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Extent<'r> {
    Partition(&'r DecoratedKey),
    Range(&'r KeyRange),
}

impl<'r> Extent<'r> {
    pub fn key(self) -> Option<&'r DecoratedKey> {
        match self {
            Self::Partition(key) => Some(key),
            Self::Range(_) => None,
        }
    }

    /// Returns the tokens in Cassandra's format.
    fn tokens(self) -> String {
        match self {
            Self::Partition(key) => format!("token={}", key.token().0),
            Self::Range(range) => {
                let [(_, open, start), (end_is_open, _, end)] = [edge(&range.start), edge(&range.end)];
                format!("token range: {open}{start}, {end}{}", if end_is_open { ')' } else { ']' })
            }
        }
    }
}

/// Returns whether a bound of a range is exclusive, its opening bracket, and its token. The ring
/// begins and ends with the minimum token.
fn edge(bound: &Bound<PartitionPosition>) -> (bool, char, i64) {
    match bound {
        Bound::Unbounded => (false, '(', i64::MIN),
        Bound::Included(PartitionPosition::At(key)) => (false, '[', key.token().0),
        Bound::Excluded(PartitionPosition::At(key)) => (true, '(', key.token().0),
        Bound::Included(PartitionPosition::Before(token))
        | Bound::Excluded(PartitionPosition::Before(token)) => (true, '[', token.0),
        Bound::Included(PartitionPosition::After(token))
        | Bound::Excluded(PartitionPosition::After(token)) => (false, '(', token.0),
    }
}

impl ReadLimits {
    /// Returns the current limits. System tables have none.
    pub fn new(guard: Guard<'_>, kind: Option<KeyspaceKind>) -> Self {
        let any = u64::MAX;
        if kind == Some(KeyspaceKind::Local) {
            return Self {
                tombstones: any,
                bytes: any,
                row_index: any,
                tracks: false,
                measures: false,
                exempt: true,
            };
        }
        let tombstones = u64::try_from(guard.value(Key::TombstoneFailure)).unwrap_or(any);
        let tracks = guard.is_set(Key::ReadThresholdsEnabled);
        if !tracks {
            return Self { tombstones, bytes: any, row_index: any, tracks, measures: false, exempt: false };
        }
        let limit = |key| guard.limit(key).and_then(|limit| u64::try_from(limit).ok());
        Self {
            tombstones,
            bytes: limit(Key::LocalReadSizeFail).unwrap_or(any),
            row_index: limit(Key::RowIndexReadSizeFail).unwrap_or(any),
            tracks,
            measures: limit(Key::LocalReadSizeFail).or(limit(Key::LocalReadSizeWarn)).is_some(),
            exempt: false,
        }
    }

    /// Whether the counts are within the limits.
    #[inline]
    fn allow(&self, seen: &Seen) -> bool {
        seen.tombstones <= self.tombstones && seen.bytes < self.bytes && seen.row_index <= self.row_index
    }
}

impl Reader<'_, '_> {
    /// Records the size of the row index of the partition that was opened last.
    #[inline]
    pub(crate) fn note_row_index(&self, seen: &mut Seen) {
        if self.read_limits.tracks {
            seen.row_index = seen.row_index.max(row_index_reads::take());
        }
    }

    /// Checks the limits after reading `token`.
    ///
    /// # Errors
    /// If the read has exceeded a limit.
    #[inline]
    pub(crate) fn check_limits(&self, seen: &Seen, extent: Extent<'_>, token: Token) -> Result<()> {
        if self.read_limits.allow(seen) { Ok(()) } else { Err(self.too_much(seen, extent, token)) }
    }

    #[cold]
    fn too_much(&self, seen: &Seen, extent: Extent<'_>, token: Token) -> DatabaseError {
        let limits = &self.read_limits;
        let guard = self.execution.guard();
        let Seen { tombstones, bytes, row_index, .. } = seen;
        if *tombstones > limits.tombstones && !limits.tracks {
            let query = self.query(None);
            let message = format!(
                "Scanned over {tombstones} tombstones during query '{query}' (last scanned row token was {}); query \
                 aborted (see tombstone_failure_threshold)",
                token.0
            );
            guard.log("tombstone_failure_threshold", &message);
            return self.aborted(AbortReason::TooManyTombstones, "received 0 responses and 1 failures");
        }
        let query = self.query(extent.key());
        let (setting, reason, message) = if *tombstones > limits.tombstones {
            let message = format!(
                "1 nodes scanned over {tombstones} tombstones and aborted the query {query} (see \
                 tombstone_failure_threshold)"
            );
            ("tombstone_failure_threshold", AbortReason::TooManyTombstones, message)
        } else if *bytes >= limits.bytes {
            let message = format!(
                "1 nodes loaded over {bytes} bytes and aborted the query {query} (see local_read_size_fail_threshold)"
            );
            ("local_read_size_fail_threshold", AbortReason::ReadSize, message)
        } else {
            let message = format!(
                "1 nodes loaded over {row_index} bytes in RowIndexEntry and aborted the query {query} (see \
                 row_index_size_fail_threshold)"
            );
            ("row_index_read_size_fail_threshold", AbortReason::ReadSize, message)
        };
        guard.log(setting, &message);
        self.aborted(reason, &message)
    }

    /// Returns the error of a read that a guardrail ended.
    pub(crate) fn aborted(&self, reason: AbortReason, message: &str) -> DatabaseError {
        DatabaseError::ReadAborted {
            consistency: self.execution.options.consistency,
            reason,
            message: message.to_owned(),
            data_present: false,
            address: self.execution.store.node().address,
        }
    }

    /// Warns or fails if a search of all partitions reads many SSTables of one storage-attached
    /// index.
    pub(crate) fn limit_indexes(&self, sstables: u64, extent: Extent<'_>) -> Result<()> {
        let guard = self.execution.guard();
        let is_above =
            |key| guard.limit(key).is_some_and(|limit| i64::try_from(sstables).is_ok_and(|n| n > limit));
        if is_above(Key::SaiSSTableIndexesPerQueryFail) {
            let message = format!(
                "1 nodes referenced {sstables} SSTable indexes for a query without restrictions on partition key and \
                 aborted the query {} (see sai_sstable_indexes_per_query_fail_threshold)",
                self.query(extent.key())
            );
            guard.log("sai_sstable_indexes_per_query_fail_threshold", &message);
            return Err(self.aborted(AbortReason::TooManyIndexes, &message));
        }
        if is_above(Key::SaiSSTableIndexesPerQueryWarn) {
            let message = format!(
                "1 nodes referenced more than allowed number of indexes without restrictions on partition key, maximum \
                 on a node being {sstables} indexes, and issued warnings for query {} (see \
                 sai_sstable_indexes_per_query_warn_threshold) with {}",
                self.query(extent.key()),
                extent.tokens()
            );
            guard.warn("sai_sstable_indexes_per_query_warn_threshold", message);
        }
        Ok(())
    }

    /// Warns if a read exceeded a warning threshold.
    #[inline]
    pub(crate) fn warn_of_read(&self, seen: &Seen, extent: Extent<'_>) {
        let limit = self.execution.guard().value(Key::TombstoneWarn);
        if self.read_limits.tracks || seen.tombstones > u64::try_from(limit).unwrap_or(u64::MAX) {
            self.read_warnings(seen, extent);
        }
    }

    #[cold]
    fn read_warnings(&self, seen: &Seen, extent: Extent<'_>) {
        let limits = &self.read_limits;
        if limits.exempt {
            return;
        }
        let guard = self.execution.guard();
        let Seen { live_rows, tombstones, bytes, row_index, .. } = seen;
        let above = |key| guard.limit(key).and_then(|limit| u64::try_from(limit).ok()).unwrap_or(u64::MAX);
        if !limits.tracks {
            let query = self.query(extent.key());
            let mut message =
                format!("Read {live_rows} live rows and {tombstones} tombstone cells for query {query}");
            if let Some(token) = extent.key().map(DecoratedKey::token).or(seen.last) {
                let _ = write!(message, "; token {}", token.0);
            }
            guard.warn("tombstone_warn_threshold", message + " (see tombstone_warn_threshold)");
            return;
        }
        // A read that failed has returned the error instead.
        if !limits.allow(seen) {
            return;
        }
        let warn = |setting: &'static str, message: &dyn Fn(&str) -> String| {
            let message = message(&self.query(extent.key()));
            guard.warn(setting, format!("{message} with {}", extent.tokens()));
        };
        let tombstones_max = u64::try_from(guard.value(Key::TombstoneWarn)).unwrap_or(u64::MAX);
        if *tombstones > tombstones_max {
            warn("tombstone_warn_threshold", &|query| {
                format!(
                    "1 nodes scanned up to {tombstones} tombstones and issued tombstone warnings for query \
                     {query} (see tombstone_warn_threshold)"
                )
            });
        }
        if *bytes >= above(Key::LocalReadSizeWarn) {
            warn("local_read_size_warn_threshold", &|query| {
                format!(
                    "1 nodes loaded over {bytes} bytes and issued local read size warnings for query {query} (see \
                     local_read_size_warn_threshold)"
                )
            });
        }
        if *row_index > above(Key::RowIndexReadSizeWarn) {
            warn("row_index_read_size_warn_threshold", &|query| {
                format!(
                    "1 nodes loaded over {row_index} bytes in RowIndexEntry and issued warnings for query {query} (see \
                     row_index_size_warn_threshold)"
                )
            });
        }
    }
}
