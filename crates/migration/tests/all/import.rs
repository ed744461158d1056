//! Moves by import: nodes add SSTables from directories. Without Cassandra, a script stands for its
//! nodetool.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use cassette_database::Database;
use cassette_migration::{By, ClusterSettings, Event, ImportDirectory, ImportOptions, Move, Place};
use tempfile::TempDir;

use super::files::{copy, cql, fill_special, has_rows, no_differences, older_writes_stay_deleted, open};
use super::nodes;
use super::support::{Events, Served, execute, job, rows};

fn by_import(from: &Path, to: &ClusterSettings, directory: &TempDir, options: ImportOptions) -> Move {
    Move { by: By::Import(options), ..job(Place::Directory(from.to_owned()), to.clone(), directory) }
}

fn into(path: &Path) -> ImportOptions {
    let directories = vec![ImportDirectory { node: None, path: path.to_owned() }];
    ImportOptions { directories, ..ImportOptions::default() }
}

/// A data directory with SSTables, and writes that only its commit log has.
fn fill_small(path: &Path) {
    let database = open(path);
    execute(
        &database,
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    );
    execute(&database, "CREATE TABLE ks.t (k int PRIMARY KEY, v text)");
    execute(&database, "CREATE TABLE ks.e (k int PRIMARY KEY, v text)");
    for round in 0..3 {
        for key in 0..50 {
            let value = format!("{round}").repeat(1000);
            execute(&database, &format!("INSERT INTO ks.t (k, v) VALUES ({}, '{value}')", key + round * 10));
        }
        database.flush().unwrap();
    }
    database.close().unwrap();
}

/// A command in place of nodetool, which gets `import ... KEYSPACE TABLE DIRECTORY`.
fn script(directory: &Path, name: &str, body: &str) -> String {
    let path = directory.join(name);
    let text = format!(
        "#!/bin/sh\necho \"$@\" >> {}/calls\nfor last in \"$@\"; do :; done\n{body}\n",
        directory.display()
    );
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    path.display().to_string()
}

