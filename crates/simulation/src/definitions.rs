//! Changes of the schema.

use std::collections::BTreeMap;

use rand::RngExt;

use crate::model::{Model, Table};
use crate::schema::{Column, Index, Kind, Shape, Stamps};
use crate::simulation::{Outcome, Simulation};
use crate::value::{FIELDS, Type};
use crate::wire::{Cql, Reply};

impl Simulation {
    /// Changes the schema of the node and that of the model.
    fn define(&mut self, text: String, change: impl FnOnce(&mut Model)) -> Result<(), String> {
        let mut after = self.model.clone();
        change(&mut after);
        match self.execute(&Cql::plain(text), None)? {
            Outcome::Done(reply) => {
                self.model = after;
                // A changed schema is durable when it is acknowledged, and the commit log has no
                // gaps. ALTER TABLE with the options that the table has writes nothing.
                if matches!(reply, Reply::SchemaChanged) {
                    self.model.synced();
                }
            }
            // The next start shows whether it was applied.
            Outcome::Failed(_) => self.in_doubt = Some(after),
        }
        Ok(())
    }

    pub(crate) fn create_table(&mut self) -> Result<(), String> {
        const TABLES_MAX: usize = 4;
        if self.model.tables.len() >= TABLES_MAX {
            return Ok(());
        }
        let name = format!("ks{}.t{}", self.random.random_range(0..2), self.random.random_range(0..3));
        if self.model.tables.contains_key(&name) {
            return Ok(());
        }
        let shape = self.shape(name.clone());
        if !self.model.keyspaces.contains(shape.keyspace()) {
            self.create_keyspace(shape.keyspace())?;
            if self.in_doubt.is_some() {
                return Ok(());
            }
        }
        let has_pair = |column: &Column| matches!(column.data_type, Type::Udt(_) | Type::FrozenUdt(_));
        if shape.columns.iter().any(has_pair) && !self.model.types.contains_key(shape.keyspace()) {
            self.create_type(shape.keyspace())?;
            if self.in_doubt.is_some() {
                return Ok(());
            }
        }
        let with = self.parameters(&shape);
        self.define(shape.create(&with), move |model| {
            model.tables.insert(name, Table::new(shape));
        })
    }

    fn create_keyspace(&mut self, name: &str) -> Result<(), String> {
        let replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
        self.define(format!("CREATE KEYSPACE {name} WITH replication = {replication}"), |model| {
            model.keyspaces.insert(name.to_owned());
        })
    }

    fn create_type(&mut self, keyspace: &str) -> Result<(), String> {
        let [a, b, ..] = FIELDS;
        self.define(format!("CREATE TYPE {keyspace}.pair ({a} int, {b} int)"), |model| {
            model.types.insert(keyspace.to_owned(), 2);
        })
    }

    /// Adds a field to a type. Stored values of the frozen type keep the fields that they have.
    fn alter_type(&mut self) -> Result<(), String> {
        let Some((keyspace, fields)) = self.model.types.first_key_value() else { return Ok(()) };
        let (keyspace, fields) = (keyspace.clone(), *fields);
        let Some(field) = FIELDS.get(usize::from(fields)) else { return Ok(()) };
        self.define(format!("ALTER TYPE {keyspace}.pair ADD {field} int"), |model| {
            model.types.insert(keyspace.clone(), fields + 1);
            for table in model.tables.values_mut().filter(|table| table.shape.keyspace() == keyspace) {
                for column in &mut table.shape.columns {
                    column.data_type = column.data_type.with_fields(fields + 1);
                }
            }
        })
    }

    pub(crate) fn drop_keyspace(&mut self) -> Result<(), String> {
        let Some(name) = self.model.keyspaces.first().cloned() else { return Ok(()) };
        // Paging states belong to one table, and not to another one of the same name.
        self.cursors.retain(|cursor| !cursor.table.starts_with(&format!("{name}.")));
        self.define(format!("DROP KEYSPACE {name}"), |model| {
            model.keyspaces.remove(&name);
            model.types.remove(&name);
            model.tables.retain(|_, table| table.shape.keyspace() != name);
        })
    }

