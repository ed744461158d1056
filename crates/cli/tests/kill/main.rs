//! `kill -9` at random moments under load: nothing acknowledged is lost, nothing is partial.
//!
//! A round starts the server, checks the results of earlier rounds, runs writers, and kills the
//! server. Flushes and compactions run all the time, because memtables are small. Environment:
//! `CASSETTE_KILL_ROUNDS` (8) and `CASSETTE_KILL_SEED` (default: the clock, so that every run
//! differs; printed when a run fails, with the data directory, which is then kept).

mod claims;
mod counts;
mod model;
#[path = "../support/mod.rs"]
mod support;
mod tables;
mod writer;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use scylla::client::caching_session::CachingSession;
use scylla::client::session::Session;
use support::cql::{connect_to_keyspace, execute};
use support::{Launch, Server};
use tables::Owner;
use writer::{Load, Writer};

const WRITERS: i32 = 12;

/// Tasks that create, alter and drop tables meanwhile.
const OWNERS: usize = 3;

/// Acknowledged writes per round; a memtable is flushed after some 1,300.
const WRITES_MAX: u64 = 2500;

/// More than the writers have, so that each is prepared once.
const STATEMENTS: usize = 100;

/// A commit log of a few small segments, and memtables that fill within a round.
const CONFIG: &str = "memtable_heap_space: 4MiB\ncommitlog_segment_size: 1MiB\ncommitlog_total_space: 8MiB\n";

/// All of them survive the death of the process.
const SYNC_MODES: [&str; 3] = [
    "commitlog_sync: periodic\ncommitlog_sync_period: 10000ms\n",
    "commitlog_sync: batch\n",
    "commitlog_sync: group\ncommitlog_sync_group_window: 2ms\n",
];

#[tokio::test(flavor = "multi_thread")]
async fn everything_acknowledged_survives_kills_and_nothing_is_half_there() {
    let rounds = from_environment("CASSETTE_KILL_ROUNDS").unwrap_or(8);
    let clock = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as u64;
    let seed = from_environment("CASSETTE_KILL_SEED").unwrap_or_else(clock);
    let mut directory = tempfile::tempdir().unwrap();
    directory.disable_cleanup(true);
    println!("CASSETTE_KILL_SEED={seed}, data directory {}", directory.path().display());

    let data = directory.path().join("data");
    let began = Instant::now();
    let mut rng = StdRng::seed_from_u64(seed);
    let mut owners: Vec<Owner> = (0..OWNERS).map(|id| Owner::new(id, rng.random())).collect();
    let mut writers: Vec<Writer> = (0..WRITERS).map(|id| Writer::new(id, rng.random())).collect();
    for round in 0..rounds {
        let mode = SYNC_MODES[rng.random_range(0..SYNC_MODES.len())];
        for _ in 0..rng.random_range(0_u32..3).saturating_sub(1) {
            launch(&data, mode).start_and_kill(Duration::from_millis(rng.random_range(0..200)));
        }
        let server = launch(&data, mode).start();
        let session = connect_to_keyspace(server.address()).await;
        create_tables(&session).await;
        check(&session, &mut writers).await;
        check_owned(&session, &mut owners).await;

        let stop = if rng.random_ratio(1, 6) { Server::stop } else { Server::kill };
        let load = Load::new(rng.random_range(1..WRITES_MAX));
        let delay = Duration::from_micros(rng.random_range(0..5000));
        let session = CachingSession::from(session, STATEMENTS);
        (writers, owners) = run(writers, owners, session, server, &load, delay, stop).await;
        println!(
            "round {round} after {:?}: {} writes, {} SSTables, {}",
            began.elapsed(),
            load.acknowledged(),
            sstables(&data),
            mode.lines().next().unwrap()
        );
    }
    let server = launch(&data, SYNC_MODES[0]).start();
    let session = connect_to_keyspace(server.address()).await;
    check(&session, &mut writers).await;
    check_owned(&session, &mut owners).await;
    server.stop();
    directory.disable_cleanup(false);
}

fn launch(data: &Path, sync_mode: &str) -> Launch {
    Launch::new(data).config(&format!("{CONFIG}{sync_mode}"))
}

async fn create_tables(session: &Session) {
    for table in model::TABLES {
        execute(
            session,
            &format!(
                "CREATE TABLE IF NOT EXISTS {table} (writer int, partition int, id int, number bigint, filler blob, \
                 PRIMARY KEY ((writer, partition), id))"
            ),
        )
        .await;
    }
    execute(session, "CREATE TABLE IF NOT EXISTS claims (name int PRIMARY KEY, owner int)").await;
    execute(session, "CREATE TABLE IF NOT EXISTS counts (k int PRIMARY KEY, n counter)").await;
}

/// Writes until the load is sufficient, and then stops the server under load.
async fn run(
    writers: Vec<Writer>,
    owners: Vec<Owner>,
    session: CachingSession,
    server: Server,
    load: &Arc<Load>,
    delay: Duration,
    stop: fn(Server),
) -> (Vec<Writer>, Vec<Owner>) {
    let session = Arc::new(session);
    let changing: Vec<_> = owners
        .into_iter()
        .map(|mut owner| {
            let (session, load) = (session.clone(), load.clone());
            tokio::spawn(async move {
                owner.change_until_stopped(&session, &load).await;
                owner
            })
        })
        .collect();
    let writing: Vec<_> = writers
        .into_iter()
        .map(|mut writer| {
            let (session, load) = (session.clone(), load.clone());
            tokio::spawn(async move {
                writer.write_until_stopped(&session, &load).await;
                writer
            })
        })
        .collect();
    load.wait_until_enough().await;
    tokio::time::sleep(delay).await;
    load.announce_stop();
    tokio::task::spawn_blocking(move || stop(server)).await.unwrap();
    let mut writers = Vec::new();
    for task in writing {
        writers.push(task.await.unwrap());
    }
    let mut owners = Vec::new();
    for task in changing {
        owners.push(task.await.unwrap());
    }
    (writers, owners)
}

async fn check_owned(session: &Session, owners: &mut [Owner]) {
    for owner in owners {
        owner.check(session).await;
    }
}

/// Compares the tables with the expectations of the writers.
async fn check(session: &Session, writers: &mut [Writer]) {
    let mut found = model::read_all(session).await;
    for writer in writers.iter_mut() {
        writer.settle(found.remove(&writer.id()).unwrap_or_default());
        writer.check_some_rows_by_key(session).await;
    }
    assert!(found.is_empty(), "rows without a writer: {:?}", found.keys());
    claims::check(session, writers.iter_mut().map(Writer::claims)).await;
    counts::check(session, writers.iter_mut().map(Writer::counts)).await;
}

/// SSTables in the writers' keyspace.
fn sstables(data: &Path) -> usize {
    let tables = std::fs::read_dir(data.join("data/ks")).unwrap();
    let files = tables.flat_map(|table| std::fs::read_dir(table.unwrap().path()).unwrap());
    files.filter(|file| file.as_ref().unwrap().file_name().to_string_lossy().ends_with("-Data.db")).count()
}

fn from_environment(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|error| panic!("{name}={text}: {error}")))
}
