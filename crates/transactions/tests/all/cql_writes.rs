//! Writes to CQL tables in transactions: with the commit record, or not at all.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use cassette_database::{Database, Session};
use cassette_engine::commitlog::SyncMode;
use cassette_transactions::service::Layout;
use cassette_transactions::store::{EmbeddedStore, FailingStore, Fault, MemoryStore, Store};
use cassette_transactions::timelock::LocalTimeLock;
use cassette_transactions::{
    Column, ConflictHandler, Error, Outcome, Result, Retries, Transaction, TransactionStatus, Transactions,
};
use cassette_vfs::FakeFileSystem;

use super::crashes::count_syncs;
use super::transactions::{options, over};

fn opened(file_system: &FakeFileSystem, sync: SyncMode) -> Option<Database> {
    let file_system = Arc::new(file_system.clone());
    let mut options = cassette_database::Options { file_system, ..cassette_database::Options::new("/data") };
    options.engine.background_threads = false;
    options.engine.commitlog_sync = sync;
    options.materialized_views_enabled = true;
    Database::open(options).ok()
}

/// A database with an outbox that has a secondary index and a view.
fn with_outbox(file_system: &FakeFileSystem) -> Database {
    let database = opened(file_system, SyncMode::Batch).unwrap();
    let session = database.session();
    for cql in [
        "CREATE KEYSPACE app WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE app.outbox (queue int, id int, text text, PRIMARY KEY (queue, id))",
        "CREATE INDEX by_text ON app.outbox (text)",
        "CREATE MATERIALIZED VIEW app.by_id AS SELECT * FROM app.outbox \
         WHERE id IS NOT NULL AND queue IS NOT NULL PRIMARY KEY (id, queue)",
        "CREATE TABLE app.other (k int PRIMARY KEY, v int, l list<int>)",
        "CREATE TABLE app.counters (k int PRIMARY KEY, c counter)",
        "CREATE KEYSPACE fleeting WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1} \
         AND durable_writes = false",
        "CREATE TABLE fleeting.t (k int PRIMARY KEY)",
    ] {
        session.execute(cql, ()).unwrap();
    }
    database
}

type Count = Column<String, u32>;

fn open(store: Arc<dyn Store>) -> Result<(Transactions, Count)> {
    let timelock = Arc::new(LocalTimeLock::open(store.clone())?);
    let transactions = Transactions::open(store, timelock, options().retries(Retries::none()))?;
    let count = transactions.table("t", ConflictHandler::WriteWriteByCell)?.column("count");
    Ok((transactions, count))
}

fn embedded(database: &Database) -> (Transactions, Count) {
    open(Arc::new(EmbeddedStore::open(database.clone(), "tx").unwrap())).unwrap()
}

/// Counts, and writes a message for each number to two partitions and another table.
fn send(tx: &mut Transaction, count: &Count) -> Result<()> {
    let id = count.add(tx, "sent", 1)? as i32;
    tx.execute("INSERT INTO app.outbox (queue, id, text) VALUES (1, ?, 'sent')", (id,))?;
    tx.execute("INSERT INTO app.outbox (queue, id, text) VALUES (2, ?, 'sent')", (id,))?;
    tx.execute("UPDATE app.other SET v = ? WHERE k = 1", (id,))
}

/// Checks that tables, index and view agree with the count, and returns it.
fn check(session: &Session, transactions: &Transactions, count: &Count) -> u32 {
    let sent = transactions.read(|tx| count.get(tx, "sent")).unwrap().unwrap_or(0);
    let number = |cql: &str| session.query_one::<(i64,)>(cql, ()).unwrap().0;
    for cql in
        ["SELECT count(*) FROM app.outbox WHERE queue = 1", "SELECT count(*) FROM app.outbox WHERE queue = 2"]
    {
        assert_eq!(number(cql), i64::from(sent), "{cql}");
    }
    assert_eq!(number("SELECT count(*) FROM app.outbox WHERE text = 'sent'"), 2 * i64::from(sent));
    assert_eq!(number("SELECT count(*) FROM app.by_id"), 2 * i64::from(sent));
    let last = session.query_opt::<(i32,)>("SELECT v FROM app.other WHERE k = 1", ()).unwrap();
    assert_eq!(last.map_or(0, |(last,)| last), sent as i32);
    sent
}

