//! The audit log and the full query log: their records, their files, and the queue in front of
//! them.
//!
//! A [`Log`] has a bounded queue and a thread, which writes records into checksummed files of a
//! directory, starts new files by time and size, and removes the oldest beyond a total size.
//! [`files`] and [`Records`] read them. A record is an [`AuditEntry`] or a [`LoggedQuery`]; the
//! files do not interpret it.

mod audit;
mod codec;
mod entry_type;
mod file;
mod log;
mod options;
mod query;
mod reader;
mod writer;

pub use audit::AuditEntry;
pub use codec::Malformed;
pub use entry_type::{AuditCategory, AuditEntryType};
pub use file::{FILE_HEADER_LENGTH, Kind, RECORD_HEADER_LENGTH, RECORD_LENGTH_MAX};
pub use log::{Counts, Full, Log, Output};
pub use options::{Options, RollCycle};
pub use query::{BatchKind, LoggedQuery, LoggedStatement, LoggedValue, LoggedValues};
pub use reader::{Damage, End, LogFile, Records, clear, files};
