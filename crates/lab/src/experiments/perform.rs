//! Runs a part: creates the engine, runs the phases, and removes everything.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use toml::Spanned;

use super::file::{ActionSpec, ExperimentFile, OperationSpec, PhaseSpec, WorkloadSpec};
use super::plan::{Part, Setup};
use super::search::{RateSearch, Trial};
use super::store::{PartResult, PhaseResult, PhaseStatistics, Steady};
use super::{agents, engines};
use crate::LabError;
use crate::agents::{Agents, Keys};
use crate::recording::recorder::{slice_after, slice_start};
use crate::results::latency_reports;
use crate::run::{Action, Measured, Observer, PhasePlan, Rate, Second, Target};
use crate::statistics::warm_up::warm_up;
use crate::workload::spec::{OperationText, StatementSpec, StepText};
use crate::workload::{KeyBounds, KeySpace, OperationKind, StatementWorkload, StreamFactory, TableShape};
use crate::ycsb::CoreWorkload;

/// Duration of the closed loop before a search of rates.
const FIRST_TRIAL_SECONDS: f64 = 2.0;

/// A prepared workload of one setup.
#[derive(Debug, Clone)]
pub struct ReadyWorkload {
    core: CoreWorkload,
    statements: Option<Arc<StatementWorkload>>,
    /// The texts of the statements, for agents.
    spec: Option<StatementSpec>,
}

impl ReadyWorkload {
    /// Returns its properties.
    pub fn core(&self) -> &CoreWorkload {
        &self.core
    }

    /// Returns the texts of its statements, if it is a workload of statements.
    pub fn statement_spec(&self) -> Option<&StatementSpec> {
        self.spec.as_ref()
    }

    /// Returns the names of the kinds of operations that it defines.
    pub fn kind_names(&self) -> Vec<String> {
        self.statements.as_ref().map(|statements| statements.kind_names()).unwrap_or_default()
    }

    /// Returns the number of records that it loads.
    pub fn records(&self) -> u64 {
        self.core.insert_count()
    }

    /// Returns the maximum number of bytes of a record's values; `None` if statements determine it.
    pub fn record_bytes(&self) -> Option<u64> {
        let bytes = self.core.field_count.saturating_mul(self.core.field_length);
        self.statements.is_none().then_some(bytes as u64)
    }
}

/// Why a workload cannot be prepared.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct WorkloadError {
    /// Position of its table in the file.
    pub at: usize,
    /// The invalid property, if one is at fault.
    pub property: Option<String>,
    /// Description.
    pub error: LabError,
}

impl From<WorkloadError> for LabError {
    fn from(wrong: WorkloadError) -> Self {
        wrong.error
    }
}

/// Prepares the workloads of a setup. Counts and times are multiplied by `scale`.
pub fn workloads(
    file: &ExperimentFile,
    setup: &Setup,
    scale: f64,
) -> Result<BTreeMap<String, ReadyWorkload>, WorkloadError> {
    let ready = |spec: &Spanned<WorkloadSpec>| {
        let at = spec.span().start;
        let spec = spec.get_ref();
        let wrong_in = |property: Option<&String>, message: String| {
            let error = LabError::Usage(format!("workload {}: {message}", spec.name));
            WorkloadError { at, property: property.cloned(), error }
        };
        let wrong = |message: String| wrong_in(None, message);
        let letter = spec.ycsb.as_ref().and_then(|letter| letter.get_ref().chars().next());
        let mut core = letter.and_then(CoreWorkload::core).unwrap_or_default();
        for path in &spec.property_files {
            let path = path.get_ref();
            let text = std::fs::read_to_string(path).map_err(|error| {
                wrong(LabError::io(format!("reading properties from {path}"), error).to_string())
            })?;
            core.set_file(&text).map_err(|error| wrong(error.to_string()))?;
        }
        for (name, value) in &spec.properties {
            core.set(name, &value.to_string()).map_err(|error| wrong_in(Some(name), error.to_string()))?;
        }
        core.record_count = scaled(core.record_count, scale);
        core.operation_count = scaled(core.operation_count, scale);
        core.insert_count = core.insert_count.map(|count| scaled(count, scale));
        core.check().map_err(|error| wrong(error.to_string()))?;
        let texts = if spec.schema.is_empty() {
            None
        } else if engines::speaks_cql(setup) {
            Some(statements(spec, setup).map_err(wrong)?)
        } else {
            return Err(wrong(format!("the engine {} executes no CQL", setup.engine.label())));
        };
        let statements = texts.as_ref().map(StatementSpec::build).transpose().map_err(wrong)?.map(Arc::new);
        Ok((spec.name.clone(), ReadyWorkload { core, statements, spec: texts }))
    };
    file.workload.iter().map(ready).collect()
}

