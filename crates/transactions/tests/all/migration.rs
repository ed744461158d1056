//! Migration between layouts under load, and stores that must not be opened.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cassette_database::Database;
use cassette_transactions::encoding::tickets::Tickets;
use cassette_transactions::service::{CommitRecords, Layout, ServiceError, TransactionService};
use cassette_transactions::store::{EmbeddedStore, FailingStore, Fault, MemoryStore, Store};
use cassette_transactions::timelock::{LocalTimeLock, TimeLock};
use cassette_transactions::{
    ConflictHandler, Error, Outcome, Table, Timestamp, TransactionStatus, Transactions,
};
use parking_lot::Mutex;

use super::conformance::database;
use super::transactions::options;

const ACCOUNTS: usize = 8;

/// Stops the other threads when its thread ends, including by a panic.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn client(
    store: &Arc<dyn Store>,
    timelock: &Arc<dyn TimeLock>,
    layout: Option<u32>,
) -> Result<Transactions, Error> {
    let layout = layout.and_then(Layout::of_version);
    // A tiny cache, so that commit records are looked up.
    let options = options().layout(layout).cached_statuses(1);
    Transactions::open(store.clone(), timelock.clone(), options)
}

fn shared(store: Arc<dyn Store>) -> (Arc<dyn Store>, Arc<dyn TimeLock>) {
    let timelock = Arc::new(LocalTimeLock::open(store.clone()).unwrap());
    (store, timelock)
}

fn transfer(transactions: &Transactions, from: usize, to: usize) -> Result<(Timestamp, Timestamp), Error> {
    let table = transactions.table("accounts", ConflictHandler::WriteWriteByCell)?;
    let mut tx = transactions.start()?;
    let start = tx.start_timestamp();
    for (account, change) in [(from, -1), (to, 1)] {
        let row = format!("a{account}");
        let balance = tx.get(&table, &row, "balance")?.unwrap_or_default();
        let balance: i64 = std::str::from_utf8(&balance).unwrap().parse().unwrap();
        tx.put(&table, &row, "balance", (balance + change).to_string())?;
        // Every transfer leaves something that no later one replaces.
        tx.put(&table, format!("log{account}"), start.0.to_be_bytes(), "moved")?;
    }
    Ok((start, tx.commit()?.unwrap()))
}

fn sum(transactions: &Transactions) -> i64 {
    let table = transactions.table("accounts", ConflictHandler::WriteWriteByCell).unwrap();
    let tx = transactions.start_read_only().unwrap();
    let balance = |a: usize| {
        let value = tx.get(&table, format!("a{a}"), "balance").unwrap().unwrap();
        std::str::from_utf8(&value).unwrap().parse::<i64>().unwrap()
    };
    (0..ACCOUNTS).map(balance).sum()
}

fn migrate_under_load(store: Arc<dyn Store>) {
    let (store, timelock) = shared(store);
    let first = client(&store, &timelock, Some(1)).unwrap();
    let table = first.table("accounts", ConflictHandler::WriteWriteByCell).unwrap();
    first
        .run(|tx| (0..ACCOUNTS).try_for_each(|a| tx.put(&table, format!("a{a}"), "balance", "100")))
        .unwrap();
    let committed: Mutex<Vec<(Timestamp, Timestamp)>> = Mutex::default();
    let ended = AtomicBool::new(false);
    let is_over = || ended.load(Ordering::SeqCst);
    let wait_for_more = || {
        let wanted = committed.lock().len() + 30;
        while committed.lock().len() < wanted && !is_over() {
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (store, timelock, committed, is_over, ended) =
                (&store, &timelock, &committed, &is_over, &ended);
            scope.spawn(move || {
                let _ends = Ends(ended);
                let transactions = client(store, timelock, None).unwrap();
                for n in 0.. {
                    if is_over() {
                        break;
                    }
                    match transfer(&transactions, (thread + n) % ACCOUNTS, (thread + n * 3 + 1) % ACCOUNTS) {
                        Ok(pair) => committed.lock().push(pair),
                        Err(error) => assert!(error.is_retriable(), "{error}"),
                    }
                }
            });
        }
        scope.spawn(|| {
            let _ends = Ends(&ended);
            let transactions = client(&store, &timelock, None).unwrap();
            while !is_over() {
                assert_eq!(sum(&transactions), 100 * ACCOUNTS as i64);
            }
        });
        let _ends = Ends(&ended);
        let operator = client(&store, &timelock, None).unwrap();
        for version in [2, 3] {
            wait_for_more();
            let migrated = operator.migrate(version).unwrap();
            assert_eq!((migrated.from, migrated.to), (version - 1, version));
            assert_eq!(operator.agreed().unwrap().map.last_version(), version);
        }
        wait_for_more();
    });
    let later = client(&store, &timelock, Some(3)).unwrap();
    assert_eq!(sum(&later), 100 * ACCOUNTS as i64);
    let committed = committed.into_inner();
    check_commit_records(&store, &later, &committed);
    check_logs(&later, &table, &committed);
}

