//! A benchmark as a sequence of phases on one engine.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::LabError;
use crate::results::PhaseReport;
pub use crate::run::Observer;
use crate::run::{PhasePlan, Rate, Target};
use crate::workload::{KeySpace, StreamFactory, TableShape};
use crate::ycsb::CoreWorkload;

/// Phases of a benchmark, and how they run.
#[derive(Debug, Clone)]
pub struct Benchmark {
    /// Workloads in order, each with its name in the report. All share the table and the records.
    pub workloads: Vec<(String, CoreWorkload)>,
    /// Whether the records are loaded first.
    pub load: bool,
    /// Whether the workloads are run.
    pub run: bool,
    /// Whether the load empties the table first.
    pub replace: bool,
    /// Number of concurrent operations.
    pub in_flight: usize,
    /// Operations per second in an open loop; `None` for a closed loop. Loads are always closed.
    pub rate: Option<f64>,
    /// Whether workers of an open loop busy-wait for their next start instead of sleeping.
    pub spin: bool,
    /// Seed of random choices.
    pub seed: u64,
    /// Number of repeats of load and runs.
    pub repeats: usize,
    /// Pause after a load, for remaining flushes and compactions.
    pub settle: Duration,
    /// Pid of the server, whose processor time and memory are measured.
    pub server_pid: Option<u32>,
}

impl Benchmark {
    /// Runs all phases and returns their results.
    ///
    /// A phase with failed operations is a result like others. An error makes the remaining phases
    /// pointless.
    pub fn perform(
        &self,
        target: &mut dyn Target,
        observer: &dyn Observer,
    ) -> Result<Vec<PhaseReport>, LabError> {
        self.check()?;
        let mut reports = Vec::new();
        let first = &self.workloads[0].1;
        let shape =
            TableShape { table: first.table.clone(), field_names: first.field_names(), statements: None };
        // Runs over records of an earlier benchmark use them unchanged; runs that insert move the
        // end.
        let mut keys = KeySpace::starting_at(first.record_count);
        if !self.load {
            target.use_table(&shape)?;
        }
        for repeat in 1..=self.repeats {
            // Each phase uses other random numbers, the same ones whenever the benchmark is
            // repeated.
            let mut seed = self.seed.wrapping_add((repeat as u64) << 32);
            if self.load {
                target.create_table(&shape, self.replace)?;
                target.use_table(&shape)?;
                let loaded = KeySpace::starting_at(first.insert_start);
                let factory = StreamFactory::load(first, loaded, seed)?;
                let plan = PhasePlan { operations: Some(first.insert_count()), ..self.plan("load", repeat) };
                let mut report = plan.measure(&factory, target, observer)?.report;
                report.properties = owned(first.settings());
                observer.on_phase_end(&report);
                let stopped = report.stopped.is_some();
                reports.push(report);
                if stopped {
                    break;
                }
                keys = KeySpace::starting_at(first.record_count);
                std::thread::sleep(self.settle);
            }
            for (name, workload) in self.workloads.iter().filter(|_| self.run) {
                seed = seed.wrapping_add(1);
                let factory = StreamFactory::run(workload, keys.clone(), seed)?;
                let plan = PhasePlan {
                    operations: (workload.operation_count > 0).then_some(workload.operation_count),
                    time: (workload.max_execution_seconds > 0)
                        .then(|| Duration::from_secs(workload.max_execution_seconds)),
                    rate: self.rate.map(Rate::steady),
                    ..self.plan(&format!("run {name}"), repeat)
                };
                let mut report = plan.measure(&factory, target, observer)?.report;
                report.properties = owned(workload.settings());
                observer.on_phase_end(&report);
                let stopped = report.stopped.is_some();
                reports.push(report);
                if stopped {
                    return Ok(reports);
                }
            }
        }
        Ok(reports)
    }

    fn check(&self) -> Result<(), LabError> {
        let wrong = |what: &str| Err(LabError::Usage(what.into()));
        let Some((_, first)) = self.workloads.first() else {
            return wrong("no workload to run");
        };
        for (_, workload) in &self.workloads {
            workload.check()?;
            if workload.operation_count == 0 && workload.max_execution_seconds == 0 {
                return wrong("a run needs a bound: operationcount or maxexecutiontime");
            }
            if (workload.record_count, &workload.table) != (first.record_count, &first.table) {
                return wrong("all workloads of one benchmark need the same table and recordcount");
            }
        }
        if self.in_flight == 0 || self.repeats == 0 || !(self.load || self.run) {
            return wrong("invalid number of threads, repeats or phases: expected at least one");
        }
        if self.load && self.repeats > 1 && !self.replace {
            return wrong("repeated loads need an empty table: allow emptying it with --replace");
        }
        if self.rate.is_some_and(|rate| !rate.is_finite() || rate <= 0.0) {
            return wrong("invalid rate: expected above 0 operations per second");
        }
        Ok(())
    }

