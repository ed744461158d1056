//! Stored types: the bytes, the width and the order of their values.
//!
//! Values have the same bytes in the native protocol and in SSTables (big-endian; see each type).
//! The crate `cql` implements the text form of types and values.

mod class_name;
pub mod collection;
mod compare;
mod compatible;
mod custom;
mod display;
mod validate;
pub mod vector;

use std::sync::Arc;

pub use class_name::{InvalidClassName, key_class_name, parse_class_name, parse_key_class_name};
pub use compare::compare_varint;
pub use custom::{Alias, Component, Components, CustomType, write_component};
pub use display::{is_reserved, quote_identifier};
pub use validate::InvalidValue;

/// The maximum nesting of types, in a class name or in CQL: enough for every real schema, and small
/// enough that recursion over a type or a value of it never exhausts a stack.
pub const NESTING_MAX: usize = 64;

/// A type of a column, key component or collection element.
///
/// Reversed order (`CLUSTERING ORDER BY … DESC`) is a property of the clustering column, not of its
/// type. `frozen` says that a collection or UDT is stored as one value instead of one cell per
/// element; inside a frozen type, a tuple, a collection element or a key everything is frozen
/// whatever the flag says.
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
    /// `EmptyType`: a value with no bytes, in the tables of old indexes and in compact tables.
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
    /// A type without a name in CQL, which is written by class name.
    Custom(Arc<CustomType>),
}

/// A user-defined type: named fields in a fixed order, stored like a tuple.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UserType {
    /// The keyspace of the type.
    pub keyspace: String,
    /// The name, in the case it is stored in.
    pub name: String,
    /// Field names and types in order; `ALTER TYPE … ADD` appends.
    /// [`with_fields`](Self::with_fields) changes them, because they are indexed.
    pub fields: Vec<(String, DataType)>,
    /// The indexes of the fields, in the order of their names.
    by_name: Box<[u32]>,
}

impl DataType {
    /// A non-frozen list of `element`, which is frozen as everything inside a collection is.
    pub fn list(element: Self) -> Self {
        Self::List { element: Arc::new(element.freeze()), frozen: false }
    }

    /// A non-frozen set of `element`, which is frozen as everything inside a collection is.
    pub fn set(element: Self) -> Self {
        Self::Set { element: Arc::new(element.freeze()), frozen: false }
    }

    /// A non-frozen map from `key` to `value`, which are frozen as everything inside a collection
    /// is.
    pub fn map(key: Self, value: Self) -> Self {
        Self::Map { key: Arc::new(key.freeze()), value: Arc::new(value.freeze()), frozen: false }
    }

    /// A tuple of `items`, which are frozen as everything inside a tuple is.
    pub fn tuple(items: impl IntoIterator<Item = Self>) -> Self {
        Self::Tuple(items.into_iter().map(|item| item.freeze()).collect())
    }

    /// A vector of `dimension` values of `element`. Values inside a vector are stored as one value,
    /// but as in Cassandra their type keeps its flag `frozen`, which is part of the vector's names.
    pub fn vector(element: Self, dimension: u32) -> Self {
        Self::Vector { element: Arc::new(element), dimension }
    }

    /// Returns whether this is a vector of floats, whose similarity is defined.
    pub fn is_float_vector(&self) -> bool {
        matches!(self, Self::Vector { element, .. } if **element == Self::Float)
    }

    /// Returns whether a column of this type is complex: one cell per element instead of one cell.
    pub fn is_multi_cell(&self) -> bool {
        match self {
            Self::List { frozen, .. }
            | Self::Set { frozen, .. }
            | Self::Map { frozen, .. }
            | Self::Udt { frozen, .. } => !frozen,
            _ => false,
        }
    }

