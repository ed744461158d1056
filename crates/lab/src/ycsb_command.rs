//! `cassette lab ycsb`: creates the engine, runs the experiment, shows and stores the report.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use jiff::Timestamp;
use signal_hook::consts::SIGINT;
use tempfile::TempDir;

use crate::LabError;
use crate::cli::{EngineKind, YcsbArgs};
use crate::cql::CqlTarget;
use crate::engine::embedded::{Embedded, EmbeddedSettings};
use crate::engine::noop::Noop;
use crate::experiment::{Experiment, Observer};
use crate::experiments::store::write_whole;
use crate::report::{Driving, Machine, PhaseReport, Report, text};
use crate::run::live::LiveView;
use crate::run::threads::Threads;
use crate::run::{PhasePlan, Target};

/// Runs the command. Returns `false` if operations failed.
pub fn run(args: &YcsbArgs) -> Result<bool, LabError> {
    let experiment = args.experiment()?;
    let (mut target, _thrown_away) = target(args)?;
    let started = Timestamp::now();
    let mut report = Report {
        benchmark: "ycsb".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        command: command_line(std::env::args()),
        started_at: started.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        machine: Machine::this(),
        engine: target.describe(),
        driving: Driving {
            in_flight: experiment.in_flight,
            rate: experiment.rate,
            seed: experiment.seed,
            repeats: experiment.repeats,
        },
        phases: Vec::new(),
    };
    // Cassandra's clients read its version from `system.local`, so Cassette reports that version
    // too: the program name distinguishes them.
    if let Some(pid) = experiment.server_pid
        && let Ok(program) = std::fs::read_link(format!("/proc/{pid}/exe"))
    {
        report.engine.settings.insert("server program".into(), program.display().to_string());
    }
    let console = Console::new()?;
    console.print(&text::heading(&report));
    report.phases = experiment.perform(target.as_mut(), &console)?;
    console.print(&text::summary(&report));
    if !args.no_json {
        let path = args.json.clone().unwrap_or_else(|| default_path(args, &experiment, started));
        write_json(&report, &path)?;
        console.print(&format!("report: {}\n", path.display()));
    }
    Ok(report.phases.iter().all(|phase| phase.failed == 0 && phase.stopped.is_none()))
}

/// Creates the engine, and the temporary directory that must outlive it.
fn target(args: &YcsbArgs) -> Result<(Box<dyn Target>, Option<TempDir>), LabError> {
    Ok(match args.engine {
        EngineKind::Embedded => {
            let (data, thrown_away) = data_directory(args)?;
            let settings = EmbeddedSettings {
                data,
                memtable_bytes: args.memtable_mib.map(|mib| mib << 20),
                cache_bytes: args.cache_mib.map(|mib| mib << 20),
                table_options: args.table_options.clone(),
                options: args
                    .disk_access
                    .iter()
                    .map(|mode| ("disk_access_mode".to_owned(), mode.clone()))
                    .collect(),
            };
            (Box::new(Threads(Embedded::open(settings)?)), thrown_away)
        }
        EngineKind::Cql => (Box::new(CqlTarget::new(args.server.settings(&args.table_options)?)?), None),
        EngineKind::Noop => (Box::new(Threads(Noop)), None),
        EngineKind::Served => {
            return Err(LabError::Usage(
                "start one with `cassette serve`, and measure it with --engine cql".into(),
            ));
        }
        EngineKind::Cassandra => {
            return Err(LabError::Usage(
                "start one with `cassette lab cassandra start`, and measure it with --engine cql".into(),
            ));
        }
        EngineKind::Cells => {
            return Err(LabError::Usage(
                "it is measured by experiments: `cassette lab run cell-loader`".into(),
            ));
        }
        #[cfg(feature = "leveldb")]
        EngineKind::Leveldb => store::<crate::engine::leveldb::LevelDb>(args)?,
        #[cfg(feature = "rocksdb")]
        EngineKind::Rocksdb => store::<crate::engine::rocksdb::RocksDb>(args)?,
        #[cfg(feature = "fjall")]
        EngineKind::Fjall => store::<crate::engine::fjall::Fjall>(args)?,
        #[cfg(not(all(feature = "leveldb", feature = "rocksdb", feature = "fjall")))]
        engine => {
            let name = engine_name(engine);
            return Err(LabError::Usage(format!(
                "this was built without {name}; build it with `--features {name}` to measure that"
            )));
        }
    })
}

