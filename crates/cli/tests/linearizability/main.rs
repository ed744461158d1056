//! Conditional writes and counters are linearizable: concurrent histories are recorded and checked,
//! in one process with many threads, and against the server while it is killed.
//!
//! Environment: `CASSETTE_LINEARIZABILITY_ROUNDS` (200, in one process) and
//! `CASSETTE_LINEARIZABILITY_KILLS` (4).

mod checker;
mod objects;
#[path = "../support/mod.rs"]
mod support;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cassette_database::{Consistency, Database, StatementOptions};
use checker::{Operation, is_linearizable};
use objects::{Answer, Count, Rows, RowsInput, RowsOutput, Stored, TABLES};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use scylla::client::session::Session;
use scylla::statement::Statement;
use scylla::value::{CqlValue, Row};
use support::cql::{connect_to_keyspace, execute};
use support::{Launch, Server};

/// The recorded operations on one object.
struct History<O: Stored> {
    partition: i32,
    operations: Mutex<Vec<Operation<O>>>,
}

impl<O: Stored> History<O> {
    fn new(partition: i32) -> Self {
        Self { partition, operations: Mutex::default() }
    }

    fn record(&self, input: O::Input, called: u64, answer: Option<&Answer>, clock: &AtomicU64) {
        let output = answer.map(|answer| O::output(&input, answer));
        let returned = clock.fetch_add(1, Ordering::SeqCst);
        self.operations.lock().unwrap().push(Operation { input, output, called, returned });
    }

    fn check(&self, what: &str) {
        let mut operations = self.operations.lock().unwrap();
        operations.sort_by_key(|operation| operation.called);
        let text: Vec<String> = operations
            .iter()
            .map(|o| format!("{} to {}: {:?} answered {:?}", o.called, o.returned, o.input, o.output))
            .collect();
        assert!(is_linearizable(&operations), "{what}, partition {}:\n{}", self.partition, text.join("\n"));
    }
}

fn from_environment(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|error| panic!("{name}={text}: {error}")))
}

/// The embedded database as a client.
fn embedded(session: &cassette_database::Session, cql: &str, is_serial: bool) -> Answer {
    let consistency = if is_serial { Consistency::Serial } else { Consistency::One };
    let options = StatementOptions { consistency, ..StatementOptions::default() };
    let rows = session.execute_with(cql, (), &options).unwrap_or_else(|error| panic!("{cql}: {error}"));
    let names: Vec<String> = rows.columns().iter().map(|column| column.name.to_string()).collect();
    let number = |bytes: &[u8]| match *bytes {
        [flag] => i64::from(flag),
        [a, b, c, d] => i64::from(i32::from_be_bytes([a, b, c, d])),
        _ => i64::from_be_bytes(bytes.try_into().unwrap()),
    };
    rows.iter()
        .map(|row| {
            (0..names.len()).map(|index| (names[index].clone(), row.bytes(index).map(number))).collect()
        })
        .collect()
}

/// Executes some operations of one client on an object.
fn work<O: Stored>(session: &cassette_database::Session, history: &History<O>, clock: &AtomicU64, seed: u64) {
    let mut rng = SmallRng::seed_from_u64(seed);
    for _ in 0..12 {
        let input = O::random(&mut rng);
        let cql = O::cql(&input, history.partition);
        let called = clock.fetch_add(1, Ordering::SeqCst);
        let answer = embedded(session, &cql, O::is_serial_read(&input));
        history.record(input, called, Some(&answer), clock);
    }
}

#[test]
fn histories_of_threads_in_one_process_are_linearizable() {
    const THREADS: u64 = 6;
    let rounds = from_environment("CASSETTE_LINEARIZABILITY_ROUNDS").unwrap_or(200);
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(directory.path()).unwrap();
    let session = database.session();
    session
        .execute(
            "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            (),
        )
        .unwrap();
    TABLES.iter().for_each(|table| drop(session.execute(table, ()).unwrap()));
    let seed: u64 = rand::random();
    let clock = AtomicU64::new(0);
    let mut tampered = 0;
    for round in 0..rounds {
        let (rows, count) = (History::<Rows>::new(round as i32), History::<Count>::new(round as i32));
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (session, rows, count, clock) = (database.session(), &rows, &count, &clock);
                let seed = seed.wrapping_add(round * THREADS + thread);
                scope.spawn(move || {
                    work(&session, rows, clock, seed);
                    work(&session, count, clock, seed);
                });
            }
        });
        let what = format!("seed {seed}, round {round}");
        rows.check(&what);
        count.check(&what);
        tampered += refuses_what_nobody_wrote(&rows);
        // Some rounds also read from SSTables.
        if round % 50 == 49 {
            database.engine().flush(None).unwrap();
        }
    }
    assert!(tampered > 0, "no history had a read to tamper with");
}

/// Changes a read of a recorded history to a value that was never written. Returns the number of
/// checked histories.
fn refuses_what_nobody_wrote(history: &History<Rows>) -> usize {
    let mut operations = history.operations.lock().unwrap().clone();
    let read = operations.iter_mut().find(|operation| matches!(operation.input, RowsInput::Read));
    let Some(read) = read else { return 0 };
    read.output = Some(RowsOutput::Found([Some(1_000_000), None]));
    assert!(!is_linearizable(&operations));
    1
}

