//! Histories of concurrent clients on stores that lose, repeat and delay requests, with dying
//! clients, lost locks, jumping timestamps, sweeping and migration; and a checker that replays
//! them.
//!
//! A transaction must have read the state at its start timestamp: all transactions that committed
//! below it. In serializable tables its reads must also match the state at its commit timestamp.
//! Concurrent transactions must not have written the same cell. A reported commit must have
//! happened, a reported failure must not have, and an unknown outcome must be one of both,
//! permanently.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cassette_transactions::copy::Pass;
use cassette_transactions::service::{Layout, Recorded};
use cassette_transactions::store::{EmbeddedStore, FailingStore, MemoryStore, Store};
use cassette_transactions::sweep::SweepStrategy;
use cassette_transactions::timelock::{LocalTimeLock, TimeLock};
use cassette_transactions::{
    ConflictHandler, Error, Outcome, Table, Timestamp, Transaction, TransactionStatus, Transactions,
};
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::conformance::database;
use super::transactions::options;

const CELLS: u8 = 8;
const CLIENTS: usize = 4;
const ATTEMPTS: usize = 120;

/// Observations of one transaction.
struct Record {
    start: Timestamp,
    /// A read before its own write; `None` if the cell was empty.
    reads: Vec<(u8, Option<String>)>,
    /// Those of `reads` that were for update, by index.
    for_update: Vec<usize>,
    writes: BTreeMap<u8, Option<String>>,
    outcome: Told,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    Committed(Timestamp),
    NotCommitted,
    Nothing,
}

struct World {
    store: Arc<dyn Store>,
    timelock: Arc<LocalTimeLock<Arc<dyn Store>>>,
    handler: ConflictHandler,
    strategy: SweepStrategy,
}

type Failing = Arc<FailingStore<Arc<dyn Store>>>;

impl World {
    fn client(&self, store: Arc<dyn Store>) -> Result<(Transactions, Table), Error> {
        let options = options().lock_timeout(Duration::from_millis(200)).cached_statuses(50);
        let transactions = Transactions::open(store, self.timelock.clone(), options)?;
        let table = transactions.table_swept("t", self.handler, self.strategy)?;
        Ok((transactions, table))
    }

    fn failing_client(&self, seed: u64, one_in: u64) -> (Failing, Transactions, Table) {
        let failing: Failing = Arc::new(FailingStore::new(self.store.clone()));
        let (transactions, table) = self.client(failing.clone()).unwrap();
        failing.fail_randomly(seed, one_in);
        (failing, transactions, table)
    }
}

fn text(value: Option<bytes::Bytes>) -> Option<String> {
    value.map(|value| String::from_utf8(value.to_vec()).unwrap())
}

/// Runs a random transaction; `None` if it did not begin.
fn attempt(transactions: &Transactions, table: &Table, random: &mut StdRng) -> Option<Record> {
    let mut tx = transactions.start().ok()?;
    let start = tx.start_timestamp();
    let (mut reads, mut for_update, mut writes) = (Vec::new(), Vec::new(), BTreeMap::new());
    let mut body = |tx: &mut Transaction| -> Result<(), Error> {
        for step in 0..random.random_range(1..7) {
            let cell = random.random_range(0..CELLS);
            let row = format!("r{}", cell / 2);
            match random.random_range(0..10) {
                0..5 => {
                    let is_for_update = random.random_range(0..3) == 0;
                    let value = if is_for_update {
                        tx.get_for_update(table, &row, [cell])?
                    } else {
                        tx.get(table, &row, [cell])?
                    };
                    if !writes.contains_key(&cell) {
                        if is_for_update {
                            for_update.push(reads.len());
                        }
                        reads.push((cell, text(value)));
                    }
                }
                5 => {
                    let columns = tx.columns::<&[u8]>(table, &row, .., 10)?;
                    let found: HashMap<u8, _> =
                        columns.into_iter().map(|(column, value)| (column[0], text(Some(value)))).collect();
                    for cell in [cell / 2 * 2, cell / 2 * 2 + 1] {
                        if !writes.contains_key(&cell) {
                            reads.push((cell, found.get(&cell).cloned().flatten()));
                        }
                    }
                }
                6 => {
                    tx.delete(table, &row, [cell])?;
                    writes.insert(cell, None);
                }
                _ => {
                    let value = format!("{start}.{step}");
                    tx.put(table, &row, [cell], &value)?;
                    writes.insert(cell, Some(value));
                }
            }
        }
        Ok(())
    };
    let outcome = match body(&mut tx) {
        Err(_) => Told::NotCommitted,
        Ok(()) => match tx.commit() {
            Ok(Some(commit)) => Told::Committed(commit),
            Ok(None) => Told::NotCommitted,
            Err(error) => {
                assert!(!matches!(error, Error::TwoCommits { .. }), "{error}");
                match error.outcome() {
                    Outcome::NotCommitted => Told::NotCommitted,
                    Outcome::Unknown => Told::Nothing,
                }
            }
        },
    };
    Some(Record { start, reads, for_update, writes, outcome })
}

