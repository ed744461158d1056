//! CQL statements that create elements of the schema.

use std::fmt::Write;

use cassette_cql::values::number::double_to_text;
use cassette_cql::values::to_literal;
use cassette_cql::{quote_identifier, quote_string};
use cassette_rows::schema::{DroppedColumn, compare_column_names};
use cassette_rows::types::UserType;
use cassette_rows::{ColumnKind, ColumnMetadata, DataType, TableMetadata, TableParams};

use crate::schema::catalog::{Keyspace, KeyspaceKind};
use crate::schema::system::TextMap;
use crate::schema::system::schema_rows::{caching_map, compaction_map, compression_map, mask_argument_types};
use crate::schema::views::View;

/// Returns `CREATE KEYSPACE …`; for a virtual keyspace as a comment.
pub(crate) fn create_keyspace(keyspace: &Keyspace) -> String {
    let name = quote_identifier(&keyspace.name);
    if keyspace.kind == KeyspaceKind::Virtual {
        return format!(
            "/*\nWarning: Keyspace {name} is a virtual keyspace and cannot be recreated with \
             CQL.\nStructure, for reference:\nVIRTUAL KEYSPACE {name};\n*/"
        );
    }
    let replication = &keyspace.params.replication;
    let mut options = format!("{{'class': {}", quote_string(replication.short_class()));
    for (key, value) in &replication.options {
        options += &format!(", {}: {}", quote_string(key), quote_string(value));
    }
    format!(
        "CREATE KEYSPACE {name} WITH replication = {options}}}  AND durable_writes = {};",
        keyspace.params.durable_writes
    )
}

/// Returns `CREATE TYPE …`.
pub(crate) fn create_type(user_type: &UserType) -> String {
    let field = |(name, field): &(String, DataType)| format!("    {} {field}", quote_identifier(name));
    let fields: Vec<_> = user_type.fields.iter().map(field).collect();
    format!(
        "CREATE TYPE {}.{} (\n{}\n);",
        quote_identifier(&user_type.keyspace),
        quote_identifier(&user_type.name),
        fields.join(",\n")
    )
}

/// The form of a statement that creates a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// That of DESCRIBE, which is a comment for a table with COMPACT STORAGE.
    Described,
    /// The same with internals: the id, and the history of dropped columns.
    WithInternals,
    /// One that creates the same table again, with internals.
    Executable,
}

/// Returns `CREATE TABLE …`.
pub(crate) fn create_table(table: &TableMetadata, is_virtual: bool, form: Form) -> String {
    let with_internals = form != Form::Described;
    let is_comment = table.layout.is_compact() && form != Form::Executable;
    let name = format!("{}.{}", quote_identifier(&table.keyspace), quote_identifier(&table.name));
    let mut out = String::with_capacity(2048);
    if is_comment {
        out += &format!(
            "/*\nWarning: Table {name} omitted because it has constructs not compatible with CQL (was created via \
             legacy API).\nApproximate structure, for reference:\n(this should not be used to reproduce this \
             schema)\n\n"
        );
    }
    if is_virtual {
        out += &format!(
            "/*\nWarning: Table {name} is a virtual table and cannot be recreated with CQL.\nStructure, for \
             reference:\nVIRTUAL"
        );
    } else {
        out += "CREATE";
    }
    out += &format!(" TABLE {name} (\n");
    let has_short_key = table.partition_key.len() == 1 && table.clustering.is_empty();
    column_definitions(&mut out, table, form, has_short_key);
    if !has_short_key {
        out += &format!("    {}\n", primary_key(table));
    }
    out += ") WITH ";
    if table.layout.is_compact() {
        out += "COMPACT STORAGE\n    AND ";
    }
    if with_internals {
        out += &format!("ID = {}\n    AND ", table.id.0);
    }
    out += &clustering_order(table, form);
    if is_virtual {
        out += &format!("comment = {};\n*/", quote_string(&table.params.comment));
    } else {
        options(&mut out, &table.params, false);
        out.push(';');
    }
    if with_internals {
        drops(&mut out, table, &name, form);
    }
    if is_comment {
        out += "\n*/";
    }
    out
}

