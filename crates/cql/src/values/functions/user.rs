//! User-defined functions and aggregates, as a schema defines them. They are data: [`Surroundings`]
//! executes their bodies.
//!
//! [`Surroundings`]: super::Surroundings

use std::sync::Arc;

use cassette_rows::types::{DataType, UserType, quote_identifier};

/// A user-defined function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserFunction {
    /// The keyspace, whose types it can use.
    pub keyspace: String,
    /// The name, in the case it is stored in.
    pub name: String,
    /// The names and types of the arguments.
    pub arguments: Vec<(String, DataType)>,
    /// The type of the result.
    pub returns: DataType,
    /// Whether it is called if an argument is null; otherwise its result is then null.
    pub called_on_null_input: bool,
    /// The language of the body.
    pub language: String,
    /// The source.
    pub body: String,
}

/// A user-defined aggregate: the state function is called for each row with the previous state and
/// the row's values, the final function once with the last state.
#[derive(Debug, Clone, PartialEq)]
pub struct UserAggregate {
    /// The keyspace, whose functions it uses.
    pub keyspace: String,
    /// The name, in the case it is stored in.
    pub name: String,
    /// The types of the arguments.
    pub arguments: Vec<DataType>,
    /// Returns the next state.
    pub state_function: Arc<UserFunction>,
    /// Returns the result for the last state; without it, that is the result.
    pub final_function: Option<Arc<UserFunction>>,
    /// The first state.
    pub initial_value: Option<Vec<u8>>,
}

impl UserFunction {
    /// Returns the types of the arguments.
    pub fn argument_types(&self) -> Vec<DataType> {
        self.arguments.iter().map(|(_, data_type)| data_type.clone()).collect()
    }

    /// Returns the result without a call: null if the function is not called on null input and an
    /// argument is null or has an empty value that means null.
    pub fn is_callable(&self, values: &[Option<&[u8]>]) -> bool {
        self.called_on_null_input
            || values.iter().zip(&self.arguments).all(|(value, (_, data_type))| !is_null(data_type, *value))
    }

    /// Whether an argument or the result is of the user-defined type `name`, or contains it.
    pub fn uses_type(&self, name: &str) -> bool {
        let uses = |data_type: &DataType| data_type.references_udt(&self.keyspace, name);
        uses(&self.returns) || self.arguments.iter().any(|(_, data_type)| uses(data_type))
    }

    /// Returns the function with an altered user-defined type in place of its older version.
    pub fn with_type(&self, altered: &Arc<UserType>) -> Self {
        let arguments = self.arguments.iter();
        Self {
            arguments: arguments.map(|(name, of)| (name.clone(), of.with_udt(altered))).collect(),
            returns: self.returns.with_udt(altered),
            ..self.clone()
        }
    }
}

impl UserAggregate {
    /// Returns the type of the state.
    pub fn state_type(&self) -> &DataType {
        &self.state_function.returns
    }

    /// Returns the type of the result.
    pub fn returns(&self) -> &DataType {
        self.final_function.as_ref().map_or(self.state_type(), |function| &function.returns)
    }

    /// Whether it calls `function`.
    pub fn calls(&self, function: &UserFunction) -> bool {
        std::iter::once(&self.state_function).chain(&self.final_function).any(|called| **called == *function)
    }
}

/// Whether a value is null for a user-defined function: so is an empty one, except where it is a
/// text or a blob.
pub fn is_null(data_type: &DataType, value: Option<&[u8]>) -> bool {
    let may_be_empty =
        matches!(data_type, DataType::Text | DataType::Ascii | DataType::Blob | DataType::Custom(_));
    value.is_none_or(|bytes| bytes.is_empty() && !may_be_empty)
}

/// Returns `keyspace.name`, quoted if necessary.
pub fn qualified_name(keyspace: &str, name: &str) -> String {
    format!("{}.{}", quote_identifier(keyspace), quote_identifier(name))
}
