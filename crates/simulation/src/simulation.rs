//! A run: executes operations on the node and on the model, and compares the two.

use cassette_protocol::response::{Error, ErrorDetail};
use cassette_protocol::{Compression, QueryParameters, Version};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::model::{Key, Model};
use crate::node::{End, Node};
use crate::operation::{Kind, Operation};
use crate::profile::Profile;
use crate::wire::{Cql, Reply, Wire};

/// Number of clients.
const CLIENTS: usize = 3;
/// Number of open writes at which the node is restarted, which reveals their outcomes.
const OPEN_WRITES_MAX: usize = 6;

/// The state of a run.
pub struct Simulation {
    pub(crate) profile: Profile,
    pub(crate) node: Node,
    pub(crate) model: Model,
    pub(crate) random: SmallRng,
    pub(crate) life: u32,
    /// Unique numbers for names of tables and texts.
    pub(crate) number: u64,
    pub(crate) cursors: Vec<Cursor>,
    /// The model with the schema change that failed.
    pub(crate) in_doubt: Option<Model>,
    wires: Vec<Wire>,
    trace: Vec<String>,
}

/// A scan that continues page by page, across other operations and restarts.
#[derive(Debug, Clone)]
pub(crate) struct Cursor {
    /// `keyspace.table`
    pub table: String,
    /// The statement.
    pub cql: Cql,
    /// Rows per page.
    pub page_size: i32,
    /// Paging state of the next page.
    pub state: bytes::Bytes,
    /// Position of the last row: partition, and row within it.
    pub last: (Key, Vec<crate::value::Val>),
    /// The protocol version, on which paging states depend.
    pub version: Version,
}

/// A statement's outcome.
pub(crate) enum Outcome {
    /// It was acknowledged.
    Done(Reply),
    /// It failed, and may have had an effect. Only in a process lifetime with an injected fault.
    Failed(String),
}

impl Simulation {
    /// Creates a node that has just started on an empty disk.
    pub fn new(profile: Profile) -> Result<Self, String> {
        let mut simulation = Self {
            node: Node::new(profile.clone()),
            model: Model::new(profile.mistake),
            random: SmallRng::seed_from_u64(0),
            life: 0,
            number: 0,
            cursors: Vec::new(),
            in_doubt: None,
            wires: Vec::new(),
            trace: Vec::new(),
            profile,
        };
        simulation.node.start()?;
        simulation.connect()?;
        Ok(simulation)
    }

    /// What was done, line by line.
    pub fn trace(&self) -> &[String] {
        &self.trace
    }

    /// Carries out one operation.
    pub fn step(&mut self, operation: Operation) -> Result<(), String> {
        self.random = SmallRng::seed_from_u64(operation.seed);
        self.node.clock().advance(std::time::Duration::from_micros(100));
        match operation.kind {
            Kind::Write => self.write()?,
            Kind::ConditionalWrite => self.conditional_write()?,
            Kind::Batch => self.batch()?,
            Kind::Truncate => self.truncate()?,
            Kind::ReadPartition => self.read_partition()?,
            Kind::ReadTable => self.read_table()?,
            Kind::ReadIndex => self.read_index()?,
            Kind::ReadView => self.read_view()?,
            Kind::ReadPage => self.read_page()?,
            Kind::CreateTable => self.create_table()?,
            Kind::DropTable => self.drop_table()?,
            Kind::DropKeyspace => self.drop_keyspace()?,
            Kind::AlterTable => self.alter_table()?,
            Kind::CreateIndex => self.create_index()?,
            Kind::DropIndex => self.drop_index()?,
            Kind::CreateView => self.create_view()?,
            Kind::DropView => self.drop_view()?,
            Kind::Stop => self.restart(End::Stopped)?,
            Kind::Kill => self.restart(End::Killed)?,
            Kind::Crash => {
                let end = End::Crashed(self.random.random());
                self.restart(end)?;
            }
            Kind::Reconnect => self.reconnect()?,
            _ => self.upkeep(operation.kind)?,
        }
        self.node.note_log_failure();
        if self.node.is_dead()
            || self.in_doubt.is_some()
            || self.model.open_writes(self.life) > OPEN_WRITES_MAX
        {
            let end = if self.node.is_dead() || self.profile.crashes && self.random.random_range(0..2) == 0 {
                End::Crashed(self.random.random())
            } else {
                End::Killed
            };
            self.restart(end)?;
        }
        Ok(())
    }

    /// Ends the run: the node is restarted once more and everything is compared.
    pub fn finish(&mut self) -> Result<(), String> {
        self.restart(End::Stopped)?;
        if self.stop()? && self.profile.damages {
            self.damage()?;
        }
        Ok(())
    }

    /// Ends the process, starts the next one and compares everything.
    pub(crate) fn restart(&mut self, end: End) -> Result<(), String> {
        self.note(format!("-- {end:?} after {} operations on files", self.node.fs().operations()));
        if end == End::Stopped && self.stop()? {
            self.model.synced();
        }
        // The machine may have crashed while the process stopped.
        let end = if self.node.is_dead() { End::Crashed(self.random.random()) } else { end };
        let is_crash = matches!(end, End::Crashed(_));
        let end = if is_crash && self.node.has_log_failed() { End::Killed } else { end };
        let unsynced = match end {
            End::Crashed(_) => self.model.take_unsynced(),
            End::Stopped | End::Killed => Vec::new(),
        };
        self.wires.clear();
        self.node.end(end);
        self.life += 1;
        self.start()?;
        // After replay, the log contains nothing that a crash could still lose.
        self.model.synced();
        self.connect()?;
        self.settle_schema()?;
        self.settle(&unsynced)
    }

