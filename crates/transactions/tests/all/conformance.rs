//! Runs the store suite on memory and embedded stores, and over CQL on `cassette serve`. On
//! Cassandra it runs in `crates/cli/tests/timelock`.

use std::sync::Arc;

use cassette_database::Database;
use cassette_engine::commitlog::SyncMode;
use cassette_server::{Server, ServerConfig};
use cassette_transactions::store::{
    ClusterOptions, ClusterStore, EmbeddedStore, MemoryStore, Store, TableKind,
};
use cassette_vfs::FakeFileSystem;

use super::suite::{Table, columns_are_put_together_unless_one_is_there, every_loader_finds_the_same, suite};

/// Opens a database in memory.
pub fn database() -> Database {
    let file_system = Arc::new(FakeFileSystem::new());
    let mut options = cassette_database::Options { file_system, ..cassette_database::Options::new("/data") };
    options.engine.background_threads = false;
    options.engine.commitlog_sync = SyncMode::Batch;
    Database::open(options).unwrap()
}

#[test]
fn the_memory_store_meets_the_store_contract() {
    suite(&MemoryStore::new());
}

#[test]
fn the_embedded_store_meets_the_store_contract() {
    let database = database();
    let open = |keyspace: &str| EmbeddedStore::open(database.clone(), keyspace).unwrap();
    suite(&open("suite"));
    every_loader_finds_the_same(|loader| open("loaders").with_loader(loader));
}

/// Serves a database in memory, and calls `run` with its address.
fn on_server(run: impl FnOnce(String)) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let config = ServerConfig { listen_address: ([127, 0, 0, 1], 0).into(), ..ServerConfig::default() };
    let server = runtime.block_on(Server::bind(config, Arc::new(database()))).unwrap();
    let address = server.local_address().unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = runtime.spawn(server.serve(async {
        let _ = stopped.await;
    }));
    run(address.to_string());
    drop(stop);
    runtime.block_on(serving).unwrap();
}

/// Calls `run` with a store over CQL on a served database.
pub fn on_served_cluster(keyspace: &str, run: impl FnOnce(ClusterStore)) {
    on_server(|address| run(ClusterStore::connect(&ClusterOptions::new(address, keyspace)).unwrap()));
}

#[test]
fn the_cluster_store_meets_the_store_contract() {
    on_server(|address| {
        let store = ClusterStore::connect(&ClusterOptions::new(address.clone(), "suite")).unwrap();
        suite(&store);
        let cluster = ClusterOptions::new(address.clone(), "loaders");
        every_loader_finds_the_same(|cell_loader| {
            ClusterStore::connect(&ClusterOptions { cell_loader, ..cluster.clone() }).unwrap()
        });
        let local = |name: &str| ClusterOptions {
            local: Some(name.to_owned()),
            ..ClusterOptions::new(address.clone(), "local_suite")
        };
        let error = ClusterStore::connect(&local("elsewhere")).map(drop).unwrap_err().to_string();
        assert!(error.contains("elsewhere") && error.contains("in datacenter1"), "{error}");
        let local = local("datacenter1");
        let store = ClusterStore::connect(&local).unwrap();
        store.create_table("t", TableKind::DensePartitions).unwrap();
        columns_are_put_together_unless_one_is_there(&Table { store: &store, name: "t".to_owned() });
    });
}
