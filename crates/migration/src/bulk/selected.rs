//! Rows that CQL shows, as they would be stored.
//!
//! | of the row | becomes |
//! | --- | --- |
//! | cells, with write timestamps and remaining lifetimes | the same cells; a lifetime begins now |
//! | the row itself | a marker as old as the cell that lives longest, or as the move |
//! | elements of lists, whose ids CQL does not show | ids that depend on the index only |
//!
//! These are the rows that a copy by rows leaves. Because ids of elements depend on nothing else, a
//! list that is written twice has each element once.

use std::sync::Arc;

use bytes::Bytes;
use cassette_database::{Database, Options};
use cassette_rows::{
    Cell as StoredCell, Clustering, ColumnId, DecoratedKey, DeletionTime, Layout, LivenessInfo,
    NO_DELETION_TIME, NO_TTL, PartitionHeader, Row as StoredRow, RowBuilder, TableMetadata, Unfiltered, key,
};
use cassette_sstable::EncodingStats;

use super::partitions::Partitions;
use crate::cell::{Cell, Row};
use crate::copy::{Scan, now};
use crate::endpoint::Session;
use crate::error::{MoveError, Result, unsuitable};
use crate::plan::Plan;
use crate::schema::{Keyspace, Shape, Table};
use crate::statements::Statements;
use crate::token_range::TokenRange;

/// The time of the first element of a list, in 100 ns since 1582: 2015-01-01. Elements that are
/// appended later have later times, and prepended ones times before 2010.
const LIST_TICKS: u64 = 136_393_632_000_000_000;
/// The lower half of the ids of a list's elements.
const LIST_NODE: u64 = 0x8000_0000_0000_0000;

/// A table whose rows are selected.
pub struct SelectedTable {
    pub metadata: Arc<TableMetadata>,
    statements: Statements,
    /// The columns of the parts of a row, in the order of [`Cell::column`].
    statics: Vec<ColumnId>,
    regulars: Vec<ColumnId>,
}

/// Returns the tables of a plan.
///
/// # Errors
/// Names a table whose rows CQL does not show completely, or whose schema is not supported.
pub fn tables(plan: &Plan) -> Result<Vec<SelectedTable>> {
    let mut tables = Vec::new();
    for keyspace in &plan.keyspaces {
        let database = schema(keyspace)?;
        for table in &keyspace.tables {
            check(table)?;
            let Some(metadata) = database.catalog().table(&table.keyspace, &table.name).cloned() else {
                return unsuitable(format!("table {} was dropped meanwhile", table.quoted()));
            };
            let statements = Statements::new(table.clone());
            let ids = |is_static| -> Option<Vec<ColumnId>> {
                let columns = statements.columns(is_static).iter();
                columns.map(|column| Some(metadata.column(&column.name)?.id)).collect()
            };
            let (Some(statics), Some(regulars)) = (ids(true), ids(false)) else {
                return unsuitable(format!("columns of table {} were changed meanwhile", table.quoted()));
            };
            tables.push(SelectedTable { metadata, statements, statics, regulars });
        }
    }
    Ok(tables)
}

fn check(table: &Table) -> Result<()> {
    let reason = if table.is_counter {
        "has counters, of which CQL shows the sums only"
    } else if table.layout != Layout::Cql {
        "has COMPACT STORAGE, whose stored rows CQL does not show"
    } else {
        return Ok(());
    };
    unsuitable(format!(
        "table {} {reason}: move its keyspace with --by rows, or from a data directory with --data",
        table.quoted()
    ))
}

