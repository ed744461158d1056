//! The history of a database in use.

use cassette_database::Options;
use cassette_vfs::FakeFileSystem;

use super::report::Asked;
use super::series::Point;
use super::*;

/// A server without connections.
struct NoServer;

impl ServerMetrics for NoServer {
    fn clients(&self) -> Vec<cassette_database::Client> {
        Vec::new()
    }

    fn seen_clients(&self) -> Vec<cassette_database::SeenClient> {
        Vec::new()
    }

    fn forget_seen_clients(&self) {}

    fn running_requests(&self) -> Vec<cassette_database::RunningRequest> {
        Vec::new()
    }

    fn cancel_request(&self, _id: u64) -> Option<String> {
        None
    }

    fn requests(&self) -> cassette_database::Pool {
        cassette_database::Pool {
            name: "Native-Transport-Requests",
            active: 0,
            active_max: 1,
            pending: 0,
            completed: 0,
            blocked: 0,
            blocked_all_time: 0,
        }
    }

    fn overloaded(&self) -> u64 {
        0
    }

    fn connections_refused(&self) -> u64 {
        0
    }

    fn logins_failed(&self) -> u64 {
        0
    }

    fn logins_refused(&self) -> u64 {
        0
    }

    fn tls_handshakes_failed(&self) -> u64 {
        0
    }

    fn panics(&self) -> u64 {
        0
    }
}

fn database() -> Database {
    let database = Database::open(Options::in_memory()).unwrap();
    let session = database.session();
    for cql in [
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE ks.t (k int PRIMARY KEY)",
    ] {
        session.execute(cql, ()).unwrap();
    }
    database
}

#[test]
fn samples_have_what_was_executed_since_the_last_one() {
    let database = database();
    let mut recorder = Recorder::new(database.clone(), Arc::new(NoServer));
    let session = database.session();
    (0..7).for_each(|k| drop(session.execute(&format!("INSERT INTO ks.t (k) VALUES ({k})"), ()).unwrap()));
    let writes = NODE.latencies.iter().position(|name| *name == "Write").unwrap();
    assert_eq!(recorder.node(10).latencies[writes].count(), 7);
    assert_eq!(recorder.node(11).latencies[writes].count(), 0);
    let tables = recorder.tables(12);
    let [(name, point)] = &tables[..] else { panic!("{tables:?}") };
    assert_eq!(
        (&**name, point.latencies.iter().map(|l| l.count()).collect::<Vec<_>>()),
        ("ks.t", vec![0, 0, 7])
    );
    assert!(recorder.tables(13).is_empty(), "tables that were not used have no points");
}

#[test]
fn history_is_reported_and_kept_over_restarts() {
    let fs: Arc<dyn FileSystem> = Arc::new(FakeFileSystem::new());
    let path = PathBuf::from("/history");
    let file = || Some((Arc::clone(&fs), path.clone()));
    let database = database();
    let start = || History::start(database.clone(), Arc::new(NoServer), file()).unwrap();
    let history = start();
    let session = database.session();
    (0..5).for_each(|k| drop(session.execute(&format!("INSERT INTO ks.t (k) VALUES ({k})"), ()).unwrap()));
    history.stop();
    let writes = |history: &History, asked: &str| {
        let asked: Asked = serde_json::from_str(asked).unwrap();
        let report = history.report(&asked).unwrap();
        let name = if report.latencies.contains_key("Write") { "Write" } else { "write" };
        let latencies = &report.latencies[name];
        assert_eq!(latencies.rates.len(), report.times.len());
        latencies.p99.iter().filter(|value| value.is_some()).count()
    };
    assert!(writes(&history, "{}") > 0);
    assert!(writes(&history, r#"{"table": "ks.t"}"#) > 0);
    assert_eq!(writes(&history, r#"{"from": 1, "to": 2}"#), 0);
    let asked: Asked = serde_json::from_str(r#"{"table": "ks.absent"}"#).unwrap();
    assert!(history.report(&asked).unwrap_err().error.contains("ks.absent has no history"));
    drop(history);

    let history = start();
    assert!(writes(&history, "{}") > 0);
    assert!(writes(&history, r#"{"table": "ks.t"}"#) > 0);
    drop(history);

    fs.create(&path).unwrap().write_all(b"damaged").unwrap();
    let history = start();
    assert_eq!(writes(&history, "{}"), 0);
}

#[test]
fn what_was_written_survives_a_kill_also_during_the_next_write() {
    let fs: Arc<dyn FileSystem> = Arc::new(FakeFileSystem::new());
    let path = PathBuf::from("/history");
    let file = || Some((Arc::clone(&fs), path.clone()));
    let database = database();
    let start = || History::start(database.clone(), Arc::new(NoServer), file()).unwrap();
    let killed = start();
    killed.shared.recorded.lock().node.push(&Recorder::new(database.clone(), Arc::new(NoServer)).node(1_000));
    killed.shared.save();
    let written = fs.read(&path).unwrap();
    killed.stop();
    // As a killed process leaves it: the file of the last minute, and a part of the next one.
    fs.create(&path).unwrap().write_all(&written).unwrap();
    fs.create(&PathBuf::from("/history.tmp")).unwrap().write_all(&written[..9]).unwrap();
    let restarted = start();
    let asked: Asked = serde_json::from_str(r#"{"from": 900, "to": 1100}"#).unwrap();
    assert_eq!(restarted.report(&asked).unwrap().times, [1_020], "in the ring of minutes");
}

#[test]
fn tables_in_use_have_a_history_and_their_number_is_limited() {
    let mut recorded = Recorded { node: Series::new(&NODE), tables: Vec::new() };
    let point = |end| Point {
        end,
        levels: [0.0; 3].into(),
        latencies: vec![Default::default(); 3].into(),
        ..Point::default()
    };
    for number in 0..TABLES_MAX as u64 + 5 {
        recorded.push_tables(vec![(format!("ks.t{number}"), point(10_000))]);
    }
    let names =
        |recorded: &Recorded| recorded.tables.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    assert_eq!(recorded.tables.len(), TABLES_MAX);
    assert!(!names(&recorded).contains(&"ks.t16".to_owned()), "all others are in use");
    recorded.push_tables(vec![("ks.t1".to_owned(), point(20_000)), ("ks.t16".to_owned(), point(20_000))]);
    assert_eq!(recorded.tables.len(), TABLES_MAX);
    assert!(
        names(&recorded).contains(&"ks.t16".to_owned()) && names(&recorded).contains(&"ks.t1".to_owned())
    );
    assert!(!names(&recorded).contains(&"ks.t0".to_owned()), "it was not used for the longest time");
}
