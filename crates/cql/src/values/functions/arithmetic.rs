//! `+ - * / %` and the minus sign: numbers of all types, concatenation of texts, timestamps and
//! dates plus durations.

use cassette_rows::types::DataType;

use super::resolve::{Argument, Pick, none_matches, pick};
use super::time::{from_millis, millis};
use super::{Evaluated, Function, ScalarFunction, Surroundings, Values, present};
use crate::ast::ArithmeticOperator;
use crate::values::duration::Duration;
use crate::values::number::Number;
use crate::values::{ArithmeticFailure, ValueError};

const NUMERIC: [DataType; 9] = [
    DataType::TinyInt,
    DataType::SmallInt,
    DataType::Int,
    DataType::BigInt,
    DataType::Float,
    DataType::Double,
    DataType::Decimal,
    DataType::VarInt,
    DataType::Counter,
];

/// Returns the function of `left operator right`, with the type of its target, `receiver`, if that
/// is known.
pub fn resolve_arithmetic(
    operator: ArithmeticOperator,
    left: &dyn Argument,
    right: &dyn Argument,
    receiver: Option<&DataType>,
) -> Result<ScalarFunction, ValueError> {
    let symbol = operator.symbol();
    match pick(&candidates(operator), &[left, right], receiver) {
        Pick::One(Function::Scalar(function)) => Ok(function),
        Pick::Many(compatible) => {
            // The receiver's type decides, unless a marker leaves even that ambiguous.
            let of_receiver = compatible.into_iter().find(|function| {
                receiver.is_some_and(|wanted| function.arguments().iter().all(|argument| argument == wanted))
            });
            match of_receiver {
                Some(Function::Scalar(function)) if !left.is_marker() && !right.is_marker() => Ok(function),
                _ => Err(ValueError::invalid(format!(
                    "Ambiguous '{symbol}' operation with args {left} and {right}: use type hint to \
                     disambiguate, example '(int) ?'"
                ))),
            }
        }
        _ => Err(ValueError::invalid(format!(
            "the '{symbol}' operation is not supported between {left} and {right}"
        ))),
    }
}

/// Returns the function of `-argument`.
pub fn resolve_negation(
    argument: &dyn Argument,
    receiver: Option<&DataType>,
) -> Result<ScalarFunction, ValueError> {
    let candidates: Vec<_> = NUMERIC
        .into_iter()
        .map(|number| Function::Scalar(ScalarFunction::new("_negate", [number.clone()], number, negate)))
        .collect();
    match pick(&candidates, &[argument], receiver) {
        Pick::One(Function::Scalar(function)) => Ok(function),
        Pick::Many(_) => Err(ValueError::invalid("Ambiguous negation: use type casts to disambiguate")),
        _ => Err(none_matches("system._negate", &candidates)),
    }
}

fn candidates(operator: ArithmeticOperator) -> Vec<Function> {
    use DataType::{Ascii, Date, Text, Timestamp};
    let name = match operator {
        ArithmeticOperator::Add => "_add",
        ArithmeticOperator::Subtract => "_substract",
        ArithmeticOperator::Multiply => "_multiply",
        ArithmeticOperator::Divide => "_divide",
        ArithmeticOperator::Modulo => "_modulo",
    };
    let mut functions = Vec::new();
    for left in &NUMERIC {
        for right in &NUMERIC {
            let arguments = [left.clone(), right.clone()];
            functions.push(ScalarFunction::new(name, arguments, result_type(left, right), calculate));
        }
    }
    if matches!(operator, ArithmeticOperator::Add | ArithmeticOperator::Subtract) {
        for temporal in [Timestamp, Date] {
            let arguments = [temporal.clone(), DataType::Duration];
            functions.push(ScalarFunction::new(name, arguments, temporal, move_by_duration));
        }
    }
    if operator == ArithmeticOperator::Add {
        for (left, right, returns) in
            [(Text, Text, Text), (Ascii, Ascii, Ascii), (Ascii, Text, Text), (Text, Ascii, Text)]
        {
            functions.push(ScalarFunction::new(name, [left, right], returns, |_, values, _| {
                Ok(values[0].zip(values[1]).map(|(left, right)| [left, right].concat()))
            }));
        }
    }
    functions.into_iter().map(Function::Scalar).collect()
}

