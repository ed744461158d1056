//! Reads one partition.

use std::sync::Arc;

use cassette_rows::{
    DecoratedKey, PartitionHeader, PartitionStream, Result, Selection, StorageError, TableMetadata,
    Unfiltered,
};

use super::SSTableReader;
use super::index_cursor::IndexCursor;
use super::rows::{Forward, Place, Reverse};
use super::slicing::Sliced;
use crate::chunked_file::Caching;
use crate::data::Cursor;

/// The rows of a partition, in the direction of a selection.
#[derive(Debug)]
pub(super) enum Rows {
    Forward(Sliced<Forward>),
    Reverse(Sliced<Reverse>),
    /// The selection wants none.
    None,
}

impl Rows {
    /// `cursor` stands at the partition's first row or marker.
    pub(super) fn new(
        cursor: Cursor,
        place: Place,
        table: &Arc<TableMetadata>,
        selection: &Arc<Selection>,
    ) -> Self {
        if selection.slices.as_slice().is_empty() {
            return Self::None;
        }
        let (table, selection) = (table.clone(), selection.clone());
        match selection.reversed {
            true => Self::Reverse(Sliced::new(Reverse::new(cursor, place), table, selection)),
            false => Self::Forward(Sliced::new(Forward::new(cursor, place), table, selection)),
        }
    }

    #[inline]
    pub(super) fn next(&mut self) -> Result<Option<Unfiltered>> {
        match self {
            Self::Forward(rows) => rows.next(),
            Self::Reverse(rows) => rows.next(),
            Self::None => Ok(None),
        }
    }
}

/// Reads the header of the partition that the index cursor stands at, and checks that Index and Data agree about it.
pub(super) fn start(
    reader: &SSTableReader,
    key: &DecoratedKey,
    entry: &IndexCursor,
    mut cursor: Cursor,
    selection: &Arc<Selection>,
) -> Result<(PartitionHeader, Rows)> {
    let start = entry.position();
    cursor.seek(start);
    let header = cursor.partition_header_of(key)?;
    let rows_start = cursor.offset();
    let promoted =
        match selection.slices.is_all() && !selection.reversed || selection.slices.as_slice().is_empty() {
            true => None,
            false => entry.promoted_index()?,
        };
    if let Some(index) = &promoted
        && (start.saturating_add(index.header_length) != rows_start || index.deletion != header.deletion)
    {
        return Err(StorageError::corrupt(
            reader.path(crate::Component::Index),
            format!(
                "at {}: a row index with header {} and {:?} expected by Data.db, {} and {:?} found",
                entry.entry_start(),
                rows_start - start,
                header.deletion,
                index.header_length,
                index.deletion
            ),
        ));
    }
    let place = Place { start, rows_start, promoted, index_file: reader.shared.index.clone() };
    let rows = Rows::new(cursor, place, &reader.table, selection);
    Ok((header, rows))
}

/// One partition of an SSTable as a stream.
#[derive(Debug)]
pub struct PartitionRead {
    header: Option<PartitionHeader>,
    rows: Rows,
    started: bool,
}

impl PartitionRead {
    pub(super) fn new(
        reader: &SSTableReader,
        key: &DecoratedKey,
        entry: &IndexCursor,
        selection: &Arc<Selection>,
        caching: Caching,
    ) -> Result<Self> {
        let (header, rows) = start(reader, key, entry, reader.cursor(caching), selection)?;
        Ok(Self { header: Some(header), rows, started: false })
    }
}

impl PartitionStream for PartitionRead {
    fn next_partition(&mut self) -> Result<Option<PartitionHeader>> {
        if self.started {
            self.rows = Rows::None;
        }
        self.started = true;
        Ok(self.header.take())
    }

    fn next_unfiltered(&mut self) -> Result<Option<Unfiltered>> {
        match self.started {
            true => self.rows.next(),
            false => Ok(None),
        }
    }
}
