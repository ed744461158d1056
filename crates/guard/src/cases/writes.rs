//! Statements that write: bound, and executed up to the acknowledgement.

use cassette_database::BoundValue;

use super::data::{FIELDS, Record, key, records, scattered, set, text_of};
use super::node::{Node, Statement};
use super::{Case, case};
use crate::meter::{Counted, Meter};

pub const CASES: &[Case] = &[
    case("insert", 4_000, insert),
    case("update_field", 4_000, update_field),
    case("delete_row", 4_000, delete_row),
    case("insert_if_not_exists", 2_000, insert_if_not_exists),
    case("update_counter", 4_000, update_counter),
    case("batch_of_10", 400, batch_of_10),
    case("insert_indexed", 2_000, insert_indexed),
    case("overwrite_indexed", 2_000, overwrite_indexed),
];

/// Rows that exist before rows are changed.
const LOADED: u64 = 1_000;
/// Operations before the counted ones, which allocate what later ones reuse.
const WARM_UP: u64 = 100;

/// A row of 1 KB.
fn insert(meter: Meter) -> Counted {
    let node = Node::new();
    node.create_usertable("");
    node.load(WARM_UP);
    let insert = node.insert_record();
    let records = records(WARM_UP, meter.operations());
    meter.each(|i| _ = node.execute(&insert, &records[i as usize].values()))
}

/// One of ten fields, in a row of the memtable.
fn update_field(meter: Meter) -> Counted {
    let node = Node::new();
    node.create_usertable("");
    let records = node.load(LOADED);
    let update = node.prepare("UPDATE ks.usertable SET field3 = ? WHERE y_id = ?");
    let value = text_of(1, 100);
    meter.each(|i| {
        let record = &records[scattered(i, LOADED) as usize];
        node.execute(&update, &[set(&value), set(&record.key)]);
    })
}

fn delete_row(meter: Meter) -> Counted {
    let node = Node::new();
    node.create_usertable("");
    node.load(WARM_UP);
    let delete = node.prepare("DELETE FROM ks.usertable WHERE y_id = ?");
    let keys: Vec<String> = (0..meter.operations()).map(|i| key(WARM_UP + i)).collect();
    meter.each(|i| _ = node.execute(&delete, &[set(&keys[i as usize])]))
}

/// The condition holds: no row has the key.
fn insert_if_not_exists(meter: Meter) -> Counted {
    let node = Node::new();
    node.create_usertable("");
    node.load(WARM_UP);
    let insert = node.prepare("INSERT INTO ks.usertable (y_id, field0) VALUES (?, ?) IF NOT EXISTS");
    let records = records(WARM_UP, meter.operations() + WARM_UP);
    let write = |i: u64| {
        let record = &records[i as usize];
        assert_eq!(node.execute(&insert, &[set(&record.key), set(&record.fields[0])]), 1);
    };
    (meter.operations()..meter.operations() + WARM_UP).for_each(write);
    meter.each(write)
}

/// Counts that are in the counter cache.
fn update_counter(meter: Meter) -> Counted {
    let node = Node::new();
    node.run("CREATE TABLE ks.counts (k text PRIMARY KEY, n counter)");
    let update = node.prepare("UPDATE ks.counts SET n = n + ? WHERE k = ?");
    let keys: Vec<String> = (0..WARM_UP).map(key).collect();
    let one = 1i64.to_be_bytes();
    let write = |i: u64| {
        let key = &keys[scattered(i, WARM_UP) as usize];
        node.execute(&update, &[BoundValue::Set(&one), set(key)]);
    };
    (0..4 * WARM_UP).for_each(write);
    meter.each(write)
}

/// Ten partitions.
fn batch_of_10(meter: Meter) -> Counted {
    let node = Node::new();
    node.create_usertable("");
    node.load(WARM_UP);
    let insert = node.insert_record();
    let records = records(WARM_UP, 10 * meter.operations());
    let values: Vec<[BoundValue<'_>; FIELDS + 1]> = records.iter().map(|record| record.values()).collect();
    let batches: Vec<_> = values.chunks(10).collect();
    meter.each(|i| node.batch(&insert, batches[i as usize].iter().map(|values| &values[..])))
}

/// A row with one entry of an index.
fn insert_indexed(meter: Meter) -> Counted {
    let node = Node::new();
    let insert = insert_user(&node);
    let records = records(0, meter.operations() + WARM_UP);
    let write = |i: u64| {
        let record = &records[i as usize];
        node.execute(&insert, &[set(&record.key), set(&record.key), set(&record.fields[0])]);
    };
    (meter.operations()..meter.operations() + WARM_UP).for_each(write);
    meter.each(write)
}

/// All values of a row in the memtable, whose entry of an index is deleted, too.
fn overwrite_indexed(meter: Meter) -> Counted {
    let node = Node::new();
    let insert = insert_user(&node);
    let records = records(0, meter.operations() + WARM_UP);
    let write = |record: &Record, value: &str| {
        node.execute(&insert, &[set(&record.key), set(value), set(value)]);
    };
    records.iter().for_each(|record| write(record, &record.key));
    let overwrite = |i: u64| {
        let record = &records[i as usize];
        write(record, &record.fields[0]);
    };
    (meter.operations()..meter.operations() + WARM_UP).for_each(overwrite);
    meter.each(overwrite)
}

/// Creates a table with an index, and returns an INSERT of a key and two values.
fn insert_user(node: &Node) -> Statement {
    node.run("CREATE TABLE ks.users (id text PRIMARY KEY, email text, name text)");
    node.run("CREATE INDEX ON ks.users (email)");
    node.prepare("INSERT INTO ks.users (id, email, name) VALUES (?, ?, ?)")
}
