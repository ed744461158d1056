//! Layouts of commit records by start timestamp, which all clients of a store agree on and which
//! can change while they run.
//!
//! The coordination row has a map and a bound. Up to and including the bound, every client uses the
//! map, which never changes again for those timestamps. So a client can use a map permanently up to
//! the bound with which it was read.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};

use super::{Layout, ServiceError, ServiceResult};
use crate::encoding::coordination::{ADVANCE, ROW, SequenceAndBound, TABLE, VersionMap};
use crate::encoding::var_long;
use crate::store::{Cell, CheckOutcome, PutOutcome, PutRow, Store, TableKind};
use crate::timelock::{TimeLock, TimeLockError};
use crate::timestamp::Timestamp;

/// Number of attempts to change the row while other clients change it too.
const ATTEMPTS_MAX: usize = 50;

/// Content of the coordination row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agreed {
    /// Timestamp of the map's installation, fresh at that time.
    pub sequence: Timestamp,
    /// Last start timestamp decided by the map. Above it, the map is a forecast.
    pub bound: Timestamp,
    /// Layout of each start timestamp.
    pub map: VersionMap,
}

impl Agreed {
    /// Returns a timestamp that was issued before the last change of the row.
    pub fn issued(&self) -> Timestamp {
        SequenceAndBound { sequence: self.sequence.0, bound: self.bound.0 }.issued()
    }
}

/// Result of a migration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Migrated {
    /// Previous layout of new transactions.
    pub from: u32,
    /// New layout.
    pub to: u32,
    /// First start timestamp with the new layout.
    pub first: Timestamp,
}

/// The cached coordination row of a store. Any thread may use it.
pub struct Coordination {
    store: Arc<dyn Store>,
    timelock: Arc<dyn TimeLock>,
    /// Layout version of everything in a store without a map.
    initial: u32,
    /// Row as read last. The bound only grows.
    cached: RwLock<Option<Agreed>>,
    /// Held by the thread that reads or changes the row, so that the others do not repeat the slow
    /// serial read.
    asking: Mutex<()>,
}

/// The row as stored; a check-and-set compares with `raw`.
struct Stored {
    raw: Bytes,
    agreed: Agreed,
}

fn column(sequence: i64) -> Bytes {
    var_long::encode(sequence).into()
}

impl Coordination {
    /// Opens the row of `store`, creating its table. Reads and writes nothing until it is used.
    ///
    /// # Errors
    /// `UnknownLayout` if `initial`, the layout for stores without one, is unknown; the store's
    /// error.
    pub fn open(store: Arc<dyn Store>, timelock: Arc<dyn TimeLock>, initial: u32) -> ServiceResult<Self> {
        known(initial)?;
        store.create_table(TABLE, TableKind::Data)?;
        let (cached, asking) = (RwLock::default(), Mutex::default());
        Ok(Self { store, timelock, initial, cached, asking })
    }

    /// Reads the row of `store` without timestamps; `None` if there is none. Read-only.
    pub fn peek(store: &dyn Store) -> ServiceResult<Option<Agreed>> {
        if !store.open_table(TABLE)? {
            return Ok(None);
        }
        Ok(stored_in(store)?.map(|stored| stored.agreed))
    }

    /// Reads the row; `None` if the store was never opened for transactions. Read-only.
    pub fn read(&self) -> ServiceResult<Option<Agreed>> {
        Ok(self.stored()?.map(|stored| stored.agreed))
    }