/// The final status of each start timestamp, as read by unrelated clients.
fn standing(world: &World, records: &[Record]) -> HashMap<Timestamp, TransactionStatus> {
    let (one, _) = world.client(world.store.clone()).unwrap();
    let (other, _) = world.client(world.store.clone()).unwrap();
    let mut standing = HashMap::new();
    for record in records {
        let found = one.service().get(record.start).unwrap();
        match (record.outcome, found) {
            (Told::Committed(commit), found) => {
                assert_eq!(found, Some(TransactionStatus::Committed(commit)), "{}", record.start);
            }
            (Told::NotCommitted, found) => {
                assert!(found.and_then(TransactionStatus::commit).is_none(), "{} committed", record.start);
            }
            (Told::Nothing, _) => {}
        }
        let found = found.unwrap_or_else(|| {
            // Decides it for the checker as well.
            match one.service().put_unless_exists(record.start, TransactionStatus::Aborted).unwrap() {
                Recorded::Recorded => TransactionStatus::Aborted,
                Recorded::Exists(standing) => standing,
            }
        });
        assert_eq!(other.service().get(record.start).unwrap(), Some(found), "it stays");
        standing.insert(record.start, found);
    }
    standing
}

/// Violation in a history.
fn check(
    records: &[Record],
    standing: &HashMap<Timestamp, TransactionStatus>,
    serializable: bool,
) -> Vec<String> {
    let mut wrong = Vec::new();
    // By cell in commit order: commit timestamp, start timestamp, value.
    let mut cells: HashMap<u8, Vec<(Timestamp, Timestamp, Option<String>)>> = HashMap::new();
    for record in records {
        if let Some(commit) = standing.get(&record.start).and_then(|found| found.commit()) {
            for (cell, value) in &record.writes {
                cells.entry(*cell).or_default().push((commit, record.start, value.clone()));
            }
        }
    }
    for (cell, versions) in &mut cells {
        versions.sort_by_key(|(commit, ..)| *commit);
        for pair in versions.windows(2) {
            if pair[1].1 < pair[0].0 {
                wrong.push(format!(
                    "lost update of {cell}: {} began before {} committed",
                    pair[1].1, pair[0].0
                ));
            }
        }
    }
    let at = |cell: u8, at: Timestamp| {
        let versions = cells.get(&cell).map_or(&[][..], |versions| versions);
        versions.iter().rev().find(|(commit, ..)| *commit < at).and_then(|(.., value)| value.clone())
    };
    for record in records {
        let commit = standing.get(&record.start).and_then(|found| found.commit());
        for (index, (cell, value)) in record.reads.iter().enumerate() {
            let expected = at(*cell, record.start);
            if *value != expected {
                wrong.push(format!("{} read {value:?} of {cell}, where {expected:?} was", record.start));
            }
            if (serializable || record.for_update.contains(&index))
                && let Some(commit) = commit
                && *value != at(*cell, commit)
                && !record.writes.contains_key(cell)
            {
                wrong.push(format!("{} read {value:?} of {cell}, which {commit} did not find", record.start));
            }
        }
    }
    wrong
}

/// Sweeps everything, and reads all cells.
fn final_reads(world: &World) -> Record {
    let (later, table) = world.client(world.store.clone()).unwrap();
    later.sweep().unwrap();
    let mut last = Record {
        start: later.timelock().timestamp().unwrap(),
        reads: Vec::new(),
        for_update: Vec::new(),
        writes: BTreeMap::new(),
        outcome: Told::NotCommitted,
    };
    later
        .read(|tx| {
            for cell in 0..CELLS {
                last.reads.push((cell, text(tx.get(&table, format!("r{}", cell / 2), [cell])?)));
            }
            Ok(())
        })
        .unwrap();
    last
}

/// Counts down when its thread ends, including by a panic.
struct Runs<'a>(&'a AtomicUsize);

impl Drop for Runs<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Runs the transactions of one client. Occasionally it dies within a transaction, and another one
/// replaces it. Adds the stores with late requests to `late`.
fn run_client(
    world: &World,
    mut random: StdRng,
    one_in: u64,
    records: &Mutex<Vec<Record>>,
    late: &Mutex<Vec<Failing>>,
) {
    let (mut failing, mut transactions, mut table) = world.failing_client(random.random(), one_in);
    for _ in 0..ATTEMPTS {
        let dies = random.random_range(0..20) == 0;
        if dies {
            failing.die_at(random.random_range(1..12), cassette_transactions::store::Fault::Half);
        }
        let record = attempt(&transactions, &table, &mut random);
        records.lock().extend(record);
        if dies {
            late.lock().push(failing);
            (failing, transactions, table) = world.failing_client(random.random(), one_in);
        }
    }
    late.lock().push(failing);
}

