//! Compares the parts of a run.

use serde::Serialize;

use super::file::{ExperimentFile, Published};
use super::plan::{configuration_names, label};
use super::store::{PartResult, PhaseStatistics, RunInfo};
use crate::statistics::{Comparison, Estimate, Verdict, compare, correct_by_holm, estimate, repeats_needed};

/// An engine in a configuration, with the results of its repeats.
#[derive(Debug, Clone, Serialize)]
pub struct Group {
    /// Name of the engine.
    pub engine: String,
    /// Name of the configuration.
    pub configuration: String,
    /// Number of completed repeats.
    pub repeats: usize,
    /// Index of the group it is compared with; `None` for the first one.
    pub baseline: Option<usize>,
}

/// A metric of a phase, over the repeats of each group.
#[derive(Debug, Clone, Serialize)]
pub struct Metric {
    /// `throughput`, `rate`, or an operation and a statistic: `READ p99`.
    pub name: String,
    /// Value of each repeat, by group.
    pub values: Vec<Vec<f64>>,
    /// Mean by group; `None` for a group without the metric.
    pub estimates: Vec<Option<Estimate>>,
    /// Comparison with the baseline, by group.
    pub comparisons: Vec<Option<Comparison>>,
}

/// A phase that drove the engine.
#[derive(Debug, Clone, Serialize)]
pub struct PhaseAnalysis {
    /// Name of the phase.
    pub name: String,
    /// Whether it had a fixed rate: its throughput is then independent of the engine.
    pub paced: bool,
    /// Metrics of the phase.
    pub metrics: Vec<Metric>,
    /// Failed operations by group.
    pub failed: Vec<u64>,
}

/// The analysis of a run.
#[derive(Debug, Clone, Serialize)]
pub struct Analysis {
    /// Compared groups.
    pub groups: Vec<Group>,
    /// Analysed phases.
    pub phases: Vec<PhaseAnalysis>,
    /// Sentences about significant findings, most important first.
    pub verdicts: Vec<String>,
    /// Published results next to the measured ones.
    pub published: Vec<PublishedBeside>,
    /// Whether groups of different runs are compared: the machine may have changed between them.
    pub across_runs: bool,
}

/// A published result and the measured ones.
#[derive(Debug, Clone, Serialize)]
pub struct PublishedBeside {
    /// The published result.
    #[serde(flatten)]
    pub published: Published,
    /// Measured results by engine, if the configuration was measured.
    pub ours: Vec<(String, Estimate)>,
}

impl Metric {
    /// Returns whether higher values are better.
    pub fn higher_is_better(&self) -> bool {
        matches!(self.name.as_str(), "throughput" | "rate")
    }
}

impl Group {
    /// Returns engine and configuration as one label.
    pub fn label(&self) -> String {
        label(&self.engine, &self.configuration)
    }
}

impl Analysis {
    /// Analyses the completed parts. `file` is the file of the run, if it can be read.
    pub fn new(info: &RunInfo, file: Option<&ExperimentFile>, parts: &[PartResult]) -> Self {
        let groups = groups(info, file, parts);
        let of_group = |group: &Group| -> Vec<&PartResult> {
            let same = |result: &&PartResult| {
                result.part.engine == group.engine && result.part.configuration == group.configuration
            };
            parts.iter().filter(same).collect()
        };
        let by_group: Vec<Vec<&PartResult>> = groups.iter().map(of_group).collect();
        Self::of(groups, &by_group, file.map_or(&[], |file| &file.published), false)
    }

