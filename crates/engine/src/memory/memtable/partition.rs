//! One partition of a memtable.

use std::sync::Arc;

use cassette_rows::merge::merge_rows;
use cassette_rows::{
    Clustering, ClusteringComparator, DeletionTime, PartitionUpdate, Position, RangeTombstone,
    RangeTombstoneList, Row, TableMetadata,
};

/// The maximum number of rows of a chunk. A writer concurrent with a reader copies one chunk's
/// pointers and the list of chunks.
const CHUNK_ROWS: usize = 64;

/// The deletions and rows of a partition, reconciled: no part is covered by another.
///
/// A clone is a snapshot: it shares the rows and costs a few reference counts. Writers copy what a
/// snapshot still shares and change the rest in place.
#[derive(Debug, Clone)]
pub(crate) struct Partition {
    deletion: DeletionTime,
    static_row: Option<Row>,
    rows: Rows,
    tombstones: Option<Arc<RangeTombstoneList>>,
}

/// Rows in the table's order. One row needs no list.
#[derive(Debug, Clone)]
enum Rows {
    None,
    One(Row),
    /// After two or more rows were inserted; no chunk is empty.
    Many(Arc<Vec<Arc<Vec<Row>>>>),
}

/// The number of rows that are prefetched together.
const WARMED_ROWS: usize = 16;

/// A position between rows of a partition: before row `row` of chunk `chunk`. At the boundary of
/// chunks, the position in the later chunk is used, so that equal positions compare equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Place {
    chunk: usize,
    row: usize,
}

impl Partition {
    /// Returns an empty partition.
    pub fn new() -> Self {
        Self { deletion: DeletionTime::LIVE, static_row: None, rows: Rows::None, tombstones: None }
    }

    /// Returns the deletion of the whole partition.
    pub fn deletion(&self) -> DeletionTime {
        self.deletion
    }

    /// Returns the static row.
    pub fn static_row(&self) -> Option<&Row> {
        self.static_row.as_ref()
    }

    /// Returns the range tombstones, if there are any.
    pub fn tombstones(&self) -> Option<&RangeTombstoneList> {
        self.tombstones.as_deref()
    }

    /// Applies an update. Returns the growth of the partition in heap bytes.
    pub fn apply(&mut self, update: &PartitionUpdate, table: &TableMetadata) -> isize {
        let mut growth = Growth(0);
        if update.deletion.supersedes(&self.deletion) {
            self.delete(update.deletion, table, &mut growth);
        }
        for tombstone in update.range_tombstones.as_slice() {
            self.delete_range(tombstone, table, &mut growth);
        }
        if let Some(row) = &update.static_row {
            self.add_static_row(row, table, &mut growth);
        }
        for row in &update.rows {
            let mut active = self.deletion;
            if let Some(tombstones) = &self.tombstones {
                active = active.max(tombstones.covering(row.clustering().into(), &table.comparator));
            }
            self.rows.add(row, active, table, &mut growth);
        }
        growth.0
    }

    fn delete(&mut self, deletion: DeletionTime, table: &TableMetadata, growth: &mut Growth) {
        self.deletion = deletion;
        if let Some(old) = self.static_row.take() {
            self.static_row = merge_rows(std::slice::from_ref(&old), deletion, table);
            growth.replaced(Some(&old), self.static_row.as_ref());
        }
        self.rows.shadow(Place::default(), self.rows.end(), deletion, table, growth);
        if let Some(old) = self.tombstones.take() {
            growth.0 -= tombstones_size(&old);
            let mut kept = RangeTombstoneList::default();
            for tombstone in old.as_slice().iter().filter(|t| t.deletion.supersedes(&deletion)) {
                kept.add(tombstone.clone(), &table.comparator);
            }
            growth.0 += tombstones_size(&kept);
            self.tombstones = (!kept.is_empty()).then(|| Arc::new(kept));
        }
    }

