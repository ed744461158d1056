//! Transactions on the embedded store: commits per second by layout, clients and residues; a read
//! in a transaction compared with a read of the engine; bytes of a commit record on disk. On the
//! real file system with a periodic commit log.
//!
//! ```text
//! cargo bench -p cassette-transactions --bench transactions -- \
//!     [--commits 200000] [--reads 200000] [--rounds 3] [--only commits|reads|bytes]
//!     [--layouts 1,2,3] [--clients 1,2,4,16,17,64] [--residues without,with]
//! # Commits on a cluster, in keyspaces bench1, bench2, …
//! cargo bench … -- --only commits --contact 127.0.0.1:9042 --commits 4000 …
//! ```
//!
//! A client is a thread with a separate instance of transactions, hence a separate residue. Each
//! transaction writes one 20-byte cell in one of a million rows; sweeping runs in the background.
//! Reports medians of the rounds with the minimum and the maximum.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cassette_database::{Database, Value};
use cassette_transactions::service::{CommitRecords, Layout, TransactionService};
use cassette_transactions::store::{ClusterOptions, ClusterStore, EmbeddedStore, Store};
use cassette_transactions::timelock::{LocalTimeLock, TimeLock};
use cassette_transactions::{ConflictHandler, Options, Table, Timestamp, TransactionStatus, Transactions};

/// As in the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ROWS: u64 = 1_000_000;
const HANDLER: ConflictHandler = ConflictHandler::WriteWriteByCell;

struct Sizes {
    commits: u64,
    reads: u64,
    rounds: usize,
}

/// A store with its timestamps.
#[derive(Clone)]
struct Place {
    store: Arc<dyn Store>,
    timelock: Arc<dyn TimeLock>,
}

/// An embedded store in a temporary directory.
struct Embedded {
    place: Place,
    database: Database,
    directory: tempfile::TempDir,
}

impl Embedded {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let database = Database::open(directory.path()).expect("a database");
        let store = EmbeddedStore::open(database.clone(), "bench").expect("a store");
        Self { place: Place::of(Arc::new(store)), database, directory }
    }
}

impl Place {
    fn of(store: Arc<dyn Store>) -> Self {
        let timelock = Arc::new(LocalTimeLock::open(store.clone()).expect("timestamps"));
        Self { store, timelock }
    }

    /// Creates a keyspace of the cluster with one replica.
    fn on_cluster(contact: &str) -> Self {
        static KEYSPACES: AtomicU64 = AtomicU64::new(1);
        let keyspace = format!("bench{}", KEYSPACES.fetch_add(1, Ordering::Relaxed));
        let options = ClusterOptions { accept_periodic_sync: true, ..ClusterOptions::new(contact, keyspace) };
        Self::of(Arc::new(ClusterStore::connect(&options).expect("a node answers")))
    }

    fn client(&self, version: u32, residues: bool, sweeps: bool) -> (Transactions, Table) {
        let options = Options::new()
            .layout(Layout::of_version(version))
            .residues(Some(residues))
            .cached_statuses(100_000);
        let options =
            if sweeps { options.sweep_every(Duration::from_millis(100)) } else { options.without_sweeping() };
        let transactions = Transactions::open(self.store.clone(), self.timelock.clone(), options);
        let transactions = transactions.expect("transactions");
        let table = transactions.table("t", HANDLER).expect("a table");
        (transactions, table)
    }
}

fn main() {
    let mut sizes = Sizes { commits: 200_000, reads: 200_000, rounds: 3 };
    let (mut only, mut contact) = (None, None);
    let (mut layouts, mut clients) = ("1,2,3".to_owned(), "1,2,4,16,17,64".to_owned());
    let mut residues = "without,with".to_owned();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().expect("a value");
        match argument.as_str() {
            "--commits" => sizes.commits = value().parse().expect("a number"),
            "--reads" => sizes.reads = value().parse().expect("a number"),
            "--rounds" => sizes.rounds = value().parse().expect("a number"),
            "--only" => only = Some(value()),
            "--contact" => contact = Some(value()),
            "--layouts" => layouts = value(),
            "--clients" => clients = value(),
            "--residues" => residues = value(),
            _ => {}
        }
    }
    let wanted = |part: &str| only.as_deref().is_none_or(|only| only == part);
    if wanted("commits") {
        // Interleaves the rounds, so that disturbances of the machine affect all alike.
        let mut all = Vec::new();
        for version in layouts.split(',').map(|version| version.parse().expect("a layout")) {
            for clients in clients.split(',').map(|clients| clients.parse().expect("a number")) {
                all.extend(residues.split(',').map(|with| (version, clients, with, Vec::new())));
            }
        }
        for _ in 0..sizes.rounds {
            for (version, clients, with, results) in &mut all {
                results.push(commits(&sizes, contact.as_deref(), *version, *clients, *with == "with"));
            }
        }
        for (version, clients, with, results) in all {
            report(&format!("version {version}, {clients} clients, {with} residues, commits/s"), results);
        }
    }
    if wanted("reads") {
        reads(&sizes);
    }
    if wanted("bytes") {
        for version in [1, 2, 3] {
            bytes(&sizes, version);
        }
    }
}

/// Measures commits of one-cell transactions per second.
fn commits(sizes: &Sizes, contact: Option<&str>, version: u32, clients: u64, residues: bool) -> f64 {
    let (place, _embedded) = match contact {
        Some(contact) => (Place::on_cluster(contact), None),
        None => {
            let embedded = Embedded::new();
            (embedded.place.clone(), Some(embedded))
        }
    };
    let (_sweeper, _) = place.client(version, residues, true);
    let next = AtomicU64::new(0);
    let clients: Vec<_> = (0..clients).map(|_| place.client(version, residues, false)).collect();
    let began = Instant::now();
    std::thread::scope(|scope| {
        for (transactions, table) in &clients {
            scope.spawn(|| {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    if i >= sizes.commits {
                        break;
                    }
                    let row = scattered(i).to_be_bytes();
                    let commit = || transactions.run(|tx| tx.put(table, row, "c", *b"a value of 20 bytes!"));
                    commit().expect("a commit");
                }
            });
        }
    });
    sizes.commits as f64 / began.elapsed().as_secs_f64()
}

