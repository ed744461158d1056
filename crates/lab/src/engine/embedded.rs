//! Embedded Cassette: prepared CQL statements in this process, without a socket.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cassette_database::{
    BoundValue, Database, DatabaseError, Options, Prepared, ResultMetadata, StatementOptions, Values,
};
use cassette_engine::commitlog::SyncMode;
use cassette_engine::{DiskAccessMode, FlushCompression};
use smallvec::SmallVec;

use super::statements::{self, Statements};
use super::{Engine, Session};
use crate::LabError;
use crate::results::EngineInfo;
use crate::run::{Action, Counters, Sampler};
use crate::workload::{Failure, RowSink, TableShape};
use crate::ycsb::FieldValues;

const KEYSPACE: &str = "ycsb";

/// Settings of the embedded database.
#[derive(Debug, Clone, Default)]
pub struct EmbeddedSettings {
    /// Directory of the database.
    pub data: PathBuf,
    /// `memtable_heap_space` in bytes; `None` for the default.
    pub memtable_bytes: Option<u64>,
    /// `file_cache_size` in bytes; `None` for the default.
    pub cache_bytes: Option<u64>,
    /// Other options, by cassandra.yaml's names.
    pub options: BTreeMap<String, String>,
    /// Table options (WITH …); empty for the defaults.
    pub table_options: String,
}

/// An embedded database under test.
#[derive(Debug)]
pub struct Embedded {
    /// `None` only while it is reopened.
    database: Option<Database>,
    settings: EmbeddedSettings,
    shape: Option<TableShape>,
    prepared: Option<Known>,
}

/// Prepared statements.
#[derive(Debug)]
enum Known {
    Records(Statements<Arc<Prepared>>),
    Steps(Vec<(Arc<Prepared>, StatementOptions)>),
}

impl Embedded {
    /// Opens the database, creating it if needed.
    pub fn open(settings: EmbeddedSettings) -> Result<Self, LabError> {
        let database = open(&settings)?;
        Ok(Self { database: Some(database), settings, shape: None, prepared: None })
    }

    /// Checks options without opening anything.
    pub fn check_options(options: &BTreeMap<String, String>) -> Result<(), String> {
        let mut engine = Options::new("");
        options.iter().try_for_each(|(name, value)| set_option(&mut engine, name, value))
    }

    fn database(&self) -> Result<&Database, LabError> {
        self.database.as_ref().ok_or_else(|| LabError::engine("embedded", "use", "it could not be reopened"))
    }

    fn define(&self, cql: &str) -> Result<(), LabError> {
        let options = StatementOptions::default();
        let mut rows = RowSink::default();
        self.database()?
            .query(None, cql, Values::NONE, &options, &mut Forward::to(&mut rows, None))
            .map(|_| ())
            .map_err(|error| refused(cql, error))
    }
}

fn open(settings: &EmbeddedSettings) -> Result<Database, LabError> {
    let mut options = Options::new(&settings.data);
    if let Some(bytes) = settings.memtable_bytes {
        options.engine.memtable_heap_space = usize::try_from(bytes).unwrap_or(usize::MAX);
    }
    options.engine.file_cache_size = settings.cache_bytes.unwrap_or(options.engine.file_cache_size);
    for (name, value) in &settings.options {
        set_option(&mut options, name, value).map_err(LabError::Usage)?;
    }
    Database::open(options).map_err(|error| refused(&format!("open {}", settings.data.display()), error))
}

