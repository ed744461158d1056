//! SELECT: planning, and evaluation of its selectors.
//!
//! ```text
//! ast --selectable--> columns found, functions chosen --builder--> expressions --outputs--> values
//!     --restrictions--> rows      --order, limits, group_by--> order, number, groups
//! ```

pub(crate) mod builder;
pub(crate) mod cell_times;
pub(crate) mod expression;
pub(crate) mod filter;
pub(crate) mod group_by;
pub(crate) mod limits;
pub(crate) mod masked;
pub(crate) mod order;
pub(crate) mod outputs;
pub(crate) mod paging;
pub(crate) mod plan;
pub(crate) mod row;
pub(crate) mod selectable;

pub(crate) use filter::BoundFilter;
pub(crate) use plan::SelectPlan;
pub(crate) use row::{CurrentPartition, CurrentRow};
