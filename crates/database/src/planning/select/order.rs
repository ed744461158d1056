//! ORDER BY.

use std::cmp::Ordering;
use std::sync::Arc;

use cassette_cql::ast::{self, Direction};
use cassette_rows::{Clustering, ColumnKind, ColumnMetadata, TableMetadata};

use crate::basics::error::{Result, bail_invalid};
use crate::planning::restrictions::{Restrictions, existing};

/// The order of result rows.
#[derive(Debug, Default)]
pub(crate) struct Order {
    /// Whether the rows of a partition are in reverse clustering order.
    pub reversed: bool,
    /// The columns by which rows of several partitions are sorted; empty if rows are returned
    /// partition by partition.
    sorted_by: Vec<Arc<ColumnMetadata>>,
}

impl Order {
    /// Plans ORDER BY.
    ///
    /// # Errors
    /// Invalid, with Cassandra's texts, for orders other than the stored one and its reverse.
    pub fn new(select: &ast::Select, table: &TableMetadata, restrictions: &Restrictions) -> Result<Self> {
        if select.order_by.is_empty() || restrictions.ann.is_some() {
            return Ok(Self::default());
        }
        if !restrictions.searches.is_empty() {
            bail_invalid!("ORDER BY with 2ndary indexes is not supported, except for ANN queries.");
        }
        if !restrictions.partition.names_keys() {
            bail_invalid!(
                "ORDER BY is only supported when the partition key is restricted by an EQ or an IN."
            );
        }
        // If a column is named twice, its first position and its last direction count.
        let mut columns: Vec<Arc<ColumnMetadata>> = Vec::with_capacity(select.order_by.len());
        let mut directions: Vec<Direction> = Vec::with_capacity(select.order_by.len());
        for ordering in &select.order_by {
            let column = existing(table, &ordering.column)?;
            match columns.iter().position(|c| c.name == column.name) {
                Some(i) => directions[i] = ordering.direction,
                None => {
                    columns.push(column);
                    directions.push(ordering.direction);
                }
            }
        }
        let mut reversed = None;
        let mut position = 0;
        for (direction, column) in directions.into_iter().zip(&columns) {
            if column.kind != ColumnKind::Clustering {
                bail_invalid!(
                    "Order by is currently only supported on the clustered columns of the PRIMARY KEY, got {}",
                    column.name
                );
            }
            while position != column.position {
                if position > column.position || !restrictions.clustering.is_equal(position) {
                    bail_invalid!(
                        "Order by currently only supports the ordering of columns following their declared \
                         order in the PRIMARY KEY"
                    );
                }
                position += 1;
            }
            position += 1;
            let is_reversed = (direction == Direction::Desc) != column.reversed;
            if *reversed.get_or_insert(is_reversed) != is_reversed {
                bail_invalid!("Unsupported order by relation");
            }
        }
        let sorted_by = if restrictions.partition.has_in() { columns } else { Vec::new() };
        Ok(Self { reversed: reversed.unwrap_or(false), sorted_by })
    }

    /// Whether all rows are read and then sorted.
    pub fn sorts_rows(&self) -> bool {
        !self.sorted_by.is_empty()
    }

    /// Compares rows of different partitions. Static rows without clustering sort first.
    pub fn compare(&self, a: Option<&Clustering>, b: Option<&Clustering>) -> Ordering {
        for column in &self.sorted_by {
            let position = column.position;
            let order = match (a.and_then(|a| a.value(position)), b.and_then(|b| b.value(position))) {
                (Some(a), Some(b)) => column.data_type.compare(a, b),
                (a, b) => a.is_some().cmp(&b.is_some()),
            };
            let order = if column.reversed != self.reversed { order.reverse() } else { order };
            if order.is_ne() {
                return order;
            }
        }
        Ordering::Equal
    }
}
