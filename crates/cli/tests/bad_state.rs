//! Damage is named in errors, and unaffected parts keep working.

mod support;

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use scylla::client::session::Session;
use support::cql::{connect, connect_to_keyspace, execute, rows};
use support::{Ended, Launch, Server};

/// Every acknowledged write is on the disk.
const SYNCED: &str = "commitlog_sync: batch\n";

fn data_directory() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    (directory, data)
}

fn assert_says(ended: &Ended, words: &[&str]) {
    assert_eq!(ended.status.code(), Some(1), "{}", ended.log);
    for word in words {
        assert!(ended.log.contains(word), "`{word}` is missing in:\n{}", ended.log);
    }
}

#[test]
fn a_directory_in_use_is_refused_and_its_user_goes_on() {
    let (_directory, data) = data_directory();
    let mut first = Server::start(&data);
    let log = data.with_extension("log");
    let before = fs::read_to_string(&log).unwrap();
    assert_says(&Launch::new(&data).refused(), &["is in use", "cassette.lock", &data.display().to_string()]);
    fs::write(&log, before).unwrap();
    first.assert_running();
    first.stop();
    Server::start(&data).stop();
}

#[test]
fn the_directory_of_another_version_or_program_is_refused_and_left_alone() {
    let (_directory, data) = data_directory();
    Server::start(&data).stop();
    fs::write(data.join("cassette.version"), "2\n").unwrap();
    assert_says(&Launch::new(&data).refused(), &["layout 2", "layout 1"]);
    assert_eq!(fs::read_to_string(data.join("cassette.version")).unwrap(), "2\n");

    let (_directory, data) = data_directory();
    fs::create_dir_all(data.join("data/system")).unwrap();
    assert_says(&Launch::new(&data).refused(), &["another program"]);
}

#[test]
fn a_configuration_that_cannot_be_followed_is_refused() {
    let (_directory, data) = data_directory();
    for (yaml, words) in [
        ("memtable_heap_spaze: 1GiB\n", ["unknown key memtable_heap_spaze", "data.yaml"]),
        ("memtable_heap_space: 64 bananas\n", ["memtable_heap_space", "bananas"]),
        ("commitlog_sync: sometimes\n", ["commitlog_sync", "sometimes"]),
        ("native_transport_port: many\n", ["native_transport_port", "data.yaml"]),
        ("file_cache_size: 1000000GiB\n", ["file_cache_size of 1073741824000000 bytes", "memory"]),
        (
            "cidr_authorizer: CassandraCIDRAuthorizer\n",
            ["CassandraCIDRAuthorizer can't be used with AllowAllAuthenticator", "set authenticator"],
        ),
    ] {
        assert_says(&Launch::new(&data).config(yaml).refused(), &words);
    }
}

#[test]
fn a_port_in_use_is_refused_by_its_number() {
    let (_directory, data) = data_directory();
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap();
    assert_says(
        &Launch::new(&data).listen(address).refused(),
        &["cannot listen on", &address.to_string(), "choose another with --listen"],
    );
}

/// Writes rows 0..`count` of `ks.t`, each identifiable in the files by [`needle`], and kills the
/// server.
async fn write_and_kill(data: &Path, count: i32) {
    let server = Launch::new(data).config(SYNCED).start();
    let session = connect_to_keyspace(server.address()).await;
    execute(&session, "CREATE TABLE t (k int PRIMARY KEY, v text)").await;
    let insert = session.prepare("INSERT INTO t (k, v) VALUES (?, ?)").await.unwrap();
    for key in 0..count {
        session.execute_unpaged(&insert, (key, needle(key))).await.unwrap();
    }
    server.kill();
}

fn needle(key: i32) -> String {
    format!("<needle {key:08}>")
}

async fn keys(session: &Session) -> Vec<i32> {
    let mut keys: Vec<(i32,)> = rows(session, "SELECT k FROM ks.t", ()).await;
    keys.sort_unstable();
    keys.into_iter().map(|(key,)| key).collect()
}

