use std::{collections::BTreeSet, path::Path, sync::Arc};

use cassette_cql::values::text::encode_hex;
use cassette_database::{Database, Options as DatabaseOptions};
use cassette_protocol::{
    QueryParameters, Request, Value, Values, Version,
    request::{Batch, BatchStatement, BatchType, Execute, Prepare, Query, StatementSource},
    response::Error,
};
use cassette_query_log::{
    AuditEntry, BatchKind, Kind, LoggedQuery, LoggedValue, LoggedValues, Records, files,
};
use cassette_vfs::{FakeFileSystem, ManualClock, OperationKind};

use super::*;
use crate::{Answer, Backend, Body, ClientSession, Effort};

/// A database with logs in a fake file system.
struct World {
    fs: FakeFileSystem,
    logs: Arc<QueryLogs>,
    database: Database,
    logged: LoggedDatabase,
}

impl World {
    fn new() -> Self {
        let fs = FakeFileSystem::new();
        let database = Database::open(DatabaseOptions {
            file_system: Arc::new(FakeFileSystem::new()),
            ..DatabaseOptions::new("/data")
        });
        let database = database.unwrap();
        let full_query =
            FullQuerySettings { directory: Some("/queries".into()), ..FullQuerySettings::default() };
        let clock = Arc::new(ManualClock::at_micros(1_795_443_842_076_123));
        let audit = AuditSettings::new("/audit");
        let logs = QueryLogs::new(Arc::new(fs.clone()), clock, audit, full_query);
        let logged = LoggedDatabase::new(database.clone(), Arc::clone(&logs));
        Self { fs, logs, database, logged }
    }

    fn session(&self) -> ClientSession {
        self.logged.open_session("127.0.0.1:59116".parse().unwrap())
    }

    fn execute(&self, session: &ClientSession, request: &Request, effort: Effort) -> Result<Answer, Error> {
        let mut body = Vec::new();
        self.logged.execute(session, request, Version::V5, effort, None, Body::new(&mut body))
    }

    fn query(&self, session: &ClientSession, cql: &str) -> Result<Answer, Error> {
        self.execute(session, &query(cql), Effort::MayBlock)
    }

    /// Disables the logs and returns the records of one.
    fn records(&self, kind: Kind, directory: &str) -> Vec<Vec<u8>> {
        self.logs.stop();
        let mut all = Vec::new();
        for file in files(&self.fs, Path::new(directory)).unwrap() {
            let mut records = Records::open(&self.fs, &file.path).unwrap();
            assert_eq!(records.kind(), kind);
            while let Some(record) = records.next_record().unwrap() {
                all.push(record);
            }
        }
        all
    }

    fn entries(&self) -> Vec<AuditEntry> {
        let records = self.records(Kind::Audit, "/audit");
        records.iter().map(|record| AuditEntry::decode(record).unwrap()).collect()
    }

    /// The lines of the entries without what differs between runs.
    fn lines(&self) -> Vec<String> {
        let shown = |entry: &AuditEntry| {
            let line = entry.line();
            line.split_once("|type:").unwrap().1.replace(&entry.batch.unwrap_or_default().to_string(), "ID")
        };
        self.entries().iter().map(shown).collect()
    }

    fn queries(&self) -> Vec<LoggedQuery> {
        let records = self.records(Kind::Queries, "/queries");
        records.iter().map(|record| LoggedQuery::decode(record).unwrap()).collect()
    }
}

fn query(cql: &str) -> Request {
    Request::Query(Query { query: cql.into(), parameters: QueryParameters::default() })
}

const SCHEMA: [&str; 2] = [
    "CREATE KEYSPACE aud WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "CREATE TABLE aud.t (k int PRIMARY KEY, v int)",
];