    /// Returns the layout version of `start`, which must have been issued. Creates the row if
    /// needed, and extends a bound that lies below `start`.
    ///
    /// # Errors
    /// `NotIssued`, `WentBackwards`, or the error of the store or the timestamps.
    pub fn version(&self, start: Timestamp) -> ServiceResult<u32> {
        if let Some(version) = self.cached_version(start) {
            return Ok(version);
        }
        let _asking = self.asking.lock();
        // Another thread may have read it meanwhile.
        if let Some(version) = self.cached_version(start) {
            return Ok(version);
        }
        for _ in 0..ATTEMPTS_MAX {
            let stored = self.stored()?;
            if let Some(stored) = &stored
                && let Some(version) = decide(&stored.agreed, start)
            {
                return Ok(version);
            }
            let fresh = self.fresh(stored.as_ref())?;
            if start >= fresh {
                return Err(ServiceError::NotIssued { start, fresh });
            }
            self.advance(stored, fresh, |_| None)?;
        }
        Err(ServiceError::Contended { attempts: ATTEMPTS_MAX })
    }

    /// Returns the row, created if needed. Detects timestamps that lie below those of the row.
    ///
    /// # Errors
    /// `NewerLayout` if a start timestamp has an unknown layout; `WentBackwards`; the errors of
    /// [`version`](Self::version).
    pub fn agree(&self) -> ServiceResult<Agreed> {
        let _asking = self.asking.lock();
        for _ in 0..ATTEMPTS_MAX {
            match self.stored()? {
                Some(stored) => {
                    stored
                        .agreed
                        .map
                        .ranges()
                        .iter()
                        .try_for_each(|(_, version)| known(*version).map(drop))?;
                    match self.fresh(Some(&stored)) {
                        // A read-only client has no timestamps that could be wrong.
                        Ok(_) | Err(ServiceError::TimeLock(TimeLockError::ReadOnly)) => {}
                        Err(error) => return Err(error),
                    }
                    return Ok(stored.agreed);
                }
                None => {
                    let fresh = self.fresh(None)?;
                    self.advance(None, fresh, |_| None)?;
                }
            }
        }
        Err(ServiceError::Contended { attempts: ATTEMPTS_MAX })
    }

    /// Maps all start timestamps above the bound to `version`. They are reached as timestamps
    /// advance, without stopping any client. No-op if the layout is already installed.
    ///
    /// # Errors
    /// `UnknownLayout`; `NewerLayout` if new transactions of the store have one; the errors of
    /// [`version`](Self::version).
    pub fn install(&self, version: u32) -> ServiceResult<Agreed> {
        known(version)?;
        let _asking = self.asking.lock();
        for _ in 0..ATTEMPTS_MAX {
            let stored = self.stored()?;
            if let Some(stored) = &stored {
                known(stored.agreed.map.last_version())?;
                if stored.agreed.map.last_version() == version {
                    return Ok(stored.agreed.clone());
                }
            }
            let fresh = self.fresh(stored.as_ref())?;
            self.advance(stored, fresh, |old| old.map.install(old.bound.0, version))?;
        }
        Err(ServiceError::Contended { attempts: ATTEMPTS_MAX })
    }

    /// Installs `version` and advances the timestamps to where it begins: every transaction that
    /// starts after this returns has the new layout. Open transactions, and the commit records of
    /// old ones, keep the old layout. Clients keep running.
    ///
    /// # Errors
    /// As [`install`](Self::install). Whatever was installed stays: run it again.
    pub fn migrate(&self, version: u32) -> ServiceResult<Migrated> {
        let from = self.agree()?.map.last_version();
        for _ in 0..ATTEMPTS_MAX {
            // M1.
            let first = Timestamp(self.install(version)?.map.last_first());
            // M2.
            self.timelock.fast_forward(first)?;
            // M3: another client may have installed a different layout meanwhile.
            if self.version(self.timelock.timestamp()?)? == version {
                return Ok(Migrated { from, to: version, first });
            }
        }
        Err(ServiceError::Contended { attempts: ATTEMPTS_MAX })
    }

    fn cached_version(&self, start: Timestamp) -> Option<u32> {
        decide(self.cached.read().as_ref()?, start)
    }

    fn fresh(&self, stored: Option<&Stored>) -> ServiceResult<Timestamp> {
        let fresh = self.timelock.timestamp()?;
        match stored {
            Some(stored) if fresh <= stored.agreed.issued() => {
                Err(ServiceError::WentBackwards { fresh, seen: stored.agreed.issued() })
            }
            _ => Ok(fresh),
        }
    }

