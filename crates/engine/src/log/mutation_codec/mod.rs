//! Mutations as the bytes of a commit log record.
//!
//! Columns are written as their ids; a dictionary, once per segment and version of a table, says
//! what the ids are called. Replay gives the columns the ids that their names have by then and
//! leaves out those that have been dropped since. Never change any of this without a new version of
//! the commit log. Integers are big-endian, `v` marks vints.
//!
//! ```text
//! dictionary  v n, n * (v id, u8 kind: 1 static | 2 complex, v length, name), [captured]
//! captured    of tables with change data capture: u8 1, keyspace, name, v k, k * (name, type): partition key,
//!             v c, c * (name, type): clustering columns, n types: of the columns above
//!             (each v length, text; types are Cassandra's class names)
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

mod captured;
mod decode;
#[cfg(test)]
mod tests;

use bytes::BufMut;
use cassette_rows::{
    Bound, Cell, Clustering, ColumnKind, DeletionTime, PartitionUpdate, Row, Side, TableMetadata, vint,
};

pub(crate) use captured::{captured_table, is_captured};
pub(crate) use decode::{Decoder, split_record};

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

/// Appends the names of the ids of the table's columns.
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
    captured::encode(table, out);
}

/// Appends one mutation of a record; `table` is the index of its table in the record's list.
pub(crate) fn encode(table: usize, update: &PartitionUpdate, out: &mut Vec<u8>) {
    vint::write_unsigned(out, table as u64);
    let start = out.len();
    out.put_u32(0);
    encode_update(update, out);
    // More than 4 GiB never fits a segment: the record is rejected for its size, whatever its
    // length field is.
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
