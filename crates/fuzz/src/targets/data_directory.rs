//! A data directory with one file replaced, opened by a start: commit log segments, transaction
//! logs, saved caches, replay positions, manifests of snapshots, SSTables of the schema, and
//! whatever else a start reads.
//!
//! ```text
//! u8 the file, by its place in `Base::files`
//! the file's content
//! ```
//! A start fails, or the database answers with rows that were written; what is not the data itself
//! changes no answer.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cassette_database::{Database, SnapshotOptions};
use cassette_vfs::{FakeFileSystem, FileSystem, OperationKind};

use super::split;
use crate::Target;
use crate::subjects::{DATA, World, clock, encryption, options, put};

pub const TARGET: Target = Target {
    name: "data_directory",
    run,
    seeds,
    words: &[b"REMOVE:", b"ADD:", b"COMMIT:", b"\n"],
    inputs: 60,
};

/// A directory as a killed process left it, in the midst of a compaction.
struct Base {
    files: FakeFileSystem,
    /// What can be replaced.
    paths: Vec<PathBuf>,
    rows: Vec<String>,
}

const SELECT: &str = "SELECT JSON p, c, v, s FROM ks.t";

fn run(input: &[u8]) {
    let (number, content) = split(input);
    BASE.with(|base| {
        let path = &base.paths[usize::from(number) % base.paths.len()];
        let files = Arc::new(base.files.fork());
        put(&files, path, content);
        let clock = clock();
        let Ok(database) = Database::open(options(&files, &clock)) else { return };
        drop(database.engine().snapshots());
        if let Ok(rows) = rows(&database) {
            let is_log = path.starts_with(Path::new(DATA).join("commitlog"));
            if is_log {
                let unknown = rows.iter().find(|row| !base.rows.contains(row));
                assert_eq!(unknown, None, "{}: a row that was never written", path.display());
            } else {
                assert_eq!(rows, base.rows, "{}", path.display());
            }
        }
        drop(database.close());
    });
}

fn rows(database: &Database) -> Result<Vec<String>, cassette_database::DatabaseError> {
    let rows = database.session().execute(SELECT, ())?;
    rows.iter().map(|row| row.get::<String>(0)).collect()
}

thread_local! {
    static BASE: Base = base();
}

fn base() -> Base {
    let mut world = World::new();
    let engine = world.database.engine();
    engine.flush(None).unwrap();
    let table = engine.tables().into_iter().find(|(_, t)| t.keyspace == "ks" && t.name == "t").unwrap().0;
    rows(&world.database).unwrap();
    engine.save_caches();
    let kept = SnapshotOptions { name: "kept", skip_flush: true, ttl_seconds: Some(3600) };
    engine.snapshot(&[(table, String::new())], &kept).unwrap();
    world.run("INSERT INTO t (p, c, v) VALUES (1, 100, 'flushed')");
    world.database.engine().flush(Some(table)).unwrap();
    world.run("INSERT INTO t (p, c, v) VALUES (2, 100, 'only in the log')");
    // The log has segments of both kinds.
    let files = Arc::new(world.files.kill());
    let mut encrypting = options(&files, &world.clock);
    encrypting.engine.commitlog_encryption = Some(encryption(true));
    let database = Database::open(encrypting).unwrap();
    database.session().execute("INSERT INTO ks.t (p, c, v) VALUES (2, 101, 'only in the log')", ()).unwrap();
    let expected = rows(&database).unwrap();
    // The compaction is cut off where it begins to remove what it has replaced.
    files.fail_when(|operation| {
        (operation.kind == OperationKind::RemoveFile).then_some(std::io::ErrorKind::Other)
    });
    drop(database.engine().compact(table));
    let files = files.kill();
    let mut paths = Vec::new();
    let mut folders = vec![PathBuf::from(DATA)];
    while let Some(folder) = folders.pop() {
        for entry in files.read_dir(&folder).unwrap() {
            let path = folder.join(&entry.name);
            let text = path.to_string_lossy().into_owned();
            let is_state =
                !text.contains("/data/") || text.contains("nb_txn_") || text.ends_with("manifest.json");
            if entry.is_dir {
                folders.push(path);
            } else if is_state || text.contains("system_schema/tables") {
                paths.push(path);
            }
        }
    }
    paths.sort();
    paths.retain(|path| !path.ends_with("lock"));
    Base { files, paths, rows: expected }
}

fn seeds() -> Vec<Vec<u8>> {
    BASE.with(|base| {
        let content = |path: &PathBuf| {
            let files: &dyn FileSystem = &base.files;
            files.read(path).unwrap()
        };
        let seeds = base.paths.iter().enumerate();
        seeds.map(|(number, path)| [&[number as u8], content(path).as_slice()].concat()).collect()
    })
}
