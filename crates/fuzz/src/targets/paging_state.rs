//! Paging states as clients send them back.
//!
//! ```text
//! u8 the statement
//! the paging state
//! ```

use bytes::Bytes;
use cassette_database::{DatabaseError, Outcome, Rows, StatementOptions, Values};

use super::split;
use crate::Target;
use crate::subjects::{KEYSPACE, World, with_world};

pub const TARGET: Target = Target { name: "paging_state", run, seeds, words: &[], inputs: 8000 };

const STATEMENTS: [&str; 8] = [
    "SELECT * FROM t",
    "SELECT * FROM t WHERE p = 1",
    "SELECT * FROM t WHERE p = 1 ORDER BY c ASC",
    "SELECT * FROM t WHERE p IN (0, 2) AND c > 1",
    "SELECT DISTINCT p, s FROM t",
    "SELECT * FROM t WHERE v = 'v1'",
    "SELECT p, count(*) FROM t GROUP BY p",
    "SELECT * FROM t PER PARTITION LIMIT 2 LIMIT 5",
];

fn query(
    world: &World,
    statement: usize,
    state: Option<Bytes>,
) -> Result<(Rows, Option<Bytes>), DatabaseError> {
    let mut rows = Rows::default();
    let options = StatementOptions { page_size: Some(2), paging_state: state, ..StatementOptions::default() };
    let cql = STATEMENTS[statement];
    let executed = world.database.query(Some(KEYSPACE), cql, Values::NONE, &options, &mut rows)?;
    let Outcome::Rows { paging_state } = executed.outcome else { panic!("{cql} gives rows") };
    Ok((rows, paging_state))
}

fn run(input: &[u8]) {
    let (number, state) = split(input);
    let number = usize::from(number) % STATEMENTS.len();
    with_world(|world| match query(world, number, Some(Bytes::copy_from_slice(state))) {
        Ok((rows, _)) => assert!(rows.len() <= 21, "{}: {} rows", STATEMENTS[number], rows.len()),
        Err(error) => assert!(!matches!(error, DatabaseError::Server(_)), "{}: {error}", STATEMENTS[number]),
    });
}

fn seeds() -> Vec<Vec<u8>> {
    with_world(|world| {
        let mut seeds = Vec::new();
        for number in 0..STATEMENTS.len() {
            let mut state = query(world, number, None).unwrap().1;
            while let Some(bytes) = state {
                seeds.push([&[number as u8], &bytes[..]].concat());
                state = query(world, number, Some(bytes)).unwrap().1;
            }
        }
        seeds
    })
}
