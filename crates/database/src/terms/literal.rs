//! The bytes of constants. A first set of types; the language's own values take its place.

use cassette_cql::ast::{Literal, LiteralKind};
use cassette_rows::DataType;

use crate::error::{DatabaseError, Result, bail_invalid};

/// The bytes that `literal` stands for in a value of type `wanted`, to which it is assignable.
pub(super) fn literal_bytes(literal: &Literal, wanted: &DataType) -> Result<Vec<u8>> {
    let text = &*literal.text;
    if literal.kind == LiteralKind::Hex {
        return hex_bytes(text.get(2..).unwrap_or_default());
    }
    let wrong = |what: &str| DatabaseError::Invalid(format!("Unable to make {what} from '{text}'"));
    Ok(match wanted {
        DataType::Text | DataType::Ascii => text.as_bytes().to_vec(),
        DataType::Int => text.parse::<i32>().map_err(|_| wrong("int"))?.to_be_bytes().to_vec(),
        DataType::BigInt | DataType::Counter => {
            text.parse::<i64>().map_err(|_| wrong("long"))?.to_be_bytes().to_vec()
        }
        DataType::SmallInt => text.parse::<i16>().map_err(|_| wrong("short"))?.to_be_bytes().to_vec(),
        DataType::TinyInt => text.parse::<i8>().map_err(|_| wrong("byte"))?.to_be_bytes().to_vec(),
        DataType::Timestamp => {
            text.parse::<i64>().map_err(|_| wrong("timestamp (in milliseconds)"))?.to_be_bytes().to_vec()
        }
        DataType::Boolean => vec![u8::from(text.eq_ignore_ascii_case("true"))],
        DataType::Float => text.parse::<f32>().map_err(|_| wrong("float"))?.to_be_bytes().to_vec(),
        DataType::Double => text.parse::<f64>().map_err(|_| wrong("double"))?.to_be_bytes().to_vec(),
        DataType::Uuid | DataType::TimeUuid => {
            uuid::Uuid::parse_str(text).map_err(|_| wrong("UUID"))?.as_bytes().to_vec()
        }
        DataType::VarInt => {
            text.parse::<num_bigint::BigInt>().map_err(|_| wrong("BigInteger"))?.to_signed_bytes_be()
        }
        other => bail_invalid!("Literals of type {other} are not supported by Cassette yet"),
    })
}

fn hex_bytes(digits: &str) -> Result<Vec<u8>> {
    let pairs = digits.as_bytes().chunks_exact(2);
    if !pairs.remainder().is_empty() {
        bail_invalid!("An hex string representing bytes must have an even length");
    }
    let digit = |byte: u8| (byte as char).to_digit(16).map(|digit| digit as u8);
    pairs
        .map(|pair| match (digit(pair[0]), digit(pair[1])) {
            (Some(high), Some(low)) => Ok(high << 4 | low),
            _ => bail_invalid!("Non-hex characters in {digits}"),
        })
        .collect()
}
