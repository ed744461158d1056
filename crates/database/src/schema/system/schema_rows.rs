//! The schema as rows of `system_schema`: the mutations of a schema change.

use std::collections::BTreeMap;
use std::sync::Arc;

use cassette_cql::values::class_text::to_class_text;
use cassette_cql::values::functions::{UserAggregate, UserFunction, resolve_mask};
use cassette_cql::values::to_literal;
use cassette_engine::Mutation;
use cassette_rows::schema::{CachingParams, DroppedColumn, RowsPerPartition};
use cassette_rows::types::{UserType, collection};
use cassette_rows::{
    ColumnKind, ColumnMask, ColumnMetadata, DataType, DeletionTime, PartitionUpdate, Row, TableMetadata,
    TableParams,
};

use super::encode::{
    Value, mutation, row, row_deletion, row_deletion_of, row_of, row_update, seconds, text_key,
};
use super::{SCHEMA, TextMap, is_system};
use crate::schema::catalog::{Catalog, Keyspace, KeyspaceParams};
use crate::schema::functions::Signature;
use crate::schema::indexes::Index;
use crate::schema::options::{compaction, compression};
use crate::schema::views::View;

/// Returns the rows that change the stored form of a keyspace from `before` to `after`, written at
/// `timestamp`. They are in the keyspace's partition of several tables, and must be applied
/// together.
pub(crate) fn changes(keyspace: &str, before: &Catalog, after: &Catalog, timestamp: i64) -> Vec<Mutation> {
    let tables = SchemaTables(after);
    match (before.keyspace(keyspace), after.keyspace(keyspace)) {
        (_, None) => tables.drop_keyspace(keyspace, timestamp),
        (before, Some(after)) => {
            let mut changes = Changes { timestamp, rows: BTreeMap::new(), tables: &tables };
            changes.keyspace(before.map(|keyspace| &**keyspace), after);
            changes.finish(keyspace)
        }
    }
}

/// The tables of `system_schema`.
struct SchemaTables<'a>(&'a Catalog);

impl SchemaTables<'_> {
    fn get(&self, name: &str) -> &Arc<TableMetadata> {
        // The tables are built in; nothing removes them.
        self.0.table(SCHEMA, name).unwrap_or_else(|| panic!("no table {SCHEMA}.{name}"))
    }

    fn drop_keyspace(&self, keyspace: &str, timestamp: i64) -> Vec<Mutation> {
        let schema = self.0.keyspace(SCHEMA).into_iter().flat_map(|schema| schema.tables.values());
        schema
            .map(|table| {
                let mut update = PartitionUpdate::new(text_key(keyspace));
                update.deletion = DeletionTime::new(timestamp, seconds(timestamp));
                Mutation { table: table.clone(), update }
            })
            .collect()
    }
}

struct Changes<'a> {
    timestamp: i64,
    /// By table.
    rows: BTreeMap<&'static str, Vec<Row>>,
    tables: &'a SchemaTables<'a>,
}