#[cfg(any(feature = "leveldb", feature = "rocksdb", feature = "fjall"))]
fn store<S: crate::engine::key_value::KeyValueStore + 'static>(
    args: &YcsbArgs,
) -> Result<(Box<dyn Target>, Option<TempDir>), LabError> {
    use crate::engine::key_value::{KeyValueEngine, StoreSettings};
    let bytes = |mib: Option<u64>| mib.map(|mib| mib << 20);
    let settings = StoreSettings {
        cache_bytes: bytes(args.cache_mib),
        memtable_bytes: bytes(args.memtable_mib),
        ..StoreSettings::default()
    };
    let (data, thrown_away) = data_directory(args)?;
    Ok((Box::new(Threads(KeyValueEngine::<S>::new(&data, settings))), thrown_away))
}

/// Returns the directory of an embedded engine's files: the requested one, or a temporary one that
/// is removed when dropped.
fn data_directory(args: &YcsbArgs) -> Result<(PathBuf, Option<TempDir>), LabError> {
    if let Some(data) = &args.data {
        return Ok((data.clone(), None));
    }
    if !args.phase.contains(&crate::cli::Phase::Load) {
        return Err(LabError::Usage("a run without a load needs the --data of an earlier one".into()));
    }
    let directory =
        tempfile::tempdir().map_err(|error| LabError::io("making a temporary directory", error))?;
    Ok((directory.path().to_path_buf(), Some(directory)))
}

fn engine_name(engine: EngineKind) -> String {
    engine.to_possible_value().map_or_else(|| "engine".into(), |value| value.get_name().to_string())
}

fn default_path(args: &YcsbArgs, experiment: &Experiment, started: Timestamp) -> PathBuf {
    let engine = engine_name(args.engine);
    let workloads: String = experiment.workloads.iter().map(|(name, _)| name.as_str()).collect();
    let time = started.strftime("%Y%m%dT%H%M%SZ");
    PathBuf::from(format!("lab-results/ycsb-{engine}-{workloads}-{time}.json"))
}

fn write_json(report: &Report, path: &Path) -> Result<(), LabError> {
    let attempt = |error| LabError::io(format!("writing the report to {}", path.display()), error);
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory).map_err(attempt)?;
    }
    let mut text = serde_json::to_vec_pretty(report).map_err(|error| attempt(error.into()))?;
    text.push(b'\n');
    write_whole(path, &text)
}

/// Returns the command as it could be typed again, without the argument of `--password`.
pub(crate) fn command_line(arguments: impl Iterator<Item = String>) -> String {
    let mut shown = Vec::new();
    let mut hide_next = false;
    for argument in arguments {
        let argument = match argument.split_once('=') {
            _ if std::mem::take(&mut hide_next) => "***".to_string(),
            Some(("--password", _)) => "--password=***".to_string(),
            _ => argument,
        };
        hide_next = argument == "--password";
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,*".contains(c);
        shown.push(if argument.chars().all(plain) && !argument.is_empty() {
            argument
        } else {
            format!("'{}'", argument.replace('\'', r"'\''"))
        });
    }
    shown.join(" ")
}

