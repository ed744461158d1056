//! Tests with a private Apache Cassandra, if its jars are present or may be downloaded
//! (`CASSETTE_REQUIRE_ORACLE`).

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use cassette_database::{Database, Session};
use cassette_engine::SnapshotOptions;
use cassette_lab::cassandra::{Cluster, ClusterSettings};
use cassette_lab::cli::LabCommand;
use cassette_lab::cql::{CqlSettings, CqlTarget};
use cassette_lab::experiments::builtin;
use cassette_protocol::{Consistency, Version};
use clap::Parser;

#[derive(Debug, Parser)]
struct Cli {
    #[command(subcommand)]
    command: LabCommand,
}

/// A row cache set by cassandra.yaml's name, statements and an ALTER, a flush by nodetool, a
/// restart, and back.
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

/// One Cassandra at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// Returns whether Cassandra's jars are present or may be downloaded; prints a note if not. The
/// working directory is where the command would be run: the jars are stored there.
fn can_start() -> bool {
    std::env::set_current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")).unwrap();
    let there = jars().join("lib-5.0.8/cassandra-all-5.0.8.jar").is_file();
    let can = there || std::env::var_os("CASSETTE_REQUIRE_ORACLE").is_some();
    if !can {
        // Not by a macro, whose output the test harness hides when a test passes.
        let _ = writeln!(
            std::io::stderr(),
            "\n######## SKIPPED: no Cassandra's jars: set CASSETTE_REQUIRE_ORACLE=1 to fetch them ########\n"
        );
    }
    can
}

#[test]
fn an_experiment_runs_the_whole_life_of_a_cassandra_node() {
    let _alone = ALONE.lock();
    if !can_start() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("small.toml");
    std::fs::write(&file, EXPERIMENT).unwrap();
    let results = directory.path().join("results");
    let arguments =
        ["lab", "run", "--accept-disturbed", file.to_str().unwrap(), "--results", results.to_str().unwrap()];
    let fine = Cli::parse_from(arguments).command.run();
    assert!(fine.unwrap_or_else(|error| panic!("{error}")), "operations failed");
    let run = std::fs::read_dir(&results).unwrap().next().unwrap().unwrap().path();
    let report = std::fs::read_to_string(run.join("report.md")).unwrap();
    assert!(report.contains("| row_cache_size | 16MiB |"), "the setting is read back: {report}");
    assert!(report.contains("server_cpu_seconds") && report.contains("key_cache_requests"), "{report}");
}

const KEYSPACE: &str =
    "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";

/// Tables with every kind of file content.
const TABLES: [(&str, &str); 3] = [
    (
        "wide",
        "CREATE TABLE ks.wide (k int, c text, s text static, v int, l list<int>, m map<text, int>, f frozen<set<int>>, \
         PRIMARY KEY (k, c)) WITH CLUSTERING ORDER BY (c DESC)",
    ),
    ("counts", "CREATE TABLE ks.counts (k int PRIMARY KEY, n counter)"),
    ("plain", "CREATE TABLE ks.plain (k blob PRIMARY KEY, v decimal) WITH compression = {'enabled': false}"),
];

fn fill(session: &Session) {
    let run = |cql: &str| drop(session.execute(cql, ()).unwrap_or_else(|error| panic!("{cql}: {error}")));
    for k in 0..50 {
        run(&format!("INSERT INTO ks.wide (k, s) VALUES ({k}, 'static {k}')"));
        for c in 0..20 {
            run(&format!(
                "INSERT INTO ks.wide (k, c, v, l, m, f) VALUES ({k}, 'c{c:02}', {c}, [{k}, {c}], {{'a': {k}}}, \
                 {{1, {c}}})"
            ));
        }
        run(&format!("UPDATE ks.wide SET l = l + [7], m['b'] = {k} WHERE k = {k} AND c = 'c03'"));
        run(&format!("DELETE FROM ks.wide WHERE k = {k} AND c > 'c05' AND c < 'c09'"));
        run(&format!("DELETE v, m['a'] FROM ks.wide WHERE k = {k} AND c = 'c10'"));
        run(&format!("UPDATE ks.counts SET n = n + {k} WHERE k = {}", k % 7));
        run(&format!("INSERT INTO ks.plain (k, v) VALUES ({:#06x}, {k}.{k:03})", k * 5));
    }
    run("DELETE FROM ks.wide WHERE k = 13");
    run("INSERT INTO ks.wide (k, c, v) VALUES (13, 'later', 1) USING TTL 86400");
}

/// A cluster that is stopped however the test ends.
struct Stopped(Cluster);

