//! The agents of a run, in reports.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::experiments::PartResult;
use crate::format::{grouped, rounded};
use crate::results::AgentReport;

/// An agent over all phases.
#[derive(Default)]
struct Sums {
    operations: u64,
    failed: u64,
    cpu_seconds: f64,
    seconds: f64,
    /// Of the phase with the largest difference.
    clock: (f64, f64),
}

/// Formats a table of the agents that executed the operations; empty without any.
pub(super) fn table(parts: &[PartResult]) -> String {
    let phases = parts.iter().flat_map(|part| &part.phases).filter_map(|phase| phase.statistics.as_ref());
    let mut agents: BTreeMap<&str, (&AgentReport, Sums)> = BTreeMap::new();
    for agent in phases.flat_map(|statistics| &statistics.report.agents) {
        let (_, sums) = agents.entry(&agent.address).or_insert_with(|| (agent, Sums::default()));
        sums.operations = sums.operations.saturating_add(agent.operations);
        sums.failed = sums.failed.saturating_add(agent.failed);
        sums.cpu_seconds += agent.process.cpu_seconds();
        sums.seconds += agent.seconds;
        if agent.clock_ahead_ms.abs() >= sums.clock.0.abs() {
            sums.clock = (agent.clock_ahead_ms, agent.clock_uncertainty_ms);
        }
    }
    if agents.is_empty() {
        return String::new();
    }
    let mut out = String::from(
        "\n## Agents\n\n\
         The operations were executed by these processes, which started each phase together; their records are merged. \
         The difference of the clocks is the largest one, with its uncertainty.\n\n\
         | agent | machine | Cassette | operations | failed | processors used by it | by others before the run \
         | clock ahead by |\n\
         |---|---|---|--:|--:|--:|--:|--:|\n",
    );
    for (address, (agent, sums)) in agents {
        let machine = &agent.machine;
        let text = |text: &str| text.replace('|', "\\|");
        let load = agent.load.as_ref().and_then(|load| load.other_processors);
        let _ = writeln!(
            out,
            "| {} ({}) | {}, {} processors, {:.1} GiB, {} | {} | {} | {} | {} | {} | {:.3} ms (± {:.3}) |",
            text(&agent.name),
            text(address),
            text(&machine.processor),
            machine.processors,
            machine.memory_bytes as f64 / (1u64 << 30) as f64,
            text(&machine.system),
            text(&agent.version),
            grouped(sums.operations),
            grouped(sums.failed),
            rounded(if sums.seconds > 0.0 { sums.cpu_seconds / sums.seconds } else { 0.0 }),
            load.map_or("-".to_owned(), rounded),
            sums.clock.0,
            sums.clock.1
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::analysis::tests::part;
    use crate::results::ProcessReport;

    #[test]
    fn agents_are_listed_once_with_their_sums() {
        let agent = |address: &str, clock_ahead_ms: f64| AgentReport {
            name: "load | 1".into(),
            clock_ahead_ms,
            process: ProcessReport { user_seconds: 1.0, ..ProcessReport::default() },
            ..AgentReport::of(address)
        };
        let mut parts = vec![part(1, "base", 1000.0), part(2, "base", 1000.0)];
        assert_eq!(table(&parts), "");
        for (part, ahead) in parts.iter_mut().zip([-3.5, 1.0]) {
            let statistics = part.phases[0].statistics.as_mut().unwrap();
            statistics.report.agents = vec![agent("10.0.0.1:7299", ahead), agent("10.0.0.2:7299", 0.0)];
        }
        let text = table(&parts);
        assert_eq!(text.matches("10.0.0.1:7299").count(), 1, "{text}");
        assert!(text.contains("| load \\| 1 (10.0.0.1:7299) |"), "{text}");
        assert!(text.contains("| 1.0 | 3,000 | 2 | 0.50 | - | -3.500 ms (± 0.250) |"), "{text}");
    }
}
