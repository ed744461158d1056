//! Resolves function calls by the rules and messages of Cassandra's `FunctionResolver`.

use std::fmt::{self, Display, Formatter};

use cassette_rows::types::DataType;

use super::{Function, blobs, collections, json, masking, maths, time, vectors};
use crate::ast::{BindMarker, Literal};
use crate::values::literal::{Assignment, preferred_type};
use crate::values::{ValueError, aggregates};

/// The known properties of a call's argument before values exist. [`Display`] writes it as in
/// messages.
pub trait Argument: Display {
    /// Returns how well the argument fits a value of type `wanted`.
    fn assignment(&self, wanted: &DataType) -> Assignment;
    /// Returns the argument's type, if it is known independent of the function.
    fn known_type(&self) -> Option<DataType>;
    /// Whether it is a bind marker without a type hint.
    fn is_marker(&self) -> bool {
        false
    }
    /// Returns the number of elements if the argument is `[a, b]` in a select clause, which can be
    /// a list or a vector.
    fn array_size(&self) -> Option<usize> {
        None
    }
}

/// An argument with a type: a column, a call's result, a term with a type hint.
#[derive(Debug, Clone)]
pub struct TypedArgument {
    /// Its type.
    pub data_type: DataType,
    /// The text in messages.
    pub text: String,
}

impl Display for TypedArgument {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Argument for TypedArgument {
    fn assignment(&self, wanted: &DataType) -> Assignment {
        Assignment::of_type(&self.data_type, wanted)
    }

    fn known_type(&self) -> Option<DataType> {
        Some(self.data_type.clone())
    }
}

impl Argument for Literal {
    fn assignment(&self, wanted: &DataType) -> Assignment {
        Assignment::of_literal(self, wanted)
    }

    fn known_type(&self) -> Option<DataType> {
        preferred_type(self)
    }
}

impl Argument for BindMarker {
    fn is_marker(&self) -> bool {
        true
    }

    fn assignment(&self, _: &DataType) -> Assignment {
        Assignment::Weak
    }

    fn known_type(&self) -> Option<DataType> {
        None
    }
}

/// `null`.
#[derive(Debug, Clone, Copy)]
pub struct NullArgument;

impl Display for NullArgument {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("NULL")
    }
}

impl Argument for NullArgument {
    fn assignment(&self, wanted: &DataType) -> Assignment {
        if wanted.is_counter() { Assignment::No } else { Assignment::Weak }
    }

    fn known_type(&self) -> Option<DataType> {
        None
    }
}

/// Returns the native function that `name` (in lower case) refers to with these arguments, with the
/// type of its target, `receiver`, if that is known. `None` if no function has this name.
pub fn resolve(
    name: &str,
    arguments: &[&dyn Argument],
    receiver: Option<&DataType>,
) -> Result<Option<Function>, ValueError> {
    resolve_among(Name { keyspace: None, name }, Vec::new(), arguments, receiver)
}

/// The name of a function in a call.
#[derive(Debug, Clone, Copy)]
pub struct Name<'a> {
    /// The keyspace, if the call names it.
    pub keyspace: Option<&'a str>,
    /// The name in the keyspace.
    pub name: &'a str,
}

impl Name<'_> {
    /// Whether a native function can have this name: it is unqualified, or in their keyspace.
    pub fn can_be_native(self) -> bool {
        self.keyspace.is_none_or(|keyspace| keyspace == super::SYSTEM)
    }
}

impl Display for Name<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.keyspace {
            Some(keyspace) => write!(f, "{keyspace}.{}", self.name),
            None => f.write_str(self.name),
        }
    }
}

/// [`resolve`] among the native functions and `user_defined` functions with this name.
pub fn resolve_among(
    name: Name<'_>,
    user_defined: Vec<Function>,
    arguments: &[&dyn Argument],
    receiver: Option<&DataType>,
) -> Result<Option<Function>, ValueError> {
    let mut candidates =
        if name.can_be_native() { candidates(name.name, arguments, receiver)? } else { Vec::new() };
    candidates.extend(user_defined);
    match &candidates[..] {
        [] => Ok(None),
        [only] => {
            check(only, arguments)?;
            Ok(Some(only.clone()))
        }
        _ => match pick(&candidates, arguments, receiver) {
            Pick::One(function) => Ok(Some(function)),
            Pick::None => Err(none_matches(&name.to_string(), &candidates)),
            Pick::Many(compatible) => Err(ambiguous(&name.to_string(), &compatible)),
        },
    }
}

/// Creates the error of a call that matches none of these functions.
pub(super) fn none_matches(name: &str, candidates: &[Function]) -> ValueError {
    ValueError::invalid(format!(
        "Invalid call to function {name}, none of its type signatures match (known type signatures: {})",
        list(candidates)
    ))
}

