//! `cassette lab` as users run it: it serves, can be killed, and resumes.

mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cassette_query_log::{Full, Kind, Log, LoggedQuery, LoggedStatement, LoggedValues, Options};
use cassette_vfs::{RealFileSystem, SystemClock};

fn lab(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_cassette")).arg("lab").args(arguments).output().unwrap()
}

fn text_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Returns the directory of the only run in `results`.
fn run_in(results: &Path) -> PathBuf {
    std::fs::read_dir(results).unwrap().next().unwrap().unwrap().path()
}

const SERVED: &str = r#"
name = "served"
repeats = 1
[[engine]]
kind = "served"
[[configuration]]
name = "leveled"
table = "compaction = {'class': 'LeveledCompactionStrategy'} AND caching = {'keys': 'ALL', 'rows_per_partition': 'ALL'}"
[configuration.options]
file_cache_size = "16MiB"
row_cache_size = "4MiB"
commitlog_sync = "group"
commitlog_sync_group_window = "1ms"
[[workload]]
name = "c"
ycsb = "c"
properties = { recordcount = 300, operationcount = 600 }
[[phase]]
load = "c"
threads = 8
[[phase]]
action = "flush"
[[phase]]
cql = "ALTER TABLE ycsb.usertable WITH gc_grace_seconds = 60"
[[phase]]
action = "restart"
[[phase]]
run = "c"
threads = 8
"#;

#[test]
fn a_server_is_started_set_up_flushed_restarted_and_stopped_by_an_experiment() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("served.toml");
    std::fs::write(&file, SERVED).unwrap();
    let results = directory.path().join("results");
    let output = lab(&["run", file.to_str().unwrap(), "--results", results.to_str().unwrap()]);
    assert!(output.status.success(), "{}", text_of(&output));
    let report = std::fs::read_to_string(run_in(&results).join("report.md")).unwrap();
    for row in ["| file_cache_size | 16MiB |", "| commitlog_sync | group |", "| sstables | 1 |"] {
        assert!(report.contains(row), "{row}: {report}");
    }
    assert!(report.contains("server_cpu_seconds") && report.contains("row_cache_hits"), "{report}");
}

/// The blocks of TOML in the document of the lab.
/// Creates certificates, and a file with the password of the default superuser; returns the
/// directory of the certificates and the file.
fn secrets(directory: &Path) -> (PathBuf, PathBuf) {
    use std::os::unix::fs::PermissionsExt;
    let (certificates, password) = (directory.join("certificates"), directory.join("password"));
    let created =
        Command::new(env!("CARGO_BIN_EXE_cassette")).arg("certificates").arg(&certificates).output().unwrap();
    assert!(created.status.success(), "{}", text_of(&created));
    std::fs::write(&password, "cassandra\n").unwrap();
    std::fs::set_permissions(&password, std::fs::Permissions::from_mode(0o600)).unwrap();
    (certificates, password)
}

#[test]
fn an_experiment_logs_in_to_its_server_over_tls_and_reads_its_metrics() {
    let directory = tempfile::tempdir().unwrap();
    let (certificates, password) = secrets(directory.path());
    let certificates = certificates.display();
    let security = format!(
        "kind = \"served\"\nuser = \"cassandra\"\npassword-file = {:?}\ntls-ca = \"{certificates}/ca.pem\"\n\
         tls-certificate = \"{certificates}/client.pem\"",
        password.display().to_string()
    );
    let options = format!(
        "[configuration.options]\nauthenticator = \"PasswordAuthenticator\"\n\
         client_encryption_options = \"{{enabled: true, keystore: {certificates}/server.pem, \
         truststore: {certificates}/ca.pem, require_client_auth: true}}\""
    );
    let text = SERVED.replace("kind = \"served\"", &security).replace("[configuration.options]", &options);
    let file = directory.path().join("served.toml");
    std::fs::write(&file, text).unwrap();
    let results = directory.path().join("results");
    let output = lab(&["run", file.to_str().unwrap(), "--results", results.to_str().unwrap()]);
    assert!(output.status.success(), "{}", text_of(&output));
    let report = std::fs::read_to_string(run_in(&results).join("report.md")).unwrap();
    assert!(report.contains("| sstables | 1 |"), "the metrics of the server: {report}");
}

