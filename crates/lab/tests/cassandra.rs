//! An Apache Cassandra of the laboratory's own, where its jars are or may be brought: `CASSETTE_REQUIRE_ORACLE` says that
//! they may.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use cassette_lab::cli::LabCommand;
use clap::Parser;

#[derive(Debug, Parser)]
struct Cli {
    #[command(subcommand)]
    command: LabCommand,
}

/// A row cache set by cassandra.yaml's name, statements and an ALTER, a flush by nodetool, a restart, and back.
const EXPERIMENT: &str = r#"
name = "small"
repeats = 1
[[engine]]
kind = "cassandra"
heap = "512M"
[[configuration]]
name = "rowcache"
options = { row_cache_size = "16MiB" }
table = "caching = {'keys': 'ALL', 'rows_per_partition': 'ALL'}"
[[workload]]
name = "users"
properties = { recordcount = 300, operationcount = 600 }
schema = [
  "CREATE KEYSPACE IF NOT EXISTS lab WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
  "CREATE TABLE lab.users (id text PRIMARY KEY, email text, tags map<text, frozen<list<text>>>){with}",
  "CREATE INDEX users_email ON lab.users (email)",
]
[workload.values]
id = { type = "text", from = "number", format = "user{}" }
email = { type = "text", length = 12 }
tags = { type = "map<text, frozen<list<text>>>", elements = [0, 2] }
[workload.insert]
cql = "INSERT INTO lab.users (id, email, tags) VALUES (:id, :email, :tags)"
[[workload.operation]]
name = "READ"
cql = "SELECT * FROM lab.users WHERE id = :id"
consistency = "ONE"
expect = "rows"
[[workload.operation]]
name = "INDEX"
cql = "SELECT id FROM lab.users WHERE email = :email"
expect = "rows"
[[workload.operation]]
name = "WRITE-READ"
inserts = true
steps = [
  { cql = "INSERT INTO lab.users (id, email) VALUES (:id, :email) IF NOT EXISTS", expect = "applied" },
  { cql = "SELECT * FROM lab.users WHERE id = :id", expect = "rows" },
]
[[phase]]
load = "users"
threads = 8
[[phase]]
action = "flush"
[[phase]]
cql = "ALTER TABLE lab.users WITH compaction = {'class': 'LeveledCompactionStrategy'}"
[[phase]]
action = "restart"
[[phase]]
run = "users"
threads = 8
"#;

fn jars() -> PathBuf {
    std::env::var_os("CASSETTE_LAB_CACHE").map_or(".cache/cassandra".into(), PathBuf::from)
}

#[test]
fn a_node_is_started_set_up_flushed_restarted_and_stopped_by_an_experiment() {
    // Where people give the command: the jars are kept there.
    std::env::set_current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")).unwrap();
    let there = jars().join("lib-5.0.8/cassandra-all-5.0.8.jar").is_file();
    if !there && std::env::var_os("CASSETTE_REQUIRE_ORACLE").is_none() {
        // Not by a macro, whose words the test harness keeps to itself when a test passes.
        let _ = writeln!(
            std::io::stderr(),
            "\n######## SKIPPED: no Cassandra's jars: set CASSETTE_REQUIRE_ORACLE=1 to fetch them ########\n"
        );
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("small.toml");
    std::fs::write(&file, EXPERIMENT).unwrap();
    let results = directory.path().join("results");
    let arguments = ["lab", "run", file.to_str().unwrap(), "--results", results.to_str().unwrap()];
    let fine = Cli::parse_from(arguments).command.run();
    assert!(fine.unwrap_or_else(|error| panic!("{error}")), "operations failed");
    let run = std::fs::read_dir(&results).unwrap().next().unwrap().unwrap().path();
    let report = std::fs::read_to_string(run.join("report.md")).unwrap();
    assert!(report.contains("| row_cache_size | 16MiB |"), "the setting is read back: {report}");
    assert!(report.contains("server_cpu_seconds") && report.contains("key_cache_requests"), "{report}");
}
