//! Memory, open files and threads stay within the settings however much is written.
//!
//! `CASSETTE_MEMORY_MB` (40) is the amount; `make soak-memory` writes 5 GB.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
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
            process::open_files(server.id()),
            process::threads(server.id()),
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
