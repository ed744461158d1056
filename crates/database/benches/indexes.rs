//! The cost of secondary indexes: writes to a table with six of them, and reads by index beside the
//! equivalent reads by key. One thread, prepared statements, on the real file system.
//!
//! ```text
//! cargo bench -p cassette-database --bench indexes -- [--rows 200000] [--operations 100000] [--rounds 5] [--table plain]
//! ```
//!
//! The tables and their indexes are those of a user directory: `plain` without, `indexed` with
//! CREATE INDEX, `attached` with storage-attached ones. They are measured in turns, so that other
//! load affects all of them equally. Prints microseconds per operation: the median of the rounds
//! with minimum and maximum. `--table` selects one table and `--operations 0` only the insertions,
//! for profiles of a single operation.

use std::time::Instant;

use cassette_database::{Database, Session, Statement, Value};

/// The allocator of the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const INDEXED: [&str; 6] = ["userid", "loginid", "email", "status", "phone", "username"];

const TABLES: [&str; 3] = ["plain", "indexed", "attached"];

struct Sizes {
    rows: u64,
    operations: u64,
    rounds: u64,
}

fn main() {
    let mut sizes = Sizes { rows: 200_000, operations: 100_000, rounds: 5 };
    let mut tables = TABLES.to_vec();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number = || arguments.next().and_then(|n| n.parse().ok()).expect("a number");
        match argument.as_str() {
            "--rows" => sizes.rows = number(),
            "--operations" => sizes.operations = number(),
            "--rounds" => sizes.rounds = number(),
            "--table" => {
                let only = arguments.next().expect("a table");
                tables.retain(|table| *table == only);
            }
            _ => {}
        }
    }
    let directory = tempfile::tempdir().expect("a directory");
    let database = Database::open(directory.path()).expect("a database");
    let session = database.session();
    create(&session, &tables);

    println!(
        "{} rows, {} operations, {} rounds by turns; microseconds each: median (least - greatest)",
        sizes.rows, sizes.operations, sizes.rounds
    );
    let inserts: Vec<Statement> = tables.iter().map(|table| insert(&session, table)).collect();
    // Each round inserts new rows.
    let times = by_turns(&sizes, tables.len(), |table, round| {
        timed(sizes.rows, |i| write(&session, &inserts[table], round * sizes.rows + i, 0))
    });
    report("insert into", &tables, &times);
    if sizes.operations == 0 {
        return;
    }

    let all = sizes.rows * sizes.rounds;
    // The number of times that each row was overwritten.
    let mut versions = vec![vec![0u64; all as usize]; tables.len()];
    let times = by_turns(&sizes, tables.len(), |table, round| {
        timed(sizes.operations, |i| {
            let row = scattered(i + round * sizes.operations, all);
            let version = &mut versions[table][row as usize];
            *version += 1;
            write(&session, &inserts[table], row, *version);
        })
    });
    report("overwrite, memtables and SSTables, in", &tables, &times);

    for place in ["memtables and SSTables", "compacted SSTables"] {
        if place.starts_with("compacted") {
            database.engine().flush(None).expect("a flush");
            for table in database.catalog().keyspace("ks").expect("the keyspace").stored_tables() {
                database.engine().compact(table.id).expect("a compaction");
            }
        }
        let column = |table: &str| if table == "plain" { "id" } else { "userid" };
        let selects = tables.iter().map(|table| {
            let cql = format!("SELECT * FROM {table} WHERE {} = ?", column(table));
            session.prepare(&cql).expect("a statement")
        });
        let selects: Vec<Statement> = selects.collect();
        let times = by_turns(&sizes, tables.len(), |table, round| {
            timed(sizes.operations, |i| {
                let row = scattered(i + round * sizes.operations, all);
                let by_key = tables[table] == "plain";
                let version = if by_key { 0 } else { versions[table][row as usize] };
                let found = session.execute(&selects[table], (text("user", row, version),));
                assert_eq!(found.expect("rows").len(), 1);
            })
        });
        report(&format!("read by key or userid, {place}, of"), &tables, &times);
    }
}

fn create(session: &Session, tables: &[&str]) {
    let run = |cql: &str| drop(session.execute(cql, ()).unwrap_or_else(|error| panic!("{cql}: {error}")));
    run("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    run("USE ks");
    for table in tables {
        run(&format!(
            "CREATE TABLE {table} (id text PRIMARY KEY, email text, firstname text, lastname text, loginid \
             text, phone text, status int, userid text, username text)"
        ));
        for column in INDEXED {
            match *table {
                "indexed" => run(&format!("CREATE INDEX ON {table} ({column})")),
                "attached" => run(&format!("CREATE INDEX ON {table} ({column}) USING 'sai'")),
                _ => {}
            }
        }
    }
}

fn insert(session: &Session, table: &str) -> Statement {
    session
        .prepare(&format!(
            "INSERT INTO {table} (id, email, firstname, lastname, loginid, phone, status, userid, username) \
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
        ))
        .expect("a statement")
}

/// Writes a row whose values differ in each version.
fn write(session: &Session, insert: &Statement, row: u64, version: u64) {
    let value = |prefix: &str| Value::Text(text(prefix, row, version));
    let values = vec![
        Value::Text(text("user", row, 0)),
        value("mail"),
        value("first"),
        value("last"),
        value("login"),
        value("+49"),
        // Each of a thousand states has the same number of users.
        Value::Int(((row + version) % 1000) as i32),
        value("user"),
        value("name"),
    ];
    session.execute(insert, values).expect("a write");
}

fn text(prefix: &str, row: u64, version: u64) -> String {
    match version {
        0 => format!("{prefix}{row:012}"),
        _ => format!("{prefix}{row:012}-{version}"),
    }
}

/// Returns a pseudorandom number below `below` for each `i`.
fn scattered(i: u64, below: u64) -> u64 {
    (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) % below
}

fn timed(operations: u64, mut operation: impl FnMut(u64)) -> f64 {
    let began = Instant::now();
    (0..operations).for_each(&mut operation);
    began.elapsed().as_secs_f64() * 1e6 / operations as f64
}

/// Returns the times of each table.
fn by_turns(sizes: &Sizes, tables: usize, mut time: impl FnMut(usize, u64) -> f64) -> Vec<Vec<f64>> {
    let mut times = vec![Vec::new(); tables];
    for round in 0..sizes.rounds {
        for (table, times) in times.iter_mut().enumerate() {
            times.push(time(table, round));
        }
    }
    times
}

fn report(what: &str, tables: &[&str], times: &[Vec<f64>]) {
    for (table, times) in tables.iter().zip(times) {
        let mut times = times.clone();
        times.sort_by(f64::total_cmp);
        let (least, median, greatest) = (times[0], times[times.len() / 2], times[times.len() - 1]);
        println!("{:60} {median:8.2} ({least:.2} - {greatest:.2})", format!("{what} {table}"));
    }
}
