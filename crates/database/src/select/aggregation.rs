//! Many rows becoming one.

use cassette_cql::values::aggregates::Accumulator;

use super::expression::Input;
use super::outputs::Outputs;
use super::row::{CurrentRow, KeptRow};
use crate::error::Result;
use crate::execution::Execution;
use crate::response::RowSink;
use crate::terms::Bound;

/// The rows of a group so far.
pub(super) struct Aggregation<'a, 'e> {
    outputs: &'a Outputs,
    terms: &'a [Bound<'e>],
    execution: &'a Execution<'e>,
    accumulators: Vec<Accumulator>,
    is_open: bool,
    /// What is no aggregate shows the first row's values.
    first: Option<KeptRow>,
}

/// A group that is complete.
pub(super) struct Group {
    first: Option<KeptRow>,
    aggregates: Vec<Option<Vec<u8>>>,
}

impl<'a, 'e> Aggregation<'a, 'e> {
    pub fn new(outputs: &'a Outputs, terms: &'a [Bound<'e>], execution: &'a Execution<'e>) -> Self {
        let accumulators = outputs.aggregates.iter().map(|a| a.function.accumulator()).collect();
        Self { outputs, terms, execution, accumulators, is_open: false, first: None }
    }

    /// Whether the group has rows.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Takes a row; `keep` it if it is the first and is needed for more than its values.
    pub fn add(&mut self, row: CurrentRow<'_>, keep: bool) -> Result<()> {
        let input = Input { row: Some(row), terms: self.terms, aggregates: &[], execution: self.execution };
        for (aggregate, accumulator) in self.outputs.aggregates.iter().zip(&mut self.accumulators) {
            match &aggregate.argument {
                Some(argument) => accumulator.add(argument.evaluate(input)?.as_deref())?,
                None => accumulator.add(None)?,
            }
        }
        if !self.is_open && (keep || !self.outputs.are_aggregates_only()) {
            self.first = Some(row.keep());
        }
        self.is_open = true;
        Ok(())
    }

    /// Ends the group; the next begins.
    pub fn finish(&mut self) -> Result<Group> {
        let mut aggregates = Vec::with_capacity(self.accumulators.len());
        for (aggregate, accumulator) in self.outputs.aggregates.iter().zip(&mut self.accumulators) {
            let full = std::mem::replace(accumulator, aggregate.function.accumulator());
            aggregates.push(full.finish()?);
        }
        self.is_open = false;
        Ok(Group { first: self.first.take(), aggregates })
    }

    /// Pushes the row of a group.
    pub fn push(&self, group: &Group, sink: &mut dyn RowSink) -> Result<()> {
        let input = Input {
            row: group.row(),
            terms: self.terms,
            aggregates: &group.aggregates,
            execution: self.execution,
        };
        self.outputs.push(input, sink)
    }
}

impl Group {
    /// Its first row.
    pub fn row(&self) -> Option<CurrentRow<'_>> {
        self.first.as_ref().map(KeptRow::get)
    }
}
