//! `similarity_cosine`, `similarity_euclidean` and `similarity_dot_product` of vectors of floats,
//! each between 0 and 1 for the greatest similarity: (1 + cosine) / 2, 1 / (1 + distance²), (1 +
//! product) / 2.

use cassette_rows::types::{DataType, vector};

use super::resolve::{Argument, known_types, requires};
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
    // An argument without a vector type, such as a marker or `[1, 0]`, gets the type of the other
    // argument.
    let is_vector = |data_type: &DataType| match data_type {
        DataType::Vector { element, .. } => **element == DataType::Float,
        _ => false,
    };
    let known = arguments.iter().filter_map(|argument| argument.known_type());
    let like = known.chain(receiver.cloned()).find(is_vector);
    let mut types = known_types(&signature, arguments, 2..=2, &[like.clone(), like.clone()])?;
    for (argument, found) in arguments.iter().zip(&mut types) {
        if is_vector(found) {
            continue;
        }
        match like.as_ref().filter(|like| argument.assignment(like).is_assignable()) {
            Some(like) => *found = like.clone(),
            None => return Err(requires(name, "a float vector argument", *argument, found)),
        }
    }
    if types[0] != types[1] {
        return Err(ValueError::invalid("All arguments must have the same vector dimensions"));
    }
    Ok(Some(ScalarFunction::new(name, types, DataType::Float, similarity)))
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
