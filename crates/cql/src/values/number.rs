//! Numbers of all numeric types of CQL: their bytes, text and conversions.

use num_bigint::{BigInt, Sign};

use cassette_rows::types::DataType;

use super::decimal::Decimal;
use super::{ArithmeticFailure, ValueError};

/// The maximum number of digits of a `varint` or `decimal` that is parsed, printed, or calculated
/// with. The time of division, printing and others grows with the square of the digits; this many
/// take some 100 ms.
pub const DIGITS_MAX: usize = 200_000;

/// The longest value with this many digits, in bytes: 3.33 bits a digit, a sign and the scale of a
/// decimal.
const OPERAND_LENGTH_MAX: usize = DIGITS_MAX * 416 / 1000 + 5;

/// The number of digits from which on a number is parsed in halves.
const HALVED_FROM: usize = 1_000;

/// A value of a numeric type.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the variants are CQL's type names")]
pub enum Number {
    TinyInt(i8),
    SmallInt(i16),
    Int(i32),
    /// Also the value of a counter.
    BigInt(i64),
    Float(f32),
    Double(f64),
    VarInt(BigInt),
    Decimal(Decimal),
}

/// Rejects a number that is too long for a calculation. Accepts values of other types.
///
/// # Errors
/// If `bytes` are a `varint` or `decimal` of more than about [`DIGITS_MAX`] digits.
pub fn check_length(data_type: &DataType, bytes: &[u8]) -> Result<(), ArithmeticFailure> {
    if bytes.len() <= OPERAND_LENGTH_MAX || !matches!(data_type, DataType::VarInt | DataType::Decimal) {
        return Ok(());
    }
    Err(ArithmeticFailure(format!(
        "a {data_type} of {} bytes has more than {DIGITS_MAX} digits",
        bytes.len()
    )))
}

/// Does [`check_length`] for a number, or for all numbers in a nested value.
///
/// # Errors
/// If one of them is too long to print.
pub fn check_lengths(data_type: &DataType, bytes: &[u8]) -> Result<(), ValueError> {
    use cassette_rows::types::{collection, vector};
    // Nested values have fewer bytes.
    if bytes.len() <= OPERAND_LENGTH_MAX {
        return Ok(());
    }
    match data_type {
        DataType::VarInt | DataType::Decimal => {
            check_length(data_type, bytes).map_err(|ArithmeticFailure(reason)| ValueError::Invalid(reason))
        }
        DataType::List { element, .. } | DataType::Set { element, .. } => {
            collection::read_list(bytes).flatten().try_for_each(|item| check_lengths(element, item))
        }
        DataType::Map { key, value, .. } => collection::read_map(bytes)
            .try_for_each(|(k, v)| check_lengths(key, k).and_then(|()| check_lengths(value, v))),
        DataType::Tuple(types) => check_items(types.iter(), bytes),
        DataType::Udt { definition, .. } => {
            check_items(definition.fields.iter().map(|(_, field)| field), bytes)
        }
        DataType::Vector { element, dimension } => {
            vector::read_vector(element, *dimension, bytes).try_for_each(|item| check_lengths(element, item))
        }
        _ => Ok(()),
    }
}

fn check_items<'a>(types: impl Iterator<Item = &'a DataType>, bytes: &[u8]) -> Result<(), ValueError> {
    use cassette_rows::types::collection;
    let mut items = types.zip(collection::read_tuple(bytes));
    items.try_for_each(|(data_type, item)| item.map_or(Ok(()), |item| check_lengths(data_type, item)))
}

/// Returns whether values of this type are numbers.
pub fn is_numeric(data_type: &DataType) -> bool {
    use DataType::*;
    matches!(data_type, TinyInt | SmallInt | Int | BigInt | Counter | Float | Double | VarInt | Decimal)
}

