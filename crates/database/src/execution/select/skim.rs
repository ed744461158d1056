//! Rows that are evaluated by a few of their values. Storage finds these without decoding the rows,
//! where nothing in them is deleted or expires; all other rows are visited.

use std::cell::Cell;

use cassette_rows::{ColumnId, ColumnKind, ColumnMetadata, DataType, PROBED_COLUMNS, RowProbe};
use smallvec::SmallVec;

use super::reader::Reader;
use crate::basics::error::{DatabaseError, Result};
use crate::planning::select::BoundFilter;

/// Receives the values of a row that satisfies the filters, in the order of the columns that were
/// requested. It is not called for rows that are only counted.
pub(crate) type Receive<'r> = dyn Fn(&[Option<&[u8]>]) -> Result<()> + 'r;

/// What is done with rows instead of visiting them.
#[derive(Default)]
pub(crate) struct Skim<'p> {
    columns: SmallVec<[ColumnId; PROBED_COLUMNS]>,
    /// Tests of a value: its position in `columns`, and the number of the filter.
    tests: SmallVec<[(usize, usize); 2]>,
    /// `None` if rows that satisfy the filters have to be visited.
    receive: Option<&'p Receive<'p>>,
    /// Increased by the rows that are skipped without columns; `None` if there are columns.
    counted: Option<&'p Cell<u64>>,
    /// Whether the first row of each partition has to be visited.
    pub visits_first_rows: bool,
    /// The number of times in a row that storage has skipped nothing.
    fruitless: Cell<u32>,
}

/// After as many fruitless attempts, most are omitted: rows are of another kind.
const FRUITLESS_MAX: u32 = 16;

/// Of these attempts, one is made.
const OMITTED: u32 = 16;

/// The number of rows that are counted without an interruption of the request.
const COUNTED_TOGETHER: u64 = 1024;

/// The number of rows that are tested or received without an interruption of the request.
const TESTED_TOGETHER: u64 = 128;

impl Skim<'_> {
    /// Whether an attempt is to be made.
    #[inline]
    pub fn is_due(&self) -> bool {
        let fruitless = self.fruitless.get();
        fruitless < FRUITLESS_MAX || {
            self.fruitless.set(fruitless.wrapping_add(1));
            fruitless.is_multiple_of(OMITTED)
        }
    }

    /// Returns the number of rows that are skimmed at a time.
    pub fn rows_together(&self) -> u64 {
        if self.columns.is_empty() { COUNTED_TOGETHER } else { TESTED_TOGETHER }
    }

    /// Returns the cost of rows that were skipped together, in steps of
    /// [`interrupt`](cassette_rows::interrupt). Counting takes half a step or less for each.
    pub fn steps(&self, rows: u64) -> u32 {
        let steps = if self.columns.is_empty() { rows / 2 } else { rows };
        u32::try_from(steps).unwrap_or(u32::MAX)
    }

    /// Records an attempt that skipped rows.
    pub fn record(&self, rows: u64) {
        self.fruitless.set(0);
        if let Some(counted) = self.counted.filter(|_| self.columns.is_empty()) {
            counted.set(counted.get() + rows);
        }
    }

    /// Records an attempt that skipped nothing.
    pub fn record_fruitless(&self) {
        if self.fruitless.get() < FRUITLESS_MAX {
            self.fruitless.set(self.fruitless.get() + 1);
        }
    }
}

/// The probe of one attempt.
pub(crate) struct Probe<'r, 'p> {
    skim: &'r Skim<'p>,
    filters: &'r [BoundFilter<'p>],
    /// Whether it has stopped at a row that has to be visited.
    pub found: bool,
    pub error: Option<DatabaseError>,
}

impl RowProbe for Probe<'_, '_> {
    fn columns(&self) -> &[ColumnId] {
        &self.skim.columns
    }

    #[inline]
    fn skips(&mut self, values: &[Option<&[u8]>]) -> bool {
        for (place, filter) in &self.skim.tests {
            let value = values.get(*place).copied().flatten();
            if !value.is_some_and(|value| self.filters[*filter].matches_value(value)) {
                return true;
            }
        }
        match self.skim.receive.map(|receive| receive(values)) {
            Some(Ok(())) => return true,
            Some(Err(error)) => self.error = Some(error),
            None => {}
        }
        self.found = true;
        false
    }
}

impl<'p> Reader<'p, '_> {
    /// Lets the reader pass the values of `columns` to `receive` instead of visiting rows, or count
    /// rows in `counted` if it needs no values, where storage can skip them. No-op if rows are
    /// searched or measured, or filtered by anything else than such values. The limits of the
    /// caller must be [`Limits::NONE`](crate::planning::select::limits::Limits::NONE).
    ///
    /// Each column occurs once and is [probed](is_probed).
    pub fn skim_values(&mut self, columns: &[ColumnId], receive: &'p Receive<'p>, counted: &'p Cell<u64>) {
        let columns = columns.iter().copied().collect();
        let skim = Skim { columns, receive: Some(receive), counted: Some(counted), ..Skim::default() };
        if let Some(skim) = self.with_tests(skim)
            && skim.tests.len() == self.filters.len()
        {
            self.skim = Some(skim);
        }
    }

    /// Lets the reader skip rows that do not satisfy the filters, where storage can do so without
    /// decoding them.
    pub fn skim_filtered(&mut self) {
        if !self.filters.is_empty()
            && let Some(skim) = self.with_tests(Skim::default())
            && !skim.tests.is_empty()
        {
            self.skim = Some(skim);
        }
    }

    /// Lets [skimming](Self::skim_values) begin after the first row of each partition, which is
    /// visited. With filters, which that row may not satisfy, all rows are.
    pub fn visit_first_rows(&mut self) {
        self.skim = self.skim.take().filter(|_| self.filters.is_empty());
        if let Some(skim) = &mut self.skim {
            skim.visits_first_rows = true;
        }
    }

    /// Adds the filters that values of columns decide; `None` if rows cannot be skipped.
    fn with_tests(&self, mut skim: Skim<'p>) -> Option<Skim<'p>> {
        if !self.plan.restrictions.searches.is_empty() || self.plan.distinct || self.read_limits.measures {
            return None;
        }
        for (number, filter) in self.filters.iter().enumerate() {
            let column = filter.column();
            if !is_probed(column) {
                continue;
            }
            let place = skim.columns.iter().position(|id| *id == column.id).unwrap_or_else(|| {
                skim.columns.push(column.id);
                skim.columns.len() - 1
            });
            skim.tests.push((place, number));
        }
        (skim.columns.len() <= PROBED_COLUMNS).then_some(skim)
    }

    /// Returns the probe of an attempt.
    #[inline]
    pub fn probe<'r>(&'r self, skim: &'r Skim<'p>) -> Probe<'r, 'p> {
        Probe { skim, filters: &self.filters, found: false, error: None }
    }
}

/// Whether the value of a column is that of one cell.
pub(crate) fn is_probed(column: &ColumnMetadata) -> bool {
    column.kind == ColumnKind::Regular
        && !column.data_type.is_multi_cell()
        && column.data_type != DataType::Counter
}