/// Returns how long a phase lasts, in seconds, or at most if it also has
/// [`planned_operations`]; `None` if it lasts until its operations are done. A scale shortens
/// phases; a scale above 1 increases the data, with unchanged times.
pub fn planned_seconds(phase: &PhaseSpec, scale: f64) -> Option<f64> {
    match (phase.wait, phase.workload()) {
        (Some(seconds), None) => Some(seconds * scale.min(1.0)),
        _ => phase.seconds.map(|seconds| (seconds * scale.min(1.0)).max(0.5)),
    }
}

/// Returns the number of operations of a phase that runs a workload; `None` if only time limits it.
pub fn planned_operations(phase: &PhaseSpec, core: &CoreWorkload, scale: f64) -> Option<u64> {
    match (phase.operations, phase.seconds) {
        (Some(operations), _) => Some(scaled(operations, scale)),
        (None, Some(_)) => None,
        (None, None) => (core.operation_count > 0).then_some(core.operation_count),
    }
}

/// Scales a count; never to 0.
fn scaled(count: u64, scale: f64) -> u64 {
    if count == 0 { 0 } else { ((count as f64 * scale).round() as u64).max(1) }
}

/// Fills in the texts of a workload of statements.
fn statements(spec: &WorkloadSpec, setup: &Setup) -> Result<StatementSpec, String> {
    let level = |level: &Option<Spanned<String>>| match level {
        Some(level) => match super::file::consistency(level) {
            Ok(level) => Ok(Some(level.to_string())),
            Err((_, message)) => Err(message),
        },
        None => Ok(None),
    };
    let text = |operation: &OperationSpec, name: &str, weight: f64, inserts: bool| {
        let mut steps = Vec::new();
        if let Some(cql) = &operation.cql {
            let consistency = level(&operation.consistency)?;
            steps.push(StepText { cql: filled(cql, setup), consistency, expect: operation.expect });
        }
        for step in &operation.steps {
            let consistency = level(&step.consistency)?;
            steps.push(StepText { cql: filled(&step.cql, setup), consistency, expect: step.expect });
        }
        let name = operation.name.clone().unwrap_or_else(|| name.to_owned());
        Ok::<_, String>(OperationText { name, weight, inserts, steps })
    };
    let mut operations = Vec::new();
    for (index, operation) in spec.operation.iter().enumerate() {
        let name = format!("operation {}", index + 1);
        operations.push(text(operation, &name, operation.weight.unwrap_or(1.0), operation.inserts)?);
    }
    if let Some(insert) = &spec.insert {
        operations.push(text(insert, "INSERT", 0.0, true)?);
    }
    let fill = |texts: &[String]| texts.iter().map(|text| filled(text, setup)).collect();
    Ok(StatementSpec {
        create: fill(&spec.schema),
        drop: fill(&spec.drop),
        values: spec.values.clone(),
        operations,
    })
}

/// Replaces `{with}`, `{table}` and the variables of the configuration in a text.
fn filled(text: &str, setup: &Setup) -> String {
    let with = if setup.table.is_empty() { String::new() } else { format!(" WITH {}", setup.table) };
    let mut text = text.replace("{with}", &with).replace("{table}", &setup.table);
    for (name, value) in &setup.variables {
        text = text.replace(&format!("{{{name}}}"), value);
    }
    text
}

