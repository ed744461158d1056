//! The store over anything that executes CQL: what the embedded database and a cluster have in common.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use bytes::{BufMut, Bytes, BytesMut};
use cassette_database::Promise;
use cassette_rows::DecoratedKey;

use super::cell_loader::{CellLoader, Request};
use super::layout::{self, TableKind, Texts, column2};
use super::{
    Cell, CheckOutcome, ColumnRange, Put, PutOutcome, PutRow, Store, StoreError, StoreId, StoreResult,
    Version, check_put_row, check_puts,
};
use crate::timestamp::Timestamp;

/// Columns that one statement asks for at most.
const COLUMNS_IN_MAX: usize = 3_000;
/// Inserts of one conditional batch at most: as many as Cassandra is known to take.
const CONDITIONAL_BATCH_MAX: usize = 1_000;

/// Values of markers, each encoded as its type is on the wire.
pub type Values = Vec<Bytes>;

/// One row of a result: `None` is null.
pub type Row = Vec<Option<Bytes>>;

/// What was to be done, for an error to say: it becomes a text only where there is one.
pub type Attempted<'a> = fmt::Arguments<'a>;

/// The names of a result's columns, and its rows.
pub type NamedRows = (Vec<String>, Vec<Row>);

/// What is known of a statement's effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatementKind {
    /// Reads.
    Read,
    /// Reads what conditional writes wrote.
    SerialRead,
    /// Writes with a write time of its own, so that it may be done twice.
    Write,
    /// Removes with a write time of its own.
    Delete,
    /// Writes on a condition.
    Conditional,
}

/// Executes prepared CQL. Any thread may use it; calls block.
pub trait Cql: Send + Sync {
    /// A prepared statement.
    type Statement: Clone + Send + Sync;

    /// The keyspace of all tables.
    fn keyspace(&self) -> &str;

    /// Changes the schema.
    fn define(&self, cql: &str) -> StoreResult<()>;

    /// Prepares a statement.
    fn prepare(&self, cql: &str, kind: StatementKind) -> StoreResult<Self::Statement>;

    /// Executes reads, together where possible; for each its rows, to the last.
    fn read(
        &self,
        attempted: Attempted<'_>,
        requests: Vec<(Self::Statement, Values)>,
    ) -> StoreResult<Vec<Vec<Row>>>;

    /// Executes writes: those with one key and table are equal in their first component. After an error each may be done or not.
    fn write(
        &self,
        attempted: Attempted<'_>,
        requests: Vec<(WriteGroup, Self::Statement, Values)>,
    ) -> StoreResult<()>;

    /// Executes conditional statements on one partition: all of them if all conditions hold, else none. One result for each
    /// group: the names of its columns and its rows.
    fn conditional(
        &self,
        attempted: Attempted<'_>,
        groups: Vec<Vec<(Self::Statement, Values)>>,
    ) -> Vec<StoreResult<NamedRows>>;

    /// Does what the statement `get` of [`Texts`] does for a table that was checked, where there is a shorter way; `None` leaves it to that.
    fn get_directly(
        &self,
        attempted: Attempted<'_>,
        table: &str,
        cell: &Cell,
        below: Timestamp,
    ) -> Option<StoreResult<Option<Version>>> {
        let _ = (attempted, table, cell, below);
        None
    }

