//! Where transactions begin: store, conclusions, timestamps and locks together.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use parking_lot::Mutex;
use rand::RngExt;

use super::Transaction;
use super::table::{ConflictHandler, Table};
use crate::encoding::var_long;
use crate::error::{Error, Result};
use crate::service::{Batching, Caching, Layout, StoredConclusions, TransactionService};
use crate::store::{EmbeddedStore, Store, TableKind};
use crate::timelock::{LocalTimeLock, TimeLock};
use crate::timestamp::Timestamp;

/// How transactions are to behave.
#[derive(Debug, Clone)]
pub struct Options {
    /// How conclusions are stored. `None`: layout 2, or 3 on stores that are not linearizable after failures. A store must always be used
    /// with the same one.
    pub layout: Option<Layout>,
    /// Whether puts of conclusions go in batches. `None`: on stores where each is a round of consensus.
    pub batch_conclusions: Option<bool>,
    /// Conclusions that are remembered.
    pub cached_conclusions: usize,
    /// How long a lock is waited for.
    pub lock_timeout: Duration,
    /// How long a transaction may be open. It must end before what it reads is swept.
    pub age_max: Duration,
    /// The longest pause before a transaction is run again. Pauses are random, from 0 to a limit that doubles from 1 ms.
    pub retry_pause_max: Duration,
    /// How often a transaction is run again. `None`: until it succeeds.
    pub retries_max: Option<u32>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            layout: None,
            batch_conclusions: None,
            cached_conclusions: Caching::<Arc<dyn TransactionService>>::ENTRIES,
            lock_timeout: Duration::from_secs(60),
            age_max: Duration::from_secs(3600),
            retry_pause_max: Duration::from_secs(1),
            retries_max: None,
        }
    }
}

/// Transactions on a store. Cheap to clone; any thread may use it.
#[derive(Clone)]
pub struct Transactions(Arc<Inner>);

pub(super) struct Inner {
    pub store: Arc<dyn Store>,
    pub service: Caching<Arc<dyn TransactionService>>,
    pub timelock: Arc<dyn TimeLock>,
    pub options: Options,
    tables: Mutex<HashMap<String, ConflictHandler>>,
}

/// The name of the lock that a transaction holds while it commits.
pub(crate) fn start_lock(start: Timestamp) -> Bytes {
    let mut name = BytesMut::with_capacity(1 + var_long::LENGTH_MAX);
    name.put_u8(b't');
    name.put_slice(&var_long::encode(start.0));
    name.freeze()
}

impl Transactions {
    /// Transactions in an embedded database, with their tables in `keyspace`.
    ///
    /// # Errors
    /// If the keyspace or the tables of transactions cannot be made, or the bound of timestamps is lost.
    pub fn embedded(database: cassette_database::Database, keyspace: &str) -> Result<Self> {
        let store = Arc::new(EmbeddedStore::open(database, keyspace)?);
        let timelock = Arc::new(LocalTimeLock::open(store.clone())?);
        Self::open(store, timelock, Options::default())
    }

    /// Transactions on a store, with timestamps and locks from elsewhere. All who use the store must have them from the same place.
    ///
    /// # Errors
    /// If the table of conclusions cannot be made.
    pub fn open(store: Arc<dyn Store>, timelock: Arc<dyn TimeLock>, options: Options) -> Result<Self> {
        let linearizable = store.is_linearizable_after_failures();
        let layout = options.layout.or_else(|| Layout::of_version(if linearizable { 2 } else { 3 }));
        let stored = StoredConclusions::open(store.clone(), layout.unwrap_or(Layout::Plain))?;
        let service: Arc<dyn TransactionService> = match options.batch_conclusions.unwrap_or(!linearizable) {
            true => Arc::new(Batching::new(stored)),
            false => Arc::new(stored),
        };
        let service = Caching::new(service, options.cached_conclusions);
        Ok(Self(Arc::new(Inner { store, service, timelock, options, tables: Mutex::default() })))
    }

    /// A table, made if it is not there. All who use it must have the same conflict handler.
    ///
    /// # Errors
    /// ReservedTable, for names that begin with an underscore; OtherHandler; what the store answers.
    pub fn table(&self, name: &str, handler: ConflictHandler) -> Result<Table> {
        if name.starts_with('_') {
            return Err(Error::ReservedTable(name.to_owned()));
        }
        let mut tables = self.0.tables.lock();
        match tables.get(name) {
            Some(known) if *known != handler => return Err(Error::OtherHandler(name.to_owned())),
            Some(_) => {}
            None => {
                self.0.store.create_table(name, TableKind::Data)?;
                tables.insert(name.to_owned(), handler);
            }
        }
        Ok(Table::new(name, handler))
    }

    /// Begins a transaction.
    pub fn start(&self) -> Result<Transaction> {
        Ok(Transaction::new(self.0.clone(), self.0.timelock.start()?, false))
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
        Table::new(name, ConflictHandler::Ignore)
    }

    /// Runs a transaction and commits it; again and again, with pauses, as long as it fails with what another run can
    /// mend. So `body` may run several times, and must have no effects but through the transaction.
    ///
    /// # Errors
    /// The first that another run does not mend; the last, after [`Options::retries_max`] more runs.
    pub fn run<T>(&self, mut body: impl FnMut(&mut Transaction) -> Result<T>) -> Result<T> {
        let options = &self.0.options;
        let mut limit = Duration::from_millis(1);
        let mut runs = 0;
        loop {
            let mut transaction = self.start()?;
            let result = body(&mut transaction).and_then(|value| transaction.commit().map(|_| value));
            match result {
                Err(error) if error.is_retriable() && options.retries_max.is_none_or(|max| runs < max) => {
                    tracing::debug!(%error, runs, "a transaction is run again");
                }
                result => return result,
            }
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
        &self.0.service
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