/// Runs a part, with the engine's files in the empty directory `data`; `agents` execute its
/// operations, if there are any. An error, or the death of a server, stops the part: the results so
/// far are returned with the reason.
pub fn perform(
    file: &ExperimentFile,
    (setup, part): (&Setup, &Part),
    scale: f64,
    data: &Path,
    agents: Option<&Agents>,
    observer: &dyn Observer,
) -> Result<PartResult, LabError> {
    let started = Instant::now();
    let mut result = PartResult {
        part: part.clone(),
        started_at: Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        seconds: 0.0,
        engine: crate::results::EngineInfo::default(),
        options: setup.options.iter().map(|(name, value)| (name.clone(), value.to_string())).collect(),
        table: setup.table.clone(),
        phases: Vec::new(),
        stopped: None,
    };
    let workloads = workloads(file, setup, scale)?;
    let mut target = engines::make(setup, data)?;
    let mut performer = Performer {
        setup,
        part,
        seed: file.seed.wrapping_add((part.repeat as u64) << 32),
        scale,
        started,
        workloads: &workloads,
        keys: BTreeMap::new(),
        agents,
        agent_keys: BTreeMap::new(),
        observer,
        phases: Vec::new(),
    };
    for phase in &file.phase {
        let phase = phase.get_ref();
        let for_it = phase.engines.iter().any(|name| name.get_ref() == setup.engine.label());
        if !(phase.engines.is_empty() || for_it) {
            continue;
        }
        let stopped = match performer.phase(phase, target.as_mut()) {
            Ok(stopped) => stopped,
            Err(error) => Some(format!("{}: {error}", phase.label())),
        };
        if let Some(stopped) = stopped {
            let why = target.failure_cause().map(|why| format!(" ({why})")).unwrap_or_default();
            result.stopped = Some(stopped + &why);
            break;
        }
    }
    result.engine = target.describe();
    result.phases = performer.phases;
    drop(target);
    result.seconds = started.elapsed().as_secs_f64();
    Ok(result)
}

/// Runs a phase as planned.
type Measure<'a> = &'a mut dyn FnMut(&PhasePlan) -> Result<Measured, LabError>;

struct Performer<'a> {
    setup: &'a Setup,
    part: &'a Part,
    seed: u64,
    scale: f64,
    started: Instant,
    workloads: &'a BTreeMap<String, ReadyWorkload>,
    /// Keys of each table, by the name of the table or the workload.
    keys: BTreeMap<String, KeySpace>,
    agents: Option<&'a Agents>,
    /// The same of a run with agents, which have the keys themselves.
    agent_keys: BTreeMap<String, KeyBounds>,
    observer: &'a dyn Observer,
    phases: Vec<PhaseResult>,
}

