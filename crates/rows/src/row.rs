//! Rows and their cells.

use std::sync::Arc;

use bytes::Bytes;
use smallvec::SmallVec;

use crate::clustering::Clustering;
use crate::deletion::{DeletionTime, LivenessInfo, NO_DELETION_TIME, NO_TTL};
use crate::schema::ColumnId;
use crate::schema::TableMetadata;

/// One cell: the value of a simple column, or one element of a complex column. Borrowed from its
/// [`Row`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cell<'a> {
    /// The column.
    pub column: ColumnId,
    /// Which element of a complex column; `None` in a simple column.
    pub path: Option<&'a [u8]>,
    /// The value's bytes; empty for a tombstone, for an element of a set, and for an empty value.
    pub value: &'a [u8],
    /// Write timestamp, microseconds.
    pub timestamp: i64,
    /// Seconds to live, [`NO_TTL`] if it does not expire.
    pub ttl: u32,
    /// When it was deleted or expires, seconds since 1970; [`NO_DELETION_TIME`] for neither.
    pub local_deletion_time: u32,
}

impl Cell<'_> {
    /// Returns whether it is a deletion of the cell. An expired cell is not, until compaction turns
    /// it into one.
    pub const fn is_tombstone(&self) -> bool {
        self.local_deletion_time != NO_DELETION_TIME && self.ttl == NO_TTL
    }

    /// Returns whether it has a TTL, expired or not.
    pub const fn is_expiring(&self) -> bool {
        self.ttl != NO_TTL
    }

    /// Returns whether it holds a value at `now` (seconds since 1970).
    pub const fn is_live(&self, now: u32) -> bool {
        self.local_deletion_time == NO_DELETION_TIME || (self.ttl != NO_TTL && now < self.local_deletion_time)
    }
}

/// The position of a cell in its row's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CellMeta {
    timestamp: i64,
    ttl: u32,
    local_deletion_time: u32,
    path_start: u32,
    path_length: u32,
    value_start: u32,
    value_length: u32,
    column: ColumnId,
    has_path: bool,
}

/// A row: immutable, shared, cheap to clone.
///
/// Cells ascend by column id, the elements of a complex column by path. All values are in one
/// buffer: a dedicated one, or a cached chunk of an SSTable.
#[derive(Debug, Clone)]
pub struct Row(Arc<Inner>);

/// Bytes of a cache line.
const CACHE_LINE: usize = 64;

/// The number of bytes of a row's values that are prefetched; processors prefetch the rest, because
/// it is read in order. A few hundred rows fit the second-level cache.
const WARMED: usize = 4096;

type ComplexDeletions = Vec<(ColumnId, DeletionTime)>;

/// Cells of a row; a row with one cell needs no allocation for it.
type Cells = SmallVec<[CellMeta; 1]>;

#[derive(Debug)]
struct Inner {
    clustering: Clustering,
    liveness: LivenessInfo,
    deletion: DeletionTime,
    /// Few rows have any: a box takes a third of the space.
    complex_deletions: Option<Box<ComplexDeletions>>,
    cells: Cells,
    data: Bytes,
    /// Whether some cell is expiring or a tombstone.
    has_deletion_times: bool,
}

impl Row {
    /// The values of the clustering columns; empty for a static row.
    pub fn clustering(&self) -> &Clustering {
        &self.0.clustering
    }

    /// The liveness of the primary key.
    pub fn liveness(&self) -> LivenessInfo {
        self.0.liveness
    }

    /// The deletion of the row itself.
    pub fn deletion(&self) -> DeletionTime {
        self.0.deletion
    }

    /// Deletions of whole complex columns, ascending by column; none of them is live.
    pub fn complex_deletions(&self) -> &[(ColumnId, DeletionTime)] {
        self.0.complex_deletions.as_ref().map_or(&[], |deletions| deletions)
    }

    /// The deletion of complex column `column`, live if there is none.
    pub fn complex_deletion(&self, column: ColumnId) -> DeletionTime {
        let deletions = self.complex_deletions();
        match deletions.binary_search_by_key(&column, |(c, _)| *c) {
            Ok(i) => deletions[i].1,
            Err(_) => DeletionTime::LIVE,
        }
    }

    /// The number of cells, tombstones and elements included.
    pub fn cell_count(&self) -> usize {
        self.0.cells.len()
    }

