//! The commands on experiments: run, resume, list, show, compare, report.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cassette_tls::secret::Token;
use cassette_vfs::SystemClock;
use clap::Args;
use jiff::Timestamp;

use super::console::{Console, Progress, command_line};
use crate::LabError;
use crate::agents::{AgentList, Agents};
use crate::experiments::outline::{outline, unmeasured};
use crate::experiments::perform::{self, perform};
use crate::experiments::plan::{Part, Plan, Setup, place_in_table};
use crate::experiments::store::{RunDirectory, RunInfo};
use crate::experiments::{Analysis, ExperimentFile, FileError, PartResult, agents, builtin};
use crate::format::{duration, rounded};
use crate::report::{csv, html, markdown};
use crate::results::Machine;
use crate::run::Observer;

/// Location of the runs.
#[derive(Debug, Clone, Args)]
pub struct ResultsArgs {
    /// Directory of the runs
    #[arg(long, value_name = "DIR", default_value = "lab-results")]
    pub results: PathBuf,
}

/// Arguments of `lab run`.
#[derive(Debug, Clone, Args)]
pub struct RunArgs {
    /// Experiment file, or the name of a built-in one (`lab list` shows them)
    #[arg(value_name = "FILE|NAME")]
    pub experiment: String,

    /// Factor for the number of records and operations; also for seconds, if below 1
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    pub scale: f64,

    /// Number of repeats of each configuration, overriding the file
    #[arg(long, value_name = "N")]
    pub repeats: Option<usize>,

    /// Measure only these engines of the file, including optional ones
    #[arg(short, long, value_name = "NAME", value_delimiter = ',')]
    pub engine: Vec<String>,

    /// Show the plan without running it
    #[arg(long)]
    pub dry_run: bool,

    /// Do not repeat a part during which other programs used the processors
    #[arg(long)]
    pub accept_disturbed: bool,

    /// Agents (`lab agent`) that execute the operations instead of this process, which divides them
    /// among the agents and merges their results; for engines of kind cql
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',', requires = "agent_token_file")]
    pub agent: Vec<String>,

    /// Agents that observe processes of servers (`lab agent --observe PID`), for their processor
    /// time, memory and disk use
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',', requires = "agent_token_file")]
    pub observe: Vec<String>,

    /// File with the token of the agents, which only its owner may read
    #[arg(long, value_name = "FILE")]
    pub agent_token_file: Option<PathBuf>,

    #[command(flatten)]
    pub results: ResultsArgs,
}

/// Arguments of the commands on one run.
#[derive(Debug, Clone, Args)]
pub struct OneRunArgs {
    /// Directory or name of a run, an experiment's name for its last run, or `last`
    #[arg(value_name = "RUN", default_value = "last")]
    pub run: String,

    #[command(flatten)]
    pub results: ResultsArgs,
}

/// Arguments of `lab compare`.
#[derive(Debug, Clone, Args)]
pub struct CompareArgs {
    /// Run to compare with
    #[arg(value_name = "RUN")]
    pub baseline: String,

    /// Run to compare
    #[arg(value_name = "RUN")]
    pub candidate: String,

    #[command(flatten)]
    pub results: ResultsArgs,
}

/// Arguments of `lab show`.
#[derive(Debug, Clone, Args)]
pub struct ShowArgs {
    /// A run, or an experiment's file or name to show its plan
    #[arg(value_name = "RUN|FILE|NAME", default_value = "last")]
    pub what: String,

    #[command(flatten)]
    pub results: ResultsArgs,
}

/// Returns the text of an experiment: a file's, or a built-in one's.
fn text_of(experiment: &str) -> Result<String, LabError> {
    let path = Path::new(experiment);
    if !path.exists()
        && let Some(text) = builtin::find(experiment)
    {
        return Ok(text.to_owned());
    }
    std::fs::read_to_string(path).map_err(|error| {
        let names: Vec<&str> = builtin::BUILT_IN.iter().map(|(name, _)| *name).collect();
        LabError::io(format!("reading {experiment}, which is not built in ({})", names.join(", ")), error)
    })
}

