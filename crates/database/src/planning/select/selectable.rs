//! Selectors resolved against a table: columns found, functions chosen. A second step builds
//! expressions from them, once the expected types are known.

use std::fmt;
use std::sync::Arc;

use cassette_cql::ast::{self, ArithmeticOperator, Identifier, NativeType, Selector};
use cassette_cql::values::functions::{self, Argument, Function, NullArgument};
use cassette_cql::values::{Assignment, aggregates::AggregateFunction, preferred_type};
use cassette_rows::types::UserType;
use cassette_rows::{ColumnMetadata, DataType, TableMetadata};

use super::cell_times::CellTime;
use crate::basics::error::{Result, bail_invalid};
use crate::planning::context::PlanContext;
use crate::planning::functions::{name_of, user_defined};
use crate::planning::restrictions::existing;
use crate::planning::terms::test_assignment;
use crate::schema::catalog::{TypeUse, resolve_type};

/// A resolved selector.
#[derive(Debug)]
pub(crate) enum Selectable<'a> {
    Column(Arc<ColumnMetadata>),
    /// A constant, `null` or a marker.
    Term(ast::Term),
    /// `writetime(of)` and similar functions; `column` is the column of which `of` is a part.
    CellTime {
        what: CellTime,
        column: Arc<ColumnMetadata>,
        of: Box<Selectable<'a>>,
    },
    /// A call of a native function, or an operator.
    Call {
        function: Function,
        arguments: Vec<Selectable<'a>>,
    },
    /// `token(…)`
    Token(Vec<Selectable<'a>>),
    Cast(Box<Selectable<'a>>, NativeType),
    Field(Box<Selectable<'a>>, &'a Identifier),
    Element(Box<Selectable<'a>>, &'a ast::Term),
    Slice(Box<Selectable<'a>>, Option<&'a ast::Term>, Option<&'a ast::Term>),
    TypeHint {
        text: String,
        data_type: DataType,
        of: Box<Selectable<'a>>,
    },
    /// A tuple, or one selector in parentheses.
    Tuple(Vec<Selectable<'a>>),
    /// A list or a vector.
    List(Vec<Selectable<'a>>),
    /// A set, or the empty map.
    Set(Vec<Selectable<'a>>),
    MapOrUserType(Vec<(EntryKey<'a>, Selectable<'a>)>),
}

/// The left-hand side of an entry of a map or UDT.
#[derive(Debug)]
pub(crate) enum EntryKey<'a> {
    /// A field of a UDT, or a column that is the key of a map and still unresolved.
    Name(&'a Identifier),
    /// A key of a map.
    Key(Selectable<'a>),
}

/// The context of a selector.
#[derive(Clone, Copy)]
pub(crate) struct Scope<'s, 'c> {
    pub table: &'s TableMetadata,
    pub cx: &'s PlanContext<'c>,
}

impl<'a> Selectable<'a> {
    /// Resolves `selector`.
    ///
    /// # Errors
    /// Invalid, with Cassandra's texts, for columns and functions that do not exist.
    pub fn resolve(selector: &'a Selector, scope: Scope<'_, '_>) -> Result<Self> {
        let boxed = |selector: &'a Selector| Self::resolve(selector, scope).map(Box::new);
        let each = |selectors: &'a [Selector]| {
            selectors.iter().map(|selector| Self::resolve(selector, scope)).collect::<Result<Vec<_>>>()
        };
        Ok(match selector {
            Selector::Column(name) => Self::Column(existing(scope.table, name)?),
            Selector::Literal(literal) => Self::Term(ast::Term::Literal(literal.clone())),
            Selector::Null => Self::Term(ast::Term::Null),
            Selector::BindMarker(marker) => Self::Term(ast::Term::BindMarker(marker.clone())),
            Selector::CountRows => Self::count_rows(),
            Selector::WriteTime(of) => Self::cell_time(CellTime::WriteTime, of, scope)?,
            Selector::MaxWriteTime(of) => Self::cell_time(CellTime::MaxWriteTime, of, scope)?,
            Selector::Ttl(of) => Self::cell_time(CellTime::Ttl, of, scope)?,
            Selector::Cast(of, native) => Self::Cast(boxed(of)?, *native),
            Selector::Function(name, arguments) => Self::call(name, arguments, scope)?,
            Selector::Field(of, field) => Self::Field(boxed(of)?, field),
            Selector::Element(of, key) => Self::Element(boxed(of)?, key),
            Selector::Slice(of, from, to) => Self::Slice(boxed(of)?, from.as_ref(), to.as_ref()),
            Selector::TypeHint(hint, of) => {
                let of = boxed(of)?;
                let keyspace = scope.cx.catalog.require_keyspace(&scope.table.keyspace)?;
                let types = TypeUse { keyspace: &keyspace.name, types: &keyspace.types };
                Self::TypeHint {
                    text: hint.shown(Some(&keyspace.name)).to_string(),
                    data_type: resolve_type(hint, types)?.freeze(),
                    of,
                }
            }
            Selector::Tuple(elements) => Self::Tuple(each(elements)?),
            Selector::List(elements) => Self::List(each(elements)?),
            Selector::Set(elements) => Self::Set(each(elements)?),
            Selector::MapOrUserType(entries) => {
                let entry = |(key, value): &'a (Selector, Selector)| {
                    let key = match key {
                        Selector::Column(name) => EntryKey::Name(name),
                        key => EntryKey::Key(Self::resolve(key, scope)?),
                    };
                    Ok((key, Self::resolve(value, scope)?))
                };
                Self::MapOrUserType(entries.iter().map(entry).collect::<Result<Vec<_>>>()?)
            }
            Selector::Arithmetic(left, operator, right) => {
                let (left, right) = (Self::resolve(left, scope)?, Self::resolve(right, scope)?);
                let function = functions::resolve_arithmetic(
                    *operator,
                    &left.within(scope),
                    &right.within(scope),
                    None,
                )?;
                Self::Call { function: Function::Scalar(function), arguments: vec![left, right] }
            }
            Selector::Negated(of) => {
                let of = Self::resolve(of, scope)?;
                let function = functions::resolve_negation(&of.within(scope), None)?;
                Self::Call { function: Function::Scalar(function), arguments: vec![of] }
            }
        })
    }

    fn count_rows() -> Self {
        Self::Call { function: Function::Aggregate(AggregateFunction::count_rows()), arguments: Vec::new() }
    }

    fn cell_time(what: CellTime, of: &'a Selector, scope: Scope<'_, '_>) -> Result<Self> {
        let mut root = of;
        while let Selector::Field(inner, _) | Selector::Element(inner, _) | Selector::Slice(inner, ..) = root
        {
            root = inner;
        }
        let Selector::Column(name) = root else {
            bail_invalid!("{}() can be used on columns only, not on {root}", what.name());
        };
        let column = existing(scope.table, name)?;
        Ok(Self::CellTime { what, column, of: Box::new(Self::resolve(of, scope)?) })
    }

    fn call(name: &ast::QualifiedName, raw: &'a [Selector], scope: Scope<'_, '_>) -> Result<Self> {
        let arguments =
            raw.iter().map(|selector| Self::resolve(selector, scope)).collect::<Result<Vec<_>>>()?;
        let function = name.name.as_str();
        let is_native = name_of(name).can_be_native();
        // Every row counts, whatever the constant.
        if is_native && function == "count" && matches!(raw, [Selector::Literal(_)]) {
            return Ok(Self::count_rows());
        }
        if is_native && function == "token" {
            check_token(&arguments, scope)?;
            return Ok(Self::Token(arguments));
        }
        let scoped: Vec<_> = arguments.iter().map(|argument| argument.within(scope)).collect();
        let known: Vec<&dyn Argument> = scoped.iter().map(|argument| argument as &dyn Argument).collect();
        let user_defined = user_defined(name, &scope.table.keyspace, scope.cx.catalog);
        let resolved = functions::resolve_among(name_of(name), user_defined, &known, None)?;
        match (resolved, &name.keyspace) {
            (Some(function), _) => Ok(Self::Call { function, arguments }),
            (None, Some(keyspace)) => bail_invalid!("Unknown function '{}.{function}'", keyspace.as_str()),
            (None, None) => bail_invalid!("Unknown function '{function}'"),
        }
    }

    /// Returns the selectable as an argument for the choice of a function.
    pub fn within<'s, 'c>(&'s self, scope: Scope<'s, 'c>) -> InScope<'s, 'a, 'c> {
        InScope { selectable: self, scope }
    }

    /// Whether a column for which `predicate` holds is selected.
    pub fn selects(&self, predicate: &dyn Fn(&ColumnMetadata) -> bool) -> bool {
        let any = |all: &[Self]| all.iter().any(|each| each.selects(predicate));
        match self {
            Self::Column(column) => predicate(column),
            Self::Term(_) => false,
            Self::CellTime { of, .. }
            | Self::Cast(of, _)
            | Self::Field(of, _)
            | Self::Element(of, _)
            | Self::Slice(of, ..)
            | Self::TypeHint { of, .. } => of.selects(predicate),
            Self::Call { arguments: parts, .. }
            | Self::Token(parts)
            | Self::Tuple(parts)
            | Self::List(parts)
            | Self::Set(parts) => any(parts),
            Self::MapOrUserType(entries) => entries.iter().any(|(_, value)| value.selects(predicate)),
        }
    }

    /// Returns the type of its values, if it does not depend on the expected type.
    pub fn exact_type(&self) -> Option<DataType> {
        let first = |elements: &[Self]| elements.iter().find_map(Self::exact_type);
        match self {
            Self::Column(column) => Some(column.data_type.clone()),
            Self::Term(_) | Self::MapOrUserType(_) => None,
            Self::CellTime { what, column, .. } => Some(what.data_type(column.data_type.is_multi_cell())),
            Self::Call { function, .. } => Some(function.returns().clone()),
            Self::Token(_) => Some(DataType::BigInt),
            Self::Cast(_, native) => Some(native.data_type()),
            Self::Field(of, field) => match of.exact_type()? {
                DataType::Udt { definition, .. } => definition.field(field).map(|(_, field)| field.clone()),
                _ => None,
            },
            Self::Element(of, _) => element_type(&of.exact_type()?),
            Self::Slice(of, ..) => of.exact_type().filter(|data_type| element_type(data_type).is_some()),
            Self::TypeHint { data_type, .. } => Some(data_type.clone()),
            // One element may be a tuple or a selector in parentheses.
            Self::Tuple(elements) if elements.len() == 1 => None,
            Self::Tuple(elements) => {
                Some(DataType::tuple(elements.iter().map(Self::exact_type).collect::<Option<Vec<_>>>()?))
            }
            Self::List(elements) => Some(DataType::list(first(elements)?).freeze()),
            Self::Set(elements) => Some(DataType::set(first(elements)?).freeze()),
        }
    }

    /// Returns a type that it is compatible with, if no type is expected.
    fn compatible_type(&self) -> Option<DataType> {
        let common = |elements: &[Self]| {
            let types: Vec<_> = elements.iter().filter_map(Self::compatible_type).collect();
            let fits = |wanted: &&DataType| {
                types.iter().all(|given| Assignment::of_type(given, wanted).is_assignable())
            };
            types.iter().find(fits).cloned()
        };
        match self {
            Self::Term(ast::Term::Literal(literal)) => preferred_type(literal),
            Self::Tuple(elements) if elements.len() > 1 => {
                let types = elements.iter().map(Self::compatible_type).collect::<Option<Vec<_>>>();
                Some(DataType::tuple(types?))
            }
            Self::List(elements) => Some(DataType::list(common(elements)?).freeze()),
            Self::Set(elements) => Some(DataType::set(common(elements)?).freeze()),
            other => other.exact_type(),
        }
    }

    /// Rejects names of entries that are no fields of the expected UDT, or no columns, if a map is
    /// expected.
    pub fn check_names(&self, wanted: &DataType, table: &TableMetadata) -> Result<()> {
        let Self::MapOrUserType(entries) = self else { return Ok(()) };
        for (key, _) in entries {
            match (key, wanted) {
                (EntryKey::Name(name), DataType::Map { .. }) => {
                    existing(table, name)?;
                }
                (EntryKey::Name(name), DataType::Udt { definition, .. }) => {
                    field_of(definition, name)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns how well it fits an expected type.
    pub fn assignment(&self, wanted: &DataType, scope: Scope<'_, '_>) -> Assignment {
        let all = |elements: &[Self], wanted: &DataType| {
            Assignment::all(elements.iter().map(|element| element.assignment(wanted, scope)))
        };
        let weakly = |fits: bool| if fits { Assignment::Weak } else { Assignment::No };
        match (self, wanted) {
            (Self::Term(term), _) => test_assignment(term, wanted, &scope.table.keyspace, scope.cx),
            (Self::Tuple(elements), DataType::Tuple(items)) => weakly(
                elements.len() <= items.len()
                    && elements
                        .iter()
                        .zip(items.iter())
                        .all(|(element, item)| element.assignment(item, scope).is_assignable()),
            ),
            (Self::Tuple(elements), _) => match &elements[..] {
                [only] => only.assignment(wanted, scope),
                _ => Assignment::No,
            },
            (Self::List(elements), DataType::List { element, .. }) => {
                if elements.is_empty() {
                    Assignment::Weak
                } else {
                    all(elements, element)
                }
            }
            (Self::List(elements), DataType::Vector { element, dimension }) => {
                if elements.len() == *dimension as usize { all(elements, element) } else { Assignment::No }
            }
            (Self::Set(elements), DataType::Set { .. } | DataType::Map { .. }) if elements.is_empty() => {
                Assignment::Weak
            }
            (Self::Set(elements), DataType::Set { element, .. }) => all(elements, element),
            (Self::MapOrUserType(entries), DataType::Map { key, value, .. }) => {
                let fit = |(k, v): &(EntryKey<'a>, Self)| {
                    let k = match k {
                        EntryKey::Name(name) => existing(scope.table, name)
                            .map_or(Assignment::No, |column| Self::Column(column).assignment(key, scope)),
                        EntryKey::Key(k) => k.assignment(key, scope),
                    };
                    Assignment::all([k, v.assignment(value, scope)])
                };
                Assignment::all(entries.iter().map(fit))
            }
            (Self::MapOrUserType(entries), DataType::Udt { definition, .. }) => {
                weakly(entries.iter().all(|(name, value)| {
                    match name {
                        EntryKey::Name(name) => definition
                            .field(name)
                            .is_some_and(|(_, field)| value.assignment(field, scope).is_assignable()),
                        EntryKey::Key(_) => false,
                    }
                }))
            }
            (Self::List(_) | Self::Set(_) | Self::MapOrUserType(_), _) => Assignment::No,
            (other, _) => match other.exact_type() {
                Some(given) => Assignment::of_type(&given, wanted),
                None => Assignment::No,
            },
        }
    }
}

/// Returns the position and the type of a field of a UDT.
pub(crate) fn field_of<'t>(definition: &'t UserType, name: &Identifier) -> Result<(usize, &'t DataType)> {
    match definition.field(name) {
        Some(field) => Ok(field),
        None => bail_invalid!(
            "Unknown field '{}' in value of user defined type {}",
            name.as_str(),
            definition.name
        ),
    }
}

/// Returns the type of `collection[key]`. List elements cannot be selected; the type of their paths
/// is returned for the message.
pub(crate) fn element_type(collection: &DataType) -> Option<DataType> {
    match collection {
        DataType::Map { value, .. } => Some((**value).clone()),
        DataType::Set { element, .. } => Some((**element).clone()),
        DataType::List { .. } => Some(DataType::TimeUuid),
        _ => None,
    }
}

/// Checks that the arguments of `token` have the types of the partition key.
fn check_token(arguments: &[Selectable<'_>], scope: Scope<'_, '_>) -> Result<()> {
    let key = &scope.table.partition_key;
    if arguments.len() != key.len() {
        bail_invalid!(
            "Invalid number of arguments in call to function system.token: {} required but {} provided",
            key.len(),
            arguments.len()
        );
    }
    for (i, (argument, column)) in arguments.iter().zip(key).enumerate() {
        if !argument.assignment(&column.data_type, scope).is_assignable() {
            bail_invalid!(
                "Type error: {argument} cannot be passed as argument {i} of function system.token of type {}",
                column.data_type
            );
        }
    }
    Ok(())
}

/// A selectable with the context that determines its type.
pub(crate) struct InScope<'s, 'a, 'c> {
    selectable: &'s Selectable<'a>,
    scope: Scope<'s, 'c>,
}

impl Argument for InScope<'_, '_, '_> {
    fn assignment(&self, wanted: &DataType) -> Assignment {
        match (self.selectable, wanted) {
            // As in Cassandra, the type of such an argument is that of its elements, frozen or not.
            (Selectable::List(elements), DataType::List { element, .. })
            | (Selectable::Set(elements), DataType::Set { element, .. })
                if !elements.is_empty() =>
            {
                Assignment::all(elements.iter().map(|each| match each.exact_type() {
                    Some(given) if given.freeze() == **element => Assignment::Exact,
                    _ => each.assignment(element, self.scope),
                }))
            }
            _ => self.selectable.assignment(wanted, self.scope),
        }
    }

    fn known_type(&self) -> Option<DataType> {
        self.selectable.compatible_type()
    }

    fn array_size(&self) -> Option<usize> {
        match self.selectable {
            Selectable::List(elements) => Some(elements.len()),
            _ => None,
        }
    }
}

impl fmt::Display for InScope<'_, '_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.selectable.fmt(f)
    }
}

/// Formats a call as Cassandra's column name: `system.min(k)`, `count`, `a + b`, `cast(a as text)`.
pub(crate) fn call_text(function: &Function, arguments: &[String]) -> String {
    let operator = |name: &str| {
        Some(match name {
            "_add" => ArithmeticOperator::Add,
            "_substract" => ArithmeticOperator::Subtract,
            "_multiply" => ArithmeticOperator::Multiply,
            "_divide" => ArithmeticOperator::Divide,
            "_modulo" => ArithmeticOperator::Modulo,
            _ => return None,
        })
    };
    // A user-defined function can have the name of an operator.
    let native = if function.keyspace() == "system" { function.name() } else { "" };
    match (function, arguments, operator(native)) {
        (Function::Aggregate(_), [], _) if native == "count_rows" => "count".to_owned(),
        (Function::Scalar(_), [only], _) if native == "_negate" => format!("-{only}"),
        (Function::Scalar(_), [left, right], Some(operator)) => {
            format!("{left} {} {right}", operator.symbol())
        }
        (Function::Scalar(scalar), [only], _) if is_cast(native) => {
            format!("cast({only} as {})", scalar.returns)
        }
        _ => format!("{}({})", function.full_name(), arguments.join(", ")),
    }
}

/// Whether the name of a native function is that of a cast, in 5.0 or before.
fn is_cast(name: &str) -> bool {
    name.starts_with("cast_as_") || name.starts_with("castas")
}

/// Formats a term for messages and column names: strings are in quotes, without escapes.
pub(crate) fn term_text(term: &ast::Term) -> String {
    match term {
        ast::Term::Null => NullArgument.to_string(),
        ast::Term::Literal(literal) if literal.kind == ast::LiteralKind::String => {
            format!("'{}'", literal.text)
        }
        term => term.to_string(),
    }
}

/// `m['a'..'b']`
pub(crate) fn slice_text(of: &dyn fmt::Display, from: Option<&ast::Term>, to: Option<&ast::Term>) -> String {
    let text = |term: Option<&ast::Term>| term.map(term_text).unwrap_or_default();
    format!("{of}[{}..{}]", text(from), text(to))
}

/// Formats selectables for messages: columns unqualified, functions with their keyspace.
impl fmt::Display for Selectable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let joined =
            |elements: &[Self]| elements.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        match self {
            Self::Column(column) => f.write_str(&column.name),
            // Cassandra omits the names of markers.
            Self::Term(ast::Term::BindMarker(_)) => f.write_str("?"),
            Self::Term(term) => f.write_str(&term_text(term)),
            Self::CellTime { what, of, .. } => write!(f, "{}({of})", what.name()),
            Self::Call { function, arguments } => {
                let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
                f.write_str(&call_text(function, &arguments))
            }
            Self::Token(arguments) => write!(f, "system.token({})", joined(arguments)),
            Self::Cast(of, native) => write!(f, "cast({of} as {native})"),
            Self::Field(of, field) => write!(f, "{of}.{}", field.as_str()),
            Self::Element(of, key) => write!(f, "{of}[{}]", term_text(key)),
            Self::Slice(of, from, to) => f.write_str(&slice_text(of, *from, *to)),
            Self::TypeHint { text, of, .. } => write!(f, "({text}){of}"),
            Self::Tuple(elements) => write!(f, "({})", joined(elements)),
            Self::List(elements) => write!(f, "[{}]", joined(elements)),
            Self::Set(elements) => write!(f, "{{{}}}", joined(elements)),
            Self::MapOrUserType(entries) => {
                let entry = |(key, value): &(EntryKey<'_>, Self)| match key {
                    EntryKey::Name(name) => format!("{}: {value}", name.as_str()),
                    EntryKey::Key(key) => format!("{key}: {value}"),
                };
                write!(f, "{{{}}}", entries.iter().map(entry).collect::<Vec<_>>().join(", "))
            }
        }
    }
}
