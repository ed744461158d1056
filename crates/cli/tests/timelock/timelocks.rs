//! The built `cassette timelock`, over `cassette serve`.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use cassette_transactions::store::{ClusterOptions, ClusterStore, Store};
use cassette_transactions::timelock::{RemoteOptions, RemoteTimeLock, TimeLock};
use cassette_transactions::{ConflictHandler, Options, Timestamp, Transactions};

use super::checker::{self, Client, wait_for};

pub const CASSETTE: &str = env!("CARGO_BIN_EXE_cassette");

/// A process of ours, killed at the end.
pub struct Process(pub Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A process that prints one line with its address when it is ready.
pub fn start(arguments: &[&str]) -> (Process, String) {
    let mut child =
        Command::new(CASSETTE).args(arguments).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.split([' ', ',']).rfind(|word| word.contains(':'));
    let address = address.unwrap_or_else(|| panic!("{arguments:?} ended")).trim_end().to_owned();
    (Process(child), address)
}

/// A server whose node syncs before it acknowledges, on any port, with its data in a new directory
/// of `parent`.
pub fn serve(parent: &Path) -> (Process, String) {
    serve_at(parent, "127.0.0.1:0", "batch")
}

/// A server at an address, with the named `commitlog_sync`.
pub fn serve_at(parent: &Path, listen: &str, sync: &str) -> (Process, String) {
    let (data, config) = (parent.join("data"), parent.join("cassandra.yaml"));
    std::fs::write(&config, format!("commitlog_sync: {sync}\n")).unwrap();
    let (data, config) = (data.to_str().unwrap(), config.to_str().unwrap());
    start(&["serve", "--listen", listen, "--admin", "off", "--data", data, "--config", config])
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

pub fn command(arguments: &[&str]) -> Output {
    Command::new(CASSETTE).arg("timelock").args(arguments).output().unwrap()
}

fn said(arguments: &[&str]) -> String {
    checked(command(arguments), arguments)
}

/// Returns the output of `cassette transactions` for a store on a cluster.
fn told(arguments: &[&str]) -> String {
    checked(Command::new(CASSETTE).arg("transactions").args(arguments).output().unwrap(), arguments)
}

/// Returns a command, with the arguments that select the store.
fn of<'a>(store: &[&'a str], words: &[&'a str]) -> Vec<&'a str> {
    [&words[..1], store, &words[1..]].concat()
}

/// Returns the output of a failing `cassette transactions`.
fn refused(arguments: &[&str]) -> String {
    let output = Command::new(CASSETTE).arg("transactions").args(arguments).output().unwrap();
    assert!(!output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn checked(output: Output, arguments: &[&str]) -> String {
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
    let (_server, cql) = serve(directory.path());
    let (mut first, one) = timelock(&cql, "bank");
    drop(connect(&[&one]));
    let (_second, other) = timelock(&cql, "bank");
    assert!(said(&["status", "--at", &one]).contains(": leading\n"));
    assert!(said(&["status", "--at", &other]).contains(": standby\n"));

    let store: Arc<dyn Store> = Arc::new(ClusterStore::connect(&ClusterOptions::new(&*cql, "bank")).unwrap());
    let clients = vec![connect(&[&one, &other]), connect(&[&other, &one])];
    let counts = checker::run(&store, clients, |counts| {
        wait_for(counts, 100);
        first.0.kill().unwrap();
        first.0.wait().unwrap();
        wait_for(counts, 100);
    });
    assert!(counts.snapshots.load(Ordering::Relaxed) > 0, "{counts:?}");
    let status = said(&["status", "--at", &other]);
    assert!(status.contains(": leading\n") && status.contains("2\n"), "{status}");
    assert!(!command(&["status", "--at", &one]).status.success(), "it is dead");

    let before = connect(&[&other]).timestamp().unwrap();
    let to = (before.0 + 10_000_000).to_string();
    assert!(said(&["fast-forward", "--to", &to, "--at", &other]).contains("last timestamp"));
    assert!(connect(&[&other]).timestamp().unwrap().0 > before.0 + 10_000_000);
    assert!(said(&["stop", "--at", &other]).contains("it was leading"));
    // No server runs: the command itself leads, for a moment.
    let to = (before.0 + 20_000_000).to_string();
    let said_so = said(&["fast-forward", "--to", &to, "--store", &cql, "--keyspace", "bank", "--lease", "1"]);
    assert!(said_so.contains("greater than"), "{said_so}");
    let (_third, third) = timelock(&cql, "bank");
    assert!(connect(&[&third]).timestamp().unwrap() > Timestamp(before.0 + 20_000_000));
}

#[test]
fn a_store_on_a_cluster_is_migrated_backed_up_and_restored_with_the_timestamps_of_its_timelock() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (data, file) = (path("data"), path("bank.backup"));
    let (server, cql) = serve(directory.path());
    let (one, of_bank) = timelock(&cql, "bank");
    let (other, of_copy) = timelock(&cql, "copy");
    let open = |keyspace: &str, server: &str| {
        let store = ClusterStore::connect(&ClusterOptions::new(&*cql, keyspace)).unwrap();
        let transactions =
            Transactions::open(Arc::new(store), connect(&[server]), Options::new().without_sweeping())
                .unwrap();
        let table = transactions.table("accounts", ConflictHandler::WriteWriteByCell).unwrap();
        (transactions, table)
    };
    let (bank, accounts) = open("bank", &of_bank);
    let mut tx = bank.start().unwrap();
    let first = tx.start_timestamp();
    tx.put(&accounts, "alice", "balance", "70").unwrap();
    tx.commit().unwrap();

    let looked_at = ["--contact", &cql, "--keyspace", "bank"];
    let with_timelock = [&looked_at[..], &["--timelock", &of_bank]].concat();
    assert!(told(&of(&looked_at, &["map"])).contains("3 (_transactions3)"));
    assert!(told(&of(&looked_at, &["show"])).contains("tables     accounts\n"));
    let errors = refused(&of(&looked_at, &["migrate", "--to", "2"]));
    assert!(errors.contains("--timelock"), "{errors}");
    // The program that has the store open continues meanwhile.
    let errors = refused(&of(&with_timelock, &["migrate", "--to", "2"]));
    assert!(errors.contains("--force"), "{errors}");
    assert!(errors.lines().any(|line| line == "cassette: use layout 3"), "{errors}");
    assert!(
        told(&of(&with_timelock, &["migrate", "--to", "2", "--force"])).contains("layout 2 instead of 3")
    );
    let mut tx = bank.start().unwrap();
    let second = tx.start_timestamp();
    tx.put(&accounts, "bob", "balance", "30").unwrap();
    tx.commit().unwrap();
    assert_eq!(bank.coordination().version(second).unwrap(), 2);
    let (first, second) = (first.0.to_string(), second.0.to_string());
    let status = told(&of(&with_timelock, &["status", &first, &second]));
    assert_eq!(status.matches("  committed at ").count(), 2, "{status}");

    assert!(told(&of(&with_timelock, &["backup", &file])).contains("2 cells"));
    let restored = told(&["restore", "--contact", &cql, "--keyspace", "copy", "--timelock", &of_copy, &file]);
    assert!(restored.contains("2 cells"), "{restored}");
    let (copy, accounts) = open("copy", &of_copy);
    for (row, balance) in [("alice", "70"), ("bob", "30")] {
        let found = copy.read(|tx| tx.get(&accounts, row, "balance")).unwrap();
        assert_eq!(found.as_deref(), Some(balance.as_bytes()), "{row}");
    }
    // A keyspace without timelock servers is not created.
    let fresh = ["restore", "--contact", &cql, "--keyspace", "fresh", "--timelock", &of_copy, &file];
    assert!(refused(&fresh).contains("cassette timelock start --keyspace fresh"));
    assert!(refused(&fresh).contains("no keyspace fresh"));
    let elsewhere = ["show", "--contact", &cql, "--keyspace", "bank", "--local", "elsewhere"];
    assert!(refused(&elsewhere).contains("unknown data center elsewhere"));
    // Files with timestamps of a server are not continued here.
    drop((bank, copy, one, other, server));
    let files = ["backup", "--data", &data, "--keyspace", "bank", &path("other.backup")];
    assert!(refused(&files).contains("cassette timelock start"));
}

#[test]
fn commands_say_what_is_wrong_with_them() {
    for (arguments, word) in [
        (&["status", "--at", "127.0.0.1:1"][..], "127.0.0.1:1"),
        (&["start"], "--store"),
        (&["fast-forward", "--to", "0"], "--to"),
        (&["fast-forward", "--to", "5", "--lost-bound"], "--store"),
        (&["clear"], "--store"),
    ] {
        let output = command(arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && errors.contains(word), "{arguments:?}: {errors}");
    }
}
