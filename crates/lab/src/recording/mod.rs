//! Records of executed operations: latencies, failures, and live counts of them.

pub mod live;
pub mod recorder;

pub use live::{LiveCounts, LiveView};
pub use recorder::{FailureCount, Histogram, Latencies, Recorder, Timing};