    /// Compares two runs: the groups of the second with those of the first that have the same name.
    /// The names of the runs precede those of the engines.
    pub fn between(first: (&str, &[PartResult]), second: (&str, &[PartResult])) -> Self {
        let (mut groups, mut by_group): (Vec<Group>, Vec<Vec<&PartResult>>) = (Vec::new(), Vec::new());
        let mut labels: Vec<(String, String)> = Vec::new();
        for (run, parts) in [first, second] {
            let from = groups.len();
            for result in parts {
                let (engine, configuration) = (result.part.engine.clone(), result.part.configuration.clone());
                let key = (engine, configuration);
                let at = match labels[from..].iter().position(|known| *known == key) {
                    Some(at) => from + at,
                    None => {
                        let baseline =
                            if from == 0 { None } else { labels.iter().position(|known| *known == key) };
                        groups.push(Group {
                            engine: format!("{run}: {}", key.0),
                            configuration: key.1.clone(),
                            repeats: 0,
                            baseline,
                        });
                        labels.push(key);
                        by_group.push(Vec::new());
                        groups.len() - 1
                    }
                };
                groups[at].repeats += 1;
                by_group[at].push(result);
            }
        }
        Self::of(groups, &by_group, &[], true)
    }

    fn of(
        groups: Vec<Group>,
        parts: &[Vec<&PartResult>],
        published: &[Published],
        across_runs: bool,
    ) -> Self {
        let mut phases: Vec<PhaseAnalysis> = Vec::new();
        for result in parts.iter().flatten() {
            for phase in &result.phases {
                let known = phases.iter().any(|known| known.name == phase.name);
                if phase.statistics.is_some() && !known {
                    phases.push(phase_analysis(&phase.name, parts));
                }
            }
        }
        for phase in &mut phases {
            for metric in &mut phase.metrics {
                for (index, group) in groups.iter().enumerate() {
                    metric.comparisons[index] = group
                        .baseline
                        .and_then(|baseline| compare(&metric.values[baseline], &metric.values[index]));
                }
            }
        }
        // One family per statistic (all throughputs, all p99s): what is read together is corrected
        // together.
        let mut families: Vec<(String, Vec<&mut Comparison>)> = Vec::new();
        for metric in phases.iter_mut().flat_map(|phase| &mut phase.metrics) {
            let family = metric.name.rsplit(' ').next().unwrap_or_default().to_owned();
            let found = metric.comparisons.iter_mut().flatten();
            match families.iter_mut().find(|(name, _)| *name == family) {
                Some((_, comparisons)) => comparisons.extend(found),
                None => families.push((family, found.collect())),
            }
        }
        families.iter_mut().for_each(|(_, comparisons)| correct_by_holm(comparisons));
        let verdicts = verdicts(&groups, &phases, across_runs);
        let published = published.iter().map(|published| beside(published, &groups, &phases)).collect();
        Self { groups, phases, verdicts, published, across_runs }
    }
}

fn groups(info: &RunInfo, file: Option<&ExperimentFile>, parts: &[PartResult]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    // In the order of the file, not the random one of the parts.
    let mut keys: Vec<(&str, &str)> =
        info.parts.iter().map(|part| (part.engine.as_str(), part.configuration.as_str())).collect();
    let names = file.map(configuration_names).unwrap_or_default();
    let position = |(engine, configuration): &(&str, &str)| {
        let engine = file?.engine.iter().position(|known| known.get_ref().label() == *engine)?;
        Some((engine, names.iter().position(|name| name == configuration)))
    };
    keys.sort_by(|a, b| position(a).cmp(&position(b)).then_with(|| a.cmp(b)));
    keys.dedup();
    let wanted = file.and_then(|file| file.baseline.as_ref()).map(|name| name.get_ref().as_str());
    for (engine, configuration) in keys {
        let done =
            |result: &&PartResult| result.part.engine == engine && result.part.configuration == configuration;
        groups.push(Group {
            engine: engine.to_owned(),
            configuration: configuration.to_owned(),
            repeats: parts.iter().filter(done).count(),
            baseline: None,
        });
    }
    // A configuration is compared with its engine's baseline, which is compared with the first
    // engine's.
    let baseline_of = |groups: &[Group], engine: &str| {
        let of_engine = || groups.iter().enumerate().filter(|(_, group)| group.engine == engine);
        let named = of_engine().find(|(_, group)| wanted == Some(group.configuration.as_str()));
        named.or_else(|| of_engine().next()).map(|(index, _)| index)
    };
    for index in 0..groups.len() {
        let own = baseline_of(&groups, &groups[index].engine);
        let first = baseline_of(&groups, &groups[0].engine);
        groups[index].baseline = own.filter(|own| *own != index).or(first.filter(|first| *first != index));
    }
    groups
}

