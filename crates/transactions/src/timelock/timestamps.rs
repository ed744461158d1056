//! Strictly increasing timestamps, below a bound that is stored before.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicI64, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;

use super::lease::{Record, Stored};
use super::{FAST_FORWARD_MAX, TimeLockError};
use crate::service::Layout;
use crate::store::{
    Cell, CheckOutcome, PutOutcome, PutRow, Store, StoreError, StoreId, StoreResult, TableKind,
};
use crate::timestamp::Timestamp;

const TABLE: &str = "_timestamp";
const NAME: &[u8] = b"ts";
/// The first bound. Timestamps begin above it.
pub(super) const INITIAL_BOUND: i64 = 10_000;
/// How far a new bound lies above what is needed: one write for so many timestamps, and so many lost at a restart.
pub(super) const BOUND_BUFFER: i64 = 1_000_000;

/// Where the bound is stored. Reads and writes of it are linearizable.
pub(super) struct BoundCell<S = std::sync::Arc<dyn Store>>(S);

impl<S: Store> BoundCell<S> {
    /// Makes the table, if it is not there.
    pub fn open(store: S) -> StoreResult<Self> {
        store.create_table(TABLE, TableKind::Data)?;
        Ok(Self(store))
    }

    pub fn read(&self) -> StoreResult<Option<Bytes>> {
        read(&self.0)
    }

    /// Stores the first value, unless there is one.
    pub fn create(&self, new: &Bytes) -> StoreResult<PutOutcome> {
        let name = Bytes::from_static(NAME);
        let row = PutRow { row: name.clone(), columns: vec![(name, new.clone())] };
        let none = || Err(StoreError::unknown("store the bound of timestamps", "there was no answer"));
        self.0.put_unless_exists(TABLE, &[row]).pop().unwrap_or_else(none)
    }

    pub fn replace(&self, expected: &Bytes, new: &Bytes) -> StoreResult<CheckOutcome> {
        self.0.check_and_set(TABLE, &Cell::new(NAME, NAME), expected, new)
    }

    /// What says that timestamps were given out for this store: conclusions of transactions. With them and without a bound, it is lost.
    pub fn evidence_of_use(&self) -> StoreResult<Option<String>> {
        let tables = self.0.tables()?;
        for layout in [1, 2, 3].into_iter().filter_map(Layout::of_version) {
            let name = layout.table();
            if tables.iter().any(|table| table == name) {
                self.0.create_table(name, layout.table_kind())?;
                if !self.0.rows(name, None, 1)?.is_empty() {
                    return Ok(Some(format!("there is none, and table {name} is not empty")));
                }
            }
        }
        Ok(None)
    }
}

/// Gives out timestamps. The bound in the store is above all of them, and a restart goes on above the bound.
///
/// Two instances on one store never give out the same timestamp, since each stores its bounds by check-and-set and stops for good when it finds
/// another one; but until then they may give them out in an order that is none. So there must be one instance.
pub struct Timestamps<S> {
    /// Before the store: as long as that is there, its number is no other's.
    _only: Only,
    cell: BoundCell<S>,
    /// The last one given out. It only grows.
    last: AtomicI64,
    /// The stored bound: given out are timestamps up to it. It grows with `storing` held, after it was stored.
    bound: AtomicI64,
    /// Held while a bound is stored.
    storing: Mutex<Storing>,
}

/// Stores of this process that have somebody who gives them timestamps.
static IN_USE: Mutex<BTreeSet<StoreId>> = Mutex::new(BTreeSet::new());

/// That nobody else in this process gives timestamps to a store, until it is dropped.
struct Only(Option<StoreId>);

impl Only {
    fn take(store: &impl Store) -> Result<Self, TimeLockError> {
        let id = store.id();
        match &id {
            Some(id) if !IN_USE.lock().insert(id.clone()) => {
                Err(TimeLockError::AlreadyOpen { keyspace: id.to_string() })
            }
            _ => Ok(Self(id)),
        }
    }
}

impl Drop for Only {
    fn drop(&mut self) {
        if let Some(id) = &self.0 {
            IN_USE.lock().remove(id);
        }
    }
}

#[derive(Default)]
struct Storing {
    /// A bound whose storing failed, and may have been stored all the same.
    attempted: Option<i64>,
    failed: Option<TimeLockError>,
}

fn read(store: &(impl Store + ?Sized)) -> StoreResult<Option<Bytes>> {
    let name = Bytes::from_static(NAME);
    Ok(store.get_serial(TABLE, &name, std::slice::from_ref(&name))?.pop().flatten())
}

fn encode(bound: i64) -> Bytes {
    Bytes::copy_from_slice(&bound.to_be_bytes())
}