    fn delete_range(&mut self, tombstone: &RangeTombstone, table: &TableMetadata, growth: &mut Growth) {
        if !tombstone.deletion.supersedes(&self.deletion) {
            return;
        }
        let from = self.rows.place(tombstone.start.position(), &table.comparator);
        let to = self.rows.place(tombstone.end.position(), &table.comparator);
        self.rows.shadow(from, to, tombstone.deletion, table, growth);
        let list = Arc::make_mut(self.tombstones.get_or_insert_default());
        let before = list.as_slice().len() as isize;
        list.add(tombstone.clone(), &table.comparator);
        growth.0 += (list.as_slice().len() as isize - before) * tombstone_size(tombstone);
    }

    fn add_static_row(&mut self, row: &Row, table: &TableMetadata, growth: &mut Growth) {
        let merged = match &self.static_row {
            Some(old) => merge_rows(&[old.clone(), row.clone()], self.deletion, table),
            None => merge_rows(std::slice::from_ref(row), self.deletion, table),
        };
        growth.replaced(self.static_row.as_ref(), merged.as_ref());
        self.static_row = merged;
    }

    /// Returns the number of rows.
    pub fn row_count(&self) -> usize {
        match &self.rows {
            Rows::None => 0,
            Rows::One(_) => 1,
            Rows::Many(chunks) => chunks.iter().map(|chunk| chunk.len()).sum(),
        }
    }

    /// Returns the number of leading rows that never expire, up to `limit`; deleted and expiring
    /// rows are skipped.
    pub fn lasting_rows(&self, limit: usize) -> usize {
        let lasts = |row: &&Row| !row.has_deletions() && row.is_live(0);
        self.iter().filter(lasts).take(limit).count()
    }

    /// Iterates over the rows in the table's order.
    pub fn iter(&self) -> impl Iterator<Item = &Row> {
        let (one, many): (Option<&Row>, &[Arc<Vec<Row>>]) = match &self.rows {
            Rows::None => (None, &[]),
            Rows::One(row) => (Some(row), &[]),
            Rows::Many(chunks) => (None, chunks),
        };
        one.into_iter().chain(many.iter().flat_map(|chunk| chunk.iter()))
    }

    /// Returns the position before the first row that is not before `position`.
    pub(super) fn place(&self, position: Position<'_>, comparator: &ClusteringComparator) -> Place {
        self.rows.place(position, comparator)
    }

    /// Returns the position after the last row.
    pub(super) fn end(&self) -> Place {
        self.rows.end()
    }

    /// Returns the row after `place`.
    pub(super) fn row_after(&self, place: Place) -> Option<&Row> {
        match &self.rows {
            Rows::None => None,
            Rows::One(row) => (place.row == 0).then_some(row),
            Rows::Many(chunks) => chunks.get(place.chunk)?.get(place.row),
        }
    }

    /// Returns the row, if the partition consists of one, beside its static row, and has no range
    /// tombstones.
    pub(super) fn only_row(&self) -> Option<&Row> {
        match &self.rows {
            Rows::One(row) if self.tombstones.is_none() => Some(row),
            _ => None,
        }
    }

    /// Prefetches the row, if it is the only one; see [`Row::warm`].
    pub(super) fn warm_only_row(&self) {
        if let Rows::One(row) = &self.rows {
            row.warm();
        }
    }

    /// Prefetches the rows of a batch, if one begins at `place`.
    pub(super) fn warm_batch(&self, place: Place) {
        if let Rows::Many(chunks) = &self.rows
            && place.row.is_multiple_of(WARMED_ROWS)
        {
            let rows = chunks.get(place.chunk).and_then(|chunk| chunk.get(place.row..));
            rows.into_iter().flatten().take(WARMED_ROWS).for_each(Row::warm);
        }
    }

    /// Returns the next position, which must exist.
    pub(super) fn next(&self, place: Place) -> Place {
        match &self.rows {
            Rows::Many(chunks) if place.row + 1 == chunks[place.chunk].len() => {
                Place { chunk: place.chunk + 1, row: 0 }
            }
            _ => Place { chunk: place.chunk, row: place.row + 1 },
        }
    }

