//! `lab tune`.

use std::fmt::Write;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use jiff::Timestamp;
use tempfile::TempDir;

use super::console::{Console, Progress};
use super::experiments::ResultsArgs;
use crate::LabError;
use crate::engine::EngineKind;
use crate::experiments::perform::{perform, workloads};
use crate::experiments::plan::Setup;
use crate::experiments::{Analysis, ExperimentFile, FileError, Part, PartResult, Plan};
use crate::files::write_atomically;
use crate::format::{duration, grouped, rounded};
use crate::report::markdown;
use crate::run::Observer;
use crate::statistics::{Verdict, mean};
use crate::tune::{Choice, Dimension, better_half, importance, sample, space_of};

/// Number of settings in the first round. Four halvings leave one.
const FIRST_ROUND: usize = 16;

/// Repeats of the best set and of the defaults at the end.
const LAST_REPEATS: usize = 5;

/// Arguments of `lab tune`.
#[derive(Debug, Clone, Args)]
pub struct TuneArgs {
    /// Engine to tune
    #[arg(short, long, value_enum)]
    pub engine: EngineKind,

    /// Addresses of a server, for --engine cql
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',')]
    pub contact: Vec<String>,

    /// Core workloads to tune for, after a load
    #[arg(short, long, value_name = "LETTERS", value_delimiter = ',', default_value = "a")]
    pub workload: Vec<char>,

    /// Records to load in the last round
    #[arg(short = 'n', long, value_name = "N", default_value_t = 100_000)]
    pub records: u64,

    /// Number of concurrent operations
    #[arg(short, long, value_name = "N", default_value_t = 1)]
    pub threads: usize,

    /// Approximate duration: 20m, 90s, 1h
    #[arg(long, value_name = "TIME", default_value = "20m", value_parser = parse_time)]
    pub budget: Duration,

    /// Search these values of an option instead of the default dimensions, e.g. --search
    /// block_size=4096,65536; the first value is considered the default
    #[arg(long = "search", value_name = "NAME=VALUES", value_parser = parse_dimension)]
    pub dimensions: Vec<Dimension>,

    /// Seed of random choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    #[command(flatten)]
    pub results: ResultsArgs,
}

fn parse_time(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = match &text[digits.len()..] {
        "s" | "" => 1,
        "m" => 60,
        "h" => 3600,
        _ => return Err(format!("invalid duration {text:?}: expected a time such as 90s, 20m or 1h")),
    };
    let number: u32 = digits
        .parse()
        .map_err(|_| format!("invalid duration {text:?}: expected a time such as 90s, 20m or 1h"))?;
    Ok(Duration::from_secs(u64::from(number) * unit))
}

fn parse_dimension(text: &str) -> Result<Dimension, String> {
    let (name, values) = text
        .split_once('=')
        .ok_or_else(|| format!("invalid dimension {text:?}: expected NAME=VALUE,VALUE"))?;
    let values: Vec<String> = values.split(',').map(str::to_owned).collect();
    if values.len() < 2 {
        return Err(format!("{name} needs at least two values"));
    }
    Ok(Dimension { name: name.to_owned(), values, default: 0 })
}

/// A set of settings.
#[derive(Debug, Clone)]
struct Candidate {
    /// Permanent name: `defaults`, or `set` and a number.
    name: String,
    choice: Choice,
}

impl TuneArgs {
    fn engine_name(&self) -> String {
        self.engine.to_possible_value().map_or_else(String::new, |kind| kind.get_name().to_owned())
    }

    /// Returns the experiment of some sets as a file, so that a tuned set can be run again like any
    /// experiment.
    fn file(&self, space: &[Dimension], candidates: &[Candidate], repeats: usize) -> String {
        let engine = self.engine_name();
        let mut out = String::new();
        let _ = writeln!(
            out,
            "name = \"tune-{engine}\"\nrepeats = {repeats}\nseed = {}\n\n[[engine]]\nkind = \"{engine}\"",
            self.seed
        );
        if !self.contact.is_empty() {
            let _ = writeln!(out, "contact = {:?}", self.contact);
        }
        for Candidate { name, choice } in candidates {
            let _ = writeln!(out, "\n[[configuration]]\nname = \"{name}\"");
            let table = space.iter().zip(choice).find(|(dimension, _)| dimension.name == "table");
            if let Some((dimension, value)) = table {
                let _ = writeln!(out, "table = \"{}\"", dimension.values[*value]);
            }
            let _ = writeln!(out, "[configuration.options]");
            for (dimension, value) in
                space.iter().zip(choice).filter(|(dimension, _)| dimension.name != "table")
            {
                let _ = writeln!(out, "{} = \"{}\"", dimension.name, dimension.values[*value]);
            }
        }
        for letter in &self.workload {
            let _ = writeln!(
                out,
                "\n[[workload]]\nname = \"{letter}\"\nycsb = \"{letter}\"\nproperties = {{ recordcount = {n}, \
                 operationcount = {n} }}",
                n = self.records
            );
        }
        let first = self.workload.first().copied().unwrap_or('a');
        let _ = writeln!(out, "\n[[phase]]\nname = \"load\"\nload = \"{first}\"\nthreads = {}", self.threads);
        for letter in &self.workload {
            let _ = writeln!(out, "\n[[phase]]\nrun = \"{letter}\"\nthreads = {}", self.threads);
        }
        out
    }
}

