//! Contents of backups, and remains of failed restores.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cassette_transactions::backup::BackupError;
use cassette_transactions::store::{
    Cell, ColumnRange, EmbeddedStore, FailingStore, Fault, MemoryStore, Put, Store,
};
use cassette_transactions::timelock::LocalTimeLock;
use cassette_transactions::{Column, ConflictHandler, Error, Timestamp, Transactions};

use super::conformance::database;
use super::transactions::{in_memory, options, over};

const ACCOUNTS: i64 = 8;

fn accounts(transactions: &Transactions) -> Column<i64, i64> {
    transactions.table("accounts", ConflictHandler::WriteWriteByCell).unwrap().column("balance")
}

fn sum(transactions: &Transactions) -> i64 {
    let balance = accounts(transactions);
    transactions.read(|tx| (0..ACCOUNTS).map(|a| Ok(balance.get(tx, a)?.unwrap_or(0))).sum()).unwrap()
}

fn bank() -> Transactions {
    let transactions = in_memory();
    let balance = accounts(&transactions);
    transactions.run(|tx| (0..ACCOUNTS).try_for_each(|a| balance.put(tx, a, 100))).unwrap();
    transactions
}

fn backup(transactions: &Transactions) -> Vec<u8> {
    let mut bytes = Vec::new();
    transactions.backup(&mut bytes).unwrap();
    bytes
}

/// A backup that is read while all locks are revoked.
struct Revoking<'a> {
    bytes: &'a [u8],
    timelock: &'a LocalTimeLock<Arc<dyn Store>>,
}

impl std::io::Read for Revoking<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let before = self.bytes.len();
        let read = self.bytes.read(into)?;
        // Not before the restore has begun, which is after the header.
        if before > 2_000_000 && self.bytes.len() <= 2_000_000 {
            self.timelock.revoke_all();
        }
        Ok(read)
    }
}

#[test]
fn a_restore_renews_its_locks_and_fails_without_them() {
    let source = in_memory();
    let table = source.table("t", ConflictHandler::WriteWriteByRow).unwrap();
    let value = "v".repeat(500);
    source.run(|tx| (0..6_000).try_for_each(|n| tx.put(&table, "row", format!("{n}"), &value))).unwrap();
    let bytes = backup(&source);
    assert!(bytes.len() > 3_000_000, "{}", bytes.len());
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let timelock = Arc::new(LocalTimeLock::open(store.clone()).unwrap());
    let target = Transactions::open(store, timelock.clone(), options()).unwrap();
    let mut input = Revoking { bytes: &bytes, timelock: &timelock };
    let error = target.restore(&mut input).unwrap_err();
    assert!(matches!(error, BackupError::Transaction(Error::LocksLost { .. })), "{error}");
    assert!(input.bytes.len() > 500_000, "it did not read on to the end: {}", input.bytes.len());
    assert_eq!(target.restore(&*bytes).unwrap().cells, 6_000);
}

#[test]
fn a_file_with_two_backups_is_rejected_without_effect() {
    let bytes = backup(&bank());
    let target = in_memory();
    let error = target.restore(&*[&bytes[..], &bytes].concat()).unwrap_err();
    assert!(matches!(error, BackupError::Corrupt { .. }), "{error}");
    assert!(error.to_string().contains("one backup"), "{error}");
    assert_eq!(sum(&target), 0);
    target.restore(&*bytes).unwrap();
    assert_eq!(sum(&target), 100 * ACCOUNTS);
}