impl Drop for Stopped {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// One node for all tests that need no special settings, because starting a node takes most of the
/// time.
#[test]
fn cassandra_imports_a_snapshot_and_runs_built_in_experiments() {
    let _alone = ALONE.lock();
    if !can_start() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mut settings = ClusterSettings {
        heap: "512M".into(),
        directory: directory.path().join("cluster"),
        network: [127, 0, 79],
        java: vec!["-XX:TieredStopAtLevel=1".to_owned()],
        ..ClusterSettings::default()
    };
    settings.yaml.insert("row_cache_size".into(), "16MiB".into());
    // A busy machine is slow, not wrong.
    for request in ["read", "range", "write", "truncate", "native_transport"] {
        let name = if request == "native_transport" { request } else { &format!("{request}_request") };
        settings.yaml.insert(format!("{name}_timeout"), "50s".into());
    }
    let cluster = Stopped(Cluster::start(settings).unwrap_or_else(|error| panic!("{error}")));
    a_snapshot_of_ours_answers_the_same(&cluster.0, directory.path());
    let contact = &cluster.0.settings().contacts()[0];
    for (name, engine, scale) in [
        ("cassandra-caches-and-lcs", "cassandra", "0.0005"),
        ("overlapping-tombstones", "cassandra", "0.0001"),
        ("scale-out-quorum", "cassandra-3", "0.0005"),
    ] {
        a_built_in_runs_small(name, engine, scale, contact, directory.path());
    }
}

/// Adapts the built-in experiment `name` to its engine `engine` on a running node: without settings
/// of the node's start and without `nodetool`, with one replica, and with few requests in flight.
fn for_one_node(name: &str, engine: &str, contact: &str) -> String {
    let text = builtin::find(name).unwrap_or_else(|| panic!("{name} is built in"));
    let mut small = String::new();
    for (index, block) in text.split("\n[[").enumerate() {
        let is = |header: &str| block.starts_with(header);
        let line = |key: &str| block.lines().find(|line| line.starts_with(key));
        let for_others = line("engines = ").is_some_and(|line| !line.contains(&format!("{engine:?}")));
        let only_set_at_start =
            is("configuration") && line("options = ").is_some() && line("table = ").is_none();
        if is("engine]]") || is("published") || line("action = ").is_some() || for_others || only_set_at_start
        {
            continue;
        }
        if index > 0 {
            small.push_str("\n[[");
        }
        for line in block.lines().filter(|line| !line.starts_with("options = ")) {
            match line.strip_prefix("threads = ") {
                Some(_) => small.push_str("threads = 8"),
                None => small.push_str(&line.replace("factor = \"3\"", "factor = \"1\"")),
            }
            small.push('\n');
        }
    }
    small + &format!("\n[[engine]]\nname = {engine:?}\nkind = \"cql\"\ncontact = [{contact:?}]\n")
}

fn a_built_in_runs_small(name: &str, engine: &str, scale: &str, contact: &str, directory: &Path) {
    let file = directory.join(format!("{name}.toml"));
    std::fs::write(&file, for_one_node(name, engine, contact)).unwrap();
    let results = directory.join(format!("{name}-results"));
    let (file, kept) = (file.to_str().unwrap(), results.to_str().unwrap());
    let arguments =
        ["lab", "run", "--accept-disturbed", file, "--scale", scale, "--repeats", "1", "--results", kept];
    let fine = Cli::parse_from(arguments).command.run();
    assert!(fine.unwrap_or_else(|error| panic!("{name}: {error}")), "{name}: operations failed");
    let run = std::fs::read_dir(&results).unwrap().next().unwrap().unwrap().path();
    let report = std::fs::read_to_string(run.join("report.md")).unwrap();
    assert!(report.contains("## Verdict") && !report.contains("Not finished"), "{report}");
}

/// `nodetool` imports a snapshot of this database, and the node returns the same results.
fn a_snapshot_of_ours_answers_the_same(cluster: &Cluster, directory: &Path) {
    let database = Database::open(directory.join("ours")).unwrap();
    let session = database.session();
    session.execute(KEYSPACE, ()).unwrap();
    for (_, cql) in TABLES {
        session.execute(cql, ()).unwrap();
    }
    fill(&session);
    let options = SnapshotOptions { name: "moving", skip_flush: false, ttl_seconds: None };
    let snapshots = database.snapshot(&["ks".to_owned()], &options).unwrap();
    assert_eq!(snapshots.len(), TABLES.len());

    let server = CqlTarget::new(CqlSettings {
        contacts: cluster.settings().contacts(),
        connections: 1,
        version: Version::V5,
        credentials: None,
        tls: None,
        keyspace: "ks".into(),
        replication_factor: 1,
        table_options: String::new(),
        consistency: Consistency::One,
    })
    .unwrap();
    server.query(KEYSPACE).unwrap();
    for snapshot in &snapshots {
        // The schema in the snapshot creates the table with the same id.
        let schema = std::fs::read_to_string(snapshot.directory.join("schema.cql")).unwrap();
        for statement in schema.split(';').filter(|statement| !statement.trim().is_empty()) {
            server.query(statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
        }
        let source = snapshot.directory.to_str().unwrap();
        let import = ["import", "--copy-data", "--extended-verify", "ks", &snapshot.table, source];
        let printed = cluster.nodetool(&import).unwrap_or_else(|error| panic!("{error}"));
        assert!(!printed.contains("Some directories failed to import"), "{printed}");
    }
    for (table, _) in TABLES {
        let cql = format!("SELECT JSON * FROM ks.{table}");
        let ours = session.execute(&cql, ()).unwrap();
        let ours: Vec<String> = ours.iter().map(|row| row.get(0).unwrap()).collect();
        let theirs = server.query(&cql).unwrap();
        let theirs: Vec<String> = theirs.into_iter().filter_map(|mut row| row.remove(0)).collect();
        assert!(!ours.is_empty());
        assert_eq!(theirs, ours, "{table}");
    }
}