/// Parses an experiment; errors contain file, line and column.
fn parse(origin: &str, text: &str) -> Result<ExperimentFile, LabError> {
    ExperimentFile::parse(text).map_err(|error| LabError::Usage(format!("{origin}: {error}")))
}

/// Plans it and builds its workloads for every setup, so that errors are found before anything
/// starts.
fn plan(
    origin: &str,
    text: &str,
    file: &ExperimentFile,
    only: &[String],
    scale: f64,
) -> Result<Plan, LabError> {
    let plan = Plan::new(file, text, only).map_err(|error| LabError::Usage(format!("{origin}: {error}")))?;
    for setup in &plan.setups {
        perform::workloads(file, setup, scale).map_err(|wrong| {
            let at = match &wrong.property {
                Some(property) => place_in_table(text, wrong.at, property),
                None => wrong.at,
            };
            LabError::Usage(format!("{origin}: {}", FileError::at(text, at, wrong.error)))
        })?;
    }
    Ok(plan)
}

/// Runs `lab run`. Returns `false` if operations failed or the run did not complete.
pub fn run(args: &RunArgs) -> Result<bool, LabError> {
    if !(args.scale.is_finite() && args.scale > 0.0) {
        return Err(LabError::Usage("invalid scale: expected above 0".into()));
    }
    let text = text_of(&args.experiment)?;
    let mut file = parse(&args.experiment, &text)?;
    if let Some(repeats) = args.repeats {
        if repeats == 0 {
            return Err(LabError::Usage("invalid --repeats: expected at least 1".into()));
        }
        file.repeats = toml::Spanned::new(0..0, repeats);
    }
    let plan = plan(&args.experiment, &text, &file, &args.engine, args.scale)?;
    let with_ports = |addresses: &[String]| -> Vec<String> {
        addresses.iter().map(|address| crate::agents::with_port(address)).collect()
    };
    let agents = args.agent_token_file.clone().map(|token_file| AgentList {
        addresses: with_ports(&args.agent),
        observers: with_ports(&args.observe),
        token_file,
    });
    if let Some(agents) = &agents {
        if agents.addresses.is_empty() && agents.observers.is_empty() {
            return Err(LabError::Usage("--agent-token-file needs --agent or --observe".into()));
        }
        agents::check(&file, &plan, agents.addresses.len())?;
    }
    if args.dry_run {
        println!("{}", shown_plan(&text, &file, &plan, args.scale, &args.results.results)?);
        if let Some(agents) = &agents {
            let all: Vec<&str> =
                agents.addresses.iter().chain(&agents.observers).map(String::as_str).collect();
            println!("agents: {}", all.join(", "));
        }
        return Ok(true);
    }
    for note in unmeasured(&file, &text, &plan) {
        println!("{note}");
    }
    let info = RunInfo {
        name: file.name.get_ref().clone(),
        version: env!("CARGO_PKG_VERSION").into(),
        command: command_line(std::env::args()),
        started_at: Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        machine: Machine::this(),
        file: text,
        origin: args.experiment.clone(),
        scale: args.scale,
        engines: args.engine.clone(),
        parts: plan.parts.clone(),
        agents,
    };
    let agents = connected(&info)?;
    let directory = RunDirectory::create(&args.results.results, &info)?;
    let done = go_on(&directory, &info, &file, &plan, (agents.as_ref(), args.accept_disturbed));
    // A missing server or an unwritable directory leaves nothing to resume.
    if done.is_err()
        && std::fs::read_dir(directory.path().join("parts")).is_ok_and(|mut parts| parts.next().is_none())
    {
        directory.discard();
    }
    done
}

/// Runs `lab resume`: the remaining parts of a run.
pub fn resume(args: &OneRunArgs) -> Result<bool, LabError> {
    let directory = RunDirectory::find(&args.results.results, &args.run)?;
    let info = directory.info()?;
    let file = parse(&info.origin, &info.file)?;
    let plan = Plan {
        parts: info.parts.clone(),
        ..plan(&info.origin, &info.file, &file, &info.engines, info.scale)?
    };
    let now = Machine::this();
    if now != info.machine {
        return Err(LabError::Usage(format!(
            "the run began on another machine ({}, {} processors): results of both cannot be compared",
            info.machine.processor, info.machine.processors
        )));
    }
    let agents = connected(&info)?;
    go_on(&directory, &info, &file, &plan, (agents.as_ref(), false))
}

