//! A captured change as statements that have the same effect: every cell, marker and deletion with
//! its write timestamp, and expirations to the second.
//!
//! | of the change | statement |
//! | --- | --- |
//! | deletion of a partition, a range or a row | `DELETE FROM t USING TIMESTAMP ? WHERE …` |
//! | marker of an inserted row | `INSERT INTO t (keys) VALUES (…) USING TIMESTAMP ? AND TTL ?` |
//! | deletion of a collection or of a user-defined type | `DELETE c FROM t USING TIMESTAMP ? WHERE …` |
//! | cells | `UPDATE t USING TIMESTAMP ? AND TTL ? SET c = ?, u.f = ?, s = s + ? WHERE …`; null deletes one |
//! | deleted elements of sets and maps | `UPDATE t USING TIMESTAMP ? SET s = s - ? WHERE …` |
//!
//! Because the statements bear their timestamps, their order does not matter, and they can be
//! repeated. Not so appends to lists, whose elements get new ids each time, and increments of
//! counters: tables with these are refused.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use cassette_database::Change;
use cassette_protocol::Value;
use cassette_rows::types::quote_identifier;
use cassette_rows::{
    Cell, DataType, DeletionTime, Layout, PartitionUpdate, RangeTombstone, Row, TableMetadata, key,
};

use super::ranges::{SliceRestriction, restrictions};
use crate::cell::{encode_list, encode_map};
use crate::error::{Result, unsuitable};
use crate::schema::{Column, Kind, Shape, Table};

/// A value to bind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    Unset,
    Null,
    Set(Bytes),
}

impl Input {
    pub fn value(&self) -> Value<'_> {
        match self {
            Self::Unset => Value::Unset,
            Self::Null => Value::Null,
            Self::Set(bytes) => Value::Set(bytes),
        }
    }
}

/// A statement with its values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    pub text: String,
    pub values: Vec<Input>,
    /// The time from which the TTL counts, in seconds since 1970; `None` without a TTL.
    pub now: Option<u32>,
}

/// Creates the statements of changes of one table.
pub struct ChangeStatements {
    pub table: Table,
    quoted: String,
    keys: Vec<String>,
    clusterings: Vec<String>,
    /// The names of all columns, hidden ones, too.
    stored: BTreeSet<String>,
    /// Whether a hidden column is the only one besides the key.
    has_hidden_value: bool,
}

/// Cells that one UPDATE writes: their timestamp, and TTL and expiration if they expire.
type Times = (i64, Option<(u32, u32)>);

impl ChangeStatements {
    pub fn new(table: Table) -> Self {
        let has_hidden_value = table.layout != Layout::StaticCompact
            && table.columns.iter().any(|column| table.is_hidden(column));
        let stored = table.columns.iter().map(|column| column.name.clone()).collect();
        let table = table.as_written();
        let names = |kind| {
            let quoted = |column: &Column| quote_identifier(&column.name).into_owned();
            table.columns(kind).map(quoted).collect::<Vec<_>>()
        };
        Self {
            quoted: table.quoted(),
            keys: names(Kind::PartitionKey),
            clusterings: names(Kind::Clustering),
            stored,
            has_hidden_value,
            table,
        }
    }

    /// Returns the statements of a change, in any order.
    ///
    /// # Errors
    /// If the table has changed since the move started.
    pub fn of(&self, change: &Change) -> Result<Vec<Applied>> {
        let Change { table, update } = change;
        self.check(table)?;
        let of_change = OfChange { statements: self, table, key: self.key(update)? };
        let mut out = Vec::new();
        if !update.deletion.is_live() {
            out.push(of_change.delete("", &[], update.deletion));
        }
        for tombstone in update.range_tombstones.as_slice() {
            of_change.delete_range(tombstone, &mut out)?;
        }
        if let Some(row) = &update.static_row {
            let is_compact = self.table.layout == Layout::StaticCompact;
            let kind = if is_compact { Kind::Regular } else { Kind::Static };
            of_change.row_content(kind, row, &[], &mut out)?;
        }
        for row in &update.rows {
            let clustering = self.clustering(row)?;
            if self.has_hidden_value {
                of_change.hidden_value(row, &clustering, &mut out)?;
                continue;
            }
            if !row.deletion().is_live() {
                out.push(of_change.delete("", &clustering, row.deletion()));
            }
            let liveness = row.liveness();
            if !liveness.is_empty() {
                let expiration = liveness.is_expiring().then_some((liveness.ttl, liveness.local_expiration));
                out.push(of_change.insert(&clustering, (liveness.timestamp, expiration)));
            }
            of_change.row_content(Kind::Regular, row, &clustering, &mut out)?;
        }
        Ok(out)
    }

