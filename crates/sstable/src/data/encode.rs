//! Rows and markers to bytes; `decode` draws them.

use bytes::BufMut;
use cassette_rows::{
    Cell, DeletionTime, LivenessInfo, NO_DELETION_TIME, NO_TIMESTAMP, RangeTombstoneMarker, Row,
};

use super::clustering_codec::{MarkerKind, ROW};
use super::deletion_codec::to_stored;
use super::flags::*;
use super::row_format::{RowFormat, StoredColumn, StoredColumns};
use crate::output::Output;

/// Encodes rows and markers of one SSTable; keeps the buffers that this takes.
#[derive(Debug)]
pub struct RowEncoder {
    format: RowFormat,
    /// What precedes the size: flags and place.
    head: Vec<u8>,
    body: Vec<u8>,
    /// The place of the last row or marker, as Index.db holds it: kind, count if a marker, values.
    prefix: Vec<u8>,
    present: Vec<u32>,
}

impl RowEncoder {
    /// For rows in this format.
    pub fn new(format: RowFormat) -> Self {
        Self { format, head: Vec::new(), body: Vec::new(), prefix: Vec::new(), present: Vec::new() }
    }

    /// The place of the row or marker encoded last, as Index.db holds it.
    pub fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    /// Appends a static row; what `row` being `None` says takes bytes too.
    pub fn encode_static_row(&mut self, row: Option<&Row>, out: &mut Vec<u8>) {
        self.head.clear();
        match row {
            Some(row) => self.encode_row_parts(row, true, 0),
            None => {
                self.head.extend([EXTENSION, IS_STATIC]);
                self.body.clear();
                self.body.put_vint(0);
                self.present.clear();
                encode_subset(&self.present, self.format.statics.len(), &mut self.body);
            }
        }
        self.append_parts(out);
    }

    /// Appends a row. `previous` is the distance from the start of the row or marker before it.
    pub fn encode_row(&mut self, row: &Row, previous: u64, out: &mut Vec<u8>) {
        self.prefix.clear();
        self.prefix.push(ROW);
        self.format.clustering.encode_values(row.clustering(), &mut self.prefix);
        self.head.clear();
        self.encode_row_parts(row, false, previous);
        self.append_parts(out);
    }

    /// Appends a marker. `previous` as for rows.
    pub fn encode_marker(&mut self, marker: &RangeTombstoneMarker, previous: u64, out: &mut Vec<u8>) {
        let kind = MarkerKind {
            side: marker.bound.side,
            closes: marker.close.is_some(),
            opens: marker.open.is_some(),
        };
        self.prefix.clear();
        self.format.clustering.encode_bound(&marker.bound, kind, &mut self.prefix);
        self.head.clear();
        self.head.push(IS_MARKER);
        self.head.extend_from_slice(&self.prefix);
        self.body.clear();
        self.body.put_vint(previous);
        for deletion in [marker.close, marker.open].into_iter().flatten() {
            encode_deletion(&self.format, deletion, &mut self.body);
        }
        self.append_parts(out);
    }

    fn append_parts(&mut self, out: &mut Vec<u8>) {
        out.reserve(self.head.len() + 9 + self.body.len());
        out.extend_from_slice(&self.head);
        out.put_vint(self.body.len() as u64);
        out.extend_from_slice(&self.body);
    }

