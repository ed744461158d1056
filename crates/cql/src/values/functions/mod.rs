//! Native functions: resolution of a call, its type, and its value.
//!
//! A call is resolved once, by its name and the known types of its arguments, and then evaluated
//! for every row:
//!
//! ```text
//! resolve("to_date", &[argument…], receiver) -> Function -> ScalarFunction::evaluate(values, surroundings)
//!                                                        -> AggregateFunction::accumulator()
//! ```
//!
//! `token`, `writetime` and `ttl` are implemented elsewhere, because they depend on rows.

mod arithmetic;
mod blobs;
mod casts;
mod collections;
mod json;
mod masking;
mod maths;
mod resolve;
mod time;
mod vectors;

use std::fmt::{self, Display, Formatter};

use cassette_rows::interrupt;
use cassette_rows::types::{DataType, quote_identifier};

pub use arithmetic::{resolve_arithmetic, resolve_negation};
pub use casts::resolve_cast;
pub use masking::{is_masking, resolve_mask};
pub use resolve::{Argument, NullArgument, TypedArgument, resolve};

use super::aggregates::AggregateFunction;
use super::number::check_length;
use super::{ArithmeticFailure, ValueError};

/// Bytes of arguments that count for one step of [`interrupt`].
const BYTES_PER_STEP: usize = 64;

/// External inputs of functions: the time and randomness.
pub trait Surroundings {
    /// Microseconds since 1970.
    fn now_us(&self) -> i64;
    /// Returns a time UUID of the present, greater than all returned before.
    fn next_time_uuid(&self) -> [u8; 16];
    /// A random UUID, of version 4.
    fn random_uuid(&self) -> [u8; 16];
}

/// The target of a resolved call.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the types describe it")]
pub enum Function {
    Scalar(ScalarFunction),
    Aggregate(AggregateFunction),
}

impl Function {
    /// The name, without its keyspace, which is `system`.
    pub fn name(&self) -> &str {
        match self {
            Self::Scalar(function) => &function.name,
            Self::Aggregate(function) => function.name(),
        }
    }

    /// The types of the arguments; those of aggregates are one or none.
    pub fn arguments(&self) -> &[DataType] {
        match self {
            Self::Scalar(function) => &function.arguments,
            Self::Aggregate(function) => function.arguments(),
        }
    }

    /// The type of the result.
    pub fn returns(&self) -> &DataType {
        match self {
            Self::Scalar(function) => &function.returns,
            Self::Aggregate(function) => function.returns(),
        }
    }
}

/// Writes a function as in messages: `system.to_date : (timestamp) -> date`.
impl Display for Function {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let arguments: Vec<_> = self.arguments().iter().map(DataType::to_string).collect();
        let name = quote_identifier(self.name());
        write!(f, "system.{name} : ({}) -> {}", arguments.join(", "), self.returns())
    }
}

/// The values of a call's arguments.
type Values<'a> = [Option<&'a [u8]>];
/// The result of a function.
type Evaluated = Result<Option<Vec<u8>>, ValueError>;

/// A function from the values of one row to a value.
#[derive(Debug, Clone)]
pub struct ScalarFunction {
    /// Its name, without its keyspace, which is `system`.
    pub name: String,
    /// The types of its arguments.
    pub arguments: Vec<DataType>,
    /// The type of its result.
    pub returns: DataType,
    /// Whether equal arguments always give equal results, so that a call with constants is a
    /// constant.
    pub is_pure: bool,
    evaluate: fn(&ScalarFunction, &Values<'_>, &dyn Surroundings) -> Evaluated,
}

impl PartialEq for ScalarFunction {
    fn eq(&self, other: &Self) -> bool {
        // Name and types identify a function.
        self.name == other.name && self.arguments == other.arguments && self.returns == other.returns
    }
}

impl ScalarFunction {
    fn new(
        name: impl Into<String>,
        arguments: impl Into<Vec<DataType>>,
        returns: DataType,
        evaluate: fn(&Self, &Values<'_>, &dyn Surroundings) -> Evaluated,
    ) -> Self {
        Self { name: name.into(), arguments: arguments.into(), returns, is_pure: true, evaluate }
    }

    /// Returns the function's value for these arguments, whose number and types must match.
    pub fn evaluate(&self, values: &Values<'_>, surroundings: &dyn Surroundings) -> Evaluated {
        if values.len() != self.arguments.len() {
            return Err(ValueError::invalid(format!(
                "Invalid number of arguments in call to function system.{}: {} required but {} provided",
                self.name,
                self.arguments.len(),
                values.len()
            )));
        }
        let bytes: usize = values.iter().flatten().map(|value| value.len()).sum();
        interrupt::charge(1 + u32::try_from(bytes / BYTES_PER_STEP).unwrap_or(u32::MAX))?;
        (self.evaluate)(self, values, surroundings)
    }

    /// Rejects numbers that are too long for a calculation.
    fn check_lengths(&self, values: &Values<'_>) -> Result<(), ValueError> {
        let mut arguments = self.arguments.iter().zip(values);
        arguments
            .try_for_each(|(data_type, value)| value.map_or(Ok(()), |bytes| check_length(data_type, bytes)))
            .map_err(|ArithmeticFailure(reason)| self.failure(reason))
    }

    /// Creates the error of a failed evaluation.
    fn failure(&self, message: impl Into<String>) -> ValueError {
        ValueError::FunctionFailure {
            function: self.name.clone(),
            argument_types: self.arguments.iter().map(DataType::to_string).collect(),
            message: message.into(),
        }
    }
}

/// Returns the argument at `index` unless it is null or empty; empty counts as null for all types
/// of a fixed width.
fn present<'a>(values: &Values<'a>, index: usize) -> Option<&'a [u8]> {
    values.get(index).copied().flatten().filter(|bytes| !bytes.is_empty())
}

#[cfg(test)]
mod tests;
