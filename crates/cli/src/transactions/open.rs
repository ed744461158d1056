//! Selects and opens a store.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, bail};
use cassette_database::Database;
use cassette_transactions::service::{Agreed, Coordination};
use cassette_transactions::store::{ClusterOptions, ClusterStore, EmbeddedStore, Store};
use cassette_transactions::timelock::{
    ReadOnlyTimeLock, RemoteOptions, RemoteTimeLock, TimeLock, TimeLockError,
};
use cassette_transactions::{Error, Options, Timestamp, Transactions};
use clap::Args;

use crate::credentials::{client_tls, password_in, password_of_environment, token};

/// A table of every store.
const TABLE: &str = "_timestamp";

/// The arguments that select a store.
#[derive(Debug, Args)]
pub struct StoreArguments {
    /// The data directory of an embedded store, which no other process may have open
    #[arg(long, value_name = "DIRECTORY", required_unless_present = "contact", conflicts_with = "contact")]
    pub data: Option<PathBuf>,
    /// A node of the cluster that the store is on
    #[arg(long, value_name = "HOST:PORT", requires = "keyspace")]
    pub contact: Option<String>,
    /// The store's keyspace; of a data directory with one store, that one
    #[arg(long, value_name = "NAME")]
    pub keyspace: Option<String>,
    /// Use only the nodes of this data center: required wherever all programs and timelock servers
    /// of the store do
    #[arg(long, value_name = "DATA CENTER", requires = "contact")]
    pub local: Option<String>,
    /// The user, if the cluster requires authentication
    #[arg(long, value_name = "NAME", requires = "contact")]
    pub user: Option<String>,
    /// The user's password; other users may see it in the list of processes
    #[arg(long, value_name = "TEXT", requires = "user", conflicts_with = "password_file")]
    pub password: Option<String>,
    /// A file with the user's password; without it and --password, CASSETTE_PASSWORD in the
    /// environment has it
    #[arg(long, value_name = "FILE", requires = "user")]
    pub password_file: Option<PathBuf>,
    /// Connect with TLS to nodes whose certificates one in this file has signed, and which name
    /// their IP addresses
    #[arg(long, value_name = "FILE", requires = "contact")]
    pub tls_ca: Option<PathBuf>,
    /// The certificate of this client, and its private key unless --tls-key names another file
    #[arg(long, value_name = "FILE", requires = "tls_ca")]
    pub tls_certificate: Option<PathBuf>,
    /// The file with the private key
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub tls_key: Option<PathBuf>,
    /// Write although nodes acknowledge writes before they are synced (`commitlog_sync: periodic`):
    /// nodes that crash lose committed transactions
    #[arg(long, requires = "contact")]
    pub accept_periodic_sync: bool,
}

/// The use of a store by a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Reads, and may roll back transactions of dead clients. Works with any sync mode of the
    /// nodes.
    Read,
    /// Writes data that must not be lost.
    Write,
}

/// The timelock servers of a cluster.
#[derive(Debug, Args)]
pub struct TimeLockArguments {
    /// The cluster's timelock servers
    #[arg(long, value_name = "HOST:PORT", requires = "contact", value_delimiter = ',')]
    pub timelock: Vec<String>,
    /// A file with the token of the timelock servers; the first one in it is used
    #[arg(long, value_name = "FILE", requires = "timelock")]
    pub timelock_token_file: Option<PathBuf>,
    /// Connect with TLS to timelock servers whose certificates one in this file has signed
    #[arg(long, value_name = "FILE", requires = "timelock")]
    pub timelock_tls_ca: Option<PathBuf>,
    /// The certificate of this client for timelock servers, and its private key unless
    /// --timelock-tls-key names another file
    #[arg(long, value_name = "FILE", requires = "timelock_tls_ca")]
    pub timelock_tls_certificate: Option<PathBuf>,
    /// The file with the private key
    #[arg(long, value_name = "FILE", requires = "timelock_tls_certificate")]
    pub timelock_tls_key: Option<PathBuf>,
}

impl TimeLockArguments {
    /// Connects to the servers that lead for `store`; returns `None` if none was named.
    pub fn connect(&self, store: &dyn Store) -> anyhow::Result<Option<RemoteTimeLock>> {
        if self.timelock.is_empty() {
            return Ok(None);
        }
        let remote = RemoteTimeLock::connect(RemoteOptions {
            token: token(self.timelock_token_file.as_deref())?,
            tls: client_tls(
                self.timelock_tls_ca.as_ref(),
                self.timelock_tls_certificate.as_ref(),
                self.timelock_tls_key.as_ref(),
            )?,
            ..RemoteOptions::new(self.timelock.clone())
        })?;
        remote.check_store(store)?;
        Ok(Some(remote))
    }
}

