//! Options of transactions, and the builder that opens them.

use std::sync::Arc;
use std::time::Duration;

use super::Transactions;
use crate::error::Result;
use crate::service::{Caching, Layout, TransactionService};
#[cfg(feature = "cluster")]
use crate::store::ClusterOptions;
use crate::store::Store;
use crate::timelock::TimeLock;
#[cfg(feature = "cluster")]
use crate::timelock::{ClientTls, Token};

/// Pause of the background sweeper of a store that only this process uses.
const EMBEDDED_SWEEP_PAUSE: Duration = Duration::from_secs(1);
/// Pause of the background sweeper of a store that other processes may use: each step of each of
/// them requests 32 locks from the timelock.
const SHARED_SWEEP_PAUSE: Duration = Duration::from_secs(60);

/// Options of transactions. The methods change one option each and return the rest unchanged;
/// [`embedded`](Self::embedded) and [`on_cluster`](Self::on_cluster) open a store with them.
///
/// ```
/// # use std::time::Duration;
/// # use cassette_database::Database;
/// # use cassette_transactions::{Options, Retries};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let transactions = Options::new()
///     .lock_timeout(Duration::from_secs(5))
///     .retries(Retries::new().max(20))
///     .sweep_every(Duration::from_secs(10))
///     .embedded(Database::in_memory()?, "bank")?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct Options {
    pub(super) layout: Option<Layout>,
    pub(super) any_layout: bool,
    pub(super) residues: Option<bool>,
    pub(super) batch_commit_records: Option<bool>,
    pub(super) cached_statuses: usize,
    pub(super) lock_timeout: Duration,
    pub(super) age_max: Duration,
    pub(super) retries: Retries,
    sweeping: Sweeping,
    #[cfg(feature = "cluster")]
    pub(super) timelock_token: Option<Token>,
    #[cfg(feature = "cluster")]
    pub(super) timelock_tls: Option<ClientTls>,
}

/// Background sweeping in this process.
#[derive(Debug, Clone, Copy)]
enum Sweeping {
    /// With a pause that suits the store.
    Default,
    Every(Duration),
    Off,
}

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}

impl Options {
    /// Returns the default options.
    pub fn new() -> Self {
        Self {
            layout: None,
            any_layout: false,
            residues: None,
            batch_commit_records: None,
            cached_statuses: Caching::<Arc<dyn TransactionService>>::ENTRIES,
            lock_timeout: Duration::from_secs(60),
            age_max: Duration::from_secs(3600),
            retries: Retries::new(),
            sweeping: Sweeping::Default,
            #[cfg(feature = "cluster")]
            timelock_token: None,
            #[cfg(feature = "cluster")]
            timelock_tls: None,
        }
    }

    /// Opens transactions in an embedded database: see [`Transactions::embedded`]. A store that is
    /// open in this process already keeps the options with which it was opened first.
    ///
    /// # Errors
    /// As [`Transactions::embedded`].
    pub fn embedded(self, database: cassette_database::Database, keyspace: &str) -> Result<Transactions> {
        Transactions::open_embedded(database, keyspace, &self)
    }

    /// Opens transactions on a cluster: see [`Transactions::on_cluster`].
    ///
    /// # Errors
    /// As [`Transactions::on_cluster`].
    #[cfg(feature = "cluster")]
    pub fn on_cluster<S: Into<String>>(
        self,
        cluster: &ClusterOptions,
        timelocks: impl IntoIterator<Item = S>,
    ) -> Result<Transactions> {
        Transactions::open_on_cluster(cluster, timelocks, self)
    }

    /// The token that the timelock servers of [`on_cluster`](Self::on_cluster) require. None.
    #[cfg(feature = "cluster")]
    pub fn timelock_token(mut self, token: Token) -> Self {
        self.timelock_token = Some(token);
        self
    }

    /// Encrypts connections to the timelock servers of [`on_cluster`](Self::on_cluster). Without
    /// TLS by default.
    #[cfg(feature = "cluster")]
    pub fn timelock_tls(mut self, tls: ClientTls) -> Self {
        self.timelock_tls = Some(tls);
        self
    }

    /// Opens transactions on any store: see [`Transactions::open`].
    ///
    /// # Errors
    /// As [`Transactions::open`].
    pub fn open(self, store: Arc<dyn Store>, timelock: Arc<dyn TimeLock>) -> Result<Transactions> {
        Transactions::open(store, timelock, self)
    }

    /// How long to wait for a lock that another transaction holds while it commits. 60 s.
    pub fn lock_timeout(mut self, timeout: Duration) -> Self {
        self.lock_timeout = timeout;
        self
    }

    /// Maximum age of an open transaction. The data that it reads is not swept meanwhile; on a
    /// cluster this requires a read at least every two hours. One hour.
    pub fn age_max(mut self, age: Duration) -> Self {
        self.age_max = age;
        self
    }

