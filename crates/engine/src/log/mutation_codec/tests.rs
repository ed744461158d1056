//! Mutations are decoded as they were written, however their table has changed since.

use std::sync::Arc;

use cassette_rows::{
    Clustering, ColumnId, ColumnKind, ColumnMetadata, DataType, PartitionUpdate, RowBuilder, TableMetadata,
    TableParams,
};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::engine_tests::testing::{self, Updates, seeds};
use crate::log::commitlog::TableVersion;

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
fn the_dictionary_of_a_captured_table_contains_the_table() {
    let version = TableVersion { table: 77, schema: 3 };
    let plain = testing::table();
    let params = TableParams { cdc: true, ..TableParams::default() };
    let captured = testing::table_with("t", params);
    let dictionary = |table: &TableMetadata| {
        let mut out = Vec::new();
        encode_dictionary(table, &mut out);
        out
    };
    assert_eq!(captured_table(version, &dictionary(&plain)), Some(None));
    assert!(!is_captured(&dictionary(&plain)));
    let bytes = dictionary(&captured);
    assert!(is_captured(&bytes));
    let mut found = captured_table(version, &bytes).unwrap().unwrap();
    assert_eq!((found.id.0.as_u128(), found.version), (77, 3));
    (found.id, found.version) = (captured.id, captured.version);
    assert_eq!(found, *captured);
    for length in 0..bytes.len() {
        let cut = captured_table(version, &bytes[..length]);
        assert!(cut.is_none() || length == dictionary(&plain).len(), "{length} bytes");
    }
    let decoder = Decoder::new(Arc::new(found), &bytes).unwrap();
    for seed in seeds(100) {
        let update = Updates::of(captured.clone()).next(&mut SmallRng::seed_from_u64(seed));
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
    let a = ColumnMetadata::new("a", ColumnKind::Regular, 0, DataType::Text);
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
fn cells_of_a_dropped_column_are_left_out_up_to_its_drop_whether_it_was_added_again_or_not() {
    let old = testing::simple_table("t", Default::default());
    let v = old.column("v").unwrap().clone();
    let dropped = Arc::new(old.with_column_dropped("v", 10));
    let again = Arc::new(dropped.with_column_added((*v).clone()));
    let cells = |table: &Arc<TableMetadata>, timestamp| {
        let update = encoded(&testing::insert(1, b"x", timestamp));
        decoder(&old, table.clone()).update(&update).unwrap().rows[0].cell_count()
    };
    assert_eq!(cells(&dropped, 10), 0);
    assert_eq!(cells(&dropped, 11), 1);
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
