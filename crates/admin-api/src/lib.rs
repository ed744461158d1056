//! The admin endpoint's reports and operations, which server and clients exchange as JSON.

mod cidr;
mod compaction;
mod cut_over;
mod distribution;
mod faults;
mod history;
mod metric;
mod node;
mod operation;
mod query_logs;
mod records;
mod refusal;
mod statements;
mod table;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

pub use cidr::*;
pub use compaction::*;
pub use cut_over::{CutOverAnswer, CutOverRequest, STALL_MAX};
pub use distribution::{BUCKET_LIMITS, BUCKETS, DistributionReport};
pub use faults::{FaultParameter, FaultReport, FaultRule};
pub use history::{HistoryReport, LatencyHistory, RecentLatency, TableRates};
pub use metric::{Metric, MetricKind, MetricValue};
pub use node::*;
pub use operation::*;
pub use query_logs::*;
pub use records::*;
pub use refusal::{RefusalKind, Refused};
pub use statements::{LogLine, QueryAnswer, QueryColumn, QueryRequest, RunningStatementReport};
pub use table::*;

/// The default address of the endpoint: Cassandra's nodetool expects JMX at port 7199.
pub const ADDRESS_DEFAULT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7199);