/// Creates the types and tables of a keyspace in memory, for the ids and types of their columns.
fn schema(keyspace: &Keyspace) -> Result<Database> {
    let failed = |what: &str, error: &dyn std::fmt::Display| {
        MoveError::Unsuitable(format!("{what} cannot be written as SSTables: {error}; use --by rows"))
    };
    let options = Options { dynamic_data_masking_enabled: true, ..Options::in_memory() };
    let database = Database::open(options).map_err(|error| failed("the schema", &error))?;
    let name = cassette_rows::types::quote_identifier(&keyspace.name);
    let create = format!(
        "CREATE KEYSPACE {name} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
    );
    let is_stored = |kind: &str| matches!(kind, "type" | "table");
    let objects = keyspace.objects.iter().filter(|object| is_stored(&object.kind));
    for statement in std::iter::once(&create).chain(objects.map(|object| &object.statement)) {
        let executed = database.session().execute(statement, ());
        executed.map_err(|error| failed(statement.lines().next().unwrap_or_default(), &error))?;
    }
    Ok(database)
}

impl SelectedTable {
    /// Starts to read a token range. `marker` is the write timestamp of rows without cells.
    pub fn partitions<'s>(&'s self, session: Session<'s>, range: TokenRange, marker: i64) -> Selected<'s> {
        let scan = Scan::new(&self.statements, range, now());
        Selected { table: self, session, scan, marker, rows: Vec::new(), key: None }
    }

    fn header(&self, row: &Row) -> Result<PartitionHeader> {
        let Some(key) = key::compose(row.key.iter().map(|value| &value[..])) else {
            return unsuitable(format!(
                "table {} has a partition key that is too long",
                self.statements.table.quoted()
            ));
        };
        let static_row = (!row.statics.is_empty()).then(|| {
            let clustering = Clustering::empty();
            self.stored(clustering, LivenessInfo::EMPTY, &row.statics, true)
        });
        Ok(PartitionHeader { key: DecoratedKey::new(key), deletion: DeletionTime::LIVE, static_row })
    }

    fn row(&self, row: &Row, clustering: &[Bytes], marker: i64) -> StoredRow {
        let clustering = Clustering::new(clustering.iter().map(|value| Some(&value[..])));
        let live_longest = |cell: &&Cell| (cell.expires.unwrap_or(u32::MAX), cell.timestamp);
        let liveness = match row.cells.iter().max_by_key(live_longest) {
            None => LivenessInfo::new(marker),
            Some(cell) => match cell.expires {
                None => LivenessInfo::new(cell.timestamp),
                Some(at) => LivenessInfo::expiring(cell.timestamp, lifetime(at), at),
            },
        };
        self.stored(clustering, liveness, &row.cells, false)
    }

    fn stored(
        &self,
        clustering: Clustering,
        liveness: LivenessInfo,
        cells: &[Cell],
        is_static: bool,
    ) -> StoredRow {
        let (columns, ids) =
            (self.statements.columns(is_static), if is_static { &self.statics } else { &self.regulars });
        let bytes = cells.iter().map(|cell| cell.value.len() + 16).sum();
        let mut builder = RowBuilder::with_capacity(clustering, cells.len(), bytes);
        builder.liveness(liveness);
        for cell in cells {
            let (ttl, local_deletion_time) =
                cell.expires.map_or((NO_TTL, NO_DELETION_TIME), |at| (lifetime(at), at));
            let path = cell.path.as_deref().map(|path| stored_path(&columns[cell.column].shape, path));
            builder.cell(StoredCell {
                column: ids[cell.column],
                path: path.as_ref().map(AsRef::as_ref),
                value: &cell.value,
                timestamp: cell.timestamp,
                ttl,
                local_deletion_time,
            });
        }
        builder.sort_columns();
        builder.finish()
    }
}

/// Returns the lifetime from now on of what expires at a time.
fn lifetime(expires: u32) -> u32 {
    expires.saturating_sub(now()).max(1)
}

/// The path of a cell: bytes of the row, or such with a fixed length.
enum Path<'p> {
    Borrowed(&'p [u8]),
    Field([u8; 2]),
    Element([u8; 16]),
}

impl AsRef<[u8]> for Path<'_> {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Borrowed(path) => path,
            Self::Field(path) => path,
            Self::Element(path) => path,
        }
    }
}