/// Connects to the agents of a run, if it has any.
fn connected(info: &RunInfo) -> Result<Option<Agents>, LabError> {
    let Some(AgentList { addresses, observers, token_file }) = &info.agents else { return Ok(None) };
    let token = Token::read(token_file).map_err(|error| LabError::Usage(error.to_string()))?;
    let agents = Agents::connect(addresses, &token, Arc::new(SystemClock::new()))?;
    let agents = agents.observing(observers, &token)?;
    for agent in agents.descriptions() {
        println!("{agent}");
    }
    Ok(Some(agents))
}

/// Runs the remaining parts, then writes the reports.
fn go_on(
    directory: &RunDirectory,
    info: &RunInfo,
    file: &ExperimentFile,
    plan: &Plan,
    (agents, accept_disturbed): (Option<&Agents>, bool),
) -> Result<bool, LabError> {
    let _lock = directory.lock()?;
    let console = Console::new()?;
    let done = directory.parts(info)?.len();
    let kept = if done == 0 { String::new() } else { format!(", {done} of them done") };
    console.print(&format!(
        "{}: {} parts{kept}, in {}\n",
        info.name,
        plan.parts.len(),
        directory.path().display()
    ));
    console.warn_if_busy();
    let mut took = Vec::new();
    let mut ended = Ok(());
    for part in &plan.parts {
        if directory.part(part.number)?.is_some() {
            continue;
        }
        let left = plan.parts.len() - done - took.len();
        let remaining = if took.is_empty() {
            String::new()
        } else {
            let each: Duration = took.iter().sum::<Duration>() / took.len() as u32;
            format!(", about {} left", duration(each * left as u32))
        };
        console.print(&format!(
            "[{}/{}] repeat {}: {}{remaining}\n",
            part.number,
            plan.parts.len(),
            part.repeat,
            part.label()
        ));
        let Some(setup) = plan.setup(part) else {
            return Err(LabError::Usage(format!("the plan has no {}", part.label())));
        };
        let started = Instant::now();
        let how = (agents, accept_disturbed);
        let result = perform_undisturbed(directory, info, file, (setup, part), how, &console);
        let result = result.and_then(|result| directory.keep(&result).map(|()| result));
        let reason = match &result {
            Ok(result) => {
                if result.stopped.is_none() {
                    took.push(started.elapsed());
                }
                console.print(&outcome(result));
                // Ctrl-C between two phases stops no phase.
                result.stopped.clone().or_else(|| console.stop_reason())
            }
            Err(error) => Some(error.to_string()),
        };
        if let Some(reason) = reason {
            let path = directory.path().display();
            let go_on = if done + took.len() == 0 && result.is_err() {
                String::new()
            } else {
                format!(". Finished parts are kept; `cassette lab resume {path}` continues")
            };
            ended = Err(LabError::Usage(format!(
                "part {} ({}) stopped: {}{go_on}",
                part.number,
                part.label(),
                reason.trim_end_matches('.')
            )));
            break;
        }
    }
    let removed = directory.remove_data();
    let failed = write_reports(directory, info, Some(file), &console);
    ended.and(removed).and(failed.map(|failed| failed == 0))
}

/// Runs a part, and once more if others used the processors during it.
fn perform_undisturbed(
    directory: &RunDirectory,
    info: &RunInfo,
    file: &ExperimentFile,
    (setup, part): (&Setup, &Part),
    (agents, accept_disturbed): (Option<&Agents>, bool),
    console: &Console,
) -> Result<PartResult, LabError> {
    let attempt = || {
        let data = directory.fresh_data()?;
        perform(file, (setup, part), info.scale, &data, agents, &Progress(console))
    };
    let result = attempt()?;
    match missing(&result, info) {
        Some(text) if !accept_disturbed && console.stop_reason().is_none() => {
            console.print(&format!("      disturbed: {text}; repeated once\n"));
            Ok(less_disturbed(result, attempt()?, info.machine.processors))
        }
        _ => Ok(result),
    }
}

