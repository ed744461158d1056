//! Builds of indexes beside writers, after crashes, and by clients that die.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use cassette_database::Database;
use cassette_engine::commitlog::SyncMode;
use cassette_transactions::store::{EmbeddedStore, FailingStore, Fault, MemoryStore, Store};
use cassette_transactions::timelock::LocalTimeLock;
use cassette_transactions::{ConflictHandler, Error, Result, Transactions};
use cassette_vfs::FakeFileSystem;

use super::conformance::database;
use super::indexes::{by_word, check, words};
use super::transactions::{in_memory, options, over};

/// Sets a flag when dropped.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A text that depends on its arguments only.
fn text(row: u32, round: u32) -> String {
    let word = |seed: u32| ["red", "green", "blue", "black"][(seed % 4) as usize];
    format!("{} {}", word(row.wrapping_mul(31).wrapping_add(round)), word(round / 3))
}

#[test]
fn an_index_is_built_and_read_while_threads_write() {
    let stores: [Arc<dyn Store>; 2] =
        [Arc::new(MemoryStore::new()), Arc::new(EmbeddedStore::open(database(), "tx").unwrap())];
    for store in stores {
        let transactions = over(store, options());
        let table = transactions.table("t", ConflictHandler::WriteWriteByCell).unwrap();
        let words = words(&table);
        // The writers below leave the last 150 rows alone, so the build alone indexes those.
        for part in 0..7u32 {
            transactions
                .run(|tx| {
                    (part * 200..part * 200 + 200).try_for_each(|row| words.put(tx, row, &text(row, 0)))
                })
                .unwrap();
        }
        let (stop, written) = (AtomicBool::new(false), AtomicU32::new(0));
        std::thread::scope(|scope| {
            // Ends the writers also if an assertion fails.
            let _stop = StopOnDrop(&stop);
            for thread in 0..3u32 {
                let (transactions, words, stop, written) = (&transactions, &words, &stop, &written);
                scope.spawn(move || {
                    for round in 1.. {
                        let row = (round * 7 + thread * 3) % 1_250;
                        let result = transactions.run(|tx| {
                            if round.is_multiple_of(5) {
                                words.delete(tx, row)
                            } else {
                                words.put(tx, row, &text(row, round))
                            }
                        });
                        result.unwrap();
                        written.fetch_add(1, Ordering::Relaxed);
                        if stop.load(Ordering::Relaxed) && round >= 100 || round >= 4_000 {
                            break;
                        }
                    }
                });
            }
            let index = by_word(&words).shards(2).open(&transactions).unwrap();
            let built = index.build(&transactions).unwrap();
            assert!(built.cells >= 150 && built.entries >= 150, "{built:?}");
            for _ in 0..3 {
                check(&transactions.start_read_only().unwrap(), &table, &index);
            }
        });
        assert!(written.into_inner() >= 300);
        let index = by_word(&words).shards(2).open(&transactions).unwrap();
        check(&transactions.start_read_only().unwrap(), &table, &index);
    }
}

fn open(file_system: &FakeFileSystem) -> Result<Transactions> {
    let file_system = Arc::new(file_system.clone());
    let mut options_of =
        cassette_database::Options { file_system, ..cassette_database::Options::new("/data") };
    options_of.engine.background_threads = false;
    options_of.engine.commitlog_sync = SyncMode::Batch;
    let database = Database::open(options_of).expect("the file system works while it is opened");
    let store: Arc<dyn Store> = Arc::new(EmbeddedStore::open(database, "tx")?);
    let timelock = Arc::new(LocalTimeLock::open(store.clone())?);
    Transactions::open(store, timelock, options())
}

#[test]
fn an_interrupted_build_continues_after_a_crash_and_the_index_is_correct() {
    let mut file_system = FakeFileSystem::new();
    let mut transactions = open(&file_system).unwrap();
    let table = transactions.table("t", ConflictHandler::WriteWriteByRow).unwrap();
    for part in 0..3u32 {
        let rows = part * 400..part * 400 + 400;
        transactions
            .run(|tx| rows.clone().try_for_each(|row| words(&table).put(tx, row, &text(row, 1))))
            .unwrap();
    }
    let mut parts = 0;
    for round in 0..14u32 {
        let table = transactions.table("t", ConflictHandler::WriteWriteByRow).unwrap();
        let words = words(&table);
        file_system.fail_from(file_system.operations() + 2 * u64::from(round));
        let attempt = || -> Result<u64> {
            let index = by_word(&words).open(&transactions)?;
            words_written(&transactions, &words, round)?;
            let built = index.build(&transactions)?;
            words_written(&transactions, &words, round + 100)?;
            Ok(built.cells)
        };
        let result = attempt();
        file_system = file_system.kill();
        drop(transactions);
        transactions = open(&file_system).unwrap();
        parts += u32::from(matches!(result, Ok(cells) if cells < 1_000));
        let table = transactions.table("t", ConflictHandler::WriteWriteByRow).unwrap();
        let index = by_word(&super::indexes::words(&table)).open(&transactions).unwrap();
        let tx = transactions.start_read_only().unwrap();
        match index.range(&tx, ..).next().transpose() {
            Ok(_) => check(&tx, &table, &index),
            Err(error) => {
                assert!(matches!(error, Error::IndexIncomplete { .. }), "{error}");
                assert!(result.is_err(), "a build that returned is durable");
            }
        }
    }
    assert!(parts > 0, "a later build continues an earlier one");
}