fn stored_path<'p>(shape: &Shape, path: &'p [u8]) -> Path<'p> {
    let index = || path.try_into().map_or(u32::MAX, u32::from_be_bytes);
    match shape {
        Shape::List => Path::Element(element_id(index())),
        Shape::Udt(_) => Path::Field((index() as u16).to_be_bytes()),
        _ => Path::Borrowed(path),
    }
}

/// Returns the id of the element of a list with an index: a time-based UUID, as nodes create them.
fn element_id(index: u32) -> [u8; 16] {
    let ticks = LIST_TICKS + u64::from(index);
    let high = ticks << 32 | (ticks >> 32 & 0xffff) << 16 | 0x1000 | ticks >> 48;
    (u128::from(high) << 64 | u128::from(LIST_NODE)).to_be_bytes()
}

/// The partitions of a token range.
pub struct Selected<'s> {
    table: &'s SelectedTable,
    session: Session<'s>,
    scan: Scan<'s>,
    marker: i64,
    /// Rows of the last page that have not been returned, the next one last.
    rows: Vec<Row>,
    /// Of the current partition.
    key: Option<Vec<Bytes>>,
}

impl Selected<'_> {
    /// Returns the next row without removing it.
    fn peek(&mut self) -> Result<Option<&Row>> {
        while self.rows.is_empty() {
            let Some(mut page) = self.scan.next_page(&mut self.session)? else { return Ok(None) };
            page.reverse();
            self.rows = page;
        }
        Ok(self.rows.last())
    }

    /// Removes the next row if it belongs to the current partition.
    fn next_of_partition(&mut self) -> Result<Option<Row>> {
        let key = self.key.take();
        let is_next = self.peek()?.is_some_and(|row| key.as_ref() == Some(&row.key));
        self.key = key;
        Ok(if is_next { self.rows.pop() } else { None })
    }
}

impl Partitions for Selected<'_> {
    fn next_partition(&mut self) -> Result<Option<PartitionHeader>> {
        while self.next_of_partition()?.is_some() {}
        let table = self.table;
        let Some(row) = self.peek()? else { return Ok(None) };
        let (key, header) = (row.key.clone(), table.header(row)?);
        self.key = Some(key);
        Ok(Some(header))
    }

    fn next_unfiltered(&mut self) -> Result<Option<Unfiltered>> {
        while let Some(row) = self.next_of_partition()? {
            if let Some(clustering) = &row.clustering {
                return Ok(Some(Unfiltered::Row(self.table.row(&row, clustering, self.marker))));
            }
        }
        Ok(None)
    }

    /// Returns the least write timestamp of the last page. Lifetimes of later rows may be shorter
    /// than those of the page, and are not stored as differences from them.
    fn times(&self) -> Option<EncodingStats> {
        let mut times = EncodingStats::default();
        for row in &self.rows {
            let cells = row.cells.iter().chain(&row.statics);
            cells.for_each(|cell| times.add(cell.timestamp, NO_TTL, NO_DELETION_TIME));
        }
        Some(times)
    }
}

#[cfg(test)]
mod tests {
    use cassette_rows::DataType;

    use super::*;

    #[test]
    fn ids_of_elements_are_time_based_and_in_the_order_of_the_list() {
        let ids: Vec<[u8; 16]> = [0, 1, 255, 256, 70_000, u32::MAX].map(element_id).to_vec();
        for id in &ids {
            let id = uuid::Uuid::from_bytes(*id);
            assert_eq!((id.get_version_num(), id.get_variant()), (1, uuid::Variant::RFC4122));
        }
        assert!(ids.is_sorted_by(|a, b| DataType::TimeUuid.compare(a, b).is_lt()));
        let (seconds, _) = uuid::Uuid::from_bytes(ids[0]).get_timestamp().unwrap().to_unix();
        assert_eq!(seconds, 1_420_070_400);
    }
}
