//! A move to Apache Cassandra and back.
//!
//! Cassandra 5.0.8 comes from Maven, once, into the target directory (or from `CASSANDRA_LIB`, a
//! folder of its jars), and runs on JDK 17. Without Maven or a JDK the test prints a warning and
//! checks nothing.

use std::io::Write;
use std::path::Path;
use std::process::Command;

use cassette_lab::cassandra::{Cluster, ClusterSettings as Nodes};
use cassette_migration::{ClusterSettings, Move, Place, Until, VerifyOptions};
use parking_lot::Mutex;
use tempfile::TempDir;

use super::support::{Events, Served, follow, job, rows};
use super::{followed, random};

/// Nodes on dedicated loopback addresses, stopped at the end.
pub struct Running(pub Cluster);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.stop();
    }
}

fn skipped(why: &str) {
    // Not by a macro, whose output the test harness captures if a test passes.
    let _ = writeln!(std::io::stderr(), "\n######## SKIPPED: no move to Cassandra here: {why} ########\n");
    // Where it must not be skipped (continuous integration), that is a failure.
    assert!(std::env::var_os("CASSETTE_REQUIRE_ORACLE").is_none(), "{why}");
}

fn works(command: &str) -> bool {
    Command::new(command).arg("-version").output().is_ok_and(|output| output.status.success())
}

/// Starts nodes on a dedicated network; `None` if this machine has no Cassandra.
pub fn start(directory: &Path, nodes: usize, network: u8, yaml: &[(&str, &str)]) -> Option<Running> {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cassandra");
    let defaults = Nodes::default();
    let library = cache.join(format!("lib-{}", defaults.version));
    if !works("java") {
        skipped("no JDK 17 (java)");
        return None;
    }
    match std::env::var_os("CASSANDRA_LIB") {
        Some(lib) if !library.exists() => {
            std::fs::create_dir_all(&cache).unwrap();
            std::os::unix::fs::symlink(lib, &library).unwrap();
        }
        None if !library.exists() && !works("mvn") => {
            skipped("no Maven (mvn) to fetch Cassandra with, and no CASSANDRA_LIB");
            return None;
        }
        _ => {}
    }
    let settings = Nodes {
        nodes,
        heap: "512M".to_owned(),
        directory: directory.to_path_buf(),
        cache,
        network: [127, 0, network],
        yaml: yaml.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        ..defaults
    };
    Some(Running(Cluster::start(settings).unwrap()))
}

/// Held by the tests of this file, so that few nodes run at the same time.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn random_tables_survive_the_way_to_cassandra_and_back() {
    let directories = [TempDir::new().unwrap(), TempDir::new().unwrap(), TempDir::new().unwrap()];
    let _alone = ALONE.lock();
    let Some(node) = start(directories[0].path(), 1, 201, &[]) else { return };
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
    let Some(node) = start(directories[0].path(), 1, 207, &[]) else { return };
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