/// Runs clients with faults, and checks their history. Returns the number of committed
/// transactions.
fn run(world: &World, seed: u64, one_in: u64, migrates: bool) -> usize {
    let records: Mutex<Vec<Record>> = Mutex::default();
    let running = AtomicUsize::new(CLIENTS);
    let first = world.client(world.store.clone()).unwrap().0;
    let late: Mutex<Vec<Failing>> = Mutex::default();
    std::thread::scope(|scope| {
        for client in 0..CLIENTS as u64 {
            let (records, running, late) = (&records, &running, &late);
            scope.spawn(move || {
                let _runs = Runs(running);
                run_client(world, StdRng::seed_from_u64(seed * 100 + client), one_in, records, late);
            });
        }
        // Sweepers fail too.
        scope.spawn(|| {
            let (failing, transactions, _) = world.failing_client(seed + 7, one_in);
            while running.load(Ordering::SeqCst) > 0 {
                let _ = transactions.sweeper().step();
                std::thread::sleep(Duration::from_millis(1));
            }
            late.lock().push(failing);
        });
        let mut version = 1;
        let mut round = 0;
        while running.load(Ordering::SeqCst) > 0 {
            std::thread::sleep(Duration::from_millis(3));
            round += 1;
            match round % 4 {
                0 if migrates => {
                    version = version % 3 + 1;
                    first.migrate(version).unwrap();
                }
                1 => {
                    let now = world.timelock.timestamp().unwrap();
                    world.timelock.fast_forward(Timestamp(now.0 + 1_234_567)).unwrap();
                }
                2 => world.timelock.revoke_all(),
                _ => {}
            }
        }
    });
    late.into_inner().iter().for_each(|failing| failing.settle());
    let records = records.into_inner();
    let before = standing(world, &records);
    let serializable = world.handler == ConflictHandler::SerializableByCell;
    let wrong = check(&records, &before, serializable);
    assert!(wrong.is_empty(), "seed {seed}: {} of {}: {:#?}", wrong.len(), records.len(), &wrong);
    // The final state matches the history after everything is swept.
    let mut records = records;
    records.push(final_reads(world));
    let wrong = check(&records, &before, serializable);
    assert!(wrong.is_empty(), "seed {seed}, at the end: {wrong:#?}");
    assert_eq!(standing(world, &records[..records.len() - 1]), before, "once read, it stays");
    // So does that of a copy with another layout of commit records.
    records.push(final_reads(&copy_of(world)));
    let wrong = check(&records, &before, serializable);
    assert!(wrong.is_empty(), "seed {seed}, at a copy: {wrong:#?}");
    before.values().filter(|status| status.commit().is_some()).count()
}

/// Copies the store to a new one.
fn copy_of(source: &World) -> World {
    let copy = world(Arc::new(MemoryStore::new()), source.handler, source.strategy, 3);
    let client = |world: &World| world.client(world.store.clone()).unwrap().0;
    let (from, to) = (client(source), client(&copy));
    from.copy_to(&to, Pass::First, |_, _| {}).unwrap();
    assert!(from.copy_to(&to, Pass::Compare, |_, _| {}).unwrap().is_equal());
    copy
}

fn world(store: Arc<dyn Store>, handler: ConflictHandler, strategy: SweepStrategy, layout: u32) -> World {
    let timelock = Arc::new(LocalTimeLock::open(store.clone()).unwrap());
    let options = options().layout(Layout::of_version(layout));
    Transactions::open(store.clone(), timelock.clone(), options).unwrap();
    World { store, timelock, handler, strategy }
}

#[test]
fn histories_satisfy_isolation_under_faults() {
    let handlers = [ConflictHandler::WriteWriteByCell, ConflictHandler::SerializableByCell];
    let strategies = [SweepStrategy::Conservative, SweepStrategy::Thorough];
    let mut seed = 1;
    for handler in handlers {
        for strategy in strategies {
            for (layout, one_in, migrates) in [(2, 1_000_000, false), (3, 25, false), (1, 25, true)] {
                let world = world(Arc::new(MemoryStore::new()), handler, strategy, layout);
                seed += 1;
                let committed = run(&world, seed, one_in, migrates);
                assert!(committed >= 20, "{committed} committed");
            }
        }
    }
}

