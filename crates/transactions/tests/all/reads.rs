//! Reads of several threads, of whole rows, and at earlier timestamps.

use std::sync::{Arc, Barrier};

use cassette_transactions::store::{EmbeddedStore, MemoryStore, Store};
use cassette_transactions::sweep::SweepStrategy;
use cassette_transactions::{ConflictHandler, Error, Timestamp, Transaction};

use super::conformance::database;
use super::transactions::{get, in_memory, options, over, put, set};

#[test]
fn threads_read_concurrently_in_one_transaction() {
    for store in [
        Arc::new(MemoryStore::new()) as Arc<dyn Store>,
        Arc::new(EmbeddedStore::open(database(), "tx").unwrap()),
    ] {
        let transactions = over(store, options());
        let table = transactions.table("t", ConflictHandler::SerializableByCell).unwrap();
        let name = |n: usize| format!("c{n}");
        transactions.run(|tx| (0..8).try_for_each(|n| tx.put(&table, "row", name(n), name(n)))).unwrap();
        let mut tx = transactions.start().unwrap();
        tx.put(&table, "row", "c0", "own").unwrap();
        transactions.run(|other| other.put(&table, "row", "c7", "later")).unwrap();
        // Both threads are between two reads at the same time.
        let barrier = Barrier::new(2);
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let (tx, table, barrier) = (&tx, &table, &barrier);
                scope.spawn(move || {
                    for n in 0..4 {
                        barrier.wait();
                        let n = 2 * n + thread;
                        let expected = if n == 0 { "own".to_owned() } else { name(n) };
                        assert_eq!(get(tx, table, &name(n)), Some(expected));
                    }
                });
            }
        });
        // The reads of all threads are validated.
        let error = tx.commit().unwrap_err();
        assert!(matches!(error, Error::ReadWriteConflict { .. }), "{error}");
    }
}

#[test]
fn whole_rows_are_read_together_with_own_writes_merged() {
    for store in [
        Arc::new(MemoryStore::new()) as Arc<dyn Store>,
        Arc::new(EmbeddedStore::open(database(), "tx").unwrap()),
    ] {
        let transactions = over(store, options());
        let table = transactions.table("t", ConflictHandler::SerializableByRow).unwrap();
        // One row of several pages, and more rows than one read loads together.
        transactions
            .run(|tx| {
                (0..2_500).try_for_each(|n| tx.put(&table, "wide", format!("{n:04}"), "v"))?;
                (0..250).try_for_each(|n| tx.put(&table, format!("r{n}"), "c", format!("v{n}")))
            })
            .unwrap();
        let mut tx = transactions.start().unwrap();
        tx.put(&table, "wide", "0000x", "own").unwrap();
        tx.delete(&table, "wide", "0001").unwrap();
        tx.put(&table, "new", "c", "own").unwrap();
        let mut names: Vec<String> =
            vec!["wide".into(), "absent".into(), "new".into(), "r3".into(), "r3".into()];
        names.extend((0..250).map(|n| format!("r{n}")));
        let rows = tx.get_rows(&table, &names).unwrap();
        assert!(rows.iter().map(|row| &row.row[..]).eq(names.iter().map(String::as_bytes)));
        let columns: Vec<&[u8]> = rows[0].columns.iter().map(|(column, _)| &column[..]).collect();
        assert_eq!(columns[..3], [&b"0000"[..], b"0000x", b"0002"]);
        assert_eq!((columns.len(), columns.last().copied()), (2_500, Some(&b"2499"[..])));
        assert_eq!(rows[1].columns, []);
        assert_eq!(rows[2].columns, [("c".into(), "own".into())]);
        for (n, row) in rows[5..].iter().enumerate() {
            assert_eq!(row.columns, [("c".into(), format!("v{n}").into())]);
        }
        // A column that appears in a row that was read is a conflict.
        transactions.run(|other| other.put(&table, "absent", "c", "v")).unwrap();
        let error = tx.commit().unwrap_err();
        assert!(matches!(error, Error::ReadWriteConflict { .. }), "{error}");
    }
}

#[test]
fn snapshots_are_read_at_any_timestamp_that_an_open_transaction_preserves() {
    for strategy in [SweepStrategy::Conservative, SweepStrategy::Thorough] {
        let transactions = in_memory();
        let table = transactions.table_swept("t", ConflictHandler::WriteWriteByCell, strategy).unwrap();
        set(&transactions, &table, "n", "before");
        let mut preserved = transactions.start().unwrap();
        let commits: Vec<Timestamp> = (0..5)
            .map(|n| {
                let mut tx = transactions.start().unwrap();
                put(&mut tx, &table, "n", &n.to_string());
                tx.commit().unwrap().unwrap()
            })
            .collect();
        transactions.run(|tx| tx.delete(&table, "row", "n")).unwrap();
        transactions.sweep().unwrap();
        put(&mut preserved, &table, "n", "own");
        let at = |from: &Transaction, at: Timestamp| get(&from.snapshot_at(at).unwrap(), &table, "n");
        for (n, commit) in commits.iter().enumerate() {
            assert_eq!(at(&preserved, Timestamp(commit.0 + 1)), Some(n.to_string()));
            let before = n.checked_sub(1).map_or("before".to_owned(), |before| before.to_string());
            assert_eq!(at(&preserved, *commit), Some(before), "a commit is visible above its timestamp");
        }
        assert_eq!(at(&preserved, preserved.start_timestamp()).as_deref(), Some("before"));
        let now = transactions.timelock().timestamp().unwrap();
        assert_eq!(at(&preserved, now), None);

        // Below what it preserves, and in the future.
        let newer = transactions.start_read_only().unwrap();
        for (from, asked) in [(&newer, commits[0]), (&preserved, Timestamp(now.0 + 1_000_000_000))] {
            let Err(error) = from.snapshot_at(asked) else { panic!("a snapshot at {asked}") };
            assert!(matches!(error, Error::NoSnapshot { .. }) && !error.is_retriable(), "{error}");
        }

        // A snapshot preserves what it reads after the transaction has ended, and is read-only.
        let mut snapshot = preserved.snapshot_at(Timestamp(commits[2].0 + 1)).unwrap();
        drop((preserved, newer));
        transactions.sweep().unwrap();
        assert_eq!(get(&snapshot, &table, "n").as_deref(), Some("2"));
        assert!(matches!(snapshot.put(&table, "row", "n", "x"), Err(Error::ReadOnly { .. })));
        drop(snapshot);
        transactions.sweep().unwrap();
        let next = transactions.start_read_only().unwrap();
        assert!(next.snapshot_at(commits[2]).is_err());
    }
}