    /// Makes the process close its files. Returns whether that succeeded.
    fn stop(&mut self) -> Result<bool, String> {
        self.wires.clear();
        match self.node.stop() {
            Ok(()) => Ok(true),
            Err(error) if self.node.is_tainted() => {
                self.note(format!("   the stop failed: {error}"));
                Ok(false)
            }
            Err(error) => Err(format!("cannot stop: {error}")),
        }
    }

    fn start(&mut self) -> Result<(), String> {
        if self.profile.errors && self.random.random_range(0..4) == 0 {
            self.fail_operations();
            match self.node.start() {
                Ok(()) => self.node.heal(),
                Err(error) => {
                    self.note(format!("-- the start failed: {error}"));
                    self.node.end(End::Killed);
                    self.node.start()?;
                }
            }
            return Ok(());
        }
        self.node.start().map_err(|error| format!("cannot start: {error}"))
    }

    pub(crate) fn connect(&mut self) -> Result<(), String> {
        for _ in 0..CLIENTS {
            let wire = self.new_wire()?;
            self.wires.push(wire);
        }
        Ok(())
    }

    fn new_wire(&mut self) -> Result<Wire, String> {
        let version = Version::SUPPORTED[self.random.random_range(0..Version::SUPPORTED.len())];
        let compression = match self.random.random_range(0..3) {
            0 => None,
            1 => Some(Compression::Lz4),
            _ if version == Version::V5 => None,
            _ => Some(Compression::Snappy),
        };
        Wire::connect(self.node.database()?, version, compression)
    }

    fn reconnect(&mut self) -> Result<(), String> {
        let at = self.random.random_range(0..CLIENTS);
        self.wires[at] = self.new_wire()?;
        Ok(())
    }

    /// Sends a statement over one of the connections, as text or prepared.
    pub(crate) fn execute(&mut self, cql: &Cql, stamp: Option<i64>) -> Result<Outcome, String> {
        let parameters = QueryParameters { timestamp: stamp, ..QueryParameters::default() };
        self.execute_with(cql, parameters, None)
    }

    /// [`execute`](Self::execute) with parameters, over a connection of this version if one is
    /// named.
    pub(crate) fn execute_with(
        &mut self,
        cql: &Cql,
        parameters: QueryParameters,
        version: Option<Version>,
    ) -> Result<Outcome, String> {
        let at = self.random.random_range(0..CLIENTS);
        let at = match version {
            None => at,
            Some(version) => match self.wires.iter().position(|wire| wire.version() == version) {
                Some(at) => at,
                None => {
                    self.wires[at] = Wire::connect(self.node.database()?, version, None)?;
                    at
                }
            },
        };
        let prepared = self.random.random_range(0..2) == 0;
        let database = self.node.database()?.clone();
        let before = self.trace.len();
        self.note(describe(at, cql, &parameters, prepared));
        // The second in which values expire must not depend on the duration of a statement.
        self.node.set_fast(self.profile.expires);
        let reply = self.wires[at].execute(&database, cql, prepared, parameters);
        self.node.set_fast(false);
        self.judge(reply?, before)
    }

    /// Sends a batch over one of the connections.
    pub(crate) fn execute_batch(
        &mut self,
        batch: cassette_protocol::request::Batch,
        text: String,
    ) -> Result<Outcome, String> {
        let at = self.random.random_range(0..CLIENTS);
        let database = self.node.database()?.clone();
        let before = self.trace.len();
        self.note(format!("{at}: {text}"));
        let reply = self.wires[at].batch(&database, batch)?;
        self.judge(reply, before)
    }

    /// What a reply means: an error is one only where something was made to fail, and never one
    /// that blames the statement.
    fn judge(&mut self, reply: Reply, line: usize) -> Result<Outcome, String> {
        let Reply::Refused(Error { detail, message }) = reply else { return Ok(Outcome::Done(reply)) };
        self.trace[line].push_str(&format!("\n   {detail:?}: {message}"));
        let may_fail = matches!(
            detail,
            ErrorDetail::ServerError
                | ErrorDetail::Overloaded
                | ErrorDetail::TruncateError
                | ErrorDetail::ReadFailure { .. }
                | ErrorDetail::WriteFailure { .. }
                // Protocol version 3 has no failure codes, and reports these instead.
                | ErrorDetail::ReadTimeout { .. }
                | ErrorDetail::WriteTimeout { .. }
        );
        if may_fail && self.node.is_tainted() {
            return Ok(Outcome::Failed(message));
        }
        Err(format!("a statement failed: {message}"))
    }

    pub(crate) fn note(&mut self, line: String) {
        self.trace.push(line);
    }

    pub(crate) fn one_in(&mut self, n: u32) -> bool {
        self.random.random_range(0..n) == 0
    }

    pub(crate) fn next_number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    /// Returns a random table, if any exists.
    pub(crate) fn some_table(&mut self) -> Option<String> {
        let names: Vec<&String> = self.model.tables.keys().collect();
        if names.is_empty() {
            return None;
        }
        let at = self.random.random_range(0..names.len());
        Some(names[at].clone())
    }
}

fn describe(wire: usize, cql: &Cql, parameters: &QueryParameters, prepared: bool) -> String {
    let mut text = format!("{wire}: {}", cql.text);
    if !cql.values.is_empty() {
        let values = cql.values.iter().map(|value| match value {
            Some(value) if value.len() <= 16 => {
                value.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
            }
            Some(value) => format!("{} bytes", value.len()),
            None => "null".to_owned(),
        });
        text.push_str(&format!(" [{}]", values.collect::<Vec<_>>().join(", ")));
    }
    if let Some(stamp) = parameters.timestamp {
        text.push_str(&format!(" at {stamp}"));
    }
    if prepared {
        text.push_str(" (prepared)");
    }
    text
}
