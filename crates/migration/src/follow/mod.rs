//! Applies the captured changes of the source to the target, while rows are copied and after that.

mod changes;
mod ranges;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cassette_database::{ChangeRecord, ChangeStream, ChangeStreamError, Position};
use cassette_vfs::encryption::Encryption;
use cassette_vfs::{FileSystem, RealFileSystem};

use crate::client::{Client, Cluster, Failure, Statement, Write};
use crate::control::LogPoint;
use crate::copy::now;
use crate::error::{MoveError, Result, unsuitable};
use crate::schema::{Keyspace, Shape, Table};
use changes::{Applied, ChangeStatements};

/// Maximum number of changes, and bytes of their values, that are applied together.
const CHANGES_MAX: usize = 2048;
const BYTES_MAX: usize = 4 << 20;
/// Maximum number of statements in a batch.
const STATEMENTS_MAX: usize = 64;
/// Fewer changes are applied by one connection.
const PARALLEL_MIN: usize = 64;
/// The least `gc_grace_seconds` of a table: a tombstone must remain at the target until a row that
/// was read before it has been written.
const GRACE_MIN: Duration = Duration::from_secs(3600);

/// Where captured changes are.
#[derive(Clone)]
pub struct Captured {
    /// The server's `cdc_raw_directory`.
    pub directory: PathBuf,
    /// Decrypts segments. `None` if they are not encrypted.
    pub encryption: Option<Arc<dyn Encryption>>,
    /// Removes segments whose changes the target has.
    pub removes: bool,
}

impl Captured {
    /// Checks that the source captures all changes in this directory until they are read.
    pub fn check(&self, point: &LogPoint) -> Result<()> {
        if !point.blocks_writes {
            return unsuitable(
                "the source removes captured changes that have not been read when cdc_total_space is used up: \
                 start it with cdc_block_writes: true",
            );
        }
        let chain = cassette_database::captured_chain(&RealFileSystem, &self.directory);
        let found = match chain.map_err(|error| self.unreadable(&error))? {
            Some(number) if format!("{number:032x}") == point.chain => return Ok(()),
            Some(_) => "those of another server, or of an earlier time",
            None => "none",
        };
        unsuitable(format!(
            "{} does not have the captured changes of the source: expected its cdc_raw_directory, found {found}",
            self.directory.display()
        ))
    }

    fn unreadable(&self, error: &dyn std::fmt::Display) -> MoveError {
        MoveError::Directory { path: self.directory.display().to_string(), reason: error.to_string() }
    }
}

/// How far the target is behind.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lag {
    /// Captured bytes that have not been applied.
    pub bytes: u64,
    /// Time since the target had all captured changes.
    pub seconds: f64,
}

/// Applies changes, from one thread.
pub struct Follower<'c> {
    captured: &'c Captured,
    stream: ChangeStream,
    tables: HashMap<(String, String), ChangeStatements>,
    keyspaces: Vec<String>,
    views: Vec<(String, String)>,
    clients: Vec<Client<'c>>,
    /// When the stream had nothing more.
    caught_up: Instant,
    /// Number of applied changes of partitions.
    pub changes: u64,
}

/// Statements on one partition with the same time, which one request executes.
struct Group {
    token: i64,
    now: Option<u32>,
    statements: Vec<Applied>,
}

impl<'c> Follower<'c> {
    /// Starts after `position`, with `workers` connections to the target.
    pub fn new(
        captured: &'c Captured,
        position: Position,
        keyspaces: &[Keyspace],
        target: &'c Cluster,
        workers: usize,
    ) -> Self {
        let fs: Arc<dyn FileSystem> = Arc::new(RealFileSystem);
        let name = |table: &Table| (table.keyspace.clone(), table.name.clone());
        let tables = keyspaces.iter().flat_map(|keyspace| &keyspace.tables);
        let views = keyspaces.iter().flat_map(|keyspace| {
            let views = keyspace.objects.iter().filter(|object| object.kind == "materialized_view");
            views.map(|view| (keyspace.name.clone(), view.name.clone()))
        });
        Self {
            stream: ChangeStream::open(fs, &captured.directory, captured.encryption.clone(), position),
            captured,
            tables: tables.map(|table| (name(table), ChangeStatements::new(table.clone()))).collect(),
            keyspaces: keyspaces.iter().map(|keyspace| keyspace.name.clone()).collect(),
            views: views.collect(),
            clients: (0..workers.max(1)).map(|_| Client::new(target)).collect(),
            caught_up: Instant::now(),
            changes: 0,
        }
    }

