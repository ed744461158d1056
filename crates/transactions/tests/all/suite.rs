//! The contract of stores as a suite. Other crates include this file to test further stores.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use cassette_transactions::Timestamp;
use cassette_transactions::store::{
    Cell, CellBatching, CellLoader, CheckOutcome, ColumnRange, Put, PutOutcome, PutRow, Store, TableKind,
    Version,
};

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn version(timestamp: i64, value: &str) -> Version {
    Version { timestamp: Timestamp(timestamp), value: bytes(value) }
}

/// A table of a store.
pub struct Table<'s> {
    /// Store of the table.
    pub store: &'s dyn Store,
    /// Name of the table.
    pub name: String,
}

impl Table<'_> {
    fn put(&self, row: &str, column: &str, timestamp: i64, value: &str) {
        self.put_at(row, column, timestamp, value, timestamp);
    }

    fn put_at(&self, row: &str, column: &str, timestamp: i64, value: &str, write_time: i64) {
        let cell = Cell::new(bytes(row), bytes(column));
        let put = Put {
            table: &self.name,
            cell: &cell,
            timestamp: Timestamp(timestamp),
            value: bytes(value),
            write_time,
        };
        self.store.put(&[put]).unwrap();
    }

    fn get(&self, row: &str, column: &str, below: i64) -> Option<Version> {
        let cell = Cell::new(bytes(row), bytes(column));
        self.store.get(&self.name, &[(&cell, Timestamp(below))]).unwrap().pop().unwrap()
    }

    fn columns(
        &self,
        row: &str,
        start: &str,
        end: Option<&str>,
        below: i64,
        limit: usize,
    ) -> Vec<(Bytes, Version)> {
        let range = ColumnRange {
            row: bytes(row),
            start: bytes(start),
            end: end.map(bytes),
            limit,
            is_reversed: false,
        };
        self.store.columns(&self.name, &[range], Timestamp(below)).unwrap().pop().unwrap()
    }

    fn put_unless_exists(&self, row: &str, columns: &[(&str, &str)]) -> PutOutcome {
        let columns = columns.iter().map(|(column, value)| (bytes(column), bytes(value))).collect();
        let row = PutRow { row: bytes(row), columns };
        self.store.put_unless_exists(&self.name, &[row]).pop().unwrap().unwrap()
    }
}

/// Tests the whole contract of the trait on a store, each part with a separate table.
pub fn suite(store: &dyn Store) {
    static TABLES: AtomicU64 = AtomicU64::new(0);
    let run = std::process::id();
    let table = |kind| {
        let name = format!("t{run}_{}", TABLES.fetch_add(1, Ordering::Relaxed));
        store.create_table(&name, kind).unwrap();
        store.create_table(&name, kind).unwrap();
        Table { store, name }
    };
    the_newest_version_below_is_read(&table(TableKind::Data));
    many_cells_with_separate_bounds_are_returned_in_order(&table(TableKind::Data));
    columns_are_returned_in_order_each_with_its_newest_version(&table(TableKind::Data));
    columns_are_returned_in_reverse_order(&table(TableKind::Data));
    all_rows_are_paged_through_once(&table(TableKind::SmallPartitions));
    the_greatest_write_time_wins(&table(TableKind::Data));
    exactly_the_named_versions_are_deleted(&table(TableKind::Data));
    old_versions_go_and_sentinels_stay(&table(TableKind::Data));
    rows_are_deleted_up_to_a_write_time(&table(TableKind::Data));
    columns_are_put_together_unless_one_is_there(&table(TableKind::DensePartitions));
    only_the_expected_value_is_replaced(&table(TableKind::Data));
    one_of_many_conditional_puts_wins(&table(TableKind::DensePartitions));
    assert!(store.create_table("no\"name", TableKind::Data).is_err());
    assert!(store.get("unknown", &[]).is_err() || store.rows("unknown", None, 1).is_err());
}

fn the_newest_version_below_is_read(t: &Table<'_>) {
    for timestamp in [10, 20, 30] {
        t.put("r", "c", timestamp, &format!("v{timestamp}"));
    }
    t.put("r", "c", -1, "");
    assert_eq!(t.get("r", "c", i64::MAX), Some(version(30, "v30")));
    assert_eq!(t.get("r", "c", 30), Some(version(20, "v20")));
    assert_eq!(t.get("r", "c", 21), Some(version(20, "v20")));
    assert_eq!(t.get("r", "c", 10), Some(version(-1, "")), "a sentinel follows all versions");
    assert_eq!(t.get("r", "d", 30), None);
    assert_eq!(t.get("s", "c", 30), None);
}

