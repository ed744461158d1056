//! Tests drivers and agents over loopback, against an in-memory CQL server.

mod peers;
mod phases;
mod results;

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cassette_tls::secret::Token;
use cassette_vfs::{Clock, SystemClock};

use super::job::AgentLogin;
use super::message::{AgentInfo, Finished, FromAgent, Side, ToAgent};
use super::{Agent, AgentSettings, Agents, PROTOCOL};
use crate::cql::tests::Fake;
use crate::experiments::perform::perform;
use crate::experiments::{ExperimentFile, PartResult, PhaseStatistics, Plan};
use crate::recording::LiveView;
use crate::results::PhaseReport;
use crate::run::{Observer, PhasePlan};

const VERSION: &str = env!("CARGO_PKG_VERSION");
const TOKEN: &str = "0123456789abcdef";
const OTHER_TOKEN: &str = "0123456789abcdeF";
/// How long to wait for what must happen.
const PATIENCE: Duration = Duration::from_secs(120);

struct Quiet;

impl Observer for Quiet {
    fn on_phase_start(&self, _: &PhasePlan) {}
    fn on_progress(&self, _: &LiveView) {}
    fn on_phase_end(&self, _: &PhaseReport) {}
}

/// A clock that differs from the machine's.
struct Skewed(i64);

impl Clock for Skewed {
    fn now_micros(&self) -> i64 {
        SystemClock::new().now_micros() + self.0
    }

    fn monotonic(&self) -> Duration {
        SystemClock::new().monotonic()
    }
}

fn token(text: &str) -> Token {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(0o600)).unwrap();
    Token::read(file.path()).unwrap()
}

/// What an agent logged.
type Lines = Arc<Mutex<Vec<String>>>;

/// Starts an agent whose clock is `ahead_us` ahead. Returns its address and its log.
fn agent(ahead_us: i64) -> (SocketAddr, Lines) {
    started(ahead_us, AgentLogin::default(), None)
}

fn started(ahead_us: i64, login: AgentLogin, observes: Option<u32>) -> (SocketAddr, Lines) {
    let log = Lines::default();
    let settings = AgentSettings {
        token: token(TOKEN),
        login,
        observes,
        clock: Arc::new(Skewed(ahead_us)),
        log: Box::new({
            let log = Arc::clone(&log);
            move |line| log.lock().unwrap().push(line.to_owned())
        }),
    };
    let agent = Agent::bind("127.0.0.1:0", settings).unwrap();
    let address = agent.address();
    std::thread::spawn(move || agent.serve());
    (address, log)
}

/// Waits until an agent has logged such a line.
fn wait_for_line(log: &Lines, words: &str) {
    let until = Instant::now() + PATIENCE;
    while !log.lock().unwrap().iter().any(|line| line.contains(words)) {
        assert!(Instant::now() < until, "{words}: {:?}", log.lock().unwrap());
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn connect(addresses: &[SocketAddr]) -> Result<Agents, String> {
    let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    let connected = Agents::connect(&addresses, &token(TOKEN), Arc::new(SystemClock::new()));
    connected.map_err(|error| error.to_string())
}

/// Runs `phases` on the server at `contact`.
fn run(contact: &str, phases: &str, agents: &Agents) -> PartResult {
    let text = format!(
        r#"
name = "agents"
[[engine]]
kind = "cql"
contact = ["{contact}"]
[[workload]]
name = "a"
ycsb = "a"
properties = {{ recordcount = 300, operationcount = 1000, dataintegrity = true }}
[[workload]]
name = "d"
ycsb = "d"
properties = {{ recordcount = 300, operationcount = 1000, dataintegrity = true, insertproportion = 0.3 }}
[[workload]]
name = "c"
ycsb = "c"
properties = {{ recordcount = 300, operationcount = 1000, dataintegrity = true }}
{phases}"#
    );
    let file = ExperimentFile::parse(&text).unwrap_or_else(|error| panic!("{error}"));
    let plan = Plan::new(&file, &text, &[]).unwrap();
    let part = &plan.parts[0];
    let data = tempfile::tempdir().unwrap();
    perform(&file, (plan.setup(part).unwrap(), part), 1.0, data.path(), Some(agents), &Quiet).unwrap()
}

fn statistics(result: &PartResult) -> Vec<&PhaseStatistics> {
    result.phases.iter().filter_map(|phase| phase.statistics.as_ref()).collect()
}

/// Serves one connection as an agent does, and answers each message by `answer` until that returns
/// `None`.
fn scripted(
    token_text: &'static str,
    version: &'static str,
    mut answer: impl FnMut(&ToAgent) -> Option<FromAgent> + Send + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut stream = BufReader::new(listener.accept().unwrap().0);
        let send = |stream: &mut BufReader<TcpStream>, message: &FromAgent| {
            let mut line = serde_json::to_vec(message).unwrap();
            line.push(b'\n');
            stream.get_mut().write_all(&line).unwrap();
        };
        let own = "challenge".to_owned();
        let greeting =
            FromAgent::Greeting { protocol: PROTOCOL, version: version.into(), challenge: own.clone() };
        send(&mut stream, &greeting);
        let mut line = String::new();
        while stream.read_line(&mut line).unwrap() > 0 {
            let message = serde_json::from_str(&line).unwrap();
            let answer = if let ToAgent::Hello { challenge, .. } = &message {
                let machine = crate::results::Machine::this();
                let name = "x\x1b".to_owned();
                let info = AgentInfo { name, machine, load: None, observes: None };
                let proof = Side::Agent.proof(&token(token_text), &own, challenge);
                FromAgent::Welcome { proof, info: Box::new(info) }
            } else if let ToAgent::Clock = message {
                FromAgent::Clock { now_us: SystemClock::new().now_micros() }
            } else if let Some(answer) = answer(&message) {
                answer
            } else {
                return;
            };
            send(&mut stream, &answer);
            line.clear();
        }
    });
    address
}

/// Results with so many operations.
fn finished(operations: u64) -> Finished {
    let records = serde_json::json!({
        "slices": [{ "operations": operations, "latencies": [] }], "failures": {},
        "operations": operations, "failed": 0, "rows": 0, "bytes": 0,
    });
    Finished {
        records: serde_json::from_value(records).unwrap(),
        seconds: 0.1,
        new_keys: 0,
        process: crate::results::ProcessReport::default(),
        disturbance: None,
        stopped: None,
    }
}