/// Returns the file below `directory` that contains `needle`, and its offset.
fn find(directory: &Path, needle: &str) -> (PathBuf, usize) {
    for path in files(directory) {
        let bytes = fs::read(&path).unwrap();
        if let Some(at) = bytes.windows(needle.len()).position(|window| window == needle.as_bytes()) {
            return (path, at);
        }
    }
    panic!("`{needle}` is nowhere in {}", directory.display());
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 0x20;
    fs::write(path, bytes).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_commit_log_stops_the_start_with_the_place_and_what_to_do() {
    let (_directory, data) = data_directory();
    write_and_kill(&data, 100).await;
    let (segment, at) = find(&data.join("commitlog"), &needle(50));
    flip(&segment, at);
    let damaged = fs::read(&segment).unwrap();
    let ended = Launch::new(&data).refused();
    assert_says(
        &ended,
        &[
            &segment.display().to_string(),
            "damaged at offset",
            "Restore the file from a copy",
            "--skip-damaged-log",
        ],
    );
    assert!(fs::read(&segment).unwrap() == damaged, "the damaged segment was changed");

    // Restored, as the error recommends, everything is readable.
    flip(&segment, at);
    let server = Server::start(&data);
    assert_eq!(keys(&connect(server.address()).await).await, Vec::from_iter(0..100));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_commit_log_is_passed_over_when_that_is_asked_for() {
    let (_directory, data) = data_directory();
    write_and_kill(&data, 100).await;
    let (segment, at) = find(&data.join("commitlog"), &needle(50));
    flip(&segment, at);
    let server = Launch::new(&data).flag("--skip-damaged-log").start();
    let found = keys(&connect(server.address()).await).await;
    // The rows before the damage exist, the damaged record does not, and nothing is invented.
    assert!(found.starts_with(&Vec::from_iter(0..50)) && !found.contains(&50), "{found:?}");
    assert!(found.iter().all(|key| *key < 100), "{found:?}");
}

/// The files of `ks.t`, below `data`.
fn names_in_t(data: &Path) -> Vec<PathBuf> {
    let keyspace = data.join("data/ks");
    let tables = fs::read_dir(&keyspace).unwrap().map(|entry| entry.unwrap().path());
    tables
        .filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("t-"))
        .flat_map(|path| files(&path))
        .collect()
}

/// The files of the first SSTable of `ks.t`, below `data`.
fn files_of_t(data: &Path) -> Vec<PathBuf> {
    let mut found = names_in_t(data);
    found.retain(|path| path.file_name().unwrap().to_string_lossy().starts_with("nb-1-"));
    found.sort();
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_skips_damage_to_the_schema_keeps_all_sstables() {
    let (_directory, data) = data_directory();
    let server = Launch::new(&data).config(SYNCED).start();
    let session = connect_to_keyspace(server.address()).await;
    let table =
        "CREATE TABLE t (k int PRIMARY KEY, some_column_of_t text) WITH memtable_flush_period_in_ms = 100";
    execute(&session, table).await;
    execute(&session, "INSERT INTO t (k, some_column_of_t) VALUES (1, 'x')").await;
    // Once the log of the flush is removed: until then a start removes its output.
    let is_flushed = || {
        let names = names_in_t(&data);
        names.iter().any(|path| path.ends_with("nb-1-big-TOC.txt"))
            && !names.iter().any(|path| path.to_string_lossy().contains("_txn_"))
    };
    while !is_flushed() {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    server.kill();
    let before = files_of_t(&data);
    assert!(before.len() > 4, "{before:?}");
    // The record that contains the schema of the table.
    let (segment, at) = find(&data.join("commitlog"), "some_column_of_t");
    flip(&segment, at);
    for _ in 0..2 {
        let server = Launch::new(&data).flag("--skip-damaged-log").start();
        assert_eq!(files_of_t(&data), before);
        server.stop();
        assert_eq!(files_of_t(&data), before);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_torn_tail_of_the_commit_log_costs_only_the_record_that_was_torn() {
    let (_directory, data) = data_directory();
    write_and_kill(&data, 100).await;
    let (segment, at) = find(&data.join("commitlog"), &needle(99));
    // The last record ends in its value, as after a crash of the machine during a write.
    let mut bytes = fs::read(&segment).unwrap();
    bytes[at + 4..].fill(0);
    fs::write(&segment, bytes).unwrap();
    for _ in 0..2 {
        let server = Server::start(&data);
        let session = connect(server.address()).await;
        assert_eq!(keys(&session).await, Vec::from_iter(0..99));
        server.kill();
    }
}

/// `ks.t` and `ks.other` in SSTables; returns the directory of the first.
async fn write_sstables(data: &Path) -> PathBuf {
    write_and_kill(data, 100).await;
    let server = Server::start(data);
    let session = connect_to_keyspace(server.address()).await;
    execute(&session, "CREATE TABLE other (k int PRIMARY KEY, v text) WITH compression = {'enabled': false}")
        .await;
    execute(&session, "INSERT INTO other (k, v) VALUES (1, 'well')").await;
    server.stop();
    let database = cassette_database::Database::open(data).unwrap();
    database.engine().flush(None).unwrap();
    database.close().unwrap();
    let tables = fs::read_dir(data.join("data/ks")).unwrap().map(|entry| entry.unwrap().path());
    let is_t = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().starts_with("t-");
    tables.into_iter().find(is_t).unwrap()
}

fn component(directory: &Path, name: &str) -> PathBuf {
    let files = files(directory);
    files
        .into_iter()
        .find(|path| path.to_string_lossy().ends_with(name))
        .unwrap_or_else(|| panic!("no {name}"))
}

async fn assert_other_table_is_served(session: &Session) {
    assert_eq!(
        rows::<(String,)>(session, "SELECT v FROM ks.other WHERE k = 1", ()).await,
        [("well".to_owned(),)]
    );
    execute(session, "INSERT INTO ks.other (k, v) VALUES (2, 'written')").await;
    execute(session, "INSERT INTO ks.t (k, v) VALUES (1000, 'written')").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flipped_byte_in_data_is_an_error_that_names_the_file_and_nothing_else_suffers() {
    let (_directory, data) = data_directory();
    let table = write_sstables(&data).await;
    let damaged = component(&table, "-Data.db");
    flip(&damaged, 100);
    let server = Launch::new(&data).config("disk_failure_policy: ignore\n").start();
    let session = connect(server.address()).await;
    for _ in 0..2 {
        let error = session.query_unpaged("SELECT * FROM ks.t", ()).await.unwrap_err().to_string();
        let name = damaged.file_name().unwrap().to_string_lossy().into_owned();
        assert!(error.contains(&name), "{error}");
    }
    assert_other_table_is_served(&session).await;
    server.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn best_effort_quarantines_a_corrupt_sstable_after_an_error_that_names_it() {
    let (_directory, data) = data_directory();
    let table = write_sstables(&data).await;
    let damaged = component(&table, "-Data.db");
    flip(&damaged, 100);
    let server = Launch::new(&data).config("disk_failure_policy: best_effort\n").start();
    let session = connect(server.address()).await;
    session.query_unpaged("SELECT * FROM ks.t", ()).await.unwrap_err();
    assert_eq!(keys(&session).await, Vec::<i32>::new());
    assert!(server.log().contains(&damaged.display().to_string()), "{}", server.log());
    assert_other_table_is_served(&session).await;
    server.stop();
    assert!(damaged.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_sstable_without_a_component_is_named_and_nothing_else_suffers() {
    for name in ["-Data.db", "-Index.db", "-Statistics.db", "-CompressionInfo.db"] {
        let (_directory, data) = data_directory();
        let table = write_sstables(&data).await;
        let missing = component(&table, name);
        fs::rename(&missing, data.join("away")).unwrap();

        let ended = Launch::new(&data).config("disk_failure_policy: stop\n").refused();
        let prefix = missing.file_name().unwrap().to_string_lossy().replace(name, "");
        assert_says(&ended, &[&prefix]);

        let server = Launch::new(&data).config("disk_failure_policy: ignore\n").start();
        let session = connect(server.address()).await;
        let error =
            session.query_unpaged("SELECT * FROM ks.t WHERE k = 1", ()).await.unwrap_err().to_string();
        assert!(error.contains(&prefix) && error.contains("nodetool refresh"), "{error}");
        assert_other_table_is_served(&session).await;
        server.stop();

        let server = Launch::new(&data).config("disk_failure_policy: best_effort\n").start();
        assert!(server.log().contains(&prefix), "{}", server.log());
        assert_other_table_is_served(&connect(server.address()).await).await;
        server.stop();

        // Back in its place, it is read again.
        fs::rename(data.join("away"), &missing).unwrap();
        let server = Server::start(&data);
        assert_eq!(keys(&connect(server.address()).await).await, Vec::from_iter((0..100).chain([1000])));
    }
}

/// They can be rebuilt from the others.
#[tokio::test(flavor = "multi_thread")]
async fn an_sstable_without_its_filter_or_summary_is_read_all_the_same() {
    let (_directory, data) = data_directory();
    let table = write_sstables(&data).await;
    for name in ["-Filter.db", "-Summary.db"] {
        fs::remove_file(component(&table, name)).unwrap();
    }
    let server = Server::start(&data);
    assert_eq!(keys(&connect(server.address()).await).await, Vec::from_iter(0..100));
}
