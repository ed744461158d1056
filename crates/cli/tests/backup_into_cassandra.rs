//! A backup is restored into Apache Cassandra, by its own nodetool.

#[path = "support/cassandra.rs"]
mod nodes;

use std::sync::Arc;

use cassette_backup::{BackupOptions, Repository};
use cassette_database::Database;
use cassette_vfs::RealFileSystem;
use scylla::client::session_builder::SessionBuilder;

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
    let Some(node) = nodes::start(directories[0].path(), 1, 203, &[]) else { return };
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
