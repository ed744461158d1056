//! Experiments as files: which engines, which settings, which work, how often; then what came of it.
//!
//! [`file`] reads and checks a file, [`plan`] makes parts of it (one engine in one configuration, once), [`perform`] runs
//! a part, [`store`] keeps what it gave so that nothing is ever half-written, [`analysis`] says what the parts show
//! together.

pub mod analysis;
pub mod builtin;
pub mod command;
pub mod engines;
pub mod file;
pub mod perform;
pub mod plan;
pub mod search;
pub mod store;

pub use analysis::Analysis;
pub use file::{ExperimentFile, FileError};
pub use plan::{Part, Plan};
pub use store::{PartResult, PhaseFigures, PhaseResult, RunDirectory, RunInfo};
