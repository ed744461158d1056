//! The part of a table's schema that the storage layers use: its columns, their order, and its
//! options.

use std::collections::BTreeMap;
use std::sync::Arc;

use uuid::Uuid;

use crate::clustering::ClusteringComparator;
use crate::layout::Layout;
use crate::types::{DataType, quote_identifier};

/// A table's identity: constant when the table is renamed or altered, and part of its directory's
/// name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId(pub Uuid);

/// A static or regular column within its table, in this process: cells refer to columns by it.
///
/// Ids are dense. When a table is loaded they ascend in the order of SSTable headers (see
/// [`compare_column_names`]); a column added later gets the next id. They are never written to
/// disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ColumnId(pub u16);

/// The role of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ColumnKind {
    /// Part of the partition key.
    PartitionKey,
    /// Part of the clustering.
    Clustering,
    /// One value per partition.
    Static,
    /// One value per row.
    Regular,
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnMetadata {
    /// The name, in the case it is stored in.
    pub name: String,
    /// The role of the column.
    pub kind: ColumnKind,
    /// The index within the partition key or the clustering; 0 for other kinds.
    pub position: usize,
    /// The type of the values.
    pub data_type: DataType,
    /// Clustering columns only: `CLUSTERING ORDER BY … DESC`.
    pub reversed: bool,
    /// The id in cells, of static and regular columns. `ColumnId(u16::MAX)` for key columns.
    pub id: ColumnId,
    /// The dynamic data mask. Storage ignores it: it applies to results of statements.
    pub mask: Option<Arc<ColumnMask>>,
}

/// The dynamic data mask of a column: a native function that replaces its values in results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnMask {
    /// The name of the function, in keyspace `system`.
    pub function: String,
    /// The values of the arguments after the column; `None` for null. The function and the column's
    /// type determine their types.
    pub arguments: Vec<Option<Vec<u8>>>,
}

impl ColumnMetadata {
    /// Returns a column in ascending order without a mask, and without an id until a
    /// [`TableMetadata`] assigns one.
    pub fn new(name: impl Into<String>, kind: ColumnKind, position: usize, data_type: DataType) -> Self {
        let id = ColumnId(u16::MAX);
        Self { name: name.into(), kind, position, data_type, reversed: false, id, mask: None }
    }
}

/// A dropped column; SSTables may still contain its cells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DroppedColumn {
    /// The type it had.
    pub data_type: DataType,
    /// [`ColumnKind::Static`] or [`ColumnKind::Regular`].
    pub kind: ColumnKind,
    /// Its cells with timestamps at or below this (microseconds) are dropped.
    pub dropped_at: i64,
}

/// A table, as the storage layers use it. Immutable: ALTER creates a new one with the same id.
#[derive(Debug, Clone, PartialEq)]
pub struct TableMetadata {
    /// The identity.
    pub id: TableId,
    /// Grows by one with each ALTER in this process; the commit log distinguishes column lists by
    /// it.
    pub version: u32,
    /// The keyspace's name.
    pub keyspace: String,
    /// The table's name.
    pub name: String,
    /// Partition key columns by position.
    pub partition_key: Vec<Arc<ColumnMetadata>>,
    /// Clustering columns by position.
    pub clustering: Vec<Arc<ColumnMetadata>>,
    /// Static and regular columns, indexed by [`ColumnId`]; `None` where a column was dropped.
    pub columns: Vec<Option<Arc<ColumnMetadata>>>,
    /// Dropped columns by name. A name may be here and in `columns` (dropped, then added again).
    pub dropped_columns: BTreeMap<String, DroppedColumn>,
    /// The ids of dropped columns that were not added again: memtables may contain cells of these
    /// that are newer than the drop.
    pub dropped_ids: BTreeMap<String, ColumnId>,
    /// Whether its regular and static columns are counters.
    pub is_counter: bool,
    /// How CQL rows are stored; other than [`Layout::Cql`] with COMPACT STORAGE.
    pub layout: Layout,
    /// Whether a row exists only as long as its liveness, regardless of its cells: true for
    /// materialized views whose key has a column that is not in their base's key.
    pub strict_liveness: bool,
    /// The options.
    pub params: TableParams,
    /// The order of its clusterings, derived from `clustering`.
    pub comparator: ClusteringComparator,
    /// The base table, if this is the hidden table of an index.
    pub index_of: Option<IndexOf>,
    /// Whether a column has a mask, derived from the columns.
    has_masks: bool,
    /// All columns by name, derived from the three lists above.
    by_name: Vec<Arc<ColumnMetadata>>,
}

