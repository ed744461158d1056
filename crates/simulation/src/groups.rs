//! Reads of several partitions by IN, and of groups and aggregates, each compared with the model.

use std::collections::{BTreeMap, BTreeSet};

use rand::RngExt;

use crate::model::Key;
use crate::reads::list;
use crate::schema::{Column, Kind, Row, Shape};
use crate::simulation::Simulation;
use crate::statements::{Statements, Writer};
use crate::value::{Type, Val};

impl Simulation {
    /// Reads all partitions with keys of some values, by IN.
    pub(crate) fn read_keys(&mut self) -> Result<(), String> {
        let Some(table) = self.some_table() else { return Ok(()) };
        let shape = self.model.tables[&table].shape.clone();
        let mut writer = Writer::new(self.one_in(2));
        let drawn: Vec<Key> = {
            let (table, random) = (&self.model.tables[&table], &mut self.random);
            let mut statements = Statements { table, random, expires_from: None, number: 0 };
            (0..3).map(|_| statements.key()).collect()
        };
        let mut conditions = Vec::new();
        let mut keys: BTreeSet<Key> = BTreeSet::from([Vec::new()]);
        for (at, column) in shape.partition_key().into_iter().enumerate() {
            let count = self.random.random_range(1..=drawn.len());
            let values: Vec<&Val> = drawn[..count].iter().map(|key| &key[at]).collect();
            let texts: Vec<String> = values.iter().map(|value| writer.value(Some(value))).collect();
            conditions.push(format!("{} IN ({})", column.name, texts.join(", ")));
            let with = |key: &Key| {
                values.iter().map(|value| [key.as_slice(), &[(*value).clone()]].concat()).collect::<Vec<_>>()
            };
            keys = keys.iter().flat_map(with).collect();
        }
        let text = format!("SELECT {} FROM {table} WHERE {}", shape.column_list(), conditions.join(" AND "));
        let cql = writer.with_text(text);
        let Some(seen) = self.select(&cql, &shape.columns)? else { return Ok(()) };
        let mut by_key: BTreeMap<Key, Vec<Row>> = BTreeMap::new();
        for rows in seen.chunk_by(|left, right| key_of(&shape, left) == key_of(&shape, right)) {
            let key = key_of(&shape, &rows[0]);
            if !keys.contains(&key) || by_key.insert(key, rows.to_vec()).is_some() {
                return Err(format!("{}: a partition twice, or another one:\n{}", cql.text, list(&seen)));
            }
        }
        for key in keys {
            let rows = by_key.remove(&key).unwrap_or_default();
            self.observe(&table, &key, &cql, |rows| rows, &rows)?;
        }
        Ok(())
    }

    /// Aggregates of a partition's rows: of all, or by the leading clustering columns.
    pub(crate) fn read_groups(&mut self) -> Result<(), String> {
        let Some(table) = self.some_table() else { return Ok(()) };
        let shape = self.model.tables[&table].shape.clone();
        let mut writer = Writer::new(self.one_in(2));
        let (key, at) = {
            let (table, random) = (&self.model.tables[&table], &mut self.random);
            let mut statements = Statements { table, random, expires_from: None, number: 0 };
            let key = statements.key();
            let at = statements.at(&mut writer, &key, &[]);
            (key, at)
        };
        let grouped = self.random.random_range(0..=shape.clustering().len());
        // Without GROUP BY, a result of no rows still has a row of aggregates.
        let is_grouped = grouped > 0 || self.one_in(2);
        let by = shape.partition_key().len() + grouped;
        let limit = self.one_in(4).then(|| self.random.random_range(1..4)).filter(|_| is_grouped);
        let aggregates = Aggregates::of(&shape);
        let by_columns: Vec<Column> = if is_grouped { shape.columns[..by].to_vec() } else { Vec::new() };
        let names: Vec<&str> = by_columns.iter().map(|column| column.name.as_str()).collect();
        let terms = names.iter().map(|name| (*name).to_owned()).chain(aggregates.terms.clone());
        let mut text = format!("SELECT {} FROM {table} WHERE {at}", terms.collect::<Vec<_>>().join(", "));
        if is_grouped {
            text.push_str(&format!(" GROUP BY {}", names.join(", ")));
        }
        if let Some(limit) = limit {
            text.push_str(&format!(" LIMIT {limit}"));
        }
        let columns: Vec<Column> = by_columns.iter().cloned().chain(aggregates.columns.clone()).collect();
        let cql = writer.with_text(text);
        let Some(seen) = self.select(&cql, &columns)? else { return Ok(()) };
        let project = |rows: Vec<Row>| -> Vec<Row> {
            if !is_grouped {
                return vec![aggregates.row(&rows)];
            }
            let groups = rows.chunk_by(|left, right| left[..by] == right[..by]);
            let group = |rows: &[Row]| [&rows[0][..by], &aggregates.row(rows)].concat();
            groups.map(group).take(limit.unwrap_or(usize::MAX)).collect()
        };
        self.observe(&table, &key, &cql, project, &seen)
    }