#[test]
fn entries_are_those_of_cassandra() {
    let world = World::new();
    let session = world.session();
    world.logs.enable_audit(AuditSettings::new("/audit")).unwrap();
    for cql in [
        "CREATE KEYSPACE aud WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "USE aud",
        "CREATE TABLE t (k int PRIMARY KEY, v int)",
        "INSERT INTO t (k, v) VALUES (1, 2)",
        "DELETE FROM aud.t WHERE k = 5",
        "SELECT * FROM t WHERE k = 1",
        "SELECT key FROM system.local",
        "BEGIN BATCH INSERT INTO aud.t (k, v) VALUES (7, 7); APPLY BATCH",
        "DESCRIBE KEYSPACES",
        "TRUNCATE aud.t",
    ] {
        world.query(&session, cql).unwrap();
    }
    for cql in ["SELECT nothing FROM aud.t", "USE nokeyspace"] {
        world.query(&session, cql).unwrap_err();
    }
    // As recorded from Cassandra 5.0.8.
    assert_eq!(
        world.lines(),
        [
            "CREATE_KEYSPACE|category:DDL|ks:aud|operation:CREATE KEYSPACE aud WITH replication = \
             {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "USE_KEYSPACE|category:OTHER|ks:aud|operation:USE aud",
            "CREATE_TABLE|category:DDL|ks:aud|scope:t|operation:CREATE TABLE t (k int PRIMARY KEY, v int)",
            "UPDATE|category:DML|ks:aud|scope:t|operation:INSERT INTO t (k, v) VALUES (1, 2)",
            "DELETE|category:DML|ks:aud|scope:t|operation:DELETE FROM aud.t WHERE k = 5",
            "SELECT|category:QUERY|ks:aud|scope:t|operation:SELECT * FROM t WHERE k = 1",
            "BATCH|category:DML|ks:aud|operation:BEGIN BATCH INSERT INTO aud.t (k, v) VALUES (7, 7); \
             APPLY BATCH",
            "DESCRIBE|category:OTHER|ks:aud|operation:DESCRIBE KEYSPACES",
            "TRUNCATE|category:DDL|ks:aud|scope:t|operation:TRUNCATE aud.t",
            "REQUEST_FAILURE|category:ERROR|ks:aud|operation:SELECT nothing FROM aud.t; Undefined column \
             name nothing in table aud.t",
            "REQUEST_FAILURE|category:ERROR|ks:aud|operation:USE nokeyspace; Keyspace 'nokeyspace' does \
             not exist",
        ]
    );
}

#[test]
fn prepared_statements_and_batches_have_the_text_of_their_statements() {
    let world = World::new();
    let session = world.session();
    SCHEMA.iter().for_each(|cql| drop(world.query(&session, cql).unwrap()));
    world.logs.enable_audit(AuditSettings::new("/audit")).unwrap();
    let cql = "INSERT INTO aud.t (k, v) VALUES (?, ?)";
    let prepare = Request::Prepare(Prepare { query: cql.into(), keyspace: None });
    world.execute(&session, &prepare, Effort::MayBlock).unwrap();
    let id = bytes::Bytes::copy_from_slice(&world.database.prepare(None, cql).unwrap().id());
    let values = || Values::new([Value::Set(&[0, 0, 0, 1]), Value::Null]);
    let statement = |source, values| BatchStatement { source, values };
    let batch = Request::Batch(Batch {
        batch_type: BatchType::Unlogged,
        statements: vec![
            statement(StatementSource::Prepared(id.clone()), values()),
            statement(
                StatementSource::Query("INSERT INTO aud.t (k, v) VALUES (11, 1)".into()),
                Values::default(),
            ),
        ],
        parameters: QueryParameters::default(),
    });
    world.execute(&session, &batch, Effort::MayBlock).unwrap();
    let unknown = Request::Execute(Execute {
        id: bytes::Bytes::from_static(&[7; 16]),
        result_metadata_id: None,
        parameters: QueryParameters::default(),
    });
    world.execute(&session, &unknown, Effort::MayBlock).unwrap_err();
    let lines = world.lines();
    assert_eq!(
        lines[..4],
        [
            format!("PREPARE_STATEMENT|category:PREPARE|ks:aud|scope:t|operation:{cql}"),
            "BATCH|category:DML|batch:ID|operation:BatchId:[ID] - BATCH of [2] statements".to_owned(),
            format!("UPDATE|category:DML|batch:ID|ks:aud|scope:t|operation:{cql}"),
            "UPDATE|category:DML|batch:ID|ks:aud|scope:t|operation:INSERT INTO aud.t (k, v) VALUES (11, 1)"
                .to_owned(),
        ]
    );
    let id = encode_hex(&[7; 16]);
    assert!(lines[4].starts_with(&format!("REQUEST_FAILURE|category:ERROR|operation:EXECUTE {id}; ")));
    let ids: BTreeSet<_> = world.entries()[1..4].iter().map(|entry| entry.batch).collect();
    assert_eq!(ids.len(), 1, "entries of a batch share an id");
}

