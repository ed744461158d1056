//! Sweeping removes old versions without a visible effect on readers.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cassette_transactions::encoding::sweep::{Entry, WriteKind, decode_entry, shard_of};
use cassette_transactions::store::{
    Cell, ColumnRange, EmbeddedStore, FailingStore, Fault, MemoryStore, Store, Version,
};
use cassette_transactions::sweep::SweepStrategy;
use cassette_transactions::timelock::{LocalTimeLock, TimeLock};
use cassette_transactions::{ConflictHandler, Error, Options, Table, Timestamp, Transactions};

use super::conformance::database;
use super::transactions::{options, over};

const HANDLER: ConflictHandler = ConflictHandler::WriteWriteByCell;

struct Client {
    store: Arc<dyn Store>,
    timelock: Arc<LocalTimeLock<Arc<dyn Store>>>,
    transactions: Transactions,
    table: Table,
}

fn client(store: Arc<dyn Store>, strategy: SweepStrategy) -> Client {
    let timelock = Arc::new(LocalTimeLock::open(store.clone()).unwrap());
    let transactions = Transactions::open(store.clone(), timelock.clone(), options()).unwrap();
    let table = transactions.table_swept("t", HANDLER, strategy).unwrap();
    Client { store, timelock, transactions, table }
}

fn in_memory(strategy: SweepStrategy) -> Client {
    client(Arc::new(MemoryStore::new()), strategy)
}

impl Client {
    fn set(&self, row: &str, value: &str) {
        self.transactions.run(|tx| tx.put(&self.table, row, "c", value)).unwrap();
    }

    fn delete(&self, row: &str) {
        self.transactions.run(|tx| tx.delete(&self.table, row, "c")).unwrap();
    }

    fn get(&self, row: &str) -> Option<Bytes> {
        self.transactions.read(|tx| tx.get(&self.table, row, "c")).unwrap()
    }

    /// Returns all versions of a cell, newest first.
    fn versions(&self, row: &str) -> Vec<Version> {
        let cell = Cell::new(Bytes::copy_from_slice(row.as_bytes()), "c");
        let mut versions: Vec<Version> = Vec::new();
        let mut below = Timestamp::MAX;
        while let Some(version) = self.store.get("t", &[(&cell, below)]).unwrap().pop().flatten() {
            below = version.timestamp;
            versions.push(version);
            if below == Timestamp::SENTINEL {
                break;
            }
        }
        versions
    }

    fn values(&self, row: &str) -> Vec<Bytes> {
        self.versions(row).into_iter().map(|version| version.value).collect()
    }
}

#[test]
fn a_failed_put_of_the_queue_does_not_hide_later_entries_from_sweepers() {
    for call in 1..20 {
        let failing = Arc::new(FailingStore::new(MemoryStore::new()));
        let client = client(failing.clone(), SweepStrategy::Conservative);
        let mut tx = client.transactions.start().unwrap();
        tx.put(&client.table, "row", "c", "failed").unwrap();
        failing.fail_at(call, Fault::Lost);
        let failed = tx.commit().is_err();
        failing.settle();
        client.set("row", "old");
        client.set("row", "new");
        client.transactions.sweep().unwrap();
        let sentinel = Bytes::new();
        assert_eq!(client.values("row"), [Bytes::from("new"), sentinel], "call {call} failed: {failed}");
    }
}

fn both() -> [Client; 4] {
    let embedded = || Arc::new(EmbeddedStore::open(database(), "swept").unwrap());
    [
        in_memory(SweepStrategy::Conservative),
        in_memory(SweepStrategy::Thorough),
        client(embedded(), SweepStrategy::Conservative),
        client(embedded(), SweepStrategy::Thorough),
    ]
}

