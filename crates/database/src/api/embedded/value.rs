//! Values of every CQL type.

use std::net::IpAddr;

use num_bigint::BigInt;
use uuid::Uuid;

/// A value of any CQL type.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Null.
    Null,
    /// `ascii`, `text`
    Text(String),
    /// `bigint`, `counter`
    BigInt(i64),
    /// `blob`
    Blob(Vec<u8>),
    /// `boolean`
    Boolean(bool),
    /// `date`: days; 1970-01-01 is 2^31.
    Date(u32),
    /// `decimal`: unscaled × 10^-scale.
    Decimal {
        /// The digits.
        unscaled: BigInt,
        /// The number of digits after the decimal point.
        scale: i32,
    },
    /// `double`
    Double(f64),
    /// `duration`
    Duration {
        /// Months.
        months: i32,
        /// Days.
        days: i32,
        /// Nanoseconds.
        nanoseconds: i64,
    },
    /// `float`
    Float(f32),
    /// `inet`
    Inet(IpAddr),
    /// `int`
    Int(i32),
    /// `smallint`
    SmallInt(i16),
    /// `time`: nanoseconds since midnight.
    Time(i64),
    /// `timestamp`: milliseconds since 1970.
    Timestamp(i64),
    /// `tinyint`
    TinyInt(i8),
    /// `uuid`, `timeuuid`
    Uuid(Uuid),
    /// `varint`
    VarInt(BigInt),
    /// `list`, `vector`
    List(Vec<Value>),
    /// `set`, sorted.
    Set(Vec<Value>),
    /// `map`, sorted by key.
    Map(Vec<(Value, Value)>),
    /// `tuple`
    Tuple(Vec<Value>),
    /// A user-defined type: its fields in order.
    UserType(Vec<(String, Value)>),
}

impl Value {
    /// Returns the name of the value's kind in messages.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Text(_) => "text",
            Self::BigInt(_) => "bigint",
            Self::Blob(_) => "blob",
            Self::Boolean(_) => "boolean",
            Self::Date(_) => "date",
            Self::Decimal { .. } => "decimal",
            Self::Double(_) => "double",
            Self::Duration { .. } => "duration",
            Self::Float(_) => "float",
            Self::Inet(_) => "inet",
            Self::Int(_) => "int",
            Self::SmallInt(_) => "smallint",
            Self::Time(_) => "time",
            Self::Timestamp(_) => "timestamp",
            Self::TinyInt(_) => "tinyint",
            Self::Uuid(_) => "uuid",
            Self::VarInt(_) => "varint",
            Self::List(_) => "list",
            Self::Set(_) => "set",
            Self::Map(_) => "map",
            Self::Tuple(_) => "tuple",
            Self::UserType(_) => "user-defined type",
        }
    }
}

macro_rules! conversions {
    ($($rust:ty => $variant:ident;)*) => {$(
        impl From<$rust> for Value {
            fn from(value: $rust) -> Self {
                Self::$variant(value.into())
            }
        }
    )*};
}

conversions! {
    &str => Text;
    String => Text;
    i8 => TinyInt;
    i16 => SmallInt;
    i32 => Int;
    i64 => BigInt;
    f32 => Float;
    f64 => Double;
    bool => Boolean;
    Vec<u8> => Blob;
    &[u8] => Blob;
    Uuid => Uuid;
    IpAddr => Inet;
    BigInt => VarInt;
    Vec<Value> => List;
}

impl<T: Into<Self>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}
