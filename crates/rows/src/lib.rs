//! The stored data: types, keys, tokens, clusterings, rows, cells, tombstones, and the merge of
//! versions.
//!
//! The lowest layer beside `vfs`. It does no I/O and is independent of CQL's syntax.
//!
//! A table's data is a stream of partitions in order of (token, key); a partition is a deletion, a
//! static row and a stream of [`Unfiltered`]s in clustering order. Every source of rows (memtable,
//! SSTable, a merge of both) is a [`PartitionStream`].

pub mod clustering;
pub mod consistency;
pub mod deletion;
pub mod error;
pub mod interrupt;
pub mod key;
pub mod layout;
pub mod merge;
pub mod owner;
pub mod partition;
pub mod purge;
pub mod range_tombstones;
pub mod row;
pub mod schema;
pub mod selection;
pub mod stream;
pub mod token;
pub mod types;
pub mod vint;

pub use clustering::{Bound, Clustering, ClusteringComparator, Position, Side};
pub use consistency::Consistency;
pub use deletion::{DeletionTime, LivenessInfo, NO_DELETION_TIME, NO_TIMESTAMP, NO_TTL};
pub use error::{Result, StorageError};
pub use interrupt::Interrupted;
pub use key::DecoratedKey;
pub use layout::Layout;
pub use merge::MergedStream;
pub use partition::PartitionUpdate;
pub use range_tombstones::{RangeTombstone, RangeTombstoneList};
pub use row::{Cell, Row, RowBuilder};
pub use schema::{ColumnId, ColumnKind, ColumnMask, ColumnMetadata, TableId, TableMetadata, TableParams};
pub use selection::{Selection, Slice, Slices};
pub use stream::{
    PROBED_COLUMNS, PartitionHeader, PartitionStream, RangeTombstoneMarker, RowProbe, Unfiltered,
};
pub use token::Token;
pub use types::DataType;
