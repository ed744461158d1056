//! Stores runs in files that are written atomically.
//!
//! ```text
//! lab-results/<name>-<time>/
//!   run.json            what was asked for: the file's text, the order of the parts, machine, version, command
//!   parts/0001.json     what a finished part gave, one file each
//!   data/               the engine's files, while a part is under way
//!   report.html, .md, .csv, .json
//! ```

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::plan::Part;
use super::search::Trial;
use crate::LabError;
use crate::agents::AgentList;
use crate::files::write_atomically;
use crate::format::rounded;
use crate::results::{EngineInfo, LatencyReport, Machine, PhaseReport, ProcessReport};
use crate::run::{Counters, Second};

/// Description of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunInfo {
    /// Name of the experiment.
    pub name: String,
    /// Version of Cassette.
    pub version: String,
    /// Command line without passwords.
    pub command: String,
    /// Start time in UTC.
    pub started_at: String,
    /// Machine it runs on.
    pub machine: Machine,
    /// Content of the file.
    pub file: String,
    /// Origin of the file: a path, or the name of a built-in experiment.
    pub origin: String,
    /// Factor applied to records, operations and seconds.
    pub scale: f64,
    /// Requested engines; empty for all that are not optional.
    pub engines: Vec<String>,
    /// All parts, in order.
    pub parts: Vec<Part>,
    /// The agents that execute the operations, if they do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agents: Option<AgentList>,
}

/// Result of a part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PartResult {
    /// The part.
    pub part: Part,
    /// Start time in UTC.
    pub started_at: String,
    /// Duration, including the creation and the removal of the engine.
    pub seconds: f64,
    /// The engine with the settings it reported.
    pub engine: EngineInfo,
    /// Requested options.
    pub options: BTreeMap<String, String>,
    /// Table options (WITH …).
    #[serde(default)]
    pub table: String,
    /// Results of its phases, in order.
    pub phases: Vec<PhaseResult>,
    /// Why it ended early; such a part counts as not done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<String>,
}

/// Result of a phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PhaseResult {
    /// Name of the phase.
    pub name: String,
    /// Start of the phase, in seconds from that of the part.
    pub at: f64,
    /// Duration.
    pub seconds: f64,
    /// Statistics, if it loaded, ran or searched.
    #[serde(default, alias = "figures", skip_serializing_if = "Option::is_none")]
    pub statistics: Option<PhaseStatistics>,
}

/// Statistics of a phase that drove the engine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PhaseStatistics {
    /// Of the whole phase.
    pub report: PhaseReport,
    /// Of the phase without its warm-up.
    pub steady: Steady,
    /// One entry per second.
    pub series: Vec<Second>,
    /// Counters of the engine before the phase.
    #[serde(default, skip_serializing_if = "Counters::is_empty")]
    pub before: Counters,
    /// Counters of the engine after the phase.
    #[serde(default, skip_serializing_if = "Counters::is_empty")]
    pub after: Counters,
    /// Number of concurrent operations.
    pub threads: usize,
    /// Requested rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Of a search: the rates tried. The statistics are those of the highest successful one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trials: Vec<Trial>,
}

/// The steady part of a phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Steady {
    /// Seconds excluded at the beginning.
    pub from: f64,
    /// Whether the phase became steady; if not, nothing is excluded.
    pub reached: bool,
    /// Successful operations.
    pub operations: u64,
    /// Successful operations per second.
    pub throughput: f64,
    /// Latencies by kind of operation.
    pub latencies: BTreeMap<String, LatencyReport>,
}

impl PhaseStatistics {
    /// Returns the metrics by which repeats are compared, with their names: `throughput` in
    /// operations per second (or `rate`, of a search), `CPU/op` of the engine's processes (or of
    /// this one, for an embedded engine), and mean and percentiles of each kind of operation in
    /// microseconds.
    pub fn metrics(&self) -> Vec<(String, f64)> {
        let mut metrics = Vec::new();
        match self.trials.iter().filter(|trial| trial.kept).map(|trial| trial.rate).reduce(f64::max) {
            Some(rate) => metrics.push(("rate".to_owned(), rate)),
            None => metrics.push(("throughput".to_owned(), self.steady.throughput)),
        }
        metrics.extend(self.cpu_us_per_operation().map(|cost| ("CPU/op".to_owned(), cost)));
        for (kind, latencies) in &self.steady.latencies {
            let statistics = &latencies.response;
            for (name, value) in [
                ("mean", statistics.mean_us),
                ("p50", statistics.p50_us),
                ("p95", statistics.p95_us),
                ("p99", statistics.p99_us),
                ("p99.9", statistics.p99_9_us),
            ] {
                metrics.push((format!("{kind} {name}"), value));
            }
        }
        metrics
    }
}

