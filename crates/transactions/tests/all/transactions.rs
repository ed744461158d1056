//! Visibility of writes, and conflicts between concurrent transactions.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cassette_transactions::service::Layout;
use cassette_transactions::store::{Cell, EmbeddedStore, MemoryStore, Put, PutRow, Store};
use cassette_transactions::timelock::{LocalTimeLock, TimeLockError};
use cassette_transactions::{
    ConflictHandler, Error, Options, Outcome, Table, Timestamp, Transaction, TransactionStatus, Transactions,
};

use super::conformance::database;

/// Options without a background sweeper, whose requests would change the order of the tests'.
pub fn options() -> Options {
    Options::new().without_sweeping()
}

/// Opens transactions over a store with local timestamps.
pub fn over(store: Arc<dyn Store>, options: Options) -> Transactions {
    let timelock = Arc::new(LocalTimeLock::open(store.clone()).unwrap());
    Transactions::open(store, timelock, options).unwrap()
}

/// Opens transactions in memory with a short lock timeout.
pub fn in_memory() -> Transactions {
    let options = options().lock_timeout(Duration::from_millis(50));
    over(Arc::new(MemoryStore::new()), options)
}

pub fn text(value: Option<Bytes>) -> Option<String> {
    value.map(|value| String::from_utf8(value.to_vec()).unwrap())
}

pub fn get(tx: &Transaction, table: &Table, cell: &str) -> Option<String> {
    text(tx.get(table, "row", cell).unwrap())
}

pub fn put(tx: &mut Transaction, table: &Table, cell: &str, value: &str) {
    tx.put(table, "row", cell, value).unwrap();
}

/// Commits one value.
pub fn set(transactions: &Transactions, table: &Table, cell: &str, value: &str) {
    transactions.run(|tx| tx.put(table, "row", cell, value)).unwrap();
}

#[test]
fn a_transaction_sees_its_snapshot_and_its_own_writes() {
    for layout in [1, 2, 3].map(Layout::of_version) {
        let embedded = Arc::new(EmbeddedStore::open(database(), "tx").unwrap());
        let stores: [Arc<dyn Store>; 2] = [Arc::new(MemoryStore::new()), embedded];
        for store in stores {
            let transactions = over(store, options().layout(layout));
            let table = transactions.table("t", ConflictHandler::WriteWriteByCell).unwrap();
            set(&transactions, &table, "a", "old");
            let reader = transactions.start_read_only().unwrap();
            let mut writer = transactions.start().unwrap();
            put(&mut writer, &table, "a", "new");
            writer.delete(&table, "row", "b").unwrap();
            assert_eq!(get(&writer, &table, "a").as_deref(), Some("new"));
            let other = transactions.start().unwrap();
            assert_eq!(get(&other, &table, "a").as_deref(), Some("old"), "not committed yet");
            writer.commit().unwrap().unwrap();
            assert_eq!(get(&reader, &table, "a").as_deref(), Some("old"), "committed after it began");
            let later = transactions.start().unwrap();
            assert_eq!(get(&later, &table, "a").as_deref(), Some("new"));
            transactions.run(|tx| tx.delete(&table, "row", "a")).unwrap();
            assert_eq!(get(&later, &table, "a").as_deref(), Some("new"));
            assert_eq!(get(&transactions.start().unwrap(), &table, "a"), None);
            drop(other);
        }
    }
}