    /// The position up to which the target has all changes.
    pub fn position(&self) -> Position {
        self.stream.consumed()
    }

    /// The error of a directory that ends before a captured change of the source.
    pub fn lacks(&self, captured: Position) -> MoveError {
        MoveError::Unsuitable(format!(
            "{} lacks captured changes: the last one of the source ends at {captured}, and they can be read up to \
             {}; --follow needs the source's cdc_raw_directory itself, not a copy",
            self.captured.directory.display(),
            self.position()
        ))
    }

    /// Applies some of the changes that are durable at the source. Returns `false` if there are
    /// none.
    ///
    /// # Errors
    /// If changes cannot be read, or the target fails for too long. Some may have been applied;
    /// they can be applied again.
    pub fn advance(&mut self) -> Result<bool> {
        let mut groups = Vec::new();
        let (mut changes, mut bytes) = (0, 0);
        while changes < CHANGES_MAX && bytes < BYTES_MAX {
            let Some(record) = self.stream.next_record().map_err(|error| self.ended(error))? else {
                self.caught_up = Instant::now();
                break;
            };
            changes += record.changes.len();
            bytes += self.statements_of(&record, &mut groups)?;
        }
        if changes == 0 {
            return Ok(false);
        }
        self.apply(&groups)?;
        self.changes += changes as u64;
        Ok(true)
    }

    /// Removes segments whose changes the target has, after [`position`](Self::position) was
    /// recorded durably.
    pub fn remove_applied(&self) -> Result<()> {
        if self.captured.removes {
            let consumed = self.position();
            cassette_database::remove_captured(&RealFileSystem, &self.captured.directory, consumed)
                .map_err(|error| self.captured.unreadable(&error))?;
        }
        Ok(())
    }

    /// Returns how far the target is behind.
    pub fn lag(&self) -> Result<Lag> {
        let position = self.position();
        let segments = cassette_database::captured_segments(&RealFileSystem, &self.captured.directory)
            .map_err(|error| self.captured.unreadable(&error))?;
        let left = segments.iter().map(|segment| {
            let durable = segment.durable.unwrap_or(0);
            match segment.id.cmp(&position.segment) {
                std::cmp::Ordering::Less => 0,
                std::cmp::Ordering::Equal => durable.saturating_sub(position.offset),
                std::cmp::Ordering::Greater => durable,
            }
        });
        let bytes = left.map(u64::from).sum();
        Ok(Lag { bytes, seconds: self.caught_up.elapsed().as_secs_f64() })
    }

    fn ended(&self, error: ChangeStreamError) -> MoveError {
        match error {
            ChangeStreamError::Missing { .. } => MoveError::Unsuitable(format!(
                "{}: {error}; start again with another --progress file, into empty keyspaces, and let no other \
                 consumer remove segments meanwhile",
                self.captured.directory.display()
            )),
            other => self.captured.unreadable(&other),
        }
    }

    /// Adds the statements of a record, and returns the bytes of their values.
    fn statements_of(&self, record: &ChangeRecord, groups: &mut Vec<Group>) -> Result<usize> {
        let mut bytes = 0;
        for change in &record.changes {
            let name = (change.table.keyspace.clone(), change.table.name.clone());
            if !self.keyspaces.contains(&name.0) || self.views.contains(&name) {
                continue;
            }
            let Some(statements) = self.tables.get(&name) else {
                return unsuitable(format!(
                    "table {}.{} was created since the move started: start again with another --progress \
                     file, into empty keyspaces",
                    name.0, name.1
                ));
            };
            let (token, first) = (change.update.key.token().0, groups.len());
            for applied in statements.of(change)? {
                bytes += applied.length();
                let fits = |group: &&mut Group| {
                    let same_time = group.now == applied.now || group.now.is_none() || applied.now.is_none();
                    same_time && group.statements.len() < STATEMENTS_MAX
                };
                match groups[first..].last_mut().filter(fits) {
                    Some(group) => {
                        group.now = group.now.or(applied.now);
                        group.statements.push(applied);
                    }
                    None => groups.push(Group { token, now: applied.now, statements: vec![applied] }),
                }
            }
        }
        Ok(bytes)
    }

