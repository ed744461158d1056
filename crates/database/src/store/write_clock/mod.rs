//! Write timestamps that are monotonic, also across a restart with the clock set back.
//!
//! A timestamp lower than an earlier one would hide an acknowledged write behind an older one. So a
//! stored row contains a ceiling, and no timestamp above it is issued before a higher ceiling is
//! recorded. After an unclean shutdown, timestamps start above the ceiling; a clean shutdown
//! records the highest timestamp issued.
//!
//! The ceiling is a row that is written ahead of use through the commit log, and not a separate
//! file: the log has no gaps, so the ceiling survives whenever a write with a lower timestamp does,
//! in every sync mode and without an fsync. SSTables count only once the log is durable up to them.
//! Nothing is recorded while no timestamps are issued.
//!
//! The ceiling is at most [`LEAD`] ahead of the clock, or [`STEP`] ahead of the last timestamp if
//! the clock is behind that. For that long after an unclean shutdown, writes with timestamps chosen
//! by clients may lose. Client timestamps do not raise the ceiling.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use cassette_engine::commitlog::SyncMode;
use cassette_engine::{Durability, Engine, EngineError, Mutation, may_wait};
use cassette_rows::owner::{self, Owner};
use cassette_rows::{PartitionStream, Selection, TableMetadata, Unfiltered, interrupt};
use cassette_vfs::Clock;
use parking_lot::{Mutex, MutexGuard};

use crate::basics::error::{DatabaseError, Result};
use crate::schema::options::own_table;
use crate::schema::system::SYSTEM;
use crate::schema::system::encode::{StoredRow, mutation, row_update, text_key};
use crate::store::Store;

#[cfg(test)]
mod tests;

/// The distance of the ceiling from the clock, microseconds.
const LEAD: i64 = 1_000_000;
/// The minimum distance of the ceiling from the last timestamp, microseconds.
const STEP: i64 = 50_000;
/// The difference to the clock that is tolerated without a warning, microseconds.
const TOLERANCE: i64 = 2_000_000;
/// The interval of warnings about the clock.
const WARNING_INTERVAL: Duration = Duration::from_secs(60);
/// The key of the only row.
const KEY: &str = "local";

/// The row of the ceiling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StoredCeiling {
    /// The highest timestamp that may have been issued; microseconds.
    pub ceiling: i64,
    /// The write timestamp of the row itself: a counter, because a clean shutdown lowers the
    /// ceiling.
    version: i64,
}

impl StoredCeiling {
    /// Returns the next version, with a ceiling above `timestamp`.
    pub fn above(self, timestamp: i64) -> Self {
        Self { ceiling: timestamp.saturating_add(STEP), version: self.version + 1 }
    }
}

/// Issues unique, ascending write timestamps.
pub(crate) struct WriteClock {
    ceilings: Ceilings,
    last: AtomicI64,
    ceiling: AtomicI64,
    /// The version of the stored row. Locked while the ceiling changes.
    version: Mutex<i64>,
    /// The time of the last warning, monotonic.
    warned_at: Mutex<Option<Duration>>,
}

impl WriteClock {
    /// Returns a clock that issues timestamps above `last`, up to the stored ceiling without
    /// recording another one.
    pub fn new(ceilings: Ceilings, last: i64, stored: StoredCeiling) -> Self {
        Self {
            ceilings,
            last: AtomicI64::new(last),
            ceiling: AtomicI64::new(stored.ceiling),
            version: Mutex::new(stored.version),
            warned_at: Mutex::new(None),
        }
    }

    /// Returns the highest timestamp issued.
    pub fn last(&self) -> i64 {
        self.last.load(Ordering::SeqCst)
    }

    /// Issues a timestamp: `now_micros`, or a microsecond after the last one.
    ///
    /// # Errors
    /// WouldBlock, if this thread must not wait and would have to; WriteFailure, if the ceiling
    /// cannot be recorded, since the timestamp could then be issued twice.
    pub fn issue(&self, store: &Store, now_micros: i64) -> Result<i64> {
        let next = |last: i64| now_micros.max(last.saturating_add(1));
        let last = self.last.fetch_update(Ordering::SeqCst, Ordering::Relaxed, |last| Some(next(last)));
        let issued = next(last.unwrap_or(now_micros));
        // The clock of a seed is set back on purpose.
        if issued.saturating_sub(now_micros) > TOLERANCE && store.seeded().is_none() {
            self.warn(store.clock(), issued, now_micros);
        }
        self.require(store, issued)?;
        Ok(issued)
    }

    /// Accounts for a timestamp that was used elsewhere, as in a time UUID.
    ///
    /// # Errors
    /// See [`issue`](Self::issue).
    pub fn cover(&self, store: &Store, micros: i64) -> Result<()> {
        self.last.fetch_max(micros, Ordering::SeqCst);
        self.require(store, micros)
    }

    #[inline]
    fn require(&self, store: &Store, issued: i64) -> Result<()> {
        if issued <= self.ceiling.load(Ordering::SeqCst) { Ok(()) } else { self.raise(store, issued) }
    }

