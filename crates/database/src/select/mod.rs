//! SELECT: planning and execution.
//!
//! ```text
//! ast --plan--> SelectPlan: outputs (what of each row), restrictions (which rows), order, limits
//! plan + values + where a page goes on --reader--> rows one by one --> outputs, straight into the sink
//! ```

mod filter;
mod limits;
mod order;
mod outputs;
mod paging;
mod plan;
mod reader;
mod row;

use std::sync::Arc;

use cassette_rows::TableMetadata;

use crate::error::{Result, bail_invalid};
use crate::execution::Execution;
use crate::response::{Outcome, ResultMetadata, RowSink};
use crate::restrictions::Restrictions;
use limits::LimitTerms;
use outputs::Outputs;
use paging::PagingState;
use reader::{Flow, Reader};
use row::CurrentRow;

/// A planned SELECT.
#[derive(Debug)]
pub(crate) struct SelectPlan {
    table: Arc<TableMetadata>,
    restrictions: Restrictions,
    outputs: Outputs,
    metadata: Arc<ResultMetadata>,
    /// One row a partition, of key and static columns.
    distinct: bool,
    /// The clusterings of each partition come backwards.
    reversed: bool,
    /// Rows of several partitions are put in the order of their clusterings once all are read.
    sorts_rows: bool,
    limits: LimitTerms,
}

impl SelectPlan {
    /// The table it reads.
    pub fn table(&self) -> &Arc<TableMetadata> {
        &self.table
    }

    /// The columns of its rows.
    pub fn result_metadata(&self) -> &Arc<ResultMetadata> {
        &self.metadata
    }

    /// Reads a page.
    pub fn execute(&self, execution: &Execution<'_>, sink: &mut dyn RowSink) -> Result<Outcome> {
        execution.options.consistency.validate_for_read()?;
        let resume = match &execution.options.paging_state {
            Some(bytes) => Some(PagingState::decode(bytes, &self.table)?),
            None => None,
        };
        let page_size =
            execution.options.page_size.and_then(|size| u32::try_from(size).ok()).filter(|n| *n > 0);
        let mut limits = self.limits.bind(execution, resume.as_ref())?;
        if self.sorts_rows {
            if page_size.is_some() {
                bail_invalid!(
                    "Cannot page queries with both ORDER BY and a IN restriction on the partition key; you must either remove the ORDER BY or the IN and sort client side, or disable paging for this query"
                );
            }
            return self.execute_sorted(execution, limits, sink);
        }
        sink.begin(&self.metadata);
        let mut reader = Reader::new(self, execution, resume.as_ref())?;
        if self.outputs.is_aggregate() {
            let mut aggregation = self.outputs.aggregation();
            reader.for_each(&mut limits, &mut |row, _| {
                aggregation.add(row, execution)?;
                Ok(Flow::Continue)
            })?;
            aggregation.push(execution, sink)?;
            return Ok(Outcome::Rows { paging_state: None });
        }
        let mut left = page_size;
        let mut last: Option<PagingState> = None;
        let mut more = false;
        reader.for_each(&mut limits, &mut |row, limits| {
            if left == Some(0) {
                more = true;
                return Ok(Flow::Stop);
            }
            self.outputs.push(row, execution, sink)?;
            if let Some(left) = &mut left {
                *left -= 1;
                if *left == 0 {
                    last = Some(PagingState::after(row, limits));
                }
            }
            Ok(Flow::Continue)
        })?;
        let paging_state = last.filter(|_| more).map(|state| state.encode());
        Ok(Outcome::Rows { paging_state })
    }

    /// Reads all rows, then puts them in order.
    fn execute_sorted(
        &self,
        execution: &Execution<'_>,
        limits: limits::Limits,
        sink: &mut dyn RowSink,
    ) -> Result<Outcome> {
        let mut rows: Vec<CurrentRow> = Vec::new();
        let mut unlimited = limits.without_total();
        Reader::new(self, execution, None)?.for_each(&mut unlimited, &mut |row, _| {
            rows.push(row.clone());
            Ok(Flow::Continue)
        })?;
        let comparator = &self.table.comparator;
        rows.sort_by(|a, b| {
            let order = comparator.compare_rows(a.clustering(), b.clustering());
            if self.reversed { order.reverse() } else { order }
        });
        sink.begin(&self.metadata);
        for row in rows.iter().take(limits.total().map_or(usize::MAX, |limit| limit as usize)) {
            self.outputs.push(row, execution, sink)?;
        }
        Ok(Outcome::Rows { paging_state: None })
    }
}
