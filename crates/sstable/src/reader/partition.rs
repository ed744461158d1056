//! Reads one partition.

use std::sync::Arc;

use cassette_rows::{
    DecoratedKey, DeletionTime, PartitionHeader, PartitionStream, Result, Selection, StorageError,
    TableMetadata, Unfiltered,
};

use super::index_cursor::{IndexCursor, read_promoted_index};
use super::rows::{Forward, Landed, Place, Reverse, RowIndex};
use super::slicing::Sliced;
use super::{RememberedKeys, SSTableReader};
use crate::chunked_file::Caching;
use crate::data::Cursor;
use crate::index::PromotedIndex;
use crate::key_cache::{PartitionPlace, Remembered};
use crate::large_partition::{LargePartition, Seen};
use crate::row_index_reads;
use crate::row_marks::RowMarks;

/// The rows of a partition, in the direction of a selection.
#[derive(Debug)]
pub(super) enum Rows {
    Forward(Sliced<Forward>),
    Reverse(Sliced<Reverse>),
    /// The selection wants none, or there are none of them.
    None,
}

impl Rows {
    /// `cursor` stands at the partition's first row or marker. `marks` are looked into and added to; `landed` is of the first slice.
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
        match selection.reversed {
            true => Self::Reverse(Sliced::new(Reverse::new(cursor, place), table, selection)),
            false => Self::Forward(Sliced::new(Forward::new(cursor, place, marks, landed), table, selection)),
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

/// Whether a read of this selection is shorter with an index of the rows.
fn takes_index(selection: &Selection) -> bool {
    !(selection.slices.is_all() && !selection.reversed || selection.slices.as_slice().is_empty())
}

/// Where the only slice of a selection begins in a large partition, and what is known of that block; `None` for other selections.
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
        Some((header, place)) => {
            Ok((header, Rows::new(cursor, place, &reader.table, selection, marks, None)))
        }
        None => {
            let detail = format!("partition key {:02x?} expected by Index.db, another found", key.key());
            Err(cursor.corrupt(entry.position(), &detail))
        }
    }
}

/// What an SSTable has of a selection of a partition.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "it is taken apart where it is given, never kept")]
pub enum Found {
    /// The partition is not in it.
    Nothing,
    /// The partition is in it, but nothing of what was selected is, nor is the partition deleted there: known without reading it.
    OnlyKey,
    /// The partition is in it, and must be read to know what of it was selected.
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
    /// The partition that the index cursor stands at.
    pub(super) fn new(
        reader: &SSTableReader,
        key: &DecoratedKey,
        entry: &IndexCursor,
        selection: &Arc<Selection>,
    ) -> Result<Self> {
        let (cursor, marks) = (reader.cursor(Caching::Use), reader.remembered_keys(Caching::Use));
        let (header, rows) = start_at_entry(reader, key, entry, cursor, selection, marks)?;
        Ok(Self::of(reader, header, rows))
    }

    fn of(reader: &SSTableReader, header: PartitionHeader, rows: Rows) -> Self {
        Self { header: Some(header), rows, started: false, is_reconciled: !reader.may_have_deletions() }
    }

    /// A partition without any row that is selected.
    pub(super) fn of_no_rows(reader: &SSTableReader, key: &DecoratedKey, deletion: DeletionTime) -> Self {
        Self::of(reader, PartitionHeader { key: key.clone(), deletion, static_row: None }, Rows::None)
    }

    /// The partition that the key cache remembers; nothing if it is another key's.
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
        let mut cursor = reader.cursor(Caching::Use);
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

    /// A large partition whose beginning and index need not be read again.
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
            return Ok(match seen.deletion.is_live() {
                true => Found::OnlyKey,
                false => Found::Partition(Self::of_no_rows(reader, key, seen.deletion)),
            });
        }
        let rows_start = start.saturating_add(seen.index.header_length);
        let index = match takes_index(selection) {
            true => RowIndex::Remembered(large.clone()),
            false => RowIndex::None,
        };
        let mut cursor = reader.cursor(Caching::Use);
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
        match self.started {
            true => self.rows.next(),
            false => Ok(None),
        }
    }

    fn is_reconciled(&self) -> bool {
        self.is_reconciled
    }
}
