//! Random statements, each with its effect on the model.

use std::collections::{BTreeMap, BTreeSet};

use rand::RngExt;
use rand::rngs::SmallRng;

use crate::model::partition::{Clustering, Effect, Expiry, Range};
use crate::model::{Key, Table};
use crate::schema::{Column, Kind, Row, Shape, Stamps};
use crate::value::{FIELDS, Type, Val};
use crate::wire::Cql;

/// Number of distinct values of an integer key or column.
pub const DOMAIN: i32 = 5;

/// A condition of a conditional write.
#[derive(Debug, Clone)]
pub enum Condition {
    /// `IF NOT EXISTS`
    NotExists,
    /// `IF EXISTS`
    Exists,
    /// `IF column = value`
    Equals(String, Option<Val>),
}

/// A write of one partition.
#[derive(Debug, Clone)]
pub struct Change {
    /// `keyspace.table`
    pub table: String,
    /// The partition.
    pub key: Key,
    /// Its effects if it is applied; timestamps relative to that of the statement.
    pub effects: Vec<(i64, Effect)>,
    /// The statement.
    pub cql: Cql,
    /// Condition under which it is applied.
    pub condition: Option<(Clustering, Condition)>,
}

impl Change {
    /// Returns whether the condition holds on these rows of the partition.
    pub fn applies(&self, shape: &Shape, rows: &[Row]) -> bool {
        let Some((clustering, condition)) = &self.condition else { return true };
        let keys = shape.partition_key().len();
        let row = rows.iter().find(|row| {
            let of_row = row[keys..keys + clustering.len()].iter();
            of_row.eq(clustering.iter().cloned().map(Some).collect::<Vec<_>>().iter())
        });
        // A partition without rows but with static values shows a row without clustering.
        match condition {
            Condition::NotExists => row.is_none(),
            Condition::Exists => row.is_some(),
            Condition::Equals(column, value) => {
                let position = shape.position(column).unwrap_or(0);
                row.and_then(|row| row[position].clone()) == *value
            }
        }
    }
}

/// Draws statements for one table.
pub struct Statements<'a> {
    /// The table.
    pub table: &'a Table,
    /// Source of randomness.
    pub random: &'a mut SmallRng,
    /// The second in which the statement is executed, if values may expire.
    pub expires_from: Option<i64>,
    /// A number that makes texts distinct.
    pub number: u64,
}

