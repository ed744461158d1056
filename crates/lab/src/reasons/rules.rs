//! Rules that examine one phase.

use std::collections::BTreeMap;

use crate::experiments::PhaseStatistics;
use crate::format::rounded;
use crate::results::AgentReport;

/// A phase and the data that rules examine.
pub(super) struct Case<'a> {
    pub statistics: &'a PhaseStatistics,
    /// See [`counted`](super::counted).
    pub counted: BTreeMap<String, f64>,
    /// Number of processors of the machine.
    pub processors: usize,
}

/// All rules, in the order of their sentences.
pub(super) const RULES: &[fn(&Case<'_>) -> Option<String>] = &[
    other_programs_disturb,
    processors_are_the_bottleneck,
    client_is_the_bottleneck,
    agents_are_the_bottleneck,
    rate_is_not_kept,
    omission_would_have_hidden_this,
    compaction_debt_grows,
    all_is_in_the_write_buffer,
    all_is_in_the_page_cache,
    row_cache_serves_no_scans,
    cache_can_gain_little,
    garbage_is_collected,
    partition_is_hot,
    never_steady,
];

impl Case<'_> {
    fn get(&self, name: &str) -> Option<f64> {
        self.counted.get(name).copied()
    }

    fn seconds(&self) -> f64 {
        self.statistics.report.seconds
    }

    fn property(&self, name: &str) -> Option<&str> {
        self.statistics.report.properties.get(name).map(String::as_str)
    }
}

fn other_programs_disturb(case: &Case<'_>) -> Option<String> {
    let (disturbance, processors) = case.statistics.report.most_disturbed(case.processors)?;
    let text = disturbance.text(processors)?;
    Some(format!(
        "the machine was busy: {text}. Differences and noise may be theirs; repeat the run when the machine is \
         quiet."
    ))
}

fn processors_are_the_bottleneck(case: &Case<'_>) -> Option<String> {
    // Processors of several machines are not shared.
    if case.statistics.report.processes.iter().any(|process| process.host.is_some()) {
        return None;
    }
    let used = case.get("server_cpu_seconds").unwrap_or(0.0) + case.get("laboratory_cpu_seconds")?;
    let busy = used / case.seconds();
    let all = case.processors as f64;
    (case.statistics.rate.is_none() && busy >= 0.9 * all).then(|| {
        format!(
            "the processors are the bottleneck: {} of {} were busy. What costs less of them per operation is \
             faster, whatever it saves elsewhere.",
            rounded(busy),
            case.processors
        )
    })
}

fn agents_are_the_bottleneck(case: &Case<'_>) -> Option<String> {
    let report = &case.statistics.report;
    let all = |agent: &AgentReport| agent.machine.processors.max(1) as f64;
    let share = |agent: &AgentReport| agent.process.cpu_seconds() / case.seconds() / all(agent);
    let busiest = report.agents.iter().max_by(|one, other| share(one).total_cmp(&share(other)))?;
    (share(busiest) >= 0.8).then(|| {
        format!(
            "the load is the bottleneck: the agent on {} kept {} of {} processors busy. More agents would show more \
             of the servers.",
            busiest.name,
            rounded(share(busiest) * all(busiest)),
            busiest.machine.processors
        )
    })
}

fn client_is_the_bottleneck(case: &Case<'_>) -> Option<String> {
    if !case.statistics.report.agents.is_empty() {
        return None;
    }
    // An embedded engine runs in the measuring process.
    let server = case.get("server_cpu_seconds")? / case.seconds();
    let client = case.get("laboratory_cpu_seconds")? / case.seconds();
    // Each connection has a client thread, so one that is always busy is saturated.
    (client > server && client >= 0.9).then(|| {
        format!(
            "the client is the bottleneck: it kept {} processors busy, the server {}. More connections, or \
             another machine, would show more of the server.",
            rounded(client),
            rounded(server)
        )
    })
}

fn rate_is_not_kept(case: &Case<'_>) -> Option<String> {
    let rate = case.statistics.rate?;
    let done = case.statistics.report.throughput;
    (case.statistics.trials.is_empty() && done < 0.97 * rate).then(|| {
        format!(
            "the rate was not kept: {} operations a second instead of {}. Latencies grow for as long as this \
             continues.",
            rounded(done),
            rounded(rate)
        )
    })
}

fn omission_would_have_hidden_this(case: &Case<'_>) -> Option<String> {
    let worst = |statistics: &PhaseStatistics| {
        let of = statistics.steady.latencies.values();
        of.filter_map(|latencies| Some((latencies.response.p99_us, latencies.service.as_ref()?.p99_us)))
            .max_by(|a, b| a.0.total_cmp(&b.0))
    };
    let (response, service) = worst(case.statistics)?;
    (response > 2.0 * service && response - service > 1000.0).then(|| {
        format!(
            "a closed loop would have hidden this: the 99th percentile is {} µs from when operations should \
             have started, and {} µs from when they could.",
            rounded(response),
            rounded(service)
        )
    })
}

