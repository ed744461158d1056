//! The command `cassette lab ab`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::Deserialize;

use super::console::{Console, Progress};
use super::{Letters, ServerArgs, parse_workloads};
use crate::LabError;
use crate::benchmark::{Benchmark, Observer};
use crate::builds::{NEW, OLD, Rounds, table};
use crate::cql::CqlSettings;
use crate::results::{Machine, PhaseReport};
use crate::run::Target;
use crate::served::{ServedTarget, ServerSettings};
use crate::ycsb::CoreWorkload;

/// Requests in flight to a server.
const IN_FLIGHT: usize = 16;

/// Arguments of `lab ab`.
#[derive(Debug, Clone, Args)]
pub struct AbArgs {
    /// Program to compare with
    #[arg(value_name = "OLD")]
    pub old: PathBuf,

    /// Program to compare
    #[arg(value_name = "NEW")]
    pub new: PathBuf,

    /// YCSB's core workloads, in this order on the same records
    #[arg(short, long, value_name = "LETTERS", default_value = "a,b,c,f,d")]
    #[arg(value_delimiter = ',', value_parser = parse_workloads)]
    pub workload: Vec<Letters>,

    /// Number of rounds; each measures both programs
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub rounds: usize,

    /// Records to load and to choose from
    #[arg(short = 'n', long, value_name = "N", default_value_t = 100_000)]
    pub records: u64,

    /// Operations of each run
    #[arg(short, long, value_name = "N", default_value_t = 200_000)]
    pub operations: u64,

    /// How the programs are used: as servers with 16 requests in flight, or embedded with one
    /// thread
    #[arg(short, long, value_enum, value_delimiter = ',', default_values_t = [Use::Served, Use::Embedded])]
    pub engine: Vec<Use>,

    /// Directory for the engines' files, which are removed at the end [default: the system's
    /// temporary directory]
    #[arg(short, long, value_name = "DIR")]
    pub data: Option<PathBuf>,

    /// Fail (exit code 1) if throughput or processor time is worse by more than this, with a shown
    /// difference
    #[arg(long, value_name = "PERCENT")]
    pub fail_if_slower: Option<f64>,

    /// Output file of the values of all rounds as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// How a program is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Use {
    /// As a server
    Served,
    /// Embedded in its own laboratory
    Embedded,
}

impl Use {
    fn name(self) -> &'static str {
        match self {
            Self::Served => "served",
            Self::Embedded => "embedded",
        }
    }
}

/// Runs `lab ab`. Returns `false` if the new program is slower than allowed, or if operations
/// failed.
pub fn run(args: &AbArgs) -> Result<bool, LabError> {
    check(args)?;
    let console = Console::new()?;
    console.warn_if_busy();
    let mut rounds = Rounds::default();
    let mut failed = 0;
    for round in 0..args.rounds {
        let order = if round % 2 == 0 { [OLD, NEW] } else { [NEW, OLD] };
        for engine in &args.engine {
            for build in order {
                let (name, program) = if build == OLD { ("old", &args.old) } else { ("new", &args.new) };
                console.print(&format!(
                    "round {} of {}: {}, {name} program\n",
                    round + 1,
                    args.rounds,
                    engine.name()
                ));
                let phases = measure(args, *engine, program, &console)?;
                failed += phases.iter().map(|phase| phase.failed).sum::<u64>();
                let stopped = phases.iter().find_map(|phase| phase.stopped.clone());
                if let Some(reason) = stopped.or_else(|| console.stop_reason()) {
                    return Err(LabError::Usage(format!("round {} stopped: {reason}", round + 1)));
                }
                rounds.add(engine.name(), build, &phases);
            }
        }
    }
    let differences = rounds.differences();
    console.print(&format!(
        "\nold: {}\nnew: {}\n\n{}\nMeans of {} rounds, and the change between the programs of a round. better and \
         worse: p < 0.05, corrected by Holm.\nCPU is that of the server, or of engine and client if embedded.\n",
        args.old.display(),
        args.new.display(),
        table(&differences),
        args.rounds
    ));
    if let Some(path) = &args.json {
        let json = serde_json::json!({
            "old": args.old, "new": args.new, "machine": Machine::this(), "differences": differences,
        });
        crate::files::write_atomically(path, json.to_string().as_bytes())?;
    }
    let is_slower = |percent| differences.iter().any(|difference| difference.is_slower_by(percent));
    Ok(failed == 0 && !args.fail_if_slower.is_some_and(is_slower))
}