#[test]
fn column_ranges_page_with_own_writes_merged() {
    for store in [
        Arc::new(MemoryStore::new()) as Arc<dyn Store>,
        Arc::new(EmbeddedStore::open(database(), "tx").unwrap()),
    ] {
        let transactions = over(store, options());
        let table = transactions.table("t", ConflictHandler::WriteWriteByRow).unwrap();
        transactions
            .run(|tx| (10..30).try_for_each(|n| tx.put(&table, "row", format!("c{n}"), format!("v{n}"))))
            .unwrap();
        let mut tx = transactions.start().unwrap();
        for n in (10..30).step_by(2) {
            tx.delete(&table, "row", format!("c{n}")).unwrap();
        }
        tx.put(&table, "row", "c", "first").unwrap();
        tx.put(&table, "row", "c11x", "between").unwrap();
        tx.put(&table, "row", "d", "last").unwrap();
        tx.put(&table, "other", "c15", "not this row").unwrap();
        let mut names: Vec<String> = vec!["c".into(), "c11".into(), "c11x".into()];
        names.extend((13..30).step_by(2).map(|n| format!("c{n}")));
        names.push("d".into());
        for size in [1, 3, 100] {
            let mut paged: Vec<String> = Vec::new();
            let mut from = String::new();
            loop {
                let page = tx.columns(&table, "row", from.clone().., size).unwrap();
                paged.extend(page.iter().map(|(column, _)| String::from_utf8(column.to_vec()).unwrap()));
                if page.len() < size {
                    break;
                }
                from = format!("{}\0", paged.last().unwrap());
            }
            assert_eq!(paged, names, "pages of {size}");
        }
        let part = tx.columns(&table, "row", "c13"..="c17", 10).unwrap();
        assert_eq!(part.iter().map(|(column, _)| &column[..]).collect::<Vec<_>>(), [b"c13", b"c15", b"c17"]);
        assert_eq!(tx.columns(&table, "row", "x".."b", 10).unwrap(), []);
    }
}

#[test]
fn row_scans_page_with_own_writes_merged() {
    let transactions = in_memory();
    let table = transactions.table("t", ConflictHandler::WriteWriteByRow).unwrap();
    transactions.run(|tx| (0..20).try_for_each(|n| tx.put(&table, format!("r{n}"), "c", "v"))).unwrap();
    let mut tx = transactions.start().unwrap();
    (0..5).for_each(|n| tx.delete(&table, format!("r{n}"), "c").unwrap());
    (20..25).for_each(|n| tx.put(&table, format!("r{n}"), "c", "own").unwrap());
    let whole = tx.rows(&table, None, 100).unwrap();
    let mut names: Vec<_> = whole.iter().map(|row| String::from_utf8(row.row.to_vec()).unwrap()).collect();
    names.sort_by_key(|name| name[1..].parse::<u32>().unwrap());
    assert_eq!(names, (5..25).map(|n| format!("r{n}")).collect::<Vec<_>>());
    for size in [1, 4] {
        let mut paged = Vec::new();
        loop {
            let after: Option<Bytes> =
                paged.last().map(|row: &cassette_transactions::RowOfCells| row.row.clone());
            let page = tx.rows(&table, after.as_deref(), size).unwrap();
            let is_last = page.len() < size;
            paged.extend(page);
            if is_last {
                break;
            }
        }
        assert_eq!(paged, whole, "pages of {size}");
    }
}

#[test]
fn an_update_is_not_lost() {
    for handler in [
        ConflictHandler::WriteWriteByRow,
        ConflictHandler::WriteWriteByCell,
        ConflictHandler::SerializableByRow,
        ConflictHandler::SerializableByCell,
    ] {
        let transactions = in_memory();
        let table = transactions.table("t", handler).unwrap();
        set(&transactions, &table, "n", "0");
        let (mut a, mut b) = (transactions.start().unwrap(), transactions.start().unwrap());
        for (tx, value) in [(&mut a, "a"), (&mut b, "b")] {
            get(tx, &table, "n");
            put(tx, &table, "n", value);
        }
        b.commit().unwrap();
        let error = a.commit().unwrap_err();
        assert!(matches!(error, Error::WriteWriteConflict { .. }) && error.is_retriable(), "{error}");
        assert_eq!(error.outcome(), Outcome::NotCommitted);
        assert_eq!(get(&transactions.start().unwrap(), &table, "n").as_deref(), Some("b"));
    }
}

#[test]
fn without_conflict_checks_the_last_started_transaction_wins() {
    let transactions = in_memory();
    let table = transactions.table("t", ConflictHandler::Ignore).unwrap();
    let (mut first, mut last) = (transactions.start().unwrap(), transactions.start().unwrap());
    put(&mut first, &table, "n", "first");
    put(&mut last, &table, "n", "last");
    last.commit().unwrap();
    first.commit().unwrap();
    assert_eq!(get(&transactions.start().unwrap(), &table, "n").as_deref(), Some("last"));
}

