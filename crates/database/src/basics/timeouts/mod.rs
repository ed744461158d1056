//! Request timeouts: cassandra.yaml's `*_request_timeout` keys and the errors of exceeding them.
//!
//! The time limit of a statement depends on its kind and begins with its execution. As in
//! Cassandra, all pages of one aggregation count as one statement. The deadline is installed with
//! [`cassette_rows::interrupt`]; reading and computing check it. A write is interrupted only before
//! it reaches the commit log, so a timed-out write was applied as a whole or not at all. A counter
//! batch, which is not atomic, may stop between two partitions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cassette_engine::may_wait;
use cassette_rows::interrupt::{self, Interrupted, MonotonicClock};
use cassette_vfs::Clock;

use crate::basics::error::{DatabaseError, Result, WriteType};
use crate::basics::request::{Consistency, StatementOptions};

/// How long a request may compute on a thread that also serves other clients.
const AT_ONCE: Duration = Duration::from_millis(5);

/// A kind of request with its own timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Timeout {
    /// Reads of named partitions.
    Read,
    /// Reads of ranges of partitions.
    Range,
    /// Writes and batches.
    Write,
    /// Increments of counters.
    CounterWrite,
    /// How long a conditional write waits for other conditional writes of its partition.
    CasContention,
    /// TRUNCATE.
    Truncate,
    /// Everything else, including parsing.
    Request,
}

impl Timeout {
    /// All timeouts.
    pub const ALL: [Self; 7] = [
        Self::Read,
        Self::Range,
        Self::Write,
        Self::CounterWrite,
        Self::CasContention,
        Self::Truncate,
        Self::Request,
    ];

    /// Returns the key in cassandra.yaml.
    pub fn key(self) -> &'static str {
        match self {
            Self::Read => "read_request_timeout",
            Self::Range => "range_request_timeout",
            Self::Write => "write_request_timeout",
            Self::CounterWrite => "counter_write_request_timeout",
            Self::CasContention => "cas_contention_timeout",
            Self::Truncate => "truncate_request_timeout",
            Self::Request => "request_timeout",
        }
    }

    /// Returns the timeout with this key in cassandra.yaml.
    pub fn from_key(key: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|timeout| timeout.key() == key)
    }

    /// Returns the name in `nodetool gettimeout`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Range => "range",
            Self::Write => "write",
            Self::CounterWrite => "counterwrite",
            Self::CasContention => "cascontention",
            Self::Truncate => "truncate",
            Self::Request => "misc",
        }
    }

    /// Returns the timeout with this name in `nodetool gettimeout`.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|timeout| timeout.name() == name)
    }

    /// Returns Cassandra's default.
    pub fn default_duration(self) -> Duration {
        Duration::from_millis(match self {
            Self::Read | Self::CounterWrite => 5_000,
            Self::Range | Self::Request => 10_000,
            Self::Write => 2_000,
            Self::CasContention => 1_800,
            Self::Truncate => 60_000,
        })
    }
}

/// The current timeouts. They can be changed while statements run; running statements keep theirs.
#[derive(Debug)]
pub struct RequestTimeouts {
    /// Milliseconds, by the position in [`Timeout::ALL`]; `NONE` for no limit.
    millis: [AtomicU64; Timeout::ALL.len()],
}

const NONE: u64 = u64::MAX;

impl RequestTimeouts {
    /// Returns timeouts without limits, for embedded databases, whose callers control their
    /// threads.
    pub fn unlimited() -> Self {
        Self { millis: [const { AtomicU64::new(NONE) }; Timeout::ALL.len()] }
    }

    /// Returns Cassandra's defaults.
    pub fn of_cassandra() -> Self {
        let timeouts = Self::unlimited();
        for timeout in Timeout::ALL {
            timeouts.set(timeout, Some(timeout.default_duration()));
        }
        timeouts
    }

    /// Returns the timeout of a kind of request, in whole milliseconds; `None` for no limit.
    pub fn get(&self, timeout: Timeout) -> Option<Duration> {
        let millis = self.millis[timeout as usize].load(Ordering::Relaxed);
        (millis != NONE).then(|| Duration::from_millis(millis))
    }

    /// Sets the timeout of a kind of request.
    pub fn set(&self, timeout: Timeout, time: Option<Duration>) {
        let millis = time.map_or(NONE, |time| u64::try_from(time.as_millis()).unwrap_or(NONE));
        self.millis[timeout as usize].store(millis, Ordering::Relaxed);
    }

