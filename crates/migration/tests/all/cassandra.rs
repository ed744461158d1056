//! A move to Apache Cassandra and back.

use cassette_migration::{ClusterSettings, Move, Place, Until, VerifyOptions};
use parking_lot::Mutex;
use tempfile::TempDir;

use super::support::{Events, Served, follow, job, rows};
use super::{followed, nodes, random};

/// Held by the tests of this file, so that few nodes run at the same time.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn random_tables_survive_the_way_to_cassandra_and_back() {
    let directories = [TempDir::new().unwrap(), TempDir::new().unwrap(), TempDir::new().unwrap()];
    let _alone = ALONE.lock();
    let Some(node) = nodes::start(directories[0].path(), 1, 201, &[]) else { return };
    let (first, last) = (Served::start(), Served::start());
    let tables = random::fill(&first.database, 2026, 16, 150);
    first.execute("CREATE TABLE ks.n (k int PRIMARY KEY, a counter)");
    first.execute("CREATE INDEX by_a ON ks.t1 (\"c0\")");
    for key in 0..30 {
        first.execute(&format!("UPDATE ks.n SET a = a + {key} WHERE k = {key}"));
    }
    let contact = node.0.settings().contacts().into_iter().next().unwrap();
    let cassandra = ClusterSettings::new(contact);
    let out = job(first.place(), cassandra.clone(), &directories[1]);
    let back = job(Place::Cluster(cassandra), last.settings(), &directories[2]);
    for job in [&out, &back] {
        job.run(&Events::default()).unwrap();
        let events = Events::default();
        let verified = job.verify(VerifyOptions::default(), &events).unwrap();
        assert_eq!((verified.differences, events.differences()), (0, Vec::new()));
    }
    for table in &tables {
        let expected = table.content(&first.database);
        assert_eq!(table.content(&last.database), expected, "{}", table.name());
    }
    let counters = "SELECT * FROM ks.n";
    assert_eq!(rows(&last.database, counters), rows(&first.database, counters));
}

#[test]
fn followed_changes_and_deletions_of_all_kinds_reach_cassandra_cell_by_cell() {
    let directories = [TempDir::new().unwrap(), TempDir::new().unwrap()];
    let _alone = ALONE.lock();
    let Some(node) = nodes::start(directories[0].path(), 1, 207, &[]) else { return };
    let data = directories[1].path().join("data");
    let source = Served::capturing(&data);
    let tables = random::captured(&source.database, 2027, 16);
    let contact = node.0.settings().contacts().into_iter().next().unwrap();
    let job = Move {
        follow: follow(&source, &data, Until::CaughtUp),
        ..job(source.place(), ClusterSettings::new(contact), &directories[1])
    };
    job.run(&Events::default()).unwrap();
    for round in 0..3 {
        followed::change(&source, &tables, round, 800);
        job.run(&Events::default()).unwrap();
        let events = Events::default();
        let verified = job.verify(VerifyOptions::default(), &events).unwrap();
        assert_eq!((verified.differences, events.differences()), (0, Vec::new()), "round {round}");
        assert!(verified.rows > 0);
    }
}