    /// Returns the previous position, which must exist.
    pub(super) fn previous(&self, place: Place) -> Place {
        match &self.rows {
            Rows::Many(chunks) if place.row == 0 => {
                Place { chunk: place.chunk - 1, row: chunks[place.chunk - 1].len() - 1 }
            }
            _ => Place { chunk: place.chunk, row: place.row - 1 },
        }
    }
}

impl Rows {
    fn end(&self) -> Place {
        match self {
            Self::None => Place::default(),
            Self::One(_) => Place { chunk: 0, row: 1 },
            Self::Many(chunks) => Place { chunk: chunks.len(), row: 0 },
        }
    }

    fn place(&self, position: Position<'_>, comparator: &ClusteringComparator) -> Place {
        let is_before = |row: &Row| comparator.compare(row.clustering().into(), position).is_lt();
        match self {
            Self::None => Place::default(),
            Self::One(row) => Place { chunk: 0, row: usize::from(is_before(row)) },
            Self::Many(chunks) => {
                let chunk = chunks.partition_point(|chunk| chunk.last().is_some_and(is_before));
                let row = chunks.get(chunk).map_or(0, |chunk| chunk.partition_point(is_before));
                Place { chunk, row }
            }
        }
    }

    /// Merges a row, without what `active` covers.
    fn add(&mut self, row: &Row, active: DeletionTime, table: &TableMetadata, growth: &mut Growth) {
        let alone = |growth: &mut Growth| {
            let merged = merge_rows(std::slice::from_ref(row), active, table);
            growth.replaced(None, merged.as_ref());
            merged
        };
        match self {
            Self::None => {
                if let Some(row) = alone(growth) {
                    *self = Self::One(row);
                }
            }
            Self::One(old) => {
                let order = table.comparator.compare_rows(old.clustering(), row.clustering());
                if order.is_eq() {
                    let merged = merge_rows(&[old.clone(), row.clone()], active, table);
                    growth.replaced(Some(old), merged.as_ref());
                    *self = merged.map_or(Self::None, Self::One);
                } else if let Some(row) = alone(growth) {
                    let mut chunk = Vec::with_capacity(4);
                    chunk.push(old.clone());
                    chunk.insert(usize::from(order.is_lt()), row);
                    growth.0 += LIST_SIZE + 4 * POINTER_SIZE;
                    *self = Self::Many(Arc::new(vec![Arc::new(chunk)]));
                }
            }
            Self::Many(chunks) => match find(chunks, row.clustering(), &table.comparator) {
                Ok(place) => {
                    let old = &chunks[place.chunk][place.row];
                    let merged = merge_rows(&[old.clone(), row.clone()], active, table);
                    growth.replaced(Some(old), merged.as_ref());
                    let chunks = Arc::make_mut(chunks);
                    let chunk = Arc::make_mut(&mut chunks[place.chunk]);
                    match merged {
                        Some(merged) => chunk[place.row] = merged,
                        None => {
                            chunk.remove(place.row);
                            if chunk.is_empty() {
                                chunks.remove(place.chunk);
                            }
                        }
                    }
                }
                Err(place) => {
                    if let Some(row) = alone(growth) {
                        insert(Arc::make_mut(chunks), place, row, growth);
                    }
                }
            },
        }
    }

