//! `lab tune`.

use std::fmt::Write;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};

use super::{Choice, Dimension, better_half, importance, sample, space_of};
use crate::LabError;
use crate::cli::EngineKind;
use crate::experiments::command::duration;
use crate::experiments::perform::{perform, workloads};
use crate::experiments::{Analysis, ExperimentFile, Part, PartResult, Plan};
use crate::report::markdown;
use crate::run::Observer;
use crate::statistics::mean;
use crate::ycsb_command::{Console, Progress};

/// Settings tried in the first round. With four halvings one is left.
const FIRST_ROUND: usize = 16;

/// Repeats of the best set and of the defaults at the end.
const LAST_REPEATS: usize = 3;

/// Arguments of `lab tune`.
#[derive(Debug, Clone, Args)]
pub struct TuneArgs {
    /// The engine to tune
    #[arg(short, long, value_enum)]
    pub engine: EngineKind,

    /// Where a server listens, for --engine cql
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',')]
    pub contact: Vec<String>,

    /// Core workloads to tune for, after a load
    #[arg(short, long, value_name = "LETTERS", value_delimiter = ',', default_value = "a")]
    pub workload: Vec<char>,

    /// Records to load, in the last round
    #[arg(short = 'n', long, value_name = "N", default_value_t = 100_000)]
    pub records: u64,

    /// Operations under way at a time
    #[arg(short, long, value_name = "N", default_value_t = 1)]
    pub threads: usize,

    /// How long it may take, about: 20m, 90s, 1h
    #[arg(long, value_name = "TIME", default_value = "20m", value_parser = parse_time)]
    pub budget: Duration,

    /// Search these values of an option, instead of those that are searched by default, e.g. --search block_size=4096,65536;
    /// the first is taken for the default
    #[arg(long = "search", value_name = "NAME=VALUES", value_parser = parse_dimension)]
    pub dimensions: Vec<Dimension>,

    /// What random choices start from
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

fn parse_time(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = match &text[digits.len()..] {
        "s" | "" => 1,
        "m" => 60,
        "h" => 3600,
        _ => return Err(format!("{text:?} is no time such as 90s, 20m or 1h")),
    };
    let number: u32 = digits.parse().map_err(|_| format!("{text:?} is no time such as 90s, 20m or 1h"))?;
    Ok(Duration::from_secs(u64::from(number) * unit))
}

fn parse_dimension(text: &str) -> Result<Dimension, String> {
    let (name, values) =
        text.split_once('=').ok_or_else(|| format!("{text:?} is not of the form NAME=VALUE,VALUE"))?;
    let values: Vec<String> = values.split(',').map(str::to_owned).collect();
    if values.len() < 2 {
        return Err(format!("{name} needs two values at least to choose among"));
    }
    Ok(Dimension { name: name.to_owned(), values, default: 0 })
}

