//! Encodes rows and markers; `decode` draws the format.

use bytes::BufMut;
use cassette_rows::{
    Cell, ColumnId, DeletionTime, LivenessInfo, NO_DELETION_TIME, NO_TIMESTAMP, RangeTombstoneMarker, Row,
    TableMetadata, Unfiltered, vint,
};

use super::deletion_codec::to_stored;
use super::flags::*;
use super::row_format::{RowFormat, StoredColumn, StoredColumns};
use crate::clustering_codec::{MarkerKind, ROW};
use crate::output::Output;

/// A value with another width than its type: written, it would shift all that follows. The layers
/// above check values against their types, so the bytes read do not match the schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrongWidth {
    /// `None` for a clustering column.
    pub column: Option<ColumnId>,
    /// Bytes of every value of the type.
    pub expected: usize,
    /// Bytes of this value.
    pub found: usize,
}

impl WrongWidth {
    #[cold]
    fn of(column: Option<ColumnId>, (expected, found): (usize, usize)) -> Self {
        Self { column, expected, found }
    }

    /// Returns a text for users.
    #[cold]
    pub fn describe(&self, table: &TableMetadata) -> String {
        let column = self.column.and_then(|id| table.column_by_id(id));
        let name = column.map_or("a clustering column", |column| &column.name);
        format!(
            "a value of {name} of {} has {} bytes and not {}",
            table.qualified_name(),
            self.found,
            self.expected
        )
    }
}

/// Encodes rows and markers of one SSTable. After an error a part of a row or marker may have been
/// appended.
#[derive(Debug)]
pub struct RowEncoder {
    format: RowFormat,
    /// Kept to save allocations.
    present: Vec<u32>,
}

impl RowEncoder {
    /// For rows in this format.
    pub fn new(format: RowFormat) -> Self {
        Self { format, present: Vec::new() }
    }

    /// Appends the position of a row or marker in the encoding of Index.db: kind, count if a
    /// marker, values.
    pub fn encode_prefix(&self, unfiltered: &Unfiltered, out: &mut Vec<u8>) {
        match unfiltered {
            Unfiltered::Row(row) => {
                out.push(ROW);
                self.format.clustering.encode_values(row.clustering(), out);
            }
            Unfiltered::Marker(marker) => {
                self.format.clustering.encode_bound(&marker.bound, kind_of(marker), out);
            }
        }
    }

    /// Appends a static row; an absent `row` takes bytes too.
    pub fn encode_static_row(&mut self, row: Option<&Row>, out: &mut Vec<u8>) -> Result<(), WrongWidth> {
        match row {
            Some(row) => self.encode_row_as(row, true, 0, out),
            None => {
                out.extend([EXTENSION, IS_STATIC]);
                with_length(out, |out| {
                    out.put_vint(0);
                    encode_subset(&[], self.format.statics.len(), out);
                    Ok(())
                })
            }
        }
    }

    /// Appends a row. `previous` is the distance from the start of the row or marker before it.
    #[inline]
    pub fn encode_row(&mut self, row: &Row, previous: u64, out: &mut Vec<u8>) -> Result<(), WrongWidth> {
        self.encode_row_as(row, false, previous, out)
    }

    /// Appends a marker. `previous` as for rows.
    pub fn encode_marker(
        &mut self,
        marker: &RangeTombstoneMarker,
        previous: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), WrongWidth> {
        if let Some(widths) = self.format.clustering.wrong_width(&marker.bound.prefix) {
            return Err(WrongWidth::of(None, widths));
        }
        out.push(IS_MARKER);
        self.format.clustering.encode_bound(&marker.bound, kind_of(marker), out);
        with_length(out, |out| {
            out.put_vint(previous);
            for deletion in [marker.close, marker.open].into_iter().flatten() {
                encode_deletion(&self.format, deletion, out);
            }
            Ok(())
        })
    }