#[test]
fn sweeping_keeps_the_newest_version_of_an_overwritten_cell() {
    for c in both() {
        (0..5).for_each(|n| c.set("r", &format!("v{n}")));
        c.set("other", "once");
        assert_eq!(c.versions("r").len(), 5);
        let swept = c.transactions.sweep().unwrap();
        assert!(swept.is_done && swept.entries == 6 && swept.cells == 1, "{swept:?}");
        let expected: &[&str] = match c.table.sweep() {
            SweepStrategy::Thorough => &["v4"],
            _ => &["v4", ""],
        };
        assert_eq!(c.values("r"), expected);
        assert_eq!(c.values("other"), ["once"], "there was nothing to hide, so there is no sentinel");
        assert_eq!(c.get("r").as_deref(), Some(&b"v4"[..]));
        assert_eq!(c.transactions.sweep().unwrap().entries, 0);
    }
}

#[test]
fn a_deletion_is_removed_thoroughly_or_kept_with_a_sentinel() {
    for c in both() {
        c.set("r", "v");
        c.delete("r");
        c.delete("never");
        c.transactions.sweep().unwrap();
        match c.table.sweep() {
            SweepStrategy::Thorough => assert_eq!((c.values("r").len(), c.values("never").len()), (0, 0)),
            _ => {
                assert_eq!(c.values("r"), ["", ""]);
                assert_eq!(c.values("never"), [""]);
            }
        }
        assert_eq!((c.get("r"), c.get("never")), (None, None));
        c.set("r", "again");
        assert_eq!(c.get("r").as_deref(), Some(&b"again"[..]));
    }
}

#[test]
fn the_queue_records_first_writes_of_cells() {
    for c in both() {
        c.set("r", "v0");
        c.set("r", "v1");
        c.delete("never");
        let mut kinds = Vec::new();
        for row in c.store.rows("_sweep_queue", None, 100).unwrap() {
            let range = ColumnRange { row, start: Bytes::new(), end: None, limit: 100, is_reversed: false };
            let entries = c.store.columns("_sweep_queue", &[range], Timestamp::MAX).unwrap().remove(0);
            for (_, version) in entries {
                let Entry::Inline(writes) = decode_entry(&version.value).unwrap() else {
                    panic!("few writes")
                };
                kinds.extend(writes.into_iter().map(|write| (write.cell.row, write.kind)));
            }
        }
        kinds.sort_by(|a, b| a.0.cmp(&b.0));
        let kind = |is_delete, is_first| WriteKind { is_delete, is_first };
        let expected = [("never", kind(true, true)), ("r", kind(false, true)), ("r", kind(false, false))];
        assert_eq!(kinds, expected.map(|(row, kind)| (Bytes::from_static(row.as_bytes()), kind)));
    }
}

#[test]
fn tables_that_are_not_swept_keep_every_version() {
    let c = in_memory(SweepStrategy::Nothing);
    (0..3).for_each(|n| c.set("r", &format!("v{n}")));
    assert_eq!(c.transactions.sweep().unwrap().entries, 0);
    assert_eq!(c.values("r"), ["v2", "v1", "v0"]);
}

#[test]
fn sweeping_preserves_what_open_transactions_see() {
    for c in both() {
        c.set("r", "old");
        let open = c.transactions.start_read_only().unwrap();
        c.set("r", "new");
        c.delete("r");
        c.transactions.sweep().unwrap();
        assert_eq!(open.get(&c.table, "r", "c").unwrap().as_deref(), Some(&b"old"[..]));
        assert_eq!(c.values("r"), ["", "new", "old"]);
        let progress = c.transactions.sweeper().progress().unwrap();
        assert_eq!(progress.iter().filter(|shard| shard.unswept.is_some()).count(), 0, "below the hold");
        drop(open);
        let progress = c.transactions.sweeper().progress().unwrap();
        assert_eq!(progress.iter().filter(|shard| shard.unswept.is_some()).count(), 1);
        c.transactions.sweep().unwrap();
        assert!(c.versions("r").len() <= 2);
        assert_eq!(c.get("r"), None);
    }
}