/// Describes what was missing during a completed part.
fn missing(result: &PartResult, info: &RunInfo) -> Option<String> {
    let missing = result.stopped.is_none().then(|| result.missing_processors(info.machine.processors))??;
    Some(format!("{missing} were used by others"))
}

/// Returns the second result, unless it stopped or was disturbed more.
fn less_disturbed(first: PartResult, again: PartResult, processors: usize) -> PartResult {
    let of =
        |result: &PartResult| result.missing_processors(processors).map_or(0.0, |missing| missing.share());
    if again.stopped.is_some() || of(&again) > of(&first) { first } else { again }
}

/// Summarizes a part in a line: the throughput of each phase, or the 99th percentiles if the rate
/// was fixed.
fn outcome(result: &PartResult) -> String {
    let statistics = result.phases.iter().filter_map(|phase| Some((&phase.name, phase.statistics.as_ref()?)));
    let summaries: Vec<String> = statistics
        .map(|(name, statistics)| match statistics.rate {
            None => format!("{name} {}/s", rounded(statistics.steady.throughput)),
            Some(_) => {
                let latencies = statistics.steady.latencies.iter();
                let p99: Vec<String> = latencies
                    .map(|(kind, latency)| format!("{kind} p99 {} µs", rounded(latency.response.p99_us)))
                    .collect();
                format!("{name} {}", p99.join(", "))
            }
        })
        .collect();
    format!("      {}\n", summaries.join("; "))
}

/// Writes all reports of a run and shows the verdict. Returns the number of failed operations.
fn write_reports(
    directory: &RunDirectory,
    info: &RunInfo,
    file: Option<&ExperimentFile>,
    console: &Console,
) -> Result<u64, LabError> {
    let parts = directory.parts(info)?;
    if parts.is_empty() {
        return Ok(0);
    }
    let analysis = Analysis::new(info, file, &parts);
    let report = markdown::report(info, file, &analysis, &parts);
    directory.keep_report("report.md", report.as_bytes())?;
    directory.keep_report("report.csv", csv::report(&parts).as_bytes())?;
    let json = serde_json::json!({ "run": info, "analysis": analysis, "parts": parts });
    directory.keep_report("report.json", json.to_string().as_bytes())?;
    let page =
        directory.keep_report("report.html", html::report(info, file, &analysis, &parts).as_bytes())?;
    console.print(&format!("\n{}\nreport: {}\n", markdown::summary(&analysis), page.display()));
    Ok(analysis.phases.iter().flat_map(|phase| &phase.failed).sum())
}

/// Runs `lab report`: regenerates the reports of a run.
pub fn report(args: &OneRunArgs) -> Result<bool, LabError> {
    let directory = RunDirectory::find(&args.results.results, &args.run)?;
    let info = directory.info()?;
    let file = ExperimentFile::parse(&info.file).ok();
    if directory.parts(&info)?.is_empty() {
        return Err(LabError::Usage(format!("no part of {} is complete", directory.path().display())));
    }
    write_reports(&directory, &info, file.as_ref(), &Console::new()?)?;
    Ok(true)
}

/// What is said below every comparison of two runs.
const ACROSS_RUNS: &str = "\
The two runs were made at different times, so changes of the machine are part of every difference; CPU/op is affected \
least. To compare two builds, run them in turns with `cassette lab ab OLD NEW`; to compare settings, put them into one \
file.";

/// Runs `lab compare`: the groups that two runs share.
pub fn compare(args: &CompareArgs) -> Result<bool, LabError> {
    let find = |run: &str| -> Result<_, LabError> {
        let directory = RunDirectory::find(&args.results.results, run)?;
        let info = directory.info()?;
        let parts = directory.parts(&info)?;
        let name = directory.path().file_name().map(|name| name.to_string_lossy().into_owned());
        Ok((name.unwrap_or_default(), parts, info))
    };
    let (first_name, first, first_info) = find(&args.baseline)?;
    let (second_name, second, second_info) = find(&args.candidate)?;
    let analysis = Analysis::between((&first_name, &first), (&second_name, &second));
    if first_info.machine != second_info.machine {
        println!("Beware: the two runs were made on different machines.\n");
    }
    if first_info.scale != second_info.scale || first_info.file != second_info.file {
        println!("Beware: the two runs' files or scales differ.\n");
    }
    for (name, parts, info) in [(&first_name, &first, &first_info), (&second_name, &second, &second_info)] {
        let missing = parts.iter().filter_map(|part| part.missing_processors(info.machine.processors));
        if let Some(missing) = missing.max_by(|one, other| one.share().total_cmp(&other.share())) {
            println!("Beware: others used up to {missing} during {name}.\n");
        }
    }
    println!("{}\n{ACROSS_RUNS}", markdown::summary(&analysis));
    if analysis.verdicts.is_empty() {
        return Err(LabError::Usage("the two runs share no engine, configuration and phase".into()));
    }
    Ok(true)
}

