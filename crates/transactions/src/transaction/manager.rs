//! Where transactions begin: store, conclusions, timestamps and locks together.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use bytes::{BufMut, Bytes, BytesMut};
use parking_lot::Mutex;
use rand::RngExt;

use super::reads::remove_aborted;
use super::reaper::Reaper;
use super::table::{ConflictHandler, Table};
use super::{Transaction, opened};
use crate::encoding::tickets::Tickets;
use crate::encoding::var_long;
use crate::error::{Error, Result};
use crate::service::{
    Agreed, Batching, ByVersion, Caching, Coordination, Layout, Migrated, ServiceError, TransactionService,
};
use crate::store::{Cell, EmbeddedStore, PutOutcome, PutRow, Store, TableKind};
#[cfg(feature = "cluster")]
use crate::store::{ClusterOptions, ClusterStore};
use crate::sweep::{Background, Queue, SweepStrategy, Sweeper, Swept};
use crate::timelock::{LocalTimeLock, Started, TimeLock};
#[cfg(feature = "cluster")]
use crate::timelock::{RemoteOptions, RemoteTimeLock};
use crate::timestamp::Timestamp;

/// How transactions are to behave.
#[derive(Debug, Clone)]
pub struct Options {
    /// How conclusions of new transactions are stored. `None`: as the store says; one that is new gets layout 2, or 3 if it is not linearizable
    /// after failures. Another layout than the store's is refused: [`Transactions::migrate`] changes it.
    pub layout: Option<Layout>,
    /// Take layouts 1 and 2 also on stores that are not linearizable after failures, where readers may then disagree on whether a transaction whose commit
    /// failed has committed: to compare them, or on one node.
    pub any_layout: bool,
    /// Start only with timestamps of one residue modulo 16: one that the timelock says, or a random one where it does not. `None`: on stores where a put of a conclusion is
    /// a round of consensus on one of 16 partitions, so that up to 16 clients do not meet. It uses up 16 times the timestamps.
    pub residues: Option<bool>,
    /// Whether puts of conclusions go in batches. `None`: on stores where each is a round of consensus.
    pub batch_conclusions: Option<bool>,
    /// Conclusions that are remembered.
    pub cached_conclusions: usize,
    /// How long a lock is waited for.
    pub lock_timeout: Duration,
    /// How long a transaction may be open. What it reads is not swept meanwhile; on a cluster that takes a read at least every two hours.
    pub age_max: Duration,
    /// The longest pause before a transaction is run again. Pauses are random, from 0 to a limit that doubles from 1 ms.
    pub retry_pause_max: Duration,
    /// Sweep in the background, with pauses so long where nothing is left to sweep. `None`: not in this process.
    pub sweep_pause: Option<Duration>,
    /// How often a transaction is run again. `None`: until it succeeds.
    pub retries_max: Option<u32>,
    /// How long a transaction is run again while the store or the timestamps do not answer, counted from the
    /// first such failure in a row. Zero: not at all. Conflicts are not bounded by it.
    pub outage_max: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            layout: None,
            any_layout: false,
            residues: None,
            batch_conclusions: None,
            cached_conclusions: Caching::<Arc<dyn TransactionService>>::ENTRIES,
            lock_timeout: Duration::from_secs(60),
            age_max: Duration::from_secs(3600),
            retry_pause_max: Duration::from_secs(1),
            sweep_pause: None,
            retries_max: None,
            outage_max: Duration::from_secs(30),
        }
    }
}

/// Where the strategy and the conflict handler of each table are: its name is the row.
pub(crate) const METADATA: &str = "_metadata";
/// The column of the strategy.
const SWEEP: &[u8] = b"sweep";
/// The column of the handler; not there for tables that were made before it was kept.
const HANDLER: &[u8] = b"handler";
/// The pause of the sweeper of an embedded store.
const EMBEDDED_SWEEP_PAUSE: Duration = Duration::from_secs(1);