impl<'a> Performer<'a> {
    /// Returns the agents that execute the operations, if they do.
    fn load_agents(&self) -> Option<&'a Agents> {
        self.agents.filter(|agents| agents.count() > 0)
    }

    /// Runs a phase. Returns the reason to end the part here, if there is one.
    fn phase(&mut self, phase: &PhaseSpec, target: &mut dyn Target) -> Result<Option<String>, LabError> {
        let at = self.started.elapsed().as_secs_f64();
        let begun = Instant::now();
        self.seed = self.seed.wrapping_add(1);
        let statistics = if let Some(name) = phase.workload() {
            let ready = self
                .workloads
                .get(name)
                .ok_or_else(|| LabError::Usage(format!("unknown workload {name:?}")))?
                .clone();
            Some(self.drive(phase, &ready, name, target)?)
        } else {
            self.act(phase, target)?;
            None
        };
        if let Some(statistics) = &statistics {
            self.observer.on_phase_end(&statistics.report);
        }
        let stopped = statistics.as_ref().and_then(|statistics| statistics.report.stopped.clone());
        let seconds = begun.elapsed().as_secs_f64();
        self.phases.push(PhaseResult { name: phase.label(), at, seconds, statistics });
        Ok(stopped.or_else(|| self.observer.stop_reason()))
    }

    fn act(&self, phase: &PhaseSpec, target: &mut dyn Target) -> Result<(), LabError> {
        if let Some(cql) = &phase.cql {
            return target.act(&Action::Cql(filled(cql, self.setup)));
        }
        if let Some(action) = phase.action {
            return target.act(&match action {
                ActionSpec::Flush => Action::Flush,
                ActionSpec::Compact => Action::Compact,
                ActionSpec::DropCaches => Action::DropCaches,
                ActionSpec::Restart => Action::Restart,
            });
        }
        let end = Instant::now() + Duration::from_secs_f64(planned_seconds(phase, self.scale).unwrap_or(0.0));
        while Instant::now() < end && self.observer.stop_reason().is_none() {
            std::thread::sleep((end - Instant::now()).min(Duration::from_millis(100)));
        }
        Ok(())
    }

    fn drive(
        &mut self,
        phase: &PhaseSpec,
        ready: &ReadyWorkload,
        name: &str,
        target: &mut dyn Target,
    ) -> Result<PhaseStatistics, LabError> {
        let core = &ready.core;
        let shape = TableShape {
            table: core.table.clone(),
            field_names: core.field_names(),
            statements: ready.statements.clone(),
        };
        let names = ready.kind_names();
        // YCSB workloads share their table, and thus its keys.
        let space = if ready.statements.is_some() { name } else { core.table.as_str() };
        let with_statements = |factory: StreamFactory| match &ready.statements {
            Some(statements) => factory.with_statements(Arc::clone(statements)),
            None => Ok(factory),
        };
        let mut plan = self.plan(phase, core, target);
        if phase.load.is_some() {
            target.create_table(&shape, true)?;
            target.use_table(&shape)?;
            let factory = StreamFactory::load(core, KeySpace::starting_at(core.insert_start), self.seed)?;
            plan.operations = Some(core.insert_count());
            plan.time = None;
            let measured = match self.load_agents() {
                None => plan.measure(&with_statements(factory)?, target, self.observer)?,
                Some(agents) => {
                    let work = agents::work(self.setup, ready, Keys::Load(core.insert_start), self.seed)?;
                    agents.measure(&plan, &work, target, self.observer)?.0
                }
            };
            self.keys.insert(space.to_owned(), KeySpace::starting_at(core.record_count));
            self.agent_keys.insert(space.to_owned(), KeyBounds::dense(core.record_count));
            return Ok(self.statistics(phase, core, measured, &names));
        }
        target.use_table(&shape)?;
        if let Some(agents) = self.load_agents() {
            let known = self.agent_keys.get(space).copied();
            let mut bounds = known.unwrap_or(KeyBounds::dense(core.record_count));
            let (seed, target, observer) = (self.seed, &*target, self.observer);
            let statistics = self.run(phase, core, plan, &names, &mut |plan| {
                let work = agents::work(self.setup, ready, Keys::Run(bounds), seed)?;
                let (measured, new_keys) = agents.measure(plan, &work, target, observer)?;
                bounds = bounds.after(&new_keys);
                Ok(measured)
            })?;
            self.agent_keys.insert(space.to_owned(), bounds);
            return Ok(statistics);
        }
        let keys =
            self.keys.entry(space.to_owned()).or_insert_with(|| KeySpace::starting_at(core.record_count));
        let factory = with_statements(StreamFactory::run(core, keys.clone(), self.seed)?)?;
        let (target, observer) = (&*target, self.observer);
        self.run(phase, core, plan, &names, &mut |plan| plan.measure(&factory, target, observer))
    }

    /// Runs the operations once, or searches their highest rate.
    fn run(
        &self,
        phase: &PhaseSpec,
        core: &CoreWorkload,
        plan: PhasePlan,
        names: &[String],
        measure: Measure<'_>,
    ) -> Result<PhaseStatistics, LabError> {
        match phase.p99_us {
            Some(bound_us) => self.search(phase, core, plan, names, bound_us, measure),
            None => Ok(self.statistics(phase, core, measure(&plan)?, names)),
        }
    }

    fn plan(&self, phase: &PhaseSpec, core: &CoreWorkload, target: &dyn Target) -> PhasePlan {
        let seconds = planned_seconds(phase, self.scale);
        let by_property = (core.max_execution_seconds > 0).then_some(core.max_execution_seconds as f64);
        let operations = planned_operations(phase, core, self.scale);
        PhasePlan {
            name: phase.label(),
            repeat: self.part.repeat,
            in_flight: phase.threads.unwrap_or(1),
            operations,
            time: seconds.or(by_property).map(Duration::from_secs_f64),
            rate: phase.rate.map(|from| Rate { from, to: phase.rate_to }),
            spin: false,
            server_pids: target.server_pids(),
            remote_servers: self.agents.map(Agents::observed).unwrap_or_default(),
            series: true,
        }
    }

    /// Tries rates, each for the time of the phase. Returns the results of the highest rate within
    /// the limit, or of the last one if none is.
    fn search(
        &self,
        phase: &PhaseSpec,
        core: &CoreWorkload,
        plan: PhasePlan,
        names: &[String],
        bound_us: f64,
        measure: Measure<'_>,
    ) -> Result<PhaseStatistics, LabError> {
        let first = PhasePlan {
            name: format!("{}, as fast as it goes", plan.name),
            operations: None,
            time: Some(Duration::from_secs_f64(FIRST_TRIAL_SECONDS * self.scale.clamp(0.1, 1.0))),
            ..plan.clone()
        };
        let mut best = self.statistics(phase, core, measure(&first)?, names);
        let steps_from = self.workloads[phase.workload().unwrap_or_default()]
            .statements
            .as_ref()
            .map_or(usize::MAX, |statements| statements.operations.len());
        let mut search = RateSearch::starting_at(best.report.throughput / 2.0);
        let mut trials = Vec::new();
        while let Some(rate) = search.next() {
            if best.report.stopped.is_some() {
                break;
            }
            let trial = PhasePlan {
                name: format!("{} at {rate:.0}/s", plan.name),
                rate: Some(Rate::steady(rate)),
                ..plan.clone()
            };
            let measured = measure(&trial)?;
            let p99_us = p99_us_of_all(&measured, steps_from);
            let throughput = measured.report.throughput;
            let statistics = self.statistics(phase, core, measured, names);
            // An engine that falls behind lengthens the phase: its throughput is then below the
            // rate.
            let kept = p99_us <= bound_us && statistics.report.failed == 0 && throughput >= 0.97 * rate;
            trials.push(Trial { rate, throughput, p99_us, kept });
            search.learn(kept);
            if kept || search.highest().is_none() || statistics.report.stopped.is_some() {
                best = statistics;
            }
            best.rate = search.highest();
        }
        best.trials = trials;
        best.report.name = plan.name;
        Ok(best)
    }

    fn statistics(
        &self,
        phase: &PhaseSpec,
        core: &CoreWorkload,
        measured: Measured,
        names: &[String],
    ) -> PhaseStatistics {
        let Measured { mut report, recorder, series, before, after, .. } = measured;
        report.properties = crate::benchmark::owned(core.settings());
        // A load counts completely: it measures the cost of filling an empty engine.
        let asked = if phase.load.is_some() { Some(0.0) } else { phase.warm_up };
        let (first, reached) = first_slice(asked, &series, report.seconds);
        let from = slice_start(first).as_secs_f64();
        let operations = recorder.operations_from(first);
        let steady = Steady {
            from,
            reached,
            operations,
            throughput: rate_of(operations, report.seconds - from),
            latencies: match first {
                0 => report.latencies.clone(),
                _ => latency_reports(&recorder.latencies_from(first), names),
            },
        };
        let (threads, rate) = (phase.threads.unwrap_or(1), phase.rate);
        PhaseStatistics { report, steady, series, before, after, threads, rate, trials: Vec::new() }
    }
}

