//! The rows of the source's tables, as they are stored.

use std::path::Path;
use std::sync::Arc;

use cassette_database::Database;
use cassette_rows::{PartitionHeader, PartitionStream, TableMetadata, Token, Unfiltered};
use cassette_sstable::{EncodingStats, SSTableReader};
use twox_hash::XxHash3_128;

use super::partitions::Partitions;
use super::selected::{self, SelectedTable};
use crate::endpoint::{Endpoint, unreadable};
use crate::error::{Result, unsuitable};
use crate::files::transfers::source_table;
use crate::plan::Plan;
use crate::schema::Table;
use crate::token_range::TokenRange;

/// A table of the source.
pub struct SourceTable<'t> {
    pub table: &'t Table,
    pub metadata: Arc<TableMetadata>,
    /// Base values for the times of its cells.
    pub times: EncodingStats,
    /// Estimates of the stored bytes and of the partitions; 0 if unknown.
    pub bytes: u64,
    pub keys: u64,
    /// Changes if the rows do, as far as that is known.
    pub content: u128,
    /// How its rows are selected; `None` of a directory.
    selected: Option<SelectedTable>,
}

impl SourceTable<'_> {
    /// Returns whether its rows are selected by CQL.
    pub fn is_selected(&self) -> bool {
        self.selected.is_some()
    }
}

/// Where rows are read.
#[derive(Clone, Copy)]
pub enum Source<'s> {
    /// A data directory.
    Stored(Directory<'s>),
    /// A cluster, by CQL. Rows without cells get this write timestamp.
    Selected { endpoint: &'s Endpoint, marker: i64 },
}

/// A data directory, open.
#[derive(Clone, Copy)]
pub struct Directory<'s> {
    pub database: &'s Database,
    pub path: &'s Path,
}

impl<'s> Source<'s> {
    /// Returns an open source. `marker` is the write timestamp of selected rows without cells.
    pub fn new(endpoint: &'s Endpoint, marker: i64) -> Self {
        match endpoint {
            Endpoint::Directory { database, path } => Self::Stored(Directory { database, path }),
            Endpoint::Cluster(_) => Self::Selected { endpoint, marker },
        }
    }

    /// Returns the tables of a plan.
    ///
    /// # Errors
    /// If an SSTable cannot be read, or CQL does not show the rows of a table completely.
    pub fn tables<'t>(&self, plan: &'t Plan) -> Result<Vec<SourceTable<'t>>> {
        match self {
            Self::Stored(directory) => plan.tables().map(|table| directory.table(table)).collect(),
            Self::Selected { .. } => {
                let selected = selected::tables(plan)?;
                let table = |(table, selected): (&'t Table, SelectedTable)| SourceTable {
                    table,
                    metadata: selected.metadata.clone(),
                    times: EncodingStats::default(),
                    bytes: 0,
                    keys: 0,
                    content: XxHash3_128::oneshot(table.id.as_bytes()),
                    selected: Some(selected),
                };
                Ok(plan.tables().zip(selected).map(table).collect())
            }
        }
    }

    /// Returns the partitions of a token range.
    pub fn partitions<'t>(
        &'t self,
        table: &'t SourceTable<'_>,
        range: TokenRange,
    ) -> Result<Box<dyn Partitions + 't>> {
        match (self, &table.selected) {
            (Self::Selected { endpoint, marker }, Some(selected)) => {
                Ok(Box::new(selected.partitions(endpoint.session(), range, *marker)))
            }
            (Self::Stored(directory), _) => directory.partitions(table, range),
            (Self::Selected { .. }, None) => unsuitable("a table of a directory"),
        }
    }
}

impl<'s> Directory<'s> {
    fn table<'t>(&self, table: &'t Table) -> Result<SourceTable<'t>> {
        let Some(metadata) = self.database.catalog().table(&table.keyspace, &table.name).cloned() else {
            return unsuitable(format!("table {} was dropped meanwhile", table.quoted()));
        };
        let readers = source_table(self.database, table)?.readers;
        let mut times = EncodingStats::default();
        readers.iter().for_each(|reader| times.merge(&EncodingStats::of_header(reader.header())));
        Ok(SourceTable {
            table,
            metadata,
            times,
            bytes: readers.iter().map(SSTableReader::data_bytes_on_disk).sum(),
            keys: readers.iter().map(SSTableReader::estimated_keys).sum(),
            content: self.content(&readers)?,
            selected: None,
        })
    }

    /// Hashes what identifies the content of SSTables, in any order.
    fn content(&self, readers: &[SSTableReader]) -> Result<u128> {
        let mut known = Vec::with_capacity(readers.len());
        for reader in readers {
            let fingerprint = reader.fingerprint().map_err(|error| unreadable(self.path, &error))?;
            let crc = fingerprint.map(|of| of.data_crc);
            known.push((crc, reader.uncompressed_bytes(), reader.stats().max_timestamp));
        }
        known.sort_unstable();
        Ok(XxHash3_128::oneshot(format!("{known:?}").as_bytes()))
    }

    /// Returns the merged partitions of a token range: those of all SSTables and of the commit log.
    fn partitions(&self, table: &SourceTable<'_>, range: TokenRange) -> Result<Box<dyn Partitions + 's>> {
        let (start, end) = (Token(range.0), Token(range.1));
        let stream = self.database.stored_rows(&table.metadata, start, end);
        let stream = stream.map_err(|error| unreadable(self.path, &error))?;
        Ok(Box::new(Stored { stream, path: self.path }))
    }
}

struct Stored<'s> {
    stream: Box<dyn PartitionStream>,
    path: &'s Path,
}

impl Partitions for Stored<'_> {
    fn next_partition(&mut self) -> Result<Option<PartitionHeader>> {
        self.stream.next_partition().map_err(|error| unreadable(self.path, &error))
    }

    fn next_unfiltered(&mut self) -> Result<Option<Unfiltered>> {
        self.stream.next_unfiltered().map_err(|error| unreadable(self.path, &error))
    }
}