/// Measures microseconds of a read: of the engine by a prepared statement, in an open transaction,
/// and as a transaction.
fn reads(sizes: &Sizes) {
    let Embedded { place, database, directory: _directory } = Embedded::new();
    let (transactions, table) = place.client(2, false, false);
    let rows = 100_000;
    for batch in 0..rows / 100 {
        let put = |tx: &mut cassette_transactions::Transaction| {
            (0..100).try_for_each(|i: u64| {
                tx.put(&table, (batch * 100 + i).to_be_bytes(), "c", *b"a value of 20 bytes!")
            })
        };
        transactions.run(put).expect("a commit");
    }
    let session = database.session();
    let select =
        "SELECT column1, column2, value FROM bench.t WHERE key = ? AND column1 = ? AND column2 > ? LIMIT 1";
    let select = session.prepare(select).expect("a statement");
    for where_ in ["memtable", "SSTable"] {
        if where_ == "SSTable" {
            database.engine().flush(None).expect("a flush");
        }
        let plain = |i: u64| {
            let row = scattered(i) % rows;
            let key = Value::Blob(row.to_be_bytes().to_vec());
            let values = vec![key, Value::Blob(b"c".to_vec()), Value::BigInt(i64::MIN)];
            assert_eq!(session.execute(&select, values).expect("a row").len(), 1);
        };
        let mut times = rounds(sizes, plain);
        report_micros(&format!("read of the engine, {where_}"), &mut times);
        let open = transactions.start_read_only().expect("a transaction");
        let mut times = rounds(sizes, |i| {
            let row = scattered(i) % rows;
            assert!(open.get(&table, row.to_be_bytes(), "c").expect("a read").is_some());
        });
        report_micros(&format!("read in a transaction, {where_}"), &mut times);
        let mut times = rounds(sizes, |i| {
            let row = scattered(i) % rows;
            let found = transactions.read(|tx| tx.get(&table, row.to_be_bytes(), "c"));
            assert!(found.expect("a read").is_some());
        });
        report_micros(&format!("transaction of one read, {where_}"), &mut times);
    }
}

/// Measures the bytes on disk of a million commit records, as 16 alternating clients write them.
fn bytes(sizes: &Sizes, version: u32) {
    let Embedded { place, database, directory } = Embedded::new();
    let layout = Layout::of_version(version).expect("a layout");
    let service = CommitRecords::open(place.store.clone(), layout).expect("commit records");
    // One of three timestamps of a transaction is its start timestamp; 16 clients commit about 16
    // transactions later.
    let count = sizes.commits.max(1_000_000) as i64;
    let statuses: Vec<_> = (0..count)
        .map(|i| {
            let start = Timestamp(10_002 + 3 * i);
            (start, TransactionStatus::Committed(Timestamp(start.0 + 1 + (scattered(i as u64) % 47) as i64)))
        })
        .collect();
    for batch in statuses.chunks(4_000) {
        assert!(service.put_many_unless_exists(batch).iter().all(Result::is_ok));
    }
    let engine = database.engine();
    engine.flush(None).expect("a flush");
    let keyspace = database.catalog();
    let keyspace = keyspace.keyspace("bench").expect("the keyspace");
    for table in keyspace.stored_tables() {
        engine.compact(table.id).expect("a compaction");
    }
    let (total, filter) = size(directory.path(), layout.table());
    println!(
        "version {version}: {:.2} bytes a transaction, {count} of them; filter {filter} bytes",
        total as f64 / count as f64
    );
}

/// Returns the bytes of all files of a table, and of its bloom filters.
fn size(directory: &Path, table: &str) -> (u64, u64) {
    let (mut total, mut filter) = (0, 0);
    let mut open = vec![directory.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            let path = entry.path();
            let of_table = path.components().any(|part| {
                part.as_os_str().to_string_lossy().rsplit_once('-').is_some_and(|(name, _)| name == table)
            });
            if path.is_dir() {
                open.push(path);
            } else if of_table {
                let length = entry.metadata().map_or(0, |metadata| metadata.len());
                total += length;
                if path.to_string_lossy().ends_with("Filter.db") {
                    filter += length;
                }
            }
        }
    }
    (total, filter)
}

/// Returns a distinct row for each `i` below a million, in scattered order.
fn scattered(i: u64) -> u64 {
    (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) % ROWS
}

fn rounds(sizes: &Sizes, mut read: impl FnMut(u64)) -> Vec<f64> {
    let round = |_| {
        let began = Instant::now();
        (0..sizes.reads).for_each(&mut read);
        began.elapsed().as_secs_f64() * 1e6 / sizes.reads as f64
    };
    (0..sizes.rounds).map(round).collect()
}

fn report_micros(what: &str, times: &mut [f64]) {
    times.sort_by(f64::total_cmp);
    println!("{what}: {:.2} us ({:.2}-{:.2})", times[times.len() / 2], times[0], times[times.len() - 1]);
}

fn report(what: &str, mut results: Vec<f64>) {
    results.sort_by(f64::total_cmp);
    let (least, greatest) = (results[0], results[results.len() - 1]);
    println!("{what}: {:.0} ({least:.0}-{greatest:.0})", results[results.len() / 2]);
}