#[test]
fn a_log_is_replayed_on_a_server_with_tls_and_passwords() {
    let directory = tempfile::tempdir().unwrap();
    let (certificates, password) = secrets(directory.path());
    let certificates = certificates.display();
    let server = support::Launch::new(&directory.path().join("data"))
        .config(&format!(
            "authenticator: PasswordAuthenticator\nclient_encryption_options:\n  enabled: true\n  \
             keystore: {certificates}/server.pem\n"
        ))
        .start();
    let log = directory.path().join("log");
    let query = LoggedQuery {
        started_micros: 1_795_443_842_000_000,
        duration_micros: 1,
        connection: 1,
        protocol_version: 5,
        consistency: 1,
        serial_consistency: None,
        page_size: None,
        is_next_page: false,
        timestamp: None,
        now_in_seconds: None,
        keyspace: None,
        batch: None,
        statements: vec![LoggedStatement {
            query:
                "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
                    .to_owned(),
            is_prepared: false,
            values: LoggedValues::Positional(Vec::new()),
        }],
    };
    {
        let (fs, clock) = (Arc::new(RealFileSystem), Arc::new(SystemClock::new()));
        let log = Log::open(fs, clock, Kind::Queries, Options::new(&log)).unwrap();
        assert!(log.push(query.encode(), Full::Wait));
    }
    let target = server.address().to_string();
    let replay = |more: &[&str]| {
        let words = ["replay", log.to_str().unwrap(), "--target", &target, "--speed", "max"];
        lab(&[&words[..], more].concat())
    };
    let ca = format!("{certificates}/ca.pem");
    let password = password.to_str().unwrap();
    assert!(!replay(&["--tls-ca", &ca]).status.success(), "without a password");
    assert!(!replay(&["--user", "cassandra", "--password-file", password]).status.success(), "without TLS");
    let output = replay(&["--tls-ca", &ca, "--user", "cassandra", "--password-file", password]);
    assert!(output.status.success(), "{}", text_of(&output));
}

fn documented() -> Vec<&'static str> {
    let document = include_str!("../../../docs/laboratory.md");
    let blocks = document.split("\n```toml\n").skip(1);
    blocks.map(|block| block.split("\n```\n").next().unwrap()).collect()
}

#[test]
fn the_experiments_of_the_document_run() {
    let blocks = documented();
    let [experiment, workload] = blocks[..] else { panic!("expected two blocks, found {}", blocks.len()) };
    let on_statements = format!(
        "name = 'statements'\nrepeats = 1\n[[engine]]\nkind = 'embedded'\n[[configuration]]\nname = 'one'\n\
         {workload}\n[[phase]]\nload = 'users'\n[[phase]]\nrun = 'users'\nthreads = 4\nseconds = 60\n"
    );
    assert!(experiment.contains("\nrepeats = 5 "), "{experiment}");
    let once = experiment.replacen("\nrepeats = 5 ", "\nrepeats = 1 ", 1);
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in [("caches", once), ("statements", on_statements)] {
        let (file, results) = (directory.path().join(name), directory.path().join("results").join(name));
        std::fs::write(&file, text).unwrap();
        let (file, results_of) = (file.to_str().unwrap(), results.to_str().unwrap());
        let output = lab(&["run", file, "--scale", "0.005", "--engine", "embedded", "--results", results_of]);
        assert!(output.status.success(), "{name}: {}", text_of(&output));
        let report = std::fs::read_to_string(run_in(&results).join("report.md")).unwrap();
        assert!(!report.contains("Not finished"), "{report}");
        for part in std::fs::read_dir(run_in(&results).join("parts")).unwrap() {
            let part = std::fs::read(part.unwrap().path()).unwrap();
            let part: serde_json::Value = serde_json::from_slice(&part).unwrap();
            for phase in part["phases"].as_array().unwrap() {
                let failed = phase.get("statistics").map(|found| found["report"]["failed"].as_u64().unwrap());
                assert!(failed == Some(0) || phase["name"] == "flush", "{name}: {phase}");
            }
        }
    }
}

const LONG: &str = r#"
name = "long"
repeats = 3
[[engine]]
kind = "noop"
[[configuration]]
name = "one"
[[configuration]]
name = "two"
[[workload]]
name = "a"
ycsb = "a"
properties = { recordcount = 100 }
[[phase]]
run = "a"
seconds = 0.5
"#;