#[test]
fn a_backup_under_load_is_a_consistent_snapshot() {
    let embedded = Arc::new(EmbeddedStore::open(database(), "bank").unwrap());
    let transactions = over(embedded, options());
    let balance = accounts(&transactions);
    transactions.run(|tx| (0..ACCOUNTS).try_for_each(|a| balance.put(tx, a, 100))).unwrap();
    let done = AtomicBool::new(false);
    let backups: Vec<Vec<u8>> = std::thread::scope(|scope| {
        for thread in 0..2 {
            let (transactions, balance, done) = (&transactions, &balance, &done);
            scope.spawn(move || {
                for n in 0.. {
                    if done.load(Ordering::Relaxed) {
                        break;
                    }
                    let (from, to) = ((n + thread) % ACCOUNTS, (n * 3 + thread + 1) % ACCOUNTS);
                    if from == to {
                        continue;
                    }
                    let moved = transactions.run(|tx| {
                        let (a, b) = (balance.get(tx, from)?, balance.get(tx, to)?);
                        balance.put(tx, from, a.unwrap_or(0) - 1)?;
                        balance.put(tx, to, b.unwrap_or(0) + 1)
                    });
                    moved.unwrap();
                }
            });
        }
        let backups = (0..5).map(|_| backup(&transactions)).collect();
        done.store(true, Ordering::Relaxed);
        backups
    });
    let last = transactions.timelock().timestamp().unwrap();
    for bytes in backups {
        let restored = in_memory();
        let contents = restored.restore(&bytes[..]).unwrap();
        assert_eq!((contents.tables, contents.rows, contents.cells), (1, ACCOUNTS as u64, ACCOUNTS as u64));
        assert!(contents.timestamp < last.0);
        assert!(restored.timelock().timestamp().unwrap().0 > contents.timestamp);
        assert_eq!(sum(&restored), 100 * ACCOUNTS);
        // It is an ordinary store.
        let balance = accounts(&restored);
        restored.run(|tx| balance.put(tx, 0, 0)).unwrap();
    }
}

#[test]
fn uncommitted_transactions_are_not_in_a_backup() {
    let store = Arc::new(MemoryStore::new());
    let transactions = over(store.clone(), options());
    let table = transactions.table("t", ConflictHandler::WriteWriteByCell).unwrap();
    let value = table.column::<String, String>("c");
    transactions.run(|tx| value.put(tx, "kept", "old")).unwrap();
    transactions.run(|tx| value.put(tx, "gone", "deleted below")).unwrap();
    transactions.run(|tx| value.delete(tx, "gone")).unwrap();
    // A client that died between storing its versions and its commit record.
    let dead = transactions.start().unwrap().start_timestamp();
    let cell = Cell::new("kept", "c");
    let put = Put { table: "t", cell: &cell, timestamp: dead, value: "dead".into(), write_time: dead.0 };
    store.put(&[put]).unwrap();
    let mut open = transactions.start().unwrap();
    value.put(&mut open, "open", "not yet").unwrap();
    let bytes = backup(&transactions);
    open.commit().unwrap();
    let restored = in_memory();
    assert_eq!(restored.restore(&bytes[..]).unwrap().cells, 1);
    let table = restored.table("t", ConflictHandler::WriteWriteByCell).unwrap();
    let value = table.column::<String, String>("c");
    let get = |row: &str| restored.read(|tx| value.get(tx, row)).unwrap();
    assert_eq!(
        [get("kept").as_deref(), get("gone").as_deref(), get("open").as_deref()],
        [Some("old"), None, None]
    );
}

#[test]
fn restore_advances_timestamps_above_those_of_the_source() {
    let source = bank();
    source.timelock().fast_forward(Timestamp(70_000_000)).unwrap();
    let bytes = backup(&source);
    let restored = in_memory();
    restored.restore(&bytes[..]).unwrap();
    assert!(restored.timelock().timestamp().unwrap() > Timestamp(70_000_000));
}

#[test]
fn restore_rejects_a_store_that_is_not_empty() {
    let bytes = backup(&bank());
    let other = in_memory();
    let table = other.table("other", ConflictHandler::WriteWriteByCell).unwrap();
    other.run(|tx| tx.put(&table, "r", "c", "v")).unwrap();
    let error = other.restore(&bytes[..]).unwrap_err();
    assert!(matches!(&error, BackupError::NotEmpty { table } if table == "other"), "{error}");
}

