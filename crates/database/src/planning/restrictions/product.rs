//! The limit of combinations of IN lists.
//!
//! A request of a few kB can name millions of rows: the product of its lists. The product is
//! counted column by column before it is built. Cassandra has no limit unless the guardrail
//! `in_select_cartesian_product_fail_threshold` is set; here the maximum fits into memory for all
//! threads at once.

use cassette_engine::may_wait;
use cassette_rows::interrupt;

use crate::basics::error::{DatabaseError, Result, bail_invalid};

/// The maximum number of combinations of several lists. Each occupies about 300 bytes while it is
/// built and read, so eight threads use less than 250 MB. A single list may be longer: the size of
/// the request limits it.
pub(crate) const COMBINATIONS_MAX: usize = 100_000;

/// The elements of a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Product {
    /// Partitions, which are read separately.
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

    /// Returns the maximum on a thread that also serves other clients: it should take about 100 us.
    fn at_once_max(self) -> usize {
        match self {
            Self::PartitionKeys => 16,
            Self::ClusteringKeys | Self::Rows => 256,
        }
    }
}

/// Returns the product of `prefixes` combinations with the `values` of the next column.
///
/// # Errors
/// Invalid, above the maximum; WouldBlock, for a large product on a thread that must not wait;
/// Interrupted.
pub(crate) fn count(prefixes: usize, values: usize, product: Product) -> Result<usize> {
    let combinations = prefixes.saturating_mul(values);
    if combinations > COMBINATIONS_MAX && prefixes > 1 && values > 1 {
        bail_invalid!(
            "Aborting query because the cartesian product of the IN restrictions on {} produces \
             {combinations} values, this exceeds the maximum of {COMBINATIONS_MAX}.",
            product.name()
        );
    }
    if combinations > product.at_once_max() && !may_wait() {
        return Err(DatabaseError::WouldBlock);
    }
    interrupt::charge(u32::try_from(combinations).unwrap_or(u32::MAX))?;
    Ok(combinations)
}