    /// Returns the values of a row's clustering columns, without the last ones if they are null,
    /// which they can be in a table WITH COMPACT STORAGE.
    fn clustering(&self, row: &Row) -> Result<Vec<Input>> {
        let values = row.clustering().values();
        let (count, all) = (values.len(), self.clusterings.len());
        let present: Vec<Input> = values.map_while(|value| value.map(set)).collect();
        let may_be_null = self.table.layout == Layout::DenseCompound && !present.is_empty();
        if count != all || (present.len() < all && !may_be_null) {
            return self.changed("a row without all clustering values");
        }
        Ok(present)
    }

    /// Checks that the target's table can store changes of this version of the source's.
    fn check(&self, table: &TableMetadata) -> Result<()> {
        let id = format!("{}", table.id.0.simple());
        if id != self.table.id {
            return self.changed("it was dropped and created again");
        }
        match table.columns.iter().flatten().find(|column| !self.stored.contains(&column.name)) {
            Some(column) => self.changed(&format!("column {} was added", column.name)),
            None => Ok(()),
        }
    }

    fn changed<T>(&self, how: &str) -> Result<T> {
        unsuitable(format!(
            "table {} has changed since the move started ({how}): start again with another --progress file, \
             into empty keyspaces",
            self.quoted
        ))
    }

    fn key(&self, update: &PartitionUpdate) -> Result<Vec<Input>> {
        match key::components(update.key.key(), self.keys.len()) {
            Some(values) => Ok(values.into_iter().map(set).collect()),
            None => self.changed("another partition key"),
        }
    }
}

/// Creates the statements of one change.
struct OfChange<'a> {
    statements: &'a ChangeStatements,
    table: &'a TableMetadata,
    key: Vec<Input>,
}

