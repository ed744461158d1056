//! Calls in terms: functions, casts, arithmetic, and `token`.

use std::sync::Arc;

use cassette_cql::ast;
use cassette_cql::values::Assignment;
use cassette_cql::values::functions::{
    self, Evaluated, Function, ScalarFunction, Surroundings, UserFunction,
};
use cassette_rows::{DataType, DecoratedKey, TableMetadata, key};

use super::Bound;
use super::assignment::{TermArgument, resolve_arithmetic, resolve_call, test_assignment};
use crate::basics::error::{DatabaseError, Result, bail_invalid};
use crate::basics::response::ColumnSpec;
use crate::planning::context::{BindContext, PlanContext};
use crate::schema::conditions::{Callable, FunctionTerm, Term};

impl Term {
    /// Prepares `name(arguments)`.
    pub(crate) fn prepare_call(
        call: &ast::FunctionCall,
        receiver: &Arc<ColumnSpec>,
        cx: &mut PlanContext<'_>,
    ) -> Result<Self> {
        if crate::planning::terms::assignment::is_token(call) {
            return prepare_token(call, receiver, cx);
        }
        let name = call.name.name.as_str();
        let resolved = resolve_call(call, Some(&receiver.data_type), &receiver.keyspace, cx)?;
        if let Some(function) = &resolved {
            cx.uses(function);
        }
        match resolved {
            Some(Function::Scalar(function)) => {
                if !fits(&function, receiver) {
                    bail_invalid!(
                        "Type error: cannot assign result of function {}.{} (type {}) to {} (type {})",
                        function.keyspace(),
                        function.name,
                        function.returns,
                        receiver.name,
                        receiver.data_type
                    );
                }
                if function.arguments.len() != call.arguments.len() {
                    bail_invalid!(
                        "Incorrect number of arguments specified for function {} (expected {}, found {})",
                        Function::Scalar(function.clone()),
                        function.arguments.len(),
                        call.arguments.len()
                    );
                }
                prepare_arguments(function, call.arguments.iter(), receiver, cx)
            }
            Some(Function::Aggregate(_)) => {
                bail_invalid!("Aggregation function are not supported in the where clause")
            }
            None => match &call.name.keyspace {
                Some(keyspace) => bail_invalid!("Unknown function {}.{name} called", keyspace.as_str()),
                None => bail_invalid!("Unknown function {name} called"),
            },
        }
    }

    /// Prepares `CAST(inner AS to)`.
    pub(crate) fn prepare_cast(
        inner: &ast::Term,
        to: ast::NativeType,
        receiver: &Arc<ColumnSpec>,
        cx: &mut PlanContext<'_>,
    ) -> Result<Self> {
        let argument = TermArgument { raw: inner, keyspace: &receiver.keyspace, cx };
        let function = functions::resolve_cast_for(&argument, to, &receiver.data_type)?;
        prepare_operation(function, "cast", [inner], receiver, cx)
    }

    /// Prepares `left operator right`.
    pub(crate) fn prepare_arithmetic(
        left: &ast::Term,
        operator: ast::ArithmeticOperator,
        right: &ast::Term,
        receiver: &Arc<ColumnSpec>,
        cx: &mut PlanContext<'_>,
    ) -> Result<Self> {
        let wanted = Some(&receiver.data_type);
        let function = resolve_arithmetic(left, operator, right, wanted, &receiver.keyspace, cx)?;
        prepare_operation(function, &operator.symbol().to_string(), [left, right], receiver, cx)
    }

    /// Prepares `-inner`.
    pub(crate) fn prepare_negation(
        inner: &ast::Term,
        receiver: &Arc<ColumnSpec>,
        cx: &mut PlanContext<'_>,
    ) -> Result<Self> {
        let argument = TermArgument { raw: inner, keyspace: &receiver.keyspace, cx };
        let function = functions::resolve_negation(&argument, Some(&receiver.data_type))?;
        prepare_operation(function, "-", [inner], receiver, cx)
    }
}

fn fits(function: &ScalarFunction, receiver: &ColumnSpec) -> bool {
    Assignment::of_result(&function.returns, &receiver.data_type).is_assignable()
}

fn prepare_operation<const N: usize>(
    function: ScalarFunction,
    operator: &str,
    arguments: [&ast::Term; N],
    receiver: &Arc<ColumnSpec>,
    cx: &mut PlanContext<'_>,
) -> Result<Term> {
    if !fits(&function, receiver) {
        bail_invalid!(
            "Type error: cannot assign result of operation {operator} (type {}) to {} (type {})",
            function.returns,
            receiver.name,
            receiver.data_type
        );
    }
    prepare_arguments(function, arguments.into_iter(), receiver, cx)
}

