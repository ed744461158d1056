//! Strictly increasing timestamps below a bound that is stored first.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicI64, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;

use super::lease::{Record, Stored};
use super::{FAST_FORWARD_MAX, TimeLockError};
use crate::encoding::layout::Layout;
use crate::store::{
    Cell, CheckOutcome, PutOutcome, PutRow, Store, StoreError, StoreId, StoreResult, TableKind,
};
use crate::timestamp::Timestamp;

const TABLE: &str = "_timestamp";
const NAME: &[u8] = b"ts";
/// Initial bound. Timestamps begin above it.
pub(super) const INITIAL_BOUND: i64 = 10_000;
/// How far a new bound lies above the timestamps needed: the number of timestamps per write of the
/// bound, and the maximum number lost at a restart.
pub(super) const BOUND_BUFFER: i64 = 1_000_000;

/// Cell of the stored bound. Its reads and writes are linearizable.
pub(super) struct BoundCell<S = std::sync::Arc<dyn Store>>(S);

impl<S: Store> BoundCell<S> {
    /// Opens the cell, creating its table if needed.
    pub fn open(store: S) -> StoreResult<Self> {
        store.create_table(TABLE, TableKind::Data)?;
        Ok(Self(store))
    }

    pub fn read(&self) -> StoreResult<Option<Bytes>> {
        read(&self.0)
    }

    /// Stores the first value unless there is one.
    pub fn create(&self, new: &Bytes) -> StoreResult<PutOutcome> {
        let name = Bytes::from_static(NAME);
        let row = PutRow { row: name.clone(), columns: vec![(name, new.clone())] };
        let none = || Err(StoreError::unknown("store the timestamp bound", "no response"));
        self.0.put_unless_exists(TABLE, &[row]).pop().unwrap_or_else(none)
    }

    pub fn replace(&self, expected: &Bytes, new: &Bytes) -> StoreResult<CheckOutcome> {
        self.0.check_and_set(TABLE, &Cell::new(NAME, NAME), expected, new)
    }

    /// Returns evidence that timestamps were issued for this store: commit records of
    /// transactions. If there are any and no bound, the bound is lost.
    pub fn evidence_of_use(&self) -> StoreResult<Option<String>> {
        let tables = self.0.tables()?;
        for layout in [1, 2, 3].into_iter().filter_map(Layout::of_version) {
            let name = layout.table();
            if tables.iter().any(|table| table == name) {
                self.0.create_table(name, layout.table_kind())?;
                if !self.0.rows(name, None, 1)?.is_empty() {
                    return Ok(Some(format!("no bound is stored, and table {name} is not empty")));
                }
            }
        }
        Ok(None)
    }
}

/// Issues timestamps. The stored bound is above all of them, and after a restart they continue
/// above it.
///
/// Two instances on one store never issue the same timestamp: each stores its bounds by
/// check-and-set, and stops permanently when it finds another one. Until then their timestamps are
/// not ordered relative to each other, so there must be one instance.
pub struct Timestamps<S> {
    /// Declared before the store: the store's identity is unique only while the store exists.
    _only: Only,
    cell: BoundCell<S>,
    /// Last timestamp issued. Only grows.
    last: AtomicI64,
    /// Stored bound; timestamps up to it may be issued. Raised under `storing`, after it was
    /// stored.
    bound: AtomicI64,
    /// Held while a bound is stored.
    storing: Mutex<Storing>,
}

/// Stores of this process with a source of timestamps.
static IN_USE: Mutex<BTreeSet<StoreId>> = Mutex::new(BTreeSet::new());

/// Exclusive right of one instance in this process to issue a store's timestamps, until dropped.
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
    /// Bound of a failed write, which may have been applied.
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

/// Decodes the bound of a process that issues its own timestamps.
fn decode(bytes: &[u8]) -> Result<i64, TimeLockError> {
    match Stored::decode(bytes) {
        Ok(Stored::Plain(bound)) => Ok(bound),
        Ok(Stored::Leased(record)) => Err(TimeLockError::ServedElsewhere { address: record.address }),
        Ok(Stored::Halted(halt)) => Err(halt.error()),
        Err(what) => Err(TimeLockError::BoundLost { what }),
    }
}

