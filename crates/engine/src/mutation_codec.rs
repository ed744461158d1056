//! Mutations as the bytes of a commit log record.
//!
//! Columns are written as their ids; a dictionary, once per segment and version of a table, says what the ids are called.
//! Replay gives the columns the ids that their names have by then and leaves out those that have been dropped since.
//! Never change any of this without a new version of the commit log. Integers are big-endian, `v` marks vints.
//!
//! ```text
//! dictionary  v n, n * (v id, u8 kind: 1 static | 2 complex, v length, name)
//!
//! record      (v table: its place in the record's list, u32 length, update)*
//! update      u16 length, key, u8 flags, [deletion], [row: static], [v n, n * tombstone], [v n, n * row]
//! flags         1 deletion, 2 static row, 4 range tombstones, 8 rows
//! deletion    i64 timestamp, u32 local deletion time
//! tombstone   bound, bound, deletion
//! bound       u8 side: 0 before | 1 after, clustering
//! clustering  v n, n * (v length + 1, value | v 0: null)
//! row         u8 flags, clustering, i64 base timestamp, [v ttl, u32 expiration], [deletion],
//!             [v n, n * (v column, deletion)], v bytes of all paths and values, v n, n * cell
//! flags         1 liveness (at the base timestamp), 2 it expires, 4 deletion, 8 deletions of complex columns
//! cell        v column, u8 flags, [i64 timestamp], [v ttl], [u32 local deletion time], [v length, path],
//!             v length, value
//! flags         1 path, 2 expiring, 4 tombstone (both have a local deletion time), 8 a timestamp besides the base
//! ```

use std::sync::Arc;

use bytes::{BufMut, Bytes};
use cassette_rows::{
    Bound, Cell, Clustering, ColumnId, ColumnKind, DecoratedKey, DeletionTime, LivenessInfo,
    NO_DELETION_TIME, NO_TTL, PartitionUpdate, RangeTombstone, Row, RowBuilder, Side, TableMetadata, vint,
};

mod update {
    pub const DELETION: u8 = 1;
    pub const STATIC_ROW: u8 = 2;
    pub const RANGE_TOMBSTONES: u8 = 4;
    pub const ROWS: u8 = 8;
}

mod row {
    pub const LIVENESS: u8 = 1;
    pub const EXPIRING: u8 = 2;
    pub const DELETION: u8 = 4;
    pub const COMPLEX_DELETIONS: u8 = 8;
}

mod cell {
    pub const PATH: u8 = 1;
    pub const EXPIRING: u8 = 2;
    pub const TOMBSTONE: u8 = 4;
    pub const TIMESTAMP: u8 = 8;
}

mod kind {
    pub const STATIC: u8 = 1;
    pub const COMPLEX: u8 = 2;
}

/// Appends what the ids of the table's columns are called.
pub(crate) fn encode_dictionary(table: &TableMetadata, out: &mut Vec<u8>) {
    let columns = table.columns.iter().flatten();
    vint::write_unsigned(out, columns.clone().count() as u64);
    for column in columns {
        let is_static = if column.kind == ColumnKind::Static { kind::STATIC } else { 0 };
        let is_complex = if column.data_type.is_multi_cell() { kind::COMPLEX } else { 0 };
        vint::write_unsigned(out, u64::from(column.id.0));
        out.push(is_static | is_complex);
        vint::write_bytes(out, column.name.as_bytes());
    }
}

/// Appends one mutation of a record: `table` is the place of its table in the record's list.
pub(crate) fn encode(table: usize, update: &PartitionUpdate, out: &mut Vec<u8>) {
    vint::write_unsigned(out, table as u64);
    let start = out.len();
    out.put_u32(0);
    encode_update(update, out);
    // More than 4 GiB never fits a segment: the record is refused for its size, whatever length stands here.
    let length = (out.len() - start - 4) as u32;
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
}

