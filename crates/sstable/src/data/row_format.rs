//! The row format of one SSTable: base values, and the mapping of its header's columns.

use std::collections::HashSet;

use cassette_rows::schema::compare_column_names;
use cassette_rows::types::{key_class_name, parse_class_name, parse_key_class_name};
use cassette_rows::{ColumnId, ColumnKind, DataType, TableMetadata};

use crate::clustering_codec::ClusteringCodec;
use crate::descriptor::Version;
use crate::statistics::{ColumnDefinition, SerializationHeader};

/// One column of a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredColumn {
    /// The table's id of the column; `None` for a dropped column, whose cells are skipped.
    pub id: Option<ColumnId>,
    /// Whether it has a cell per element.
    pub complex: bool,
    /// The width of simple values, `None` if they follow their length.
    pub width: Option<usize>,
    /// Cells with timestamps at or below this are skipped, because the column was dropped then.
    /// `i64::MIN` if never.
    pub dropped_at: i64,
}

/// The static or the regular columns of a header, in its order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StoredColumns {
    /// The columns.
    pub columns: Box<[StoredColumn]>,
    /// Whether their ids ascend too. They do not if a column was added to the table after others.
    pub ascending: bool,
    /// Whether none of them has a cell per element.
    pub simple: bool,
    /// The offsets of the cells of the first columns, whose values have fixed widths, from the
    /// first cell of a row that has all columns, if these cells have its timestamp and a value.
    pub offsets: Box<[usize]>,
}

impl StoredColumns {
    fn new(columns: Vec<StoredColumn>) -> Self {
        let ascending = columns.iter().filter_map(|column| column.id).is_sorted();
        let simple = columns.iter().all(|column| !column.complex);
        let fixed = columns.iter().map_while(|column| column.width.filter(|_| !column.complex));
        let offsets = fixed.scan(0usize, |next, width| {
            let offset = *next;
            // The flags precede the value.
            *next = offset.checked_add(1)?.checked_add(width)?;
            Some(offset)
        });
        Self { offsets: offsets.collect(), columns: columns.into(), ascending, simple }
    }

    /// The number of columns.
    pub fn len(&self) -> usize {
        self.columns.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }
}

/// The row format of one SSTable.
#[derive(Debug, Clone, PartialEq)]
pub struct RowFormat {
    /// The base of timestamps.
    pub min_timestamp: i64,
    /// The base of local deletion times.
    pub min_local_deletion_time: i32,
    /// The base of TTLs.
    pub min_ttl: i32,
    /// The clustering columns.
    pub clustering: ClusteringCodec,
    /// The static columns.
    pub statics: StoredColumns,
    /// The regular columns.
    pub regulars: StoredColumns,
    /// Whether partitions begin with deletions in the encoding of oa and da.
    pub has_short_deletions: bool,
}

impl RowFormat {
    /// Creates the format for reading the rows of an nb SSTable with `header` as rows of `table`;
    /// see [`of_version`](Self::of_version).
    pub fn new(header: &SerializationHeader, table: &TableMetadata) -> Result<Self, String> {
        Self::of_version(header, table, Version::Nb)
    }

    /// Creates the format for reading the rows of `header` as rows of `table`. Keys must be of the
    /// table's types, or of types with the same order; other columns of types whose every value is
    /// valid for the table's ([`DataType::is_value_compatible_with`]). The error is a text for
    /// users: the files contain something that this table does not support.
    pub fn of_version(
        header: &SerializationHeader,
        table: &TableMetadata,
        version: Version,
    ) -> Result<Self, String> {
        check_partition_key(header, table)?;
        let clustering = clustering_types(header, table)?;
        Ok(Self {
            min_timestamp: header.min_timestamp,
            min_local_deletion_time: header.min_local_deletion_time,
            min_ttl: header.min_ttl,
            clustering: ClusteringCodec::new(&clustering),
            statics: stored_columns(&header.static_columns, ColumnKind::Static, table, version)?,
            regulars: stored_columns(&header.regular_columns, ColumnKind::Regular, table, version)?,
            has_short_deletions: version.is_of_cassandra_5(),
        })
    }

    /// Creates the format of rows with columns of these names, in this order and of the types that
    /// the table has for them or had when it dropped them. Base values are 0. The error is a text
    /// for users.
    pub fn of_names(table: &TableMetadata, statics: &[String], regulars: &[String]) -> Result<Self, String> {
        Ok(Self {
            min_timestamp: 0,
            min_local_deletion_time: 0,
            min_ttl: 0,
            clustering: ClusteringCodec::new(table.clustering.iter().map(|column| &column.data_type)),
            statics: named_columns(statics, ColumnKind::Static, table)?,
            regulars: named_columns(regulars, ColumnKind::Regular, table)?,
            has_short_deletions: false,
        })
    }

