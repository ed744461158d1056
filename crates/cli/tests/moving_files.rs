//! `cassette move --by files` as users run it, to Apache Cassandra: it and a node are killed, and
//! it completes the move.
//!
//! One node with TLS between nodes, or the number of nodes in `CASSETTE_SOAK_NODES` without, with
//! up to three replicas. `CASSETTE_SOAK_MB` is the size of the data, 6 by default.

#[path = "support/cassandra.rs"]
mod nodes;
mod support;

use std::path::Path;
use std::process::{Command, Stdio};

use cassette_database::Database;
use support::moves::{events, fill, internode_encryption, number, text_of, wait_for_parts};

const SSTABLES: usize = 12;

/// Returns the command, in a directory that gets the progress file.
fn move_command(directory: &Path, to: &str, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cassette"));
    command.current_dir(directory).args(["move", "--data", "data", "--to", to, "--keyspace", "ks"]);
    command.args(["--by", "files"]).args(more);
    command
}

#[test]
fn a_move_by_files_survives_kills_of_itself_and_of_a_node() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let count = number("CASSETTE_SOAK_NODES").unwrap_or(1);
    let megabytes = number("CASSETTE_SOAK_MB").unwrap_or(6);
    let encryption = if count == 1 { Some(internode_encryption(path, "127.0.203.1")) } else { None };
    let yaml: Vec<(&str, String)> =
        encryption.iter().map(|yaml| ("server_encryption_options", yaml.clone())).collect();
    let Some(mut cassandra) = nodes::start(&path.join("nodes"), count, 203, &yaml) else { return };
    let contacts = cassandra.0.settings().contacts().join(",");
    let rows = fill(&path.join("data"), megabytes, SSTABLES);
    let replicas = count.min(3);
    let replication = format!("{{'class': 'NetworkTopologyStrategy', 'datacenter1': {replicas}}}");
    // At this rate the move takes ten seconds.
    let rate = (megabytes * replicas / 10).max(1).to_string();
    let mut slow = vec!["--replication", &replication, "--rate-mb", &rate, "--log-json", "events"];
    if encryption.is_some() {
        let without = move_command(path, &contacts, &slow).output().unwrap();
        assert!(!without.status.success() && text_of(&without).contains("TLS"), "{}", text_of(&without));
        slow.extend(["--internode-tls-ca", "certificates/ca.pem"]);
        slow.extend(["--internode-tls-certificate", "certificates/client.pem"]);
    }

    let mut first = move_command(path, &contacts, &slow).stderr(Stdio::null()).spawn().unwrap();
    wait_for_parts(path, &mut first, 2);
    first.kill().unwrap();
    first.wait().unwrap();

    let mut second = move_command(path, &contacts, &slow).stderr(Stdio::null()).spawn().unwrap();
    wait_for_parts(path, &mut second, 4 * replicas);
    cassandra.0.kill_node(count);
    cassandra.0.start_again(count).unwrap();
    assert!(second.wait().unwrap().success());

    let (started, sent) = (events(path, "sending"), events(path, "sent"));
    let transfers = started[1]["transfers"].as_u64().unwrap();
    assert!(transfers >= (SSTABLES * replicas) as u64, "{started:?}");
    assert_eq!(started[0]["transfers_done"], 0);
    assert!(started[1]["transfers_done"].as_u64().unwrap() >= 2, "the second run resumes");
    // The first process may have ended between a transfer's record and its event, or before it.
    assert!(sent.len() as u64 <= transfers && sent.len() as u64 + 2 >= transfers, "{}", sent.len());
    assert_eq!(events(path, "finished").len(), 1);

    let verified = move_command(path, &contacts, &["--verify"]).output().unwrap();
    let text = text_of(&verified);
    assert!(verified.status.success() && text.contains(&format!("compared {rows} rows")), "{text}");
    assert!(text.contains(": 0 differ"), "{text}");

    // The same from the files of the nodes, which do not have the next row.
    cassandra.0.nodetool(&["flush", "ks"]).unwrap();
    let nodes: Vec<String> =
        (1..=count).map(|number| path.join(format!("nodes/node{number}")).display().to_string()).collect();
    let of_files = ["--verify", "--target-files", &nodes.join(",")];
    let verified = move_command(path, &contacts, &of_files).output().unwrap();
    let text = text_of(&verified);
    assert!(verified.status.success() && text.contains(&format!("compared {rows} rows")), "{text}");
    assert!(text.contains(": 0 differ"), "{text}");
    let database = Database::open(path.join("data")).unwrap();
    database.session().execute("INSERT INTO ks.t (k, c, v) VALUES (-1, 0, 0x01)", ()).unwrap();
    database.close().unwrap();
    let text = text_of(&move_command(path, &contacts, &of_files).output().unwrap());
    assert!(text.contains(&format!("compared {} rows", rows + 1)) && text.contains(": 1 differ"), "{text}");
}

#[test]
fn options_of_other_transfers_are_rejected() {
    let directory = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cassette"));
        let output = command.current_dir(directory.path()).arg("move").args(arguments).output().unwrap();
        assert!(!output.status.success());
        text_of(&output)
    };
    let text = run(&["--data", "d", "--to", "127.0.0.1:1", "--rate-mb", "5"]);
    assert!(text.contains("--rate-mb belongs to --by files"), "{text}");
    let text = run(&["--data", "d", "--to", "127.0.0.1:1", "--by", "files", "--part-mb", "5"]);
    assert!(text.contains("--part-mb belongs to --by bulk"), "{text}");
    let text = run(&["--data", "d", "--to", "127.0.0.1:1", "--by", "files", "--rate", "5"]);
    assert!(text.contains("--rate-mb"), "{text}");
    let text = run(&["--from", "127.0.0.1:1", "--to", "127.0.0.1:1", "--by", "files"]);
    assert!(text.contains("--data") && text.lines().count() == 1, "{text}");
}