/// Transactions on a store. Cheap to clone; any thread may use it. When the last clone is dropped, what runs in the background ends.
#[derive(Clone)]
pub struct Transactions(
    Arc<Inner>,
    /// Sweeps until it is dropped.
    Option<Arc<Background>>,
);

/// Does not keep transactions open.
pub(super) struct WeakTransactions(Weak<Inner>, Weak<Background>);

impl WeakTransactions {
    pub fn new(transactions: &Transactions) -> Self {
        let Transactions(inner, background) = transactions;
        Self(Arc::downgrade(inner), background.as_ref().map_or_else(Weak::new, Arc::downgrade))
    }

    /// Whether somebody has them.
    pub fn is_open(&self) -> bool {
        self.0.strong_count() > 0
    }

    /// The transactions, if they are still open; swept again, if only a transaction had kept them so.
    pub fn upgrade(&self) -> Option<Result<Transactions>> {
        let inner = self.0.upgrade()?;
        let background = match (self.1.upgrade(), inner.options.sweep_pause) {
            (None, Some(pause)) => match sweep_in_background(&inner.sweeper, pause) {
                Ok(background) => Some(background),
                Err(error) => return Some(Err(error)),
            },
            (background, _) => background,
        };
        Some(Ok(Transactions(inner, background)))
    }
}

pub(super) struct Inner {
    pub store: Arc<dyn Store>,
    pub service: Arc<Caching<Arc<dyn TransactionService>>>,
    pub conclusions: Arc<ByVersion>,
    pub coordination: Arc<Coordination>,
    pub timelock: Arc<dyn TimeLock>,
    pub options: Options,
    pub queue: Arc<Queue>,
    /// Removes versions of aborted transactions where readers should not wait for that: where a removal asks all replicas.
    pub reaper: Option<Reaper>,
    /// Bytes of names and value that the store can write at once.
    pub version_max: Option<usize>,
    /// The residue of starts, if they have one.
    residue: Option<i64>,
    sweeper: Arc<Sweeper>,
    tables: Mutex<HashMap<String, (ConflictHandler, SweepStrategy)>>,
}

/// The name of the lock that a transaction holds while it commits.
pub(crate) fn start_lock(start: Timestamp) -> Bytes {
    let mut name = BytesMut::with_capacity(1 + var_long::LENGTH_MAX);
    name.put_u8(b't');
    name.put_slice(&var_long::encode(start.0));
    name.freeze()
}

/// Refuses layouts that a store does not keep safe.
fn check_layout(store: &dyn Store, options: &Options, version: u32) -> Result<()> {
    let is_safe = version >= 3 || store.is_linearizable_after_failures() || options.any_layout;
    if is_safe { Ok(()) } else { Err(ServiceError::UnsafeLayout { version }.into()) }
}

fn sweep_in_background(sweeper: &Arc<Sweeper>, pause: Duration) -> Result<Arc<Background>> {
    Background::start(sweeper.clone(), pause).map(Arc::new).map_err(Error::Background)
}

impl Inner {
    /// B1 to B4.
    fn started(&self) -> Result<Started> {
        Ok(match self.residue {
            Some(residue) => {
                self.timelock.start_with_residue(residue, Tickets::STANDARD.rows_per_quantum())?
            }
            None => self.timelock.start()?,
        })
    }
}

impl Transactions {
    /// Transactions in an embedded database, with their tables in `keyspace`. Opened again while they are open, they are the same ones, as a clone is.
    ///
    /// # Errors
    /// AlreadyOpen, if the store is open with timestamps of other making; or the keyspace or the tables of transactions cannot be made, or the bound of timestamps is lost.
    pub fn embedded(database: cassette_database::Database, keyspace: &str) -> Result<Self> {
        let store = Arc::new(EmbeddedStore::open(database, keyspace)?);
        let options = Options { sweep_pause: Some(EMBEDDED_SWEEP_PAUSE), ..Options::default() };
        opened::share(store.clone(), || {
            let timelock = Arc::new(LocalTimeLock::open(store.clone())?);
            Self::open(store.clone(), timelock, options.clone())
        })
    }