/// Returns the record of the leader of a store's timestamps, or the reason why there is none.
pub(super) fn stored_record(store: &dyn Store) -> StoreResult<Result<Record, String>> {
    if !store.open_table(TABLE)? {
        return Ok(Err("none were issued yet".to_owned()));
    }
    let Some(stored) = read(store)? else { return Ok(Err("none were issued yet".to_owned())) };
    Ok(match Stored::decode(&stored) {
        Ok(Stored::Leased(record)) => Ok(record),
        Ok(Stored::Plain(_)) => Err("the process that opens the store issues them, not a server".to_owned()),
        Ok(Stored::Halted(halt)) => Err(halt.error().to_string()),
        Err(why) => Err(format!("the stored timestamp bound is malformed: {why}")),
    })
}

/// Returns the stored bound: no timestamp above it was issued. `None` if the store has none.
/// Read-only.
///
/// # Errors
/// If the bound cannot be read or is malformed.
pub fn stored_bound(store: &dyn Store) -> Result<Option<Timestamp>, StoreError> {
    if !store.open_table(TABLE)? {
        return Ok(None);
    }
    let Some(stored) = read(store)? else { return Ok(None) };
    match Stored::decode(&stored) {
        Ok(stored) => Ok(Some(Timestamp(stored.bound()))),
        Err(why) => Err(StoreError::refused("read the timestamp bound", why)),
    }
}

impl<S: Store> Timestamps<S> {
    /// Continues above the stored bound.
    ///
    /// # Errors
    /// `AlreadyOpen`, or the error of reading or creating the bound.
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
                    let found = "a bound stored at the same time".to_owned();
                    return Err(TimeLockError::AnotherInstance { expected: INITIAL_BOUND, found });
                }
                INITIAL_BOUND
            }
        };
        Ok(Self { _only: only, cell, last: bound.into(), bound: bound.into(), storing: Mutex::default() })
    }

    /// Takes `count` consecutive timestamps and returns the first and the last.
    pub fn take(&self, count: i64) -> Result<(Timestamp, Timestamp), TimeLockError> {
        // Without a lock: a caller that starts after another call returned loads at least that
        // call's value.
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

    /// Takes a timestamp congruent to `residue` modulo `modulus`, consuming up to `modulus`
    /// timestamps. Clients with different residues write commit records to different partitions.
    pub fn take_residue(&self, residue: i64, modulus: i64) -> Result<Timestamp, TimeLockError> {
        let modulus = modulus.max(1);
        let (first, _) = self.take(modulus)?;
        Ok(Timestamp(first.0 + (residue - first.0).rem_euclid(modulus)))
    }

    /// Makes all later timestamps greater than `timestamp`. Timestamps never go back.
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
                        let what = "expected a stored bound, found none".to_owned();
                        let error = TimeLockError::BoundLost { what };
                        state.failed = Some(error.clone());
                        return Err(error);
                    };
                    let found = decode(&found).inspect_err(|error| state.failed = Some(error.clone()))?;
                    match (found, state.attempted.take()) {
                        // Our own earlier attempt, whose reply was lost.
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
    fn timestamps_increase_across_a_restart() {
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
    fn timestamps_have_the_requested_residue_and_increase() {
        let timestamps = Timestamps::open(MemoryStore::new()).unwrap();
        let mut last = Timestamp(0);
        for residue in [3, 3, 0, 15, 15, 1] {
            let next = timestamps.take_residue(residue, 16).unwrap();
            assert!(next > last && next.0 % 16 == residue, "{next} after {last}");
            last = next;
        }
    }

    #[test]
    fn the_older_of_two_instances_stops_permanently() {
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
    fn a_bound_write_without_a_response_is_recovered() {
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