impl Statements<'_> {
    fn one_in(&mut self, n: u32) -> bool {
        self.random.random_range(0..n) == 0
    }

    /// A partition key.
    pub fn key(&mut self) -> Key {
        let types: Vec<Type> =
            self.table.shape.partition_key().iter().map(|column| column.data_type).collect();
        types.into_iter().map(|data_type| self.key_value(data_type)).collect()
    }

    fn clustering(&mut self) -> Clustering {
        let types: Vec<Type> = self.table.shape.clustering().iter().map(|column| column.data_type).collect();
        types.into_iter().map(|data_type| self.key_value(data_type)).collect()
    }

    fn key_value(&mut self, data_type: Type) -> Val {
        let number = self.random.random_range(0..DOMAIN);
        match data_type {
            Type::Text => Val::Text(["a", "b", "bb", "c", "cc"][number as usize].to_owned()),
            _ => Val::Int(number),
        }
    }

    fn value(&mut self, data_type: Type) -> Val {
        let number = self.random.random_range(0..DOMAIN);
        match data_type {
            Type::Int => Val::Int(number),
            Type::Text => {
                let padding = if self.one_in(8) { "x".repeat(700) } else { String::new() };
                Val::Text(format!("n{}{padding}", self.number))
            }
            Type::FrozenList | Type::List => {
                let length = self.random.random_range(0..3);
                Val::List((0..length).map(|at| number + at).collect())
            }
            Type::Set => {
                let length = self.random.random_range(0..4);
                Val::Set((0..length).map(|_| self.random.random_range(0..DOMAIN)).collect())
            }
            Type::Map => {
                let length = self.random.random_range(0..4);
                let pairs = (0..length)
                    .map(|_| (self.random.random_range(0..DOMAIN), self.random.random_range(0..DOMAIN)));
                Val::Map(pairs.collect())
            }
            Type::Udt(fields) | Type::FrozenUdt(fields) => {
                let field = |_| (!self.one_in(4)).then(|| self.random.random_range(0..DOMAIN));
                Val::Udt((0..fields).map(field).collect())
            }
            Type::Counter => Val::Count(i64::from(number)),
        }
    }

    /// A write of any kind, without a condition.
    pub fn change(&mut self) -> Change {
        if self.table.shape.is_counter() {
            return self.add();
        }
        match self.random.random_range(0..16) {
            0..=6 => self.insert(false),
            7..=11 => self.update(false),
            12 => self.delete_columns(),
            13 => self.delete_row(false),
            14 => self.delete_range(),
            _ => self.delete_partition(),
        }
    }

    /// A conditional write.
    pub fn conditional(&mut self) -> Change {
        match self.random.random_range(0..4) {
            0 | 1 => self.insert(true),
            2 => self.update(true),
            _ => self.delete_row(true),
        }
    }

    /// The timestamp of a statement with a client's timestamp.
    pub fn client_stamp(&mut self) -> Option<i64> {
        (self.table.shape.stamps == Stamps::Client).then(|| self.random.random_range(1..40) * 10)
    }

    fn finish(&self, writer: Writer, key: Key, effects: Vec<(i64, Effect)>) -> Change {
        Change { table: self.table.shape.name.clone(), key, effects, cql: writer.finish(), condition: None }
    }

    fn columns(&mut self, wanted: impl Fn(&Column) -> bool) -> Vec<Column> {
        let columns: Vec<Column> =
            self.table.shape.values().into_iter().filter(|c| wanted(c)).cloned().collect();
        let some: Vec<Column> =
            columns.iter().filter(|_| self.random.random_range(0..3) != 0).cloned().collect();
        if some.is_empty() { columns.into_iter().take(1).collect() } else { some }
    }

    fn expiry(&mut self) -> Option<(i64, Expiry)> {
        let now = self.expires_from?;
        self.one_in(3).then(|| {
            let ttl = i64::from(self.random.random_range(2..30));
            (ttl, Expiry { at: now + ttl })
        })
    }

    /// Returns the position of a list element that this statement adds, after all earlier ones.
    fn place(&self, element: usize) -> i32 {
        /// Exceeds the number of elements that a statement adds.
        const ELEMENTS_MAX: i32 = 8;
        self.number as i32 * ELEMENTS_MAX + element as i32
    }

    /// Returns the effects of assigning a complete value to a column.
    fn assign(
        &self,
        column: &Column,
        clustering: &Clustering,
        value: Option<Val>,
        expiry: Option<Expiry>,
    ) -> Vec<(i64, Effect)> {
        let row = (column.kind != Kind::Static).then(|| clustering.clone());
        let cell = |path: Option<i32>, value: Option<Val>| {
            // A deletion does not expire.
            let expiry = expiry.filter(|_| value.is_some());
            let effect =
                Effect::Cell { clustering: row.clone(), column: column.name.clone(), path, value, expiry };
            (0, effect)
        };
        if !column.data_type.is_complex() {
            return vec![cell(None, value)];
        }
        let mut effects =
            vec![(-1, Effect::DeleteComplex { clustering: row.clone(), column: column.name.clone() })];
        match value {
            Some(Val::Set(set)) => {
                effects
                    .extend(set.iter().map(|element| cell(Some(*element), Some(Val::Text(String::new())))));
            }
            Some(Val::List(list)) => {
                let cells = list.iter().enumerate();
                effects.extend(cells.map(|(at, value)| cell(Some(self.place(at)), Some(Val::Int(*value)))));
            }
            Some(Val::Udt(values)) => {
                let fields = values.iter().enumerate().filter_map(|(at, value)| Some((at, (*value)?)));
                effects.extend(fields.map(|(at, value)| cell(Some(at as i32), Some(Val::Int(value)))));
            }
            Some(Val::Map(map)) => {
                effects.extend(map.iter().map(|(key, value)| cell(Some(*key), Some(Val::Int(*value)))));
            }
            _ => {}
        }
        effects
    }

    fn insert(&mut self, conditional: bool) -> Change {
        let key = self.key();
        let clustering = self.clustering();
        // Without clustering columns there are no static ones.
        let only_static = !conditional
            && self.table.shape.columns.iter().any(|column| column.kind == Kind::Static)
            && self.one_in(6);
        let columns = self.columns(|column| if only_static { column.kind == Kind::Static } else { true });
        let expiry = self.expiry();
        let mut writer = Writer::new(self.one_in(2));
        let mut effects = Vec::new();
        let mut names: Vec<String> = Vec::new();
        let mut values: Vec<String> = Vec::new();
        let shape = &self.table.shape;
        let key_names = shape.partition_key().into_iter().zip(&key);
        let row_names = shape.clustering().into_iter().zip(&clustering);
        let row_names: Vec<_> =
            if only_static { key_names.collect() } else { key_names.chain(row_names).collect() };
        for (column, value) in row_names {
            names.push(column.name.clone());
            values.push(writer.value(Some(value)));
        }
        if !only_static {
            effects.push((0, Effect::Liveness(clustering.clone(), expiry.map(|(_, expiry)| expiry))));
        }
        for column in columns {
            let value = if self.one_in(8) { None } else { Some(self.value(column.data_type)) };
            names.push(column.name.clone());
            values.push(writer.value(value.as_ref()));
            effects.extend(self.assign(&column, &clustering, value, expiry.map(|(_, expiry)| expiry)));
        }
        let condition = if conditional { " IF NOT EXISTS" } else { "" };
        let (names, values) = (names.join(", "), values.join(", "));
        writer.text = format!("INSERT INTO {} ({names}) VALUES ({values}){condition}", self.table.shape.name);
        let ttl = expiry.map(|(ttl, _)| ttl);
        writer.using(ttl, !conditional, |text, using| format!("{text}{using}"));
        let mut change = self.finish(writer, key, effects);
        change.condition = conditional.then_some((clustering, Condition::NotExists));
        change
    }

    /// Assigns a column, or changes elements of a collection. Returns the assignment in CQL, and
    /// its effects.
    fn assignment(
        &mut self,
        writer: &mut Writer,
        column: &Column,
        clustering: &Clustering,
        expiry: Option<Expiry>,
    ) -> (String, Vec<(i64, Effect)>) {
        let row = Some(clustering.clone());
        let name = &column.name;
        let cell = |path, value: Option<Val>| {
            let expiry = expiry.filter(|_| value.is_some());
            (0, Effect::Cell { clustering: row.clone(), column: name.clone(), path, value, expiry })
        };
        match column.data_type {
            Type::Set if self.one_in(2) => {
                let removes = self.one_in(3);
                let element = self.random.random_range(0..DOMAIN);
                let set = writer.value(Some(&Val::Set(BTreeSet::from([element]))));
                let sign = if removes { '-' } else { '+' };
                let element = cell(Some(element), (!removes).then(|| Val::Text(String::new())));
                (format!("{name} = {name} {sign} {set}"), vec![element])
            }
            Type::Map if self.one_in(2) => {
                let path = self.random.random_range(0..DOMAIN);
                let value = (!self.one_in(4)).then(|| self.random.random_range(0..DOMAIN));
                let assignment = if let (Some(value), true) = (value, self.one_in(2)) {
                    let map = writer.value(Some(&Val::Map(BTreeMap::from([(path, value)]))));
                    format!("{name} = {name} + {map}")
                } else {
                    let at = writer.value(Some(&Val::Int(path)));
                    let value = writer.value(value.map(Val::Int).as_ref());
                    format!("{name}[{at}] = {value}")
                };
                (assignment, vec![cell(Some(path), value.map(Val::Int))])
            }
            Type::Udt(fields) if self.one_in(2) => {
                let field = self.random.random_range(0..fields);
                let value = (!self.one_in(4)).then(|| Val::Int(self.random.random_range(0..DOMAIN)));
                let written = writer.value(value.as_ref());
                let assignment = format!("{name}.{} = {written}", FIELDS[usize::from(field)]);
                (assignment, vec![cell(Some(i32::from(field)), value)])
            }
            Type::List if self.one_in(2) => {
                let drawn = self.value(Type::List);
                let list = if let Val::List(list) = &drawn { list.clone() } else { Vec::new() };
                let (length, prepends) = (list.len(), self.one_in(2));
                let added = writer.value(Some(&drawn));
                let assignment = if prepends {
                    format!("{name} = {added} + {name}")
                } else {
                    format!("{name} = {name} + {added}")
                };
                let elements = list.into_iter().enumerate().map(|(at, value)| {
                    // The element prepended last is the first of the list.
                    let place = if prepends { -self.place(length - at) } else { self.place(at) };
                    cell(Some(place), Some(Val::Int(value)))
                });
                (assignment, elements.collect())
            }
            data_type => {
                let value = if self.one_in(8) { None } else { Some(self.value(data_type)) };
                let assignment = format!("{name} = {}", writer.value(value.as_ref()));
                (assignment, self.assign(column, clustering, value, expiry))
            }
        }
    }

    fn update(&mut self, conditional: bool) -> Change {
        let (key, clustering) = (self.key(), self.clustering());
        let columns = self.columns(|column| column.kind == Kind::Regular);
        let expiry = self.expiry();
        let (ttl, expiry) = (expiry.map(|(ttl, _)| ttl), expiry.map(|(_, expiry)| expiry));
        let mut writer = Writer::new(self.one_in(2));
        let mut effects = Vec::new();
        let mut assignments = Vec::new();
        for column in columns {
            let (assignment, of_column) = self.assignment(&mut writer, &column, &clustering, expiry);
            assignments.push(assignment);
            effects.extend(of_column);
        }
        let condition = if conditional { Some(self.condition()) } else { None };
        let at = self.at(&mut writer, &key, &clustering);
        writer.text = format!("UPDATE {} SET {} WHERE {at}", self.table.shape.name, assignments.join(", "));
        let name = self.table.shape.name.clone();
        writer.using(ttl, !conditional, |text, using| {
            text.replacen(&format!("UPDATE {name}"), &format!("UPDATE {name}{using}"), 1)
        });
        writer.condition(&condition);
        let mut change = self.finish(writer, key, effects);
        change.condition = condition.map(|condition| (clustering, condition));
        change
    }

    fn condition(&mut self) -> Condition {
        let simple = |column: &&Column| column.kind == Kind::Regular && column.data_type == Type::Int;
        let columns = self.table.shape.columns.clone();
        match columns.iter().find(simple) {
            Some(column) if !self.one_in(3) => {
                let value = (!self.one_in(4)).then(|| self.value(Type::Int));
                Condition::Equals(column.name.clone(), value)
            }
            _ => Condition::Exists,
        }
    }

    fn add(&mut self) -> Change {
        let (key, clustering) = (self.key(), self.clustering());
        let columns = self.columns(|_| true);
        let mut writer = Writer::new(self.one_in(2));
        let mut effects = Vec::new();
        let mut assignments = Vec::new();
        let has_regular = columns.iter().any(|column| column.kind == Kind::Regular);
        // One that sets static columns alone may not name a row.
        let columns: Vec<Column> =
            columns.into_iter().filter(|column| !has_regular || column.kind == Kind::Regular).collect();
        for column in &columns {
            let delta = i64::from(self.random.random_range(-3..40));
            let clustering = (column.kind != Kind::Static).then(|| clustering.clone());
            effects.push((0, Effect::Add { clustering, column: column.name.clone(), delta }));
            let delta = writer.value(Some(&Val::Count(delta)));
            assignments.push(format!("{0} = {0} + {delta}", column.name));
        }
        let row = if has_regular { clustering } else { Vec::new() };
        let at = self.at(&mut writer, &key, &row);
        writer.text = format!("UPDATE {} SET {} WHERE {at}", self.table.shape.name, assignments.join(", "));
        self.finish(writer, key, effects)
    }

    fn delete_columns(&mut self) -> Change {
        let (key, clustering) = (self.key(), self.clustering());
        let columns = self.columns(|column| column.kind == Kind::Regular);
        let mut writer = Writer::new(self.one_in(2));
        let mut effects = Vec::new();
        let mut names = Vec::new();
        for column in columns {
            let row = Some(clustering.clone());
            // The index of a list element depends on the contents of the list.
            let has_paths = column.data_type.is_complex() && column.data_type != Type::List;
            if has_paths && self.one_in(2) {
                let path = if let Type::Udt(fields) = column.data_type {
                    let field = self.random.random_range(0..fields);
                    names.push(format!("{}.{}", column.name, FIELDS[usize::from(field)]));
                    i32::from(field)
                } else {
                    let path = self.random.random_range(0..DOMAIN);
                    names.push(format!("{}[{}]", column.name, writer.value(Some(&Val::Int(path)))));
                    path
                };
                let (column, path) = (column.name, Some(path));
                effects.push((0, Effect::Cell { clustering: row, column, path, value: None, expiry: None }));
            } else {
                names.push(column.name.clone());
                effects.push((
                    0,
                    if column.data_type.is_complex() {
                        Effect::DeleteComplex { clustering: row, column: column.name }
                    } else {
                        Effect::Cell {
                            clustering: row,
                            column: column.name,
                            path: None,
                            value: None,
                            expiry: None,
                        }
                    },
                ));
            }
        }
        let at = self.at(&mut writer, &key, &clustering);
        writer.text = format!("DELETE {} FROM {} WHERE {at}", names.join(", "), self.table.shape.name);
        self.finish(writer, key, effects)
    }

    fn delete_row(&mut self, conditional: bool) -> Change {
        let (key, clustering) = (self.key(), self.clustering());
        let mut writer = Writer::new(self.one_in(2));
        let at = self.at(&mut writer, &key, &clustering);
        let condition = conditional.then(|| self.condition());
        writer.text = format!("DELETE FROM {} WHERE {at}", self.table.shape.name);
        writer.condition(&condition);
        // Without clustering columns the row is the partition.
        let effect = if clustering.is_empty() {
            Effect::DeletePartition
        } else {
            Effect::DeleteRow(clustering.clone())
        };
        let mut change = self.finish(writer, key, vec![(0, effect)]);
        change.condition = condition.map(|condition| (clustering, condition));
        change
    }

    fn delete_partition(&mut self) -> Change {
        let key = self.key();
        let mut writer = Writer::new(self.one_in(2));
        let at = self.at(&mut writer, &key, &[]);
        writer.text = format!("DELETE FROM {} WHERE {at}", self.table.shape.name);
        self.finish(writer, key, vec![(0, Effect::DeletePartition)])
    }

    fn delete_range(&mut self) -> Change {
        if self.table.shape.clustering().is_empty() {
            return self.delete_partition();
        }
        let key = self.key();
        let mut writer = Writer::new(self.one_in(2));
        let at = self.at(&mut writer, &key, &[]);
        let (range, condition) = self.range(&mut writer);
        writer.text = format!("DELETE FROM {} WHERE {at} AND {condition}", self.table.shape.name);
        self.finish(writer, key, vec![(0, Effect::DeleteRange(range))])
    }

    /// A range of rows and its condition. The table has clustering columns.
    pub fn range(&mut self, writer: &mut Writer) -> (Range, String) {
        let columns: Vec<(String, Type)> = (self.table.shape.clustering().iter())
            .map(|column| (column.name.clone(), column.data_type))
            .collect();
        let fixed = self.random.random_range(0..columns.len());
        let mut range = Range { prefix: Vec::new(), lower: None, upper: None };
        let mut conditions = Vec::new();
        for (name, data_type) in &columns[..fixed] {
            let value = self.key_value(*data_type);
            conditions.push(format!("{name} = {}", writer.value(Some(&value))));
            range.prefix.push(value);
        }
        let (name, data_type) = &columns[fixed];
        let bounds = self.random.random_range(1..4);
        if bounds & 1 != 0 {
            let (value, inclusive) = (self.key_value(*data_type), self.one_in(2));
            let sign = if inclusive { ">=" } else { ">" };
            conditions.push(format!("{name} {sign} {}", writer.value(Some(&value))));
            range.lower = Some((value, inclusive));
        }
        if bounds & 2 != 0 {
            let (value, inclusive) = (self.key_value(*data_type), self.one_in(2));
            let sign = if inclusive { "<=" } else { "<" };
            conditions.push(format!("{name} {sign} {}", writer.value(Some(&value))));
            range.upper = Some((value, inclusive));
        }
        (range, conditions.join(" AND "))
    }

    /// Returns the conditions that select a row, or a partition without clustering.
    pub fn at(&self, writer: &mut Writer, key: &[Val], clustering: &[Val]) -> String {
        let shape = &self.table.shape;
        let columns = shape.partition_key().into_iter().zip(key);
        let columns = columns.chain(shape.clustering().into_iter().zip(clustering));
        let conditions =
            columns.map(|(column, value)| format!("{} = {}", column.name, writer.value(Some(value))));
        conditions.collect::<Vec<_>>().join(" AND ")
    }
}

