//! The selected values of each row, or of each group of rows.

use std::sync::Arc;

use cassette_cql::values::json::encode_row;
use cassette_cql::values::number::check_lengths;
use cassette_rows::{ColumnKind, ColumnMetadata, DataType};

use super::CurrentRow;
use super::builder::{Aggregate, Builder, Built, PlannedTerm};
use super::expression::{Expression, Input};
use crate::basics::error::{Result, bail_invalid};
use crate::basics::response::RowSink;
use crate::planning::context::BindContext;
use crate::planning::terms::Bound;

/// The columns of a result, in order.
#[derive(Debug)]
pub(crate) struct Outputs {
    expressions: Vec<Expression>,
    terms: Vec<PlannedTerm>,
    /// The aggregates in the expressions.
    pub aggregates: Vec<Aggregate>,
    /// `SELECT JSON`: names and types of the expressions, which are combined into one text.
    json: Option<Vec<(String, DataType)>>,
    /// All expressions are columns, whose values are pushed unchanged.
    is_plain: bool,
    /// Whether there are calls that may fail for constants alone.
    has_constant_calls: bool,
}

impl Outputs {
    /// Creates the outputs of expressions that `builder` built.
    pub fn new(built: Vec<Built>, builder: Builder<'_>, json: bool) -> Self {
        let json = json.then(|| built.iter().map(|b| (b.name.clone(), b.data_type.clone())).collect());
        let expressions: Vec<Expression> = built.into_iter().map(|built| built.expression).collect();
        let is_plain = json.is_none() && expressions.iter().all(|e| matches!(e, Expression::Column(_)));
        let (terms, aggregates) = (builder.terms, builder.aggregates);
        let mut outputs = Self { expressions, terms, aggregates, json, is_plain, has_constant_calls: false };
        outputs.has_constant_calls = !outputs.constant_calls().is_empty();
        outputs
    }

    fn constant_calls(&self) -> Vec<&Expression> {
        let arguments = self.aggregates.iter().flat_map(|aggregate| &aggregate.arguments);
        let mut calls = Vec::new();
        self.expressions.iter().chain(arguments).for_each(|each| each.constant_calls(&mut calls));
        calls
    }

    /// Evaluates calls as far as their arguments are constant: they must fail even without rows, as
    /// in Cassandra.
    pub fn check_constants(&self, terms: &[Bound<'_>], cx: &BindContext<'_>) -> Result<()> {
        if self.has_constant_calls {
            for call in self.constant_calls() {
                call.check_constants(Input { row: None, terms, aggregates: &[], cx })?;
            }
        }
        Ok(())
    }

    /// Whether a group of rows is combined into one row.
    pub fn has_aggregates(&self) -> bool {
        !self.aggregates.is_empty()
    }

    /// Whether only aggregates are selected, so that rows need not be kept.
    pub fn are_aggregates_only(&self) -> bool {
        self.expressions.iter().all(|expression| matches!(expression, Expression::Aggregate(_)))
    }

    /// Returns the column of which each aggregate receives the values; `None` for one that counts
    /// rows. Returns `None` if one receives anything else.
    pub fn aggregated_columns(&self) -> Option<Vec<Option<&Arc<ColumnMetadata>>>> {
        self.aggregates.iter().map(aggregated_column).collect()
    }

    /// Binds the terms for one execution.
    ///
    /// # Errors
    /// Invalid, with Cassandra's texts, for missing values.
    pub fn bind<'e>(&'e self, cx: &BindContext<'e>) -> Result<Vec<Bound<'e>>> {
        bind_terms(&self.terms, cx)
    }

    /// Pushes the values of a row, or of a group whose first row it is.
    pub fn push(&self, input: Input<'_, '_>, sink: &mut dyn RowSink) -> Result<()> {
        if let Some(names) = &self.json {
            let values = self.expressions.iter().map(|e| e.evaluate(input)).collect::<Result<Vec<_>>>()?;
            for ((_, data_type), value) in names.iter().zip(&values) {
                value.as_deref().map_or(Ok(()), |bytes| check_lengths(data_type, bytes))?;
            }
            let columns = names
                .iter()
                .zip(&values)
                .map(|((name, data_type), value)| (&**name, data_type, value.as_deref()));
            sink.value(Some(encode_row(columns).as_bytes()));
        } else if let (true, Some(row)) = (self.is_plain, &input.row) {
            for expression in &self.expressions {
                if let Expression::Column(column) = expression {
                    push_column(column, row, input.now(), sink);
                }
            }
        } else {
            for expression in &self.expressions {
                sink.value(expression.evaluate(input)?.as_deref());
            }
        }
        sink.end_row()
    }
}

fn aggregated_column(aggregate: &Aggregate) -> Option<Option<&Arc<ColumnMetadata>>> {
    match &aggregate.arguments[..] {
        [] if aggregate.function.counts_rows() => Some(None),
        [Expression::Column(column)] => Some(Some(column)),
        _ => None,
    }
}

/// Pushes the value without a copy if it is contiguous in the row.
#[inline]
fn push_column(column: &Arc<ColumnMetadata>, row: &CurrentRow<'_>, now: u32, sink: &mut dyn RowSink) {
    let lies_in_one_piece = !column.data_type.is_multi_cell() && column.data_type != DataType::Counter;
    if column.kind == ColumnKind::Regular && lies_in_one_piece {
        let cell = row.row.and_then(|row| row.cell(column.id)).filter(|cell| cell.is_live(now));
        sink.value(cell.map(|cell| cell.value));
    } else {
        sink.value(row.value(column, now).as_deref());
    }
}

/// Binds terms for one execution; required values must be present.
pub(crate) fn bind_terms<'e>(terms: &'e [PlannedTerm], cx: &BindContext<'e>) -> Result<Vec<Bound<'e>>> {
    let bind = |planned: &'e PlannedTerm| {
        let bound = planned.term.bind(cx)?;
        match (&planned.required, &bound) {
            (Some(required), Bound::Null) => bail_invalid!("Invalid null value for {}", required.what),
            (Some(required), Bound::Unset) if !required.may_be_unset => {
                bail_invalid!("Invalid unset value for {}", required.what)
            }
            _ => Ok(bound),
        }
    };
    terms.iter().map(bind).collect()
}