    /// Transactions on a cluster, with timestamps and locks from timelock servers (`cassette timelock start`), each `host:port`.
    ///
    /// The nodes must not acknowledge writes before they are synced: `commitlog_sync: batch` or `group` in every
    /// cassandra.yaml. With `periodic`, Cassandra's default, nodes that crash lose transactions that were reported as
    /// committed. Such a store is refused, unless [`ClusterOptions::accept_periodic_sync`] is set.
    ///
    /// ```no_run
    /// use cassette_transactions::store::ClusterOptions;
    /// use cassette_transactions::{ConflictHandler, Transactions};
    /// # fn main() -> cassette_transactions::Result<()> {
    /// let cluster = ClusterOptions::new("10.0.0.1:9042", "bank");
    /// let transactions = Transactions::on_cluster(&cluster, ["10.0.0.5:8421", "10.0.0.6:8421"])?;
    /// let accounts = transactions.table("accounts", ConflictHandler::WriteWriteByCell)?;
    /// transactions.run(|tx| tx.put(&accounts, "alice", "balance", "70"))
    /// # }
    /// ```
    ///
    /// # Errors
    /// If no node or no server that leads can be reached; if nodes acknowledge writes before they are synced.
    #[cfg(feature = "cluster")]
    pub fn on_cluster<S: Into<String>>(
        cluster: &ClusterOptions,
        timelocks: impl IntoIterator<Item = S>,
    ) -> Result<Self> {
        let store = Arc::new(ClusterStore::connect(cluster)?);
        let timelock = Arc::new(RemoteTimeLock::connect(RemoteOptions::new(timelocks))?);
        Self::open(store, timelock, Options::default())
    }

    /// Transactions on a store, with timestamps and locks from elsewhere. All who use the store must have them from the same place.
    ///
    /// # Errors
    /// If the timestamps are another store's, the coordination row cannot be read or made, or names a layout that this program does not know, or another than was asked for.
    pub fn open(store: Arc<dyn Store>, timelock: Arc<dyn TimeLock>, options: Options) -> Result<Self> {
        let linearizable = store.is_linearizable_after_failures();
        let asked = options.layout.map(Layout::version);
        if options.layout != asked.and_then(Layout::of_version) {
            return Err(ServiceError::OddTickets.into());
        }
        if let Some(version) = asked {
            check_layout(&*store, &options, version)?;
        }
        let initial = asked.unwrap_or(if linearizable { 2 } else { 3 });
        timelock.check_store(&*store)?;
        let coordination = Arc::new(Coordination::open(store.clone(), timelock.clone(), initial)?);
        let stored = coordination.agree()?.map.last_version();
        if let Some(asked) = asked.filter(|asked| *asked != stored) {
            return Err(ServiceError::LayoutMismatch { asked, stored }.into());
        }
        if let Err(error) = check_layout(&*store, &options, stored) {
            tracing::warn!(%error, "new transactions have layout {stored}: migrate the store to 3");
        }
        let conclusions = Arc::new(ByVersion::new(store.clone(), coordination.clone()));
        let service: Arc<dyn TransactionService> = if options.batch_conclusions.unwrap_or(!linearizable) {
            Arc::new(Batching::new(conclusions.clone()))
        } else {
            conclusions.clone()
        };
        let service = Arc::new(Caching::new(service, options.cached_conclusions));
        store.create_table(METADATA, TableKind::Data)?;
        let queue = Arc::new(Queue::open(store.clone())?);
        let sweeper = Sweeper::new(store.clone(), service.clone(), timelock.clone(), queue.clone());
        let sweeper = Arc::new(sweeper);
        let background = options.sweep_pause.map(|pause| sweep_in_background(&sweeper, pause)).transpose()?;
        let residue = options.residues.unwrap_or(!linearizable).then(|| {
            let residues = Tickets::STANDARD.rows_per_quantum();
            timelock.next_residue(residues).unwrap_or_else(|| rand::rng().random_range(0..residues))
        });
        let reaper = if linearizable {
            None
        } else {
            let (store, timelock) = (store.clone(), timelock.clone());
            let remove = move |table: &str, versions: &[(&Cell, Timestamp)]| {
                remove_aborted(&*store, &*timelock, table, versions);
            };
            Some(Reaper::start(remove).map_err(Error::Background)?)
        };
        let inner = Inner {
            version_max: store.version_max(),
            store,
            service,
            conclusions,
            coordination,
            timelock,
            options,
            queue,
            reaper,
            residue,
            sweeper,
            tables: Mutex::default(),
        };
        Ok(Self(Arc::new(inner), background))
    }