/// The base table of a hidden index table, whose SSTables are in a subdirectory of the base table's
/// directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexOf {
    /// [`directory_name`](TableMetadata::directory_name) of the base table.
    pub base_directory: String,
    /// The index's name.
    pub index: String,
}

/// Orders column names as SSTable headers do: simple before complex, then by name bytes, the first
/// byte compared as signed and the others as unsigned (names that begin with a non-ASCII letter
/// come before all others).
pub fn compare_column_names(
    a: (&str, bool /* complex */),
    b: (&str, bool /* complex */),
) -> std::cmp::Ordering {
    let key = |name: &str| name.as_bytes().first().map(|first| *first as i8);
    a.1.cmp(&b.1).then_with(|| key(a.0).cmp(&key(b.0))).then_with(|| a.0.as_bytes().cmp(b.0.as_bytes()))
}

impl TableMetadata {
    /// The maximum number of columns of a table: key columns, and each that has a [`ColumnId`],
    /// dropped or not.
    ///
    /// An id has 16 bits, and `u16::MAX` represents key columns. SSTables and paging states count
    /// clustering values in 16 bits as well.
    pub const COLUMNS_MAX: usize = u16::MAX as usize;

    /// Creates a table from its columns in any order; assigns ids and the comparator, and keeps
    /// positions. Callers check the number of columns first.
    ///
    /// # Panics
    /// If there are more than [`COLUMNS_MAX`](Self::COLUMNS_MAX) columns: wrapped ids would mix up
    /// their cells.
    pub fn new(
        id: TableId,
        keyspace: impl Into<String>,
        name: impl Into<String>,
        columns: Vec<ColumnMetadata>,
        params: TableParams,
    ) -> Self {
        assert!(columns.len() <= Self::COLUMNS_MAX, "a table of {} columns", columns.len());
        let mut partition_key = Vec::new();
        let mut clustering = Vec::new();
        let mut stored = Vec::new();
        for mut column in columns {
            column.id = ColumnId(u16::MAX);
            match column.kind {
                ColumnKind::PartitionKey => partition_key.push(Arc::new(column)),
                ColumnKind::Clustering => clustering.push(Arc::new(column)),
                ColumnKind::Static | ColumnKind::Regular => stored.push(column),
            }
        }
        partition_key.sort_by_key(|c| c.position);
        clustering.sort_by_key(|c| c.position);
        stored.sort_by(|a, b| {
            compare_column_names(
                (&a.name, a.data_type.is_multi_cell()),
                (&b.name, b.data_type.is_multi_cell()),
            )
        });
        let is_counter = stored.iter().any(|c| c.data_type == DataType::Counter);
        let columns = stored
            .into_iter()
            .zip(0u16..)
            .map(|(column, id)| Some(Arc::new(ColumnMetadata { id: ColumnId(id), ..column })))
            .collect();
        let comparator = Self::comparator_of(&clustering);
        let mut table = Self {
            id,
            version: 0,
            keyspace: keyspace.into(),
            name: name.into(),
            partition_key,
            clustering,
            columns,
            dropped_columns: BTreeMap::new(),
            dropped_ids: BTreeMap::new(),
            is_counter,
            layout: Layout::Cql,
            strict_liveness: false,
            params,
            comparator,
            index_of: None,
            has_masks: false,
            by_name: Vec::new(),
        };
        table.order_names();
        table
    }