/// Runs `lab list`: built-in experiments and stored runs.
pub fn list(args: &ResultsArgs) -> Result<bool, LabError> {
    println!("Built-in experiments (`lab run NAME`):");
    for (name, text) in builtin::BUILT_IN {
        println!("  {name:<26}{}", parse(name, text)?.title);
    }
    let runs = RunDirectory::all(&args.results);
    println!("\nRuns in {}{}", args.results.display(), if runs.is_empty() { ": none" } else { ":" });
    for (directory, info) in runs {
        let done =
            info.parts.iter().filter(|part| directory.part(part.number).is_ok_and(|part| part.is_some()));
        let name = directory.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
        println!("  {name:<46}{:>3} of {:>3} parts done, {}", done.count(), info.parts.len(), info.command);
    }
    Ok(true)
}

/// Runs `lab show`: the verdict and the results of a run, or the plan of an experiment.
pub fn show(args: &ShowArgs) -> Result<bool, LabError> {
    match RunDirectory::find(&args.results.results, &args.what) {
        Ok(directory) => {
            let info = directory.info()?;
            let file = ExperimentFile::parse(&info.file).ok();
            let parts = directory.parts(&info)?;
            let analysis = Analysis::new(&info, file.as_ref(), &parts);
            println!("{}", markdown::report(&info, file.as_ref(), &analysis, &parts));
        }
        Err(missing) => {
            if builtin::find(&args.what).is_none() && !Path::new(&args.what).is_file() {
                return Err(missing);
            }
            let text = text_of(&args.what)?;
            let file = parse(&args.what, &text)?;
            // Missing engines are no reason to hide the rest.
            match plan(&args.what, &text, &file, &[], 1.0) {
                Ok(plan) => println!("{}", shown_plan(&text, &file, &plan, 1.0, &args.results.results)?),
                Err(error) => println!("{}\n\n{error}", file.description),
            }
        }
    }
    Ok(true)
}

