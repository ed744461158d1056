//! Experiments described by files: engines, settings, workloads and repeats, and their results.
//!
//! [`file`] parses a file, which `check` validates. [`plan`] derives its parts: one engine in one
//! configuration, once, which [`outline`] describes in advance. [`perform`] runs a part, here or on
//! [`agents`], [`store`] stores its results atomically, and [`analysis`] compares the parts.

pub mod agents;
pub mod analysis;
pub mod builtin;
mod check;
pub mod engines;
pub mod file;
pub mod outline;
pub mod perform;
pub mod plan;
pub mod search;
pub mod store;

pub use analysis::Analysis;
pub use file::{ExperimentFile, FileError};
pub use plan::{Part, Plan};
pub use store::{PartResult, PhaseResult, PhaseStatistics, RunDirectory, RunInfo};
