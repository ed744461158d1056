//! The entry point of transactions: store, commit records, timestamps and locks together.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use bytes::{BufMut, Bytes, BytesMut};
use cassette_database::Session;
use parking_lot::Mutex;
use rand::RngExt;

use super::indexes::Indexes;
use super::options::{Options, Retries};
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

/// Table with the sweep strategy and the conflict handler of each table, by table name.
pub(crate) const METADATA: &str = "_metadata";
/// Column of the sweep strategy.
const SWEEP: &[u8] = b"sweep";
/// Column of the conflict handler; absent for tables created before it was stored.
const HANDLER: &[u8] = b"handler";

/// Transactions on a store. Cheap to clone; any thread may use it, and calls block.
///
/// Open it with [`embedded`](Self::embedded) or `on_cluster`, or with [`Options`]. Programs then
/// open their [tables](Self::table) once, [`run`](Self::run) what writes and [`read`](Self::read)
/// the rest:
///
/// ```
/// # use cassette_database::Database;
/// # use cassette_transactions::{ConflictHandler, Transactions};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let transactions = Transactions::embedded(Database::in_memory()?, "shop")?;
/// let stock = transactions.table("stock", ConflictHandler::WriteWriteByCell)?;
/// let pieces = stock.column::<String, u32>("pieces");
/// transactions.run(|tx| pieces.put(tx, "chair", 4))?;
/// assert_eq!(transactions.read(|tx| pieces.get(tx, "chair"))?, Some(4));
/// # Ok(())
/// # }
/// ```
///
/// Background work ends when the last clone is dropped. Open transactions keep the store open.
#[derive(Clone)]
pub struct Transactions(
    pub(super) Arc<Inner>,
    /// Sweeps until dropped.
    pub(super) Option<Arc<Background>>,
);

/// Does not keep the transactions open.
pub(super) struct WeakTransactions(Weak<Inner>, Weak<Background>);

impl WeakTransactions {
    pub fn new(transactions: &Transactions) -> Self {
        let Transactions(inner, background) = transactions;
        Self(Arc::downgrade(inner), background.as_ref().map_or_else(Weak::new, Arc::downgrade))
    }

    /// Returns whether a strong reference exists.
    pub fn is_open(&self) -> bool {
        self.0.strong_count() > 0
    }

