//! Paging states as clients send them back: forged ones, and ones whose content alone is wrong.
//!
//! ```text
//! u8 the statement; 128 more: the state is to be sealed, as the database seals those that it gives
//! the paging state
//! ```

use std::collections::HashSet;
use std::path::Path;

use bytes::Bytes;
use cassette_database::{DatabaseError, Outcome, Rows, StatementOptions, Values};
use cassette_vfs::FileSystem;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::split;
use crate::Target;
use crate::subjects::{DATA, KEYSPACE, World, with_world};

pub const TARGET: Target = Target { name: "paging_state", run, seeds, words: &[], inputs: 8000 };

/// A statement, and one without limits that shows what its WHERE clause admits, by the first so
/// many columns.
struct Paged {
    cql: &'static str,
    admits: &'static str,
    columns: usize,
}

const STATEMENTS: [Paged; 8] = [
    Paged { cql: "SELECT * FROM t", admits: "SELECT * FROM t", columns: 6 },
    Paged { cql: "SELECT * FROM t WHERE p = 1", admits: "SELECT * FROM t WHERE p = 1", columns: 6 },
    Paged {
        cql: "SELECT * FROM t WHERE p = 1 ORDER BY c ASC",
        admits: "SELECT * FROM t WHERE p = 1",
        columns: 6,
    },
    Paged {
        cql: "SELECT * FROM t WHERE p IN (0, 2) AND c > 1",
        admits: "SELECT * FROM t WHERE p IN (0, 2) AND c > 1",
        columns: 6,
    },
    Paged { cql: "SELECT DISTINCT p, s FROM t", admits: "SELECT DISTINCT p, s FROM t", columns: 2 },
    Paged { cql: "SELECT * FROM t WHERE v = 'v1'", admits: "SELECT * FROM t WHERE v = 'v1'", columns: 6 },
    // From the middle of a group on, fewer rows are counted.
    Paged {
        cql: "SELECT p, count(*) FROM t WHERE p IN (0, 2) GROUP BY p",
        admits: "SELECT p FROM t WHERE p IN (0, 2)",
        columns: 1,
    },
    Paged {
        cql: "SELECT * FROM t WHERE token(p) > 0 PER PARTITION LIMIT 2 LIMIT 5",
        admits: "SELECT * FROM t WHERE token(p) > 0",
        columns: 6,
    },
];

/// Bit of the first byte: the state is to be sealed.
const SEAL: u8 = 0x80;
/// Bytes of a seal.
const TAG_LENGTH: usize = 16;

fn query(
    world: &World,
    cql: &str,
    page_size: Option<i32>,
    paging_state: Option<Bytes>,
) -> Result<(Rows, Option<Bytes>), DatabaseError> {
    let mut rows = Rows::default();
    let options = StatementOptions { page_size, paging_state, ..StatementOptions::default() };
    let executed = world.database.query(Some(KEYSPACE), cql, Values::NONE, &options, &mut rows)?;
    let Outcome::Rows { paging_state } = executed.outcome else { panic!("{cql} gives rows") };
    Ok((rows, paging_state))
}

/// The first so many columns of each row.
fn leading(rows: &Rows, columns: usize) -> impl Iterator<Item = Vec<Option<Vec<u8>>>> {
    let cells = move |row: cassette_database::Row<'_>| {
        (0..columns).map(|column| row.bytes(column).map(<[u8]>::to_vec)).collect()
    };
    rows.iter().map(cells)
}

/// The state with the tag of this statement: HMAC-SHA256 over the table's id, the prepared
/// statement's id and the state.
fn sealed(world: &World, cql: &str, state: &[u8]) -> Vec<u8> {
    let files: &dyn FileSystem = &*world.files;
    let content = files.read(&Path::new(DATA).join("paging_key")).unwrap();
    let key = &content[8..40];
    let tables = world.database.engine().tables();
    let (id, _) = tables.iter().find(|(_, table)| table.keyspace == KEYSPACE && table.name == "t").unwrap();
    let statement = world.session.prepare(cql).unwrap().prepared().id();
    let mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    let mac = mac.chain_update(id.0.as_bytes()).chain_update(statement).chain_update(state);
    [state, &mac.finalize().into_bytes()[..TAG_LENGTH]].concat()
}

fn run(input: &[u8]) {
    let (number, state) = split(input);
    let Paged { cql, admits, columns } = STATEMENTS[usize::from(number & !SEAL) % STATEMENTS.len()];
    with_world(|world| {
        let state = if number & SEAL == 0 { state.to_vec() } else { sealed(world, cql, state) };
        match query(world, cql, Some(2), Some(state.into())) {
            Ok((rows, _)) => {
                let admitted: HashSet<_> =
                    leading(&query(world, admits, None, None).unwrap().0, columns).collect();
                assert!(rows.len() <= 2, "{cql}: {} rows", rows.len());
                for row in leading(&rows, columns) {
                    assert!(admitted.contains(&row), "{cql}: {row:02x?} is outside of the WHERE clause");
                }
            }
            Err(error) => assert!(
                !matches!(error, DatabaseError::Server(_) | DatabaseError::Storage { .. }),
                "{cql}: {error}"
            ),
        }
    });
}

fn seeds() -> Vec<Vec<u8>> {
    with_world(|world| {
        let mut seeds = Vec::new();
        for (number, Paged { cql, .. }) in STATEMENTS.iter().enumerate() {
            let page = |state| query(world, cql, Some(2), state).unwrap().1;
            let mut state = page(None);
            while let Some(bytes) = state {
                let content = &bytes[..bytes.len() - TAG_LENGTH];
                seeds.push([&[number as u8], &bytes[..]].concat());
                seeds.push([&[number as u8 | SEAL], content].concat());
                state = page(Some(bytes));
            }
        }
        seeds
    })
}