fn rate_of(operations: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { operations as f64 / seconds } else { 0.0 }
}

/// Returns the first slice that counts and whether the phase became steady: after the requested
/// warm-up, or the one found. At least half of the phase always counts.
fn first_slice(asked: Option<f64>, series: &[Second], seconds: f64) -> (usize, bool) {
    let throughputs: Vec<f64> = series.iter().map(Second::throughput).collect();
    let (warm_up, reached) = match asked {
        Some(seconds) => (seconds, true),
        None => match warm_up(&throughputs, 1) {
            Some(points) => (points as f64, true),
            None => (0.0, false),
        },
    };
    let first = slice_after(warm_up);
    let kept = slice_start(first).as_secs_f64() <= seconds / 2.0;
    // A cut that would leave too little is moved forward.
    let first = if kept {
        first
    } else {
        (0..first).rev().find(|slice| slice_start(*slice).as_secs_f64() <= seconds / 2.0).unwrap_or(0)
    };
    (first, reached)
}

/// Returns the 99th percentile of all operations together; infinite if none succeeded. Kinds from
/// `steps_from` on are steps, which are included in their operations.
fn p99_us_of_all(measured: &Measured, steps_from: usize) -> f64 {
    let mut all = crate::recording::recorder::new_histogram();
    for (kind, latencies) in measured.recorder.latencies() {
        let is_step = matches!(kind, OperationKind::Named(index) if usize::from(index) >= steps_from);
        // YCSB's workload F counts its reads and updates besides the whole, which are no longer
        // than it.
        if !is_step && all.add(&latencies.response).is_err() {
            return f64::INFINITY;
        }
    }
    if all.is_empty() { f64::INFINITY } else { all.value_at_quantile(0.99) as f64 / 1e3 }
}