    /// All cells in order.
    pub fn cells(&self) -> impl ExactSizeIterator<Item = Cell<'_>> + Clone {
        self.0.cells.iter().map(|meta| self.resolve(meta))
    }

    /// Cell number `index`, in order.
    pub fn cell_at(&self, index: usize) -> Option<Cell<'_>> {
        self.0.cells.get(index).map(|meta| self.resolve(meta))
    }

    /// The least and the greatest write timestamp of its cells; `None` without cells.
    pub fn timestamps(&self) -> Option<(i64, i64)> {
        let timestamps = self.0.cells.iter().map(|meta| (meta.timestamp, meta.timestamp));
        timestamps.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    }

    /// Returns the number of columns with cells.
    pub fn column_count(&self) -> usize {
        let cells = &self.0.cells;
        cells.windows(2).filter(|two| two[0].column != two[1].column).count() + usize::from(!cells.is_empty())
    }

    /// The cell of simple column `column`.
    pub fn cell(&self, column: ColumnId) -> Option<Cell<'_>> {
        self.cells_of(column).next()
    }

    /// The cells of `column`, by path if it is complex.
    pub fn cells_of(&self, column: ColumnId) -> impl ExactSizeIterator<Item = Cell<'_>> + Clone {
        let cells = &self.0.cells;
        // Ids are dense, so a full row has column n at or before index n.
        let start = match cells.get(column.0 as usize) {
            Some(meta)
                if meta.column == column
                    && (column.0 == 0 || cells[column.0 as usize - 1].column != column) =>
            {
                column.0 as usize
            }
            _ => cells.partition_point(|meta| meta.column < column),
        };
        let count = cells[start..].iter().take_while(|meta| meta.column == column).count();
        cells[start..start + count].iter().map(|meta| self.resolve(meta))
    }

    /// Returns whether nothing is left: no liveness, no deletion, no cell.
    pub fn is_empty(&self) -> bool {
        self.0.liveness.is_empty()
            && self.0.deletion.is_live()
            && self.0.complex_deletions.is_none()
            && self.0.cells.is_empty()
    }

    /// Returns whether a reader sees the row at `now` (seconds): by its liveness or a live cell.
    pub fn is_live(&self, now: u32) -> bool {
        self.0.liveness.is_live(now) || self.has_live_cell(now)
    }

    /// Returns whether a reader of `table` sees the row at `now`: with strict liveness, only by its
    /// liveness.
    pub fn is_live_in(&self, table: &TableMetadata, now: u32) -> bool {
        if table.strict_liveness { self.0.liveness.is_live(now) } else { self.is_live(now) }
    }

    /// Returns whether any cell holds a value at `now`.
    pub fn has_live_cell(&self, now: u32) -> bool {
        if self.0.has_deletion_times {
            self.cells().any(|cell| cell.is_live(now))
        } else {
            !self.0.cells.is_empty()
        }
    }

    /// Returns whether anything in the row is deleted or can expire. If not, every cell is live at
    /// any time.
    pub fn has_deletions(&self) -> bool {
        self.0.has_deletion_times
            || self.0.liveness.is_expiring()
            || !self.0.deletion.is_live()
            || self.0.complex_deletions.is_some()
    }

    /// Returns the buffer of all values and paths, which can be shared instead of copied.
    pub fn data(&self) -> &Bytes {
        &self.0.data
    }

    /// Bytes of values and paths, without the buffer around them.
    pub fn data_size(&self) -> usize {
        self.0.clustering.data_size()
            + self.0.cells.iter().map(|m| m.value_length as usize + m.path_length as usize).sum::<usize>()
    }

    /// Returns the heap bytes of this row if it does not share its data: the structures, cells,
    /// clustering and buffer.
    pub fn heap_size(&self) -> usize {
        // Two reference counts of the Arc.
        16 + size_of::<Inner>()
            + self.0.clustering.heap_size()
            + if self.0.cells.spilled() { self.0.cells.capacity() * size_of::<CellMeta>() } else { 0 }
            + self.0.complex_deletions.as_ref().map_or(0, |deletions| {
                size_of::<ComplexDeletions>() + deletions.capacity() * size_of::<(ColumnId, DeletionTime)>()
            })
            + self.0.data.len()
    }

    /// Returns the same row with its values in a dedicated buffer, if the present one is larger.
    pub fn compacted(self) -> Self {
        let values: usize =
            self.0.cells.iter().map(|m| m.value_length as usize + m.path_length as usize).sum();
        if self.0.data.len() == values {
            return self;
        }
        let mut out = RowBuilder::with_capacity(self.clustering().clone(), self.cell_count(), values);
        out.liveness(self.liveness()).deletion(self.deletion());
        for (column, deletion) in self.complex_deletions() {
            out.complex_deletion(*column, *deletion);
        }
        for cell in self.cells() {
            out.cell(cell);
        }
        out.finish()
    }

    /// Prefetches the row into the processor's caches, all of it if it is small. Readers of many
    /// scattered rows call this some rows ahead: the memory accesses of several rows then overlap,
    /// where reading a row makes one access after the other.
    pub fn warm(&self) {
        let data = &self.0.data[..self.0.data.len().min(WARMED)];
        let data = data.iter().step_by(CACHE_LINE).fold(0, |sum, byte| sum ^ byte);
        let cells = self.0.cells.iter().take(WARMED / size_of::<CellMeta>());
        let cells = cells.fold(0, |sum, meta| sum ^ meta.value_length);
        // The compiler would remove loads without a use of their results.
        std::hint::black_box((data, cells));
    }

    /// Returns whether both are the same row in memory.
    #[cfg(test)]
    pub(crate) fn shares(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    #[inline]
    fn resolve(&self, meta: &CellMeta) -> Cell<'_> {
        let data = &self.0.data;
        let slice = |start: u32, length: u32| &data[start as usize..start as usize + length as usize];
        Cell {
            column: meta.column,
            path: meta.has_path.then(|| slice(meta.path_start, meta.path_length)),
            value: slice(meta.value_start, meta.value_length),
            timestamp: meta.timestamp,
            ttl: meta.ttl,
            local_deletion_time: meta.local_deletion_time,
        }
    }
}

