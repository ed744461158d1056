//! The contract of the store and the checker on Apache Cassandra: one node, on which the layout is
//! migrated from 1 to 2 to 3 and old versions are swept during the run; or the number of nodes in
//! `CASSETTE_SOAK_NODES`, of which one is killed and started again. The leading timelock server is
//! killed, too.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::Bytes;
use cassette_transactions::service::Layout;
use cassette_transactions::store::{Cell, ClusterOptions, ClusterStore, ColumnRange, Put, Store, TableKind};
use cassette_transactions::{Options, Timestamp, Transactions};

use super::checker::{self, Counts, wait_for};
use super::nodes;
use super::suite::{every_loader_finds_the_same, suite};
use super::timelocks::{connect, timelock};

/// The timeout of every step.
const TIME_MAX: Duration = Duration::from_secs(300);

/// Nodes accept the longest version that transactions may write.
fn longest_version_is_written(store: &ClusterStore) {
    let max = store.version_max().unwrap();
    assert!((15 << 20..16 << 20).contains(&max), "{max}");
    store.create_table("t", TableKind::Data).unwrap();
    let cell = Cell::new("row", "column");
    let value = Bytes::from(vec![7; max - cell.row.len() - cell.column.len()]);
    let at = Timestamp(5);
    let put = Put { table: "t", cell: &cell, timestamp: at, value: value.clone(), write_time: at.0 };
    store.put(&[put]).unwrap();
    let found = store.get("t", &[(&cell, Timestamp::MAX)]).unwrap().pop().flatten().unwrap();
    assert_eq!(found.value, value);
}

#[test]
fn transactions_on_cassandra_keep_their_guarantees() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let nodes = number("CASSETTE_SOAK_NODES").unwrap_or(1) as usize;
    let seconds = number("CASSETTE_SOAK_SECONDS").unwrap_or(60);
    let directory = tempfile::tempdir().unwrap();
    let Some(mut cassandra) = nodes::start(directory.path(), nodes, 200, &[]) else { return };
    let contacts = cassandra.0.settings().contacts();
    let replication = format!("{{'class': 'SimpleStrategy', 'replication_factor': {}}}", nodes.min(3));
    let options = |keyspace: &str| ClusterOptions {
        contact_points: contacts.clone(),
        replication: replication.clone(),
        ..ClusterOptions::new("", keyspace)
    };
    suite(&ClusterStore::connect(&options("suite")).unwrap());
    every_loader_finds_the_same(|cell_loader| {
        ClusterStore::connect(&ClusterOptions { cell_loader, ..options("loaders") }).unwrap()
    });

    longest_version_is_written(&ClusterStore::connect(&options("lengths")).unwrap());

    let store: Arc<dyn Store> = Arc::new(ClusterStore::connect(&options("bank")).unwrap());
    let (mut first, one) = timelock(&contacts.join(","), "bank");
    // It leads before there is another.
    drop(connect(&[&one]));
    let (_second, other) = timelock(&contacts.join(","), "bank");
    let clients = vec![connect(&[&one, &other]), connect(&[&other, &one])];
    // Layout 1 is not safe with failing nodes.
    let layout = Layout::of_version(if nodes == 1 { 1 } else { 3 });
    // One node has no replicas that could disagree.
    let options = Options::new().without_sweeping().layout(layout).any_layout(nodes == 1);
    let operator = connect(&[&one, &other]);
    let operator = again("open", || Transactions::open(store.clone(), operator.clone(), options.clone()));
    let counts = checker::run(&store, clients, |counts| {
        if nodes == 1 {
            migrate_and_sweep(&operator, counts);
            wait_for(counts, 30);
            first.0.kill().unwrap();
            wait_for(counts, 60);
            return;
        }
        let began = Instant::now();
        let phase = |name: &str| {
            println!("{:6.1} s: {name}; {counts:?}", began.elapsed().as_secs_f64());
            std::thread::sleep(Duration::from_secs(seconds) / 6);
        };
        phase("all nodes run");
        cassandra.0.kill_node(2);
        phase("node 2 was killed");
        first.0.kill().unwrap();
        phase("the timelock server that led was killed");
        cassandra.0.start_again(2).unwrap();
        phase("node 2 runs again");
        cassandra.0.kill_node(3);
        phase("node 3 was killed");
        cassandra.0.start_again(3).unwrap();
        phase("node 3 runs again");
        wait_for(counts, 20);
    });
    println!("{counts:?}");
    assert!(counts.snapshots.load(Ordering::Relaxed) > 0, "{counts:?}");
    if nodes == 1 {
        let agreed = again("look at the layouts", || operator.agreed());
        let versions: Vec<u32> = agreed.map.ranges().iter().map(|(_, version)| *version).collect();
        assert_eq!(versions, [1, 2, 3], "{agreed:?}");
    }
    let began = Instant::now();
    loop {
        // Holds of ended clients are released a little later.
        again("sweep", || operator.sweep());
        let old = versions_to_be_swept(&*store);
        if old.is_empty() {
            break;
        }
        assert!(began.elapsed() < TIME_MAX, "not swept: {old:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Retries requests to which a busy Cassandra may not have responded in time.
fn again<T, E: std::fmt::Display>(what: &str, mut attempt: impl FnMut() -> Result<T, E>) -> T {
    let began = Instant::now();
    loop {
        match attempt() {
            Ok(done) => return done,
            Err(error) => assert!(began.elapsed() < TIME_MAX, "{what}: {error}"),
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Switches new transactions to layout 2, then 3, and sweeps, while all others continue.
fn migrate_and_sweep(operator: &Transactions, counts: &Counts) {
    for layout in [2, 3] {
        wait_for(counts, 15);
        assert_eq!(again("migrate", || operator.migrate(layout)).to, layout);
        again("sweep", || operator.sweep());
    }
}

/// Cells with more than one version and its sentinel.
fn versions_to_be_swept(store: &dyn Store) -> Vec<(String, Bytes, Vec<Timestamp>)> {
    let mut found = Vec::new();
    for table in ["accounts", "ring", "pair", "counter"] {
        for row in again("rows", || store.rows(table, None, 100)) {
            let range = ColumnRange {
                row: row.clone(),
                start: Bytes::new(),
                end: None,
                limit: 1,
                is_reversed: false,
            };
            let mut versions = Vec::new();
            let mut below = Timestamp::MAX;
            while below > Timestamp::SENTINEL {
                let columns = again("columns", || store.columns(table, std::slice::from_ref(&range), below));
                let Some((_, version)) = columns.into_iter().flatten().next() else { break };
                below = version.timestamp;
                versions.push(below);
            }
            if !matches!(versions[..], [] | [_] | [_, Timestamp::SENTINEL]) {
                found.push((table.to_owned(), row, versions));
            }
        }
    }
    found
}