#[test]
fn nothing_of_a_damaged_backup_is_visible() {
    let bytes = backup(&bank());
    for length in [0, 7, 8, 20, bytes.len() / 2, bytes.len() - 8, bytes.len() - 1] {
        let restored = in_memory();
        let error = restored.restore(&bytes[..length]).unwrap_err();
        assert!(matches!(error, BackupError::Corrupt { .. }), "{error}");
        assert_eq!(sum(&restored), 0, "after {length} bytes");
    }
    let error = in_memory().restore(&b"CASSTXB2 of tomorrow"[..]).unwrap_err();
    assert!(error.to_string().contains("newer"), "{error}");
}

fn versions(store: &dyn Store) -> usize {
    let rows = store.rows("accounts", None, 100).unwrap_or_default();
    let range = |row| ColumnRange { row, start: "".into(), end: None, limit: 100, is_reversed: false };
    let ranges: Vec<_> = rows.into_iter().map(range).collect();
    store.columns("accounts", &ranges, Timestamp::MAX).map_or(0, |found| found.concat().len())
}

fn stores() -> [Arc<dyn Store>; 2] {
    [Arc::new(MemoryStore::new()), Arc::new(EmbeddedStore::open(database(), "bank").unwrap())]
}

#[test]
fn a_failed_restore_undoes_its_writes() {
    let bytes = backup(&bank());
    for store in stores() {
        let failing = Arc::new(FailingStore::new(store.clone()));
        let restored = over(failing.clone(), options());
        let mut failed = 0;
        loop {
            failing.fail_at(failed + 1, Fault::Lost);
            if restored.restore(&bytes[..]).is_ok() {
                break;
            }
            failed += 1;
            assert_eq!(versions(&*store), 0, "after call {failed}");
        }
        failing.settle();
        assert!(failed > 5, "{failed} calls were failed");
        assert_eq!((sum(&restored), versions(&*store)), (100 * ACCOUNTS, ACCOUNTS as usize));
    }
}

#[test]
fn the_next_restore_removes_leftovers_of_a_dead_one() {
    let bytes = backup(&bank());
    for store in stores() {
        let failing = Arc::new(FailingStore::new(store.clone()));
        let dying = over(failing.clone(), options());
        // Until it dies with versions stored.
        for n in 1.. {
            failing.die_at(n, Fault::Lost);
            dying.restore(&bytes[..]).unwrap_err();
            failing.settle();
            if versions(&*store) > 0 {
                break;
            }
        }
        let restored = over(store.clone(), options());
        assert_eq!(sum(&restored), 0);
        assert_eq!(restored.restore(&bytes[..]).unwrap().cells, ACCOUNTS as u64);
        assert_eq!((sum(&restored), versions(&*store)), (100 * ACCOUNTS, ACCOUNTS as usize));
        assert!(matches!(restored.restore(&bytes[..]), Err(BackupError::NotEmpty { .. })));
        assert_eq!(sum(&restored), 100 * ACCOUNTS, "one that committed is not undone");
    }
}

#[test]
fn a_restore_is_atomic_at_every_failure_point() {
    let bytes = backup(&bank());
    for fault in [Fault::Lost, Fault::Half, Fault::Unanswered] {
        for n in 1.. {
            let store = Arc::new(FailingStore::new(MemoryStore::new()));
            let restored = over(store.clone(), options());
            let before = store.calls();
            store.fail_at(n, fault);
            let result = restored.restore(&bytes[..]);
            let calls = store.calls() - before;
            // No more faults from here on.
            store.fail_at(1 << 40, fault);
            let found = sum(&restored);
            assert!(found == 0 || found == 100 * ACCOUNTS, "{found} after call {n}");
            if found == 0 {
                assert!(result.is_err());
                // Leftovers do not count: the next attempt restores.
                restored.restore(&bytes[..]).unwrap();
                assert_eq!(sum(&restored), 100 * ACCOUNTS, "again after call {n}");
            }
            if result.is_ok() {
                assert!(found > 0);
                if calls < n {
                    break;
                }
            }
        }
    }
}
