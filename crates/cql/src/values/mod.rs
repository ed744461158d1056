//! How values are written: text to bytes and back, JSON, casts, arithmetic, functions and aggregates.
//!
//! The bytes are those of the native protocol and of SSTables; see `cassette_rows::types` for what they are. All rules
//! and messages are those of Apache Cassandra 5.0.8. Null is `None` wherever a value may be null.

pub mod aggregates;
pub mod calendar;
pub mod collections;
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

pub use collections::{build_list, build_map, build_set, build_tuple, build_vector};
pub use literal::{Assignment, literal_bytes, preferred_type};
pub use text::{from_text, to_literal, to_text};

/// Why a value could not be read or computed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// The text, bytes or arguments are not what the type or function takes: `InvalidRequest` on the wire.
    #[error("{0}")]
    Invalid(String),
    /// The request that needs the value was interrupted.
    #[error(transparent)]
    Interrupted(#[from] cassette_rows::Interrupted),
    /// A function failed at what it was given: `FunctionFailure` on the wire.
    #[error("{message}")]
    FunctionFailure {
        /// The function, without its keyspace, which is `system`.
        function: String,
        /// The types of its arguments.
        argument_types: Vec<String>,
        /// What to tell people.
        message: String,
    },
}

impl ValueError {
    /// An [`ValueError::Invalid`] with this message.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::Invalid(message.into())
    }
}

impl From<cassette_rows::types::InvalidValue> for ValueError {
    fn from(invalid: cassette_rows::types::InvalidValue) -> Self {
        Self::Invalid(invalid.0)
    }
}

/// Why two numbers have no result: a division by zero, mostly.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ArithmeticFailure(pub String);

impl ArithmeticFailure {
    /// The division by zero of whole numbers.
    pub fn division_by_zero() -> Self {
        Self("/ by zero".to_owned())
    }
}

#[cfg(test)]
mod oracle_tests;
#[cfg(test)]
mod property_tests;