/// Returns the outline of a plan, with times of earlier runs of the same experiment.
fn shown_plan(
    text: &str,
    file: &ExperimentFile,
    plan: &Plan,
    scale: f64,
    results: &Path,
) -> Result<String, LabError> {
    let runs = RunDirectory::all(results).into_iter();
    let same = runs.filter(|(_, info)| info.scale == scale && info.file == text);
    let earlier: Vec<PartResult> =
        same.filter_map(|(directory, info)| directory.parts(&info).ok()).flatten().collect();
    outline(file, text, plan, scale, &earlier)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::analysis::tests::part;
    use crate::experiments::file::tests::NOOP;
    use crate::results::{AgentReport, Disturbance};

    fn args(directory: &Path, text: &str) -> RunArgs {
        let path = directory.join("small.toml");
        std::fs::write(&path, text).unwrap();
        RunArgs {
            experiment: path.to_str().unwrap().into(),
            scale: 1.0,
            repeats: None,
            engine: Vec::new(),
            dry_run: false,
            accept_disturbed: true,
            agent: Vec::new(),
            observe: Vec::new(),
            agent_token_file: None,
            results: ResultsArgs { results: directory.join("results") },
        }
    }

    #[test]
    fn the_less_disturbed_of_two_results_counts() {
        let with = |throughput: f64, other_processors: f64| {
            let mut result = part(1, "base", throughput);
            let statistics = result.phases[0].statistics.as_mut().unwrap();
            statistics.report.disturbance = Some(Disturbance {
                other_processors: Some(other_processors),
                stolen_processors: 0.0,
                waiting: None,
                mhz: None,
            });
            result
        };
        let kept = |first: f64, again: f64| {
            let kept = less_disturbed(with(1.0, first), with(2.0, again), 2);
            kept.phases[0].statistics.as_ref().unwrap().steady.throughput
        };
        assert_eq!([kept(0.9, 0.0), kept(0.9, 0.5), kept(0.5, 0.9)], [2.0, 2.0, 1.0]);
        assert_eq!(with(1.0, 0.9).missing_processors(2).unwrap().to_string(), "0.90 of 2 processors");
        // An agent's processors are those of its machine.
        let mut on_agents = with(1.0, 0.0);
        let report = &mut on_agents.phases[0].statistics.as_mut().unwrap().report;
        let busy = report.disturbance.take().map(|idle| Disturbance { stolen_processors: 3.0, ..idle });
        report.agents = ["load1:7299", "load2:7299"].map(AgentReport::of).to_vec();
        report.agents[1].disturbance = busy;
        assert_eq!(on_agents.missing_processors(64).unwrap().to_string(), "3 of 4 processors");
        let stopped = PartResult { stopped: Some("interrupted".into()), ..with(2.0, 0.0) };
        assert_eq!(less_disturbed(with(1.0, 0.9), stopped, 2).stopped, None);
    }

    #[test]
    fn a_killed_run_resumes_and_writes_its_reports() {
        let directory = tempfile::tempdir().unwrap();
        let args = args(directory.path(), NOOP);
        assert!(run(&args).unwrap());
        let results = &args.results.results;
        let kept = RunDirectory::find(results, "last").unwrap();
        for name in ["report.html", "report.md", "report.csv", "report.json"] {
            assert!(kept.path().join(name).is_file(), "{name}");
        }
        // As if it had been killed before its third part ended.
        let third = kept.path().join("parts/0003.json");
        let first = std::fs::read(kept.path().join("parts/0001.json")).unwrap();
        std::fs::remove_file(&third).unwrap();
        let one = OneRunArgs { run: "small".into(), results: args.results.clone() };
        assert!(resume(&one).unwrap());
        assert!(third.is_file());
        assert_eq!(
            std::fs::read(kept.path().join("parts/0001.json")).unwrap(),
            first,
            "finished parts are kept"
        );
        let both =
            CompareArgs { baseline: "small".into(), candidate: "last".into(), results: args.results.clone() };
        assert!(compare(&both).unwrap());
        let what = ShowArgs { what: "last".into(), results: args.results.clone() };
        assert!(show(&what).unwrap() && list(&args.results).unwrap() && report(&one).unwrap());
    }

    #[test]
    fn errors_are_reported_before_anything_starts() {
        let directory = tempfile::tempdir().unwrap();
        for (text, words) in [
            (NOOP.replace("threads", "treads"), "line 24, column 1"),
            (NOOP.replace("recordcount", "recordcont"), "line 17, column 16"),
            (NOOP.replace("recordcount = 100", "recordcount = 'many'"), "line 17, column 16"),
            (NOOP.replace("recordcount = 100", "recordcount = 0"), "line 14, column 1"),
            (NOOP.replace("\"noop\"", "\"rocksdb\""), "--features rocksdb"),
        ] {
            let args = args(directory.path(), &text);
            let error = run(&args).unwrap_err().to_string();
            if words.contains("rocksdb") && cfg!(feature = "rocksdb") {
                continue;
            }
            assert!(error.contains(words), "{error}");
            assert!(!args.results.results.exists());
        }
    }

    #[test]
    fn a_missing_server_is_named_and_finished_parts_are_kept() {
        let directory = tempfile::tempdir().unwrap();
        let text = NOOP.replace(
            "[[configuration]]\nname = \"one\"",
            "[[engine]]\nkind = \"cql\"\ncontact = [\"127.0.0.1:1\"]\n\n[[configuration]]\nname = \"one\"",
        );
        let args = args(directory.path(), &text);
        let error = run(&args).unwrap_err().to_string();
        assert!(error.contains("127.0.0.1:1"), "{error}");
    }
}
