//! The statements on a table: reading a token range, and writing the cells of a row.

use std::collections::BTreeMap;

use bytes::Bytes;
use cassette_protocol::Value;
use cassette_rows::Layout;
use cassette_rows::token::murmur3_token;
use cassette_rows::types::quote_identifier;

use crate::cell::{Cell, CellRef, Row, encode_list, encode_map, fields, list, map};
use crate::error::{MoveError, Result};
use crate::page::Values;
use crate::schema::{Column, Kind, Shape, Table};

/// A bound value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bound {
    Unset,
    Set(Bytes),
}

impl Bound {
    pub fn value(&self) -> Value<'_> {
        match self {
            Self::Unset => Value::Unset,
            Self::Set(bytes) => Value::Set(bytes),
        }
    }
}

/// One of the texts of [`Statements`], with values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoundStatement {
    pub text: usize,
    pub values: Vec<Bound>,
}

const INSERT: usize = 0;
const UPDATE: usize = 1;
const UPDATE_STATIC: usize = 2;

/// Statements on a table, derived from its columns.
pub struct Statements {
    pub table: Table,
    /// Selects the rows of a token range: above the first value, up to the second.
    pub select: String,
    /// Selects the row with a primary key.
    pub select_row: String,
    /// Selects a partition's static columns.
    pub select_static: String,
    /// INSERT, UPDATE, UPDATE of static columns, empty where the table has no such columns; then
    /// an append to each list, as Cassandra accepts no unset value there; then a write of the rows
    /// that have only the first clustering values, for each number of them.
    pub writes: Vec<String>,
    /// Selects the first row that begins with clustering values, for each number of them.
    pub select_prefix: Vec<String>,
    /// The first write of rows with some clustering values.
    short_writes: usize,
    /// Number of static lists, whose appends come first.
    static_lists: usize,
    keys: usize,
    clusterings: usize,
    statics: Vec<Column>,
    regulars: Vec<Column>,
}

impl Statements {
    /// Creates the statements.
    pub fn new(table: Table) -> Self {
        let table = table.as_written();
        let names = |kind| {
            table.columns(kind).map(|column| quote_identifier(&column.name).into_owned()).collect::<Vec<_>>()
        };
        let (keys, clusterings) = (names(Kind::PartitionKey), names(Kind::Clustering));
        let of_kind = |kind| table.columns(kind).cloned().collect::<Vec<_>>();
        let (statics, regulars) = (of_kind(Kind::Static), of_kind(Kind::Regular));
        let mut selected: Vec<String> = keys.iter().chain(&clusterings).cloned().collect();
        for column in statics.iter().chain(&regulars) {
            let name = quote_identifier(&column.name);
            selected.push(name.clone().into_owned());
            if column.shape != Shape::Counter {
                selected.extend([format!("writetime({name})"), format!("ttl({name})")]);
            }
        }
        let (selected, quoted, token) = (selected.join(", "), table.quoted(), keys.join(", "));
        let bound = |names: &[String]| names.iter().map(|name| format!("{name} = ?")).collect::<Vec<_>>();
        let all: Vec<String> = keys.iter().chain(&clusterings).cloned().collect();
        let (of_key, of_row) = (bound(&keys).join(" AND "), bound(&all).join(" AND "));
        let mut writes = vec![
            insert(&table, &all, &regulars),
            update(&table, &of_row, &regulars),
            update(&table, &of_key, &statics),
        ];
        let appends = |columns: &[Column], of: &str| {
            let lists = columns.iter().filter(|column| column.shape == Shape::List);
            lists.map(|column| append(&table, of, column)).collect::<Vec<_>>()
        };
        let of_statics = appends(&statics, &of_key);
        let static_lists = of_statics.len();
        writes.extend(of_statics);
        writes.extend(appends(&regulars, &of_row));
        let short_writes = writes.len();
        let mut select_prefix = Vec::new();
        // Only they have null clustering values, the last ones.
        let prefixes = if table.layout == Layout::DenseCompound { 1..clusterings.len() } else { 0..0 };
        for count in prefixes {
            let all = &all[..keys.len() + count];
            let of_row = bound(all).join(" AND ");
            select_prefix.push(format!("SELECT {selected} FROM {quoted} WHERE {of_row} LIMIT 1"));
            writes.push(if table.is_counter {
                update(&table, &of_row, &regulars)
            } else {
                insert(&table, all, &regulars)
            });
        }
        Self {
            select: format!(
                "SELECT {selected} FROM {quoted} WHERE token({token}) > ? AND token({token}) <= ?"
            ),
            select_row: format!("SELECT {selected} FROM {quoted} WHERE {of_row}"),
            select_static: format!("SELECT {selected} FROM {quoted} WHERE {of_key} LIMIT 1"),
            writes,
            select_prefix,
            short_writes,
            static_lists,
            keys: keys.len(),
            clusterings: clusterings.len(),
            statics,
            regulars,
            table,
        }
    }