#[test]
fn a_run_that_is_killed_goes_on_where_it_was_and_repeats_no_finished_part() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("long.toml");
    std::fs::write(&file, LONG).unwrap();
    let results = directory.path().join("results");
    let mut child = Command::new(env!("CARGO_BIN_EXE_cassette"))
        .args(["lab", "run", file.to_str().unwrap(), "--results", results.to_str().unwrap()])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let started = Instant::now();
    let finished = || {
        let runs = std::fs::read_dir(&results).into_iter().flatten().flatten();
        let parts =
            runs.filter_map(|run| std::fs::read_dir(run.path().join("parts")).ok()).flatten().flatten();
        let mut parts: Vec<PathBuf> = parts
            .map(|part| part.path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
            .collect();
        parts.sort();
        parts
    };
    while finished().len() < 2 {
        assert!(started.elapsed() < Duration::from_secs(60), "no part was finished within a minute");
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();

    let before: Vec<(PathBuf, Vec<u8>)> =
        finished().into_iter().map(|path| (path.clone(), std::fs::read(path).unwrap())).collect();
    assert!(before.len() < 6, "it was killed too late to show anything");
    for (path, bytes) in &before {
        let whole: serde_json::Value = serde_json::from_slice(bytes).unwrap();
        assert!(whole["phases"].is_array(), "{} is half-written", path.display());
    }
    let output = lab(&["resume", "last", "--results", results.to_str().unwrap()]);
    assert!(output.status.success(), "{}", text_of(&output));
    assert_eq!(finished().len(), 6);
    for (path, bytes) in before {
        assert_eq!(std::fs::read(&path).unwrap(), bytes, "{} was measured again", path.display());
    }
    let report = std::fs::read_to_string(run_in(&results).join("report.md")).unwrap();
    assert!(!report.contains("Not finished"), "{report}");
}

/// The server that process `parent` has started, if it has.
fn server_of(parent: u32) -> Option<u32> {
    std::fs::read_dir("/proc").unwrap().flatten().find_map(|entry| {
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        // pid (comm) state ppid …
        let of = stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse::<u32>().ok()?;
        let command = std::fs::read(entry.path().join("cmdline")).ok()?;
        let serves = command.split(|byte| *byte == 0).any(|word| word == b"serve");
        (of == parent && serves).then(|| entry.file_name().to_str()?.parse().ok())?
    })
}

/// Returns whether a name in `directory` or its subdirectories has this prefix.
fn find(directory: &Path, begins: &str) -> bool {
    std::fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .any(|entry| entry.file_name().to_string_lossy().starts_with(begins) || find(&entry.path(), begins))
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < Duration::from_secs(120), "{what}: not within two minutes");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_server_that_is_killed_in_mid_run_ends_the_part_and_one_whose_laboratory_is_killed_ends() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("served.toml");
    // The last phase continues until it is interrupted; and the server is not started again before.
    let text_of_file =
        SERVED.replace("action = \"restart\"", "wait = 0").trim_end().to_owned() + "\nseconds = 300\n";
    std::fs::write(&file, text_of_file).unwrap();
    for kill_the_server in [true, false] {
        let results = directory.path().join(format!("results-{kill_the_server}"));
        let log = directory.path().join("log");
        let mut child = Command::new(env!("CARGO_BIN_EXE_cassette"))
            .args(["lab", "run", file.to_str().unwrap(), "--results", results.to_str().unwrap()])
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let mut server = None;
        wait_until("a server", || {
            server = server_of(child.id());
            server.is_some()
        });
        let server = server.unwrap();
        // Once it serves, it has tables.
        let served = || run_in(&results).join("data/served/data");
        wait_until("a table", || find(&served(), "usertable"));
        let status = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let is_over = |pid: u32| status(pid).is_empty() || status(pid).contains(") Z ");
        if kill_the_server {
            let killed = Command::new("kill").args(["-9", &server.to_string()]).status().unwrap();
            assert!(killed.success());
            assert_eq!(child.wait().unwrap().code(), Some(1));
            let said = std::fs::read_to_string(&log).unwrap();
            assert!(said.contains("part 1 (served, leveled) stopped: "), "{said}");
            assert!(!run_in(&results).join("parts/0001.json").exists());
        } else {
            child.kill().unwrap();
            child.wait().unwrap();
            wait_until("the server's end", || is_over(server));
        }
    }
}

#[test]
fn a_run_that_another_process_works_on_is_left_to_it() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("long.toml");
    std::fs::write(&file, LONG.replace("seconds = 0.5", "seconds = 300")).unwrap();
    let results = directory.path().join("results");
    let mut child = Command::new(env!("CARGO_BIN_EXE_cassette"))
        .args(["lab", "run", file.to_str().unwrap(), "--results", results.to_str().unwrap()])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let started = || {
        std::fs::read_dir(&results)
            .is_ok_and(|mut runs| runs.any(|run| run.unwrap().path().join("data").exists()))
    };
    wait_until("a run", started);
    let output = lab(&["resume", "last", "--results", results.to_str().unwrap()]);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text_of(&output));
    assert!(text_of(&output).contains("another process works on"), "{}", text_of(&output));
}

#[test]
fn what_cannot_be_run_is_told_in_one_sentence_with_the_line_or_the_address() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("wrong.toml");
    let results = directory.path().join("results");
    for (text_of_file, words) in [
        (LONG.replace("seconds", "secunds"), "line 16, column 1"),
        (LONG.replace("kind = \"noop\"", "kind = \"nosuch\""), "line 5, column 8"),
        (LONG.to_owned() + "[matrix]\nx = []\n", "the matrix would be empty"),
        (LONG.replace("name = \"one\"", "name = \"one\"\noptions = { x = 1 }"), "line 8, column 13"),
        (SERVED.replace("row_cache_size", "row_cash_size"), "no option row_cash_size"),
        (SERVED.replace("\"group\"", "\"sometimes\""), "expected periodic, group or batch"),
        (LONG.replace("kind = \"noop\"", "kind = \"cql\"\ncontact = [\"127.0.0.1:1\"]"), "127.0.0.1:1"),
    ] {
        std::fs::write(&file, &text_of_file).unwrap();
        let output = lab(&["run", file.to_str().unwrap(), "--results", results.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(1), "{words}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(words), "{words}: {}", text_of(&output));
        assert_eq!(said.lines().count(), 1, "{said}");
        let left = std::fs::read_dir(&results).map_or(0, Iterator::count);
        assert_eq!(left, 0, "a run of which nothing was measured is left: {words}");
    }
}