/// Creates the error of a call that matches more than one of these functions.
pub(super) fn ambiguous(name: &str, compatible: &[Function]) -> ValueError {
    ValueError::invalid(format!(
        "Ambiguous call to function {name} (can be matched by following signatures: {}): use type casts to \
         disambiguate",
        list(compatible)
    ))
}

fn candidates(
    name: &str,
    arguments: &[&dyn Argument],
    receiver: Option<&DataType>,
) -> Result<Vec<Function>, ValueError> {
    let scalars = [time::functions, blobs::functions, maths::functions, super::casts::functions];
    for functions in scalars {
        let found = functions(name);
        if !found.is_empty() {
            return Ok(found.into_iter().map(Function::Scalar).collect());
        }
    }
    let factories = [collections::resolve, json::resolve, masking::resolve, vectors::resolve];
    for resolve in factories {
        if let Some(mut function) = resolve(name, arguments, receiver)? {
            function.infers_types = true;
            return Ok(vec![Function::Scalar(function)]);
        }
    }
    let aggregates = aggregates::candidates(name, arguments, receiver)?;
    Ok(aggregates.into_iter().map(Function::Aggregate).collect())
}

/// The result of choosing among several functions.
pub(super) enum Pick {
    One(Function),
    None,
    Many(Vec<Function>),
}

/// Picks the function whose types are exactly those of the arguments, or else the only compatible
/// one.
pub(super) fn pick(
    candidates: &[Function],
    arguments: &[&dyn Argument],
    receiver: Option<&DataType>,
) -> Pick {
    let mut compatible = Vec::new();
    for candidate in candidates {
        let returns =
            receiver.is_none_or(|wanted| Assignment::of_type(candidate.returns(), wanted).is_assignable());
        if !returns || candidate.arguments().len() != arguments.len() {
            continue;
        }
        let types = candidate.arguments().iter();
        match Assignment::all(types.zip(arguments).map(|(wanted, given)| given.assignment(wanted))) {
            Assignment::Exact => return Pick::One(candidate.clone()),
            Assignment::Weak => compatible.push(candidate.clone()),
            Assignment::No => {}
        }
    }
    match compatible.len() {
        0 => Pick::None,
        1 => Pick::One(compatible.remove(0)),
        _ => Pick::Many(compatible),
    }
}

fn check(function: &Function, arguments: &[&dyn Argument]) -> Result<(), ValueError> {
    let name = function.full_name();
    let types = function.arguments();
    if types.len() != arguments.len() {
        return Err(ValueError::invalid(format!(
            "Invalid number of arguments in call to function {name}: {} required but {} provided",
            types.len(),
            arguments.len()
        )));
    }
    for (i, (given, wanted)) in arguments.iter().zip(types).enumerate() {
        if !given.assignment(wanted).is_assignable() {
            return Err(ValueError::invalid(format!(
                "Type error: {given} cannot be passed as argument {i} of function {name} of type {wanted}"
            )));
        }
    }
    Ok(())
}

fn list(functions: &[Function]) -> String {
    functions.iter().map(Function::to_string).collect::<Vec<_>>().join(", ")
}

/// Returns the types of the arguments of a variadic function, for which each must be known;
/// `signature` is the function in messages: `system.map_keys(map)`.
pub(super) fn known_types(
    signature: &str,
    arguments: &[&dyn Argument],
    counts: std::ops::RangeInclusive<usize>,
    fallback: &[Option<DataType>],
) -> Result<Vec<DataType>, ValueError> {
    if !counts.contains(&arguments.len()) {
        return Err(ValueError::invalid(format!("Invalid number of arguments for function {signature}")));
    }
    let known = |(i, argument): (usize, &&dyn Argument)| {
        let known = argument.known_type().or_else(|| fallback.get(i).cloned().flatten());
        known.ok_or_else(|| cannot_infer(*argument, signature))
    };
    arguments.iter().enumerate().map(known).collect()
}

/// Creates the error of an argument without a type in a call of the function `signature`.
pub(super) fn cannot_infer(argument: &dyn Argument, signature: &str) -> ValueError {
    ValueError::invalid(format!(
        "Cannot infer type of argument {argument} in call to function {signature}: use type casts to \
         disambiguate"
    ))
}

/// Creates the error of an unsuitable argument: `what` is, for instance, "a map argument".
pub(super) fn requires(name: &str, what: &str, argument: &dyn Argument, found: &DataType) -> ValueError {
    ValueError::invalid(format!(
        "Function system.{name} requires {what}, but found argument {argument} of type {found}"
    ))
}
