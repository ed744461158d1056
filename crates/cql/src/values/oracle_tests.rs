//! Recorded answers of Cassandra 5.0.8's own classes.

use std::sync::Arc;

use cassette_rows::types::{DataType, parse_class_name};

use super::text::encode_hex;
use super::*;

fn native_type(name: &str) -> DataType {
    let class = match name {
        "ascii" => "AsciiType",
        "bigint" => "LongType",
        "blob" => "BytesType",
        "boolean" => "BooleanType",
        "date" => "SimpleDateType",
        "decimal" => "DecimalType",
        "double" => "DoubleType",
        "duration" => "DurationType",
        "float" => "FloatType",
        "inet" => "InetAddressType",
        "int" => "Int32Type",
        "smallint" => "ShortType",
        "text" => "UTF8Type",
        "time" => "TimeType",
        "timestamp" => "TimestampType",
        "timeuuid" => "TimeUUIDType",
        "tinyint" => "ByteType",
        "uuid" => "UUIDType",
        "varint" => "IntegerType",
        other => panic!("unknown type {other}"),
    };
    parse_class_name(class).unwrap().0
}

/// Each line: type, text, then the bytes, the bytes as text, as JSON and as a literal - or an error
/// after a `!`.
#[test]
fn texts_become_bytes_and_bytes_become_texts_as_in_cassandra() {
    let mut wrong = Vec::new();
    for line in include_str!("../../tests/data/text.tsv").lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let data_type = native_type(fields[0]);
        let read = from_text(&data_type, fields[1]);
        let expected = match fields[2].strip_prefix('!') {
            Some(message) => Err(ValueError::invalid(message)),
            None => Ok(fields[2].to_owned()),
        };
        if read.as_deref().map(encode_hex).map_err(Clone::clone) != expected {
            wrong.push(format!("{line}: {read:?}"));
        }
        let Ok(bytes) = read else { continue };
        let written = [
            to_text(&data_type, &bytes),
            json::encode_value(&data_type, &bytes),
            to_literal(&data_type, Some(&bytes)),
        ];
        for (written, expected) in written.iter().zip(&fields[3..]) {
            // Cassandra fails to print some empty values.
            let escaped = written.replace('\\', "\\\\").replace('\t', "\\t").replace('\n', "\\n");
            if !expected.starts_with('!') && escaped != *expected {
                wrong.push(format!("{line}: {written}, expected {expected}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Constant surroundings.
pub(super) struct Nowhere;

impl functions::Surroundings for Nowhere {
    fn now_us(&self) -> i64 {
        0
    }

    fn next_time_uuid(&self) -> [u8; 16] {
        timeuuid::min_at_millis(0)
    }

    fn random_uuid(&self) -> [u8; 16] {
        [0; 16]
    }

    fn call(&self, _: &Arc<functions::UserFunction>, _: &[Option<&[u8]>]) -> functions::Evaluated {
        Ok(None)
    }
}

/// Calls the function of a recorded line: returns its result as hexadecimal digits, with its type.
fn call(name: &str, types: &[DataType], values: &[Vec<u8>]) -> Result<(String, String), ValueError> {
    use crate::ast::ArithmeticOperator::*;
    use functions::{Argument, Function, TypedArgument, resolve, resolve_arithmetic, resolve_negation};

    if let Some(aggregate) = name.strip_prefix("agg:") {
        let function = aggregates::AggregateFunction::of_type(aggregate, &types[0]).unwrap();
        let mut accumulator = function.accumulator();
        for value in values {
            accumulator.add(&[Some(value)], &Nowhere)?;
        }
        let result = accumulator.finish(&Nowhere)?;
        return Ok((function.returns().to_string(), result.map_or("null".to_owned(), |b| encode_hex(&b))));
    }
    let arguments: Vec<TypedArgument> = types
        .iter()
        .map(|data_type| TypedArgument { data_type: data_type.clone(), text: "x".to_owned() })
        .collect();
    let arguments: Vec<&dyn Argument> = arguments.iter().map(|argument| argument as &dyn Argument).collect();
    let operator = match name {
        "_add" => Some(Add),
        "_substract" => Some(Subtract),
        "_multiply" => Some(Multiply),
        "_divide" => Some(Divide),
        "_modulo" => Some(Modulo),
        _ => None,
    };
    let function = match operator {
        Some(operator) => resolve_arithmetic(operator, arguments[0], arguments[1], None)?,
        None if name == "_negate" => resolve_negation(arguments[0], None)?,
        None => match resolve(name, &arguments, None)? {
            Some(Function::Scalar(function)) => function,
            other => panic!("{name} is {other:?}"),
        },
    };
    let values: Vec<_> = values.iter().map(|value| Some(value.as_slice())).collect();
    let result = function.evaluate(&values, &Nowhere)?;
    Ok((function.returns.to_string(), result.map_or("null".to_owned(), |bytes| encode_hex(&bytes))))
}

/// Each line: function, arguments as `type=value`, then the type and bytes of the result - or an
/// error after a `!`.
#[test]
fn functions_give_what_they_give_in_cassandra() {
    let mut wrong = Vec::new();
    for line in include_str!("../../tests/data/functions.tsv").lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let arguments: Vec<_> = fields[1..].iter().map_while(|field| field.split_once('=')).collect();
        let expected = &fields[1 + arguments.len()..];
        let types: Vec<DataType> = arguments
            .iter()
            .map(|(name, _)| if *name == "counter" { DataType::Counter } else { native_type(name) })
            .collect();
        let values: Vec<_> = types
            .iter()
            .zip(&arguments)
            .map(|(data_type, (_, text))| from_text(data_type, text).unwrap())
            .collect();
        let result = call(fields[0], &types, &values);
        let same = match (&result, expected[0].strip_prefix('!')) {
            (Err(error), Some(message)) => error.to_string() == message || message == "fails",
            (Ok((data_type, hex)), None) => (data_type.as_str(), hex.as_str()) == (expected[0], expected[1]),
            _ => false,
        };
        if !same {
            wrong.push(format!("{line}: {result:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} wrong\n{}", wrong.len(), wrong.join("\n"));
}

/// Each line: type, JSON, then the bytes, the bytes as JSON and as a literal - or an error after a
/// `!`.
#[test]
fn json_becomes_bytes_and_bytes_become_json_as_in_cassandra() {
    let mut wrong = Vec::new();
    for line in include_str!("../../tests/data/json.tsv").lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let (data_type, _) = parse_class_name(fields[0]).unwrap();
        let read = json::Json::parse(fields[1])
            .map_err(ValueError::invalid)
            .and_then(|json| json::decode_value(&data_type, &json));
        match (&read, fields[2].strip_prefix('!')) {
            (Err(_), Some("fails")) => {}
            (Err(error), Some(message)) if error.to_string() == message => {}
            (Ok(bytes), None) if encode_hex(bytes) == fields[2] => {
                let written = [json::encode_value(&data_type, bytes), to_literal(&data_type, Some(bytes))];
                for (written, expected) in written.iter().zip(&fields[3..]) {
                    let escaped = written.replace('\\', "\\\\").replace('\t', "\\t").replace('\n', "\\n");
                    if !expected.starts_with('!') && escaped != *expected {
                        wrong.push(format!("{line}: {written}, expected {expected}"));
                    }
                }
            }
            _ => wrong.push(format!("{line}: {read:?}")),
        }
    }
    assert!(wrong.is_empty(), "{} wrong\n{}", wrong.len(), wrong.join("\n"));
}
