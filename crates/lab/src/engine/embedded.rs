//! Cassette itself, embedded: prepared CQL statements in this process, no socket in between.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use cassette_database::{
    BoundValue, Database, DatabaseError, Options, Prepared, ResultMetadata, StatementOptions, Values,
};
use smallvec::SmallVec;

use super::statements::{self, Statements};
use super::{Engine, EngineInfo, Failure, RowSink, Session, TableShape};
use crate::LabError;
use crate::ycsb::FieldValues;

const KEYSPACE: &str = "ycsb";

/// How the embedded database is opened.
#[derive(Debug, Clone)]
pub struct EmbeddedSettings {
    /// Its directory.
    pub data: PathBuf,
    /// `memtable_heap_space` in bytes; `None` for the default.
    pub memtable_bytes: Option<u64>,
    /// `file_cache_size` in bytes; `None` for the default.
    pub cache_bytes: Option<u64>,
    /// What the table is made WITH; empty for the defaults.
    pub table_options: String,
}

/// An embedded database under test.
#[derive(Debug)]
pub struct Embedded {
    database: Database,
    info: EngineInfo,
    table_options: String,
    statements: Option<Statements<Arc<Prepared>>>,
}

impl Embedded {
    /// Opens the database, making it if there is none.
    pub fn open(settings: EmbeddedSettings) -> Result<Self, LabError> {
        let mut options = Options::new(&settings.data);
        if let Some(bytes) = settings.memtable_bytes {
            options.engine.memtable_heap_space = usize::try_from(bytes).unwrap_or(usize::MAX);
        }
        options.engine.file_cache_size = settings.cache_bytes.unwrap_or(options.engine.file_cache_size);
        let mut told = tell(&options);
        if !settings.table_options.is_empty() {
            told.insert("table options".into(), settings.table_options.clone());
        }
        let database = Database::open(options)
            .map_err(|error| refused(&format!("open {}", settings.data.display()), error))?;
        let info =
            EngineInfo { name: "embedded".into(), version: env!("CARGO_PKG_VERSION").into(), settings: told };
        Ok(Self { database, info, table_options: settings.table_options, statements: None })
    }

    fn define(&self, cql: &str) -> Result<(), LabError> {
        let options = StatementOptions::default();
        let mut rows = RowSink::default();
        self.database
            .query(None, cql, Values::NONE, &options, &mut Forward::to(&mut rows, None))
            .map(|_| ())
            .map_err(|error| refused(cql, error))
    }
}

/// The settings that decide what operations cost, by cassandra.yaml's names.
fn tell(options: &Options) -> BTreeMap<String, String> {
    let engine = &options.engine;
    let told = [
        ("commitlog_sync", format!("{:?}", engine.commitlog_sync)),
        ("memtable_heap_space", engine.memtable_heap_space.to_string()),
        ("memtable_flush_writers", engine.memtable_flush_writers.to_string()),
        ("file_cache_size", engine.file_cache_size.to_string()),
        ("flush_compression", format!("{:?}", engine.flush_compression)),
        ("concurrent_compactors", engine.concurrent_compactors.to_string()),
        ("compaction_throughput", engine.compaction_throughput.to_string()),
    ];
    told.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
}

fn refused(attempt: &str, error: DatabaseError) -> LabError {
    LabError::engine("embedded", attempt, error)
}

impl Engine for Embedded {
    fn describe(&self) -> EngineInfo {
        self.info.clone()
    }

    fn create_table(&mut self, shape: &TableShape, replace: bool) -> Result<(), LabError> {
        self.define(&statements::create_keyspace(KEYSPACE, 1))?;
        if replace {
            self.define(&statements::drop_table(KEYSPACE, shape))?;
        }
        self.define(&statements::create_table(KEYSPACE, shape, &self.table_options))
    }

    fn use_table(&mut self, shape: &TableShape) -> Result<(), LabError> {
        let prepare = |cql: &str| self.database.prepare(None, cql).map_err(|error| refused(cql, error));
        self.statements = Some(Statements::prepare(KEYSPACE, shape, prepare)?);
        Ok(())
    }

    fn session(&self) -> Result<Box<dyn Session + '_>, LabError> {
        let statements =
            self.statements.as_ref().ok_or_else(|| LabError::Usage("no table was chosen".into()))?;
        Ok(Box::new(EmbeddedSession {
            database: &self.database,
            statements,
            options: StatementOptions::default(),
        }))
    }
}

struct EmbeddedSession<'a> {
    database: &'a Database,
    statements: &'a Statements<Arc<Prepared>>,
    options: StatementOptions,
}

impl EmbeddedSession<'_> {
    fn execute(
        &self,
        statement: &Prepared,
        values: &[BoundValue<'_>],
        mut sink: Forward<'_>,
    ) -> Result<(), Failure> {
        let values = Values::positional(values);
        match self.database.execute(None, statement, values, &self.options, &mut sink) {
            Ok(_) => Ok(()),
            Err(error) => Err(failure(error)),
        }
    }
}

impl Session for EmbeddedSession<'_> {
    fn insert(&mut self, key: &str, values: &FieldValues) -> Result<(), Failure> {
        let mut bound: SmallVec<[BoundValue<'_>; 16]> = SmallVec::new();
        bound.push(BoundValue::Set(key.as_bytes()));
        bound.extend(values.iter().map(|(_, value)| BoundValue::Set(value)));
        let statement = &self.statements.insert;
        self.execute(statement, &bound, Forward::to(&mut RowSink::default(), None))
    }

    fn update(&mut self, key: &str, values: &FieldValues) -> Result<(), Failure> {
        let mut bound: SmallVec<[BoundValue<'_>; 16]> = SmallVec::new();
        bound.extend(values.iter().map(|(_, value)| BoundValue::Set(value)));
        bound.push(BoundValue::Set(key.as_bytes()));
        let statement = self.statements.update.of(values.only_field());
        self.execute(statement, &bound, Forward::to(&mut RowSink::default(), None))
    }

    fn read(&mut self, key: &str, field: Option<usize>, rows: &mut RowSink) -> Result<(), Failure> {
        let bound = [BoundValue::Set(key.as_bytes())];
        self.execute(self.statements.read.of(field), &bound, Forward::to(rows, field))
    }

    fn scan(
        &mut self,
        key: &str,
        length: usize,
        field: Option<usize>,
        rows: &mut RowSink,
    ) -> Result<(), Failure> {
        // LIMIT takes an int.
        let length = (length as u32).to_be_bytes();
        let bound = [BoundValue::Set(key.as_bytes()), BoundValue::Set(&length)];
        self.execute(self.statements.scan.of(field), &bound, Forward::to(rows, field))
    }
}

/// Counts failures by the error's variant.
fn failure(error: DatabaseError) -> Failure {
    let shown = format!("{error:?}");
    let class = shown.split([' ', '(', '{']).next().unwrap_or_default().to_string();
    Failure::new(class, error)
}

/// Hands the database's rows on: the first column is the key, the others are the fields asked for.
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
            // A null is a field that is not there.
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

    fn end_row(&mut self) {
        self.column = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(data: &std::path::Path) -> Embedded {
        let shape =
            TableShape { table: "usertable".into(), field_names: vec!["field0".into(), "field1".into()] };
        let settings = EmbeddedSettings {
            data: data.to_path_buf(),
            memtable_bytes: Some(64 << 20),
            cache_bytes: None,
            table_options: String::new(),
        };
        let mut embedded = Embedded::open(settings).unwrap();
        embedded.create_table(&shape, false).unwrap();
        embedded.use_table(&shape).unwrap();
        embedded
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