fn encode_update(update: &PartitionUpdate, out: &mut Vec<u8>) {
    let key = update.key.key();
    out.put_u16(key.len() as u16);
    out.extend_from_slice(key);
    let flag = |condition: bool, flag: u8| if condition { flag } else { 0 };
    out.push(
        flag(!update.deletion.is_live(), update::DELETION)
            | flag(update.static_row.is_some(), update::STATIC_ROW)
            | flag(!update.range_tombstones.is_empty(), update::RANGE_TOMBSTONES)
            | flag(!update.rows.is_empty(), update::ROWS),
    );
    if !update.deletion.is_live() {
        encode_deletion(update.deletion, out);
    }
    if let Some(row) = &update.static_row {
        encode_row(row, out);
    }
    if !update.range_tombstones.is_empty() {
        let tombstones = update.range_tombstones.as_slice();
        vint::write_unsigned(out, tombstones.len() as u64);
        for tombstone in tombstones {
            encode_bound(&tombstone.start, out);
            encode_bound(&tombstone.end, out);
            encode_deletion(tombstone.deletion, out);
        }
    }
    if !update.rows.is_empty() {
        vint::write_unsigned(out, update.rows.len() as u64);
        update.rows.iter().for_each(|row| encode_row(row, out));
    }
}

fn encode_deletion(deletion: DeletionTime, out: &mut Vec<u8>) {
    out.put_i64(deletion.timestamp);
    out.put_u32(deletion.local_deletion_time);
}

fn encode_bound(bound: &Bound, out: &mut Vec<u8>) {
    out.push(u8::from(bound.side == Side::After));
    encode_clustering(&bound.prefix, out);
}

fn encode_clustering(clustering: &Clustering, out: &mut Vec<u8>) {
    vint::write_unsigned(out, clustering.len() as u64);
    for value in clustering.values() {
        vint::write_unsigned(out, value.map_or(0, |value| value.len() as u64 + 1));
        out.extend_from_slice(value.unwrap_or_default());
    }
}

fn encode_row(row: &Row, out: &mut Vec<u8>) {
    let liveness = row.liveness();
    let base = match row.cell_at(0) {
        Some(first) if liveness.is_empty() => first.timestamp,
        _ => liveness.timestamp,
    };
    let flag = |condition: bool, flag: u8| if condition { flag } else { 0 };
    out.push(
        flag(!liveness.is_empty(), row::LIVENESS)
            | flag(!liveness.is_empty() && liveness.is_expiring(), row::EXPIRING)
            | flag(!row.deletion().is_live(), row::DELETION)
            | flag(!row.complex_deletions().is_empty(), row::COMPLEX_DELETIONS),
    );
    encode_clustering(row.clustering(), out);
    out.put_i64(base);
    if !liveness.is_empty() && liveness.is_expiring() {
        vint::write_unsigned(out, u64::from(liveness.ttl));
        out.put_u32(liveness.local_expiration);
    }
    if !row.deletion().is_live() {
        encode_deletion(row.deletion(), out);
    }
    if !row.complex_deletions().is_empty() {
        vint::write_unsigned(out, row.complex_deletions().len() as u64);
        for (column, deletion) in row.complex_deletions() {
            vint::write_unsigned(out, u64::from(column.0));
            encode_deletion(*deletion, out);
        }
    }
    let bytes: usize = row.cells().map(|cell| cell.value.len() + cell.path.map_or(0, <[u8]>::len)).sum();
    vint::write_unsigned(out, bytes as u64);
    vint::write_unsigned(out, row.cell_count() as u64);
    row.cells().for_each(|cell| encode_cell(&cell, base, out));
}

