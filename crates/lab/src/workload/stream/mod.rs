//! A workload as a stream of operations per worker.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Serialize};

use super::StatementWorkload;
use crate::ycsb::counter::AcknowledgedCounter;
use crate::ycsb::generators::{Discrete, Hotspot, KeyChooser, ScrambledZipfian, SkewedLatest};
use crate::ycsb::properties::{
    CoreWorkload, FieldLengthDistribution, PropertyError, RequestDistribution, ScanLengthDistribution,
};
use crate::ycsb::values::{FieldValues, write_deterministic};
use crate::ycsb::zipfian::{ZIPFIAN_CONSTANT, Zipfian};

/// An operation. Keys are numbers here; [`OperationStream::write_key`] names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Writes a new record; the number of the key must be acknowledged afterwards.
    Insert {
        /// New key.
        key: u64,
    },
    /// Reads one record.
    Read {
        /// Key of the record.
        key: u64,
        /// The only field to read; `None` for all.
        field: Option<usize>,
    },
    /// Writes one field or all fields of a record.
    Update {
        /// Key of the record.
        key: u64,
        /// The only field to write; `None` for all.
        field: Option<usize>,
    },
    /// Reads records from a key on, in the engine's order.
    Scan {
        /// First key.
        key: u64,
        /// Maximum number of records.
        length: u32,
        /// The only field to read; `None` for all.
        field: Option<usize>,
    },
    /// Reads a record, then updates it.
    ReadModifyWrite {
        /// Key of the record.
        key: u64,
        /// The only field to read; `None` for all.
        read: Option<usize>,
        /// The only field to write; `None` for all.
        written: Option<usize>,
    },
    /// Runs an operation of a workload of statements.
    Statements {
        /// Index of the operation.
        operation: u8,
        /// Number of its record.
        key: u64,
        /// Source of values that change with each operation.
        random: u64,
        /// Whether the record is new: the number of the key must be acknowledged afterwards.
        inserts: bool,
    },
}

/// Kinds of latencies: YCSB's names of the operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names of the operations")]
pub enum OperationKind {
    Insert,
    Read,
    Update,
    Scan,
    ReadModifyWrite,
    /// A kind named by the workload, by its index.
    Named(u8),
}

impl OperationKind {
    /// Returns YCSB's name, or one of those named by the workload.
    pub fn name_among(self, names: &[String]) -> &str {
        match self {
            Self::Named(index) => names.get(usize::from(index)).map_or("?", String::as_str),
            Self::Insert => "INSERT",
            Self::Read => "READ",
            Self::Update => "UPDATE",
            Self::Scan => "SCAN",
            Self::ReadModifyWrite => "READ-MODIFY-WRITE",
        }
    }
}

impl Operation {
    /// Returns its kind.
    pub const fn kind(&self) -> OperationKind {
        match self {
            Self::Insert { .. } => OperationKind::Insert,
            Self::Read { .. } => OperationKind::Read,
            Self::Update { .. } => OperationKind::Update,
            Self::Scan { .. } => OperationKind::Scan,
            Self::ReadModifyWrite { .. } => OperationKind::ReadModifyWrite,
            Self::Statements { operation, .. } => OperationKind::Named(*operation),
        }
    }

    /// Returns the first key.
    pub const fn key(&self) -> u64 {
        match self {
            Self::Insert { key }
            | Self::Read { key, .. }
            | Self::Update { key, .. }
            | Self::Scan { key, .. }
            | Self::ReadModifyWrite { key, .. }
            | Self::Statements { key, .. } => *key,
        }
    }

    /// Returns the number of the new key, if it creates one.
    pub const fn new_key(&self) -> Option<u64> {
        match self {
            Self::Insert { key } | Self::Statements { key, inserts: true, .. } => Some(*key),
            _ => None,
        }
    }
}

/// Which keys of a table exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyBounds {
    /// All keys below this number exist.
    pub end: u64,
    /// No key from this number on exists; some of those between the two may.
    pub next: u64,
}

impl KeyBounds {
    /// Creates the bounds of a table whose keys below `next` exist, and no others.
    pub const fn dense(next: u64) -> Self {
        Self { end: next, next }
    }

    /// Returns the bounds after processes that share the new keys by turns
    /// ([`KeySpace::interleaved`]) inserted so many each.
    #[must_use]
    pub fn after(self, inserted: &[u64]) -> Self {
        let processes = inserted.len() as u64;
        let all =
            |each: Option<&u64>| self.next.saturating_add(each.map_or(0, |n| n.saturating_mul(processes)));
        // Turns that every process took are without gaps, unless there was one before.
        let end = if self.end == self.next { all(inserted.iter().min()) } else { self.end };
        Self { end, next: all(inserted.iter().max()) }
    }
}

