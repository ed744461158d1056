//! Assignability of terms to types, and the types of terms.

use std::fmt;

use cassette_cql::ast;
use cassette_cql::values::functions::{self, Argument, Function, NullArgument, ScalarFunction};
use cassette_cql::values::{Assignment, ValueError, preferred_type};
use cassette_rows::DataType;

use crate::planning::context::PlanContext;
use crate::planning::functions::{name_of, user_defined};
use crate::schema::catalog::{TypeUse, resolve_type};

/// A term as an argument for the choice of a function.
pub(crate) struct TermArgument<'a, 'c> {
    pub raw: &'a ast::Term,
    /// The keyspace of the statement, for user-defined types.
    pub keyspace: &'a str,
    pub cx: &'a PlanContext<'c>,
}

impl fmt::Display for TermArgument<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.raw.shown(Some(self.keyspace)).fmt(f)
    }
}

impl Argument for TermArgument<'_, '_> {
    fn is_marker(&self) -> bool {
        matches!(self.raw, ast::Term::BindMarker(_))
    }

    fn assignment(&self, wanted: &DataType) -> Assignment {
        test_assignment(self.raw, wanted, self.keyspace, self.cx)
    }

    fn known_type(&self) -> Option<DataType> {
        known_type(self.raw, self.keyspace, self.cx)
    }
}

/// Returns how well `raw` fits the type `wanted`, in a statement on `keyspace`.
pub(crate) fn test_assignment(
    raw: &ast::Term,
    wanted: &DataType,
    keyspace: &str,
    cx: &PlanContext<'_>,
) -> Assignment {
    let test = |raw: &ast::Term, wanted: &DataType| test_assignment(raw, wanted, keyspace, cx);
    let weakly = |fits: bool| if fits { Assignment::Weak } else { Assignment::No };
    // Tuples and UDTs contain the error of a list that its preparation would return.
    let fits = |raw: &ast::Term, wanted: &DataType| match (raw, wanted) {
        (ast::Term::List(_), DataType::List { .. } | DataType::Vector { .. }) => {
            test(raw, wanted).is_assignable()
        }
        (ast::Term::List(_), _) => false,
        _ => test(raw, wanted).is_assignable(),
    };
    match raw {
        ast::Term::Null => NullArgument.assignment(wanted),
        ast::Term::Literal(literal) => Assignment::of_literal(literal, wanted),
        ast::Term::BindMarker(_) => Assignment::Weak,
        ast::Term::List(elements) => match wanted {
            DataType::List { .. } if elements.is_empty() => Assignment::Weak,
            DataType::List { element, .. } => Assignment::all(elements.iter().map(|raw| test(raw, element))),
            DataType::Vector { element, dimension } if elements.len() == *dimension as usize => {
                Assignment::all(elements.iter().map(|raw| test(raw, element)))
            }
            DataType::Vector { .. } => Assignment::No,
            // As in Cassandra, its preparation returns the error.
            _ => Assignment::Weak,
        },
        ast::Term::Set(elements) => match wanted {
            DataType::Set { .. } | DataType::Map { .. } if elements.is_empty() => Assignment::Weak,
            DataType::Set { element, .. } => Assignment::all(elements.iter().map(|raw| test(raw, element))),
            _ => Assignment::No,
        },
        ast::Term::Map(entries) => match wanted {
            DataType::Map { key, value, .. } => {
                Assignment::all(entries.iter().flat_map(|(k, v)| [test(k, key), test(v, value)]))
            }
            _ => Assignment::No,
        },
        ast::Term::UserType(fields) => match wanted {
            DataType::Udt { definition, .. } => weakly(
                fields
                    .iter()
                    .all(|(name, raw)| definition.field(name).is_none_or(|(_, field)| fits(raw, field))),
            ),
            _ => Assignment::No,
        },
        ast::Term::Tuple(elements) => match (wanted, &elements[..]) {
            (DataType::Tuple(items), _) => weakly(
                elements.len() <= items.len()
                    && elements.iter().zip(items.iter()).all(|(raw, item)| fits(raw, item)),
            ),
            (DataType::Udt { definition, .. }, _) => weakly(
                elements.len() <= definition.fields.len()
                    && elements.iter().zip(&definition.fields).all(|(raw, (_, field))| fits(raw, field)),
            ),
            (_, [only]) => test(only, wanted),
            _ => Assignment::No,
        },
        ast::Term::TypeHint(hint, _) => match resolve_hint(hint, keyspace, cx) {
            Some(hinted) => Assignment::of_cast(&hinted, wanted),
            None => Assignment::No,
        },
        // An invalid call is assignable: its preparation returns the error.
        ast::Term::Function(_) | ast::Term::Cast(..) | ast::Term::Arithmetic(..) | ast::Term::Negated(_) => {
            match call_type(raw, Some(wanted), keyspace, cx) {
                Some(CallType::Fixed(returned)) => Assignment::of_cast(&returned, wanted),
                // As in Cassandra, its preparation returns the error.
                Some(CallType::Inferred(_)) | None => Assignment::Weak,
            }
        }
    }
}

