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
pub mod user;
mod vectors;

use std::fmt::{self, Display, Formatter};
use std::sync::Arc;

use cassette_rows::interrupt;
use cassette_rows::types::DataType;

pub use arithmetic::{resolve_arithmetic, resolve_negation};
pub use casts::{has_casts, resolve_cast, resolve_cast_for};
pub use masking::{is_masking, resolve_mask};
pub use resolve::{Argument, Name, NullArgument, TypedArgument, resolve, resolve_among};
pub use user::{UserAggregate, UserFunction};

use super::aggregates::AggregateFunction;
use super::number::check_length;
use super::{ArithmeticFailure, ValueError};

/// The keyspace of native functions.
const SYSTEM: &str = "system";

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
    /// Returns the result of a user-defined function, which must be callable with these arguments.
    ///
    /// # Errors
    /// FunctionFailure, if its body fails; Invalid, if it cannot be executed.
    fn call(&self, function: &Arc<UserFunction>, values: &[Option<&[u8]>]) -> Evaluated;
}

/// The target of a resolved call.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the types describe it")]
pub enum Function {
    Scalar(ScalarFunction),
    Aggregate(AggregateFunction),
}

impl Function {
    /// The name, without its keyspace.
    pub fn name(&self) -> &str {
        match self {
            Self::Scalar(function) => &function.name,
            Self::Aggregate(function) => function.name(),
        }
    }

    /// The keyspace; `system` of native functions.
    pub fn keyspace(&self) -> &str {
        match self {
            Self::Scalar(function) => function.keyspace(),
            Self::Aggregate(function) => function.keyspace(),
        }
    }

    /// Returns `keyspace.name`, unquoted.
    pub fn full_name(&self) -> String {
        format!("{}.{}", self.keyspace(), self.name())
    }

    /// The types of the arguments.
    pub fn arguments(&self) -> &[DataType] {
        match self {
            Self::Scalar(function) => &function.arguments,
            Self::Aggregate(function) => function.arguments(),
        }
    }

    /// Whether the types follow from the arguments of the call, so that one name stands for any
    /// number of functions.
    pub fn infers_types(&self) -> bool {
        match self {
            Self::Scalar(function) => function.infers_types,
            Self::Aggregate(function) => matches!(function.name(), "min" | "max"),
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
        let name = user::qualified_name(self.keyspace(), self.name());
        write!(f, "{name} : ({}) -> {}", arguments.join(", "), self.returns())
    }
}

/// The values of a call's arguments.
type Values<'a> = [Option<&'a [u8]>];
/// The result of a function.
pub type Evaluated = Result<Option<Vec<u8>>, ValueError>;

/// A function from the values of one row to a value.
#[derive(Debug, Clone)]
pub struct ScalarFunction {
    /// Its name, without its keyspace.
    pub name: String,
    /// The types of its arguments.
    pub arguments: Vec<DataType>,
    /// The type of its result.
    pub returns: DataType,
    /// Whether equal arguments always give equal results, so that a call with constants is a
    /// constant.
    pub is_pure: bool,
    infers_types: bool,
    /// Rejects values of an argument, whatever the others are.
    check: Option<ArgumentCheck>,
    body: Body,
}

/// Rejects a value, not null, of the argument with this index.
type ArgumentCheck = fn(&ScalarFunction, usize, &[u8]) -> Result<(), ValueError>;

/// How a function is evaluated.
#[derive(Debug, Clone)]
enum Body {
    Native(fn(&ScalarFunction, &Values<'_>, &dyn Surroundings) -> Evaluated),
    User(Arc<UserFunction>),
}

impl PartialEq for ScalarFunction {
    fn eq(&self, other: &Self) -> bool {
        // Name and types identify a native function.
        self.name == other.name
            && self.arguments == other.arguments
            && self.returns == other.returns
            && self.user_defined() == other.user_defined()
    }
}

impl From<Arc<UserFunction>> for ScalarFunction {
    fn from(function: Arc<UserFunction>) -> Self {
        Self {
            name: function.name.clone(),
            arguments: function.argument_types(),
            returns: function.returns.clone(),
            is_pure: false,
            infers_types: false,
            check: None,
            body: Body::User(function),
        }
    }
}

impl ScalarFunction {
    fn new(
        name: impl Into<String>,
        arguments: impl Into<Vec<DataType>>,
        returns: DataType,
        evaluate: fn(&Self, &Values<'_>, &dyn Surroundings) -> Evaluated,
    ) -> Self {
        Self {
            name: name.into(),
            arguments: arguments.into(),
            returns,
            is_pure: true,
            infers_types: false,
            check: None,
            body: Body::Native(evaluate),
        }
    }

    /// Whether some values of its arguments are rejected whatever the others are.
    pub fn checks_arguments(&self) -> bool {
        self.check.is_some()
    }

    /// Rejects a value of the argument at `index` with which each call fails, so that a constant
    /// can be rejected before there are values of the other arguments.
    pub fn check_argument(&self, index: usize, value: Option<&[u8]>) -> Result<(), ValueError> {
        match (self.check, value) {
            (Some(check), Some(value)) => check(self, index, value),
            _ => Ok(()),
        }
    }

    /// Returns its definition; `None` if it is native.
    pub fn user_defined(&self) -> Option<&Arc<UserFunction>> {
        match &self.body {
            Body::Native(_) => None,
            Body::User(function) => Some(function),
        }
    }

    /// The keyspace; `system` of native functions.
    pub fn keyspace(&self) -> &str {
        self.user_defined().map_or(SYSTEM, |function| &function.keyspace)
    }

    /// Returns the function's value for these arguments, whose number and types must match.
    pub fn evaluate(&self, values: &Values<'_>, surroundings: &dyn Surroundings) -> Evaluated {
        if values.len() != self.arguments.len() {
            return Err(ValueError::invalid(format!(
                "Invalid number of arguments in call to function {}.{}: {} required but {} provided",
                self.keyspace(),
                self.name,
                self.arguments.len(),
                values.len()
            )));
        }
        let bytes: usize = values.iter().flatten().map(|value| value.len()).sum();
        interrupt::charge(1 + u32::try_from(bytes / BYTES_PER_STEP).unwrap_or(u32::MAX))?;
        if self.check.is_some() {
            values.iter().enumerate().try_for_each(|(index, value)| self.check_argument(index, *value))?;
        }
        match &self.body {
            Body::Native(evaluate) => evaluate(self, values, surroundings),
            Body::User(function) if function.is_callable(values) => surroundings.call(function, values),
            Body::User(_) => Ok(None),
        }
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
            keyspace: SYSTEM.to_owned(),
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
