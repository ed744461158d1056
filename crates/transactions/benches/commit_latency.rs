//! Latency and rate of commits by store and durability: the memory store, which shows the cost of
//! the protocol alone, and an embedded store whose commit log is synced periodically, or before
//! each commit is acknowledged (`batch`).
//!
//! ```text
//! cargo bench -p cassette-transactions --bench commit_latency -- \
//!     [--seconds 5] [--rounds 3] [--threads 1,8] [--directory /tmp]
//! ```
//!
//! Each transaction writes one 20-byte cell in one of a million rows. The threads of a store share
//! one instance of transactions with the default options, so sweeping runs in the background. The
//! first second of each round is not measured. Rounds of all settings alternate, so that
//! disturbances affect all alike. Reports medians of the rounds with the minimum and the maximum.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cassette_database::Database;
use cassette_engine::commitlog::SyncMode;
use cassette_transactions::store::MemoryStore;
use cassette_transactions::timelock::LocalTimeLock;
use cassette_transactions::{ConflictHandler, Options, Table, Transactions};

/// As in the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ROWS: u64 = 1_000_000;
const WARM_UP: Duration = Duration::from_secs(1);

struct Arguments {
    measured: Duration,
    rounds: usize,
    threads: Vec<usize>,
    directory: PathBuf,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Memory,
    Periodic,
    Batch,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Memory, Self::Periodic, Self::Batch];

    fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory | none",
            Self::Periodic => "embedded | periodic",
            Self::Batch => "embedded | batch",
        }
    }

    /// Opens an empty store below `directory`.
    fn open(self, directory: &Path) -> Transactions {
        let sync = match self {
            Self::Memory => {
                let store = Arc::new(MemoryStore::new());
                let timelock = Arc::new(LocalTimeLock::open(store.clone()).expect("timestamps"));
                return Transactions::open(store, timelock, Options::new()).expect("transactions");
            }
            Self::Periodic => SyncMode::Periodic { period: Duration::from_secs(10) },
            Self::Batch => SyncMode::Batch,
        };
        let mut options = cassette_database::Options::new(directory);
        options.engine.commitlog_sync = sync;
        let database = Database::open(options).expect("a database");
        Transactions::embedded(database, "bench").expect("transactions")
    }
}

/// Results of the rounds of one setting.
#[derive(Default)]
struct Results {
    rates: Vec<f64>,
    medians: Vec<f64>,
    p99s: Vec<f64>,
}

fn main() {
    let arguments = arguments();
    let settings = Kind::ALL.into_iter().flat_map(|kind| arguments.threads.iter().map(move |n| (kind, *n)));
    let mut all: Vec<_> = settings.map(|setting| (setting, Results::default())).collect();
    for _ in 0..arguments.rounds {
        for ((kind, threads), results) in &mut all {
            let directory = tempfile::tempdir_in(&arguments.directory).expect("a directory");
            let transactions = kind.open(directory.path());
            let times = measure(&transactions, *threads, arguments.measured);
            let micros = |part: f64| times[(times.len() as f64 * part) as usize].as_secs_f64() * 1e6;
            results.rates.push(times.len() as f64 / arguments.measured.as_secs_f64());
            results.medians.push(micros(0.5));
            results.p99s.push(micros(0.99));
        }
    }
    println!("| store | commit log sync | threads | commits/s | p50, µs | p99, µs |");
    println!("| --- | --- | ---: | ---: | ---: | ---: |");
    for ((kind, threads), results) in all {
        let [rate, median, p99] = [results.rates, results.medians, results.p99s].map(spread);
        println!("| {} | {threads} | {rate} | {median} | {p99} |", kind.name());
    }
}

fn arguments() -> Arguments {
    let mut parsed = Arguments {
        measured: Duration::from_secs(5),
        rounds: 3,
        threads: vec![1, 8],
        directory: std::env::temp_dir(),
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().expect("a value");
        match argument.as_str() {
            "--seconds" => parsed.measured = Duration::from_secs(value().parse().expect("a number")),
            "--rounds" => parsed.rounds = value().parse().expect("a number"),
            "--threads" => {
                parsed.threads = value().split(',').map(|n| n.parse().expect("a number")).collect();
            }
            "--directory" => parsed.directory = value().into(),
            // Cargo passes `--bench`.
            "--bench" => {}
            other => panic!("unknown argument {other}"),
        }
    }
    parsed
}

/// Commits in `threads` threads, and returns the sorted latencies of the commits that ended within
/// `measured` after the warm-up.
fn measure(transactions: &Transactions, threads: usize, measured: Duration) -> Vec<Duration> {
    let table = transactions.table("t", ConflictHandler::WriteWriteByCell).expect("a table");
    let next = AtomicU64::new(0);
    let began = Instant::now();
    let work = || {
        let mut times = Vec::new();
        loop {
            let before = Instant::now();
            commit(transactions, &table, next.fetch_add(1, Ordering::Relaxed));
            let after = Instant::now();
            let since = after.duration_since(began);
            if since >= WARM_UP + measured {
                return times;
            }
            if since >= WARM_UP {
                times.push(after.duration_since(before));
            }
        }
    };
    let mut times: Vec<Duration> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        running.into_iter().flat_map(|thread| thread.join().expect("no commit fails")).collect()
    });
    assert!(!times.is_empty(), "no commit ended after the warm-up: raise --seconds");
    times.sort_unstable();
    times
}

fn commit(transactions: &Transactions, table: &Table, i: u64) {
    // Rows in scattered order, each once before any is repeated often.
    let row = (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) % ROWS;
    let put = |tx: &mut cassette_transactions::Transaction| {
        tx.put(table, row.to_be_bytes(), "c", *b"a value of 20 bytes!")
    };
    transactions.run(put).expect("a commit");
}

/// Formats the median of the rounds, with the minimum and the maximum.
fn spread(mut rounds: Vec<f64>) -> String {
    rounds.sort_by(f64::total_cmp);
    let digits = usize::from(rounds[0] < 100.0);
    let number = |value: f64| format!("{value:.digits$}");
    let (least, greatest) = (number(rounds[0]), number(rounds[rounds.len() - 1]));
    format!("{} ({least}-{greatest})", number(rounds[rounds.len() / 2]))
}
