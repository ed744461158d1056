//! Decodes rows and markers.
//!
//! ```text
//! row:    u8 flags, [u8 extended flags], [clustering values], vint size of the rest, vint size of the previous,
//!         [vint ts], [vint TTL, vint ldt], [vint ts, vint ldt of the deletion], [subset], columns
//! marker: u8 02, bound, vint size of the rest, vint size of the previous, vint ts, vint ldt; twice at a boundary
//! end:    u8 01
//! simple column:  cell
//! complex column: [vint ts, vint ldt], vint number of cells, cells
//! cell:   u8 flags, [vint ts], [vint ldt], [vint TTL], [path], [value]
//! ```
//! Times are differences to the base values of the header. In the row's liveness the TTL precedes
//! the local deletion time; in a cell it follows it.

use std::ops::Range;

use bytes::Bytes;
use cassette_rows::token::murmur3_token;
use cassette_rows::{
    Bound, Cell, Clustering, ClusteringComparator, DeletionTime, LivenessInfo, NO_DELETION_TIME, NO_TTL,
    RangeTombstoneMarker, Row, RowBuilder, Token,
};

use super::deletion_codec;
use super::flags::*;
use super::row_format::{RowFormat, StoredColumn, StoredColumns, Subset};
use crate::clustering_codec::{FEW, MarkerKind};
use crate::error::{Malformed, Parsed};
use crate::input::Input;

/// The part before the body of a row or marker: enough to position it, or to skip it.
#[derive(Debug, Clone, PartialEq)]
pub enum Head {
    /// The partition ends.
    EndOfPartition,
    /// A row.
    Row {
        /// Flags and extended flags.
        flags: (u8, u8),
        /// The clustering.
        clustering: Clustering,
        /// Bytes of the following body.
        body_length: usize,
    },
    /// A marker.
    Marker {
        /// The position of the marker.
        bound: cassette_rows::Bound,
        /// The deletions that end and begin there.
        kind: MarkerKind,
        /// Bytes of the following body.
        body_length: usize,
    },
}

impl RowFormat {
    /// Reads the head of the next row or marker.
    #[inline]
    pub fn decode_head(&self, input: &mut Input<'_>) -> Parsed<Head> {
        let at = input.offset();
        let flags = input.u8()?;
        if flags & END_OF_PARTITION != 0 {
            return match flags {
                END_OF_PARTITION => Ok(Head::EndOfPartition),
                _ => Err(Malformed::new(
                    at,
                    format!("the end of the partition expected, flags {flags:#04x} found"),
                )),
            };
        }
        if flags & IS_MARKER != 0 {
            if flags != IS_MARKER {
                return Err(Malformed::new(at, format!("a marker expected, flags {flags:#04x} found")));
            }
            let (bound, kind) = self.clustering.decode_bound(input)?;
            return Ok(Head::Marker { bound, kind, body_length: body_length(input)? });
        }
        let (flags, clustering) = self.row_start(at, flags, input)?;
        Ok(Head::Row { flags, clustering, body_length: body_length(input)? })
    }

    /// Decodes the rest of a row's flags, and its clustering; the flags are at offset `at`.
    #[inline]
    pub(super) fn row_start(
        &self,
        at: u64,
        flags: u8,
        input: &mut Input<'_>,
    ) -> Parsed<((u8, u8), Clustering)> {
        let extended = if flags & EXTENSION != 0 { input.u8()? } else { 0 };
        if extended & !(IS_STATIC | HAS_SHADOWABLE_DELETION) != 0
            || flags & HAS_TTL != 0 && flags & HAS_TIMESTAMP == 0
        {
            return Err(Malformed::new(
                at,
                format!("a row expected, flags {flags:#04x} {extended:#04x} found"),
            ));
        }
        let clustering = if extended & IS_STATIC != 0 {
            Clustering::empty()
        } else {
            self.clustering.decode_values(input, self.clustering.columns())?
        };
        Ok(((flags, extended), clustering))
    }