/// Returns a type as wide as the wider operand, and with a fraction if one of them has one.
fn result_type(left: &DataType, right: &DataType) -> DataType {
    use DataType::*;
    let width = |number: &DataType| match number {
        TinyInt => 1,
        SmallInt => 2,
        Int | Float => 4,
        BigInt | Counter | Double => 8,
        _ => 16,
    };
    let fraction = [left, right].iter().any(|number| matches!(number, Float | Double | Decimal));
    match (fraction, width(left).max(width(right))) {
        (true, 4) => Float,
        (true, 8) => Double,
        (true, _) => Decimal,
        (false, 1) => TinyInt,
        (false, 2) => SmallInt,
        (false, 4) => Int,
        (false, 8) => BigInt,
        (false, _) => VarInt,
    }
}

fn calculate(function: &ScalarFunction, values: &Values<'_>, _: &dyn Surroundings) -> Evaluated {
    function.check_lengths(values)?;
    let operator = match function.name.as_str() {
        "_add" => ArithmeticOperator::Add,
        "_substract" => ArithmeticOperator::Subtract,
        "_multiply" => ArithmeticOperator::Multiply,
        "_divide" => ArithmeticOperator::Divide,
        _ => ArithmeticOperator::Modulo,
    };
    let [left, right] = [&function.arguments[0], &function.arguments[1]];
    let failure = |ArithmeticFailure(reason)| {
        function.failure(format!("the operation '{left} {} {right}' failed: {reason}", operator.symbol()))
    };
    let (Some(left), Some(right)) =
        (operand(values, 0, left).map_err(failure)?, operand(values, 1, right).map_err(failure)?)
    else {
        return Ok(None);
    };
    let result = calculate_numbers(operator, &left, &right, &function.returns);
    result.map(|number| Some(number.encode())).map_err(failure)
}

/// Returns the operand at `index`; `None` if it is null or empty. A constant such as `0x00000001`
/// is accepted for any type of number, and may have another length.
fn operand(
    values: &Values<'_>,
    index: usize,
    data_type: &DataType,
) -> Result<Option<Number>, ArithmeticFailure> {
    let Some(bytes) = present(values, index) else { return Ok(None) };
    let number = Number::decode(data_type, bytes);
    number.map(Some).ok_or_else(|| {
        ArithmeticFailure(format!("expected a value of type {data_type}, found {} bytes", bytes.len()))
    })
}

