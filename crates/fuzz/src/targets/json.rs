//! JSON from clients: `from_json` and `INSERT JSON`. What a value's `to_json` gives reads back as
//! the same value.
//!
//! ```text
//! u8 the type, by its place in `subjects::TYPES`; beyond them: a whole row
//! UTF-8
//! ```

use cassette_database::{BoundValue, DatabaseError, Executed, Rows, StatementOptions, Values};

use super::split;
use crate::Target;
use crate::subjects::{KEYSPACE, TYPES, World, with_world};

pub const TARGET: Target = Target {
    name: "json",
    run,
    seeds,
    words: &[
        b"{",
        b"}",
        b"[",
        b"]",
        b"\"",
        b":",
        b",",
        b"null",
        b"true",
        b"\\u0000",
        b"\\ud83d",
        b"\\",
        b"1e400",
        b"-0.0",
        b"\"NaN\"",
        b"\"\"",
        b"\"k\"",
        b"\"\\\"c0\\\"\"",
        b"'",
        b"/*",
        b"//",
        b"\xef\xbb\xbf",
        b"1.0",
    ],
    inputs: 3000,
};

fn run(input: &[u8]) {
    let (number, text) = split(input);
    let text = String::from_utf8_lossy(text);
    with_world(|world| {
        let number = usize::from(number) % (TYPES.len() + 1);
        if number == TYPES.len() {
            let insert = "INSERT INTO v JSON ?";
            if execute(world, insert, text.as_bytes()).is_ok() {
                world.session.execute("SELECT JSON * FROM v LIMIT 3", ()).unwrap();
            }
            return;
        }
        let update = |key: i32| format!("UPDATE v SET c{number} = from_json(?) WHERE k = {key}");
        if execute(world, &update(1), text.as_bytes()).is_err() {
            return;
        }
        let select = format!("SELECT c{number}, to_json(c{number}) FROM v WHERE k = ?");
        let read = |key: i32| {
            let rows = world.session.execute(&select, (key,)).unwrap();
            let row = rows.first();
            let bytes = |index| row.and_then(|row| row.bytes(index)).map(<[u8]>::to_vec);
            (bytes(0), bytes(1))
        };
        let (value, json) = read(1);
        let json = json.unwrap_or_else(|| b"null".to_vec());
        let printed = String::from_utf8_lossy(&json).into_owned();
        // As in Cassandra, a duration of zero is printed as "", which no duration is read from.
        let is_zero = TYPES[number] == "duration" && printed == "\"\"";
        let done = execute(world, &update(2), &json);
        // As in Cassandra, a fraction is read as a double, also by a decimal: 0.000 becomes 0.0,
        // and 9.03E+33332 is infinite, which no decimal is.
        if TYPES[number].contains("decimal") && printed.contains(['.', 'E']) {
            return;
        }
        if let Err(error) = done {
            // As in Cassandra, infinities and NaN are printed as null, which no element of a
            // collection can be, and the years of timestamps that have more than four digits are
            // printed, but not read.
            if is_zero || printed.contains("null") || TYPES[number].contains("timestamp") {
                return;
            }
            panic!("{}: {text} is {value:02x?}, printed as {printed}: {error}", TYPES[number]);
        }
        assert!(!is_zero, "an empty duration was stored");
        let again = read(2);
        assert_eq!(again.1.unwrap_or_else(|| b"null".to_vec()), json, "{}: {text}", TYPES[number]);
    });
}

fn execute(world: &World, cql: &str, text: &[u8]) -> Result<Executed, DatabaseError> {
    let mut rows = Rows::default();
    let values = [BoundValue::Set(text)];
    let values = Values::positional(&values);
    let done = world.database.query(Some(KEYSPACE), cql, values, &StatementOptions::default(), &mut rows);
    if let Err(error) = &done {
        assert!(!matches!(error, DatabaseError::Server(_) | DatabaseError::Storage { .. }), "{error}");
    }
    done
}

fn seeds() -> Vec<Vec<u8>> {
    let texts: [&str; TYPES.len()] = [
        r#""ascii""#,
        "1234567890123",
        r#""0x00ff""#,
        "true",
        r#""2024-02-29""#,
        "123.45",
        "-1.5e300",
        r#""1mo2d3h4m5s6ms7us8ns""#,
        "-0.0",
        r#""127.0.0.1""#,
        "-1",
        "32767",
        r#""t\u00e4xt \ud83d\udca9 \"q\"""#,
        r#""23:59:59.999999999""#,
        r#""2024-02-29 01:02:03.004Z""#,
        r#""2fe56d00-0d4b-11ef-8000-010203040506""#,
        "-128",
        r#""123e4567-e89b-42d3-a456-426614174000""#,
        "123456789012345678901234567890",
        "[1, 2, -3]",
        r#"["a", "b"]"#,
        r#"{"a": 1, "b": 12345678901234567890}"#,
        r#"[1, "x", 1.5]"#,
        r#"{"a": 1, "b": "x", "c": [1, 2]}"#,
        "[1.5, -2.0, 0.25]",
        r#"["a", "b"]"#,
        r#"["x", "y", "x"]"#,
        r#"["2024-02-29 01:02:03.004Z", 0]"#,
        r#"{"1": [1.5, null], "2": []}"#,
        r#"{"a": null, "b": ""}"#,
        r#"[{"123e4567-e89b-42d3-a456-426614174000": {"a": 1}}]"#,
    ];
    let mut seeds: Vec<Vec<u8>> =
        texts.iter().enumerate().map(|(n, text)| [&[n as u8], text.as_bytes()].concat()).collect();
    let row = br#"{"k": 1, "c0": "a", "\"c1\"": 2, "C19": [1, 2], "c29": {"a": 1}}"#;
    seeds.push([&[TYPES.len() as u8], &row[..]].concat());
    seeds
}
