//! Changes of partitions as Cassandra's messages and its commit log contain them: the format of
//! rows is that of Data.db, without sizes, and each change has its own header.
//!
//! ```text
//! mutation: vint n, n * update                  of one partition key, in different tables
//! update:   16 bytes table id, bytesV key, u8 flags, and unless it is empty:
//!           vint min ts - epoch, vint min ldt - epoch, vint min TTL       as in Statistics.db
//!           [columns] if it has a static row, columns                     static, regular
//!           [vint ts, vint ldt] of the partition's deletion
//!           [static row], [vint number of rows], rows and markers, u8 01
//! flags:    01 empty, 02 reversed, 04 partition deletion, 08 static row, 10 number of rows
//! columns:  vint n, n * bytesV name
//! ```
//! Source: `Mutation.MutationSerializer`, `PartitionUpdate.PartitionUpdateSerializer` and
//! `UnfilteredRowIteratorSerializer` of Cassandra; the same for messages of 3.0 to 5.0.

use std::collections::HashMap;

use bytes::Bytes;
use cassette_rows::range_tombstones::RangeTombstone;
use cassette_rows::{Bound, DecoratedKey, DeletionTime, PartitionUpdate, TableId, TableMetadata};
use uuid::Uuid;

use super::RowFormat;
use super::flags::{END_OF_PARTITION, IS_MARKER, IS_STATIC};
use crate::error::{Malformed, Parsed};
use crate::input::Input;
use crate::statistics::header::minima;

const IS_EMPTY: u8 = 0x01;
const HAS_PARTITION_DELETION: u8 = 0x04;
const HAS_STATIC_ROW: u8 = 0x08;
const HAS_ROW_ESTIMATE: u8 = 0x10;
/// [`IS_EMPTY`] and the others but "reversed", which no writer of mutations sets.
const KNOWN: u8 = IS_EMPTY | HAS_PARTITION_DELETION | HAS_STATIC_ROW | HAS_ROW_ESTIMATE;

/// The shortest update: an id, a key of one byte, flags.
const UPDATE_LEAST: usize = 16 + 1 + 1;

/// Decodes the number of updates in a mutation, which follow it.
pub fn updates_of_mutation(input: &mut Input<'_>) -> Parsed<usize> {
    let at = input.offset();
    match input.count(UPDATE_LEAST)? {
        0 => Err(Malformed::new(at, "a mutation of at least one table expected")),
        count => Ok(count),
    }
}

/// Decodes the table of the next update; the rest of the update follows it.
pub fn table_of_update(input: &mut Input<'_>) -> Parsed<TableId> {
    let at = input.offset();
    let id = Uuid::from_slice(input.bytes(16)?).map_err(|error| Malformed::new(at, error.to_string()))?;
    Ok(TableId(id))
}

/// The columns of updates, which most updates of a table share.
#[derive(Debug, Default)]
pub struct UpdateFormats {
    /// By table, whether static columns are listed, and the encoded lists.
    known: HashMap<(TableId, bool, Box<[u8]>), RowFormat>,
}

/// The maximum number of remembered lists of columns.
const FORMATS_MAX: usize = 4096;

impl UpdateFormats {
    /// Decodes the rest of an update of `table`, after its [id](table_of_update). `input` is over
    /// `data`, which the rows of the update share.
    ///
    /// # Errors
    /// If it is malformed, or has columns that the table neither has nor dropped.
    pub fn decode(
        &mut self,
        table: &TableMetadata,
        data: &Bytes,
        input: &mut Input<'_>,
    ) -> Parsed<PartitionUpdate> {
        let key = DecoratedKey::new(Bytes::copy_from_slice(input.bytes_vint()?));
        let mut update = PartitionUpdate::new(key);
        let at = input.offset();
        let flags = input.u8()?;
        if flags & !KNOWN != 0 {
            return Err(Malformed::new(
                at,
                format!("a change of a partition expected, flags {flags:#04x} found"),
            ));
        }
        if flags & IS_EMPTY != 0 {
            return Ok(update);
        }
        let minima = minima(input)?;
        let format = self.format(table, flags & HAS_STATIC_ROW != 0, minima, input)?;
        if flags & HAS_PARTITION_DELETION != 0 {
            update.deletion = format.deletion(input)?;
        }
        if flags & HAS_STATIC_ROW != 0 {
            let at = input.offset();
            let flags = input.u8()?;
            let (flags, clustering) = format.row_start(at, flags, input)?;
            if flags.1 & IS_STATIC == 0 || flags.0 & (END_OF_PARTITION | IS_MARKER) != 0 {
                return Err(Malformed::new(at, format!("a static row expected, flags {flags:02x?} found")));
            }
            update.static_row = format.row_body(flags, clustering, data, input)?;
        }
        if flags & HAS_ROW_ESTIMATE != 0 {
            input.vint()?;
        }
        rows(&format, table, data, input, &mut update)?;
        Ok(update)
    }