    /// A table, made if it is not there, and swept conservatively. Who opens it first decides its conflict handler, which is stored.
    ///
    /// # Errors
    /// ReservedTable, for names that begin with an underscore; OtherHandler; OtherSweep; what the store answers.
    pub fn table(&self, name: &str, handler: ConflictHandler) -> Result<Table> {
        self.table_swept(name, handler, SweepStrategy::Conservative)
    }

    /// A table whose old versions go away in another way than usual. It is swept so for ever, and has its conflict handler for ever.
    ///
    /// # Errors
    /// As [`table`](Self::table).
    pub fn table_swept(&self, name: &str, handler: ConflictHandler, sweep: SweepStrategy) -> Result<Table> {
        if name.starts_with('_') {
            return Err(Error::ReservedTable(name.to_owned()));
        }
        let mut tables = self.0.tables.lock();
        let known = tables.get(name).copied();
        if known != Some((handler, sweep)) {
            if known.is_none() {
                self.0.store.create_table(name, TableKind::Data)?;
            }
            let stored = self.agree_on(name, SWEEP, sweep.name())?;
            if let Some(stored) = stored {
                return Err(Error::OtherSweep { table: name.to_owned(), asked: sweep.name(), stored });
            }
            if let Some(stored) = self.agree_on(name, HANDLER, handler.name())? {
                return Err(Error::OtherHandler { table: name.to_owned(), asked: handler.name(), stored });
            }
            tables.insert(name.to_owned(), (handler, sweep));
        }
        Ok(Table::new(name, handler, sweep))
    }

    /// Stores what holds for a table for ever, unless it is stored; gives what is, if it is another.
    fn agree_on(&self, table: &str, column: &'static [u8], asked: &'static str) -> Result<Option<String>> {
        let cell = Cell::new(Bytes::copy_from_slice(table.as_bytes()), column);
        let store = &self.0.store;
        let mut stored =
            store.get_serial(METADATA, &cell.row, std::slice::from_ref(&cell.column))?.pop().flatten();
        if stored.is_none() {
            let value = Bytes::from_static(asked.as_bytes());
            let row = PutRow { row: cell.row, columns: vec![(cell.column, value)] };
            match store.put_unless_exists(METADATA, &[row]).pop().transpose()? {
                Some(PutOutcome::Exists(existing)) => stored = existing.into_iter().next().map(|(_, v)| v),
                Some(PutOutcome::Applied) | None => {}
            }
        }
        Ok(stored
            .filter(|stored| stored != asked)
            .map(|stored| String::from_utf8_lossy(&stored).into_owned()))
    }

    /// Begins a transaction.
    pub fn start(&self) -> Result<Transaction> {
        Ok(Transaction::new(self.0.clone(), self.0.started()?, false))
    }

    /// Begins a transaction that may only read.
    pub fn start_read_only(&self) -> Result<Transaction> {
        Ok(Transaction::new(self.0.clone(), self.0.timelock.start()?, true))
    }