    /// Decodes a selected row, read at `now`.
    pub fn decode(&self, values: Values<'_>, now: u32) -> Result<Row> {
        let selected = self.split(values);
        let shared = |value: &Option<&[u8]>| Bytes::copy_from_slice(value.unwrap_or_default());
        let key: Vec<Bytes> = selected.key.iter().map(shared).collect();
        let clustering = selected.clustering.map(|values| values.iter().map(shared).collect());
        let (mut statics, mut cells) = (Vec::new(), Vec::with_capacity(self.regulars.len()));
        self.visit_cells(&selected, now, |is_static, cell| {
            let cell = Cell {
                column: cell.column,
                path: cell.path.map(Bytes::copy_from_slice),
                value: Bytes::copy_from_slice(cell.value),
                timestamp: cell.timestamp,
                expires: cell.expires,
            };
            if is_static { statics.push(cell) } else { cells.push(cell) }
        })?;
        Ok(Row { token: murmur3_token(&serialized_key(&key)).0, key, clustering, statics, cells })
    }

    /// Separates the values of a selected row.
    pub fn split<'v>(&self, values: Values<'v>) -> SelectedRow<'v> {
        let (key, rest) = values.split_at(self.keys.min(values.len()));
        let (mut clustering, cells) = rest.split_at(self.clusterings.min(rest.len()));
        if self.table.layout == Layout::DenseCompound {
            let present = clustering.iter().take_while(|value| value.is_some()).count();
            clustering = &clustering[..present];
        }
        let is_row = clustering.iter().all(Option::is_some);
        SelectedRow { key, clustering: is_row.then_some(clustering), cells }
    }

    /// Calls `visit` with each cell of a row that was read at `now`, and with whether it is static.
    ///
    /// # Errors
    /// If a value is malformed.
    pub fn visit_cells(
        &self,
        row: &SelectedRow<'_>,
        now: u32,
        mut visit: impl FnMut(bool, CellRef<'_>),
    ) -> Result<()> {
        let mut values = row.cells.iter().copied();
        for (is_static, columns) in [(true, &self.statics), (false, &self.regulars)] {
            for (column, definition) in columns.iter().enumerate() {
                let Some(selected) = Selected::next(definition, &mut values) else { continue };
                let visited = selected.visit(column, definition, now, &mut |cell| visit(is_static, cell));
                visited.ok_or_else(|| self.malformed(definition))?;
            }
        }
        Ok(())
    }

    fn malformed(&self, column: &Column) -> MoveError {
        let (table, column) = (self.table.quoted(), &column.name);
        MoveError::Unsuitable(format!("reading {table}: malformed value of column {column}"))
    }

    /// Returns the writes of a row that was read at `now`, in their order. `marker` is the write
    /// timestamp of a row without cells.
    pub fn writes(&self, row: &Row, now: u32, marker: i64) -> Vec<BoundStatement> {
        let mut out = Vec::new();
        self.updates(
            UPDATE_STATIC,
            &self.statics,
            &row.statics.iter().collect::<Vec<_>>(),
            row,
            now,
            &mut out,
        );
        if row.clustering.is_none() {
            return out;
        }
        if self.table.is_counter {
            self.updates(UPDATE, &self.regulars, &row.cells.iter().collect::<Vec<_>>(), row, now, &mut out);
            return out;
        }
        if self.table.layout.is_compact() && row.cells.is_empty() && !self.regulars.is_empty() {
            // It existed by cells that have expired since.
            return out;
        }
        // A row exists without its cells if it has been inserted, which CQL does not show. Its
        // marker lives as long as the last of its cells.
        let live_longest = |cell: &Cell| (cell.expires.unwrap_or(u32::MAX), cell.timestamp);
        let last = row.cells.iter().max_by_key(|cell| live_longest(cell));
        let (timestamp, expires) = last.map_or((marker, None), |cell| (cell.timestamp, cell.expires));
        let is_inserted = |cell: &&Cell| {
            let is_simple = !self.regulars[cell.column].shape.is_multi_cell();
            is_simple && (cell.timestamp, cell.expires) == (timestamp, expires)
        };
        let (inserted, updated): (Vec<&Cell>, Vec<&Cell>) = row.cells.iter().partition(is_inserted);
        out.push(self.insert(&inserted, row, timestamp, time_to_live(expires, now)));
        self.updates(UPDATE, &self.regulars, &updated, row, now, &mut out);
        out
    }

    fn insert(&self, cells: &[&Cell], row: &Row, timestamp: i64, ttl: i32) -> BoundStatement {
        let mut values = primary_key(row);
        for (index, column) in self.regulars.iter().enumerate() {
            if !column.shape.is_multi_cell() {
                let cell = cells.iter().find(|cell| cell.column == index);
                values.push(cell.map_or(Bound::Unset, |cell| Bound::Set(cell.value.clone())));
            }
        }
        values.extend(times(timestamp, ttl));
        BoundStatement { text: self.text_for(INSERT, row), values }
    }

    /// Returns the write of a row with the effect of `text`: another one if its last clustering
    /// values are null.
    fn text_for(&self, text: usize, row: &Row) -> usize {
        match &row.clustering {
            Some(values)
                if text != UPDATE_STATIC && !values.is_empty() && values.len() < self.clusterings =>
            {
                self.short_writes + values.len() - 1
            }
            _ => text,
        }
    }

    /// Returns the statement that selects a row with these clustering values.
    pub fn select_of(&self, clustering: &[Bytes]) -> &str {
        match clustering.len().checked_sub(1).and_then(|at| self.select_prefix.get(at)) {
            Some(select) if clustering.len() < self.clusterings => select,
            _ => &self.select_row,
        }
    }

    /// Adds the updates of cells: one for each write timestamp and expiration. The elements of a
    /// list are appended in order, by several updates if their times differ.
    fn updates(
        &self,
        text: usize,
        columns: &[Column],
        cells: &[&Cell],
        row: &Row,
        now: u32,
        out: &mut Vec<BoundStatement>,
    ) {
        let mut groups: BTreeMap<(i64, Option<u32>), Vec<&Cell>> = BTreeMap::new();
        let mut runs: Vec<Vec<&Cell>> = Vec::new();
        let is_list = |cell: &Cell| columns[cell.column].shape == Shape::List;
        for cell in cells.iter().filter(|cell| !is_list(cell)) {
            groups.entry((cell.timestamp, cell.expires)).or_default().push(cell);
        }
        for cell in cells.iter().filter(|cell| is_list(cell)) {
            let same = |run: &&mut Vec<&Cell>| {
                let last = run[run.len() - 1];
                (last.column, last.timestamp, last.expires) == (cell.column, cell.timestamp, cell.expires)
            };
            match runs.last_mut().filter(same) {
                Some(run) => run.push(cell),
                None => runs.push(vec![cell]),
            }
        }
        let is_static = text == UPDATE_STATIC;
        let mut key = primary_key(row);
        key.truncate(if is_static { self.keys } else { key.len() });
        for cells in groups.into_values() {
            let (timestamp, ttl) = (cells[0].timestamp, time_to_live(cells[0].expires, now));
            let mut values: Vec<Bound> =
                if self.table.is_counter { Vec::new() } else { times(timestamp, ttl).into() };
            for (index, column) in columns.iter().enumerate() {
                let of_column = cells.iter().copied().filter(|cell| cell.column == index).collect::<Vec<_>>();
                bind(&column.shape, &of_column, &mut values);
            }
            values.extend(key.iter().cloned());
            out.push(BoundStatement { text: self.text_for(text, row), values });
        }
        for run in runs {
            let mut values: Vec<Bound> = times(run[0].timestamp, time_to_live(run[0].expires, now)).into();
            values.push(Bound::Set(encode_list(run.iter().map(|cell| &cell.value))));
            values.extend(key.iter().cloned());
            let before = columns[..run[0].column].iter().filter(|column| column.shape == Shape::List).count();
            let first = UPDATE_STATIC + 1 + if is_static { 0 } else { self.static_lists };
            out.push(BoundStatement { text: first + before, values });
        }
    }

    /// Returns the columns of the static or the regular part, in the order of
    /// [`Cell::column`](crate::cell::Cell::column).
    pub fn columns(&self, is_static: bool) -> &[Column] {
        if is_static { &self.statics } else { &self.regulars }
    }

    /// Returns whether a column of the static or the regular part is a list.
    pub fn is_list(&self, is_static: bool, column: usize) -> bool {
        self.columns(is_static).get(column).is_some_and(|column| column.shape == Shape::List)
    }
}