#[test]
fn a_crash_at_any_operation_leaves_the_transaction_with_all_cql_writes_or_none() {
    let (mut committed, mut lost, mut unknown) = (0, 0, 0);
    let prepared = FakeFileSystem::new();
    {
        let database = with_outbox(&prepared);
        let (transactions, count) = embedded(&database);
        transactions.run(|tx| send(tx, &count)).unwrap();
    }
    let mut file_system = prepared.kill();
    for failing in 0..60 {
        let database = opened(&file_system, SyncMode::Batch).unwrap();
        let (transactions, count) = embedded(&database);
        let before = check(&database.session(), &transactions, &count);
        file_system.fail_from(file_system.operations() + failing % 12);
        let result = transactions.run(|tx| send(tx, &count));
        file_system = if failing % 2 == 0 { file_system.kill() } else { file_system.crash(failing) };
        drop((transactions, database));
        let database = opened(&file_system, SyncMode::Batch).unwrap();
        let (transactions, count) = embedded(&database);
        let after = check(&database.session(), &transactions, &count);
        match result {
            Ok(()) => {
                assert_eq!(after, before + 1, "a commit that returned is durable");
                committed += 1;
            }
            Err(error) if error.outcome() == Outcome::NotCommitted => {
                assert_eq!(after, before, "{error}");
                lost += 1;
            }
            Err(_) => {
                assert!(after == before || after == before + 1);
                unknown += 1;
            }
        }
        drop((transactions, database));
        file_system = file_system.kill();
    }
    assert!(committed > 0 && lost + unknown > 0, "{committed} {lost} {unknown}");
}

#[test]
fn a_client_dying_at_any_call_writes_all_cql_rows_or_none() {
    for layout in [1, 2, 3].map(Layout::of_version) {
        for fault in [Fault::Lost, Fault::Unanswered] {
            for n in 1.. {
                let database = with_outbox(&FakeFileSystem::new());
                let below: Arc<dyn Store> = Arc::new(EmbeddedStore::open(database.clone(), "tx").unwrap());
                let timelock = Arc::new(LocalTimeLock::open(below.clone()).unwrap());
                let client = |store: Arc<dyn Store>| {
                    let options = options().layout(layout).retries(Retries::none());
                    let transactions = Transactions::open(store, timelock.clone(), options).unwrap();
                    let table = transactions.table("t", ConflictHandler::WriteWriteByCell).unwrap();
                    (transactions, table.column::<String, u32>("count"))
                };
                let (survivor, count) = client(below.clone());
                survivor.run(|tx| send(tx, &count)).unwrap();
                let failing = Arc::new(FailingStore::new(below.clone()));
                let (dying, of_dying) = client(failing.clone());
                failing.die_at(n, fault);
                let result = dying.run(|tx| send(tx, &of_dying));
                let sent = check(&database.session(), &survivor, &count);
                match &result {
                    Ok(()) => assert_eq!(sent, 2),
                    Err(error) if error.outcome() == Outcome::NotCommitted => assert_eq!(sent, 1, "{error}"),
                    Err(_) => assert!(sent == 1 || sent == 2),
                }
                if failing.calls() < n {
                    assert!(result.is_ok() && n > 4);
                    break;
                }
            }
        }
    }
}