/// Two doctors on call, each of whom leaves if the other one stays: possible for both with snapshot
/// isolation.
pub fn write_skew(handler: ConflictHandler, for_update: bool) -> (bool, bool) {
    let transactions = in_memory();
    let table = transactions.table("t", handler).unwrap();
    set(&transactions, &table, "a", "on");
    set(&transactions, &table, "b", "on");
    let (mut a, mut b) = (transactions.start().unwrap(), transactions.start().unwrap());
    for (tx, own, other) in [(&mut a, "a", "b"), (&mut b, "b", "a")] {
        let found =
            if for_update { tx.get_for_update(&table, "row", other) } else { tx.get(&table, "row", other) };
        assert_eq!(text(found.unwrap()).as_deref(), Some("on"));
        put(tx, &table, own, "off");
    }
    let (a, b) = (a.commit(), b.commit());
    for error in [&a, &b].into_iter().filter_map(|result| result.as_ref().err()) {
        assert!(matches!(error, Error::ReadWriteConflict { .. }) && error.is_retriable(), "{error}");
    }
    (a.is_ok(), b.is_ok())
}

#[test]
fn write_skew_is_possible_only_without_serializability() {
    assert_eq!(write_skew(ConflictHandler::WriteWriteByCell, false), (true, true));
    assert_eq!(write_skew(ConflictHandler::SerializableByCell, false), (true, false));
}

#[test]
fn phantoms_are_conflicts_in_serializable_tables() {
    for by_rows in [false, true] {
        let transactions = in_memory();
        let table = transactions.table("t", ConflictHandler::SerializableByCell).unwrap();
        let log = transactions.table("log", ConflictHandler::SerializableByCell).unwrap();
        set(&transactions, &table, "m", "1");
        let count = |tx: &mut Transaction| {
            if by_rows {
                tx.rows(&table, None, 10).unwrap().len()
            } else {
                tx.columns::<&str>(&table, "row", .., 10).unwrap().len()
            }
        };
        let mut reader = transactions.start().unwrap();
        count(&mut reader);
        reader.put(&log, "count", "n", "1").unwrap();
        // Its own write in the range is not a conflict.
        put(&mut reader, &table, "own", "1");
        let mut undisturbed = transactions.start().unwrap();
        count(&mut undisturbed);
        undisturbed.put(&log, "count", "other", "1").unwrap();
        undisturbed.commit().unwrap();
        let row = if by_rows { "elsewhere" } else { "row" };
        transactions.run(|tx| tx.put(&table, row, "new", "1")).unwrap();
        let error = reader.commit().unwrap_err();
        assert!(matches!(error, Error::ReadWriteConflict { .. }), "{error}");
    }
}

#[test]
fn a_reader_waits_for_a_committing_writer_and_sees_its_write() {
    let transactions = over(Arc::new(MemoryStore::new()), options());
    let table = transactions.table("t", ConflictHandler::WriteWriteByCell).unwrap();
    let mut writer = transactions.start().unwrap();
    put(&mut writer, &table, "a", "1");
    let mut reader = None;
    writer
        .commit_if(|commit| {
            // It begins above the commit timestamp, so its snapshot includes the write.
            let tx = transactions.start().unwrap();
            assert!(tx.start_timestamp() > commit.unwrap());
            let table = table.clone();
            reader = Some(std::thread::spawn(move || get(&tx, &table, "a")));
            Ok(())
        })
        .unwrap();
    assert_eq!(reader.unwrap().join().unwrap().as_deref(), Some("1"));
}

#[test]
fn a_transaction_with_lost_locks_does_not_commit() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let timelock = Arc::new(LocalTimeLock::open(store.clone()).unwrap());
    let transactions = Transactions::open(store, timelock.clone(), options()).unwrap();
    let table = transactions.table("t", ConflictHandler::WriteWriteByCell).unwrap();
    let mut tx = transactions.start().unwrap();
    put(&mut tx, &table, "a", "1");
    let start = tx.start_timestamp();
    let error = tx
        .commit_if(|_| {
            timelock.revoke_all();
            Ok(())
        })
        .unwrap_err();
    assert!(matches!(error, Error::LocksLost { .. }) && error.is_retriable(), "{error}");
    assert_eq!(transactions.service().get(start).unwrap(), Some(TransactionStatus::Aborted));
    assert_eq!(get(&transactions.start().unwrap(), &table, "a"), None);
}