#[test]
fn no_log_contains_a_password() {
    let world = World::new();
    let session = world.session();
    world.logs.enable_audit(AuditSettings::new("/audit")).unwrap();
    for cql in [
        "CREATE ROLE rr WITH PASSWORD = 'geheim' AND LOGIN = true",
        "ALTER ROLE rr WITH PASSWORD = 'geheim'",
        "CREATE USER uu WITH PASSWORD 'geheim' NOSUPERUSER",
        "CREATE ROLE rr WITH PASSWORD = 'geheim'",
        "CREATE ROL x WITH PASSWORD = 'geheim'",
        "CREATE ROLE yy WITH PASSWORD = geheim",
        "CREATE ROLE yy WITH PASSWORD = 'geheim",
    ] {
        let _ = world.query(&session, cql);
        let prepare = Request::Prepare(Prepare { query: cql.into(), keyspace: None });
        let _ = world.execute(&session, &prepare, Effort::MayBlock);
        let batch = Request::Batch(Batch {
            batch_type: BatchType::Logged,
            statements: vec![BatchStatement {
                source: StatementSource::Query(cql.into()),
                values: Values::default(),
            }],
            parameters: QueryParameters::default(),
        });
        let _ = world.execute(&session, &batch, Effort::MayBlock);
    }
    world.logged.login_failed(&session, "Provided username low and/or password are incorrect");
    // Statements that create roles need a login, so that they fail here; as if they had succeeded:
    let execution = full_query::Execution {
        started_micros: 0,
        duration_micros: 0,
        connection: 1,
        version: Version::V5,
        keyspace: None,
    };
    let created = query("CREATE ROLE rr WITH PASSWORD = 'geheim' AND LOGIN = true");
    let recorded = full_query::record(&world.database, &created, &execution).unwrap();
    assert_eq!(recorded.statements[0].query, "CREATE ROLE rr WITH PASSWORD = '*******' AND LOGIN = true");
    let entries = world.entries();
    assert!(entries.len() > 20, "{}", entries.len());
    for entry in &entries {
        assert!(!entry.operation.contains("geheim"), "{}", entry.operation);
    }
    let first = "CREATE ROLE rr WITH PASSWORD = '*******' AND LOGIN = true; ";
    assert!(entries[0].operation.starts_with(first), "{}", entries[0].operation);
    let last = entries.last().unwrap();
    assert_eq!(last.operation, "LOGIN FAILURE; Provided username low and/or password *******");
    assert_eq!(last.user, None);
}

#[test]
fn logins_and_refused_permissions_are_of_category_auth() {
    let world = World::new();
    let session = world.session();
    world.logs.enable_audit(AuditSettings::new("/audit")).unwrap();
    world.logged.logged_in(&session, "low");
    let refused = cassette_protocol::response::ErrorDetail::Unauthorized;
    let entries = audit_entries::Entries {
        database: &world.database,
        session: &session,
        timestamp: 7,
        keyspace: Some("aud"),
    };
    let failed =
        entries.failed(&query("SELECT * FROM aud.t"), &Error::new(refused, "User low has no".to_owned()));
    assert_eq!(
        failed.line(),
        "user:low|host:/127.0.0.1:9042|source:/127.0.0.1|port:59116|timestamp:7|\
         type:UNAUTHORIZED_ATTEMPT|category:AUTH|ks:aud|operation:SELECT * FROM aud.t; User low has no"
    );
    assert_eq!(world.lines(), ["LOGIN_SUCCESS|category:AUTH|operation:LOGIN SUCCESSFUL"]);
}

#[test]
fn the_filter_selects_by_keyspace_category_and_user() {
    let settings = |keyspaces: Names, categories: Names, users: Names| AuditSettings {
        filter: AuditFilter { keyspaces, categories, users },
        ..AuditSettings::new("/audit")
    };
    let none = Names::default;
    for (settings, count) in [
        (settings(none(), none(), none()), 3),
        (settings(Names::parse("aud", ""), none(), none()), 2),
        (settings(Names::parse("", "aud"), none(), none()), 1),
        (settings(none(), Names::parse("QUERY", ""), none()), 2),
        (settings(none(), Names::parse("", "QUERY"), none()), 1),
        (settings(none(), none(), Names::parse("", "anonymous")), 0),
        (settings(none(), none(), Names::parse("other", "")), 0),
    ] {
        let world = World::new();
        let session = world.session();
        SCHEMA.iter().for_each(|cql| drop(world.query(&session, cql).unwrap()));
        world.logs.enable_audit(settings.clone()).unwrap();
        for cql in ["SELECT * FROM aud.t", "INSERT INTO aud.t (k) VALUES (1)", "SELECT key FROM system.local"]
        {
            world.query(&session, cql).unwrap();
        }
        assert_eq!(world.entries().len(), count, "{settings:?}");
    }
}

