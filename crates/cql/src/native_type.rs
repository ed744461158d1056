//! Types with a keyword and no parameters.

use std::fmt;

use cassette_rows::types::DataType;

macro_rules! native_types {
    ($($variant:ident $name:literal $data_type:ident,)*) => {
        /// A type with a keyword and no parameters.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum NativeType {
            $(#[doc = concat!("`", $name, "`")] $variant,)*
        }

        impl NativeType {
            /// Every native type, in alphabetical order.
            pub const ALL: &[NativeType] = &[$(NativeType::$variant,)*];

            /// Returns the stored type.
            pub fn data_type(self) -> DataType {
                match self {
                    $(NativeType::$variant => DataType::$data_type,)*
                }
            }

            /// The keyword, in lower case.
            pub fn name(self) -> &'static str {
                match self {
                    $(NativeType::$variant => $name,)*
                }
            }
        }
    };
}

native_types! {
    Ascii "ascii" Ascii,
    BigInt "bigint" BigInt,
    Blob "blob" Blob,
    Boolean "boolean" Boolean,
    Counter "counter" Counter,
    Date "date" Date,
    Decimal "decimal" Decimal,
    Double "double" Double,
    Duration "duration" Duration,
    Float "float" Float,
    Inet "inet" Inet,
    Int "int" Int,
    SmallInt "smallint" SmallInt,
    Text "text" Text,
    Time "time" Time,
    Timestamp "timestamp" Timestamp,
    TimeUuid "timeuuid" TimeUuid,
    TinyInt "tinyint" TinyInt,
    Uuid "uuid" Uuid,
    Varchar "varchar" Text,
    Varint "varint" VarInt,
}

impl fmt::Display for NativeType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