#[test]
fn a_rolled_back_transaction_does_not_commit() {
    let transactions = in_memory();
    let table = transactions.table("t", ConflictHandler::WriteWriteByCell).unwrap();
    let mut tx = transactions.start().unwrap();
    put(&mut tx, &table, "a", "1");
    let start = tx.start_timestamp();
    let roll_back = |_| {
        transactions
            .service()
            .put_unless_exists(start, TransactionStatus::Aborted)
            .map(drop)
            .map_err(Error::from)
    };
    let error = tx.commit_if(roll_back).unwrap_err();
    assert!(matches!(error, Error::RolledBack { .. }) && error.is_retriable(), "{error}");
    assert_eq!(get(&transactions.start().unwrap(), &table, "a"), None);
}

#[test]
fn reads_skip_and_remove_versions_of_aborted_transactions() {
    let store = Arc::new(MemoryStore::new());
    let transactions = over(store.clone(), options());
    let table = transactions.table("t", ConflictHandler::WriteWriteByCell).unwrap();
    set(&transactions, &table, "a", "good");
    for n in 0..5 {
        let mut tx = transactions.start().unwrap();
        put(&mut tx, &table, "a", &format!("bad{n}"));
        tx.commit_if(|_| Err(Error::caller("no"))).unwrap_err();
    }
    assert_eq!(get(&transactions.start().unwrap(), &table, "a").as_deref(), Some("good"));
    let cell = Cell::new("row", "a");
    let newest = store.get("t", &[(&cell, cassette_transactions::Timestamp::MAX)]).unwrap().pop().unwrap();
    assert_eq!(newest.unwrap().value, "good");
}

#[test]
fn reads_skip_any_number_of_versions_of_dead_transactions() {
    let store = Arc::new(MemoryStore::new());
    let transactions = over(store.clone(), options());
    let table = transactions.table("t", ConflictHandler::WriteWriteByCell).unwrap();
    set(&transactions, &table, "a", "good");
    let cell = Cell::new("row", "a");
    for n in 0..1_100 {
        let at = transactions.timelock().timestamp().unwrap();
        let value = Bytes::from(format!("of the dead {n}"));
        let put = Put { table: "t", cell: &cell, timestamp: at, value, write_time: at.0 };
        store.put(&[put]).unwrap();
    }
    assert_eq!(get(&transactions.start().unwrap(), &table, "a").as_deref(), Some("good"));
    let newest = store.get("t", &[(&cell, Timestamp::MAX)]).unwrap().pop().unwrap();
    assert_eq!(newest.unwrap().value, "good");
}

#[test]
fn a_read_behind_too_many_commits_fails_and_a_newer_one_succeeds() {
    let transactions = in_memory();
    let table = transactions.table("t", ConflictHandler::Ignore).unwrap();
    set(&transactions, &table, "a", "old");
    let mut writers: Vec<Transaction> = (0..201).map(|_| transactions.start().unwrap()).collect();
    let reader = transactions.start_read_only().unwrap();
    for (n, tx) in writers.iter_mut().enumerate() {
        put(tx, &table, "a", &format!("new {n}"));
    }
    for tx in writers {
        tx.commit().unwrap();
    }
    let error = reader.get(&table, "row", "a").unwrap_err();
    assert!(matches!(error, Error::TooManyVersions { versions: 200, .. }), "{error}");
    assert!(error.to_string().contains("begin the transaction again"), "{error}");
    assert_eq!(get(&transactions.start().unwrap(), &table, "a").as_deref(), Some("new 200"));
}