    /// The same for `put`, of tables that were checked. It must be as safe as `promise` says.
    fn put_directly(
        &self,
        attempted: Attempted<'_>,
        puts: &[Put<'_>],
        promise: Promise,
    ) -> Option<StoreResult<()>> {
        let _ = (attempted, puts, promise);
        None
    }

    /// The same for `put_unless_exists` of one column.
    fn put_unless_exists_directly(
        &self,
        attempted: Attempted<'_>,
        table: &str,
        row: &Bytes,
        column: &(Bytes, Bytes),
    ) -> Option<StoreResult<PutOutcome>> {
        let _ = (attempted, table, row, column);
        None
    }

    /// Where the database is in memory, if only this process has it; it stays there as long as this is.
    fn database(&self) -> Option<usize> {
        None
    }

    /// Bytes of values that one write may have; `None` without a limit.
    fn write_max(&self) -> Option<usize> {
        None
    }

    /// Whether of the writes of one call anything is there only if all before it is.
    fn writes_in_order(&self) -> bool;

    /// As of [`Store`].
    fn is_linearizable_after_failures(&self) -> bool;
}

/// What writes must have in common to go in one batch without being spread: a number for table and key.
pub type WriteGroup = usize;

/// Cells with versions in tables of CQL.
pub struct CqlStore<C: Cql> {
    cql: C,
    loader: CellLoader,
    /// Every call looks a table up: without a count that all threads share.
    tables: ArcSwap<HashMap<Box<str>, Shared<C>>>,
}

type Shared<C> = Arc<Statements<<C as Cql>::Statement>>;

/// The prepared statements of a table.
struct Statements<P> {
    get: P,
    get_many: P,
    get_rows: P,
    get_serial: P,
    columns: P,
    columns_until: P,
    rows: P,
    rows_from: P,
    put: P,
    put_unless_exists: P,
    check_and_set: P,
    delete: P,
    delete_older: P,
    delete_row: P,
}

/// Statements that are executed together, and which of the cells each answers.
struct Requests<P> {
    executed: Vec<(P, Values)>,
    answers: Vec<Answers>,
}

/// The places of cells that a statement finds.
enum Answers {
    /// All of one row, which the answer does not name.
    OneRow(Vec<usize>),
    /// Of rows that the answer names.
    Rows(Vec<usize>),
}

impl<P> Requests<P> {
    fn push(&mut self, request: (P, Values), answers: Answers) {
        self.executed.push(request);
        self.answers.push(answers);
    }
}

fn bigint(value: i64) -> Bytes {
    Bytes::copy_from_slice(&value.to_be_bytes())
}

fn int(value: usize) -> Bytes {
    Bytes::copy_from_slice(&i32::try_from(value).unwrap_or(i32::MAX).to_be_bytes())
}

/// `[count] ([length] [bytes])*`, all lengths 4 bytes.
fn list<T: AsRef<[u8]>>(items: &[T]) -> Bytes {
    let mut out =
        BytesMut::with_capacity(4 + items.iter().map(|item| item.as_ref().len() + 4).sum::<usize>());
    out.put_slice(&int(items.len()));
    for item in items {
        let item = item.as_ref();
        out.put_slice(&int(item.len()));
        out.put_slice(item);
    }
    out.freeze()
}

impl<C: Cql> CqlStore<C> {
    /// Over what executes CQL; its keyspace must be there.
    pub fn new(cql: C) -> Self {
        Self { cql, loader: CellLoader::default(), tables: ArcSwap::default() }
    }

    /// The same, loading many cells as `loader` says.
    pub fn with_loader(self, loader: CellLoader) -> Self {
        Self { loader, ..self }
    }

    /// What executes.
    pub fn cql(&self) -> &C {
        &self.cql
    }

    /// Whether the table was made or opened here, and so has the columns that it should.
    fn is_checked(&self, table: &str) -> bool {
        self.tables.load().contains_key(table)
    }

    fn statements(&self, table: &str) -> StoreResult<Shared<C>> {
        if let Some(statements) = self.tables.load().get(table) {
            return Ok(statements.clone());
        }
        Err(StoreError::refused(format!("table {table}"), "it was not created through this store"))
    }

    /// Adds the statements that find of some cells the newest version below a timestamp, as the loader chooses them.
    fn load(
        &self,
        statements: &Statements<C::Statement>,
        cells: &[(&Cell, Timestamp)],
        places: &[usize],
        below: Timestamp,
        requests: &mut Requests<C::Statement>,
    ) {
        let below = bigint(column2(below));
        let cell = |place: &usize| cells[*place].0;
        if let [place] = places {
            let values = vec![cell(place).row.clone(), cell(place).column.clone(), below];
            requests.push((statements.get.clone(), values), Answers::OneRow(vec![*place]));
            return;
        }
        let names: Vec<_> =
            places.iter().map(|place| (&cell(place).row[..], &cell(place).column[..])).collect();
        for Request { rows, columns, cells: of_names } in self.loader.requests(&names) {
            let places: Vec<usize> = of_names.iter().map(|name| places[*name]).collect();
            let Some(first) = places.first().map(cell) else { continue };
            let (row, below) = (first.row.clone(), below.clone());
            let request = match (rows.len(), columns.len()) {
                (1, 1) => (statements.get.clone(), vec![row, first.column.clone(), below]),
                (1, _) => (statements.get_many.clone(), vec![row, list(&columns), below]),
                _ => (statements.get_rows.clone(), vec![list(&rows), list(&columns), below]),
            };
            let answers = if rows.len() == 1 { Answers::OneRow(places) } else { Answers::Rows(places) };
            requests.push(request, answers);
        }
    }

