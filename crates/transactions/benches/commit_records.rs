//! Reads commit records from Cassandra: two-stage values (layout 3: a read at QUORUM, which is
//! enough once the committed value is stored), reads at SERIAL (what layout 2 would need to be safe
//! after failed conditional writes: a Paxos round each), and values that are still in staging (a
//! read, a touch and a write). The first two alternate, round by round.
//!
//! `CASSANDRA=127.0.0.77:9042 cargo bench -p cassette-transactions --bench commit_records`

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use cassette_transactions::encoding::tickets::Tickets;
use cassette_transactions::encoding::two_stage::{self, Stage};
use cassette_transactions::service::{CommitRecords, Layout, TransactionService};
use cassette_transactions::store::{ClusterOptions, ClusterStore, PutRow, Store};
use cassette_transactions::{Timestamp, TransactionStatus};

const STARTS: i64 = 4_000;
const STAGING: i64 = 2_000;
const ROUNDS: usize = 5;

/// Returns the sorted latencies of single lookups by threads that do nothing else, and the total
/// duration.
fn measure(threads: usize, count: usize, look_up: &(dyn Fn(usize) + Sync)) -> (Vec<Duration>, Duration) {
    let began = Instant::now();
    let mut times: Vec<Duration> = std::thread::scope(|scope| {
        let work = |thread: usize| {
            scope.spawn(move || {
                let each = |n: usize| {
                    let began = Instant::now();
                    look_up(thread * 7919 + n);
                    began.elapsed()
                };
                (0..count / threads).map(each).collect::<Vec<_>>()
            })
        };
        let running: Vec<_> = (0..threads).map(work).collect();
        running.into_iter().flat_map(|thread| thread.join().expect("no look-up fails")).collect()
    });
    times.sort_unstable();
    (times, began.elapsed())
}

/// Returns the minimum, median and maximum of the rounds.
fn spread(mut rounds: Vec<f64>) -> String {
    rounds.sort_by(f64::total_cmp);
    format!("{:.2} ({:.2}-{:.2})", rounds[rounds.len() / 2], rounds[0], rounds[rounds.len() - 1])
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let Ok(cassandra) = std::env::var("CASSANDRA") else {
        println!("nothing is measured: set CASSANDRA=host:port");
        return Ok(());
    };
    let keyspace = format!("commit_records_{}", std::process::id());
    let cluster = ClusterOptions { accept_periodic_sync: true, ..ClusterOptions::new(cassandra, keyspace) };
    let store = std::sync::Arc::new(ClusterStore::connect(&cluster)?);
    let layout = Layout::of_version(3).ok_or("there is a layout 3")?;
    let service = CommitRecords::open(store.clone(), layout)?;
    let starts: Vec<_> = (1..=STARTS)
        .map(|start| (Timestamp(start), TransactionStatus::Committed(Timestamp(start + 40))))
        .collect();
    for chunk in starts.chunks(500) {
        for recorded in service.put_many_unless_exists(chunk) {
            recorded?;
        }
    }
    let two_stage = |n: usize| {
        let start = Timestamp(1 + n as i64 * 31 % STARTS);
        assert_eq!(service.get_many(&[start]).expect("a look-up").len(), 1);
    };
    let serial = |n: usize| {
        let (row, column) = Tickets::STANDARD.cell(Timestamp(1 + n as i64 * 31 % STARTS));
        let found = store.get_serial(layout.table(), &Bytes::copy_from_slice(&row), &[column.into()]);
        assert!(found.expect("a look-up")[0].is_some());
    };
    // Each is read once, after which it is no longer in staging.
    let next = AtomicI64::new(STARTS + 1);
    let staging = |_: usize| {
        let start = Timestamp(next.fetch_add(1, Ordering::Relaxed));
        assert_eq!(service.get_many(&[start]).expect("a look-up").len(), 1);
    };
    measure(4, 4000, &two_stage);
    measure(4, 2000, &serial);
    println!("| threads | look-up | median, ms | p99, ms | look-ups/s |\n| --- | --- | --- | --- | --- |");
    for (threads, count) in [(1, 1000), (16, 4000)] {
        let mut results = [const { (Vec::new(), Vec::new(), Vec::new()) }; 3];
        for _ in 0..ROUNDS {
            let first = next.load(Ordering::Relaxed);
            let count_staging = STAGING as usize / 10;
            for start in first..first + count_staging as i64 {
                let (row, column) = Tickets::STANDARD.cell(Timestamp(start));
                let value = two_stage::value(
                    Timestamp(start),
                    TransactionStatus::Committed(Timestamp(start + 40)),
                    Stage::Staging,
                );
                let columns = vec![(column.into(), value.into())];
                let put = PutRow { row: Bytes::copy_from_slice(&row), columns };
                store.put_unless_exists(layout.table(), &[put]).remove(0)?;
            }
            let ways: [(&(dyn Fn(usize) + Sync), usize); 3] =
                [(&two_stage, count), (&serial, count), (&staging, count_staging)];
            for (results, (look_up, count)) in results.iter_mut().zip(ways) {
                let (times, whole) = measure(threads, count, look_up);
                let ms = |part: f64| times[(times.len() as f64 * part) as usize].as_secs_f64() * 1e3;
                results.0.push(ms(0.5));
                results.1.push(ms(0.99));
                results.2.push(times.len() as f64 / whole.as_secs_f64());
            }
            next.store(first + count_staging as i64, Ordering::Relaxed);
        }
        for (name, (median, p99, rate)) in
            ["two stages, committed", "SERIAL", "two stages, staging"].into_iter().zip(results)
        {
            println!("| {threads} | {name} | {} | {} | {} |", spread(median), spread(p99), spread(rate));
        }
    }
    Ok(())
}