    fn format(
        &mut self,
        table: &TableMetadata,
        has_static: bool,
        (min_timestamp, min_local_deletion_time, min_ttl): (i64, i32, i32),
        input: &mut Input<'_>,
    ) -> Parsed<RowFormat> {
        let at = input.offset();
        let start = input.position();
        let statics = if has_static { names(input)? } else { Vec::new() };
        let regulars = names(input)?;
        let id = (table.id, has_static, input.since(start).into());
        if !self.known.contains_key(&id) {
            if self.known.len() >= FORMATS_MAX {
                self.known.clear();
            }
            let format = RowFormat::of_names(table, &statics, &regulars)
                .map_err(|detail| Malformed::new(at, detail))?;
            self.known.insert(id.clone(), format);
        }
        let Some(format) = self.known.get(&id) else {
            return Err(Malformed::new(at, "the columns of a change expected"));
        };
        Ok(RowFormat { min_timestamp, min_local_deletion_time, min_ttl, ..format.clone() })
    }
}

fn names(input: &mut Input<'_>) -> Parsed<Vec<String>> {
    let count = input.count(1)?;
    let mut names = Vec::with_capacity(count);
    for _ in 0..count {
        let at = input.offset();
        let name = std::str::from_utf8(input.bytes_vint()?);
        names.push(
            name.map_err(|error| Malformed::new(at, format!("a column name expected: {error}")))?.to_owned(),
        );
    }
    Ok(names)
}

/// Decodes rows and markers up to the end of the partition.
fn rows(
    format: &RowFormat,
    table: &TableMetadata,
    data: &Bytes,
    input: &mut Input<'_>,
    update: &mut PartitionUpdate,
) -> Parsed<()> {
    let mut open: Option<(Bound, DeletionTime)> = None;
    loop {
        let at = input.offset();
        let flags = input.u8()?;
        if flags == END_OF_PARTITION {
            return match open {
                None => Ok(()),
                Some(_) => Err(Malformed::new(at, "the end of a range tombstone expected")),
            };
        }
        if flags == IS_MARKER {
            let (bound, kind) = format.clustering.decode_bound(input)?;
            let marker = format.marker_deletions(bound, kind, input)?;
            let closed = match (open.take(), marker.close) {
                (Some((start, deletion)), Some(_)) => Some((start, deletion)),
                (None, None) => None,
                _ => return Err(Malformed::new(at, "range tombstones that start and end in pairs expected")),
            };
            if let Some((start, deletion)) = closed {
                let tombstone = RangeTombstone { start, end: marker.bound.clone(), deletion };
                update.range_tombstones.add(tombstone, &table.comparator);
            }
            open = marker.open.map(|deletion| (marker.bound, deletion));
            continue;
        }
        let (flags, clustering) = format.row_start(at, flags, input)?;
        if flags.1 & IS_STATIC != 0 || flags.0 & (END_OF_PARTITION | IS_MARKER) != 0 {
            return Err(Malformed::new(at, format!("a row expected, flags {flags:02x?} found")));
        }
        if let Some(row) = format.row_body(flags, clustering, data, input)? {
            update.add_row(row, table);
        }
    }
}

#[cfg(test)]
mod tests {
    use cassette_rows::schema::DroppedColumn;
    use cassette_rows::{ColumnKind, ColumnMetadata, DataType};

    use super::*;

    const ID: [u8; 16] = [7; 16];

