//! `cassette move` as users run it: it and the target are killed, and it completes the copy.

mod support;

use std::path::Path;
use std::process::{Command, Stdio};

use support::cql::{connect_to_keyspace, execute, rows};
use support::moves::{text_of, wait_for_parts};
use support::{Launch, Server};

const ROWS: i64 = 3_000;

/// Returns the command, in a directory that gets the progress file.
fn move_command(directory: &Path, from: &Server, to: &Server, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cassette"));
    command.current_dir(directory).arg("move");
    command.args(["--from", &from.address().to_string(), "--to", &to.address().to_string()]);
    command.args(["--keyspace", "ks", "--ranges", "64", "--workers", "2"]).args(more);
    command
}

async fn fill(server: &Server) {
    let session = connect_to_keyspace(server.address()).await;
    execute(&session, "CREATE TABLE t (k int PRIMARY KEY, v bigint, l list<int>, m map<int, text>)").await;
    execute(&session, "CREATE TABLE n (k int PRIMARY KEY, c counter)").await;
    for key in 0..ROWS {
        let cql = format!(
            "INSERT INTO t (k, v, l, m) VALUES ({key}, {key}, [1, 2], {{1: 'a'}}) USING TIMESTAMP {}",
            1_000 + key
        );
        execute(&session, &cql).await;
        execute(&session, &format!("UPDATE n SET c = c + {key} WHERE k = {key}")).await;
    }
}

#[test]
fn a_move_survives_kills_of_itself_and_of_the_target() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let source = Server::start(&path.join("source"));
    let target = Server::start(&path.join("target"));
    runtime.block_on(fill(&source));

    let dry = move_command(path, &source, &target, &["--dry-run"]).output().unwrap();
    assert!(dry.status.success() && text_of(&dry).contains("CREATE TABLE ks.t"), "{}", text_of(&dry));
    assert!(!path.join("cassette-move.progress").exists());

    // 6,000 rows in three seconds.
    let slow = ["--rate", "2000", "--log-json", "events"];
    let mut first = move_command(path, &source, &target, &slow).stderr(Stdio::null()).spawn().unwrap();
    wait_for_parts(path, &mut first, 20);
    first.kill().unwrap();
    first.wait().unwrap();

    let mut second = move_command(path, &source, &target, &slow).stderr(Stdio::null()).spawn().unwrap();
    wait_for_parts(path, &mut second, 60);
    let address = target.address();
    target.kill();
    let target = Launch::new(&path.join("target")).listen(address).start();
    assert!(second.wait().unwrap().success());
    let events = std::fs::read_to_string(path.join("events")).unwrap();
    let last: serde_json::Value = serde_json::from_str(events.lines().last().unwrap()).unwrap();
    assert_eq!(last["event"], "finished", "{last}");

    let verify = |more: &[&str]| {
        let output = move_command(path, &source, &target, &[&["--verify"], more].concat()).output().unwrap();
        (output.status.success(), text_of(&output))
    };
    let (is_equal, text) = verify(&[]);
    assert!(is_equal && text.contains("compared 6000 rows") && text.contains(": 0 differ"), "{text}");
    runtime.block_on(async {
        let session = connect_to_keyspace(target.address()).await;
        let found: Vec<(i64, i64)> = rows(&session, "SELECT v, writetime(v) FROM t WHERE k = 77", ()).await;
        assert_eq!(found, [(77, 1_077)]);
        execute(&session, "DELETE FROM t USING TIMESTAMP 999 WHERE k = 77").await;
        execute(&session, "UPDATE t USING TIMESTAMP 5000 SET v = 1 WHERE k = 78").await;
        execute(&session, "UPDATE n SET c = c + 5 WHERE k = 79").await;
    });
    let (is_equal, text) = verify(&[]);
    assert!(!is_equal && text.contains("ks.t (0x0000004e): cells differ\n"), "{text}");
    let (is_equal, text) = verify(&["--repair"]);
    assert!(!is_equal && text.contains("2 differ, 1 of them repaired"), "the cell of 78 is newer: {text}");
    assert!(text.contains("ks.n (0x0000004f): cells differ, repaired"), "{text}");
}

#[test]
fn unusable_arguments_are_rejected_in_one_sentence() {
    let directory = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cassette"));
        let output = command.current_dir(directory.path()).arg("move").args(arguments).output().unwrap();
        assert!(!output.status.success());
        text_of(&output)
    };
    let text = run(&["--from", "127.0.0.1:1", "--to", "127.0.0.1:1", "--patience", "0"]);
    assert!(
        text.starts_with("cassette: 127.0.0.1:1 does not respond") && text.lines().count() == 1,
        "{text}"
    );
    assert!(run(&["--to", "127.0.0.1:1"]).contains("--from"));
    assert!(run(&["--from", "a", "--data", "b", "--to", "c"]).contains("--data"));
    assert!(run(&["--from", "a", "--to", "b", "--repair"]).contains("--verify"));
    let text = run(&["--data", "absent", "--to", "127.0.0.1:1"]);
    assert!(text.contains("absent"), "{text}");
}
