//! Iterators over columns and cells: order, both directions, own writes, and bounded pages.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use cassette_transactions::store::{EmbeddedStore, FailingStore, Fault, MemoryStore, Store};
use cassette_transactions::sweep::SweepStrategy;
use cassette_transactions::{ConflictHandler, Error, Transactions};
use proptest::prelude::*;

use super::conformance::database;
use super::timelock::{Counting, Pages};
use super::transactions::{in_memory, options, over};

fn stores() -> [Arc<dyn Store>; 2] {
    [Arc::new(MemoryStore::new()), Arc::new(EmbeddedStore::open(database(), "tx").unwrap())]
}

fn name(n: usize) -> String {
    format!("{n:04}")
}

fn text(bytes: &Bytes) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A table with 2,500 columns in one row, of which every third is deleted again.
fn fill(transactions: &Transactions, handler: ConflictHandler) -> cassette_transactions::Table {
    let table = transactions.table("t", handler).unwrap();
    transactions.run(|tx| (0..2_500).try_for_each(|n| tx.put(&table, "row", name(n), "v"))).unwrap();
    transactions.run(|tx| (0..2_500).step_by(3).try_for_each(|n| tx.delete(&table, "row", name(n)))).unwrap();
    table
}

#[test]
fn ranges_of_several_pages_are_read_from_both_ends_with_own_writes() {
    for store in stores() {
        for swept in [false, true] {
            let transactions = over(store.clone(), options());
            let table = fill(&transactions, ConflictHandler::WriteWriteByRow);
            if swept {
                transactions.sweep().unwrap();
            }
            let mut tx = transactions.start().unwrap();
            tx.put(&table, "row", "0003", "own").unwrap();
            tx.delete(&table, "row", "0004").unwrap();
            tx.put(&table, "row", "9999", "own").unwrap();
            tx.put(&table, "row", "", "nameless").unwrap();
            let mut expected: Vec<String> = vec![String::new()];
            expected.extend((0..2_500).filter(|n| (n % 3 != 0 && *n != 4) || *n == 3).map(name));
            expected.push("9999".to_owned());
            let columns = |range: &mut dyn Iterator<Item = Result<(Bytes, Bytes), Error>>| -> Vec<String> {
                range.map(|column| text(&column.unwrap().0)).collect()
            };
            assert_eq!(columns(&mut tx.prefix(&table, "row", "")), expected);
            let mut reversed = columns(&mut tx.prefix(&table, "row", "").rev());
            reversed.reverse();
            assert_eq!(reversed, expected);
            let some = |from: &str, to: &str| -> Vec<String> {
                expected.iter().filter(|name| (from..to).contains(&&***name)).cloned().collect()
            };
            assert_eq!(columns(&mut tx.range(&table, "row", "0100".."2000")), some("0100", "2000"));
            let mut reversed = columns(&mut tx.range(&table, "row", "0100".."2000").rev());
            reversed.reverse();
            assert_eq!(reversed, some("0100", "2000"));
            assert_eq!(columns(&mut tx.prefix(&table, "row", "12")), some("12", "13"));
            assert_eq!(columns(&mut tx.prefix(&table, "absent", "")), [""; 0]);
            assert_eq!(columns(&mut tx.range(&table, "row", "x".."b")), [""; 0]);
            // Both ends meet in the middle.
            let mut range = tx.range(&table, "row", "0100".."2000");
            let (mut first, mut last) = (Vec::new(), Vec::new());
            while let Some(column) = range.next() {
                first.push(text(&column.unwrap().0));
                last.extend((0..3).filter_map(|_| range.next_back()).map(|c| text(&c.unwrap().0)));
            }
            last.reverse();
            first.extend(last);
            assert_eq!(first, some("0100", "2000"));
            drop(tx);
            // For the other rounds on this store.
            transactions.run(|tx| (0..2_500).try_for_each(|n| tx.delete(&table, "row", name(n)))).unwrap();
        }
    }
}

#[test]
fn all_cells_of_a_table_are_iterated_with_own_writes() {
    for store in stores() {
        for handler in [ConflictHandler::WriteWriteByCell, ConflictHandler::SerializableByCell] {
            let transactions = over(store.clone(), options());
            let table = transactions.table(if handler.name().starts_with('s') { "s" } else { "w" }, handler);
            let table = table.unwrap();
            transactions
                .run(|tx| {
                    (0..1_200).try_for_each(|n| tx.put(&table, format!("r{n}"), "c", "v"))?;
                    (0..50).try_for_each(|n| tx.put(&table, "wide", name(n), "v"))
                })
                .unwrap();
            let mut tx = transactions.start().unwrap();
            (0..40).for_each(|n| tx.delete(&table, format!("r{n}"), "c").unwrap());
            (0..40).for_each(|n| tx.put(&table, format!("own{n}"), "c", "own").unwrap());
            let mut found: Vec<(String, String)> = Vec::new();
            for cell in tx.cells(&table) {
                let (cell, _) = cell.unwrap();
                found.push((text(&cell.row), text(&cell.column)));
            }
            // Rows in the order of the store, each once, its columns in order.
            let rows: Vec<String> =
                tx.rows(&table, None, 10_000).unwrap().iter().map(|row| text(&row.row)).collect();
            let mut in_order = found.clone();
            in_order.dedup_by(|a, b| a.0 == b.0);
            assert_eq!(in_order.into_iter().map(|(row, _)| row).collect::<Vec<_>>(), rows);
            let mut expected: Vec<(String, String)> =
                (40..1_200).map(|n| (format!("r{n}"), "c".to_owned())).collect();
            expected.extend((0..40).map(|n| (format!("own{n}"), "c".to_owned())));
            expected.extend((0..50).map(|n| ("wide".to_owned(), name(n))));
            let is_ordered = found.windows(2).all(|pair| pair[0].0 != pair[1].0 || pair[0].1 < pair[1].1);
            assert!(is_ordered);
            found.sort();
            expected.sort();
            assert_eq!(found, expected);
            // A new row among those that were read is a conflict in a serializable table.
            transactions.run(|other| other.put(&table, "new", "c", "v")).unwrap();
            let committed = tx.commit();
            match handler {
                ConflictHandler::SerializableByCell => {
                    assert!(matches!(committed, Err(Error::ReadWriteConflict { .. })), "{committed:?}");
                }
                _ => drop(committed.unwrap()),
            }
        }
    }
}

