//! Explains results: rules that read counters and produce sentences with their evidence.
//!
//! Each rule examines one phase of one part, or one comparison, and returns nothing if it does not
//! apply. A sentence appears once per phase and configuration, however many repeats show it, with
//! the evidence of the last repeat.

mod rules;

use std::collections::BTreeMap;

use crate::experiments::{Analysis, PartResult, PhaseStatistics, RunInfo};
use crate::format::rounded;

/// Returns what an engine counted during a phase: the growth of monotonic counters, the final
/// values of others, and hit rates.
pub fn counted(statistics: &PhaseStatistics) -> Vec<(String, f64)> {
    let mut found = BTreeMap::new();
    for (name, after) in &statistics.after {
        match name.strip_suffix("_total") {
            Some(short) => {
                let grown = after - statistics.before.get(name).copied().unwrap_or(0.0);
                // A restart resets counters.
                found.insert(short.to_owned(), if grown < 0.0 { *after } else { grown });
            }
            None => {
                found.insert(name.clone(), *after);
            }
        }
    }
    for (hits, others, ratio) in [
        ("chunk_cache_hits", "chunk_cache_misses", "chunk_cache_hit_ratio"),
        ("block_cache_hits", "block_cache_misses", "block_cache_hit_ratio"),
    ] {
        if let (Some(hits), Some(misses)) = (found.get(hits).copied(), found.get(others).copied())
            && hits + misses > 0.0
        {
            found.insert(ratio.into(), hits / (hits + misses));
        }
    }
    for cache in ["chunk", "key", "row"] {
        let get = |name: &str| found.get(&format!("{cache}_cache_{name}")).copied();
        if let (Some(hits), Some(requests)) = (get("hits"), get("requests"))
            && requests > 0.0
        {
            found.insert(format!("{cache}_cache_hit_ratio"), hits / requests);
        }
    }
    if let (Some(sstables), Some(reads)) =
        (found.get("sstables_read").copied(), found.get("table_reads").copied())
        && reads > 0.0
    {
        found.insert("sstables_per_read".into(), sstables / reads);
    }
    for process in &statistics.report.processes {
        let seconds = process.cpu_seconds();
        *found.entry(format!("{}_cpu_seconds", process.role)).or_insert(0.0) += seconds;
        *found.entry(format!("{}_rss_bytes_max", process.role)).or_insert(0.0) +=
            process.rss_bytes_max as f64;
        for (name, bytes) in [("read", process.read_bytes), ("written", process.written_bytes)] {
            if let Some(bytes) = bytes {
                *found.entry(format!("{}_{name}_bytes", process.role)).or_insert(0.0) += bytes as f64;
            }
        }
    }
    found.into_iter().collect()
}

/// Returns the explanations of a run.
pub fn of_run(info: &RunInfo, analysis: &Analysis, parts: &[PartResult]) -> Vec<String> {
    let mut said: Vec<((String, String, usize), String)> = Vec::new();
    for result in parts {
        for phase in &result.phases {
            let Some(statistics) = &phase.statistics else { continue };
            let case = rules::Case {
                statistics,
                counted: counted(statistics).into_iter().collect(),
                processors: info.machine.processors,
            };
            for (rule, apply) in rules::RULES.iter().enumerate() {
                let Some(sentence) = apply(&case) else { continue };
                let key = (phase.name.clone(), result.part.label(), rule);
                match said.iter_mut().find(|(known, _)| *known == key) {
                    Some((_, known)) => *known = sentence,
                    None => said.push((key, sentence)),
                }
            }
        }
    }
    let mut sentences: Vec<String> = Vec::new();
    // What several configurations show alike appears once.
    let mut together: Vec<(String, usize, Vec<String>, String)> = Vec::new();
    for ((phase, label, rule), sentence) in said {
        match together.iter_mut().find(|(known, known_rule, ..)| *known == phase && *known_rule == rule) {
            Some((_, _, labels, _)) => labels.push(label),
            None => together.push((phase, rule, vec![label], sentence)),
        }
    }
    for (phase, _, labels, sentence) in together {
        let more = match labels.len() {
            1 => String::new(),
            count => format!(" The same holds for {} more.", count - 1),
        };
        sentences.push(format!("{phase}, {}: {sentence}{more}", labels[0]));
    }
    sentences.extend(smaller_than_noise(analysis));
    sentences
}

/// Returns differences that are smaller than the noise between repeats.
fn smaller_than_noise(analysis: &Analysis) -> Vec<String> {
    let mut sentences = Vec::new();
    for phase in &analysis.phases {
        let Some(metric) = phase.metrics.iter().find(|metric| metric.higher_is_better()) else { continue };
        let small = metric.comparisons.iter().enumerate().filter_map(|(index, comparison)| {
            let comparison = comparison.as_ref().filter(|comparison| comparison.interval.is_some())?;
            let difference = comparison.ratio.ln().abs();
            (!phase.paced && difference < comparison.noise).then_some((index, comparison, difference))
        });
        for (index, comparison, difference) in small {
            sentences.push(format!(
                "{}, {}: the difference of {} % is smaller than the noise, {} % from one repeat to the next.",
                phase.name,
                analysis.groups[index].label(),
                rounded(difference * 100.0),
                rounded(comparison.noise * 100.0)
            ));
        }
    }
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::analysis::tests::run_of;

    #[test]
    fn monotonic_counters_yield_growth_and_hit_rates() {
        let (_, mut parts) = run_of(&[("base", &[1000.0])]);
        let statistics = parts[0].phases[0].statistics.as_mut().unwrap();
        let counters =
            |pairs: &[(&str, f64)]| pairs.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        statistics.before = counters(&[
            ("chunk_cache_hits_total", 10.0),
            ("chunk_cache_misses_total", 10.0),
            ("sstables", 5.0),
        ]);
        statistics.after = counters(&[
            ("chunk_cache_hits_total", 40.0),
            ("chunk_cache_misses_total", 20.0),
            ("sstables", 7.0),
        ]);
        let found: BTreeMap<String, f64> = counted(statistics).into_iter().collect();
        assert_eq!(
            [found["chunk_cache_hits"], found["chunk_cache_hit_ratio"], found["sstables"]],
            [30.0, 0.75, 7.0]
        );
    }

    #[test]
    fn common_findings_appear_once() {
        let (info, mut parts) = run_of(&[("one", &[1000.0]), ("two", &[1000.0])]);
        for part in &mut parts {
            part.phases[0].statistics.as_mut().unwrap().steady.reached = false;
        }
        let analysis = Analysis::new(&info, None, &parts);
        let reasons = of_run(&info, &analysis, &parts);
        assert_eq!(reasons.len(), 1, "{reasons:?}");
        assert!(reasons[0].contains("The same holds for 1 more"));
    }

    #[test]
    fn differences_within_the_noise_are_marked() {
        let (info, parts) =
            run_of(&[("base", &[1000.0, 1100.0, 900.0]), ("other", &[1010.0, 1110.0, 905.0])]);
        let analysis = Analysis::new(&info, None, &parts);
        assert!(of_run(&info, &analysis, &parts)[0].contains("smaller than the noise"));
        let (info, parts) = run_of(&[("base", &[1000.0, 1001.0]), ("other", &[2000.0, 2001.0])]);
        let analysis = Analysis::new(&info, None, &parts);
        assert_eq!(of_run(&info, &analysis, &parts), Vec::<String>::new());
    }
}
