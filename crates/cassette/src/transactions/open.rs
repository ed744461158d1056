//! Which store is meant, and how it is opened to be looked at.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, bail};
use cassette_database::Database;
use cassette_transactions::service::{Agreed, Coordination};
use cassette_transactions::store::{ClusterOptions, ClusterStore, EmbeddedStore, Store};
use cassette_transactions::timelock::{Frozen, RemoteOptions, RemoteTimeLock};
use cassette_transactions::{Options, Transactions};
use clap::Args;

/// Every store has it.
const TABLE: &str = "_timestamp";

/// Which store.
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
    /// The cluster's timelock servers, for what needs timestamps or locks
    #[arg(long, value_name = "HOST:PORT", requires = "contact", value_delimiter = ',')]
    pub timelock: Vec<String>,
    /// User, where the cluster asks for one
    #[arg(long, value_name = "NAME", requires = "contact", requires = "password")]
    pub user: Option<String>,
    /// The user's password
    #[arg(long, value_name = "TEXT", requires = "user")]
    pub password: Option<String>,
}

/// A store that is open.
pub struct Opened {
    /// The store.
    pub store: Arc<dyn Store>,
    /// The database of an embedded one.
    pub database: Option<Database>,
    /// Its keyspace.
    pub keyspace: String,
    /// Where it is, for people.
    pub place: String,
}

impl Opened {
    /// The map of layouts; `None` before the first transaction. Changes nothing.
    pub fn agreed(&self) -> anyhow::Result<Option<Agreed>> {
        Ok(Coordination::look(&*self.store)?)
    }

    /// Transactions as any program has them.
    ///
    /// # Errors
    /// If the store is on a cluster, and none of its timelock servers was named or answers.
    pub fn transactions(&self, arguments: &StoreArguments) -> anyhow::Result<Transactions> {
        if let Some(database) = &self.database {
            return Ok(Transactions::embedded(database.clone(), &self.keyspace)?);
        }
        on_cluster(self.store.clone(), arguments)
    }

    /// Closes the database of an embedded store. Whoever has transactions on it must have dropped them.
    pub fn close(self) -> anyhow::Result<()> {
        let Self { store, database, .. } = self;
        drop(store);
        Ok(database.map_or(Ok(()), |database| database.close())?)
    }

    /// Transactions of which none can begin: to look at what there is.
    pub fn look(&self) -> anyhow::Result<Transactions> {
        let frozen = Arc::new(Frozen::open(&*self.store)?);
        let options = Options { residues: Some(false), sweep_pause: None, ..Options::default() };
        Ok(Transactions::open(self.store.clone(), frozen, options)?)
    }
}

/// Opens a store that is there.
///
/// # Errors
/// If there is none, it is not clear which one, or another process has it open.
pub fn open(arguments: &StoreArguments) -> anyhow::Result<Opened> {
    match &arguments.contact {
        Some(contact) => open_on_cluster(arguments, contact),
        None => open_embedded(arguments),
    }
}

fn on_cluster(store: Arc<dyn Store>, arguments: &StoreArguments) -> anyhow::Result<Transactions> {
    if arguments.timelock.is_empty() {
        bail!(
            "on a cluster this needs the timestamps and locks that all programs have: name the servers with --timelock"
        );
    }
    let remote = RemoteTimeLock::connect(RemoteOptions::new(arguments.timelock.clone()))?;
    Ok(Transactions::open(store, Arc::new(remote), Options::default())?)
}

/// A store to be filled, made if it is not there; gives with it its database, if it is embedded.
///
/// # Errors
/// If it cannot be made, or as [`Opened::transactions`].
pub fn make(arguments: &StoreArguments) -> anyhow::Result<(Transactions, Option<Database>)> {
    let keyspace = arguments.keyspace.clone().context("--keyspace is needed: the store that is made")?;
    match (&arguments.data, &arguments.contact) {
        (_, Some(contact)) => {
            let store = ClusterStore::connect(&cluster(arguments, contact, &keyspace, true))?;
            Ok((on_cluster(Arc::new(store), arguments)?, None))
        }
        (data, None) => {
            let data = data.as_ref().context("--data is needed")?;
            let database = Database::open(data).with_context(|| format!("cannot open {}", data.display()))?;
            Ok((Transactions::embedded(database.clone(), &keyspace)?, Some(database)))
        }
    }
}

fn cluster(
    arguments: &StoreArguments,
    contact: &str,
    keyspace: &str,
    create_keyspace: bool,
) -> ClusterOptions {
    ClusterOptions {
        create_keyspace,
        credentials: arguments.user.clone().zip(arguments.password.clone()),
        ..ClusterOptions::new(contact, keyspace)
    }
}

fn open_on_cluster(arguments: &StoreArguments, contact: &str) -> anyhow::Result<Opened> {
    let keyspace = arguments.keyspace.clone().context("--contact needs --keyspace")?;
    let store = ClusterStore::connect(&cluster(arguments, contact, &keyspace, false))?;
    if !store.tables()?.iter().any(|table| table == TABLE) {
        bail!("keyspace {keyspace} at {contact} is no store of transactions: it has no table {TABLE}");
    }
    Ok(Opened { store: Arc::new(store), database: None, keyspace, place: contact.to_owned() })
}

/// Opens the database of `--data`, which must be there.
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

/// The keyspace that is meant, of those with a store.
fn choose(asked: Option<&str>, stores: &[String]) -> anyhow::Result<String> {
    match (asked, stores) {
        (Some(asked), _) if stores.iter().any(|store| store == asked) => Ok(asked.to_owned()),
        (Some(asked), []) => {
            bail!("keyspace {asked} is no store of transactions, and no other is: none has a table {TABLE}")
        }
        (Some(asked), _) => {
            bail!(
                "keyspace {asked} is no store of transactions: it has no table {TABLE}; there are {}",
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
        assert!(says(Some("c"), &["a", "b"]).contains("there are a, b"));
        assert!(says(Some("c"), &[]).contains("none has"));
    }
}