#[test]
fn sweeping_removes_versions_of_aborted_and_dead_writers() {
    for c in both() {
        c.set("r", "good");
        let mut tx = c.transactions.start().unwrap();
        tx.put(&c.table, "r", "c", "bad").unwrap();
        tx.commit_if(|_| Err(Error::caller("no"))).unwrap_err();
        let failing = Arc::new(FailingStore::new(c.store.clone()));
        let options = options();
        let dying = Transactions::open(failing.clone(), c.timelock.clone(), options).unwrap();
        let table = dying.table_swept("t", HANDLER, c.table.sweep()).unwrap();
        let mut tx = dying.start().unwrap();
        tx.put(&table, "r", "c", "worse").unwrap();
        // Its versions are stored, and nothing that follows them.
        let dies = |_| {
            failing.die_at(1, Fault::Lost);
            Ok(())
        };
        tx.commit_if(dies).unwrap_err();
        assert_eq!(c.values("r"), ["worse", "good"], "the check of writes removed the aborted one");
        let swept = c.transactions.sweep().unwrap();
        assert_eq!((swept.aborted, swept.cells), (2, 0));
        assert_eq!(c.values("r"), ["good"]);
    }
}

#[test]
fn a_reader_without_a_valid_hold_fails() {
    for c in both() {
        c.set("r", "old");
        let lost = c.transactions.start_read_only().unwrap();
        c.timelock.revoke_all();
        c.set("r", "new");
        c.transactions.sweep().unwrap();
        let error = lost.get(&c.table, "r", "c").unwrap_err();
        match c.table.sweep() {
            SweepStrategy::Thorough => assert!(matches!(error, Error::LocksLost { .. }), "{error}"),
            _ => assert!(matches!(error, Error::SnapshotTooOld { .. }), "{error}"),
        }
        assert!(error.is_retriable());
        let thorough = c.table.sweep() == SweepStrategy::Thorough;
        assert_eq!(lost.columns::<&str>(&c.table, "s", .., 10).is_err(), thorough);
        assert!(lost.rows(&c.table, None, 10).is_err());
    }
}

#[test]
fn transactions_with_many_writes_are_swept_completely() {
    for c in both() {
        for round in 0..2 {
            let put_all = |tx: &mut cassette_transactions::Transaction| {
                (0..3_000).try_for_each(|n| tx.put(&c.table, format!("r{n}"), "c", format!("v{round}")))
            };
            c.transactions.run(put_all).unwrap();
        }
        let swept = c.transactions.sweep().unwrap();
        assert_eq!((swept.cells, swept.entries), (3_000, 32));
        let rows = c.transactions.read(|tx| tx.rows(&c.table, None, 5_000)).unwrap();
        assert!(rows.len() == 3_000 && rows.iter().all(|row| row.columns[0].1 == "v1"));
        assert_eq!(c.versions("r7")[0].value, "v1");
        assert_eq!(c.store.rows("_sweep_queue", None, 1_000).unwrap().len(), 16, "only rows of entries");
    }
}

#[test]
fn completed_queue_partitions_are_removed() {
    let c = in_memory(SweepStrategy::Conservative);
    for _ in 0..3 {
        (0..40).for_each(|n| c.set(&format!("r{n}"), "v"));
        let now = c.timelock.timestamp().unwrap();
        c.timelock.fast_forward(Timestamp(now.0 + 12_000_000)).unwrap();
    }
    c.transactions.sweep().unwrap();
    for table in ["_sweep_queue", "_sweep_index"] {
        assert_eq!(c.store.rows(table, None, 1_000).unwrap(), Vec::<Bytes>::new(), "{table}");
    }
    assert!(c.versions("r7").len() == 2);
    // Far ahead, as after a restore, with a gap in between.
    let now = c.timelock.timestamp().unwrap();
    c.timelock.fast_forward(Timestamp(now.0 + 50_000_000_000)).unwrap();
    c.set("r7", "far");
    assert!(c.transactions.sweep().unwrap().is_done);
    assert_eq!(c.values("r7"), ["far", ""]);
}