/// Rows are equal if their content is, regardless of the buffers.
impl PartialEq for Row {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
            || (self.0.clustering == other.0.clustering
                && self.0.liveness == other.0.liveness
                && self.0.deletion == other.0.deletion
                && self.0.complex_deletions == other.0.complex_deletions
                && self.cells().eq(other.cells()))
    }
}

impl Eq for Row {}

/// Builds a [`Row`]. Columns must be added in ascending order of id (or be sorted by
/// [`sort_columns`](RowBuilder::sort_columns)) and, within a complex column, paths in ascending
/// order.
#[derive(Debug)]
pub struct RowBuilder {
    clustering: Clustering,
    liveness: LivenessInfo,
    deletion: DeletionTime,
    complex_deletions: ComplexDeletions,
    cells: Cells,
    data: Data,
    has_deletion_times: bool,
}

#[derive(Debug)]
enum Data {
    Own(Vec<u8>),
    Shared(Bytes),
}

impl RowBuilder {
    /// Creates a row that copies its values into a dedicated buffer, with capacity for `cells`
    /// cells and `bytes` of values and paths.
    pub fn with_capacity(clustering: Clustering, cells: usize, bytes: usize) -> Self {
        Self::make(clustering, cells, Data::Own(Vec::with_capacity(bytes)))
    }

    /// [`with_capacity`](Self::with_capacity) for unknown sizes.
    pub fn new(clustering: Clustering) -> Self {
        Self::with_capacity(clustering, 0, 0)
    }

    /// Creates a row whose values stay in `data`: [`cell_in`](Self::cell_in) adds cells.
    pub fn over(clustering: Clustering, cells: usize, data: Bytes) -> Self {
        Self::make(clustering, cells, Data::Shared(data))
    }

    fn make(clustering: Clustering, cells: usize, data: Data) -> Self {
        Self {
            clustering,
            liveness: LivenessInfo::EMPTY,
            deletion: DeletionTime::LIVE,
            complex_deletions: Vec::new(),
            cells: Cells::with_capacity(cells),
            data,
            has_deletion_times: false,
        }
    }

    /// Sets the liveness of the primary key.
    pub fn liveness(&mut self, liveness: LivenessInfo) -> &mut Self {
        self.liveness = liveness;
        self
    }

    /// Sets the deletion of the row itself.
    pub fn deletion(&mut self, deletion: DeletionTime) -> &mut Self {
        self.deletion = deletion;
        self
    }

    /// Adds the deletion of a whole complex column; a live one is ignored.
    pub fn complex_deletion(&mut self, column: ColumnId, deletion: DeletionTime) -> &mut Self {
        if !deletion.is_live() {
            self.complex_deletions.push((column, deletion));
        }
        self
    }