/// Checks that later readers find every commit record in the layout of the map, and only there.
fn check_commit_records(store: &Arc<dyn Store>, later: &Transactions, committed: &[(Timestamp, Timestamp)]) {
    let map = later.agreed().unwrap().map;
    let stored = [1, 2, 3]
        .map(|version| CommitRecords::open(store.clone(), Layout::of_version(version).unwrap()).unwrap());
    let mut counts = [0; 3];
    for (start, commit) in committed {
        let version = map.version(*start).unwrap();
        counts[version as usize - 1] += 1;
        for of_version in &stored {
            let expected =
                (of_version.layout().version() == version).then_some(TransactionStatus::Committed(*commit));
            assert_eq!(of_version.get(*start), Ok(expected), "{start} in {version}");
        }
    }
    assert!(counts.iter().all(|count| *count >= 20), "{counts:?}");
    let mut found = 0;
    later
        .commit_records()
        .enumerate(Timestamp::FIRST..=Timestamp::MAX, |_, status| {
            found += usize::from(status != TransactionStatus::Aborted);
            Ok(())
        })
        .unwrap();
    assert_eq!(found, committed.len() + 1, "those of all layouts, and the first one");
}

/// Checks that exactly the committed transfers have left their columns in the logs.
fn check_logs(later: &Transactions, table: &Table, committed: &[(Timestamp, Timestamp)]) {
    let tx = later.start_read_only().unwrap();
    let rows = tx.rows(table, None, 1_000).unwrap();
    let logged: usize = rows.iter().filter(|row| row.row.starts_with(b"log")).map(|r| r.columns.len()).sum();
    let wanted: std::collections::BTreeSet<_> = committed.iter().map(|(start, _)| start).collect();
    assert_eq!(logged, 2 * wanted.len());
    for start in wanted {
        let name = start.0.to_be_bytes();
        assert!(rows.iter().any(|row| row.columns.iter().any(|(column, _)| column[..] == name)), "{start}");
    }
}

#[test]
fn migration_under_load_loses_nothing() {
    migrate_under_load(Arc::new(MemoryStore::new()));
    migrate_under_load(Arc::new(EmbeddedStore::open(database(), "migrated").unwrap()));
}

#[test]
fn a_transaction_open_during_migration_keeps_its_layout() {
    let (store, timelock) = shared(Arc::new(MemoryStore::new()));
    let transactions = client(&store, &timelock, Some(1)).unwrap();
    let table = transactions.table("t", ConflictHandler::SerializableByCell).unwrap();
    let mut open = transactions.start().unwrap();
    let start = open.start_timestamp();
    open.put(&table, "r", "c", "v").unwrap();
    client(&store, &timelock, None).unwrap().migrate(2).unwrap();
    let commit = open.commit().unwrap().unwrap();
    let old = CommitRecords::open(store.clone(), Layout::Plain).unwrap();
    assert_eq!(old.get(start), Ok(Some(TransactionStatus::Committed(commit))));
    assert_eq!(transactions.read(|tx| tx.get(&table, "r", "c")).unwrap().as_deref(), Some(&b"v"[..]));
}

