//! A move from end to end.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use crate::bulk;
use crate::client::Client;
use crate::control::{LogPoint, point};
use crate::copy::{Task, Tasks, micros, now};
use crate::endpoint::{Endpoint, Place, Session};
use crate::error::{Result, unsuitable};
use crate::event::{Event, Observer};
use crate::files;
use crate::follow;
use crate::following::{Follow, Following, Until};
use crate::import;
use crate::plan::{Plan, execute, is_empty};
use crate::progress::{FollowStart, Header, Progress, TableEntry};
use crate::schema::{self, Table};
use crate::settings::{By, Move, Summary, VerifyOptions, VerifySummary};
use crate::statements::Statements;
use crate::throttle::Throttle;
use crate::token_range::TokenRange;
use crate::verify::{Comparison, digest, shares_files};
use crate::writer::Writer;

/// Version of the progress file.
const VERSION: u32 = 1;
/// Maximum number of parallel workers.
const WORKERS_MAX: usize = 256;
/// Maximum number of token ranges of a table in a comparison of files: a directory can have a
/// hundred SSTables, of each of which a range should be long enough to be read ahead.
const RANGES_OF_FILES_MAX: u32 = 32;

impl Move {
    /// Returns what [`run`](Self::run) would do, and reports the statements that it would execute.
    /// Writes nothing.
    ///
    /// # Errors
    /// As `run`.
    pub fn dry_run(&self, observer: &dyn Observer) -> Result<()> {
        match &self.by {
            By::Files(options) => return files::dry_run(self, options, observer),
            By::Import(options) => return import::dry_run(self, options, observer),
            By::Rows | By::Bulk(_) => {}
        }
        let (source, target) = self.open()?;
        self.check_logins(&source, &target, observer)?;
        if let By::Bulk(options) = &self.by {
            return bulk::dry_run(self, (&source, &target), options, observer);
        }
        let plan = Plan::make(&mut source.session(), &mut target.session(), &self.schema())?;
        plan.warnings.iter().for_each(|text| observer.event(&Event::Warning { text: text.clone() }));
        let found = Progress::read_header(&self.progress)?;
        observer.event(&self.started(plan.tables().count(), self.ranges, 0));
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
        if self.follow.is_some() && !matches!(self.by, By::Rows) {
            return unsuitable("only a move by rows can follow changes: use --by rows");
        }
        match &self.by {
            By::Files(options) => return files::run(self, options, observer),
            By::Import(options) => return import::run(self, options, observer),
            By::Rows | By::Bulk(_) => {}
        }
        let (source, target) = self.open()?;
        self.check_logins(&source, &target, observer)?;
        match &self.by {
            By::Bulk(options) => bulk::run(self, (&source, &target), options, observer),
            _ => self.copy_rows((&source, &target), observer),
        }
    }

