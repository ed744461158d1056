//! `cassette lab`: workloads, engines under test, experiments, statistics and reports.

pub mod agents;
pub mod benchmark;
pub mod builds;
pub mod cassandra;
pub mod cli;
pub mod cql;
pub mod engine;
mod error;

pub mod experiments;
mod files;
mod format;
pub mod reasons;
pub mod recording;
pub mod replay;
pub mod report;
pub mod results;
pub mod run;
pub mod served;
pub mod statistics;
pub mod tune;
pub mod workload;
pub mod ycsb;

pub use error::LabError;
