//! A move from end to end.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::client::Client;
use crate::copy::{Task, Tasks, now};
use crate::endpoint::Endpoint;
use crate::error::{Result, unsuitable};
use crate::event::{Event, Observer};
use crate::files;
use crate::plan::{Plan, execute, is_empty};
use crate::progress::{Header, Progress, TableEntry};
use crate::settings::{By, Move, Summary, VerifyOptions, VerifySummary};
use crate::statements::Statements;
use crate::throttle::Throttle;
use crate::token_range::TokenRange;
use crate::verify::{Comparison, digest};
use crate::writer::Writer;

/// Version of the progress file.
const VERSION: u32 = 1;
/// Maximum number of parallel workers.
const WORKERS_MAX: usize = 256;

impl Move {
    /// Returns what [`run`](Self::run) would do, and reports the statements that it would execute.
    /// Writes nothing.
    ///
    /// # Errors
    /// As `run`.
    pub fn dry_run(&self, observer: &dyn Observer) -> Result<()> {
        if let By::Files(options) = &self.by {
            return files::dry_run(self, options, observer);
        }
        let (source, target) = self.open()?;
        let plan = Plan::make(&mut source.session(), &mut target.session(), &self.schema())?;
        plan.warnings.iter().for_each(|text| observer.event(&Event::Warning { text: text.clone() }));
        let found = Progress::read_header(&self.progress)?;
        observer.event(&self.started(plan.tables().count(), 0));
        if found.is_some() {
            let text = format!("{} exists: the move would resume", self.progress.display());
            observer.event(&Event::Warning { text });
        }
        for statement in plan.before.iter().chain(&plan.after) {
            observer.event(&Event::Schema { statement: statement.clone() });
        }
        Ok(())
    }

    /// Creates the schema, copies all data, then creates indexes and views. Resumes an earlier run
    /// with the same progress file.
    ///
    /// # Errors
    /// If source or target cannot be used, before anything is written; or if one of them fails for
    /// too long. A repeated run resumes.
    pub fn run(&self, observer: &dyn Observer) -> Result<Summary> {
        if let By::Files(options) = &self.by {
            return files::run(self, options, observer);
        }
        let start = Instant::now();
        let (source, target) = self.open()?;
        let mut session = target.session();
        let plan = Plan::make(&mut source.session(), &mut session, &self.schema())?;
        plan.warnings.iter().for_each(|text| observer.event(&Event::Warning { text: text.clone() }));
        let earlier = Progress::read_header(&self.progress)?;
        execute(&mut session, &plan.before, observer)?;
        let header = self.header(&plan, &mut session, earlier.as_ref())?;
        let progress = Progress::open(&self.progress, &header)?;
        let tables: Vec<Statements> = plan.tables().cloned().map(Statements::new).collect();
        observer.event(&self.started(tables.len(), progress.done_count()));
        let is_left = |task: &Task| !progress.is_done(task.table, task.range);
        let tasks = Tasks {
            tasks: self.tasks(tables.len()).filter(is_left).collect(),
            done_before: progress.done_count(),
            tables: &tables,
            workers: self.workers.clamp(1, WORKERS_MAX),
            observer,
        };
        let (throttle, marker) = (Throttle::new(self.rate), progress.header.started_micros);
        let Endpoint::Cluster(cluster) = &target else { return unsuitable("the target is not a cluster") };
        let rows = tasks.run(
            &source,
            || Writer { client: Client::new(cluster) },
            |session, writer, task, shared| {
                let statements = &tables[task.table];
                let was_started = progress.was_started(task.table, task.range);
                let is_careful = was_started || !progress.header.tables[task.table].was_empty;
                if (statements.table.is_counter || statements.table.has_lists()) && !was_started {
                    progress.start(task.table, task.range)?;
                }
                let mut scan =
                    crate::copy::Scan::new(statements, TokenRange::part(task.range, self.ranges), now());
                while let Some(rows) = scan.next_page(session)? {
                    let count = rows.len();
                    throttle.wait(count);
                    writer.write(statements, rows, scan.now, marker, is_careful)?;
                    shared.count(task.table, count);
                }
                progress.finish(task.table, task.range)
            },
        )?;
        execute(&mut session, &plan.after, observer)?;
        let seconds = start.elapsed().as_secs_f64();
        observer.event(&Event::Finished { rows, bytes: 0, seconds });
        Ok(Summary { rows, bytes: 0, tables: tables.len(), seconds })
    }

