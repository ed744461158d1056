//! What cannot be moved is rejected in one sentence, before anything is written.

use std::time::Duration;

use cassette_migration::{ClusterSettings, Move, Place};
use tempfile::TempDir;

use super::support::{Events, Served, job, rows};

const KEYSPACE: &str =
    "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";

fn refused(job: &Move) -> String {
    let error = job.run(&Events::default()).unwrap_err().to_string();
    assert!(!error.contains('\n'), "{error}");
    error
}

#[test]
fn unusable_sources_and_targets_are_rejected_before_anything_is_written() {
    let (source, target, directory) = (Served::start(), Served::start(), TempDir::new().unwrap());
    let job = job(source.place(), target.settings(), &directory);
    assert!(refused(&job).contains("no keyspace to move"));
    source.execute(KEYSPACE);
    source.execute(
        "CREATE TABLE ks.t (k int PRIMARY KEY, v int, n counter)".replace(", n counter", "").as_str(),
    );
    source.execute("CREATE TABLE ks.n (k int PRIMARY KEY, n counter)");
    let missing = Move { keyspaces: vec!["other".to_owned()], ..job.clone() };
    assert!(refused(&missing).contains("no keyspace other; it has: ks"));
    let system = Move { keyspaces: vec!["system_schema".to_owned()], ..job.clone() };
    assert!(refused(&system).contains("the server's"));
    let same = Move { to: source.settings(), ..job.clone() };
    assert!(refused(&same).contains("the same server"));
    let unknown = Move { replication: Some("{'class': 'Nothing'}".to_owned()), ..job.clone() };
    let error = refused(&unknown);
    assert!(error.contains("--replication") && error.contains("CREATE KEYSPACE"), "{error}");
    let nowhere = ClusterSettings { patience: Duration::ZERO, ..ClusterSettings::new("127.0.0.1:1") };
    assert!(refused(&Move { to: nowhere.clone(), ..job.clone() }).contains("127.0.0.1:1 does not respond"));
    assert!(refused(&Move { from: Place::Cluster(nowhere), ..job.clone() }).contains("does not respond"));
    let empty = Place::Directory(directory.path().to_owned());
    assert!(refused(&Move { from: empty, ..job.clone() }).contains("expected a data directory"));

    target.execute(KEYSPACE);
    target.execute("CREATE TABLE ks.t (k int PRIMARY KEY, v text)");
    let error = refused(&job);
    assert!(error.contains("ks.t") && error.contains("column v of type text, expected int"), "{error}");
    target.execute("DROP TABLE ks.t");
    target.execute("CREATE TABLE ks.n (k int PRIMARY KEY, n counter)");
    target.execute("UPDATE ks.n SET n = n + 1 WHERE k = 1");
    let error = refused(&job);
    assert!(error.contains("ks.n has counters"), "{error}");
    assert_eq!(rows(&target.database, "SELECT * FROM ks.n").len(), 1);
    assert!(!job.progress.exists());
}

#[test]
fn a_store_of_transactions_is_rejected() {
    let (source, target, directory) = (Served::start(), Served::start(), TempDir::new().unwrap());
    source.execute(KEYSPACE);
    source.execute("CREATE TABLE ks.\"_timestamp\" (k int PRIMARY KEY)");
    let error = refused(&job(source.place(), target.settings(), &directory));
    assert!(error.contains("cassette transactions copy"), "{error}");
}
