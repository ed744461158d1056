//! The definition of an index, and the layout of its hidden table.
//!
//! ```text
//! partition key   the indexed value after a byte of 1, so that no key is empty
//! clustering      token bigint, partition key blob, then of the base table's row:
//!                 the clustering columns (null for the static row), unless a static column is indexed;
//!                 the element's path, if several elements of a row can have the same value;
//!                 in an index of a key column, empty for the permanent part of the row, and a byte
//!                 of 1 for its expiring part, see `entries`
//! columns         none: an entry is a row's liveness, with the TTL of the indexed cell
//! ```
//! The entries of a value are in the order of the base table, so paging continues after the last
//! row.
//!
//! A storage-attached index of a type that supports range searches is sorted by value, and each
//! SASI index by its terms:
//!
//! ```text
//! partition key   a byte of 2: all entries are in one partition
//! clustering      the indexed value, in the order of its type; then as above
//! ```

use std::borrow::Cow;
use std::sync::Arc;

use cassette_cql::quote_string;
use cassette_rows::schema::{CachingParams, IndexOf, RowsPerPartition};
use cassette_rows::{ColumnId, ColumnKind, ColumnMetadata, DataType, TableId, TableMetadata, TableParams};
use cassette_vectors::Similarity;
use md5::{Digest, Md5};
use smallvec::smallvec;
use uuid::Builder;

use super::{Analyzer, SASI, Sasi, Terms};
use crate::basics::error::{DatabaseError, Result};
use crate::schema::conditions::ColumnRestriction;
use crate::schema::system::TextMap;

/// The option with the indexed column.
pub(crate) const TARGET: &str = "target";
/// The option with the implementation of a custom index.
pub(crate) const CLASS_NAME: &str = "class_name";
/// The option with the order of an index of vectors.
pub(crate) const SIMILARITY_FUNCTION: &str = "similarity_function";

/// The implementation of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IndexKind {
    /// `CREATE INDEX`
    Composites,
    /// `CREATE CUSTOM INDEX … USING 'StorageAttachedIndex'`
    StorageAttached,
    /// `CREATE CUSTOM INDEX … USING 'org.apache.cassandra.index.sasi.SASIIndex'`
    Sasi,
}

impl IndexKind {
    /// Returns the name in `system_schema.indexes`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Composites => "COMPOSITES",
            Self::StorageAttached | Self::Sasi => "CUSTOM",
        }
    }

    /// Returns the kind with this name in `system_schema.indexes` and this class.
    pub(crate) fn from_name(name: &str, class: &str) -> Option<Self> {
        match name {
            "COMPOSITES" => Some(Self::Composites),
            "CUSTOM" if class == SASI => Some(Self::Sasi),
            "CUSTOM" => Some(Self::StorageAttached),
            _ => None,
        }
    }
}

/// Whether a class is one of the names of the storage-attached index.
pub(crate) fn is_storage_attached(class: &str) -> bool {
    let short = class.strip_prefix("org.apache.cassandra.index.sai.");
    short == Some("StorageAttachedIndex")
        || ["sai", "storageattachedindex"].iter().any(|name| class.eq_ignore_ascii_case(name))
}

/// The indexed part of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Part {
    Simple,
    Values,
    Keys,
    Entries,
    Full,
}

impl Part {
    /// Returns the function name before the column in parentheses.
    pub fn name(self) -> &'static str {
        match self {
            Self::Simple => "",
            Self::Values => "values",
            Self::Keys => "keys",
            Self::Entries => "entries",
            Self::Full => "full",
        }
    }
}

/// A column and its indexed part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub column: String,
    pub part: Part,
}

impl Target {
    /// Returns the text in the option `target` and in CREATE INDEX: `c`, `keys("C")`.
    pub fn to_text(&self) -> String {
        let column = cassette_cql::quote_identifier(&self.column);
        match self.part {
            Part::Simple => column.into_owned(),
            part => format!("{}({column})", part.name()),
        }
    }

    pub fn from_text(text: &str) -> Self {
        let unquote = |name: &str| match name.strip_prefix('"').and_then(|name| name.strip_suffix('"')) {
            Some(quoted) => quoted.replace("\"\"", "\""),
            None => name.to_owned(),
        };
        let parts = [Part::Values, Part::Keys, Part::Entries, Part::Full];
        let within = |part: Part| {
            let inner = text.strip_prefix(part.name())?.strip_prefix('(')?.strip_suffix(')')?;
            Some(Self { column: unquote(inner), part })
        };
        let found = parts.into_iter().find_map(within);
        found.unwrap_or_else(|| Self { column: unquote(text), part: Part::Simple })
    }
}

