//! `similarity_cosine`, `similarity_euclidean` and `similarity_dot_product` of vectors of floats,
//! each between 0 and 1 for the greatest similarity: (1 + cosine) / 2, 1 / (1 + distance²), (1 +
//! product) / 2.

use cassette_rows::types::{DataType, vector};

use super::resolve::{Argument, cannot_infer, requires};
use super::{Evaluated, ScalarFunction, Surroundings, Values};
use crate::values::ValueError;

/// The function called `name`.
pub(super) fn resolve(
    name: &str,
    arguments: &[&dyn Argument],
    receiver: Option<&DataType>,
) -> Result<Option<ScalarFunction>, ValueError> {
    if !matches!(name, "similarity_cosine" | "similarity_euclidean" | "similarity_dot_product") {
        return Ok(None);
    }
    let signature = format!("system.{name}(vector<float, n>, vector<float, n>)");
    let [left, right] = arguments else {
        return Err(ValueError::invalid(format!("Invalid number of arguments for function {signature}")));
    };
    let inferred = [infer(*left, receiver)?, infer(*right, receiver)?];
    let mut types = Vec::with_capacity(2);
    for (i, argument) in arguments.iter().enumerate() {
        // A marker or null gets the type of the other argument.
        let found = inferred[i].as_ref().or(inferred[1 - i].as_ref());
        let Some(found) = found else { return Err(cannot_infer(*argument, &signature)) };
        match found {
            DataType::Vector { element, .. } if **element == DataType::Float => types.push(found.clone()),
            _ => return Err(requires(name, "a float vector argument", *argument, found)),
        }
    }
    if types[0] != types[1] {
        return Err(ValueError::invalid("All arguments must have the same vector dimensions"));
    }
    Ok(Some(ScalarFunction::new(name, types, DataType::Float, similarity)))
}

/// Returns the type of an argument: of `[a, b]` a vector, otherwise its own type, or that of the
/// call's target.
fn infer(argument: &dyn Argument, receiver: Option<&DataType>) -> Result<Option<DataType>, ValueError> {
    match argument.array_size() {
        None => Ok(argument.known_type().or_else(|| receiver.cloned())),
        Some(0) => Err(ValueError::invalid("vectors may only have positive dimensions; given 0")),
        Some(size) => Ok(u32::try_from(size).ok().map(|size| DataType::vector(DataType::Float, size))),
    }
}

fn similarity(function: &ScalarFunction, values: &Values<'_>, _: &dyn Surroundings) -> Evaluated {
    let DataType::Vector { element, dimension } = &function.arguments[0] else { return Ok(None) };
    let floats = |bytes: &[u8]| -> Vec<f32> {
        vector::read_vector(element, *dimension, bytes)
            .filter_map(|element| element.try_into().ok().map(f32::from_be_bytes))
            .collect()
    };
    let (Some(left), Some(right)) = (values[0].map(floats), values[1].map(floats)) else { return Ok(None) };
    let dot = |left: &[f32], right: &[f32]| -> f32 { left.iter().zip(right).map(|(a, b)| a * b).sum() };
    let similarity = match function.name.as_str() {
        "similarity_euclidean" => {
            let squares: f32 = left.iter().zip(&right).map(|(a, b)| (a - b) * (a - b)).sum();
            1.0 / (1.0 + squares)
        }
        "similarity_dot_product" => (1.0 + dot(&left, &right)) / 2.0,
        name => {
            let is_zero = |vector: &[f32]| vector.iter().all(|element| *element == 0.0);
            if is_zero(&left) || is_zero(&right) {
                return Err(ValueError::invalid(format!(
                    "Function system.{name} doesn't support all-zero vectors."
                )));
            }
            let norms = f64::from(dot(&left, &left)) * f64::from(dot(&right, &right));
            (1.0 + (f64::from(dot(&left, &right)) / norms.sqrt()) as f32) / 2.0
        }
    };
    Ok(Some(similarity.to_be_bytes().to_vec()))
}
