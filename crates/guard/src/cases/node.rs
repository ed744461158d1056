//! A database without background threads, and statements executed as a server does.

use std::cell::RefCell;
use std::sync::Arc;

use bytes::Bytes;
use cassette_database::{
    BatchKind, BatchSource, BatchStatement, BoundValue, Caller, Consistency, Database, Options, Outcome,
    Prepared, ResultMetadata, RowSink, StatementId, StatementOptions, Values,
};
use cassette_rows::TableMetadata;
use cassette_vfs::ManualClock;
use tempfile::TempDir;

use super::data::{FIELDS, Record, records};

/// The time of the clock, which stands still: microseconds since 1970.
const NOW: i64 = 1_700_000_000_000_000;
/// Rows of a page, as drivers request it.
const PAGE_SIZE: i32 = 5000;

/// A database in a temporary directory, with the keyspace `ks`.
pub struct Node {
    database: Database,
    page: RefCell<Page>,
    directory: TempDir,
}

/// A prepared statement, by the id that a client sends.
pub struct Statement {
    id: StatementId,
    prepared: Arc<Prepared>,
    options: StatementOptions,
}

impl Statement {
    /// Sets the number of rows of a page.
    pub fn page_size(mut self, rows: i32) -> Self {
        self.options.page_size = Some(rows);
        self
    }
}

/// Returns options whose sizes do not depend on the machine. Flushes and compactions run on
/// command.
pub fn options(directory: &TempDir) -> Options {
    let mut options = Options::new(directory.path());
    options.clock = Arc::new(ManualClock::at_micros(NOW));
    options.engine.background_threads = false;
    options.engine.compaction_throughput = 0;
    options.engine.memtable_heap_space = 128 << 20;
    options.engine.file_cache_size = 64 << 20;
    options
}

impl Node {
    /// Opens an empty database.
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    /// Opens an empty database with other options.
    pub fn with(change: impl FnOnce(&mut Options)) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let mut options = options(&directory);
        change(&mut options);
        let database = Database::open(options).expect("a database");
        let node = Self { database, page: RefCell::default(), directory };
        node.run(
            "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        );
        node
    }

    /// Creates the table `usertable` of YCSB.
    pub fn create_usertable(&self, with: &str) {
        let fields: String = (0..FIELDS).map(|field| format!(", field{field} text")).collect();
        self.run(&format!("CREATE TABLE ks.usertable (y_id text PRIMARY KEY{fields}) {with}"));
    }

    /// Returns the statement that inserts a [`Record`].
    pub fn insert_record(&self) -> Statement {
        let names: String = (0..FIELDS).map(|field| format!(", field{field}")).collect();
        let markers = ", ?".repeat(FIELDS);
        self.prepare(&format!("INSERT INTO ks.usertable (y_id{names}) VALUES (?{markers})"))
    }

    /// Inserts the first `count` records.
    pub fn load(&self, count: u64) -> Vec<Record> {
        let insert = self.insert_record();
        let records = records(0, count);
        for record in &records {
            self.execute(&insert, &record.values());
        }
        records
    }

    /// Executes a text without values.
    pub fn run(&self, cql: &str) {
        let mut page = Page::default();
        let options = StatementOptions::default();
        let executed = self.database.query(None, cql, Values::NONE, &options, &mut page);
        executed.unwrap_or_else(|error| panic!("{cql}: {error}"));
    }

    /// Prepares a statement.
    pub fn prepare(&self, cql: &str) -> Statement {
        let prepared = self.database.prepare(None, cql).unwrap_or_else(|error| panic!("{cql}: {error}"));
        let options = StatementOptions {
            consistency: Consistency::LocalOne,
            page_size: Some(PAGE_SIZE),
            caller: Caller::Anonymous,
            ..StatementOptions::default()
        };
        Statement { id: prepared.id(), prepared, options }
    }

    /// Executes a statement, and returns the number of rows of its first page.
    pub fn execute(&self, statement: &Statement, values: &[BoundValue<'_>]) -> u64 {
        let (rows, _) = self.execute_with(statement, values, &statement.options);
        rows
    }

    /// Executes a statement page by page, and returns the number of its rows.
    pub fn execute_all(&self, statement: &Statement, values: &[BoundValue<'_>]) -> u64 {
        let (mut rows, mut options) = (0, statement.options.clone());
        loop {
            let (of_page, paging_state) = self.execute_with(statement, values, &options);
            rows += of_page;
            if paging_state.is_none() {
                return rows;
            }
            options.paging_state = paging_state;
        }
    }

    fn execute_with(
        &self,
        statement: &Statement,
        values: &[BoundValue<'_>],
        options: &StatementOptions,
    ) -> (u64, Option<Bytes>) {
        let mut page = self.page.borrow_mut();
        page.clear();
        let resolved = self.database.resolve(&statement.id).expect("a prepared statement");
        let values = Values::positional(values);
        let executed = self.database.execute_resolved(None, &resolved, values, options, &mut *page);
        match executed.expect("a result").outcome {
            Outcome::Rows { paging_state } => (page.rows, paging_state),
            _ => (0, None),
        }
    }

    /// Executes a logged batch of one statement with several sets of values.
    pub fn batch<'a>(&self, statement: &Statement, values: impl Iterator<Item = &'a [BoundValue<'a>]>) {
        let source = BatchSource::Prepared(&statement.prepared);
        let statements: Vec<_> = values.map(|values| BatchStatement { source, values }).collect();
        let mut page = self.page.borrow_mut();
        let executed =
            self.database.batch(None, BatchKind::Logged, &statements, &statement.options, &mut *page);
        executed.expect("a result");
    }

    /// Flushes a table of the keyspace.
    pub fn flush(&self, table: &str) {
        self.database.engine().flush(Some(self.table(table).id)).expect("a flush");
    }

    /// Compacts all SSTables of a table into one.
    pub fn compact(&self, table: &str) {
        self.database.engine().compact(self.table(table).id).expect("a compaction");
    }

    /// Returns the number of SSTables of a table.
    pub fn sstables(&self, table: &str) -> usize {
        self.database.engine().sstables(self.table(table).id).expect("the SSTables").len()
    }

    /// Returns a table of the keyspace.
    pub fn table(&self, name: &str) -> Arc<TableMetadata> {
        self.database.catalog().table("ks", name).expect("a table").clone()
    }

    /// Returns the database.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// Closes the database as a crash of the process would, and returns its directory.
    pub fn into_directory(self) -> TempDir {
        self.directory
    }
}

/// Receives rows in the form of a response.
#[derive(Default)]
struct Page {
    bytes: Vec<u8>,
    rows: u64,
}

impl Page {
    fn clear(&mut self) {
        self.bytes.clear();
        self.rows = 0;
    }
}

impl RowSink for Page {
    fn begin(&mut self, _: &Arc<ResultMetadata>) {}

    fn value(&mut self, value: Option<&[u8]>) {
        match value {
            Some(value) => {
                self.bytes.extend_from_slice(&(value.len() as u32).to_be_bytes());
                self.bytes.extend_from_slice(value);
            }
            None => self.bytes.extend_from_slice(&(-1i32).to_be_bytes()),
        }
    }

    fn value_with(&mut self, write: &mut dyn FnMut(&mut Vec<u8>)) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        write(&mut self.bytes);
        let length = (self.bytes.len() - start - 4) as u32;
        self.bytes[start..start + 4].copy_from_slice(&length.to_be_bytes());
    }

    fn end_row(&mut self) -> cassette_database::Result<()> {
        self.rows += 1;
        Ok(())
    }
}