    /// How often, and for how long, [`Transactions::run`] runs a transaction again.
    pub fn retries(mut self, retries: Retries) -> Self {
        self.retries = retries;
        self
    }

    /// Sweeps in the background with pauses of this length when nothing is left to sweep. The
    /// default is one second in an embedded store, and one minute on a cluster, where each process
    /// sweeps, so that it does not matter which of them run.
    ///
    /// The sweeper works in steps of at most 1,000 transactions of one shard, in one thread, and
    /// [stops](Transactions::stop_sweeping) between two steps.
    pub fn sweep_every(mut self, pause: Duration) -> Self {
        self.sweeping = Sweeping::Every(pause);
        self
    }

    /// Does not sweep in the background. Old versions stay until another process of the store, or
    /// [`Transactions::sweep`], removes them.
    pub fn without_sweeping(mut self) -> Self {
        self.sweeping = Sweeping::Off;
        self
    }

    /// Maximum number of cached commit records. About 64 bytes each.
    pub fn cached_statuses(mut self, count: usize) -> Self {
        self.cached_statuses = count;
        self
    }

    /// Layout of the commit records of new transactions. `None`, the default: the store's; a new
    /// store gets layout 2, or 3 if it is not linearizable after failures. Any layout but the
    /// store's is rejected: [`Transactions::migrate`] changes it.
    pub fn layout(mut self, layout: impl Into<Option<Layout>>) -> Self {
        self.layout = layout.into();
        self
    }

    /// Accepts layouts 1 and 2 also on stores that are not linearizable after failures, where
    /// readers may disagree on whether a transaction with a failed commit has committed. For
    /// comparisons, or for a single node.
    pub fn any_layout(mut self, accept: bool) -> Self {
        self.any_layout = accept;
        self
    }

    /// Uses only start timestamps of one residue modulo 16: the timelock's choice, or else a random
    /// one. `None`, the default: on stores where putting a commit record is a round of consensus on
    /// one of 16 partitions, so that up to 16 clients do not contend. It consumes 16 times as many
    /// timestamps.
    pub fn residues(mut self, residues: impl Into<Option<bool>>) -> Self {
        self.residues = residues.into();
        self
    }

    /// Whether commit records are put in batches. `None`, the default: on stores where each put is
    /// a round of consensus.
    pub fn batch_commit_records(mut self, batch: impl Into<Option<bool>>) -> Self {
        self.batch_commit_records = batch.into();
        self
    }

    /// Returns the pause of the background sweeper; `None` if it does not run.
    pub(super) fn sweep_pause(&self, store: &dyn Store) -> Option<Duration> {
        match self.sweeping {
            Sweeping::Off => None,
            Sweeping::Every(pause) => Some(pause),
            Sweeping::Default if store.id().is_some() => Some(EMBEDDED_SWEEP_PAUSE),
            Sweeping::Default => Some(SHARED_SWEEP_PAUSE),
        }
    }
}

/// How often, and for how long, a transaction is run again after failures that are
/// [retriable](crate::Error::is_retriable): for all calls in [`Options::retries`], or for one call
/// in [`Transactions::run_with`].
///
/// Between two runs is a random pause, from 0 to a limit that doubles from 1 ms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Retries {
    pub(super) max: Option<u32>,
    pub(super) within: Option<Duration>,
    pub(super) outage_max: Duration,
    pub(super) pause_max: Duration,
}

impl Default for Retries {
    fn default() -> Self {
        Self::new()
    }
}

impl Retries {
    /// Returns the default: up to 1,000 more runs, and 30 s of outage.
    pub const fn new() -> Self {
        Self {
            max: Some(1_000),
            within: None,
            outage_max: Duration::from_secs(30),
            pause_max: Duration::from_secs(1),
        }
    }

    /// Returns no retries: the transaction runs once.
    pub const fn none() -> Self {
        Self { max: Some(0), ..Self::new() }
    }

    /// Runs the transaction again at most this many times. 1,000.
    pub const fn max(mut self, count: u32) -> Self {
        self.max = Some(count);
        self
    }

    /// Runs the transaction again any number of times.
    pub const fn unlimited(mut self) -> Self {
        self.max = None;
        self
    }

    /// Begins no run later than this after the call. A run that has begun is not interrupted.
    pub const fn within(mut self, time: Duration) -> Self {
        self.within = Some(time);
        self
    }

    /// How long the transaction is run again while the store or the timestamps do not respond,
    /// measured from the first of consecutive failures. Zero: not at all. Does not limit runs after
    /// conflicts. 30 s.
    pub const fn outage_max(mut self, time: Duration) -> Self {
        self.outage_max = time;
        self
    }

    /// Maximum pause between two runs. One second.
    pub const fn pause_max(mut self, pause: Duration) -> Self {
        self.pause_max = pause;
        self
    }
}
