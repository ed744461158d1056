//! Memory, open files and threads stay within the settings however much is written, and memory that
//! large requests took is returned.
//!
//! `CASSETTE_MEMORY_MB` (40) is the amount; `make soak-memory` writes 5 GB.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use scylla::client::session::Session;
use scylla::statement::prepared::PreparedStatement;
use support::cql::{connect_to_keyspace, execute};
use support::{Launch, process};

const CONFIG: &str = "memtable_heap_space: 16MiB\nfile_cache_size: 16MiB\ncommitlog_total_space: 64MiB\n";

/// The limits of [`CONFIG`], and 100 MB for everything else.
const RESIDENT_MAX: u64 = (16 << 20) + (16 << 20) + 100_000_000;

/// Three files for each of the few SSTables that size-tiered compaction leaves, the log, and the
/// files of any process.
const OPEN_FILES_MAX: usize = 250;

const ROW_BYTES: u64 = 1000;
const WRITERS: u64 = 16;

/// Returns the number of a process's open files (`fd`) or threads (`task`).
fn count_in_proc(id: u32, of: &str) -> usize {
    std::fs::read_dir(format!("/proc/{id}/{of}")).unwrap().count()
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_files_and_threads_stay_within_bounds_while_data_grows() {
    let megabytes: u64 = match std::env::var("CASSETTE_MEMORY_MB") {
        Ok(text) => text.parse().unwrap(),
        Err(_) => 40,
    };
    let directory = tempfile::tempdir().unwrap();
    let server = Launch::new(&directory.path().join("data")).config(CONFIG).start();
    let session = connect_to_keyspace(server.address()).await;
    execute(&session, "CREATE TABLE t (k bigint PRIMARY KEY, v blob)").await;
    let insert = session.prepare("INSERT INTO t (k, v) VALUES (?, ?)").await.unwrap();
    let (session, insert) = (Arc::new(session), Arc::new(insert));
    let next = Arc::new(AtomicU64::new(0));
    let (mut resident, mut files, mut threads) = (0, 0, 0);
    let steps = 20;
    for step in 1..=steps {
        let upto = megabytes * 1_000_000 / ROW_BYTES * step / steps;
        let mut writers = Vec::new();
        for writer in 0..WRITERS {
            let (session, insert, next) = (session.clone(), insert.clone(), next.clone());
            writers.push(tokio::spawn(async move {
                let mut rng = SmallRng::seed_from_u64(step * WRITERS + writer);
                let mut value = vec![0; ROW_BYTES as usize];
                loop {
                    let key = next.fetch_add(1, Ordering::Relaxed);
                    if key >= upto {
                        break;
                    }
                    rng.fill_bytes(&mut value);
                    session.execute_unpaged(&insert, (key as i64, &value)).await.unwrap();
                }
            }));
        }
        for writer in writers {
            writer.await.unwrap();
        }
        next.store(upto, Ordering::Relaxed);
        let now = (
            process::resident_bytes(server.id()),
            count_in_proc(server.id(), "fd"),
            count_in_proc(server.id(), "task"),
        );
        (resident, files, threads) = (resident.max(now.0), files.max(now.1), threads.max(now.2));
        println!(
            "{} MB: {} MB resident, {} files, {} threads",
            upto * ROW_BYTES / 1_000_000,
            now.0 / 1_000_000,
            now.1,
            now.2
        );
    }
    let peak = process::peak_resident_bytes(server.id());
    println!("peak {} MB", peak / 1_000_000);
    assert!(peak <= RESIDENT_MAX, "{peak} bytes resident, more than {RESIDENT_MAX}");
    assert!(files <= OPEN_FILES_MAX, "{files} open files");
    // Blocking work has separate, limited threads (native_transport_max_threads), and the engine a
    // few.
    assert!(threads <= 160, "{threads} threads");
    server.stop();
}

/// With room for the responses of the test.
const LARGE_RESPONSES: &str = "native_transport_max_response_data_in_flight: 1GiB\n\
    native_transport_max_response_data_in_flight_per_ip: 1GiB\n";

/// What the process may hold beyond its memory before the requests: caches of its threads.
const KEPT_MAX: u64 = 24 << 20;

#[tokio::test(flavor = "multi_thread")]
async fn memory_of_large_requests_and_responses_is_returned() {
    const ROWS: i32 = 16;
    const CLIENTS: i32 = 8;
    let directory = tempfile::tempdir().unwrap();
    let config = format!("{CONFIG}{LARGE_RESPONSES}");
    let server = Launch::new(&directory.path().join("data")).config(&config).start();
    let session = Arc::new(connect_to_keyspace(server.address()).await);
    execute(&session, "CREATE TABLE t (k int PRIMARY KEY, v blob)").await;
    let insert = Arc::new(session.prepare("INSERT INTO t (k, v) VALUES (?, ?)").await.unwrap());
    let select = Arc::new(session.prepare("SELECT v FROM t").await.unwrap());
    // Memtables and the chunk cache have their size from here on.
    write_rows(&session, &insert, 0..ROWS).await;
    session.execute_unpaged(&select, ()).await.unwrap();

    let before = process::anonymous_bytes(server.id());
    let resident_before = process::resident_bytes(server.id());
    let mut clients = Vec::new();
    for client in 0..CLIENTS {
        let (session, insert, select) = (session.clone(), insert.clone(), select.clone());
        clients.push(tokio::spawn(async move {
            // The same rows again, so that responses keep their size.
            write_rows(&session, &insert, client..client + 4).await;
            session.execute_unpaged(&select, ()).await.unwrap();
        }));
    }
    for client in clients {
        client.await.unwrap();
    }
    let peak = process::peak_resident_bytes(server.id());
    let taken = peak - resident_before;
    assert!(taken > 2 * KEPT_MAX, "the requests took only {taken} bytes");
    let began = Instant::now();
    while process::anonymous_bytes(server.id()) > before + KEPT_MAX {
        let now = process::anonymous_bytes(server.id());
        let waited = began.elapsed();
        assert!(
            waited < Duration::from_secs(120),
            "{before} anonymous bytes before, {taken} bytes taken at the peak, {now} anonymous bytes now"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    server.stop();
}

/// Writes rows of 1 MB that compression does not shorten.
async fn write_rows(session: &Session, insert: &PreparedStatement, keys: std::ops::Range<i32>) {
    for key in keys {
        let mut value = vec![0; 1_000_000];
        SmallRng::seed_from_u64(key as u64).fill_bytes(&mut value);
        session.execute_unpaged(insert, (key, &value)).await.unwrap();
    }
}