fn phase_analysis(name: &str, parts: &[Vec<&PartResult>]) -> PhaseAnalysis {
    let statistics: Vec<Vec<&PhaseStatistics>> = parts
        .iter()
        .map(|parts| {
            let phases = parts.iter().flat_map(|part| &part.phases);
            phases.filter(|phase| phase.name == name).filter_map(|phase| phase.statistics.as_ref()).collect()
        })
        .collect();
    let mut metrics: Vec<Metric> = Vec::new();
    for (group, repeats) in statistics.iter().enumerate() {
        for (name, value) in repeats.iter().flat_map(|statistics| statistics.metrics()) {
            let at = match metrics.iter().position(|metric| metric.name == name) {
                Some(at) => at,
                None => {
                    metrics.push(Metric {
                        name,
                        values: vec![Vec::new(); parts.len()],
                        estimates: Vec::new(),
                        comparisons: vec![None; parts.len()],
                    });
                    metrics.len() - 1
                }
            };
            metrics[at].values[group].push(value);
        }
    }
    for metric in &mut metrics {
        metric.estimates = metric.values.iter().map(|values| estimate(values)).collect();
    }
    PhaseAnalysis {
        name: name.to_owned(),
        paced: statistics
            .iter()
            .flatten()
            .any(|statistics| statistics.rate.is_some() && statistics.trials.is_empty()),
        metrics,
        failed: statistics
            .iter()
            .map(|repeats| repeats.iter().map(|statistics| statistics.report.failed).sum())
            .collect(),
    }
}

/// Returns the headline metrics: throughput if the engine determined it, else the 99th percentiles.
pub fn headlines(phase: &PhaseAnalysis) -> impl Iterator<Item = &Metric> {
    let wanted = |metric: &&Metric| {
        if phase.paced { metric.name.ends_with(" p99") } else { metric.higher_is_better() }
    };
    phase.metrics.iter().filter(wanted)
}

/// Returns failures first, then differences, then indications of single repeats, then comparisons
/// without a shown difference; each in the order of phases.
fn verdicts(groups: &[Group], phases: &[PhaseAnalysis], across_runs: bool) -> Vec<String> {
    let mut sentences: Vec<(u8, String)> = Vec::new();
    for phase in phases {
        let mut metrics: Vec<&Metric> = headlines(phase).collect();
        if across_runs {
            // A change of the machine between the runs affects it least.
            metrics.splice(0..0, phase.metrics.iter().filter(|metric| metric.name == CPU_PER_OPERATION));
        }
        for metric in metrics {
            for (index, comparison) in metric.comparisons.iter().enumerate() {
                let Some((comparison, baseline)) = comparison.as_ref().zip(groups[index].baseline) else {
                    continue;
                };
                let rank = match comparison.verdict() {
                    Verdict::Higher | Verdict::Lower => 1,
                    Verdict::TooFewRepeats => 2,
                    Verdict::NoDifferenceShown => 3,
                };
                let (name, baseline) = (groups[index].label(), groups[baseline].label());
                sentences.push((rank, sentence(&phase.name, metric, &name, &baseline, comparison)));
            }
        }
        for (group, failed) in groups.iter().zip(&phase.failed) {
            if *failed > 0 {
                let failed = crate::format::grouped(*failed);
                sentences
                    .push((0, format!("{}: {failed} operations of {} FAILED.", phase.name, group.label())));
            }
        }
    }
    sentences.sort_by_key(|(rank, _)| *rank);
    sentences.into_iter().map(|(_, sentence)| sentence).collect()
}

/// Name of the metric of processor time.
const CPU_PER_OPERATION: &str = "CPU/op";

/// The verdict of a comparison that shows no difference.
pub const NO_DIFFERENCE: &str = "no difference shown";