fn encode_cell(cell: &Cell<'_>, base: i64, out: &mut Vec<u8>) {
    let flag = |condition: bool, flag: u8| if condition { flag } else { 0 };
    vint::write_unsigned(out, u64::from(cell.column.0));
    out.push(
        flag(cell.path.is_some(), cell::PATH)
            | flag(cell.is_expiring(), cell::EXPIRING)
            | flag(cell.is_tombstone(), cell::TOMBSTONE)
            | flag(cell.timestamp != base, cell::TIMESTAMP),
    );
    if cell.timestamp != base {
        out.put_i64(cell.timestamp);
    }
    if cell.is_expiring() {
        vint::write_unsigned(out, u64::from(cell.ttl));
    }
    if cell.is_expiring() || cell.is_tombstone() {
        out.put_u32(cell.local_deletion_time);
    }
    if let Some(path) = cell.path {
        vint::write_bytes(out, path);
    }
    vint::write_bytes(out, cell.value);
}

/// Reads updates of one table that were written by an older version of it, or by this one before a restart.
pub(crate) struct Decoder {
    table: Arc<TableMetadata>,
    /// By the id in the record. `None` for columns that are gone.
    columns: Vec<Option<DecodedColumn>>,
}

#[derive(Debug, Clone, Copy)]
struct DecodedColumn {
    id: ColumnId,
    /// The column was dropped at this time, microseconds, and added again: cells up to then are gone.
    dropped_at: Option<i64>,
}

impl Decoder {
    /// From what [`encode_dictionary`] wrote and the table as it is now; `None` if the bytes are no dictionary.
    pub fn new(table: Arc<TableMetadata>, mut dictionary: &[u8]) -> Option<Self> {
        let input = &mut dictionary;
        let mut columns = Vec::new();
        for _ in 0..vint::read_unsigned(input)? {
            let id = usize::from(u16::try_from(vint::read_unsigned(input)?).ok()?);
            let kind = read_u8(input)?;
            let name = std::str::from_utf8(vint::read_bytes(input)?).ok()?;
            if columns.len() <= id {
                columns.resize(id + 1, None);
            }
            let same = |column: &&Arc<cassette_rows::ColumnMetadata>| {
                column.name == name
                    && (column.kind == ColumnKind::Static) == (kind & kind::STATIC != 0)
                    && column.data_type.is_multi_cell() == (kind & kind::COMPLEX != 0)
            };
            let found = table.columns.iter().flatten().find(same);
            if found.is_some_and(|found| columns.iter().flatten().any(|c: &DecodedColumn| c.id == found.id)) {
                return None;
            }
            columns[id] = found.map(|column| DecodedColumn {
                id: column.id,
                dropped_at: table.dropped_columns.get(name).map(|dropped| dropped.dropped_at),
            });
        }
        input.is_empty().then_some(Self { table, columns })
    }

    /// The table that updates are decoded for.
    pub fn table(&self) -> &Arc<TableMetadata> {
        &self.table
    }

    /// Reads one update; `None` if the bytes are none.
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
        // A cell takes three bytes at least.
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
        // The ids may come in another order than those in the record.
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

    /// The id that comes next and its column, if the table still has that.
    fn column(&self, input: &mut &[u8]) -> Option<(usize, Option<DecodedColumn>)> {
        let id = usize::try_from(vint::read_unsigned(input)?).ok()?;
        Some((id, *self.columns.get(id)?))
    }
}

/// The mutations of a record: the place of each one's table in the record's list, and its bytes.
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

/// A cell without its column.
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