/// An open store.
pub struct Opened {
    /// The store.
    pub store: Arc<dyn Store>,
    /// The database of an embedded one.
    pub database: Option<Database>,
    pub keyspace: String,
    /// The location, for messages.
    pub place: String,
}

impl Opened {
    /// Returns the map of layouts; `None` before the first transaction. Changes nothing.
    pub fn agreed(&self) -> anyhow::Result<Option<Agreed>> {
        Ok(Coordination::peek(&*self.store)?)
    }

    /// Opens transactions as any program does.
    ///
    /// # Errors
    /// If the store is on a cluster, and none of its timelock servers was named or responds.
    pub fn transactions(
        &self,
        timelock: &TimeLockArguments,
        any_layout: bool,
    ) -> anyhow::Result<Transactions> {
        if let Some(database) = &self.database {
            return embedded(database, &self.keyspace);
        }
        on_cluster(self.store.clone(), timelock, any_layout)
    }

    /// Closes the database of an embedded store. All transactions must have been dropped.
    pub fn close(self) -> anyhow::Result<()> {
        let Self { store, database, .. } = self;
        drop(store);
        Ok(database.map_or(Ok(()), |database| database.close())?)
    }

    /// Returns the timestamp below which all transactions have ended: an embedded store has none
    /// open while this process has it, for a cluster the timelock servers return it. `None` if no
    /// server was named.
    pub fn immutable(&self, timelock: &TimeLockArguments) -> anyhow::Result<Option<Timestamp>> {
        match (&self.database, timelock.connect(&*self.store)?) {
            (Some(_), _) => Ok(Some(ReadOnlyTimeLock::open(&*self.store)?.immutable()?)),
            (None, Some(timelock)) => Ok(Some(timelock.immutable()?)),
            (None, None) => Ok(None),
        }
    }
}

/// Opens an existing store.
///
/// # Errors
/// If there is none, it is ambiguous, or another process has it open.
pub fn open(arguments: &StoreArguments, purpose: Purpose) -> anyhow::Result<Opened> {
    match &arguments.contact {
        Some(contact) => open_on_cluster(arguments, contact, purpose),
        None => open_embedded(arguments),
    }
}

fn embedded(database: &Database, keyspace: &str) -> anyhow::Result<Transactions> {
    match Transactions::embedded(database.clone(), keyspace) {
        Err(Error::TimeLock(error @ TimeLockError::ServedElsewhere { .. })) => {
            Err(anyhow::Error::from(error).context(format!(
                "the files of this store were served, and only a timelock server may go on with its timestamps: start \
                 `cassette serve` on them and `cassette timelock start` with --keyspace {keyspace}, and give \
                 this command --contact and --timelock instead of --data"
            )))
        }
        opened => Ok(opened?),
    }
}

fn on_cluster(
    store: Arc<dyn Store>,
    timelock: &TimeLockArguments,
    any_layout: bool,
) -> anyhow::Result<Transactions> {
    let Some(remote) = timelock.connect(&*store)? else {
        bail!(
            "on a cluster this needs the timestamps and locks that all programs have: name the servers with --timelock"
        );
    };
    let options = Options::new().without_sweeping().any_layout(any_layout);
    Ok(Transactions::open(store, Arc::new(remote), options)?)
}

/// Opens a store to be filled; returns its database, too, if it is embedded. An embedded one is
/// created if it does not exist. On a cluster its timelock servers have created it, with their
/// replication.
///
/// # Errors
/// If it cannot be created, or as [`Opened::transactions`].
pub fn make(
    arguments: &StoreArguments,
    timelock: &TimeLockArguments,
) -> anyhow::Result<(Transactions, Option<Database>)> {
    let keyspace = arguments.keyspace.clone().context("--keyspace is needed: the store that is filled")?;
    match (&arguments.data, &arguments.contact) {
        (_, Some(contact)) => {
            let store = ClusterStore::connect(&cluster(arguments, contact, &keyspace, Purpose::Write)?)?;
            if !store.tables()?.iter().any(|table| table == TABLE) {
                bail!(
                    "there is no keyspace {keyspace} with a table {TABLE} at {contact}: start its timelock \
                     servers first, `cassette timelock start --keyspace {keyspace} --replication ...`, \
                     which make it"
                );
            }
            Ok((on_cluster(Arc::new(store), timelock, false)?, None))
        }
        (data, None) => {
            let data = data.as_ref().context("--data is needed")?;
            let database = Database::open(data).with_context(|| format!("cannot open {}", data.display()))?;
            Ok((embedded(&database, &keyspace)?, Some(database)))
        }
    }
}

