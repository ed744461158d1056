//! `cassette timelock` as it is built, over `cassette serve`.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use cassette_transactions::Timestamp;
use cassette_transactions::store::{ClusterOptions, ClusterStore, Store};
use cassette_transactions::timelock::{RemoteOptions, RemoteTimeLock, TimeLock};

use super::checker::{self, Client, wait_for};

const CASSETTE: &str = env!("CARGO_BIN_EXE_cassette");

/// A process of ours, killed at the end.
pub struct Process(pub Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A process that prints one line with its address at the end when it is ready.
fn start(arguments: &[&str]) -> (Process, String) {
    let mut child =
        Command::new(CASSETTE).args(arguments).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.split_whitespace().last().unwrap_or_else(|| panic!("{arguments:?} ended")).to_owned();
    (Process(child), address)
}

/// A timelock server with a lease of two seconds.
pub fn timelock(store: &str, keyspace: &str) -> (Process, String) {
    start(&[
        "timelock",
        "start",
        "--store",
        store,
        "--keyspace",
        keyspace,
        "--listen",
        "127.0.0.1:0",
        "--lease",
        "2",
    ])
}

fn command(arguments: &[&str]) -> Output {
    Command::new(CASSETTE).arg("timelock").args(arguments).output().unwrap()
}

fn said(arguments: &[&str]) -> String {
    let output = command(arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn connect(servers: &[&str]) -> Client {
    Arc::new(RemoteTimeLock::connect(RemoteOptions::new(servers.iter().copied())).unwrap())
}

#[test]
fn a_standby_takes_over_from_a_server_that_was_killed_and_transactions_go_on() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let (_server, cql) =
        start(&["serve", "--listen", "127.0.0.1:0", "--admin", "off", "--data", data.to_str().unwrap()]);
    let (mut first, one) = timelock(&cql, "bank");
    drop(connect(&[&one]));
    let (_second, other) = timelock(&cql, "bank");
    assert!(said(&["status", "--at", &one]).contains(": leading\n"));
    assert!(said(&["status", "--at", &other]).contains(": standby\n"));

    let store: Arc<dyn Store> = Arc::new(ClusterStore::connect(&ClusterOptions::new(&*cql, "bank")).unwrap());
    let clients = vec![connect(&[&one, &other]), connect(&[&other, &one])];
    let figures = checker::run(&store, clients, |figures| {
        wait_for(figures, 100);
        first.0.kill().unwrap();
        first.0.wait().unwrap();
        wait_for(figures, 100);
    });
    assert!(figures.snapshots.load(Ordering::Relaxed) > 0, "{figures:?}");
    let status = said(&["status", "--at", &other]);
    assert!(status.contains(": leading\n") && status.contains("2\n"), "{status}");
    assert!(!command(&["status", "--at", &one]).status.success(), "it is dead");

    let before = connect(&[&other]).timestamp().unwrap();
    let to = (before.0 + 10_000_000).to_string();
    assert!(said(&["fast-forward", "--to", &to, "--at", &other]).contains("last timestamp"));
    assert!(connect(&[&other]).timestamp().unwrap().0 > before.0 + 10_000_000);
    assert!(said(&["stop", "--at", &other]).contains("it was leading"));
    // No server runs: the command leads itself, for a moment.
    let to = (before.0 + 20_000_000).to_string();
    let said_so = said(&["fast-forward", "--to", &to, "--store", &cql, "--keyspace", "bank", "--lease", "1"]);
    assert!(said_so.contains("greater than"), "{said_so}");
    let (_third, third) = timelock(&cql, "bank");
    assert!(connect(&[&third]).timestamp().unwrap() > Timestamp(before.0 + 20_000_000));
}

#[test]
fn commands_say_what_is_wrong_with_them() {
    for (arguments, word) in [
        (&["status", "--at", "127.0.0.1:1"][..], "127.0.0.1:1"),
        (&["start"], "--store"),
        (&["fast-forward", "--to", "0"], "--to"),
        (&["fast-forward", "--to", "5", "--lost-bound"], "--store"),
    ] {
        let output = command(arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && errors.contains(word), "{arguments:?}: {errors}");
    }
}