    /// Skips a row before `bound`, reading as little of it as possible, and returns its encoded
    /// clustering. Returns `None`, with `input` at an undefined position, if it is not such a row,
    /// or uses rare features: [`decode_head`](Self::decode_head) handles these.
    #[inline]
    pub fn pass_row_before<'a>(
        &self,
        input: &mut Input<'a>,
        bound: &Bound,
        comparator: &ClusteringComparator,
    ) -> Parsed<Option<&'a [u8]>> {
        let flags = input.u8()?;
        if flags & (END_OF_PARTITION | IS_MARKER | EXTENSION) != 0
            || flags & HAS_TTL != 0 && flags & HAS_TIMESTAMP == 0
        {
            return Ok(None);
        }
        let mut values = [None; FEW];
        let start = input.position();
        let Some(count) = self.clustering.borrow_values(input, &mut values)? else { return Ok(None) };
        let clustering = input.since(start);
        let body_length = body_length(input)?;
        input.bytes(body_length)?;
        Ok(comparator.is_row_before(&values[..count], bound).then_some(clustering))
    }

    /// Skips a row and returns `true`. Returns `false`, with `input` at an undefined position, for
    /// other items and rare features, which [`decode_head`](Self::decode_head) handles.
    #[inline]
    pub fn pass_row(&self, input: &mut Input<'_>) -> Parsed<bool> {
        let flags = input.u8()?;
        if flags & (END_OF_PARTITION | IS_MARKER | EXTENSION) != 0 {
            return Ok(false);
        }
        self.pass_rest_of_row(input).map(|()| true)
    }

    /// Returns whether these are the flags of a row whose primary key is live at any time, without
    /// extended flags or any deletion but those of cells.
    #[inline]
    pub fn is_lasting(flags: u8) -> bool {
        const NONE: u8 =
            END_OF_PARTITION | IS_MARKER | EXTENSION | HAS_TTL | HAS_DELETION | HAS_COMPLEX_DELETION;
        flags & (NONE | HAS_TIMESTAMP) == HAS_TIMESTAMP
    }

    /// [`pass_row`](Self::pass_row) for a row that [lasts](Self::is_lasting).
    #[inline]
    pub fn pass_live_row(&self, input: &mut Input<'_>) -> Parsed<bool> {
        if !Self::is_lasting(input.u8()?) {
            return Ok(false);
        }
        self.pass_rest_of_row(input).map(|()| true)
    }

    /// Skips a row after its flags.
    #[inline]
    pub(super) fn pass_rest_of_row(&self, input: &mut Input<'_>) -> Parsed<()> {
        self.clustering.skip_values(input, self.clustering.columns())?;
        let body_length = body_length(input)?;
        input.bytes(body_length)?;
        Ok(())
    }

    /// Skips a partition before the token, without a deletion, all of whose rows
    /// [last](Self::is_lasting), and returns the number of rows. Returns `None`, with `input` at an
    /// undefined position, for other partitions. There must be no static columns.
    #[inline]
    pub fn pass_live_partition(&self, input: &mut Input<'_>, before: Option<Token>) -> Parsed<Option<u64>> {
        if !self.pass_live_start(input, before)? {
            return Ok(None);
        }
        let mut rows = 0;
        loop {
            let flags = input.u8()?;
            if !Self::is_lasting(flags) {
                return Ok((flags == END_OF_PARTITION).then_some(rows));
            }
            self.pass_rest_of_row(input)?;
            rows += 1;
        }
    }

    /// Skips the start of a partition before the token, without a deletion. Returns `false`, with
    /// `input` at an undefined position, for other partitions, and for rare forms of no deletion.
    #[inline]
    pub(super) fn pass_live_start(&self, input: &mut Input<'_>, before: Option<Token>) -> Parsed<bool> {
        let key = input.bytes16()?;
        if before.is_some_and(|before| murmur3_token(key) >= before) {
            return Ok(false);
        }
        Ok(if self.has_short_deletions {
            input.u8()? == deletion_codec::SHORT_NONE
        } else {
            input.bytes(12)? == deletion_codec::PLAIN_NONE
        })
    }

    /// Reads the deletion at the start of a partition.
    pub(super) fn partition_deletion(&self, input: &mut Input<'_>) -> Parsed<DeletionTime> {
        if self.has_short_deletions {
            deletion_codec::decode_short(input)
        } else {
            deletion_codec::decode_plain(input)
        }
    }

    /// Decodes a marker's body, which is all of `input`.
    pub fn decode_marker(
        &self,
        bound: cassette_rows::Bound,
        kind: MarkerKind,
        mut input: Input<'_>,
    ) -> Parsed<RangeTombstoneMarker> {
        input.vint()?;
        let marker = self.marker_deletions(bound, kind, &mut input)?;
        input.end()?;
        Ok(marker)
    }

    /// Decodes the deletions of a marker.
    pub(super) fn marker_deletions(
        &self,
        bound: cassette_rows::Bound,
        kind: MarkerKind,
        input: &mut Input<'_>,
    ) -> Parsed<RangeTombstoneMarker> {
        let at = input.offset();
        let close = if kind.closes { Some(self.deletion(input)?) } else { None };
        let open = if kind.opens { Some(self.deletion(input)?) } else { None };
        if close.or(open).is_none() || [close, open].iter().flatten().any(DeletionTime::is_live) {
            return Err(Malformed::new(at, "the deletion of a range tombstone expected, none found"));
        }
        Ok(RangeTombstoneMarker { bound, close, open })
    }

    /// Decodes a row's body at `body` in `data`; `data` begins at offset `base` of the stream. The
    /// row's values stay there. Returns `None` if nothing is left without the columns that the
    /// table has dropped.
    pub fn decode_row(
        &self,
        (flags, extended): (u8, u8),
        clustering: Clustering,
        data: &Bytes,
        body: Range<usize>,
        base: u64,
    ) -> Parsed<Option<Row>> {
        let mut input = Input::over(data.get(..body.end).unwrap_or_default(), body.start, base);
        input.vint()?;
        let row = self.row_body((flags, extended), clustering, data, &mut input)?;
        input.end()?;
        Ok(row)
    }

    /// Decodes liveness, deletion and columns of a row; `input` is over `data`.
    #[inline]
    pub(super) fn row_body(
        &self,
        (flags, extended): (u8, u8),
        clustering: Clustering,
        data: &Bytes,
        input: &mut Input<'_>,
    ) -> Parsed<Option<Row>> {
        let liveness =
            if flags & HAS_TIMESTAMP != 0 { self.liveness(flags, input)? } else { LivenessInfo::EMPTY };
        let deletion = if flags & HAS_DELETION != 0 { self.deletion(input)? } else { DeletionTime::LIVE };
        let stored = self.columns(extended & IS_STATIC != 0);
        let subset = if flags & HAS_ALL_COLUMNS != 0 {
            Subset::All(stored.len() as u32)
        } else {
            decode_subset(input, stored.len())?
        };
        let mut row = RowBuilder::over(clustering, subset.len(), data.clone());
        row.liveness(liveness).deletion(deletion);
        subset.for_each(|index| {
            let Some(column) = stored.columns.get(index) else {
                return Err(
                    input.malformed(format!("one of {} columns expected, {index} found", stored.len()))
                );
            };
            if column.complex {
                self.complex_column(column, flags, &liveness, input, &mut row)
            } else {
                self.cell(column, &liveness, input, &mut row)
            }
        })?;
        if row.is_empty() {
            return Ok(None);
        }
        sort(stored, &mut row);
        Ok(Some(row.finish()))
    }

    #[inline]
    pub(super) fn timestamp(&self, input: &mut Input<'_>) -> Parsed<i64> {
        Ok(self.min_timestamp.wrapping_add(input.vint()? as i64))
    }

    /// 32 unsigned bits, as in 5.0; all ones means "none".
    #[inline]
    fn local_deletion_time(&self, input: &mut Input<'_>) -> Parsed<u32> {
        Ok(self.min_local_deletion_time.wrapping_add(input.vint32()?) as u32)
    }

    #[inline]
    fn ttl(&self, input: &mut Input<'_>) -> Parsed<u32> {
        let ttl = self.min_ttl.wrapping_add(input.vint32()?);
        match u32::try_from(ttl) {
            Ok(ttl) if ttl != NO_TTL => Ok(ttl),
            _ => Err(input.malformed(format!("a TTL before this expected, {ttl} found"))),
        }
    }

    fn liveness(&self, flags: u8, input: &mut Input<'_>) -> Parsed<LivenessInfo> {
        let timestamp = self.timestamp(input)?;
        if flags & HAS_TTL == 0 {
            return Ok(LivenessInfo::new(timestamp));
        }
        let ttl = self.ttl(input)?;
        let expiration = self.local_deletion_time(input)?;
        if expiration == NO_DELETION_TIME {
            return Err(input.malformed("an expiration before this expected, none found"));
        }
        Ok(LivenessInfo::expiring(timestamp, ttl, expiration))
    }

    /// Decodes a deletion; live if its timestamp is that of none, whatever the local deletion time.
    pub(super) fn deletion(&self, input: &mut Input<'_>) -> Parsed<DeletionTime> {
        let deletion = DeletionTime::new(self.timestamp(input)?, self.local_deletion_time(input)?);
        Ok(if deletion.is_live() { DeletionTime::LIVE } else { deletion })
    }

    fn complex_column(
        &self,
        column: &StoredColumn,
        flags: u8,
        liveness: &LivenessInfo,
        input: &mut Input<'_>,
        row: &mut RowBuilder,
    ) -> Parsed<()> {
        if flags & HAS_COMPLEX_DELETION != 0 {
            let deletion = self.deletion(input)?;
            if let Some(id) = column.id
                && deletion.timestamp > column.dropped_at
            {
                row.complex_deletion(id, deletion);
            }
        }
        for _ in 0..input.count(2)? {
            self.cell(column, liveness, input, row)?;
        }
        Ok(())
    }

    #[inline]
    fn cell(
        &self,
        column: &StoredColumn,
        liveness: &LivenessInfo,
        input: &mut Input<'_>,
        row: &mut RowBuilder,
    ) -> Parsed<()> {
        let flags = input.u8()?;
        let (deleted, expiring) = (flags & CELL_IS_DELETED != 0, flags & CELL_IS_EXPIRING != 0);
        if flags & !CELL_ALL != 0 || deleted && expiring {
            return Err(input.malformed(format!("a cell before this expected, flags {flags:#04x} found")));
        }
        let timestamp =
            if flags & CELL_USES_ROW_TIMESTAMP != 0 { liveness.timestamp } else { self.timestamp(input)? };
        let (mut ttl, mut local_deletion_time) = (NO_TTL, NO_DELETION_TIME);
        if flags & CELL_USES_ROW_TTL != 0 {
            (ttl, local_deletion_time) = (liveness.ttl, liveness.local_expiration);
        } else if deleted || expiring {
            local_deletion_time = self.local_deletion_time(input)?;
            if expiring {
                ttl = self.ttl(input)?;
            }
        }
        if (local_deletion_time != NO_DELETION_TIME) != (deleted || expiring) || (ttl != NO_TTL) != expiring {
            return Err(input.malformed(format!(
                "a cell with flags {flags:#04x} before this cannot have TTL {ttl} and deletion {local_deletion_time}"
            )));
        }
        let path = if column.complex {
            let length = input.length()?;
            let start = input.position();
            input.bytes(length)?;
            Some(start..start + length)
        } else {
            None
        };
        let length = match (flags & CELL_HAS_EMPTY_VALUE != 0, column.complex, column.width) {
            (true, _, _) => 0,
            // The width of a simple value is that of its type; elements always follow their length.
            (false, false, Some(width)) => width,
            _ => input.length()?,
        };
        let start = input.position();
        input.bytes(length)?;
        if let Some(id) = column.id
            && timestamp > column.dropped_at
        {
            let cell = Cell { column: id, path: None, value: &[], timestamp, ttl, local_deletion_time };
            row.cell_in(cell, path, start..start + length);
        }
        Ok(())
    }
}

