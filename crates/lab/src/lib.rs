//! The laboratory: workloads, engines under test, statistics, report.

pub mod cli;
pub mod cql;
pub mod engine;
mod error;
pub mod experiment;
pub mod report;
pub mod run;
pub mod ycsb;
mod ycsb_command;

pub use error::LabError;
