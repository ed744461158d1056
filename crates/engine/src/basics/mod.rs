//! Options, errors, mutations, key ranges, tracing and parallel work.

pub(crate) mod error;
pub(crate) mod key_range;
pub(crate) mod mutation;
pub(crate) mod options;
pub(crate) mod parallel;
pub(crate) mod partition_observer;
pub mod trace;