/// Calculates in the type of the result: whole numbers wrap around, floats cannot fail.
fn calculate_numbers(
    operator: ArithmeticOperator,
    left: &Number,
    right: &Number,
    returns: &DataType,
) -> Result<Number, ArithmeticFailure> {
    use ArithmeticOperator::*;
    /// Whole numbers of a fixed width.
    macro_rules! whole {
        ($variant:ident, $int:ty, $convert:ident) => {{
            let (left, right) = (left.$convert() as $int, right.$convert() as $int);
            if right == 0 && matches!(operator, Divide | Modulo) {
                return Err(ArithmeticFailure::division_by_zero());
            }
            Number::$variant(match operator {
                Add => left.wrapping_add(right),
                Subtract => left.wrapping_sub(right),
                Multiply => left.wrapping_mul(right),
                Divide => left.wrapping_div(right),
                Modulo => left.wrapping_rem(right),
            })
        }};
    }
    macro_rules! float {
        ($variant:ident, $convert:ident) => {{
            let (left, right) = (left.$convert(), right.$convert());
            Number::$variant(match operator {
                Add => left + right,
                Subtract => left - right,
                Multiply => left * right,
                Divide => left / right,
                Modulo => left % right,
            })
        }};
    }
    Ok(match returns {
        DataType::TinyInt => whole!(TinyInt, i8, to_int),
        DataType::SmallInt => whole!(SmallInt, i16, to_int),
        DataType::Int => whole!(Int, i32, to_int),
        DataType::BigInt => whole!(BigInt, i64, to_long),
        DataType::Float => float!(Float, to_float),
        DataType::Double => float!(Double, to_double),
        DataType::VarInt => {
            let (Some(Number::VarInt(left)), Some(Number::VarInt(right))) =
                (left.convert(returns), right.convert(returns))
            else {
                return Err(ArithmeticFailure("no whole number".to_owned()));
            };
            if right == num_bigint::BigInt::ZERO && matches!(operator, Divide | Modulo) {
                return Err(ArithmeticFailure("BigInteger divide by zero".to_owned()));
            }
            Number::VarInt(match operator {
                Add => left + right,
                Subtract => left - right,
                Multiply => left * right,
                Divide => left / right,
                Modulo => left % right,
            })
        }
        _ => {
            let (left, right) = (to_decimal(left)?, to_decimal(right)?);
            Number::Decimal(match operator {
                Add => left.add(&right)?,
                Subtract => left.subtract(&right)?,
                Multiply => left.multiply(&right)?,
                Divide => left.divide(&right)?,
                Modulo => left.remainder(&right)?,
            })
        }
    })
}

/// Converts an operand of a decimal. Numbers of a fixed width are converted through a double, so
/// that 1 becomes 1.0.
fn to_decimal(number: &Number) -> Result<crate::values::decimal::Decimal, ArithmeticFailure> {
    use crate::values::decimal::Decimal;
    match number {
        Number::Decimal(value) => Ok(value.clone()),
        Number::VarInt(value) => Ok(Decimal::whole(value.clone())),
        other => {
            let double = other.to_double();
            Decimal::from_double(double).ok_or_else(|| {
                let what = if double.is_nan() { "A NaN" } else { "An infinite number" };
                ArithmeticFailure(format!("{what} cannot be converted into a decimal"))
            })
        }
    }
}

fn move_by_duration(function: &ScalarFunction, values: &Values<'_>, _: &dyn Surroundings) -> Evaluated {
    let temporal = &function.arguments[0];
    let (Some(ms), Some(duration)) =
        (millis(temporal, values, 0)?, present(values, 1).and_then(Duration::decode))
    else {
        return Ok(None);
    };
    let (symbol, moved) = match function.name.as_str() {
        "_add" => ('+', duration.add_to(ms)),
        _ => ('-', duration.negate().add_to(ms)),
    };
    let (precision, is_precise) = match temporal {
        DataType::Date => ("day", duration.nanoseconds == 0),
        _ => ("millisecond", duration.nanoseconds % 1_000_000 == 0),
    };
    if !is_precise {
        return Err(function.failure(format!(
            "the operation '{temporal} {symbol} duration' failed: The duration must have a {precision} \
             precision. Was: {duration}"
        )));
    }
    Ok(Some(from_millis(temporal, moved)))
}

fn negate(function: &ScalarFunction, values: &Values<'_>, _: &dyn Surroundings) -> Evaluated {
    let Some(number) = present(values, 0).and_then(|bytes| Number::decode(&function.arguments[0], bytes))
    else {
        return Ok(None);
    };
    let negated = match number {
        Number::TinyInt(value) => Number::TinyInt(value.wrapping_neg()),
        Number::SmallInt(value) => Number::SmallInt(value.wrapping_neg()),
        Number::Int(value) => Number::Int(value.wrapping_neg()),
        Number::BigInt(value) => Number::BigInt(value.wrapping_neg()),
        Number::Float(value) => Number::Float(-value),
        Number::Double(value) => Number::Double(-value),
        Number::VarInt(value) => Number::VarInt(-value),
        Number::Decimal(value) => Number::Decimal(value.negate()),
    };
    Ok(Some(negated.encode()))
}
