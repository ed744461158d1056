//! Commit records on disagreeing replicas: five replicas, of which each operation uses three, and
//! conditional writes that fail after some have accepted them. Models Cassandra after the state of
//! its Paxos rounds is gone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use cassette_transactions::service::{CommitRecords, Layout, Recorded, ServiceError, TransactionService};
use cassette_transactions::store::{
    Cell, CheckOutcome, ColumnRange, Effect, Put, PutOutcome, PutRow, Store, StoreError, StoreResult,
    TableKind, Version,
};
use cassette_transactions::timelock::LocalTimeLock;
use cassette_transactions::{Error, Timestamp, TransactionStatus, Transactions};

use super::transactions::options;

const REPLICAS: usize = 5;
const QUORUM: usize = 3;

/// Table, row, column.
type Key = (String, Bytes, Bytes);
/// Write time and value; the greater is newer.
type Value = (i64, Bytes);

struct State {
    tables: BTreeSet<String>,
    replicas: [BTreeMap<Key, Value>; REPLICAS],
    /// A xorshift generator.
    random: u64,
    /// Last write time of a conditional write.
    ballot: i64,
    /// Percentage of failing writes to a replica.
    failures: u64,
}

/// Atomic cells on replicas, and nothing else.
pub struct ReplicatedStore(Mutex<State>);

impl State {
    fn random(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 16) % below
    }

    fn quorum(&mut self) -> Vec<usize> {
        let mut all: Vec<usize> = (0..REPLICAS).collect();
        for index in 0..QUORUM {
            let other = index + self.random((REPLICAS - index) as u64) as usize;
            all.swap(index, other);
        }
        all.truncate(QUORUM);
        all
    }

    /// Writes to a quorum, one replica after the other, until one fails.
    fn write(&mut self, quorum: &[usize], key: &Key, value: &Value) -> StoreResult<()> {
        for replica in quorum {
            let failures = self.failures;
            if self.random(100) < failures {
                let (attempted, cause) = ("write".to_owned(), "a replica did not answer".to_owned());
                return Err(StoreError { attempted, cause, effect: Effect::Unknown, is_transient: true });
            }
            let of_replica = &mut self.replicas[*replica];
            if of_replica.get(key).is_none_or(|standing| standing < value) {
                of_replica.insert(key.clone(), value.clone());
            }
        }
        Ok(())
    }

    /// Reads the newest value of a quorum, which has it afterwards.
    fn read(&mut self, key: &Key) -> StoreResult<Option<Bytes>> {
        let quorum = self.quorum();
        let Some(newest) =
            quorum.iter().filter_map(|replica| self.replicas[*replica].get(key)).max().cloned()
        else {
            return Ok(None);
        };
        self.write(&quorum, key, &newest)?;
        Ok(Some(newest.1))
    }

    fn propose(&mut self, key: &Key, value: Bytes) -> StoreResult<()> {
        self.ballot += 1;
        let (ballot, quorum) = (self.ballot, self.quorum());
        self.write(&quorum, key, &(ballot, value))
    }
}

impl ReplicatedStore {
    pub fn new(seed: u64, failures: u64) -> Self {
        let random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let (tables, replicas) = (BTreeSet::new(), std::array::from_fn(|_| BTreeMap::new()));
        Self(Mutex::new(State { tables, replicas, random, ballot: 0, failures }))
    }

    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.0.lock().unwrap())
    }
}

fn key(table: &str, row: &Bytes, column: &Bytes) -> Key {
    (table.to_owned(), row.clone(), column.clone())
}

fn atomic(value: Bytes) -> Version {
    Version { timestamp: Timestamp::ATOMIC, value }
}

impl Store for ReplicatedStore {
    fn create_table(&self, table: &str, _: TableKind) -> StoreResult<()> {
        self.with(|state| state.tables.insert(table.to_owned()));
        Ok(())
    }

    fn open_table(&self, table: &str) -> StoreResult<bool> {
        Ok(self.with(|state| state.tables.contains(table)))
    }

    fn tables(&self) -> StoreResult<Vec<String>> {
        Ok(self.with(|state| state.tables.iter().cloned().collect()))
    }

    fn get(&self, table: &str, cells: &[(&Cell, Timestamp)]) -> StoreResult<Vec<Option<Version>>> {
        let get = |(cell, _): &(&Cell, Timestamp)| {
            let found = self.with(|state| state.read(&key(table, &cell.row, &cell.column)));
            found.map(|value| value.map(atomic))
        };
        cells.iter().map(get).collect()
    }

    fn columns(
        &self,
        _: &str,
        ranges: &[ColumnRange],
        _: Timestamp,
    ) -> StoreResult<Vec<Vec<(Bytes, Version)>>> {
        Ok(ranges.iter().map(|_| Vec::new()).collect())
    }

    fn rows(&self, _: &str, _: Option<&[u8]>, _: usize) -> StoreResult<Vec<Bytes>> {
        Ok(Vec::new())
    }

