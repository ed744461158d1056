//! `cassette serve` reports what is wrong with its settings before it does anything, and how it
//! started.

mod support;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use support::cql::{connect, execute};
use support::{Launch, Server};

fn serve(data: &Path, arguments: &[&str], levels: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cassette"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--admin", "off", "--data"]).arg(data).args(arguments);
    command.env("CASSETTE_LOG", levels).output().unwrap()
}

fn refused(data: &Path, arguments: &[&str], levels: &str) -> String {
    let output = serve(data, arguments, levels);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(output.stdout.is_empty() && !data.exists(), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn all_mistakes_of_a_file_are_reported_with_their_lines() {
    let directory = tempfile::tempdir().unwrap();
    let (data, file) = (directory.path().join("data"), directory.path().join("c.yaml"));
    let path = file.to_str().unwrap();
    fs::write(&file, "cluster_name: x\nmemtable_heap_spce: 1MiB\nrow_cache_size: lots\n").unwrap();
    for more in [&["--check-config"][..], &["--print-config"], &[]] {
        let error = refused(&data, &[&["--config", path], more].concat(), "info");
        assert!(error.contains("2 mistakes"), "{error}");
        let unknown = format!("{path}:2: unknown key memtable_heap_spce (did you mean memtable_heap_space?)");
        assert!(error.contains(&unknown), "{error}");
        assert!(error.contains(&format!("{path}:3: row_cache_size: lots: expected a size")), "{error}");
    }
    fs::write(&file, "cluster_name: x\nauthorizer: CassandraAuthorizer\n").unwrap();
    let error = refused(&data, &["--check-config", "--config", path], "info");
    assert!(error.contains("c.yaml:2: ") && error.contains("AllowAllAuthenticator"), "{error}");
    let arguments = ["--check-config", "--config", path, "--authenticator", "PasswordAuthenticator"];
    let output = serve(&data, &arguments, "info");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{path}: the configuration is valid\n"));
    assert!(!data.exists());
}

#[test]
fn a_printed_configuration_is_valid() {
    let directory = tempfile::tempdir().unwrap();
    let (data, file) = (directory.path().join("data"), directory.path().join("c.yaml"));
    let output = serve(&data, &["--print-config", "--cluster-name", "my cluster"], "info");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("\ncluster_name: \"my cluster\"\n"), "{text}");
    fs::write(&file, &text).unwrap();
    let again = serve(&data, &["--print-config", "--config", file.to_str().unwrap()], "info");
    assert!(again.stderr.is_empty(), "{again:?}");
    let rest = |text: &str| text.lines().filter(|line| !line.starts_with("native_transport_port")).count();
    assert_eq!(rest(&String::from_utf8(again.stdout).unwrap()), rest(&text));
}

#[test]
fn invalid_levels_of_the_log_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    for levels in ["nonsense=ddd", "loud", "info,=debug"] {
        let error = refused(&data, &[], levels);
        assert!(error.contains("invalid CASSETTE_LOG") && error.contains("CASSETTE_LOG=info"), "{error}");
    }
}

#[tokio::test]
async fn a_start_logs_what_it_replayed_also_as_json_to_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let server = Launch::new(&data).config("commitlog_sync: batch\n").start();
    let session = connect(server.address()).await;
    for cql in [
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE ks.t (k int PRIMARY KEY)",
        "INSERT INTO ks.t (k) VALUES (1)",
    ] {
        execute(&session, cql).await;
    }
    let log = server.log();
    assert!(log.contains(&format!("opened {}, version ", data.display())), "{log}");
    assert!(log.contains(" 0 tables: read 0 records "), "{log}");
    server.kill();
    let server = Server::start(&data);
    let log = server.log();
    assert!(log.contains(" 1 tables: read ") && !log.contains(" read 0 records "), "{log}");
    server.stop();

    let file = directory.path().join("server.log");
    fs::write(&file, "").unwrap();
    let flag = format!("--log-file={}", file.display());
    let server = Launch::new(&data).flag("--log-format=json").flag(flag.leak()).start();
    assert_eq!(server.log(), "");
    server.stop();
    let text = fs::read_to_string(file).unwrap();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let message = |line: &serde_json::Value| line["message"].as_str().unwrap().to_owned();
    assert!(lines.iter().any(|line| message(line).starts_with("opened ")), "{text}");
    assert_eq!(message(lines.last().unwrap()), "stopped");
}
