//! A store that fails on command: between it and the one below lies the network of a client that is about to die.

use bytes::Bytes;
use parking_lot::Mutex;

use super::{
    Cell, CheckOutcome, ColumnRange, Put, PutOutcome, PutRow, Store, StoreError, StoreResult, TableKind,
    Version,
};
use crate::timestamp::Timestamp;

/// How a call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The request is lost.
    Lost,
    /// Half of what was to be written is.
    Half,
    /// All is done, and the answer is lost.
    Unanswered,
}

/// Passes calls on to another store, until one fails.
pub struct FailingStore<S> {
    below: S,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    calls: u64,
    fault: Option<(u64, Fault)>,
    dies: bool,
    dead: bool,
}

enum Fate {
    Passes,
    Fails(Fault),
}

impl<S: Store> FailingStore<S> {
    /// Over another store; nothing fails yet.
    pub fn new(below: S) -> Self {
        Self { below, state: Mutex::default() }
    }

    /// Lets the `n`th call from now fail (1 is the next).
    pub fn fail_at(&self, n: u64, fault: Fault) {
        let mut state = self.state.lock();
        state.fault = Some((state.calls + n, fault));
        state.dies = false;
    }

    /// Lets the `n`th call from now fail and all after it be lost: the client died there.
    pub fn die_at(&self, n: u64, fault: Fault) {
        self.fail_at(n, fault);
        self.state.lock().dies = true;
    }

    /// How many calls there were.
    pub fn calls(&self) -> u64 {
        self.state.lock().calls
    }

    fn next(&self) -> Fate {
        let mut state = self.state.lock();
        state.calls += 1;
        if state.dead {
            return Fate::Fails(Fault::Lost);
        }
        match state.fault {
            Some((at, fault)) if at == state.calls => {
                state.dead = state.dies;
                Fate::Fails(fault)
            }
            _ => Fate::Passes,
        }
    }

    fn read<T>(&self, read: impl FnOnce(&S) -> StoreResult<T>) -> StoreResult<T> {
        match self.next() {
            Fate::Passes => read(&self.below),
            Fate::Fails(_) => Err(failure()),
        }
    }

    /// `half` does a part.
    fn write<T>(
        &self,
        all: impl FnOnce(&S) -> StoreResult<T>,
        half: impl FnOnce(&S) -> StoreResult<()>,
    ) -> StoreResult<T> {
        match self.next() {
            Fate::Passes => all(&self.below),
            Fate::Fails(Fault::Lost) => Err(failure()),
            Fate::Fails(Fault::Half) => half(&self.below).and(Err(failure())),
            Fate::Fails(Fault::Unanswered) => all(&self.below).and(Err(failure())),
        }
    }
}

fn failure() -> StoreError {
    StoreError::unknown("call", "failed on command")
}

impl<S: Store> Store for FailingStore<S> {
    fn create_table(&self, table: &str, kind: TableKind) -> StoreResult<()> {
        self.below.create_table(table, kind)
    }

    fn tables(&self) -> StoreResult<Vec<String>> {
        self.below.tables()
    }

    fn get(&self, table: &str, cells: &[(&Cell, Timestamp)]) -> StoreResult<Vec<Option<Version>>> {
        self.read(|below| below.get(table, cells))
    }

    fn columns(
        &self,
        table: &str,
        ranges: &[ColumnRange],
        before: Timestamp,
    ) -> StoreResult<Vec<Vec<(Bytes, Version)>>> {
        self.read(|below| below.columns(table, ranges, before))
    }

    fn rows(&self, table: &str, after: Option<&[u8]>, limit: usize) -> StoreResult<Vec<Bytes>> {
        self.read(|below| below.rows(table, after, limit))
    }

    fn put(&self, puts: &[Put<'_>]) -> StoreResult<()> {
        self.write(|below| below.put(puts), |below| below.put(&puts[..puts.len() / 2]))
    }

    fn put_unless_exists(&self, table: &str, rows: &[PutRow]) -> Vec<StoreResult<PutOutcome>> {
        let result = self.write(
            |below| Ok(below.put_unless_exists(table, rows)),
            |below| {
                drop(below.put_unless_exists(table, &rows[..rows.len() / 2]));
                Ok(())
            },
        );
        result.unwrap_or_else(|error| rows.iter().map(|_| Err(error.clone())).collect())
    }

    fn check_and_set(
        &self,
        table: &str,
        cell: &Cell,
        expected: &Bytes,
        new: &Bytes,
    ) -> StoreResult<CheckOutcome> {
        self.write(|below| below.check_and_set(table, cell, expected, new), |_| Ok(()))
    }

    fn get_serial(&self, table: &str, row: &Bytes, columns: &[Bytes]) -> StoreResult<Vec<Option<Bytes>>> {
        self.read(|below| below.get_serial(table, row, columns))
    }

    fn delete(&self, table: &str, versions: &[(&Cell, Timestamp)], write_time: i64) -> StoreResult<()> {
        let half = &versions[..versions.len() / 2];
        self.write(
            |below| below.delete(table, versions, write_time),
            |below| below.delete(table, half, write_time),
        )
    }

    fn delete_older(&self, table: &str, cell: &Cell, before: Timestamp, write_time: i64) -> StoreResult<()> {
        self.write(|below| below.delete_older(table, cell, before, write_time), |_| Ok(()))
    }

    fn is_linearizable_after_failures(&self) -> bool {
        self.below.is_linearizable_after_failures()
    }
}