/// The driver as a client; `None` if the answer is lost.
async fn sent(session: &Session, cql: &str, is_serial: bool) -> Option<Answer> {
    let mut statement = Statement::new(cql);
    if is_serial {
        statement.set_consistency(scylla::statement::Consistency::Serial);
    }
    let result = session.query_unpaged(statement, ()).await.ok()?;
    let Ok(rows) = result.into_rows_result() else { return Some(Answer::new()) };
    let names: Vec<String> = rows.column_specs().iter().map(|column| column.name().to_owned()).collect();
    let number = |value: CqlValue| match value {
        CqlValue::Boolean(flag) => i64::from(flag),
        CqlValue::Int(number) => i64::from(number),
        CqlValue::Counter(count) => count.0,
        other => panic!("{cql}: {other:?}"),
    };
    let read = |row: Row| {
        let values = row.columns.into_iter().map(|value| value.map(number));
        names.iter().cloned().zip(values).collect()
    };
    Some(rows.rows::<Row>().unwrap().map(|row| read(row.unwrap())).collect())
}

/// Shared state of the clients of a round.
struct Round {
    rows: Vec<History<Rows>>,
    counts: Vec<History<Count>>,
    clock: AtomicU64,
    stopped: AtomicBool,
}

impl Round {
    const OBJECTS: i32 = 4;

    fn new(number: i32) -> Arc<Self> {
        let partitions = || (0..Self::OBJECTS).map(|object| number * Self::OBJECTS + object);
        Arc::new(Self {
            rows: partitions().map(History::new).collect(),
            counts: partitions().map(History::new).collect(),
            clock: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
        })
    }

    /// Performs an operation and records it. Returns whether there was an answer.
    async fn perform<O: Stored>(&self, session: &Session, history: &History<O>, input: O::Input) -> bool {
        let cql = O::cql(&input, history.partition);
        let called = self.clock.fetch_add(1, Ordering::SeqCst);
        let answer = sent(session, &cql, O::is_serial_read(&input)).await;
        history.record(input, called, answer.as_ref(), &self.clock);
        answer.is_some()
    }

    /// Executes operations until an answer is lost, which is permitted only once the server is
    /// being killed.
    async fn work(&self, session: &Session, seed: u64) {
        let mut rng = SmallRng::seed_from_u64(seed);
        loop {
            let object = rng.random_range(0..Self::OBJECTS as usize);
            let is_answered = if rng.random_ratio(2, 3) {
                self.perform(session, &self.rows[object], Rows::random(&mut rng)).await
            } else {
                self.perform(session, &self.counts[object], Count::random(&mut rng)).await
            };
            if !is_answered {
                assert!(self.stopped.load(Ordering::SeqCst), "an answer was lost while the server ran");
                return;
            }
        }
    }

    /// Reads every object, and checks all histories.
    async fn finish(&self, session: &Session, what: &str) {
        let count = self.clock.load(Ordering::SeqCst) / 2;
        println!("{what}: {count} operations");
        for history in &self.rows {
            assert!(self.perform(session, history, Rows::read()).await, "{what}: a read failed");
            history.check(what);
        }
        for history in &self.counts {
            assert!(self.perform(session, history, Count::read()).await, "{what}: a read failed");
            history.check(what);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn histories_are_linearizable_across_kills_of_the_server() {
    const CLIENTS: u64 = 6;
    const MODES: [&str; 3] = [
        "commitlog_sync: periodic\ncommitlog_sync_period: 10000ms\n",
        "commitlog_sync: batch\n",
        "commitlog_sync: group\ncommitlog_sync_group_window: 2ms\n",
    ];
    let kills = from_environment("CASSETTE_LINEARIZABILITY_KILLS").unwrap_or(4);
    let seed: u64 = rand::random();
    let mut rng = SmallRng::seed_from_u64(seed);
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let mut before: Option<Arc<Round>> = None;
    for number in 0..=kills {
        let what = format!("seed {seed}, kill {number}");
        let mode = MODES[rng.random_range(0..MODES.len())];
        let server = Launch::new(&data).config(&format!("memtable_heap_space: 4MiB\n{mode}")).start();
        let session = Arc::new(connect_to_keyspace(server.address()).await);
        for table in TABLES {
            execute(&session, table).await;
        }
        if let Some(round) = before.take() {
            round.finish(&session, &what).await;
        }
        if number == kills {
            server.stop();
            break;
        }
        let round = Round::new(number as i32);
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let (session, round) = (session.clone(), round.clone());
                let seed = seed.wrapping_add(number * CLIENTS + client);
                tokio::spawn(async move { round.work(&session, seed).await })
            })
            .collect();
        tokio::time::sleep(Duration::from_millis(rng.random_range(20..150))).await;
        round.stopped.store(true, Ordering::SeqCst);
        tokio::task::spawn_blocking(move || Server::kill(server)).await.unwrap();
        for client in clients {
            client.await.unwrap();
        }
        before = Some(round);
    }
}