    /// Refuses a table that was there already with other columns.
    fn check_columns(&self, table: &str) -> StoreResult<()> {
        let attempted = format_args!("table {table}");
        let statement = self.cql.prepare(layout::COLUMNS_OF_TABLE, StatementKind::Read)?;
        let names = [self.cql.keyspace(), table].map(|name| Bytes::copy_from_slice(name.as_bytes()));
        let rows = self.cql.read(attempted, vec![(statement, names.to_vec())])?;
        let text = |value: Option<Bytes>| String::from_utf8_lossy(&value.unwrap_or_default()).into_owned();
        let rows = rows.into_iter().flatten();
        let mut columns: Vec<String> =
            rows.map(|row| row.into_iter().map(text).collect::<Vec<_>>().join(" ")).collect();
        columns.sort_unstable();
        // None: a node that has not heard of the table yet.
        if columns.is_empty() || columns == layout::COLUMNS {
            Ok(())
        } else {
            Err(StoreError::refused(
                attempted,
                format!(
                    "it is there, and is none of cells with versions: it has the columns [{}], where [{}] are needed. \
                 Use another keyspace or name",
                    columns.join(", "),
                    layout::COLUMNS.join(", ")
                ),
            ))
        }
    }

    /// Prepares the statements of a table that is there.
    fn use_table(&self, table: &str) -> StoreResult<()> {
        self.check_columns(table)?;
        let statements = Arc::new(self.prepare(table)?);
        self.tables.rcu(|tables| {
            let mut tables = HashMap::clone(tables);
            tables.insert(table.into(), statements.clone());
            tables
        });
        Ok(())
    }

    fn put_promised(&self, puts: &[Put<'_>], promise: Promise) -> StoreResult<()> {
        check_puts(puts)?;
        let attempted = format_args!("put {} versions", puts.len());
        let mut tables = puts.chunk_by(|a, b| a.table == b.table).filter_map(|of_one| of_one.first());
        if tables.all(|put| self.is_checked(put.table))
            && let Some(done) = self.cql.put_directly(attempted, puts, promise)
        {
            return done;
        }
        let mut groups: HashMap<(&str, &Bytes), WriteGroup> = HashMap::new();
        let mut requests = Vec::with_capacity(puts.len());
        let mut statements: Option<(&str, Arc<Statements<_>>)> = None;
        for put in puts {
            let of_table = match &statements {
                Some((table, statements)) if *table == put.table => statements,
                _ => &statements.insert((put.table, self.statements(put.table)?)).1,
            };
            let next = groups.len();
            let group = *groups.entry((put.table, &put.cell.row)).or_insert(next);
            let values = vec![
                put.cell.row.clone(),
                put.cell.column.clone(),
                bigint(column2(put.timestamp)),
                put.value.clone(),
                bigint(put.write_time),
            ];
            requests.push((group, of_table.put.clone(), values));
        }
        self.cql.write(attempted, requests)
    }

    fn prepare(&self, table: &str) -> StoreResult<Statements<C::Statement>> {
        let texts = Texts::new(self.cql.keyspace(), table);
        let read = |text: &str| self.cql.prepare(text, StatementKind::Read);
        Ok(Statements {
            get: read(&texts.get)?,
            get_many: read(&texts.get_many)?,
            get_rows: read(&texts.get_rows)?,
            get_serial: self.cql.prepare(&texts.get_many, StatementKind::SerialRead)?,
            columns: read(&texts.columns)?,
            columns_until: read(&texts.columns_until)?,
            rows: read(&texts.rows)?,
            rows_from: read(&texts.rows_from)?,
            put: self.cql.prepare(&texts.put, StatementKind::Write)?,
            put_unless_exists: self.cql.prepare(&texts.put_unless_exists, StatementKind::Conditional)?,
            check_and_set: self.cql.prepare(&texts.check_and_set, StatementKind::Conditional)?,
            delete: self.cql.prepare(&texts.delete, StatementKind::Delete)?,
            delete_older: self.cql.prepare(&texts.delete_older, StatementKind::Delete)?,
            delete_row: self.cql.prepare(&texts.delete_row, StatementKind::Delete)?,
        })
    }
}

/// Column and version of a row of `column1, column2, value`.
fn version(attempted: Attempted<'_>, row: Row) -> StoreResult<(Bytes, Version)> {
    let fail = |why: &str| StoreError::refused(attempted, why);
    let [Some(column), Some(column2), value] =
        <[Option<Bytes>; 3]>::try_from(row).map_err(|_| fail("a row of other columns than asked for"))?
    else {
        return Err(fail("a row without a clustering"));
    };
    let column2 = <[u8; 8]>::try_from(&column2[..]).map_err(|_| fail("column2 is not 8 bytes"))?;
    let timestamp = layout::timestamp(i64::from_be_bytes(column2));
    // Nobody writes null; a row whose value cell alone is gone was removed in part.
    let value = value.ok_or_else(|| fail("a version without a value"))?;
    Ok((column, Version { timestamp, value }))
}

impl<C: Cql> Store for CqlStore<C> {
    fn create_table(&self, table: &str, kind: TableKind) -> StoreResult<()> {
        layout::check_name(table)?;
        if self.tables.load().contains_key(table) {
            return Ok(());
        }
        self.cql.define(&layout::create_table(self.cql.keyspace(), table, kind))?;
        self.use_table(table)
    }

