//! Records of executed operations: latencies, failures, and live counts of them.

pub mod live;
pub mod recorder;
pub mod transfer;

pub use live::{LiveCounts, LiveProgress, LiveSender, LiveView};
pub use recorder::{FailureCount, Histogram, Latencies, Recorder, Timing};
pub use transfer::RecordParts;
