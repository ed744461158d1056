//! The store on top of any CQL executor: shared by the embedded database and clusters.

mod executor;
mod multi_get;
mod statements;
mod values;

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use bytes::Bytes;
use cassette_database::{Database, DeferredWrite, Durability};
use cassette_rows::DecoratedKey;

use super::cell_loader::CellLoader;
use super::layout::{self, TableKind, column2};
use super::{
    Cell, CheckOutcome, ColumnRange, Put, PutOutcome, PutRow, Store, StoreError, StoreId, StoreResult,
    Version, check_put_row, check_puts,
};
use crate::timestamp::Timestamp;
pub use executor::{Attempted, Cql, NamedRows, Row, StatementKind, Values, WriteGroup};
use statements::Statements;
use values::{bigint, int, is_applied, list, put_outcome, version};

/// Maximum number of columns in one statement.
const COLUMNS_IN_MAX: usize = 3_000;
/// Maximum number of inserts in one conditional batch: as many as Cassandra is known to accept.
const CONDITIONAL_BATCH_MAX: usize = 1_000;

/// Versioned cells in CQL tables.
pub struct CqlStore<C: Cql> {
    cql: C,
    loader: CellLoader,
    /// Every call looks up a table, without touching a reference count that all threads share.
    tables: ArcSwap<HashMap<Box<str>, Shared<C>>>,
}

type Shared<C> = Arc<Statements<<C as Cql>::Statement>>;

impl<C: Cql> CqlStore<C> {
    /// Creates a store on an executor whose keyspace exists.
    pub fn new(cql: C) -> Self {
        Self { cql, loader: CellLoader::default(), tables: ArcSwap::default() }
    }

    /// Sets how several cells are loaded.
    pub fn with_loader(self, loader: CellLoader) -> Self {
        Self { loader, ..self }
    }

    /// Returns the executor.
    pub fn cql(&self) -> &C {
        &self.cql
    }

    /// Returns whether the table was created or opened here, so that its columns were checked.
    fn is_checked(&self, table: &str) -> bool {
        self.tables.load().contains_key(table)
    }

    fn statements(&self, table: &str) -> StoreResult<Shared<C>> {
        if let Some(statements) = self.tables.load().get(table) {
            return Ok(statements.clone());
        }
        Err(StoreError::refused(
            format!("table {table}"),
            "not opened: create or open the table through this store first",
        ))
    }

