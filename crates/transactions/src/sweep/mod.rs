//! Sweeping: versions that nobody will read go away. S1 to S8 of the protocol.
//!
//! What is swept was in the queue before it was in its table (C4), so nothing is forgotten, and nothing is looked for.

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

/// How a table's old versions go away. A table has one for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SweepStrategy {
    /// They stay.
    Nothing,
    /// The newest version stays, also where it is a deletion, and a sentinel says that older ones were there: whoever reads without a hold that
    /// counts meets it, and fails instead of reading nothing.
    Conservative,
    /// A deletion goes, too, and leaves nothing behind: for tables in which cells come and go. Each read checks that the transaction's hold still counts.
    Thorough,
}

impl SweepStrategy {
    /// As stored.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Conservative => "conservative",
            Self::Thorough => "thorough",
        }
    }
}

/// What sweeping did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Swept {
    /// Entries of the queue: the writes of a transaction in a shard.
    pub entries: u64,
    /// Cells whose old versions were removed.
    pub cells: u64,
    /// Versions of aborted transactions that were removed.
    pub aborted: u64,
    /// Whether nothing was left that might have been swept.
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

/// How far a shard is swept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShardProgress {
    /// Of tables with which strategy.
    pub strategy: SweepStrategy,
    /// 0 to 15: cells are spread over shards.
    pub shard: u8,
    /// All writes of transactions that began up to here are swept.
    pub swept: Timestamp,
    /// The first that is not, in the queue now; `None` if there is none up to the immutable timestamp.
    pub unswept: Option<Timestamp>,
}

/// How far each shard of a store is swept, with what could be swept below `immutable`. `None` where nobody began a transaction yet. Changes nothing.
///
/// # Errors
/// What the store answers; a queue that is none.
pub fn progress(store: Arc<dyn Store>, immutable: Timestamp) -> Result<Option<Vec<ShardProgress>>> {
    Queue::look(store)?.map(|queue| progress_of(&queue, immutable)).transpose()
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

/// Sweeps a store. Several may at once, in one process or many: each shard is swept by one at a time.
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

    /// One step for each shard: up to 1,000 entries. Shards that others are sweeping are left to them.
    ///
    /// # Errors
    /// What the store, the service and the timestamps answer. What was done stays done, and the rest is done another time.
    pub fn step(&self) -> Result<Swept> {
        let mut swept = Swept { is_done: true, ..Swept::default() };
        for shard in Shard::all() {
            swept.add(self.step_alone(shard, None, Duration::ZERO)?);
        }
        Ok(swept)
    }

    /// Sweeps everything that may be swept now, step by step.
    ///
    /// # Errors
    /// As [`step`](Self::step); a lock timeout, where others sweep a shard for a minute.
    pub fn sweep_all(&self) -> Result<Swept> {
        self.sweep_all_with(|_, _, _| {})
    }

    /// The same, telling after each step how many shards are done, of how many, and what was done so far.
    ///
    /// # Errors
    /// As [`sweep_all`](Self::sweep_all).
    pub fn sweep_all_with(&self, mut tell: impl FnMut(usize, usize, &Swept)) -> Result<Swept> {
        let below = self.timelock.immutable()?;
        let mut swept = Swept { is_done: true, ..Swept::default() };
        let of = Shard::all().count();
        for (number, shard) in Shard::all().enumerate() {
            loop {
                let step = self.step_alone(shard, Some(below), Duration::from_secs(60))?;
                swept.add(Swept { is_done: true, ..step });
                tell(number + usize::from(step.is_done), of, &swept);
                if step.is_done {
                    break;
                }
            }
        }
        Ok(swept)
    }

    /// How far each shard is.
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
