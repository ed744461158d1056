//! A client that dies at any call of the store, and a machine that dies at any time: transactions
//! are atomic, and reported outcomes stay true.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cassette_database::Database;
use cassette_engine::commitlog::SyncMode;
use cassette_transactions::service::Layout;
use cassette_transactions::store::{EmbeddedStore, FailingStore, Fault, MemoryStore, Store};
use cassette_transactions::timelock::LocalTimeLock;
use cassette_transactions::{ConflictHandler, Outcome, Table, Transactions};
use cassette_vfs::{FakeFileSystem, OperationKind};

use super::transactions::options;

const CELLS: [(&str, &str); 4] = [("r1", "a"), ("r1", "b"), ("r2", "a"), ("r3", "c")];

fn write(
    transactions: &Transactions,
    table: &Table,
    value: &str,
) -> Result<(), cassette_transactions::Error> {
    let mut tx = transactions.start()?;
    for (row, column) in CELLS {
        tx.get(table, row, column)?;
        tx.put(table, row, column, value)?;
    }
    tx.commit().map(drop)
}

/// The value shared by all cells.
fn read(transactions: &Transactions, table: &Table) -> String {
    let tx = transactions.start_read_only().unwrap();
    let mut values: Vec<_> =
        CELLS.iter().map(|(row, column)| tx.get(table, row, column).unwrap().unwrap()).collect();
    values.dedup();
    assert_eq!(values.len(), 1, "seen in part: {values:?}");
    String::from_utf8(values[0].to_vec()).unwrap()
}

#[test]
fn a_client_dying_at_any_call_leaves_all_or_nothing() {
    for layout in [1, 2, 3].map(Layout::of_version) {
        for handler in [ConflictHandler::WriteWriteByCell, ConflictHandler::SerializableByRow] {
            for fault in [Fault::Lost, Fault::Half, Fault::Unanswered] {
                for n in 1.. {
                    let below: Arc<dyn Store> = Arc::new(MemoryStore::new());
                    let timelock = Arc::new(LocalTimeLock::open(below.clone()).unwrap());
                    let options = options().layout(layout).lock_timeout(Duration::from_secs(5));
                    let client = |store: Arc<dyn Store>| {
                        Transactions::open(store, timelock.clone(), options.clone()).unwrap()
                    };
                    let survivor = client(below.clone());
                    let table = survivor.table("t", handler).unwrap();
                    write(&survivor, &table, "before").unwrap();
                    let failing = Arc::new(FailingStore::new(below.clone()));
                    let dying = client(failing.clone());
                    dying.table("t", handler).unwrap();
                    failing.die_at(n, fault);
                    let result = write(&dying, &table, "after");
                    let seen = read(&survivor, &table);
                    match &result {
                        Ok(()) => assert_eq!(seen, "after", "call {n}"),
                        Err(error) if error.outcome() == Outcome::NotCommitted => {
                            assert_eq!(seen, "before", "call {n}: {error}");
                        }
                        Err(_) => assert!(["before", "after"].contains(&&*seen)),
                    }
                    for other in [&survivor, &client(below.clone())] {
                        assert_eq!(read(other, &table), seen, "what was read once stays");
                    }
                    write(&survivor, &table, "later").unwrap();
                    assert_eq!(read(&client(below), &table), "later");
                    if failing.calls() < n {
                        assert!(result.is_ok() && n > 5, "every call was failed once: {n}");
                        break;
                    }
                }
            }
        }
    }
}

fn database(file_system: &FakeFileSystem, sync: SyncMode) -> Database {
    let file_system = Arc::new(file_system.clone());
    let mut options = cassette_database::Options { file_system, ..cassette_database::Options::new("/data") };
    options.engine.background_threads = false;
    options.engine.commitlog_sync = sync;
    Database::open(options).unwrap()
}

#[test]
fn embedded_commits_survive_a_kill_at_any_time() {
    let mut file_system = FakeFileSystem::new();
    let sync = SyncMode::Periodic { period: Duration::from_secs(10) };
    let open = |file_system: &FakeFileSystem| {
        let store: Arc<dyn Store> = Arc::new(EmbeddedStore::open(database(file_system, sync), "tx").unwrap());
        let timelock = Arc::new(LocalTimeLock::open(store.clone()).unwrap());
        Transactions::open(store, timelock, options()).unwrap()
    };
    let transactions = open(&file_system);
    let table = transactions.table("t", ConflictHandler::WriteWriteByCell).unwrap();
    write(&transactions, &table, "0").unwrap();
    let mut last = "0".to_owned();
    let mut transactions = transactions;
    for round in 1..12u64 {
        let value = round.to_string();
        file_system.fail_from(file_system.operations() + round);
        let result = write(&transactions, &table, &value);
        file_system = file_system.kill();
        drop(transactions);
        transactions = open(&file_system);
        transactions.table("t", ConflictHandler::WriteWriteByCell).unwrap();
        let seen = read(&transactions, &table);
        match result {
            Ok(()) => assert_eq!(seen, value),
            Err(error) if error.outcome() == Outcome::NotCommitted => assert_eq!(seen, last, "{error}"),
            Err(_) => assert!(seen == value || seen == last, "{seen}"),
        }
        last = seen;
        assert_eq!(read(&transactions, &table), last);
    }
}

/// Counts the syncs of files from now on.
pub fn count_syncs(file_system: &FakeFileSystem) -> Arc<AtomicUsize> {
    let syncs = Arc::new(AtomicUsize::new(0));
    let counted = syncs.clone();
    file_system.fail_when(move |operation| {
        if operation.kind == OperationKind::Sync {
            counted.fetch_add(1, Ordering::Relaxed);
        }
        None
    });
    syncs
}

#[test]
fn an_embedded_commit_syncs_once() {
    let file_system = FakeFileSystem::new();
    let database = database(&file_system, SyncMode::Batch);
    let store: Arc<dyn Store> = Arc::new(EmbeddedStore::open(database, "tx").unwrap());
    let timelock = Arc::new(LocalTimeLock::open(store.clone()).unwrap());
    let transactions = Transactions::open(store, timelock, options()).unwrap();
    let table = transactions.table("t", ConflictHandler::WriteWriteByCell).unwrap();
    write(&transactions, &table, "before").unwrap();
    let syncs = count_syncs(&file_system);
    write(&transactions, &table, "after").unwrap();
    assert_eq!(syncs.load(Ordering::Relaxed), 1, "the versions are synced with the commit record");
}
