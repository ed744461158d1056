//! Cell loaders: split a multi-get of cells into batches, and these into statements. Pure
//! decisions; [`CqlStore`](super::CqlStore) executes them.
//!
//! A cell is a pair of row and column, and CQL has no statement for several pairs: `key IN ? AND
//! column1 IN ?` reads every column of the list in every row of the list. A batch, as defined by
//! AtlasDB, therefore becomes one statement if that reads little more than requested, and otherwise
//! one statement per row.

use std::collections::{BTreeMap, HashMap};

#[cfg(test)]
mod tests;

/// Maximum number of columns that one statement reads in a row.
const COLUMNS_IN_MAX: usize = 3_000;
/// Maximum number of cells that a statement reads per requested cell.
const OVERREAD_MAX: usize = 2;

/// How cells are grouped into batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CellBatching {
    /// By row: a statement goes to the replicas of the row. Not possible for AtlasDB without CQL.
    ByRow,
    /// AtlasDB's first loader: by column, with one request per column.
    ByColumn,
    /// AtlasDB's second loader: columns with many cells separately, the cells of the others mixed.
    Selective,
    /// As few batches as possible. One node gathers the data of all others.
    Full,
}

/// How a store loads several cells. The limits have AtlasDB's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CellLoader {
    /// How cells are grouped into batches.
    pub batching: CellBatching,
    /// `crossColumnLoadBatchLimit`, for [`CellBatching::Selective`]: a column with more cells gets
    /// separate batches, and a batch of mixed columns has at most this many cells. 1 mixes none.
    pub cross_column_load_batch_limit: usize,
    /// `singleQueryLoadBatchLimit`: maximum number of cells in a batch. Not below the other limit.
    pub single_query_load_batch_limit: usize,
}

impl Default for CellLoader {
    fn default() -> Self {
        Self::new(CellBatching::ByRow)
    }
}

/// One statement: every column in every row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Request<'a> {
    /// Distinct rows.
    pub rows: Vec<&'a [u8]>,
    /// Distinct columns.
    pub columns: Vec<&'a [u8]>,
    /// Cells that it answers, by their positions in the request.
    pub cells: Vec<usize>,
}

/// Row and column.
type Names<'a> = (&'a [u8], &'a [u8]);

impl CellLoader {
    /// Creates a loader with AtlasDB's limits.
    pub const fn new(batching: CellBatching) -> Self {
        Self { batching, cross_column_load_batch_limit: 200, single_query_load_batch_limit: 50_000 }
    }

    /// Returns the statements that read all of `cells`.
    pub(super) fn requests<'a>(&self, cells: &[Names<'a>]) -> Vec<Request<'a>> {
        let batches = self.batches(cells);
        let mut requests = Vec::with_capacity(batches.len());
        for batch in batches {
            let whole = request(cells, batch);
            let read = whole.rows.len().saturating_mul(whole.columns.len());
            if whole.rows.len() == 1
                || (read <= whole.cells.len().saturating_mul(OVERREAD_MAX)
                    && whole.columns.len() <= COLUMNS_IN_MAX)
            {
                requests.push(whole);
                continue;
            }
            for of_row in by_row(cells, whole.cells, COLUMNS_IN_MAX) {
                requests.push(request(cells, of_row));
            }
        }
        requests
    }

    /// Returns the cells of each batch by position.
    fn batches(&self, cells: &[Names<'_>]) -> Vec<Vec<usize>> {
        let all = 0..cells.len();
        let single = self.single_query_load_batch_limit.max(1);
        match self.batching {
            CellBatching::ByRow => by_row(cells, all, single.min(COLUMNS_IN_MAX)),
            CellBatching::ByColumn => {
                by_column(cells).into_values().flat_map(|of_column| slices(&of_column, single)).collect()
            }
            CellBatching::Full => slices(&all.collect::<Vec<_>>(), single),
            CellBatching::Selective => {
                let cross = self.cross_column_load_batch_limit.clamp(1, single);
                let (mut batches, mut mixed) = (Vec::new(), Vec::new());
                for of_column in by_column(cells).into_values() {
                    if of_column.len() > cross {
                        batches.extend(slices(&of_column, single))
                    } else {
                        mixed.extend(of_column)
                    }
                }
                batches.extend(slices(&mixed, cross));
                batches
            }
        }
    }
}

fn slices(places: &[usize], length: usize) -> Vec<Vec<usize>> {
    places.chunks(length).map(<[usize]>::to_vec).collect()
}

/// Groups cells by column in byte order, keeping the requested order within a column.
fn by_column<'a>(cells: &[Names<'a>]) -> BTreeMap<&'a [u8], Vec<usize>> {
    let mut columns: BTreeMap<&[u8], Vec<usize>> = BTreeMap::new();
    for (place, (_, column)) in cells.iter().enumerate() {
        columns.entry(column).or_default().push(place);
    }
    columns
}

/// Groups cells by row in the order of first occurrence, at most `length` per batch.
fn by_row(cells: &[Names<'_>], places: impl IntoIterator<Item = usize>, length: usize) -> Vec<Vec<usize>> {
    let mut latest: HashMap<&[u8], usize> = HashMap::new();
    let mut batches: Vec<Vec<usize>> = Vec::new();
    for place in places {
        let batch = latest.entry(cells[place].0).or_insert(usize::MAX);
        match batches.get_mut(*batch).filter(|batch| batch.len() < length) {
            Some(batch) => batch.push(place),
            None => {
                *batch = batches.len();
                batches.push(vec![place]);
            }
        }
    }
    batches
}

/// Builds one statement for the cells at these positions.
fn request<'a>(cells: &[Names<'a>], places: Vec<usize>) -> Request<'a> {
    let distinct = |name: fn(&Names<'a>) -> &'a [u8]| {
        let mut names: Vec<&[u8]> = places.iter().map(|place| name(&cells[*place])).collect();
        names.sort_unstable();
        names.dedup();
        names
    };
    Request { rows: distinct(|cell| cell.0), columns: distinct(|cell| cell.1), cells: places }
}
