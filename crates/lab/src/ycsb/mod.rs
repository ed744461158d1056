//! The core workloads of the Yahoo! Cloud Serving Benchmark, independent of any engine.
//!
//! [`properties`] reads YCSB's own property names; [`crate::workload`] turns them into a stream of
//! operations; the generators below choose the keys exactly as YCSB's Java classes do, so that
//! skew, key names and value bytes (and with them cache hit rates and compression ratios) compare
//! with published results.
//!
//! Source: `brianfrankcooper/YCSB`, `core/src/main/java/site/ycsb/`: `workloads/CoreWorkload.java`,
//! `generator/*.java`, `Utils.java`, `RandomByteIterator.java`; "Benchmarking Cloud Serving Systems
//! with YCSB", SoCC 2010.

pub mod counter;
pub mod generators;
pub mod hash;
pub mod properties;
pub mod values;
pub mod zipfian;

pub use properties::{CoreWorkload, Proportions, RequestDistribution, ScanLengthDistribution};
pub use values::FieldValues;