    fn copy_rows(
        &self,
        (source, target): (&Endpoint, &Endpoint),
        observer: &dyn Observer,
    ) -> Result<Summary> {
        let start = Instant::now();
        let mut session = target.session();
        let (plan, progress) = self.prepare(&mut source.session(), &mut session, observer)?;
        let tables: Vec<Statements> = plan.tables().cloned().map(Statements::new).collect();
        observer.event(&self.started(tables.len(), self.ranges, progress.done_count()));
        let is_left = |task: &Task| !progress.is_done(task.table, task.range);
        let tasks = Tasks {
            tasks: tasks(tables.len(), self.ranges).filter(is_left).collect(),
            done_before: progress.done_count(),
            tables: &tables,
            workers: self.workers.clamp(1, WORKERS_MAX),
            observer,
        };
        let (throttle, marker) = (Throttle::new(self.rate), progress.header.started_micros);
        let Endpoint::Cluster(cluster) = target else { return unsuitable("the target is not a cluster") };
        let failed = AtomicBool::new(false);
        let copy = || {
            tasks.run(
                source,
                || Writer { client: Client::new(cluster) },
                |session, writer, task, shared| {
                    let statements = &tables[task.table];
                    if failed.load(Ordering::Relaxed) {
                        return unsuitable("the changes cannot be followed");
                    }
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
            )
        };
        let index = |session: &mut Session<'_>| execute(session, &plan.after, observer);
        let rows = match &self.follow {
            None => {
                let rows = copy()?;
                index(&mut session)?;
                rows
            }
            Some(follow) => {
                let following = Following { follow, progress: &progress, observer, failed: &failed };
                let mut follower = following.follower(&plan.keyspaces, cluster, self.workers)?;
                let rows = following.beside(&mut follower, copy)?;
                index(&mut session)?;
                following.finish(&mut follower, cluster)?;
                rows
            }
        };
        let seconds = start.elapsed().as_secs_f64();
        observer.event(&Event::Finished { rows, bytes: 0, seconds });
        Ok(Summary { rows, bytes: 0, tables: tables.len(), seconds })
    }

    /// Creates what the target lacks, and opens the progress file.
    fn prepare(
        &self,
        source: &mut Session<'_>,
        target: &mut Session<'_>,
        observer: &dyn Observer,
    ) -> Result<(Plan, Progress)> {
        let earlier = Progress::read_header(&self.progress)?;
        // Before the schema is read, so that a change of it in between is noticed, and before the
        // copy reads anything: writes before this point are visible to it, later ones are captured.
        let point = self.follow_point(earlier.as_ref())?;
        let plan = Plan::make(source, target, &self.schema())?;
        plan.warnings.iter().for_each(|text| observer.event(&Event::Warning { text: text.clone() }));
        if self.follow.is_some() {
            self.check_follow(&plan, source)?;
        }
        execute(target, &plan.before, observer)?;
        if self.follow.is_some() {
            self.prepare_target(&plan, target, observer)?;
        }
        let header = self.header(&plan, target, earlier.as_ref(), point.as_ref())?;
        let progress = Progress::open(&self.progress, &header)?;
        Ok((plan, progress))
    }

    /// Compares the rows of source and target, and repairs the target if requested. Rows that are
    /// written meanwhile differ, and rows that the files of the target do not contain yet.
    ///
    /// # Errors
    /// If source or target cannot be read, or the target lacks a table.
    pub fn verify(&self, options: VerifyOptions, observer: &dyn Observer) -> Result<VerifySummary> {
        let start = Instant::now();
        let (source, target) = self.open()?;
        let files = options.target_files.map(Endpoint::of_files);
        let compared = files.as_ref().unwrap_or(&target);
        let plan = Plan::make(&mut source.session(), &mut compared.session(), &self.schema())?;
        let missing = plan.before.iter().find(|statement| statement.starts_with("CREATE TABLE"));
        if let Some(statement) = missing {
            let name = statement.split_whitespace().nth(2).unwrap_or_default();
            return unsuitable(format!("the target has no table {name}: move it first"));
        }
        let tables: Vec<Statements> = plan.tables().cloned().map(Statements::new).collect();
        let earlier = Progress::read_header(&self.progress)?;
        let marker = earlier.map_or_else(micros, |header| header.started_micros);
        let ranges = match (&source, compared) {
            (Endpoint::Directory { .. }, Endpoint::Directory { .. }) => self.ranges.min(RANGES_OF_FILES_MAX),
            _ => self.ranges,
        };
        observer.event(&self.started(tables.len(), ranges, 0));
        let tasks = Tasks {
            tasks: tasks(tables.len(), ranges).collect(),
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
            || (compared.session(), Writer { client: Client::new(cluster) }),
            |session, (target, writer), task, shared| {
                let statements = &tables[task.table];
                let range = TokenRange::part(task.range, ranges);
                let now = now();
                let found = digest(session, statements, range, now)?;
                let count = usize::try_from(found.rows).unwrap_or(usize::MAX);
                throttle.wait(count);
                shared.count(task.table, count);
                if shares_files(session, target, statements, range)?
                    || found == digest(target, statements, range, now)?
                {
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

    /// Returns a point in the source's log; `None` of a move that does not follow its changes.
    ///
    /// # Errors
    /// If its changes cannot be followed from there, or since an earlier run.
    fn follow_point(&self, earlier: Option<&Header>) -> Result<Option<LogPoint>> {
        let (Some(follow), Place::Cluster(_)) = (&self.follow, &self.from) else { return Ok(None) };
        let point = point(follow.control.as_ref())?;
        follow.captured.check(&point)?;
        if let Some(start) = earlier.and_then(|header| header.follows.as_ref()) {
            start.check(&point)?;
        }
        Ok(Some(point))
    }

    /// Returns the header of a first run. Counters need empty tables.
    fn header(
        &self,
        plan: &Plan,
        target: &mut Session<'_>,
        earlier: Option<&Header>,
        point: Option<&LogPoint>,
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
        let started_micros = micros();
        let started = earlier.and_then(|header| header.follows.clone());
        let follows = point.map(|point| started.unwrap_or_else(|| FollowStart::at(point)));
        Ok(Header { version: VERSION, from, to, ranges: self.ranges, started_micros, tables, follows })
    }

    /// Checks that the changes of the source can be followed, and that a cut-over leaves nothing
    /// behind.
    fn check_follow(&self, plan: &Plan, source: &mut Session<'_>) -> Result<()> {
        let Place::Cluster(_) = &self.from else {
            return unsuitable("the changes of a data directory cannot be followed: move from its server");
        };
        follow::check(&plan.keyspaces)?;
        follow::check_grace(&plan.keyspaces, self.to.patience)?;
        if let Some(Follow { until: Until::CutOver(options), control, .. }) = &self.follow {
            let checked = control.check_target(&options.target);
            checked.or_else(|reason| unsuitable(format!("the source cannot forward: {reason}")))?;
            let is_left = |name: &String| !plan.keyspaces.iter().any(|keyspace| keyspace.name == *name);
            if let Some(name) = schema::keyspaces(source)?.into_iter().find(is_left) {
                return unsuitable(format!(
                    "keyspace {name} is not moved, but its clients would be forwarded, too: move all \
                     keyspaces, or drop it"
                ));
            }
        }
        Ok(())
    }

    /// Checks that the target does not admit clients that the source would reject: refuses to
    /// forward them there, and warns of a copy.
    fn check_logins(&self, source: &Endpoint, target: &Endpoint, observer: &dyn Observer) -> Result<()> {
        let requires = |endpoint: &Endpoint| match endpoint {
            Endpoint::Cluster(cluster) => cluster.requires_login,
            Endpoint::Directory { .. } => false,
        };
        if !requires(source) || requires(target) {
            return Ok(());
        }
        let text = "the source requires its clients to log in, and the target does not: everyone who reaches the \
                    target can read and change the data";
        match self.follow.as_ref().map(|follow| &follow.until) {
            Some(Until::CutOver(options)) if !options.accepts_open_target => unsuitable(format!(
                "{text}; enable logins at the target and create the roles there, or accept it with \
                 --accept-target-without-logins"
            )),
            _ => {
                observer.event(&Event::Warning { text: text.to_owned() });
                Ok(())
            }
        }
    }

    /// Disables the capture of changes in created tables, whose segments no consumer removes, and
    /// checks those that existed.
    fn prepare_target(&self, plan: &Plan, target: &mut Session<'_>, observer: &dyn Observer) -> Result<()> {
        let is_created = |table: &Table| {
            let prefix = format!("CREATE TABLE {} ", table.quoted());
            plan.before.iter().any(|statement| statement.starts_with(&prefix))
        };
        let created = plan.tables().filter(|table| table.cdc && is_created(table));
        let disable = |table: &Table| format!("ALTER TABLE {} WITH cdc = false", table.quoted());
        execute(target, &created.map(disable).collect::<Vec<_>>(), observer)?;
        let mut keyspaces = Vec::new();
        for keyspace in &plan.keyspaces {
            keyspaces.extend(schema::keyspace(target, &keyspace.name)?);
        }
        follow::check_grace(&keyspaces, self.to.patience)
    }
}

/// Returns all token ranges of all tables.
fn tasks(tables: usize, ranges: u32) -> impl Iterator<Item = Task> {
    (0..tables).flat_map(move |table| (0..ranges).map(move |range| Task { table, range }))
}
