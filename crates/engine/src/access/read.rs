//! The path of a read: a view, its relevant sources, one merged stream.

use std::collections::HashSet;
use std::sync::Arc;

use arc_swap::Guard;
use cassette_rows::merge::merge_rows;
use cassette_rows::schema::RowsPerPartition;
use cassette_rows::stream::EmptyStream;
use cassette_rows::token::murmur3_hash;
use cassette_rows::{
    Bound, DecoratedKey, DeletionTime, MergedStream, PartitionHeader, PartitionStream, RangeTombstoneMarker,
    Result as StorageResult, Row, Selection, StorageError, TableMetadata, Unfiltered,
};
use cassette_sstable::Component;
use cassette_sstable::chunked_file::Caching;
use cassette_sstable::reader::Scan;
use cassette_sstable::waiting::{may_wait, starting_reads};
use cassette_vfs::FileId;

use crate::basics::error::Result;
use crate::basics::key_range::{KeyBounds, KeyRange};
use crate::basics::trace::trace;
use crate::memory::memtable::{MemtableScan, Partition, PartitionRead};
use crate::metrics::ReadTally;
use crate::store::core::Core;
use crate::store::row_cache::Found;
use crate::store::sstable_handle::{SSTable, Watched};
use crate::store::table::{Table, View};

type Source = Box<dyn PartitionStream>;

impl Core {
    /// See [`Engine::read_first`](crate::Engine::read_first).
    pub fn read(
        &self,
        table: &Table,
        key: &DecoratedKey,
        selection: &Selection,
        wanted: Option<u32>,
    ) -> Result<Source> {
        self.check_running()?;
        let view = table.view();
        if self.row_cache.is_enabled()
            && self.row_cache.takes(&view.table)
            && let Some(read) = self.read_cached(table, &view, key, selection, wanted)?
        {
            return Ok(read);
        }
        Ok(self.read_stored(table, &view, key, selection)?.0)
    }

    /// See [`Engine::read_uncached`](crate::Engine::read_uncached).
    pub fn read_uncached(
        &self,
        table: &Table,
        key: &DecoratedKey,
        selection: &Selection,
    ) -> Result<(Source, u64)> {
        self.check_running()?;
        self.read_stored(table, &table.view(), key, selection)
    }

    /// See [`Engine::may_contain`](crate::Engine::may_contain).
    pub fn may_contain(&self, table: &Table, key: &DecoratedKey) -> Result<bool> {
        self.check_running()?;
        let view = table.view();
        self.check_complete(&view)?;
        if view.memtables().any(|memtable| memtable.contains(key)) {
            return Ok(true);
        }
        let hash = murmur3_hash(key.key());
        Ok(view.sstables.iter().any(|sstable| sstable.reader.may_contain_hashed(key, hash)))
    }

    /// Reads from the row cache, or into it; `None` if the cache cannot answer.
    fn read_cached(
        &self,
        table: &Table,
        view: &View,
        key: &DecoratedKey,
        selection: &Selection,
        wanted: Option<u32>,
    ) -> Result<Option<Source>> {
        let answer = |partition: Option<Partition>, view: &View| -> Source {
            let Some(partition) = partition else { return Box::new(EmptyStream) };
            let selection = Arc::new(selection.clone());
            Box::new(PartitionRead::new(key.clone(), partition, view.table.clone(), selection))
        };
        match self.row_cache.find(view, key, selection, wanted) {
            Found::Hit(partition) => {
                trace(|| "Row cache hit");
                table.metrics.record_read(&ReadTally::default());
                return Ok(Some(answer(partition, view)));
            }
            Found::Unusable => {
                trace(|| "Ignoring row cache as cached value could not satisfy query");
                return Ok(None);
            }
            Found::Nothing => trace(|| "Row cache miss"),
        }
        let rows = view.table.params.caching.rows_per_partition;
        let begins_at_head = selection.slices.is_all() && !selection.reversed;
        if rows != RowsPerPartition::All && !begins_at_head {
            trace(
                || "Fetching data but not populating cache as query does not query from the start of the partition",
            );
            return Ok(None);
        }
        let Some(view) = self.fill_row_cache(table, key)? else { return Ok(None) };
        Ok(match self.row_cache.look(&view, key, selection, wanted) {
            Found::Hit(partition) => Some(answer(partition, &view)),
            Found::Unusable | Found::Nothing => None,
        })
    }

