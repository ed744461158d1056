//! Drops tombstones that are no longer needed.

use crate::deletion::{DeletionTime, LivenessInfo, NO_DELETION_TIME, NO_TTL};
use crate::error::Result;
use crate::key::DecoratedKey;
use crate::row::{Cell, Row, RowBuilder};
use crate::stream::{PartitionHeader, PartitionStream, RangeTombstoneMarker, Unfiltered};

/// Decides which tombstones of a partition can be purged.
///
/// A tombstone is purged if it was created before `gc_before` (seconds: now less gc_grace_seconds)
/// and its timestamp is below `max_purgeable_timestamp`, the least timestamp of any data outside
/// the compaction that may belong to the partition.
pub trait PurgePolicy: Send {
    /// Tombstones with a local deletion time below this (seconds since 1970) can be purged.
    fn gc_before(&self) -> u32;

    /// Tombstones with timestamps below this (microseconds) shadow nothing elsewhere. Called at
    /// most once per partition, and only if it contains a tombstone that is old enough.
    fn max_purgeable_timestamp(&mut self, key: &DecoratedKey) -> i64;
}

/// A stream without the tombstones that a [`PurgePolicy`] purges, and with expired cells turned
/// into tombstones. Skips partitions of which nothing is left. Requires a forward, merged stream.
pub struct PurgingStream<S, P> {
    inner: S,
    gate: Gate<P>,
    /// Read ahead to find out whether the partition is empty.
    head: Option<Unfiltered>,
    /// The range deletion that is open in the output.
    open: Option<DeletionTime>,
}

struct Gate<P> {
    policy: P,
    /// In seconds since 1970.
    now: u32,
    key: Option<DecoratedKey>,
    /// For the current key, once computed.
    max_purgeable: Option<i64>,
    /// Whether rows exist by their liveness alone.
    strict_liveness: bool,
}

impl<P: PurgePolicy> Gate<P> {
    fn purges(&mut self, timestamp: i64, local_deletion_time: u32) -> bool {
        if local_deletion_time >= self.policy.gc_before() {
            return false;
        }
        let Some(key) = &self.key else { return false };
        let limit = *self.max_purgeable.get_or_insert_with(|| self.policy.max_purgeable_timestamp(key));
        timestamp < limit
    }

    fn purges_deletion(&mut self, deletion: DeletionTime) -> bool {
        !deletion.is_live() && self.purges(deletion.timestamp, deletion.local_deletion_time)
    }

    /// Returns the row without purged data, with expired cells as tombstones; `None` if nothing is
    /// left.
    fn row(&mut self, row: Row) -> Option<Row> {
        if !row.has_deletions() {
            return Some(row);
        }
        let liveness = row.liveness();
        let expired = liveness.is_expiring() && self.now >= liveness.local_expiration;
        let liveness = if expired && self.purges(liveness.timestamp, liveness.local_expiration) {
            LivenessInfo::EMPTY
        } else {
            liveness
        };
        let deletion = if self.purges_deletion(row.deletion()) { DeletionTime::LIVE } else { row.deletion() };
        if self.strict_liveness && liveness.is_empty() && deletion.is_live() {
            return None;
        }
        let mut out = RowBuilder::with_capacity(row.clustering().clone(), row.cell_count(), row.data_size());
        out.liveness(liveness).deletion(deletion);
        for (column, deletion) in row.complex_deletions() {
            if !self.purges_deletion(*deletion) {
                out.complex_deletion(*column, *deletion);
            }
        }
        for cell in row.cells() {
            if let Some(cell) = self.cell(cell) {
                out.cell(cell);
            }
        }
        (!out.is_empty()).then(|| out.finish())
    }

    fn cell<'a>(&mut self, cell: Cell<'a>) -> Option<Cell<'a>> {
        if cell.is_live(self.now) {
            return Some(cell);
        }
        if self.purges(cell.timestamp, cell.local_deletion_time) {
            return None;
        }
        if !cell.is_expiring() {
            return Some(cell);
        }
        // As if the cell had been deleted when it was written: gc_grace_seconds count from there,
        // as in Cassandra.
        let written = cell.local_deletion_time.saturating_sub(cell.ttl);
        debug_assert_ne!(written, NO_DELETION_TIME);
        if self.purges(cell.timestamp, written) {
            return None;
        }
        Some(Cell { value: &[], ttl: NO_TTL, local_deletion_time: written, ..cell })
    }
}

impl<S: PartitionStream, P: PurgePolicy> PurgingStream<S, P> {
    /// `now` is in seconds since 1970.
    pub fn new(inner: S, policy: P, now: u32) -> Self {
        Self {
            inner,
            gate: Gate { policy, now, key: None, max_purgeable: None, strict_liveness: false },
            head: None,
            open: None,
        }
    }

    /// Drops rows completely once their liveness ends: for tables with
    /// [`strict_liveness`](crate::TableMetadata::strict_liveness).
    pub fn with_strict_liveness(mut self, strict: bool) -> Self {
        self.gate.strict_liveness = strict;
        self
    }

    fn advance(&mut self) -> Result<Option<Unfiltered>> {
        while let Some(next) = self.inner.next_unfiltered()? {
            match next {
                Unfiltered::Row(row) => {
                    if let Some(row) = self.gate.row(row) {
                        return Ok(Some(Unfiltered::Row(row)));
                    }
                }
                Unfiltered::Marker(marker) => {
                    let open = marker.open.filter(|deletion| !self.gate.purges_deletion(*deletion));
                    let close = std::mem::replace(&mut self.open, open);
                    if open.is_some() || close.is_some() {
                        let marker = RangeTombstoneMarker { bound: marker.bound, close, open };
                        return Ok(Some(marker.into()));
                    }
                }
            }
        }
        Ok(None)
    }
}

impl<S: PartitionStream, P: PurgePolicy> PartitionStream for PurgingStream<S, P> {
    fn next_partition(&mut self) -> Result<Option<PartitionHeader>> {
        loop {
            let Some(mut header) = self.inner.next_partition()? else {
                self.head = None;
                return Ok(None);
            };
            self.gate.key = Some(header.key.clone());
            self.gate.max_purgeable = None;
            self.open = None;
            if self.gate.purges_deletion(header.deletion) {
                header.deletion = DeletionTime::LIVE;
            }
            header.static_row = header.static_row.and_then(|row| self.gate.row(row));
            self.head = self.advance()?;
            if self.head.is_some() || header.static_row.is_some() || !header.deletion.is_live() {
                return Ok(Some(header));
            }
        }
    }

    fn next_unfiltered(&mut self) -> Result<Option<Unfiltered>> {
        match self.head.take() {
            Some(head) => Ok(Some(head)),
            None => self.advance(),
        }
    }
}
