//! `cassette lab ycsb`: creates the engine, runs the benchmark, shows and stores the report.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use jiff::Timestamp;
use tempfile::TempDir;

use super::YcsbArgs;
use super::console::{Console, command_line};
use crate::LabError;
use crate::benchmark::Benchmark;
use crate::cql::CqlTarget;
use crate::engine::embedded::{Embedded, EmbeddedSettings};
use crate::engine::noop::Noop;
use crate::engine::{EngineKind, Threads};
use crate::files::write_atomically;
use crate::report::text;
use crate::results::{Driving, Machine, Report};
use crate::run::Target;

/// Runs the command. Returns `false` if operations failed.
pub fn run(args: &YcsbArgs) -> Result<bool, LabError> {
    let benchmark = args.benchmark()?;
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
            in_flight: benchmark.in_flight,
            rate: benchmark.rate,
            seed: benchmark.seed,
            repeats: benchmark.repeats,
        },
        phases: Vec::new(),
    };
    // Cassandra's clients read its version from `system.local`, so Cassette reports that version
    // too: the program name distinguishes them.
    if let Some(pid) = benchmark.server_pid
        && let Ok(program) = std::fs::read_link(format!("/proc/{pid}/exe"))
    {
        report.engine.settings.insert("server program".into(), program.display().to_string());
    }
    let console = Console::new()?;
    console.print(&text::heading(&report));
    console.warn_if_busy();
    report.phases = benchmark.perform(target.as_mut(), &console)?;
    console.print(&text::summary(&report));
    if !args.no_json {
        let path = args.json.clone().unwrap_or_else(|| default_path(args, &benchmark, started));
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
    if !args.phase.contains(&super::Phase::Load) {
        return Err(LabError::Usage("a run without a load needs the --data of an earlier one".into()));
    }
    let directory =
        tempfile::tempdir().map_err(|error| LabError::io("making a temporary directory", error))?;
    Ok((directory.path().to_path_buf(), Some(directory)))
}

fn engine_name(engine: EngineKind) -> String {
    engine.to_possible_value().map_or_else(|| "engine".into(), |value| value.get_name().to_string())
}

fn default_path(args: &YcsbArgs, benchmark: &Benchmark, started: Timestamp) -> PathBuf {
    let engine = engine_name(args.engine);
    let workloads: String = benchmark.workloads.iter().map(|(name, _)| name.as_str()).collect();
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
    write_atomically(path, &text)
}