fn check(args: &AbArgs) -> Result<(), LabError> {
    if args.rounds == 0 || args.records == 0 || args.operations == 0 {
        return Err(LabError::Usage(
            "invalid number of rounds, records or operations: expected at least 1".into(),
        ));
    }
    if args.fail_if_slower.is_some_and(|percent| !(percent.is_finite() && percent >= 0.0)) {
        return Err(LabError::Usage("invalid --fail-if-slower: expected at least 0 per cent".into()));
    }
    for program in [&args.old, &args.new] {
        if !program.is_file() {
            return Err(LabError::Usage(format!(
                "no program at {}: expected the path of a `cassette` binary",
                program.display()
            )));
        }
    }
    Ok(())
}

/// Measures a program with a new data directory.
fn measure(
    args: &AbArgs,
    engine: Use,
    program: &Path,
    console: &Console,
) -> Result<Vec<PhaseReport>, LabError> {
    let directory = match &args.data {
        Some(data) => std::fs::create_dir_all(data).and_then(|()| tempfile::tempdir_in(data)),
        None => tempfile::tempdir(),
    };
    let directory = directory.map_err(|error| LabError::io("creating a directory for the files", error))?;
    match engine {
        Use::Served => served(args, program, directory.path(), console),
        Use::Embedded => embedded(args, program, directory.path()),
    }
}

/// The client of both programs is this one.
fn served(
    args: &AbArgs,
    program: &Path,
    data: &Path,
    console: &Console,
) -> Result<Vec<PhaseReport>, LabError> {
    let settings = ServerSettings {
        program: Some(program.to_owned()),
        data: data.join("served"),
        options: std::collections::BTreeMap::new(),
    };
    let mut target = ServedTarget::start(settings, client()?, None)?;
    let benchmark = Benchmark {
        workloads: args
            .workload
            .iter()
            .flat_map(|letters| letters.0.iter())
            .filter_map(|letter| {
                let mut workload = CoreWorkload::core(*letter)?;
                (workload.record_count, workload.operation_count) = (args.records, args.operations);
                Some((letter.to_string(), workload))
            })
            .collect(),
        load: true,
        run: true,
        replace: false,
        in_flight: IN_FLIGHT,
        rate: None,
        spin: false,
        seed: 1,
        repeats: 1,
        settle: Duration::ZERO,
        server_pid: target.server_pids().first().copied(),
    };
    benchmark.perform(&mut target, &Progress(console))
}

/// Returns the settings of `lab ycsb` without arguments.
fn client() -> Result<CqlSettings, LabError> {
    let command = ServerArgs::augment_args(clap::Command::new("ab"));
    let matches = command.try_get_matches_from(["ab"]);
    let server = matches.and_then(|matches| <ServerArgs as clap::FromArgMatches>::from_arg_matches(&matches));
    server.map_err(|error| LabError::Usage(error.to_string()))?.settings("")
}

/// What is read of a report of `lab ycsb`; those of older versions have it, too.
#[derive(Deserialize)]
struct YcsbReport {
    phases: Vec<PhaseReport>,
}

fn embedded(args: &AbArgs, program: &Path, data: &Path) -> Result<Vec<PhaseReport>, LabError> {
    let report = data.join("report.json");
    let letters: Vec<String> =
        args.workload.iter().flat_map(|letters| letters.0.iter().map(char::to_string)).collect();
    let output = Command::new(program)
        .args(["lab", "ycsb", "--engine", "embedded", "--threads", "1", "--workload", &letters.join(",")])
        .args(["--records", &args.records.to_string(), "--operations", &args.operations.to_string()])
        .arg("--data")
        .arg(data.join("embedded"))
        .arg("--json")
        .arg(&report)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .output()
        .map_err(|error| LabError::io(format!("starting {}", program.display()), error))?;
    let read = |error| LabError::io(format!("reading the report of {}", program.display()), error);
    // A run with failed operations ends with 1 and has a report.
    if !report.exists() {
        let printed = String::from_utf8_lossy(&output.stderr);
        let last = printed.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it printed nothing");
        return Err(LabError::Usage(format!(
            "{} lab ycsb failed ({}): {last}",
            program.display(),
            output.status
        )));
    }
    let text = std::fs::read(&report).map_err(read)?;
    let parsed: YcsbReport = serde_json::from_slice(&text).map_err(|error| read(error.into()))?;
    Ok(parsed.phases)
}