#[test]
fn a_transaction_that_does_not_commit_leaves_no_cql_write() {
    let database = with_outbox(&FakeFileSystem::new());
    let store: Arc<dyn Store> = Arc::new(EmbeddedStore::open(database.clone(), "tx").unwrap());
    let timelock = Arc::new(LocalTimeLock::open(store.clone()).unwrap());
    let transactions = Transactions::open(store, timelock.clone(), options()).unwrap();
    let count: Count = transactions.table("t", ConflictHandler::WriteWriteByCell).unwrap().column("count");
    let session = database.session();
    // A write-write conflict.
    let (mut first, mut second) = (transactions.start().unwrap(), transactions.start().unwrap());
    send(&mut first, &count).unwrap();
    send(&mut second, &count).unwrap();
    first.commit().unwrap();
    assert!(second.commit().unwrap_err().is_retriable());
    // An abort that another client has recorded.
    let mut aborted = transactions.start().unwrap();
    send(&mut aborted, &count).unwrap();
    transactions.service().put_unless_exists(aborted.start_timestamp(), TransactionStatus::Aborted).unwrap();
    let error = aborted.commit().unwrap_err();
    assert!(matches!(error, Error::RolledBack { .. }), "{error}");
    // Lost locks.
    let mut lost = transactions.start().unwrap();
    send(&mut lost, &count).unwrap();
    let error = lost
        .commit_if(|_| {
            timelock.revoke_all();
            Ok(())
        })
        .unwrap_err();
    assert!(matches!(error, Error::LocksLost { .. }), "{error}");
    // A condition, a cell read for update, and a transaction that is dropped.
    let mut refused = transactions.start().unwrap();
    send(&mut refused, &count).unwrap();
    assert!(refused.commit_if(|_| Err(Error::caller("no"))).is_err());
    let mut only_cql = transactions.start().unwrap();
    count.get_for_update(&only_cql, "sent").unwrap();
    only_cql.execute("INSERT INTO app.outbox (queue, id) VALUES (1, 99)", ()).unwrap();
    transactions.run(|tx| send(tx, &count)).unwrap();
    let error = only_cql.commit().unwrap_err();
    assert!(matches!(error, Error::ReadWriteConflict { .. }), "{error}");
    let mut dropped = transactions.start().unwrap();
    send(&mut dropped, &count).unwrap();
    drop(dropped);
    assert_eq!(check(&session, &transactions, &count), 2);
    // A table that was dropped after the statement was planned.
    let mut late = transactions.start().unwrap();
    count.add(&mut late, "sent", 1).unwrap();
    late.execute("INSERT INTO app.outbox (queue, id) VALUES (1, 98)", ()).unwrap();
    late.execute("INSERT INTO app.extra (k) VALUES (1)", ()).unwrap_err();
    session.execute("CREATE TABLE app.extra (k int PRIMARY KEY)", ()).unwrap();
    late.execute("INSERT INTO app.extra (k) VALUES (1)", ()).unwrap();
    session.execute("DROP TABLE app.extra", ()).unwrap();
    let error = late.commit().unwrap_err();
    assert_eq!(error.outcome(), Outcome::NotCommitted, "{error}");
    assert_eq!(check(&session, &transactions, &count), 2);
}

#[test]
fn transactions_of_cql_writes_alone_take_effect_in_order_and_savepoints_cover_them() {
    let database = with_outbox(&FakeFileSystem::new());
    let (transactions, _) = embedded(&database);
    let session = database.session();
    let insert = session.prepare("INSERT INTO app.other (k, v) VALUES (:k, :v)").unwrap();
    let committed = {
        let mut tx = transactions.start().unwrap();
        tx.execute(&insert, (1, 1)).unwrap();
        tx.execute("DELETE FROM app.other WHERE k = 1", ()).unwrap();
        tx.execute(&insert, (1, 2)).unwrap();
        tx.execute("UPDATE app.other USING TTL 1000 SET l = [1, 2] WHERE k = 2", ()).unwrap();
        let before = tx.savepoint();
        tx.execute(&insert, (3, 3)).unwrap();
        tx.roll_back_to(before).unwrap();
        tx.execute(
            "BEGIN BATCH INSERT INTO app.other (k, v) VALUES (?, 4); DELETE v FROM app.other WHERE k = 9; APPLY BATCH",
            (4,),
        )
        .unwrap();
        assert_eq!(
            session.execute("SELECT * FROM app.other", ()).unwrap().len(),
            0,
            "nothing before the commit"
        );
        tx.commit().unwrap()
    };
    assert!(committed.is_some());
    let rows = |cql: &str| -> Vec<(i32, Option<i32>)> {
        session.execute(cql, ()).unwrap().typed().map(|row| row.unwrap()).collect()
    };
    let mut found = rows("SELECT k, v FROM app.other");
    found.sort_unstable();
    assert_eq!(found, [(1, Some(2)), (2, None), (4, Some(4))]);
    // Write times are those of the commit: a later transaction wins, also one that was planned
    // earlier.
    let mut earlier = transactions.start().unwrap();
    earlier.execute(&insert, (1, 10)).unwrap();
    transactions.run(|tx| tx.execute(&insert, (1, 20))).unwrap();
    earlier.commit().unwrap();
    assert_eq!(rows("SELECT k, v FROM app.other WHERE k = 1"), [(1, Some(10))]);
}

