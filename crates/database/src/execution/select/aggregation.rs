//! Aggregation of rows.

use cassette_cql::values::aggregates::Accumulator;
use cassette_rows::ColumnId;

use super::skim::is_probed;
use crate::basics::error::Result;
use crate::basics::response::RowSink;
use crate::planning::context::BindContext;
use crate::planning::select::CurrentRow;
use crate::planning::select::expression::Input;
use crate::planning::select::outputs::Outputs;
use crate::planning::select::row::KeptRow;
use crate::planning::terms::Bound;

/// The state of the current group.
pub(crate) struct Aggregation<'a, 'e> {
    outputs: &'a Outputs,
    terms: &'a [Bound<'e>],
    cx: &'a BindContext<'e>,
    accumulators: Vec<Accumulator>,
    is_open: bool,
    /// Selectors outside of aggregates have the values of the first row.
    first: Option<KeptRow>,
}

/// The columns whose values are aggregated, each once.
pub(crate) struct AggregatedColumns {
    pub ids: Vec<ColumnId>,
    /// The position in `ids` for each aggregate; `None` if it has no arguments.
    places: Vec<Option<usize>>,
}

impl AggregatedColumns {
    /// Returns the columns of a plan; `None` if the values of the aggregates are not those of
    /// columns that a reader can [skim](super::skim).
    pub fn new(outputs: &Outputs) -> Option<Self> {
        let (mut ids, mut places) = (Vec::new(), Vec::new());
        for column in outputs.aggregated_columns()? {
            let Some(column) = column else {
                places.push(None);
                continue;
            };
            if !is_probed(column) {
                return None;
            }
            places.push(Some(ids.iter().position(|id| *id == column.id).unwrap_or(ids.len())));
            if places.last() == Some(&Some(ids.len())) {
                ids.push(column.id);
            }
        }
        Some(Self { ids, places })
    }
}

/// A complete group.
pub(crate) struct Group {
    first: Option<KeptRow>,
    aggregates: Vec<Option<Vec<u8>>>,
}

impl<'a, 'e> Aggregation<'a, 'e> {
    pub fn new(outputs: &'a Outputs, terms: &'a [Bound<'e>], cx: &'a BindContext<'e>) -> Self {
        let accumulators = outputs.aggregates.iter().map(|a| a.function.accumulator()).collect();
        Self { outputs, terms, cx, accumulators, is_open: false, first: None }
    }

    /// Whether the group has rows.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Adds a row. `keep` retains it if it is the first, because more than its aggregates is
    /// needed.
    pub fn add(&mut self, row: CurrentRow<'_>, keep: bool) -> Result<()> {
        let input = Input { row: Some(row), terms: self.terms, aggregates: &[], cx: self.cx };
        for (aggregate, accumulator) in self.outputs.aggregates.iter().zip(&mut self.accumulators) {
            match &aggregate.arguments[..] {
                [] => accumulator.add(&[], self.cx)?,
                [only] => accumulator.add(&[only.evaluate(input)?.as_deref()], self.cx)?,
                arguments => {
                    let values: Vec<_> =
                        arguments.iter().map(|argument| argument.evaluate(input)).collect::<Result<_>>()?;
                    let values: Vec<_> = values.iter().map(Option::as_deref).collect();
                    accumulator.add(&values, self.cx)?;
                }
            }
        }
        if !self.is_open && (keep || !self.outputs.are_aggregates_only()) {
            self.first = Some(row.keep());
        }
        self.is_open = true;
        Ok(())
    }

    /// Adds a row of which only the values of aggregated columns were read. The group must be open
    /// unless [only aggregates](Outputs::are_aggregates_only) are selected.
    pub fn add_values(&mut self, values: &[Option<&[u8]>], columns: &AggregatedColumns) -> Result<()> {
        for (place, accumulator) in columns.places.iter().zip(&mut self.accumulators) {
            match place {
                Some(place) => accumulator.add(&[values.get(*place).copied().flatten()], self.cx)?,
                None => accumulator.add(&[], self.cx)?,
            }
        }
        self.is_open = true;
        Ok(())
    }

    /// Adds rows that were counted without being read. All aggregates must count rows.
    pub fn add_rows(&mut self, rows: u64) {
        self.accumulators.iter_mut().for_each(|accumulator| accumulator.add_rows(rows));
        self.is_open |= rows > 0;
    }

    /// Ends the group, and starts the next.
    pub fn finish(&mut self) -> Result<Group> {
        let mut aggregates = Vec::with_capacity(self.accumulators.len());
        for (aggregate, accumulator) in self.outputs.aggregates.iter().zip(&mut self.accumulators) {
            let full = std::mem::replace(accumulator, aggregate.function.accumulator());
            aggregates.push(full.finish(self.cx)?);
        }
        self.is_open = false;
        Ok(Group { first: self.first.take(), aggregates })
    }

    /// Pushes the row of a group.
    pub fn push(&self, group: &Group, sink: &mut dyn RowSink) -> Result<()> {
        let input = Input { row: group.row(), terms: self.terms, aggregates: &group.aggregates, cx: self.cx };
        self.outputs.push(input, sink)
    }
}

impl Group {
    /// Returns its first row.
    pub fn row(&self) -> Option<CurrentRow<'_>> {
        self.first.as_ref().map(KeptRow::get)
    }
}