    fn shape(&mut self, name: String) -> Shape {
        let column = |name: &str, kind, data_type| Column { name: name.to_owned(), kind, data_type };
        let mut columns = vec![column("k", Kind::Partition, Type::Int)];
        if self.one_in(4) {
            columns.push(column("l", Kind::Partition, Type::Text));
        }
        let clustering = self.random.random_range(0..3);
        for (name, data_type) in [("c", Type::Int), ("d", Type::Text)].into_iter().take(clustering) {
            columns.push(column(name, Kind::Clustering { descending: self.one_in(2) }, data_type));
        }
        let has_static = clustering > 0 && self.one_in(2);
        let stamps = if self.one_in(3) { Stamps::Client } else { Stamps::Server };
        if self.one_in(8) {
            if has_static {
                columns.push(column("s", Kind::Static, Type::Counter));
            }
            columns.push(column("n", Kind::Regular, Type::Counter));
            columns.push(column("o", Kind::Regular, Type::Counter));
        } else {
            if has_static {
                columns.push(column("s", Kind::Static, Type::Int));
            }
            columns.push(column("v", Kind::Regular, Type::Int));
            columns.push(column("w", Kind::Regular, Type::Text));
            let keyspace = name.split_once('.').map_or("", |(keyspace, _)| keyspace);
            let fields = self.model.types.get(keyspace).copied().unwrap_or(2);
            let collections = [("e", Type::Set), ("m", Type::Map), ("f", Type::FrozenList)];
            let pairs = [("p", Type::Udt(fields)), ("q", Type::FrozenUdt(fields))];
            for (name, data_type) in collections.into_iter().chain(pairs) {
                if self.one_in(2) {
                    columns.push(column(name, Kind::Regular, data_type));
                }
            }
        }
        let purges = stamps == Stamps::Server && self.one_in(2);
        // Elements of lists are in the order of the clock, which must not be set back.
        if self.profile.expires && columns.iter().all(|c| c.data_type != Type::Counter) && self.one_in(2) {
            columns.push(column("g", Kind::Regular, Type::List));
        }
        Shape { name, columns, stamps, indexes: BTreeMap::new(), views: BTreeMap::new(), purges }
    }

    /// Returns the options of a table. `gc_grace_seconds` depends on whether it purges early.
    fn parameters(&mut self, shape: &Shape) -> String {
        let compaction = [
            "{'class': 'SizeTieredCompactionStrategy', 'min_threshold': '2'}",
            "{'class': 'LeveledCompactionStrategy', 'sstable_size_in_mb': '1'}",
            "{'class': 'TimeWindowCompactionStrategy', 'compaction_window_unit': 'MINUTES', 'min_threshold': '2'}",
            "{'class': 'UnifiedCompactionStrategy', 'scaling_parameters': 'T4', 'target_sstable_size': '1MiB'}",
        ];
        let compression = [
            "{'class': 'LZ4Compressor', 'chunk_length_in_kb': '4'}",
            "{'enabled': 'false'}",
            "{'class': 'SnappyCompressor'}",
            "{'class': 'ZstdCompressor'}",
            "{'class': 'DeflateCompressor'}",
        ];
        let rows = ["NONE", "ALL", "2"];
        let gc_grace = if shape.purges { 0 } else { 864_000_000 };
        format!(
            "compaction = {} AND compression = {} AND caching = \
             {{'keys': 'ALL', 'rows_per_partition': '{}'}} AND gc_grace_seconds = {gc_grace}",
            compaction[self.random.random_range(0..compaction.len())],
            compression[self.random.random_range(0..compression.len())],
            rows[self.random.random_range(0..rows.len())],
        )
    }

    pub(crate) fn drop_table(&mut self) -> Result<(), String> {
        let Some(table) = self.some_table() else { return Ok(()) };
        let views: Vec<String> = self.model.tables[&table].shape.views.keys().cloned().collect();
        if !views.is_empty() {
            return Ok(());
        }
        self.cursors.retain(|cursor| cursor.table != table);
        self.define(format!("DROP TABLE {table}"), |model| {
            model.tables.remove(&table);
        })
    }