fn many_cells_with_separate_bounds_are_returned_in_order(t: &Table<'_>) {
    let names = ["a", "b", "c"];
    for row in names {
        for column in names {
            for timestamp in [1, 5, 9] {
                t.put(row, column, timestamp, &format!("{row}{column}{timestamp}"));
            }
        }
    }
    let mut cells = Vec::new();
    for below in [1, 2, 9, 10] {
        for row in ["c", "a", "x", "b"] {
            for column in ["b", "x", "a", "a"] {
                cells.push((Cell::new(bytes(row), bytes(column)), Timestamp(below)));
            }
        }
    }
    let asked: Vec<_> = cells.iter().map(|(cell, below)| (cell, *below)).collect();
    let found = t.store.get(&t.name, &asked).unwrap();
    for ((cell, below), found) in cells.iter().zip(found) {
        let newest = [9, 5, 1].into_iter().find(|at| Timestamp(*at) < *below);
        let there = cell.row != "x" && cell.column != "x";
        let expected = newest.filter(|_| there).map(|at| {
            let name = |bytes: &Bytes| String::from_utf8(bytes.to_vec()).unwrap();
            version(at, &format!("{}{}{at}", name(&cell.row), name(&cell.column)))
        });
        assert_eq!(found, expected, "{cell:?} below {below}");
    }
    assert_eq!(t.store.get(&t.name, &[]).unwrap(), []);
}

fn columns_are_returned_in_order_each_with_its_newest_version(t: &Table<'_>) {
    for n in 0..10 {
        let column = format!("c{n}");
        t.put("r", &column, 5, "old");
        t.put("r", &column, 10 + n, "new");
    }
    t.put("r", "", 7, "nameless");
    let names = |page: Vec<(Bytes, Version)>| -> Vec<(String, i64)> {
        let name = |c: Bytes| String::from_utf8(c.to_vec()).unwrap();
        page.into_iter().map(|(column, version)| (name(column), version.timestamp.0)).collect()
    };
    let pair = |name: &str, at: i64| (name.to_owned(), at);
    assert_eq!(names(t.columns("r", "", None, 12, 3)), [pair("", 7), pair("c0", 10), pair("c1", 11)]);
    assert_eq!(names(t.columns("r", "c1\0", Some("c4"), 12, 10)), [pair("c2", 5), pair("c3", 5)]);
    assert_eq!(names(t.columns("r", "c8", None, 100, 10)), [pair("c8", 18), pair("c9", 19)]);
    assert_eq!(names(t.columns("r", "", None, 5, 10)), []);
    assert_eq!(names(t.columns("none", "", None, 5, 10)), []);
    let ranges = ["none", "r"].map(|row| ColumnRange {
        row: bytes(row),
        start: bytes("c9"),
        end: None,
        limit: 5,
        is_reversed: false,
    });
    let pages = t.store.columns(&t.name, &ranges, Timestamp(100)).unwrap();
    assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), [0, 1]);
}