    /// Returns the type stored as one value: `frozen<…>`, and so are the collections and UDTs
    /// inside it. The fields of a UDT and the elements of a vector keep the flags of their
    /// definition; being inside, they count as frozen.
    pub fn freeze(&self) -> Self {
        let inner = |inner: &Arc<Self>| {
            if inner.is_deeply_frozen() { inner.clone() } else { Arc::new(inner.freeze()) }
        };
        match self {
            Self::List { element, .. } => Self::List { element: inner(element), frozen: true },
            Self::Set { element, .. } => Self::Set { element: inner(element), frozen: true },
            Self::Map { key, value, .. } => Self::Map { key: inner(key), value: inner(value), frozen: true },
            Self::Udt { definition, .. } => Self::Udt { definition: definition.clone(), frozen: true },
            Self::Tuple(items) if !items.iter().all(Self::is_deeply_frozen) => {
                Self::Tuple(items.iter().map(Self::freeze).collect())
            }
            other => other.clone(),
        }
    }

    fn is_deeply_frozen(&self) -> bool {
        match self {
            Self::List { element, frozen } | Self::Set { element, frozen } => {
                *frozen && element.is_deeply_frozen()
            }
            Self::Map { key, value, frozen } => *frozen && key.is_deeply_frozen() && value.is_deeply_frozen(),
            Self::Udt { frozen, .. } => *frozen,
            Self::Tuple(items) => items.iter().all(Self::is_deeply_frozen),
            _ => true,
        }
    }

    /// Returns the length of every value of this type in an SSTable that stores such values without
    /// a length; `None` for types whose values follow their length. `tinyint`, `smallint`, `date`
    /// and `time` are among the latter although their values have one length. Vectors store their
    /// elements by the same rule.
    pub fn fixed_width(&self) -> Option<usize> {
        match self {
            Self::Empty => Some(0),
            Self::Boolean => Some(1),
            Self::Int | Self::Float => Some(4),
            Self::BigInt | Self::Double | Self::Timestamp => Some(8),
            Self::Uuid | Self::TimeUuid => Some(16),
            Self::Custom(custom) if **custom == CustomType::LexicalUuid => Some(16),
            Self::Vector { element, dimension } => element.fixed_width()?.checked_mul(*dimension as usize),
            _ => None,
        }
    }

    /// Returns whether this is the type of a counter column.
    pub fn is_counter(&self) -> bool {
        matches!(self, Self::Counter)
    }

    /// Returns whether Cassandra rejects this type for keys and ranges because of a duration: it
    /// does not look into sets, keys of maps and vectors.
    pub fn contains_duration(&self) -> bool {
        match self {
            Self::Duration => true,
            Self::List { element, .. } => element.contains_duration(),
            Self::Map { value, .. } => value.contains_duration(),
            Self::Tuple(items) => items.iter().any(Self::contains_duration),
            Self::Udt { definition, .. } => {
                definition.fields.iter().any(|(_, field)| field.contains_duration())
            }
            _ => false,
        }
    }

    /// Returns whether this is the UDT `keyspace.name` or contains it.
    pub fn references_udt(&self, keyspace: &str, name: &str) -> bool {
        let is_named = |definition: &UserType| definition.keyspace == keyspace && definition.name == name;
        self.any(&|inner| matches!(inner, Self::Udt { definition, .. } if is_named(definition)))
    }

    /// Returns this type with every occurrence of the UDT of `changed`'s name replaced by
    /// `changed`.
    pub fn with_udt(&self, changed: &Arc<UserType>) -> Self {
        let inner = |inner: &Arc<Self>| Arc::new(inner.with_udt(changed));
        match self {
            Self::List { element, frozen } => Self::List { element: inner(element), frozen: *frozen },
            Self::Set { element, frozen } => Self::Set { element: inner(element), frozen: *frozen },
            Self::Map { key, value, frozen } => {
                Self::Map { key: inner(key), value: inner(value), frozen: *frozen }
            }
            Self::Vector { element, dimension } => {
                Self::Vector { element: inner(element), dimension: *dimension }
            }
            Self::Tuple(items) => Self::Tuple(items.iter().map(|item| item.with_udt(changed)).collect()),
            Self::Udt { definition, frozen } => {
                let same = definition.keyspace == changed.keyspace && definition.name == changed.name;
                let definition = if same { changed.clone() } else { Arc::new(definition.with_udt(changed)) };
                Self::Udt { definition, frozen: *frozen }
            }
            other => other.clone(),
        }
    }