    /// The columns of a row.
    pub fn columns(&self, is_static: bool) -> &StoredColumns {
        if is_static { &self.statics } else { &self.regulars }
    }
}

/// Cassandra trusts the header here; data of another type would be lost at the next compaction.
fn check_partition_key(header: &SerializationHeader, table: &TableMetadata) -> Result<(), String> {
    // The class name of a key of several columns is also that of one composite.
    let found = match &table.partition_key[..] {
        [column] if matches!(column.data_type, DataType::Custom(_)) => {
            parse_class_name(&header.key_type).map(|(data_type, _)| vec![data_type])
        }
        _ => parse_key_class_name(&header.key_type),
    };
    let found = found.map_err(|e| e.to_string())?;
    if found.len() != table.partition_key.len() {
        return Err(format!(
            "the partition key of {} has {} columns; in the file it has {}: {}",
            table.qualified_name(),
            table.partition_key.len(),
            found.len(),
            header.key_type
        ));
    }
    let mut columns = table.partition_key.iter().zip(&found);
    match columns.find(|(column, found)| !column.data_type.is_compatible_with(found)) {
        Some((column, found)) => {
            Err(another_type(table, "partition key", &column.name, &column.data_type, found))
        }
        None => Ok(()),
    }
}

/// Returns the types of the clustering columns, which determine their encoding.
fn clustering_types(header: &SerializationHeader, table: &TableMetadata) -> Result<Vec<DataType>, String> {
    if header.clustering_types.len() != table.clustering.len() {
        return Err(format!(
            "{} has {} clustering columns, found {} in the file: {:?}",
            table.qualified_name(),
            table.clustering.len(),
            header.clustering_types.len(),
            header.clustering_types
        ));
    }
    let mut types = Vec::with_capacity(table.clustering.len());
    for (column, name) in table.clustering.iter().zip(&header.clustering_types) {
        let (found, reversed) = parse_class_name(name).map_err(|e| e.to_string())?;
        if reversed != column.reversed {
            let order = |reversed| if reversed { "DESC" } else { "ASC" };
            return Err(format!(
                "clustering column {:?} of {} is ordered {}; in the file it is ordered {}",
                column.name,
                table.qualified_name(),
                order(column.reversed),
                order(reversed)
            ));
        }
        if !column.data_type.is_compatible_with(&found) {
            return Err(another_type(table, "clustering", &column.name, &column.data_type, &found));
        }
        types.push(found);
    }
    Ok(types)
}

fn another_type(table: &TableMetadata, kind: &str, name: &str, now: &DataType, found: &DataType) -> String {
    format!(
        "{kind} column {name:?} of {} has type {now}; in the file it has type {found}",
        table.qualified_name()
    )
}

/// Returns whether cells of type `found` are valid as cells of `data_type`.
fn holds(data_type: &DataType, found: &DataType) -> bool {
    data_type.is_multi_cell() == found.is_multi_cell() && data_type.is_value_compatible_with(found)
}

