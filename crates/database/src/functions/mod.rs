//! Native functions that terms call. A first set; it moves to the language's own when that has functions.

use cassette_rows::DataType;

use crate::error::Result;
use crate::execution::Execution;

/// A native function of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScalarFunction {
    /// `uuid()`
    Uuid,
    /// `now()`
    Now,
}

impl ScalarFunction {
    /// The function called `name`.
    pub fn by_name(name: &str) -> Option<Self> {
        match name {
            "uuid" => Some(Self::Uuid),
            "now" => Some(Self::Now),
            _ => None,
        }
    }

    /// The type of its result.
    pub fn return_type(self) -> DataType {
        match self {
            Self::Uuid => DataType::Uuid,
            Self::Now => DataType::TimeUuid,
        }
    }

    /// Its result.
    pub fn call(self, execution: &Execution<'_>) -> Result<Vec<u8>> {
        Ok(match self {
            Self::Uuid => uuid::Uuid::new_v4().as_bytes().to_vec(),
            Self::Now => execution.database.next_time_uuid().as_bytes().to_vec(),
        })
    }
}