    fn plan(&self, name: &str, repeat: usize) -> PhasePlan {
        PhasePlan {
            name: name.into(),
            repeat,
            in_flight: self.in_flight,
            operations: None,
            time: None,
            rate: None,
            spin: self.spin,
            server_pids: self.server_pid.into_iter().collect(),
            remote_servers: Vec::new(),
            series: false,
        }
    }
}

/// Returns settings as a report stores them.
pub(crate) fn owned(settings: BTreeMap<&'static str, String>) -> BTreeMap<String, String> {
    settings.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::engine::Threads;
    use crate::engine::noop::Noop;
    use crate::recording::LiveView;

    #[derive(Default)]
    struct Log(Mutex<Vec<String>>);

    impl Observer for Log {
        fn on_phase_start(&self, plan: &PhasePlan) {
            self.0.lock().unwrap().push(format!("{} {:?}", plan.name, plan.operations));
        }
        fn on_progress(&self, _: &LiveView) {}
        fn on_phase_end(&self, report: &PhaseReport) {
            self.0.lock().unwrap().push(format!("done {}", report.operations));
        }
    }

    fn benchmark(letters: &[char]) -> Benchmark {
        let workload = |letter: &char| {
            let mut workload = CoreWorkload::core(*letter).unwrap();
            (workload.record_count, workload.operation_count) = (500, 300);
            (letter.to_string(), workload)
        };
        Benchmark {
            workloads: letters.iter().map(workload).collect(),
            load: true,
            run: true,
            replace: false,
            in_flight: 4,
            rate: None,
            spin: false,
            seed: 1,
            repeats: 1,
            settle: Duration::ZERO,
            server_pid: None,
        }
    }

    #[test]
    fn phases_follow_one_another_and_repeat() {
        let log = Log::default();
        let benchmark = Benchmark { repeats: 2, replace: true, ..benchmark(&['a', 'd']) };
        let reports = benchmark.perform(&mut Threads(Noop), &log).unwrap();
        let once =
            ["load Some(500)", "done 500", "run a Some(300)", "done 300", "run d Some(300)", "done 300"];
        assert_eq!(*log.0.lock().unwrap(), [once, once].concat());
        assert_eq!(reports.iter().map(|report| report.repeat).collect::<Vec<_>>(), [1, 1, 1, 2, 2, 2]);
        assert!(reports.iter().all(|report| report.failed == 0 && report.throughput > 0.0));
        assert_eq!(reports[0].processes[0].role, "laboratory");
    }

    #[test]
    fn results_before_an_interruption_are_reported() {
        struct Impatient(Log);
        impl Observer for Impatient {
            fn on_phase_start(&self, plan: &PhasePlan) {
                self.0.on_phase_start(plan);
            }
            fn on_progress(&self, _: &LiveView) {}
            fn stop_reason(&self) -> Option<String> {
                Some("interrupted".into())
            }
            fn on_phase_end(&self, report: &PhaseReport) {
                self.0.on_phase_end(report);
            }
        }
        let mut benchmark = Benchmark { load: false, rate: Some(100.0), ..benchmark(&['c', 'a']) };
        // Without an interruption it would run for an hour.
        benchmark.workloads[0].1.operation_count = 0;
        benchmark.workloads[0].1.max_execution_seconds = 3600;
        let reports = benchmark.perform(&mut Threads(Noop), &Impatient(Log::default())).unwrap();
        assert_eq!(reports.len(), 1);
        assert_eq!(reports[0].stopped.as_deref(), Some("interrupted"));
    }

    #[test]
    fn a_run_bounded_by_time_ends() {
        let mut benchmark = Benchmark { load: false, rate: Some(100.0), ..benchmark(&['c']) };
        benchmark.workloads[0].1.operation_count = 0;
        benchmark.workloads[0].1.max_execution_seconds = 1;
        let reports = benchmark.perform(&mut Threads(Noop), &Log::default()).unwrap();
        assert_eq!(reports[0].operations, 100, "every start meant to lie within the second is made");
    }

    #[test]
    fn contradictory_settings_are_rejected() {
        for wrong in [
            Benchmark { in_flight: 0, ..benchmark(&['a']) },
            Benchmark { workloads: Vec::new(), ..benchmark(&[]) },
            Benchmark { load: false, run: false, ..benchmark(&['a']) },
            Benchmark { repeats: 2, ..benchmark(&['a']) },
            Benchmark { rate: Some(0.0), ..benchmark(&['a']) },
            Benchmark { server_pid: Some(u32::MAX), ..benchmark(&['a']) },
        ] {
            assert!(wrong.perform(&mut Threads(Noop), &Log::default()).is_err());
        }
        let mut endless = benchmark(&['a']);
        endless.workloads[0].1.operation_count = 0;
        assert!(endless.perform(&mut Threads(Noop), &Log::default()).is_err());
    }
}
