//! Values that a store cannot write are rejected before anything is written.

use std::sync::Arc;

use cassette_database::Database;
use cassette_engine::commitlog::SyncMode;
use cassette_server::{Server, ServerConfig};
use cassette_transactions::store::{ClusterOptions, ClusterStore, EmbeddedStore, Store};
use cassette_transactions::{ConflictHandler, Error, Outcome};
use cassette_vfs::FakeFileSystem;

use super::conformance::database;
use super::transactions::{options, over};

/// Opens a database whose commit log accepts records of half the specified size.
fn with_segments(bytes: u32, sync: SyncMode) -> Database {
    let file_system = Arc::new(FakeFileSystem::new());
    let mut options = cassette_database::Options { file_system, ..cassette_database::Options::new("/data") };
    options.engine.background_threads = false;
    options.engine.commitlog_sync = sync;
    options.engine.commitlog_segment_size = bytes;
    Database::open(options).unwrap()
}

/// Writes the longest value, one that is too long, and many writes whose total is too long.
fn check(store: Arc<dyn Store>) {
    let max = store.version_max().unwrap();
    let transactions = over(store, options());
    let table = transactions.table("t", ConflictHandler::WriteWriteByCell).unwrap();
    let names = "row".len() + "column".len();
    let mut tx = transactions.start().unwrap();
    let error = tx.put(&table, "row", "column", vec![1; max - names + 1]).unwrap_err();
    assert!(matches!(error, Error::TooLong { bytes, max: limit, .. } if bytes == max + 1 && limit == max));
    assert_eq!((error.outcome(), error.is_retriable()), (Outcome::NotCommitted, false));
    let text = error.to_string();
    for part in ["table t", "\"row\"", "\"column\"", &max.to_string(), &(max + 1).to_string()] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // The transaction continues without it.
    tx.put(&table, "row", "other", "value").unwrap();
    tx.commit().unwrap();
    transactions.run(|tx| tx.put(&table, "row", "column", vec![1; max - names])).unwrap();
    let read = transactions.read(|tx| tx.get(&table, "row", "column")).unwrap();
    assert_eq!(read.map(|value| value.len()), Some(max - names));
    // Many short ones, and some long ones with long names, no two of which fit in one write.
    transactions
        .run(|tx| {
            (0..20_000u32).try_for_each(|n| tx.put(&table, n.to_be_bytes(), "c", "v"))?;
            (0..10u8).try_for_each(|n| tx.put(&table, "long", vec![n; 60_000], vec![n; max / 2]))
        })
        .unwrap();
    let counted = transactions.read(|tx| Ok(tx.columns::<&[u8]>(&table, "long", .., 100)?.len())).unwrap();
    assert_eq!(counted, 10);
    transactions.sweep().unwrap();
}

#[test]
fn values_beyond_the_limit_of_an_embedded_store_are_rejected() {
    let sync = SyncMode::Batch;
    let database = with_segments(1 << 20, sync);
    check(Arc::new(EmbeddedStore::open(database, "tx").unwrap()));
}

/// Serves a database over CQL while `act` uses it.
fn serving(database: Database, act: impl FnOnce(String)) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let config = ServerConfig { listen_address: ([127, 0, 0, 1], 0).into(), ..ServerConfig::default() };
    let server = runtime.block_on(Server::bind(config, Arc::new(database))).unwrap();
    let address = server.local_address().unwrap().to_string();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = runtime.spawn(server.serve(async {
        let _ = stopped.await;
    }));
    act(address);
    drop(stop);
    runtime.block_on(serving).unwrap();
}

#[test]
fn values_beyond_the_limits_of_a_clusters_nodes_are_rejected() {
    serving(with_segments(1 << 20, SyncMode::Batch), |address| {
        let store = ClusterStore::connect(&ClusterOptions::new(address, "tx")).unwrap();
        assert!(store.version_max().is_some_and(|max| max < 512 << 10));
        check(Arc::new(store));
    });
}

#[test]
fn clusters_with_periodic_sync_are_rejected_unless_accepted() {
    let period = std::time::Duration::from_secs(10);
    serving(with_segments(32 << 20, SyncMode::Periodic { period }), |address| {
        let refused = ClusterOptions::new(&*address, "tx");
        let error = ClusterStore::connect(&refused).map(drop).unwrap_err();
        assert!(!error.is_transient, "{error}");
        let text = error.to_string();
        assert!(text.contains("commitlog_sync is periodic on 127.0.0.1"), "{text}");
        assert!(text.contains("commitlog_sync: batch") && text.contains("accept_periodic_sync"), "{text}");
        let accepted = ClusterOptions { accept_periodic_sync: true, ..refused };
        ClusterStore::connect(&accepted).unwrap();
    });
    serving(database(), |address| {
        ClusterStore::connect(&ClusterOptions::new(address, "tx")).unwrap();
    });
}