    /// Derives `by_name` and `has_masks`. Required after each change of columns.
    fn order_names(&mut self) {
        let mut columns: Vec<_> = self.all_columns().cloned().collect();
        columns.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        self.has_masks = columns.iter().any(|column| column.mask.is_some());
        self.by_name = columns;
    }

    /// The number of columns that count towards [`COLUMNS_MAX`](Self::COLUMNS_MAX).
    pub fn counted_columns(&self) -> usize {
        self.partition_key.len() + self.clustering.len() + self.columns.len()
    }

    fn comparator_of(clustering: &[Arc<ColumnMetadata>]) -> ClusteringComparator {
        ClusteringComparator::new(clustering.iter().map(|c| (c.data_type.clone(), c.reversed)))
    }

    /// The static or regular column `id`; `None` if it was dropped.
    pub fn column_by_id(&self, id: ColumnId) -> Option<&Arc<ColumnMetadata>> {
        self.columns.get(id.0 as usize)?.as_ref()
    }

    /// A column of any kind by name.
    pub fn column(&self, name: &str) -> Option<&Arc<ColumnMetadata>> {
        let at = self.by_name.binary_search_by(|column| column.name.as_str().cmp(name)).ok()?;
        self.by_name.get(at)
    }

    /// Returns whether statements cannot name `column`, one of the table's: those that COMPACT
    /// STORAGE adds to the declared ones.
    pub fn is_hidden(&self, column: &ColumnMetadata) -> bool {
        match self.layout {
            Layout::Cql => false,
            Layout::StaticCompact => matches!(column.kind, ColumnKind::Clustering | ColumnKind::Regular),
            Layout::Dense | Layout::DenseCompound => {
                column.kind == ColumnKind::Regular && column.data_type == DataType::Empty
            }
        }
    }

    /// A column of any kind by name, unless it is [hidden](Self::is_hidden).
    pub fn visible_column(&self, name: &str) -> Option<&Arc<ColumnMetadata>> {
        self.column(name).filter(|column| !self.is_hidden(column))
    }

    /// Returns the only regular column of a table with COMPACT STORAGE; `None` for other tables.
    pub fn compact_value(&self) -> Option<&Arc<ColumnMetadata>> {
        if self.layout.is_compact() { self.regular_columns().next() } else { None }
    }

    /// Key, clustering, then static and regular columns by id.
    pub fn all_columns(&self) -> impl Iterator<Item = &Arc<ColumnMetadata>> {
        self.partition_key.iter().chain(&self.clustering).chain(self.columns.iter().flatten())
    }

    /// The static columns, by id.
    pub fn static_columns(&self) -> impl Iterator<Item = &Arc<ColumnMetadata>> {
        self.columns.iter().flatten().filter(|c| c.kind == ColumnKind::Static)
    }

    /// The regular columns, by id.
    pub fn regular_columns(&self) -> impl Iterator<Item = &Arc<ColumnMetadata>> {
        self.columns.iter().flatten().filter(|c| c.kind == ColumnKind::Regular)
    }

    /// Returns whether a column has a dynamic data mask.
    pub fn has_masks(&self) -> bool {
        self.has_masks
    }

    /// Returns whether the table has static columns.
    pub fn has_static_columns(&self) -> bool {
        self.static_columns().next().is_some()
    }

    /// [`with_columns_added`](Self::with_columns_added) for one column.
    pub fn with_column_added(&self, column: ColumnMetadata) -> Self {
        self.with_columns_added([column])
    }