    /// Returns the transactions if they are still open, and restarts sweeping if only an open
    /// transaction kept them alive.
    pub fn upgrade(&self) -> Option<Result<Transactions>> {
        let inner = self.0.upgrade()?;
        let pause = inner.options.sweep_pause(&*inner.store);
        let background = match (self.1.upgrade(), pause) {
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
    pub statuses: Arc<ByVersion>,
    pub coordination: Arc<Coordination>,
    pub timelock: Arc<dyn TimeLock>,
    pub options: Options,
    pub queue: Arc<Queue>,
    /// Removes versions of aborted transactions in the background, where a removal waits for all
    /// replicas and readers should not.
    pub reaper: Option<Reaper>,
    /// Maximum bytes of names and value that the store can write at once.
    pub version_max: Option<usize>,
    /// Residue of the start timestamps, if any.
    residue: Option<i64>,
    sweeper: Arc<Sweeper>,
    /// Secondary indexes.
    pub indexes: Indexes,
    /// Plans the CQL texts of transactions; created on first use.
    session: OnceLock<Session>,
    tables: Mutex<HashMap<String, (ConflictHandler, SweepStrategy)>>,
}

/// Returns the name of the lock that a transaction holds while it commits.
pub(crate) fn start_lock(start: Timestamp) -> Bytes {
    let mut name = BytesMut::with_capacity(1 + var_long::LENGTH_MAX);
    name.put_u8(b't');
    name.put_slice(&var_long::encode(start.0));
    name.freeze()
}

/// Rejects layouts that are unsafe on a store.
fn check_layout(store: &dyn Store, options: &Options, version: u32) -> Result<()> {
    let is_safe = version >= 3 || store.is_linearizable_after_failures() || options.any_layout;
    if is_safe { Ok(()) } else { Err(ServiceError::UnsafeLayout { version }.into()) }
}

fn sweep_in_background(sweeper: &Arc<Sweeper>, pause: Duration) -> Result<Arc<Background>> {
    Background::start(sweeper.clone(), pause).map(Arc::new).map_err(Error::Background)
}

impl Inner {
    /// Returns a session of an embedded store's database.
    pub fn session(&self) -> Option<&Session> {
        let database = self.store.database()?;
        Some(self.session.get_or_init(|| database.session()))
    }

    /// Begins a transaction: B1 to B4.
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
    /// Opens transactions in an embedded database, with their tables in `keyspace`. While they are
    /// open, opening them again returns a clone.
    ///
    /// # Errors
    /// `AlreadyOpen` if the store is open with timestamps from another source; the error of
    /// creating the keyspace or the tables; or a lost bound of timestamps.
    pub fn embedded(database: cassette_database::Database, keyspace: &str) -> Result<Self> {
        Self::open_embedded(database, keyspace, &Options::new())
    }

    pub(super) fn open_embedded(
        database: cassette_database::Database,
        keyspace: &str,
        options: &Options,
    ) -> Result<Self> {
        let store = Arc::new(EmbeddedStore::open(database, keyspace)?);
        opened::share(store.clone(), || {
            let timelock = Arc::new(LocalTimeLock::open(store.clone())?);
            Self::open(store.clone(), timelock, options.clone())
        })
    }

    /// Opens transactions on a cluster, with timestamps and locks of timelock servers (`cassette
    /// timelock start`), each `host:port`.
    ///
    /// The nodes must sync writes before they acknowledge them: `commitlog_sync: batch` or `group`
    /// in every cassandra.yaml. With `periodic`, Cassandra's default, nodes that crash lose
    /// transactions that were reported as committed. Such a store is rejected unless
    /// [`ClusterOptions::accept_periodic_sync`] is set.
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
    /// If no node or no leading server can be reached, or if nodes acknowledge writes before they
    /// sync them.
    #[cfg(feature = "cluster")]
    pub fn on_cluster<S: Into<String>>(
        cluster: &ClusterOptions,
        timelocks: impl IntoIterator<Item = S>,
    ) -> Result<Self> {
        Self::open_on_cluster(cluster, timelocks, Options::new())
    }

    #[cfg(feature = "cluster")]
    pub(super) fn open_on_cluster<S: Into<String>>(
        cluster: &ClusterOptions,
        timelocks: impl IntoIterator<Item = S>,
        options: Options,
    ) -> Result<Self> {
        let store = Arc::new(ClusterStore::connect(cluster)?);
        let remote = RemoteOptions {
            token: options.timelock_token.clone(),
            tls: options.timelock_tls.clone(),
            ..RemoteOptions::new(timelocks)
        };
        Self::open(store, Arc::new(RemoteTimeLock::connect(remote)?), options)
    }

    /// Opens transactions on a store with the specified timestamps and locks. All clients of a
    /// store must use the same source.
    ///
    /// # Errors
    /// If the timestamps belong to another store; if the coordination row cannot be read or
    /// created; if its layout is unknown or differs from the requested one.
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
        let agreed = coordination.agree()?;
        let stored = agreed.map.last_version();
        if let Some(asked) = asked.filter(|asked| *asked != stored) {
            return Err(ServiceError::LayoutMismatch { asked, stored }.into());
        }
        if let Err(error) = check_layout(&*store, &options, stored) {
            tracing::warn!(%error, "new transactions have layout {stored}: migrate the store to 3");
        }
        let statuses = Arc::new(ByVersion::new(store.clone(), coordination.clone()));
        let service: Arc<dyn TransactionService> = if options.batch_commit_records.unwrap_or(!linearizable) {
            Arc::new(Batching::new(statuses.clone()))
        } else {
            statuses.clone()
        };
        let service = Arc::new(Caching::new(service, options.cached_statuses));
        store.create_table(METADATA, TableKind::Data)?;
        let indexes = Indexes::open(&*store, &coordination, agreed.bound);
        let queue = Arc::new(Queue::open(store.clone())?);
        let sweeper = Sweeper::new(store.clone(), service.clone(), timelock.clone(), queue.clone());
        let sweeper = Arc::new(sweeper);
        let pause = options.sweep_pause(&*store);
        let background = pause.map(|pause| sweep_in_background(&sweeper, pause)).transpose()?;
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
            statuses,
            coordination,
            timelock,
            options,
            queue,
            reaper,
            residue,
            sweeper,
            indexes,
            session: OnceLock::new(),
            tables: Mutex::default(),
        };
        Ok(Self(Arc::new(inner), background))
    }

