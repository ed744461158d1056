//! INSERT, UPDATE, DELETE and BATCH: planning.
//!
//! ```text
//! ast --plan--> RowsPlan: restrictions (partitions and rows), operations (changes of columns),
//!               attributes (write timestamp, TTL), conditions
//! ```

pub(crate) mod attributes;
pub(crate) mod conditions;
pub(crate) mod json;
pub(crate) mod operation;
pub(crate) mod plan;
pub(crate) mod rows_plan;

pub(crate) use plan::{BatchPlan, ModificationPlan};
