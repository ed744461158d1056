//! `abs`, `exp`, `log`, `log10` and `round` of numbers, each a number of the same type.

use cassette_rows::types::DataType;

use super::{Evaluated, ScalarFunction, Surroundings, Values, present};
use crate::values::decimal::{Decimal, Rounding};
use crate::values::number::Number;
use crate::values::{ArithmeticFailure, ValueError, logarithm};

/// The functions called `name`.
pub(super) fn functions(name: &str) -> Vec<ScalarFunction> {
    use DataType::*;
    if !matches!(name, "abs" | "exp" | "log" | "log10" | "round") {
        return Vec::new();
    }
    let numeric = [TinyInt, SmallInt, Int, Float, BigInt, Double, VarInt, Decimal, Counter];
    numeric.into_iter().map(|number| ScalarFunction::new(name, [number.clone()], number, evaluate)).collect()
}

fn evaluate(function: &ScalarFunction, values: &Values<'_>, _: &dyn Surroundings) -> Evaluated {
    let data_type = &function.arguments[0];
    function.check_lengths(values)?;
    let Some(number) = present(values, 0).and_then(|bytes| Number::decode(data_type, bytes)) else {
        return Ok(None);
    };
    let result = match (function.name.as_str(), number) {
        ("abs", number) => Ok(abs(number)),
        ("round", number) => round(number),
        (name, Number::Decimal(value)) => of_decimal(name, &value).map(Number::Decimal),
        (name, Number::VarInt(value)) => {
            of_decimal(name, &Decimal::whole(value)).map(|result| Number::VarInt(result.to_whole()))
        }
        (name, number) => {
            // Converts the result to the whole type: truncates and saturates.
            let result = of_double(name, number.to_double());
            let number = match number {
                Number::Float(_) => Number::Float(result as f32),
                Number::Double(_) => Number::Double(result),
                Number::BigInt(_) => Number::BigInt(result as i64),
                _ => Number::Double(result).convert(data_type).unwrap_or(Number::Double(result)),
            };
            Ok(number)
        }
    };
    result
        .map(|number| Some(number.encode()))
        .map_err(|ArithmeticFailure(reason)| ValueError::Invalid(reason))
}

fn of_double(name: &str, value: f64) -> f64 {
    match name {
        "exp" => value.exp(),
        "log" => value.ln(),
        _ => value.log10(),
    }
}

fn of_decimal(name: &str, value: &Decimal) -> Result<Decimal, ArithmeticFailure> {
    match name {
        "exp" => logarithm::exp(value),
        "log" => logarithm::ln(value),
        _ => logarithm::log10(value),
    }
}

fn abs(number: Number) -> Number {
    match number {
        Number::TinyInt(value) => Number::TinyInt(value.wrapping_abs()),
        Number::SmallInt(value) => Number::SmallInt(value.wrapping_abs()),
        Number::Int(value) => Number::Int(value.wrapping_abs()),
        Number::BigInt(value) => Number::BigInt(value.wrapping_abs()),
        Number::Float(value) => Number::Float(value.abs()),
        Number::Double(value) => Number::Double(value.abs()),
        Number::VarInt(value) => Number::VarInt(value.magnitude().clone().into()),
        Number::Decimal(value) => Number::Decimal(value.abs()),
    }
}

/// Rounds halves up for floats, as Java's `Math.round`, and away from zero for decimals.
fn round(number: Number) -> Result<Number, ArithmeticFailure> {
    let half_up = |value: f64| {
        let floor = value.floor();
        if value - floor >= 0.5 { floor + 1.0 } else { floor }
    };
    Ok(match number {
        Number::Float(value) => Number::Float(half_up(f64::from(value)) as i32 as f32),
        Number::Double(value) => Number::Double(half_up(value) as i64 as f64),
        Number::Decimal(value) => Number::Decimal(value.with_scale(0, Rounding::HalfUp)?),
        whole => whole,
    })
}