/// The bytes of a row that are the indexed value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// A component of the partition key, by index.
    PartitionKey(usize),
    /// A clustering column, by index.
    Clustering(usize),
    /// The cell of a column.
    Cell(ColumnId),
    /// The path of each element: the value in a set, the key in a map.
    Paths(ColumnId),
    /// The same; different paths may be analyzed into one value.
    AnalyzedPaths(ColumnId),
    /// The value of each element of a list or map.
    Values(ColumnId),
    /// The path and value of each element of a map.
    Entries(ColumnId),
}

/// The part of a collection that an index of elements finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Finds {
    Values,
    Keys,
    Entries,
}

/// The definition of a secondary index. The progress of its build is in `store::build_state`.
#[derive(Debug, Clone)]
pub struct Index {
    /// The name, in the case it is stored in; unique within the keyspace.
    pub name: String,
    /// The implementation.
    pub kind: IndexKind,
    /// The options in `system_schema.indexes`: `target` and, for a custom index, `class_name` and
    /// others.
    pub options: TextMap,
    /// The creation time, microseconds: the write timestamp of the row in the schema. It
    /// distinguishes successive indexes of one name.
    pub(crate) created_at: i64,
    pub(crate) target: Target,
    /// The indexed table, in its current form.
    pub(crate) base: Arc<TableMetadata>,
    pub(crate) column: Arc<ColumnMetadata>,
    pub(crate) source: Source,
    /// The analyzer of indexed and searched values.
    pub(crate) analyzer: Option<Analyzer>,
    /// The options of a SASI index.
    pub(crate) sasi: Option<Sasi>,
    /// The type that entries are sorted by, if they are sorted by value.
    pub(crate) ordered_by: Option<DataType>,
    /// The order of the rows that it finds, if it is an index of vectors, which finds no values.
    pub(crate) similarity: Option<Similarity>,
    /// The hidden table.
    pub(crate) storage: Arc<TableMetadata>,
}

impl Index {
    /// Returns the hidden table that holds the entries.
    pub fn storage(&self) -> &Arc<TableMetadata> {
        &self.storage
    }

    /// Returns the indexed table.
    pub fn base(&self) -> &Arc<TableMetadata> {
        &self.base
    }

    /// Returns an index on `base` for the option `target`.
    ///
    /// # Errors
    /// Server, if the options do not fit the table; for a SASI index Config.
    pub(crate) fn new(
        name: &str,
        kind: IndexKind,
        options: TextMap,
        created_at: i64,
        base: &Arc<TableMetadata>,
    ) -> Result<Self> {
        let unfit =
            |what: &str| DatabaseError::Server(format!("index {name} of {}: {what}", base.qualified_name()));
        let target = options.get(TARGET).ok_or_else(|| unfit("it has no option target"))?;
        let target = Target::from_text(target);
        let column = base.column(&target.column).ok_or_else(|| unfit("its column does not exist"))?.clone();
        let (mut source, mut analyzer, mut ordered_by) = (source(&column, target.part), None, None);
        if kind == IndexKind::StorageAttached {
            analyzer = Analyzer::of_column(&column.data_type, target.part, &options)?;
            if let (Source::Paths(column), Some(_)) = (source, analyzer) {
                source = Source::AnalyzedPaths(column);
            }
            ordered_by = order_of(&column.data_type, source);
        }
        let sasi = (kind == IndexKind::Sasi).then(|| Sasi::new(&column, &options)).transpose()?;
        if let Some(sasi) = sasi {
            analyzer = sasi.changes_values().then_some(Analyzer::Sasi(sasi));
            ordered_by = Some(if sasi.is_literal() { DataType::Blob } else { column.data_type.clone() });
        }
        let is_of_vectors = kind == IndexKind::StorageAttached && column.data_type.is_float_vector();
        let named = options.get(SIMILARITY_FUNCTION).and_then(|name| Similarity::named(name));
        let similarity = is_of_vectors.then(|| named.unwrap_or_default());
        let storage = Arc::new(storage(name, created_at, base, &column, source, ordered_by.as_ref()));
        Ok(Self {
            name: name.to_owned(),
            kind,
            options,
            created_at,
            target,
            base: base.clone(),
            column,
            source,
            analyzer,
            sasi,
            ordered_by,
            similarity,
            storage,
        })
    }

    /// Returns the options that CREATE INDEX stores for its targets.
    pub(crate) fn options_of(targets: &[Target]) -> TextMap {
        let targets: Vec<String> = targets.iter().map(Target::to_text).collect();
        [(TARGET.to_owned(), targets.join(", "))].into()
    }

