//! Sweeping removes versions that no reader can see any more: S1 to S8 of the protocol.
//!
//! Every write is in the queue before it is in its table (C4), so nothing is missed, and no table
//! is searched.

mod background;
mod queue;
mod shard;

use std::sync::Arc;
use std::time::Duration;

use crate::encoding::sweep::Shard;
use crate::error::Result;
use crate::service::TransactionService;
use crate::store::Store;
use crate::timelock::{TimeLock, TimeLockError};
use crate::timestamp::Timestamp;

pub(crate) use background::Background;
pub(crate) use queue::{Additions, Queue};

/// How old versions of a table are removed. A table keeps its strategy permanently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SweepStrategy {
    /// Not at all.
    Nothing,
    /// The newest version remains, even if it is a deletion, with a sentinel that marks removed
    /// ones: a reader without a valid hold finds the sentinel and fails instead of missing a value.
    Conservative,
    /// Deletions are removed as well, without a trace: for tables whose cells are created and
    /// deleted often. Each read checks that the transaction's hold is valid.
    Thorough,
}

impl SweepStrategy {
    /// Name that is stored for the table.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Conservative => "conservative",
            Self::Thorough => "thorough",
        }
    }

    /// Returns the strategy with a [name](Self::name).
    pub(crate) fn of_name(name: impl AsRef<[u8]>) -> Option<Self> {
        let all = [Self::Nothing, Self::Conservative, Self::Thorough];
        all.into_iter().find(|strategy| strategy.name().as_bytes() == name.as_ref())
    }
}

/// Result of sweeping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Swept {
    /// Entries of the queue: the writes of one transaction in one shard.
    pub entries: u64,
    /// Cells whose old versions were removed.
    pub cells: u64,
    /// Removed versions of aborted transactions.
    pub aborted: u64,
    /// Whether nothing is left to sweep.
    pub is_done: bool,
}

impl Swept {
    fn add(&mut self, other: Self) {
        self.entries += other.entries;
        self.cells += other.cells;
        self.aborted += other.aborted;
        self.is_done &= other.is_done;
    }
}

/// Sweeping progress of a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShardProgress {
    /// Strategy of its tables.
    pub strategy: SweepStrategy,
    /// Number of the shard, 0 to 15. Cells are distributed over the shards.
    pub shard: u8,
    /// All writes of transactions that began up to this timestamp are swept.
    pub swept: Timestamp,
    /// First start timestamp in the queue that is not swept yet; `None` if there is none up to the
    /// immutable timestamp.
    pub unswept: Option<Timestamp>,
}

/// Returns the sweeping progress of each shard of a store, given an immutable timestamp. `None` if
/// the store was never opened for transactions. Read-only.
///
/// # Errors
/// The store's error, or a malformed queue.
pub fn progress(store: Arc<dyn Store>, immutable: Timestamp) -> Result<Option<Vec<ShardProgress>>> {
    Queue::open_existing(store)?.map(|queue| progress_of(&queue, immutable)).transpose()
}

fn progress_of(queue: &Queue, immutable: Timestamp) -> Result<Vec<ShardProgress>> {
    let of_shard = |shard: Shard| {
        let swept = queue.stored_progress(shard)?;
        let swept = swept.map_or(Ok(0), |raw| queue::decode_progress(&raw))?;
        Ok(ShardProgress {
            strategy: if !shard.thorough { SweepStrategy::Conservative } else { SweepStrategy::Thorough },
            shard: shard.number,
            swept: Timestamp(swept),
            unswept: queue.first_unswept(shard, swept, immutable.0 - 1)?,
        })
    };
    Shard::all().map(of_shard).collect()
}

/// Sweeps a store. Several may run at the same time, in one or several processes: each shard is
/// swept by one at a time.
pub struct Sweeper {
    store: Arc<dyn Store>,
    service: Arc<dyn TransactionService>,
    timelock: Arc<dyn TimeLock>,
    queue: Arc<Queue>,
}

impl Sweeper {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        service: Arc<dyn TransactionService>,
        timelock: Arc<dyn TimeLock>,
        queue: Arc<Queue>,
    ) -> Self {
        Self { store, service, timelock, queue }
    }

    /// Runs one step of up to 1,000 entries for each shard. Skips shards that others are sweeping.
    ///
    /// # Errors
    /// The error of the store, the service or the timestamps. Completed work stays completed; the
    /// rest is left to later steps.
    pub fn step(&self) -> Result<Swept> {
        self.step_unless(|| false)
    }

    /// As [`step`](Self::step), but ends before the next shard when `is_stopped` returns true.
    fn step_unless(&self, is_stopped: impl Fn() -> bool) -> Result<Swept> {
        let mut swept = Swept { is_done: true, ..Swept::default() };
        for shard in Shard::all().take_while(|_| !is_stopped()) {
            swept.add(self.step_alone(shard, None, Duration::ZERO)?);
        }
        Ok(swept)
    }

    /// Sweeps everything that can be swept now, step by step.
    ///
    /// # Errors
    /// As [`step`](Self::step); a lock timeout if another sweeper holds a shard for a minute.
    pub fn sweep_all(&self) -> Result<Swept> {
        self.sweep_all_with(|_, _, _| {})
    }

    /// As [`sweep_all`](Self::sweep_all), calling `report` after each step with the number of
    /// completed shards, the number of shards, and the result so far.
    ///
    /// # Errors
    /// As [`sweep_all`](Self::sweep_all).
    pub fn sweep_all_with(&self, mut report: impl FnMut(usize, usize, &Swept)) -> Result<Swept> {
        let below = self.timelock.immutable()?;
        let mut swept = Swept { is_done: true, ..Swept::default() };
        let of = Shard::all().count();
        for (number, shard) in Shard::all().enumerate() {
            loop {
                let step = self.step_alone(shard, Some(below), Duration::from_secs(60))?;
                swept.add(Swept { is_done: true, ..step });
                report(number + usize::from(step.is_done), of, &swept);
                if step.is_done {
                    break;
                }
            }
        }
        Ok(swept)
    }

    /// Returns the progress of each shard.
    pub fn progress(&self) -> Result<Vec<ShardProgress>> {
        progress_of(&self.queue, self.timelock.immutable()?)
    }

    fn step_alone(&self, shard: Shard, below: Option<Timestamp>, timeout: Duration) -> Result<Swept> {
        // S1.
        let name = bytes::Bytes::from([&b"s"[..], &shard.key()].concat());
        let lock = match self.timelock.lock(vec![name], timeout) {
            Ok(lock) => lock,
            Err(TimeLockError::LockTimeout { .. }) if timeout.is_zero() => {
                return Ok(Swept { is_done: true, ..Swept::default() });
            }
            Err(error) => return Err(error.into()),
        };
        let swept = self.step_of(shard, below);
        self.timelock.unlock(lock);
        swept
    }
}