    /// Reads a partition into the row cache, and returns the view that it was read from; `None` if
    /// there is an entry for it.
    pub fn fill_row_cache(&self, table: &Table, key: &DecoratedKey) -> Result<Option<Guard<Arc<View>>>> {
        let Some(loading) = self.row_cache.begin(table.id, key) else { return Ok(None) };
        // The entry first, then the view: see the row cache.
        let view = table.view();
        let (mut stream, _) = self.read_stored(table, &view, key, &Selection::all())?;
        trace(|| "Caching rows");
        let rows = view.table.params.caching.rows_per_partition;
        loading.publish(&mut *stream, &view, rows, self.now_seconds())?;
        Ok(Some(view))
    }

    /// Reads from memtables and SSTables. Returns how many SSTables contain the partition.
    fn read_stored(
        &self,
        table: &Table,
        view: &View,
        key: &DecoratedKey,
        selection: &Selection,
    ) -> Result<(Source, u64)> {
        self.check_complete(view)?;
        trace(|| format!("Executing single-partition query on {}", view.table.name));
        trace(|| "Acquiring sstable references");
        let selection = Arc::new(selection.clone());
        let hash = murmur3_hash(key.key());
        let candidates = view.sstables.iter().filter(|sstable| may_have(sstable, &selection));
        let mut tally = ReadTally::default();
        if asks_for_one_row(&view.table, &selection) {
            let read = read_row(view, (key, hash), &selection, candidates, &mut tally)?;
            table.metrics.record_read(&tally);
            return Ok((read, tally.sstables));
        }
        trace(|| "Merging memtable contents");
        let mut sources: Vec<Source> = Vec::new();
        let mut deletion = DeletionTime::LIVE;
        for memtable in view.memtables() {
            if let Some(found) = memtable.read(key, &view.table, &selection) {
                deletion = deletion.max(found.deletion());
                sources.push(Box::new(found));
            }
        }
        for sstable in candidates {
            // Sorted by maximum timestamp: neither this one nor later ones contain anything that is
            // not deleted.
            if deletion.deletes(sstable.max_timestamp()) {
                break;
            }
            let Some(found) = read_sstable(sstable, (key, hash), &selection, &mut tally)? else { continue };
            if !sstable.reader.may_have_deletions() {
                sources.push(Box::new(found));
                continue;
            }
            if let Some(headed) = Headed::new(found)? {
                deletion = deletion.max(headed.deletion);
                sources.push(Box::new(headed));
            }
        }
        table.metrics.record_read(&tally);
        trace(|| format!("Merged data from memtables and {} sstables", tally.sstables));
        Ok((merged(sources, &view.table, selection.reversed), tally.sstables))
    }

    /// See [`Engine::scan`](crate::Engine::scan) and
    /// [`Engine::scan_once`](crate::Engine::scan_once).
    pub fn scan(
        &self,
        table: &Table,
        range: &KeyRange,
        selection: &Selection,
        caching: Caching,
    ) -> Result<Source> {
        self.check_running()?;
        let bounds = range.bounds();
        if bounds.is_empty() {
            return Ok(Box::new(EmptyStream));
        }
        let view = table.view();
        self.check_complete(&view)?;
        let selection = Arc::new(selection.clone());
        trace(|| {
            let sstables = view.sstables.iter().filter(|sstable| lies_in(sstable, &bounds)).count();
            format!("Executing seq scan across {sstables} sstables for {}", view.table.qualified_name())
        });
        let mut sources: Vec<Source> = Vec::new();
        for memtable in view.memtables().filter(|memtable| !memtable.is_empty()) {
            let scan =
                MemtableScan::new(memtable.clone(), view.table.clone(), bounds.clone(), selection.clone());
            sources.push(Box::new(scan));
        }
        let scans = scans(&view, &bounds, &selection, caching)?;
        table.metrics.sstables_per_range_read.record(scans.len() as u64);
        sources.extend(scans.into_iter().map(|scan| Box::new(scan) as Source));
        Ok(merged(sources, &view.table, selection.reversed))
    }

