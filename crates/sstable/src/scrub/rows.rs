//! The rows of one damaged partition.
//!
//! They are read from its first on. Where one cannot be, reading goes on at the next block that the index of its rows knows, if it has
//! one. What is handed on is in order and its markers pair up, whatever is missing: a range tombstone that is open where reading breaks off
//! ends after the last row before, and one that is open where it goes on begins before the first row after.

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
    /// Where it begins in the uncompressed Data.
    start: u64,
    promoted: Option<PromotedIndex>,
    /// The first block that has not been tried.
    next_block: usize,
    /// The place of what was handed on last.
    last: Option<(Clustering, Option<Side>)>,
    /// The deletion that is open there.
    open: DeletionTime,
    /// Opens it, and waits for something that follows.
    held: Option<RangeTombstoneMarker>,
    ready: VecDeque<Unfiltered>,
    /// Where reading ended; `None` inside if that was not the end of the partition.
    ended: Option<Option<u64>>,
    /// Whether anything is missing.
    pub damaged: bool,
    /// Whether there was anything to hand on.
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

    /// Where the partition ended, if it could be read up to its end.
    pub fn end(&self) -> Option<u64> {
        self.ended.flatten()
    }

    /// The next row or marker that can be read.
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
                let row = match options.reinsert_overflowed_ttl {
                    true => log.with_expirations_in_range(row),
                    false => row,
                };
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
            // Its bytes were there, and what is behind them can be read.
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

    /// Something cannot be read.
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

    /// Ends the range tombstone that is open, after what was handed on last.
    fn close_range(&mut self) {
        let open = std::mem::replace(&mut self.open, DeletionTime::LIVE);
        if let Some(mut held) = self.held.take() {
            // Nothing is known to be deleted by it but what is before.
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

    /// Goes on at the first block that begins behind `at` and can be read.
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
            log.warn(format!("Partition {}: goes on at {start}", super::key_text(&self.key)));
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
    /// A row whose expirations can be stored: those that overflowed come as late as can be, and a microsecond later than they were written, so
    /// that they supersede what has become of them elsewhere (CASSANDRA-14092).
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
        fixed.deletion(row.deletion()).liveness(match of_liveness {
            true => LivenessInfo::expiring(liveness.timestamp + 1, liveness.ttl, LATEST_EXPIRATION),
            false => liveness,
        });
        for (column, deletion) in row.complex_deletions() {
            fixed.complex_deletion(*column, *deletion);
        }
        for cell in row.cells() {
            fixed.cell(match is_overflowed(&cell) {
                true => {
                    Cell { timestamp: cell.timestamp + 1, local_deletion_time: LATEST_EXPIRATION, ..cell }
                }
                false => cell,
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
