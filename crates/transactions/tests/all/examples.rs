//! Runs the examples on every store.

use std::sync::Arc;

use cassette_transactions::store::{EmbeddedStore, MemoryStore, Store};
use cassette_transactions::{Result, Transactions};

use super::conformance::database;
use super::transactions::{options, over};

#[path = "../../examples/bank.rs"]
#[expect(dead_code, reason = "its main opens a database in a directory")]
mod bank;
#[path = "../../examples/index.rs"]
#[expect(dead_code, reason = "as above")]
mod index;
#[path = "../../examples/queue.rs"]
#[expect(dead_code, reason = "as above")]
mod queue;

fn on_every_store(example: fn(Transactions) -> Result<()>) {
    let stores: [Arc<dyn Store>; 2] =
        [Arc::new(MemoryStore::new()), Arc::new(EmbeddedStore::open(database(), "example").unwrap())];
    for store in stores {
        example(over(store, options())).unwrap();
    }
}

#[test]
fn the_bank_preserves_its_total() {
    on_every_store(bank::run);
}

#[test]
fn each_job_of_the_queue_is_processed_once() {
    on_every_store(queue::run);
}

#[test]
fn the_index_stays_consistent() {
    on_every_store(index::run);
}
