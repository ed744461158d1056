//! ORDER BY.

use cassette_cql::ast::{self, Direction};
use cassette_rows::{ColumnKind, TableMetadata};

use crate::error::{Result, bail_invalid};
use crate::restrictions::{Restrictions, existing};

/// Whether the order that is asked for is the reverse of the one rows are stored in.
///
/// # Errors
/// Invalid, with Cassandra's texts, for orders that are neither.
pub(super) fn is_reversed(
    select: &ast::Select,
    table: &TableMetadata,
    restrictions: &Restrictions,
) -> Result<bool> {
    if select.order_by.is_empty() {
        return Ok(false);
    }
    if select.order_by.iter().any(|ordering| ordering.ann_of.is_some()) {
        existing(table, &select.order_by[0].column)?;
        bail_invalid!("ANN ordering by vector requires the column to be indexed");
    }
    if !restrictions.partition.names_keys() {
        bail_invalid!("ORDER BY is only supported when the partition key is restricted by an EQ or an IN.");
    }
    let mut reversed = None;
    let mut position = 0;
    for ordering in &select.order_by {
        let column = existing(table, &ordering.column)?;
        if column.kind != ColumnKind::Clustering {
            bail_invalid!(
                "Order by is currently only supported on the clustered columns of the PRIMARY KEY, got {}",
                column.name
            );
        }
        while position != column.position {
            if !restrictions.clustering.is_equal(position) || position > column.position {
                bail_invalid!(
                    "Order by currently only supports the ordering of columns following their declared order in the PRIMARY KEY"
                );
            }
            position += 1;
        }
        position += 1;
        let is_reversed = (ordering.direction == Direction::Desc) != column.reversed;
        if *reversed.get_or_insert(is_reversed) != is_reversed {
            bail_invalid!("Unsupported order by relation");
        }
    }
    Ok(reversed.unwrap_or(false))
}