    fn open_table(&self, table: &str) -> StoreResult<bool> {
        let is_known = self.tables.load().contains_key(table);
        if !self.tables()?.iter().any(|there| there == table) {
            // It may have been there once.
            self.tables.rcu(|tables| {
                let mut tables = HashMap::clone(tables);
                tables.remove(table);
                tables
            });
            return Ok(false);
        }
        if !is_known {
            self.use_table(table)?;
        }
        Ok(true)
    }

    fn tables(&self) -> StoreResult<Vec<String>> {
        let attempted = format_args!("list the tables of keyspace {}", self.cql.keyspace());
        let statement = self.cql.prepare(layout::TABLES_OF_KEYSPACE, StatementKind::Read)?;
        let keyspace = Bytes::copy_from_slice(self.cql.keyspace().as_bytes());
        let rows = self.cql.read(attempted, vec![(statement, vec![keyspace])])?.into_iter().flatten();
        let name = |row: Row| {
            let name = row.into_iter().next().flatten();
            name.and_then(|name| String::from_utf8(name.to_vec()).ok())
                .ok_or_else(|| StoreError::refused(attempted, "a table without a name"))
        };
        rows.map(name).collect()
    }

    fn get(&self, table: &str, cells: &[(&Cell, Timestamp)]) -> StoreResult<Vec<Option<Version>>> {
        let attempted = format_args!("get {} cells of {table}", cells.len());
        if let [(cell, below)] = cells
            && self.is_checked(table)
            && let Some(found) = self.cql.get_directly(attempted, table, cell, *below)
        {
            return Ok(vec![found?]);
        }
        let statements = self.statements(table)?;
        if let [(cell, below)] = cells {
            let values = vec![cell.row.clone(), cell.column.clone(), bigint(column2(*below))];
            let rows = self.cql.read(attempted, vec![(statements.get.clone(), values)])?;
            let row = rows.into_iter().flatten().next();
            let version = row.map(|row| version(attempted, row)).transpose()?;
            return Ok(vec![version.map(|(_, version)| version)]);
        }
        let mut bounds: HashMap<Timestamp, Vec<usize>> = HashMap::new();
        for (place, (_, below)) in cells.iter().enumerate() {
            bounds.entry(*below).or_default().push(place);
        }
        let mut requests = Requests { executed: Vec::new(), answers: Vec::new() };
        let mut found = vec![None; cells.len()];
        for (below, places) in bounds {
            if let [place] = places[..]
                && let Some(version) = self.cql.get_directly(attempted, table, cells[place].0, below)
            {
                found[place] = version?;
                continue;
            }
            self.load(&statements, cells, &places, below, &mut requests);
        }
        if requests.executed.is_empty() {
            return Ok(found);
        }
        // All at once, however many bounds there are.
        let answers = self.cql.read(attempted, requests.executed)?;
        for (rows, answer) in answers.into_iter().zip(requests.answers) {
            let (places, one_row) = match answer {
                Answers::OneRow(places) => (places, true),
                Answers::Rows(places) => (places, false),
            };
            if let ([place], true) = (&places[..], one_row) {
                let row = rows.into_iter().next();
                found[*place] =
                    row.map(|row| version(attempted, row)).transpose()?.map(|(_, version)| version);
                continue;
            }
            let mut versions: HashMap<(Bytes, Bytes), Version> = HashMap::with_capacity(rows.len());
            for mut row in rows {
                let key =
                    if one_row || row.is_empty() { Bytes::new() } else { row.remove(0).unwrap_or_default() };
                let (column, version) = version(attempted, row)?;
                versions.insert((key, column), version);
            }
            for place in places {
                let cell = cells[place].0;
                let key = if one_row { Bytes::new() } else { cell.row.clone() };
                found[place] = versions.get(&(key, cell.column.clone())).cloned();
            }
        }
        Ok(found)
    }

