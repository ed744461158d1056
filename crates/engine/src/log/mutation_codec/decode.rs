//! Decoding of mutations: every length is checked before it is used.

use std::sync::Arc;

use bytes::Bytes;
use cassette_rows::{
    Bound, Cell, Clustering, ColumnId, ColumnKind, DataType, DecoratedKey, DeletionTime, LivenessInfo,
    NO_DELETION_TIME, NO_TTL, PartitionUpdate, RangeTombstone, Row, RowBuilder, Side, TableMetadata, vint,
};

use super::captured::{self, DictionaryColumn};
use super::{cell, row, update};

/// Reads updates of one table that were written by an older version of it, or by this one before a
/// restart.
pub(crate) struct Decoder {
    table: Arc<TableMetadata>,
    /// By the id in the record. `None` for columns that the table never had, or had as another
    /// kind.
    columns: Vec<Option<DecodedColumn>>,
    /// Columns that the table neither has nor dropped.
    missing: Vec<String>,
}

#[derive(Debug, Clone, Copy)]
struct DecodedColumn {
    id: ColumnId,
    /// The column was dropped at this time, microseconds, and possibly added again: earlier cells
    /// are dropped, later ones are kept.
    dropped_at: Option<i64>,
}

impl Decoder {
    /// Returns a decoder for the output of [`encode_dictionary`] and the current table; `None` if
    /// the bytes are not a dictionary.
    pub fn new(table: Arc<TableMetadata>, mut dictionary: &[u8]) -> Option<Self> {
        let input = &mut dictionary;
        let (mut columns, mut missing) = (Vec::new(), Vec::new());
        for DictionaryColumn { id, is_static, is_complex, name } in captured::columns(input)? {
            if columns.len() <= id {
                columns.resize(id + 1, None);
            }
            let same = |column_kind, data_type: &DataType| {
                (column_kind == ColumnKind::Static) == is_static && data_type.is_multi_cell() == is_complex
            };
            let current = table.columns.iter().flatten().find(|column| column.name == name);
            let dropped = table.dropped_columns.get(name);
            let found = match (current, dropped) {
                (Some(column), _) => same(column.kind, &column.data_type).then_some(column.id),
                (None, Some(dropped)) if same(dropped.kind, &dropped.data_type) => {
                    table.dropped_ids.get(name).copied()
                }
                (None, _) => None,
            };
            if found.is_some_and(|id| columns.iter().flatten().any(|c: &DecodedColumn| c.id == id)) {
                return None;
            }
            if current.is_none() && dropped.is_none() {
                missing.push(name.to_owned());
            }
            let dropped_at = dropped.map(|dropped| dropped.dropped_at);
            columns[id] = found.map(|id| DecodedColumn { id, dropped_at });
        }
        captured::is_end(input).then_some(Self { table, columns, missing })
    }

    /// The table that updates are decoded for.
    pub fn table(&self) -> &Arc<TableMetadata> {
        &self.table
    }

    /// The columns of the dictionary that the table neither has nor dropped: their cells are
    /// skipped.
    pub fn missing_columns(&self) -> &[String] {
        &self.missing
    }

    /// Decodes one update; `None` if the bytes are not an update.
    pub fn update(&self, mut bytes: &[u8]) -> Option<PartitionUpdate> {
        let input = &mut bytes;
        let length = usize::from(u16::from_be_bytes(take(input)?));
        let key = split(input, length)?;
        let mut update = PartitionUpdate::new(DecoratedKey::new(Bytes::copy_from_slice(key)));
        let flags = read_u8(input)?;
        if flags & update::DELETION != 0 {
            update.deletion = read_deletion(input)?;
        }
        if flags & update::STATIC_ROW != 0 {
            update.static_row = Some(self.row(input)?).filter(|row| !row.is_empty());
        }
        if flags & update::RANGE_TOMBSTONES != 0 {
            for _ in 0..vint::read_unsigned(input)? {
                let (start, end) = (read_bound(input)?, read_bound(input)?);
                let deletion = read_deletion(input)?;
                update.range_tombstones.add(RangeTombstone { start, end, deletion }, &self.table.comparator);
            }
        }
        if flags & update::ROWS != 0 {
            for _ in 0..vint::read_unsigned(input)? {
                let row = self.row(input)?;
                if !row.is_empty() {
                    update.add_row(row, &self.table);
                }
            }
        }
        input.is_empty().then_some(update)
    }

