//! Layer 1: errors, requests and their limits, responses, columns, metrics.

pub(crate) mod columns;
pub(crate) mod error;
pub mod metrics;
pub(crate) mod paging_key;
pub(crate) mod passwords;
pub(crate) mod request;
pub(crate) mod response;
pub(crate) mod server_metrics;
pub(crate) mod slow_queries;
pub(crate) mod time_uuids;
pub(crate) mod timeouts;