/// Sets an option by cassandra.yaml's name.
fn set_option(options: &mut Options, name: &str, value: &str) -> Result<(), String> {
    fn number<T: std::str::FromStr>(name: &str, value: &str) -> Result<T, String> {
        value.parse().map_err(|_| format!("invalid {name} {value:?}: expected a number"))
    }
    let bytes =
        || parse_bytes(value).ok_or_else(|| format!("invalid {name} {value:?}: expected bytes, or 64MiB"));
    let engine = &mut options.engine;
    match name {
        "memtable_heap_space" => engine.memtable_heap_space = bytes()? as usize,
        "memtable_cleanup_threshold" => engine.memtable_cleanup_threshold = Some(number(name, value)?),
        "memtable_flush_writers" => engine.memtable_flush_writers = number(name, value)?,
        "file_cache_size" => engine.file_cache_size = bytes()?,
        "disk_access_mode" => {
            engine.disk_access_mode = DiskAccessMode::of_name(value).ok_or_else(|| {
                format!("invalid {name} {value:?}: expected standard, mmap_index_only or mmap")
            })?;
        }
        "key_cache_size" => engine.key_cache_size = bytes()?,
        "row_cache_size" => engine.row_cache_size = bytes()?,
        "counter_cache_size" => engine.counter_cache_size = bytes()?,
        "flush_compression" => {
            engine.flush_compression = match value {
                "none" => FlushCompression::None,
                "fast" => FlushCompression::Fast,
                "table" => FlushCompression::Table,
                _ => return Err(format!("invalid {name} {value:?}: expected none, fast or table")),
            };
        }
        "commitlog_sync" => engine.commitlog_sync = sync_mode(value, engine.commitlog_sync)?,
        "commitlog_sync_period" => {
            let period = parse_time(value)
                .ok_or_else(|| format!("invalid {name} {value:?}: expected 10000ms or 10s"))?;
            engine.commitlog_sync = SyncMode::Periodic { period };
        }
        "commitlog_sync_group_window" => {
            let window =
                parse_time(value).ok_or_else(|| format!("invalid {name} {value:?}: expected 10ms or 1s"))?;
            engine.commitlog_sync = SyncMode::Group { window };
        }
        "concurrent_compactors" => engine.concurrent_compactors = number(name, value)?,
        "compaction_throughput" => engine.compaction_throughput = bytes()?,
        "commitlog_segment_size" => {
            engine.commitlog_segment_size =
                bytes()?.try_into().map_err(|_| format!("{name} is too large"))?;
        }
        "commitlog_total_space" => engine.commitlog_total_space = bytes()?,
        _ => {
            return Err(format!(
                "the embedded engine has no option {name}; it has commitlog_segment_size, commitlog_sync, \
                 commitlog_sync_group_window, commitlog_sync_period, commitlog_total_space, compaction_throughput, \
                 concurrent_compactors, counter_cache_size, disk_access_mode, file_cache_size, flush_compression, \
                 key_cache_size, memtable_cleanup_threshold, memtable_flush_writers, memtable_heap_space and \
                 row_cache_size"
            ));
        }
    }
    Ok(())
}

/// Parses `commitlog_sync`. Options arrive in name order, so a later period or window overrides the
/// default.
fn sync_mode(value: &str, now: SyncMode) -> Result<SyncMode, String> {
    match (value, now) {
        ("periodic", SyncMode::Periodic { .. }) => Ok(now),
        ("periodic", _) => Ok(SyncMode::Periodic { period: Duration::from_secs(10) }),
        ("group", _) => Ok(SyncMode::Group { window: Duration::from_secs(1) }),
        ("batch", _) => Ok(SyncMode::Batch),
        _ => Err(format!("invalid commitlog_sync {value:?}: expected periodic, group or batch")),
    }
}

/// Parses a duration in cassandra.yaml's syntax: `10ms`, `10s`, `1m`.
fn parse_time(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let milliseconds = match &text[digits.len()..] {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        _ => return None,
    };
    Some(Duration::from_millis(digits.parse::<u64>().ok()?.checked_mul(milliseconds)?))
}

