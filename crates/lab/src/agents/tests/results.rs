//! Tests of phases without a result.

use super::super::{AgentWork, ClientSpec, Keys};
use super::*;

#[test]
fn an_agent_that_cannot_reach_the_server_fails_the_phase_with_its_reason() {
    let agents = connect(&[agent(0).0]).unwrap();
    let work = AgentWork {
        client: ClientSpec {
            contacts: vec!["127.0.0.1:1".into()],
            connections: 1,
            protocol: 5,
            keyspace: "ycsb".into(),
            consistency: "ONE".into(),
            login: false,
            tls: false,
        },
        properties: std::collections::BTreeMap::new(),
        statements: None,
        kind_names: Vec::new(),
        keys: Keys::Load(0),
        seed: 1,
    };
    let plan = PhasePlan {
        name: "load".into(),
        repeat: 1,
        in_flight: 1,
        operations: Some(10),
        time: None,
        rate: None,
        spin: false,
        server_pids: Vec::new(),
        remote_servers: Vec::new(),
        series: false,
    };
    let target = crate::engine::Threads(crate::engine::noop::Noop);
    let measure =
        |work: &AgentWork| agents.measure(&plan, work, &target, &Quiet).map(drop).unwrap_err().to_string();
    let error = measure(&work);
    assert!(error.starts_with("agent 127.0.0.1:") && error.contains("connecting to 127.0.0.1:1"), "{error}");
    assert!(measure(&work).contains("closed after an error"));
    // What the agent lacks is known before it connects.
    for (login, tls, option) in [(true, false, "--user"), (false, true, "--tls-ca")] {
        let agents = connect(&[agent(0).0]).unwrap();
        let client = ClientSpec { login, tls, ..work.client.clone() };
        let work = AgentWork { client, ..work.clone() };
        let error = agents.measure(&plan, &work, &target, &Quiet).map(drop).unwrap_err().to_string();
        assert!(error.contains(option), "{error}");
    }
}

#[test]
fn an_agent_that_disappears_fails_the_phase_and_no_result_is_kept() {
    let fake = Arc::new(Fake::default());
    let phases = "
[[phase]]
load = \"a\"
threads = 2
[[phase]]
run = \"c\"
threads = 2
seconds = 300
";
    // At the start of the run; the other agent then ends long before its time. It reads half of its
    // records in vain, because no agent has loaded them.
    let mut jobs = 0;
    let dying = scripted(TOKEN, VERSION, move |message| match message {
        ToAgent::Job(_) => {
            jobs += 1;
            Some(FromAgent::Ready)
        }
        ToAgent::Start { .. } if jobs == 1 => Some(FromAgent::Finished(Box::new(finished(150)))),
        _ => None,
    });
    let (lasting, log) = agent(0);
    let agents = connect(&[lasting, dying]).unwrap();
    let result = run(&fake.serve(), phases, &agents);
    let stopped = result.stopped.clone().unwrap();
    let expected = format!("run c: agent {dying}: run c: the connection was closed");
    assert!(stopped.starts_with(&expected), "{stopped}");
    assert_eq!(statistics(&result).len(), 1, "the phase has no result");
    wait_for_line(&log, "stopped: agent ");
}

#[test]
fn impossible_results_of_an_agent_fail_the_phase() {
    let fake = Arc::new(Fake::default());
    let contact = fake.serve();
    let phases = "[[phase]]\nload = \"a\"\n";
    type Answer = fn() -> FromAgent;
    let negative: Answer = || {
        let finished = Finished { seconds: -1.0, ..finished(1) };
        FromAgent::Finished(Box::new(finished))
    };
    let huge: Answer = || FromAgent::Finished(Box::new(finished(u64::MAX)));
    let bucket: Answer = || {
        let progress = serde_json::json!({ "buckets": [[60000, 1]], "failures": 0 });
        FromAgent::Progress(serde_json::from_value(progress).unwrap())
    };
    let early: Answer = || FromAgent::Ready;
    for (wrong, words) in [
        (negative, "negative"),
        (huge, "than a phase can have"),
        (bucket, "counted nowhere"),
        (early, "out of place"),
    ] {
        let address = scripted(TOKEN, VERSION, move |message| match message {
            ToAgent::Job(_) => Some(FromAgent::Ready),
            _ => Some(wrong()),
        });
        let result = run(&contact, phases, &connect(&[address]).unwrap());
        let stopped = result.stopped.clone().unwrap();
        assert!(stopped.contains(words), "{stopped}");
        assert!(statistics(&result).is_empty());
    }
}