    /// Encodes into head and body. For regular rows the clustering is taken from the prefix.
    fn encode_row_parts(&mut self, row: &Row, is_static: bool, previous: u64) {
        let (format, body) = (&self.format, &mut self.body);
        let stored = format.columns(is_static);
        let liveness = row.liveness();
        present_columns(stored, row, &mut self.present);
        let all = self.present.len() == stored.len();

        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        let flags = flag(!liveness.is_empty(), HAS_TIMESTAMP)
            | flag(liveness.is_expiring(), HAS_TTL)
            | flag(!row.deletion().is_live(), HAS_DELETION)
            | flag(!row.complex_deletions().is_empty(), HAS_COMPLEX_DELETION)
            | flag(all, HAS_ALL_COLUMNS)
            | flag(is_static, EXTENSION);
        self.head.push(flags);
        match is_static {
            true => self.head.push(IS_STATIC),
            false => self.head.extend_from_slice(&self.prefix[1..]),
        }

        body.clear();
        body.put_vint(previous);
        if !liveness.is_empty() {
            encode_timestamp(format, liveness.timestamp, body);
            if liveness.is_expiring() {
                encode_ttl(format, liveness.ttl, body);
                encode_local_deletion_time(format, liveness.local_expiration, body);
            }
        }
        if !row.deletion().is_live() {
            encode_deletion(format, row.deletion(), body);
        }
        if !all {
            encode_subset(&self.present, stored.len(), body);
        }
        if stored.ascending {
            // One pass over the cells, which come in the header's order.
            let mut cells = row.cells().peekable();
            for &index in &self.present {
                let column = &stored.columns[index as usize];
                match column.complex {
                    false => {
                        if let Some(cell) = cells.next() {
                            encode_cell(format, column, &cell, &liveness, body);
                        }
                    }
                    true => {
                        let mut own = cells.clone();
                        let mut count = 0;
                        while own.next_if(|cell| Some(cell.column) == column.id).is_some() {
                            count += 1;
                        }
                        let elements = (&mut cells).take(count);
                        encode_complex(format, column, row, count, elements, &liveness, body);
                    }
                }
            }
        } else {
            for &index in &self.present {
                let column = &stored.columns[index as usize];
                let Some(id) = column.id else { continue };
                let mut cells = row.cells_of(id);
                match column.complex {
                    false => {
                        cells.by_ref().for_each(|cell| encode_cell(format, column, &cell, &liveness, body))
                    }
                    true => encode_complex(format, column, row, cells.len(), cells, &liveness, body),
                }
            }
        }
    }
}

/// The indexes in the header of the columns that `row` has, ascending.
fn present_columns(stored: &StoredColumns, row: &Row, present: &mut Vec<u32>) {
    present.clear();
    if !stored.ascending {
        let has = |id| row.cells_of(id).len() > 0 || !row.complex_deletion(id).is_live();
        present.extend(
            (0u32..)
                .zip(&stored.columns)
                .filter(|(_, column)| column.id.is_some_and(has))
                .map(|(index, _)| index),
        );
        let listed = |id| stored.columns.iter().any(|column| column.id == Some(id));
        let all = row.cells().all(|cell| listed(cell.column))
            && row.complex_deletions().iter().all(|(id, _)| listed(*id));
        assert!(all, "a row of columns that the header lists");
        return;
    }
    let mut cells = row.cells().peekable();
    let mut deletions = row.complex_deletions().iter().peekable();
    for (index, column) in (0u32..).zip(&stored.columns) {
        let Some(id) = column.id else { continue };
        let mut has = deletions.next_if(|(deleted, _)| *deleted == id).is_some();
        if column.complex {
            while cells.next_if(|cell| cell.column == id).is_some() {
                has = true;
            }
        } else {
            has = cells.next_if(|cell| cell.column == id).is_some();
        }
        if has {
            present.push(index);
        }
    }
    // Leaving out a cell would lose it.
    assert!(cells.peek().is_none() && deletions.peek().is_none(), "a row of columns that the header lists");
}

/// Appends which columns are present, as `Subset` draws it.
fn encode_subset(present: &[u32], columns: usize, out: &mut Vec<u8>) {
    if columns < 64 {
        let all = (1u64 << columns) - 1;
        return out.put_vint(present.iter().fold(all, |missing, index| missing & !(1 << index)));
    }
    out.put_vint((columns - present.len()) as u64);
    if present.len() < columns / 2 {
        return present.iter().for_each(|index| out.put_vint(u64::from(*index)));
    }
    let mut there = present.iter().copied().peekable();
    for index in 0..columns as u32 {
        if there.next_if_eq(&index).is_none() {
            out.put_vint(u64::from(index));
        }
    }
}

