//! The objects of the histories: a partition of two rows with conditional writes, and a counter.

use rand::RngExt;
use rand::rngs::SmallRng;

use super::checker::Object;

pub const TABLES: [&str; 2] = [
    "CREATE TABLE IF NOT EXISTS ks.rows (p int, c int, v int, PRIMARY KEY (p, c))",
    "CREATE TABLE IF NOT EXISTS ks.counts (p int PRIMARY KEY, n counter)",
];

/// One row of an answer: names with integers, and booleans as 0 and 1.
pub type Answer = Vec<Vec<(String, Option<i64>)>>;

/// An object stored in a partition of the database.
pub trait Stored: Object {
    fn random(rng: &mut SmallRng) -> Self::Input;

    /// Reads the whole object.
    fn read() -> Self::Input;

    fn cql(input: &Self::Input, partition: i32) -> String;

    /// Returns whether the statement must be sent at SERIAL.
    fn is_serial_read(input: &Self::Input) -> bool;

    fn output(input: &Self::Input, answer: &Answer) -> Self::Output;
}

fn column(row: &[(String, Option<i64>)], name: &str) -> Option<i64> {
    row.iter().find(|(of, _)| of == name).and_then(|(_, value)| *value)
}

fn is_applied(answer: &Answer) -> bool {
    answer.first().and_then(|row| column(row, "[applied]")) == Some(1)
}

/// Two rows of a partition, each absent or with a number.
#[derive(Debug, Clone, Copy)]
pub struct Rows;

#[derive(Debug, Clone)]
pub enum RowsInput {
    Read,
    InsertIfNotExists {
        row: usize,
        value: i64,
    },
    UpdateIf {
        row: usize,
        expected: Option<i64>,
        value: i64,
    },
    DeleteIf {
        row: usize,
        expected: i64,
    },
    DeleteIfExists {
        row: usize,
    },
    /// Both rows, each with a condition: atomic.
    Batch {
        expected: [Option<i64>; 2],
        values: [i64; 2],
    },
}

#[derive(Debug, Clone, PartialEq)]
pub enum RowsOutput {
    Found([Option<i64>; 2]),
    Applied,
    /// The existing row instead.
    Refused(Option<i64>),
    BatchRefused,
}

/// Few values, so that conditions often hold.
const VALUES: i64 = 4;

impl Object for Rows {
    type State = [Option<i64>; 2];
    type Input = RowsInput;
    type Output = RowsOutput;

    fn initial() -> Self::State {
        [None; 2]
    }

    fn step(state: &Self::State, input: &RowsInput) -> (Self::State, RowsOutput) {
        let mut after = *state;
        let output = match *input {
            RowsInput::Read => RowsOutput::Found(*state),
            RowsInput::InsertIfNotExists { row, value } => match state[row] {
                None => {
                    after[row] = Some(value);
                    RowsOutput::Applied
                }
                found => RowsOutput::Refused(found),
            },
            RowsInput::UpdateIf { row, expected, value } => {
                if state[row] == expected {
                    after[row] = Some(value);
                    RowsOutput::Applied
                } else {
                    RowsOutput::Refused(state[row])
                }
            }
            RowsInput::DeleteIf { row, expected } => {
                if state[row] == Some(expected) {
                    after[row] = None;
                    RowsOutput::Applied
                } else {
                    RowsOutput::Refused(state[row])
                }
            }
            RowsInput::DeleteIfExists { row } => match state[row] {
                Some(_) => {
                    after[row] = None;
                    RowsOutput::Applied
                }
                None => RowsOutput::Refused(None),
            },
            RowsInput::Batch { expected, values } => {
                if *state == expected {
                    after = values.map(Some);
                    RowsOutput::Applied
                } else {
                    RowsOutput::BatchRefused
                }
            }
        };
        (after, output)
    }
}

fn literal(value: Option<i64>) -> String {
    value.map_or_else(|| "null".to_owned(), |value| value.to_string())
}