    /// Opens a table, creating it if needed, with conservative sweeping. The first client to open
    /// it determines its conflict handler, which is stored.
    ///
    /// # Errors
    /// `ReservedTable` for names that begin with an underscore; `OtherHandler`; `OtherSweep`; the
    /// store's error.
    pub fn table(&self, name: &str, handler: ConflictHandler) -> Result<Table> {
        self.table_swept(name, handler, SweepStrategy::Conservative)
    }

    /// Opens a table with a specific sweep strategy. A table keeps its strategy and its conflict
    /// handler permanently.
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

    /// Opens a table for writing, with the conflict handler and the sweep strategy that `other` has
    /// stored for its table of the same name. Without these, programs can still choose them here.
    pub(crate) fn table_as_in(&self, other: &Self, name: &str) -> Result<Table> {
        let handler = other.stored_property(name, HANDLER)?;
        let sweep = other.stored_property(name, SWEEP)?;
        match (handler.and_then(ConflictHandler::of_name), sweep.and_then(SweepStrategy::of_name)) {
            (Some(handler), Some(sweep)) => self.table_swept(name, handler, sweep),
            _ => {
                self.0.store.create_table(name, TableKind::Data)?;
                Ok(Table::new(name, ConflictHandler::WriteWriteByCell, SweepStrategy::Conservative))
            }
        }
    }

    fn stored_property(&self, table: &str, column: &'static [u8]) -> Result<Option<Bytes>> {
        let row = Bytes::copy_from_slice(table.as_bytes());
        let mut stored = self.0.store.get_serial(METADATA, &row, &[Bytes::from_static(column)])?;
        Ok(stored.pop().flatten())
    }