    /// Reads the row and caches it.
    fn stored(&self) -> ServiceResult<Option<Stored>> {
        let Some(stored) = stored_in(&*self.store)? else { return Ok(None) };
        let mut cached = self.cached.write();
        if cached.as_ref().is_none_or(|cached| cached.bound <= stored.agreed.bound) {
            *cached = Some(stored.agreed.clone());
        }
        Ok(Some(stored))
    }

    /// Stores a new map if `change` returns one, and a bound above `fresh`. The caller reads the
    /// row again to find out whose change was stored.
    fn advance(
        &self,
        stored: Option<Stored>,
        fresh: Timestamp,
        change: impl FnOnce(&Agreed) -> Option<VersionMap>,
    ) -> ServiceResult<()> {
        let bound = fresh.0.saturating_add(ADVANCE);
        let row = Bytes::from_static(ROW);
        let Some(Stored { raw, agreed }) = stored else {
            self.put_map(fresh, &VersionMap::all(self.initial))?;
            let pair = SequenceAndBound { sequence: fresh.0, bound }.encode();
            let put = PutRow { row, columns: vec![(column(0), pair.into())] };
            for outcome in self.store.put_unless_exists(TABLE, &[put]) {
                outcome?;
            }
            return Ok(());
        };
        let sequence = match change(&agreed) {
            Some(map) => {
                self.put_map(fresh, &map)?;
                fresh.0
            }
            None => agreed.sequence.0,
        };
        let pair = SequenceAndBound { sequence, bound: bound.max(agreed.bound.0) }.encode();
        match self.store.check_and_set(TABLE, &Cell::new(row, column(0)), &raw, &pair.into())? {
            CheckOutcome::Applied | CheckOutcome::Actual(Some(_)) => Ok(()),
            CheckOutcome::Actual(None) => Err(ServiceError::Broken {
                start: fresh,
                what: "expected a coordination row, found none".to_owned(),
            }),
        }
    }

    fn put_map(&self, sequence: Timestamp, map: &VersionMap) -> ServiceResult<()> {
        let columns = vec![(column(sequence.0), Bytes::from(map.encode()))];
        let put = PutRow { row: Bytes::from_static(ROW), columns: columns.clone() };
        for outcome in self.store.put_unless_exists(TABLE, &[put]) {
            // An earlier attempt of this request.
            if let PutOutcome::Exists(existing) = outcome?
                && existing != columns
            {
                // Two clients received the same timestamp.
                return Err(ServiceError::WentBackwards { fresh: sequence, seen: sequence });
            }
        }
        Ok(())
    }
}

/// Reads the row of a store whose table exists.
fn stored_in(store: &dyn Store) -> ServiceResult<Option<Stored>> {
    let row = Bytes::from_static(ROW);
    let value = |sequence: i64| -> ServiceResult<Option<Bytes>> {
        Ok(store.get_serial(TABLE, &row, &[column(sequence)])?.pop().flatten())
    };
    let Some(raw) = value(0)? else { return Ok(None) };
    let SequenceAndBound { sequence, bound } =
        SequenceAndBound::decode(&raw).map_err(ServiceError::Coordination)?;
    let map = value(sequence)?.ok_or_else(|| ServiceError::Broken {
        start: Timestamp(sequence),
        what: "the coordination row lacks the map of its sequence number".to_owned(),
    })?;
    let map = VersionMap::decode(&map).map_err(ServiceError::Coordination)?;
    let agreed = Agreed { sequence: Timestamp(sequence), bound: Timestamp(bound), map };
    Ok(Some(Stored { raw, agreed }))
}

fn decide(agreed: &Agreed, start: Timestamp) -> Option<u32> {
    if start <= agreed.bound { agreed.map.version(start) } else { None }
}

