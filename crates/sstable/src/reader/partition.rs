//! Reads one partition.

use std::sync::Arc;

use cassette_rows::{
    DecoratedKey, DeletionTime, PartitionHeader, PartitionStream, Result, RowProbe, Selection, StorageError,
    TableMetadata, Unfiltered,
};

use super::index_cursor::{IndexCursor, read_promoted_index};
use super::reverse::Reverse;
use super::rows::{Forward, Landed, Place, RowIndex};
use super::slicing::Sliced;
use super::{RememberedKeys, SSTableReader};
use crate::chunked_file::Caching;
use crate::data::Cursor;
use crate::index::PromotedIndex;
use crate::key_cache::Remembered;
use crate::large_partition::PartitionPlace;
use crate::large_partition::{LargePartition, Seen};
use crate::row_index_reads;
use crate::row_marks::RowMarks;

/// The rows of a partition, in the direction of a selection.
#[derive(Debug)]
pub(super) enum Rows {
    Forward(Sliced<Forward>),
    Reverse(Sliced<Reverse>),
    /// No rows are selected, or none exist.
    None,
}

impl Rows {
    /// `cursor` is at the partition's first row or marker. `marks` are used and extended; `landed`
    /// is that of the first slice.
    pub(super) fn new(
        cursor: Cursor,
        place: Place,
        table: &Arc<TableMetadata>,
        selection: &Arc<Selection>,
        marks: Option<&RememberedKeys>,
        landed: Option<Landed>,
    ) -> Self {
        if selection.slices.as_slice().is_empty() {
            return Self::None;
        }
        let (table, selection) = (table.clone(), selection.clone());
        if selection.reversed {
            let is_single = selection.slices.as_slice().len() == 1;
            Self::Reverse(Sliced::new(Reverse::new(cursor, place, marks, is_single), table, selection))
        } else {
            Self::Forward(Sliced::new(Forward::new(cursor, place, marks, landed), table, selection))
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

    /// See [`PartitionStream::pass_live_rows`]; for an SSTable without deletions.
    pub(super) fn pass_live_rows(&mut self, limit: u64, probe: &mut dyn RowProbe) -> Result<u64> {
        match self {
            Self::Forward(rows) => rows.pass_live_rows(limit, probe),
            Self::Reverse(_) | Self::None => Ok(0),
        }
    }
}

/// Reads the header of the partition at `place`, and checks that Index and Data agree about it.
/// `None` if Data has another key there.
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
    let promoted =
        if takes_index(selection) { read_promoted_index(index_file, place, cursor.caching())? } else { None };
    if let Some(index) = &promoted {
        row_index_reads::note(index, place.promoted_length);
    }
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

/// Returns whether a read of this selection is faster with a row index.
fn takes_index(selection: &Selection) -> bool {
    !(selection.slices.is_all() && !selection.reversed || selection.slices.as_slice().is_empty())
}

/// Returns the start of a selection with one slice in a large partition, and the cached marks of
/// that block; `None` for other selections.
fn land(
    reader: &SSTableReader,
    start: u64,
    index: &PromotedIndex,
    selection: &Selection,
    marks: Option<&RememberedKeys>,
) -> Result<Option<Landed>> {
    let codec = &reader.format.clustering;
    let ([slice], false, Some(keys)) = (selection.slices.as_slice(), selection.reversed, marks) else {
        return Ok(None);
    };
    if !takes_index(selection) || !RowMarks::can_mark(codec) {
        return Ok(None);
    }
    let landing = index.landing(&slice.start, codec, &reader.table.comparator);
    let landing = landing.map_err(|e| e.at(reader.index_path()))?;
    let known = keys.cache.marks(keys.sstable, start.saturating_add(landing.place.offset));
    Ok(Some(Landed { landing, known }))
}

/// [`start`] for the current partition of the index cursor: Data must contain that key.
pub(super) fn start_at_entry(
    reader: &SSTableReader,
    key: &DecoratedKey,
    entry: &IndexCursor,
    mut cursor: Cursor,
    selection: &Arc<Selection>,
    marks: Option<&RememberedKeys>,
) -> Result<(PartitionHeader, Rows)> {
    match start(reader, key, entry.place(), &mut cursor, selection)? {
        Some((header, place)) => {
            Ok((header, Rows::new(cursor, place, &reader.table, selection, marks, None)))
        }
        None => {
            let detail = format!("partition key {:02x?} expected by Index.db, another found", key.key());
            Err(cursor.corrupt(entry.position(), &detail))
        }
    }
}

/// The result of looking up a selection of a partition in an SSTable.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "destructured by its callers, never stored")]
pub enum Found {
    /// The partition is absent.
    Nothing,
    /// The partition exists without any selected row or deletion: known without reading it.
    OnlyKey,
    /// The partition exists, and must be read for the selected rows.
    Partition(PartitionRead),
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
    /// Reads the current partition of the index cursor.
    pub(super) fn new(
        reader: &SSTableReader,
        key: &DecoratedKey,
        entry: &IndexCursor,
        selection: &Arc<Selection>,
    ) -> Result<Self> {
        let (cursor, marks) = (reader.partition_cursor(), reader.remembered_keys(Caching::Use));
        let (header, rows) = start_at_entry(reader, key, entry, cursor, selection, marks)?;
        Ok(Self::of(reader, header, rows))
    }

    fn of(reader: &SSTableReader, header: PartitionHeader, rows: Rows) -> Self {
        Self { header: Some(header), rows, started: false, is_reconciled: !reader.may_have_deletions() }
    }

    /// Creates a partition without selected rows.
    pub(super) fn of_no_rows(reader: &SSTableReader, key: &DecoratedKey, deletion: DeletionTime) -> Self {
        Self::of(reader, PartitionHeader { key: key.clone(), deletion, static_row: None }, Rows::None)
    }

    /// Reads the partition at a cached position; `None` if it has another key.
    pub(super) fn at(
        reader: &SSTableReader,
        key: &DecoratedKey,
        remembered: &Remembered,
        selection: &Arc<Selection>,
    ) -> Result<Found> {
        if let Remembered::Large(large) = remembered
            && let Some(seen) = large.seen(key)
        {
            return Self::at_seen(reader, key, large, seen, selection);
        }
        let mut cursor = reader.partition_cursor();
        let started = start(reader, key, remembered.place(), &mut cursor, selection)?;
        let Some((header, place)) = started else { return Ok(Found::Nothing) };
        if let (Remembered::Large(large), RowIndex::Read(index)) = (remembered, &place.index)
            && !reader.may_have_static()
        {
            let order = (&reader.format.clustering, &reader.table.comparator);
            large.note(key, header.deletion, index, order);
        }
        let marks = reader.remembered_keys(Caching::Use);
        let rows = Rows::new(cursor, place, &reader.table, selection, marks, None);
        Ok(Found::Partition(Self::of(reader, header, rows)))
    }

    /// Reads a large partition whose header and index are cached.
    fn at_seen(
        reader: &SSTableReader,
        key: &DecoratedKey,
        large: &Arc<LargePartition>,
        seen: &Seen,
        selection: &Arc<Selection>,
    ) -> Result<Found> {
        let start = large.place().position;
        let marks = reader.remembered_keys(Caching::Use);
        let landed = land(reader, start, &seen.index, selection, marks)?;
        if let (Some(landed), [slice]) = (&landed, selection.slices.as_slice())
            && landed.rules_out(slice, &reader.table)
        {
            return Ok(if seen.deletion.is_live() {
                Found::OnlyKey
            } else {
                Found::Partition(Self::of_no_rows(reader, key, seen.deletion))
            });
        }
        let rows_start = start.saturating_add(seen.index.header_length);
        let index = if takes_index(selection) { RowIndex::Remembered(large.clone()) } else { RowIndex::None };
        let mut cursor = reader.partition_cursor();
        cursor.seek(rows_start);
        let place = Place { start, rows_start, index, index_file: reader.shared.index.clone() };
        let rows = Rows::new(cursor, place, &reader.table, selection, marks, landed);
        let header = PartitionHeader { key: key.clone(), deletion: seen.deletion, static_row: None };
        Ok(Found::Partition(Self::of(reader, header, rows)))
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
        if self.started { self.rows.next() } else { Ok(None) }
    }

    fn pass_live_rows(&mut self, limit: u64, probe: &mut dyn RowProbe) -> Result<u64> {
        if self.started && self.is_reconciled { self.rows.pass_live_rows(limit, probe) } else { Ok(0) }
    }

    fn is_reconciled(&self) -> bool {
        self.is_reconciled
    }
}