    /// Removes what `deletion` covers from the rows between two positions.
    fn shadow(
        &mut self,
        from: Place,
        to: Place,
        deletion: DeletionTime,
        table: &TableMetadata,
        growth: &mut Growth,
    ) {
        let mut shadowed = |row: &Row| {
            let merged = merge_rows(std::slice::from_ref(row), deletion, table);
            growth.replaced(Some(row), merged.as_ref());
            merged
        };
        match self {
            Self::None => {}
            Self::One(row) => {
                if from.row == 0 && to.row > 0 {
                    *self = shadowed(row).map_or(Self::None, Self::One);
                }
            }
            Self::Many(chunks) => {
                if from == to {
                    return;
                }
                let chunks = Arc::make_mut(chunks);
                for (i, chunk) in chunks.iter_mut().enumerate().take(to.chunk + 1).skip(from.chunk) {
                    let first = if i == from.chunk { from.row } else { 0 };
                    let last = if i == to.chunk { to.row } else { chunk.len() };
                    if first == last {
                        continue;
                    }
                    let chunk = Arc::make_mut(chunk);
                    let kept: Vec<Row> = chunk[first..last].iter().filter_map(&mut shadowed).collect();
                    chunk.splice(first..last, kept);
                }
                chunks.retain(|chunk| !chunk.is_empty());
                if chunks.is_empty() {
                    *self = Self::None;
                }
            }
        }
    }
}

/// Returns the position of the row, or where it would be inserted. Checks the end first, since rows
/// are mostly inserted in order.
fn find(
    chunks: &[Arc<Vec<Row>>],
    clustering: &Clustering,
    comparator: &ClusteringComparator,
) -> Result<Place, Place> {
    let compare = |row: &Row| comparator.compare_rows(row.clustering(), clustering);
    let Some(last) = chunks.last() else { return Err(Place::default()) };
    if last.last().is_some_and(|row| compare(row).is_lt()) {
        return Err(Place { chunk: chunks.len() - 1, row: last.len() });
    }
    let chunk = chunks.partition_point(|chunk| chunk.last().is_some_and(|row| compare(row).is_lt()));
    match chunks[chunk].binary_search_by(compare) {
        Ok(row) => Ok(Place { chunk, row }),
        Err(row) => Err(Place { chunk, row }),
    }
}

fn insert(chunks: &mut Vec<Arc<Vec<Row>>>, mut place: Place, row: Row, growth: &mut Growth) {
    if chunks.is_empty() {
        chunks.push(Arc::new(vec![row]));
        return;
    }
    if chunks[place.chunk].len() >= CHUNK_ROWS {
        growth.0 += LIST_SIZE;
        if place.chunk + 1 == chunks.len() && place.row == CHUNK_ROWS {
            // Rows that are inserted in order fill chunks completely.
            chunks.push(Arc::new(Vec::with_capacity(CHUNK_ROWS)));
            place = Place { chunk: place.chunk + 1, row: 0 };
        } else {
            let lower = Arc::make_mut(&mut chunks[place.chunk]);
            let mut upper = Vec::with_capacity(CHUNK_ROWS);
            upper.extend(lower.drain(CHUNK_ROWS / 2..));
            chunks.insert(place.chunk + 1, Arc::new(upper));
            if place.row > CHUNK_ROWS / 2 {
                place = Place { chunk: place.chunk + 1, row: place.row - CHUNK_ROWS / 2 };
            }
        }
    }
    growth.0 += POINTER_SIZE;
    Arc::make_mut(&mut chunks[place.chunk]).insert(place.row, row);
}

/// Heap bytes added.
struct Growth(isize);

/// An `Arc<Vec<_>>` and its entry in the list of chunks: two counts, three words, one pointer, and
/// the overhead of allocation.
const LIST_SIZE: isize = 64;
const POINTER_SIZE: isize = size_of::<Row>() as isize;

impl Growth {
    fn replaced(&mut self, old: Option<&Row>, new: Option<&Row>) {
        self.0 += new.map_or(0, Row::heap_size) as isize - old.map_or(0, Row::heap_size) as isize;
    }
}

fn tombstone_size(tombstone: &RangeTombstone) -> isize {
    (size_of::<RangeTombstone>() + tombstone.start.prefix.heap_size() + tombstone.end.prefix.heap_size())
        as isize
}

fn tombstones_size(list: &RangeTombstoneList) -> isize {
    list.as_slice().iter().map(tombstone_size).sum()
}
