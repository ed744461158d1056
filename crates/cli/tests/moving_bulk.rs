//! `cassette move --by bulk` as users run it, to Apache Cassandra with TLS between nodes: it and
//! the node are killed, and it completes the move.

#[path = "support/cassandra.rs"]
mod nodes;
mod support;

use std::path::Path;
use std::process::{Command, Stdio};

use support::moves::{events, fill, internode_encryption, text_of, wait_for_parts};

const MEGABYTES: usize = 12;
const SSTABLES: usize = 4;

/// Returns the command, in a directory that gets the progress file.
fn move_command(directory: &Path, to: &str, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cassette"));
    command.current_dir(directory).args(["move", "--data", "data", "--to", to, "--keyspace", "ks"]);
    command.args(["--by", "bulk"]).args(more);
    command
}

#[test]
fn a_move_in_bulk_survives_kills_of_itself_and_of_a_node() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let yaml = [("server_encryption_options", internode_encryption(path, "127.0.209.1"))];
    let Some(mut cassandra) = nodes::start(&path.join("nodes"), 1, 209, &yaml) else { return };
    let contacts = cassandra.0.settings().contacts().join(",");
    let rows = fill(&path.join("data"), MEGABYTES, SSTABLES);
    let replication = "{'class': 'NetworkTopologyStrategy', 'datacenter1': 1}";
    // At this rate the move takes 12 seconds.
    let mut slow = vec!["--replication", replication, "--rate-mb", "1", "--part-mb", "1"];
    slow.extend(["--log-json", "events"]);
    let without = move_command(path, &contacts, &slow).output().unwrap();
    assert!(!without.status.success() && text_of(&without).contains("TLS"), "{}", text_of(&without));
    slow.extend(["--internode-tls-ca", "certificates/ca.pem"]);
    slow.extend(["--internode-tls-certificate", "certificates/client.pem"]);

    let planned = move_command(path, &contacts, &slow).arg("--dry-run").output().unwrap();
    let text = text_of(&planned);
    assert!(
        planned.status.success() && text.contains("CREATE TABLE ks.t") && text.contains("SSTables with"),
        "{text}"
    );
    assert!(!path.join("cassette-move.progress").exists());

    let mut first = move_command(path, &contacts, &slow).stderr(Stdio::null()).spawn().unwrap();
    wait_for_parts(path, &mut first, 2);
    first.kill().unwrap();
    first.wait().unwrap();
    let parts = path.join("cassette-move.progress.parts");
    assert!(std::fs::read_dir(&parts).unwrap().count() > 0, "parts that the killed process has left");

    let mut second = move_command(path, &contacts, &slow).stderr(Stdio::null()).spawn().unwrap();
    wait_for_parts(path, &mut second, 6);
    cassandra.0.kill_node(1);
    cassandra.0.start_again(1).unwrap();
    assert!(second.wait().unwrap().success());
    assert!(!parts.exists(), "the parts are removed");

    let started = events(path, "started");
    assert_eq!(started[started.len() - 2]["ranges_done"], 0);
    let (done, ranges) = (&started[started.len() - 1]["ranges_done"], &started[started.len() - 1]["ranges"]);
    assert!(
        done.as_u64().unwrap() > 0 && done.as_u64() < ranges.as_u64(),
        "the second run resumes: {started:?}"
    );
    let sent = events(path, "sent");
    assert!(sent.len() >= 12 && sent.iter().all(|event| event["whole"] == true), "{sent:?}");
    let finished = events(path, "finished");
    assert_eq!(finished.len(), 1);
    let repeated = finished[0]["rows"].as_u64().unwrap();
    assert!(repeated > 0 && repeated < rows as u64, "{repeated} of {rows} rows");

    let verified = move_command(path, &contacts, &["--verify"]).output().unwrap();
    let text = text_of(&verified);
    assert!(verified.status.success() && text.contains(&format!("compared {rows} rows")), "{text}");
    assert!(text.contains(": 0 differ"), "{text}");

    // Complete: nothing is sent again.
    let again = move_command(path, &contacts, &slow[6..]).output().unwrap();
    let text = text_of(&again);
    assert!(again.status.success() && text.contains("copied 0 rows"), "{text}");
}
