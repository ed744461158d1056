//! Tests of phases that agents execute together.

use super::*;

#[test]
fn merged_results_are_the_sums_of_the_agents_and_no_key_is_inserted_twice() {
    let fake = Arc::new(Fake::default());
    let agents = connect(&[agent(0).0, agent(-20_000).0, agent(20_000).0]).unwrap();
    assert!(agents.descriptions()[0].contains(" processors"));
    let phases = "
[[phase]]
load = \"a\"
threads = 5
[[phase]]
run = \"d\"
threads = 5
[[phase]]
run = \"d\"
threads = 3
[[phase]]
run = \"a\"
threads = 4
rate = 4000
";
    let result = run(&fake.serve(), phases, &agents);
    assert_eq!(result.stopped, None);
    let statistics = statistics(&result);
    let mut inserted = 0;
    for (phase, operations) in statistics.iter().zip([300, 1000, 1000, 1000]) {
        let report = &phase.report;
        assert_eq!((report.operations, report.failed), (operations, 0), "{:?}", report.failures);
        assert_eq!(report.agents.len(), 3);
        assert_eq!(report.agents.iter().map(|agent| agent.operations).sum::<u64>(), operations);
        assert!(report.agents.iter().all(|agent| agent.operations >= operations / 5), "{:?}", report.agents);
        let counted: u64 = report.latencies.values().map(|latency| latency.response.count).sum();
        assert_eq!(counted, operations);
        inserted += report.latencies.get("INSERT").map_or(0, |latency| latency.response.count);
        assert_eq!(report.processes.len(), 3, "those of the agents, not the driver's");
        let slowest = report.agents.iter().map(|agent| agent.seconds).fold(0.0, f64::max);
        assert!((report.seconds - slowest).abs() < 1e-6);
    }
    // Records of one key would be one; a read of a key that no agent inserted would be a failure.
    assert_eq!(fake.records.lock().unwrap().len() as u64, inserted);
    assert!(inserted > 700, "{inserted}");
    let open = &statistics[3].report;
    assert!(open.seconds >= 0.24 && open.latencies["READ"].service.is_some(), "{}", open.seconds);
    for (agent, ahead_ms) in open.agents.iter().zip([0.0, -20.0, 20.0]) {
        assert!((agent.clock_ahead_ms - ahead_ms).abs() <= agent.clock_uncertainty_ms + 0.01, "{agent:?}");
    }
}

#[test]
fn failures_of_operations_are_merged_and_too_many_stop_all_agents() {
    let fake = Arc::new(Fake { refuse_updates: true, ..Fake::default() });
    let agents = connect(&[agent(0).0, agent(0).0]).unwrap();
    let phases = "
[[phase]]
load = \"a\"
threads = 2
[[phase]]
run = \"a\"
threads = 2
";
    let result = run(&fake.serve(), phases, &agents);
    let report = &statistics(&result)[1].report;
    assert_eq!(report.failures["Overloaded"].count, report.failed);
    assert_eq!(report.failed + report.operations, 1000);
    assert_eq!(report.agents.iter().map(|agent| agent.failed).sum::<u64>(), report.failed);
    // The server closes the connections of one phase.
    let fake = Arc::new(Fake { close_after: Some(100), ..Fake::default() });
    let result = run(&fake.serve(), phases, &agents);
    let stopped = result.stopped.clone().unwrap();
    assert!(stopped.contains("agent 127.0.0.1:") && stopped.contains("connection lost"), "{stopped}");
}

#[test]
fn the_process_of_a_server_on_another_machine_is_observed_with_load_from_here() {
    let fake = Arc::new(Fake::default());
    let token = token(TOKEN);
    let pid = std::process::id();
    let (observer, _) = started(0, AgentLogin::default(), Some(pid));
    let agents = connect(&[]).unwrap().observing(&[observer.to_string()], &token).unwrap();
    assert_eq!(agents.descriptions(), [format!("agent {observer} observes process {pid}")]);
    let result = run(&fake.serve(), "[[phase]]\nload = \"a\"\nthreads = 2\n", &agents);
    assert_eq!(result.stopped, None);
    let report = &statistics(&result)[0].report;
    assert_eq!((report.operations, report.agents.len()), (300, 0));
    let roles: Vec<&str> = report.processes.iter().map(|process| process.role.as_str()).collect();
    assert_eq!(roles, ["server", "laboratory"]);
    assert!(report.processes[0].pid == pid && report.processes[0].rss_bytes_max > 0);
    assert_eq!(report.processes[0].host, Some(observer.to_string()));
    drop(agents);

    let idle = scripted(TOKEN, VERSION, |_| None);
    let error = connect(&[]).unwrap().observing(&[idle.to_string()], &token).unwrap_err().to_string();
    assert!(error.contains("--observe"), "{error}");
}