/// Returns the score of a part: the mean of the logarithms of its throughputs, so that all phases
/// have the same weight.
fn score(result: &PartResult) -> Option<f64> {
    let statistics = result.phases.iter().filter_map(|phase| phase.statistics.as_ref());
    let logarithms: Vec<f64> = statistics
        .filter(|statistics| statistics.report.failed == 0 && statistics.report.throughput > 0.0)
        .map(|statistics| statistics.report.throughput.ln())
        .collect();
    let all = result.phases.len() == logarithms.len() && result.stopped.is_none();
    all.then(|| mean(&logarithms))
}

/// The running command.
struct Tuning<'a> {
    args: &'a TuneArgs,
    space: Vec<Dimension>,
    console: Console,
    /// Directory of the engines' files, removed at the end.
    data: TempDir,
}

/// Runs the command.
pub fn run(args: &TuneArgs) -> Result<bool, LabError> {
    let space = space(args)?;
    let choices = sample(&space, FIRST_ROUND, args.seed);
    let named = |(number, choice): (usize, Choice)| {
        let name = if number == 0 { "defaults".to_owned() } else { format!("set {number}") };
        Candidate { name, choice }
    };
    let candidates: Vec<Candidate> = choices.into_iter().enumerate().map(named).collect();
    // Checked before anything starts: a wrong name, a missing engine.
    parsed(&args.file(&space, &candidates, 1))?;
    let results = &args.results.results;
    let data = std::fs::create_dir_all(results)
        .and_then(|()| tempfile::Builder::new().prefix("tune-data-").tempdir_in(results))
        .map_err(|error| LabError::io(format!("making a directory in {}", results.display()), error))?;
    Tuning { args, space, console: Console::new()?, data }.perform(candidates)
}

fn space(args: &TuneArgs) -> Result<Vec<Dimension>, LabError> {
    if !args.dimensions.is_empty() {
        return Ok(args.dimensions.clone());
    }
    let name = args.engine_name();
    space_of(&name).ok_or_else(|| LabError::Usage(format!("engine {name} has no settings to search")))
}

fn parsed(text: &str) -> Result<(ExperimentFile, Plan), LabError> {
    // The file is generated, so its lines are meaningless.
    let told = |error: FileError| LabError::Usage(error.message);
    let file = ExperimentFile::parse(text).map_err(told)?;
    let plan = Plan::new(&file, text, &[]).map_err(told)?;
    for setup in &plan.setups {
        workloads(&file, setup, 1.0)?;
    }
    Ok((file, plan))
}