/// Parses a size in cassandra.yaml's syntax: `64MiB`, `1GiB`, `64MiB/s`, or a number of bytes.
pub(crate) fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.trim().trim_end_matches("/s");
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let shift = match text[digits.len()..].trim() {
        "" | "B" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

fn refused(attempt: &str, error: DatabaseError) -> LabError {
    LabError::engine("embedded", attempt, error)
}

impl Engine for Embedded {
    fn describe(&self) -> EngineInfo {
        // The settings reported by the database itself.
        let mut settings =
            self.database.as_ref().map(|database| database.settings().clone()).unwrap_or_default();
        if !self.settings.table_options.is_empty() {
            settings.insert("table options".into(), self.settings.table_options.clone());
        }
        EngineInfo { name: "embedded".into(), version: env!("CARGO_PKG_VERSION").into(), settings }
    }

    fn create_table(&mut self, shape: &TableShape, replace: bool) -> Result<(), LabError> {
        if let Some(workload) = &shape.statements {
            let dropped = workload.drop.iter().filter(|_| replace);
            return dropped.chain(&workload.create).try_for_each(|statement| self.define(statement));
        }
        self.define(&statements::create_keyspace(KEYSPACE, 1))?;
        if replace {
            self.define(&statements::drop_table(KEYSPACE, shape))?;
        }
        self.define(&statements::create_table(KEYSPACE, shape, &self.settings.table_options))
    }

    fn use_table(&mut self, shape: &TableShape) -> Result<(), LabError> {
        let database = self.database()?;
        let prepare = |cql: &str| database.prepare(None, cql).map_err(|error| refused(cql, error));
        let prepared = match &shape.statements {
            None => Known::Records(Statements::prepare(KEYSPACE, shape, prepare)?),
            Some(workload) => {
                let step = |step: &crate::workload::statements::Step| {
                    let mut options = StatementOptions::default();
                    options.consistency = step.consistency.unwrap_or(options.consistency);
                    Ok((prepare(&step.cql)?, options))
                };
                Known::Steps(workload.steps.iter().map(step).collect::<Result<_, LabError>>()?)
            }
        };
        self.prepared = Some(prepared);
        self.shape = Some(shape.clone());
        Ok(())
    }

    fn act(&mut self, action: &Action) -> Result<(), LabError> {
        let refused = |error: &dyn std::fmt::Display| LabError::engine("embedded", action.to_string(), error);
        match action {
            Action::Cql(statement) => {
                self.define(statement)?;
            }
            Action::Flush => self.database()?.engine().flush(None).map_err(|error| refused(&error))?,
            Action::Compact => {
                let engine = self.database()?.engine();
                engine.flush(None).map_err(|error| refused(&error))?;
                for (id, _) in engine.tables().iter().filter(|(_, table)| !is_system(&table.keyspace)) {
                    engine.compact(*id).map_err(|error| refused(&error))?;
                }
            }
            Action::DropCaches | Action::Restart => {
                // Drops the engine's caches too.
                self.prepared = None;
                if let Some(database) = self.database.take() {
                    database.close().map_err(|error| refused(&error))?;
                }
                if *action == Action::DropCaches {
                    super::drop_page_cache()?;
                }
                self.database = Some(open(&self.settings)?);
            }
        }
        // The statements were prepared against the old schema.
        match self.shape.clone() {
            Some(shape) => self.use_table(&shape),
            None => Ok(()),
        }
    }

    fn sampler(&self) -> Option<Sampler<'_>> {
        let database = self.database.as_ref()?;
        Some(Box::new(move || counters(database)))
    }

    fn session(&self) -> Result<Box<dyn Session + '_>, LabError> {
        let prepared = self.prepared.as_ref().ok_or_else(|| LabError::Usage("no table was chosen".into()))?;
        Ok(Box::new(EmbeddedSession {
            database: self.database()?,
            prepared,
            options: StatementOptions::default(),
        }))
    }
}

fn is_system(keyspace: &str) -> bool {
    keyspace == "system" || keyspace.starts_with("system_")
}

/// Returns the engine's metrics summed over user tables, under names that other engines share.
fn counters(database: &Database) -> Counters {
    let engine = database.engine();
    let stats = engine.stats();
    let mut counters = Counters::new();
    let mut add = |name: &str, value: f64| *counters.entry(name.to_owned()).or_insert(0.0) += value;
    for (name, cache, _) in stats.caches() {
        let name = name.trim_end_matches('s');
        add(&format!("{name}_cache_hits_total"), cache.hits as f64);
        add(&format!("{name}_cache_misses_total"), cache.misses as f64);
        add(&format!("{name}_cache_bytes"), cache.bytes as f64);
        add(&format!("{name}_cache_requests_total"), cache.requests() as f64);
        add(&format!("{name}_cache_entries"), cache.entries as f64);
    }
    add("memtable_bytes", stats.memtable_bytes as f64);
    for (id, _) in engine.tables().iter().filter(|(_, table)| !is_system(&table.keyspace)) {
        let Ok(table) = engine.table_stats(*id) else { continue };
        add("sstables", table.sstables as f64);
        add("disk_bytes", table.live_disk_bytes as f64);
        add("flushes_total", table.flushes as f64);
        add("flushed_bytes_total", table.bytes_flushed as f64);
        add("compactions_pending", table.pending_compactions as f64);
        add("compactions_total", table.compactions as f64);
        add("compacted_bytes_total", table.bytes_compacted as f64);
        // Level 0 holds SSTables that have no level yet.
        add("sstables_unleveled", table.levels.first().map_or(0.0, |level| level.sstables as f64));
        if let Ok(metrics) = engine.table_metrics(*id) {
            let reads = metrics.sstables_per_read.snapshot(stats.now);
            add("sstables_read_total", reads.sum as f64);
            add("table_reads_total", reads.count() as f64);
            let filter = metrics.filter_answers();
            add("bloom_filter_false_positives_total", filter.false_positives as f64);
            add("bloom_filter_true_positives_total", filter.true_positives as f64);
            add("bloom_filter_true_negatives_total", filter.true_negatives as f64);
        }
    }
    counters
}

