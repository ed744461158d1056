//! The rows of one damaged partition.
//!
//! They are read from the first one on. After an unreadable one, reading continues at the next
//! block of the row index, if it has one. The output is in order and its markers pair up, whatever
//! is missing: a range tombstone that is open where reading stops ends after the last row before,
//! and one that is open where it continues begins before the first row after.

use std::collections::VecDeque;

use cassette_rows::{
    Bound, Cell, Clustering, DecoratedKey, DeletionTime, LivenessInfo, PartitionUpdate, Position,
    RangeTombstoneMarker, Result, Row, RowBuilder, Side, Unfiltered,
};

use super::{Log, ScrubOptions, is_damage};
use crate::data::Cursor;
use crate::index::PromotedIndex;
use crate::reader::Salvage;
use crate::verify_values::check_row;

/// Cassandra's latest expiration of nb (2038-01-19T03:14:06Z).
const LATEST_EXPIRATION: u32 = i32::MAX as u32 - 1;

/// Reads one partition.
pub(super) struct Rows {
    pub key: DecoratedKey,
    /// Its offset in the uncompressed Data.
    start: u64,
    promoted: Option<PromotedIndex>,
    /// The first block that has not been tried.
    next_block: usize,
    /// The position of the last returned row or marker.
    last: Option<(Clustering, Option<Side>)>,
    /// The deletion that is open there.
    open: DeletionTime,
    /// Opens that deletion, once something follows.
    held: Option<RangeTombstoneMarker>,
    ready: VecDeque<Unfiltered>,
    /// The end of reading; `None` inside if that was not the end of the partition.
    ended: Option<Option<u64>>,
    /// Whether anything is missing.
    pub damaged: bool,
    /// Whether anything was returned.
    pub has_content: bool,
    /// Rows that were out of order.
    pub displaced: PartitionUpdate,
}

impl Rows {
    pub fn new(key: DecoratedKey, start: u64, promoted: Option<PromotedIndex>) -> Self {
        Self {
            start,
            promoted,
            next_block: 0,
            last: None,
            open: DeletionTime::LIVE,
            held: None,
            ready: VecDeque::new(),
            ended: None,
            damaged: false,
            has_content: false,
            displaced: PartitionUpdate::new(key.clone()),
            key,
        }
    }

    /// Returns the end of the partition, if it could be read completely.
    pub fn end(&self) -> Option<u64> {
        self.ended.flatten()
    }

    /// Returns the next readable row or marker.
    pub fn next(
        &mut self,
        cursor: &mut Cursor,
        source: &Salvage,
        options: &ScrubOptions,
        log: &mut Log,
    ) -> Result<Option<Unfiltered>> {
        loop {
            if let Some(ready) = self.ready.pop_front() {
                self.has_content = true;
                return Ok(Some(ready));
            }
            if self.ended.is_some() {
                return Ok(None);
            }
            self.step(cursor, source, options, log)?;
        }
    }