fn stored_columns(
    definitions: &[ColumnDefinition],
    kind: ColumnKind,
    table: &TableMetadata,
    version: Version,
) -> Result<StoredColumns, String> {
    let of_kind = if kind == ColumnKind::Static { "static" } else { "regular" };
    let mut columns = Vec::with_capacity(definitions.len());
    let mut names = HashSet::with_capacity(definitions.len());
    for definition in definitions {
        let name = &definition.name;
        if !names.insert(name) {
            return Err(format!("column {name:?} occurs twice in the file"));
        }
        let (mut found, _) = parse_class_name(&definition.type_name).map_err(|e| e.to_string())?;
        let current = table.columns.iter().flatten().find(|column| column.name == *name);
        // CASSANDRA-15035: headers of Cassandra 3.0 lack that user-defined types are frozen, which
        // all were; 3.6 to 3.11 have the same versions, and types that are not frozen.
        let is_frozen = || current.map_or(version == Version::Ma, |column| !column.data_type.is_multi_cell());
        if matches!(found, DataType::Udt { .. }) && version.is_of_cassandra_3() && is_frozen() {
            found = found.freeze();
        }
        let complex = found.is_multi_cell();
        let dropped = table.dropped_columns.get(name);
        // Data of a column from before it was dropped and added again has its former type, which
        // ALTER compared with the present one.
        let as_dropped =
            || dropped.is_some_and(|dropped| dropped.kind == kind && holds(&dropped.data_type, &found));
        let id = match (current, dropped) {
            (Some(column), _)
                if column.kind == kind
                    && column.data_type.is_multi_cell() == complex
                    && (holds(&column.data_type, &found) || as_dropped()) =>
            {
                Some(column.id)
            }
            (None, None) => {
                return Err(format!(
                    "unknown column {name:?}: neither a column of {} nor one that it dropped",
                    table.qualified_name()
                ));
            }
            (_, Some(dropped))
                if as_dropped() || dropped.kind != kind || dropped.data_type.is_multi_cell() != complex =>
            {
                // A column may have been dropped and added again as another kind: then all of this
                // data is old.
                None
            }
            (None, Some(dropped)) => {
                return Err(another_type(table, "dropped", name, &dropped.data_type, &found));
            }
            (Some(column), _) if column.kind != kind => {
                return Err(format!(
                    "column {name:?} is no {of_kind} column of {}; in the file it is one",
                    table.qualified_name()
                ));
            }
            (Some(column), _) => {
                return Err(another_type(table, of_kind, name, &column.data_type, &found));
            }
        };
        columns.push(StoredColumn {
            id,
            complex,
            width: found.fixed_width(),
            dropped_at: dropped.map_or(i64::MIN, |dropped| dropped.dropped_at),
        });
    }
    Ok(StoredColumns::new(columns))
}

fn named_columns(names: &[String], kind: ColumnKind, table: &TableMetadata) -> Result<StoredColumns, String> {
    let mut columns = Vec::with_capacity(names.len());
    let mut found = HashSet::with_capacity(names.len());
    for name in names {
        if !found.insert(name) {
            return Err(format!("column {name:?} occurs twice"));
        }
        let current =
            table.columns.iter().flatten().find(|column| column.name == *name && column.kind == kind);
        let dropped = table.dropped_columns.get(name);
        let data_type = match (current, dropped) {
            (Some(column), _) => &column.data_type,
            (None, Some(dropped)) if dropped.kind == kind => &dropped.data_type,
            _ => {
                return Err(format!(
                    "unknown column {name:?}: neither a column of {} nor one that it dropped",
                    table.qualified_name()
                ));
            }
        };
        columns.push(StoredColumn {
            id: current.map(|column| column.id),
            complex: data_type.is_multi_cell(),
            width: data_type.fixed_width(),
            dropped_at: dropped.map_or(i64::MIN, |dropped| dropped.dropped_at),
        });
    }
    Ok(StoredColumns::new(columns))
}

/// Returns the header for writing `columns` of `table`, with these base values.
///
/// Columns are listed in Cassandra's order whatever their ids. Unknown ids are omitted.
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

