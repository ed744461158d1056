//! The text of values: parsing and formatting, JSON, casts, arithmetic, functions and aggregates.
//!
//! The bytes are those of the native protocol and of SSTables; `cassette_rows::types` describes
//! them. All rules and messages are those of Apache Cassandra 5.0.8. Null is `None` wherever a
//! value can be null.

mod accepted;
pub mod aggregates;
pub mod calendar;
pub mod class_text;
pub mod collections;
mod custom_text;
pub mod decimal;
pub mod duration;
pub mod functions;
pub mod inet;
pub mod json;
pub mod literal;
mod logarithm;
pub mod number;
pub mod temporal;
pub mod text;
pub mod timeuuid;

pub use accepted::accepts_cells;
pub use collections::{build_list, build_map, build_set, build_tuple, build_vector};
pub use literal::{Assignment, literal_bytes, preferred_type};
pub use text::{from_text, to_literal, to_text};

/// The reason why a value could not be parsed or computed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// The text, bytes or arguments do not match the type or function: `InvalidRequest` on the
    /// wire.
    #[error("{0}")]
    Invalid(String),
    /// As `Invalid`; the text is reported without the value or function that contains the part.
    #[error("{0}")]
    InvalidPart(String),
    /// The request that needs the value was interrupted.
    #[error(transparent)]
    Interrupted(#[from] cassette_rows::Interrupted),
    /// A function failed for its arguments: `FunctionFailure` on the wire.
    #[error("{message}")]
    FunctionFailure {
        /// The function's keyspace.
        keyspace: String,
        /// The function.
        function: String,
        /// The types of its arguments.
        argument_types: Vec<String>,
        /// The reason.
        message: String,
    },
}

impl ValueError {
    /// Creates an [`ValueError::Invalid`].
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::Invalid(message.into())
    }
}

impl From<cassette_rows::types::InvalidValue> for ValueError {
    fn from(invalid: cassette_rows::types::InvalidValue) -> Self {
        Self::Invalid(invalid.0)
    }
}

/// The reason why a calculation has no result: usually a division by zero.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ArithmeticFailure(pub String);

impl ArithmeticFailure {
    /// Creates the error of an integer division by zero.
    pub fn division_by_zero() -> Self {
        Self("/ by zero".to_owned())
    }
}

#[cfg(test)]
mod oracle_tests;
#[cfg(test)]
mod property_tests;
