//! Tables written by Cassandra, opened and imported: every recorded query returns its recorded
//! result.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cassette_database::{Database, ImportOptions, Options};
use cassette_vfs::ManualClock;
use serde_json::Value;

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../sstable/tests/golden")
}

fn cases() -> Vec<PathBuf> {
    directories(&golden())
}

/// Tables WITH COMPACT STORAGE, of Cassandra 5.0.8: with null and empty clustering values, also in
/// a row index, deleted rows, and counters.
fn compact() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/compact")
}

fn directories(path: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<_> = entries.filter(|path| path.is_dir()).collect();
    found.sort();
    found
}

fn select_json(case: &Path) -> Value {
    let file = std::fs::File::open(case.join("select.json.gz")).unwrap();
    let mut text = String::new();
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// A database at the time of the recorded results, with the case's schema.
fn open(data: &Path, taken_at: i64) -> Database {
    let mut options = Options::new(data);
    options.clock = Arc::new(ManualClock::at_micros(taken_at * 1_000_000));
    options.engine.background_threads = false;
    Database::open(options).unwrap()
}

fn create(database: &Database, case: &Path) {
    let schema = std::fs::read_to_string(case.join("schema.cql")).unwrap();
    let session = database.session();
    for statement in schema.split(";\n").map(str::trim).filter(|statement| !statement.is_empty()) {
        session.execute(statement, ()).unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
}

/// Executes every recorded query, and returns their number.
fn compare(database: &Database, case: &Path, select: &Value) -> usize {
    let session = database.session();
    let results = select["results"].as_array().unwrap();
    for result in results {
        let query = result["query"].as_str().unwrap();
        let what = format!("{}: {query}", case.display());
        let rows = session.execute(query, ()).unwrap_or_else(|error| panic!("{what}: {error}"));
        let columns = rows.columns().len();
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let found: Vec<Vec<Option<String>>> =
            rows.iter().map(|row| (0..columns).map(|i| row.bytes(i).map(hex)).collect()).collect();
        let expected: Vec<Vec<Option<String>>> = serde_json::from_value(result["raw"].clone()).unwrap();
        assert_eq!(found, expected, "{what}");
    }
    results.len()
}

#[test]
fn imported_tables_answer_as_cassandra_did() {
    let mut queries = 0;
    for case in cases().into_iter().chain([compact()]) {
        let directory = tempfile::tempdir().unwrap();
        let select = select_json(&case);
        let database = open(directory.path(), select["taken_at"].as_i64().unwrap());
        create(&database, &case);
        for table in directories(&case.join("data")) {
            let name = table.file_name().unwrap().to_str().unwrap().rsplit_once('-').unwrap().0.to_owned();
            let options = ImportOptions { copy_data: true, extended_verify: true, ..Default::default() };
            let imported = database.import("golden", &name, &table, &options);
            let imported = imported.unwrap_or_else(|error| panic!("{error}"));
            assert!(!imported.is_empty(), "{}", table.display());
        }
        queries += compare(&database, &case, &select);
    }
    assert!(queries >= 100, "{queries}");
}

#[test]
fn a_directory_copied_from_cassandra_opens_and_answers() {
    let mut queries = 0;
    for case in cases().into_iter().chain([compact()]) {
        let directory = tempfile::tempdir().unwrap();
        let select = select_json(&case);
        let taken_at = select["taken_at"].as_i64().unwrap();
        let database = open(directory.path(), taken_at);
        create(&database, &case);
        database.close().unwrap();
        for table in directories(&case.join("data")) {
            // The schema contains the ids from Cassandra, so the directories have the same names.
            let own = directory.path().join("data/golden").join(table.file_name().unwrap());
            assert!(own.is_dir(), "{}", own.display());
            copy(&table, &own);
        }
        queries += compare(&open(directory.path(), taken_at), &case, &select);
    }
    assert!(queries >= 100, "{queries}");
}

#[test]
fn what_is_imported_is_found_by_the_indexes_that_were_there() {
    let directory = tempfile::tempdir().unwrap();
    let case = golden().join("usertable");
    let database = open(directory.path(), select_json(&case)["taken_at"].as_i64().unwrap());
    create(&database, &case);
    let session = database.session();
    session.execute("CREATE INDEX by_field ON golden.usertable (field3)", ()).unwrap();
    let tables = directories(&case.join("data"));
    let options = ImportOptions { copy_data: true, ..Default::default() };
    database.import("golden", "usertable", &tables[0], &options).unwrap();
    let all = session.execute("SELECT field3, y_id FROM golden.usertable", ()).unwrap();
    let row = all.get(77).unwrap();
    let query = "SELECT y_id FROM golden.usertable WHERE field3 = ?";
    let value: String = row.get(0).unwrap();
    let found = loop {
        match session.execute(query, (value.as_str(),)) {
            Ok(found) => break found,
            // Most of the index is built in the background.
            Err(error) => assert!(error.to_string().contains("built"), "{error}"),
        }
    };
    assert_eq!(found.len(), 1);
    assert_eq!(found.get(0).unwrap().get::<String>(0).unwrap(), row.get::<String>(1).unwrap());
}

#[test]
fn tables_in_cassandra_5s_newer_versions_answer_alike_and_are_compacted_to_nb() {
    for version in ["oa", "da"] {
        let mut queries = 0;
        for newer in directories(&golden().with_file_name("golden5").join(version)) {
            let case = golden().join(newer.file_name().unwrap());
            let tables = directories(&newer);
            // Some cases do not contain all tables.
            let is_whole = tables.len() == directories(&case.join("data")).len();
            if !is_whole || !cases().contains(&case) {
                continue;
            }
            let directory = tempfile::tempdir().unwrap();
            let select = select_json(&case);
            let taken_at = select["taken_at"].as_i64().unwrap();
            let database = open(directory.path(), taken_at);
            create(&database, &case);
            for table in &tables {
                let name = table.file_name().unwrap().to_str().unwrap().rsplit_once('-').unwrap().0;
                let options = ImportOptions { copy_data: true, ..Default::default() };
                assert!(!database.import("golden", name, table, &options).unwrap().is_empty());
            }
            compare(&database, &case, &select);
            // Also after a restart, with the indexes that were written by the import.
            database.close().unwrap();
            drop(database);
            let database = open(directory.path(), taken_at);
            queries += compare(&database, &case, &select);
            for table in &tables {
                let name = table.file_name().unwrap();
                let own = directory.path().join("data/golden").join(name);
                let catalog = database.catalog();
                let table = name.to_str().unwrap().rsplit_once('-').unwrap().0;
                let id = catalog.keyspace("golden").unwrap().tables[table].id;
                let old =
                    || database.engine().table_stats(id).map(|stats| (stats.sstables, stats.old_sstables));
                let (sstables, of_other_versions) = old().unwrap();
                assert!(sstables > 0 && of_other_versions == sstables, "{}", own.display());
                database.engine().compact(id).unwrap();
                assert_eq!(old().unwrap().1, 0, "{}", own.display());
                for file in std::fs::read_dir(&own).unwrap() {
                    let file = file.unwrap().file_name().into_string().unwrap();
                    assert!(!file.starts_with(version), "{}: {file}", own.display());
                }
            }
            compare(&database, &case, &select);
        }
        assert!(queries > 40, "{version}: {queries}");
    }
}