#[test]
fn histories_on_the_embedded_store_satisfy_isolation() {
    for (seed, strategy) in [(101, SweepStrategy::Conservative), (102, SweepStrategy::Thorough)] {
        let store = Arc::new(EmbeddedStore::open(database(), "checked").unwrap());
        let world = world(store, ConflictHandler::SerializableByCell, strategy, 1);
        let committed = run(&world, seed, 30, true);
        assert!(committed >= 20, "{committed} committed");
    }
}

#[test]
fn the_checker_detects_violations() {
    let record = |start: i64, reads: &[(u8, Option<&str>)], writes: &[(u8, Option<&str>)], commit: i64| {
        let owned = |(cell, value): &(u8, Option<&str>)| (*cell, value.map(str::to_owned));
        Record {
            start: Timestamp(start),
            reads: reads.iter().map(owned).collect(),
            for_update: Vec::new(),
            writes: writes.iter().map(owned).collect(),
            outcome: Told::Committed(Timestamp(commit)),
        }
    };
    let count = |records: &[Record], serializable| {
        let standing = records.iter().map(|record| {
            let Told::Committed(commit) = record.outcome else { panic!() };
            (record.start, TransactionStatus::Committed(commit))
        });
        check(records, &standing.collect(), serializable).len()
    };
    let first = || record(1, &[], &[(0, Some("a")), (1, Some("a"))], 2);
    let fine = [first(), record(3, &[(0, Some("a"))], &[(0, Some("b"))], 4)];
    assert_eq!((count(&fine, false), count(&fine, true)), (0, 0));
    let stale = [first(), record(3, &[(0, None)], &[], 4)];
    assert_eq!(count(&stale, false), 1);
    let future = [first(), record(3, &[], &[(0, Some("b"))], 6), record(5, &[(0, Some("b"))], &[], 7)];
    assert_eq!(count(&future, false), 1);
    let lost = [first(), record(3, &[], &[(0, Some("b"))], 5), record(4, &[], &[(0, Some("c"))], 6)];
    assert_eq!(count(&lost, false), 1);
    let skew = [
        first(),
        record(3, &[(0, Some("a"))], &[(1, Some("b"))], 5),
        record(4, &[(1, Some("a"))], &[(0, Some("c"))], 6),
    ];
    assert_eq!((count(&skew, false), count(&skew, true)), (0, 1));
    let [first, second, mut third] = skew;
    third.for_update.push(0);
    assert_eq!(count(&[first, second, third], false), 1, "read for update");
}

/// Nodes in a ring that store the name of the next one; transactions swap neighbours. The ring
/// always stays intact.
#[test]
fn concurrent_rewiring_never_breaks_a_ring() {
    const NODES: usize = 10;
    for handler in [ConflictHandler::WriteWriteByCell, ConflictHandler::SerializableByRow] {
        let world = world(Arc::new(MemoryStore::new()), handler, SweepStrategy::Conservative, 2);
        let (transactions, table) = world.client(world.store.clone()).unwrap();
        let next = |tx: &Transaction, table: &Table, node: usize| -> Result<usize, Error> {
            Ok(text(tx.get(table, node.to_string(), "next")?).unwrap().parse().unwrap())
        };
        let link = |tx: &mut Transaction, table: &Table, from: usize, to: usize| {
            tx.put(table, from.to_string(), "next", to.to_string())
        };
        transactions
            .run(|tx| (0..NODES).try_for_each(|node| link(tx, &table, node, (node + 1) % NODES)))
            .unwrap();
        let walk = |tx: &Transaction, table: &Table| -> Result<(), Error> {
            let (mut node, mut length) = (0, 0);
            loop {
                node = next(tx, table, node)?;
                length += 1;
                if node == 0 || length > NODES {
                    break;
                }
            }
            assert_eq!(length, NODES, "the ring is broken");
            Ok(())
        };
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let (world, next, link, walk) = (&world, &next, &link, &walk);
                scope.spawn(move || {
                    let (_, transactions, table) = world.failing_client(thread + 40, 40);
                    let mut random = StdRng::seed_from_u64(thread);
                    for _ in 0..80 {
                        let a = random.random_range(0..NODES);
                        let swap = || -> Result<(), Error> {
                            let mut tx = transactions.start()?;
                            walk(&tx, &table)?;
                            let b = next(&tx, &table, a)?;
                            let c = next(&tx, &table, b)?;
                            let d = next(&tx, &table, c)?;
                            link(&mut tx, &table, a, c)?;
                            link(&mut tx, &table, c, b)?;
                            link(&mut tx, &table, b, d)?;
                            tx.commit().map(drop)
                        };
                        let _ = swap();
                        let _ = transactions.sweeper().step();
                    }
                });
            }
        });
        transactions.sweep().unwrap();
        transactions.read(|tx| walk(tx, &table)).unwrap();
    }
}
