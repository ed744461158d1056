//! Reads for update, changes of numbers, and savepoints.

use std::sync::Arc;
use std::time::Duration;

use cassette_transactions::store::{Cell, EmbeddedStore, MemoryStore, Store};
use cassette_transactions::timelock::TimeLockError;
use cassette_transactions::{ConflictHandler, Error, Timestamp};

use super::conformance::database;
use super::transactions::{in_memory, options, over, put, set, text, write_skew};

#[test]
fn reading_for_update_prevents_write_skew() {
    for handler in [
        ConflictHandler::WriteWriteByRow,
        ConflictHandler::WriteWriteByCell,
        ConflictHandler::SerializableByRow,
        ConflictHandler::SerializableByCell,
    ] {
        assert_eq!(write_skew(handler, true), (true, false), "{handler:?}");
    }
}

#[test]
fn a_cell_read_for_update_is_locked_and_checked_but_not_written() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let transactions = over(store.clone(), options().lock_timeout(Duration::from_millis(20)));
    let table = transactions.table("t", ConflictHandler::WriteWriteByCell).unwrap();
    set(&transactions, &table, "a", "old");
    let cell = Cell::new("row", "a");
    let newest = || store.get("t", &[(&cell, Timestamp::MAX)]).unwrap().remove(0).unwrap().timestamp;
    let before = newest();
    let mut tx = transactions.start().unwrap();
    assert_eq!(text(tx.get_for_update(&table, "row", "a").unwrap()).as_deref(), Some("old"));
    assert_eq!(tx.get_for_update(&table, "row", "absent").unwrap(), None);
    put(&mut tx, &table, "b", "1");
    tx.commit_if(|_| {
        // Until the commit ends, no other transaction can change what was read.
        for column in ["a", "absent"] {
            let mut other = transactions.start().unwrap();
            put(&mut other, &table, column, "new");
            let error = other.commit().unwrap_err();
            assert!(matches!(error, Error::TimeLock(TimeLockError::LockTimeout { .. })), "{error}");
        }
        Ok(())
    })
    .unwrap();
    assert_eq!(newest(), before);

    // Created or changed by another transaction, even to the same value: a conflict.
    for column in ["a", "absent"] {
        let mut tx = transactions.start().unwrap();
        let value = text(tx.get_for_update(&table, "row", column).unwrap()).unwrap_or("1".to_owned());
        set(&transactions, &table, column, &value);
        put(&mut tx, &table, "b", "2");
        let error = tx.commit().unwrap_err();
        assert!(matches!(error, Error::ReadWriteConflict { .. }) && error.is_retriable(), "{error}");
        // Without writes there is nothing to protect.
        let tx = transactions.start().unwrap();
        tx.get_for_update(&table, "row", column).unwrap();
        set(&transactions, &table, column, "later");
        assert_eq!(tx.commit().unwrap(), None);
    }

    let unchecked = transactions.table("u", ConflictHandler::Ignore).unwrap();
    let error = transactions.run(|tx| tx.get_for_update(&unchecked, "row", "a")).unwrap_err();
    assert!(matches!(error, Error::NoConflictChecks { .. }) && !error.is_retriable(), "{error}");
    let error = transactions.read(|tx| tx.get_for_update(&table, "row", "a")).unwrap_err();
    assert!(matches!(error, Error::ReadOnly { .. }), "{error}");
}

#[test]
fn concurrent_sums_and_maxima_lose_nothing() {
    for store in [
        Arc::new(MemoryStore::new()) as Arc<dyn Store>,
        Arc::new(EmbeddedStore::open(database(), "tx").unwrap()),
    ] {
        let transactions = over(store, options());
        let table = transactions.table("t", ConflictHandler::WriteWriteByCell).unwrap();
        let (sum, least) = (table.column::<String, i64>("sum"), table.column::<String, i64>("least"));
        let most = table.columns::<String, u64, u32>();
        std::thread::scope(|scope| {
            for thread in 0..4i64 {
                let (transactions, sum, least, most) = (&transactions, &sum, &least, &most);
                scope.spawn(move || {
                    for n in 0..25 {
                        transactions.run(|tx| sum.add(tx, "row", n - 5)).unwrap();
                        transactions.run(|tx| least.min(tx, "row", -(thread * n))).unwrap();
                        transactions.run(|tx| most.max(tx, "row", 7, (thread * n) as u32)).unwrap();
                    }
                });
            }
        });
        let (sum_of_all, least_of_all, most_of_all) = transactions
            .read(|tx| Ok((sum.get(tx, "row")?, least.get(tx, "row")?, most.get(tx, "row", 7)?)))
            .unwrap();
        assert_eq!(sum_of_all, Some(4 * (0..25).map(|n| n - 5).sum::<i64>()));
        assert_eq!((least_of_all, most_of_all), (Some(-72), Some(72)));
        let error = transactions.run(|tx| sum.add(tx, "row", i64::MAX)).unwrap_err();
        assert!(matches!(error, Error::Overflow { .. }) && !error.is_retriable(), "{error}");
        assert_eq!(transactions.run(|tx| most.add(tx, "row", 8, 3)).unwrap(), 3, "absent counts as 0");
        assert_eq!(transactions.run(|tx| least.max(tx, "row", -100)).unwrap(), -72);
    }
}

#[test]
fn a_savepoint_of_another_transaction_is_rejected() {
    let transactions = in_memory();
    let (mut one, mut other) = (transactions.start().unwrap(), transactions.start().unwrap());
    let savepoint = one.savepoint();
    other.savepoint();
    let error = other.roll_back_to(savepoint).unwrap_err();
    assert!(matches!(error, Error::NoSavepoint { .. }) && !error.is_retriable(), "{error}");
    one.release(savepoint).unwrap();
    assert!(one.release(savepoint).is_err(), "released before");
}
