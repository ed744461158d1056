//! What is selected of each row.

use std::sync::Arc;

use cassette_rows::{ColumnKind, ColumnMetadata};

use super::row::CurrentRow;
use crate::error::Result;
use crate::execution::Execution;
use crate::response::RowSink;

/// The columns of a result, one after the other.
#[derive(Debug)]
pub(super) struct Outputs(Vec<Output>);

/// One column of a result.
#[derive(Debug)]
pub(super) enum Output {
    /// A column of the table.
    Column(Arc<ColumnMetadata>),
    /// `count(*)`
    CountRows,
}

impl Outputs {
    pub fn new(outputs: Vec<Output>) -> Self {
        Self(outputs)
    }

    /// Whether many rows become one.
    pub fn is_aggregate(&self) -> bool {
        self.0.iter().any(|output| matches!(output, Output::CountRows))
    }

    /// Pushes the values of one row.
    pub fn push(&self, row: &CurrentRow, execution: &Execution<'_>, sink: &mut dyn RowSink) -> Result<()> {
        let now = execution.now_seconds;
        for output in &self.0 {
            if let Output::Column(column) = output {
                push_column(column, row, now, sink);
            }
        }
        sink.end_row();
        Ok(())
    }

    /// Where to put the rows that become one.
    pub fn aggregation(&self) -> Aggregation<'_> {
        Aggregation { outputs: self, count: 0, first: None }
    }
}

/// Straight from the row where the value lies in one piece.
fn push_column(column: &ColumnMetadata, row: &CurrentRow, now: u32, sink: &mut dyn RowSink) {
    if column.kind == ColumnKind::Regular && !column.data_type.is_multi_cell() {
        let cell = row.row.as_ref().and_then(|row| row.cell(column.id)).filter(|cell| cell.is_live(now));
        sink.value(cell.map(|cell| cell.value));
    } else {
        sink.value(row.value(column, now).as_deref());
    }
}

/// Rows becoming one.
pub(super) struct Aggregation<'o> {
    outputs: &'o Outputs,
    count: i64,
    /// Plain columns show the first row's values.
    first: Option<CurrentRow>,
}

impl Aggregation<'_> {
    pub fn add(&mut self, row: &CurrentRow, _execution: &Execution<'_>) -> Result<()> {
        self.count += 1;
        if self.first.is_none() {
            self.first = Some(row.clone());
        }
        Ok(())
    }

    pub fn push(self, execution: &Execution<'_>, sink: &mut dyn RowSink) -> Result<()> {
        for output in &self.outputs.0 {
            match (output, &self.first) {
                (Output::CountRows, _) => sink.value(Some(&self.count.to_be_bytes())),
                (Output::Column(column), Some(row)) => push_column(column, row, execution.now_seconds, sink),
                (Output::Column(_), None) => sink.value(None),
            }
        }
        sink.end_row();
        Ok(())
    }
}