#[test]
fn the_full_query_log_has_everything_to_execute_a_query_again() {
    let world = World::new();
    let session = world.session();
    SCHEMA.iter().for_each(|cql| drop(world.query(&session, cql).unwrap()));
    world.logs.enable_full_query(world.logs.configured_full_query()).unwrap();
    world.query(&session, "USE aud").unwrap();
    let parameters = QueryParameters {
        values: Values::named([("k".to_owned(), Value::Set(&[0, 0, 0, 1])), ("v".to_owned(), Value::Unset)]),
        page_size: Some(10),
        timestamp: Some(42),
        now_in_seconds: Some(43),
        ..QueryParameters::default()
    };
    let insert = Request::Query(Query { query: "INSERT INTO t (k, v) VALUES (:k, :v)".into(), parameters });
    world.execute(&session, &insert, Effort::MayBlock).unwrap();
    world.query(&session, "SELECT nothing FROM t").unwrap_err();
    let queries = world.queries();
    assert_eq!(queries.len(), 2, "only successful ones");
    let logged = &queries[1];
    assert_eq!((logged.timestamp, logged.now_in_seconds, logged.page_size), (Some(42), Some(43), Some(10)));
    assert_eq!((logged.started_micros, logged.protocol_version), (1_795_443_842_076_123, 5));
    assert_eq!(logged.keyspace.as_deref(), Some("aud"));
    assert_eq!(logged.batch, None::<BatchKind>);
    assert_eq!(logged.connection, queries[0].connection);
    assert_eq!(logged.statements[0].query, "INSERT INTO t (k, v) VALUES (:k, :v)");
    assert_eq!(
        logged.statements[0].values,
        LoggedValues::Named(vec![
            ("k".to_owned(), LoggedValue::Set(vec![0, 0, 0, 1])),
            ("v".to_owned(), LoggedValue::Unset),
        ])
    );
}

#[test]
fn requests_are_answered_while_the_disk_of_the_logs_is_full() {
    let world = World::new();
    let session = world.session();
    world.logs.enable_audit(AuditSettings::new("/audit")).unwrap();
    world.logs.enable_full_query(world.logs.configured_full_query()).unwrap();
    world.fs.fail_when(|operation| {
        (operation.kind == OperationKind::Write).then_some(io::ErrorKind::StorageFull)
    });
    for _ in 0..100 {
        world.query(&session, "DESCRIBE KEYSPACES").unwrap();
    }
    world.logs.stop();
    let (audit, full_query) = world.logs.counts();
    assert_eq!((audit.failed, audit.written), (100, 0));
    assert_eq!((full_query.failed, full_query.written), (100, 0));
    world.query(&session, "DESCRIBE KEYSPACES").unwrap();
}

#[test]
fn a_log_is_enabled_again_with_other_settings_and_disabled() {
    let world = World::new();
    let session = world.session();
    assert!(!world.logs.is_enabled());
    world.logs.enable_audit(AuditSettings::new("/audit")).unwrap();
    world.query(&session, "DESCRIBE KEYSPACES").unwrap();
    world.logs.enable_audit(AuditSettings::new("/other")).unwrap();
    world.query(&session, "DESCRIBE SCHEMA").unwrap();
    world.logs.disable_audit();
    assert!(!world.logs.is_enabled());
    world.query(&session, "DESCRIBE KEYSPACES").unwrap();
    assert_eq!(world.records(Kind::Audit, "/audit").len(), 1);
    assert_eq!(world.records(Kind::Audit, "/other").len(), 1);
    assert_eq!(world.logs.counts().0.written, 2, "counts continue");

    let settings = world.logs.configured_full_query();
    world.logs.enable_full_query(settings.clone()).unwrap();
    let error = world.logs.enable_full_query(settings.clone()).unwrap_err().to_string();
    assert_eq!(error, "Binlog is already configured");
    world.logs.reset_full_query().unwrap();
    assert!(files(&world.fs, Path::new("/queries")).unwrap().is_empty());
    let error = world.logs.enable_full_query(FullQuerySettings { directory: None, ..settings });
    assert!(error.unwrap_err().to_string().contains("log_dir"));
}
