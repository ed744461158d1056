//! Transactions on the embedded store.

use cassette_transactions::{ConflictHandler, Options, Table, Transactions};

use super::data::scattered;
use super::node::Node;
use super::{Case, case};
use crate::meter::{Counted, Meter};

pub const CASES: &[Case] =
    &[case("commit_transaction", 1_000, commit), case("read_in_transaction", 2_000, read)];

/// Rows that exist before.
const ROWS: u64 = 1_000;
const VALUE: [u8; 20] = *b"a value of 20 bytes!";

/// A store with a cell in each of [`ROWS`] rows.
fn store(node: &Node) -> (Transactions, Table) {
    let options = Options::new().without_sweeping();
    let transactions = options.embedded(node.database().clone(), "store").expect("a store");
    let table = transactions.table("t", ConflictHandler::WriteWriteByCell).expect("a table");
    for row in 0..ROWS {
        put(&transactions, &table, row);
    }
    (transactions, table)
}

fn put(transactions: &Transactions, table: &Table, row: u64) {
    transactions.run(|tx| tx.put(table, row.to_be_bytes(), "c", VALUE)).expect("a commit");
}

/// A transaction that writes one cell over an earlier version.
fn commit(meter: Meter) -> Counted {
    let node = Node::new();
    let (transactions, table) = store(&node);
    meter.each(|i| put(&transactions, &table, scattered(i, ROWS)))
}

/// A read of one cell in a transaction that is open.
fn read(meter: Meter) -> Counted {
    let node = Node::new();
    let (transactions, table) = store(&node);
    let open = transactions.start_read_only().expect("a transaction");
    let read = |i: u64| {
        let row = scattered(i, ROWS).to_be_bytes();
        assert!(open.get(&table, row, "c").expect("a read").is_some());
    };
    (0..meter.operations()).for_each(read);
    meter.each(read)
}
