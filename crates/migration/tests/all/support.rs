//! Servers in this process, and the content of their tables.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytes::Bytes;
use cassette_database::{
    BoundValue, Database, DatabaseError, Options, ResultMetadata, RowSink, StatementOptions, Values,
};
use cassette_migration::{
    Captured, ClusterSettings, Event, Follow, ForwardError, LogPoint, Move, Observer, Place, SourceControl,
    Stall, StallError, Until,
};
use cassette_server::{Server, ServerConfig};
use parking_lot::{Mutex, RwLock};
use tempfile::TempDir;

/// A served database in memory.
pub struct Served {
    pub database: Database,
    pub address: String,
    runtime: tokio::runtime::Runtime,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
}

/// Returns a database in memory.
pub fn in_memory() -> Database {
    Database::open(Options { materialized_views_enabled: true, ..Options::in_memory() }).unwrap()
}

impl Served {
    pub fn start() -> Self {
        Self::of(in_memory())
    }

    /// Serves a database in `data`, whose changes are captured.
    pub fn capturing(data: &Path) -> Self {
        Self::with(data, |options| options.engine.cdc.enabled = true)
    }

    /// Serves a database in `data`.
    pub fn with(data: &Path, set: impl FnOnce(&mut Options)) -> Self {
        let mut options = Options::new(data);
        set(&mut options);
        Self::of(Database::open(options).unwrap())
    }

    /// Stops the server, and serves its data again.
    pub fn restart(self, data: &Path, set: impl FnOnce(&mut Options)) -> Self {
        self.database.close().unwrap();
        drop(self);
        Self::with(data, set)
    }

    fn of(database: Database) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let config = ServerConfig { listen_address: ([127, 0, 0, 1], 0).into(), ..ServerConfig::default() };
        let server = runtime.block_on(Server::bind(config, Arc::new(database.clone()))).unwrap();
        let address = server.local_address().unwrap().to_string();
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        runtime.spawn(server.serve(async {
            let _ = stopped.await;
        }));
        Self { database, address, runtime, stop: Some(stop) }
    }

    pub fn settings(&self) -> ClusterSettings {
        ClusterSettings::new(&*self.address)
    }

    pub fn place(&self) -> Place {
        Place::Cluster(self.settings())
    }

    pub fn execute(&self, cql: &str) {
        execute(&self.database, cql);
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.take();
        // Connections may still be open; the runtime ends with the test.
        let _ = &self.runtime;
    }
}

/// Executes a statement.
pub fn execute(database: &Database, cql: &str) {
    database.session().execute(cql, ()).unwrap_or_else(|error| panic!("{cql}: {error}"));
}

#[derive(Default)]
struct Collected {
    rows: Vec<Vec<Option<Bytes>>>,
    row: Vec<Option<Bytes>>,
}

impl RowSink for Collected {
    fn begin(&mut self, _: &Arc<ResultMetadata>) {}

    fn value(&mut self, value: Option<&[u8]>) {
        self.row.push(value.map(Bytes::copy_from_slice));
    }

    fn value_with(&mut self, write: &mut dyn FnMut(&mut Vec<u8>)) {
        let mut value = Vec::new();
        write(&mut value);
        self.row.push(Some(value.into()));
    }

    fn end_row(&mut self) -> Result<(), DatabaseError> {
        self.rows.push(std::mem::take(&mut self.row));
        Ok(())
    }
}

/// Returns all rows of a query, with expirations as of a fixed time.
pub fn rows(database: &Database, cql: &str) -> Vec<Vec<Option<Bytes>>> {
    const NOW: u32 = 1_800_000_000;
    let options = StatementOptions { now_in_seconds: Some(NOW), ..StatementOptions::default() };
    let mut collected = Collected::default();
    let values: &[BoundValue<'_>] = &[];
    database
        .query(None, cql, Values { values, names: None }, &options, &mut collected)
        .unwrap_or_else(|error| panic!("{cql}: {error}"));
    collected.rows
}

/// Collects events.
#[derive(Default)]
pub struct Events(pub Mutex<Vec<Event>>);

impl Observer for Events {
    fn event(&self, event: &Event) {
        self.0.lock().push(event.clone());
    }
}

impl Events {
    /// Returns the rows that differ: where they were found, and whether they were repaired.
    pub fn differences(&self) -> Vec<(String, String, bool)> {
        let events = self.0.lock();
        let mut found: Vec<_> = events
            .iter()
            .filter_map(|event| match event {
                Event::Different(found) => Some((found.key.join("/"), found.found.clone(), found.repaired)),
                _ => None,
            })
            .collect();
        found.sort();
        found
    }

    pub fn statements(&self) -> Vec<String> {
        let events = self.0.lock();
        let statement = |event: &Event| match event {
            Event::Schema { statement } => Some(statement.clone()),
            _ => None,
        };
        events.iter().filter_map(statement).collect()
    }
}

/// Returns a move of a few ranges with a progress file in `directory`.
pub fn job(from: Place, to: ClusterSettings, directory: &TempDir) -> Move {
    Move { progress: directory.path().join("progress"), ranges: 8, workers: 2, ..Move::new(from, to) }
}

/// Held by writes in execution, beside a move.
pub static WRITES: RwLock<()> = RwLock::new(());

/// The server of a database in this process.
struct InProcess {
    database: Database,
    /// Executed before the first point is returned.
    first: Mutex<Option<String>>,
}

impl SourceControl for InProcess {
    fn point(&self) -> Result<LogPoint, String> {
        if let Some(cql) = self.first.lock().take() {
            execute(&self.database, &cql);
        }
        let point = self.database.log_point().map_err(|error| error.to_string())?;
        // Waits for those that the point may not cover.
        drop(WRITES.write());
        let cassette_database::LogPoint { position, captured, chain, blocks_writes, state, last_timestamp } =
            point;
        let chain = format!("{chain:032x}");
        Ok(LogPoint { position, captured, chain, blocks_writes, state, last_timestamp })
    }

    fn check_target(&self, _: &str) -> Result<(), String> {
        Ok(())
    }

    fn stall(&self, _: &str, _: Duration) -> Result<Stall, StallError> {
        self.point().map(|point| Stall { number: 1, point }).map_err(StallError::Failed)
    }

    fn release(&self, _: u64) -> Result<(), String> {
        Ok(())
    }

    fn forward(&self, _: u64) -> Result<(), ForwardError> {
        Err(ForwardError::Refused("it is a database in this process".to_owned()))
    }
}

/// Returns how a move follows the changes of a database in `data`.
pub fn follow(source: &Served, data: &Path, until: Until) -> Option<Follow> {
    let captured = Captured { directory: data.join("cdc_raw"), encryption: None, removes: false };
    let control = InProcess { database: source.database.clone(), first: Mutex::new(None) };
    Some(Follow { captured, control: Arc::new(control), until })
}

/// Returns [`follow`] until the target has caught up, with a statement that is executed at the
/// source before its server returns the first point.
pub fn follow_after(source: &Served, data: &Path, cql: &str) -> Option<Follow> {
    let first = Mutex::new(Some(cql.to_owned()));
    let control = Arc::new(InProcess { database: source.database.clone(), first });
    let follow = follow(source, data, Until::CaughtUp)?;
    Some(Follow { control, ..follow })
}

/// Returns the end of a move that is stopped at the first opportunity after the copy.
pub fn stopped() -> Until {
    Until::Stopped(Arc::new(AtomicBool::new(true)))
}