/// Processors of a machine that other programs or machines used.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Missing {
    /// Number of the missing ones.
    pub processors: f64,
    /// Number of all.
    pub of: usize,
}

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {} processors", rounded(self.processors), self.of)
    }
}

impl Missing {
    /// Returns the missing share of all.
    pub fn share(&self) -> f64 {
        self.processors / self.of.max(1) as f64
    }
}

impl PartResult {
    /// Returns the processors that were missing in the most disturbed phase, if they are enough to
    /// change results. The machine of the run has so many `processors`.
    pub fn missing_processors(&self, processors: usize) -> Option<Missing> {
        let missing = |phase: &PhaseResult| {
            let (disturbance, of) = phase.statistics.as_ref()?.report.most_disturbed(processors)?;
            Some(Missing { processors: disturbance.missing(of)?, of })
        };
        let phases = self.phases.iter().filter_map(missing);
        phases.max_by(|one, other| one.share().total_cmp(&other.share()))
    }
}

impl PhaseStatistics {
    /// Returns the processor time per operation over the whole phase, the metric least affected by
    /// other processes.
    fn cpu_us_per_operation(&self) -> Option<f64> {
        let is_server = self.report.processes.iter().any(|process| process.role == "server");
        let role = if is_server { "server" } else { "laboratory" };
        let of_role = self.report.processes.iter().filter(|process| process.role == role);
        let seconds: f64 = of_role.map(ProcessReport::cpu_seconds).sum();
        let operations = self.report.operations as f64;
        (operations > 0.0 && seconds > 0.0).then(|| seconds * 1e6 / operations)
    }
}

/// The directory of a run.
#[derive(Debug, Clone)]
pub struct RunDirectory(PathBuf);

impl RunDirectory {
    /// Creates the directory of a new run in `results`.
    pub fn create(results: &Path, info: &RunInfo) -> Result<Self, LabError> {
        let time: String = info.started_at.chars().filter(char::is_ascii_alphanumeric).collect();
        let base = results.join(format!("{}-{time}", info.name));
        let attempt = |path: &Path, error| LabError::io(format!("making {}", path.display()), error);
        fs::create_dir_all(results).map_err(|error| attempt(results, error))?;
        // Two runs of one experiment may start within the same second.
        for number in 1..1000 {
            let path = if number == 1 {
                base.clone()
            } else {
                PathBuf::from(format!("{}-{number}", base.display()))
            };
            match fs::create_dir(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(attempt(&path, error)),
                Ok(()) => {
                    let parts = path.join("parts");
                    fs::create_dir(&parts).map_err(|error| attempt(&parts, error))?;
                    let directory = Self(path);
                    write_json(&directory.0.join("run.json"), info)?;
                    return Ok(directory);
                }
            }
        }
        Err(LabError::Usage(format!("{} exists a thousand times", base.display())))
    }

    /// Finds a run by its directory, by its name in `results`, by the experiment's name (its last
    /// run), or as `last`.
    pub fn find(results: &Path, run: &str) -> Result<Self, LabError> {
        for path in [PathBuf::from(run), results.join(run)] {
            if path.join("run.json").is_file() {
                return Ok(Self(path));
            }
        }
        let newest = Self::all(results)
            .into_iter()
            .filter(|(_, info)| run == "last" || info.name == run)
            .max_by(|a, b| (&a.1.started_at, &a.0.0).cmp(&(&b.1.started_at, &b.0.0)));
        newest.map(|(directory, _)| directory).ok_or_else(|| {
            LabError::Usage(format!(
                "no run {run:?} in {}; `lab list` shows those there are",
                results.display()
            ))
        })
    }

