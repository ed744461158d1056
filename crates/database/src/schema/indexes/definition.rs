//! What an index is of, and the hidden table that holds it.
//!
//! ```text
//! partition key   the indexed value behind a byte of 1, so that no key is empty
//! clustering      token bigint, partition key blob, then of the base table's row:
//!                 the clustering columns (null for the static row), unless a static column is indexed;
//!                 the element's path, where several elements of a row may hold the same value; in an index of a key column
//!                 empty for what of the row stays, and a byte of 1 for what of it expires, see `entries`
//! columns         none: an entry is a row's liveness, with the time to live of the cell that it is of
//! ```
//! Entries of a value lie in the order of the base table, so that pages go on where they ended.
//!
//! A storage-attached index of a type that can be asked for ranges is laid out in the order of values:
//!
//! ```text
//! partition key   a byte of 2: all entries lie in one partition
//! clustering      the indexed value, in the order of its type; then as above
//! ```

use std::borrow::Cow;
use std::sync::Arc;

use cassette_cql::quote_string;
use cassette_rows::schema::{CachingParams, IndexOf, RowsPerPartition};
use cassette_rows::{ColumnId, ColumnKind, ColumnMetadata, DataType, TableId, TableMetadata, TableParams};
use md5::{Digest, Md5};
use uuid::Builder;

use super::Analyzer;
use crate::basics::error::{DatabaseError, Result};
use crate::schema::conditions::ColumnRestriction;
use crate::schema::system::TextMap;

/// The option that says what is indexed.
pub(crate) const TARGET: &str = "target";
/// The option that says what implements a custom index.
pub(crate) const CLASS_NAME: &str = "class_name";

/// What implements an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IndexKind {
    /// `CREATE INDEX`
    Composites,
    /// `CREATE CUSTOM INDEX … USING 'StorageAttachedIndex'`
    StorageAttached,
}

impl IndexKind {
    /// As `system_schema.indexes` has it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Composites => "COMPOSITES",
            Self::StorageAttached => "CUSTOM",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        match name {
            "COMPOSITES" => Some(Self::Composites),
            "CUSTOM" => Some(Self::StorageAttached),
            _ => None,
        }
    }
}

/// Which part of a column is indexed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Part {
    Simple,
    Values,
    Keys,
    Entries,
    Full,
}

impl Part {
    /// What stands before the column in parentheses.
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

/// A column, and which part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub column: String,
    pub part: Part,
}

impl Target {
    /// As the option `target` and CREATE INDEX have it: `c`, `keys("C")`.
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

/// Which bytes of a row are the indexed value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// A component of the partition key, by position.
    PartitionKey(usize),
    /// A clustering column, by position.
    Clustering(usize),
    /// The cell of a column.
    Cell(ColumnId),
    /// The path of each element: of a set its value, of a map its key.
    Paths(ColumnId),
    /// The same, where paths that differ may be one value to the index.
    AnalyzedPaths(ColumnId),
    /// The value of each element: of a list or a map.
    Values(ColumnId),
    /// Path and value of each element of a map.
    Entries(ColumnId),
}

/// Which part of a collection is looked for in an index of elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Finds {
    Values,
    Keys,
    Entries,
}

/// The definition of a secondary index. How far it is built is in `store::build_state`.
#[derive(Debug, Clone)]
pub struct Index {
    /// The name, in the case it is stored in; unique within the keyspace.
    pub name: String,
    /// What implements it.
    pub kind: IndexKind,
    /// As `system_schema.indexes` has them: `target` and, of a custom index, `class_name` and its own.
    pub options: TextMap,
    /// When it was created, microseconds: the write time of its row in the schema. Tells indexes of one name apart.
    pub(crate) created_at: i64,
    pub(crate) target: Target,
    /// The table it is of, in its current form.
    pub(crate) base: Arc<TableMetadata>,
    pub(crate) column: Arc<ColumnMetadata>,
    pub(crate) source: Source,
    /// What becomes of a value before it is indexed or looked for.
    pub(crate) analyzer: Option<Analyzer>,
    /// The type in whose order entries lie, if they lie in the order of values.
    pub(crate) ordered_by: Option<DataType>,
    /// The hidden table.
    pub(crate) storage: Arc<TableMetadata>,
}