/// The bound of timestamps that this process gives to itself.
fn decode(bytes: &[u8]) -> Result<i64, TimeLockError> {
    match Stored::decode(bytes) {
        Ok(Stored::Plain(bound)) => Ok(bound),
        Ok(Stored::Leased(record)) => Err(TimeLockError::ServedElsewhere { address: record.address }),
        Ok(Stored::Halted(halt)) => Err(halt.error()),
        Err(what) => Err(TimeLockError::BoundLost { what }),
    }
}

/// Which server leads for a store's timestamps, by what is stored; in words, if none does.
pub(super) fn stored_record(store: &dyn Store) -> StoreResult<Result<Record, String>> {
    if !store.open_table(TABLE)? {
        return Ok(Err("none was ever given out".to_owned()));
    }
    let Some(stored) = read(store)? else { return Ok(Err("none was ever given out".to_owned())) };
    Ok(match Stored::decode(&stored) {
        Ok(Stored::Leased(record)) => Ok(record),
        Ok(Stored::Plain(_)) => {
            Err("they are given out by the process that opens it, by no server".to_owned())
        }
        Ok(Stored::Halted(halt)) => Err(halt.error().to_string()),
        Err(why) => Err(format!("the bound of timestamps is none: {why}")),
    })
}

/// The stored bound: no timestamp above it has been given out. `None`, if the store has none yet. Nothing is changed.
///
/// # Errors
/// If it cannot be read, or is none.
pub fn stored_bound(store: &dyn Store) -> Result<Option<Timestamp>, StoreError> {
    if !store.open_table(TABLE)? {
        return Ok(None);
    }
    let Some(stored) = read(store)? else { return Ok(None) };
    match Stored::decode(&stored) {
        Ok(stored) => Ok(Some(Timestamp(stored.bound()))),
        Err(why) => Err(StoreError::refused("read the bound of timestamps", why)),
    }
}

impl<S: Store> Timestamps<S> {
    /// Goes on above the stored bound.
    ///
    /// # Errors
    /// AlreadyOpen; or if the bound cannot be read, or made when there is none.
    pub fn open(store: S) -> Result<Self, TimeLockError> {
        let only = Only::take(&store)?;
        let cell = BoundCell::open(store)?;
        let bound = match cell.read()? {
            Some(stored) => decode(&stored)?,
            None => {
                if let Some(what) = cell.evidence_of_use()? {
                    return Err(TimeLockError::BoundLost { what });
                }
                if let PutOutcome::Exists(_) = cell.create(&encode(INITIAL_BOUND))? {
                    let found = "one that was put just now".to_owned();
                    return Err(TimeLockError::AnotherInstance { expected: INITIAL_BOUND, found });
                }
                INITIAL_BOUND
            }
        };
        Ok(Self { _only: only, cell, last: bound.into(), bound: bound.into(), storing: Mutex::default() })
    }

    /// `count` timestamps that follow each other, as the first and the last.
    pub fn take(&self, count: i64) -> Result<(Timestamp, Timestamp), TimeLockError> {
        // No lock: whoever asks after an answer finds at least that one here.
        let mut before = self.last.load(Ordering::Relaxed);
        loop {
            let last = before.checked_add(count.max(1)).filter(|last| *last < i64::MAX - BOUND_BUFFER);
            let last = last.ok_or(TimeLockError::Exhausted(Timestamp(before)))?;
            if last > self.bound.load(Ordering::Acquire) {
                let mut storing = self.storing.lock();
                // Another thread may have stored one meanwhile.
                if last > self.bound.load(Ordering::Acquire) {
                    self.store_bound(&mut storing, last + BOUND_BUFFER)?;
                }
            }
            match self.last.compare_exchange_weak(before, last, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return Ok((Timestamp(before + 1), Timestamp(last))),
                Err(now) => before = now,
            }
        }
    }

    /// A timestamp that leaves `residue` when divided by `modulus`: clients with residues of their own put conclusions in partitions
    /// of their own. It uses up to `modulus` timestamps.
    pub fn take_residue(&self, residue: i64, modulus: i64) -> Result<Timestamp, TimeLockError> {
        let modulus = modulus.max(1);
        let (first, _) = self.take(modulus)?;
        Ok(Timestamp(first.0 + (residue - first.0).rem_euclid(modulus)))
    }