    /// Returns the same table with `columns` (static or regular) added: each at the next id, or at
    /// the one it had before it was dropped, so that data written after the drop becomes visible
    /// again. Callers check the number of columns first.
    ///
    /// # Panics
    /// If no id is left.
    pub fn with_columns_added(&self, columns: impl IntoIterator<Item = ColumnMetadata>) -> Self {
        let mut table = self.clone();
        for column in columns {
            let is_again = |dropped: &DroppedColumn| {
                dropped.kind == column.kind
                    && dropped.data_type.is_multi_cell() == column.data_type.is_multi_cell()
            };
            let had = table.dropped_ids.remove(&column.name);
            let id = match had.filter(|_| self.dropped_columns.get(&column.name).is_some_and(is_again)) {
                Some(id) => id,
                None => table.next_id(),
            };
            table.fill_slot(id, column);
        }
        table.order_names();
        table.version += 1;
        table
    }

    fn next_id(&self) -> ColumnId {
        assert!(self.columns.len() < Self::COLUMNS_MAX, "no column id left in {}", self.qualified_name());
        ColumnId(self.columns.len() as u16)
    }

    fn fill_slot(&mut self, id: ColumnId, column: ColumnMetadata) {
        let slot = usize::from(id.0);
        if self.columns.len() <= slot {
            self.columns.resize(slot + 1, None);
        }
        self.columns[slot] = Some(Arc::new(ColumnMetadata { id, ..column }));
    }

    /// [`with_columns_dropped`](Self::with_columns_dropped) for one column.
    pub fn with_column_dropped(&self, name: &str, dropped_at: i64) -> Self {
        self.with_columns_dropped([name], dropped_at)
    }