/// Returns the layout of a version, which may belong to a newer program.
pub(super) fn known(version: u32) -> ServiceResult<Layout> {
    Layout::of_version(version).ok_or(ServiceError::NewerLayout { version })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{FailingStore, Fault, MemoryStore};
    use crate::timelock::LocalTimeLock;

    type Failing = Arc<FailingStore<MemoryStore>>;

    fn store() -> (Failing, Arc<dyn TimeLock>) {
        let store = Arc::new(FailingStore::new(MemoryStore::new()));
        let timelock = Arc::new(LocalTimeLock::open(store.clone()).unwrap());
        (store, timelock)
    }

    fn client((store, timelock): &(Failing, Arc<dyn TimeLock>), initial: u32) -> Coordination {
        Coordination::open(store.clone(), timelock.clone(), initial).unwrap()
    }

    #[test]
    fn clients_agree_on_layouts_while_a_new_one_is_installed() {
        let shared = store();
        let (old, new) = (client(&shared, 1), client(&shared, 2));
        let first = shared.1.timestamp().unwrap();
        assert_eq!((new.read(), Coordination::peek(&*shared.0)), (Ok(None), Ok(None)));
        assert_eq!(Coordination::peek(&MemoryStore::new()), Ok(None));
        assert_eq!(old.version(first), Ok(1));
        let bound = old.read().unwrap().unwrap().bound;
        assert_eq!(new.version(first), Ok(1), "the first caller decided");
        new.install(3).unwrap();
        shared.1.fast_forward(Timestamp(bound.0 + 10)).unwrap();
        for at in [bound.0 - 1, bound.0] {
            assert_eq!((old.version(Timestamp(at)), new.version(Timestamp(at))), (Ok(1), Ok(1)));
        }
        for at in [bound.0 + 1, bound.0 + 10] {
            assert_eq!((old.version(Timestamp(at)), new.version(Timestamp(at))), (Ok(3), Ok(3)));
        }
    }

    #[test]
    fn migration_applies_on_return_and_keeps_old_layouts() {
        let shared = store();
        let (a, b) = (client(&shared, 1), client(&shared, 1));
        let old = shared.1.timestamp().unwrap();
        assert_eq!(b.version(old), Ok(1));
        let to_2 = a.migrate(2).unwrap();
        let to_3 = a.migrate(3).unwrap();
        assert_eq!((to_2.from, to_2.to, to_3.from, to_3.to), (1, 2, 2, 3));
        assert!(old < to_2.first && to_2.first < to_3.first);
        let fresh = shared.1.timestamp().unwrap();
        assert_eq!([old, to_2.first, to_3.first, fresh].map(|at| b.version(at).unwrap()), [1, 2, 3, 3]);
        let ranges = Coordination::peek(&*shared.0).unwrap().unwrap().map.ranges().to_vec();
        assert_eq!(ranges, [(1, 1), (to_2.first.0, 2), (to_3.first.0, 3)]);
        assert_eq!(a.migrate(3).unwrap().first, to_3.first, "it is there already");
    }

    #[test]
    fn bound_advances_with_timestamps_and_the_row_is_rarely_read() {
        let shared = store();
        let client = client(&shared, 2);
        client.version(shared.1.timestamp().unwrap()).unwrap();
        let before = shared.0.calls();
        let next = shared.1.timestamp().unwrap();
        assert_eq!((client.version(next), shared.0.calls()), (Ok(2), before));
        shared.1.fast_forward(Timestamp(3 * ADVANCE)).unwrap();
        let far = shared.1.timestamp().unwrap();
        assert_eq!(client.version(far), Ok(2));
        assert!(client.read().unwrap().unwrap().bound > far);
    }

    #[test]
    fn a_failed_coordination_change_can_be_retried() {
        for fault in [Fault::Lost, Fault::Unanswered] {
            for n in 1.. {
                let shared = store();
                let client = client(&shared, 1);
                let old = shared.1.timestamp().unwrap();
                assert_eq!(client.version(old), Ok(1));
                shared.0.fail_at(n, fault);
                let failed = client.migrate(2).is_err();
                if failed {
                    assert_eq!(client.migrate(2).unwrap().to, 2);
                }
                shared.0.settle();
                let fresh = shared.1.timestamp().unwrap();
                assert_eq!((client.version(old), client.version(fresh)), (Ok(1), Ok(2)));
                if !failed {
                    assert!(n > 4, "{n} calls were failed");
                    break;
                }
            }
        }
    }

    #[test]
    fn concurrent_installations_agree_on_one_map() {
        let shared = store();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let client = client(&shared, 1);
                scope.spawn(move || client.migrate(2 + thread % 2).unwrap());
            }
        });
        let maps: Vec<_> = (0..2).map(|_| client(&shared, 1).agree().unwrap()).collect();
        assert_eq!(maps[0], maps[1]);
    }

    #[test]
    fn opening_a_store_detects_timestamps_that_went_backwards() {
        let shared = store();
        let first = client(&shared, 2);
        first.version(shared.1.timestamp().unwrap()).unwrap();
        first.agree().unwrap();
        // A bound of another store, or an old one, replaced this one's.
        let other: Arc<dyn TimeLock> = Arc::new(LocalTimeLock::open(MemoryStore::new()).unwrap());
        let open = |timelock| Coordination::open(shared.0.clone(), timelock, 2).unwrap();
        other.fast_forward(shared.1.timestamp().unwrap()).unwrap();
        open(other.clone()).agree().unwrap();
        shared.1.fast_forward(Timestamp(3 * ADVANCE)).unwrap();
        first.version(shared.1.timestamp().unwrap()).unwrap();
        let error = open(other.clone()).agree().unwrap_err();
        assert!(matches!(error, ServiceError::WentBackwards { .. }), "{error}");
        let issued = first.read().unwrap().unwrap().issued();
        assert!(issued > Timestamp(3 * ADVANCE) && issued < shared.1.timestamp().unwrap());
        other.fast_forward(issued).unwrap();
        open(other).agree().unwrap();
        // A read-only client has none.
        let looking = Arc::new(crate::timelock::ReadOnlyTimeLock::open(&*shared.0).unwrap());
        open(looking).agree().unwrap();
    }

    #[test]
    fn newer_or_unknown_layouts_and_backward_timestamps_are_rejected() {
        let shared = store();
        let client = client(&shared, 2);
        assert_eq!(client.install(4), Err(ServiceError::NewerLayout { version: 4 }));
        let fresh = shared.1.timestamp().unwrap();
        let future = Timestamp(fresh.0 + 2 * ADVANCE);
        let error = client.version(future).unwrap_err();
        assert!(matches!(error, ServiceError::NotIssued { start, .. } if start == future), "{error}");
        // A newer program installs an unknown layout.
        let agreed = client.agree().unwrap();
        let newer = agreed.map.install(agreed.bound.0, 7).unwrap();
        let stored = client.stored().unwrap();
        client.advance(stored, shared.1.timestamp().unwrap(), |_| Some(newer)).unwrap();
        assert_eq!(client.agree(), Err(ServiceError::NewerLayout { version: 7 }));
        assert_eq!(client.install(3), Err(ServiceError::NewerLayout { version: 7 }));
        assert_eq!(client.version(fresh), Ok(2), "older layouts are still understood");
        // Timestamps of another store begin below.
        let other: Arc<dyn TimeLock> = Arc::new(LocalTimeLock::open(MemoryStore::new()).unwrap());
        shared.1.fast_forward(agreed.bound).unwrap();
        let late = shared.1.timestamp().unwrap();
        let lost = Coordination::open(shared.0.clone(), other, 2).unwrap();
        let error = lost.version(Timestamp(late.0 + 2 * ADVANCE)).unwrap_err();
        assert!(matches!(error, ServiceError::WentBackwards { .. }), "{error}");
    }
}