impl Number {
    /// Decodes a value; `None` if it is empty, malformed or of a type without numbers.
    pub fn decode(data_type: &DataType, bytes: &[u8]) -> Option<Self> {
        Some(match data_type {
            DataType::TinyInt => Self::TinyInt(i8::from_be_bytes(bytes.try_into().ok()?)),
            DataType::SmallInt => Self::SmallInt(i16::from_be_bytes(bytes.try_into().ok()?)),
            DataType::Int => Self::Int(i32::from_be_bytes(bytes.try_into().ok()?)),
            DataType::BigInt | DataType::Counter => Self::BigInt(i64::from_be_bytes(bytes.try_into().ok()?)),
            DataType::Float => Self::Float(f32::from_be_bytes(bytes.try_into().ok()?)),
            DataType::Double => Self::Double(f64::from_be_bytes(bytes.try_into().ok()?)),
            DataType::VarInt if !bytes.is_empty() => Self::VarInt(BigInt::from_signed_bytes_be(bytes)),
            DataType::Decimal => Self::Decimal(Decimal::decode(bytes)?),
            _ => return None,
        })
    }

    /// The value's bytes.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::TinyInt(value) => value.to_be_bytes().to_vec(),
            Self::SmallInt(value) => value.to_be_bytes().to_vec(),
            Self::Int(value) => value.to_be_bytes().to_vec(),
            Self::BigInt(value) => value.to_be_bytes().to_vec(),
            Self::Float(value) => value.to_be_bytes().to_vec(),
            Self::Double(value) => value.to_be_bytes().to_vec(),
            Self::VarInt(value) => value.to_signed_bytes_be(),
            Self::Decimal(value) => value.encode(),
        }
    }

    /// Converts the number to `data_type`, narrowed as in Java: whole numbers lose their high bits,
    /// doubles saturate and lose their fraction, decimals both. `None` if the type has no numbers,
    /// or if the number is not finite and the type has only finite ones.
    pub fn convert(&self, data_type: &DataType) -> Option<Self> {
        Some(match data_type {
            DataType::TinyInt => Self::TinyInt(self.to_int() as i8),
            DataType::SmallInt => Self::SmallInt(self.to_int() as i16),
            DataType::Int => Self::Int(self.to_int()),
            DataType::BigInt | DataType::Counter => Self::BigInt(self.to_long()),
            DataType::Float => Self::Float(self.to_float()),
            DataType::Double => Self::Double(self.to_double()),
            DataType::VarInt => match self {
                Self::VarInt(value) => Self::VarInt(value.clone()),
                other => Self::VarInt(other.to_long().into()),
            },
            DataType::Decimal => Self::Decimal(match self {
                Self::Decimal(value) => value.clone(),
                Self::VarInt(value) => Decimal::whole(value.clone()),
                Self::Float(value) => Decimal::parse(&float_to_text(*value))?,
                Self::Double(value) => Decimal::from_double(*value)?,
                other => Decimal::whole(other.to_long()),
            }),
            _ => return None,
        })
    }

    /// The low 32 bits of the whole part; floats and doubles saturate.
    pub fn to_int(&self) -> i32 {
        match self {
            Self::Float(value) => *value as i32,
            Self::Double(value) => *value as i32,
            other => other.to_long() as i32,
        }
    }

    /// The low 64 bits of the whole part; floats and doubles saturate.
    pub fn to_long(&self) -> i64 {
        match self {
            Self::TinyInt(value) => i64::from(*value),
            Self::SmallInt(value) => i64::from(*value),
            Self::Int(value) => i64::from(*value),
            Self::BigInt(value) => *value,
            Self::Float(value) => *value as i64,
            Self::Double(value) => *value as i64,
            Self::VarInt(value) => low_64_bits(value),
            Self::Decimal(value) => low_64_bits(&value.to_whole()),
        }
    }

    /// The nearest double.
    pub fn to_double(&self) -> f64 {
        match self {
            Self::Float(value) => f64::from(*value),
            Self::Double(value) => *value,
            Self::VarInt(value) => value.to_string().parse().unwrap_or(f64::NAN),
            Self::Decimal(value) => value.to_double(),
            whole => whole.to_long() as f64,
        }
    }

    /// The nearest float.
    pub fn to_float(&self) -> f32 {
        match self {
            Self::Float(value) => *value,
            Self::Double(value) => *value as f32,
            Self::VarInt(value) => value.to_string().parse().unwrap_or(f32::NAN),
            Self::Decimal(value) => value.to_float(),
            whole => whole.to_long() as f32,
        }
    }

    /// Returns the decimal digits of the number, as in CQL and JSON.
    pub fn to_text(&self) -> String {
        match self {
            Self::Float(value) => float_to_text(*value),
            Self::Double(value) => double_to_text(*value),
            Self::VarInt(value) => value.to_string(),
            Self::Decimal(value) => value.to_string(),
            whole => whole.to_long().to_string(),
        }
    }
}

