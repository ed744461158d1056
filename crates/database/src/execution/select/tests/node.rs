//! A database on a fake disk and clock, for tests.

use std::sync::Arc;

use cassette_vfs::{FakeFileSystem, ManualClock};

use crate::api::database::{Database, Options};
use crate::api::embedded::Session;

/// Opens an empty database whose clock stands at 2023-11-14. Nothing runs in the background. Its
/// session is in keyspace `ks`, in which the statements have been executed.
pub fn open(statements: &[&str]) -> (Database, Session, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::at_micros(1_700_000_000_000_000));
    let file_system = Arc::new(FakeFileSystem::new());
    let mut options = Options { file_system, clock: clock.clone(), ..Options::new("/data") };
    options.engine.commitlog_sync = cassette_engine::commitlog::SyncMode::Batch;
    options.engine.background_threads = false;
    let database = Database::open(options).unwrap();
    let session = database.session();
    let keyspace = [
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "USE ks",
    ];
    for statement in keyspace.iter().chain(statements) {
        session.execute(*statement, ()).unwrap();
    }
    (database, session, clock)
}