    /// Rejects an existing table with other columns.
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
        // Empty on a node that has not received the schema change yet.
        if columns.is_empty() || columns == layout::COLUMNS {
            Ok(())
        } else {
            Err(StoreError::refused(
                attempted,
                format!(
                    "expected a table of versioned cells with columns [{1}], found columns [{0}]. \
                     Use another keyspace or table name",
                    columns.join(", "),
                    layout::COLUMNS.join(", ")
                ),
            ))
        }
    }

    /// Prepares the statements of an existing table.
    fn use_table(&self, table: &str) -> StoreResult<()> {
        self.check_columns(table)?;
        let statements = Arc::new(Statements::prepare(&self.cql, table)?);
        self.tables.rcu(|tables| {
            let mut tables = HashMap::clone(tables);
            tables.insert(table.into(), statements.clone());
            tables
        });
        Ok(())
    }

    /// Reads the names of columns in descending order, then their newest versions: in descending
    /// order, the first version of a column is its oldest.
    fn columns_reversed(
        &self,
        attempted: Attempted<'_>,
        table: &str,
        statements: &Statements<C::Statement>,
        range: &ColumnRange,
        below: Timestamp,
    ) -> StoreResult<Vec<(Bytes, Version)>> {
        let ColumnRange { row, start, limit, .. } = range;
        let reversed = statements.reversed(&self.cql, table)?;
        let mut found = Vec::new();
        let mut end = range.end.clone();
        loop {
            let wanted = limit.saturating_sub(found.len());
            let (row, start, below_column2) = (row.clone(), start.clone(), bigint(column2(below)));
            let request = match end {
                None => (reversed.names.clone(), vec![row, start, below_column2, int(wanted)]),
                Some(end) => {
                    (reversed.names_until.clone(), vec![row, start, end, below_column2, int(wanted)])
                }
            };
            let names = self.cql.read(attempted, vec![request])?.into_iter().flatten();
            let cell = |name: Row| match name.into_iter().next().flatten() {
                Some(column) => Ok(Cell::new(range.row.clone(), column)),
                None => Err(StoreError::refused(attempted, "a row without a column name")),
            };
            let cells: Vec<Cell> = names.map(cell).collect::<StoreResult<_>>()?;
            let versions = self.get(table, &cells.iter().map(|cell| (cell, below)).collect::<Vec<_>>())?;
            let is_last = cells.len() < wanted;
            end = cells.last().map(|cell| cell.column.clone());
            let columns = cells.into_iter().zip(versions);
            found.extend(columns.filter_map(|(cell, version)| Some((cell.column, version?))));
            // Versions may be removed between the two reads. Fewer than requested would mean that
            // there are no more, so continue.
            if is_last || found.len() >= *limit {
                return Ok(found);
            }
        }
    }

    fn put_with_durability(&self, puts: &[Put<'_>], durability: Durability) -> StoreResult<()> {
        check_puts(puts)?;
        let attempted = format_args!("put {} versions", puts.len());
        let mut tables = puts.chunk_by(|a, b| a.table == b.table).filter_map(|of_one| of_one.first());
        if tables.all(|put| self.is_checked(put.table))
            && let Some(done) = self.cql.put_directly(attempted, puts, durability)
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
            // The table may have been dropped.
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
        self.get_many(attempted, table, &statements, cells)
    }

    fn columns(
        &self,
        table: &str,
        ranges: &[ColumnRange],
        below: Timestamp,
    ) -> StoreResult<Vec<Vec<(Bytes, Version)>>> {
        let attempted = format_args!("read columns of {} rows of {table}", ranges.len());
        let statements = self.statements(table)?;
        if let [range @ ColumnRange { is_reversed: true, .. }] = ranges {
            return Ok(vec![self.columns_reversed(attempted, table, &statements, range, below)?]);
        }
        if ranges.iter().any(|range| range.is_reversed) {
            let one = |range: &ColumnRange| {
                let mut page = self.columns(table, std::slice::from_ref(range), below)?;
                Ok(page.pop().unwrap_or_default())
            };
            return ranges.iter().map(one).collect();
        }
        let below = bigint(column2(below));
        let mut requests = Vec::with_capacity(ranges.len());
        for ColumnRange { row, start, end, limit, .. } in ranges {
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
        // The row itself is returned again first. If two keys ever share a token, further rows
        // before it may be returned as well: then read more.
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
        self.put_with_durability(puts, Durability::Configured)
    }

    fn put_ahead(&self, puts: &[Put<'_>]) -> StoreResult<()> {
        self.put_with_durability(puts, Durability::WithLater)
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
            let cause = format!("too many columns in a row: expected at most {CONDITIONAL_BATCH_MAX}");
            return rows.iter().map(|_| Err(StoreError::refused(attempted, &cause))).collect();
        }
        let results = self.cql.conditional(attempted, groups).into_iter();
        results.map(|result| result.and_then(|(names, rows)| put_outcome(attempted, &names, rows))).collect()
    }

    fn put_unless_exists_with(
        &self,
        table: &str,
        row: &Bytes,
        column: &(Bytes, Bytes),
        writes: &[DeferredWrite],
    ) -> StoreResult<PutOutcome> {
        let attempted = format_args!("put unless exists in {table}, with {} CQL writes", writes.len());
        self.statements(table)?;
        let done = self.cql.put_unless_exists_with(attempted, table, row, column, writes);
        done.unwrap_or_else(|| Err(StoreError::refused(attempted, "the store has no CQL tables")))
    }

    fn database(&self) -> Option<&Database> {
        self.cql.embedded_database()
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
            results.pop().unwrap_or_else(|| Err(StoreError::unknown(attempted, "no result")))?;
        if is_applied(attempted, &names, &rows)? {
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
        // Besides names and value, a version has its `column2` and its write time.
        self.cql.write_max().map(|bytes| bytes.saturating_sub(2 * size_of::<i64>()))
    }

    fn puts_in_order(&self) -> bool {
        self.cql.writes_in_order()
    }

    fn is_linearizable_after_failures(&self) -> bool {
        self.cql.is_linearizable_after_failures()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::service::{CommitRecords, Layout, TransactionService};

    /// Counts reads, and returns no rows.
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
    fn sixteen_statements_look_up_8000_start_timestamps_of_a_quantum() {
        let store = Arc::new(CqlStore::new(Counting::default()));
        let layout = Layout::of_version(2).unwrap();
        let service = CommitRecords::open(store.clone(), layout).unwrap();
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
