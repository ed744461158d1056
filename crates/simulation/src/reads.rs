//! Reads by every read path, each compared with the model.

use cassette_protocol::{QueryParameters, Version};
use rand::RngExt;

use crate::model::Key;
use crate::model::partition::token_order;
use crate::schema::{Column, Kind, Row, Shape};
use crate::simulation::{Cursor, Outcome, Simulation};
use crate::statements::{DOMAIN, Statements, Writer};
use crate::value::{Type, Val};
use crate::wire::{Cql, Reply};

impl Simulation {
    /// The rows of all pages of a SELECT of these columns; `None` if it failed because something
    /// was made to fail.
    pub(crate) fn select(&mut self, cql: &Cql, columns: &[Column]) -> Result<Option<Vec<Row>>, String> {
        // Pages of one or two rows are slow; a few of them are enough.
        let page_size = match self.random.random_range(0..20) {
            0 => Some(self.random.random_range(1..3)),
            1..=6 => Some(self.random.random_range(3..20)),
            _ => None,
        };
        let version = Version::SUPPORTED[self.random.random_range(0..3)];
        let mut rows = Vec::new();
        let mut state = None;
        loop {
            let Some((page, next)) = self.page(cql, columns, page_size, state, version)? else {
                return Ok(None);
            };
            rows.extend(page);
            if next.is_none() {
                return Ok(Some(rows));
            }
            if rows.len() > 10_000 {
                return Err(format!("{}: paging does not end", cql.text));
            }
            state = next;
        }
    }

    #[expect(clippy::type_complexity, reason = "a page and the state of the next one, unless it failed")]
    fn page(
        &mut self,
        cql: &Cql,
        columns: &[Column],
        page_size: Option<i32>,
        state: Option<bytes::Bytes>,
        version: Version,
    ) -> Result<Option<(Vec<Row>, Option<bytes::Bytes>)>, String> {
        let parameters = QueryParameters { page_size, paging_state: state, ..QueryParameters::default() };
        match self.execute_with(cql, parameters, Some(version))? {
            Outcome::Done(Reply::Rows(rows)) => {
                let decoded: Result<Vec<Row>, String> = rows
                    .iter()
                    .map(|row| {
                        let cells = row.zip(columns);
                        cells
                            .map(|(cell, column)| cell.map(|cell| column.data_type.decode(cell)).transpose())
                            .collect()
                    })
                    .collect();
                let decoded = decoded.map_err(|error| format!("{}: {error}", cql.text))?;
                if rows.columns_count() != columns.len() {
                    return Err(format!("{}: {} columns", cql.text, rows.columns_count()));
                }
                Ok(Some((decoded, rows.paging_state)))
            }
            Outcome::Done(_) => Err(format!("{} without rows", cql.text)),
            Outcome::Failed(_) if self.node.is_failing() => Ok(None),
            Outcome::Failed(error) => Err(format!("a read failed although the disk works again: {error}")),
        }
    }

    /// Reads a partition and resolves open writes by what it contains. Returns whether it could be
    /// read.
    pub(crate) fn look_at(&mut self, table: &str, key: &Key) -> Result<bool, String> {
        let shape = self.model.tables[table].shape.clone();
        let mut writer = Writer::new(false);
        let at = self.draw_at(table, &mut writer, key);
        let cql = writer.with_text(format!("SELECT {} FROM {table} WHERE {at}", shape.column_list()));
        let Some(rows) = self.select(&cql, &shape.columns)? else { return Ok(false) };
        self.observe(table, key, &cql, |rows| rows, &rows)?;
        Ok(true)
    }

    fn draw_at(&mut self, table: &str, writer: &mut Writer, key: &Key) -> String {
        let table = &self.model.tables[table];
        let statements = Statements { table, random: &mut self.random, expires_from: None, number: 0 };
        statements.at(writer, key, &[])
    }

    pub(crate) fn observe(
        &mut self,
        table: &str,
        key: &Key,
        cql: &Cql,
        project: impl Fn(Vec<Row>) -> Vec<Row>,
        seen: &[Row],
    ) -> Result<(), String> {
        let now = (self.node.now_seconds(), self.life);
        self.model.observe(table, key, now, project, seen).map_err(|expected| {
            format!("{} for {key:?}: found\n{}expected\n{}", cql.text, list(seen), list(&expected))
        })
    }