/// Keys of a table, shared by all workers and all phases on that table.
#[derive(Debug, Clone)]
pub struct KeySpace {
    /// Counts the existing keys, then the new ones of this process.
    inserted: Arc<AcknowledgedCounter>,
    bounds: KeyBounds,
    /// Which of the processes that share the new keys by turns this is, and their number.
    turn: u64,
    processes: u64,
}

impl KeySpace {
    /// Creates the keys of a table whose next new key has number `next`; all before it exist.
    pub fn starting_at(next: u64) -> Self {
        Self::interleaved(KeyBounds::dense(next), 0, 1)
    }

    /// Creates the keys of a table for one of several `processes` that insert into it at the same
    /// time. Process number `turn` inserts every key whose turn it is, and chooses among the
    /// existing keys and its own new ones.
    ///
    /// # Panics
    /// If `turn` is not below `processes`.
    pub fn interleaved(bounds: KeyBounds, turn: u64, processes: u64) -> Self {
        assert!(turn < processes, "process {turn} of {processes}");
        Self { inserted: Arc::new(AcknowledgedCounter::new(bounds.end)), bounds, turn, processes }
    }

    /// Returns one past the index of the last key known to exist; see [`number`](Self::number).
    pub fn end(&self) -> u64 {
        self.inserted.readable_end()
    }

    /// Returns the number of new keys that this process assigned.
    pub fn assigned(&self) -> u64 {
        self.inserted.upcoming() - self.bounds.end
    }

    /// Returns the number of the key with this index among those that this process uses.
    fn number(&self, index: u64) -> u64 {
        match index.checked_sub(self.bounds.end) {
            None => index,
            Some(new) => self.bounds.next + new * self.processes + self.turn,
        }
    }

    /// Assigns a new key. Returns its number.
    fn assign(&self) -> u64 {
        self.number(self.inserted.next())
    }

    /// Records that the insertion of key `number` is complete, whether it succeeded or not.
    pub fn acknowledge(&self, number: u64) {
        let new = number.saturating_sub(self.bounds.next) / self.processes;
        self.inserted.acknowledge(self.bounds.end + new);
    }
}

/// Creates the streams of a phase.
#[derive(Debug, Clone)]
pub struct StreamFactory {
    workload: Arc<CoreWorkload>,
    field_names: Arc<[String]>,
    keys: KeySpace,
    /// `None`: a load, inserts only.
    run: Option<(Discrete<OperationKind>, KeyChooser)>,
    scan_length: Option<Zipfian>,
    field_length: Option<Zipfian>,
    statements: Option<Arc<StatementWorkload>>,
    kind_names: Arc<[String]>,
    seed: u64,
}

impl StreamFactory {
    /// Creates streams of the load phase: inserts of new keys.
    pub fn load(workload: &CoreWorkload, keys: KeySpace, seed: u64) -> Result<Self, PropertyError> {
        workload.check()?;
        let zipfian_lengths = |from: u64, to: u64| Zipfian::new(to - from + 1, ZIPFIAN_CONSTANT);
        let scan_length = (workload.scan_length_distribution == ScanLengthDistribution::Zipfian)
            .then(|| zipfian_lengths(workload.min_scan_length, workload.max_scan_length));
        let field_length = (workload.field_length_distribution == FieldLengthDistribution::Zipfian)
            .then(|| zipfian_lengths(workload.min_field_length as u64, workload.field_length as u64));
        let field_names = workload.field_names().into();
        Ok(Self {
            workload: Arc::new(workload.clone()),
            field_names,
            keys,
            run: None,
            scan_length,
            field_length,
            statements: None,
            kind_names: Arc::default(),
            seed,
        })
    }

    /// Replaces the operations by statements. The core workload still determines the number of
    /// records and the distribution of keys.
    pub fn with_statements(mut self, statements: Arc<StatementWorkload>) -> Result<Self, PropertyError> {
        if let Some((operations, _)) = &mut self.run {
            let weighted = statements.operations.iter().zip(0..);
            let weighted = weighted.map(|(operation, index)| (operation.weight, OperationKind::Named(index)));
            *operations = Discrete::new(weighted)
                .ok_or_else(|| PropertyError::Contradiction("every weight is 0".into()))?;
        }
        self.kind_names = statements.kind_names().into();
        self.statements = Some(statements);
        Ok(self)
    }