    /// Does [`Engine::data_files`](crate::Engine::data_files).
    pub fn data_files_of(&self, table: &Table, range: &KeyRange) -> Result<Option<HashSet<FileId>>> {
        let view = table.view();
        self.check_complete(&view)?;
        if view.memtables().any(|memtable| !memtable.is_empty()) {
            return Ok(None);
        }
        let bounds = range.bounds();
        let sstables = view.sstables.iter().filter(|sstable| lies_in(sstable, &bounds));
        let identity = |sstable: &Arc<SSTable>| {
            self.fs.identity(&sstable.reader.descriptor().path(Component::Data)).ok()
        };
        Ok(sstables.map(identity).collect())
    }
}

/// Scans of the SSTables that may have selected data within `bounds`.
///
/// Each begins with a block of Index and a chunk of Data. Where these are on the disk, it loads
/// those of all SSTables at the same time.
fn scans(
    view: &View,
    bounds: &KeyBounds,
    selection: &Arc<Selection>,
    caching: Caching,
) -> StorageResult<Vec<Watched<Scan>>> {
    /// The first rows of an SSTable with less than this part of the data are read when the merge
    /// reaches them: most scans are shorter.
    const SMALL: u64 = 64;
    let may_have_rows = |sstable: &&Arc<SSTable>| lies_in(sstable, bounds) && may_have(sstable, selection);
    let scan =
        |sstable: &Arc<SSTable>| sstable.scan(bounds.start.as_ref(), bounds.end.as_ref(), selection, caching);
    let sstables = view.sstables.iter().filter(may_have_rows);
    let is_mapped = view.sstables.iter().any(|sstable| sstable.reader.is_mapped());
    if !may_wait() || is_mapped {
        return sstables.map(scan).collect();
    }
    let attempts: Vec<_> = sstables.map(|sstable| (sstable, starting_reads(|| scan(sstable)))).collect();
    let mut scans = Vec::with_capacity(attempts.len());
    for (sstable, attempt) in attempts {
        scans.push(match attempt {
            Err(StorageError::WouldBlock { .. }) => scan(sstable)?,
            attempt => attempt?,
        });
    }
    if scans.len() > 1 {
        let size = |scan: &Watched<Scan>| scan.sstable().reader.uncompressed_bytes();
        let all: u64 = scans.iter().map(size).sum();
        for scan in &mut scans {
            if size(scan) >= all / SMALL {
                // If it fails, the read of the rows waits, or reports the error.
                let _ = starting_reads(|| scan.load());
            }
        }
    }
    Ok(scans)
}

/// Reads the part of a partition in an SSTable.
fn read_sstable(
    sstable: &Arc<SSTable>,
    (key, hash): (&DecoratedKey, (u64, u64)),
    selection: &Arc<Selection>,
    tally: &mut ReadTally,
) -> StorageResult<Option<impl PartitionStream + use<>>> {
    let found = sstable.read(key, hash, selection, tally)?;
    trace(|| match &found {
        Some(_) => format!("Partition index found for sstable {}", sstable.id()),
        None => format!("Bloom filter or partition index allows skipping sstable {}", sstable.id()),
    });
    Ok(found)
}

