use std::path::Path;
use std::sync::Arc;

use cassette_database::Database;
use cassette_protocol::Consistency;
use cassette_query_log::{
    BatchKind, Full, Kind, Log, LoggedQuery, LoggedStatement, LoggedValue, LoggedValues, Options,
};
use cassette_vfs::{RealFileSystem, SystemClock};

use super::{Replay, ReplayTarget, Skipped, is_on_system_tables};
use crate::cql::CqlSettings;

fn statement(query: &str, values: &[i32]) -> LoggedStatement {
    let values = values.iter().map(|value| LoggedValue::Set(value.to_be_bytes().to_vec()));
    LoggedStatement {
        query: query.to_owned(),
        is_prepared: values.len() > 0,
        values: LoggedValues::Positional(values.collect()),
    }
}

fn query(connection: u64, statement: LoggedStatement) -> LoggedQuery {
    LoggedQuery {
        started_micros: 1_795_443_842_000_000,
        duration_micros: 1,
        connection,
        protocol_version: 5,
        consistency: Consistency::One as u16,
        serial_consistency: None,
        page_size: Some(5000),
        is_next_page: false,
        timestamp: None,
        now_in_seconds: None,
        keyspace: Some("ks".to_owned()),
        batch: None,
        statements: vec![statement],
    }
}

fn write(directory: &Path, queries: &[LoggedQuery]) {
    let (fs, clock) = (Arc::new(RealFileSystem), Arc::new(SystemClock::new()));
    let log = Log::open(fs, clock, Kind::Queries, Options::new(directory)).unwrap();
    for query in queries {
        assert!(log.push(query.encode(), Full::Wait));
    }
}

/// A database with a table, and one row of each of `keys`.
fn database(directory: &Path, keys: &[i32]) {
    let database = Database::open(directory).unwrap();
    let session = database.session();
    for cql in [
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE ks.t (k int PRIMARY KEY, v int)",
    ] {
        session.execute(cql, ()).unwrap();
    }
    for key in keys {
        session.execute(&format!("INSERT INTO ks.t (k, v) VALUES ({key}, 0)"), ()).unwrap();
    }
    drop(session);
    database.close().unwrap();
}

fn replay(log: &Path, targets: &[&Path]) -> Replay {
    Replay {
        log: vec![log.to_owned()],
        targets: targets.iter().map(|path| ReplayTarget::Embedded((*path).to_owned())).collect(),
        client: CqlSettings { connections: 4, ..CqlSettings::new(Vec::new()) },
        speed: None,
        connections: 4,
        include_system: false,
    }
}

#[test]
fn queries_of_a_connection_are_replayed_in_order() {
    let directory = tempfile::tempdir().unwrap();
    let (log, data) = (directory.path().join("log"), directory.path().join("data"));
    database(&data, &[]);
    let mut queries = Vec::new();
    // The last write of each connection decides: all have the same timestamp unless recorded.
    for value in 0..50 {
        for connection in 0..6 {
            let key = i32::try_from(connection).unwrap();
            let insert = statement("INSERT INTO t (k, v) VALUES (?, ?)", &[key, value]);
            let timestamp = Some(1000 + i64::from(value));
            queries.push(LoggedQuery { timestamp, ..query(connection, insert) });
            let read = statement("SELECT v FROM t WHERE k = ? AND v = ? ALLOW FILTERING", &[key, value]);
            queries.push(query(connection, read));
        }
    }
    write(&log, &queries);
    let report = replay(&log, &[&data]).run().unwrap();
    assert_eq!((report.queries, report.targets[0].failed), (600, 0), "{}", report.text());
    assert_eq!((report.targets[0].succeeded, report.differing), (600, None));
    let database = Database::open(&data).unwrap();
    let rows = database.session().execute("SELECT k FROM ks.t WHERE v = 49 ALLOW FILTERING", ()).unwrap();
    assert_eq!(rows.len(), 6);
}