    fn columns(
        &self,
        table: &str,
        ranges: &[ColumnRange],
        below: Timestamp,
    ) -> StoreResult<Vec<Vec<(Bytes, Version)>>> {
        let attempted = format_args!("read columns of {} rows of {table}", ranges.len());
        let statements = self.statements(table)?;
        let below = bigint(column2(below));
        let mut requests = Vec::with_capacity(ranges.len());
        for ColumnRange { row, start, end, limit } in ranges {
            let (row, start, limit) = (row.clone(), start.clone(), int(*limit));
            requests.push(match end {
                None => (statements.columns.clone(), vec![row, start, below.clone(), limit]),
                Some(end) => {
                    (statements.columns_until.clone(), vec![row, start, end.clone(), below.clone(), limit])
                }
            });
        }
        let pages = self.cql.read(attempted, requests)?.into_iter();
        pages.map(|rows| rows.into_iter().map(|row| version(attempted, row)).collect()).collect()
    }

    fn rows(&self, table: &str, after: Option<&[u8]>, limit: usize) -> StoreResult<Vec<Bytes>> {
        let attempted = format_args!("read keys of {table}");
        let statements = self.statements(table)?;
        let after = after.map(|after| DecoratedKey::new(Bytes::copy_from_slice(after)));
        // The row itself comes first again. Other rows of its token that come before it may come too, if two keys ever have one
        // token: then ask for more.
        let mut extra = usize::from(after.is_some());
        loop {
            let request = match &after {
                None => (statements.rows.clone(), vec![int(limit)]),
                Some(after) => (
                    statements.rows_from.clone(),
                    vec![after.key_bytes().clone(), int(limit.saturating_add(extra))],
                ),
            };
            let rows = self.cql.read(attempted, vec![request])?.into_iter().flatten();
            let mut keys = Vec::with_capacity(limit.min(1024));
            let mut seen = 0;
            for row in rows {
                seen += 1;
                let key = row.into_iter().next().flatten();
                let key = key.ok_or_else(|| StoreError::refused(attempted, "a row without a key"))?;
                let key = DecoratedKey::new(key);
                if after.as_ref().is_none_or(|after| &key > after) {
                    keys.push(key.key_bytes().clone());
                }
            }
            if keys.len() >= limit || seen < limit.saturating_add(extra) {
                keys.truncate(limit);
                return Ok(keys);
            }
            extra = extra.saturating_mul(2);
        }
    }