impl OfChange<'_> {
    /// Returns the restrictions of the partition key, or of a row's whole key.
    fn restrictions(&self, clustering: &[Input]) -> String {
        let ChangeStatements { keys, clusterings, .. } = self.statements;
        let columns = keys.iter().chain(&clusterings[..clustering.len()]);
        columns.map(|name| format!("{name} = ?")).collect::<Vec<_>>().join(" AND ")
    }

    /// Deletes a partition or, with clustering values, a row. `target` is empty for all of it, or a
    /// column followed by a space.
    fn delete(&self, target: &str, clustering: &[Input], deletion: DeletionTime) -> Applied {
        let (quoted, of_row) = (&self.statements.quoted, self.restrictions(clustering));
        let text = format!("DELETE {target}FROM {quoted} USING TIMESTAMP ? WHERE {of_row}");
        let mut values = vec![timestamp(deletion.timestamp)];
        values.extend(self.key.iter().chain(clustering).cloned());
        Applied { text, values, now: None }
    }

    fn delete_range(&self, tombstone: &RangeTombstone, out: &mut Vec<Applied>) -> Result<()> {
        let Some(found) = restrictions(tombstone) else {
            return self.statements.changed("a null clustering value");
        };
        for restriction in found {
            // Without any restriction, the statement would delete the static columns, too.
            let parts = match &restriction {
                SliceRestriction { equal, lower: None, upper: None } if equal.is_empty() => self.whole()?,
                _ => vec![restriction],
            };
            for part in parts {
                out.push(self.delete_slice(&part, tombstone.deletion)?);
            }
        }
        Ok(())
    }

    /// Returns two slices that together cover all rows.
    fn whole(&self) -> Result<Vec<SliceRestriction>> {
        let data_type = self.table.clustering.first().map(|column| &column.data_type);
        let Some(middle) = data_type.and_then(some_value) else {
            return self.statements.changed("a range without bounds");
        };
        let upper = SliceRestriction { upper: Some((middle.clone(), true)), ..SliceRestriction::default() };
        let lower = SliceRestriction { lower: Some((middle, false)), ..SliceRestriction::default() };
        Ok(vec![upper, lower])
    }

    fn delete_slice(&self, slice: &SliceRestriction, deletion: DeletionTime) -> Result<Applied> {
        let equal: Vec<Input> = slice.equal.iter().map(|value| set(value)).collect();
        if equal.len() > self.statements.clusterings.len() {
            return self.statements.changed("another clustering");
        }
        let mut applied = self.delete("", &equal, deletion);
        let ends = [(&slice.lower, [">", "<"]), (&slice.upper, ["<", ">"])];
        for ((value, inclusive), operators) in
            ends.into_iter().filter_map(|(end, operators)| Some((end.as_ref()?, operators)))
        {
            let column = self.table.clustering.get(equal.len());
            let (Some(column), Some(name)) = (column, self.statements.clusterings.get(equal.len())) else {
                return self.statements.changed("another clustering");
            };
            let operator = operators[usize::from(column.reversed)];
            let or_equal = if *inclusive { "=" } else { "" };
            applied.text.push_str(&format!(" AND {name} {operator}{or_equal} ?"));
            applied.values.push(set(value));
        }
        Ok(applied)
    }

    /// Adds the statements of a row whose only cell is hidden.
    fn hidden_value(&self, row: &Row, clustering: &[Input], out: &mut Vec<Applied>) -> Result<()> {
        for cell in row.cells() {
            if !cell.is_tombstone() {
                let expiration = cell.is_expiring().then_some((cell.ttl, cell.local_deletion_time));
                out.push(self.insert(clustering, (cell.timestamp, expiration)));
            } else if clustering.len() == self.statements.clusterings.len() {
                let deletion = DeletionTime::new(cell.timestamp, cell.local_deletion_time);
                out.push(self.delete("", clustering, deletion));
            } else {
                return self.statements.changed("a deleted row without all clustering values");
            }
        }
        Ok(())
    }

    fn insert(&self, clustering: &[Input], times: Times) -> Applied {
        let ChangeStatements { keys, clusterings, quoted, .. } = self.statements;
        let clusterings = &clusterings[..clustering.len()];
        let names: Vec<&str> = keys.iter().chain(clusterings).map(String::as_str).collect();
        let marks = vec!["?"; names.len()].join(", ");
        let names = names.join(", ");
        let text = format!("INSERT INTO {quoted} ({names}) VALUES ({marks}) USING TIMESTAMP ? AND TTL ?");
        let (of_times, now) = using(times);
        let values = self.key.iter().chain(clustering).cloned().chain(of_times).collect();
        Applied { text, values, now }
    }

    /// Adds the statements of deletions of complex columns, and of cells.
    fn row_content(&self, kind: Kind, row: &Row, clustering: &[Input], out: &mut Vec<Applied>) -> Result<()> {
        let name = |id| match self.table.column_by_id(id) {
            Some(column) => Ok(column.name.as_str()),
            None => self.statements.changed("an unknown column"),
        };
        for (id, deletion) in row.complex_deletions() {
            let target = format!("{} ", quote_identifier(name(*id)?));
            out.push(self.delete(&target, clustering, *deletion));
        }
        let columns: Vec<&Column> = self.statements.table.columns(kind).collect();
        let mut written: BTreeMap<Times, Vec<(usize, Cell<'_>)>> = BTreeMap::new();
        let mut removed: BTreeMap<(usize, i64), Vec<Bytes>> = BTreeMap::new();
        for cell in row.cells() {
            let name = name(cell.column)?;
            let Some(at) = columns.iter().position(|column| column.name == name) else {
                return self.statements.changed("a column in another part of the row");
            };
            let is_element = matches!(columns[at].shape, Shape::Set | Shape::Map);
            match cell.path {
                Some(path) if is_element && cell.is_tombstone() => {
                    let paths = removed.entry((at, cell.timestamp)).or_default();
                    paths.push(Bytes::copy_from_slice(path));
                }
                _ => {
                    let expiration = cell.is_expiring().then_some((cell.ttl, cell.local_deletion_time));
                    written.entry((cell.timestamp, expiration)).or_default().push((at, cell));
                }
            }
        }
        let (quoted, of_row) = (&self.statements.quoted, self.restrictions(clustering));
        let assignments = assignments(&columns);
        for (times, cells) in written {
            let (mut values, now) = using(times);
            for (at, column) in columns.iter().enumerate() {
                let of_column: Vec<&Cell<'_>> =
                    cells.iter().filter(|(of, _)| *of == at).map(|(_, cell)| cell).collect();
                bind(&column.shape, &of_column, &mut values);
            }
            values.extend(self.key.iter().chain(clustering).cloned());
            let text =
                format!("UPDATE {quoted} USING TIMESTAMP ? AND TTL ? SET {assignments} WHERE {of_row}");
            out.push(Applied { text, values, now });
        }
        for ((at, written), paths) in removed {
            let name = quote_identifier(&columns[at].name);
            let text = format!("UPDATE {quoted} USING TIMESTAMP ? SET {name} = {name} - ? WHERE {of_row}");
            let mut values = vec![timestamp(written), Input::Set(encode_list(paths.iter()))];
            values.extend(self.key.iter().chain(clustering).cloned());
            out.push(Applied { text, values, now: None });
        }
        Ok(())
    }
}