#[test]
fn duplicate_start_timestamps_are_detected_at_commit() {
    let transactions = in_memory();
    let table = transactions.table("t", ConflictHandler::WriteWriteByCell).unwrap();
    let mut tx = transactions.start().unwrap();
    put(&mut tx, &table, "a", "1");
    let start = tx.start_timestamp();
    let error = tx
        .commit_if(|commit| {
            // As another transaction with the same start timestamp would.
            let other = TransactionStatus::Committed(Timestamp(commit.unwrap().0 - 1));
            transactions.service().put_unless_exists(start, other).map(drop).map_err(Error::from)
        })
        .unwrap_err();
    assert!(matches!(error, Error::TwoCommits { .. }), "{error}");
    assert_eq!((error.outcome(), error.is_retriable()), (Outcome::Unknown, false));
    assert!(error.to_string().contains("stop all writers"), "{error}");
}

#[test]
fn row_locking_detects_write_skew_within_and_between_rows() {
    let transactions = in_memory();
    let table = transactions.table("t", ConflictHandler::SerializableByRow).unwrap();
    for (n, (one, other)) in [(("r", "a"), ("r", "b")), (("r", "c"), ("s", "c"))].into_iter().enumerate() {
        let begin = |own: (&str, &str)| {
            let mut tx = transactions.start().unwrap();
            for (row, column) in [one, other] {
                assert_eq!(tx.get(&table, row, column).unwrap(), None);
            }
            tx.put(&table, own.0, own.1, "on duty no more").unwrap();
            tx
        };
        let (first, second) = (begin(one), begin(other));
        first.commit().unwrap();
        let error = second.commit().unwrap_err();
        assert!(matches!(error, Error::ReadWriteConflict { .. }), "{n}: {error}");
        assert!(error.to_string().contains("has not committed: run it again"), "{error}");
    }
}

#[test]
fn a_failing_condition_or_body_has_no_effect() {
    let transactions = in_memory();
    let table = transactions.table("t", ConflictHandler::WriteWriteByCell).unwrap();
    let error = transactions
        .run(|tx| {
            put(tx, &table, "a", "1");
            Err::<(), _>(Error::caller("changed my mind"))
        })
        .unwrap_err();
    assert_eq!(error.to_string(), "changed my mind");
    assert_eq!(get(&transactions.start().unwrap(), &table, "a"), None);
}

#[test]
fn invalid_operations_are_rejected_with_their_error() {
    let transactions = in_memory();
    let table = transactions.table("t", ConflictHandler::WriteWriteByCell).unwrap();
    let mut tx = transactions.start().unwrap();
    assert!(matches!(tx.put(&table, "row", "c", ""), Err(Error::EmptyValue { .. })));
    let mut reader = transactions.start_read_only().unwrap();
    assert!(matches!(reader.put(&table, "row", "c", "v"), Err(Error::ReadOnly { .. })));
    assert!(matches!(
        transactions.table("_transactions", ConflictHandler::Ignore),
        Err(Error::ReservedTable(_))
    ));
    assert!(matches!(transactions.table("t", ConflictHandler::Ignore), Err(Error::OtherHandler { .. })));
    assert!(matches!(transactions.table("no name", ConflictHandler::Ignore), Err(Error::Store(_))));
    let hasty = options().age_max(Duration::ZERO);
    let transactions = over(Arc::new(MemoryStore::new()), hasty);
    let table = transactions.table("t", ConflictHandler::WriteWriteByCell).unwrap();
    let error = transactions.start().unwrap().get(&table, "row", "c").unwrap_err();
    assert!(matches!(error, Error::OpenTooLong { .. }), "{error}");
}