    /// Stores a permanent property of a table unless one is stored. Returns the stored one if it
    /// differs.
    fn agree_on(&self, table: &str, column: &'static [u8], asked: &'static str) -> Result<Option<String>> {
        let cell = Cell::new(Bytes::copy_from_slice(table.as_bytes()), column);
        let store = &self.0.store;
        let mut stored = self.stored_property(table, column)?;
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

    /// Begins a transaction, which ends with [`Transaction::commit`] or when it is dropped. `run`
    /// also repeats it after conflicts.
    ///
    /// # Errors
    /// If no timestamp is available.
    pub fn start(&self) -> Result<Transaction> {
        Ok(Transaction::new(self.0.clone(), self.0.started()?, false))
    }

    /// Begins a read-only transaction. It preserves what it reads until it is dropped.
    ///
    /// # Errors
    /// If no timestamp is available.
    pub fn start_read_only(&self) -> Result<Transaction> {
        Ok(Transaction::new(self.0.clone(), self.0.timelock.start()?, true))
    }

    /// Begins a read-only transaction without a maximum age: its hold preserves what it reads.
    pub(crate) fn start_for_backup(&self) -> Result<Transaction> {
        let mut transaction = self.start_read_only()?;
        transaction.age_max = Duration::MAX;
        Ok(transaction)
    }

    /// Opens an existing table for reading, whatever its conflict handler is.
    pub(crate) fn table_for_backup(&self, name: &str) -> Table {
        // Whatever the table's strategy, each read checks the hold: a backup that lost it must
        // fail.
        Table::new(name, ConflictHandler::Ignore, SweepStrategy::Thorough)
    }

    /// Runs a transaction and commits it. Repeats both, with pauses, while the transaction fails in
    /// a [retriable](Error::is_retriable) way, within the bounds of [`Options::retries`]. `body`
    /// may therefore run several times and must have no effects other than through the transaction.
    ///
    /// # Errors
    /// The first error that is not retriable, or the last one when a bound is reached.
    pub fn run<T>(&self, body: impl FnMut(&mut Transaction) -> Result<T>) -> Result<T> {
        self.run_with(self.0.options.retries, body)
    }

    /// As [`run`](Self::run), with the bounds of `retries` instead of those of the options.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use cassette_transactions::{Result, Retries, Table, Transactions};
    /// # fn example(transactions: &Transactions, accounts: &Table) -> Result<()> {
    /// let soon = Retries::new().max(5).within(Duration::from_secs(2));
    /// transactions.run_with(soon, |tx| tx.put(accounts, "alice", "balance", "70"))
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_with<T>(
        &self,
        retries: Retries,
        mut body: impl FnMut(&mut Transaction) -> Result<T>,
    ) -> Result<T> {
        let began = Instant::now();
        let mut limit = Duration::from_millis(1);
        let mut runs = 0;
        let mut unavailable_since: Option<Instant> = None;
        loop {
            let result = self.start().and_then(|mut transaction| {
                let value = body(&mut transaction)?;
                transaction.commit().map(|_| value)
            });
            let error = match result {
                Err(error) if error.is_retriable() && retries.max.is_none_or(|max| runs < max) => error,
                result => return result,
            };
            if error.is_unavailable() {
                let since = *unavailable_since.get_or_insert_with(Instant::now);
                if since.elapsed() >= retries.outage_max {
                    return Err(error);
                }
            } else {
                unavailable_since = None;
            }
            tracing::debug!(%error, runs, "running a transaction again");
            runs += 1;
            limit = limit.min(retries.pause_max);
            let pause = limit.mul_f64(rand::rng().random::<f64>());
            if retries.within.is_some_and(|time| began.elapsed().saturating_add(pause) >= time) {
                return Err(error);
            }
            std::thread::sleep(pause);
            limit = limit.saturating_mul(2);
        }
    }

    /// Runs a read-only transaction, once.
    ///
    /// # Errors
    /// The error of `body`, or if no timestamp is available.
    pub fn read<T>(&self, body: impl FnOnce(&Transaction) -> Result<T>) -> Result<T> {
        body(&self.start_read_only()?)
    }

    /// Returns the commit records, for inspection.
    pub fn service(&self) -> &dyn TransactionService {
        &*self.0.service
    }

    /// Removes all versions that no reader can see any more.
    ///
    /// # Errors
    /// As [`Sweeper::sweep_all`].
    pub fn sweep(&self) -> Result<Swept> {
        self.0.sweeper.sweep_all()
    }

    /// Stops sweeping in the background, for all clones and until the store is closed and opened
    /// again. Blocks until the current step ends. Without background sweeping, it does nothing.
    pub fn stop_sweeping(&self) {
        if let Some(background) = &self.1 {
            background.stop();
        }
    }

    /// Returns the sweeper, which sweeps step by step and reports its progress.
    pub fn sweeper(&self) -> &Sweeper {
        &self.0.sweeper
    }

    /// Returns the stored commit records without a cache, to enumerate ranges of them.
    pub fn commit_records(&self) -> &ByVersion {
        &self.0.statuses
    }

    /// Returns the coordination row, which maps start timestamps to layouts.
    pub fn coordination(&self) -> &Coordination {
        &self.0.coordination
    }

    /// Changes the layout of new transactions to `version` while all clients run: see
    /// [`Coordination::migrate`].
    ///
    /// # Errors
    /// `UnsafeLayout`, or an error of the service. Run a failed migration again.
    pub fn migrate(&self, version: u32) -> Result<Migrated> {
        check_layout(self.store(), &self.0.options, version)?;
        Ok(self.0.coordination.migrate(version)?)
    }

    /// Returns the content of the coordination row.
    pub fn agreed(&self) -> Result<Agreed> {
        Ok(self.0.coordination.agree()?)
    }

    /// Returns the store.
    pub(crate) fn store(&self) -> &dyn Store {
        &*self.0.store
    }

    /// Returns the source of timestamps and locks.
    pub fn timelock(&self) -> &dyn TimeLock {
        &*self.0.timelock
    }
}