    fn put(&self, puts: &[Put<'_>]) -> StoreResult<()> {
        self.put_promised(puts, Promise::Itself)
    }

    fn put_ahead(&self, puts: &[Put<'_>]) -> StoreResult<()> {
        self.put_promised(puts, Promise::WithLater)
    }

    fn put_unless_exists(&self, table: &str, rows: &[PutRow]) -> Vec<StoreResult<PutOutcome>> {
        let attempted = format_args!("put unless exists, {} rows of {table}", rows.len());
        if let Err(error) = rows.iter().try_for_each(|row| check_put_row(table, row)) {
            return rows.iter().map(|_| Err(error.clone())).collect();
        }
        if let [PutRow { row, columns }] = rows
            && let [column] = &columns[..]
            && self.is_checked(table)
            && let Some(outcome) = self.cql.put_unless_exists_directly(attempted, table, row, column)
        {
            return vec![outcome];
        }
        let statements = match self.statements(table) {
            Ok(statements) => statements,
            Err(error) => return rows.iter().map(|_| Err(error.clone())).collect(),
        };
        let at = bigint(column2(Timestamp::ATOMIC));
        let mut groups = Vec::with_capacity(rows.len());
        for PutRow { row, columns } in rows {
            let insert = |(column, value): &(Bytes, Bytes)| {
                let values = vec![row.clone(), column.clone(), at.clone(), value.clone()];
                (statements.put_unless_exists.clone(), values)
            };
            groups.push(columns.iter().map(insert).collect::<Vec<_>>());
        }
        if groups.iter().any(|group| group.len() > CONDITIONAL_BATCH_MAX) {
            let cause = format!("more than {CONDITIONAL_BATCH_MAX} columns in a row");
            return rows.iter().map(|_| Err(StoreError::refused(attempted, &cause))).collect();
        }
        let results = self.cql.conditional(attempted, groups).into_iter();
        results.map(|result| result.and_then(|(names, rows)| put_outcome(attempted, &names, rows))).collect()
    }

    fn check_and_set(
        &self,
        table: &str,
        cell: &Cell,
        expected: &Bytes,
        new: &Bytes,
    ) -> StoreResult<CheckOutcome> {
        let attempted = format_args!("check and set a cell of {table}");
        let statement = self.statements(table)?.check_and_set.clone();
        let at = bigint(column2(Timestamp::ATOMIC));
        let values = vec![new.clone(), cell.row.clone(), cell.column.clone(), at, expected.clone()];
        let mut results = self.cql.conditional(attempted, vec![vec![(statement, values)]]);
        let (names, rows) =
            results.pop().unwrap_or_else(|| Err(StoreError::unknown(attempted, "no result came back")))?;
        if applied(attempted, &names, &rows)? {
            Ok(CheckOutcome::Applied)
        } else {
            let value = names.iter().position(|name| name == "value");
            let first = rows.into_iter().next().unwrap_or_default();
            Ok(CheckOutcome::Actual(value.and_then(|index| first.get(index).cloned().flatten())))
        }
    }

    fn get_serial(&self, table: &str, row: &Bytes, columns: &[Bytes]) -> StoreResult<Vec<Option<Bytes>>> {
        let attempted = format_args!("get {} atomic cells of {table}", columns.len());
        let statement = self.statements(table)?.get_serial.clone();
        let below = bigint(column2(Timestamp(Timestamp::ATOMIC.0 + 1)));
        let requests = columns
            .chunks(COLUMNS_IN_MAX)
            .map(|columns| (statement.clone(), vec![row.clone(), list(columns), below.clone()]))
            .collect();
        let rows = self.cql.read(attempted, requests)?.into_iter().flatten();
        let values: HashMap<Bytes, Bytes> = rows
            .map(|row| version(attempted, row).map(|(column, version)| (column, version.value)))
            .collect::<StoreResult<_>>()?;
        Ok(columns.iter().map(|column| values.get(column).cloned()).collect())
    }

    fn delete(&self, table: &str, versions: &[(&Cell, Timestamp)], write_time: i64) -> StoreResult<()> {
        let attempted = format_args!("delete {} versions of {table}", versions.len());
        let statements = self.statements(table)?;
        let mut groups: HashMap<&Bytes, WriteGroup> = HashMap::new();
        let mut requests = Vec::with_capacity(versions.len());
        for (cell, timestamp) in versions {
            let next = groups.len();
            let group = *groups.entry(&cell.row).or_insert(next);
            let at = bigint(column2(*timestamp));
            let values = vec![bigint(write_time), cell.row.clone(), cell.column.clone(), at];
            requests.push((group, statements.delete.clone(), values));
        }
        self.cql.write(attempted, requests)
    }

    fn delete_older(&self, table: &str, cells: &[(&Cell, Timestamp)], write_time: i64) -> StoreResult<()> {
        let attempted = format_args!("delete old versions of {} cells of {table}", cells.len());
        let statements = self.statements(table)?;
        let mut groups: HashMap<&Bytes, WriteGroup> = HashMap::new();
        let mut requests = Vec::with_capacity(cells.len());
        for (cell, below) in cells {
            let next = groups.len();
            let group = *groups.entry(&cell.row).or_insert(next);
            let below = bigint(column2(*below));
            let values = vec![bigint(write_time), cell.row.clone(), cell.column.clone(), below];
            requests.push((group, statements.delete_older.clone(), values));
        }
        self.cql.write(attempted, requests)
    }

    fn delete_rows(&self, table: &str, rows: &[Bytes], write_time: i64) -> StoreResult<()> {
        let attempted = format_args!("delete {} rows of {table}", rows.len());
        let statement = &self.statements(table)?.delete_row;
        let delete =
            |(group, row): (usize, &Bytes)| (group, statement.clone(), vec![bigint(write_time), row.clone()]);
        self.cql.write(attempted, rows.iter().enumerate().map(delete).collect())
    }

    fn id(&self) -> Option<StoreId> {
        let keyspace = self.cql.keyspace().into();
        self.cql.database().map(|database| StoreId { database, keyspace })
    }

    fn version_max(&self) -> Option<usize> {
        // Beside names and value a version has its column2 and its write time.
        self.cql.write_max().map(|bytes| bytes.saturating_sub(2 * size_of::<i64>()))
    }

    fn puts_in_order(&self) -> bool {
        self.cql.writes_in_order()
    }

    fn is_linearizable_after_failures(&self) -> bool {
        self.cql.is_linearizable_after_failures()
    }
}

/// Whether a conditional statement was applied.
fn applied(attempted: Attempted<'_>, names: &[String], rows: &[Row]) -> StoreResult<bool> {
    let value = names
        .iter()
        .position(|name| name == "[applied]")
        .and_then(|index| rows.first()?.get(index)?.as_ref())
        .ok_or_else(|| StoreError::unknown(attempted, "the answer does not say whether it was applied"))?;
    Ok(value[..] == [1])
}

fn put_outcome(attempted: Attempted<'_>, names: &[String], rows: Vec<Row>) -> StoreResult<PutOutcome> {
    if applied(attempted, names, &rows)? {
        return Ok(PutOutcome::Applied);
    }
    let position = |wanted: &str| names.iter().position(|name| name == wanted);
    let (Some(column), Some(value)) = (position("column1"), position("value")) else {
        return Err(StoreError::refused(attempted, "the answer does not say what is there"));
    };
    let existing = rows.into_iter().map(|mut row| {
        let mut take = |index: usize| row.get_mut(index).and_then(Option::take);
        let column = take(column);
        column.zip(take(value))
    });
    match existing.collect::<Option<Vec<_>>>() {
        Some(existing) => Ok(PutOutcome::Exists(existing)),
        None => Err(StoreError::refused(attempted, "the answer has no column or value of what is there")),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::service::{Layout, StoredConclusions, TransactionService};

    /// Counts statements that read, and finds nothing.
    #[derive(Default)]
    struct Counting(AtomicUsize);

    impl Cql for Counting {
        type Statement = ();

        fn keyspace(&self) -> &str {
            "ks"
        }

        fn define(&self, _: &str) -> StoreResult<()> {
            Ok(())
        }

        fn prepare(&self, _: &str, _: StatementKind) -> StoreResult<()> {
            Ok(())
        }

        fn read(&self, _: Attempted<'_>, requests: Vec<((), Values)>) -> StoreResult<Vec<Vec<Row>>> {
            self.0.fetch_add(requests.len(), Ordering::Relaxed);
            Ok(vec![Vec::new(); requests.len()])
        }

        fn write(&self, _: Attempted<'_>, _: Vec<(WriteGroup, (), Values)>) -> StoreResult<()> {
            Ok(())
        }

        fn conditional(
            &self,
            _: Attempted<'_>,
            groups: Vec<Vec<((), Values)>>,
        ) -> Vec<StoreResult<NamedRows>> {
            groups.iter().map(|_| Ok((Vec::new(), Vec::new()))).collect()
        }

        fn writes_in_order(&self) -> bool {
            true
        }

        fn is_linearizable_after_failures(&self) -> bool {
            true
        }
    }

    #[test]
    fn eight_thousand_starts_of_a_quantum_are_looked_up_with_sixteen_statements() {
        let store = Arc::new(CqlStore::new(Counting::default()));
        let layout = Layout::of_version(2).unwrap();
        let service = StoredConclusions::open(store.clone(), layout).unwrap();
        let looked_up = |start: fn(i64) -> i64| {
            let starts: Vec<Timestamp> = (0..8000).map(|n| Timestamp(start(n))).collect();
            let before = store.cql().0.load(Ordering::Relaxed);
            assert!(service.get_many(&starts).unwrap().is_empty());
            store.cql().0.load(Ordering::Relaxed) - before
        };
        assert_eq!(looked_up(|n| 1 + n), 16, "one after the other");
        assert_eq!(looked_up(|n| 25_000_000 + n * 7919 % 25_000_000), 16, "here and there");
        assert_eq!(looked_up(|n| 5 + 16 * n), 3, "all of one client: as long as a statement may be");
    }
}