    /// Adds a cell, copying its path and value.
    ///
    /// # Panics
    /// If the builder was created [`over`](Self::over) shared data, or if the row grows beyond 4
    /// GiB.
    pub fn cell(&mut self, cell: Cell<'_>) -> &mut Self {
        let Data::Own(data) = &mut self.data else {
            panic!("a row over shared data takes ranges, not bytes")
        };
        let path_start = data.len();
        data.extend_from_slice(cell.path.unwrap_or_default());
        let value_start = data.len();
        data.extend_from_slice(cell.value);
        let value_end = data.len();
        assert!(value_end <= u32::MAX as usize, "a row of more than 4 GiB");
        self.push(CellMeta {
            timestamp: cell.timestamp,
            ttl: cell.ttl,
            local_deletion_time: cell.local_deletion_time,
            path_start: path_start as u32,
            path_length: (value_start - path_start) as u32,
            value_start: value_start as u32,
            value_length: (value_end - value_start) as u32,
            column: cell.column,
            has_path: cell.path.is_some(),
        })
    }

    /// Adds a cell without path that neither expires nor is deleted.
    pub fn live_cell(&mut self, column: ColumnId, value: &[u8], timestamp: i64) -> &mut Self {
        self.cell(Cell {
            column,
            path: None,
            value,
            timestamp,
            ttl: NO_TTL,
            local_deletion_time: NO_DELETION_TIME,
        })
    }

    /// Adds a cell whose path and value are slices of the data of [`over`](Self::over). Ignores
    /// `cell.path` and `cell.value`.
    ///
    /// # Panics
    /// If the builder owns its data, or a range is not within the shared data.
    #[inline]
    pub fn cell_in(
        &mut self,
        cell: Cell<'_>,
        path: Option<std::ops::Range<usize>>,
        value: std::ops::Range<usize>,
    ) -> &mut Self {
        let Data::Shared(data) = &self.data else {
            panic!("a row with a dedicated buffer takes bytes, not ranges")
        };
        assert!(value.start <= value.end && value.end <= data.len() && data.len() <= u32::MAX as usize);
        let has_path = path.is_some();
        let path = path.unwrap_or_default();
        assert!(path.start <= path.end && path.end <= data.len());
        self.push(CellMeta {
            timestamp: cell.timestamp,
            ttl: cell.ttl,
            local_deletion_time: cell.local_deletion_time,
            path_start: path.start as u32,
            path_length: path.len() as u32,
            value_start: value.start as u32,
            value_length: value.len() as u32,
            column: cell.column,
            has_path,
        })
    }

    #[inline]
    fn push(&mut self, meta: CellMeta) -> &mut Self {
        self.has_deletion_times |= meta.local_deletion_time != NO_DELETION_TIME;
        self.cells.push(meta);
        self
    }

    /// Returns whether nothing was added.
    pub fn is_empty(&self) -> bool {
        self.liveness.is_empty()
            && self.deletion.is_live()
            && self.complex_deletions.is_empty()
            && self.cells.is_empty()
    }

    /// Sorts the cells of a row with simple columns only, or columns as wholes, by column id. For
    /// readers whose source lists columns in another order; the elements of a complex column keep
    /// their order.
    pub fn sort_columns(&mut self) -> &mut Self {
        self.cells.sort_by_key(|meta| meta.column);
        self.complex_deletions.sort_by_key(|(column, _)| *column);
        self
    }

    /// Returns the row.
    pub fn finish(self) -> Row {
        debug_assert!(
            self.complex_deletions.is_sorted_by(|a, b| a.0 < b.0),
            "complex deletions out of order"
        );
        debug_assert!(
            self.cells.is_sorted_by(
                |a, b| a.column < b.column || (a.column == b.column && a.has_path && b.has_path)
            ),
            "cells out of order"
        );
        let data = match self.data {
            Data::Own(data) => Bytes::from(data),
            Data::Shared(data) => data,
        };
        Row(Arc::new(Inner {
            clustering: self.clustering,
            liveness: self.liveness,
            deletion: self.deletion,
            complex_deletions: (!self.complex_deletions.is_empty()).then(|| Box::new(self.complex_deletions)),
            cells: self.cells,
            data,
            has_deletion_times: self.has_deletion_times,
        }))
    }
}
