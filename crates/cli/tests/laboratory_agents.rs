//! `cassette lab agent` and `cassette lab run --agent` as users run them: several processes.

mod support;

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Instant;

use support::{Launch, PATIENCE};

const EXPERIMENT: &str = r#"
name = "cluster"
repeats = 1
[[engine]]
kind = "cql"
contact = ["CONTACT"]
[[workload]]
name = "d"
ycsb = "d"
properties = { recordcount = 300, operationcount = 600, dataintegrity = true }
[[workload]]
name = "users"
properties = { recordcount = 100, operationcount = 200 }
schema = [
  "CREATE KEYSPACE IF NOT EXISTS lab WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
  "CREATE TABLE lab.users (id text PRIMARY KEY, email text){with}",
]
drop = ["DROP TABLE IF EXISTS lab.users"]
[workload.values]
id = { type = "text", from = "number", format = "user{}" }
email = { type = "text", length = 12 }
[workload.insert]
cql = "INSERT INTO lab.users (id, email) VALUES (:id, :email)"
[[workload.operation]]
name = "read"
cql = "SELECT email FROM lab.users WHERE id = :id"
consistency = "ONE"
expect = "rows"
[[phase]]
load = "d"
threads = 4
[[phase]]
run = "d"
threads = 4
[[phase]]
load = "users"
threads = 4
[[phase]]
run = "users"
threads = 4
"#;

/// An agent's process, killed when dropped.
struct Agent {
    child: Child,
    address: String,
}

impl Agent {
    fn start(token: &Path, more: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_cassette"))
            .args(["lab", "agent", "--listen", "127.0.0.1:0", "--token-file"])
            .arg(token)
            .args(more)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        let address = line.trim_end().rsplit_once(" listens on ").unwrap().1.to_owned();
        // Keeps reading, so that the agent never blocks on its output.
        std::thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
        Self { child, address }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn written(path: PathBuf, content: &str, mode: u32) -> PathBuf {
    std::fs::write(&path, content).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    path
}

/// A server, and an experiment on it.
struct Setup {
    server: support::Server,
    token: PathBuf,
    file: PathBuf,
    results: PathBuf,
    directory: tempfile::TempDir,
}

impl Setup {
    fn new(experiment: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let token = written(path.join("token"), "0123456789abcdef\n", 0o600);
        let server = Launch::new(&path.join("data")).in_memory().start();
        let text = experiment.replace("CONTACT", &server.address().to_string());
        let file = written(path.join("cluster.toml"), &text, 0o600);
        Self { server, token, file, results: path.join("results"), directory }
    }
}

fn text_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Returns the directory of the only run in `results`, once it exists.
fn run_in(results: &Path) -> Option<PathBuf> {
    Some(std::fs::read_dir(results).ok()?.next()?.ok()?.path())
}

fn lab_run(file: &Path, results: &Path, token: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cassette"));
    command.args(["lab", "run"]).arg(file).arg("--results").arg(results);
    command.args(["--accept-disturbed", "--agent-token-file"]).arg(token).args(more);
    command
}

#[test]
fn an_experiment_runs_on_agents_and_reports_them_and_the_server_that_one_observes() {
    let Setup { token, file, results, server, .. } = &Setup::new(EXPERIMENT);
    let (one, two) = (Agent::start(token, &[]), Agent::start(token, &[]));
    let observer = Agent::start(token, &["--observe", &server.id().to_string()]);
    let agents = format!("{},{}", one.address, two.address);
    let more = ["--agent", &agents, "--observe", &observer.address];
    let output = lab_run(file, results, token, &more).output().unwrap();
    assert!(output.status.success(), "{}", text_of(&output));
    let run = run_in(results).unwrap();
    let report = std::fs::read_to_string(run.join("report.md")).unwrap();
    for words in [
        "## Agents",
        &one.address,
        &two.address,
        "one node; replication lab {\"class\": \"SimpleStrategy\"",
        "consistency QUORUM; consistency of statements ONE; token awareness none",
    ] {
        assert!(report.contains(words), "{words}: {report}");
    }
    let part = std::fs::read(run.join("parts/0001.json")).unwrap();
    let part: serde_json::Value = serde_json::from_slice(&part).unwrap();
    for (phase, operations) in part["phases"].as_array().unwrap().iter().zip([300, 600, 100, 200]) {
        let report = &phase["statistics"]["report"];
        assert_eq!((&report["operations"], &report["failed"]), (&operations.into(), &0.into()), "{report}");
        assert_eq!(report["agents"].as_array().unwrap().len(), 2);
        let processes = report["processes"].as_array().unwrap();
        let roles: Vec<&str> = processes.iter().map(|process| process["role"].as_str().unwrap()).collect();
        assert_eq!(roles, ["server", "laboratory", "laboratory"]);
        assert_eq!(processes[0]["pid"], server.id());
    }
    let stored = std::fs::read_to_string(run.join("run.json")).unwrap();
    assert!(!stored.contains("0123456789abcdef") && stored.contains("token"), "{stored}");
}

#[test]
fn an_agent_that_is_killed_ends_the_run_without_a_result() {
    let long = EXPERIMENT.replacen("run = \"d\"\nthreads = 4", "run = \"d\"\nthreads = 4\nseconds = 300", 1);
    let Setup { directory, token, file, results, .. } = &Setup::new(&long);
    let (one, two) = (Agent::start(token, &[]), Agent::start(token, &[]));
    let agents = format!("{},{}", one.address, two.address);
    let log = directory.path().join("log");
    let mut run = lab_run(file, results, token, &["--agent", &agents])
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    // The part has begun; in which phase does not matter.
    while run_in(results).is_none_or(|run| !run.join("data").exists()) {
        assert!(begun.elapsed() < PATIENCE, "no part began");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let killed = one.address.clone();
    drop(one);
    assert_eq!(run.wait().unwrap().code(), Some(1));
    let said = std::fs::read_to_string(&log).unwrap();
    assert!(said.contains(&format!("agent {killed}")), "{said}");
    let part = run_in(results).map(|run| run.join("parts/0001.json"));
    assert!(part.is_none_or(|part| !part.exists()));
    drop(two);
}

#[test]
fn an_agent_without_a_token_and_a_run_with_another_one_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let agent = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cassette"));
        text_of(&command.args(["lab", "agent"]).args(arguments).output().unwrap())
    };
    let text = agent(&["--listen", "0.0.0.0:0"]);
    assert!(text.contains("--token-file"), "{text}");
    let open = written(directory.path().join("open"), "0123456789abcdef\n", 0o644);
    let text = agent(&["--token-file", open.to_str().unwrap()]);
    assert!(text.contains("chmod 600"), "{text}");

    let token = written(directory.path().join("token"), "0123456789abcdef\n", 0o600);
    let other = written(directory.path().join("other"), "0123456789abcdeF\n", 0o600);
    let running = Agent::start(&token, &[]);
    let text = EXPERIMENT.replace("CONTACT", "127.0.0.1:1");
    let file = written(directory.path().join("cluster.toml"), &text, 0o600);
    let results = directory.path().join("results");
    let output = lab_run(&file, &results, &other, &["--agent", &running.address]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text_of(&output).contains("the driver's token is not the agent's"), "{}", text_of(&output));
    let served = written(directory.path().join("served.toml"), &text.replace("\"cql\"", "\"served\""), 0o600);
    let output = lab_run(&served, &results, &token, &["--agent", &running.address]).output().unwrap();
    assert!(text_of(&output).contains("expected kind cql"), "{}", text_of(&output));
    assert!(!results.exists(), "nothing began");
}