/// Whether the SSTable may contain selected data of some partition.
fn may_have(sstable: &SSTable, selection: &Selection) -> bool {
    // A selection without rows asks which partitions exist.
    selection.slices.as_slice().is_empty()
        || sstable.reader.may_contain_rows_in(&selection.slices)
        || sstable.reader.may_have_static()
        || sstable.reader.may_have_deletions()
}

fn lies_in(sstable: &SSTable, bounds: &KeyBounds) -> bool {
    bounds.intersects(sstable.reader.first_key(), sstable.reader.last_key())
}

/// Merges streams into one. A memtable is reconciled; an SSTable is, too, if this engine wrote it,
/// but with deletions this is not relied on.
fn merged(mut sources: Vec<Source>, table: &Arc<TableMetadata>, reversed: bool) -> Source {
    match &sources[..] {
        [] => Box::new(EmptyStream),
        [only] if only.is_reconciled() => sources.remove(0),
        _ => Box::new(MergedStream::new(sources, table.clone(), reversed)),
    }
}

/// Whether the selection has at most one row, whose older versions need not be read once each of
/// its columns was found in newer ones.
fn asks_for_one_row(table: &TableMetadata, selection: &Selection) -> bool {
    if table.is_counter
        || table.columns.iter().flatten().any(|column| column.data_type.is_multi_cell())
        || table.has_static_columns()
    {
        return false;
    }
    match selection.slices.as_slice() {
        [slice] => {
            slice.start.prefix.len() == table.clustering.len()
                && slice.start.prefix == slice.end.prefix
                && slice.start.side != slice.end.side
        }
        _ => false,
    }
}

/// Reads one row: memtables first, then SSTables in descending order of timestamps, as long as they
/// can still change it.
fn read_row<'a>(
    view: &View,
    (key, hash): (&DecoratedKey, (u64, u64)),
    selection: &Arc<Selection>,
    sstables: impl Iterator<Item = &'a Arc<SSTable>>,
    tally: &mut ReadTally,
) -> Result<Source> {
    let mut found = Versions::default();
    trace(|| "Merging memtable contents");
    for memtable in view.memtables() {
        if let Some(read) = memtable.read(key, &view.table, selection) {
            found.take(read)?;
        }
    }
    for sstable in sstables {
        if !found.can_be_changed_by(sstable.max_timestamp(), &view.table) {
            break;
        }
        if let Some(partition) = read_sstable(sstable, (key, hash), selection, tally)? {
            found.take(partition)?;
        }
    }
    trace(|| format!("Merged data from memtables and {} sstables", tally.sstables));
    Ok(found.into_stream(key, &view.table, selection))
}

/// The versions of a row.
#[derive(Default)]
struct Versions {
    partition_found: bool,
    partition_deletion: Option<DeletionTime>,
    /// The latest range deletion that covers it.
    range_deletion: Option<DeletionTime>,
    rows: Vec<Row>,
}

impl Versions {
    fn take(&mut self, mut stream: impl PartitionStream) -> StorageResult<()> {
        let greater = |a: Option<DeletionTime>, b: DeletionTime| match a {
            Some(a) => Some(a.max(b)),
            None => (!b.is_live()).then_some(b),
        };
        let Some(header) = stream.next_partition()? else { return Ok(()) };
        self.partition_found = true;
        self.partition_deletion = greater(self.partition_deletion, header.deletion);
        // Markers are clipped to the selection, which is one row: any open range covers the row.
        while let Some(unfiltered) = stream.next_unfiltered()? {
            match unfiltered {
                Unfiltered::Row(row) => self.rows.push(row),
                Unfiltered::Marker(marker) => {
                    if let Some(open) = marker.open {
                        self.range_deletion = greater(self.range_deletion, open);
                    }
                }
            }
        }
        Ok(())
    }

    fn deletion(&self) -> DeletionTime {
        let partition = self.partition_deletion.unwrap_or(DeletionTime::LIVE);
        self.range_deletion.map_or(partition, |range| partition.max(range))
    }