fn compaction_debt_grows(case: &Case<'_>) -> Option<String> {
    let pending: Vec<f64> = case
        .statistics
        .series
        .iter()
        .filter_map(|second| second.counters.get("compactions_pending").copied())
        .collect();
    let third = pending.len() / 3;
    if third < 2 {
        return None;
    }
    let first = crate::statistics::mean(&pending[..third]);
    let last = crate::statistics::mean(&pending[pending.len() - third..]);
    (last >= 4.0 && last >= 2.0 * first.max(1.0)).then(|| {
        format!(
            "compaction debt grows: {} compactions were pending in the last third of the phase, {} in the first. Reads \
             then look at more SSTables, and cost more the longer it lasts.",
            rounded(last),
            rounded(first)
        )
    })
}

fn all_is_in_the_write_buffer(case: &Case<'_>) -> Option<String> {
    let sstables = case.get("sstables")?;
    (sstables == 0.0 && case.statistics.report.operations > 0).then(|| {
        "all data fits in the write buffer: there is no SSTable. Compaction, compression, filters and caches of \
         blocks did nothing here."
            .to_owned()
    })
}

fn all_is_in_the_page_cache(case: &Case<'_>) -> Option<String> {
    let server = case.get("server_read_bytes").filter(|_| case.get("server_cpu_seconds").is_some());
    let read = server.or_else(|| case.get("laboratory_read_bytes"))?;
    let has_files = case.get("sstables").is_none_or(|sstables| sstables > 0.0);
    let reads = case.statistics.report.rows_read > 0;
    // Less than a page per hundred rows.
    (reads && has_files && read < case.statistics.report.rows_read as f64 * 40.96).then(|| {
        format!(
            "the files are in the system's page cache: {} KiB were read from disk for {} rows. A larger cache \
             of the engine's can only save copying and decompressing.",
            rounded(read / 1024.0),
            rounded(case.statistics.report.rows_read as f64)
        )
    })
}

fn row_cache_serves_no_scans(case: &Case<'_>) -> Option<String> {
    let scans = case.statistics.report.latencies.get("SCAN")?;
    let reads = case.statistics.report.latencies.get("READ").map_or(0, |reads| reads.response.count);
    let (entries, requests) = (case.get("row_cache_entries")?, case.get("row_cache_requests")?);
    let _ = entries;
    (scans.response.count > 0 && reads == 0 && requests < scans.response.count as f64 * 0.01).then(|| {
        format!(
            "a row cache cannot serve scans: it was asked {} times in {} scans.",
            rounded(requests),
            rounded(scans.response.count as f64)
        )
    })
}

/// Maximum cost of a miss while files are in the page cache: reading and decompressing a 16 KiB
/// chunk, in microseconds. Cassandra reports 29 to 61 on the machine of the caches experiment.
const MISS_COST_US: f64 = 60.0;

fn cache_can_gain_little(case: &Case<'_>) -> Option<String> {
    let misses = case
        .get("chunk_cache_misses")
        .or_else(|| Some(case.get("chunk_cache_requests")? - case.get("chunk_cache_hits")?))?;
    let report = &case.statistics.report;
    let time_us: f64 = report
        .latencies
        .values()
        .map(|latencies| latencies.response.mean_us * latencies.response.count as f64)
        .sum();
    let saved_us = misses * MISS_COST_US;
    (misses > 0.0 && time_us > 0.0 && saved_us < 0.05 * time_us && report.rows_read > 0).then(|| {
        format!(
            "a larger cache can gain {} % at most: {} misses x {MISS_COST_US} µs, of the {} s that operations took.",
            rounded(100.0 * saved_us / time_us),
            rounded(misses),
            rounded(time_us / 1e6)
        )
    })
}

fn garbage_is_collected(case: &Case<'_>) -> Option<String> {
    let (paused, count) = (case.get("gc_seconds")?, case.get("gc_count")?);
    // The counters of a cluster's nodes are summed, but each node pauses by itself.
    let servers = case.statistics.report.processes.iter().filter(|process| process.role == "server").count();
    let share = paused / case.seconds() / servers.max(1) as f64;
    let who = if servers > 1 { "each server" } else { "the server" };
    (share >= 0.05).then(|| {
        format!(
            "garbage collection stops {who} for {} % of the time: {} pauses, {} ms each. Requests wait during a pause, \
             which raises the highest percentiles.",
            rounded(share * 100.0),
            rounded(count),
            rounded(paused * 1e3 / count.max(1.0))
        )
    })
}