    /// Returns the names of the kinds of operations named by the workload.
    pub fn kind_names(&self) -> &[String] {
        &self.kind_names
    }

    /// Creates streams of the run phase: the workload's mix over the existing keys.
    pub fn run(workload: &CoreWorkload, keys: KeySpace, seed: u64) -> Result<Self, PropertyError> {
        let mut factory = Self::load(workload, keys, seed)?;
        let parts = workload.proportions;
        // In YCSB's order, so that a random number selects the same operation.
        let operations = Discrete::new([
            (parts.read, OperationKind::Read),
            (parts.update, OperationKind::Update),
            (parts.insert, OperationKind::Insert),
            (parts.scan, OperationKind::Scan),
            (parts.read_modify_write, OperationKind::ReadModifyWrite),
        ]);
        let operations =
            operations.ok_or_else(|| PropertyError::Contradiction("every proportion is 0".into()))?;
        let chooser = key_chooser(workload, &factory.keys);
        factory.run = Some((operations, chooser));
        Ok(factory)
    }

    /// Creates the stream of worker `worker`. The same seed and worker result in the same stream,
    /// as far as other workers' inserts leave it the same keys.
    pub fn stream(&self, worker: usize) -> OperationStream {
        // Neighbouring seeds are far apart: the generator's seeding applies SplitMix64.
        let rng = SmallRng::seed_from_u64(self.seed.wrapping_mul(1 << 20).wrapping_add(worker as u64));
        OperationStream { factory: self.clone(), rng }
    }
}

fn key_chooser(workload: &CoreWorkload, keys: &KeySpace) -> KeyChooser {
    // Runs that inserted extend the key space of later runs on the same table.
    let start = workload.insert_start;
    let count = workload.insert_count() + keys.end().saturating_sub(workload.record_count);
    match workload.request_distribution {
        RequestDistribution::Uniform => KeyChooser::Uniform { start, count },
        RequestDistribution::Sequential => {
            KeyChooser::Sequential { start, count, given: Arc::new(AtomicU64::new(0)) }
        }
        RequestDistribution::Zipfian => {
            // Keys to come are part of the key space from the start (twice as many as expected), so
            // that an insertion does not change which keys are popular; those not there yet are
            // drawn again. The one more is YCSB's.
            let expected = (workload.operation_count as f64 * workload.proportions.insert * 2.0) as u64;
            KeyChooser::ScrambledZipfian(ScrambledZipfian::new(start, count + expected + 1))
        }
        RequestDistribution::Latest => {
            KeyChooser::SkewedLatest(SkewedLatest::new(Arc::clone(&keys.inserted)))
        }
        RequestDistribution::Hotspot => KeyChooser::Hotspot(Hotspot::new(
            start,
            count,
            workload.hotspot_data_fraction,
            workload.hotspot_operation_fraction,
        )),
        RequestDistribution::Exponential => {
            let range = workload.record_count as f64 * workload.exponential_fraction;
            let gamma = -(1.0 - workload.exponential_percentile / 100.0).ln() / range;
            KeyChooser::Exponential { gamma, newest: Arc::clone(&keys.inserted) }
        }
    }
}

/// One worker's endless stream of operations, with their names and values.
#[derive(Debug)]
pub struct OperationStream {
    factory: StreamFactory,
    rng: SmallRng,
}

impl OperationStream {
    /// Returns the next operation.
    pub fn next_operation(&mut self) -> Operation {
        let Some((operations, _)) = &self.factory.run else {
            return match &self.factory.statements {
                Some(statements) => self.statements(statements.load()),
                None => Operation::Insert { key: self.factory.keys.assign() },
            };
        };
        match operations.next(&mut self.rng) {
            OperationKind::Insert => Operation::Insert { key: self.factory.keys.assign() },
            OperationKind::Read => Operation::Read { key: self.existing_key(), field: self.read_field() },
            OperationKind::Update => {
                Operation::Update { key: self.existing_key(), field: self.written_field() }
            }
            OperationKind::Scan => Operation::Scan {
                key: self.existing_key(),
                length: self.scan_length(),
                field: self.read_field(),
            },
            OperationKind::ReadModifyWrite => Operation::ReadModifyWrite {
                key: self.existing_key(),
                read: self.read_field(),
                written: self.written_field(),
            },
            OperationKind::Named(operation) => self.statements(operation),
        }
    }