impl Stored for Rows {
    fn random(rng: &mut SmallRng) -> RowsInput {
        let row = rng.random_range(0..2);
        let value = rng.random_range(0..VALUES);
        let mut expected = || {
            let value = rng.random_range(-1..VALUES);
            (value >= 0).then_some(value)
        };
        let expected = [expected(), expected()];
        match rng.random_range(0..10) {
            0 | 1 => RowsInput::Read,
            2 | 3 => RowsInput::InsertIfNotExists { row, value },
            4..7 => RowsInput::UpdateIf { row, expected: expected[0], value },
            7 => RowsInput::DeleteIf { row, expected: expected[0].unwrap_or(0) },
            8 => RowsInput::DeleteIfExists { row },
            _ => RowsInput::Batch { expected, values: [value, VALUES - 1 - value] },
        }
    }

    fn read() -> RowsInput {
        RowsInput::Read
    }

    fn cql(input: &RowsInput, p: i32) -> String {
        match input {
            RowsInput::Read => format!("SELECT c, v FROM ks.rows WHERE p = {p}"),
            RowsInput::InsertIfNotExists { row, value } => {
                format!("INSERT INTO ks.rows (p, c, v) VALUES ({p}, {row}, {value}) IF NOT EXISTS")
            }
            RowsInput::UpdateIf { row, expected, value } => {
                let expected = literal(*expected);
                format!("UPDATE ks.rows SET v = {value} WHERE p = {p} AND c = {row} IF v = {expected}")
            }
            RowsInput::DeleteIf { row, expected } => {
                format!("DELETE FROM ks.rows WHERE p = {p} AND c = {row} IF v = {expected}")
            }
            RowsInput::DeleteIfExists { row } => {
                format!("DELETE FROM ks.rows WHERE p = {p} AND c = {row} IF EXISTS")
            }
            RowsInput::Batch { expected, values } => {
                let part = |row: usize| {
                    let (value, expected) = (values[row], literal(expected[row]));
                    format!("UPDATE ks.rows SET v = {value} WHERE p = {p} AND c = {row} IF v = {expected};")
                };
                format!("BEGIN BATCH {} {} APPLY BATCH", part(0), part(1))
            }
        }
    }

    fn is_serial_read(input: &RowsInput) -> bool {
        matches!(input, RowsInput::Read)
    }

    fn output(input: &RowsInput, answer: &Answer) -> RowsOutput {
        match input {
            RowsInput::Read => {
                let mut found = [None; 2];
                for row in answer {
                    found[column(row, "c").unwrap() as usize] = column(row, "v");
                }
                RowsOutput::Found(found)
            }
            _ if is_applied(answer) => RowsOutput::Applied,
            RowsInput::Batch { .. } => RowsOutput::BatchRefused,
            _ => RowsOutput::Refused(answer.first().and_then(|row| column(row, "v"))),
        }
    }
}

/// A counter.
#[derive(Debug, Clone, Copy)]
pub struct Count;

#[derive(Debug, Clone)]
pub enum CountInput {
    Read,
    Add(i64),
}

impl Object for Count {
    type State = i64;
    type Input = CountInput;
    /// The result of a read; other operations return none.
    type Output = Option<i64>;

    fn initial() -> i64 {
        0
    }

    fn step(state: &i64, input: &CountInput) -> (i64, Option<i64>) {
        match input {
            CountInput::Read => (*state, Some(*state)),
            CountInput::Add(by) => (state + by, None),
        }
    }
}

impl Stored for Count {
    fn random(rng: &mut SmallRng) -> CountInput {
        if rng.random_ratio(1, 3) { CountInput::Read } else { CountInput::Add(rng.random_range(-3..10)) }
    }

    fn read() -> CountInput {
        CountInput::Read
    }

    fn cql(input: &CountInput, p: i32) -> String {
        match input {
            CountInput::Read => format!("SELECT n FROM ks.counts WHERE p = {p}"),
            CountInput::Add(by) => format!("UPDATE ks.counts SET n = n + {by} WHERE p = {p}"),
        }
    }

    fn is_serial_read(_: &CountInput) -> bool {
        false
    }

    fn output(input: &CountInput, answer: &Answer) -> Option<i64> {
        match input {
            CountInput::Read => Some(answer.first().and_then(|row| column(row, "n")).unwrap_or(0)),
            CountInput::Add(_) => None,
        }
    }
}
