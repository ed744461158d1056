//! Time and UUIDs that are the same in each run, for snapshot tests.
//!
//! All that such a database generates follows from its seed, the start of its clock, and the
//! requests so far:
//!
//! - The clock advances by [`STEP`] at each request that writes rows of users, before its
//!   execution. Nothing else moves it: requests that drivers send on their own read.
//! - `uuid()` returns the digests of the seed and of the number of UUIDs so far.
//! - A write timestamp is the time of its request.
//!
//! The clock can be set back, so that each test observes the same values. Rows that remain then may
//! have later timestamps than the clock: writes to their table get timestamps after those.
//!
//! What no client observes never goes back: the timestamps of schema changes and of other writes to
//! system tables, and the paths of list elements ([`WriteClock`](super::write_clock::WriteClock)).

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cassette_engine::may_wait;
use cassette_vfs::{Clock, SteppedClock};
use md5::{Digest, Md5};
use uuid::{Builder, Uuid};

use crate::basics::error::{DatabaseError, Result};
use crate::basics::time_uuids::TimeUuids;

/// How far a write advances the clock, microseconds: the resolution of CQL's timestamps, so that
/// each write has another one.
const STEP: i64 = 1000;

/// 2025-01-01T00:00:00Z, seconds since 1970.
const DEFAULT_START: u64 = 1_735_689_600;

/// 2100-01-01T00:00:00Z, milliseconds since 1970: deletion times have 32 bits for seconds.
const TIME_MAX: i64 = 4_102_444_800_000;

/// What makes time and UUIDs of a database the same in each run: see
/// [`Options::seed`](crate::Options::seed).
///
/// ```
/// # fn main() -> cassette_database::Result<()> {
/// let database = cassette_database::OpenOptions::new().seed(7).open_in_memory()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seed {
    number: u64,
    start: SystemTime,
}

impl Seed {
    /// Returns a seed whose clock starts at 2025-01-01T00:00:00Z.
    pub fn new(number: u64) -> Self {
        Self { number, start: UNIX_EPOCH + Duration::from_secs(DEFAULT_START) }
    }

    /// Lets the clock start at another time, from 1970 to 2099; milliseconds count.
    #[must_use]
    pub fn starting_at(self, start: SystemTime) -> Self {
        Self { start, ..self }
    }
}

impl From<u64> for Seed {
    fn from(number: u64) -> Self {
        Self::new(number)
    }
}

/// The generators of a database with a seed.
#[derive(Debug)]
pub(crate) struct Seeded {
    number: u64,
    /// Milliseconds since 1970.
    start: i64,
    clock: Arc<SteppedClock>,
    time_uuids: TimeUuids,
    /// The number of UUIDs of version 4 so far.
    drawn: AtomicU64,
    /// The last write timestamp since the clock was set.
    last: AtomicI64,
    /// The highest write timestamp.
    highest: AtomicI64,
}

impl Seeded {
    /// # Errors
    /// Config, if the clock cannot start at that time.
    pub fn new(seed: Seed) -> Result<Self> {
        let since = seed.start.duration_since(UNIX_EPOCH).ok();
        let start = since.and_then(|since| i64::try_from(since.as_millis()).ok());
        let Some(start) = start.filter(|start| *start < TIME_MAX) else {
            return Err(DatabaseError::Config(
                "the clock cannot start at that time: expected a time from 1970 to 2099".to_owned(),
            ));
        };
        let micros = start * 1000;
        let seeded = Self {
            number: seed.number,
            start,
            clock: Arc::new(SteppedClock::at_micros(micros)),
            time_uuids: TimeUuids::after(micros),
            drawn: AtomicU64::new(0),
            last: AtomicI64::new(micros),
            highest: AtomicI64::new(micros),
        };
        let node = seeded.bytes("node", 0);
        Ok(Self { time_uuids: seeded.time_uuids.of_node(node), ..seeded })
    }

    /// Returns the clock of the database.
    pub fn clock(&self) -> Arc<dyn Clock> {
        self.clock.clone()
    }

    /// Begins a request.
    ///
    /// # Errors
    /// WouldBlock, if this thread must not wait: a request that is repeated would generate values
    /// twice.
    pub fn begin(&self, writes_rows: bool) -> Result<()> {
        if !may_wait() {
            return Err(DatabaseError::WouldBlock);
        }
        if writes_rows {
            self.clock.advance_micros(STEP);
        }
        Ok(())
    }