struct EmbeddedSession<'a> {
    database: &'a Database,
    prepared: &'a Known,
    options: StatementOptions,
}

impl EmbeddedSession<'_> {
    fn execute(
        &self,
        statement: &Prepared,
        values: &[BoundValue<'_>],
        sink: Forward<'_>,
    ) -> Result<(), Failure> {
        self.execute_with(statement, values, &self.options, sink)
    }

    fn execute_with(
        &self,
        statement: &Prepared,
        values: &[BoundValue<'_>],
        options: &StatementOptions,
        mut sink: Forward<'_>,
    ) -> Result<(), Failure> {
        let values = Values::positional(values);
        match self.database.execute(None, statement, values, options, &mut sink) {
            Ok(_) => Ok(()),
            Err(error) => Err(failure(error)),
        }
    }

    fn records(&self) -> Result<&Statements<Arc<Prepared>>, Failure> {
        match self.prepared {
            Known::Records(statements) => Ok(statements),
            Known::Steps(_) => {
                Err(Failure::new("unsupported", "the table is one of a workload of statements"))
            }
        }
    }
}

impl Session for EmbeddedSession<'_> {
    fn insert(&mut self, key: &str, values: &FieldValues) -> Result<(), Failure> {
        let mut bound: SmallVec<[BoundValue<'_>; 16]> = SmallVec::new();
        bound.push(BoundValue::Set(key.as_bytes()));
        bound.extend(values.iter().map(|(_, value)| BoundValue::Set(value)));
        let statement = &self.records()?.insert;
        self.execute(statement, &bound, Forward::to(&mut RowSink::default(), None))
    }

    fn update(&mut self, key: &str, values: &FieldValues) -> Result<(), Failure> {
        let mut bound: SmallVec<[BoundValue<'_>; 16]> = SmallVec::new();
        bound.extend(values.iter().map(|(_, value)| BoundValue::Set(value)));
        bound.push(BoundValue::Set(key.as_bytes()));
        let statement = self.records()?.update.of(values.only_field());
        self.execute(statement, &bound, Forward::to(&mut RowSink::default(), None))
    }

    fn read(&mut self, key: &str, field: Option<usize>, rows: &mut RowSink) -> Result<(), Failure> {
        let bound = [BoundValue::Set(key.as_bytes())];
        self.execute(self.records()?.read.of(field), &bound, Forward::to(rows, field))
    }

    fn scan(
        &mut self,
        key: &str,
        length: usize,
        field: Option<usize>,
        rows: &mut RowSink,
    ) -> Result<(), Failure> {
        // LIMIT is an int.
        let length = (length as u32).to_be_bytes();
        let bound = [BoundValue::Set(key.as_bytes()), BoundValue::Set(&length)];
        self.execute(self.records()?.scan.of(field), &bound, Forward::to(rows, field))
    }

    fn statement(&mut self, step: usize, values: &FieldValues, rows: &mut RowSink) -> Result<(), Failure> {
        let Known::Steps(steps) = self.prepared else {
            return Err(Failure::new("unsupported", "the table is one of records"));
        };
        let Some((statement, options)) = steps.get(step) else {
            return Err(Failure::new("unsupported", format_args!("unknown step {step}")));
        };
        let bound: SmallVec<[BoundValue<'_>; 32]> =
            values.iter().map(|(_, value)| BoundValue::Set(value)).collect();
        self.execute_with(statement, &bound, options, Forward::to(rows, None))
    }
}

/// Classifies failures by the variant of the error.
fn failure(error: DatabaseError) -> Failure {
    let shown = format!("{error:?}");
    let class = shown.split([' ', '(', '{']).next().unwrap_or_default().to_string();
    Failure::new(class, error)
}

/// Passes on the rows of the database: the first column is the key, the others are the requested
/// fields.
struct Forward<'a> {
    rows: &'a mut RowSink,
    only: Option<usize>,
    column: usize,
    scratch: Vec<u8>,
}

impl<'a> Forward<'a> {
    fn to(rows: &'a mut RowSink, only: Option<usize>) -> Self {
        Self { rows, only, column: 0, scratch: Vec::new() }
    }
}

impl cassette_database::RowSink for Forward<'_> {
    fn begin(&mut self, _metadata: &Arc<ResultMetadata>) {}

    fn value(&mut self, value: Option<&[u8]>) {
        match (self.column.checked_sub(1), value) {
            (None, key) => self.rows.row(key.unwrap_or_default()),
            (Some(index), Some(value)) => self.rows.field(self.only.unwrap_or(index), value),
            // A null is a missing field.
            (Some(_), None) => {}
        }
        self.column += 1;
    }

    fn value_with(&mut self, write: &mut dyn FnMut(&mut Vec<u8>)) {
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        write(&mut scratch);
        self.value(Some(&scratch));
        self.scratch = scratch;
    }

    fn end_row(&mut self) -> cassette_database::Result<()> {
        self.column = 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(data: &std::path::Path) -> Embedded {
        let shape = TableShape {
            table: "usertable".into(),
            field_names: vec!["field0".into(), "field1".into()],
            statements: None,
        };
        let settings = EmbeddedSettings {
            data: data.to_path_buf(),
            memtable_bytes: Some(64 << 20),
            ..EmbeddedSettings::default()
        };
        let mut embedded = Embedded::open(settings).unwrap();
        embedded.create_table(&shape, false).unwrap();
        embedded.use_table(&shape).unwrap();
        embedded
    }

    #[test]
    fn options_are_set_by_name_and_reported() {
        let directory = tempfile::tempdir().unwrap();
        let given = [
            ("file_cache_size", "32MiB"),
            ("row_cache_size", "8MiB"),
            ("commitlog_sync", "group"),
            ("commitlog_sync_group_window", "5ms"),
            ("flush_compression", "none"),
        ];
        let options = given.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let settings =
            EmbeddedSettings { data: directory.path().into(), options, ..EmbeddedSettings::default() };
        let embedded = Embedded::open(settings).unwrap();
        for (name, value) in given {
            assert_eq!(embedded.describe().settings[name], value);
        }
        for (name, value) in [
            ("nosuch", "1"),
            ("disk_access_mode", "mmaped"),
            ("file_cache_size", "1 parsec"),
            ("concurrent_compactors", "x"),
            ("commitlog_sync", "sometimes"),
            ("commitlog_sync_period", "10 years"),
            ("flush_compression", "zip"),
        ] {
            let wrong = BTreeMap::from([(name.to_owned(), value.to_owned())]);
            assert!(Embedded::check_options(&wrong).unwrap_err().contains(name));
        }
        assert_eq!(
            ["1", "2KiB", "3 MiB", "1GiB/s", "x"].map(parse_bytes),
            [Some(1), Some(2048), Some(3 << 20), Some(1 << 30), None]
        );
    }

    #[test]
    fn records_survive_flush_compaction_and_restart() {
        let directory = tempfile::tempdir().unwrap();
        let mut embedded = open(directory.path());
        let mut values = FieldValues::default();
        values.push(0, b"one");
        values.push(1, b"two");
        for (key, action) in [("k1", Action::Flush), ("k2", Action::Compact), ("k3", Action::Restart)] {
            embedded.session().unwrap().insert(key, &values).unwrap();
            embedded.act(&action).unwrap();
        }
        let alter = Action::Cql("ALTER TABLE ycsb.usertable WITH gc_grace_seconds = 5".into());
        embedded.act(&alter).unwrap();
        let mut rows = RowSink::new(None);
        embedded.session().unwrap().scan("k1", 10, None, &mut rows).unwrap();
        assert!(rows.rows() >= 1);
        let counters = embedded.sampler().unwrap()();
        assert!(counters["sstables"] >= 1.0, "{counters:?}");
    }

    #[test]
    fn embedded_keeps_records() {
        let directory = tempfile::tempdir().unwrap();
        let embedded = open(directory.path());
        let mut session = embedded.session().unwrap();
        let mut values = FieldValues::default();
        values.push(0, b"one");
        values.push(1, b"two");
        for key in ["k1", "k2", "k3"] {
            session.insert(key, &values).unwrap();
        }
        values.clear();
        values.push(1, b"longer");
        session.update("k2", &values).unwrap();
        let mut rows = RowSink::new(None);
        session.read("k2", None, &mut rows).unwrap();
        assert_eq!((rows.rows(), rows.bytes()), (1, 2 + 3 + 6));
        rows.clear();
        session.read("k2", Some(1), &mut rows).unwrap();
        assert_eq!((rows.rows(), rows.bytes()), (1, 2 + 6));
        rows.clear();
        session.read("absent", None, &mut rows).unwrap();
        assert_eq!(rows.rows(), 0);
        session.scan("k1", 1, None, &mut rows).unwrap();
        assert_eq!(rows.rows(), 1);
    }
}