fn words_written(
    transactions: &Transactions,
    words: &cassette_transactions::Column<u32, String>,
    round: u32,
) -> Result<()> {
    let mut tx = transactions.start()?;
    for row in [round % 7, 600 + round] {
        words.put(&mut tx, row, &text(row, round))?;
    }
    words.delete(&mut tx, 300 + round)?;
    tx.commit().map(drop)
}

#[test]
fn a_client_dying_at_any_call_leaves_a_correct_index() {
    for fault in [Fault::Lost, Fault::Half, Fault::Unanswered] {
        for n in (1..).step_by(3) {
            let below: Arc<dyn Store> = Arc::new(MemoryStore::new());
            let timelock = Arc::new(LocalTimeLock::open(below.clone()).unwrap());
            let options = options().lock_timeout(Duration::from_millis(200));
            let client = |store: Arc<dyn Store>| {
                Transactions::open(
                    store,
                    timelock.clone(),
                    options.clone().retries(cassette_transactions::Retries::none()),
                )
            };
            let survivor = client(below.clone()).unwrap();
            let table = survivor.table("t", ConflictHandler::WriteWriteByCell).unwrap();
            let own = words(&table);
            survivor.run(|tx| (0..9).try_for_each(|row| own.put(tx, row, &text(row, 0)))).unwrap();
            let failing = Arc::new(FailingStore::new(below.clone()));
            let dying = client(failing.clone()).unwrap();
            let of_dying = words(&dying.table("t", ConflictHandler::WriteWriteByCell).unwrap());
            failing.die_at(n, fault);
            let attempt = || -> Result<()> {
                let index = by_word(&of_dying).open(&dying)?;
                dying.run(|tx| of_dying.put(tx, 2, "dying words"))?;
                index.build(&dying)?;
                dying.run(|tx| of_dying.put(tx, 3, "last words"))?;
                dying.drop_index("t", "by word")?;
                by_word(&of_dying).open(&dying)?.build(&dying).map(drop)
            };
            let result = attempt();
            let index = by_word(&own).open(&survivor).unwrap();
            survivor.run(|tx| own.put(tx, 4, "survivor")).unwrap();
            index.build(&survivor).unwrap();
            check(&survivor.start_read_only().unwrap(), &table, &index);
            if failing.calls() < n {
                result.unwrap();
                break;
            }
        }
    }
}

#[test]
fn a_build_of_large_rows_is_bounded_and_resumes_within_a_row() {
    let transactions = in_memory();
    let table = transactions.table("t", ConflictHandler::WriteWriteByCell).unwrap();
    let columns = table.columns::<String, u32, u64>();
    for part in 0..4u32 {
        let names = part * 500..part * 500 + 500;
        transactions
            .run(|tx| names.clone().try_for_each(|name| columns.put(tx, "row", name, u64::from(name) / 2)))
            .unwrap();
    }
    transactions.run(|tx| columns.put(tx, "other", 3, 7)).unwrap();
    // Twenty entries for each cell.
    let keys = |_: &String, _: &u32, value: &u64| (0..20).map(|n| *value * 100 + n).collect::<Vec<_>>();
    let index = columns.index("many", keys).open(&transactions).unwrap();
    let built = index.build(&transactions).unwrap();
    assert_eq!((built.cells, built.entries), (2_001, 2_001 * 20));
    let tx = transactions.start_read_only().unwrap();
    assert_eq!(index.range(&tx, ..).count(), 2_001 * 20);
    assert_eq!(
        index.get(&tx, 705u64).collect::<Result<Vec<_>>>().unwrap(),
        [("other".to_owned(), 3), ("row".to_owned(), 14), ("row".to_owned(), 15)]
    );
}

#[test]
fn a_build_reports_duplicates_of_a_unique_key_and_succeeds_without_them() {
    let transactions = in_memory();
    let table = transactions.table("t", ConflictHandler::WriteWriteByCell).unwrap();
    let names = table.column::<u32, String>("name");
    transactions
        .run(|tx| (1..=3).try_for_each(|row| names.put(tx, row, &format!("name {}", row / 3))))
        .unwrap();
    let index = names.index("unique", |_, name| [name.clone()]).unique().open(&transactions).unwrap();
    let duplicate = index.build(&transactions).unwrap_err();
    assert!(matches!(duplicate, Error::UniqueViolation { .. }), "{duplicate}");
    // Rows without entries can be changed and deleted; keys that have entries are protected.
    transactions.run(|tx| names.put(tx, 4, "name 0")).unwrap();
    transactions.run(|tx| names.delete(tx, 1)).unwrap();
    assert!(matches!(index.build(&transactions).unwrap_err(), Error::UniqueViolation { .. }));
    transactions.run(|tx| names.delete(tx, 2)).unwrap();
    index.build(&transactions).unwrap();
    let tx = transactions.start_read_only().unwrap();
    let found: Vec<(String, u32)> = index.range(&tx, ..).collect::<Result<_>>().unwrap();
    assert_eq!(found, [("name 0".to_owned(), 4), ("name 1".to_owned(), 3)]);
}