impl TuneArgs {
    /// The experiment of some choices, as a file: so that a tuned set can be run again as any experiment.
    fn file(&self, space: &[Dimension], choices: &[Choice], repeats: usize) -> String {
        let engine =
            self.engine.to_possible_value().map_or_else(String::new, |kind| kind.get_name().to_owned());
        let mut out = String::new();
        let _ = writeln!(
            out,
            "name = \"tune-{engine}\"\nrepeats = {repeats}\nseed = {}\n\n[[engine]]\nkind = \"{engine}\"",
            self.seed
        );
        if !self.contact.is_empty() {
            let _ = writeln!(out, "contact = {:?}", self.contact);
        }
        for (number, choice) in choices.iter().enumerate() {
            let defaults = choice.iter().zip(space).all(|(value, dimension)| *value == dimension.default);
            let name = if defaults { "defaults".to_owned() } else { format!("set {number}") };
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
                "\n[[workload]]\nname = \"{letter}\"\nycsb = \"{letter}\"\nproperties = {{ recordcount = {n}, operationcount = {n} }}",
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

/// What a part is worth: the mean of the logarithms of its throughputs, so that no phase counts for more than another.
fn score(result: &PartResult) -> Option<f64> {
    let figures = result.phases.iter().filter_map(|phase| phase.figures.as_ref());
    let logarithms: Vec<f64> = figures
        .filter(|figures| figures.report.failed == 0 && figures.report.throughput > 0.0)
        .map(|figures| figures.report.throughput.ln())
        .collect();
    let all = result.phases.len() == logarithms.len() && result.stopped.is_none();
    all.then(|| mean(&logarithms))
}

/// Runs the command.
pub fn run(args: &TuneArgs) -> Result<bool, LabError> {
    let space = space(args)?;
    let console = Console::new()?;
    let begun = Instant::now();
    let mut choices = sample(&space, FIRST_ROUND, args.seed);
    // Checked before anything starts: a wrong name, an engine that is not there.
    parsed(&args.file(&space, &choices, 1))?;
    // Rounds and the last comparison share the time evenly: halves of the settings for twice as long.
    let rounds = choices.len().ilog2() + 1;
    let each_round = args.budget.as_secs_f64() / f64::from(rounds + 2);
    let one = each_round / choices.len() as f64;
    let mut scale = first_scale(args, &space, &choices[0], one, &console)?;
    let mut tried: Vec<(Choice, f64)> = Vec::new();
    while choices.len() > 1 {
        let mut scored = Vec::new();
        let text = args.file(&space, &choices, 1);
        let (file, plan) = parsed(&text)?;
        for (choice, setup) in choices.iter().zip(&plan.setups) {
            let part = Part {
                number: 1,
                repeat: 1,
                engine: setup.engine.label().into(),
                configuration: setup.configuration.clone(),
            };
            let result = perform(&file, setup, &part, scale, &Progress(&console))?;
            if let Some(reason) = console.wants_to_stop() {
                return Err(LabError::Usage(reason));
            }
            // A set that the engine refuses, or fails with, is worth nothing.
            let value = score(&result).unwrap_or(f64::NEG_INFINITY);
            let shown = if value.is_finite() {
                format!("{} ops/s", markdown::figure(value.exp()))
            } else {
                format!("failed: {}", result.stopped.unwrap_or_default())
            };
            console.print(&format!("  {:<10}{shown}  {}\n", setup.configuration, told(&space, choice)));
            scored.push((choice.clone(), value));
        }
        // Scores of longer rounds are not compared with those of shorter ones: importance is of the first round, which has
        // the most sets.
        if tried.is_empty() {
            tried.clone_from(&scored);
            tried.retain(|(_, value)| value.is_finite());
        }
        let left = better_half(scored);
        console.print(&format!(
            "{} of {} sets go on, {} of {} gone\n",
            left.len(),
            choices.len(),
            duration(begun.elapsed()),
            duration(args.budget)
        ));
        choices = left.into_iter().map(|(choice, _)| choice).collect();
        scale *= 2.0;
    }
    finish(args, &space, &choices[0], &tried, scale, &console)
}

fn space(args: &TuneArgs) -> Result<Vec<Dimension>, LabError> {
    let name = args.engine.to_possible_value().map_or_else(String::new, |kind| kind.get_name().to_owned());
    if !args.dimensions.is_empty() {
        return Ok(args.dimensions.clone());
    }
    space_of(&name).ok_or_else(|| LabError::Usage(format!("the engine {name} has no settings to search")))
}

fn parsed(text: &str) -> Result<(ExperimentFile, Plan), LabError> {
    let file = ExperimentFile::parse(text).map_err(|error| LabError::Usage(error.to_string()))?;
    let plan = Plan::new(&file, text, &[]).map_err(|error| LabError::Usage(error.message))?;
    for setup in &plan.setups {
        workloads(&file, setup, 1.0)?;
    }
    Ok((file, plan))
}

/// The scale at which one part takes `seconds`, about: from how long the defaults take at a hundredth.
fn first_scale(
    args: &TuneArgs,
    space: &[Dimension],
    defaults: &Choice,
    seconds: f64,
    console: &Console,
) -> Result<f64, LabError> {
    const TRIED: f64 = 0.01;
    let text = args.file(space, std::slice::from_ref(defaults), 1);
    let (file, plan) = parsed(&text)?;
    let begun = Instant::now();
    let result = perform(&file, &plan.setups[0], &plan.parts[0], TRIED, &Progress(console))?;
    if let Some(reason) = result.stopped {
        return Err(LabError::Usage(format!("the defaults fail: {reason}")));
    }
    Ok((TRIED * seconds / begun.elapsed().as_secs_f64()).clamp(0.001, 1.0 / 16.0))
}

/// Compares the best set with the defaults, by repeats, and says what mattered.
fn finish(
    args: &TuneArgs,
    space: &[Dimension],
    best: &Choice,
    tried: &[(Choice, f64)],
    scale: f64,
    console: &Console,
) -> Result<bool, LabError> {
    let defaults: Choice = space.iter().map(|dimension| dimension.default).collect();
    let mut out = String::new();
    if *best == defaults {
        out.push_str("\nNo set was better than the defaults.\n");
    } else {
        let text = args.file(space, &[defaults, best.clone()], LAST_REPEATS);
        let (file, plan) = parsed(&text)?;
        let mut results = Vec::new();
        for part in &plan.parts {
            let Some(setup) = plan.setup(part) else { continue };
            results.push(perform(&file, setup, part, scale.min(1.0), &Progress(console))?);
        }
        let info = crate::experiments::RunInfo {
            name: file.name.get_ref().clone(),
            version: env!("CARGO_PKG_VERSION").into(),
            command: String::new(),
            started_at: String::new(),
            machine: crate::report::Machine::this(),
            file: text,
            origin: String::new(),
            scale,
            engines: Vec::new(),
            parts: plan.parts.clone(),
        };
        let analysis = Analysis::new(&info, Some(&file), &results);
        let _ = writeln!(
            out,
            "\nBest set found, beside the defaults, {LAST_REPEATS} repeats each:\n\n{}",
            markdown::summary(&analysis)
        );
        for (dimension, value) in space.iter().zip(best) {
            let is = if *value == dimension.default { "" } else { "   (changed)" };
            let _ = writeln!(out, "  {} = {}{is}", dimension.name, dimension.values[*value]);
        }
    }
    let mut shares: Vec<(f64, &str)> = importance(space, tried)
        .into_iter()
        .zip(space.iter().map(|dimension| dimension.name.as_str()))
        .collect();
    shares.sort_by(|a, b| b.0.total_cmp(&a.0));
    let _ =
        writeln!(out, "\nHow much each setting explains of the differences between {} sets:", tried.len());
    for (share, name) in shares {
        let _ = writeln!(out, "  {:>5.1} %  {name}", share * 100.0);
    }
    console.print(&out);
    Ok(true)
}

fn told(space: &[Dimension], choice: &Choice) -> String {
    let changed = space.iter().zip(choice).filter(|(dimension, value)| **value != dimension.default);
    let texts: Vec<String> = changed
        .map(|(dimension, value)| format!("{}={}", dimension.name, dimension.values[*value]))
        .collect();
    texts.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(engine: EngineKind) -> TuneArgs {
        TuneArgs {
            engine,
            contact: Vec::new(),
            workload: vec!['a', 'b'],
            records: 2000,
            threads: 1,
            budget: Duration::from_secs(2),
            dimensions: Vec::new(),
            seed: 1,
        }
    }

    #[test]
    fn the_embedded_engine_is_tuned_within_a_budget_and_an_engine_without_settings_is_refused() {
        let quick = vec![parse_dimension("concurrent_compactors=2,1").unwrap()];
        assert!(run(&TuneArgs { dimensions: quick, ..args(EngineKind::Embedded) }).unwrap());
        assert!(run(&args(EngineKind::Noop)).unwrap_err().to_string().contains("no settings"));
        let wrong = vec![parse_dimension("nosuch=1,2").unwrap()];
        let error = run(&TuneArgs { dimensions: wrong, ..args(EngineKind::Embedded) }).unwrap_err();
        assert!(error.to_string().contains("nosuch"), "{error}");
    }

    #[test]
    fn times_and_dimensions_are_read() {
        assert_eq!(parse_time("20m"), Ok(Duration::from_secs(1200)));
        assert!(
            parse_time("soon").is_err() && parse_dimension("a=1").is_err() && parse_dimension("a").is_err()
        );
    }
}