    fn encode_row_as(
        &mut self,
        row: &Row,
        is_static: bool,
        previous: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), WrongWidth> {
        if let Some(widths) = self.format.clustering.wrong_width(row.clustering()) {
            return Err(WrongWidth::of(None, widths));
        }
        let (format, present) = (&self.format, &mut self.present);
        let stored = format.columns(is_static);
        let liveness = row.liveness();
        let is_plain = has_each_once(stored, row);
        let all = is_plain || {
            present_columns(stored, row, present);
            present.len() == stored.len()
        };

        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        let flags = flag(!liveness.is_empty(), HAS_TIMESTAMP)
            | flag(liveness.is_expiring(), HAS_TTL)
            | flag(!row.deletion().is_live(), HAS_DELETION)
            | flag(!row.complex_deletions().is_empty(), HAS_COMPLEX_DELETION)
            | flag(all, HAS_ALL_COLUMNS)
            | flag(is_static, EXTENSION);
        out.push(flags);
        if is_static {
            out.push(IS_STATIC)
        } else {
            format.clustering.encode_values(row.clustering(), out)
        }
        with_length(out, |out| {
            out.put_vint(previous);
            if !liveness.is_empty() {
                encode_timestamp(format, liveness.timestamp, out);
                if liveness.is_expiring() {
                    encode_ttl(format, liveness.ttl, out);
                    encode_local_deletion_time(format, liveness.local_expiration, out);
                }
            }
            if !row.deletion().is_live() {
                encode_deletion(format, row.deletion(), out);
            }
            if !all {
                encode_subset(present, stored.len(), out);
            }
            if is_plain {
                for (cell, column) in row.cells().zip(&stored.columns) {
                    encode_cell(format, column, &cell, &liveness, out)?;
                }
                return Ok(());
            }
            encode_columns(format, stored, present, row, &liveness, out)
        })
    }
}

/// Appends the output of `encode`, preceded by its length in bytes.
#[inline]
fn with_length(
    out: &mut Vec<u8>,
    encode: impl FnOnce(&mut Vec<u8>) -> Result<(), WrongWidth>,
) -> Result<(), WrongWidth> {
    let start = out.len();
    // Most lengths fit one byte.
    out.push(0);
    encode(out)?;
    let length = out.len() - start - 1;
    if length < 0x80 {
        out[start] = length as u8;
        return Ok(());
    }
    let extra = vint::unsigned_len(length as u64) - 1;
    out.extend_from_slice(&[0; vint::LEN_MAX][..extra]);
    out.copy_within(start + 1..start + 1 + length, start + 1 + extra);
    (&mut out[start..=start + extra]).put_vint(length as u64);
    Ok(())
}

fn kind_of(marker: &RangeTombstoneMarker) -> MarkerKind {
    MarkerKind { side: marker.bound.side, closes: marker.close.is_some(), opens: marker.open.is_some() }
}

/// Returns whether all columns are simple and the row has a cell of each, in the header's order.
#[inline]
fn has_each_once(stored: &StoredColumns, row: &Row) -> bool {
    stored.simple
        && row.cell_count() == stored.len()
        && row.complex_deletions().is_empty()
        && row.cells().zip(&stored.columns).all(|(cell, column)| column.id == Some(cell.column))
}

/// Appends the columns that are present, in the header's order.
fn encode_columns(
    format: &RowFormat,
    stored: &StoredColumns,
    present: &[u32],
    row: &Row,
    liveness: &LivenessInfo,
    out: &mut Vec<u8>,
) -> Result<(), WrongWidth> {
    let columns = present.iter().map(|index| &stored.columns[*index as usize]);
    if !stored.ascending {
        for column in columns {
            let Some(id) = column.id else { continue };
            let mut cells = row.cells_of(id);
            if column.complex {
                encode_complex(format, column, row, cells.len(), cells, liveness, out)?
            } else {
                cells.try_for_each(|cell| encode_cell(format, column, &cell, liveness, out))?
            }
        }
        return Ok(());
    }
    // A single iteration of the cells, which are in the header's order.
    let mut cells = row.cells().peekable();
    for column in columns {
        if !column.complex {
            if let Some(cell) = cells.next() {
                encode_cell(format, column, &cell, liveness, out)?;
            }
            continue;
        }
        let mut own = cells.clone();
        let mut count = 0;
        while own.next_if(|cell| Some(cell.column) == column.id).is_some() {
            count += 1;
        }
        let elements = (&mut cells).take(count);
        encode_complex(format, column, row, count, elements, liveness, out)?;
    }
    Ok(())
}

