//! A server whose files are in memory: it answers as one on a disk, keeps nothing, and has a limit.

mod support;

use std::process::Command;

use scylla::client::session::Session;
use scylla::value::{CqlTimestamp, CqlTimeuuid};
use support::Launch;
use support::cql::{connect, connect_to_keyspace, execute, execute_eventually, rows};
use uuid::Uuid;

/// Small segments and memtables, so that little data fills them.
const CONFIG: &str = "memtable_heap_space: 8MiB\ncommitlog_segment_size: 4MiB\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_server_in_memory_leaves_no_file_and_forgets_its_rows() {
    let directory = tempfile::tempdir().unwrap();
    let files = || {
        let names = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    };
    let temporary = format!("TMPDIR={}", directory.path().display());
    let launch = || {
        let launch = Launch::new(&directory.path().join("server")).in_memory();
        launch.wrapped_in(&["env", &temporary]).config(CONFIG).flag("--admin=off")
    };
    let server = launch().start();
    let session = connect_to_keyspace(server.address()).await;
    execute(&session, "CREATE TABLE t (k int PRIMARY KEY, v text)").await;
    execute(&session, "CREATE INDEX ON t (v)").await;
    // More than the memtables: they are flushed and compacted.
    let insert = session.prepare("INSERT INTO t (k, v) VALUES (?, ?)").await.unwrap();
    for key in 0..600 {
        session.execute_unpaged(&insert, (key, format!("{key}").repeat(10_000))).await.unwrap();
    }
    execute(&session, "INSERT INTO t (k, v) VALUES (7, 'seven')").await;
    assert_eq!(rows::<(i64,)>(&session, "SELECT count(*) FROM t", ()).await, [(600,)]);
    assert_eq!(rows::<(i32,)>(&session, "SELECT k FROM t WHERE v = 'seven'", ()).await, [(7,)]);
    assert_eq!(files(), ["server.log", "server.yaml"]);
    server.stop();
    assert_eq!(files(), ["server.log", "server.yaml"]);

    let server = launch().start();
    let session = connect(server.address()).await;
    let keyspaces = "SELECT keyspace_name FROM system_schema.keyspaces WHERE keyspace_name = 'ks'";
    assert!(rows::<(String,)>(&session, keyspaces, ()).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_in_memory_refuses_writes_at_its_limit_until_rows_are_removed() {
    let directory = tempfile::tempdir().unwrap();
    let launch = Launch::new(&directory.path().join("server")).in_memory().config(CONFIG);
    let server = launch.flag("--admin=off").flag("--memory-limit=128MiB").start();
    let session = connect_to_keyspace(server.address()).await;
    execute(&session, "CREATE TABLE t (k int PRIMARY KEY, v blob) WITH compression = {'enabled': false}")
        .await;
    let insert = session.prepare("INSERT INTO t (k, v) VALUES (?, ?)").await.unwrap();
    let value = vec![7_u8; 1 << 20];
    let (mut acknowledged, mut refused) = (0, None);
    for key in 0..300 {
        match session.execute_unpaged(&insert, (key, &value)).await {
            Ok(_) => acknowledged += 1,
            Err(error) => {
                refused = Some(error.to_string());
                break;
            }
        }
    }
    let refused = refused.expect("files of 300 MB exceed the limit");
    assert!(refused.contains("the files in memory would exceed their limit of 134217728 bytes"), "{refused}");
    assert!(acknowledged > 20, "{acknowledged}");
    assert_eq!(rows::<(i64,)>(&session, "SELECT count(*) FROM t", ()).await, [(acknowledged,)]);

    execute_eventually(&session, "TRUNCATE t").await;
    execute_eventually(&session, "INSERT INTO t (k, v) VALUES (1, 0x07)").await;
    assert_eq!(rows::<(i64,)>(&session, "SELECT count(*) FROM t", ()).await, [(1,)]);
    server.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn operations_on_files_of_the_disk_are_refused_with_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let socket = format!("unix:{}", directory.path().join("admin").display());
    let launch = Launch::new(&directory.path().join("server")).in_memory();
    let server = launch.config(&format!("admin_listen: {socket}\n")).start();
    let session = connect_to_keyspace(server.address()).await;
    execute(&session, "CREATE TABLE t (k int PRIMARY KEY)").await;
    execute(&session, "INSERT INTO t (k) VALUES (1)").await;
    let nodetool = |words: &str| {
        let words = ["nodetool", "-h", &socket].into_iter().chain(words.split_whitespace());
        let output = Command::new(env!("CARGO_BIN_EXE_cassette")).args(words).output().unwrap();
        let text = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
        (output.status.success(), text)
    };
    let elsewhere = directory.path().join("elsewhere");
    let path = elsewhere.display();
    for words in [
        &format!("backup {path}"),
        &format!("restorebackup {path}"),
        &format!("import ks t {path}"),
        "refresh ks t",
        "archivecommitlog",
    ] {
        let (is_success, text) = nodetool(words);
        assert!(!is_success && text.contains("need a server with a data directory"), "{words}: {text}");
    }
    let (is_success, text) = nodetool("enableauditlog");
    assert!(!is_success && text.contains("set audit_logs_dir of audit_logging_options"), "{text}");
    assert!(!elsewhere.exists());
    for words in [
        "flush ks t",
        "snapshot -t now ks",
        "compact ks t",
        "scrub ks t",
        "verify -f ks t",
        "clearsnapshot --all",
        &format!("enablefullquerylog --path {path}"),
    ] {
        let (is_success, text) = nodetool(words);
        assert!(is_success, "{words}: {text}");
    }
    assert_eq!(rows::<(i32,)>(&session, "SELECT k FROM t", ()).await, [(1,)]);
    server.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn files_in_memory_go_with_virtual_nodes_and_faults() {
    let directory = tempfile::tempdir().unwrap();
    let launch = Launch::new(&directory.path().join("server")).in_memory().flag("--admin=off");
    let server = launch.flag("--nodes=2").flag("--fault-injection").start();
    let session = connect_to_keyspace(server.address()).await;
    assert_eq!(rows::<(String,)>(&session, "SELECT data_center FROM system.peers", ()).await.len(), 1);
    execute(&session, "CREATE TABLE t (k int PRIMARY KEY)").await;
    execute(
        &session,
        "INSERT INTO system_testing.cassette_faults (id, effect, table_name) VALUES ('f', 'overloaded', 't')",
    )
    .await;
    let refused = session.query_unpaged("INSERT INTO t (k) VALUES (1)", ()).await.unwrap_err().to_string();
    assert!(refused.to_lowercase().contains("overloaded"), "{refused}");
    execute(&session, "TRUNCATE system_testing.cassette_faults").await;
    execute(&session, "INSERT INTO t (k) VALUES (1)").await;
    server.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_driver_observes_the_same_uuids_and_times_in_each_run_with_a_seed() {
    type Seen = Vec<(Uuid, CqlTimestamp, CqlTimeuuid, i64)>;
    async fn written(session: &Session) -> Seen {
        let insert = "INSERT INTO t (id, at, time) VALUES (uuid(), toTimestamp(now()), now())";
        execute(session, insert).await;
        let prepared = session.prepare(insert).await.unwrap();
        for _ in 0..5 {
            session.execute_unpaged(&prepared, ()).await.unwrap();
        }
        rows(session, "SELECT id, at, time, writetime(at) FROM t", ()).await
    }
    async fn run(seed: &'static str, start: &'static str) -> Seen {
        let directory = tempfile::tempdir().unwrap();
        let launch = Launch::new(&directory.path().join("server")).in_memory().flag("--admin=off");
        let server = launch.flag(seed).flag(start).start();
        let session = connect_to_keyspace(server.address()).await;
        execute(&session, "CREATE TABLE t (id uuid PRIMARY KEY, at timestamp, time timeuuid)").await;
        let first = written(&session).await;
        execute(&session, "TRUNCATE t").await;
        execute(&session, "TRUNCATE system_testing.cassette_clock").await;
        assert_eq!(written(&session).await, first);
        server.stop();
        first
    }
    let start = "--clock-start=2024-02-29T12:00:00Z";
    let first = run("--seed=7", start).await;
    assert_eq!(run("--seed=7", start).await, first);
    let mut times: Vec<_> = first.iter().map(|(_, at, _, written)| (at.0, *written)).collect();
    times.sort_unstable();
    let millis = 1_709_208_000_000;
    let expected: Vec<_> = (1..=6).map(|step| (millis + step, (millis + step) * 1000)).collect();
    assert_eq!(times, expected);
    let other = run("--seed=8", start).await;
    let later = run("--seed=7", "--clock-start=2024-03-01T00:00:00Z").await;
    for (id, _, time, _) in &first {
        assert_eq!(id.get_version_num(), 4);
        assert!(other.iter().all(|(other, _, other_time, _)| id != other && time != other_time));
        assert!(later.iter().any(|(other, ..)| id == other), "ids follow from the seed alone");
    }
    assert_ne!(first, later);
}

#[test]
fn a_seed_is_refused_for_a_directory_that_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data").display().to_string();
    for (arguments, reason) in [
        (&["--data", &data, "--seed", "7"][..], "--seed: expected --in-memory or --temporary"),
        (&["--in-memory", "--clock-start", "2024-02-29T12:00:00Z"], "required arguments were not provided"),
        (&["--in-memory", "--seed", "7", "--clock-start", "tomorrow"], "invalid value 'tomorrow'"),
        (&["--in-memory", "--seed", "7", "--clock-start", "1969-12-31T23:59:59Z"], "from 1970 to 2099"),
    ] {
        let mut serve = Command::new(env!("CARGO_BIN_EXE_cassette"));
        serve.args(["serve", "--listen=127.0.0.1:0", "--admin=off"]).args(arguments);
        let message = String::from_utf8(serve.output().unwrap().stderr).unwrap();
        assert!(message.contains(reason), "{arguments:?}: {message}");
    }
    assert!(!directory.path().join("data").exists());
}

#[test]
fn settings_that_need_a_directory_are_refused_with_files_in_memory() {
    let directory = tempfile::tempdir().unwrap();
    let launch = || Launch::new(&directory.path().join("server")).in_memory().flag("--admin=off");
    let refused = launch().config("cdc_enabled: true\n").refused();
    assert!(refused.log.contains("cdc_enabled needs a data directory"), "{}", refused.log);
    let backups = directory.path().join("backups");
    let config = format!("backup_options:\n  repository: {}\n  backup_period: 1h\n", backups.display());
    let refused = launch().config(&config).refused();
    assert!(refused.log.contains("backup_options (backups and the archived commit log)"), "{}", refused.log);
    assert!(!backups.exists(), "refused before the repository is created");
    let refused = launch().config("audit_logging_options:\n  enabled: true\n").refused();
    assert!(refused.log.contains("set audit_logs_dir"), "{}", refused.log);
    let refused = launch().config("commitlog_segment_size: 64MiB\n").flag("--memory-limit=128MiB").refused();
    assert!(refused.log.contains("expected at least 256MiB"), "{}", refused.log);
    for (arguments, reason) in [
        (&["--in-memory", "--data", "x"][..], "cannot be used with"),
        (&["--in-memory", "--temporary"], "cannot be used with"),
        (&["--in-memory", "--backup-to", "x"], "cannot be used with"),
        (&["--memory-limit", "1GiB"], "required arguments were not provided"),
        (&["--in-memory", "--memory-limit", "1MiB"], "expected at least 128MiB, found 1MiB"),
    ] {
        let serve =
            Command::new(env!("CARGO_BIN_EXE_cassette")).arg("serve").args(arguments).output().unwrap();
        let message = String::from_utf8(serve.stderr).unwrap();
        assert!(!serve.status.success() && message.contains(reason), "{arguments:?}: {message}");
    }
}
