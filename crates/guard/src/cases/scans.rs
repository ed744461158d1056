//! Reads of many rows. Scans are counted per row, pages as a whole.

use cassette_database::BoundValue;

use super::data::{records, scattered, set, text_of};
use super::node::Node;
use super::reads::spread;
use super::{Case, case};
use crate::meter::{Counted, Meter};

pub const CASES: &[Case] = &[
    case("scan_sstable_row", 4_000, scan_sstable),
    case("scan_4_sstables_row", 2_000, scan_4_sstables),
    case("scan_memtable_and_sstable_row", 2_000, scan_memtable_and_sstable),
    case("count_row", 4_000, count),
    case("count_merged_row", 4_000, count_merged),
    case("count_wide_row", 20_000, count_wide),
    case("max_row", 4_000, max),
    case("sum_wide_row", 20_000, sum_wide),
    case("sum_by_partition_row", 20_000, sum_by_partition),
    case("filter_row", 4_000, filter),
    case("filter_wide_row", 20_000, filter_wide),
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

/// Every 40th row was written after the flush of the others.
fn count_merged(meter: Meter) -> Counted {
    let rows = meter.operations();
    let node = Node::new();
    node.create_usertable("");
    let insert = node.insert_record();
    let (later, earlier): (Vec<_>, Vec<_>) = (0..rows).partition(|row| row % 40 == 0);
    for part in [earlier, later] {
        node.flush("usertable");
        for row in part {
            node.execute(&insert, &records(row, 1)[0].values());
        }
    }
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

/// One of ten fields of partitions of one row.
fn max(meter: Meter) -> Counted {
    let node = loaded(meter.operations());
    let select = node.prepare("SELECT max(field3) FROM ks.usertable");
    assert_eq!(node.execute_all(&select, &[]), 1);
    meter.together(|| assert_eq!(node.execute_all(&select, &[]), 1))
}

/// One of five numbers of rows of one partition.
fn sum_wide(meter: Meter) -> Counted {
    let node = Node::new();
    partitions_of_numbers(&node, 1, meter.operations());
    let select = node.prepare("SELECT sum(n) FROM ks.numbers WHERE k = 0");
    assert_eq!(node.execute_all(&select, &[]), 1);
    meter.together(|| assert_eq!(node.execute_all(&select, &[]), 1))
}

/// Groups of 1,000 rows.
fn sum_by_partition(meter: Meter) -> Counted {
    let node = Node::new();
    let groups = meter.operations() / 1_000;
    partitions_of_numbers(&node, groups, 1_000);
    let select = node.prepare("SELECT k, sum(n), count(*) FROM ks.numbers GROUP BY k");
    assert_eq!(node.execute_all(&select, &[]), groups);
    meter.together(|| assert_eq!(node.execute_all(&select, &[]), groups))
}

/// No row of one partition matches.
fn filter_wide(meter: Meter) -> Counted {
    let node = Node::new();
    partitions_of_numbers(&node, 1, meter.operations());
    let select = node.prepare("SELECT * FROM ks.numbers WHERE k = 0 AND n < 0 ALLOW FILTERING");
    assert_eq!(node.execute_all(&select, &[]), 0);
    meter.together(|| assert_eq!(node.execute_all(&select, &[]), 0))
}

/// Writes partitions of rows of five numbers to an SSTable.
fn partitions_of_numbers(node: &Node, partitions: u64, rows: u64) {
    node.run(
        "CREATE TABLE ks.numbers (k int, c int, a int, b bigint, n bigint, x double, y double, \
         PRIMARY KEY (k, c))",
    );
    let insert = node.prepare("INSERT INTO ks.numbers (k, c, a, b, n, x, y) VALUES (?, ?, ?, ?, ?, ?, ?)");
    for (k, c) in (0..partitions as u32).flat_map(|k| (0..rows as u32).map(move |c| (k, c))) {
        let (k, c) = (k.to_be_bytes(), c.to_be_bytes());
        let n = (scattered(u64::from(u32::from_be_bytes(c)), rows) << 32).to_be_bytes();
        let values = [&k[..], &c, &c, &n, &n, &n, &n].map(BoundValue::Set);
        node.execute(&insert, &values);
    }
    node.flush("numbers");
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
        let from = 100 + scattered(i, ROWS - 200);
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