fn insert(table: &Table, keys: &[String], regulars: &[Column]) -> String {
    if table.is_counter {
        return String::new();
    }
    let simple = regulars.iter().filter(|column| !column.shape.is_multi_cell());
    let simple = simple.map(|column| quote_identifier(&column.name).into_owned());
    let names: Vec<String> = keys.iter().cloned().chain(simple).collect();
    format!(
        "INSERT INTO {} ({}) VALUES ({}) USING TIMESTAMP ? AND TTL ?",
        table.quoted(),
        names.join(", "),
        vec!["?"; names.len()].join(", ")
    )
}

fn update(table: &Table, of_row: &str, columns: &[Column]) -> String {
    let mut assignments = Vec::new();
    for column in columns {
        let name = quote_identifier(&column.name);
        match &column.shape {
            Shape::Simple => assignments.push(format!("{name} = ?")),
            Shape::Udt(fields) => assignments
                .extend(fields.iter().map(|field| format!("{name}.{} = ?", quote_identifier(field)))),
            Shape::Counter | Shape::Set | Shape::Map => assignments.push(format!("{name} = {name} + ?")),
            Shape::List => {}
        }
    }
    if assignments.is_empty() {
        return String::new();
    }
    let times = if table.is_counter { "" } else { " USING TIMESTAMP ? AND TTL ?" };
    format!("UPDATE {}{times} SET {} WHERE {of_row}", table.quoted(), assignments.join(", "))
}