#[test]
fn invalid_cell_names_are_rejected_when_written() {
    let embedded = Arc::new(EmbeddedStore::open(database(), "tx").unwrap());
    for store in [Arc::new(MemoryStore::new()) as Arc<dyn Store>, embedded] {
        let transactions = over(store.clone(), options());
        let table = transactions.table("t", ConflictHandler::WriteWriteByCell).unwrap();
        let long = |length: usize| vec![b'n'; length];
        let mut tx = transactions.start().unwrap();
        for (row, column, what) in [
            (long(0), long(1), "expected at least 1 byte"),
            (long(65_536), long(1), "found 65536"),
            (long(1), long(65_528), "at most 65527"),
            (long(1), long(70_000), "found 70000"),
        ] {
            let cell = Cell::new(row.clone(), column.clone());
            for error in [
                tx.put(&table, &row, &column, "v").unwrap_err(),
                tx.delete(&table, &row, &column).unwrap_err(),
                tx.get(&table, &row, &column).unwrap_err(),
            ] {
                assert!(matches!(error, Error::Name { .. }), "{error}");
                assert!(error.to_string().contains(what) && !error.is_retriable(), "{error}");
            }
            let (at, value) = (Timestamp(5), Bytes::from("v"));
            let put = Put { table: "t", cell: &cell, timestamp: at, value: value.clone(), write_time: 5 };
            let error = store.put(&[put]).unwrap_err();
            assert!(error.to_string().contains(what), "{error}");
            let put = PutRow { row: cell.row, columns: vec![(cell.column, value)] };
            let error = store.put_unless_exists("t", &[put]).pop().unwrap().unwrap_err();
            assert!(error.to_string().contains(what), "{error}");
        }
        let (row, column) = (long(65_535), long(65_527));
        tx.put(&table, &row, &column, "longest").unwrap();
        tx.put(&table, "row", "", "no name").unwrap();
        tx.commit().unwrap();
        let tx = transactions.start().unwrap();
        assert_eq!(text(tx.get(&table, &row, &column).unwrap()).as_deref(), Some("longest"));
        assert_eq!(text(tx.get(&table, "row", "").unwrap()).as_deref(), Some("no name"));
    }
}

#[test]
fn opening_an_embedded_store_twice_shares_its_timestamps() {
    let database = database();
    let open = || Transactions::embedded(database.clone(), "bank").unwrap();
    let (one, other) = (open(), open());
    let counter = |transactions: &Transactions| {
        transactions.table("counters", ConflictHandler::WriteWriteByCell).unwrap().column::<String, i64>("n")
    };
    std::thread::scope(|scope| {
        for transactions in [&one, &other] {
            let counter = counter(transactions);
            scope.spawn(move || {
                for _ in 0..100 {
                    let add = |tx: &mut Transaction| {
                        let n = counter.get(tx, "hits")?.unwrap_or(0);
                        counter.put(tx, "hits", n + 1)
                    };
                    transactions.run(add).unwrap();
                }
            });
        }
    });
    assert_eq!(other.read(|tx| counter(&other).get(tx, "hits")).unwrap(), Some(200));
    let store = || Arc::new(EmbeddedStore::open(database.clone(), "bank").unwrap());
    let error = LocalTimeLock::open(store()).map(drop).unwrap_err();
    assert!(matches!(error, TimeLockError::AlreadyOpen { .. }), "{error}");
    drop(one);
    assert!(LocalTimeLock::open(store()).is_err());
    let elsewhere = Arc::new(EmbeddedStore::open(database.clone(), "other").unwrap());
    let _another_keyspace = LocalTimeLock::open(elsewhere).unwrap();
    // Only an open transaction keeps it open.
    let tx = other.start().unwrap();
    drop(other);
    let again = open();
    assert!(again.start().unwrap().start_timestamp() > tx.start_timestamp());
    drop((again, tx));
    let own = LocalTimeLock::open(store()).unwrap();
    let error = Transactions::embedded(database.clone(), "bank").map(drop).unwrap_err();
    assert!(matches!(error, Error::TimeLock(TimeLockError::AlreadyOpen { .. })), "{error}");
    drop(own);
    assert_eq!(open().read(|tx| counter(&open()).get(tx, "hits")).unwrap(), Some(200));
}

#[test]
fn a_table_keeps_its_conflict_handler_across_processes() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let open = || over(store.clone(), options());
    open().table("t", ConflictHandler::WriteWriteByCell).unwrap();
    let other = open();
    let error = other.table("t", ConflictHandler::SerializableByRow).unwrap_err();
    assert!(matches!(error, Error::OtherHandler { .. }), "{error}");
    assert!(error.to_string().contains("write-write by cell") && !error.is_retriable(), "{error}");
    other.table("t", ConflictHandler::WriteWriteByCell).unwrap();
    // Created before handlers were stored: the first client that opens it decides.
    let row = Bytes::from("old");
    let put = PutRow { row, columns: vec![("sweep".into(), "conservative".into())] };
    store.put_unless_exists("_metadata", &[put]).pop().unwrap().unwrap();
    other.table("old", ConflictHandler::SerializableByCell).unwrap();
    assert!(matches!(open().table("old", ConflictHandler::Ignore), Err(Error::OtherHandler { .. })));
}