#[test]
fn what_cannot_be_part_of_a_transaction_is_refused_by_name() {
    let database = with_outbox(&FakeFileSystem::new());
    let (transactions, count) = embedded(&database);
    transactions.run(|tx| send(tx, &count)).unwrap();
    let mut tx = transactions.start().unwrap();
    for (cql, what) in [
        ("SELECT * FROM app.other", "a SELECT"),
        ("INSERT INTO app.other (k) VALUES (1) IF NOT EXISTS", "a conditional statement"),
        ("UPDATE app.other SET v = 1 WHERE k = 1 IF v = 2", "a conditional statement"),
        ("UPDATE app.counters SET c = c + 1 WHERE k = 1", "a change of counters"),
        ("INSERT INTO app.other (k) VALUES (1) USING TIMESTAMP 7", "USING TIMESTAMP"),
        (
            "BEGIN BATCH USING TIMESTAMP 7 INSERT INTO app.other (k) VALUES (1); APPLY BATCH",
            "USING TIMESTAMP",
        ),
        ("CREATE TABLE app.more (k int PRIMARY KEY)", "a schema change"),
        ("TRUNCATE app.other", "TRUNCATE"),
        ("LIST ROLES", "a statement on roles"),
        ("USE app", "a statement without data"),
        ("INSERT INTO fleeting.t (k) VALUES (1)", "durable_writes"),
        ("DELETE FROM tx.t WHERE key = 0x00", "tx.t"),
        ("DELETE FROM tx.\"_transactions2\" WHERE key = 0x00", "_transactions2"),
    ] {
        let error = tx.execute(cql, ()).unwrap_err();
        assert!(matches!(&error, Error::CqlRefused { .. }), "{cql}: {error}");
        assert!(error.to_string().contains(what), "{cql}: {error}");
    }
    for cql in [
        "INSERT INTO app.nowhere (k) VALUES (1)",
        "INSERT INTO app.other (k) VALUES ('text')",
        "INSERT INTO app.other (k) VALUES (null)",
        "INSERT INTO app.by_id (id, queue) VALUES (1, 1)",
        "INSERT INTO system.local (key) VALUES ('x')",
        "no CQL",
    ] {
        let error = tx.execute(cql, ()).unwrap_err();
        assert!(matches!(&error, Error::Cql(_)), "{cql}: {error}");
    }
    assert!(matches!(tx.execute("INSERT INTO app.other (k) VALUES (?)", ()), Err(Error::Cql(_))));
    assert_eq!(tx.commit().unwrap(), None, "nothing was buffered");
    let mut reader = transactions.start_read_only().unwrap();
    let error = reader.execute("INSERT INTO app.other (k) VALUES (1)", ()).unwrap_err();
    assert!(matches!(error, Error::ReadOnly { .. }), "{error}");
    let in_memory = over(Arc::new(MemoryStore::new()), options());
    let error = in_memory.start().unwrap().execute("INSERT INTO app.other (k) VALUES (1)", ()).unwrap_err();
    assert!(matches!(error, Error::NoCqlTables), "{error}");
}

#[test]
fn cql_writes_of_a_transaction_are_limited_before_anything_is_written() {
    let database = with_outbox(&FakeFileSystem::new());
    let (transactions, count) = embedded(&database);
    let half = database.engine().options().mutation_size_max() as usize;
    let text = "x".repeat(half / 3);
    let mut tx = transactions.start().unwrap();
    count.add(&mut tx, "sent", 0).unwrap();
    let insert = "INSERT INTO app.outbox (queue, id, text) VALUES (?, 1, ?)";
    tx.execute(insert, (5, &text)).unwrap();
    tx.execute(insert, (6, &text)).unwrap();
    let error = tx.execute(insert, (7, &text)).unwrap_err();
    assert!(matches!(error, Error::CqlTooLarge { .. }), "{error}");
    let error = tx.execute(insert, (8, "x".repeat(half))).unwrap_err();
    assert!(matches!(error, Error::Cql(_)), "{error}");
}