/// Returns the assignments of all columns, in order.
fn assignments(columns: &[&Column]) -> String {
    let mut out = Vec::new();
    for column in columns {
        let name = quote_identifier(&column.name);
        match &column.shape {
            Shape::Udt(fields) => {
                out.extend(fields.iter().map(|field| format!("{name}.{} = ?", quote_identifier(field))));
            }
            Shape::Set | Shape::Map => out.push(format!("{name} = {name} + ?")),
            // Tables with lists and counters are refused.
            Shape::Simple | Shape::List | Shape::Counter => out.push(format!("{name} = ?")),
        }
    }
    out.join(", ")
}

/// Adds the values of a column's assignments.
fn bind(shape: &Shape, cells: &[&Cell<'_>], values: &mut Vec<Input>) {
    let of_cell = |cell: &Cell<'_>| if cell.is_tombstone() { Input::Null } else { set(cell.value) };
    let path = |cell: &&Cell<'_>| Bytes::copy_from_slice(cell.path.unwrap_or_default());
    match shape {
        Shape::Udt(fields) => values.extend((0..fields.len()).map(|field| {
            let place = u16::try_from(field).unwrap_or(u16::MAX).to_be_bytes();
            let cell = cells.iter().find(|cell| cell.path == Some(&place[..]));
            cell.map_or(Input::Unset, |cell| of_cell(cell))
        })),
        _ if cells.is_empty() => values.push(Input::Unset),
        Shape::Simple | Shape::List | Shape::Counter => values.push(of_cell(cells[0])),
        Shape::Set => {
            let paths: Vec<Bytes> = cells.iter().map(path).collect();
            values.push(Input::Set(encode_list(paths.iter())));
        }
        Shape::Map => {
            let pairs: Vec<(Bytes, Bytes)> =
                cells.iter().map(|cell| (path(cell), Bytes::copy_from_slice(cell.value))).collect();
            values.push(Input::Set(encode_map(pairs.iter().map(|(key, value)| (key, value)))));
        }
    }
}

fn set(value: &[u8]) -> Input {
    Input::Set(Bytes::copy_from_slice(value))
}

fn timestamp(timestamp: i64) -> Input {
    set(&timestamp.to_be_bytes())
}

/// Returns the values of `USING TIMESTAMP ? AND TTL ?`, and the time from which the TTL counts. 0
/// overrides the table's default.
fn using((written, expiration): Times) -> (Vec<Input>, Option<u32>) {
    let now = expiration.map(|(ttl, expires)| expires.saturating_sub(ttl));
    let ttl = expiration.zip(now).map_or(0, |((_, expires), now)| expires - now);
    let ttl = i32::try_from(ttl).unwrap_or(i32::MAX);
    (vec![timestamp(written), set(&ttl.to_be_bytes())], now)
}

/// Returns a value of a type; `None` if none of a few is one.
fn some_value(data_type: &DataType) -> Option<Vec<u8>> {
    let lengths = [1, 2, 4, 8, 12, 16, 0];
    let candidates = lengths.into_iter().map(|length| vec![0; length]);
    // The first byte of a version 1 UUID's time, as time UUIDs need it.
    let time_uuid = vec![0, 0, 0, 0, 0, 0, 0x10, 0, 0x80, 0, 0, 0, 0, 0, 0, 0];
    candidates.chain([time_uuid]).find(|value| data_type.validate(value).is_ok())
}