#[test]
fn input_errors_report_no_commit_and_give_advice() {
    let transactions = in_memory();
    let table = transactions.table("t", ConflictHandler::WriteWriteByCell).unwrap();
    let number = table.column::<String, i64>("c");
    transactions.run(|tx| tx.put(&table, "row", "c", "text")).unwrap();
    let mut tx = transactions.start().unwrap();
    let mut reader = transactions.start_read_only().unwrap();
    let errors = [
        (tx.put(&table, "row", "c", "").unwrap_err(), "delete"),
        (number.get(&tx, "row").unwrap_err(), "type"),
        (reader.delete(&table, "row", "c").unwrap_err(), "Transactions::run"),
        (transactions.table("_x", ConflictHandler::Ignore).unwrap_err(), "underscore"),
        (transactions.table("t", ConflictHandler::Ignore).unwrap_err(), "handler"),
    ];
    for (error, advice) in errors {
        assert!(error.advice().contains(advice), "{error}: {}", error.advice());
        assert_eq!((error.outcome(), error.is_retriable()), (Outcome::NotCommitted, false), "{error}");
    }
    // Outside of the range of timestamps, neither puts nor timestamps are possible.
    let start = Timestamp(0);
    let error = transactions.service().put_unless_exists(start, TransactionStatus::Aborted).unwrap_err();
    assert!(error.to_string().contains("expected at least 1"), "{error}");
    let error = transactions.timelock().fast_forward(Timestamp::MAX).unwrap_err();
    assert!(error.to_string().contains("fast-forward out of range"), "{error}");
    transactions.run(|tx| tx.put(&table, "row", "d", "still works")).unwrap();
}

#[test]
fn concurrent_transfers_preserve_the_total() {
    const ACCOUNTS: usize = 6;
    for (store, layout) in [
        (Arc::new(MemoryStore::new()) as Arc<dyn Store>, 3),
        (Arc::new(EmbeddedStore::open(database(), "bank").unwrap()), 2),
    ] {
        let layout = Layout::of_version(layout);
        let batch_commit_records = Some(layout == Layout::of_version(3));
        let transactions = over(store, options().layout(layout).batch_commit_records(batch_commit_records));
        let table = transactions.table("accounts", ConflictHandler::WriteWriteByCell).unwrap();
        let balance = |tx: &mut Transaction, account: usize| -> Result<i64, Error> {
            let value = text(tx.get(&table, format!("a{account}"), "balance")?);
            Ok(value.map_or(0, |value| value.parse().unwrap()))
        };
        transactions
            .run(|tx| (0..ACCOUNTS).try_for_each(|a| tx.put(&table, format!("a{a}"), "balance", "100")))
            .unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (transactions, table, balance) = (&transactions, &table, &balance);
                scope.spawn(move || {
                    for n in 0..40 {
                        let (from, to) = ((thread + n) % ACCOUNTS, (thread * 2 + n * 3 + 1) % ACCOUNTS);
                        if from == to {
                            continue;
                        }
                        transactions
                            .run(|tx| {
                                let (a, b) = (balance(tx, from)?, balance(tx, to)?);
                                tx.put(table, format!("a{from}"), "balance", (a - 1).to_string())?;
                                tx.put(table, format!("a{to}"), "balance", (b + 1).to_string())
                            })
                            .unwrap();
                        let mut reader = transactions.start_read_only().unwrap();
                        let sum: i64 = (0..ACCOUNTS).map(|a| balance(&mut reader, a).unwrap()).sum();
                        assert_eq!(sum, 100 * ACCOUNTS as i64);
                    }
                });
            }
        });
    }
}