    /// Applies groups, those of a partition in order of the log by the same connection.
    fn apply(&mut self, groups: &[Group]) -> Result<()> {
        if groups.len() < PARALLEL_MIN || self.clients.len() == 1 {
            return apply(&mut self.clients[0], groups.iter().collect());
        }
        let count = self.clients.len();
        let mut lanes: Vec<Vec<&Group>> = (0..count).map(|_| Vec::new()).collect();
        for group in groups {
            lanes[group.token.unsigned_abs() as usize % count].push(group);
        }
        std::thread::scope(|scope| {
            let lanes = self.clients.iter_mut().zip(lanes);
            let running: Vec<_> =
                lanes.map(|(client, lane)| scope.spawn(move || apply(client, lane))).collect();
            let panicked = || unsuitable("a thread of the move panicked");
            running.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(|_| panicked()))
        })
    }
}

impl Applied {
    fn length(&self) -> usize {
        let length = |value: &changes::Input| match value {
            changes::Input::Set(bytes) => bytes.len(),
            _ => 0,
        };
        self.values.iter().map(length).sum()
    }
}

/// Writes groups until all are acknowledged. The statements are idempotent.
fn apply(client: &mut Client<'_>, mut left: Vec<&Group>) -> Result<()> {
    let mut repeats = client.repeats();
    while !left.is_empty() {
        let writes: Vec<Write<'_>> = left
            .iter()
            .map(|group| Write {
                token: group.token,
                statements: group.statements.iter().map(statement).collect(),
                is_counter: false,
                now: group.now.unwrap_or_else(now),
            })
            .collect();
        let failures = client.write(&writes, repeats.count);
        let mut last: Option<(&Group, Failure)> = None;
        let mut failed = Vec::new();
        for (group, failure) in left.into_iter().zip(failures) {
            if let Some(failure) = failure {
                failed.push(group);
                if !matches!(last, Some((_, Failure::Refused(_)))) {
                    last = Some((group, failure));
                }
            }
        }
        if let Some((group, failure)) = last {
            let text = group.statements.first().map_or("", |applied| &applied.text);
            repeats.after(text, failure)?;
        }
        left = failed;
    }
    Ok(())
}

fn statement(applied: &Applied) -> Statement<'_> {
    Statement { text: &applied.text, values: applied.values.iter().map(changes::Input::value).collect() }
}

/// Checks that tombstones of all tables live long enough, when a cluster may not respond for
/// `patience`.
pub fn check_grace(keyspaces: &[Keyspace], patience: Duration) -> Result<()> {
    let grace = GRACE_MIN.max(patience * 2).as_secs();
    let tables = keyspaces.iter().flat_map(|keyspace| &keyspace.tables);
    let short = tables.into_iter().find(|table| u64::from(table.gc_grace_seconds) < grace);
    let Some(table) = short else { return Ok(()) };
    unsuitable(format!(
        "table {} has gc_grace_seconds = {}: a move with --follow needs at least {grace}, so that a deletion \
         outlives the copy of rows that were read before it",
        table.quoted(),
        table.gc_grace_seconds
    ))
}

/// Checks that the changes of all tables of the source can be followed.
pub fn check(keyspaces: &[Keyspace]) -> Result<()> {
    let mut not_captured = Vec::new();
    for keyspace in keyspaces {
        if !keyspace.durable_writes {
            return unsuitable(format!(
                "keyspace {} has durable_writes = false, so its changes are not captured: ALTER KEYSPACE, or \
                 move it without --follow",
                keyspace.name
            ));
        }
        for table in &keyspace.tables {
            let quoted = table.quoted();
            if table.is_counter {
                return unsuitable(format!(
                    "table {quoted} has counters, which cannot be followed: an increment has an effect each \
                     time it is repeated; move its keyspace without --follow, with its writers stopped"
                ));
            }
            if let Some(list) = table.columns.iter().find(|column| column.shape == Shape::List) {
                return unsuitable(format!(
                    "table {quoted} has a list that is not frozen, {}, which cannot be followed: CQL cannot \
                     name an element of a list by its id; move its keyspace without --follow, with its \
                     writers stopped",
                    list.name
                ));
            }
            if !table.cdc {
                not_captured.push(format!("ALTER TABLE {quoted} WITH cdc = true;"));
            }
        }
    }
    if !not_captured.is_empty() {
        return unsuitable(format!(
            "changes of {} tables are not captured: start the server with cdc_enabled: true, and execute {}",
            not_captured.len(),
            not_captured.join(" ")
        ));
    }
    Ok(())
}