#[cfg(test)]
mod tests {
    use super::super::file::tests::NOOP;
    use super::super::plan::Plan;
    use super::*;
    use crate::recording::LiveView;
    use crate::results::PhaseReport;

    struct Quiet;

    impl Observer for Quiet {
        fn on_phase_start(&self, _: &PhasePlan) {}
        fn on_progress(&self, _: &LiveView) {}
        fn on_phase_end(&self, _: &PhaseReport) {}
    }

    fn run(text: &str, scale: f64) -> PartResult {
        let file = ExperimentFile::parse(text).unwrap_or_else(|error| panic!("{error}"));
        let plan = Plan::new(&file, text, &[]).unwrap();
        let part = &plan.parts[0];
        let data = tempfile::tempdir().unwrap();
        perform(&file, (plan.setup(part).unwrap(), part), scale, data.path(), None, &Quiet).unwrap()
    }

    #[test]
    fn a_part_runs_its_phases_and_keeps_their_results() {
        let result = run(NOOP, 2.0);
        assert_eq!(result.stopped, None);
        let statistics: Vec<&PhaseStatistics> =
            result.phases.iter().filter_map(|phase| phase.statistics.as_ref()).collect();
        assert_eq!([statistics[0].report.operations, statistics[1].report.operations], [200, 400]);
        assert_eq!(statistics[1].threads, 2);
        let names: Vec<String> = statistics[1].metrics().into_iter().map(|(name, _)| name).collect();
        assert!(names.contains(&"throughput".into()) && names.contains(&"READ p99".into()), "{names:?}");
    }

    /// An experiment with statements of a user directory.
    const USERS: &str = r#"
name = "users"
[[engine]]
kind = "embedded"
[[configuration]]
name = "leveled"
table = "compaction = {'class': 'LeveledCompactionStrategy'}"
[[workload]]
name = "users"
properties = { recordcount = 200, operationcount = 300, requestdistribution = "zipfian" }
schema = [
  "CREATE KEYSPACE IF NOT EXISTS lab WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
  """CREATE TABLE lab.users
    (id text PRIMARY KEY, email text, grade list<text>, tags map<text, frozen<list<text>>>, n int){with}""",
  "CREATE INDEX users_email ON lab.users (email)",
]
drop = ["DROP TABLE IF EXISTS lab.users"]
[workload.values]
id = { type = "text", from = "number", format = "user{}" }
email = { type = "text", length = 12 }
grade = { type = "list<text>", elements = [0, 3] }
tags = { type = "map<text, frozen<list<text>>>", elements = 2 }
n = { type = "int", from = "operation" }
[workload.insert]
cql = "INSERT INTO lab.users (id, email, grade, tags, n) VALUES (:id, :email, :grade, :tags, :n)"
[[workload.operation]]
name = "write-read"
inserts = true
steps = [
  { cql = "INSERT INTO lab.users (id, email, n) VALUES (:id, :email, :n)", consistency = "QUORUM" },
  { cql = "SELECT * FROM lab.users WHERE id = :id", consistency = "QUORUM", expect = "rows" },
]
[[workload.operation]]
name = "by-email"
weight = 2
cql = "SELECT id FROM lab.users WHERE email = :email"
expect = "rows"
[[workload.operation]]
name = "if"
cql = "UPDATE lab.users SET n = :n WHERE id = :id IF EXISTS"
expect = "applied"
[[workload.operation]]
name = "batch"
cql = """
BEGIN BATCH UPDATE lab.users SET n = :n WHERE id = :id; DELETE grade FROM lab.users WHERE id = :id; APPLY BATCH"""
[[phase]]
load = "users"
[[phase]]
action = "flush"
[[phase]]
cql = "ALTER TABLE lab.users WITH gc_grace_seconds = 60"
[[phase]]
action = "restart"
[[phase]]
run = "users"
threads = 2
[[phase]]
name = "ramp"
run = "users"
rate = 100
rate-to = 300
seconds = 0.5
"#;

