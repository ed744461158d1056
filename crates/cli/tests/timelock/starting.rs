//! Start, end and log of `cassette timelock` as a process.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use cassette_transactions::store::{ClusterOptions, ClusterStore};
use cassette_transactions::timelock::{ClientTls, ClientTlsOptions, TimeLock, Token};
use cassette_transactions::{ConflictHandler, Options};

use super::timelocks::{CASSETTE, Process, command, connect, serve, serve_at, start, timelock};

/// Returns an address without a listener.
fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

fn spawn(store: &str, more: &[&str]) -> Child {
    let always = ["timelock", "start", "--store", store, "--keyspace", "bank", "--listen", "127.0.0.1:0"];
    let mut command = Command::new(CASSETTE);
    command.args(always).args(["--lease", "1"]).args(more).env("CASSETTE_LOG", "info,scylla=off");
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits until a server reports that it is ready; returns its address.
fn ready(child: &mut Child) -> String {
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    line.split_whitespace().last().unwrap_or_else(|| panic!("it has ended: {}", log(child))).to_owned()
}

/// Returns its log, after it has ended.
fn log(child: &mut Child) -> String {
    let mut text = String::new();
    child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    text
}

fn terminate(child: &Child) {
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
}

#[test]
fn a_timelock_waits_for_its_store_as_long_as_it_is_told_to() {
    let directory = tempfile::tempdir().unwrap();
    let store = free_address();
    let mut bounded = Process(spawn(&store, &["--wait-for-store", "0"]));
    assert!(!bounded.0.wait().unwrap().success());
    let text = log(&mut bounded.0);
    assert!(text.contains("did not answer within") && text.contains(&store), "{text}");

    let mut waiting = Process(spawn(&store, &[]));
    // Without waiting it would have ended by now.
    let mut first = Process(spawn(&store, &["--wait-for-store", "0"]));
    first.0.wait().unwrap();
    assert!(waiting.0.try_wait().unwrap().is_none(), "it waits");
    let (_server, _) = serve_at(directory.path(), &store, "batch");
    let address = ready(&mut waiting.0);
    connect(&[&address]).timestamp().unwrap();
    terminate(&waiting.0);
    assert!(waiting.0.wait().unwrap().success());
    let text = log(&mut waiting.0);
    let lines = text.matches("the store does not answer; waiting for it").count();
    assert_eq!(lines, 1, "one line in ten seconds: {text}");
}

#[test]
fn an_ordinary_end_is_no_error_and_an_absent_store_is_logged_rarely() {
    let directory = tempfile::tempdir().unwrap();
    let (server, cql) = serve(directory.path());
    let mut ends = Process(spawn(&cql, &[]));
    let address = ready(&mut ends.0);
    connect(&[&address]).timestamp().unwrap();
    terminate(&ends.0);
    assert!(ends.0.wait().unwrap().success());
    let text = log(&mut ends.0);
    assert!(!text.contains("ERROR") && !text.contains("WARN"), "{text}");
    assert!(text.contains("released its lease"), "{text}");

    let mut leads = Process(spawn(&cql, &[]));
    let address = ready(&mut leads.0);
    connect(&[&address]).timestamp().unwrap();
    drop(server);
    // It contacts the store at least ten times.
    std::thread::sleep(Duration::from_secs(3));
    terminate(&leads.0);
    leads.0.wait().unwrap();
    let text = log(&mut leads.0);
    let lines = text.matches("timestamp bound: store does not respond").count();
    assert_eq!(lines, 1, "{text}");
}

#[test]
fn nodes_that_sync_periodically_are_refused_by_the_commands_that_write() {
    let directory = tempfile::tempdir().unwrap();
    let (_server, cql) = serve_at(directory.path(), "127.0.0.1:0", "periodic");
    let mut refused = Process(spawn(&cql, &[]));
    assert!(!refused.0.wait().unwrap().success(), "a setting does not change by waiting");
    let text = log(&mut refused.0);
    assert!(text.contains("commitlog_sync is periodic") && text.contains("--accept-periodic-sync"), "{text}");
    let mut accepted = Process(spawn(&cql, &["--accept-periodic-sync"]));
    let address = ready(&mut accepted.0);
    connect(&[&address]).timestamp().unwrap();
    let of_store = ["--contact", &cql, "--keyspace", "bank", "--timelock", &address];
    let run = |words: &[&str]| Command::new(CASSETTE).arg("transactions").args(words).output().unwrap();
    let sweep = run(&[&["sweep"], &of_store[..]].concat());
    assert!(String::from_utf8_lossy(&sweep.stderr).contains("commitlog_sync is periodic"), "{sweep:?}");
    let sweep = run(&[&["sweep", "--accept-periodic-sync"], &of_store[..]].concat());
    assert!(sweep.status.success(), "{sweep:?}");
    // Read-only commands work on every store.
    let file = directory.path().join("bank.backup");
    let backup = run(&[&["backup"], &of_store[..], &[file.to_str().unwrap()]].concat());
    assert!(backup.status.success(), "{backup:?}");
    terminate(&accepted.0);
    let text = log(&mut accepted.0);
    assert!(text.contains("nodes acknowledge writes before they are synced"), "{text}");
}

#[test]
fn clear_is_for_timestamps_that_a_server_has_stopped() {
    let directory = tempfile::tempdir().unwrap();
    let (_server, cql) = serve(directory.path());
    let (_timelock, address) = timelock(&cql, "bank");
    let before = connect(&[&address]).timestamp().unwrap();
    let output = command(&["clear", "--store", &cql, "--keyspace", "bank"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && errors.contains("are not halted"), "{errors}");
    assert!(connect(&[&address]).timestamp().unwrap() > before, "nothing was changed");
    let help = command(&["clear", "--help"]);
    let help = String::from_utf8_lossy(&help.stdout);
    assert!(help.contains("commitlog_sync") && help.contains("--to"), "{help}");
    let help = String::from_utf8_lossy(&command(&["start", "--help"]).stdout).into_owned();
    for word in ["commitlog_sync: batch", "--accept-periodic-sync", "--wait-for-store", "--session-timeout"] {
        assert!(help.contains(word), "{word}: {help}");
    }
}

#[test]
fn a_timelock_that_other_machines_can_reach_logs_a_warning() {
    let warning = "without authentication";
    for (listen, is_warned) in [("0.0.0.0:0", true), ("127.0.0.1:0", false)] {
        let arguments =
            ["timelock", "start", "--store", &free_address(), "--wait-for-store", "0", "--listen", listen];
        let output =
            Command::new(CASSETTE).args(arguments).env("CASSETTE_LOG", "warn,scylla=off").output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(text.contains(warning), is_warned, "{listen}: {text}");
    }
}

/// A file in `directory` that only its owner can access.
fn private(directory: &std::path::Path, name: &str, content: &str) -> String {
    use std::os::unix::fs::OpenOptionsExt;
    let path = directory.join(name);
    let mut file = std::fs::File::options().write(true).create_new(true).mode(0o600).open(&path).unwrap();
    std::io::Write::write_all(&mut file, content.as_bytes()).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_timelock_with_a_token_and_tls_serves_clients_that_have_both() {
    let directory = tempfile::tempdir().unwrap();
    let (_server, cql) = serve(directory.path());
    let path = |name: &str| directory.path().join("certificates").join(name).to_str().unwrap().to_owned();
    let created = Command::new(CASSETTE)
        .arg("certificates")
        .arg(directory.path().join("certificates"))
        .output()
        .unwrap();
    assert!(created.status.success());
    let token = private(directory.path(), "token", "0123456789abcdef-right\n");
    let wrong = private(directory.path(), "wrong", "0123456789abcdef-wrong\n");
    let (ca, pem, client) = (path("ca.pem"), path("server.pem"), path("client.pem"));
    let mut arguments =
        vec!["timelock", "start", "--store", &cql, "--keyspace", "bank", "--listen", "127.0.0.1:0"];
    arguments.extend(["--token-file", &token, "--certificate", &pem, "--client-ca", &ca]);
    let (_timelock, address) = start(&arguments);
    let status = |more: &[&str]| {
        let output = command(&[&["status", "--at", &address], more].concat());
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&text).into_owned())
    };
    let tls = ["--tls-ca", &ca, "--tls-certificate", &client];
    for (more, expected) in [
        (vec![], "127.0.0.1"),
        (vec!["--tls-ca", &*ca, "--token-file", &token], "requires a certificate of the client"),
        ([&tls[..], &["--token-file", &wrong]].concat(), "wrong token"),
        (tls.to_vec(), "no token"),
    ] {
        let (succeeded, text) = status(&more);
        assert!(!succeeded && text.contains(expected), "{more:?}: {text}");
    }
    let all = [&tls[..], &["--token-file", &token]].concat();
    let (succeeded, text) = status(&all);
    assert!(succeeded && text.contains("leading"), "{text}");
    let transactions = |more: &[&str]| {
        let words =
            ["transactions", "sweep", "--contact", &cql, "--keyspace", "bank", "--timelock", &address];
        Command::new(CASSETTE).args(words).args(more).output().unwrap()
    };
    let secured = ["--timelock-tls-ca", &ca, "--timelock-tls-certificate", &client];
    let refused = transactions(&[&secured[..], &["--timelock-token-file", &wrong]].concat());
    let errors = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && errors.contains("wrong token"), "{errors}");
    let swept = transactions(&[&secured[..], &["--timelock-token-file", &token]].concat());
    assert!(swept.status.success(), "{swept:?}");
}