    /// Begins a read-only transaction that may be open as long as it takes: its hold keeps what it sees.
    pub(crate) fn start_for_backup(&self) -> Result<Transaction> {
        let mut transaction = self.start_read_only()?;
        transaction.age_max = Duration::MAX;
        Ok(transaction)
    }

    /// A table that is there, whatever its conflict handler is. For reading.
    pub(crate) fn table_for_backup(&self, name: &str) -> Table {
        // However it is swept, each read checks its hold: a backup that lost it must fail.
        Table::new(name, ConflictHandler::Ignore, SweepStrategy::Thorough)
    }

    /// Runs a transaction and commits it. Repeats both, with pauses, as long as the transaction fails in a
    /// [retriable](Error::is_retriable) way. So `body` may run several times, and must have no effects but
    /// through the transaction.
    ///
    /// # Errors
    /// The first error that is not retriable; the last one, after [`Options::retries_max`] more runs, or
    /// when store or timestamps have not answered for [`Options::outage_max`].
    pub fn run<T>(&self, mut body: impl FnMut(&mut Transaction) -> Result<T>) -> Result<T> {
        let options = &self.0.options;
        let mut limit = Duration::from_millis(1);
        let mut runs = 0;
        let mut unavailable_since: Option<Instant> = None;
        loop {
            let result = self.start().and_then(|mut transaction| {
                let value = body(&mut transaction)?;
                transaction.commit().map(|_| value)
            });
            let error = match result {
                Err(error) if error.is_retriable() && options.retries_max.is_none_or(|max| runs < max) => {
                    error
                }
                result => return result,
            };
            if error.is_unavailable() {
                let since = *unavailable_since.get_or_insert_with(Instant::now);
                if since.elapsed() >= options.outage_max {
                    return Err(error);
                }
            } else {
                unavailable_since = None;
            }
            tracing::debug!(%error, runs, "a transaction is run again");
            runs += 1;
            limit = limit.min(options.retry_pause_max);
            std::thread::sleep(limit.mul_f64(rand::rng().random::<f64>()));
            limit = limit.saturating_mul(2);
        }
    }

    /// Runs a transaction that only reads.
    pub fn read<T>(&self, body: impl FnOnce(&mut Transaction) -> Result<T>) -> Result<T> {
        body(&mut self.start_read_only()?)
    }

    /// Conclusions, for those who look at them.
    pub fn service(&self) -> &dyn TransactionService {
        &*self.0.service
    }

    /// Removes all versions that nobody can read any more.
    ///
    /// # Errors
    /// As [`Sweeper::sweep_all`].
    pub fn sweep(&self) -> Result<Swept> {
        self.0.sweeper.sweep_all()
    }

    /// What sweeps, step by step, and knows how far it is.
    pub fn sweeper(&self) -> &Sweeper {
        &self.0.sweeper
    }

    /// Conclusions in the store, without a cache before them: to go through those of a range.
    pub fn conclusions(&self) -> &ByVersion {
        &self.0.conclusions
    }

    /// Which layout the conclusions of which starts have.
    pub fn coordination(&self) -> &Coordination {
        &self.0.coordination
    }

    /// Gives new transactions layout `version`, while all others run on: see [`Coordination::migrate`].
    ///
    /// # Errors
    /// UnsafeLayout; those of the service. A migration that failed is run again.
    pub fn migrate(&self, version: u32) -> Result<Migrated> {
        check_layout(self.store(), &self.0.options, version)?;
        Ok(self.0.coordination.migrate(version)?)
    }

    /// What the coordination row says.
    pub fn agreed(&self) -> Result<Agreed> {
        Ok(self.0.coordination.agree()?)
    }

    /// The store.
    pub(crate) fn store(&self) -> &dyn Store {
        &*self.0.store
    }

    /// The timestamps and locks.
    pub fn timelock(&self) -> &dyn TimeLock {
        &*self.0.timelock
    }
}
