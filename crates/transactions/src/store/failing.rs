//! A store that fails on command: simulates the network between a client that is about to die and
//! its store.

use bytes::Bytes;
use cassette_database::{Database, DeferredWrite, Durability};
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
    /// Half of the writes are applied.
    Half,
    /// The request is executed, and the response is lost.
    Unanswered,
    /// The request is executed twice, and the second response arrives: a retry below the client.
    Repeated,
    /// The request is executed some calls later, after the client gave up. Removals are lost.
    Late,
}

/// Random faults, equally likely.
const FAULTS: [Fault; 5] = [Fault::Lost, Fault::Half, Fault::Unanswered, Fault::Repeated, Fault::Late];
/// Maximum number of calls after which a late request arrives.
const LATE_MAX: u64 = 40;

/// A request in flight.
type Request<S> = Box<dyn FnOnce(&S) + Send>;

/// Passes calls on to another store until one fails.
pub struct FailingStore<S> {
    below: S,
    state: Mutex<State<S>>,
}

struct State<S> {
    calls: u64,
    fault: Option<(u64, Fault)>,
    dies: bool,
    dead: bool,
    /// The call that panics.
    panics_at: Option<u64>,
    /// State of the random generator, and the inverse rate of failures.
    random: Option<(u64, u64)>,
    /// Late requests, and the call at which they arrive.
    late: Vec<(u64, Request<S>)>,
}

impl<S> State<S> {
    /// Next number of a xorshift generator.
    fn random(&mut self) -> Option<(u64, u64)> {
        let (state, one_in) = self.random.as_mut()?;
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        Some((*state >> 16, *one_in))
    }
}

enum Fate {
    Passes,
    Fails(Fault),
}

impl<S: Store> FailingStore<S> {
    /// Wraps a store; nothing fails yet.
    pub fn new(below: S) -> Self {
        let state = State {
            calls: 0,
            fault: None,
            dies: false,
            dead: false,
            panics_at: None,
            random: None,
            late: Vec::new(),
        };
        Self { below, state: Mutex::new(state) }
    }

    /// From now on, one in `one_in` calls fails with a random fault, determined by `seed`.
    pub fn fail_randomly(&self, seed: u64, one_in: u64) {
        self.state.lock().random = Some((seed | 1, one_in.max(1)));
    }

    /// Delivers all late requests, and stops failing.
    pub fn settle(&self) {
        let late = {
            let mut state = self.state.lock();
            (state.random, state.fault, state.dead) = (None, None, false);
            std::mem::take(&mut state.late)
        };
        late.into_iter().for_each(|(_, request)| request(&self.below));
    }

    /// Makes the `n`th call from now fail (1 is the next).
    pub fn fail_at(&self, n: u64, fault: Fault) {
        let mut state = self.state.lock();
        state.fault = Some((state.calls + n, fault));
        state.dies = false;
    }

    /// Makes the `n`th call from now fail and loses all later ones, as if the client had died.
    pub fn die_at(&self, n: u64, fault: Fault) {
        self.fail_at(n, fault);
        self.state.lock().dies = true;
    }

    /// Makes the `n`th call from now panic.
    pub fn panic_at(&self, n: u64) {
        let mut state = self.state.lock();
        state.panics_at = Some(state.calls + n);
    }

    /// Returns the number of calls so far.
    pub fn calls(&self) -> u64 {
        self.state.lock().calls
    }

    fn next(&self) -> Fate {
        let (fate, late) = {
            let mut state = self.state.lock();
            state.calls += 1;
            let now = state.calls;
            if state.panics_at == Some(now) {
                drop(state);
                panic!("injected");
            }
            let late: Vec<_> = state.late.extract_if(.., |(due, _)| *due <= now).collect();
            (state.fate(), late)
        };
        late.into_iter().for_each(|(_, request)| request(&self.below));
        fate
    }

    fn read<T>(&self, read: impl FnOnce(&S) -> StoreResult<T>) -> StoreResult<T> {
        match self.next() {
            Fate::Passes | Fate::Fails(Fault::Repeated) => read(&self.below),
            Fate::Fails(_) => Err(failure()),
        }
    }

    /// `half` applies a part; `late` is the request without borrowed data.
    fn write<T>(
        &self,
        all: impl Fn(&S) -> StoreResult<T>,
        half: impl FnOnce(&S) -> StoreResult<()>,
        late: impl FnOnce() -> Option<Request<S>>,
    ) -> StoreResult<T> {
        match self.next() {
            Fate::Passes => all(&self.below),
            Fate::Fails(Fault::Lost) => Err(failure()),
            Fate::Fails(Fault::Half) => half(&self.below).and(Err(failure())),
            Fate::Fails(Fault::Unanswered) => all(&self.below).and(Err(failure())),
            Fate::Fails(Fault::Repeated) => all(&self.below).and_then(|_| all(&self.below)),
            Fate::Fails(Fault::Late) => {
                if let Some(request) = late() {
                    let mut state = self.state.lock();
                    let after = state.random().map_or(LATE_MAX / 2, |(number, _)| number % LATE_MAX);
                    let due = state.calls + 1 + after;
                    state.late.push((due, request));
                }
                Err(failure())
            }
        }
    }