    fn row(&self, input: &mut &[u8]) -> Option<Row> {
        let flags = read_u8(input)?;
        let clustering = read_clustering(input)?;
        let base = i64::from_be_bytes(take(input)?);
        let liveness = match (flags & row::LIVENESS != 0, flags & row::EXPIRING != 0) {
            (false, _) => LivenessInfo::EMPTY,
            (true, false) => LivenessInfo::new(base),
            (true, true) => {
                let ttl = u32::try_from(vint::read_unsigned(input)?).ok()?;
                LivenessInfo::expiring(base, ttl, u32::from_be_bytes(take(input)?))
            }
        };
        let deletion = if flags & row::DELETION != 0 { read_deletion(input)? } else { DeletionTime::LIVE };
        let mut complex_deletions = Vec::new();
        if flags & row::COMPLEX_DELETIONS != 0 {
            let mut last = None;
            for _ in 0..vint::read_unsigned(input)? {
                let (id, column) = self.column(input)?;
                let deletion = read_deletion(input)?;
                if last.replace(id).is_some_and(|last| last >= id) {
                    return None;
                }
                if let Some(column) = column
                    && column.dropped_at.is_none_or(|at| at < deletion.timestamp)
                {
                    complex_deletions.push((column.id, deletion));
                }
            }
        }
        let bytes = usize::try_from(vint::read_unsigned(input)?).ok()?.min(input.len());
        let count = vint::read_unsigned(input)?;
        // A cell has at least three bytes.
        let mut cells = Vec::with_capacity(usize::try_from(count).ok()?.min(input.len() / 3));
        let mut last = None;
        for _ in 0..count {
            let (id, column) = self.column(input)?;
            let cell = read_cell(input, base)?;
            let place = (id, cell.path.is_some());
            if last.replace(place).is_some_and(|last| last > place || last == (id, false)) {
                return None;
            }
            if let Some(column) = column
                && column.dropped_at.is_none_or(|at| at < cell.timestamp)
            {
                cells.push(Cell { column: column.id, ..cell });
            }
        }
        // The ids may be in another order than those in the record.
        complex_deletions.sort_by_key(|(column, _)| *column);
        cells.sort_by_key(|cell| cell.column);
        let mut row = RowBuilder::with_capacity(clustering, cells.len(), bytes);
        row.liveness(liveness).deletion(deletion);
        for (column, deletion) in complex_deletions {
            row.complex_deletion(column, deletion);
        }
        for cell in cells {
            row.cell(cell);
        }
        Some(row.finish())
    }

    /// Returns the next id and its column, if the table still has it.
    fn column(&self, input: &mut &[u8]) -> Option<(usize, Option<DecodedColumn>)> {
        let id = usize::try_from(vint::read_unsigned(input)?).ok()?;
        Some((id, *self.columns.get(id)?))
    }
}

/// Returns the mutations of a record: the index of each one's table in the record's list, and its
/// bytes.
pub(crate) fn split_record(mut record: &[u8]) -> Option<Vec<(usize, &[u8])>> {
    let input = &mut record;
    let mut mutations = Vec::new();
    while !input.is_empty() {
        let table = usize::try_from(vint::read_unsigned(input)?).ok()?;
        let length = u32::from_be_bytes(take(input)?) as usize;
        mutations.push((table, split(input, length)?));
    }
    Some(mutations)
}

/// Decodes a cell without its column.
fn read_cell<'a>(input: &mut &'a [u8], base: i64) -> Option<Cell<'a>> {
    let flags = read_u8(input)?;
    let timestamp = if flags & cell::TIMESTAMP != 0 { i64::from_be_bytes(take(input)?) } else { base };
    let ttl =
        if flags & cell::EXPIRING != 0 { u32::try_from(vint::read_unsigned(input)?).ok()? } else { NO_TTL };
    let local_deletion_time = if flags & (cell::EXPIRING | cell::TOMBSTONE) != 0 {
        u32::from_be_bytes(take(input)?)
    } else {
        NO_DELETION_TIME
    };
    let path = if flags & cell::PATH != 0 { Some(vint::read_bytes(input)?) } else { None };
    let value = vint::read_bytes(input)?;
    Some(Cell { column: ColumnId(0), path, value, timestamp, ttl, local_deletion_time })
}

fn read_deletion(input: &mut &[u8]) -> Option<DeletionTime> {
    let timestamp = i64::from_be_bytes(take(input)?);
    Some(DeletionTime::new(timestamp, u32::from_be_bytes(take(input)?)))
}

fn read_bound(input: &mut &[u8]) -> Option<Bound> {
    let side = if read_u8(input)? == 0 { Side::Before } else { Side::After };
    Some(Bound { prefix: read_clustering(input)?, side })
}

fn read_clustering(input: &mut &[u8]) -> Option<Clustering> {
    let mut values = Vec::new();
    for _ in 0..vint::read_unsigned(input)? {
        values.push(match vint::read_unsigned(input)? {
            0 => None,
            length => Some(split(input, usize::try_from(length - 1).ok()?)?),
        });
    }
    Some(Clustering::new(values))
}

fn read_u8(input: &mut &[u8]) -> Option<u8> {
    take::<1>(input).map(|[byte]| byte)
}

fn take<const N: usize>(input: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = input.split_first_chunk()?;
    *input = rest;
    Some(*taken)
}

fn split<'a>(input: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, rest) = input.split_at_checked(length)?;
    *input = rest;
    Some(taken)
}