impl Changes<'_> {
    fn put(&mut self, table: &'static str, clustering: &[&str], values: &[(&str, Value)]) {
        let row = row(self.tables.get(table), clustering, values, self.timestamp);
        self.rows.entry(table).or_default().push(row);
    }

    fn delete(&mut self, table: &'static str, clustering: &[&str]) {
        let row = row_deletion(clustering, self.timestamp);
        self.rows.entry(table).or_default().push(row);
    }

    fn finish(self, keyspace: &str) -> Vec<Mutation> {
        let tables = self.tables;
        self.rows.into_iter().map(|(table, rows)| mutation(tables.get(table), keyspace, rows)).collect()
    }

    fn keyspace(&mut self, before: Option<&Keyspace>, after: &Keyspace) {
        let values = keyspace_values(&after.params);
        let row = row_update(self.tables.get("keyspaces"), &[], &values, self.timestamp);
        if before.is_none_or(|before| before.params != after.params || !before.is_stored) {
            self.rows.entry("keyspaces").or_default().push(row);
        }

        let (no_tables, no_types) = (BTreeMap::new(), BTreeMap::new());
        let (old_tables, old_types) = before.map_or((&no_tables, &no_types), |k| (&k.tables, &k.types));
        for name in old_types.keys().filter(|name| !after.types.contains_key(*name)) {
            self.delete("types", &[name]);
        }
        for (name, user_type) in &after.types {
            if old_types.get(name) != Some(user_type) {
                self.user_type(user_type);
            }
        }
        self.functions(before, after);
        let no_indexes = BTreeMap::new();
        let old_indexes = before.map_or(&no_indexes, |k| &k.indexes);
        for (name, old) in old_indexes {
            if after.indexes.get(name).is_none_or(|new| new.storage.id != old.storage.id) {
                self.delete("indexes", &[&old.base.name, name]);
            }
        }
        for (name, index) in &after.indexes {
            if old_indexes.get(name).is_none_or(|old| old.storage.id != index.storage.id) {
                self.index(index);
            }
        }
        let no_views = BTreeMap::new();
        let old_views = before.map_or(&no_views, |k| &k.views);
        for (name, old) in old_views {
            if after.views.get(name).is_none_or(|new| new.table.id != old.table.id) {
                self.drop_columns(&old.table);
                self.delete("views", &[name]);
            }
        }
        for (name, view) in &after.views {
            match old_views.get(name).filter(|old| old.table.id == view.table.id) {
                Some(old) if Arc::ptr_eq(old, view) || same_view(old, view) => {}
                old => self.view(old.map(|old| &**old), view),
            }
        }
        for (name, old) in old_tables.iter().filter(|(name, _)| !old_views.contains_key(*name)) {
            if after.tables.get(name).is_none_or(|new| new.id != old.id) {
                self.drop_table(old);
            }
        }
        for (name, table) in after.tables.iter().filter(|(name, _)| !after.views.contains_key(*name)) {
            match old_tables.get(name).filter(|old| old.id == table.id) {
                Some(old) if Arc::ptr_eq(old, table) || same_table(old, table) => {}
                old => self.table(old.map(|old| &**old), table),
            }
        }
    }

    fn functions(&mut self, before: Option<&Keyspace>, after: &Keyspace) {
        for signature in before.into_iter().flat_map(|before| before.functions.keys()) {
            if !after.functions.contains_key(signature) {
                self.delete_function("functions", signature);
            }
        }
        for (signature, function) in &after.functions {
            if before.and_then(|before| before.functions.get(signature)) != Some(function) {
                self.put_function("functions", signature, &function_values(function));
            }
        }
        for signature in before.into_iter().flat_map(|before| before.aggregates.keys()) {
            if !after.aggregates.contains_key(signature) {
                self.delete_function("aggregates", signature);
            }
        }
        for (signature, aggregate) in &after.aggregates {
            if before.and_then(|before| before.aggregates.get(signature)) != Some(aggregate) {
                self.put_function("aggregates", signature, &aggregate_values(aggregate));
            }
        }
    }

    fn put_function(&mut self, table: &'static str, signature: &Signature, values: &[(&str, Value)]) {
        let types = list_bytes(&signature.types);
        let clustering = [signature.name.as_bytes(), &types];
        let row = row_of(self.tables.get(table), &clustering, values, self.timestamp);
        self.rows.entry(table).or_default().push(row);
    }

    fn delete_function(&mut self, table: &'static str, signature: &Signature) {
        let types = list_bytes(&signature.types);
        let row = row_deletion_of(&[signature.name.as_bytes(), &types], self.timestamp);
        self.rows.entry(table).or_default().push(row);
    }

    fn user_type(&mut self, user_type: &UserType) {
        let names: Vec<String> = user_type.fields.iter().map(|(name, _)| name.clone()).collect();
        let types: Vec<String> = user_type.fields.iter().map(|(_, field)| field.to_string()).collect();
        let values = [("field_names", Value::from(&names[..])), ("field_types", Value::from(&types[..]))];
        self.put("types", &[&user_type.name], &values);
    }

    /// The write timestamp distinguishes the index from earlier ones of its name.
    fn index(&mut self, index: &Index) {
        let values = [("kind", index.kind.name().into()), ("options", Value::from(&index.options))];
        let clustering: [&str; 2] = [&index.base.name, &index.name];
        let row = row(self.tables.get("indexes"), &clustering, &values, index.created_at);
        self.rows.entry("indexes").or_default().push(row);
    }

    fn table(&mut self, before: Option<&TableMetadata>, table: &TableMetadata) {
        let name = &table.name;
        self.put("tables", &[name], &table_values(table));
        self.columns(before, table);
    }

    fn view(&mut self, before: Option<&View>, view: &View) {
        let mut values = table_values(&view.table);
        // Only tables have flags.
        values.retain(|(name, _)| *name != "flags");
        values.push(("base_table_id", view.base.id.0.into()));
        values.push(("base_table_name", view.base.name.as_str().into()));
        values.push(("include_all_columns", view.include_all.into()));
        values.push(("where_clause", view.where_text().as_str().into()));
        self.put("views", &[view.name()], &values);
        self.columns(before.map(|before| &*before.table), &view.table);
    }

    fn columns(&mut self, before: Option<&TableMetadata>, table: &TableMetadata) {
        let name = &table.name;
        let old_column = |column: &ColumnMetadata| before.and_then(|before| before.column(&column.name));
        for column in table.all_columns() {
            if old_column(column).is_none_or(|old| !same_column(old, column)) {
                self.put("columns", &[name, &column.name], &column_values(column));
            }
            self.mask(before, table, column);
        }
        for (column, dropped) in &table.dropped_columns {
            if before.and_then(|before| before.dropped_columns.get(column)) != Some(dropped) {
                self.put("dropped_columns", &[name, column], &dropped_column_values(dropped));
            }
        }
        for old in before.into_iter().flat_map(TableMetadata::all_columns) {
            if table.column(&old.name).is_none() {
                self.delete("columns", &[name, &old.name]);
                if old.mask.is_some() {
                    self.delete("column_masks", &[name, &old.name]);
                }
            }
        }
    }

    fn mask(&mut self, before: Option<&TableMetadata>, table: &TableMetadata, column: &ColumnMetadata) {
        let clustering = [table.name.as_str(), &column.name];
        let old = before.and_then(|before| before.column(&column.name));
        match (&column.mask, old) {
            (mask, Some(old)) if *mask == old.mask => {}
            (Some(mask), _) => self.put("column_masks", &clustering, &mask_values(mask, &column.data_type)),
            // In a schema of Cassandra, rows of dropped tables and columns remain: they must not
            // apply to new ones.
            (None, _) if !is_system(&table.keyspace) => self.delete("column_masks", &clustering),
            (None, _) => {}
        }
    }

    fn drop_table(&mut self, table: &TableMetadata) {
        self.delete("tables", &[&table.name]);
        self.drop_columns(table);
    }

    fn drop_columns(&mut self, table: &TableMetadata) {
        for column in table.all_columns() {
            self.delete("columns", &[&table.name, &column.name]);
            if column.mask.is_some() {
                self.delete("column_masks", &[&table.name, &column.name]);
            }
        }
        for column in table.dropped_columns.keys() {
            self.delete("dropped_columns", &[&table.name, column]);
        }
    }
}