/// Writes a statement with its values as literals or bound to markers.
pub struct Writer {
    binds: bool,
    text: String,
    values: Vec<Option<Vec<u8>>>,
}

impl Writer {
    /// Creates a writer that binds values or writes literals.
    pub fn new(binds: bool) -> Self {
        Self { binds, text: String::new(), values: Vec::new() }
    }

    /// Returns the text of a value. Values are bound in the order of these calls, which must be
    /// that of the text.
    pub fn value(&mut self, value: Option<&Val>) -> String {
        if self.binds {
            self.values.push(value.map(Val::encode));
            return "?".to_owned();
        }
        value.map_or_else(|| "null".to_owned(), Val::literal)
    }

    fn using(&mut self, ttl: Option<i64>, _stamps: bool, place: impl Fn(&str, &str) -> String) {
        if let Some(ttl) = ttl {
            self.text = place(&self.text, &format!(" USING TTL {ttl}"));
        }
    }

    fn condition(&mut self, condition: &Option<Condition>) {
        let condition = match condition {
            None => return,
            Some(Condition::NotExists) => " IF NOT EXISTS".to_owned(),
            Some(Condition::Exists) => " IF EXISTS".to_owned(),
            Some(Condition::Equals(column, value)) => {
                format!(" IF {column} = {}", self.value(value.as_ref()))
            }
        };
        self.text.push_str(&condition);
    }

    /// The statement.
    pub fn finish(self) -> Cql {
        Cql { text: self.text, values: self.values }
    }

    /// The statement with this text.
    pub fn with_text(mut self, text: String) -> Cql {
        self.text = text;
        self.finish()
    }
}
