//! Transactions of many threads and clients, and the invariants that must hold whatever fails
//! meanwhile:
//!
//! - money that is moved between accounts is neither created nor lost, in every snapshot;
//! - a ring that is cut and joined again by three writes is one ring, in every snapshot;
//! - two cells whose sum must not fall below zero do not, though each transaction lowers only one
//!   (serializable);
//! - no increment is lost, and none is applied twice: the count is that of reported commits, plus
//!   at most those of unknown outcome;
//! - a reported commit is committed at the same timestamp, also for a store that is opened again; a
//!   reported abort is not.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use cassette_transactions::store::Store;
use cassette_transactions::timelock::TimeLock;
use cassette_transactions::{
    ConflictHandler, Error, Options, Outcome, Result, Table, Timestamp, Transaction, TransactionStatus,
    Transactions,
};

const ACCOUNTS: u64 = 6;
const BALANCE: i64 = 100;
const RING: u64 = 6;

/// The outcomes of the transactions.
#[derive(Debug, Default)]
pub struct Counts {
    pub committed: AtomicU64,
    pub not_committed: AtomicU64,
    pub unknown: AtomicU64,
    pub snapshots: AtomicU64,
    pub unavailable: AtomicU64,
}

struct Tables {
    accounts: Table,
    ring: Table,
    pair: Table,
    counter: Table,
}

/// The outcomes reported to a thread.
#[derive(Default)]
struct Told {
    committed: Vec<(Timestamp, Timestamp)>,
    not_committed: Vec<Timestamp>,
    increments: i64,
    increments_unknown: i64,
}

fn read(tx: &Transaction, table: &Table, row: u64) -> Result<i64> {
    let value = tx.get(table, row.to_be_bytes(), "value")?;
    let value = value.ok_or_else(|| Error::caller(format!("row {row} of {} is gone", table.name())))?;
    std::str::from_utf8(&value).map_err(Error::caller)?.parse().map_err(Error::caller)
}

fn write(tx: &mut Transaction, table: &Table, row: u64, value: i64) -> Result<()> {
    tx.put(table, row.to_be_bytes(), "value", value.to_string())
}

impl Tables {
    fn open(transactions: &Transactions) -> Result<Self> {
        Ok(Self {
            accounts: transactions.table("accounts", ConflictHandler::WriteWriteByCell)?,
            ring: transactions.table("ring", ConflictHandler::WriteWriteByRow)?,
            pair: transactions.table("pair", ConflictHandler::SerializableByCell)?,
            counter: transactions.table("counter", ConflictHandler::WriteWriteByCell)?,
        })
    }

    fn fill(&self, tx: &mut Transaction) -> Result<()> {
        (0..ACCOUNTS).try_for_each(|row| write(tx, &self.accounts, row, BALANCE))?;
        (0..RING).try_for_each(|row| write(tx, &self.ring, row, ((row + 1) % RING).cast_signed()))?;
        (0..2).try_for_each(|row| write(tx, &self.pair, row, 20))?;
        write(tx, &self.counter, 0, 0)
    }

    /// Executes one of four kinds of transactions; returns whether it is an increment.
    fn act(&self, tx: &mut Transaction, dice: u64) -> Result<bool> {
        let (kind, dice) = (dice % 4, dice / 4);
        match kind {
            0 => {
                let (from, to) = (dice % ACCOUNTS, (dice / ACCOUNTS) % ACCOUNTS);
                if from != to {
                    let amount = (dice / 64 % 10).cast_signed();
                    let (rich, poor) = (read(tx, &self.accounts, from)?, read(tx, &self.accounts, to)?);
                    write(tx, &self.accounts, from, rich - amount)?;
                    write(tx, &self.accounts, to, poor + amount)?;
                }
            }
            1 => {
                // a -> b -> c -> d becomes a -> c -> b -> d.
                let a = dice % RING;
                let b = read(tx, &self.ring, a)?;
                let c = read(tx, &self.ring, b.cast_unsigned())?;
                let d = read(tx, &self.ring, c.cast_unsigned())?;
                write(tx, &self.ring, a, c)?;
                write(tx, &self.ring, c.cast_unsigned(), b)?;
                write(tx, &self.ring, b.cast_unsigned(), d)?;
            }
            2 => {
                let (one, other) = (dice % 2, 1 - dice % 2);
                let (mine, others) = (read(tx, &self.pair, one)?, read(tx, &self.pair, other)?);
                let by = if mine + others >= 3 { -3 } else { 20 };
                write(tx, &self.pair, one, mine + by)?;
            }
            _ => {
                let count = read(tx, &self.counter, 0)?;
                write(tx, &self.counter, 0, count + 1)?;
            }
        }
        Ok(kind == 3)
    }

    /// Returns the violation in a snapshot, if any.
    fn check(&self, tx: &Transaction) -> Result<Option<String>> {
        let mut sum = 0;
        for row in 0..ACCOUNTS {
            sum += read(tx, &self.accounts, row)?;
        }
        if sum != ACCOUNTS.cast_signed() * BALANCE {
            return Ok(Some(format!("the accounts have {sum}")));
        }
        let mut at = 0;
        for step in 1..=RING {
            at = read(tx, &self.ring, at)?.cast_unsigned();
            if (at == 0) != (step == RING) {
                return Ok(Some(format!("the ring is at {at} after {step} steps")));
            }
        }
        let pair = read(tx, &self.pair, 0)? + read(tx, &self.pair, 1)?;
        Ok((pair < 0).then(|| format!("the pair is at {pair}")))
    }
}

