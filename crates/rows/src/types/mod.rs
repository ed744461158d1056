//! Types as they are stored: what bytes a value has, how wide it is, how two values order.
//!
//! Values are the bytes of the native protocol and of SSTables alike (big-endian; see each type). How types and
//! values are written in CQL text is the business of `cql`.

use std::sync::Arc;

/// A type of a column, key component or collection element.
///
/// Reversed order (`CLUSTERING ORDER BY … DESC`) is a property of the clustering column, not of its type.
/// `frozen` says that a collection or UDT is stored as one value instead of one cell per element; inside a frozen
/// type, a tuple, a collection element or a key everything is frozen whatever the flag says.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the variants are CQL's type names")]
pub enum DataType {
    Ascii,
    BigInt,
    Blob,
    Boolean,
    Counter,
    Date,
    Decimal,
    Double,
    Duration,
    /// `EmptyType`: a value with no bytes, met in the tables of old indexes and in compact tables.
    Empty,
    Float,
    Inet,
    Int,
    SmallInt,
    Text,
    Time,
    Timestamp,
    TimeUuid,
    TinyInt,
    Uuid,
    VarInt,
    List {
        element: Arc<DataType>,
        frozen: bool,
    },
    Set {
        element: Arc<DataType>,
        frozen: bool,
    },
    Map {
        key: Arc<DataType>,
        value: Arc<DataType>,
        frozen: bool,
    },
    Tuple(Arc<[DataType]>),
    Udt {
        definition: Arc<UserType>,
        frozen: bool,
    },
    Vector {
        element: Arc<DataType>,
        dimension: u32,
    },
}

/// A user-defined type: named fields in a fixed order, stored like a tuple.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UserType {
    /// The keyspace it belongs to.
    pub keyspace: String,
    /// Its name, in the case it is stored in.
    pub name: String,
    /// Field names and types in order; `ALTER TYPE … ADD` appends.
    pub fields: Vec<(String, DataType)>,
}

impl DataType {
    /// Whether a column of this type is complex: one cell per element rather than one cell.
    pub fn is_multi_cell(&self) -> bool {
        match self {
            Self::List { frozen, .. }
            | Self::Set { frozen, .. }
            | Self::Map { frozen, .. }
            | Self::Udt { frozen, .. } => !frozen,
            _ => false,
        }
    }
}