    /// The partitions of a table with their static values.
    pub(crate) fn read_distinct(&mut self, table: &str) -> Result<(), String> {
        if self.model.is_open(table) {
            return Ok(());
        }
        let shape = self.model.tables[table].shape.clone();
        let of_partition = |column: &Column| matches!(column.kind, Kind::Partition | Kind::Static);
        let columns: Vec<Column> = shape.columns.iter().filter(|c| of_partition(c)).cloned().collect();
        let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        let text = format!("SELECT DISTINCT {} FROM {table}", names.join(", "));
        let now = self.node.now_seconds();
        let Some(seen) = self.select(&crate::wire::Cql::plain(text.clone()), &columns)? else {
            return Ok(());
        };
        let project = |row: Row| -> Row {
            let cells = row.into_iter().zip(&shape.columns).filter(|(_, column)| of_partition(column));
            cells.map(|(cell, _)| cell).collect()
        };
        let mut expected: Vec<Row> = self.model.scan(table, now).into_iter().map(project).collect();
        expected.dedup();
        if seen == expected {
            return Ok(());
        }
        Err(format!("{text}: found\n{}expected\n{}", list(&seen), list(&expected)))
    }
}

fn key_of(shape: &Shape, row: &Row) -> Key {
    row[..shape.partition_key().len()].iter().flatten().cloned().collect()
}

/// Compares aggregates of a table: the number of rows, and those of its first numeric column.
struct Aggregates {
    terms: Vec<String>,
    columns: Vec<Column>,
    /// The column of numbers.
    position: Option<usize>,
}

impl Aggregates {
    fn of(shape: &Shape) -> Self {
        let mut all = Self { terms: Vec::new(), columns: Vec::new(), position: None };
        all.add("COUNT(*)", Type::Counter);
        let is_number = |column: &Column| {
            matches!(column.kind, Kind::Regular | Kind::Static) && column.data_type == Type::Int
        };
        all.position = shape.columns.iter().position(is_number);
        if let Some(position) = all.position {
            let name = &shape.columns[position].name;
            all.add(&format!("COUNT({name})"), Type::Counter);
            for function in ["MIN", "MAX", "SUM"] {
                all.add(&format!("{function}({name})"), Type::Int);
            }
        }
        all
    }

    fn add(&mut self, term: &str, data_type: Type) {
        self.terms.push(term.to_owned());
        self.columns.push(Column { name: term.to_owned(), kind: Kind::Regular, data_type });
    }

    /// The aggregates of some rows.
    fn row(&self, rows: &[Row]) -> Row {
        let count = |count: usize| Some(Val::Count(count as i64));
        let mut row = vec![count(rows.len())];
        let Some(position) = self.position else { return row };
        let numbers: Vec<i32> = rows
            .iter()
            .filter_map(|row| match &row[position] {
                Some(Val::Int(number)) => Some(*number),
                _ => None,
            })
            .collect();
        row.push(count(numbers.len()));
        row.push(numbers.iter().min().copied().map(Val::Int));
        row.push(numbers.iter().max().copied().map(Val::Int));
        row.push(Some(Val::Int(numbers.iter().sum())));
        row
    }
}
