//! What is needed to read or write the rows of one SSTable: base values, and where each column of its header goes.

use cassette_rows::schema::compare_column_names;
use cassette_rows::types::{key_class_name, parse_class_name};
use cassette_rows::{ColumnId, ColumnKind, TableMetadata};

use super::clustering_codec::ClusteringCodec;
use crate::descriptor::Version;
use crate::statistics::{ColumnDefinition, SerializationHeader};

/// One column of a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredColumn {
    /// What the table calls it; `None` for a column that the table dropped, whose cells are passed over.
    pub id: Option<ColumnId>,
    /// Whether it has a cell per element.
    pub complex: bool,
    /// The width of simple values, `None` if they carry their length.
    pub width: Option<usize>,
    /// Cells with timestamps at or below this are passed over: the column was dropped then. `i64::MIN` if never.
    pub dropped_at: i64,
}

/// The static or the regular columns of a header, in its order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StoredColumns {
    /// The columns.
    pub columns: Box<[StoredColumn]>,
    /// Whether their ids ascend too. They do not when a column was added to the table after others.
    pub ascending: bool,
    /// Whether none of them has a cell per element.
    pub simple: bool,
}

impl StoredColumns {
    fn new(columns: Vec<StoredColumn>) -> Self {
        let ascending = columns.iter().filter_map(|column| column.id).is_sorted();
        let simple = columns.iter().all(|column| !column.complex);
        Self { columns: columns.into(), ascending, simple }
    }

    /// The number of columns.
    pub fn len(&self) -> usize {
        self.columns.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }
}

/// How rows of one SSTable are laid out.
#[derive(Debug, Clone, PartialEq)]
pub struct RowFormat {
    /// Timestamps are written relative to this.
    pub min_timestamp: i64,
    /// Local deletion times are written relative to this.
    pub min_local_deletion_time: i32,
    /// TTLs are written relative to this.
    pub min_ttl: i32,
    /// The clustering columns.
    pub clustering: ClusteringCodec,
    /// The static columns.
    pub statics: StoredColumns,
    /// The regular columns.
    pub regulars: StoredColumns,
    /// Whether partitions begin with deletions as oa and da write them.
    pub has_short_deletions: bool,
}

impl RowFormat {
    /// The same for SSTables of `version`; [`new`](Self::new) is for those of `nb`.
    pub fn of_version(mut self, version: Version) -> Self {
        self.has_short_deletions = version.is_of_cassandra_5();
        self
    }

    /// For reading what `header` describes as rows of `table`. The error is a sentence for people: the files hold
    /// what this table cannot.
    pub fn new(header: &SerializationHeader, table: &TableMetadata) -> Result<Self, String> {
        let mut clustering = Vec::with_capacity(header.clustering_types.len());
        for name in &header.clustering_types {
            clustering.push(parse_class_name(name).map_err(|e| e.to_string())?);
        }
        let reversed = |columns: &mut dyn Iterator<Item = bool>| columns.collect::<Vec<_>>();
        let found = reversed(&mut clustering.iter().map(|c| c.1));
        let expected = reversed(&mut table.clustering.iter().map(|c| c.reversed));
        if found != expected {
            return Err(format!(
                "clustering columns of {} expected, found {:?}",
                table.qualified_name(),
                header.clustering_types
            ));
        }
        Ok(Self {
            min_timestamp: header.min_timestamp,
            min_local_deletion_time: header.min_local_deletion_time,
            min_ttl: header.min_ttl,
            clustering: ClusteringCodec::new(clustering.iter().map(|c| &c.0)),
            statics: stored_columns(&header.static_columns, ColumnKind::Static, table)?,
            regulars: stored_columns(&header.regular_columns, ColumnKind::Regular, table)?,
            has_short_deletions: false,
        })
    }

    /// The columns of a row.
    pub fn columns(&self, is_static: bool) -> &StoredColumns {
        if is_static { &self.statics } else { &self.regulars }
    }
}