    /// Returns the same table without the static and regular columns of these names, whose data up
    /// to `dropped_at` (microseconds) is dropped. Other names have no effect.
    pub fn with_columns_dropped<'n>(
        &self,
        names: impl IntoIterator<Item = &'n str>,
        dropped_at: i64,
    ) -> Self {
        let mut table = self.clone();
        for name in names {
            let id = self.column(name).map_or(ColumnId(u16::MAX), |column| column.id);
            let Some(column) = table.columns.get_mut(usize::from(id.0)).and_then(Option::take) else {
                continue;
            };
            let dropped =
                DroppedColumn { data_type: column.data_type.clone(), kind: column.kind, dropped_at };
            table.dropped_columns.insert(name.to_owned(), dropped);
            table.dropped_ids.insert(name.to_owned(), column.id);
        }
        table.order_names();
        table.version += 1;
        table
    }

    /// Sets the columns that were dropped before, from the stored schema. Called once, for a new
    /// table.
    pub fn set_dropped_columns(&mut self, dropped: BTreeMap<String, DroppedColumn>) {
        self.dropped_columns = dropped;
        let names = self.dropped_columns.keys();
        let gone: Vec<String> = names.filter(|name| self.column(name).is_none()).cloned().collect();
        for name in gone {
            self.dropped_ids.insert(name, self.next_id());
            self.columns.push(None);
        }
    }

    /// Returns whether readers of the table see a cell of this column and write time
    /// (microseconds): the column exists, and was not dropped and added again at that time or
    /// later.
    pub fn has_cells_of(&self, id: ColumnId, timestamp: i64) -> bool {
        self.column_by_id(id).is_some_and(|column| {
            self.dropped_columns.get(&column.name).is_none_or(|dropped| timestamp > dropped.dropped_at)
        })
    }

    /// Returns the same table including its dropped columns, with their former ids, unless new ones
    /// have their names. For writing files: data written to a column after its drop is kept. `None`
    /// if there is none.
    pub fn with_dropped_columns(&self) -> Option<Self> {
        if self.dropped_ids.is_empty() {
            return None;
        }
        let mut table = self.clone();
        for (name, id) in &self.dropped_ids {
            let Some(dropped) = self.dropped_columns.get(name) else { continue };
            let column = ColumnMetadata::new(name, dropped.kind, 0, dropped.data_type.clone());
            table.fill_slot(*id, column);
        }
        table.order_names();
        Some(table)
    }

    /// Returns the same table with key or clustering column `from` renamed to `to`.
    pub fn with_key_column_renamed(&self, from: &str, to: &str) -> Self {
        let mut table = self.clone();
        for column in table.partition_key.iter_mut().chain(&mut table.clustering) {
            if column.name == from {
                *column = Arc::new(ColumnMetadata { name: to.to_owned(), ..(**column).clone() });
            }
        }
        table.order_names();
        table.version += 1;
        table
    }

    /// Returns the same table with the masks that `mask` returns for its columns.
    pub fn with_masks(&self, mask: impl Fn(&ColumnMetadata) -> Option<Arc<ColumnMask>>) -> Self {
        let mut table = self.clone();
        let map = |column: &Arc<ColumnMetadata>| {
            Arc::new(ColumnMetadata { mask: mask(column), ..(**column).clone() })
        };
        table.partition_key = self.partition_key.iter().map(map).collect();
        table.clustering = self.clustering.iter().map(map).collect();
        table.columns = self.columns.iter().map(|slot| slot.as_ref().map(map)).collect();
        table.order_names();
        table.version += 1;
        table
    }

    /// Returns the same table without COMPACT STORAGE: its hidden columns become visible.
    pub fn with_compact_storage_dropped(&self) -> Self {
        Self { layout: Layout::Cql, version: self.version + 1, ..self.clone() }
    }

    /// The same table with other options.
    pub fn with_params(&self, params: TableParams) -> Self {
        Self { params, version: self.version + 1, ..self.clone() }
    }

    /// Returns the same table with `change` applied to every column's type, for ALTER TYPE. Ids
    /// stay.
    pub fn with_types_mapped(&self, change: impl Fn(&DataType) -> DataType) -> Self {
        let mut table = self.clone();
        let map = |c: &Arc<ColumnMetadata>| {
            Arc::new(ColumnMetadata { data_type: change(&c.data_type), ..(**c).clone() })
        };
        table.partition_key = self.partition_key.iter().map(map).collect();
        table.clustering = self.clustering.iter().map(map).collect();
        table.columns = self.columns.iter().map(|slot| slot.as_ref().map(map)).collect();
        table.comparator = Self::comparator_of(&table.clustering);
        table.order_names();
        table.version += 1;
        table
    }

    /// Returns `keyspace.name`, for messages; quoted where CQL requires it.
    pub fn qualified_name(&self) -> String {
        format!("{}.{}", quote_identifier(&self.keyspace), quote_identifier(&self.name))
    }

    /// Returns the name of the table's directory below its keyspace's: `<name>-<id as 32 hex
    /// digits>`; for the hidden table of an index `<base table's directory>/.<index>`.
    pub fn directory_name(&self) -> String {
        match &self.index_of {
            Some(of) => format!("{}/.{}", of.base_directory, of.index),
            None => format!("{}-{}", self.name, self.id.0.simple()),
        }
    }
}

/// A table's options, by Cassandra's names, with its defaults.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the fields are Cassandra's table options, documented there")]
pub struct TableParams {
    pub additional_write_policy: String,
    pub allow_auto_snapshot: Option<bool>,
    pub bloom_filter_fp_chance: Option<f64>,
    pub caching: CachingParams,
    pub cdc: bool,
    pub comment: String,
    pub compaction: CompactionParams,
    pub compression: CompressionParams,
    pub crc_check_chance: f64,
    pub default_time_to_live: u32,
    pub extensions: BTreeMap<String, Vec<u8>>,
    pub gc_grace_seconds: u32,
    pub incremental_backups: Option<bool>,
    pub max_index_interval: u32,
    pub memtable: String,
    pub memtable_flush_period_in_ms: u32,
    pub min_index_interval: u32,
    pub read_repair: String,
    pub speculative_retry: String,
}