    pub(crate) fn read_partition(&mut self) -> Result<(), String> {
        let Some(table) = self.some_table() else { return Ok(()) };
        let shape = self.model.tables[&table].shape.clone();
        let clustering = shape.clustering().len();
        let mut writer = Writer::new(self.one_in(2));
        let (key, at, range) = {
            let found = &self.model.tables[&table];
            let random = &mut self.random;
            let mut statements = Statements { table: found, random, expires_from: None, number: 0 };
            let key = statements.key();
            let at = statements.at(&mut writer, &key, &[]);
            let is_slice = clustering > 0 && statements.random.random_range(0..2) == 0;
            let range = is_slice.then(|| statements.range(&mut writer));
            (key, at, range)
        };
        let reversed = clustering > 0 && self.one_in(3);
        let limit = self.one_in(3).then(|| self.random.random_range(1..6));
        let mut text = format!("SELECT {} FROM {table} WHERE {at}", shape.column_list());
        if let Some((_, condition)) = &range {
            text.push_str(&format!(" AND {condition}"));
        }
        if reversed {
            let order = shape.clustering().into_iter().map(|column| {
                let descending = column.kind == Kind::Clustering { descending: true };
                format!("{} {}", column.name, if descending { "ASC" } else { "DESC" })
            });
            text.push_str(&format!(" ORDER BY {}", order.collect::<Vec<_>>().join(", ")));
        }
        if let Some(limit) = limit {
            text.push_str(&format!(" LIMIT {limit}"));
        }
        let cql = writer.with_text(text);
        let Some(seen) = self.select(&cql, &shape.columns)? else { return Ok(()) };
        let keys = shape.partition_key().len();
        let project = |mut rows: Vec<Row>| {
            if let Some((range, _)) = &range {
                rows.retain(|row| {
                    let values: Option<Vec<Val>> = row[keys..keys + clustering].iter().cloned().collect();
                    values.is_some_and(|values| range.contains(&values))
                });
            }
            if reversed {
                rows.reverse();
            }
            rows.truncate(limit.unwrap_or(usize::MAX));
            rows
        };
        self.observe(&table, &key, &cql, project, &seen)?;
        match self.random.random_range(0..4) {
            0 => self.read_keys(),
            1 => self.read_groups(),
            _ => Ok(()),
        }
    }

    pub(crate) fn read_table(&mut self) -> Result<(), String> {
        let Some(table) = self.some_table() else { return Ok(()) };
        let Some(seen) = self.scan(&table)? else { return Ok(()) };
        self.compare_scan(&table, &seen)?;
        let count = Cql::plain(format!("SELECT COUNT(*) FROM {table}"));
        let column = Column { name: "count".into(), kind: Kind::Regular, data_type: Type::Counter };
        let Some(rows) = self.select(&count, &[column])? else { return Ok(()) };
        let expected = vec![vec![Some(Val::Count(seen.len() as i64))]];
        if rows != expected {
            return Err(format!("{}: found {rows:?} of {}", count.text, seen.len()));
        }
        self.read_distinct(&table)
    }

    /// All rows of a table.
    pub(crate) fn scan(&mut self, table: &str) -> Result<Option<Vec<Row>>, String> {
        let shape = self.model.tables[table].shape.clone();
        let cql = Cql::plain(format!("SELECT {} FROM {table}", shape.column_list()));
        self.select(&cql, &shape.columns)
    }

    /// Compares all rows of a table, and resolves open writes by them.
    pub(crate) fn compare_scan(&mut self, table: &str, seen: &[Row]) -> Result<(), String> {
        let keys = self.model.tables[table].shape.partition_key().len();
        let cql = Cql::plain(format!("SELECT FROM {table}"));
        let mut left = seen;
        for key in self.model.tables[table].keys() {
            let of_key = |row: &&Row| row[..keys].iter().flatten().eq(&key);
            let (rows, rest) = left.split_at(left.iter().take_while(of_key).count());
            left = rest;
            self.observe(table, &key, &cql, |rows| rows, rows)?;
        }
        if left.is_empty() {
            return Ok(());
        }
        Err(format!("{}: rows out of order, twice, or of no partition:\n{}", cql.text, list(left)))
    }

    pub(crate) fn read_index(&mut self) -> Result<(), String> {
        let Some(table) = self.some_table() else { return Ok(()) };
        let Some(seen) = self.scan(&table)? else { return Ok(()) };
        self.compare_scan(&table, &seen)?;
        self.compare_indexes(&table)
    }