/// Returns the bytes of a frozen list of texts.
fn list_bytes(texts: &[String]) -> Vec<u8> {
    let mut bytes = Vec::new();
    collection::write_list(&mut bytes, texts.iter().map(String::as_bytes));
    bytes
}

/// Returns the values of a row of `functions`.
fn function_values(function: &UserFunction) -> Vec<(&'static str, Value)> {
    let names: Vec<String> = function.arguments.iter().map(|(name, _)| name.clone()).collect();
    vec![
        ("argument_names", Value::from(&names[..])),
        ("body", function.body.as_str().into()),
        ("called_on_null_input", function.called_on_null_input.into()),
        ("language", function.language.as_str().into()),
        ("return_type", function.returns.to_string().as_str().into()),
    ]
}

/// Returns the values of a row of `aggregates`.
fn aggregate_values(aggregate: &UserAggregate) -> Vec<(&'static str, Value)> {
    let state_type = aggregate.state_type();
    let mut values: Vec<(&'static str, Value)> = vec![
        ("return_type", aggregate.returns().to_string().as_str().into()),
        ("state_func", aggregate.state_function.name.as_str().into()),
        ("state_type", state_type.to_string().as_str().into()),
    ];
    if let Some(function) = &aggregate.final_function {
        values.push(("final_func", function.name.as_str().into()));
    }
    if let Some(value) = &aggregate.initial_value {
        values.push(("initcond", to_literal(state_type, Some(value)).as_str().into()));
    }
    values
}

/// Whether two views have the same stored form.
fn same_view(a: &View, b: &View) -> bool {
    same_table(&a.table, &b.table) && a.base.id == b.base.id && a.where_clause == b.where_clause
}