    /// Returns all runs in `results`, oldest first; skips other directories.
    pub fn all(results: &Path) -> Vec<(Self, RunInfo)> {
        let entries = fs::read_dir(results).into_iter().flatten().flatten();
        let mut runs: Vec<(Self, RunInfo)> = entries
            .filter_map(|entry| {
                let directory = Self(entry.path());
                let info = directory.info().ok()?;
                Some((directory, info))
            })
            .collect();
        runs.sort_by(|a, b| a.1.started_at.cmp(&b.1.started_at));
        runs
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Reads the description of the run.
    pub fn info(&self) -> Result<RunInfo, LabError> {
        read_json(&self.0.join("run.json"))
    }

    /// Reads the result of part `number`, if it is done.
    pub fn part(&self, number: usize) -> Result<Option<PartResult>, LabError> {
        let path = self.part_path(number);
        if path.exists() { read_json(&path).map(Some) } else { Ok(None) }
    }

    /// Reads the results of all completed parts, in order.
    pub fn parts(&self, info: &RunInfo) -> Result<Vec<PartResult>, LabError> {
        let found = info.parts.iter().map(|part| self.part(part.number));
        Ok(found.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
    }

    /// Stores the result of a part. A stopped part is stored separately and does not count as done.
    pub fn keep(&self, result: &PartResult) -> Result<(), LabError> {
        match result.stopped {
            None => write_json(&self.part_path(result.part.number), result),
            Some(_) => {
                let name = format!("parts/{:04}.stopped.json", result.part.number);
                write_json(&self.0.join(name), result)
            }
        }
    }

    /// Stores a report under `name`.
    pub fn keep_report(&self, name: &str, text: &[u8]) -> Result<PathBuf, LabError> {
        let path = self.0.join(name);
        write_atomically(&path, text)?;
        Ok(path)
    }

    /// Locks the run for this process until the returned file is dropped or the process ends.
    pub fn lock(&self) -> Result<File, LabError> {
        let path = self.0.join("run.json");
        let file =
            File::open(&path).map_err(|error| LabError::io(format!("opening {}", path.display()), error))?;
        match file.try_lock() {
            Err(fs::TryLockError::WouldBlock) => {
                Err(LabError::Usage(format!("another process works on {} already", self.0.display())))
            }
            // A file system without locks is no reason to refuse measurements.
            Ok(()) | Err(fs::TryLockError::Error(_)) => Ok(file),
        }
    }

    /// Creates an empty directory for an engine's files, removing those of an earlier part.
    pub fn fresh_data(&self) -> Result<PathBuf, LabError> {
        self.remove_data()?;
        let path = self.0.join("data");
        fs::create_dir(&path).map_err(|error| LabError::io(format!("making {}", path.display()), error))?;
        Ok(path)
    }

    /// Removes the engine's files, if there are any.
    pub fn remove_data(&self) -> Result<(), LabError> {
        let path = self.0.join("data");
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(LabError::io(format!("removing {}", path.display()), error))
            }
            _ => Ok(()),
        }
    }

    /// Removes a run without results.
    pub fn discard(self) {
        // Harmless if it cannot be removed.
        let _ = fs::remove_dir_all(&self.0);
    }

    fn part_path(&self, number: usize) -> PathBuf {
        self.0.join(format!("parts/{number:04}.json"))
    }
}

fn write_json(path: &Path, value: &impl Serialize) -> Result<(), LabError> {
    let mut text = serde_json::to_vec(value)
        .map_err(|error| LabError::io(format!("writing {}", path.display()), error.into()))?;
    text.push(b'\n');
    write_atomically(path, &text)
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, LabError> {
    let attempt = |error| LabError::io(format!("reading {}", path.display()), error);
    let bytes = fs::read(path).map_err(attempt)?;
    serde_json::from_slice(&bytes).map_err(|error| attempt(error.into()))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub fn info(parts: Vec<Part>) -> RunInfo {
        RunInfo {
            name: "small".into(),
            version: "0".into(),
            command: "cassette lab run small".into(),
            started_at: "2026-01-02T03:04:05Z".into(),
            machine: Machine::this(),
            file: String::new(),
            origin: "small.toml".into(),
            scale: 1.0,
            engines: Vec::new(),
            parts,
            agents: None,
        }
    }

    fn result(number: usize, stopped: Option<&str>) -> PartResult {
        let part = Part { number, repeat: 1, engine: "noop".into(), configuration: "one".into() };
        PartResult {
            part,
            started_at: String::new(),
            seconds: 1.5,
            engine: EngineInfo::default(),
            options: BTreeMap::new(),
            table: String::new(),
            phases: Vec::new(),
            stopped: stopped.map(str::to_owned),
        }
    }

    #[test]
    fn finished_parts_are_found_and_stopped_ones_do_not_count() {
        let results = tempfile::tempdir().unwrap();
        let info = info(vec![result(1, None).part, result(2, None).part]);
        let run = RunDirectory::create(results.path(), &info).unwrap();
        run.keep(&result(1, None)).unwrap();
        run.keep(&result(2, Some("interrupted"))).unwrap();
        for name in ["last", "small", "small-20260102T030405Z", run.path().to_str().unwrap()] {
            let found = RunDirectory::find(results.path(), name).unwrap();
            assert_eq!(found.info().unwrap(), info);
            assert_eq!(found.parts(&info).unwrap(), [result(1, None)]);
        }
        assert!(RunDirectory::find(results.path(), "nosuch").unwrap_err().to_string().contains("nosuch"));
        let second = RunDirectory::create(results.path(), &info).unwrap();
        assert_ne!(second.path(), run.path());
        assert_eq!(RunDirectory::all(results.path()).len(), 2);
    }
}
