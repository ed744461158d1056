//! Reads of one row, bound and executed up to the response's buffer.

use super::data::{key, scattered, set, text_of};
use super::node::Node;
use super::{Case, case};
use crate::meter::{Counted, Meter};

pub const CASES: &[Case] = &[
    case("read_memtable", 4_000, read_memtable),
    case("read_row_cache", 4_000, read_row_cache),
    case("read_chunk_cached", 4_000, read_chunk_cached),
    case("read_chunk_missed", 1_000, read_chunk_missed),
    case("read_absent", 4_000, read_absent),
    case("read_merged", 2_000, read_merged),
    case("read_by_index", 2_000, read_by_index),
    case("read_by_attached_index", 2_000, read_by_attached_index),
];

const ROWS: u64 = 2_000;

/// Counts reads of the rows of [`Node::load`], after each was read once.
fn read(node: &Node, meter: Meter) -> Counted {
    let select = node.prepare("SELECT * FROM ks.usertable WHERE y_id = ?");
    let keys: Vec<String> = (0..ROWS).map(key).collect();
    for key in &keys {
        assert_eq!(node.execute(&select, &[set(key)]), 1);
    }
    meter.each(|i| {
        let key = &keys[scattered(i, ROWS) as usize];
        assert_eq!(node.execute(&select, &[set(key)]), 1);
    })
}

fn read_memtable(meter: Meter) -> Counted {
    let node = Node::new();
    node.create_usertable("");
    node.load(ROWS);
    read(&node, meter)
}

fn read_row_cache(meter: Meter) -> Counted {
    let node = Node::with(|options| options.engine.row_cache_size = 64 << 20);
    node.create_usertable("WITH caching = {'keys': 'ALL', 'rows_per_partition': 'ALL'}");
    node.load(ROWS);
    node.flush("usertable");
    read(&node, meter)
}

/// From an SSTable: the position is in the key cache, the chunk in the chunk cache.
fn read_chunk_cached(meter: Meter) -> Counted {
    let node = Node::new();
    node.create_usertable("");
    node.load(ROWS);
    node.flush("usertable");
    read(&node, meter)
}

/// The position is in the key cache, and the chunk in the file only.
fn read_chunk_missed(meter: Meter) -> Counted {
    let node = Node::with(|options| options.engine.file_cache_size = 0);
    node.create_usertable("");
    node.load(ROWS);
    node.flush("usertable");
    read(&node, meter)
}

/// The Bloom filter excludes the SSTable for almost all of these keys.
fn read_absent(meter: Meter) -> Counted {
    let node = Node::new();
    node.create_usertable("");
    node.load(ROWS);
    node.flush("usertable");
    let select = node.prepare("SELECT * FROM ks.usertable WHERE y_id = ?");
    let keys: Vec<String> = (0..meter.operations()).map(|i| key(ROWS + i)).collect();
    meter.each(|i| assert_eq!(node.execute(&select, &[set(&keys[i as usize])]), 0))
}

/// Rows whose fields are in four SSTables and in the memtable.
fn read_merged(meter: Meter) -> Counted {
    let node = Node::new();
    node.create_usertable("");
    spread(&node, ROWS, 4);
    read(&node, meter)
}

/// Writes rows to an SSTable, one of their fields to each further one, and one to the memtable.
pub fn spread(node: &Node, rows: u64, sstables: usize) {
    let records = node.load(rows);
    for version in 1..=sstables {
        node.flush("usertable");
        let update = node.prepare(&format!("UPDATE ks.usertable SET field{version} = ? WHERE y_id = ?"));
        let value = text_of(version as u64, 100);
        for record in &records {
            node.execute(&update, &[set(&value), set(&record.key)]);
        }
    }
    assert_eq!(node.sstables("usertable"), sstables);
}

fn read_by_index(meter: Meter) -> Counted {
    by_index(meter, "")
}

fn read_by_attached_index(meter: Meter) -> Counted {
    by_index(meter, "USING 'sai'")
}

/// One row, found by an index; rows and entries are in SSTables.
fn by_index(meter: Meter, using: &str) -> Counted {
    let node = Node::new();
    node.run("CREATE TABLE ks.users (id text PRIMARY KEY, email text, name text)");
    node.run(&format!("CREATE INDEX ON ks.users (email) {using}"));
    let insert = node.prepare("INSERT INTO ks.users (id, email, name) VALUES (?, ?, ?)");
    let emails: Vec<String> = (0..ROWS).map(|i| format!("{}@example.com", key(i))).collect();
    for (i, email) in (0..).zip(&emails) {
        node.execute(&insert, &[set(&key(i)), set(email), set(&text_of(i, 100))]);
    }
    node.database().engine().flush(None).expect("a flush");
    let select = node.prepare("SELECT * FROM ks.users WHERE email = ?");
    for email in &emails {
        assert_eq!(node.execute(&select, &[set(email)]), 1);
    }
    meter.each(|i| {
        let email = &emails[scattered(i, ROWS) as usize];
        assert_eq!(node.execute(&select, &[set(email)]), 1);
    })
}
