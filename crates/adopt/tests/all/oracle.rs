//! A node that Cassandra fills with tables of random schemas answers alike after adoption.
//!
//! `CASSETTE_ADOPT_SEED` (5) and `CASSETTE_ADOPT_TABLES` select the tables; `make soak-adopt` tries
//! more of them.

#[path = "../../../sstable/tests/oracle/cassandra.rs"]
#[allow(dead_code, reason = "it serves the tests of SSTables, too")]
mod cassandra;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cassandra::{Cassandra, text};
use cassette_adopt::{AdoptOptions, Adopted, Plan, PlanRequest, adopt, open_read_only};
use cassette_database::Database;
use cassette_vfs::{FakeFileSystem, FileSystem};

use serde_json::Value;

use crate::golden::Golden;
use crate::support::files;

/// Copies a directory of this machine.
fn copy(from: &Path, fs: &FakeFileSystem, to: &Path) {
    fs.create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let to = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, fs, &to);
        } else {
            (fs as &dyn FileSystem).write_atomically(&to, &std::fs::read(&path).unwrap()).unwrap();
        }
    }
}

/// Finds Cassandra, and compiles the program that fills a node.
fn find() -> Option<Cassandra> {
    let cassandra = Cassandra::find()?;
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracle/RandomNode.java");
    cassandra.compile_source(&source);
    Some(cassandra)
}

/// Runs a node of random tables to its end, which is described by `end`.
fn random_node(cassandra: &Cassandra, tables: &str, end: &[&str]) -> Golden {
    let cassandra = cassandra.without_data();
    let directory = tempfile::tempdir().unwrap();
    let expected = directory.path().join("expected.json");
    let setting = |name: &str, default: &str| std::env::var(name).unwrap_or_else(|_| default.to_owned());
    let seed = setting("CASSETTE_ADOPT_SEED", "5");
    let tables = setting("CASSETTE_ADOPT_TABLES", tables);
    let mut arguments = vec![expected.as_path(), Path::new(&seed), Path::new(&tables)];
    arguments.extend(end.iter().map(Path::new));
    let output = cassandra.run("RandomNode", &arguments);
    let said = text(&output);
    assert!(output.status.success() && expected.exists(), "seed {seed}: {said}");
    let expected: Value = serde_json::from_slice(&std::fs::read(expected).unwrap()).unwrap();
    let data = PathBuf::from(expected["data"].as_str().unwrap());

    let fs = FakeFileSystem::new();
    copy(&data, &fs, Path::new("/node/data"));
    copy(&data.with_file_name("commitlog"), &fs, Path::new("/node/commitlog"));
    Golden { fs, expected }
}

/// Adopts `/node` into `/target`, and compares every answer; likewise in place.
fn compare(golden: &Golden) -> Adopted {
    let shared: Arc<dyn FileSystem> = Arc::new(golden.fs.clone());
    let request = PlanRequest { directories: vec!["/node".into()], ..PlanRequest::default() };
    let plan = Plan::of(&shared, &request).unwrap();
    plan.check(|_| false).unwrap_or_else(|error| panic!("{error}"));
    let options = AdoptOptions { target: "/target".into(), copy: false, verify: true };
    let adopted = adopt(&shared, golden.clock(), &plan, &options, &mut |_| {}).unwrap();
    let database = Database::open(golden.options()).unwrap();
    assert!(golden.compare(&database, true) > 1000);
    database.close().unwrap();
    let opened = open_read_only(golden.options(), &[PathBuf::from("/node")]).unwrap();
    golden.compare(&opened.database, false);
    adopted
}

#[test]
fn random_schemas_answer_as_the_cassandra_that_wrote_them() {
    let Some(cassandra) = find() else { return };
    for (end, version) in [(&[][..], "nb"), (&["big"], "oa"), (&["bti"], "da")] {
        let golden = random_node(&cassandra, "30", end);
        let is_data = |path: &PathBuf| {
            let path = path.to_string_lossy();
            path.contains("/random/") && path.ends_with("-Data.db")
        };
        let found = files(&golden.fs, "/node/data");
        let data: Vec<&PathBuf> = found.keys().filter(|path| is_data(path)).collect();
        let is_of_version =
            |path: &&PathBuf| path.file_name().unwrap().to_string_lossy().starts_with(version);
        assert!(!data.is_empty() && data.iter().all(is_of_version), "{version}: {data:?}");
        assert_eq!(compare(&golden).mutations, 0);
    }
}

#[test]
fn nodes_that_were_killed_answer_with_every_acknowledged_write() {
    let Some(cassandra) = find() else { return };
    for end in [
        // The process stops before the next marker of a section: its records are complete.
        ["periodic", "none"],
        ["batch", "LZ4Compressor"],
        ["batch", "ZstdCompressor"],
    ] {
        let golden = random_node(&cassandra, "12", &end);
        let adopted = compare(&golden);
        assert!(adopted.mutations > 300, "{end:?}: {adopted:?}");
        assert_eq!(adopted.warnings, [""; 0], "{end:?}");
    }
}