fn cluster(
    arguments: &StoreArguments,
    contact: &str,
    keyspace: &str,
    purpose: Purpose,
) -> anyhow::Result<ClusterOptions> {
    let credentials = match (&arguments.user, &arguments.password, &arguments.password_file) {
        (None, ..) => None,
        (Some(user), Some(password), _) => Some((user.clone(), password.clone())),
        (Some(user), None, Some(path)) => Some((user.clone(), password_in(path)?)),
        (Some(user), None, None) => Some((user.clone(), password_of_environment(user)?)),
    };
    Ok(ClusterOptions {
        create_keyspace: false,
        local: arguments.local.clone(),
        credentials,
        tls: client_tls(
            arguments.tls_ca.as_ref(),
            arguments.tls_certificate.as_ref(),
            arguments.tls_key.as_ref(),
        )?,
        accept_periodic_sync: arguments.accept_periodic_sync || purpose == Purpose::Read,
        ..ClusterOptions::new(contact, keyspace)
    })
}

fn open_on_cluster(arguments: &StoreArguments, contact: &str, purpose: Purpose) -> anyhow::Result<Opened> {
    let keyspace = arguments.keyspace.clone().context("--contact needs --keyspace")?;
    let store = ClusterStore::connect(&cluster(arguments, contact, &keyspace, purpose)?)?;
    if !store.tables()?.iter().any(|table| table == TABLE) {
        bail!("keyspace {keyspace} at {contact} is no store of transactions: it has no table {TABLE}");
    }
    Ok(Opened { store: Arc::new(store), database: None, keyspace, place: contact.to_owned() })
}

/// Opens the database of `--data`, which must exist.
pub fn open_database(arguments: &StoreArguments) -> anyhow::Result<Database> {
    let data = arguments.data.as_ref().context("--data is needed")?;
    if !data.join("cassette.lock").exists() {
        bail!("{}: no data directory of Cassette: it has no cassette.lock", data.display());
    }
    Database::open(data).with_context(|| {
        format!(
            "cannot open {}; while a server serves it, look through the server with --contact",
            data.display()
        )
    })
}

fn open_embedded(arguments: &StoreArguments) -> anyhow::Result<Opened> {
    let database = open_database(arguments)?;
    let place = arguments.data.as_ref().map(|data| data.display().to_string()).unwrap_or_default();
    let catalog = database.catalog();
    let stores: Vec<String> = catalog
        .keyspaces()
        .filter(|keyspace| keyspace.tables.contains_key(TABLE))
        .map(|keyspace| keyspace.name.clone())
        .collect();
    let keyspace = choose(arguments.keyspace.as_deref(), &stores).with_context(|| place.clone())?;
    let store = EmbeddedStore::open(database.clone(), &keyspace)?;
    Ok(Opened { store: Arc::new(store), database: Some(database), keyspace, place })
}

/// Selects the keyspace among those with a store.
fn choose(asked: Option<&str>, stores: &[String]) -> anyhow::Result<String> {
    match (asked, stores) {
        (Some(asked), _) if stores.iter().any(|store| store == asked) => Ok(asked.to_owned()),
        (Some(asked), []) => {
            bail!("keyspace {asked} is no store of transactions, and no other is: none has a table {TABLE}")
        }
        (Some(asked), _) => {
            bail!(
                "keyspace {asked} is not a store of transactions: it has no table {TABLE}; existing stores: {}",
                stores.join(", ")
            )
        }
        (None, [only]) => Ok(only.clone()),
        (None, []) => bail!("no store of transactions: none of its keyspaces has a table {TABLE}"),
        (None, _) => {
            bail!("several stores of transactions: choose one with --keyspace: {}", stores.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_only_store_needs_no_name_and_what_is_none_is_told_by_name() {
        let stores = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(choose(None, &stores(&["bank"])).unwrap(), "bank");
        assert_eq!(choose(Some("b"), &stores(&["a", "b"])).unwrap(), "b");
        let says = |asked, names: &[&str]| choose(asked, &stores(names)).unwrap_err().to_string();
        assert!(says(None, &["a", "b"]).contains("--keyspace: a, b"));
        assert!(says(None, &[]).contains("_timestamp"));
        assert!(says(Some("c"), &["a", "b"]).contains("existing stores: a, b"));
        assert!(says(Some("c"), &[]).contains("none has"));
    }
}