impl Index {
    /// The hidden table that holds its entries.
    pub fn storage(&self) -> &Arc<TableMetadata> {
        &self.storage
    }

    /// An index on `base` of what the option `target` says.
    ///
    /// # Errors
    /// Server, if the options do not fit the table.
    pub(crate) fn new(
        name: &str,
        kind: IndexKind,
        options: TextMap,
        created_at: i64,
        base: &Arc<TableMetadata>,
    ) -> Result<Self> {
        let unfit =
            |what: &str| DatabaseError::Server(format!("index {name} of {}: {what}", base.qualified_name()));
        let target = options.get(TARGET).ok_or_else(|| unfit("it does not say what is indexed"))?;
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
            ordered_by,
            storage,
        })
    }

    /// What CREATE INDEX stores of its targets.
    pub(crate) fn options_of(targets: &[Target]) -> TextMap {
        let targets: Vec<String> = targets.iter().map(Target::to_text).collect();
        [(TARGET.to_owned(), targets.join(", "))].into()
    }

    /// What is indexed in the place of a value.
    pub(crate) fn analyzed<'v>(&self, value: Cow<'v, [u8]>) -> Cow<'v, [u8]> {
        match &self.analyzer {
            Some(analyzer) => analyzer.analyze(value),
            None => value,
        }
    }

    /// Whether the two values are one to the index: in an order of values, 1.0 is 1.00.
    pub(crate) fn same_value(&self, a: &[u8], b: &[u8]) -> bool {
        match &self.ordered_by {
            Some(data_type) => data_type.compare(a, b).is_eq(),
            None => a == b,
        }
    }

    /// The same index after its table was altered; `None` if that needs no change of the hidden table either.
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

    /// Whether an entry is of a row; else of a partition, whose rows all answer.
    pub(crate) fn is_of_rows(&self) -> bool {
        !matches!(self.column.kind, ColumnKind::PartitionKey | ColumnKind::Static)
    }

    /// Whether it is of a static column.
    pub(crate) fn is_of_static(&self) -> bool {
        self.column.kind == ColumnKind::Static
    }

    /// Whether it is of a column of the primary key.
    pub(crate) fn is_of_key(&self) -> bool {
        matches!(self.source, Source::PartitionKey(_) | Source::Clustering(_))
    }

    /// How many of the base table's clustering columns its entries have.
    pub(crate) fn clustering_columns(&self) -> usize {
        if self.is_of_static() { 0 } else { self.base.clustering.len() }
    }

    /// Whether it finds rows by this restriction of `column`, though others may have to be looked at one by one.
    pub(crate) fn supports(&self, column: &ColumnMetadata, restriction: &ColumnRestriction) -> bool {
        if self.column.name != column.name {
            return false;
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

    /// What of a collection it finds rows by.
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

    /// Whether rows that it finds by this restriction need no further look at the column.
    pub(crate) fn satisfies(&self, column: &ColumnMetadata, restriction: &ColumnRestriction) -> bool {
        let one = match restriction {
            ColumnRestriction::Contains { values, keys, entries } => {
                self.kind == IndexKind::StorageAttached || values.len() + keys.len() + entries.len() == 1
            }
            _ => true,
        };
        one && self.supports(column, restriction)
    }

    /// The statement that makes it again.
    pub(crate) fn create_statement(&self) -> String {
        let custom = if self.kind == IndexKind::StorageAttached { "CUSTOM " } else { "" };
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

/// The type in whose order a storage-attached index has its values, if it can be asked for ranges of them.
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
        // Indexed as 16 bytes, see the analyzer.
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
    // What a write does not need any more goes at the next compaction: nobody else has a copy of it.
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

/// An id that no other index has, nor had one of the same name before: its log records may still be there.
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
