//! A backup is restored into Apache Cassandra, by its own nodetool.
//!
//! Cassandra 5.0.8 comes from Maven, once, into the target directory (or from `CASSANDRA_LIB`, a
//! folder of its jars), and runs on JDK 17. Without Maven or a JDK the test prints a warning and
//! checks nothing.

use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use cassette_backup::{BackupOptions, Repository};
use cassette_database::Database;
use cassette_lab::cassandra::{Cluster, ClusterSettings};
use cassette_vfs::RealFileSystem;
use scylla::client::session_builder::SessionBuilder;

/// A node on a dedicated loopback address, stopped at the end.
struct Node(Cluster);

impl Drop for Node {
    fn drop(&mut self) {
        self.0.stop();
    }
}

fn skipped(why: &str) {
    // Not by a macro, whose output the test harness captures if a test passes.
    let _ =
        writeln!(std::io::stderr(), "\n######## SKIPPED: no restore into Cassandra here: {why} ########\n");
    // Where it must not be skipped (continuous integration), that is a failure.
    assert!(std::env::var_os("CASSETTE_REQUIRE_ORACLE").is_none(), "{why}");
}

fn works(command: &str) -> bool {
    Command::new(command).arg("-version").output().is_ok_and(|output| output.status.success())
}

/// Starts a node; `None` if this machine has no Cassandra.
fn start(directory: &Path) -> Option<Node> {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cassandra");
    let defaults = ClusterSettings::default();
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
    let settings = ClusterSettings {
        nodes: 1,
        heap: "512M".to_owned(),
        directory: directory.to_path_buf(),
        cache,
        network: [127, 0, 203],
        ..defaults
    };
    Some(Node(Cluster::start(settings).unwrap()))
}

const TABLES: [&str; 2] = ["people", "counts"];

fn fill(database: &Database) {
    let session = database.session();
    for cql in [
        "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TYPE shop.address (street text, zip int)",
        "CREATE TABLE shop.people (id int, at int, name text, home frozen<address>, tags set<text>, \
         PRIMARY KEY (id, at))",
        "CREATE TABLE shop.counts (id int PRIMARY KEY, n counter)",
    ] {
        session.execute(cql, ()).unwrap();
    }
    for id in 0..200 {
        let cql = format!(
            "INSERT INTO shop.people (id, at, name, home, tags) \
             VALUES ({}, {id}, 'n{id}', {{street: 's', zip: {id}}}, {{'a', 'b{id}'}}) USING TIMESTAMP {}",
            id % 20,
            1_000_000 + id
        );
        session.execute(&cql, ()).unwrap();
        session.execute(&format!("UPDATE shop.counts SET n = n + {id} WHERE id = {}", id % 10), ()).unwrap();
    }
    session.execute("DELETE FROM shop.people WHERE id = 3", ()).unwrap();
    session.execute("DELETE tags FROM shop.people WHERE id = 4 AND at = 4", ()).unwrap();
}

fn query(table: &str) -> String {
    format!("SELECT JSON * FROM shop.{table}")
}

#[tokio::test]
async fn cassandra_imports_a_backup_with_every_row_and_counter() {
    let directories = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let Some(node) = start(directories[0].path()) else { return };
    let database = Database::open(directories[1].path().join("data")).unwrap();
    fill(&database);
    let root = directories[1].path().join("backups");
    let repository = Repository::open(Arc::new(RealFileSystem), &root).unwrap();
    let options = BackupOptions { name: Some("one".to_owned()), ..BackupOptions::default() };
    let backup = repository.back_up(&database, &options).unwrap().backup;
    let contact = node.0.settings().contacts().into_iter().next().unwrap();
    let session = SessionBuilder::new().known_node(contact).build().await.unwrap();
    let tables = || backup.manifest.tables.iter().filter(|table| table.keyspace == "shop");
    let mut texts = vec![root.join("one/shop/keyspace.cql")];
    texts.extend(tables().map(|table| root.join("one/shop").join(&table.directory).join("schema.cql")));
    for path in texts {
        let text = std::fs::read_to_string(&path).unwrap();
        for statement in cassette_database::split_statements(&text) {
            session.query_unpaged(statement, ()).await.unwrap();
        }
    }
    for table in tables() {
        let directory = root.join("one/shop").join(&table.directory);
        let directory = directory.to_str().unwrap();
        node.0.nodetool(&["import", "--copy-data", "shop", &table.table, directory]).unwrap();
    }
    for table in TABLES {
        let result = session.query_unpaged(query(table), ()).await.unwrap().into_rows_result().unwrap();
        let mut found: Vec<String> = result.rows::<(String,)>().unwrap().map(|row| row.unwrap().0).collect();
        let rows = database.session().execute(&query(table), ()).unwrap();
        let mut expected: Vec<String> = rows.iter().map(|row| row.get::<String>(0).unwrap()).collect();
        found.sort();
        expected.sort();
        assert!(!expected.is_empty());
        assert_eq!(found, expected, "{table}");
    }
    // The import copies: the backup is intact.
    repository.verify(&backup).unwrap();
}