/// Whether two tables have the same stored form, which excludes versions and column ids.
fn same_table(a: &TableMetadata, b: &TableMetadata) -> bool {
    a.params == b.params
        && a.layout == b.layout
        && a.dropped_columns == b.dropped_columns
        && a.all_columns().count() == b.all_columns().count()
        && a.all_columns()
            .all(|column| b.column(&column.name).is_some_and(|other| is_stored_alike(column, other)))
}

/// Whether two columns have the same stored form, with their masks.
fn is_stored_alike(a: &ColumnMetadata, b: &ColumnMetadata) -> bool {
    same_column(a, b) && a.mask == b.mask
}

fn same_column(a: &ColumnMetadata, b: &ColumnMetadata) -> bool {
    (&a.name, a.kind, a.position, &a.data_type, a.reversed)
        == (&b.name, b.kind, b.position, &b.data_type, b.reversed)
}

/// Returns the values of a row of `column_masks`. A list cannot contain nulls, so another one marks
/// them.
fn mask_values(mask: &ColumnMask, data_type: &DataType) -> Vec<(&'static str, Value)> {
    let (mut types, mut values, mut nulls) = (Vec::new(), Vec::new(), Vec::new());
    for (argument, value) in mask.arguments.iter().zip(mask_argument_types(mask, data_type)) {
        types.push(value.to_string());
        values.push(argument.as_deref().map_or_else(String::new, |bytes| to_class_text(&value, bytes)));
        nulls.push(argument.is_none());
    }
    vec![
        ("function_argument_nulls", Value::from(&nulls[..])),
        ("function_argument_types", Value::from(&types[..])),
        ("function_argument_values", Value::from(&values[..])),
        ("function_keyspace", "system".into()),
        ("function_name", mask.function.as_str().into()),
    ]
}

/// Returns the types of the arguments of a mask after the column, which has type `data_type`.
pub(crate) fn mask_argument_types(mask: &ColumnMask, data_type: &DataType) -> Vec<DataType> {
    match resolve_mask(&mask.function, data_type, mask.arguments.len()) {
        Ok(Some(function)) => function.arguments.into_iter().skip(1).collect(),
        // Statements and loading resolved it before.
        _ => Vec::new(),
    }
}

/// Returns the values of a row of `keyspaces`.
pub(crate) fn keyspace_values(params: &KeyspaceParams) -> Vec<(&'static str, Value)> {
    let mut replication = params.replication.options.clone();
    replication.insert("class".into(), params.replication.class.clone());
    vec![("durable_writes", params.durable_writes.into()), ("replication", Value::from(&replication))]
}

/// Returns the values of a row of `tables`. Options added in newer versions are written only if
/// they differ from the default, as Cassandra does for older nodes.
pub(crate) fn table_values(table: &TableMetadata) -> Vec<(&'static str, Value)> {
    let params = &table.params;
    let counter = if table.is_counter { Some("counter") } else { None };
    let mut flags: Vec<String> =
        table.layout.flags().iter().copied().chain(counter).map(str::to_owned).collect();
    flags.sort_unstable();
    let mut values: Vec<(&'static str, Value)> = vec![
        ("id", table.id.0.into()),
        ("flags", flags[..].into()),
        ("bloom_filter_fp_chance", params.bloom_filter_fp_chance().into()),
        ("comment", params.comment.as_str().into()),
        ("dclocal_read_repair_chance", 0.0.into()),
        ("default_time_to_live", int(params.default_time_to_live)),
        ("gc_grace_seconds", int(params.gc_grace_seconds)),
        ("max_index_interval", int(params.max_index_interval)),
        ("memtable_flush_period_in_ms", int(params.memtable_flush_period_in_ms)),
        ("min_index_interval", int(params.min_index_interval)),
        ("read_repair_chance", 0.0.into()),
        ("speculative_retry", params.speculative_retry.as_str().into()),
        ("additional_write_policy", params.additional_write_policy.as_str().into()),
        ("crc_check_chance", params.crc_check_chance.into()),
        ("caching", Value::from(&caching_map(&params.caching))),
        ("compaction", Value::from(&compaction_map(params))),
        ("compression", Value::from(&compression_map(params))),
        ("read_repair", params.read_repair.as_str().into()),
        ("extensions", Value::from(&TextMap::new())),
    ];
    if params.cdc {
        values.push(("cdc", true.into()));
    }
    if params.memtable != "default" {
        values.push(("memtable", params.memtable.as_str().into()));
    }
    if params.allow_auto_snapshot == Some(false) {
        values.push(("allow_auto_snapshot", false.into()));
    }
    if params.incremental_backups == Some(false) {
        values.push(("incremental_backups", false.into()));
    }
    values
}