/// Share of requests that YCSB's zipfian distribution sends to its hottest key: 1 / zeta(10^10,
/// 0.99).
const HOTTEST_SHARE: f64 = 1.0 / 26.469;

fn partition_is_hot(case: &Case<'_>) -> Option<String> {
    let skewed = case.property("requestdistribution") == Some("zipfian");
    let at_a_time = HOTTEST_SHARE * case.statistics.threads as f64;
    let share =
        |names: [&str; 3]| names.iter().any(|name| case.statistics.report.latencies.contains_key(*name));
    (skewed && at_a_time >= 1.0 && share(["UPDATE", "READ-MODIFY-WRITE", "WRITE"])).then(|| {
        format!(
            "a partition is hot: the most popular key receives {} % of the requests, {} of {} in flight. Writes of it \
             wait for each other.",
            rounded(HOTTEST_SHARE * 100.0),
            rounded(at_a_time),
            case.statistics.threads
        )
    })
}

fn never_steady(case: &Case<'_>) -> Option<String> {
    (!case.statistics.steady.reached).then(|| {
        "it never became steady: throughput still changed in the second half. The results include \
         the warm-up; a longer phase would have others."
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::analysis::tests::part;
    use crate::results::{Disturbance, LatencyReport, Percentiles, ProcessReport};
    use crate::run::Second;

    /// Tests that rule `apply` applies to a phase modified by `change`, and not to the unmodified
    /// one.
    fn reason_of(
        apply: fn(&Case<'_>) -> Option<String>,
        change: impl Fn(&mut PhaseStatistics, &mut BTreeMap<String, f64>),
    ) -> String {
        let result = part(1, "one", 1000.0);
        let plain = result.phases[0].statistics.clone().unwrap();
        let mut counted =
            BTreeMap::from([("sstables".to_owned(), 3.0), ("laboratory_cpu_seconds".to_owned(), 0.1)]);
        let silent = Case { statistics: &plain, counted: counted.clone(), processors: 2 };
        assert_eq!(apply(&silent), None, "a reason for a phase without one");
        let mut statistics = plain.clone();
        change(&mut statistics, &mut counted);
        apply(&Case { statistics: &statistics, counted, processors: 2 }).expect("no reason")
    }

    fn latencies(count: u64, p99_us: f64, service_us: Option<f64>) -> LatencyReport {
        let of = |p99_us: f64| Percentiles {
            count,
            mean_us: p99_us / 2.0,
            stdev_us: 0.0,
            min_us: 0.0,
            p50_us: p99_us / 2.0,
            p95_us: p99_us,
            p99_us,
            p99_9_us: p99_us,
            max_us: p99_us,
            histogram: String::new(),
        };
        LatencyReport { response: of(p99_us), service: service_us.map(of) }
    }

    #[test]
    fn other_programs_are_the_first_reason() {
        assert_eq!(RULES[0] as *const () as usize, other_programs_disturb as *const () as usize);
        let reason = reason_of(other_programs_disturb, |statistics, _| {
            let quiet =
                Disturbance { other_processors: Some(0.0), stolen_processors: 0.0, waiting: None, mhz: None };
            statistics.report.disturbance = Some(Disturbance { other_processors: Some(0.8), ..quiet });
        });
        assert!(reason.contains("other programs used 0.80 of 2 processors"), "{reason}");
    }

    #[test]
    fn busy_processors_and_a_busy_client_are_named() {
        let reason = reason_of(processors_are_the_bottleneck, |_, counted| {
            counted.insert("server_cpu_seconds".into(), 15.0);
            counted.insert("laboratory_cpu_seconds".into(), 4.0);
        });
        assert!(reason.contains("1.90 of 2"), "{reason}");
        let reason = reason_of(client_is_the_bottleneck, |_, counted| {
            counted.insert("server_cpu_seconds".into(), 5.0);
            counted.insert("laboratory_cpu_seconds".into(), 9.5);
        });
        assert!(reason.contains("0.95 processors"), "{reason}");
    }

    #[test]
    fn agents_are_the_bottleneck_and_not_the_processors_of_one_machine() {
        let with_agents = |statistics: &mut PhaseStatistics, busy_seconds: f64| {
            let mut agents = ["load1:7299", "load2:7299"].map(AgentReport::of);
            agents[1].process.user_seconds = busy_seconds;
            agents[1].process.host = Some("load2:7299".into());
            statistics.report.processes = agents.iter().map(|agent| agent.process.clone()).collect();
            statistics.report.agents = agents.to_vec();
        };
        let seconds = part(1, "one", 1000.0).phases[0].statistics.as_ref().unwrap().report.seconds;
        let reason = reason_of(agents_are_the_bottleneck, |statistics, _| {
            with_agents(statistics, 3.6 * seconds);
        });
        assert!(reason.contains("the agent on load2 kept 3.60 of 4 processors busy"), "{reason}");
        let result = part(1, "one", 1000.0);
        let mut statistics = result.phases[0].statistics.clone().unwrap();
        with_agents(&mut statistics, 3.0 * seconds);
        let counted = BTreeMap::from([
            ("server_cpu_seconds".to_owned(), 0.1 * seconds),
            ("laboratory_cpu_seconds".to_owned(), 3.0 * seconds),
        ]);
        let case = Case { statistics: &statistics, counted, processors: 2 };
        assert_eq!(agents_are_the_bottleneck(&case), None);
        assert_eq!((processors_are_the_bottleneck(&case), client_is_the_bottleneck(&case)), (None, None));
    }

    #[test]
    fn missed_rates_and_hidden_stalls_are_reported() {
        let reason = reason_of(rate_is_not_kept, |statistics, _| statistics.rate = Some(2000.0));
        assert!(reason.contains("1,000 operations a second instead of 2,000"), "{reason}");
        let reason = reason_of(omission_would_have_hidden_this, |statistics, _| {
            statistics.steady.latencies.insert("READ".into(), latencies(10, 50_000.0, Some(900.0)));
        });
        assert!(reason.contains("50,000 µs") && reason.contains("900 µs"), "{reason}");
    }

    #[test]
    fn growing_pending_compactions_are_reported() {
        let reason = reason_of(compaction_debt_grows, |statistics, _| {
            statistics.series = (0..12)
                .map(|second| Second {
                    counters: [("compactions_pending".to_owned(), f64::from(second))].into(),
                    ..Second::default()
                })
                .collect();
        });
        assert!(reason.contains("9.50") && reason.contains("1.50"), "{reason}");
    }

    #[test]
    fn data_in_memory_is_reported() {
        let reason = reason_of(all_is_in_the_write_buffer, |_, counted| {
            counted.insert("sstables".into(), 0.0);
        });
        assert!(reason.contains("write buffer"), "{reason}");
        let reason = reason_of(all_is_in_the_page_cache, |statistics, counted| {
            statistics.report.rows_read = 100_000;
            counted.insert("laboratory_read_bytes".into(), 4096.0);
        });
        assert!(reason.contains("4 KiB") && reason.contains("100,000 rows"), "{reason}");
    }

    #[test]
    fn the_effect_of_caches_is_reported() {
        let reason = reason_of(row_cache_serves_no_scans, |statistics, counted| {
            statistics.report.latencies.insert("SCAN".into(), latencies(5000, 10.0, None));
            counted.insert("row_cache_entries".into(), 0.0);
            counted.insert("row_cache_requests".into(), 0.0);
        });
        assert!(reason.contains("asked 0 times in 5,000 scans"), "{reason}");
        let reason = reason_of(cache_can_gain_little, |statistics, counted| {
            statistics.report.rows_read = 1000;
            statistics.report.latencies.insert("READ".into(), latencies(1000, 2000.0, None));
            counted.insert("chunk_cache_misses".into(), 100.0);
        });
        // 100 misses of 60 µs in 1,000 reads of 1,000 µs.
        assert!(reason.contains("0.60 % at most"), "{reason}");
    }

    #[test]
    fn garbage_collection_pauses_are_reported() {
        let reason = reason_of(garbage_is_collected, |statistics, counted| {
            statistics.report.seconds = 10.0;
            counted.insert("gc_seconds".into(), 1.5);
            counted.insert("gc_count".into(), 30.0);
        });
        assert!(reason.contains("the server for 15 % of the time: 30 pauses, 50 ms each"), "{reason}");
    }

    #[test]
    fn pauses_of_several_nodes_are_not_summed() {
        let reason = reason_of(garbage_is_collected, |statistics, counted| {
            statistics.report.seconds = 10.0;
            let node = || ProcessReport { role: "server".into(), ..ProcessReport::default() };
            statistics.report.processes = vec![node(), node(), node()];
            counted.insert("gc_seconds".into(), 9.0);
            counted.insert("gc_count".into(), 30.0);
        });
        assert!(reason.contains("each server for 30 % of the time"), "{reason}");
    }

    #[test]
    fn hot_partitions_and_unsteady_runs_are_reported() {
        let reason = reason_of(partition_is_hot, |statistics, _| {
            statistics.threads = 64;
            statistics.report.properties.insert("requestdistribution".into(), "zipfian".into());
            statistics.report.latencies.insert("UPDATE".into(), latencies(10, 10.0, None));
        });
        assert!(reason.contains("3.78 %") && reason.contains("2.42 of 64"), "{reason}");
        assert!(
            reason_of(never_steady, |statistics, _| statistics.steady.reached = false)
                .contains("never became steady")
        );
    }
}