#[test]
fn a_write_without_a_known_layout_has_not_committed() {
    let (store, timelock) = shared(Arc::new(MemoryStore::new()));
    let failing = Arc::new(FailingStore::new(store.clone()));
    let dying = Transactions::open(failing.clone(), timelock.clone(), options()).unwrap();
    let table = dying.table("t", ConflictHandler::WriteWriteByCell).unwrap();
    // Above the bound of the coordination row, which the first write must extend: definitions are
    // known up to it.
    let far = timelock.timestamp().unwrap().0 + 20_000_000;
    timelock.fast_forward(Timestamp(far)).unwrap();
    // The read that comes first, and the change after it.
    for call in [1, 3] {
        let mut tx = dying.start().unwrap();
        failing.fail_at(call, Fault::Lost);
        let error = tx.put(&table, "r", "c", "v").unwrap_err();
        assert!(matches!(error, Error::Service(ServiceError::Store(_))), "call {call}: {error:?}");
        assert_eq!(error.outcome(), Outcome::NotCommitted);
        assert_eq!(tx.commit().unwrap(), None, "nothing was buffered");
        let survivor = client(&store, &timelock, None).unwrap();
        assert_eq!(survivor.read(|tx| tx.get(&table, "r", "c")).unwrap(), None);
        survivor.run(|tx| tx.put(&table, "other", "c", "v")).unwrap();
        // The survivor has extended the bound.
        let fresh = timelock.timestamp().unwrap();
        timelock.fast_forward(Timestamp(fresh.0 + 20_000_000)).unwrap();
    }
}

#[test]
fn a_layout_mismatch_is_rejected_with_advice() {
    let (store, timelock) = shared(Arc::new(MemoryStore::new()));
    client(&store, &timelock, Some(1)).unwrap();
    let error = client(&store, &timelock, Some(3)).err().unwrap();
    assert!(matches!(error, Error::Service(ServiceError::LayoutMismatch { asked: 3, stored: 1 })), "{error}");
    assert!(error.to_string().contains("cassette transactions migrate"), "{error}");
    client(&store, &timelock, None).unwrap().migrate(3).unwrap();
    client(&store, &timelock, Some(3)).unwrap();
    let odd = options().layout(Some(Layout::Tickets(Tickets::new(100, 4).unwrap())));
    let error = Transactions::open(store, timelock, odd).err().unwrap();
    assert!(matches!(error, Error::Service(ServiceError::OddTickets)), "{error}");
}

#[test]
fn a_table_with_other_columns_is_rejected() {
    let database: Database = database();
    let store = EmbeddedStore::open(database.clone(), "ks").unwrap();
    let session = database.session();
    let define = |cql: &str| drop(session.execute(cql, ()).unwrap());
    let key = "PRIMARY KEY (key, column1, column2)";
    define(&format!("CREATE TABLE ks.texts (key text, column1 blob, column2 bigint, value blob, {key})"));
    define(&format!(
        "CREATE TABLE ks.upside_down (key blob, column1 blob, column2 bigint, value blob, {key}) \
         WITH CLUSTERING ORDER BY (column1 ASC, column2 DESC)"
    ));
    define(&format!(
        "CREATE TABLE ks.more (key blob, column1 blob, column2 bigint, value blob, other int, {key})"
    ));
    for (table, what) in [
        ("texts", "key partition_key none text"),
        ("upside_down", "column2 clustering desc"),
        ("more", "other"),
    ] {
        let error = store.create_table(table, cassette_transactions::store::TableKind::Data).unwrap_err();
        assert!(error.to_string().contains(what), "{error}");
    }
}