fn columns_are_returned_in_reverse_order(t: &Table<'_>) {
    for n in 0..10 {
        let column = format!("c{n}");
        t.put("r", &column, 5, "old");
        t.put("r", &column, 10 + n, "new");
        t.put("r", &column, -1, "");
    }
    t.put("r", "", 7, "nameless");
    let page = |start: &str, end: Option<&str>, below: i64, limit: usize| {
        let (row, start, end) = (bytes("r"), bytes(start), end.map(bytes));
        let range = ColumnRange { row, start, end, limit, is_reversed: true };
        let page = t.store.columns(&t.name, &[range], Timestamp(below)).unwrap().pop().unwrap();
        let name = |c: Bytes| String::from_utf8(c.to_vec()).unwrap();
        page.into_iter().map(|(column, version)| (name(column), version.timestamp.0)).collect::<Vec<_>>()
    };
    let pair = |name: &str, at: i64| (name.to_owned(), at);
    assert_eq!(page("", None, 100, 2), [pair("c9", 19), pair("c8", 18)]);
    assert_eq!(page("c2", Some("c8"), 16, 4), [pair("c7", 5), pair("c6", 5), pair("c5", 15), pair("c4", 14)]);
    assert_eq!(page("", Some("c1"), 100, 9), [pair("c0", 10), pair("", 7)]);
    assert_eq!(page("", Some("c1"), 5, 9), [pair("c0", -1)], "a sentinel is a version");
    assert_eq!(page("x", None, 100, 9), []);
    // Ranges of both directions in one call.
    let range = |is_reversed| ColumnRange {
        row: bytes("r"),
        start: bytes("c3"),
        end: Some(bytes("c6")),
        limit: 2,
        is_reversed,
    };
    let pages = t.store.columns(&t.name, &[range(false), range(true)], Timestamp(100)).unwrap();
    let names = |page: &[(Bytes, Version)]| page.iter().map(|(column, _)| column.clone()).collect::<Vec<_>>();
    assert_eq!(names(&pages[0]), [bytes("c3"), bytes("c4")]);
    assert_eq!(names(&pages[1]), [bytes("c5"), bytes("c4")]);
}

fn all_rows_are_paged_through_once(t: &Table<'_>) {
    for n in 0..25 {
        t.put(&format!("row{n}"), "c", 1, "v");
        t.put(&format!("row{n}"), "d", 1, "v");
    }
    let whole = t.store.rows(&t.name, None, 100).unwrap();
    assert_eq!(whole.len(), 25);
    for size in [1, 4, 25, 26] {
        let mut paged: Vec<Bytes> = Vec::new();
        loop {
            let page = t.store.rows(&t.name, paged.last().map(|last| &last[..]), size).unwrap();
            let is_last = page.len() < size;
            paged.extend(page);
            if is_last {
                break;
            }
        }
        assert_eq!(paged, whole, "pages of {size}");
    }
}

fn the_greatest_write_time_wins(t: &Table<'_>) {
    t.put_at("r", "c", 0, "early", 5);
    t.put_at("r", "c", 0, "hard", i64::MAX - 10);
    t.put_at("r", "c", 0, "late", 1_000_000_000_000);
    assert_eq!(t.get("r", "c", 1), Some(version(0, "hard")));
}

fn exactly_the_named_versions_are_deleted(t: &Table<'_>) {
    for timestamp in [10, 20, 30] {
        t.put("r", "c", timestamp, "v");
        t.put("r", "d", timestamp, "v");
    }
    let cell = Cell::new(bytes("r"), bytes("c"));
    t.store.delete(&t.name, &[(&cell, Timestamp(20)), (&cell, Timestamp(30))], 31).unwrap();
    assert_eq!(t.get("r", "c", 100), Some(version(10, "v")));
    assert_eq!(t.get("r", "d", 100), Some(version(30, "v")));
}

fn old_versions_go_and_sentinels_stay(t: &Table<'_>) {
    for timestamp in [-1, 10, 20, 30] {
        t.put("r", "c", timestamp, "v");
    }
    let cell = Cell::new(bytes("r"), bytes("c"));
    let untouched = Cell::new(bytes("r"), bytes("d"));
    t.put("r", "d", 5, "v");
    t.store.delete_older(&t.name, &[(&cell, Timestamp(30)), (&untouched, Timestamp(5))], 40).unwrap();
    assert_eq!(t.get("r", "c", 100), Some(version(30, "v")));
    assert_eq!(t.get("r", "c", 30), Some(version(-1, "v")));
    assert_eq!(t.get("r", "d", 100), Some(version(5, "v")));
}

fn rows_are_deleted_up_to_a_write_time(t: &Table<'_>) {
    for row in ["r", "s", "t"] {
        t.put(row, "c", 10, "v");
        t.put(row, "d", 20, "v");
    }
    t.store.delete_rows(&t.name, &[bytes("r"), bytes("s")], 15).unwrap();
    for (row, c) in [("r", None), ("s", None), ("t", Some(version(10, "v")))] {
        assert_eq!(t.get(row, "c", 100), c);
        assert_eq!(t.get(row, "d", 100), Some(version(20, "v")));
    }
}