    /// Returns the form of a value that is indexed.
    pub(crate) fn analyzed<'v>(&self, value: Cow<'v, [u8]>) -> Cow<'v, [u8]> {
        match &self.analyzer {
            Some(analyzer) => analyzer.analyze(value),
            None => value,
        }
    }

    /// Returns the indexed terms of a value.
    pub(crate) fn terms<'v>(&self, value: Cow<'v, [u8]>) -> Terms<'v> {
        match self.sasi {
            Some(sasi) => sasi.terms(value),
            None => smallvec![self.analyzed(value)],
        }
    }

    /// Whether two values are equal in the index: in an index sorted by value, 1.0 equals 1.00.
    pub(crate) fn same_value(&self, a: &[u8], b: &[u8]) -> bool {
        match &self.ordered_by {
            Some(data_type) => data_type.compare(a, b).is_eq(),
            None => a == b,
        }
    }

    /// Returns the index on the altered base table. Its hidden table is unchanged if the alteration
    /// does not affect it.
    pub(crate) fn rebased(&self, base: &Arc<TableMetadata>) -> Result<Self> {
        let mut rebased = Self::new(&self.name, self.kind, self.options.clone(), self.created_at, base)?;
        let mut storage = (*rebased.storage).clone();
        storage.version = self.storage.version;
        rebased.storage = if storage == *self.storage {
            self.storage.clone()
        } else {
            storage.version += 1;
            Arc::new(storage)
        };
        Ok(rebased)
    }

    /// Whether an entry refers to a row, rather than to all rows of a partition.
    pub(crate) fn is_of_rows(&self) -> bool {
        !matches!(self.column.kind, ColumnKind::PartitionKey | ColumnKind::Static)
    }

    /// Whether a static column is indexed.
    pub(crate) fn is_of_static(&self) -> bool {
        self.column.kind == ColumnKind::Static
    }

    /// Whether a column of the primary key is indexed.
    pub(crate) fn is_of_key(&self) -> bool {
        matches!(self.source, Source::PartitionKey(_) | Source::Clustering(_))
    }

    /// Returns the number of the base table's clustering columns in its entries.
    pub(crate) fn clustering_columns(&self) -> usize {
        if self.is_of_static() { 0 } else { self.base.clustering.len() }
    }

    /// Whether the index finds rows by this restriction of `column`; the rows may still have to be
    /// filtered.
    pub(crate) fn supports(&self, column: &ColumnMetadata, restriction: &ColumnRestriction) -> bool {
        if self.column.name != column.name || self.similarity.is_some() {
            return false;
        }
        if let Some(sasi) = self.sasi {
            return match restriction {
                ColumnRestriction::Eq(_) => sasi.supports_equality(),
                ColumnRestriction::Slice(_) => sasi.supports_ranges(),
                ColumnRestriction::Like(_) => sasi.is_literal(),
                ColumnRestriction::In(_) | ColumnRestriction::Contains { .. } => false,
            };
        }
        match (restriction, self.source) {
            (ColumnRestriction::Eq(_), Source::PartitionKey(_) | Source::Clustering(_) | Source::Cell(_)) => {
                true
            }
            (ColumnRestriction::Slice(_), _) => self.ordered_by.is_some(),
            (
                ColumnRestriction::Contains { values, keys, entries },
                Source::Paths(_) | Source::AnalyzedPaths(_) | Source::Values(_) | Source::Entries(_),
            ) => match self.finds() {
                Finds::Values => !values.is_empty(),
                Finds::Keys => !keys.is_empty(),
                Finds::Entries => !entries.is_empty(),
            },
            _ => false,
        }
    }

    /// Returns the part of a collection that the index finds.
    pub(crate) fn finds(&self) -> Finds {
        match self.source {
            Source::Paths(_) | Source::AnalyzedPaths(_)
                if matches!(self.column.data_type, DataType::Map { .. }) =>
            {
                Finds::Keys
            }
            Source::Entries(_) => Finds::Entries,
            _ => Finds::Values,
        }
    }

    /// Whether rows found by this restriction need no further check of the column.
    pub(crate) fn satisfies(&self, column: &ColumnMetadata, restriction: &ColumnRestriction) -> bool {
        let one = match restriction {
            ColumnRestriction::Contains { values, keys, entries } => {
                self.kind == IndexKind::StorageAttached || values.len() + keys.len() + entries.len() == 1
            }
            _ => true,
        };
        one && self.supports(column, restriction)
    }

    /// Returns the CREATE INDEX statement.
    pub(crate) fn create_statement(&self) -> String {
        let custom = if self.kind == IndexKind::Composites { "" } else { "CUSTOM " };
        let mut text = format!(
            "CREATE {custom}INDEX {} ON {} ({})",
            cassette_cql::quote_identifier(&self.name),
            self.base.qualified_name(),
            self.target.to_text()
        );
        if let Some(class) = self.options.get(CLASS_NAME) {
            text += &format!(" USING {}", quote_string(class));
        }
        let others = self.options.iter().filter(|(key, _)| *key != TARGET && *key != CLASS_NAME);
        let others: Vec<String> =
            others.map(|(key, value)| format!("{}: {}", quote_string(key), quote_string(value))).collect();
        if !others.is_empty() {
            text += &format!(" WITH OPTIONS = {{{}}}", others.join(", "));
        }
        text + ";"
    }
}

