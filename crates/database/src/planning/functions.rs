//! User-defined functions in statements: which ones a call can refer to, and their execution.

use std::sync::Arc;

use cassette_cql::ast;
use cassette_cql::values::ValueError;
use cassette_cql::values::aggregates::AggregateFunction;
use cassette_cql::values::functions::{
    Evaluated, Function, Name, ScalarFunction, UserAggregate, UserFunction,
};
use cassette_functions::CallError;
use cassette_rows::DataType;

use crate::basics::error::Result;
use crate::basics::response::ColumnSpec;
use crate::planning::context::{BindContext, PlanContext};
use crate::schema::catalog::Catalog;
use crate::schema::conditions::Term;
use crate::schema::functions::resource_name;

/// A user-defined function or aggregate that a statement calls.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum UsedFunction {
    Scalar(Arc<UserFunction>),
    Aggregate(Arc<UserAggregate>),
}

impl UsedFunction {
    /// Returns the function of a call; `None` if it is native.
    pub fn of(function: &Function) -> Option<Self> {
        match function {
            Function::Scalar(scalar) => scalar.user_defined().cloned().map(Self::Scalar),
            Function::Aggregate(aggregate) => aggregate.user_defined().cloned().map(Self::Aggregate),
        }
    }

    /// Returns the keyspaces and resource names of all functions that are executed.
    pub fn resources(&self) -> Vec<(&str, String)> {
        let scalar = |function: &Arc<UserFunction>| resource_name(&function.name, &function.argument_types());
        match self {
            Self::Scalar(function) => vec![(&function.keyspace, scalar(function))],
            Self::Aggregate(aggregate) => {
                let own = resource_name(&aggregate.name, &aggregate.arguments);
                let called = std::iter::once(&aggregate.state_function).chain(&aggregate.final_function);
                let called = called.map(|function| (function.keyspace.as_str(), scalar(function)));
                std::iter::once((aggregate.keyspace.as_str(), own)).chain(called).collect()
            }
        }
    }
}

impl PlanContext<'_> {
    /// Notes that the statement calls a function.
    pub fn uses(&mut self, function: &Function) {
        if let Some(used) = UsedFunction::of(function)
            && !self.functions.contains(&used)
        {
            self.functions.push(used);
        }
    }
}

/// Returns the name of a function as written.
pub(crate) fn name_of(name: &ast::QualifiedName) -> Name<'_> {
    Name { keyspace: name.keyspace.as_ref().map(ast::Identifier::as_str), name: name.name.as_str() }
}

/// Returns the user-defined functions and aggregates that `name` can refer to in a statement on
/// `keyspace`.
pub(crate) fn user_defined(name: &ast::QualifiedName, keyspace: &str, catalog: &Catalog) -> Vec<Function> {
    let keyspace = name.keyspace.as_ref().map_or(keyspace, ast::Identifier::as_str);
    let Some(keyspace) = catalog.keyspace(keyspace) else { return Vec::new() };
    let scalars = keyspace.functions_named(&name.name).cloned().map(ScalarFunction::from);
    let aggregates = keyspace.aggregates_named(&name.name).cloned().map(AggregateFunction::from);
    scalars.map(Function::Scalar).chain(aggregates.map(Function::Aggregate)).collect()
}

/// Calls a function, which must be callable with these values.
pub(crate) fn call(
    function: &Arc<UserFunction>,
    values: &[Option<&[u8]>],
    cx: &BindContext<'_>,
) -> Evaluated {
    let called = cx.functions.call(function, values).map_err(|error| value_error(function, error))?;
    if let Some(limit) = called.exceeded {
        let shown = Function::Scalar(ScalarFunction::from(function.clone()));
        let warning = format!("User defined function {shown} ran longer than {}ms", limit.as_millis());
        // Once, although the function is called for each row.
        let mut warnings = cx.warnings.borrow_mut();
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }
    Ok(called.value)
}

/// Returns the error of a failed call.
fn value_error(function: &UserFunction, error: CallError) -> ValueError {
    match error {
        CallError::Refused(message) => ValueError::Invalid(message),
        CallError::Interrupted(reason) => ValueError::Interrupted(reason),
        CallError::Failed(message) => ValueError::FunctionFailure {
            keyspace: function.keyspace.clone(),
            function: function.name.clone(),
            argument_types: function.arguments.iter().map(|(_, data_type)| data_type.to_string()).collect(),
            message,
        },
    }
}

/// Prepares the value of INITCOND for a state of this type.
///
/// # Errors
/// Invalid, with Cassandra's texts, if it is no value of the type.
pub(crate) fn prepare_initial_value(
    raw: &ast::Term,
    state_type: &DataType,
    keyspace: &str,
    catalog: &Catalog,
) -> Result<Term> {
    let mut planning = PlanContext::of_schema(catalog);
    let receiver = Arc::new(ColumnSpec {
        keyspace: keyspace.into(),
        table: "--dummy--".into(),
        name: "(dummy)".into(),
        data_type: state_type.clone(),
    });
    Term::prepare(raw, &receiver, &mut planning)
}