    fn put_with_durability(&self, puts: &[Put<'_>], durability: Durability) -> StoreResult<()> {
        let put = move |below: &S, puts: &[Put<'_>]| match durability {
            Durability::Configured => below.put(puts),
            Durability::WithLater => below.put_ahead(puts),
        };
        self.write(
            |below| put(below, puts),
            |below| put(below, &puts[..puts.len() / 2]),
            || {
                let owned = |put: &Put<'_>| {
                    let table: Box<str> = put.table.into();
                    (table, put.cell.clone(), put.timestamp, put.value.clone(), put.write_time)
                };
                let puts: Vec<_> = puts.iter().map(owned).collect();
                Some(Box::new(move |below: &S| {
                    let puts = puts.iter().map(|(table, cell, timestamp, value, write_time)| Put {
                        table,
                        cell,
                        timestamp: *timestamp,
                        value: value.clone(),
                        write_time: *write_time,
                    });
                    drop(put(below, &puts.collect::<Vec<_>>()));
                }))
            },
        )
    }
}

impl<S> State<S> {
    fn fate(&mut self) -> Fate {
        if self.dead {
            return Fate::Fails(Fault::Lost);
        }
        if let Some((at, fault)) = self.fault
            && at == self.calls
        {
            self.dead = self.dies;
            return Fate::Fails(fault);
        }
        match self.random() {
            Some((number, one_in)) if number % one_in == 0 => {
                Fate::Fails(FAULTS[(number / one_in) as usize % FAULTS.len()])
            }
            _ => Fate::Passes,
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

    fn open_table(&self, table: &str) -> StoreResult<bool> {
        self.below.open_table(table)
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
        self.put_with_durability(puts, Durability::Configured)
    }

    fn put_ahead(&self, puts: &[Put<'_>]) -> StoreResult<()> {
        self.put_with_durability(puts, Durability::WithLater)
    }

    fn put_unless_exists(&self, table: &str, rows: &[PutRow]) -> Vec<StoreResult<PutOutcome>> {
        let result = self.write(
            |below| Ok(below.put_unless_exists(table, rows)),
            |below| {
                drop(below.put_unless_exists(table, &rows[..rows.len() / 2]));
                Ok(())
            },
            || {
                let (table, rows): (Box<str>, _) = (table.into(), rows.to_vec());
                Some(Box::new(move |below: &S| drop(below.put_unless_exists(&table, &rows))))
            },
        );
        result.unwrap_or_else(|error| rows.iter().map(|_| Err(error.clone())).collect())
    }

    fn put_unless_exists_with(
        &self,
        table: &str,
        row: &Bytes,
        column: &(Bytes, Bytes),
        writes: &[DeferredWrite],
    ) -> StoreResult<PutOutcome> {
        // Atomic: there is no half of it.
        self.write(|below| below.put_unless_exists_with(table, row, column, writes), |_| Ok(()), || None)
    }

    fn database(&self) -> Option<&Database> {
        self.below.database()
    }

    fn check_and_set(
        &self,
        table: &str,
        cell: &Cell,
        expected: &Bytes,
        new: &Bytes,
    ) -> StoreResult<CheckOutcome> {
        self.write(
            |below| below.check_and_set(table, cell, expected, new),
            |_| Ok(()),
            || {
                let (table, cell): (Box<str>, _) = (table.into(), cell.clone());
                let (expected, new) = (expected.clone(), new.clone());
                Some(Box::new(move |below: &S| drop(below.check_and_set(&table, &cell, &expected, &new))))
            },
        )
    }

    fn get_serial(&self, table: &str, row: &Bytes, columns: &[Bytes]) -> StoreResult<Vec<Option<Bytes>>> {
        self.read(|below| below.get_serial(table, row, columns))
    }

    fn delete(&self, table: &str, versions: &[(&Cell, Timestamp)], write_time: i64) -> StoreResult<()> {
        let half = &versions[..versions.len() / 2];
        self.write(
            |below| below.delete(table, versions, write_time),
            |below| below.delete(table, half, write_time),
            || None,
        )
    }

    fn delete_older(&self, table: &str, cells: &[(&Cell, Timestamp)], write_time: i64) -> StoreResult<()> {
        let half = &cells[..cells.len() / 2];
        self.write(
            |below| below.delete_older(table, cells, write_time),
            |below| below.delete_older(table, half, write_time),
            || None,
        )
    }

    fn delete_rows(&self, table: &str, rows: &[Bytes], write_time: i64) -> StoreResult<()> {
        let half = &rows[..rows.len() / 2];
        self.write(
            |below| below.delete_rows(table, rows, write_time),
            |below| below.delete_rows(table, half, write_time),
            || None,
        )
    }

    fn version_max(&self) -> Option<usize> {
        self.below.version_max()
    }

    fn puts_in_order(&self) -> bool {
        self.below.puts_in_order()
    }

    fn is_linearizable_after_failures(&self) -> bool {
        self.below.is_linearizable_after_failures()
    }
}