/// The set of a header's columns that a row has, in the order of the header.
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
    /// All of this many columns.
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

    /// Returns whether no column is present.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use cassette_rows::types::UserType;
    use cassette_rows::{ColumnMetadata, TableId};

    use super::*;

    fn table(columns: &[(&str, ColumnKind, DataType)]) -> TableMetadata {
        let columns = columns.iter();
        let columns =
            columns.map(|(name, kind, data_type)| ColumnMetadata::new(*name, *kind, 0, data_type.clone()));
        TableMetadata::new(TableId(uuid::Uuid::nil()), "ks", "t", columns.collect(), Default::default())
    }

    fn with_value(data_type: DataType) -> TableMetadata {
        use ColumnKind::*;
        table(&[
            ("k", PartitionKey, DataType::Int),
            ("c", Clustering, DataType::Int),
            ("v", Regular, data_type),
        ])
    }

    fn header(of: &TableMetadata) -> SerializationHeader {
        let ids = of.columns.iter().flatten().map(|column| column.id);
        header_for(of, ids, (0, 0, 0))
    }

    fn udt(name: &str, fields: &[DataType], frozen: bool) -> DataType {
        let fields = fields.iter().zip('a'..).map(|(field, name)| (name.into(), field.clone())).collect();
        let definition = UserType::new("ks", name, fields);
        DataType::Udt { definition: definition.into(), frozen }
    }

    #[test]
    fn a_user_type_that_has_got_more_fields_reads_what_it_had_before() {
        for frozen in [true, false] {
            let before = with_value(udt("u", &[DataType::Int], frozen));
            let now = with_value(udt("u", &[DataType::Int, DataType::Text], frozen));
            assert!(RowFormat::new(&header(&before), &now).is_ok());
            let error = RowFormat::new(&header(&now), &before).unwrap_err();
            assert!(error.contains("column \"v\" of ks.t has type"), "{error}");
            let another = with_value(udt("w", &[DataType::Int], frozen));
            assert!(RowFormat::new(&header(&before), &another).is_err());
        }
    }

    #[test]
    fn frozen_user_types_are_not_marked_in_headers_of_cassandra_3() {
        let frozen = with_value(udt("u", &[DataType::Int], true));
        let header = header(&with_value(udt("u", &[DataType::Int], false)));
        let complex = |table: &TableMetadata, version| {
            RowFormat::of_version(&header, table, version).map(|format| format.regulars.columns[0].complex)
        };
        assert_eq!(complex(&frozen, Version::Me), Ok(false));
        assert!(complex(&frozen, Version::Na).is_err());
        let unfrozen = with_value(udt("u", &[DataType::Int], false));
        assert_eq!(complex(&unfrozen, Version::Me), Ok(true));
        assert_eq!(complex(&unfrozen, Version::Ma), Ok(true), "as Cassandra 3.6 writes it");
        assert_eq!(complex(&frozen.with_column_dropped("v", 5), Version::Ma), Ok(false));
    }

    #[test]
    fn dropped_columns_keep_their_types() {
        let before = with_value(udt("u", &[DataType::Int], true));
        let mut now = before.with_column_dropped("v", 5);
        let mut dropped = now.dropped_columns.clone();
        for column in dropped.values_mut() {
            column.data_type = DataType::tuple([DataType::Int]);
        }
        now.set_dropped_columns(dropped);
        let of_another = header(&with_value(DataType::Text));
        for table in [&now, &now.with_dropped_columns().unwrap()] {
            let format = RowFormat::new(&header(&before), table).unwrap();
            assert_eq!(format.regulars.columns[0].dropped_at, 5);
            assert!(RowFormat::new(&of_another, table).is_err());
        }
        // Added again, the new one reads the data of either.
        let added = ColumnMetadata::new("v", ColumnKind::Regular, 0, udt("w", &[DataType::Int], true));
        let again = now.with_column_added(added);
        for header in [header(&before), header(&now.with_dropped_columns().unwrap()), header(&again)] {
            assert!(RowFormat::new(&header, &again).unwrap().regulars.columns[0].id.is_some());
        }
    }

    #[test]
    fn headers_that_are_not_the_tables_are_refused_by_name() {
        let now = with_value(DataType::Int);
        let refused = |change: &dyn Fn(&mut SerializationHeader), says: &str| {
            let mut header = header(&now);
            change(&mut header);
            let error = RowFormat::new(&header, &now).unwrap_err();
            assert!(error.contains(says), "{error}");
        };
        refused(
            &|h| h.key_type = DataType::Text.class_name(),
            "partition key column \"k\" of ks.t has type int",
        );
        refused(
            &|h| h.key_type = key_class_name(&[DataType::Int, DataType::Int]),
            "has 1 columns; in the file it has 2",
        );
        refused(&|h| h.key_type = "NoType".into(), "NoType");
        refused(
            &|h| h.clustering_types = vec![DataType::Date.class_name()],
            "clustering column \"c\" of ks.t",
        );
        refused(&|h| h.clustering_types.clear(), "has 1 clustering columns");
        refused(
            &|h| h.clustering_types = vec![DataType::Int.clustering_class_name(true)],
            "is ordered ASC; in the file it is ordered DESC",
        );
        refused(&|h| h.regular_columns.extend(h.regular_columns.clone()), "\"v\" occurs twice");
        refused(
            &|h| std::mem::swap(&mut h.static_columns, &mut h.regular_columns),
            "\"v\" is no static column",
        );
        refused(&|h| h.regular_columns[0].name = "w".into(), "unknown column \"w\"");
        for (of, found) in [
            (DataType::Counter, DataType::BigInt),
            (DataType::BigInt, DataType::Counter),
            (DataType::list(DataType::Int), DataType::list(DataType::Text)),
            (DataType::list(DataType::Int), DataType::set(DataType::Int)),
            (DataType::list(DataType::Int), DataType::list(DataType::Int).freeze()),
            (DataType::map(DataType::Int, DataType::Text), DataType::map(DataType::Text, DataType::Int)),
        ] {
            assert!(RowFormat::new(&header(&with_value(found)), &with_value(of)).is_err());
        }
    }
}
