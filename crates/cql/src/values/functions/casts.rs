//! `CAST(x AS type)`, which is the function `cast_as_type`.

use cassette_rows::types::DataType;

use super::resolve::{Argument, Pick, ambiguous, none_matches, pick};
use super::{Evaluated, Function, ScalarFunction, Surroundings, Values, present, time};
use crate::ast::NativeType;
use crate::values::ValueError;
use crate::values::number::{Number, is_numeric};
use crate::values::text::to_text;

const NUMERIC: [DataType; 9] = [
    DataType::TinyInt,
    DataType::SmallInt,
    DataType::Int,
    DataType::BigInt,
    DataType::Float,
    DataType::Double,
    DataType::Decimal,
    DataType::Counter,
    DataType::VarInt,
];

/// The cast of `argument` to `to` in a select clause; `None` if it has that type already.
pub fn resolve_cast(argument: &dyn Argument, to: NativeType) -> Result<Option<ScalarFunction>, ValueError> {
    if argument.known_type() == Some(to.data_type()) {
        return Ok(None);
    }
    choose(argument, to, None).map(Some)
}

/// The cast of `argument` to `to` in a term for a value of type `receiver`: a function for
/// arguments of another type, which must return such a value.
pub fn resolve_cast_for(
    argument: &dyn Argument,
    to: NativeType,
    receiver: &DataType,
) -> Result<ScalarFunction, ValueError> {
    choose(argument, to, Some(receiver))
}

/// Whether there are casts to this type from others.
pub fn has_casts(to: NativeType) -> bool {
    to == NativeType::Varchar || !functions(&format!("cast_as_{to}")).is_empty()
}

fn choose(
    argument: &dyn Argument,
    to: NativeType,
    receiver: Option<&DataType>,
) -> Result<ScalarFunction, ValueError> {
    let to = if to == NativeType::Varchar { NativeType::Text } else { to };
    let name = format!("system.cast_as_{to}");
    let candidates: Vec<_> = functions(&format!("cast_as_{to}")).into_iter().map(Function::Scalar).collect();
    match pick(&candidates, &[argument], receiver) {
        _ if candidates.is_empty() && receiver.is_some() => {
            Err(ValueError::invalid(format!("Unknown function {name} called")))
        }
        _ if candidates.is_empty() => Err(ValueError::invalid(format!("{argument} cannot be cast to {to}"))),
        Pick::One(Function::Scalar(function)) => Ok(function),
        Pick::Many(compatible) => Err(ambiguous(&name, &compatible)),
        _ => Err(none_matches(&name, &candidates)),
    }
}

/// The functions called `name`.
pub(super) fn functions(name: &str) -> Vec<ScalarFunction> {
    use DataType::*;
    let target = name.strip_prefix("cast_as_");
    let Some(native) = target.and_then(|to| NativeType::ALL.iter().find(|native| native.name() == to)) else {
        return Vec::new();
    };
    let to = native.data_type();
    let from: Vec<DataType> = match to {
        Ascii | Text => {
            let others = [Inet, Boolean, TimeUuid, Timestamp, Date, Time, Uuid];
            let ascii = [Ascii].into_iter().filter(|_| to == Text);
            NUMERIC.into_iter().chain(ascii).chain(others).collect()
        }
        Date => vec![TimeUuid, Timestamp],
        Timestamp => vec![TimeUuid, Date],
        Counter => Vec::new(),
        _ if is_numeric(&to) => NUMERIC.into_iter().filter(|from| *from != to).collect(),
        _ => Vec::new(),
    };
    let evaluate = match to {
        Ascii | Text => as_text,
        Date | Timestamp => time::convert,
        _ => as_number,
    };
    from.into_iter().map(|from| ScalarFunction::new(name, [from], to.clone(), evaluate)).collect()
}

fn as_text(function: &ScalarFunction, values: &Values<'_>, _: &dyn Surroundings) -> Evaluated {
    function.check_lengths(values)?;
    let from = &function.arguments[0];
    let value = if *from == DataType::Ascii { values[0] } else { present(values, 0) };
    Ok(value.map(|bytes| to_text(from, bytes).into_bytes()))
}

fn as_number(function: &ScalarFunction, values: &Values<'_>, _: &dyn Surroundings) -> Evaluated {
    function.check_lengths(values)?;
    let Some(bytes) = present(values, 0) else { return Ok(None) };
    let number = Number::decode(&function.arguments[0], bytes);
    match number.as_ref().map(|number| number.convert(&function.returns)) {
        Some(Some(converted)) => Ok(Some(converted.encode())),
        // Only decimals support neither infinities nor NaN.
        Some(None) => Err(ValueError::invalid(format!(
            "{} cannot be cast to {}",
            to_text(&function.arguments[0], bytes),
            function.returns
        ))),
        None => Ok(None),
    }
}