    /// Returns whether `matches` holds for this type or one inside it.
    fn any(&self, matches: &dyn Fn(&Self) -> bool) -> bool {
        matches(self)
            || match self {
                Self::List { element, .. } | Self::Set { element, .. } | Self::Vector { element, .. } => {
                    element.any(matches)
                }
                Self::Map { key, value, .. } => key.any(matches) || value.any(matches),
                Self::Tuple(items) => items.iter().any(|item| item.any(matches)),
                Self::Udt { definition, .. } => definition.fields.iter().any(|(_, field)| field.any(matches)),
                _ => false,
            }
    }

    /// Returns the type of the paths of a complex column's cells, which determines the order of the
    /// cells: `timeuuid` for a list, the element or key type for a set or map, `smallint` (the
    /// field's index) for a UDT. `None` for types that have one cell.
    pub fn path_type(&self) -> Option<&Self> {
        static LIST_PATH: DataType = DataType::TimeUuid;
        static UDT_PATH: DataType = DataType::SmallInt;
        match self {
            Self::List { .. } => Some(&LIST_PATH),
            Self::Set { element, .. } => Some(element),
            Self::Map { key, .. } => Some(key),
            Self::Udt { .. } => Some(&UDT_PATH),
            _ => None,
        }
    }

    /// Returns the type of the value of a complex column's cell at `path`: `Empty` for a set, whose
    /// element is the path. `None` if the type has one cell or the path is no field of the UDT.
    pub fn cell_type(&self, path: &[u8]) -> Option<&Self> {
        static SET_VALUE: DataType = DataType::Empty;
        match self {
            Self::List { element, .. } => Some(element),
            Self::Set { .. } => Some(&SET_VALUE),
            Self::Map { value, .. } => Some(value),
            Self::Udt { definition, .. } => {
                let index = u16::from_be_bytes(path.try_into().ok()?);
                definition.fields.get(usize::from(index)).map(|(_, field)| field)
            }
            _ => None,
        }
    }
}

impl UserType {
    /// The maximum number of fields of a type. The cells of a non-frozen value have paths of a
    /// signed 16-bit number, which orders them; Cassandra counts the fields in such a number, too.
    pub const FIELDS_MAX: usize = i16::MAX as usize;

    /// Creates the type `name`.
    pub fn new(
        keyspace: impl Into<String>,
        name: impl Into<String>,
        fields: Vec<(String, DataType)>,
    ) -> Self {
        let mut by_name: Vec<u32> = (0..fields.len() as u32).collect();
        by_name.sort_by(|a, b| fields[*a as usize].0.cmp(&fields[*b as usize].0));
        Self { keyspace: keyspace.into(), name: name.into(), fields, by_name: by_name.into() }
    }

    /// Returns the type with other fields.
    pub fn with_fields(&self, fields: Vec<(String, DataType)>) -> Self {
        Self::new(self.keyspace.clone(), self.name.clone(), fields)
    }

    /// Returns the index and type of field `name`, in logarithmic time.
    pub fn field(&self, name: &str) -> Option<(usize, &DataType)> {
        let at = self.by_name.partition_point(|at| self.fields[*at as usize].0.as_str() < name);
        let index = *self.by_name.get(at)? as usize;
        let (found, data_type) = &self.fields[index];
        (found == name).then_some((index, data_type))
    }

    /// Returns this definition with `changed` in place of every older version of it inside the
    /// fields.
    fn with_udt(&self, changed: &Arc<Self>) -> Self {
        self.with_fields(
            self.fields.iter().map(|(name, field)| (name.clone(), field.with_udt(changed))).collect(),
        )
    }
}

#[cfg(test)]
mod tests;