#[inline]
fn encode_timestamp(format: &RowFormat, timestamp: i64, out: &mut Vec<u8>) {
    out.put_vint(timestamp.wrapping_sub(format.min_timestamp) as u64);
}

#[inline]
fn encode_local_deletion_time(format: &RowFormat, time: u32, out: &mut Vec<u8>) {
    out.put_vint32(to_stored(time).wrapping_sub(format.min_local_deletion_time));
}

#[inline]
fn encode_ttl(format: &RowFormat, ttl: u32, out: &mut Vec<u8>) {
    out.put_vint32((ttl as i32).wrapping_sub(format.min_ttl));
}

fn encode_deletion(format: &RowFormat, deletion: DeletionTime, out: &mut Vec<u8>) {
    encode_timestamp(format, deletion.timestamp, out);
    match deletion.timestamp {
        // "No deletion" of a complex column: 5.0.8 writes the low 32 bits of its 64-bit "none", which are all ones.
        NO_TIMESTAMP => out.put_vint32((-1i32).wrapping_sub(format.min_local_deletion_time)),
        _ => encode_local_deletion_time(format, deletion.local_deletion_time, out),
    }
}

fn encode_complex<'a>(
    format: &RowFormat,
    column: &StoredColumn,
    row: &Row,
    count: usize,
    cells: impl Iterator<Item = Cell<'a>>,
    liveness: &LivenessInfo,
    out: &mut Vec<u8>,
) {
    // If one column of the row has a deletion, all complex ones say whether they do.
    if !row.complex_deletions().is_empty() {
        let deletion = column.id.map_or(DeletionTime::LIVE, |id| row.complex_deletion(id));
        encode_deletion(format, deletion, out);
    }
    out.put_vint(count as u64);
    cells.for_each(|cell| encode_cell(format, column, &cell, liveness, out));
}

#[inline]
fn encode_cell(
    format: &RowFormat,
    column: &StoredColumn,
    cell: &Cell<'_>,
    liveness: &LivenessInfo,
    out: &mut Vec<u8>,
) {
    let expiring = cell.is_expiring();
    let uses_row_timestamp = !liveness.is_empty() && cell.timestamp == liveness.timestamp;
    let uses_row_ttl =
        expiring && cell.ttl == liveness.ttl && cell.local_deletion_time == liveness.local_expiration;
    let mut flags = 0;
    if cell.value.is_empty() {
        flags |= CELL_HAS_EMPTY_VALUE;
    }
    if expiring {
        flags |= CELL_IS_EXPIRING;
    } else if cell.local_deletion_time != NO_DELETION_TIME {
        flags |= CELL_IS_DELETED;
    }
    if uses_row_timestamp {
        flags |= CELL_USES_ROW_TIMESTAMP;
    }
    if uses_row_ttl {
        flags |= CELL_USES_ROW_TTL;
    }
    out.put_u8(flags);
    if !uses_row_timestamp {
        encode_timestamp(format, cell.timestamp, out);
    }
    if cell.local_deletion_time != NO_DELETION_TIME && !uses_row_ttl {
        encode_local_deletion_time(format, cell.local_deletion_time, out);
        if expiring {
            encode_ttl(format, cell.ttl, out);
        }
    }
    if column.complex {
        out.put_bytes_vint(cell.path.unwrap_or_default());
    }
    match (cell.value, column.width) {
        ([], _) => {}
        // A value of the wrong width would shift all that follows: the floors above check values against types.
        (value, Some(width)) if !column.complex => {
            assert_eq!(value.len(), width, "the width of a value");
            out.put_slice(value);
        }
        (value, _) => out.put_bytes_vint(value),
    }
}
