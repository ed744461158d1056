//! How many combinations IN lists may produce.
//!
//! A request of some kB can name millions of rows: the product of its lists. It is counted before it is built, column by
//! column. Cassandra has no limit unless the guardrail `in_select_cartesian_product_fail_threshold` is set, and builds
//! the product whatever its size; here there is a maximum that memory can hold for every thread at once.

use cassette_engine::may_wait;
use cassette_rows::interrupt;

use crate::basics::error::{DatabaseError, Result, bail_invalid};

/// The most combinations of several lists. Each takes some 300 bytes while it is built and read, so that eight threads
/// take less than 250 MB. A single list may be longer: its size is that of the request.
pub(crate) const COMBINATIONS_MAX: usize = 100_000;

/// What the combinations are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Product {
    /// Partitions, each of which is read by itself.
    PartitionKeys,
    /// Rows or ranges within a partition.
    ClusteringKeys,
    /// Rows of several partitions.
    Rows,
}

impl Product {
    fn name(self) -> &'static str {
        match self {
            Self::PartitionKeys => "partition key",
            Self::ClusteringKeys => "clustering key",
            Self::Rows => "primary key",
        }
    }

    /// The most on a thread that serves other clients, too: it should be free again after some 100 us.
    fn at_once_max(self) -> usize {
        match self {
            Self::PartitionKeys => 16,
            Self::ClusteringKeys | Self::Rows => 256,
        }
    }
}

/// Counts the product of `prefixes` combinations with the `values` of the next column.
///
/// # Errors
/// Invalid, above the maximum; WouldBlock, for a large product on a thread that may not wait; Interrupted.
pub(crate) fn count(prefixes: usize, values: usize, product: Product) -> Result<usize> {
    let combinations = prefixes.saturating_mul(values);
    if combinations > COMBINATIONS_MAX && prefixes > 1 && values > 1 {
        bail_invalid!(
            "Aborting query because the cartesian product of the IN restrictions on {} produces {combinations} values, this exceeds the maximum of {COMBINATIONS_MAX}.",
            product.name()
        );
    }
    if combinations > product.at_once_max() && !may_wait() {
        return Err(DatabaseError::WouldBlock);
    }
    interrupt::charge(u32::try_from(combinations).unwrap_or(u32::MAX))?;
    Ok(combinations)
}