/// Conditional puts of several columns.
pub fn columns_are_put_together_unless_one_is_there(t: &Table<'_>) {
    let exists = |columns: &[(&str, &str)]| {
        PutOutcome::Exists(columns.iter().map(|(column, value)| (bytes(column), bytes(value))).collect())
    };
    assert_eq!(t.put_unless_exists("r", &[("a", "1"), ("b", "")]), PutOutcome::Applied);
    assert_eq!(t.put_unless_exists("r", &[("a", "2")]), exists(&[("a", "1")]));
    assert_eq!(
        t.put_unless_exists("r", &[("0", "x"), ("a", "2"), ("b", "2"), ("c", "2")]),
        exists(&[("a", "1"), ("b", "")])
    );
    assert_eq!(t.get("r", "c", 1), None, "no column of a row is put if one exists");
    assert_eq!(t.put_unless_exists("r", &[("c", "3")]), PutOutcome::Applied);
    let rows = ["r", "s"].map(|row| PutRow { row: bytes(row), columns: vec![(bytes("a"), bytes("9"))] });
    let outcomes: Vec<_> =
        t.store.put_unless_exists(&t.name, &rows).into_iter().map(Result::unwrap).collect();
    assert_eq!(outcomes, [exists(&[("a", "1")]), PutOutcome::Applied], "rows do not depend on each other");
    let columns = ["b", "x", "c"].map(bytes);
    let values = t.store.get_serial(&t.name, &bytes("r"), &columns).unwrap();
    assert_eq!(values, [Some(bytes("")), None, Some(bytes("3"))]);
    let many: Vec<_> = (0..300).map(|n| (bytes(&format!("m{n}")), bytes("v"))).collect();
    let row = PutRow { row: bytes("r"), columns: many };
    assert_eq!(t.store.put_unless_exists(&t.name, &[row]).pop().unwrap().unwrap(), PutOutcome::Applied);
}

fn only_the_expected_value_is_replaced(t: &Table<'_>) {
    let cell = Cell::new(bytes("r"), bytes("c"));
    let set = |expected: &str, new: &str| {
        t.store.check_and_set(&t.name, &cell, &bytes(expected), &bytes(new)).unwrap()
    };
    assert_eq!(set("", "1"), CheckOutcome::Actual(None), "an absent value equals nothing");
    assert_eq!(t.put_unless_exists("r", &[("c", "1")]), PutOutcome::Applied);
    assert_eq!(set("1", "1"), CheckOutcome::Applied, "a touch");
    assert_eq!(set("2", "3"), CheckOutcome::Actual(Some(bytes("1"))));
    assert_eq!(set("1", "2"), CheckOutcome::Applied);
    assert_eq!(set("1", "2"), CheckOutcome::Actual(Some(bytes("2"))));
    // A plain put above every conditional write, as two-stage commit records are finished.
    t.put_at("r", "c", 0, "final", i64::MAX - 10);
    assert_eq!(set("2", "2"), CheckOutcome::Actual(Some(bytes("final"))));
}

fn one_of_many_conditional_puts_wins(t: &Table<'_>) {
    let wins: usize = std::thread::scope(|scope| {
        let put = |n: usize| {
            let value = format!("{n}");
            scope.spawn(move || t.put_unless_exists("r", &[("c", &value)]) == PutOutcome::Applied)
        };
        let threads: Vec<_> = (0..4).map(put).collect();
        threads.into_iter().map(|thread| usize::from(thread.join().unwrap())).sum()
    });
    assert_eq!(wins, 1);
}

/// Loaders with limits low enough to reach each of their rules.
pub fn every_loader_finds_the_same<S: Store>(open: impl Fn(CellLoader) -> S) {
    let loaders = [CellBatching::ByRow, CellBatching::ByColumn, CellBatching::Selective, CellBatching::Full];
    for batching in loaders {
        let limits = [(200, 50_000), (2, 5)];
        for (cross_column_load_batch_limit, single_query_load_batch_limit) in limits {
            let store =
                open(CellLoader { batching, cross_column_load_batch_limit, single_query_load_batch_limit });
            let name = format!("t{}_{cross_column_load_batch_limit}", batching as u8);
            store.create_table(&name, TableKind::Data).unwrap();
            many_cells_with_separate_bounds_are_returned_in_order(&Table { store: &store, name });
        }
    }
}