fn prepare_arguments<'a>(
    function: ScalarFunction,
    arguments: impl Iterator<Item = &'a ast::Term>,
    receiver: &ColumnSpec,
    cx: &mut PlanContext<'_>,
) -> Result<Term> {
    let types = function.arguments.clone();
    let name = format!("{}.{}", function.keyspace(), function.name);
    let arguments = prepare_each(&name, &types, arguments, receiver, cx)?;
    Ok(Term::Function(Box::new(FunctionTerm { function: Callable::Function(function), arguments })))
}

fn prepare_each<'a>(
    function: &str,
    types: &[DataType],
    arguments: impl Iterator<Item = &'a ast::Term>,
    receiver: &ColumnSpec,
    cx: &mut PlanContext<'_>,
) -> Result<Vec<Term>> {
    let mut terms = Vec::with_capacity(types.len());
    for (i, (raw, data_type)) in arguments.zip(types).enumerate() {
        let argument = Arc::new(ColumnSpec {
            name: format!("arg{i}({function})").into(),
            data_type: data_type.clone(),
            ..receiver.clone()
        });
        terms.push(Term::prepare(raw, &argument, cx)?);
    }
    Ok(terms)
}

/// Prepares `token(v, w)` of values: the token of the partition of the receiver's table with this
/// key.
fn prepare_token(
    call: &ast::FunctionCall,
    receiver: &Arc<ColumnSpec>,
    cx: &mut PlanContext<'_>,
) -> Result<Term> {
    let table = cx.catalog.require_table(&receiver.keyspace, &receiver.table)?.clone();
    let types: Vec<DataType> = table.partition_key.iter().map(|column| column.data_type.clone()).collect();
    if !Assignment::of_type(&DataType::BigInt, &receiver.data_type).is_assignable() {
        bail_invalid!(
            "Type error: cannot assign result of function system.token (type bigint) to {} (type {})",
            receiver.name,
            receiver.data_type
        );
    }
    if call.arguments.len() != types.len() {
        bail_invalid!(
            "Invalid number of arguments in call to function system.token: {} required but {} provided",
            types.len(),
            call.arguments.len()
        );
    }
    for (i, (raw, data_type)) in call.arguments.iter().zip(&types).enumerate() {
        if !test_assignment(raw, data_type, &receiver.keyspace, cx).is_assignable() {
            let argument = TermArgument { raw, keyspace: &receiver.keyspace, cx };
            bail_invalid!(
                "Type error: {argument} cannot be passed as argument {i} of function system.token of type \
                 {data_type}"
            );
        }
    }
    let arguments = prepare_each("system.token", &types, call.arguments.iter(), receiver, cx)?;
    Ok(Term::Function(Box::new(FunctionTerm { function: Callable::Token(table), arguments })))
}

impl FunctionTerm {
    /// Returns the result in one execution; `None` is null.
    pub(crate) fn call<'a>(&'a self, cx: &BindContext<'a>) -> Result<Option<Vec<u8>>> {
        let mut values = Vec::with_capacity(self.arguments.len());
        for argument in &self.arguments {
            match argument.bind(cx)? {
                Bound::Unset => {
                    bail_invalid!("Invalid unset value for argument in call to function {}", self.name())
                }
                bound => values.push(bound),
            }
        }
        let values: Vec<Option<&[u8]>> = values.iter().map(Bound::value).collect();
        match &self.function {
            Callable::Function(function) => Ok(function.evaluate(&values, cx)?),
            Callable::Token(table) => token(table, &values),
        }
    }

    fn name(&self) -> &str {
        match &self.function {
            Callable::Function(function) => &function.name,
            Callable::Token(_) => "token",
        }
    }
}

fn token(table: &TableMetadata, values: &[Option<&[u8]>]) -> Result<Option<Vec<u8>>> {
    let Some(components) = values.iter().copied().collect::<Option<Vec<_>>>() else { return Ok(None) };
    let key = key::compose(components.into_iter())
        .ok_or_else(|| DatabaseError::Invalid(format!("Key of {} is too long", table.qualified_name())))?;
    Ok(Some(DecoratedKey::new(key).token().0.to_be_bytes().to_vec()))
}

impl Surroundings for BindContext<'_> {
    fn now_us(&self) -> i64 {
        self.now_micros
    }

    fn next_time_uuid(&self) -> [u8; 16] {
        *self.uuids.next_time_uuid().as_bytes()
    }

    fn random_uuid(&self) -> [u8; 16] {
        *self.uuids.random_uuid().as_bytes()
    }

    fn call(&self, function: &Arc<UserFunction>, values: &[Option<&[u8]>]) -> Evaluated {
        crate::planning::functions::call(function, values, self)
    }
}