/// Formats one comparison as a sentence.
fn sentence(phase: &str, metric: &Metric, name: &str, baseline: &str, comparison: &Comparison) -> String {
    let percent = |ratio: f64| format!("{:.1}", (ratio - 1.0).abs() * 100.0);
    let what = if metric.higher_is_better() || metric.name == CPU_PER_OPERATION {
        metric.name.clone()
    } else {
        format!("{} latency", metric.name)
    };
    let Some(interval) = comparison.interval else {
        let factor = comparison.ratio;
        return format!(
            "{phase}: {name} has {factor:.2} times the {what} of {baseline}, from one repeat a side, whose noise is \
             unknown."
        );
    };
    // Signs only if the interval contains both.
    let signed = |ratio: f64| format!("{:+.1}", (ratio - 1.0) * 100.0);
    match comparison.verdict() {
        Verdict::Higher | Verdict::Lower => {
            let better = (comparison.ratio > 1.0) == metric.higher_is_better();
            let word = match (metric.higher_is_better(), better) {
                (true, true) => "faster",
                (true, false) => "slower",
                (false, true) => "lower",
                (false, false) => "higher",
            };
            let (low, high) = if comparison.ratio > 1.0 {
                (percent(interval.low), percent(interval.high))
            } else {
                (percent(interval.high), percent(interval.low))
            };
            let subject = if metric.higher_is_better() {
                format!("{name} is {} % {word} than {baseline}", percent(comparison.ratio))
            } else {
                format!(
                    "the {what} of {name} is {} % {word} than that of {baseline}",
                    percent(comparison.ratio)
                )
            };
            format!("{phase}: {subject} ({}, 95 % interval {low} to {high}).", metric.name)
        }
        _ => {
            let needed = repeats_needed(comparison.noise, 1.1, comparison.together);
            let enough = needed.map_or(String::new(), |repeats| {
                format!(" A difference of 10 % would need {repeats} repeats, to be shown nine times in ten.")
            });
            // The interval belongs to this comparison alone: corrected for many comparisons, it may
            // include no difference.
            let alone = if interval.low > 1.0 || interval.high < 1.0 {
                ", by itself; among as many comparisons as were made it may be chance"
            } else {
                ""
            };
            format!(
                "{phase}: {NO_DIFFERENCE} between {name} and {baseline} ({}: {} %, 95 % interval {} to \
                 {}{alone}).{enough}",
                metric.name,
                signed(comparison.ratio),
                signed(interval.low),
                signed(interval.high)
            )
        }
    }
}