impl Tuning<'_> {
    fn perform(&self, mut candidates: Vec<Candidate>) -> Result<bool, LabError> {
        let begun = Instant::now();
        let rounds = candidates.len().ilog2();
        // Every round runs half of the sets for twice as long; each part of the last comparison is
        // as long as the last round.
        let last_scale = f64::from(1u32 << rounds.saturating_sub(1));
        let parts = candidates.len() as f64 * f64::from(rounds) + (2 * LAST_REPEATS) as f64 * last_scale;
        let mut scale =
            self.first_scale(&candidates[0], self.args.budget.as_secs_f64() / parts, last_scale)?;
        let mut tried: Vec<(Choice, f64)> = Vec::new();
        for round in 1..=rounds {
            self.console.print(&format!(
                "Round {round} of {rounds}: {} sets, {} records and operations a phase\n",
                candidates.len(),
                grouped((self.args.records as f64 * scale).round() as u64)
            ));
            let scored = self.round(&candidates, scale)?;
            // Scores of longer rounds are not compared with those of shorter ones. Importance uses
            // the first round, which has the most sets.
            if tried.is_empty() {
                let finite = scored.iter().filter(|(_, value)| value.is_finite());
                tried = finite.map(|(candidate, value)| (candidate.choice.clone(), *value)).collect();
            }
            let left = better_half(scored);
            let names: Vec<&str> = left.iter().map(|(candidate, _)| candidate.name.as_str()).collect();
            self.console.print(&format!(
                "{} of {}: {} ({} of {} gone)\n\n",
                if left.len() == 1 { "The best" } else { "The better half" },
                candidates.len(),
                names.join(", "),
                duration(begun.elapsed()),
                duration(self.args.budget)
            ));
            candidates = left.into_iter().map(|(candidate, _)| candidate).collect();
            if round < rounds {
                scale *= 2.0;
            }
        }
        self.finish(&candidates[0], &tried, scale)
    }

    /// Tries each set once and returns their scores.
    fn round(&self, candidates: &[Candidate], scale: f64) -> Result<Vec<(Candidate, f64)>, LabError> {
        let (file, plan) = parsed(&self.args.file(&self.space, candidates, 1))?;
        let mut scored = Vec::new();
        for (candidate, setup) in candidates.iter().zip(&plan.setups) {
            let result = self.measure(&file, setup, scale)?;
            if let Some(reason) = self.console.stop_reason() {
                return Err(LabError::Usage(reason));
            }
            // A set that the engine rejects, or that fails, has the lowest score.
            let value = score(&result).unwrap_or(f64::NEG_INFINITY);
            let shown = if value.is_finite() {
                format!("{:>9} ops/s", rounded(value.exp()))
            } else {
                format!("failed: {}", result.stopped.unwrap_or_default())
            };
            let changed = changes(&self.space, &candidate.choice);
            self.console.print(&format!("  {:<9}{shown}  {changed}\n", candidate.name));
            scored.push((candidate.clone(), value));
        }
        Ok(scored)
    }

    /// Runs a set once.
    fn measure(&self, file: &ExperimentFile, setup: &Setup, scale: f64) -> Result<PartResult, LabError> {
        let part = Part {
            number: 1,
            repeat: 1,
            engine: setup.engine.label().into(),
            configuration: setup.configuration.clone(),
        };
        let data = tempfile::tempdir_in(self.data.path())
            .map_err(|error| LabError::io("making a directory for the engine's files", error))?;
        perform(file, (setup, &part), scale, data.path(), None, &Progress(&self.console))
    }

    /// Returns the scale at which one part takes about `seconds`, from the duration of the defaults
    /// at one hundredth. At most the full size in the last round, which has `last_scale` times as
    /// much.
    fn first_scale(&self, defaults: &Candidate, seconds: f64, last_scale: f64) -> Result<f64, LabError> {
        const TRIED: f64 = 0.01;
        let (file, plan) = parsed(&self.args.file(&self.space, std::slice::from_ref(defaults), 1))?;
        let begun = Instant::now();
        let result = self.measure(&file, &plan.setups[0], TRIED)?;
        if let Some(reason) = result.stopped {
            return Err(LabError::Usage(format!("the defaults fail: {reason}")));
        }
        Ok((TRIED * seconds / begun.elapsed().as_secs_f64()).clamp(0.001, 1.0 / last_scale))
    }

    /// Compares the best set with the defaults by repeats, and reports which settings mattered.
    fn finish(&self, best: &Candidate, tried: &[(Choice, f64)], scale: f64) -> Result<bool, LabError> {
        let defaults: Choice = self.space.iter().map(|dimension| dimension.default).collect();
        let mut out = String::new();
        if best.choice == defaults {
            out.push_str("No set was better than the defaults.\n");
        } else {
            let defaults = Candidate { name: "defaults".into(), choice: defaults };
            let text = self.args.file(&self.space, &[defaults, best.clone()], LAST_REPEATS);
            self.console.print(&format!("{} and the defaults, {LAST_REPEATS} times each\n", best.name));
            let analysis = self.compared(&text, scale)?;
            let _ = writeln!(out, "\n{}\n\nThe best set found, {}:", markdown::summary(&analysis), best.name);
            for (dimension, value) in self.space.iter().zip(&best.choice) {
                let default = &dimension.values[dimension.default];
                let was = if *value == dimension.default {
                    String::new()
                } else {
                    format!("   (default {default})")
                };
                let _ = writeln!(out, "  {} = {}{was}", dimension.name, dimension.values[*value]);
            }
            out.push_str(sureness(&analysis));
            let time = Timestamp::now().strftime("%Y%m%dT%H%M%SZ");
            let path =
                self.args.results.results.join(format!("tune-{}-{time}.toml", self.args.engine_name()));
            write_atomically(&path, text.as_bytes())?;
            let _ = writeln!(
                out,
                "Both are in {path}; `cassette lab run {path} --repeats 10` compares them again, whole.",
                path = path.display()
            );
        }
        let names = self.space.iter().map(|dimension| dimension.name.as_str());
        let mut shares: Vec<(f64, &str)> = importance(&self.space, tried).into_iter().zip(names).collect();
        shares.sort_by(|a, b| b.0.total_cmp(&a.0));
        let _ = writeln!(
            out,
            "\nHow much each setting by itself explains of the differences between the {} sets of the first round,\n\
             which is short and of one repeat a set:",
            tried.len()
        );
        for (share, name) in shares {
            let _ = writeln!(out, "  {:>5.1} %  {name}", share * 100.0);
        }
        self.console.print(&out);
        Ok(true)
    }

    /// Runs an experiment of two sets with interleaved repeats.
    fn compared(&self, text: &str, scale: f64) -> Result<Analysis, LabError> {
        let (file, plan) = parsed(text)?;
        let mut results = Vec::new();
        for part in &plan.parts {
            let Some(setup) = plan.setup(part) else { continue };
            let result = self.measure(&file, setup, scale)?;
            if let Some(reason) = self.console.stop_reason().or(result.stopped.clone()) {
                return Err(LabError::Usage(reason));
            }
            results.push(PartResult { part: part.clone(), ..result });
        }
        let info = crate::experiments::RunInfo {
            name: file.name.get_ref().clone(),
            version: env!("CARGO_PKG_VERSION").into(),
            command: String::new(),
            started_at: String::new(),
            machine: crate::results::Machine::this(),
            file: text.to_owned(),
            origin: String::new(),
            scale,
            engines: Vec::new(),
            parts: plan.parts.clone(),
            agents: None,
        };
        Ok(Analysis::new(&info, Some(&file), &results))
    }
}