    /// Whether data with timestamps up to `max_timestamp` can change the result.
    fn can_be_changed_by(&self, max_timestamp: i64, table: &TableMetadata) -> bool {
        if self.deletion().deletes(max_timestamp) {
            return false;
        }
        if self.rows.iter().any(|row| row.deletion().deletes(max_timestamp)) {
            return false;
        }
        let is_newer = |timestamp: i64| timestamp > max_timestamp;
        let has_liveness =
            self.rows.iter().any(|row| !row.liveness().is_empty() && is_newer(row.liveness().timestamp));
        let has_cell = |column: &Arc<cassette_rows::ColumnMetadata>| {
            self.rows.iter().any(|row| row.cell(column.id).is_some_and(|cell| is_newer(cell.timestamp)))
        };
        !has_liveness || !table.regular_columns().all(has_cell)
    }

    fn into_stream(self, key: &DecoratedKey, table: &TableMetadata, selection: &Selection) -> Source {
        if !self.partition_found {
            return Box::new(EmptyStream);
        }
        let partition = self.partition_deletion.unwrap_or(DeletionTime::LIVE);
        let header = PartitionHeader { key: key.clone(), deletion: partition, static_row: None };
        let row = merge_rows(&self.rows, self.deletion(), table);
        let range = self.range_deletion.filter(|range| *range > partition);
        let (open, close) =
            range.zip(selection.slices.as_slice().first()).map_or((None, None), |(range, slice)| {
                let (first, last) =
                    if selection.reversed { (&slice.end, &slice.start) } else { (&slice.start, &slice.end) };
                let marker = |bound: &Bound, close, open| {
                    Some(Box::new(RangeTombstoneMarker { bound: bound.clone(), close, open }))
                };
                (marker(first, None, Some(range)), marker(last, Some(range), None))
            });
        Box::new(RowStream { header: Some(header), open, row, close, started: false })
    }
}

/// A stream of one partition whose header has been read.
struct Headed<S> {
    header: Option<PartitionHeader>,
    deletion: DeletionTime,
    started: bool,
    stream: S,
}

impl<S: PartitionStream> Headed<S> {
    /// Returns `None` if there is no partition.
    fn new(mut stream: S) -> StorageResult<Option<Self>> {
        let Some(header) = stream.next_partition()? else { return Ok(None) };
        Ok(Some(Self { deletion: header.deletion, header: Some(header), started: false, stream }))
    }
}

impl<S: PartitionStream> PartitionStream for Headed<S> {
    fn next_partition(&mut self) -> StorageResult<Option<PartitionHeader>> {
        if std::mem::replace(&mut self.started, true) {
            return self.stream.next_partition();
        }
        Ok(self.header.take())
    }

    fn next_unfiltered(&mut self) -> StorageResult<Option<Unfiltered>> {
        if self.started { self.stream.next_unfiltered() } else { Ok(None) }
    }
}

/// A partition of one row, within the range tombstone that covers it, if any.
struct RowStream {
    header: Option<PartitionHeader>,
    open: Option<Box<RangeTombstoneMarker>>,
    row: Option<Row>,
    close: Option<Box<RangeTombstoneMarker>>,
    started: bool,
}

impl PartitionStream for RowStream {
    fn next_partition(&mut self) -> StorageResult<Option<PartitionHeader>> {
        if self.started {
            (self.open, self.row, self.close) = (None, None, None);
        }
        self.started = true;
        Ok(self.header.take())
    }

    fn next_unfiltered(&mut self) -> StorageResult<Option<Unfiltered>> {
        if !self.started {
            return Ok(None);
        }
        let next = self.open.take().map(Unfiltered::Marker);
        let next = next.or_else(|| self.row.take().map(Unfiltered::Row));
        Ok(next.or_else(|| self.close.take().map(Unfiltered::Marker)))
    }
}