    #[cold]
    fn raise(&self, store: &Store, issued: i64) -> Result<()> {
        let mut version = self.lock_version()?;
        if issued <= self.ceiling.load(Ordering::SeqCst) {
            return Ok(());
        }
        if !may_wait() && store.engine().apply_would_wait() {
            return Err(DatabaseError::WouldBlock);
        }
        let ahead = store.clock().now_micros().saturating_add(LEAD);
        let ceiling = ahead.max(issued.saturating_add(STEP));
        // In the other modes, the sync of the write that needs the timestamp covers this record,
        // too.
        let durability = match store.engine().options().commitlog_sync {
            SyncMode::Periodic { .. } => Durability::Configured,
            SyncMode::Group { .. } | SyncMode::Batch => Durability::WithLater,
        };
        self.ceilings.record(store, StoredCeiling { ceiling, version: *version + 1 }, durability)?;
        *version += 1;
        self.ceiling.store(ceiling, Ordering::SeqCst);
        Ok(())
    }

    /// The holder of the lock may be waiting for admission.
    fn lock_version(&self) -> Result<MutexGuard<'_, i64>> {
        if !may_wait() {
            return self.version.try_lock().ok_or(DatabaseError::WouldBlock);
        }
        loop {
            if let Some(version) = self.version.try_lock_for(interrupt::check_before_wait()?) {
                return Ok(version);
            }
        }
    }

    /// Records the highest timestamp issued as the ceiling. Later timestamps raise the ceiling
    /// again.
    ///
    /// # Errors
    /// See [`issue`](Self::issue); the previous ceiling remains valid.
    pub fn settle(&self, store: &Store) -> Result<()> {
        let mut version = self.version.lock();
        if self.ceiling.swap(i64::MIN, Ordering::SeqCst) == i64::MIN {
            return Ok(());
        }
        // In this order: later callers find no ceiling, and wait for the lock.
        let ceiling = self.last();
        self.ceilings.record(
            store,
            StoredCeiling { ceiling, version: *version + 1 },
            Durability::Configured,
        )?;
        *version += 1;
        Ok(())
    }

    #[cold]
    fn warn(&self, clock: &dyn Clock, issued: i64, now_micros: i64) {
        let mut warned_at = self.warned_at.lock();
        let now = clock.monotonic();
        if warned_at.is_none_or(|at| now.saturating_sub(at) >= WARNING_INTERVAL) {
            *warned_at = Some(now);
            warn_behind(issued, now_micros);
        }
    }
}

/// Warns if the clock is behind the timestamps that an earlier run issued.
pub(crate) fn warn_if_behind(ceiling: i64, now_micros: i64) {
    if ceiling.saturating_sub(now_micros) > TOLERANCE {
        warn_behind(ceiling, now_micros);
    }
}

fn warn_behind(issued: i64, now_micros: i64) {
    let text = |micros| {
        let time = jiff::Timestamp::from_microsecond(micros);
        time.map_or_else(|_| format!("{micros} us"), |time| time.to_string())
    };
    tracing::warn!(
        clock = text(now_micros),
        last_timestamp = text(issued),
        "the clock is behind the write timestamps issued before; new ones continue from those. Set the clock right: \
         TTLs and client-side timestamps follow it"
    );
}

/// The table of the ceiling. The catalog does not contain it: Cassandra's `system` has no such
/// table, and clients must not write to it.
pub(crate) struct Ceilings(Arc<TableMetadata>);

impl Ceilings {
    pub fn new() -> Self {
        let cql = "CREATE TABLE write_timestamps (key text PRIMARY KEY, ceiling bigint)";
        Self(Arc::new(own_table(SYSTEM, cql)))
    }

    /// Returns the table, which must exist in the engine before the log is replayed.
    pub fn table(&self) -> &Arc<TableMetadata> {
        &self.0
    }

    /// Returns the row that stores a ceiling.
    pub fn row(&self, stored: StoredCeiling) -> Mutation {
        let values = [("ceiling", stored.ceiling.into())];
        mutation(&self.0, KEY, vec![row_update(&self.0, &[], &values, stored.version)])
    }

    fn record(&self, store: &Store, stored: StoredCeiling, durability: Durability) -> Result<()> {
        // All writers depend on it, so it is not attributed to the owner of the current request.
        let row = [self.row(stored)];
        let recorded = owner::on_behalf_of(Owner::default(), || store.engine().apply_with(&row, durability));
        recorded.map_err(|error| {
            DatabaseError::storage_in("cannot record the ceiling of write timestamps", error)
        })
    }

    /// Returns the stored ceiling; in a new data directory the minimum.
    ///
    /// # Errors
    /// Storage, if the table cannot be read.
    pub fn stored(&self, engine: &Engine, now: u32) -> Result<StoredCeiling> {
        let failed = |error: EngineError| {
            DatabaseError::storage_in(format_args!("cannot read {}", self.0.qualified_name()), error)
        };
        let mut stream = engine.read(self.0.id, &text_key(KEY), &Selection::all()).map_err(failed)?;
        let mut next = || -> cassette_rows::Result<Option<Unfiltered>> {
            match stream.next_partition()? {
                Some(_) => stream.next_unfiltered(),
                None => Ok(None),
            }
        };
        let Some(Unfiltered::Row(row)) = next().map_err(|error| failed(error.into()))? else {
            return Ok(StoredCeiling { ceiling: i64::MIN, version: 0 });
        };
        let version = row.liveness().timestamp;
        let ceiling = StoredRow { table: &self.0, row: &row, now }.long("ceiling").unwrap_or(i64::MIN);
        Ok(StoredCeiling { ceiling, version })
    }
}