/// Returns the type of `raw`, if it does not depend on the receiver.
fn known_type(raw: &ast::Term, keyspace: &str, cx: &PlanContext<'_>) -> Option<DataType> {
    let known = |raw: &ast::Term| known_type(raw, keyspace, cx);
    let first = |elements: &[ast::Term]| elements.iter().find_map(known);
    match raw {
        // `[1, 2]` can be a list or a vector.
        ast::Term::Null | ast::Term::BindMarker(_) | ast::Term::UserType(_) | ast::Term::List(_) => None,
        ast::Term::Literal(literal) => preferred_type(literal),
        ast::Term::Set(elements) => Some(DataType::set(first(elements)?).freeze()),
        ast::Term::Map(entries) => {
            let key = entries.iter().find_map(|(key, _)| known(key))?;
            let value = entries.iter().find_map(|(_, value)| known(value))?;
            Some(DataType::map(key, value).freeze())
        }
        ast::Term::Tuple(elements) => match &elements[..] {
            [only] => known(only),
            _ => Some(DataType::tuple(elements.iter().map(known).collect::<Option<Vec<_>>>()?)),
        },
        ast::Term::TypeHint(hint, _) => resolve_hint(hint, keyspace, cx),
        call => match call_type(call, None, keyspace, cx)? {
            CallType::Fixed(returned) | CallType::Inferred(returned) => Some(returned),
        },
    }
}

/// The type of a call's result.
enum CallType {
    /// That of a function with fixed types.
    Fixed(DataType),
    /// That of a function whose types follow from its arguments.
    Inferred(DataType),
}

fn resolve_hint(hint: &ast::CqlType, keyspace: &str, cx: &PlanContext<'_>) -> Option<DataType> {
    let keyspace = cx.catalog.keyspace(keyspace)?;
    resolve_type(hint, TypeUse { keyspace: &keyspace.name, types: &keyspace.types }).ok()
}

/// Returns the type of a call's result; `None` if the call is invalid.
fn call_type(
    raw: &ast::Term,
    wanted: Option<&DataType>,
    keyspace: &str,
    cx: &PlanContext<'_>,
) -> Option<CallType> {
    let fixed = |function: ScalarFunction| Some(CallType::Fixed(function.returns));
    match raw {
        ast::Term::Function(call) if is_token(call) => Some(CallType::Fixed(DataType::BigInt)),
        ast::Term::Function(call) => {
            let function = resolve_call(call, wanted, keyspace, cx).ok()??;
            let returns = function.returns().clone();
            Some(if function.infers_types() { CallType::Inferred(returns) } else { CallType::Fixed(returns) })
        }
        ast::Term::Cast(inner, to) => match wanted {
            Some(wanted) => {
                let argument = TermArgument { raw: inner, keyspace, cx };
                fixed(functions::resolve_cast_for(&argument, *to, wanted).ok()?)
            }
            None => Some(CallType::Fixed(to.data_type())),
        },
        ast::Term::Arithmetic(left, operator, right) => {
            fixed(resolve_arithmetic(left, *operator, right, wanted, keyspace, cx).ok()?)
        }
        ast::Term::Negated(inner) => {
            let argument = TermArgument { raw: inner, keyspace, cx };
            fixed(functions::resolve_negation(&argument, wanted).ok()?)
        }
        _ => None,
    }
}

/// Whether `call` is `token`, whose arguments are a table's partition key.
pub(crate) fn is_token(call: &ast::FunctionCall) -> bool {
    name_of(&call.name).can_be_native() && call.name.name == "token"
}

/// Returns the function of a call; `None` if none has its name.
pub(crate) fn resolve_call(
    call: &ast::FunctionCall,
    wanted: Option<&DataType>,
    keyspace: &str,
    cx: &PlanContext<'_>,
) -> Result<Option<Function>, ValueError> {
    let user_defined = user_defined(&call.name, keyspace, cx.catalog);
    let arguments: Vec<_> = call.arguments.iter().map(|raw| TermArgument { raw, keyspace, cx }).collect();
    let arguments: Vec<&dyn Argument> = arguments.iter().map(|argument| argument as &dyn Argument).collect();
    functions::resolve_among(name_of(&call.name), user_defined, &arguments, wanted)
}

pub(crate) fn resolve_arithmetic(
    left: &ast::Term,
    operator: ast::ArithmeticOperator,
    right: &ast::Term,
    wanted: Option<&DataType>,
    keyspace: &str,
    cx: &PlanContext<'_>,
) -> Result<ScalarFunction, ValueError> {
    let left = TermArgument { raw: left, keyspace, cx };
    let right = TermArgument { raw: right, keyspace, cx };
    functions::resolve_arithmetic(operator, &left, &right, wanted)
}
