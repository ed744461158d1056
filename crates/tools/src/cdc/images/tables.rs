//! The tables of a copy: their stored definitions, and how they follow those of changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use cassette_engine::commitlog::Position;
use cassette_rows::schema::DroppedColumn;
use cassette_rows::types::parse_class_name;
use cassette_rows::{ColumnKind, ColumnMetadata, DataType, TableId, TableMetadata, TableParams};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::super::position;
use super::translate::ColumnMap;

/// A table of a copy.
pub(super) struct CopiedTable {
    /// As it is stored. Column ids are those of this process.
    pub stored: Arc<TableMetadata>,
    /// Whether the copy has all of the table's rows, or only those that changes wrote.
    pub is_known: bool,
    /// The copy began with the table's changes up to here.
    pub contained: Position,
    /// The version of the table in the last change, and its columns in `stored`.
    current: Option<(Arc<TableMetadata>, Arc<ColumnMap>)>,
    /// The segment and the version whose columns are those of `stored`.
    latest: Option<(u64, u32)>,
}

impl CopiedTable {
    /// Returns a table whose columns are those of `table`.
    pub fn new(table: &TableMetadata, is_known: bool, contained: Position) -> Self {
        let stored = Arc::new(plain(table));
        Self { stored, is_known, contained, current: None, latest: None }
    }

    /// Returns the columns of a version of the table, in a change of `segment`, in the stored one,
    /// if they are equal, or the version is an earlier one: writes during an ALTER can have it.
    pub fn columns_of(&mut self, table: &Arc<TableMetadata>, segment: u64) -> Option<Arc<ColumnMap>> {
        if let Some((current, map)) = &self.current
            && Arc::ptr_eq(current, table)
        {
            return Some(map.clone());
        }
        if has_same_columns(&self.stored, table) {
            self.latest = Some((segment, table.version));
        } else if !self.latest.is_some_and(|(of, latest)| of == segment && table.version < latest) {
            return None;
        }
        let map = Arc::new(ColumnMap::new(table, &self.stored));
        self.current = Some((table.clone(), map.clone()));
        Some(map)
    }

    /// Returns the stored table with the columns of a later version. Those that it lacks are
    /// dropped at `dropped_at`, microseconds.
    ///
    /// # Errors
    /// If it is not a version of the same table.
    pub fn altered(&self, table: &TableMetadata, dropped_at: i64) -> anyhow::Result<TableMetadata> {
        altered(&self.stored, table, dropped_at)
    }

    /// Replaces the stored table by an altered one.
    pub fn set_stored(&mut self, stored: Arc<TableMetadata>) {
        self.stored = stored;
        self.current = None;
    }
}

/// Returns a table of the copy with the columns of another one, without its options.
fn plain(table: &TableMetadata) -> TableMetadata {
    let columns = table.all_columns().map(|column| ColumnMetadata { mask: None, ..(**column).clone() });
    let params = TableParams::default();
    TableMetadata::new(table.id, &table.keyspace, &table.name, columns.collect(), params)
}

fn keys(table: &TableMetadata) -> impl Iterator<Item = &Arc<ColumnMetadata>> {
    table.partition_key.iter().chain(&table.clustering)
}

fn stored_columns(table: &TableMetadata) -> impl Iterator<Item = &Arc<ColumnMetadata>> {
    table.columns.iter().flatten()
}

fn has_same_columns(stored: &TableMetadata, table: &TableMetadata) -> bool {
    let same = |a: &Arc<ColumnMetadata>, b: &Arc<ColumnMetadata>| {
        (&a.name, a.kind, &a.data_type, a.reversed) == (&b.name, b.kind, &b.data_type, b.reversed)
    };
    keys(stored).count() == keys(table).count()
        && keys(stored).zip(keys(table)).all(|(a, b)| same(a, b))
        && stored_columns(stored).count() == stored_columns(table).count()
        && stored_columns(table)
            .all(|column| stored.column(&column.name).is_some_and(|other| same(other, column)))
}