#[test]
fn different_results_of_two_targets_are_reported() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    database(&path("a"), &[1, 2]);
    database(&path("b"), &[1]);
    let read = |key: i32| query(1, statement("SELECT k, v FROM ks.t WHERE k = ?", &[key]));
    let batch = LoggedQuery {
        batch: Some(BatchKind::Unlogged),
        statements: vec![
            statement("INSERT INTO t (k, v) VALUES (?, ?)", &[7, 7]),
            statement("INSERT INTO t (k, v) VALUES (8, 8)", &[]),
        ],
        ..read(0)
    };
    let failing = query(1, statement("SELECT nothing FROM t", &[]));
    write(&path("log"), &[read(1), read(2), batch, read(7), failing]);
    let report = replay(&path("log"), &[&path("a"), &path("b")]).run().unwrap();
    assert_eq!((report.queries, report.differing), (5, Some(1)), "{}", report.text());
    let difference = &report.differences[0];
    assert_eq!(difference.query["values"], serde_json::json!(["0x00000002"]));
    assert_eq!(difference.first, "1 rows; 0x00000002, 0x00000000");
    assert_eq!(difference.second, "0 rows");
    for target in &report.targets {
        assert_eq!((target.succeeded, target.failed), (4, 1));
        assert!(target.failures.keys().next().unwrap().contains("nothing"));
    }
    assert!(!report.is_clean());
}

#[test]
fn what_has_no_meaning_elsewhere_is_skipped_and_counted() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    database(&path("a"), &[]);
    let plain = |text: &str| query(1, statement(text, &[]));
    write(
        &path("log"),
        &[
            LoggedQuery { is_next_page: true, ..plain("SELECT * FROM t") },
            plain("CREATE ROLE r WITH PASSWORD = '*******'"),
            plain("SELECT * FROM system.local"),
            plain("SELECT * FROM t"),
        ],
    );
    let report = replay(&path("log"), &[&path("a")]).run().unwrap();
    assert_eq!(report.skipped, Skipped { next_pages: 1, with_passwords: 1, system: 1 });
    assert_eq!(report.queries, 1);
    assert!(report.is_clean(), "{}", report.text());
}

#[test]
fn system_tables_are_recognized_by_their_keyspace() {
    for (text, is_system) in [
        ("SELECT * FROM system.local", true),
        ("select key\nfrom \"system_schema\".tables", true),
        ("SELECT * FROM systems.t", false),
        ("SELECT * FROM t WHERE v = 'from system.x'", false),
        ("INSERT INTO t (k) VALUES (1)", false),
    ] {
        assert_eq!(is_on_system_tables(text), is_system, "{text}");
    }
}

#[test]
fn a_damaged_log_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    database(&path("a"), &[]);
    write(&path("log"), &[query(1, statement("SELECT * FROM t", &[]))]);
    let file = cassette_query_log::files(&RealFileSystem, &path("log")).unwrap().remove(0).path;
    let mut content = std::fs::read(&file).unwrap();
    let at = content.len() - 12;
    content[at] ^= 1;
    std::fs::write(&file, content).unwrap();
    let error = replay(&path("log"), &[&path("a")]).run().unwrap_err().to_string();
    assert!(error.contains("checksum"), "{error}");
    let error = replay(&path("none"), &[&path("a")]).run().unwrap_err().to_string();
    assert!(error.contains("listing") || error.contains("no file"), "{error}");
}

#[test]
fn targets_are_addresses_or_directories() {
    assert_eq!(ReplayTarget::parse("embedded:/d"), Ok(ReplayTarget::Embedded("/d".into())));
    assert_eq!(ReplayTarget::parse("host"), Ok(ReplayTarget::Server("host:9042".to_owned())));
    assert_eq!(ReplayTarget::parse("host:1"), Ok(ReplayTarget::Server("host:1".to_owned())));
    assert!(ReplayTarget::parse("embedded:").is_err());
    assert!(ReplayTarget::parse("").is_err());
}
