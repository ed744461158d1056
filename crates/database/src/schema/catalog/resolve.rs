//! Resolution of types in statements to data types.

use std::collections::BTreeMap;
use std::sync::Arc;

use cassette_cql::ast::{CqlType, NativeType, QualifiedName};
use cassette_rows::DataType;
use cassette_rows::types::{NESTING_MAX, UserType, parse_class_name};

use crate::basics::error::{DatabaseError, Result, bail_invalid};

/// The context of a type: the user-defined types that it may refer to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TypeUse<'a> {
    /// The keyspace of the statement; types of other keyspaces are rejected.
    pub keyspace: &'a str,
    /// The keyspace's user-defined types.
    pub types: &'a BTreeMap<String, Arc<UserType>>,
}

/// Resolves `raw` as in CREATE TABLE, CREATE TYPE, CAST and type hints.
///
/// # Errors
/// Unknown user-defined types, nesting that Cassandra rejects, and types nested deeper than
/// [`NESTING_MAX`].
pub(crate) fn resolve_type(raw: &CqlType, scope: TypeUse<'_>) -> Result<DataType> {
    resolve(raw, false, scope, 0)
}

/// Returns the type of a clustering column, and whether its class name reverses the column's order:
/// `'ReversedType(Int32Type)'`.
pub(crate) fn resolve_clustering_type(raw: &CqlType, scope: TypeUse<'_>) -> Result<(DataType, bool)> {
    match raw {
        CqlType::Custom(class) if let Ok((data_type, true)) = parse_class_name(class) => {
            Ok((data_type, true))
        }
        _ => resolve_type(raw, scope).map(|data_type| (data_type, false)),
    }
}

fn resolve(raw: &CqlType, frozen: bool, scope: TypeUse<'_>, depth: usize) -> Result<DataType> {
    if depth > NESTING_MAX {
        bail_invalid!("Types may not nest deeper than {NESTING_MAX}");
    }
    let depth = depth + 1;
    // In a frozen collection all types are frozen; in a non-frozen one every type that can be
    // frozen must be declared so.
    let element = |inner: &CqlType| {
        if !frozen && is_unfrozen_collection(inner) {
            bail_invalid!(
                "Non-frozen collections are not allowed inside collections: {}",
                raw_text(raw, frozen)
            );
        }
        if !frozen && matches!(inner, CqlType::UserType(_)) {
            bail_invalid!("Non-frozen UDTs are not allowed inside collections: {}", raw_text(raw, frozen));
        }
        if is_native(inner, NativeType::Counter) {
            bail_invalid!("Counters are not allowed inside collections: {}", raw_text(raw, frozen));
        }
        resolve(inner, true, scope, depth)
    };
    let resolved = match raw {
        CqlType::Native(native) => native.data_type(),
        CqlType::List(inner) => DataType::list(element(inner)?),
        CqlType::Set(inner) => {
            if is_native(inner, NativeType::Duration) {
                bail_invalid!("Durations are not allowed inside sets: {}", raw_text(raw, frozen));
            }
            DataType::set(element(inner)?)
        }
        CqlType::Map(key, value) => {
            if is_native(key, NativeType::Duration) {
                bail_invalid!("Durations are not allowed as map keys: {}", raw_text(raw, frozen));
            }
            let value = element(value)?;
            DataType::map(element(key)?, value)
        }
        CqlType::Tuple(items) => {
            if items.iter().any(|item| is_native(item, NativeType::Counter)) {
                bail_invalid!("Counters are not allowed inside tuples");
            }
            let items: Result<Vec<_>> = items.iter().map(|item| resolve(item, true, scope, depth)).collect();
            DataType::tuple(items?)
        }
        CqlType::Vector(inner, dimension) => match u32::try_from(*dimension) {
            Ok(dimension) if dimension > 0 => {
                DataType::vector(resolve(inner, false, scope, depth)?, dimension)
            }
            _ => bail_invalid!("vectors may only have positive dimensions; given {dimension}"),
        },
        CqlType::Frozen(inner) => match &**inner {
            CqlType::Native(_) | CqlType::Custom(_) => {
                return Err(DatabaseError::syntax(format!(
                    "frozen<> is only allowed on collections, tuples, and user-defined types (got {inner})"
                )));
            }
            inner => return resolve(inner, true, scope, depth),
        },
        CqlType::UserType(name) => resolve_user_type(name, scope)?,
        CqlType::Custom(class) => return resolve_class(class),
    };
    Ok(if frozen { resolved.freeze() } else { resolved })
}

fn resolve_user_type(name: &QualifiedName, scope: TypeUse<'_>) -> Result<DataType> {
    if let Some(keyspace) = name.keyspace.as_deref()
        && keyspace != scope.keyspace
    {
        bail_invalid!(
            "Statement on keyspace {} cannot refer to a user type in keyspace {keyspace}; user \
             types can only be used in the keyspace they are defined in",
            scope.keyspace
        );
    }
    match scope.types.get(name.name.as_str()) {
        Some(definition) => Ok(DataType::Udt { definition: definition.clone(), frozen: false }),
        None => bail_invalid!("Unknown type {}.{}", scope.keyspace, name.name.as_str()),
    }
}

/// Resolves the class name of a custom type.
fn resolve_class(class: &str) -> Result<DataType> {
    match parse_class_name(class) {
        Ok((data_type, false)) => Ok(data_type),
        Ok((_, true)) => bail_invalid!("Non-native types must support freezing: {class}"),
        Err(_) => {
            let name = class.split('(').next().unwrap_or_default().trim();
            let short = name.rsplit('.').next().unwrap_or_default();
            if matches!(short, "CompositeType" | "DynamicCompositeType") {
                return Err(DatabaseError::syntax(format!(
                    "Error setting type {class}: Invalid definition for comparator \
                     org.apache.cassandra.db.marshal.{short}."
                )));
            }
            let package = if name.contains('.') { "" } else { "org.apache.cassandra.db.marshal." };
            Err(DatabaseError::syntax(format!(
                "Error setting type {class}: Unable to find abstract-type class '{package}{name}'"
            )))
        }
    }
}

/// Returns the text of a type in messages, as part of a frozen one if `frozen`.
pub(crate) fn raw_text(raw: &CqlType, frozen: bool) -> String {
    if frozen { raw.shown_as_frozen().to_string() } else { raw.shown(None).to_string() }
}

fn is_native(raw: &CqlType, native: NativeType) -> bool {
    matches!(raw, CqlType::Native(this) if *this == native)
}

fn is_unfrozen_collection(raw: &CqlType) -> bool {
    matches!(raw, CqlType::List(_) | CqlType::Set(_) | CqlType::Map(..))
}