    /// Compares the results of every index of a table for every value.
    pub(crate) fn compare_indexes(&mut self, table: &str) -> Result<(), String> {
        let shape = self.model.tables[table].shape.clone();
        if shape.indexes.is_empty() {
            return Ok(());
        }
        // With slow operations, time passes between two reads, and rows expire.
        let seconds = self.node.now_seconds();
        let mut all = (seconds, self.model.scan(table, seconds));
        for index in shape.indexes.values() {
            let Some(position) = shape.position(&index.column) else { continue };
            let column = &shape.columns[position];
            for value in 0..DOMAIN {
                let greater = index.attached && column.data_type == Type::Int && self.one_in(2);
                let holds = |row: &Row| match &row[position] {
                    Some(Val::Int(found)) if greater => *found > value,
                    Some(Val::Int(found)) => *found == value,
                    Some(Val::Set(set)) => set.contains(&value),
                    Some(Val::Map(map)) => map.values().any(|found| *found == value),
                    _ => false,
                };
                let sign = match column.data_type {
                    Type::Set | Type::Map => "CONTAINS",
                    _ if greater => ">",
                    _ => "=",
                };
                let columns = shape.column_list();
                let text = format!("SELECT {columns} FROM {table} WHERE {} {sign} {value}", column.name);
                let now = self.node.now_seconds();
                if all.0 != now {
                    all = (now, self.model.scan(table, now));
                }
                let Some(mut seen) = self.select_maybe_unbuilt(&Cql::plain(text.clone()), &shape.columns)?
                else {
                    continue;
                };
                let mut expected: Vec<Row> = all.1.iter().filter(|row| holds(row)).cloned().collect();
                // A row that exists only by static values has no clustering by which it could be
                // found.
                seen.sort();
                expected.sort();
                if seen != expected && !self.is_decided(table) {
                    let Some(rows) = self.scan(table)? else { continue };
                    expected = rows.into_iter().filter(holds).collect();
                    expected.sort();
                }
                if seen != expected {
                    return Err(format!("{text}: found\n{}expected\n{}", list(&seen), list(&expected)));
                }
            }
        }
        Ok(())
    }

    /// Returns whether the outcome of every write to a table is known. Otherwise the model's
    /// guesses explain each partition, but perhaps not all of them together, and only the table
    /// itself shows which rows an index or a view must contain.
    fn is_decided(&self, table: &str) -> bool {
        !self.model.is_open(table)
    }

    /// [`select`](Self::select), of an index or a view that stays unbuilt until the next start if
    /// its build failed.
    fn select_maybe_unbuilt(&mut self, cql: &Cql, columns: &[Column]) -> Result<Option<Vec<Row>>, String> {
        match self.select(cql, columns) {
            Err(error) if self.node.is_tainted() && error.contains("is not yet available") => Ok(None),
            other => other,
        }
    }

    pub(crate) fn read_view(&mut self) -> Result<(), String> {
        let Some(table) = self.some_table() else { return Ok(()) };
        let Some(seen) = self.scan(&table)? else { return Ok(()) };
        self.compare_scan(&table, &seen)?;
        self.compare_views(&table)
    }

    /// Compares the rows of every view of a table.
    pub(crate) fn compare_views(&mut self, table: &str) -> Result<(), String> {
        let shape = self.model.tables[table].shape.clone();
        for view in shape.views.keys() {
            let columns: Vec<Column> = shape.view_columns(view).into_iter().cloned().collect();
            let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
            let text = format!("SELECT {} FROM {}.{view}", names.join(", "), shape.keyspace());
            if self.node.is_tainted() && !self.is_view_built(shape.keyspace(), view)? {
                continue;
            }
            let now = self.node.now_seconds();
            let Some(mut seen) = self.select(&Cql::plain(text.clone()), &columns)? else { continue };
            let project = |row: Row| -> Row {
                names.iter().map(|name| shape.position(name).and_then(|at| row[at].clone())).collect()
            };
            let of_view = |rows: Vec<Row>| {
                let rows = rows.into_iter().map(project).filter(|row| row.iter().all(Option::is_some));
                let mut rows: Vec<Row> = rows.collect();
                rows.sort();
                rows
            };
            let mut expected = of_view(self.model.scan(table, now));
            seen.sort();
            if seen != expected && !self.is_decided(table) {
                let Some(rows) = self.scan(table)? else { continue };
                expected = of_view(rows);
            }
            if seen != expected {
                return Err(format!("{text}: found\n{}expected\n{}", list(&seen), list(&expected)));
            }
        }
        Ok(())
    }