fn append(table: &Table, of_row: &str, column: &Column) -> String {
    let (quoted, name) = (table.quoted(), quote_identifier(&column.name));
    format!("UPDATE {quoted} USING TIMESTAMP ? AND TTL ? SET {name} = {name} + ? WHERE {of_row}")
}

/// Adds the values of a column's assignments, which a list has none of.
fn bind(shape: &Shape, cells: &[&Cell], values: &mut Vec<Bound>) {
    let path = |cell: &Cell| cell.path.clone().unwrap_or_default();
    let paths: Vec<Bytes> = cells.iter().map(|cell| path(cell)).collect();
    match shape {
        Shape::Udt(fields) => {
            for field in 0..fields.len() {
                let cell = cells.iter().zip(&paths).find(|(_, path)| **path == index(field));
                values.push(cell.map_or(Bound::Unset, |(cell, _)| Bound::Set(cell.value.clone())));
            }
        }
        Shape::List => {}
        _ if cells.is_empty() => values.push(Bound::Unset),
        Shape::Simple | Shape::Counter => values.push(Bound::Set(cells[0].value.clone())),
        Shape::Set => values.push(Bound::Set(encode_list(paths.iter()))),
        Shape::Map => {
            let pairs = paths.iter().zip(cells.iter().map(|cell| &cell.value));
            values.push(Bound::Set(encode_map(pairs)));
        }
    }
}

fn primary_key(row: &Row) -> Vec<Bound> {
    row.key.iter().chain(row.clustering.iter().flatten()).cloned().map(Bound::Set).collect()
}

fn times(timestamp: i64, ttl: i32) -> [Bound; 2] {
    let set = |bytes: &[u8]| Bound::Set(Bytes::copy_from_slice(bytes));
    [set(&timestamp.to_be_bytes()), set(&ttl.to_be_bytes())]
}