/// Returns `CREATE MATERIALIZED VIEW …`, with internals including the id.
pub(crate) fn create_view(view: &View, with_internals: bool) -> String {
    let table = &view.table;
    let keyspace = quote_identifier(&table.keyspace);
    let mut out = format!("CREATE MATERIALIZED VIEW {keyspace}.{} AS\n", quote_identifier(&table.name));
    let columns: Vec<_> =
        columns_in_create_order(table).iter().map(|column| quote_identifier(&column.name)).collect();
    let columns = if view.include_all { "*".to_owned() } else { columns.join(", ") };
    out += &format!("    SELECT {columns}\n    FROM {keyspace}.{}\n", quote_identifier(&view.base.name));
    out += &format!("    WHERE {}\n    {}\n WITH ", view.where_text(), primary_key(table));
    if with_internals {
        out += &format!("ID = {}\n    AND ", table.id.0);
    }
    out += &clustering_order(table, Form::Executable);
    options(&mut out, &table.params, true);
    out.push(';');
    out
}

/// Returns `CLUSTERING ORDER BY (…)` and the separator of the next option; empty without clustering
/// columns. As in Cassandra, DESCRIBE includes a hidden one.
fn clustering_order(table: &TableMetadata, form: Form) -> String {
    let omits = |column: &ColumnMetadata| form == Form::Executable && table.is_hidden(column);
    if table.clustering.iter().all(|column| omits(column)) {
        return String::new();
    }
    let order = |column: &ColumnMetadata| {
        format!("{} {}", quote_identifier(&column.name), if column.reversed { "DESC" } else { "ASC" })
    };
    let order: Vec<_> = table.clustering.iter().map(|column| order(column)).collect();
    format!("CLUSTERING ORDER BY ({})\n    AND ", order.join(", "))
}

/// Returns partition key, clustering, static, then regular columns; the last two by name, simple
/// ones first. Hidden columns are excluded.
fn columns_in_create_order(table: &TableMetadata) -> Vec<&ColumnMetadata> {
    let mut stored: Vec<_> = table.columns.iter().flatten().map(|column| &**column).collect();
    stored.sort_by(|a, b| {
        let place = |column: &ColumnMetadata| column.kind != ColumnKind::Static;
        place(a).cmp(&place(b)).then_with(|| {
            compare_column_names(
                (&a.name, a.data_type.is_multi_cell()),
                (&b.name, b.data_type.is_multi_cell()),
            )
        })
    });
    let key = table.partition_key.iter().chain(&table.clustering).map(|column| &**column);
    key.chain(stored).filter(|column| !table.is_hidden(column)).collect()
}

/// Appends the column definitions. With internals, a dropped column is declared in its dropped
/// form, whether or not it was added again.
fn column_definitions(out: &mut String, table: &TableMetadata, form: Form, has_short_key: bool) {
    let with_internals = form != Form::Described;
    let is_compact = table.layout.is_compact();
    let columns = columns_in_create_order(table);
    let dropped = if with_internals { dropped_columns(table) } else { Vec::new() };
    for (i, column) in columns.iter().enumerate() {
        if with_internals && table.dropped_columns.contains_key(&column.name) {
            continue;
        }
        *out += "    ";
        // COMPACT STORAGE without clustering columns stores the declared columns as static ones.
        let kind = if is_compact { ColumnKind::Regular } else { column.kind };
        column_definition(out, &column.name, &column.data_type, kind, form);
        append_mask(out, column);
        if has_short_key && column.kind == ColumnKind::PartitionKey {
            *out += " PRIMARY KEY";
        }
        if !has_short_key || !dropped.is_empty() || i + 1 < columns.len() {
            out.push(',');
        }
        out.push('\n');
    }
    for (i, (name, column)) in dropped.iter().enumerate() {
        *out += "    ";
        let is_regular = is_compact && form == Form::Executable;
        let kind = if is_regular { ColumnKind::Regular } else { column.kind };
        column_definition(out, name, &column.data_type, kind, form);
        if !has_short_key || i + 1 < dropped.len() {
            out.push(',');
        }
        out.push('\n');
    }
}

fn column_definition(out: &mut String, name: &str, data_type: &DataType, kind: ColumnKind, form: Form) {
    let suffix = if kind == ColumnKind::Static { " static" } else { "" };
    let name = quote_identifier(name);
    // Writing to a string cannot fail.
    let _ = match data_type {
        // CQL has no name for the type of a column that was hidden by COMPACT STORAGE.
        DataType::Empty if form == Form::Executable => write!(out, "{name} '{EMPTY_TYPE}'{suffix}"),
        _ => write!(out, "{name} {data_type}{suffix}"),
    };
}

const EMPTY_TYPE: &str = "org.apache.cassandra.db.marshal.EmptyType";

/// Appends `MASKED WITH …` if the column has a mask.
fn append_mask(out: &mut String, column: &ColumnMetadata) {
    let Some(mask) = &column.mask else { return };
    let types = mask_argument_types(mask, &column.data_type);
    let arguments = types.iter().zip(&mask.arguments);
    let arguments: Vec<_> =
        arguments.map(|(data_type, value)| to_literal(data_type, value.as_deref())).collect();
    // Writing to a string cannot fail.
    let _ = write!(out, " MASKED WITH system.{}({})", mask.function, arguments.join(", "));
}

