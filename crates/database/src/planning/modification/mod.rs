//! INSERT, UPDATE, DELETE and BATCH: planning.
//!
//! ```text
//! ast --plan--> RowsPlan: restrictions (which partitions and rows), operations (what becomes of which column),
//!               attributes (write time, TTL), conditions
//! ```

pub(crate) mod attributes;
pub(crate) mod conditions;
pub(crate) mod json;
pub(crate) mod operation;
pub(crate) mod plan;
pub(crate) mod rows_plan;

pub(crate) use plan::{BatchPlan, ModificationPlan};