#[test]
fn timelock_tools_and_programs_log_in_to_a_store_over_tls() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join("certificates").join(name).to_str().unwrap().to_owned();
    let created = Command::new(CASSETTE)
        .arg("certificates")
        .arg(directory.path().join("certificates"))
        .output()
        .unwrap();
    assert!(created.status.success());
    let (ca, pem, client) = (path("ca.pem"), path("server.pem"), path("client.pem"));
    let config = directory.path().join("cassandra.yaml");
    let yaml = format!(
        "commitlog_sync: batch\nauthenticator: PasswordAuthenticator\n\
         client_encryption_options: {{enabled: true, keystore: {pem}, truststore: {ca}, \
         require_client_auth: true}}\n"
    );
    std::fs::write(&config, yaml).unwrap();
    let (data, config) = (directory.path().join("data"), config.to_str().unwrap());
    let (data, password) = (data.to_str().unwrap(), private(directory.path(), "password", "cassandra\n"));
    let (_server, cql) =
        start(&["serve", "--listen", "127.0.0.1:0", "--admin", "off", "--data", data, "--config", config]);
    let token = private(directory.path(), "token", "0123456789abcdef-right\n");
    let login = ["--user", "cassandra", "--password-file", &password];
    let of_store = ["--store-tls-ca", &ca, "--store-tls-certificate", &client];
    let of_server = ["--token-file", &token, "--certificate", &pem, "--client-ca", &ca];
    let words = ["timelock", "start", "--store", &cql, "--keyspace", "bank", "--listen", "127.0.0.1:0"];
    let (_timelock, address) = start(&[&words[..], &login, &of_store, &of_server].concat());

    let tls = |certificate: Option<&String>| {
        let options = ClientTlsOptions {
            authorities: ca.clone().into(),
            certificate: certificate.map(Into::into),
            private_key: None,
        };
        ClientTls::new(&options).unwrap()
    };
    let cluster = |tls: Option<ClientTls>| ClusterOptions {
        credentials: Some(("cassandra".to_owned(), "cassandra".to_owned())),
        tls,
        ..ClusterOptions::new(&*cql, "bank")
    };
    assert!(ClusterStore::connect(&cluster(Some(tls(None)))).is_err(), "without a certificate");
    let open = |options: Options| options.on_cluster(&cluster(Some(tls(Some(&client)))), [&*address]);
    let token = Token::read(token.as_ref()).unwrap();
    let error = open(Options::new().timelock_tls(tls(Some(&client)))).err().unwrap().to_string();
    assert!(error.contains("no token"), "{error}");
    let options = Options::new().timelock_tls(tls(Some(&client))).timelock_token(token);
    let transactions = open(options).unwrap();
    let accounts = transactions.table("accounts", ConflictHandler::WriteWriteByCell).unwrap();
    transactions.run(|tx| tx.put(&accounts, "alice", "balance", "70")).unwrap();
    let found = transactions.run(|tx| tx.get(&accounts, "alice", "balance")).unwrap();
    assert_eq!(found.as_deref(), Some(&b"70"[..]));

    let tables = |more: &[&str]| {
        let words = ["transactions", "show", "--contact", &cql, "--keyspace", "bank"];
        let output = Command::new(CASSETTE).args(words).args(login).args(more).output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    assert!(!tables(&["--tls-ca", &ca]).0, "without a certificate");
    let (succeeded, text) = tables(&["--tls-ca", &ca, "--tls-certificate", &client]);
    assert!(succeeded && text.contains("accounts"), "{text}");
}