    #[test]
    fn statements_run_with_alters_flushes_and_restarts_in_between() {
        let result = run(USERS, 1.0);
        assert_eq!(result.stopped, None);
        let ran = result.phases[4].statistics.as_ref().unwrap();
        assert_eq!((ran.report.failed, ran.report.operations), (0, 300), "{:?}", ran.report.failures);
        for kind in ["write-read", "write-read, step 2", "by-email", "if", "batch"] {
            assert!(ran.report.latencies.contains_key(kind), "{kind}: {:?}", ran.report.latencies.keys());
        }
        let ramp = result.phases[5].statistics.as_ref().unwrap();
        // 200 per second on average for half a second, as far as the engine keeps up.
        assert!((1..=100).contains(&ramp.report.operations), "{}", ramp.report.operations);
        assert!(ran.after["sstables"] >= 1.0, "{:?}", ran.after);
        assert!(result.engine.settings.contains_key("memtable_heap_space"));
    }

    #[test]
    fn statements_without_cql_and_unknown_properties_are_rejected() {
        let text = NOOP
            .replace("ycsb = \"a\"", "schema = ['x']\n[workload.insert]\ncql = 'y'\n[[ignored]]")
            .replace("[[ignored]]\nproperties = { recordcount = 100, operationcount = 200 }", "");
        let file = ExperimentFile::parse(&text).unwrap_or_else(|error| panic!("{error}"));
        let plan = Plan::new(&file, &text, &[]).unwrap();
        let error = workloads(&file, &plan.setups[0], 1.0).unwrap_err();
        assert!(error.to_string().contains("no CQL"), "{error}");
        let text = NOOP.replace("recordcount", "recordcont");
        let file = ExperimentFile::parse(&text).unwrap();
        let error = workloads(&file, &plan.setups[0], 1.0).unwrap_err();
        assert!(error.to_string().contains("recordcont"), "{error}");
    }

    #[test]
    fn a_search_returns_the_highest_rate_with_its_trials() {
        let text = NOOP.replace("run = \"a\"", "search = \"a\"\np99-us = 1000000\nseconds = 0.5");
        let result = run(&text, 0.2);
        let statistics = result.phases[1].statistics.as_ref().unwrap();
        assert!(!statistics.trials.is_empty());
        assert!(statistics.metrics()[0].0 == "rate" || statistics.trials.iter().all(|trial| !trial.kept));
    }

    #[test]
    fn at_least_half_of_a_phase_is_kept() {
        let second = |operations| Second { seconds: 1.0, operations, ..Second::default() };
        let mut series: Vec<Second> = (0..30).map(|_| second(1000)).collect();
        (0..3).for_each(|index| series[index].operations = 100);
        assert_eq!(
            first_slice(None, &series, 30.0),
            (3, true),
            "three seconds of warm-up: from the fourth on"
        );
        assert_eq!(first_slice(Some(20.0), &series, 30.0), (4, true));
        assert_eq!(first_slice(Some(0.0), &series, 30.0), (0, true));
    }
}