/// Returns the interpretation of the last comparison.
fn sureness(analysis: &Analysis) -> &'static str {
    let throughputs = analysis.phases.iter().flat_map(|phase| &phase.metrics);
    let found: Vec<Verdict> = throughputs
        .filter(|metric| metric.higher_is_better())
        .flat_map(|metric| metric.comparisons.iter().flatten().map(|comparison| comparison.verdict()))
        .collect();
    let (higher, lower) = (found.contains(&Verdict::Higher), found.contains(&Verdict::Lower));
    match (higher, lower) {
        (true, false) => "It is faster than the defaults in the phases whose verdict shows it.\n",
        (true, true) => {
            "It is faster than the defaults in some phases, and slower in others: choose what matters.\n"
        }
        (false, true) => "It is slower than the defaults: its lead in the search was noise.\n",
        (false, false) => "No difference from the defaults is shown: noise may have selected it.\n",
    }
}

fn changes(space: &[Dimension], choice: &Choice) -> String {
    let changed = space.iter().zip(choice).filter(|(dimension, value)| **value != dimension.default);
    let texts: Vec<String> = changed
        .map(|(dimension, value)| format!("{}={}", dimension.name, dimension.values[*value]))
        .collect();
    texts.join(" ")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn args(engine: EngineKind, results: &Path) -> TuneArgs {
        TuneArgs {
            engine,
            contact: Vec::new(),
            workload: vec!['a', 'b'],
            records: 2000,
            threads: 1,
            budget: Duration::from_secs(2),
            dimensions: Vec::new(),
            seed: 1,
            results: ResultsArgs { results: results.to_path_buf() },
        }
    }

    #[test]
    fn tuning_respects_its_budget_and_rejects_engines_without_settings() {
        let results = tempfile::tempdir().unwrap();
        let args = |engine| args(engine, results.path());
        let quick = vec![parse_dimension("concurrent_compactors=2,1").unwrap()];
        assert!(run(&TuneArgs { dimensions: quick, ..args(EngineKind::Embedded) }).unwrap());
        for kept in std::fs::read_dir(results.path()).unwrap() {
            let path = kept.unwrap().path();
            assert!(path.extension().is_some_and(|extension| extension == "toml"), "{}", path.display());
            ExperimentFile::parse(&std::fs::read_to_string(path).unwrap()).unwrap();
        }
        assert!(run(&args(EngineKind::Noop)).unwrap_err().to_string().contains("no settings"));
        let wrong = vec![parse_dimension("nosuch=1,2").unwrap()];
        let error = run(&TuneArgs { dimensions: wrong, ..args(EngineKind::Embedded) }).unwrap_err();
        assert!(error.to_string().contains("nosuch"), "{error}");
        let error = run(&TuneArgs { workload: vec!['q'], ..args(EngineKind::Embedded) }).unwrap_err();
        assert!(error.to_string().starts_with("unknown core workload \"q\""), "{error}");
    }

    #[test]
    fn durations_and_dimensions_are_parsed() {
        assert_eq!(parse_time("20m"), Ok(Duration::from_secs(1200)));
        assert!(
            parse_time("soon").is_err() && parse_dimension("a=1").is_err() && parse_dimension("a").is_err()
        );
    }
}