fn low_64_bits(value: &BigInt) -> i64 {
    let low = value.magnitude().iter_u64_digits().next().unwrap_or(0) as i64;
    if value.sign() == Sign::Minus { low.wrapping_neg() } else { low }
}

/// Parses a whole number of up to [`DIGITS_MAX`] digits: an optional sign and digits.
pub fn parse_varint(text: &str) -> Option<BigInt> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let magnitude = parse_digits(digits)?;
    Some(if text.starts_with('-') { -magnitude } else { magnitude })
}

/// Parses decimal digits; `None` if there are more than [`DIGITS_MAX`], including leading zeros.
/// Parses halves separately and combines them, which is faster than digit by digit.
pub(super) fn parse_digits(digits: &str) -> Option<BigInt> {
    if digits.len() > DIGITS_MAX {
        return None;
    }
    if digits.len() <= HALVED_FROM {
        return digits.parse().ok();
    }
    let (high, low) = digits.split_at_checked(digits.len().div_ceil(2))?;
    let power = BigInt::from(10).pow(u32::try_from(low.len()).ok()?);
    Some(parse_digits(high)? * power + parse_digits(low)?)
}

/// Parses a double as Java does: decimal digits with a point and an exponent, an optional suffix
/// `f` or `d`, or `NaN` and `Infinity` in exactly that case, blanks around. Does not support
/// hexadecimal floating point.
pub fn parse_double(text: &str) -> Option<f64> {
    java_float_syntax(text)?.parse().ok()
}

/// Parses a float, in the same syntax.
pub fn parse_float(text: &str) -> Option<f32> {
    java_float_syntax(text)?.parse().ok()
}

/// Returns the part of `text` that Rust parses as the same number, if it is one in Java.
fn java_float_syntax(text: &str) -> Option<&str> {
    let text = text.trim_matches(|c: char| c <= ' ');
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if matches!(unsigned, "NaN" | "Infinity") {
        return Some(text);
    }
    let number = text.strip_suffix(['f', 'F', 'd', 'D']).unwrap_or(text);
    let unsigned = number.strip_prefix(['-', '+']).unwrap_or(number);
    let starts_as_number = unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    starts_as_number.then_some(number)
}

/// Formats the double as Java does: the fewest digits that parse to it but at least two, with an
/// exponent below 10^-3 and from 10^7 on.
///
/// This is Java from version 19 on. Before, which Cassandra runs on, some numbers got more digits
/// than necessary, such as 9.999999999999999E22 for 1.0E23 (JDK-4511638).
pub fn double_to_text(value: f64) -> String {
    java_float(value.is_nan(), value.is_infinite(), value < 0.0, format!("{value:e}"), format!("{value:.1e}"))
}

/// Formats the float as Java does.
pub fn float_to_text(value: f32) -> String {
    java_float(value.is_nan(), value.is_infinite(), value < 0.0, format!("{value:e}"), format!("{value:.1e}"))
}