fn stored_columns(
    definitions: &[ColumnDefinition],
    kind: ColumnKind,
    table: &TableMetadata,
) -> Result<StoredColumns, String> {
    let mut columns = Vec::with_capacity(definitions.len());
    for definition in definitions {
        let name = &definition.name;
        let (data_type, _) = parse_class_name(&definition.type_name).map_err(|e| e.to_string())?;
        let complex = data_type.is_multi_cell();
        let current = table.columns.iter().flatten().find(|column| column.name == *name);
        let dropped = table.dropped_columns.get(name);
        let id = match current {
            // A column may have been dropped and added again as another kind: then all that is here is old.
            Some(column) if column.kind == kind && column.data_type.is_multi_cell() == complex => {
                Some(column.id)
            }
            Some(column) if dropped.is_none() => {
                return Err(format!(
                    "column {name:?} of {} has type {:?}, in the file it is {} of {kind:?} kind",
                    table.qualified_name(),
                    column.data_type,
                    definition.type_name
                ));
            }
            None if dropped.is_none() => {
                return Err(format!(
                    "unknown column {name:?}: neither a column of {} nor one that it dropped",
                    table.qualified_name()
                ));
            }
            _ => None,
        };
        columns.push(StoredColumn {
            id,
            complex,
            width: data_type.fixed_width(),
            dropped_at: dropped.map_or(i64::MIN, |dropped| dropped.dropped_at),
        });
    }
    Ok(StoredColumns::new(columns))
}

/// The header for writing `columns` of `table`, with these base values.
///
/// Columns are listed in the order of Cassandra whatever their ids. Ids that the table does not have are left out.
pub fn header_for(
    table: &TableMetadata,
    columns: impl Iterator<Item = ColumnId>,
    (min_timestamp, min_local_deletion_time, min_ttl): (i64, i32, i32),
) -> SerializationHeader {
    let mut known: Vec<_> = columns.filter_map(|id| table.column_by_id(id)).collect();
    known.sort_by(|a, b| {
        compare_column_names((&a.name, a.data_type.is_multi_cell()), (&b.name, b.data_type.is_multi_cell()))
    });
    known.dedup_by_key(|column| column.id);
    let of_kind = |kind: ColumnKind| {
        let columns = known.iter().filter(|column| column.kind == kind);
        columns
            .map(|column| ColumnDefinition {
                name: column.name.clone(),
                type_name: column.data_type.class_name(),
            })
            .collect()
    };
    let key_types: Vec<_> = table.partition_key.iter().map(|column| column.data_type.clone()).collect();
    SerializationHeader {
        min_timestamp,
        min_local_deletion_time,
        min_ttl,
        key_type: key_class_name(&key_types),
        clustering_types: table
            .clustering
            .iter()
            .map(|column| column.data_type.clustering_class_name(column.reversed))
            .collect(),
        static_columns: of_kind(ColumnKind::Static),
        regular_columns: of_kind(ColumnKind::Regular),
    }
}

/// Which columns of a header a row has, in the order of the header.
///
/// ```text
/// fewer than 64 in the header: vint with a bit for each column that is missing
/// 64 or more:                  vint missing count; if fewer than half are present the index of each present one as
///                              a vint, else that of each missing one
/// ```
#[derive(Debug, Clone)]
pub enum Subset {
    /// A bit for each present column; headers of up to 64.
    Bits(u64),
    /// Indexes of present columns.
    Indexes(Vec<u32>),
    /// All of so many columns.
    All(u32),
}

impl Subset {
    /// The indexes of the present columns.
    #[inline]
    pub fn for_each<E>(&self, mut f: impl FnMut(usize) -> Result<(), E>) -> Result<(), E> {
        match self {
            Self::All(count) => (0..*count as usize).try_for_each(f),
            Self::Indexes(indexes) => indexes.iter().try_for_each(|&index| f(index as usize)),
            Self::Bits(bits) => {
                let mut left = *bits;
                while left != 0 {
                    f(left.trailing_zeros() as usize)?;
                    left &= left - 1;
                }
                Ok(())
            }
        }
    }

    /// The number of present columns.
    pub fn len(&self) -> usize {
        match self {
            Self::All(count) => *count as usize,
            Self::Indexes(indexes) => indexes.len(),
            Self::Bits(bits) => bits.count_ones() as usize,
        }
    }

    /// Whether no column is present.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