/// Ends the threads, also if the test fails meanwhile.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// The timeout for progress of some transactions.
const PROGRESS_MAX: Duration = Duration::from_secs(300);

/// Waits until `more` transactions have committed.
pub fn wait_for(counts: &Counts, more: u64) {
    let began = std::time::Instant::now();
    let until = counts.committed.load(Ordering::Relaxed) + more;
    while counts.committed.load(Ordering::Relaxed) < until {
        assert!(began.elapsed() < PROGRESS_MAX, "nothing goes on: {counts:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A client with separate timestamps and locks.
pub type Client = Arc<dyn TimeLock>;

/// Runs transactions of `clients`, two threads each, and one that checks snapshots, until `during`
/// ends. Panics at a violation.
pub fn run(store: &Arc<dyn Store>, clients: Vec<Client>, during: impl FnOnce(&Counts)) -> Counts {
    let (counts, ended) = (Counts::default(), AtomicBool::new(false));
    let options = Options::new().without_sweeping().lock_timeout(Duration::from_secs(10));
    let open = |client: &Client| Transactions::open(store.clone(), client.clone(), options.clone()).unwrap();
    let timelock = clients[0].clone();
    let clients: Vec<Transactions> = clients.iter().map(open).collect();
    let tables = Tables::open(&clients[0]).unwrap();
    for client in &clients[1..] {
        Tables::open(client).unwrap();
    }
    clients[0].run(|tx| tables.fill(tx)).unwrap();
    let told: Vec<Told> = std::thread::scope(|scope| {
        let (counts, ended, tables) = (&counts, &ended, &tables);
        let mut threads = Vec::new();
        for client in &clients {
            for _ in 0..2 {
                threads.push(scope.spawn(move || write_until(client, tables, counts, ended)));
            }
        }
        let watcher = clients[0].clone();
        let watching = scope.spawn(move || watch_until(&watcher, tables, counts, ended));
        {
            let _end = End(ended);
            during(counts);
        }
        watching.join().unwrap();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    // Opened again, so that nothing is cached.
    let reopened = Transactions::open(store.clone(), timelock, options.clone()).unwrap();
    let tables = Tables::open(&reopened).unwrap();
    assert_eq!(reopened.read(|tx| tables.check(tx)).unwrap(), None);
    let count = reopened.read(|tx| read(tx, &tables.counter, 0)).unwrap();
    let sure: i64 = told.iter().map(|told| told.increments).sum();
    let unknown: i64 = told.iter().map(|told| told.increments_unknown).sum();
    assert!(
        (sure..=sure + unknown).contains(&count),
        "{count} increments, {sure} reported and {unknown} unknown"
    );
    for told in &told {
        for chunk in told.committed.chunks(500) {
            let starts: Vec<Timestamp> = chunk.iter().map(|(start, _)| *start).collect();
            let found = reopened.service().get_many(&starts).unwrap();
            for (start, commit) in chunk {
                assert_eq!(found.get(start), Some(&TransactionStatus::Committed(*commit)), "start {start}");
            }
        }
        for chunk in told.not_committed.chunks(500) {
            for (start, status) in reopened.service().get_many(chunk).unwrap() {
                assert_eq!(status, TransactionStatus::Aborted, "start {start}");
            }
        }
    }
    counts
}

fn write_until(client: &Transactions, tables: &Tables, counts: &Counts, ended: &AtomicBool) -> Told {
    let mut told = Told::default();
    while !ended.load(Ordering::SeqCst) {
        let mut tx = match client.start() {
            Ok(tx) => tx,
            Err(error) => {
                unavailable(counts, &error);
                continue;
            }
        };
        let start = tx.start_timestamp();
        let acted = tables.act(&mut tx, rand::random());
        let is_increment = matches!(acted, Ok(true));
        match acted.and_then(|_| tx.commit()) {
            Ok(commit) => {
                counts.committed.fetch_add(1, Ordering::Relaxed);
                told.committed.extend(commit.map(|commit| (start, commit)));
                told.increments += i64::from(is_increment);
            }
            Err(error) => {
                assert!(!matches!(error, Error::TwoCommits { .. }), "{error}");
                match error.outcome() {
                    Outcome::NotCommitted => {
                        counts.not_committed.fetch_add(1, Ordering::Relaxed);
                        told.not_committed.push(start);
                    }
                    Outcome::Unknown => {
                        counts.unknown.fetch_add(1, Ordering::Relaxed);
                        told.increments_unknown += i64::from(is_increment);
                    }
                }
                if !error.is_retriable() {
                    unavailable(counts, &error);
                }
            }
        }
    }
    told
}

fn watch_until(client: &Transactions, tables: &Tables, counts: &Counts, ended: &AtomicBool) {
    while !ended.load(Ordering::SeqCst) {
        match client.read(|tx| tables.check(tx)) {
            Ok(wrong) => {
                assert_eq!(wrong, None);
                counts.snapshots.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => unavailable(counts, &error),
        }
    }
}

/// A store or a timelock did not respond. This is permitted; other errors are not.
fn unavailable(counts: &Counts, error: &Error) {
    let may_be = matches!(
        error,
        Error::Store(_) | Error::TimeLock(_) | Error::Service(_) | Error::OutcomeUnknown { .. }
    ) || error.is_retriable();
    assert!(may_be, "{error}");
    counts.unavailable.fetch_add(1, Ordering::Relaxed);
    std::thread::sleep(Duration::from_millis(50));
}