/// Shows progress on standard error, if it is a terminal, and results on standard output.
pub(crate) struct Console {
    bar: ProgressBar,
    /// Whether the bar shows milliseconds instead of operations.
    by_time: AtomicBool,
    interrupted: Arc<AtomicBool>,
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl Console {
    /// Installs a handler: the first Ctrl-C ends the phase, so that results so far are reported; a
    /// second one ends the process.
    pub(crate) fn new() -> Result<Self, LabError> {
        let interrupted = Arc::new(AtomicBool::new(false));
        let handled = signal_hook::flag::register_conditional_shutdown(SIGINT, 130, Arc::clone(&interrupted))
            .and_then(|_| signal_hook::flag::register(SIGINT, Arc::clone(&interrupted)));
        handled.map_err(|error| LabError::io("handling Ctrl-C", error))?;
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        Ok(Self { bar, by_time: AtomicBool::new(false), interrupted })
    }

    /// Removes the progress bar.
    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }

    pub(crate) fn print(&self, text: &str) {
        self.bar.suspend(|| {
            let mut out = std::io::stdout().lock();
            // A closed output is no reason to lose the report that is still to be written.
            let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        });
    }
}

impl Observer for Console {
    fn begins(&self, plan: &PhasePlan) {
        // If a phase is bounded by both, the remaining time is known better.
        let length = plan.time.map(milliseconds).or(plan.operations);
        let style = match length {
            Some(_) => "{prefix:<6} {wide_bar} {percent:>3} %  {msg}  {eta} left",
            None => "{prefix:<6} {spinner}  {msg}  {elapsed}",
        };
        self.by_time.store(plan.time.is_some(), Ordering::Relaxed);
        self.bar.reset();
        self.bar.set_style(ProgressStyle::with_template(style).expect("the templates are right"));
        self.bar.set_prefix(plan.name.clone());
        self.bar.set_message("");
        match length {
            Some(length) => self.bar.set_length(length),
            None => self.bar.unset_length(),
        }
    }

    fn goes_on(&self, view: &LiveView) {
        let failed = match view.failures {
            0 => String::new(),
            failures => format!("  {} FAILED", text::grouped(failures)),
        };
        let p99 = view.recent_p99_ns.map_or("-".into(), |ns| text::grouped(ns.div_ceil(1000)));
        self.bar.set_position(if self.by_time.load(Ordering::Relaxed) {
            milliseconds(self.bar.elapsed())
        } else {
            view.operations + view.failures
        });
        self.bar.set_message(format!(
            "{:>9} ops/s  p99 {p99:>7} µs{failed}",
            text::grouped((view.recent_operations as f64 / view.recent_seconds).round() as u64)
        ));
    }

    fn wants_to_stop(&self) -> Option<String> {
        self.interrupted.load(Ordering::Relaxed).then(|| "interrupted".to_owned())
    }

    fn ends(&self, report: &PhaseReport) {
        self.bar.finish_and_clear();
        self.print(&text::phase(report));
    }
}

/// Shows progress, and only the failures of phases: their results are shown together at the end.
pub(crate) struct Progress<'a>(pub(crate) &'a Console);

impl Observer for Progress<'_> {
    fn begins(&self, plan: &PhasePlan) {
        self.0.begins(plan);
    }

    fn goes_on(&self, view: &LiveView) {
        self.0.goes_on(view);
    }

    fn wants_to_stop(&self) -> Option<String> {
        self.0.wants_to_stop()
    }

    fn ends(&self, report: &PhaseReport) {
        if report.failed == 0 && report.stopped.is_none() {
            self.0.clear();
        } else {
            self.0.ends(report);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(arguments: &[&str]) -> String {
        command_line(arguments.iter().map(ToString::to_string))
    }

    #[test]
    fn the_command_can_be_typed_again_and_tells_no_password() {
        assert_eq!(line(&["cassette", "lab", "-p", "a=b c"]), "cassette lab -p 'a=b c'");
        assert_eq!(line(&["x", "--password", "secret", "y"]), "x --password *** y");
        assert_eq!(line(&["x", "--password=secret=", "y"]), "x --password=*** y");
        assert_eq!(line(&["it's"]), r"'it'\''s'");
    }
}
