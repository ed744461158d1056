//! Strictly increasing timestamps, below a bound that is stored before.

use bytes::Bytes;
use parking_lot::Mutex;

use super::TimeLockError;
use crate::store::{Cell, CheckOutcome, PutOutcome, PutRow, Store, StoreError, TableKind};
use crate::timestamp::Timestamp;

const TABLE: &str = "_timestamp";
const NAME: &[u8] = b"ts";
/// The first bound. Timestamps begin above it.
const INITIAL_BOUND: i64 = 10_000;
/// How far a new bound lies above what is needed: one write for so many timestamps, and so many lost at a restart.
const BOUND_BUFFER: i64 = 1_000_000;

/// Gives out timestamps. The bound in the store is above all of them, and a restart goes on above the bound.
///
/// Two instances on one store never give out the same timestamp, since each stores its bounds by check-and-set and stops for good when it finds
/// another one; but until then they may give them out in an order that is none. So there must be one instance.
pub struct Timestamps<S> {
    store: S,
    state: Mutex<State>,
}

struct State {
    /// The last one given out.
    last: i64,
    /// The stored bound: given out are timestamps up to it.
    bound: i64,
    /// A bound whose storing failed, and may have been stored all the same.
    attempted: Option<i64>,
    failed: Option<TimeLockError>,
}

fn encode(bound: i64) -> Bytes {
    Bytes::copy_from_slice(&bound.to_be_bytes())
}

fn decode(bytes: &[u8]) -> Result<i64, StoreError> {
    let array = <[u8; 8]>::try_from(bytes);
    array.map(i64::from_be_bytes).map_err(|_| StoreError::refused("read it", "it is not 8 bytes long"))
}

/// The stored bound: no timestamp above it has been given out. `None`, if the store has none yet. Nothing is changed.
///
/// # Errors
/// If it cannot be read, or is none.
pub fn stored_bound(store: &dyn Store) -> Result<Option<Timestamp>, StoreError> {
    store.create_table(TABLE, TableKind::Data)?;
    let name = Bytes::from_static(NAME);
    let stored = store.get_serial(TABLE, &name, std::slice::from_ref(&name))?.pop().flatten();
    stored.map(|stored| decode(&stored).map(Timestamp)).transpose()
}

impl<S: Store> Timestamps<S> {
    /// Goes on above the stored bound.
    ///
    /// # Errors
    /// If the bound cannot be read, or made when there is none.
    pub fn open(store: S) -> Result<Self, TimeLockError> {
        let name = Bytes::from_static(NAME);
        let bound = match stored_bound(&store)? {
            Some(bound) => bound.0,
            None => {
                let row = PutRow { row: name.clone(), columns: vec![(name.clone(), encode(INITIAL_BOUND))] };
                for outcome in store.put_unless_exists(TABLE, &[row]) {
                    if let PutOutcome::Exists(_) = outcome? {
                        return Err(TimeLockError::AnotherInstance {
                            expected: INITIAL_BOUND,
                            found: "one that was put just now".to_owned(),
                        });
                    }
                }
                INITIAL_BOUND
            }
        };
        Ok(Self { store, state: Mutex::new(State { last: bound, bound, attempted: None, failed: None }) })
    }

    /// `count` timestamps that follow each other, as the first and the last.
    pub fn take(&self, count: i64) -> Result<(Timestamp, Timestamp), TimeLockError> {
        let mut state = self.state.lock();
        let last = state.last.checked_add(count.max(1)).filter(|last| *last < i64::MAX - BOUND_BUFFER);
        let last = last.ok_or(TimeLockError::Exhausted(Timestamp(state.last)))?;
        if last > state.bound {
            self.store_bound(&mut state, last + BOUND_BUFFER)?;
        }
        let first = state.last + 1;
        state.last = last;
        Ok((Timestamp(first), Timestamp(last)))
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
        let mut state = self.state.lock();
        if timestamp.0 <= state.last {
            return Ok(());
        }
        if timestamp.0 >= i64::MAX - 2 * BOUND_BUFFER {
            return Err(TimeLockError::Exhausted(timestamp));
        }
        if timestamp.0 > state.bound {
            self.store_bound(&mut state, timestamp.0 + BOUND_BUFFER)?;
        }
        state.last = timestamp.0;
        Ok(())
    }

    fn store_bound(&self, state: &mut State, bound: i64) -> Result<(), TimeLockError> {
        if let Some(failed) = &state.failed {
            return Err(failed.clone());
        }
        let cell = Cell::new(NAME, NAME);
        loop {
            match self.store.check_and_set(TABLE, &cell, &encode(state.bound), &encode(bound)) {
                Ok(CheckOutcome::Applied) => {
                    (state.bound, state.attempted) = (bound, None);
                    return Ok(());
                }
                Ok(CheckOutcome::Actual(found)) => {
                    let found = found.as_deref().map(decode).transpose()?;
                    match (found, state.attempted.take()) {
                        // Our own earlier try, whose answer was lost.
                        (Some(found), Some(attempted)) if found == attempted => state.bound = found,
                        (found, _) => {
                            let error = TimeLockError::AnotherInstance {
                                expected: state.bound,
                                found: found.map_or_else(|| "gone".to_owned(), |found| found.to_string()),
                            };
                            state.failed = Some(error.clone());
                            return Err(error);
                        }
                    }
                    if state.bound >= bound {
                        return Ok(());
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