/// `shortest` and `two_digits` are the number in Rust's format: `-1.234e-5`, without a point if
/// there is one digit.
fn java_float(nan: bool, infinite: bool, negative: bool, shortest: String, two_digits: String) -> String {
    match (nan, infinite, negative) {
        (true, ..) => return "NaN".to_owned(),
        (_, true, true) => return "-Infinity".to_owned(),
        (_, true, false) => return "Infinity".to_owned(),
        _ => {}
    }
    let scientific = if shortest.contains('.') { shortest } else { two_digits };
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(mantissa) => ("-", mantissa),
        None => ("", mantissa),
    };
    let digits: String = mantissa.chars().filter(|c| *c != '.').collect();
    // A second digit that is 0 is written only directly after the point.
    let digits = digits.strip_suffix('0').filter(|digits| digits.len() == 1).unwrap_or(&digits);
    match exponent {
        0..7 => {
            let before = exponent as usize + 1;
            let whole = format!("{digits:0<before$}");
            let (whole, fraction) = whole.split_at(before);
            format!("{sign}{whole}.{}", if fraction.is_empty() { "0" } else { fraction })
        }
        -3..0 => format!("{sign}0.{}{digits}", "0".repeat(exponent.unsigned_abs() as usize - 1)),
        _ => {
            let (first, rest) = digits.split_at(1);
            format!("{sign}{first}.{}E{exponent}", if rest.is_empty() { "0" } else { rest })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_print_as_in_java() {
        for (value, text) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (100.0, "100.0"),
            (1234567.5, "1234567.5"),
            (12345678.0, "1.2345678E7"),
            (1e7, "1.0E7"),
            (0.001, "0.001"),
            (0.0001, "1.0E-4"),
            (-0.012, "-0.012"),
            (f64::MAX, "1.7976931348623157E308"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(double_to_text(value), text);
        }
        assert_eq!(float_to_text(0.1), "0.1");
        assert_eq!(float_to_text(3.4028235e38), "3.4028235E38");
    }

    #[test]
    fn doubles_are_read_as_java_reads_them() {
        for (text, value) in [
            ("1", 1.0),
            (" 1.5 ", 1.5),
            (".5", 0.5),
            ("5.", 5.0),
            ("-1e3", -1000.0),
            ("1d", 1.0),
            ("1.5F", 1.5),
            ("-Infinity", f64::NEG_INFINITY),
            ("1e999", f64::INFINITY),
        ] {
            assert_eq!(parse_double(text), Some(value), "{text}");
        }
        assert!(parse_double("-NaN").unwrap().is_nan());
        for bad in ["", ".", "nan", "inf", "infinity", "1.5x", "1e", "--1", "1_0"] {
            assert_eq!(parse_double(bad), None, "{bad}");
        }
    }

    #[test]
    fn numbers_narrow_as_in_java() {
        let varint = Number::VarInt("-18446744073709551617".parse().unwrap());
        assert_eq!(varint.to_long(), -1);
        assert_eq!(Number::Double(1e20).convert(&DataType::BigInt), Some(Number::BigInt(i64::MAX)));
        assert_eq!(Number::Double(300.7).convert(&DataType::TinyInt), Some(Number::TinyInt(44)));
        assert_eq!(Number::Double(f64::NAN).convert(&DataType::Decimal), None);
        assert_eq!(Number::Float(0.1).convert(&DataType::Decimal).unwrap().to_text(), "0.1");
        let decimal = Number::Decimal(Decimal::parse("-128.9").unwrap());
        assert_eq!(decimal.convert(&DataType::TinyInt), Some(Number::TinyInt(-128)));
    }

    #[test]
    fn long_numbers_are_read_up_to_a_bound() {
        for digits in [999, 1_000, 1_001, 2_003, 12_345] {
            let text: String = (0..digits).map(|n| char::from(b'0' + (n * 7 + 1) as u8 % 10)).collect();
            assert_eq!(parse_varint(&format!("-{text}")).unwrap().to_string(), format!("-{text}"));
        }
        assert!(parse_varint(&"9".repeat(DIGITS_MAX)).is_some());
        // Takes minutes if each digit is compared with all that follow.
        let endless = "9".repeat(20_000_000);
        assert_eq!(parse_varint(&endless), None);
        assert_eq!(Decimal::parse(&format!("{endless}.5")), None);
        let error = crate::values::from_text(&DataType::VarInt, &endless).unwrap_err();
        assert_eq!(error.to_string(), "a varint of 20000000 characters has more than 200000 digits");
    }

    #[test]
    fn numbers_too_long_to_print_are_found_in_values_with_parts() {
        let long = vec![1; OPERAND_LENGTH_MAX + 1];
        let of = |count: usize, bytes: &[u8]| {
            let mut list = (count as i32).to_be_bytes().to_vec();
            for _ in 0..count {
                list.extend_from_slice(&(bytes.len() as i32).to_be_bytes());
                list.extend_from_slice(bytes);
            }
            list
        };
        assert!(check_lengths(&DataType::list(DataType::VarInt), &of(2, &long)).is_err());
        assert!(check_lengths(&DataType::list(DataType::Blob), &of(2, &long)).is_ok());
        assert!(check_lengths(&DataType::list(DataType::VarInt), &of(100_000, &[1])).is_ok());
        assert!(check_lengths(&DataType::Decimal, &long[..OPERAND_LENGTH_MAX]).is_ok());
    }
}
