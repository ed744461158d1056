//! Replays a full query log on one target, or on two to compare their results.
//!
//! Each connection of the log is replayed by one worker, in the order of the log. Different
//! connections are replayed concurrently, as they were recorded.

mod embedded;
mod report;
#[cfg(test)]
mod tests;
mod worker;

use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use std::time::Instant;

use cassette_query_log::{Kind, LogFile, LoggedQuery, Records, files};
use cassette_vfs::RealFileSystem;

use crate::LabError;
use crate::cql::CqlSettings;
use embedded::EmbeddedExecutor;
pub use report::{Difference, ReplayReport, TargetReport};
use worker::{Worker, WorkerReport};

/// The number of queries that wait for a worker.
const QUEUE_LENGTH: usize = 256;

/// The text in place of a password, in statements that cannot be replayed.
const OBSCURED: &str = "*******";

/// What to replay, and where.
#[derive(Debug)]
pub struct Replay {
    /// Files of a full query log, or directories with them.
    pub log: Vec<PathBuf>,
    /// The targets: one, or two whose results are compared.
    pub targets: Vec<ReplayTarget>,
    /// The client's settings.
    pub client: CqlSettings,
    /// How fast queries are started, relative to the log; `None` for as fast as possible.
    pub speed: Option<f64>,
    /// The maximum number of connections, each with its own thread.
    pub connections: usize,
    /// Whether to replay statements on the server's own tables.
    pub include_system: bool,
}

/// Where queries are replayed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplayTarget {
    /// A server at an address.
    Server(String),
    /// A database in this process.
    Embedded(PathBuf),
}

/// Queries that are not replayed, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Skipped {
    /// Continuations of results: their position has no meaning elsewhere.
    pub next_pages: u64,
    /// Statements whose password was obscured.
    pub with_passwords: u64,
    /// Statements on the server's own tables.
    pub system: u64,
}

impl ReplayTarget {
    /// Parses `embedded:DIR`, or an address.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("embedded", directory)) if !directory.is_empty() => Ok(Self::Embedded(directory.into())),
            Some(("embedded", _)) => Err("expected embedded:DIR".to_owned()),
            _ if text.is_empty() => Err("expected HOST:PORT or embedded:DIR".to_owned()),
            _ => Ok(Self::Server(crate::cql::with_port(text))),
        }
    }
}

impl Replay {
    /// Replays the log.
    ///
    /// # Errors
    /// If the log is damaged, or a target cannot be reached. Failed queries are in the report.
    pub fn run(&self) -> Result<ReplayReport, LabError> {
        let files = self.files()?;
        let databases = EmbeddedExecutor::databases(&self.targets)?;
        let workers: Vec<Worker> = (0..self.connections.max(1))
            .map(|_| Worker::new(&self.targets, &databases, &self.client, self.speed))
            .collect();
        let start = Instant::now();
        let (fed, reports) = thread::scope(|scope| {
            let mut queues = Vec::new();
            let mut running = Vec::new();
            for worker in workers {
                let (queue, queries) = sync_channel(QUEUE_LENGTH);
                queues.push(queue);
                running.push(scope.spawn(move || worker.run(&queries, start)));
            }
            let fed = self.feed(&files, &queues);
            drop(queues);
            let reports: Vec<_> = running.into_iter().map(|worker| worker.join()).collect();
            (fed, reports)
        });
        let mut total = WorkerReport::new(self.targets.len());
        for report in reports {
            let report = report.map_err(|_| LabError::Usage("a thread of the replay panicked".to_owned()))?;
            total.merge(report?);
        }
        let elapsed = start.elapsed();
        for database in databases.iter().flatten() {
            database.close().map_err(|error| LabError::engine("embedded", "close", error))?;
        }
        Ok(ReplayReport::new(&self.targets, total, fed?, elapsed))
    }

    /// Returns the files of the log in order.
    fn files(&self) -> Result<Vec<LogFile>, LabError> {
        let mut selected = Vec::new();
        for path in &self.log {
            let is_directory = path.is_dir();
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            let directory = if is_directory { path } else { parent.unwrap_or(Path::new(".")) };
            let found = files(&RealFileSystem, directory)
                .map_err(|error| LabError::io(format!("listing {}", directory.display()), error))?;
            let before = selected.len();
            selected.extend(found.into_iter().filter(|file| {
                file.kind == Kind::Queries && (is_directory || file.path.file_name() == path.file_name())
            }));
            if selected.len() == before {
                return Err(LabError::Usage(format!("{}: no file of a full query log", path.display())));
            }
        }
        Ok(selected)
    }

    /// Reads the log and passes each query to the worker of its connection.
    fn feed(
        &self,
        files: &[LogFile],
        queues: &[SyncSender<(LoggedQuery, i64)>],
    ) -> Result<Skipped, LabError> {
        let damaged = |error: &dyn std::fmt::Display| LabError::Usage(error.to_string());
        let mut skipped = Skipped::default();
        let mut first = None;
        for file in files {
            let mut records = Records::open(&RealFileSystem, &file.path).map_err(|error| damaged(&error))?;
            while let Some(record) = records.next_record().map_err(|error| damaged(&error))? {
                let query = LoggedQuery::decode(&record).map_err(|error| damaged(&error))?;
                if self.skips(&query, &mut skipped) {
                    continue;
                }
                let since = query.started_micros - *first.get_or_insert(query.started_micros);
                let queue = &queues[(query.connection % queues.len() as u64) as usize];
                if queue.send((query, since)).is_err() {
                    // The worker has failed, and reports why.
                    return Ok(skipped);
                }
            }
        }
        Ok(skipped)
    }

    fn skips(&self, query: &LoggedQuery, skipped: &mut Skipped) -> bool {
        let any = |is_meant: fn(&str) -> bool| query.statements.iter().any(|s| is_meant(&s.query));
        let count = if query.is_next_page {
            &mut skipped.next_pages
        } else if any(|text| text.contains(OBSCURED)) {
            &mut skipped.with_passwords
        } else if !self.include_system && any(is_on_system_tables) {
            &mut skipped.system
        } else {
            return false;
        };
        *count += 1;
        true
    }
}

/// Returns whether a statement reads tables of the server, as drivers do. Their content is that of
/// the server, so results always differ.
fn is_on_system_tables(text: &str) -> bool {
    let mut words = text.split_whitespace();
    while let Some(word) = words.next() {
        if word.eq_ignore_ascii_case("from") {
            return words.next().is_some_and(|table| {
                let keyspace = table.split_once('.').map_or("", |(keyspace, _)| keyspace);
                let keyspace = keyspace.trim_matches('"').to_ascii_lowercase();
                keyspace == "system" || keyspace.starts_with("system_")
            });
        }
    }
    false
}