    /// Makes all later timestamps greater than `timestamp`. Never goes back.
    pub fn fast_forward(&self, timestamp: Timestamp) -> Result<(), TimeLockError> {
        let mut storing = self.storing.lock();
        if timestamp.0 <= self.last.load(Ordering::Relaxed) {
            return Ok(());
        }
        if timestamp.0 > FAST_FORWARD_MAX {
            return Err(TimeLockError::OutOfRange { asked: timestamp });
        }
        if timestamp.0 > self.bound.load(Ordering::Acquire) {
            self.store_bound(&mut storing, timestamp.0 + BOUND_BUFFER)?;
        }
        self.last.fetch_max(timestamp.0, Ordering::AcqRel);
        Ok(())
    }

    fn store_bound(&self, state: &mut Storing, bound: i64) -> Result<(), TimeLockError> {
        if let Some(failed) = &state.failed {
            return Err(failed.clone());
        }
        loop {
            let stored = self.bound.load(Ordering::Relaxed);
            match self.cell.replace(&encode(stored), &encode(bound)) {
                Ok(CheckOutcome::Applied) => {
                    state.attempted = None;
                    self.bound.store(bound, Ordering::Release);
                    return Ok(());
                }
                Ok(CheckOutcome::Actual(found)) => {
                    let Some(found) = found else {
                        let what = "it was there, and is not there any more".to_owned();
                        let error = TimeLockError::BoundLost { what };
                        state.failed = Some(error.clone());
                        return Err(error);
                    };
                    let found = decode(&found).inspect_err(|error| state.failed = Some(error.clone()))?;
                    match (found, state.attempted.take()) {
                        // Our own earlier try, whose answer was lost.
                        (found, Some(attempted)) if found == attempted => {
                            self.bound.store(found, Ordering::Release);
                            if found >= bound {
                                return Ok(());
                            }
                        }
                        (found, _) => {
                            let error =
                                TimeLockError::AnotherInstance { expected: stored, found: found.to_string() };
                            state.failed = Some(error.clone());
                            return Err(error);
                        }
                    }
                }
                Err(error) => {
                    state.attempted = Some(bound);
                    return Err(error.into());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::store::{FailingStore, Fault, MemoryStore};

    #[test]
    fn timestamps_increase_also_after_a_restart() {
        let store = Arc::new(MemoryStore::new());
        let first = Timestamps::open(store.clone()).unwrap();
        let (low, high) = first.take(10).unwrap();
        assert_eq!((low.0, high.0), (10_001, 10_010));
        assert_eq!(first.take(1).unwrap().0, Timestamp(10_011));
        let second = Timestamps::open(store).unwrap();
        assert_eq!(second.take(1).unwrap().0, Timestamp(10_010 + BOUND_BUFFER + 1));
    }

    #[test]
    fn fast_forward_never_goes_back() {
        let timestamps = Timestamps::open(MemoryStore::new()).unwrap();
        timestamps.fast_forward(Timestamp(5_000_000)).unwrap();
        timestamps.fast_forward(Timestamp(1)).unwrap();
        assert_eq!(timestamps.take(1).unwrap().0, Timestamp(5_000_001));
        assert!(timestamps.fast_forward(Timestamp::MAX).is_err());
        assert_eq!(timestamps.take(1).unwrap().0, Timestamp(5_000_002));
    }

    #[test]
    fn residues_are_as_asked_for_and_increase() {
        let timestamps = Timestamps::open(MemoryStore::new()).unwrap();
        let mut last = Timestamp(0);
        for residue in [3, 3, 0, 15, 15, 1] {
            let next = timestamps.take_residue(residue, 16).unwrap();
            assert!(next > last && next.0 % 16 == residue, "{next} after {last}");
            last = next;
        }
    }

    #[test]
    fn the_older_of_two_instances_stops_for_good() {
        let store = Arc::new(MemoryStore::new());
        let old = Timestamps::open(store.clone()).unwrap();
        old.take(1).unwrap();
        let new = Timestamps::open(store).unwrap();
        new.take(1).unwrap();
        let error = old.take(2 * BOUND_BUFFER).unwrap_err();
        assert!(matches!(error, TimeLockError::AnotherInstance { .. }), "{error}");
        assert_eq!(old.take(2 * BOUND_BUFFER).unwrap_err(), error);
        new.take(3 * BOUND_BUFFER).unwrap();
    }

    #[test]
    fn a_bound_whose_storing_nobody_answered_is_gone_on_with() {
        let store = Arc::new(FailingStore::new(MemoryStore::new()));
        let timestamps = Timestamps::open(store.clone()).unwrap();
        for fault in [Fault::Unanswered, Fault::Lost] {
            timestamps.take(BOUND_BUFFER).unwrap();
            store.fail_at(1, fault);
            assert!(timestamps.take(BOUND_BUFFER + 1).is_err());
            let before = timestamps.take(BOUND_BUFFER + 1).unwrap();
            assert!(timestamps.take(1).unwrap() > before);
        }
    }
}