#[test]
fn the_next_sweep_completes_one_that_died_at_any_call() {
    for strategy in [SweepStrategy::Conservative, SweepStrategy::Thorough] {
        // More writes in one shard than an entry holds.
        let in_shard = |n: &u32| shard_of("t", &Cell::new("large", n.to_string())) == 3;
        let large: Vec<u32> = (0..).filter(in_shard).take(60).collect();
        for fault in [Fault::Lost, Fault::Half, Fault::Unanswered] {
            for n in 1.. {
                let c = in_memory(strategy);
                for round in 0..3 {
                    (0..6).for_each(|row| c.set(&format!("r{row}"), &format!("v{round}")));
                }
                (0..2).for_each(|row| c.delete(&format!("r{row}")));
                let put_large = |tx: &mut cassette_transactions::Transaction| {
                    large.iter().try_for_each(|n| tx.put(&c.table, "large", n.to_string(), "v"))
                };
                (0..2).for_each(|_| c.transactions.run(put_large).unwrap());
                let now = c.timelock.timestamp().unwrap();
                c.timelock.fast_forward(Timestamp(now.0 + 10_000_000)).unwrap();
                let mut open = c.transactions.start_read_only().unwrap();
                let failing = Arc::new(FailingStore::new(c.store.clone()));
                let dying = Transactions::open(failing.clone(), c.timelock.clone(), options()).unwrap();
                failing.die_at(n, fault);
                let died = dying.sweep().is_err();
                let check = |tx: &mut cassette_transactions::Transaction| {
                    for row in 0..6 {
                        let expected = (row >= 2).then_some(&b"v2"[..]);
                        let found = tx.get(&c.table, format!("r{row}"), "c").unwrap();
                        assert_eq!(found.as_deref(), expected, "{row} after call {n}");
                    }
                    assert_eq!(tx.columns::<&str>(&c.table, "large", .., 2_000).unwrap().len(), 60);
                };
                check(&mut open);
                drop(open);
                c.transactions.sweep().unwrap();
                check(&mut c.transactions.start_read_only().unwrap());
                assert_eq!(c.store.rows("_sweep_queue", None, 1_000).unwrap(), Vec::<Bytes>::new());
                let older = ColumnRange {
                    row: Bytes::from_static(b"large"),
                    start: Bytes::new(),
                    end: None,
                    limit: 2_000,
                    is_reversed: false,
                };
                let newest =
                    c.store.columns("t", std::slice::from_ref(&older), Timestamp::MAX).unwrap().remove(0);
                let first = newest[0].1.timestamp;
                let older = c.store.columns("t", &[older], first).unwrap().remove(0);
                assert!(older.iter().all(|(_, version)| version.timestamp == Timestamp::SENTINEL));
                if !died {
                    assert!(n > 20, "{n} calls were failed");
                    break;
                }
            }
        }
    }
}

#[test]
fn writes_are_swept_in_the_background() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let options = Options::new().sweep_every(Duration::from_millis(1));
    let transactions = over(store.clone(), options);
    let table = transactions.table("t", HANDLER).unwrap();
    for n in 0..20 {
        transactions.run(|tx| tx.put(&table, "r", "c", n.to_string())).unwrap();
    }
    let cell = Cell::new("r", "c");
    let second = || {
        let newest = store.get("t", &[(&cell, Timestamp::MAX)]).unwrap().remove(0).unwrap();
        store.get("t", &[(&cell, newest.timestamp)]).unwrap().remove(0).map(|version| version.timestamp)
    };
    while second() != Some(Timestamp::SENTINEL) {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(transactions.read(|tx| tx.get(&table, "r", "c")).unwrap().as_deref(), Some(&b"19"[..]));
    // Ends with the last clone and releases the store.
    drop((transactions.clone(), transactions));
    assert_eq!(Arc::strong_count(&store), 1);
}