    fn put(&self, puts: &[Put<'_>]) -> StoreResult<()> {
        puts.iter().try_for_each(|put| {
            self.with(|state| {
                let quorum = state.quorum();
                let value = (put.write_time, put.value.clone());
                state.write(&quorum, &key(put.table, &put.cell.row, &put.cell.column), &value)
            })
        })
    }

    fn put_unless_exists(&self, table: &str, rows: &[PutRow]) -> Vec<StoreResult<PutOutcome>> {
        let put = |row: &PutRow| {
            self.with(|state| {
                let mut existing = Vec::new();
                for (column, _) in &row.columns {
                    let found = state.read(&key(table, &row.row, column))?;
                    existing.extend(found.map(|value| (column.clone(), value)));
                }
                if !existing.is_empty() {
                    return Ok(PutOutcome::Exists(existing));
                }
                for (column, value) in &row.columns {
                    state.propose(&key(table, &row.row, column), value.clone())?;
                }
                Ok(PutOutcome::Applied)
            })
        };
        rows.iter().map(put).collect()
    }

    fn check_and_set(
        &self,
        table: &str,
        cell: &Cell,
        expected: &Bytes,
        new: &Bytes,
    ) -> StoreResult<CheckOutcome> {
        let key = key(table, &cell.row, &cell.column);
        self.with(|state| {
            let found = state.read(&key)?;
            if found.as_ref() == Some(expected) {
                state.propose(&key, new.clone()).map(|()| CheckOutcome::Applied)
            } else {
                Ok(CheckOutcome::Actual(found))
            }
        })
    }

    fn get_serial(&self, table: &str, row: &Bytes, columns: &[Bytes]) -> StoreResult<Vec<Option<Bytes>>> {
        columns.iter().map(|column| self.with(|state| state.read(&key(table, row, column)))).collect()
    }

    fn delete(&self, _: &str, _: &[(&Cell, Timestamp)], _: i64) -> StoreResult<()> {
        Ok(())
    }

    fn delete_older(&self, _: &str, _: &[(&Cell, Timestamp)], _: i64) -> StoreResult<()> {
        Ok(())
    }

    fn delete_rows(&self, _: &str, _: &[Bytes], _: i64) -> StoreResult<()> {
        Ok(())
    }

    fn puts_in_order(&self) -> bool {
        false
    }

    fn is_linearizable_after_failures(&self) -> bool {
        false
    }
}

/// Outcomes of one start timestamp for its committer, for clients that consider it dead, and for
/// readers, in this order.
fn told(version: u32, seed: u64) -> Vec<TransactionStatus> {
    let store = Arc::new(ReplicatedStore::new(seed, 20));
    let service = CommitRecords::open(store.clone(), Layout::of_version(version).unwrap()).unwrap();
    let start = Timestamp(100);
    let mut told = Vec::new();
    for _ in 0..12 {
        let put = match store.with(|state| state.random(4)) {
            0 => Some(TransactionStatus::Committed(Timestamp(110))),
            1 => Some(TransactionStatus::Aborted),
            _ => None,
        };
        // After an error nothing is known.
        match put {
            Some(status) => match service.put_unless_exists(start, status) {
                Ok(Recorded::Recorded) => told.push(status),
                Ok(Recorded::Exists(standing)) => told.push(standing),
                Err(_) => {}
            },
            None => told.extend(service.get(start).ok().flatten()),
        }
    }
    told
}

#[test]
fn readers_on_replicas_disagree_in_layout_2_and_never_in_layout_3() {
    let disagree = |version: u32| {
        let histories = (1..4000).map(|seed| told(version, seed)).filter(|told| told.len() > 1);
        let histories: Vec<_> = histories.collect();
        assert!(histories.len() > 1000, "layout {version}: {} histories have answers", histories.len());
        histories.into_iter().filter(|told| told.iter().any(|one| *one != told[0])).count()
    };
    assert!(disagree(2) > 0, "a commit that was visible and then was not, or the other way round");
    assert_eq!(disagree(3), 0);
}

#[test]
fn unsafe_layouts_are_rejected_unless_forced() {
    let store: Arc<dyn Store> = Arc::new(ReplicatedStore::new(1, 0));
    let timelock = Arc::new(LocalTimeLock::open(store.clone()).unwrap());
    let open = |version: Option<u32>, any_layout: bool| {
        let layout = version.and_then(Layout::of_version);
        let options = options().layout(layout).any_layout(any_layout);
        Transactions::open(store.clone(), timelock.clone(), options)
    };
    let is_refused = |error: &Error| matches!(error, Error::Service(ServiceError::UnsafeLayout { .. }));
    for version in [1, 2] {
        let error = open(Some(version), false).map(drop).unwrap_err();
        assert!(is_refused(&error) && error.to_string().contains("--force"), "{error}");
    }
    let transactions = open(None, false).unwrap();
    assert_eq!(transactions.agreed().unwrap().map.last_version(), 3, "that of a new store");
    assert!(is_refused(&transactions.migrate(2).unwrap_err()));
    assert_eq!(transactions.agreed().unwrap().map.last_version(), 3);
    assert_eq!(open(None, true).unwrap().migrate(2).unwrap().to, 2);
    assert_eq!(
        open(None, false).unwrap().migrate(3).unwrap().to,
        3,
        "one that has it is opened, to be migrated"
    );
}