fn int(value: u32) -> Value {
    i32::try_from(value).unwrap_or(i32::MAX).into()
}

/// Returns `caching` as stored and shown.
pub(crate) fn caching_map(caching: &CachingParams) -> TextMap {
    let rows = match caching.rows_per_partition {
        RowsPerPartition::None => "NONE".to_owned(),
        RowsPerPartition::Head(rows) => rows.to_string(),
        RowsPerPartition::All => "ALL".to_owned(),
    };
    let keys = if caching.keys { "ALL" } else { "NONE" };
    [("keys".to_owned(), keys.to_owned()), ("rows_per_partition".to_owned(), rows)].into()
}

/// Returns `compaction` as stored and shown.
pub(crate) fn compaction_map(params: &TableParams) -> TextMap {
    let mut map = params.compaction.options.clone();
    let class = &params.compaction.class;
    let package = if class.contains('.') { "" } else { compaction::PACKAGE };
    map.insert("class".into(), format!("{package}{class}"));
    map
}

/// Returns `compression` as stored and shown.
pub(crate) fn compression_map(params: &TableParams) -> TextMap {
    let compression = &params.compression;
    let Some(compressor) = compression.compressor else {
        return [("enabled".to_owned(), "false".to_owned())].into();
    };
    let mut map = compression.options.clone();
    map.insert("class".into(), format!("{}{}", compression::PACKAGE, compressor.class_name()));
    map.insert("chunk_length_in_kb".into(), (compression.chunk_length / 1024).to_string());
    if let Some(ratio) = compression.min_compress_ratio {
        map.insert("min_compress_ratio".into(), format!("{ratio:?}"));
    }
    map
}

/// Returns the values of a row of `columns`.
pub(crate) fn column_values(column: &ColumnMetadata) -> Vec<(&'static str, Value)> {
    let position = match column.kind {
        ColumnKind::PartitionKey | ColumnKind::Clustering => {
            i32::try_from(column.position).unwrap_or(i32::MAX)
        }
        ColumnKind::Static | ColumnKind::Regular => -1,
    };
    let order = match (column.kind, column.reversed) {
        (ColumnKind::Clustering, true) => "desc",
        (ColumnKind::Clustering, false) => "asc",
        _ => "none",
    };
    vec![
        ("column_name_bytes", column.name.as_str().into()),
        ("kind", kind_name(column.kind).into()),
        ("position", position.into()),
        ("clustering_order", order.into()),
        ("type", column.data_type.to_string().as_str().into()),
    ]
}

/// Returns the stored name of `kind`.
pub(crate) fn kind_name(kind: ColumnKind) -> &'static str {
    match kind {
        ColumnKind::PartitionKey => "partition_key",
        ColumnKind::Clustering => "clustering",
        ColumnKind::Static => "static",
        ColumnKind::Regular => "regular",
    }
}

/// Returns the values of a row of `dropped_columns`. User-defined types are replaced by tuples,
/// since they may be dropped, too.
fn dropped_column_values(dropped: &DroppedColumn) -> Vec<(&'static str, Value)> {
    vec![
        ("dropped_time", dropped.dropped_at.div_euclid(1000).into()),
        ("kind", kind_name(dropped.kind).into()),
        ("type", without_user_types(&dropped.data_type).to_string().as_str().into()),
    ]
}

/// Returns `data_type` with each user-defined type replaced by the tuple of the same encoding.
pub(crate) fn without_user_types(data_type: &DataType) -> DataType {
    let expand = |inner: &Arc<DataType>| Arc::new(without_user_types(inner));
    match data_type {
        DataType::Udt { definition, .. } => {
            DataType::tuple(definition.fields.iter().map(|(_, field)| without_user_types(field)))
        }
        DataType::List { element, frozen } => DataType::List { element: expand(element), frozen: *frozen },
        DataType::Set { element, frozen } => DataType::Set { element: expand(element), frozen: *frozen },
        DataType::Map { key, value, frozen } => {
            DataType::Map { key: expand(key), value: expand(value), frozen: *frozen }
        }
        DataType::Tuple(items) => DataType::tuple(items.iter().map(without_user_types)),
        DataType::Vector { element, dimension } => {
            DataType::Vector { element: expand(element), dimension: *dimension }
        }
        other => other.clone(),
    }
}