/// Returns the lifetime from `now` on. 0, which overrides the table's default, for cells that do
/// not expire.
fn time_to_live(expires: Option<u32>, now: u32) -> i32 {
    expires.map_or(0, |at| i32::try_from(at.saturating_sub(now).max(1)).unwrap_or(i32::MAX))
}

/// Returns the path of the field or element with an index.
fn index(index: usize) -> Bytes {
    Bytes::copy_from_slice(&u32::try_from(index).unwrap_or(u32::MAX).to_be_bytes())
}

/// The values of a selected row.
pub struct SelectedRow<'a> {
    pub key: Values<'a>,
    /// `None` if the partition has static cells only.
    pub clustering: Option<Values<'a>>,
    cells: Values<'a>,
}

/// What was selected of a column that is not null.
struct Selected<'a> {
    value: &'a [u8],
    written: Option<&'a [u8]>,
    ttl: Option<&'a [u8]>,
}

impl<'a> Selected<'a> {
    /// Takes the values of a column; `None` if it is null.
    fn next(column: &Column, values: &mut impl Iterator<Item = Option<&'a [u8]>>) -> Option<Self> {
        let value = values.next().flatten();
        let is_counter = column.shape == Shape::Counter;
        let mut time = || if is_counter { None } else { values.next().flatten() };
        let (written, ttl) = (time(), time());
        value.map(|value| Self { value, written, ttl })
    }

    /// Calls `visit` with each cell; `None` if a value is malformed.
    fn visit(
        &self,
        column: usize,
        definition: &Column,
        now: u32,
        visit: &mut dyn FnMut(CellRef<'_>),
    ) -> Option<()> {
        let timestamp = |bytes: &[u8]| Some(i64::from_be_bytes(bytes.try_into().ok()?));
        let expires = |bytes: &[u8]| {
            let ttl = i32::from_be_bytes(bytes.try_into().ok()?);
            Some(now.saturating_add(u32::try_from(ttl).ok()?))
        };
        if !definition.shape.is_multi_cell() {
            let timestamp = self.written.map_or(Some(0), timestamp)?;
            let expires = self.ttl.map(expires).map_or(Some(None), |found| found.map(Some))?;
            visit(CellRef { column, path: None, value: self.value, timestamp, expires });
            return Some(());
        }
        let times = |bytes: &[u8]| list(&Bytes::copy_from_slice(bytes));
        let written = times(self.written?)?;
        let ttls = self.ttl.map_or(Some(Vec::new()), times)?;
        let elements = elements(&definition.shape, &Bytes::copy_from_slice(self.value))?;
        for (at, (path, value)) in elements.iter().enumerate() {
            // Fields without a value have no cell.
            let Some(value) = value else { continue };
            let timestamp = timestamp(written.get(at)?.as_ref()?)?;
            let expires = match ttls.get(at) {
                Some(Some(ttl)) => Some(expires(ttl)?),
                _ => None,
            };
            visit(CellRef { column, path: Some(path), value, timestamp, expires });
        }
        Some(())
    }
}

/// Decodes the elements of a multi-cell value: path and value. `None` if it is malformed.
fn elements(shape: &Shape, value: &Bytes) -> Option<Vec<(Bytes, Option<Bytes>)>> {
    Some(match shape {
        Shape::List => list(value)?.into_iter().enumerate().map(|(at, value)| (index(at), value)).collect(),
        Shape::Set => {
            list(value)?.into_iter().map(|path| Some((path?, Some(Bytes::new())))).collect::<Option<_>>()?
        }
        Shape::Map => map(value)?.into_iter().map(|(path, value)| (path, Some(value))).collect(),
        Shape::Udt(names) => {
            let fields = fields(value, names.len())?;
            fields.into_iter().enumerate().map(|(at, value)| (index(at), value)).collect()
        }
        Shape::Simple | Shape::Counter => Vec::new(),
    })
}

/// Serializes a partition key as its token requires.
fn serialized_key(key: &[Bytes]) -> Vec<u8> {
    if let [only] = key {
        return only.to_vec();
    }
    let mut out = Vec::new();
    for value in key {
        out.extend_from_slice(&u16::try_from(value.len()).unwrap_or(u16::MAX).to_be_bytes());
        out.extend_from_slice(value);
        out.push(0);
    }
    out
}