fn beside(published: &Published, groups: &[Group], phases: &[PhaseAnalysis]) -> PublishedBeside {
    let metrics =
        phases.iter().filter(|phase| phase.name == published.phase).flat_map(|phase| &phase.metrics);
    let ours = metrics
        .filter(|metric| metric.name == published.metric)
        .flat_map(|metric| groups.iter().zip(&metric.estimates))
        .filter(|(group, _)| group.configuration == published.configuration)
        .filter_map(|(group, estimate)| Some((group.engine.clone(), (*estimate)?)))
        .collect();
    PublishedBeside { published: published.clone(), ours }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeMap;

    use super::super::plan::Part;
    use super::super::store::tests::info;
    use super::super::store::{PhaseResult, Steady};
    use super::*;
    use crate::recording::Recorder;
    use crate::results::{EngineInfo, PhaseReport, ProcessReport};
    use crate::run::Counters;

    /// Returns a part whose only phase, `run a`, had this throughput.
    pub fn part(number: usize, configuration: &str, throughput: f64) -> PartResult {
        let recorder = Recorder::new(std::sync::Arc::default());
        let mut report = PhaseReport::of("run a".into(), number, 10.0, &recorder, &[]);
        (report.throughput, report.operations) = (throughput, (throughput * 10.0) as u64);
        let steady = Steady {
            from: 0.0,
            reached: true,
            operations: report.operations,
            throughput,
            latencies: BTreeMap::new(),
        };
        let statistics = PhaseStatistics {
            report,
            steady,
            series: Vec::new(),
            before: Counters::new(),
            after: Counters::new(),
            threads: 1,
            rate: None,
            trials: Vec::new(),
        };
        PartResult {
            part: Part { number, repeat: number, engine: "noop".into(), configuration: configuration.into() },
            started_at: "2026-01-02T03:04:05Z".into(),
            seconds: 10.0,
            engine: EngineInfo::default(),
            options: BTreeMap::new(),
            table: String::new(),
            phases: vec![PhaseResult {
                name: "run a".into(),
                at: 0.0,
                seconds: 10.0,
                statistics: Some(statistics),
            }],
            stopped: None,
        }
    }

    pub fn run_of(throughputs: &[(&str, &[f64])]) -> (RunInfo, Vec<PartResult>) {
        let mut parts = Vec::new();
        for (configuration, values) in throughputs {
            for value in *values {
                parts.push(part(parts.len() + 1, configuration, *value));
            }
        }
        (info(parts.iter().map(|result| result.part.clone()).collect()), parts)
    }

    #[test]
    fn verdicts_have_intervals_or_the_repeats_needed() {
        let (info, parts) = run_of(&[
            ("base", &[1000.0, 1010.0, 990.0, 1005.0]),
            ("faster", &[1170.0, 1180.0, 1165.0, 1172.0]),
            ("same", &[1001.0, 1008.0, 992.0, 1003.0]),
        ]);
        let analysis = Analysis::new(&info, None, &parts);
        let text = analysis.verdicts.join("\n");
        assert!(
            text.contains("noop, faster is 17.0 % faster than noop, base (throughput, 95 % interval 15."),
            "{text}"
        );
        assert!(text.contains("no difference shown between noop, same and noop, base"), "{text}");
        assert!(text.contains("would need 3 repeats"), "{text}");
    }

    #[test]
    fn one_repeat_gives_no_verdict() {
        let (info, parts) = run_of(&[("base", &[1000.0]), ("other", &[2000.0])]);
        let analysis = Analysis::new(&info, None, &parts);
        assert!(analysis.verdicts[0].contains("noise is unknown"), "{:?}", analysis.verdicts);
    }

    #[test]
    fn runs_are_compared_by_shared_groups() {
        let (_, first) = run_of(&[("base", &[1000.0, 1010.0, 990.0])]);
        let (_, second) = run_of(&[("base", &[500.0, 505.0, 495.0]), ("more", &[1.0, 1.0, 1.0])]);
        let analysis = Analysis::between(("one", &first), ("two", &second));
        assert_eq!((analysis.verdicts.len(), analysis.across_runs), (1, true));
        assert!(
            analysis.verdicts[0].contains("two: noop, base is 50.0 % slower than one: noop, base"),
            "{:?}",
            analysis.verdicts
        );
    }

    #[test]
    fn runs_are_compared_by_processor_time_first() {
        let with_cpu = |throughputs: &[f64], us: f64| {
            let (_, mut parts) = run_of(&[("base", throughputs)]);
            for part in &mut parts {
                let report = &mut part.phases[0].statistics.as_mut().unwrap().report;
                let seconds = report.operations as f64 * us / 1e6;
                report.processes = vec![ProcessReport {
                    role: "server".into(),
                    user_seconds: seconds,
                    ..ProcessReport::default()
                }];
            }
            parts
        };
        let slow = with_cpu(&[1000.0, 1010.0, 990.0], 8.0);
        let fast = with_cpu(&[3000.0, 3010.0, 2990.0], 8.0);
        let analysis = Analysis::between(("one", &slow), ("two", &fast));
        assert!(analysis.verdicts.len() == 2, "{:?}", analysis.verdicts);
        assert!(
            analysis.verdicts[1].contains("no difference shown") && analysis.verdicts[1].contains("CPU/op"),
            "{:?}",
            analysis.verdicts
        );
    }

    #[test]
    fn published_results_are_matched_by_name() {
        let (info, parts) = run_of(&[("base", &[1000.0, 1010.0])]);
        let text = super::super::file::tests::NOOP.replace("name = \"one\"", "name = \"base\"")
            + "\n[[published]]\nphase = \"run a\"\nconfiguration = \"base\"\nmetric = \"throughput\"\nvalue = 5.0\n";
        let file = ExperimentFile::parse(&text).unwrap();
        let analysis = Analysis::new(&info, Some(&file), &parts);
        let beside = &analysis.published[0];
        assert_eq!((beside.published.value, beside.ours[0].1.mean), (5.0, 1005.0));
    }
}
