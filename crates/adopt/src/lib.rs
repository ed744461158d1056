//! The way in from Cassandra's files.
//!
//! [`Plan::of`] reads directories of one or several nodes of a cluster: their schema, and the
//! SSTables of its tables. [`adopt`] makes a data directory with them, and [`open_read_only`]
//! opens them in place without writing. Cassandra's directories are never modified.
//!
//! The modules are layers; imports only go down (`ARCHITECTURE.md`).

mod adoption;
mod commitlog;
mod error;
mod estimate;
mod fill;
mod foreign;
mod interrupted;
mod layout;
mod nodes;
mod options;
mod plan;
mod processes;
mod read_only;
mod report;
mod sizes;
mod versions;

#[doc(hidden)]
pub use commitlog::read_segment;

pub use adoption::{Adopted, adopt};
pub use error::{AdoptError, Result};
pub use estimate::estimate_text;
pub use fill::Step;
pub use foreign::refuse_foreign;
pub use layout::{CassandraDirectory, Recognised, recognise};
pub use nodes::NodeSummary;
pub use options::AdoptOptions;
pub use plan::{Plan, PlanRequest, Reason, Refusal, TablePlan};
pub use processes::{RunningCassandra, running_cassandra};
pub use read_only::{ReadOnly, open_read_only};
pub use report::plan_text;
pub use sizes::size_text;
