//! Reads of several threads, of whole rows, and at earlier timestamps.

use std::sync::{Arc, Barrier};

use cassette_transactions::store::{EmbeddedStore, MemoryStore, Store};
use cassette_transactions::{ConflictHandler, Error};

use super::conformance::database;
use super::transactions::{get, options, over};

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