/// Index entries and view rows are computed at the commit, so no earlier step can check their size.
#[test]
fn a_commit_whose_view_rows_or_index_entries_exceed_the_limit_definitely_fails() {
    const ROWS: i32 = 11;
    let create = "CREATE TABLE app.notes (queue int, id int, text text, PRIMARY KEY (queue, id))";
    let index = "CREATE INDEX notes_by_text ON app.notes (text)";
    let view = |name: &str| {
        format!(
            "CREATE MATERIALIZED VIEW app.{name} AS SELECT * FROM app.notes \
             WHERE id IS NOT NULL AND queue IS NOT NULL PRIMARY KEY (id, queue)"
        )
    };
    let (one, two) = (view("notes_by_id"), view("notes_by_id_again"));
    // The commit log refuses the first two, the budget of view rows the last.
    for derived in [&[index][..], &[&one], &[&one, &two]] {
        let mut opened = cassette_database::Options::new("/data");
        opened.file_system = Arc::new(FakeFileSystem::new());
        opened.engine.background_threads = false;
        opened.engine.commitlog_segment_size = 1 << 20;
        opened.engine.memtable_heap_space = 600 << 10;
        opened.materialized_views_enabled = true;
        let database = Database::open(opened).unwrap();
        let session = database.session();
        session
            .execute(
                "CREATE KEYSPACE app \
                 WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
                (),
            )
            .unwrap();
        session.execute(create, ()).unwrap();
        derived.iter().for_each(|cql| drop(session.execute(*cql, ()).unwrap()));
        let (transactions, count) = embedded(&database);
        // Distinct texts, each shorter than the longest key.
        let insert = |tx: &mut Transaction, rows: i32| {
            count.add(tx, "sent", 1)?;
            (0..rows).try_for_each(|id| {
                let text = format!("{id:040000}");
                tx.execute("INSERT INTO app.notes (queue, id, text) VALUES (1, ?, ?)", (id, text))
            })
        };
        let mut tx = transactions.start().unwrap();
        insert(&mut tx, ROWS).unwrap();
        let error = tx.commit().unwrap_err();
        assert!(matches!(error, Error::CqlNotApplied { .. }), "{derived:?}: {error:?}");
        assert_eq!(error.outcome(), Outcome::NotCommitted);
        assert!(!error.is_retriable(), "{error}");
        let text = error.to_string();
        for part in ["with its index entries and view rows", "expected at most 614400", "has not committed"] {
            assert!(text.contains(part), "{text}");
        }
        assert_eq!(session.query_one::<(i64,)>("SELECT count(*) FROM app.notes", ()).unwrap().0, 0);
        assert_eq!(transactions.read(|tx| count.get(tx, "sent")).unwrap(), None);
        // Less at once is accepted.
        transactions.run(|tx| insert(tx, 1)).unwrap();
        assert_eq!(transactions.read(|tx| count.get(tx, "sent")).unwrap(), Some(1));
    }
}

#[test]
fn a_commit_with_cql_writes_syncs_once() {
    let file_system = FakeFileSystem::new();
    let database = with_outbox(&file_system);
    let (transactions, count) = embedded(&database);
    transactions.run(|tx| send(tx, &count)).unwrap();
    let syncs = count_syncs(&file_system);
    transactions.run(|tx| send(tx, &count)).unwrap();
    assert_eq!(syncs.load(Ordering::Relaxed), 1);
}

#[test]
fn threads_write_cql_rows_of_a_table_with_a_view_without_losing_any() {
    let database = with_outbox(&FakeFileSystem::new());
    let store: Arc<dyn Store> = Arc::new(EmbeddedStore::open(database.clone(), "tx").unwrap());
    let transactions = over(store, options());
    let count: Count = transactions.table("t", ConflictHandler::WriteWriteByCell).unwrap().column("count");
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| (0..20).for_each(|_| transactions.run(|tx| send(tx, &count)).unwrap()));
        }
        // Ordinary writes of the same partitions, whose locks are those of the commits.
        let session = database.session();
        for id in 0..60 {
            session.execute("INSERT INTO app.outbox (queue, id) VALUES (3, ?)", (id,)).unwrap();
            session.execute("DELETE FROM app.outbox WHERE queue = 3 AND id = ?", (id,)).unwrap();
        }
    });
    assert_eq!(check(&database.session(), &transactions, &count), 60);
}
