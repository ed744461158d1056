//! Reads of many rows. Scans are counted per row, pages as a whole.

use cassette_database::BoundValue;

use super::data::{set, text_of};
use super::node::Node;
use super::reads::spread;
use super::{Case, case};
use crate::meter::{Counted, Meter};

pub const CASES: &[Case] = &[
    case("scan_sstable_row", 4_000, scan_sstable),
    case("scan_4_sstables_row", 2_000, scan_4_sstables),
    case("scan_memtable_and_sstable_row", 2_000, scan_memtable_and_sstable),
    case("count_row", 4_000, count),
    case("count_wide_row", 20_000, count_wide),
    case("filter_row", 4_000, filter),
    case("page_of_100_rows", 200, page),
    case("page_of_100_rows_reversed", 200, page_reversed),
];

/// Counts a scan of as many rows as there are operations, in pages of 100, after another scan.
fn scan(node: &Node, meter: Meter) -> Counted {
    let select = node.prepare("SELECT * FROM ks.usertable").page_size(100);
    let rows = meter.operations();
    assert_eq!(node.execute_all(&select, &[]), rows);
    meter.together(|| assert_eq!(node.execute_all(&select, &[]), rows))
}

fn scan_sstable(meter: Meter) -> Counted {
    let node = loaded(meter.operations());
    scan(&node, meter)
}

fn loaded(rows: u64) -> Node {
    let node = Node::new();
    node.create_usertable("");
    node.load(rows);
    node.flush("usertable");
    node
}

/// Every row is in all SSTables.
fn scan_4_sstables(meter: Meter) -> Counted {
    let node = Node::new();
    node.create_usertable("");
    spread(&node, meter.operations(), 3);
    node.flush("usertable");
    scan(&node, meter)
}

/// Every row is in the memtable and in an SSTable.
fn scan_memtable_and_sstable(meter: Meter) -> Counted {
    let node = Node::new();
    node.create_usertable("");
    spread(&node, meter.operations(), 1);
    scan(&node, meter)
}

fn count(meter: Meter) -> Counted {
    let node = loaded(meter.operations());
    let select = node.prepare("SELECT count(*) FROM ks.usertable");
    assert_eq!(node.execute_all(&select, &[]), 1);
    meter.together(|| assert_eq!(node.execute_all(&select, &[]), 1))
}

/// Rows of one partition.
fn count_wide(meter: Meter) -> Counted {
    let node = Node::new();
    wide_partition(&node, meter.operations());
    let select = node.prepare("SELECT count(*) FROM ks.wide WHERE k = ?");
    assert_eq!(node.execute_all(&select, &[set("wide")]), 1);
    meter.together(|| assert_eq!(node.execute_all(&select, &[set("wide")]), 1))
}

/// No row matches.
fn filter(meter: Meter) -> Counted {
    let node = loaded(meter.operations());
    let select = node.prepare("SELECT * FROM ks.usertable WHERE field3 = ? ALLOW FILTERING");
    let absent = [set("absent")];
    assert_eq!(node.execute_all(&select, &absent), 0);
    meter.together(|| assert_eq!(node.execute_all(&select, &absent), 0))
}

fn page(meter: Meter) -> Counted {
    page_of_wide_partition(meter, "c >= ?")
}

fn page_reversed(meter: Meter) -> Counted {
    page_of_wide_partition(meter, "c <= ? ORDER BY c DESC")
}

/// A page of 100 rows from somewhere in a partition of 5,000 rows.
fn page_of_wide_partition(meter: Meter, restriction: &str) -> Counted {
    const ROWS: u64 = 5_000;
    let node = Node::new();
    wide_partition(&node, ROWS);
    let select = node.prepare(&format!("SELECT * FROM ks.wide WHERE k = ? AND {restriction}")).page_size(100);
    let read = |i: u64| {
        let from = 100 + super::data::scattered(i, ROWS - 200);
        assert_eq!(node.execute(&select, &[set("wide"), BoundValue::Set(&from.to_be_bytes())]), 100);
    };
    (0..meter.operations()).for_each(read);
    meter.each(read)
}

/// Writes a partition of rows of 100 bytes to an SSTable.
fn wide_partition(node: &Node, rows: u64) {
    node.run("CREATE TABLE ks.wide (k text, c bigint, v text, PRIMARY KEY (k, c))");
    let insert = node.prepare("INSERT INTO ks.wide (k, c, v) VALUES (?, ?, ?)");
    for c in 0..rows {
        let value = text_of(c, 100);
        node.execute(&insert, &[set("wide"), BoundValue::Set(&c.to_be_bytes()), set(&value)]);
    }
    node.flush("wide");
}