/// Returns the type that a storage-attached index is sorted by, if it supports range searches.
fn order_of(data_type: &DataType, source: Source) -> Option<DataType> {
    if !matches!(source, Source::PartitionKey(_) | Source::Clustering(_) | Source::Cell(_)) {
        return None;
    }
    match data_type {
        DataType::TinyInt
        | DataType::SmallInt
        | DataType::Int
        | DataType::BigInt
        | DataType::VarInt
        | DataType::Decimal
        | DataType::Float
        | DataType::Double
        | DataType::Timestamp
        | DataType::Date
        | DataType::Time
        | DataType::TimeUuid => Some(data_type.clone()),
        // Indexed as 16 bytes; see the analyzer.
        DataType::Inet => Some(DataType::Blob),
        _ => None,
    }
}

fn source(column: &ColumnMetadata, part: Part) -> Source {
    match column.kind {
        ColumnKind::PartitionKey => Source::PartitionKey(column.position),
        ColumnKind::Clustering => Source::Clustering(column.position),
        ColumnKind::Static | ColumnKind::Regular if !column.data_type.is_multi_cell() => {
            Source::Cell(column.id)
        }
        ColumnKind::Static | ColumnKind::Regular => match (&column.data_type, part) {
            (DataType::Set { .. }, _) | (DataType::Map { .. }, Part::Keys) => Source::Paths(column.id),
            (DataType::Map { .. }, Part::Entries) => Source::Entries(column.id),
            _ => Source::Values(column.id),
        },
    }
}

fn storage(
    name: &str,
    created_at: i64,
    base: &TableMetadata,
    column: &ColumnMetadata,
    source: Source,
    ordered_by: Option<&DataType>,
) -> TableMetadata {
    let mut columns = Vec::with_capacity(base.clustering.len() + 4);
    let mut add = |name: &str, kind, position, data_type, reversed| {
        columns.push(ColumnMetadata { reversed, ..ColumnMetadata::new(name, kind, position, data_type) });
    };
    let clustering = ColumnKind::Clustering;
    let mut position = 0;
    match ordered_by {
        None => add(&column.name, ColumnKind::PartitionKey, 0, DataType::Blob, false),
        Some(data_type) => {
            add("all", ColumnKind::PartitionKey, 0, DataType::Blob, false);
            add(&column.name, clustering, position, data_type.clone(), false);
            position += 1;
        }
    }
    for (name, data_type) in [("token", DataType::BigInt), ("partition_key", DataType::Blob)] {
        add(name, clustering, position, data_type, false);
        position += 1;
    }
    if column.kind != ColumnKind::Static {
        for column in &base.clustering {
            add(&column.name, clustering, position, column.data_type.clone(), column.reversed);
            position += 1;
        }
    }
    if !matches!(source, Source::Cell(_) | Source::Paths(_) | Source::Entries(_)) {
        add("cell_path", clustering, position, DataType::Blob, false);
    }
    // Deleted entries are purged by the next compaction: there are no other replicas.
    let params = TableParams {
        gc_grace_seconds: 0,
        default_time_to_live: 0,
        comment: String::new(),
        caching: CachingParams { rows_per_partition: RowsPerPartition::None, ..base.params.caching.clone() },
        ..base.params.clone()
    };
    let mut table =
        TableMetadata::new(storage_id(name, created_at, base), &base.keyspace, "", columns, params);
    table.name = format!("{}.{name}", base.name);
    table.index_of = Some(IndexOf { base_directory: base.directory_name(), index: name.to_owned() });
    table
}

/// Returns an id that no other index has, including earlier ones of the same name, whose commit log
/// records may still exist.
fn storage_id(name: &str, created_at: i64, base: &TableMetadata) -> TableId {
    let mut digest = Md5::new();
    digest.update(base.id.0.as_bytes());
    digest.update(created_at.to_be_bytes());
    digest.update(name.as_bytes());
    TableId(Builder::from_md5_bytes(digest.finalize().into()).into_uuid())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_reads_as_it_is_written() {
        for (column, part, text) in [
            ("v", Part::Simple, "v"),
            ("v", Part::Values, "values(v)"),
            ("m", Part::Keys, "keys(m)"),
            ("Mixed \"case\"", Part::Entries, "entries(\"Mixed \"\"case\"\"\")"),
            ("full", Part::Full, "full(full)"),
        ] {
            let target = Target { column: column.into(), part };
            assert_eq!(Target::from_text(text), target);
            assert_eq!(Target::from_text(&target.to_text()), target);
        }
    }
}
