//! A column of a Parquet file with values: its type, and the values collected for the next group of
//! rows.

use anyhow::bail;
use cassette_cql::values::text::to_text;
use cassette_rows::DataType;
use parquet::basic::{LogicalType, Repetition, TimeUnit, Type as PhysicalType};
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DataType as Physical, DoubleType, FixedLenByteArray,
    FixedLenByteArrayType, FloatType, Int32Type, Int64Type,
};
use parquet::file::writer::SerializedColumnWriter;
use parquet::schema::types::Type;

/// Number of days from a `date` of 0 to 1970-01-01.
const DATE_EPOCH: u32 = 1 << 31;

pub struct Leaf {
    data_type: DataType,
    values: Values,
    definitions: Vec<i16>,
    repetitions: Vec<i16>,
    is_repeated: bool,
    /// Bytes of values stored elsewhere.
    value_bytes: usize,
}

enum Values {
    Boolean(Vec<bool>),
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Float(Vec<f32>),
    Double(Vec<f64>),
    Bytes(Vec<ByteArray>),
    Uuid(Vec<FixedLenByteArray>),
}

impl Leaf {
    /// Creates a leaf of a type without parts; `is_repeated` if it is inside a list or map.
    pub fn new(data_type: &DataType, is_repeated: bool) -> Self {
        let values = match data_type {
            DataType::Boolean => Values::Boolean(Vec::new()),
            DataType::Int | DataType::SmallInt | DataType::TinyInt | DataType::Date => {
                Values::Int32(Vec::new())
            }
            DataType::BigInt | DataType::Counter | DataType::Time | DataType::Timestamp => {
                Values::Int64(Vec::new())
            }
            DataType::Float => Values::Float(Vec::new()),
            DataType::Double => Values::Double(Vec::new()),
            DataType::Uuid | DataType::TimeUuid => Values::Uuid(Vec::new()),
            _ => Values::Bytes(Vec::new()),
        };
        Self {
            data_type: data_type.clone(),
            values,
            definitions: Vec::new(),
            repetitions: Vec::new(),
            is_repeated,
            value_bytes: 0,
        }
    }

    /// The column in the file's schema.
    pub fn column(&self, name: &str, presence: Repetition) -> parquet::errors::Result<Type> {
        let physical = match &self.values {
            Values::Boolean(_) => PhysicalType::BOOLEAN,
            Values::Int32(_) => PhysicalType::INT32,
            Values::Int64(_) => PhysicalType::INT64,
            Values::Float(_) => PhysicalType::FLOAT,
            Values::Double(_) => PhysicalType::DOUBLE,
            Values::Bytes(_) => PhysicalType::BYTE_ARRAY,
            Values::Uuid(_) => PhysicalType::FIXED_LEN_BYTE_ARRAY,
        };
        let logical = match &self.data_type {
            DataType::SmallInt => Some(LogicalType::integer(16, true)),
            DataType::TinyInt => Some(LogicalType::integer(8, true)),
            DataType::Date => Some(LogicalType::Date),
            DataType::Time => Some(LogicalType::time(false, TimeUnit::NANOS)),
            DataType::Timestamp => Some(LogicalType::timestamp(true, TimeUnit::MILLIS)),
            DataType::Uuid | DataType::TimeUuid => Some(LogicalType::Uuid),
            DataType::Blob | DataType::Empty => None,
            _ if physical == PhysicalType::BYTE_ARRAY => Some(LogicalType::String),
            _ => None,
        };
        let length = if physical == PhysicalType::FIXED_LEN_BYTE_ARRAY { 16 } else { -1 };
        Type::primitive_type_builder(name, physical)
            .with_repetition(presence)
            .with_logical_type(logical)
            .with_length(length)
            .build()
    }

    /// Returns the approximate bytes collected.
    pub fn bytes(&self) -> usize {
        // Each value with two levels.
        self.definitions.len() * 12 + self.value_bytes
    }

    /// Adds an absent value.
    pub fn push_nothing(&mut self, repetition: i16, definition: i16) {
        self.definitions.push(definition);
        self.repetitions.push(repetition);
    }

    /// Adds a value; returns false, without adding anything, for an empty value of a type that has
    /// no such values elsewhere.
    pub fn push(&mut self, bytes: &[u8], repetition: i16, definition: i16) -> anyhow::Result<bool> {
        let data_type = &self.data_type;
        let may_be_empty =
            matches!(data_type, DataType::Text | DataType::Ascii | DataType::Blob | DataType::Empty);
        if bytes.is_empty() && !may_be_empty {
            return Ok(false);
        }
        match &mut self.values {
            Values::Boolean(values) => values.push(fixed(data_type, bytes)? != [0]),
            Values::Int32(values) => values.push(match data_type {
                DataType::SmallInt => i16::from_be_bytes(fixed(data_type, bytes)?).into(),
                DataType::TinyInt => i8::from_be_bytes(fixed(data_type, bytes)?).into(),
                DataType::Date => {
                    u32::from_be_bytes(fixed(data_type, bytes)?).wrapping_sub(DATE_EPOCH).cast_signed()
                }
                _ => i32::from_be_bytes(fixed(data_type, bytes)?),
            }),
            Values::Int64(values) => values.push(i64::from_be_bytes(fixed(data_type, bytes)?)),
            Values::Float(values) => values.push(f32::from_be_bytes(fixed(data_type, bytes)?)),
            Values::Double(values) => values.push(f64::from_be_bytes(fixed(data_type, bytes)?)),
            Values::Uuid(values) => {
                values.push(fixed::<16>(data_type, bytes)?.to_vec().into());
                self.value_bytes += 64;
            }
            Values::Bytes(values) => {
                let value =
                    if may_be_empty { bytes.to_vec() } else { to_text(data_type, bytes).into_bytes() };
                self.value_bytes += value.len() + 64;
                values.push(value.into());
            }
        }
        self.definitions.push(definition);
        self.repetitions.push(repetition);
        Ok(true)
    }

    /// Writes the collected values, and removes them.
    pub fn write(&mut self, column: &mut SerializedColumnWriter<'_>) -> parquet::errors::Result<()> {
        let levels = (self.definitions.as_slice(), self.is_repeated.then_some(self.repetitions.as_slice()));
        match &mut self.values {
            Values::Boolean(values) => write::<BoolType>(column, values, levels),
            Values::Int32(values) => write::<Int32Type>(column, values, levels),
            Values::Int64(values) => write::<Int64Type>(column, values, levels),
            Values::Float(values) => write::<FloatType>(column, values, levels),
            Values::Double(values) => write::<DoubleType>(column, values, levels),
            Values::Bytes(values) => write::<ByteArrayType>(column, values, levels),
            Values::Uuid(values) => write::<FixedLenByteArrayType>(column, values, levels),
        }?;
        self.definitions.clear();
        self.repetitions.clear();
        self.value_bytes = 0;
        Ok(())
    }
}

fn write<T: Physical>(
    column: &mut SerializedColumnWriter<'_>,
    values: &mut Vec<T::T>,
    (definitions, repetitions): (&[i16], Option<&[i16]>),
) -> parquet::errors::Result<()> {
    column.typed::<T>().write_batch(values, Some(definitions), repetitions)?;
    values.clear();
    Ok(())
}

fn fixed<const N: usize>(data_type: &DataType, bytes: &[u8]) -> anyhow::Result<[u8; N]> {
    match bytes.try_into() {
        Ok(value) => Ok(value),
        Err(_) => bail!("{} bytes are no {}", bytes.len(), data_type),
    }
}
