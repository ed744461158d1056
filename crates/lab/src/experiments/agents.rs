//! Experiments whose operations agents execute.

use super::engines;
use super::file::ExperimentFile;
use super::perform::ReadyWorkload;
use super::plan::{Plan, Setup};
use crate::LabError;
use crate::agents::{AgentWork, Keys};
use crate::benchmark::owned;
use crate::engine::EngineKind;

/// Checks that so many agents can execute a plan, or with 0 that processes of its servers can be
/// observed.
///
/// # Errors
/// If they cannot reach an engine, or a phase has fewer threads than there are agents.
pub fn check(file: &ExperimentFile, plan: &Plan, agents: usize) -> Result<(), LabError> {
    for setup in &plan.setups {
        if setup.engine.kind() != Some(EngineKind::Cql) {
            return Err(LabError::Usage(format!(
                "agents cannot drive the engine {}, which is of kind {}: expected kind cql, a server that they \
                 reach at its contact; select engines with --engine",
                setup.engine.label(),
                setup.engine.kind.get_ref()
            )));
        }
    }
    for phase in file.phase.iter().map(|phase| phase.get_ref()) {
        let threads = phase.threads.unwrap_or(1);
        if phase.workload().is_some() && threads < agents {
            return Err(LabError::Usage(format!(
                "{}: {threads} threads cannot be divided among {agents} agents: expected at least {agents}",
                phase.label()
            )));
        }
    }
    Ok(())
}

/// Returns what agents execute.
pub(super) fn work(
    setup: &Setup,
    ready: &ReadyWorkload,
    keys: Keys,
    seed: u64,
) -> Result<AgentWork, LabError> {
    Ok(AgentWork {
        client: engines::agent_client(setup)?,
        properties: owned(ready.core().settings()),
        statements: ready.statement_spec().cloned(),
        kind_names: ready.kind_names(),
        keys,
        seed,
    })
}

#[cfg(test)]
mod tests {
    use super::super::file::tests::NOOP;
    use super::*;

    #[test]
    fn engines_that_agents_cannot_reach_and_too_few_threads_are_refused() {
        let check = |text: &str, agents: usize| {
            let file = ExperimentFile::parse(text).unwrap_or_else(|error| panic!("{error}"));
            let plan = Plan::new(&file, text, &[]).unwrap();
            check(&file, &plan, agents).map_err(|error| error.to_string())
        };
        let error = check(NOOP, 1).unwrap_err();
        assert!(error.contains("noop") && error.contains("kind cql"), "{error}");
        let text = NOOP.replace("\"noop\"", "\"cql\"\ncontact = [\"db:9042\"]");
        let error = check(&text, 2).unwrap_err();
        assert!(error.contains("load a: 1 threads"), "{error}");
        let text = text.replace("load = \"a\"", "load = \"a\"\nthreads = 2");
        assert_eq!(check(&text, 2), Ok(()));
        assert!(check(&text, 3).unwrap_err().contains("at least 3"));
    }
}