    /// Returns the write timestamp of a request at `now`, microseconds: a later one than those
    /// before, or, after the clock was set back, than those that are in the tables of the request.
    /// `newest` returns the highest timestamp in them. (Clients can choose timestamps beyond all
    /// that were issued; those hide later writes, as they do without a seed.)
    pub fn issue(&self, now: i64, newest: impl FnOnce() -> i64) -> i64 {
        let highest = self.highest.load(Ordering::SeqCst);
        let was_set_back = highest > self.last.load(Ordering::SeqCst);
        let before = if was_set_back { newest().min(highest) } else { i64::MIN };
        let next = |last: i64| now.max(last.max(before).saturating_add(1));
        let last = self.last.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |last| Some(next(last)));
        let issued = next(last.unwrap_or(now));
        self.highest.fetch_max(issued, Ordering::SeqCst);
        issued
    }

    /// Returns the next time UUID.
    pub fn time_uuid(&self) -> Uuid {
        self.time_uuids.next(self.clock.now_micros())
    }

    /// Returns the next UUID of version 4.
    pub fn uuid(&self) -> Uuid {
        self.uuid_of("uuid", self.drawn.fetch_add(1, Ordering::SeqCst))
    }

    /// Returns the id of the node.
    pub fn host_id(&self) -> Uuid {
        self.uuid_of("host_id", 0)
    }

    /// Returns the key of paging states, which are the same in each run, too.
    pub fn paging_key(&self) -> [u8; 32] {
        let mut key = [0; 32];
        key[..16].copy_from_slice(&self.bytes("paging_key", 0));
        key[16..].copy_from_slice(&self.bytes("paging_key", 1));
        key
    }

    /// Returns the time and where the clock started, milliseconds since 1970.
    pub fn times(&self) -> (i64, i64) {
        (self.clock.now_micros().div_euclid(1000), self.start)
    }

    /// Sets the clock, milliseconds since 1970, forwards or back.
    ///
    /// # Errors
    /// Invalid, if the time is out of range.
    pub fn set(&self, millis: i64) -> Result<()> {
        if !(0..TIME_MAX).contains(&millis) {
            return Err(DatabaseError::invalid("now: expected a time from 1970 to 2099"));
        }
        let micros = millis * 1000;
        self.clock.set_micros(micros);
        self.time_uuids.restart(micros);
        self.last.store(micros, Ordering::SeqCst);
        Ok(())
    }

    /// Returns the clock to its start, and `uuid()` to its first value.
    pub fn reset(&self) -> Result<()> {
        self.drawn.store(0, Ordering::SeqCst);
        self.set(self.start)
    }

    fn uuid_of(&self, purpose: &str, number: u64) -> Uuid {
        Builder::from_random_bytes(self.bytes(purpose, number)).into_uuid()
    }

    /// Returns bytes that follow from the seed. They must not change between releases: snapshots of
    /// tests contain them.
    fn bytes(&self, purpose: &str, number: u64) -> [u8; 16] {
        let digest = Md5::new().chain_update(self.number.to_be_bytes()).chain_update(number.to_be_bytes());
        digest.chain_update(purpose).finalize().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seeded(number: u64) -> Seeded {
        Seeded::new(number.into()).unwrap()
    }

    #[test]
    fn uuids_follow_from_the_seed_and_are_valid() {
        let (one, same, other) = (seeded(7), seeded(7), seeded(8));
        let uuids: Vec<Uuid> = (0..100).map(|_| one.uuid()).collect();
        assert_eq!(uuids, (0..100).map(|_| same.uuid()).collect::<Vec<_>>());
        let all: std::collections::HashSet<Uuid> =
            uuids.iter().copied().chain((0..100).map(|_| other.uuid())).collect();
        assert_eq!(all.len(), 200);
        for uuid in all {
            assert_eq!((uuid.get_version_num(), uuid.get_variant()), (4, uuid::Variant::RFC4122));
        }
        // As in the snapshots of tests.
        assert_eq!(uuids[0].to_string(), "6e27e37c-82f2-40b0-90d9-4757d9c553de");
        let time_uuid = one.time_uuid();
        assert_eq!((time_uuid.get_version_num(), time_uuid.get_variant()), (1, uuid::Variant::RFC4122));
        assert_eq!(time_uuid, same.time_uuid());
        assert_ne!(time_uuid, other.time_uuid());
        assert_eq!(time_uuid.get_timestamp().unwrap().to_unix().0, DEFAULT_START);
    }

    #[test]
    fn timestamps_are_the_time_of_the_request_also_after_the_clock_was_set_back() {
        let seeded = seeded(1);
        let never = || -> i64 { panic!("the clock was not set back") };
        let start = seeded.start * 1000;
        for step in 1..=3 {
            seeded.begin(true).unwrap();
            assert_eq!(seeded.issue(seeded.clock.now_micros(), never), start + step * STEP);
        }
        seeded.begin(false).unwrap();
        assert_eq!(seeded.issue(start + 3 * STEP, never), start + 3 * STEP + 1, "the same request");
        let newest = start + 3 * STEP + 1;
        seeded.reset().unwrap();
        // An empty table, one that rows remained in, and one with a timestamp of a client.
        assert_eq!(seeded.issue(start + STEP, || i64::MIN), start + STEP);
        assert_eq!(seeded.issue(start + 2 * STEP, || newest), newest + 1);
        seeded.reset().unwrap();
        assert_eq!(seeded.issue(start + STEP, || i64::MAX), newest + 2);
    }

    #[test]
    fn the_clock_starts_and_is_set_from_1970_to_2099() {
        let at = |seconds| Seed::new(1).starting_at(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(Seeded::new(at(0)).unwrap().times(), (0, 0));
        assert!(matches!(Seeded::new(at(4_102_444_800)), Err(DatabaseError::Config(_))));
        let before = Seed::new(1).starting_at(UNIX_EPOCH - Duration::from_secs(1));
        assert!(matches!(Seeded::new(before), Err(DatabaseError::Config(_))));
        let seeded = seeded(1);
        for millis in [-1, TIME_MAX, i64::MIN, i64::MAX] {
            seeded.set(millis).unwrap_err();
        }
        seeded.set(TIME_MAX - 1).unwrap();
    }
}