    /// Returns whether all rows of the base table are in a view. A build that failed is repeated by
    /// the next start.
    fn is_view_built(&mut self, keyspace: &str, view: &str) -> Result<bool, String> {
        let column = Column {
            name: "view_name".into(),
            kind: Kind::Clustering { descending: false },
            data_type: Type::Text,
        };
        let text = format!(
            "SELECT view_name FROM system.built_views WHERE keyspace_name = '{keyspace}' AND view_name = '{view}'"
        );
        Ok(self.select(&Cql::plain(text), &[column])?.is_some_and(|rows| !rows.is_empty()))
    }

    pub(crate) fn read_page(&mut self) -> Result<(), String> {
        if self.cursors.is_empty() || self.one_in(4) {
            return self.open_cursor();
        }
        let at = self.random.random_range(0..self.cursors.len());
        let cursor = self.cursors.swap_remove(at);
        let Some(table) = self.model.tables.get(&cursor.table) else { return Ok(()) };
        let shape = table.shape.clone();
        let is_same = cursor.cql.text == scan_text(&shape);
        if !is_same || self.model.is_open(&cursor.table) {
            return Ok(());
        }
        let now = self.node.now_seconds();
        let size = Some(cursor.page_size);
        let state = Some(cursor.state.clone());
        let Some((seen, next)) = self.page(&cursor.cql, &shape.columns, size, state, cursor.version)? else {
            return Ok(());
        };
        let after = |row: &Row| {
            let (key, clustering) = place(&shape, row);
            let (last_key, last) = &cursor.last;
            match token_order(&key).cmp(&token_order(last_key)) {
                std::cmp::Ordering::Equal => clustering.is_some_and(|clustering| {
                    shape.compare(&clustering, last) == std::cmp::Ordering::Greater
                }),
                order => order == std::cmp::Ordering::Greater,
            }
        };
        let rows = self.model.scan(&cursor.table, now).into_iter().filter(after);
        let expected: Vec<Row> = rows.take(cursor.page_size as usize).collect();
        if seen != expected {
            return Err(format!(
                "{} after {:?}: found\n{}expected\n{}",
                cursor.cql.text,
                cursor.last,
                list(&seen),
                list(&expected)
            ));
        }
        self.keep_cursor(cursor, &shape, &seen, next);
        Ok(())
    }

    fn open_cursor(&mut self) -> Result<(), String> {
        let Some(table) = self.some_table() else { return Ok(()) };
        let shape = self.model.tables[&table].shape.clone();
        let cursor = Cursor {
            cql: Cql::plain(scan_text(&shape)),
            table,
            page_size: self.random.random_range(1..6),
            state: bytes::Bytes::new(),
            last: (Vec::new(), Vec::new()),
            version: Version::SUPPORTED[self.random.random_range(0..3)],
        };
        let size = Some(cursor.page_size);
        let Some((seen, next)) = self.page(&cursor.cql, &shape.columns, size, None, cursor.version)? else {
            return Ok(());
        };
        self.keep_cursor(cursor, &shape, &seen, next);
        Ok(())
    }

    fn keep_cursor(&mut self, cursor: Cursor, shape: &Shape, seen: &[Row], next: Option<bytes::Bytes>) {
        if let (Some(state), Some(row)) = (next, seen.last())
            && let (key, Some(clustering)) = place(shape, row)
        {
            self.cursors.push(Cursor { state, last: (key, clustering), ..cursor });
        }
    }
}

fn scan_text(shape: &Shape) -> String {
    format!("SELECT {} FROM {}", shape.column_list(), shape.name)
}

/// The key of a row's partition, and the row's clustering unless it shows static values alone.
fn place(shape: &Shape, row: &Row) -> (Key, Option<Vec<Val>>) {
    let (key, rest) = row.split_at(shape.partition_key().len());
    let clustering = rest[..shape.clustering().len()].iter().cloned().collect();
    (key.iter().flatten().cloned().collect(), clustering)
}

/// Rows for a message, a line each.
pub(crate) fn list(rows: &[Row]) -> String {
    let cell = |cell: &Option<Val>| cell.as_ref().map_or_else(|| "null".to_owned(), Val::literal);
    rows.iter().map(|row| format!("    {}\n", row.iter().map(cell).collect::<Vec<_>>().join(" | "))).collect()
}