fn altered(stored: &TableMetadata, table: &TableMetadata, dropped_at: i64) -> anyhow::Result<TableMetadata> {
    let is_version = keys(stored).count() == keys(table).count()
        && keys(stored).zip(keys(table)).all(|(a, b)| (a.kind, a.reversed) == (b.kind, b.reversed));
    if !is_version {
        bail!("{}: its primary key differs from that of the copy", table.qualified_name());
    }
    let is_kept = |column: &ColumnMetadata| {
        table.column(&column.name).is_some_and(|other| {
            other.kind == column.kind && other.data_type.is_multi_cell() == column.data_type.is_multi_cell()
        })
    };
    let dropped: BTreeSet<String> =
        stored_columns(stored).filter(|column| !is_kept(column)).map(|column| column.name.clone()).collect();
    let mut next = stored.with_columns_dropped(dropped.iter().map(String::as_str), dropped_at);
    // Two renamed key columns can have each other's names.
    let names: Vec<(String, String)> = keys(stored)
        .zip(keys(table))
        .filter(|(old, new)| old.name != new.name)
        .map(|(old, new)| (old.name.clone(), new.name.clone()))
        .collect();
    let temporary = |place: usize| format!("\u{0}{place}");
    for (place, (old, _)) in names.iter().enumerate() {
        next = next.with_key_column_renamed(old, &temporary(place));
    }
    for (place, (_, new)) in names.iter().enumerate() {
        next = next.with_key_column_renamed(&temporary(place), new);
    }
    // ALTER TYPE changes the type wherever it occurs.
    let changed: Vec<(DataType, DataType)> = next
        .all_columns()
        .filter_map(|column| Some((column, table.column(&column.name)?)))
        .filter(|(old, new)| old.data_type != new.data_type)
        .map(|(old, new)| (old.data_type.clone(), new.data_type.clone()))
        .collect();
    if !changed.is_empty() {
        let map = |data_type: &DataType| {
            let found = changed.iter().find(|(old, _)| old == data_type);
            found.map_or_else(|| data_type.clone(), |(_, new)| new.clone())
        };
        next = next.with_types_mapped(map);
    }
    let added: Vec<ColumnMetadata> = stored_columns(table)
        .filter(|column| next.column(&column.name).is_none())
        .map(|column| ColumnMetadata { mask: None, ..(**column).clone() })
        .collect();
    if next.counted_columns() + added.len() > TableMetadata::COLUMNS_MAX {
        bail!("{}: too many columns have been dropped and added; begin a new copy", table.qualified_name());
    }
    if !added.is_empty() {
        next = next.with_columns_added(added);
    }
    Ok(next)
}

/// A table as the copy stores it, in JSON.
#[derive(Serialize, Deserialize)]
struct Definition {
    id: String,
    keyspace: String,
    name: String,
    columns: Vec<Column>,
    dropped: BTreeMap<String, Dropped>,
    known: bool,
    contained: String,
}

#[derive(Serialize, Deserialize)]
struct Column {
    name: String,
    kind: Kind,
    position: usize,
    /// The name of the class of its type in Cassandra.
    class: String,
}

#[derive(Serialize, Deserialize)]
struct Dropped {
    kind: Kind,
    class: String,
    at: i64,
}

#[derive(Serialize, Deserialize, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum Kind {
    PartitionKey,
    Clustering,
    Static,
    Regular,
}

impl From<ColumnKind> for Kind {
    fn from(kind: ColumnKind) -> Self {
        match kind {
            ColumnKind::PartitionKey => Self::PartitionKey,
            ColumnKind::Clustering => Self::Clustering,
            ColumnKind::Static => Self::Static,
            ColumnKind::Regular => Self::Regular,
        }
    }
}

impl From<Kind> for ColumnKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::PartitionKey => Self::PartitionKey,
            Kind::Clustering => Self::Clustering,
            Kind::Static => Self::Static,
            Kind::Regular => Self::Regular,
        }
    }
}

/// Encodes a table of the copy with a version of its definition that is to be stored.
pub(super) fn encode(table: &CopiedTable, stored: &TableMetadata) -> anyhow::Result<Vec<u8>> {
    let column = |column: &Arc<ColumnMetadata>| Column {
        name: column.name.clone(),
        kind: column.kind.into(),
        position: column.position,
        class: column.data_type.clustering_class_name(column.reversed),
    };
    let dropped = |(name, dropped): (&String, &DroppedColumn)| {
        let (kind, class) = (dropped.kind.into(), dropped.data_type.class_name());
        (name.clone(), Dropped { kind, class, at: dropped.dropped_at })
    };
    let definition = Definition {
        id: stored.id.0.to_string(),
        keyspace: stored.keyspace.clone(),
        name: stored.name.clone(),
        columns: stored.all_columns().map(column).collect(),
        dropped: stored.dropped_columns.iter().map(dropped).collect(),
        known: table.is_known,
        contained: table.contained.to_string(),
    };
    Ok(serde_json::to_vec(&definition)?)
}

/// Decodes a table of the copy.
///
/// # Errors
/// If the bytes are not a definition.
pub(super) fn decode(bytes: &[u8]) -> anyhow::Result<CopiedTable> {
    let definition: Definition = serde_json::from_slice(bytes).context("the definition of a table")?;
    let class = |class: &str| parse_class_name(class).map_err(|error| anyhow!("{error}"));
    let mut columns = Vec::new();
    for Column { name, kind, position, class: name_of_class } in definition.columns {
        let (data_type, reversed) = class(&name_of_class)?;
        columns
            .push(ColumnMetadata { reversed, ..ColumnMetadata::new(name, kind.into(), position, data_type) });
    }
    if columns.len() + definition.dropped.len() > TableMetadata::COLUMNS_MAX {
        bail!("the definition of a table has {} columns", columns.len());
    }
    let mut dropped = BTreeMap::new();
    for (name, Dropped { kind, class: name_of_class, at }) in definition.dropped {
        let (data_type, _) = class(&name_of_class)?;
        dropped.insert(name, DroppedColumn { data_type, kind: kind.into(), dropped_at: at });
    }
    let Definition { id, keyspace, name, known, contained, .. } = definition;
    let id = TableId(Uuid::try_parse(&id).context("the id of a table")?);
    let mut stored = TableMetadata::new(id, keyspace, name, columns, TableParams::default());
    stored.set_dropped_columns(dropped);
    let contained = position(&contained).map_err(|error| anyhow!(error))?;
    Ok(CopiedTable { stored: Arc::new(stored), is_known: known, contained, current: None, latest: None })
}
