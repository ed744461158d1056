//! Functions of collections: their count, keys, values, and aggregates of their elements.

use cassette_rows::types::{DataType, collection};

use super::resolve::{Argument, known_types, requires};
use super::{Evaluated, ScalarFunction, Surroundings, Values};
use crate::values::ValueError;
use crate::values::aggregates::AggregateFunction;
use crate::values::collections::build_list;
use crate::values::number::is_numeric;

/// Returns the function called `name` for an argument of this type.
pub(super) fn resolve(
    name: &str,
    arguments: &[&dyn Argument],
    _: Option<&DataType>,
) -> Result<Option<ScalarFunction>, ValueError> {
    let parameter = match name {
        "map_keys" | "map_values" => "map",
        "collection_count" => "collection",
        "collection_min" | "collection_max" | "collection_sum" | "collection_avg" => "numeric_set_or_list",
        _ => return Ok(None),
    };
    let types = known_types(&format!("system.{name}({parameter})"), arguments, 1..=1, &[])?;
    let [given] = &types[..] else { return Ok(None) };
    let refuse = |what: &str| Err(requires(name, what, arguments[0], given));
    let element = match given {
        DataType::List { element, .. } | DataType::Set { element, .. } => Some(&**element),
        _ => None,
    };
    let function =
        |returns: DataType, evaluate| Ok(Some(ScalarFunction::new(name, [given.clone()], returns, evaluate)));
    match (name, given, element) {
        ("map_keys", DataType::Map { key, .. }, _) => {
            function(DataType::set((**key).clone()).freeze(), |_, values, _| {
                Ok(entries(values)
                    .map(|entries| build_list(&entries.map(|(key, _)| key).collect::<Vec<_>>())))
            })
        }
        ("map_values", DataType::Map { value, .. }, _) => {
            function(DataType::list((**value).clone()).freeze(), |_, values, _| {
                Ok(entries(values)
                    .map(|entries| build_list(&entries.map(|(_, value)| value).collect::<Vec<_>>())))
            })
        }
        ("map_keys" | "map_values", ..) => refuse("a map argument"),
        ("collection_count", DataType::List { .. } | DataType::Set { .. } | DataType::Map { .. }, _) => {
            function(DataType::Int, |_, values, _| {
                Ok(values[0].map(|bytes| (collection::count(bytes) as i32).to_be_bytes().to_vec()))
            })
        }
        ("collection_count", ..) => refuse("a collection argument"),
        ("collection_min" | "collection_max", _, Some(element)) => function(element.clone(), aggregate),
        ("collection_min" | "collection_max", ..) => refuse("a set or list argument"),
        (_, _, Some(element)) if is_numeric(element) => function(element.clone(), aggregate),
        _ => refuse("a numeric set/list argument"),
    }
}

type Entry = (Vec<u8>, Vec<u8>);

fn entries<'a>(values: &Values<'a>) -> Option<impl Iterator<Item = Entry> + use<'a>> {
    let entries = collection::read_map(values[0]?);
    Some(entries.map(|(key, value)| (key.to_vec(), value.to_vec())))
}

fn aggregate(function: &ScalarFunction, values: &Values<'_>, surroundings: &dyn Surroundings) -> Evaluated {
    let Some(bytes) = values[0] else { return Ok(None) };
    let name = function.name.trim_start_matches("collection_");
    let Some(aggregate) = AggregateFunction::of_type(name, &function.returns) else { return Ok(None) };
    let mut accumulator = aggregate.accumulator();
    for element in collection::read_list(bytes) {
        accumulator.add(&[element], surroundings)?;
    }
    accumulator.finish(surroundings)
}