#[test]
fn a_reversed_read_is_validated_in_serializable_tables() {
    for (column, conflicts) in [("2499x", true), ("0001", false)] {
        let transactions = in_memory();
        let table = fill(&transactions, ConflictHandler::SerializableByCell);
        let mut tx = transactions.start().unwrap();
        assert_eq!(tx.prefix(&table, "row", "").rev().take(3).filter_map(Result::ok).count(), 3);
        tx.put(&table, "other", "c", "1").unwrap();
        transactions.run(|other| other.put(&table, "row", column, "v")).unwrap();
        assert_eq!(tx.commit().is_err(), conflicts, "{column}");
    }
}

#[test]
fn an_error_ends_an_iterator() {
    let below: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let failing = Arc::new(FailingStore::new(below));
    let transactions = over(failing.clone(), options());
    let table = fill(&transactions, ConflictHandler::WriteWriteByCell);
    let tx = transactions.start().unwrap();
    // The first page is read; the second one fails.
    let mut range = tx.prefix(&table, "row", "");
    let mut cells = tx.cells(&table);
    assert!(range.next().is_some_and(|column| column.is_ok()));
    assert!(cells.next().is_some_and(|cell| cell.is_ok()));
    failing.die_at(1, Fault::Lost);
    let failed = range.find_map(Result::err).unwrap();
    assert!(failed.is_retriable(), "{failed}");
    assert!(range.next().is_none() && range.next_back().is_none());
    cells.find_map(Result::err).unwrap();
    assert!(cells.next().is_none());
    failing.settle();
    assert_eq!(tx.prefix(&table, "row", "").filter_map(Result::ok).count(), 1_666);
}

#[test]
fn pages_of_large_values_are_small_and_unread_ones_are_not_loaded() {
    let below = MemoryStore::new();
    let measuring = Arc::new(Counting { below, calls: AtomicU64::new(0), pages: Pages::default() });
    let transactions = over(measuring.clone(), options());
    let table = transactions.table_swept("t", ConflictHandler::WriteWriteByCell, SweepStrategy::Nothing);
    let table = table.unwrap();
    let value = vec![7; 100_000];
    transactions.run(|tx| (0..200).try_for_each(|n| tx.put(&table, "row", name(n), &value))).unwrap();
    for is_reversed in [false, true] {
        measuring.pages.columns.store(0, Ordering::Relaxed);
        measuring.pages.bytes_max.store(0, Ordering::Relaxed);
        let tx = transactions.start().unwrap();
        let range = tx.prefix(&table, "row", "");
        let taken: Vec<_> =
            if is_reversed { range.rev().take(40).collect() } else { range.take(40).collect() };
        assert!(taken.iter().all(Result::is_ok));
        // The first page, and one of 1 MiB.
        assert!(measuring.pages.columns.load(Ordering::Relaxed) < 60);
        assert!(measuring.pages.bytes_max.load(Ordering::Relaxed) < 4_000_000);
    }
}

/// Bytes at the ends of their range, where the end of a prefix carries.
fn extreme_bytes(length: std::ops::Range<usize>) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop_oneof![Just(0u8), Just(1), Just(254), Just(255)], length)
}

proptest! {
    /// The end of a prefix excludes nothing that begins with it, and includes nothing else.
    #[test]
    fn a_prefix_selects_the_columns_that_begin_with_it(
        names in prop::collection::btree_set(extreme_bytes(0..4), 1..20),
        prefix in extreme_bytes(0..3),
    ) {
        let transactions = in_memory();
        let table = transactions.table("t", ConflictHandler::WriteWriteByCell).unwrap();
        transactions.run(|tx| names.iter().try_for_each(|name| tx.put(&table, "row", name, "v"))).unwrap();
        let tx = transactions.start().unwrap();
        let found: Vec<Vec<u8>> =
            tx.prefix(&table, "row", &prefix).map(|column| column.unwrap().0.to_vec()).collect();
        let expected: Vec<Vec<u8>> =
            names.iter().filter(|name| name.starts_with(&prefix)).cloned().collect();
        prop_assert_eq!(found, expected);
    }
}
