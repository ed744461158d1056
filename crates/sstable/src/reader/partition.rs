//! Reads one partition.

use std::sync::Arc;

use cassette_rows::{
    DecoratedKey, PartitionHeader, PartitionStream, Result, Selection, StorageError, TableMetadata,
    Unfiltered,
};

use super::index_cursor::{IndexCursor, read_promoted_index};
use super::rows::{Forward, Place, Reverse, RowIndex};
use super::slicing::Sliced;
use super::{RememberedKeys, SSTableReader};
use crate::chunked_file::Caching;
use crate::data::Cursor;
use crate::key_cache::{PartitionPlace, Remembered};
use crate::large_partition::LargePartition;

/// The rows of a partition, in the direction of a selection.
#[derive(Debug)]
pub(super) enum Rows {
    Forward(Sliced<Forward>),
    Reverse(Sliced<Reverse>),
    /// The selection wants none.
    None,
}

impl Rows {
    /// `cursor` stands at the partition's first row or marker. `marks` are looked into and added to.
    pub(super) fn new(
        cursor: Cursor,
        place: Place,
        table: &Arc<TableMetadata>,
        selection: &Arc<Selection>,
        marks: Option<&RememberedKeys>,
    ) -> Self {
        if selection.slices.as_slice().is_empty() {
            return Self::None;
        }
        let (table, selection) = (table.clone(), selection.clone());
        match selection.reversed {
            true => Self::Reverse(Sliced::new(Reverse::new(cursor, place), table, selection)),
            false => Self::Forward(Sliced::new(Forward::new(cursor, place, marks), table, selection)),
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

/// Reads the header of the partition at `place`, and checks that Index and Data agree about it. `None` if Data holds
/// another key there.
pub(super) fn start(
    reader: &SSTableReader,
    key: &DecoratedKey,
    place: PartitionPlace,
    cursor: &mut Cursor,
    selection: &Arc<Selection>,
) -> Result<Option<(PartitionHeader, Place)>> {
    let start = place.position;
    cursor.seek(start);
    let Some(header) = cursor.partition_header_if(key)? else { return Ok(None) };
    let rows_start = cursor.offset();
    let index_file = &reader.shared.index;
    let promoted = match takes_index(selection) {
        true => read_promoted_index(index_file, place, cursor.caching())?,
        false => None,
    };
    if let Some(index) = &promoted
        && (start.saturating_add(index.header_length) != rows_start || index.deletion != header.deletion)
    {
        return Err(StorageError::corrupt(
            reader.index_path(),
            format!(
                "at {}: a row index with header {} and {:?} expected by Data.db, {} and {:?} found",
                place.promoted_start,
                rows_start - start,
                header.deletion,
                index.header_length,
                index.deletion
            ),
        ));
    }
    let index = promoted.map_or(RowIndex::None, RowIndex::Read);
    Ok(Some((header, Place { start, rows_start, index, index_file: index_file.clone() })))
}

/// Whether a read of this selection is shorter with an index of the rows.
fn takes_index(selection: &Selection) -> bool {
    !(selection.slices.is_all() && !selection.reversed || selection.slices.as_slice().is_empty())
}

/// [`start`] of a large partition that the key cache holds, from what was seen of it, if anything was; what is seen now is noted.
fn start_large(
    reader: &SSTableReader,
    key: &DecoratedKey,
    large: &Arc<LargePartition>,
    cursor: &mut Cursor,
    selection: &Arc<Selection>,
) -> Result<Option<(PartitionHeader, Place)>> {
    let start_of = large.place().position;
    if let Some(seen) = large.seen(key) {
        let rows_start = start_of.saturating_add(seen.index.header_length);
        let index = match takes_index(selection) {
            true => RowIndex::Remembered(large.clone()),
            false => RowIndex::None,
        };
        cursor.seek(rows_start);
        let header = PartitionHeader { key: key.clone(), deletion: seen.deletion, static_row: None };
        let index_file = reader.shared.index.clone();
        return Ok(Some((header, Place { start: start_of, rows_start, index, index_file })));
    }
    let started = start(reader, key, large.place(), cursor, selection)?;
    if let Some((header, Place { index: RowIndex::Read(index), .. })) = &started
        && !reader.may_have_static()
    {
        large.note(key, header.deletion, index);
    }
    Ok(started)
}

/// [`start`] of the partition that the index cursor stands at: Data must hold that key there.
pub(super) fn start_at_entry(
    reader: &SSTableReader,
    key: &DecoratedKey,
    entry: &IndexCursor,
    mut cursor: Cursor,
    selection: &Arc<Selection>,
    marks: Option<&RememberedKeys>,
) -> Result<(PartitionHeader, Rows)> {
    match start(reader, key, entry.place(), &mut cursor, selection)? {
        Some((header, place)) => Ok((header, Rows::new(cursor, place, &reader.table, selection, marks))),
        None => {
            let detail = format!("partition key {:02x?} expected by Index.db, another found", key.key());
            Err(cursor.corrupt(entry.position(), &detail))
        }
    }
}

/// One partition of an SSTable as a stream.
#[derive(Debug)]
pub struct PartitionRead {
    header: Option<PartitionHeader>,
    rows: Rows,
    started: bool,
    is_reconciled: bool,
}

impl PartitionRead {
    /// The partition that the index cursor stands at.
    pub(super) fn new(
        reader: &SSTableReader,
        key: &DecoratedKey,
        entry: &IndexCursor,
        selection: &Arc<Selection>,
    ) -> Result<Self> {
        let (cursor, marks) = (reader.cursor(Caching::Use), reader.remembered_keys(Caching::Use));
        let (header, rows) = start_at_entry(reader, key, entry, cursor, selection, marks)?;
        Ok(Self { header: Some(header), rows, started: false, is_reconciled: !reader.may_have_deletions() })
    }

    /// The partition that the key cache remembers; `None` if it is another key's.
    pub(super) fn at(
        reader: &SSTableReader,
        key: &DecoratedKey,
        remembered: &Remembered,
        selection: &Arc<Selection>,
    ) -> Result<Option<Self>> {
        let mut cursor = reader.cursor(Caching::Use);
        let started = match remembered {
            Remembered::Small(_) => start(reader, key, remembered.place(), &mut cursor, selection)?,
            Remembered::Large(large) => start_large(reader, key, large, &mut cursor, selection)?,
        };
        let Some((header, place)) = started else { return Ok(None) };
        let marks = reader.remembered_keys(Caching::Use);
        let rows = Rows::new(cursor, place, &reader.table, selection, marks);
        Ok(Some(Self {
            header: Some(header),
            rows,
            started: false,
            is_reconciled: !reader.may_have_deletions(),
        }))
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

    fn is_reconciled(&self) -> bool {
        self.is_reconciled
    }
}
