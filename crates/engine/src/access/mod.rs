//! Reads and writes of partitions.

mod backpressure;
mod read;
mod write;
pub(crate) mod write_admission;
