//! Layer 3: from syntax trees to plans, and from plans and values to rows and conditions. Pure: no
//! storage, no clock.
//!
//! ```text
//! ast --plan--> SelectPlan | ModificationPlan: restrictions (partitions and rows), expressions,
//!                                              operations, conditions
//! plan + values (BindContext) --bind--> keys, slices, filters, cells
//! ```

pub(crate) mod context;
pub(crate) mod functions;
pub(crate) mod modification;
pub(crate) mod restrictions;
pub(crate) mod select;
pub(crate) mod terms;
pub(crate) mod views;