    fn step(
        &mut self,
        cursor: &mut Cursor,
        source: &Salvage,
        options: &ScrubOptions,
        log: &mut Log,
    ) -> Result<()> {
        let at = cursor.offset();
        let pending = match cursor.next_head() {
            Ok(pending) => pending,
            Err(error) if is_damage(&error) => {
                self.lost(log, &error.to_string());
                return self.resume(at, cursor, source, log);
            }
            Err(error) => return Err(error),
        };
        let Some(position) = pending.position() else {
            if !self.open.is_live() {
                self.lost(log, "a range tombstone does not end");
            }
            self.close_range();
            self.ended = Some(Some(cursor.offset()));
            return Ok(());
        };
        let ascends = self.is_behind(position, source);
        let place = (position.prefix.clone(), position.side);
        let (is_marker, body) = (pending.is_marker(), cursor.offset());
        match cursor.body(pending) {
            Ok(Some(Unfiltered::Row(row))) => {
                let row =
                    if options.reinsert_overflowed_ttl { log.with_expirations_in_range(row) } else { row };
                let wrong = if options.validate { check_row(source.table(), &row).err() } else { None };
                match wrong {
                    Some(wrong) => self.lost(log, &format!("a row at {at}: {wrong}")),
                    None if !ascends => self.displaced.add_row(row, source.table()),
                    None => {
                        self.ready.extend(self.held.take().map(|held| Unfiltered::Marker(held.into())));
                        self.ready.push_back(Unfiltered::Row(row));
                        self.last = Some(place);
                    }
                }
            }
            Ok(Some(Unfiltered::Marker(marker))) if ascends => {
                self.marker(*marker, log);
                self.last = Some(place);
            }
            Ok(Some(Unfiltered::Marker(_))) => {
                self.lost(log, &format!("a range tombstone's end at {at} is out of order"));
                return self.resume(at, cursor, source, log);
            }
            Ok(None) => {}
            // Its bytes are intact, so the following ones can be read.
            Err(error) if is_damage(&error) && !is_marker && cursor.offset() > body => {
                self.lost(log, &error.to_string());
            }
            Err(error) if is_damage(&error) => {
                self.lost(log, &error.to_string());
                return self.resume(at, cursor, source, log);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn is_behind(&self, position: Position<'_>, source: &Salvage) -> bool {
        let comparator = &source.table().comparator;
        self.last.as_ref().is_none_or(|(prefix, side)| {
            comparator.compare(Position { prefix, side: *side }, position).is_lt()
        })
    }

    /// Records unreadable data.
    pub fn lost(&mut self, log: &mut Log, why: &str) {
        self.damaged = true;
        log.warn(format!("Partition {}: {why}", super::key_text(&self.key)));
    }

    fn marker(&mut self, mut marker: RangeTombstoneMarker, log: &mut Log) {
        let closes = marker.close.unwrap_or(DeletionTime::LIVE);
        if closes != self.open {
            self.lost(log, "a range tombstone ends that is not open");
        }
        marker.close = (!self.open.is_live()).then_some(self.open);
        self.open = marker.open.unwrap_or(DeletionTime::LIVE);
        if marker.close.is_none() && marker.open.is_none() {
            return;
        }
        self.ready.extend(self.held.take().map(|held| Unfiltered::Marker(held.into())));
        match marker.open {
            Some(_) => self.held = Some(marker),
            None => self.ready.push_back(Unfiltered::Marker(marker.into())),
        }
    }

    /// Ends the open range tombstone after the last returned row or marker.
    fn close_range(&mut self) {
        let open = std::mem::replace(&mut self.open, DeletionTime::LIVE);
        if let Some(mut held) = self.held.take() {
            // It is only known to delete what precedes.
            held.open = None;
            if held.close.is_some() {
                self.ready.push_back(Unfiltered::Marker(held.into()));
            }
        } else if !open.is_live()
            && let Some((prefix, _)) = &self.last
        {
            let bound = Bound::after(prefix.clone());
            self.last = Some((prefix.clone(), Some(Side::After)));
            self.ready.push_back(Unfiltered::Marker(Box::new(RangeTombstoneMarker {
                bound,
                close: Some(open),
                open: None,
            })));
        }
    }

    /// Continues at the first readable block after `at`.
    pub fn resume(
        &mut self,
        mut at: u64,
        cursor: &mut Cursor,
        source: &Salvage,
        log: &mut Log,
    ) -> Result<()> {
        self.close_range();
        let codec = &source.format().clustering;
        while let Some(promoted) = &self.promoted
            && self.next_block < promoted.len()
        {
            let number = self.next_block;
            self.next_block += 1;
            let before = match number.checked_sub(1) {
                Some(before) => promoted.block(before, codec).map(|block| block.open),
                None => Ok(DeletionTime::LIVE),
            };
            let (Ok(open), Ok(block)) = (before, promoted.block(number, codec)) else { continue };
            let start = self.start.saturating_add(block.offset);
            let first = block.first.position();
            if start <= at || !self.is_behind(first, source) {
                continue;
            }
            cursor.seek(start);
            let is_there = match cursor.next_head() {
                Ok(head) => head
                    .position()
                    .is_some_and(|position| position.prefix == first.prefix && position.side == first.side),
                Err(error) if is_damage(&error) => false,
                Err(error) => return Err(error),
            };
            if !is_there {
                at = start;
                continue;
            }
            cursor.seek(start);
            log.warn(format!("Partition {}: continues at {start}", super::key_text(&self.key)));
            let bound = Bound::before(first.prefix.clone());
            if !open.is_live() && first.side.is_none() && self.is_behind(bound.position(), source) {
                self.last = Some((bound.prefix.clone(), Some(bound.side)));
                self.open = open;
                self.held = Some(RangeTombstoneMarker { bound, close: None, open: Some(open) });
            }
            return Ok(());
        }
        self.ended = Some(None);
        Ok(())
    }
}

impl Log {
    /// Returns the row with storable expirations: those that overflowed become the latest possible,
    /// written a microsecond later, so that they supersede their other copies (CASSANDRA-14092).
    fn with_expirations_in_range(&mut self, row: Row) -> Row {
        let overflowed = |ttl: u32, expiration: u32| ttl > 0 && expiration > LATEST_EXPIRATION;
        let liveness = row.liveness();
        let of_liveness = liveness.is_expiring() && overflowed(liveness.ttl, liveness.local_expiration);
        let is_overflowed =
            |cell: &Cell<'_>| cell.is_expiring() && overflowed(cell.ttl, cell.local_deletion_time);
        if !of_liveness && !row.cells().any(|cell| is_overflowed(&cell)) {
            return row;
        }
        self.fixed_rows += 1;
        let mut fixed =
            RowBuilder::with_capacity(row.clustering().clone(), row.cell_count(), row.data_size());
        fixed.deletion(row.deletion()).liveness(if of_liveness {
            LivenessInfo::expiring(liveness.timestamp + 1, liveness.ttl, LATEST_EXPIRATION)
        } else {
            liveness
        });
        for (column, deletion) in row.complex_deletions() {
            fixed.complex_deletion(*column, *deletion);
        }
        for cell in row.cells() {
            fixed.cell(if is_overflowed(&cell) {
                Cell { timestamp: cell.timestamp + 1, local_deletion_time: LATEST_EXPIRATION, ..cell }
            } else {
                cell
            });
        }
        fixed.finish()
    }
}

#[cfg(test)]
mod tests {
    use cassette_rows::{ColumnId, NO_DELETION_TIME, NO_TTL};

    use super::*;

    #[test]
    fn expirations_that_overflowed_become_the_latest_and_supersede_what_was_there() {
        let twenty_years = 630_720_000;
        let cell = |ttl, local_deletion_time| Cell {
            column: ColumnId(0),
            path: None,
            value: b"v",
            timestamp: 1000,
            ttl,
            local_deletion_time,
        };
        let row = |liveness: LivenessInfo, cell: Cell<'_>| {
            let mut row = RowBuilder::new(Clustering::empty());
            row.liveness(liveness).cell(cell);
            row.finish()
        };
        let mut log = Log::default();
        let fixed = log.with_expirations_in_range(row(
            LivenessInfo::expiring(1000, twenty_years, 2_200_000_000),
            cell(twenty_years, 2_200_000_000),
        ));
        let latest = i32::MAX as u32 - 1;
        assert_eq!(fixed.liveness(), LivenessInfo::expiring(1001, twenty_years, latest));
        let expected = Cell { timestamp: 1001, ..cell(twenty_years, latest) };
        assert_eq!(fixed.cells().collect::<Vec<_>>(), [expected]);
        assert_eq!(log.fixed_rows, 1);
        for sound in [
            row(LivenessInfo::new(1000), cell(NO_TTL, NO_DELETION_TIME)),
            row(LivenessInfo::expiring(1000, 10, 1_700_000_000), cell(10, 1_700_000_000)),
        ] {
            assert_eq!(log.with_expirations_in_range(sound.clone()), sound);
        }
        assert_eq!(log.fixed_rows, 1);
    }
}
