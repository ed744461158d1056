//! Replays the queries of some connections, in order.

use std::collections::BTreeMap;
use std::sync::mpsc::Receiver;
use std::thread;
use std::time::{Duration, Instant};

use cassette_database::Database;
use cassette_query_log::LoggedQuery;

use super::report::{DIFFERENCES_MAX, Difference};
use super::{EmbeddedExecutor, ReplayTarget};
use crate::LabError;
use crate::cql::{CqlSettings, Outcome, QueryExecutor};
use crate::recording::recorder::{Histogram, new_histogram};

/// A worker before it connects.
pub(super) struct Worker<'a> {
    targets: &'a [ReplayTarget],
    databases: &'a [Option<Database>],
    client: &'a CqlSettings,
    speed: Option<f64>,
}

/// What a worker measured.
pub(super) struct WorkerReport {
    pub queries: u64,
    pub targets: Vec<Measured>,
    pub differing: u64,
    /// The first ones.
    pub differences: Vec<Difference>,
    /// The longest time by which a query started later than intended.
    pub late_max: Duration,
}

/// What a worker measured of one target.
pub(super) struct Measured {
    /// Nanoseconds of successful queries.
    pub latencies: Histogram,
    /// By message.
    pub failures: BTreeMap<String, u64>,
    pub failed: u64,
}

/// A connection to a target.
enum Executor {
    Server(Box<QueryExecutor>),
    Embedded(EmbeddedExecutor),
}

/// The maximum number of messages of failures that are distinguished.
const MESSAGES_MAX: usize = 100;

impl<'a> Worker<'a> {
    pub fn new(
        targets: &'a [ReplayTarget],
        databases: &'a [Option<Database>],
        client: &'a CqlSettings,
        speed: Option<f64>,
    ) -> Self {
        Self { targets, databases, client, speed }
    }

    /// Executes queries, each with its offset in the log in microseconds, until the sender ends.
    pub fn run(
        self,
        queries: &Receiver<(LoggedQuery, i64)>,
        start: Instant,
    ) -> Result<WorkerReport, LabError> {
        let mut report = WorkerReport::new(self.targets.len());
        // Connects when the first query arrives: a log may have fewer connections.
        let mut executors: Option<Vec<Executor>> = None;
        while let Ok((query, since)) = queries.recv() {
            let executors = match &mut executors {
                Some(executors) => executors,
                none => none.insert(self.connect()?),
            };
            if let Some(speed) = self.speed {
                let offset = Duration::from_micros(since.max(0) as u64).div_f64(speed);
                let now = start.elapsed();
                thread::sleep(offset.saturating_sub(now));
                report.late_max = report.late_max.max(now.saturating_sub(offset));
            }
            report.execute(&query, executors)?;
        }
        Ok(report)
    }

    fn connect(&self) -> Result<Vec<Executor>, LabError> {
        let connect = |(target, database): (&ReplayTarget, &Option<Database>)| match (target, database) {
            (ReplayTarget::Embedded(_), Some(database)) => {
                Ok(Executor::Embedded(EmbeddedExecutor::new(database.clone())))
            }
            (ReplayTarget::Embedded(directory), None) => {
                Err(LabError::Usage(format!("{} is not open", directory.display())))
            }
            (ReplayTarget::Server(contact), _) => {
                QueryExecutor::open(contact, self.client).map(|server| Executor::Server(Box::new(server)))
            }
        };
        self.targets.iter().zip(self.databases).map(connect).collect()
    }
}

impl Executor {
    fn execute(&mut self, query: &LoggedQuery) -> Result<Outcome, LabError> {
        match self {
            Self::Server(server) => server.execute(query),
            Self::Embedded(embedded) => Ok(embedded.execute(query)),
        }
    }
}

impl WorkerReport {
    pub fn new(targets: usize) -> Self {
        let measured = || Measured { latencies: new_histogram(), failures: BTreeMap::new(), failed: 0 };
        Self {
            queries: 0,
            targets: std::iter::repeat_with(measured).take(targets).collect(),
            differing: 0,
            differences: Vec::new(),
            late_max: Duration::ZERO,
        }
    }

    /// Executes a query on all targets, one after the other.
    fn execute(&mut self, query: &LoggedQuery, executors: &mut [Executor]) -> Result<(), LabError> {
        self.queries += 1;
        let mut outcomes = Vec::with_capacity(executors.len());
        for (executor, measured) in executors.iter_mut().zip(&mut self.targets) {
            let start = Instant::now();
            let outcome = executor.execute(query)?;
            measured.record(start.elapsed(), &outcome);
            outcomes.push(outcome);
        }
        if let [first, second] = outcomes.as_slice()
            && !first.agrees_with(second)
        {
            self.differing += 1;
            if self.differences.len() < DIFFERENCES_MAX {
                self.differences.push(Difference::new(query, first, second));
            }
        }
        Ok(())
    }

    /// Adds what another worker measured.
    pub fn merge(&mut self, other: Self) {
        self.queries += other.queries;
        for (mine, other) in self.targets.iter_mut().zip(other.targets) {
            // Both have the same bounds, so adding cannot fail.
            let _ = mine.latencies.add(&other.latencies);
            mine.failed += other.failed;
            for (message, count) in other.failures {
                *mine.failures.entry(message).or_default() += count;
            }
        }
        self.differing += other.differing;
        self.differences.extend(other.differences);
        self.differences.truncate(DIFFERENCES_MAX);
        self.late_max = self.late_max.max(other.late_max);
    }
}

impl Measured {
    fn record(&mut self, elapsed: Duration, outcome: &Outcome) {
        if let Outcome::Failed(message) = outcome {
            self.failed += 1;
            if self.failures.len() < MESSAGES_MAX || self.failures.contains_key(message) {
                *self.failures.entry(message.clone()).or_default() += 1;
            }
            return;
        }
        self.latencies.saturating_record(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX));
    }
}

impl Outcome {
    /// Returns whether two targets gave the same result. Messages of errors may differ.
    fn agrees_with(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Failed(_), Self::Failed(_)) => true,
            _ => self == other,
        }
    }
}