    /// Compares the rows of source and target, and repairs the target if requested. Rows that are
    /// written meanwhile differ.
    ///
    /// # Errors
    /// If source or target cannot be read, or the target lacks a table.
    pub fn verify(&self, options: VerifyOptions, observer: &dyn Observer) -> Result<VerifySummary> {
        let start = Instant::now();
        let (source, target) = self.open()?;
        let plan = Plan::make(&mut source.session(), &mut target.session(), &self.schema())?;
        let missing = plan.before.iter().find(|statement| statement.starts_with("CREATE TABLE"));
        if let Some(statement) = missing {
            let name = statement.split_whitespace().nth(2).unwrap_or_default();
            return unsuitable(format!("the target has no table {name}: move it first"));
        }
        let tables: Vec<Statements> = plan.tables().cloned().map(Statements::new).collect();
        let earlier = Progress::read_header(&self.progress)?;
        let marker = earlier.map_or_else(micros, |header| header.started_micros);
        observer.event(&self.started(tables.len(), 0));
        let tasks = Tasks {
            tasks: self.tasks(tables.len()).collect(),
            done_before: 0,
            tables: &tables,
            workers: self.workers.clamp(1, WORKERS_MAX),
            observer,
        };
        let throttle = Throttle::new(self.rate);
        let (differences, repaired) = (AtomicU64::new(0), AtomicU64::new(0));
        let Endpoint::Cluster(cluster) = &target else { return unsuitable("the target is not a cluster") };
        let rows = tasks.run(
            &source,
            || (target.session(), Writer { client: Client::new(cluster) }),
            |session, (target, writer), task, shared| {
                let statements = &tables[task.table];
                let range = TokenRange::part(task.range, self.ranges);
                let now = now();
                let found = digest(session, statements, range, now)?;
                let count = usize::try_from(found.rows).unwrap_or(usize::MAX);
                throttle.wait(count);
                shared.count(task.table, count);
                if found == digest(target, statements, range, now)? {
                    return Ok(());
                }
                let comparison = Comparison { statements, now, marker, repairs: options.repair };
                comparison.compare(session, target, writer, range, found.rows, &mut |difference| {
                    differences.fetch_add(1, Ordering::Relaxed);
                    repaired.fetch_add(u64::from(difference.repaired), Ordering::Relaxed);
                    observer.event(&Event::Different(difference));
                })
            },
        )?;
        let seconds = start.elapsed().as_secs_f64();
        observer.event(&Event::Finished { rows, bytes: 0, seconds });
        let (differences, repaired) = (differences.into_inner(), repaired.into_inner());
        Ok(VerifySummary { rows, differences, repaired, seconds })
    }

    fn tasks(&self, tables: usize) -> impl Iterator<Item = Task> {
        let ranges = self.ranges;
        (0..tables).flat_map(move |table| (0..ranges).map(move |range| Task { table, range }))
    }

    /// Returns the header of a first run. Counters need empty tables.
    fn header(
        &self,
        plan: &Plan,
        target: &mut crate::endpoint::Session<'_>,
        earlier: Option<&Header>,
    ) -> Result<Header> {
        let mut tables = Vec::new();
        for table in plan.tables() {
            let was_empty = earlier.is_none() && is_empty(target, table)?;
            if earlier.is_none() && table.is_counter && !was_empty {
                return unsuitable(format!(
                    "table {}.{} has counters, and the target already has rows of it: counters are copied \
                     into an empty table only; TRUNCATE it at the target, or choose other keyspaces",
                    table.keyspace, table.name
                ));
            }
            let (keyspace, name) = (table.keyspace.clone(), table.name.clone());
            tables.push(TableEntry { keyspace, name, id: table.id.clone(), was_empty });
        }
        let (from, to) = (self.from.name(), self.to.address());
        Ok(Header { version: VERSION, from, to, ranges: self.ranges, started_micros: micros(), tables })
    }
}

fn micros() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}
