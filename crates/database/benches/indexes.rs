//! What secondary indexes cost: writes to a table with six of them, and reads by index beside the reads by key that they
//! resolve to. One thread, prepared statements, on the real file system.
//!
//! ```text
//! cargo bench -p cassette-database --bench indexes -- [--rows 200000] [--operations 100000] [--rounds 5]
//! ```
//!
//! The table and its indexes are those of a user directory. Prints microseconds an operation, each the median of the rounds
//! with the least and the greatest.

use std::time::Instant;

use cassette_database::{Database, Session, Statement, Value};

/// The binary's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const INDEXED: [&str; 6] = ["userid", "loginid", "email", "status", "phone", "username"];

struct Sizes {
    rows: u64,
    operations: u64,
    rounds: usize,
}

fn main() {
    let mut sizes = Sizes { rows: 200_000, operations: 100_000, rounds: 5 };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number = || arguments.next().and_then(|n| n.parse().ok()).expect("a number");
        match argument.as_str() {
            "--rows" => sizes.rows = number(),
            "--operations" => sizes.operations = number(),
            "--rounds" => sizes.rounds = number() as usize,
            _ => {}
        }
    }
    let directory = tempfile::tempdir().expect("a directory");
    let database = Database::open(directory.path()).expect("a database");
    let session = database.session();
    let run = |cql: &str| drop(session.execute(cql, ()).unwrap_or_else(|error| panic!("{cql}: {error}")));
    run("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    run("USE ks");
    for table in ["plain", "indexed", "attached"] {
        run(&format!(
            "CREATE TABLE {table} (id text PRIMARY KEY, email text, firstname text, lastname text, loginid text, phone text, status int, userid text, username text)"
        ));
    }
    for column in INDEXED {
        run(&format!("CREATE INDEX ON indexed ({column})"));
        run(&format!("CREATE INDEX ON attached ({column}) USING 'sai'"));
    }

    println!(
        "{} rows, {} operations, {} rounds; microseconds each: median (least - greatest)",
        sizes.rows, sizes.operations, sizes.rounds
    );
    for table in ["plain", "indexed", "attached"] {
        let insert = insert(&session, table);
        // New rows in each round; the last ones are what reads find.
        let times =
            rounds(&sizes, |round| timed(sizes.rows, |i| write(&session, &insert, round * sizes.rows + i)));
        report(&format!("insert into {table}"), &times);
    }
    let all = sizes.rows * sizes.rounds as u64;
    for table in ["plain", "indexed", "attached"] {
        let insert = insert(&session, table);
        let times = rounds(&sizes, |round| {
            timed(sizes.operations, |i| {
                write(&session, &insert, scattered(i + round * sizes.operations, all))
            })
        });
        report(&format!("overwrite in {table}, memtables and SSTables"), &times);
    }
    for place in ["memtables and SSTables", "SSTables, compacted"] {
        if place.starts_with("SSTables") {
            database.engine().flush(None).expect("a flush");
            for table in database.catalog().keyspace("ks").expect("the keyspace").stored_tables() {
                database.engine().compact(table.id).expect("a compaction");
            }
        }
        for (table, column) in [("plain", "id"), ("indexed", "userid"), ("attached", "userid")] {
            let select =
                session.prepare(&format!("SELECT * FROM {table} WHERE {column} = ?")).expect("a statement");
            let times = rounds(&sizes, |round| {
                timed(sizes.operations, |i| {
                    let key = format!("user{:012}", scattered(i + round * sizes.operations, all));
                    let found = session.execute_prepared(&select, (key,)).expect("rows");
                    assert_eq!(found.len(), 1);
                })
            });
            report(&format!("read of {table} by {column}, {place}"), &times);
        }
    }
}

fn insert(session: &Session, table: &str) -> Statement {
    session
        .prepare(&format!(
            "INSERT INTO {table} (id, email, firstname, lastname, loginid, phone, status, userid, username) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
        ))
        .expect("a statement")
}

fn write(session: &Session, insert: &Statement, i: u64) {
    let text = |prefix: &str| Value::Text(format!("{prefix}{i:012}"));
    let values = vec![
        text("user"),
        text("mail"),
        text("first"),
        text("last"),
        text("login"),
        text("+49"),
        // As many users in each of a thousand states.
        Value::Int((i % 1000) as i32),
        text("user"),
        text("name"),
    ];
    session.execute_prepared(insert, values).expect("a write");
}

/// A number below `below`, another for each `i`, all over the place.
fn scattered(i: u64, below: u64) -> u64 {
    (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) % below
}

fn timed(operations: u64, mut operation: impl FnMut(u64)) -> f64 {
    let began = Instant::now();
    (0..operations).for_each(&mut operation);
    began.elapsed().as_secs_f64() * 1e6 / operations as f64
}

fn rounds(sizes: &Sizes, mut round: impl FnMut(u64) -> f64) -> Vec<f64> {
    let mut times: Vec<f64> = (0..sizes.rounds as u64).map(&mut round).collect();
    times.sort_by(f64::total_cmp);
    times
}

fn report(what: &str, times: &[f64]) {
    let (least, median, greatest) = (times[0], times[times.len() / 2], times[times.len() - 1]);
    println!("{what:60} {median:8.2} ({least:.2} - {greatest:.2})");
}