#[cfg(test)]
mod tests {
    use cassette_rows::{ColumnMetadata, DataType};
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};

    use super::*;
    use crate::testing::{self, Updates, seeds};

    fn decoder(from: &TableMetadata, to: Arc<TableMetadata>) -> Decoder {
        let mut dictionary = Vec::new();
        encode_dictionary(from, &mut dictionary);
        Decoder::new(to, &dictionary).unwrap()
    }

    fn encoded(update: &PartitionUpdate) -> Vec<u8> {
        let mut out = Vec::new();
        encode_update(update, &mut out);
        out
    }

    #[test]
    fn every_update_reads_back_as_it_was() {
        let table = testing::table();
        let decoder = decoder(&table, table.clone());
        for seed in seeds(2000) {
            let update = Updates::of(table.clone()).next(&mut SmallRng::seed_from_u64(seed));
            assert_eq!(decoder.update(&encoded(&update)), Some(update), "seed {seed}");
        }
    }

    #[test]
    fn a_record_keeps_the_tables_of_its_mutations() {
        let table = testing::table();
        let mut random = SmallRng::seed_from_u64(1);
        let updates: Vec<_> = (0..5).map(|_| Updates::of(table.clone()).next(&mut random)).collect();
        let mut record = Vec::new();
        for (place, update) in updates.iter().enumerate() {
            encode(place % 2, update, &mut record);
        }
        let decoder = decoder(&table, table.clone());
        let read = split_record(&record).unwrap();
        assert_eq!(read.iter().map(|(table, _)| *table).collect::<Vec<_>>(), [0, 1, 0, 1, 0]);
        let read: Vec<_> = read.iter().map(|(_, bytes)| decoder.update(bytes).unwrap()).collect();
        assert_eq!(read, updates);
        assert_eq!(split_record(&record[..record.len() - 1]), None);
    }

    #[test]
    fn columns_are_found_by_name_whatever_ids_they_have_now() {
        let old = testing::simple_table("t", Default::default());
        let a = ColumnMetadata {
            name: "a".into(),
            kind: ColumnKind::Regular,
            position: 0,
            data_type: DataType::Text,
            reversed: false,
            id: ColumnId(0),
        };
        // Written after ALTER: v is column 0 and a is 1; after a restart a comes first.
        let written = old.with_column_added(a.clone());
        let columns = written.all_columns().map(|column| (**column).clone()).collect();
        let now = Arc::new(TableMetadata::new(old.id, "ks", "t", columns, Default::default()));
        assert_eq!(now.column("a").unwrap().id, ColumnId(0));
        let mut row = RowBuilder::new(Clustering::empty());
        row.live_cell(ColumnId(0), b"of v", 1).live_cell(ColumnId(1), b"of a", 1);
        let mut update = PartitionUpdate::new(testing::key(1));
        update.rows.push(row.finish());
        let read = decoder(&written, now).update(&encoded(&update)).unwrap();
        assert_eq!(read.rows[0].cell(ColumnId(0)).unwrap().value, b"of a");
        assert_eq!(read.rows[0].cell(ColumnId(1)).unwrap().value, b"of v");
    }

    #[test]
    fn cells_of_a_dropped_column_are_left_out_even_if_it_was_added_again() {
        let old = testing::simple_table("t", Default::default());
        let v = old.column("v").unwrap().clone();
        let dropped = Arc::new(old.with_column_dropped("v", 10));
        let again = Arc::new(dropped.with_column_added((*v).clone()));
        let cells = |table: &Arc<TableMetadata>, timestamp| {
            let update = encoded(&testing::insert(1, b"x", timestamp));
            decoder(&old, table.clone()).update(&update).unwrap().rows[0].cell_count()
        };
        assert_eq!(cells(&dropped, 20), 0);
        assert_eq!(cells(&again, 10), 0);
        assert_eq!(cells(&again, 11), 1);
    }

    #[test]
    fn damaged_bytes_are_refused_or_give_another_update_but_never_panic() {
        let table = testing::table();
        let decoder = decoder(&table, table.clone());
        for seed in seeds(2000) {
            let mut random = SmallRng::seed_from_u64(seed);
            let bytes = encoded(&Updates::of(table.clone()).next(&mut random));
            for cut in 0..bytes.len() {
                assert_eq!(decoder.update(&bytes[..cut]), None);
            }
            let mut flipped = bytes.clone();
            let at = random.random_range(0..bytes.len());
            flipped[at] ^= 1 << random.random_range(0..8);
            let _ = decoder.update(&flipped);
            let _ = split_record(&flipped);
            let _ = Decoder::new(table.clone(), &flipped);
        }
    }
}