    fn statements(&mut self, operation: u8) -> Operation {
        let known = self.factory.statements.as_ref();
        let inserts = known.is_some_and(|known| known.operations[usize::from(operation)].inserts);
        let key = if inserts { self.factory.keys.assign() } else { self.existing_key() };
        Operation::Statements { operation, key, random: self.rng.random(), inserts }
    }

    /// Returns the workload of statements, if it is one.
    pub fn statement_workload(&self) -> Option<&Arc<StatementWorkload>> {
        self.factory.statements.as_ref()
    }

    /// Records that the insertion of key `number` is complete, whether it succeeded or not.
    pub fn acknowledge(&self, number: u64) {
        self.factory.keys.acknowledge(number);
    }

    /// Writes the name of key `number` into `name`.
    pub fn write_key(&self, number: u64, name: &mut String) {
        self.factory.workload.key_naming.write(number, name);
    }

    /// Fills `values` with new values of record `key`: of `field`, or of all fields.
    pub fn write_values(&mut self, key: &str, field: Option<usize>, values: &mut FieldValues) {
        values.clear();
        let fields = match field {
            Some(field) => field..field + 1,
            None => 0..self.factory.workload.field_count,
        };
        for field in fields {
            let length = self.field_length();
            if self.factory.workload.data_integrity {
                values.push_deterministic(field, length, key, &self.factory.field_names[field]);
            } else {
                values.push_random(field, length, &mut self.rng);
            }
        }
    }

    /// Returns the rule that checks values read, if the workload's values are derived from key and
    /// field.
    pub fn value_rule(&self) -> Option<ValueRule> {
        let workload = &self.factory.workload;
        workload.data_integrity.then(|| ValueRule {
            field_names: Arc::clone(&self.factory.field_names),
            field_length: workload.field_length,
            scratch: Vec::new(),
        })
    }

    fn existing_key(&mut self) -> u64 {
        let (_, chooser) = self.factory.run.as_mut().expect("only runs choose among keys");
        loop {
            let key = chooser.next(&mut self.rng);
            if key < self.factory.keys.end() {
                return self.factory.keys.number(key);
            }
        }
    }

    fn read_field(&mut self) -> Option<usize> {
        let workload = &self.factory.workload;
        (!workload.read_all_fields).then(|| self.rng.random_range(0..workload.field_count))
    }

    fn written_field(&mut self) -> Option<usize> {
        let workload = &self.factory.workload;
        (!workload.write_all_fields).then(|| self.rng.random_range(0..workload.field_count))
    }

    fn scan_length(&mut self) -> u32 {
        let workload = &self.factory.workload;
        let length = match &mut self.factory.scan_length {
            Some(zipfian) => workload.min_scan_length + zipfian.next(&mut self.rng),
            None => self.rng.random_range(workload.min_scan_length..=workload.max_scan_length),
        };
        length as u32
    }

    fn field_length(&mut self) -> usize {
        let workload = &self.factory.workload;
        match (workload.field_length_distribution, &mut self.factory.field_length) {
            (FieldLengthDistribution::Uniform, _) => {
                self.rng.random_range(workload.min_field_length..=workload.field_length)
            }
            (FieldLengthDistribution::Zipfian, Some(zipfian)) => {
                workload.min_field_length + zipfian.next(&mut self.rng) as usize
            }
            _ => workload.field_length,
        }
    }
}

/// Determines the value of a field for workloads with `dataintegrity=true`.
#[derive(Debug, Clone)]
pub struct ValueRule {
    field_names: Arc<[String]>,
    field_length: usize,
    scratch: Vec<u8>,
}

impl ValueRule {
    /// Returns whether `value` is the expected one of field `field` of record `key`.
    pub fn is_right(&mut self, key: &str, field: usize, value: &[u8]) -> bool {
        let Some(name) = self.field_names.get(field) else { return false };
        self.scratch.clear();
        write_deterministic(key, name, self.field_length, &mut self.scratch);
        self.scratch == value
    }

    /// Returns the number of fields in a whole record.
    pub fn field_count(&self) -> usize {
        self.field_names.len()
    }
}

/// Returns the share of operations of one of `workers` in a `total`: the first ones take the
/// remainder.
pub fn share_of(total: u64, workers: usize, worker: usize) -> u64 {
    let workers = workers as u64;
    total / workers + u64::from((worker as u64) < total % workers)
}

#[cfg(test)]
mod tests;