    fn table() -> TableMetadata {
        use ColumnKind::*;
        let map = DataType::map(DataType::Int, DataType::Int);
        let columns = [
            ("k", PartitionKey, DataType::Int),
            ("c", Clustering, DataType::Int),
            ("s", Static, DataType::Text),
            ("v", Regular, DataType::Text),
            ("m", Regular, map),
        ];
        let columns = columns.map(|(name, kind, data_type)| ColumnMetadata::new(name, kind, 0, data_type));
        TableMetadata::new(TableId(Uuid::from_bytes(ID)), "ks", "t", columns.into(), Default::default())
    }

    /// A mutation with a deletion of the partition, a static row, a row and a range tombstone.
    fn mutation() -> Vec<u8> {
        let pieces: [&[u8]; 15] = [
            &[1],
            &ID,
            &[4, 0, 0, 0, 1, 0x1c],
            &[5, 0, 0],
            &[1, 1, b's', 2, 1, b'v', 1, b'm'],
            // The deletion: timestamp, local deletion time.
            &[0, 0],
            // The static row.
            &[0xa0, 1, 0, 1, 1, b'x'],
            &[1],
            // A row with c = 1 and liveness; v with its time.
            &[0x64, 0, 0, 0, 0, 1, 4],
            &[8, 2, b'h', b'i'],
            // m: a deletion, and an element.
            &[2, 0, 1],
            &[8, 4, 0, 0, 0, 7, 4, 0, 0, 0, 8],
            // Everything from 5 to 9 is deleted.
            &[2, 1, 0, 1, 0, 0, 0, 0, 5, 3, 0],
            &[2, 6, 0, 1, 0, 0, 0, 0, 9, 3, 0],
            &[1],
        ];
        pieces.concat()
    }

    fn decode(bytes: &[u8], table: &TableMetadata) -> Parsed<PartitionUpdate> {
        let data = Bytes::copy_from_slice(bytes);
        let mut input = Input::new(&data);
        assert_eq!(updates_of_mutation(&mut input)?, 1);
        assert_eq!(table_of_update(&mut input)?, table.id);
        let update = UpdateFormats::default().decode(table, &data, &mut input)?;
        input.end()?;
        Ok(update)
    }

    #[test]
    fn changes_of_every_kind_are_decoded() {
        let table = table();
        let update = decode(&mutation(), &table).unwrap();
        assert_eq!(update.key.key(), [0, 0, 0, 1]);
        let base = 1_442_880_000_000_005;
        assert_eq!(update.deletion, DeletionTime::new(base, 1_442_880_000));
        let id = |name: &str| table.column(name).unwrap().id;
        let value = update.static_row.as_ref().unwrap().cell(id("s")).unwrap();
        assert_eq!((value.value, value.timestamp), (b"x".as_slice(), base + 1));
        let [row] = update.rows.as_slice() else { panic!("{:?}", update.rows) };
        assert_eq!(row.clustering().value(0), Some([0, 0, 0, 1].as_slice()));
        assert_eq!(row.cell(id("v")).unwrap().timestamp, base + 4);
        let elements: Vec<_> = row.cells_of(id("m")).collect();
        assert_eq!((elements.len(), elements[0].path), (1, Some([0, 0, 0, 7].as_slice())));
        assert_eq!(elements[0].value, [0, 0, 0, 8]);
        let [tombstone] = update.range_tombstones.as_slice() else { panic!() };
        assert_eq!(tombstone.deletion.timestamp, base + 3);
    }

    #[test]
    fn dropped_columns_are_skipped_and_unknown_ones_are_an_error() {
        let dropped = table().with_column_dropped("v", i64::MAX);
        let update = decode(&mutation(), &dropped).unwrap();
        assert_eq!(update.rows[0].cells().count(), 1);
        let mut unknown = dropped;
        unknown.set_dropped_columns(std::collections::BTreeMap::<String, DroppedColumn>::new());
        let error = decode(&mutation(), &unknown).unwrap_err().to_string();
        assert!(error.contains("unknown column \"v\""), "{error}");
    }

    #[test]
    fn what_is_cut_off_or_changed_is_an_error_or_another_change() {
        let (table, whole) = (table(), mutation());
        for length in 0..whole.len() {
            assert!(decode(&whole[..length], &table).is_err(), "{length}");
        }
        for at in 17..whole.len() {
            for bit in 0..8 {
                let mut changed = whole.clone();
                changed[at] ^= 1 << bit;
                let _ = decode(&changed, &table);
            }
        }
    }
}