impl Default for TableParams {
    fn default() -> Self {
        Self {
            additional_write_policy: "99p".into(),
            allow_auto_snapshot: None,
            bloom_filter_fp_chance: None,
            caching: CachingParams::default(),
            cdc: false,
            comment: String::new(),
            compaction: CompactionParams::default(),
            compression: CompressionParams::default(),
            crc_check_chance: 1.0,
            default_time_to_live: 0,
            extensions: BTreeMap::new(),
            gc_grace_seconds: 864_000,
            incremental_backups: None,
            max_index_interval: 2048,
            memtable: "default".into(),
            memtable_flush_period_in_ms: 0,
            min_index_interval: 128,
            read_repair: "BLOCKING".into(),
            speculative_retry: "99p".into(),
        }
    }
}

impl TableParams {
    /// The bloom filter's false-positive chance: as set, or 0.1 under leveled compaction and 0.01
    /// otherwise.
    pub fn bloom_filter_fp_chance(&self) -> f64 {
        self.bloom_filter_fp_chance.unwrap_or(if self.compaction.class == "LeveledCompactionStrategy" {
            0.1
        } else {
            0.01
        })
    }
}

/// `caching = {'keys': …, 'rows_per_partition': …}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachingParams {
    /// Whether the key cache stores this table's keys.
    pub keys: bool,
    /// The number of rows from the head of a partition in the row cache.
    pub rows_per_partition: RowsPerPartition,
}

impl Default for CachingParams {
    fn default() -> Self {
        Self { keys: true, rows_per_partition: RowsPerPartition::None }
    }
}

/// The part of a partition in the row cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowsPerPartition {
    /// Nothing is cached.
    None,
    /// The first rows.
    Head(u32),
    /// Whole partitions.
    All,
}

/// `compaction = {'class': …, …}`. The strategy interprets the options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompactionParams {
    /// The strategy's class, without its package: `SizeTieredCompactionStrategy`.
    pub class: String,
    /// All other options as specified.
    pub options: BTreeMap<String, String>,
}

impl Default for CompactionParams {
    fn default() -> Self {
        let options = [("max_threshold", "32"), ("min_threshold", "4")];
        Self {
            class: "SizeTieredCompactionStrategy".into(),
            options: options.map(|(k, v)| (k.to_owned(), v.to_owned())).into(),
        }
    }
}

/// `compression = {'class': …, …}`.
#[derive(Debug, Clone, PartialEq)]
pub struct CompressionParams {
    /// The compressor; `None` when compression is off.
    pub compressor: Option<Compressor>,
    /// Other options of the compressor, such as `compression_level`.
    pub options: BTreeMap<String, String>,
    /// Uncompressed bytes per chunk, a power of two.
    pub chunk_length: u32,
    /// A chunk is stored compressed only if it shrinks by this ratio; 0 means always, like an unset
    /// value in Cassandra.
    pub min_compress_ratio: Option<f64>,
}

impl Default for CompressionParams {
    fn default() -> Self {
        Self {
            compressor: Some(Compressor::Lz4),
            options: BTreeMap::new(),
            chunk_length: 16 * 1024,
            min_compress_ratio: None,
        }
    }
}

/// A compression algorithm, by Cassandra's class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the variants are the algorithms' names")]
pub enum Compressor {
    Lz4,
    Snappy,
    Deflate,
    Zstd,
    Noop,
}

impl Compressor {
    /// Cassandra's class name, without its package.
    pub const fn class_name(self) -> &'static str {
        match self {
            Self::Lz4 => "LZ4Compressor",
            Self::Snappy => "SnappyCompressor",
            Self::Deflate => "DeflateCompressor",
            Self::Zstd => "ZstdCompressor",
            Self::Noop => "NoopCompressor",
        }
    }

    /// The compressor of a class name, with or without the package
    /// `org.apache.cassandra.io.compress`.
    pub fn from_class_name(name: &str) -> Option<Self> {
        let short = name.strip_prefix("org.apache.cassandra.io.compress.").unwrap_or(name);
        [Self::Lz4, Self::Snappy, Self::Deflate, Self::Zstd, Self::Noop]
            .into_iter()
            .find(|c| c.class_name() == short)
    }
}