fn primary_key(table: &TableMetadata) -> String {
    let names = |columns: &[std::sync::Arc<ColumnMetadata>]| {
        columns.iter().map(|column| quote_identifier(&column.name)).collect::<Vec<_>>().join(", ")
    };
    let partition_key = match table.partition_key.len() {
        1 => names(&table.partition_key),
        _ => format!("({})", names(&table.partition_key)),
    };
    if table.clustering.iter().all(|column| table.is_hidden(column)) {
        format!("PRIMARY KEY ({partition_key})")
    } else {
        format!("PRIMARY KEY ({partition_key}, {})", names(&table.clustering))
    }
}

/// Appends the options in Cassandra's order, which is alphabetic except for `memtable`. A view has
/// no default TTL.
fn options(out: &mut String, params: &TableParams, of_view: bool) {
    let map = |map: &TextMap| {
        let entries: Vec<_> = map
            .iter()
            .map(|(key, value)| format!("{}: {}", quote_string(key), quote_string(value)))
            .collect();
        format!("{{{}}}", entries.join(", "))
    };
    let options = [
        ("additional_write_policy", quote_string(&params.additional_write_policy)),
        ("allow_auto_snapshot", params.allow_auto_snapshot.unwrap_or(true).to_string()),
        ("bloom_filter_fp_chance", double_to_text(params.bloom_filter_fp_chance())),
        ("caching", map(&caching_map(&params.caching))),
        ("cdc", params.cdc.to_string()),
        ("comment", quote_string(&params.comment)),
        ("compaction", map(&compaction_map(params))),
        ("compression", map(&compression_map(params))),
        ("memtable", quote_string(&params.memtable)),
        ("crc_check_chance", double_to_text(params.crc_check_chance)),
        ("default_time_to_live", params.default_time_to_live.to_string()),
        ("extensions", "{}".to_owned()),
        ("gc_grace_seconds", params.gc_grace_seconds.to_string()),
        ("incremental_backups", params.incremental_backups.unwrap_or(true).to_string()),
        ("max_index_interval", params.max_index_interval.to_string()),
        ("memtable_flush_period_in_ms", params.memtable_flush_period_in_ms.to_string()),
        ("min_index_interval", params.min_index_interval.to_string()),
        ("read_repair", quote_string(&params.read_repair)),
        ("speculative_retry", quote_string(&params.speculative_retry)),
    ];
    let lines: Vec<_> = options
        .iter()
        .filter(|(name, _)| !of_view || *name != "default_time_to_live")
        .map(|(name, value)| format!("{name} = {value}"))
        .collect();
    *out += &lines.join("\n    AND ");
}

/// Appends the drops of columns, and the additions that followed them.
fn drops(out: &mut String, table: &TableMetadata, name: &str, form: Form) {
    for (column, dropped) in dropped_columns(table) {
        let quoted = quote_identifier(column);
        *out += &format!("\nALTER TABLE {name} DROP {quoted} USING TIMESTAMP {};", dropped.dropped_at);
        if let Some(again) = table.column(column) {
            *out += &format!("\nALTER TABLE {name} ADD ");
            column_definition(out, &again.name, &again.data_type, again.kind, form);
            append_mask(&mut *out, again);
            out.push(';');
        }
    }
}

/// Returns the dropped columns in the iteration order of Cassandra's hash map.
fn dropped_columns(table: &TableMetadata) -> Vec<(&str, &DroppedColumn)> {
    let mut columns: Vec<_> =
        table.dropped_columns.iter().map(|(name, column)| (name.as_str(), column)).collect();
    // Java's HashMap has 16 buckets, and doubles them when they are filled by more than three
    // quarters.
    let mut buckets = 16;
    while columns.len() * 4 > buckets * 3 {
        buckets *= 2;
    }
    columns.sort_by_key(|(name, _)| java_bucket(name.as_bytes(), buckets));
    columns
}

/// Returns the bucket of a `ByteBuffer` in a `HashMap`: its hash, with the upper half mixed into
/// the lower.
fn java_bucket(bytes: &[u8], buckets: usize) -> usize {
    let hash = bytes
        .iter()
        .rev()
        .fold(1i32, |hash, byte| hash.wrapping_mul(31).wrapping_add(i32::from(*byte as i8)))
        as u32;
    ((hash ^ (hash >> 16)) as usize) & (buckets - 1)
}
