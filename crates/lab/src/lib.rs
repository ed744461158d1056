//! The laboratory: workloads, engines under test, statistics, report.