fn calls(directory: &Path) -> Vec<String> {
    let text = fs::read_to_string(directory.join("calls")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn files_below(path: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(path).unwrap().map(Result::unwrap) {
        if entry.metadata().unwrap().is_dir() {
            found.extend(files_below(&entry.path()))
        } else {
            found.push(entry.path())
        }
    }
    found.sort();
    found
}

fn error_of(job: &Move) -> String {
    let error = job.run(&Events::default()).unwrap_err().to_string();
    assert!(!error.contains('\n'), "{error}");
    error
}

#[test]
fn an_import_that_failed_or_was_interrupted_is_completed_by_the_next_run() {
    let (directory, target) = (TempDir::new().unwrap(), Served::start());
    let at = |name: &str| directory.path().join(name);
    fill_small(&at("data"));
    for name in ["import", "node", "restarted"] {
        fs::create_dir(at(name)).unwrap();
    }
    let with = |nodetool: String| {
        let options = ImportOptions { nodetool: Some(nodetool), ..into(&at("import")) };
        by_import(&at("data"), &target.settings(), &directory, options)
    };

    // The node is down.
    let error =
        error_of(&with(script(directory.path(), "down", "echo 'nodetool: Connection refused' >&2; exit 1")));
    assert!(error.contains("Connection refused") && error.contains("same command again"), "{error}");
    let placed = files_below(&at("import"));
    let data: Vec<&PathBuf> =
        placed.iter().filter(|path| path.to_str().unwrap().ends_with("-Data.db")).collect();
    assert_eq!(data.len(), 3, "{placed:?}");
    assert!(placed.iter().all(|path| path.to_str().unwrap().contains("/ks/t/nb-")), "{placed:?}");
    // Data is linked, what a node may append to is not.
    assert!(data.iter().all(|path| path.metadata().unwrap().nlink() == 2));
    let others = placed.iter().filter(|path| path.to_str().unwrap().ends_with("TOC.txt"));
    assert!(others.map(|path| path.metadata().unwrap().nlink()).all(|links| links == 1));

    // The node is killed while it renames the components of an SSTable.
    let error = error_of(&with(script(
        directory.path(),
        "killed",
        &format!(
            "mv \"$last\"/nb-1-* \"$last\"/nb-2-big-Index.db \"$last\"/nb-2-big-Statistics.db {}; exit 137",
            at("node").display()
        ),
    )));
    assert!(error.contains("137"), "{error}");

    // It renames nothing, although it reports success.
    let error = error_of(&with(script(directory.path(), "elsewhere", "exit 0")));
    assert!(error.contains("left 2 SSTables") && error.contains("--node-directory"), "{error}");

    // The rest is complete, and imported.
    let complete = format!(
        "for data in \"$last\"/*-Data.db; do for name in Index Statistics Filter Summary; do \
         test -f \"${{data%Data.db}}$name.db\" || exit 9; done; done; mv \"$last\"/* {}",
        at("restarted").display()
    );
    let events = Events::default();
    let done = with(script(directory.path(), "works", &complete));
    let summary = done.run(&events).unwrap();
    assert!(summary.bytes > 0);
    let is_imported = |event: &Event| matches!(event, Event::Imported { sstables: 3, .. });
    assert_eq!(events.0.lock().iter().filter(|event| is_imported(event)).count(), 1);
    assert!(files_below(&at("import")).is_empty() && fs::read_dir(at("import")).unwrap().next().is_none());
    assert_eq!(
        files_below(&at("restarted"))
            .iter()
            .filter(|path| path.to_str().unwrap().ends_with("-Data.db"))
            .count(),
        2
    );
    let before = calls(directory.path()).len();
    assert_eq!(done.run(&events).unwrap().bytes, 0);
    assert_eq!(calls(directory.path()).len(), before, "nothing is imported twice");
    // The source has all its files, and its rows.
    let source = Database::open_read_only(at("data")).unwrap();
    assert_eq!(rows(&source, "SELECT * FROM ks.t").len(), 70);
}

#[test]
fn without_nodetool_the_user_imports_and_repeats_the_command() {
    let (directory, target) = (TempDir::new().unwrap(), Served::start());
    let at = |name: &str| directory.path().join(name);
    fill_small(&at("data"));
    fs::create_dir(at("import")).unwrap();
    fs::create_dir(at("node")).unwrap();
    let options =
        ImportOptions { node_directory: Some("/of/node".into()), copies: true, ..into(&at("import")) };
    let out = by_import(&at("data"), &target.settings(), &directory, options);
    out.dry_run(&Events::default()).unwrap();
    assert!(!out.progress.exists() && fs::read_dir(at("import")).unwrap().next().is_none());

    let events = Events::default();
    let error = out.run(&events).unwrap_err().to_string();
    assert!(error.contains("same command again"), "{error}");
    let command = |event: &Event| match event {
        Event::Nodetool { command } => Some(command.clone()),
        _ => None,
    };
    let commands: Vec<String> = events.0.lock().iter().filter_map(command).collect();
    assert_eq!(commands.len(), 1, "{commands:?}");
    assert!(commands[0].contains("nodetool import ks t /of/node/cassette-move-"), "{commands:?}");
    let placed = files_below(&at("import"));
    assert!(placed.iter().all(|path| path.metadata().unwrap().nlink() == 1), "copied");
    // As the node does.
    for path in &placed {
        fs::rename(path, at("node").join(path.file_name().unwrap())).unwrap();
    }
    out.run(&events).unwrap();
    assert!(fs::read_dir(at("import")).unwrap().next().is_none());
    // What the node has got is a copy.
    let original = Database::open_read_only(at("data")).unwrap();
    assert_eq!(rows(&original, "SELECT * FROM ks.t").len(), 70);

    // A directory that was removed may have been imported, or not.
    let again = Move { progress: at("other"), ..out };
    error_of(&again);
    fs::remove_dir_all(fs::read_dir(at("import")).unwrap().next().unwrap().unwrap().path()).unwrap();
    let error = error_of(&again);
    assert!(error.contains("another --progress file"), "{error}");
}

#[test]
fn an_import_names_the_damaged_sstable() {
    let (directory, target) = (TempDir::new().unwrap(), Served::start());
    let at = |name: &str| directory.path().join(name);
    fill_small(&at("data"));
    fs::create_dir(at("import")).unwrap();
    let table = files_below(&at("data")).into_iter().rfind(|path| {
        let text = path.to_str().unwrap();
        text.contains("/ks/t-") && text.ends_with("-Data.db")
    });
    let data = table.unwrap();
    let mut bytes = fs::read(&data).unwrap();
    let last = bytes.len() - 8;
    bytes[last] ^= 1;
    fs::write(&data, bytes).unwrap();
    // The node compares Data with its checksum; a copy compares it before.
    let nodetool =
        Some(script(directory.path(), "refuses", "echo 'Some directories failed to import' >&2; exit 1"));
    for copies in [false, true] {
        let options = ImportOptions { nodetool: nodetool.clone(), copies, ..into(&at("import")) };
        let out = by_import(&at("data"), &target.settings(), &directory, options);
        let out = Move { progress: at(&format!("progress-{copies}")), ..out };
        let error = error_of(&out);
        assert!(error.contains("-Data.db") && error.contains("sstable scrub"), "{error}");
    }
    assert_eq!(calls(directory.path()).len(), 1);
    let error = error_of(&by_import(&at("data"), &target.settings(), &directory, into(&at("missing"))));
    assert!(error.contains("missing") && error.contains("--import-directory"), "{error}");
}

/// Writes scripts that run nodetool for each node, and returns the command.
fn nodetool_of(nodes: &nodes::Nodes, directory: &Path) -> String {
    let settings = nodes.0.settings();
    for number in 1..=settings.nodes {
        let words = nodes.0.nodetool_command(number).unwrap();
        let words: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
        let body = format!("cd {}; exec {} \"$@\"", directory.display(), words.join(" "));
        script(directory, &format!("nodetool-{}", settings.address(number)), &body);
    }
    format!("{}/nodetool-{{node}}", directory.display())
}

#[test]
fn cassandra_imports_exactly_the_sstables_of_a_directory() {
    let directories = [(); 4].map(|()| TempDir::new().unwrap());
    let [data, cluster, work, ghosts] = &directories;
    let database = open(data.path());
    let other =
        "CREATE KEYSPACE other WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
    execute(&database, other);
    execute(&database, "CREATE TABLE other.t (k int PRIMARY KEY, v text)");
    for key in 0..100 {
        let value = "v".repeat(1000);
        execute(&database, &format!("INSERT INTO other.t (k, v) VALUES ({key}, '{value}')"));
    }
    let ks = "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 2}";
    execute(&database, ks);
    fill_special(&database);
    let counters = rows(&database, "SELECT * FROM ks.n").len();
    // As after a kill: the last writes are in the commit log only.
    database.engine().sync_log().unwrap();
    let killed = work.path().join("data");
    copy(data.path(), &killed);
    database.close().unwrap();
    let views = [("materialized_views_enabled", "true".to_owned())];
    let Some(nodes) = nodes::start(cluster.path(), 2, 206, &views) else { return };
    // A node whose ring lacks the other would take all SSTables for itself.
    let peers = cql(&nodes).query("SELECT tokens FROM system.peers_v2").unwrap();
    assert_eq!(peers.len(), 1);
    let cassandra = ClusterSettings::new(nodes.0.settings().contacts().remove(0));
    let directory = |number: usize| {
        let path = work.path().join(format!("import{number}"));
        fs::create_dir(&path).unwrap();
        ImportDirectory { node: Some(nodes.0.settings().address(number).into()), path }
    };
    let options = ImportOptions {
        directories: [1, 2].map(directory).into(),
        nodetool: Some(nodetool_of(&nodes, work.path())),
        ..ImportOptions::default()
    };

    // One replica on two nodes: both get the SSTables, and remove what they do not replicate.
    let out = by_import(&killed, &cassandra, work, options.clone());
    let cql = cql(&nodes);
    let events = Events::default();
    out.run(&events).unwrap();
    no_differences(&out);
    let calls = calls(work.path());
    let count = |text: &str| calls.iter().filter(|call| call.starts_with(text)).count();
    assert_eq!((count("import ks "), count("cleanup ks ")), (8, 0), "{calls:?}");
    assert_eq!((count("import --no-tokens other t "), count("cleanup other t")), (2, 2), "{calls:?}");
    // Indexes and views were built from the files.
    has_rows(&cql, "SELECT k FROM ks.i WHERE a = 3", 11);
    has_rows(&cql, "SELECT k FROM ks.i WHERE b = 'b3'", 15);
    has_rows(&cql, "SELECT k FROM ks.v WHERE a = 3", 11);
    assert_eq!(cql.query("SELECT k FROM ks.n").unwrap().len(), counters);
    older_writes_stay_deleted(&cassandra, &cql, ghosts);

    // All of it is complete. A table with a view is not imported again.
    assert_eq!(out.run(&events).unwrap().bytes, 0);
    let again = Move { progress: work.path().join("again"), ..out.clone() };
    let error = error_of(&again);
    assert!(error.contains("materialized view v"), "{error}");
    // The node refuses a damaged SSTable, and adds none of the table.
    cql.query("DROP KEYSPACE other").unwrap();
    let is_data = |path: &PathBuf| {
        let text = path.to_str().unwrap();
        text.contains("/other/t-") && text.ends_with("-Data.db")
    };
    let path = files_below(&killed).into_iter().find(is_data).unwrap();
    let mut bytes = fs::read(&path).unwrap();
    let last = bytes.len() - 8;
    bytes[last] ^= 1;
    fs::write(&path, bytes).unwrap();
    let error = error_of(&Move { keyspaces: vec!["other".into()], ..again });
    assert!(error.contains("sstable scrub"), "{error}");
    assert_eq!(cql.query("SELECT k FROM other.t").unwrap().len(), 0);
}