/// Collects the indexes in the header of the columns that `row` has, ascending.
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
    // Omitting a cell would lose it.
    assert!(cells.peek().is_none() && deletions.peek().is_none(), "a row of columns that the header lists");
}

/// Appends the set of present columns, in the format of `Subset`.
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
        // "No deletion" of a complex column: 5.0.8 writes the low 32 bits of its 64-bit "none",
        // which are all ones.
        NO_TIMESTAMP => out.put_vint32((-1i32).wrapping_sub(format.min_local_deletion_time)),
        _ => encode_local_deletion_time(format, deletion.local_deletion_time, out),
    }
}

fn encode_complex<'a>(
    format: &RowFormat,
    column: &StoredColumn,
    row: &Row,
    count: usize,
    mut cells: impl Iterator<Item = Cell<'a>>,
    liveness: &LivenessInfo,
    out: &mut Vec<u8>,
) -> Result<(), WrongWidth> {
    // If one column of the row has a deletion, all complex ones encode whether they have one.
    if !row.complex_deletions().is_empty() {
        let deletion = column.id.map_or(DeletionTime::LIVE, |id| row.complex_deletion(id));
        encode_deletion(format, deletion, out);
    }
    out.put_vint(count as u64);
    cells.try_for_each(|cell| encode_cell(format, column, &cell, liveness, out))
}

#[inline]
fn encode_cell(
    format: &RowFormat,
    column: &StoredColumn,
    cell: &Cell<'_>,
    liveness: &LivenessInfo,
    out: &mut Vec<u8>,
) -> Result<(), WrongWidth> {
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
        (value, Some(width)) if !column.complex => {
            if value.len() != width {
                return Err(WrongWidth::of(column.id, (width, value.len())));
            }
            out.put_slice(value);
        }
        (value, _) => out.put_bytes_vint(value),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use cassette_rows::{Bound, Clustering, DataType, RowBuilder, Side};

    use super::*;
    use crate::clustering_codec::ClusteringCodec;

    #[test]
    fn values_as_wide_as_no_value_of_their_type_are_errors() {
        let column =
            StoredColumn { id: Some(ColumnId(0)), complex: false, width: Some(4), dropped_at: i64::MIN };
        let format = RowFormat {
            min_timestamp: 0,
            min_local_deletion_time: 0,
            min_ttl: 0,
            clustering: ClusteringCodec::new(&[DataType::Int]),
            statics: StoredColumns::default(),
            regulars: StoredColumns {
                columns: [column].into(),
                ascending: true,
                simple: true,
                ..StoredColumns::default()
            },
            has_short_deletions: false,
        };
        let mut encoder = RowEncoder::new(format);
        let mut encode = |clustering: &[u8], value: &[u8]| {
            let mut row = RowBuilder::new(Clustering::of(&[clustering]));
            row.live_cell(ColumnId(0), value, 1);
            encoder.encode_row(&row.finish(), 0, &mut Vec::new())
        };
        assert_eq!((encode(b"four", b"four"), encode(b"", b"")), (Ok(()), Ok(())));
        assert_eq!(
            encode(b"four", b"fifteen"),
            Err(WrongWidth { column: Some(ColumnId(0)), expected: 4, found: 7 })
        );
        assert_eq!(encode(b"eight", b"four"), Err(WrongWidth { column: None, expected: 4, found: 5 }));
        let bound = Bound { prefix: Clustering::of(&[b"eight"]), side: Side::Before };
        let marker = RangeTombstoneMarker { bound, close: None, open: Some(DeletionTime::new(1, 1)) };
        assert!(encoder.encode_marker(&marker, 0, &mut Vec::new()).is_err());
    }
}