/// Decodes the size of a body; a body is at least as long as the part read before.
#[inline]
pub(super) fn body_length(input: &mut Input<'_>) -> Parsed<usize> {
    let length = input.vint()?;
    match usize::try_from(length) {
        // Rows are in buffers with 32-bit offsets.
        Ok(size) if (1..=u64::from(u32::MAX / 2)).contains(&length) => Ok(size),
        _ => Err(input.malformed(format!("the size of a row before this expected, {length} found"))),
    }
}

fn sort(stored: &StoredColumns, row: &mut RowBuilder) {
    if !stored.ascending {
        row.sort_columns();
    }
}

fn decode_subset(input: &mut Input<'_>, columns: usize) -> Parsed<Subset> {
    let at = input.offset();
    let missing = input.vint()?;
    if columns < 64 {
        let all = (1u64 << columns) - 1;
        return match missing & !all {
            0 => Ok(Subset::Bits(all & !missing)),
            _ => {
                Err(Malformed::new(at, format!("a subset of {columns} columns expected, {missing:#x} found")))
            }
        };
    }
    let Some(present) = usize::try_from(missing).ok().and_then(|missing| columns.checked_sub(missing)) else {
        return Err(Malformed::new(
            at,
            format!("a subset of {columns} columns expected, {missing} missing found"),
        ));
    };
    let lists_present = present < columns / 2;
    let listed = if lists_present { present } else { missing as usize };
    let mut indexes: Vec<u32> = Vec::with_capacity(listed);
    for _ in 0..listed {
        let index = input.vint()?;
        if index >= columns as u64 || indexes.last().is_some_and(|&last| u64::from(last) >= index) {
            return Err(
                input.malformed(format!("an ascending index below {columns} expected, {index} found"))
            );
        }
        indexes.push(index as u32);
    }
    if lists_present {
        return Ok(Subset::Indexes(indexes));
    }
    let mut missing = indexes.into_iter().peekable();
    Ok(Subset::Indexes((0..columns as u32).filter(|index| missing.next_if_eq(index).is_none()).collect()))
}
