//! Tests of peers that are refused.

use std::io::Read;

use super::super::message::GREETING_LENGTH_MAX;
use super::*;

/// A connection to an agent, without a driver.
struct Raw(BufReader<TcpStream>);

impl Raw {
    fn open(address: SocketAddr) -> (Self, String) {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let mut raw = Self(BufReader::new(stream));
        let FromAgent::Greeting { challenge, protocol: PROTOCOL, version } = raw.next() else {
            panic!("no greeting")
        };
        assert_eq!(version, VERSION);
        (raw, challenge)
    }

    fn send(&mut self, bytes: &[u8]) {
        self.0.get_mut().write_all(bytes).unwrap();
    }

    fn hello(&mut self, token_text: &str, agent_challenge: &str, protocol: u32, version: &str) {
        let proof = Side::Driver.proof(&token(token_text), agent_challenge, "mine");
        let (version, challenge) = (version.to_owned(), "mine".to_owned());
        let hello = ToAgent::Hello { protocol, version, challenge, proof };
        self.send(&[&serde_json::to_vec(&hello).unwrap()[..], b"\n"].concat());
    }

    fn next(&mut self) -> FromAgent {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line:?}: {error}"))
    }

    /// Returns why it was refused; the connection must be closed then.
    fn refused(mut self) -> String {
        let FromAgent::Refused { reason } = self.next() else { panic!("accepted") };
        let mut rest = Vec::new();
        self.0.read_to_end(&mut rest).unwrap();
        assert!(rest.is_empty());
        reason
    }
}

#[test]
fn peers_without_the_token_or_with_other_versions_or_endless_lines_are_refused() {
    let (address, log) = agent(0);
    let refused = |act: &dyn Fn(&mut Raw, &str)| {
        let (mut raw, challenge) = Raw::open(address);
        act(&mut raw, &challenge);
        raw.refused()
    };
    let wrong = "token is not the agent's";
    assert!(refused(&|raw, challenge| raw.hello(OTHER_TOKEN, challenge, PROTOCOL, VERSION)).contains(wrong));
    let replayed = "0123456789abcdef0123456789abcdef";
    assert!(refused(&|raw, _| raw.hello(TOKEN, replayed, PROTOCOL, VERSION)).contains(wrong));
    let mismatch = refused(&|raw, challenge| raw.hello(TOKEN, challenge, PROTOCOL, "0.0.1"));
    assert!(mismatch.contains("version mismatch") && mismatch.contains("0.0.1"), "{mismatch}");
    let mismatch = refused(&|raw, challenge| raw.hello(TOKEN, challenge, PROTOCOL + 1, VERSION));
    assert!(mismatch.contains("version mismatch"), "{mismatch}");
    let long = refused(&|raw, _| raw.send(&vec![b'x'; GREETING_LENGTH_MAX + 1]));
    assert!(long.contains("longer than"), "{long}");
    assert!(refused(&|raw, _| raw.send(b"\"clock\"\n")).contains("proof of the token first"));
    assert!(refused(&|raw, _| raw.send(b"{\"\x1b[2Jhello\"}\n")).contains("invalid message"));
    let told = log.lock().unwrap();
    assert!(told.iter().all(|line| line.contains("refused") && !line.contains('\x1b')), "{told:?}");
}

#[test]
fn an_agent_without_the_token_or_of_another_version_is_refused() {
    let error = connect(&[scripted(OTHER_TOKEN, VERSION, |_| None)]).unwrap_err();
    assert!(error.contains("token is not the driver's"), "{error}");
    let error = connect(&[scripted(TOKEN, "9.9.9", |_| None)]).unwrap_err();
    assert!(error.contains("version mismatch") && error.contains("9.9.9"), "{error}");
    let agents = connect(&[scripted(TOKEN, VERSION, |_| None)]).unwrap();
    assert!(agents.descriptions()[0].contains(" on x, "), "without control characters");
}

#[test]
fn clocks_beyond_the_bound_are_refused() {
    for ahead_us in [-5_000_000, 150_000] {
        let error = connect(&[agent(0).0, agent(ahead_us).0]).unwrap_err();
        assert!(error.contains("synchronize the clocks"), "{error}");
    }
}

#[test]
fn an_agent_beside_a_server_executes_no_operations() {
    let (address, _) = started(0, AgentLogin::default(), Some(std::process::id()));
    assert!(connect(&[address]).unwrap_err().contains("executes no operations"));
    // Whatever a driver sends.
    let until = Instant::now() + PATIENCE;
    let mut raw = loop {
        let (mut raw, challenge) = Raw::open(address);
        raw.hello(TOKEN, &challenge, PROTOCOL, VERSION);
        match raw.next() {
            FromAgent::Welcome { .. } => break raw,
            // The end of the first connection reaches the agent at some time.
            FromAgent::Refused { reason } => {
                assert!(reason.contains("another driver") && Instant::now() < until, "{reason}");
            }
            other => panic!("{other:?}"),
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let job = ToAgent::Job(Box::new(super::super::job::tests::job()));
    raw.send(&[&serde_json::to_vec(&job).unwrap()[..], b"\n"].concat());
    let FromAgent::Failed { reason } = raw.next() else { panic!("accepted") };
    assert!(reason.contains("executes no operations"), "{reason}");
}

#[test]
fn one_driver_at_a_time_uses_an_agent_and_leaves_it_to_the_next_one() {
    let (address, log) = agent(0);
    let first = connect(&[address]).unwrap();
    let error = connect(&[address]).unwrap_err();
    assert!(error.contains("another driver"), "{error}");
    assert!(connect(&[address, address]).unwrap_err().contains("listed twice"));
    let (observer, _) = started(0, AgentLogin::default(), Some(std::process::id()));
    let twice = connect(&[]).unwrap().observing(&[observer.to_string(), observer.to_string()], &token(TOKEN));
    assert!(twice.unwrap_err().to_string().contains("listed twice"));
    drop(first);
    let until = Instant::now() + PATIENCE;
    // The end of the first connection reaches the agent at some time.
    while let Err(error) = connect(&[address]) {
        assert!(error.contains("another driver") && Instant::now() < until, "{error}");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(log.lock().unwrap().iter().any(|line| line.ends_with(" left")));
}