    pub(crate) fn alter_table(&mut self) -> Result<(), String> {
        let Some(table) = self.some_table() else { return Ok(()) };
        let shape = self.model.tables[&table].shape.clone();
        match self.random.random_range(0..4) {
            0 => {
                let name = format!("a{}", self.next_number());
                let data_type = if shape.is_counter() {
                    Type::Counter
                } else {
                    [Type::Int, Type::Text, Type::Set][self.random.random_range(0..3)]
                };
                let column = Column { name: name.clone(), kind: Kind::Regular, data_type };
                let text = format!("ALTER TABLE {table} ADD {name} {}", data_type.cql());
                self.define(text, |model| {
                    if let Some(table) = model.tables.get_mut(&table) {
                        table.shape.columns.push(column);
                    }
                })
            }
            1 => {
                // Names are not reused, and the first column stays.
                let added = shape.columns.iter().filter(|column| {
                    column.name.starts_with('a')
                        && shape.indexes.values().all(|index| index.column != column.name)
                });
                let Some(name) = added.map(|column| column.name.clone()).next() else { return Ok(()) };
                if !shape.views.is_empty() {
                    return Ok(());
                }
                self.define(format!("ALTER TABLE {table} DROP {name}"), |model| {
                    if let Some(table) = model.tables.get_mut(&table) {
                        table.shape.columns.retain(|column| column.name != name);
                    }
                })
            }
            2 => self.alter_type(),
            _ => {
                // They may be unchanged: then nothing becomes durable.
                let with = self.parameters(&shape);
                self.execute(&Cql::plain(format!("ALTER TABLE {table} WITH {with}")), None).map(drop)
            }
        }
    }

    pub(crate) fn create_index(&mut self) -> Result<(), String> {
        let Some(table) = self.some_table() else { return Ok(()) };
        let shape = self.model.tables[&table].shape.clone();
        let may_be_indexed = |column: &&Column| {
            let by_kind = match column.kind {
                Kind::Regular => true,
                Kind::Clustering { .. } => column.name == "c",
                Kind::Partition | Kind::Static => false,
            };
            by_kind
                && matches!(column.data_type, Type::Int | Type::Set | Type::Map)
                && shape.indexes.values().all(|index| index.column != column.name)
        };
        let columns: Vec<&Column> = shape.columns.iter().filter(may_be_indexed).collect();
        if columns.is_empty() || shape.is_counter() {
            return Ok(());
        }
        let column = columns[self.random.random_range(0..columns.len())];
        let index = Index { column: column.name.clone(), attached: self.one_in(2) };
        let name = format!("{}_{}", shape.table(), column.name);
        let target = if column.data_type == Type::Map {
            format!("values({})", column.name)
        } else {
            column.name.clone()
        };
        let using = if index.attached { " USING 'sai'" } else { "" };
        self.define(format!("CREATE INDEX {name} ON {table} ({target}){using}"), |model| {
            if let Some(table) = model.tables.get_mut(&table) {
                table.shape.indexes.insert(name, index);
            }
        })
    }

    pub(crate) fn drop_index(&mut self) -> Result<(), String> {
        let Some(table) = self.some_table() else { return Ok(()) };
        let shape = self.model.tables[&table].shape.clone();
        let Some(name) = shape.indexes.keys().next().cloned() else { return Ok(()) };
        self.define(format!("DROP INDEX {}.{name}", shape.keyspace()), |model| {
            if let Some(table) = model.tables.get_mut(&table) {
                table.shape.indexes.remove(&name);
            }
        })
    }

    pub(crate) fn create_view(&mut self) -> Result<(), String> {
        let Some(table) = self.some_table() else { return Ok(()) };
        let mut shape = self.model.tables[&table].shape.clone();
        let unfit = shape.is_counter() || shape.stamps == Stamps::Client || shape.purges;
        if unfit || !shape.views.is_empty() {
            return Ok(());
        }
        let name = format!("{}_by_v", shape.table());
        shape.views.insert(name.clone(), "v".to_owned());
        self.define(shape.create_view(&name), |model| {
            if let Some(table) = model.tables.get_mut(&table) {
                table.shape = shape;
            }
        })
    }

    pub(crate) fn drop_view(&mut self) -> Result<(), String> {
        let Some(table) = self.some_table() else { return Ok(()) };
        let shape = self.model.tables[&table].shape.clone();
        let Some(name) = shape.views.keys().next().cloned() else { return Ok(()) };
        self.define(format!("DROP MATERIALIZED VIEW {}.{name}", shape.keyspace()), |model| {
            if let Some(table) = model.tables.get_mut(&table) {
                table.shape.views.remove(&name);
            }
        })
    }
}
