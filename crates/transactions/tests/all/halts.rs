//! A store that lost writes: servers that notice halt the timestamps until an operator clears them.

use std::sync::Arc;

use bytes::Bytes;
use cassette_transactions::store::{Cell, CheckOutcome, MemoryStore, Store};
use cassette_transactions::timelock::{
    LocalTimeLock, TimeLock, TimeLockError, Timestamps, clear_halt, stored_bound,
};
use cassette_transactions::{Timestamp, Transactions};

use super::timelock::{Served, connect, runtime};
use super::transactions::options;

fn stored(store: &dyn Store) -> Bytes {
    let name = Bytes::from_static(b"ts");
    store.get_serial("_timestamp", &name, std::slice::from_ref(&name)).unwrap().pop().flatten().unwrap()
}

/// Restores an older record, as nodes do that lose acknowledged writes.
fn regress(store: &dyn Store, to: &Bytes) {
    let cell = Cell::new("ts", "ts");
    let mut now = stored(store);
    while let CheckOutcome::Actual(found) = store.check_and_set("_timestamp", &cell, &now, to).unwrap() {
        now = found.unwrap();
    }
}

#[test]
fn a_regressed_bound_stops_every_server_until_an_operator_clears_it() {
    let (runtime, store) = (runtime(), Arc::new(MemoryStore::new()));
    let leader = Served::start(&runtime, store.clone());
    let client = connect(&[&leader]);
    client.timestamp().unwrap();
    let old = stored(&*store);
    let standby = Served::start(&runtime, store.clone());
    client.fast_forward(Timestamp(50_000_000)).unwrap();
    let last = client.timestamp().unwrap();
    let known = stored_bound(&*store).unwrap().unwrap();
    regress(&*store, &old);
    for served in [leader, standby] {
        let ended = runtime.block_on(served.ended()).unwrap_err().to_string();
        assert!(ended.contains("are halted") && ended.contains("cassette timelock clear"), "{ended}");
    }
    drop(client);
    // A server that starts later has no memory of it.
    let restarted = Served::start(&runtime, store.clone());
    let ended = runtime.block_on(restarted.ended()).unwrap_err().to_string();
    assert!(ended.contains("are halted"), "{ended}");
    for error in [
        Timestamps::open(store.clone()).map(drop).unwrap_err(),
        LocalTimeLock::open(store.clone()).map(drop).unwrap_err(),
    ] {
        assert!(matches!(error, TimeLockError::Halted { bound, .. } if bound >= known), "{error}");
    }

    assert!(matches!(clear_halt(store.clone(), Some(Timestamp::MAX)), Err(TimeLockError::OutOfRange { .. })));
    let cleared = clear_halt(store.clone(), Some(Timestamp(5))).unwrap();
    assert!(cleared.reason.contains("an older copy"), "{}", cleared.reason);
    assert!(cleared.bound >= known, "all that was issued lies below");
    assert_eq!(clear_halt(store.clone(), None), Err(TimeLockError::NotHalted));
    let served = Served::start(&runtime, store.clone());
    let client = Arc::new(connect(&[&served]));
    assert!(client.timestamp().unwrap() > last);
    let transactions = Transactions::open(store, client, options()).unwrap();
    assert!(transactions.start().unwrap().start_timestamp() > cleared.bound);
    drop(transactions);
    served.stop(&runtime);
}

#[test]
fn cleared_timestamps_continue_above_the_specified_one() {
    let (runtime, store) = (runtime(), Arc::new(MemoryStore::new()));
    let served = Served::start(&runtime, store.clone());
    drop(connect(&[&served]));
    let old = stored(&*store);
    connect(&[&served]).fast_forward(Timestamp(9_000_000)).unwrap();
    regress(&*store, &old);
    runtime.block_on(served.ended()).unwrap_err();
    let above = Timestamp(80_000_000);
    assert_eq!(clear_halt(store.clone(), Some(above)).unwrap().bound, above);
    let served = Served::start(&runtime, store);
    assert!(connect(&[&served]).timestamp().unwrap() > above);
    served.stop(&runtime);
}