#[test]
fn sweeping_continues_after_a_panic() {
    let store = Arc::new(FailingStore::new(MemoryStore::new()));
    let transactions = over(store.clone(), Options::new().sweep_every(Duration::from_millis(1)));
    let table = transactions.table("t", HANDLER).unwrap();
    // Meanwhile only the sweeper uses the store.
    let before = store.calls();
    store.panic_at(1);
    while store.calls() <= before {
        std::thread::sleep(Duration::from_millis(1));
    }
    for n in 0..3 {
        transactions.run(|tx| tx.put(&table, "r", "c", n.to_string())).unwrap();
    }
    while transactions.sweeper().progress().unwrap().iter().any(|shard| shard.unswept.is_some()) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn stores_sweep_by_default_until_sweeping_is_stopped() {
    let default = Transactions::embedded(database(), "swept").unwrap();
    let hasty = Options::new().sweep_every(Duration::from_millis(1)).embedded(database(), "swept").unwrap();
    for transactions in [default, hasty] {
        let table = transactions.table("t", HANDLER).unwrap();
        let write = || {
            for n in 0..3 {
                transactions.run(|tx| tx.put(&table, "r", "c", n.to_string())).unwrap();
            }
        };
        let progress = || transactions.sweeper().progress().unwrap();
        let unswept = || progress().iter().any(|shard| shard.unswept.is_some());
        write();
        while unswept() {
            std::thread::sleep(Duration::from_millis(1));
        }
        // A clone stops it for all; nothing is swept after that.
        transactions.clone().stop_sweeping();
        transactions.stop_sweeping();
        write();
        std::thread::sleep(Duration::from_millis(5));
        assert!(unswept());
        let swept: Vec<Timestamp> = progress().iter().map(|shard| shard.swept).collect();
        assert!(transactions.sweep().unwrap().entries >= 3, "on request it is swept nevertheless");
        assert!(!unswept() && progress().iter().zip(swept).any(|(shard, before)| shard.swept > before));
    }
}

#[test]
fn sweeping_neither_recreates_nor_waits_for_a_dropped_table() {
    for strategy in [SweepStrategy::Conservative, SweepStrategy::Thorough] {
        let database = database();
        let embedded = || Arc::new(EmbeddedStore::open(database.clone(), "swept").unwrap());
        let c = client(embedded(), strategy);
        let other = c.transactions.table_swept("other", HANDLER, strategy).unwrap();
        let mut tx = c.transactions.start().unwrap();
        tx.put(&c.table, "r", "c", "left by one that aborted").unwrap();
        tx.commit_if(|_| Err(Error::caller("no"))).unwrap_err();
        for value in ["old", "new"] {
            c.set("r", value);
            c.transactions.run(|tx| tx.put(&other, "r", "c", value)).unwrap();
        }
        database.session().execute("DROP TABLE swept.t", ()).unwrap();
        let other_client = Transactions::open(embedded(), c.timelock.clone(), options()).unwrap();
        // By a process that had it open, and by one that never had.
        for transactions in [&c.transactions, &other_client] {
            assert!(transactions.sweep().unwrap().is_done);
            assert!(!c.store.tables().unwrap().iter().any(|table| table == "t"));
        }
        let cell = Cell::new("r", "c");
        let newest = c.store.get("other", &[(&cell, Timestamp::MAX)]).unwrap().remove(0).unwrap();
        let older = c.store.get("other", &[(&cell, newest.timestamp)]).unwrap().remove(0);
        assert!(older.is_none_or(|older| older.timestamp == Timestamp::SENTINEL), "the others are swept");
    }
}

#[test]
fn a_table_keeps_its_strategy() {
    let c = in_memory(SweepStrategy::Thorough);
    for transactions in [&c.transactions, &over(c.store.clone(), options())] {
        let error = transactions.table("t", HANDLER).unwrap_err();
        assert!(matches!(error, Error::OtherSweep { .. }), "{error}");
        assert!(error.to_string().contains("expected conservative, found thorough"), "{error}");
        transactions.table_swept("t", HANDLER, SweepStrategy::Thorough).unwrap();
    }
}