    /// Returns the limited timeouts by key, as cassandra.yaml has them.
    pub(crate) fn settings(&self) -> impl Iterator<Item = (&'static str, String)> + '_ {
        Timeout::ALL
            .into_iter()
            .filter_map(|timeout| Some((timeout.key(), format!("{}ms", self.get(timeout)?.as_millis()))))
    }
}

impl Clone for RequestTimeouts {
    fn clone(&self) -> Self {
        let cloned = Self::unlimited();
        Timeout::ALL.into_iter().for_each(|timeout| cloned.set(timeout, self.get(timeout)));
        cloned
    }
}

/// A request, described for its time limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limited {
    Read(Consistency),
    Range(Consistency),
    /// The consistency level of a conditional write is that of its serial phase.
    Write(WriteType, Consistency),
    Truncate,
    Other,
}

impl Limited {
    /// Returns the limit of a write with the levels of `options`.
    pub fn write(write_type: WriteType, options: &StatementOptions) -> Self {
        let consistency = match write_type {
            WriteType::Cas => options.serial_consistency.unwrap_or(Consistency::Serial),
            _ => options.consistency,
        };
        Self::Write(write_type, consistency)
    }

    fn limit(self, timeouts: &RequestTimeouts) -> Option<Duration> {
        match self {
            Self::Read(_) => timeouts.get(Timeout::Read),
            Self::Range(_) => timeouts.get(Timeout::Range),
            Self::Write(WriteType::Counter, _) => timeouts.get(Timeout::CounterWrite),
            // As in Cassandra, the commit that follows the contention has at least the time of a
            // plain write.
            Self::Write(WriteType::Cas, _) => {
                Some(timeouts.get(Timeout::CasContention)?.max(timeouts.get(Timeout::Write)?))
            }
            Self::Write(..) => timeouts.get(Timeout::Write),
            Self::Truncate => timeouts.get(Timeout::Truncate),
            Self::Other => timeouts.get(Timeout::Request),
        }
    }

    /// Returns the error of a request that exceeded its timeout, with Cassandra's message. This
    /// node is the only replica.
    pub fn error(self) -> DatabaseError {
        let message = "Operation timed out - received only 0 responses.".to_owned();
        match self {
            Self::Read(consistency) | Self::Range(consistency) => {
                DatabaseError::ReadTimeout { consistency, message }
            }
            Self::Write(write_type @ WriteType::Cas, consistency) => DatabaseError::WriteTimeout {
                consistency,
                write_type,
                message:
                    "CAS operation timed out: received 0 of 1 required responses after 0 contention retries"
                        .to_owned(),
            },
            Self::Write(write_type, consistency) => {
                DatabaseError::WriteTimeout { consistency, write_type, message }
            }
            Self::Truncate => DatabaseError::Truncate {
                message: "Truncate timed out - received only 0 responses".to_owned(),
                cause: None,
            },
            Self::Other => DatabaseError::Overloaded("Query timed out before it could start".to_owned()),
        }
    }
}

/// The timeouts of a database and the clock that measures them.
pub(crate) struct Deadlines {
    pub timeouts: RequestTimeouts,
    clock: Arc<dyn MonotonicClock>,
}

impl Deadlines {
    pub fn new(timeouts: RequestTimeouts, clock: Arc<dyn Clock>) -> Self {
        Self { timeouts, clock: Arc::new(VfsClock(clock)) }
    }

    /// Runs a request that began at `started` within its time limit.
    ///
    /// # Errors
    /// Those of `work`; the timeout error of this kind of request, if its deadline interrupted
    /// `work`; WouldBlock, if `work` took longer than [`AT_ONCE`] on a thread that
    /// [must not wait](may_wait).
    pub fn limit<T>(
        &self,
        request: Limited,
        started: Duration,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let limit = request.limit(&self.timeouts);
        // A thread that also serves other clients stops early; the request is then repeated on a
        // thread without this limit.
        let limit = if may_wait() { limit } else { Some(limit.map_or(AT_ONCE, |limit| limit.min(AT_ONCE))) };
        let result = match limit {
            Some(limit) => interrupt::with_deadline(&self.clock, started.saturating_add(limit), work),
            None => work(),
        };
        result.map_err(|error| match error {
            DatabaseError::Interrupted(Interrupted::TimedOut) if !may_wait() => DatabaseError::WouldBlock,
            DatabaseError::Interrupted(Interrupted::TimedOut) => request.error(),
            error => error,
        })
    }

    /// Waits for other conditional writes until `cas_contention_timeout` after `started` at most.
    pub fn contend<T>(&self, started: Duration, wait: impl FnOnce() -> T) -> T {
        match self.timeouts.get(Timeout::CasContention) {
            Some(limit) => interrupt::with_deadline(&self.clock, started.saturating_add(limit), wait),
            None => wait(),
        }
    }
}

/// Adapts the database's clock for deadlines.
struct VfsClock(Arc<dyn Clock>);

impl MonotonicClock for VfsClock {
    fn monotonic(&self) -> Duration {
        self.0.monotonic()
    }
}

#[cfg(test)]
mod tests;
