use std::sync::Arc;

use cassette_vfs::FakeFileSystem;
use parking_lot::Mutex;

use crate::api::database::{Database, Options};
use crate::api::embedded::Session;
use crate::schema::catalog::Catalog;

/// Without background threads, the engine behaves identically in every run.
fn options(fs: &FakeFileSystem) -> Options {
    let mut options = Options { file_system: Arc::new(fs.clone()), ..Options::new("/data") };
    options.engine.background_threads = false;
    // The fake file system copies whole files.
    options.engine.commitlog_segment_size = 1 << 20;
    options
}

fn open(fs: &FakeFileSystem) -> Session {
    Database::open(options(fs)).unwrap().session()
}

const KEYSPACE: &str =
    "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";

/// One statement of each kind.
const STATEMENTS: [&str; 13] = [
    KEYSPACE,
    "CREATE TYPE ks.a (x int, y text)",
    "CREATE TYPE ks.b (a frozen<a>, l frozen<list<int>>)",
    "CREATE TABLE ks.t (k int, c text, d timestamp, s int static, v a, w frozen<b>, m map<int, text>, \
     PRIMARY KEY (k, c, d)) WITH CLUSTERING ORDER BY (c DESC, d ASC) AND gc_grace_seconds = 5",
    "ALTER TABLE ks.t DROP m",
    "ALTER TABLE ks.t ADD n int",
    "ALTER TABLE ks.t RENAME c TO cc",
    "ALTER TABLE ks.t WITH comment = 'it''s'",
    "ALTER TYPE ks.a ADD z boolean",
    "CREATE TABLE ks.u (k int PRIMARY KEY)",
    "DROP TABLE ks.u",
    "ALTER KEYSPACE ks WITH durable_writes = true AND replication = \
     {'class': 'NetworkTopologyStrategy', 'datacenter1': 1}",
    "DROP KEYSPACE ks",
];

#[test]
fn a_schema_comes_back_as_it_was_when_the_database_is_opened_again() {
    let fs = FakeFileSystem::new();
    let session = open(&fs);
    for cql in &STATEMENTS[..12] {
        session.execute(cql, ()).unwrap();
    }
    let before = session.database().catalog();
    let host_id = session.database().node().host_id;
    session.database().close().unwrap();
    drop(session);

    let session = open(&fs);
    let after = session.database().catalog();
    assert_eq!(after.version(), before.version());
    assert_eq!(session.database().node().host_id, host_id);
    assert_eq!(after.keyspace("ks").unwrap().types, before.keyspace("ks").unwrap().types);
    let table = after.table("ks", "t").unwrap();
    assert_eq!(table.id, before.table("ks", "t").unwrap().id);
    assert_eq!(table.params.gc_grace_seconds, 5);
    assert!(table.clustering[0].reversed && table.clustering[0].name == "cc");
    assert_eq!(table.dropped_columns, before.table("ks", "t").unwrap().dropped_columns);
    assert_eq!(table.column("v").unwrap().data_type.to_string(), "a");
}

/// The machine crashes at any file operation of any statement. Acknowledged changes are present;
/// others are present as a whole or not at all.
#[test]
fn a_crash_at_any_moment_of_a_schema_change_leaves_it_done_or_undone() {
    /// The number of crashes for each statement, spread over its file operations.
    const CRASHES: u64 = 12;
    let versions = versions_after_each_statement();
    let start = FakeFileSystem::new();
    for (i, statement) in STATEMENTS.iter().enumerate() {
        let whole = start.fork();
        let session = open(&whole);
        let before = whole.operations();
        session.execute(statement, ()).unwrap();
        let operations = whole.operations() - before;
        drop(session);
        for crash in 0..CRASHES {
            let at = operations * crash / (CRASHES - 1);
            let fs = start.fork();
            let session = open(&fs);
            fs.fail_from(fs.operations() + at);
            let acknowledged = session.execute(statement, ()).is_ok();
            let survivor = fs.crash(crash * 31 + i as u64);
            drop(session);
            let session = open(&survivor);
            let version = normal(&session.database().catalog());
            let expected = if acknowledged { &versions[i + 1..=i + 1] } else { &versions[i..=i + 1] };
            assert!(
                expected.contains(&version),
                "{statement}: crash at operation {at} of {operations}, acknowledged: {acknowledged}"
            );
            // The schema can be changed further.
            session.execute(&KEYSPACE.replace(" ks ", " other "), ()).unwrap();
        }
        let session = open(&start);
        session.execute(statement, ()).unwrap();
        session.database().close().unwrap();
    }
}

fn versions_after_each_statement() -> Vec<Vec<String>> {
    let session = open(&FakeFileSystem::new());
    let mut versions = vec![normal(&session.database().catalog())];
    for statement in STATEMENTS {
        session.execute(statement, ()).unwrap();
        versions.push(normal(&session.database().catalog()));
    }
    versions
}

/// The contents of keyspace `ks`, without ids and times, which differ between runs.
fn normal(catalog: &Catalog) -> Vec<String> {
    let Some(keyspace) = catalog.keyspace("ks") else { return Vec::new() };
    let mut lines = vec![format!("{:?}", keyspace.params)];
    lines.extend(keyspace.types.values().map(|user_type| format!("{user_type:?}")));
    for table in keyspace.tables.values() {
        let dropped: Vec<_> = table.dropped_columns.keys().collect();
        lines.push(format!("{} {:?} {dropped:?}", table.name, table.params));
        let mut columns: Vec<_> = table
            .all_columns()
            .map(|c| format!("{} {:?} {} {} {}", c.name, c.kind, c.position, c.data_type, c.reversed))
            .collect();
        columns.sort();
        lines.extend(columns);
    }
    lines
}

#[test]
fn a_keyspace_dropped_and_made_again_has_none_of_its_tables() {
    let fs = FakeFileSystem::new();
    let session = open(&fs);
    for cql in [KEYSPACE, "CREATE TABLE ks.t (k int PRIMARY KEY)", "DROP KEYSPACE ks", KEYSPACE] {
        session.execute(cql, ()).unwrap();
    }
    assert_eq!(session.database().catalog().keyspace("ks").unwrap().tables.len(), 0);
    session.database().close().unwrap();
    drop(session);
    assert_eq!(open(&fs).database().catalog().keyspace("ks").unwrap().tables.len(), 0);
}

#[test]
fn a_table_dropped_and_made_again_has_none_of_its_rows() {
    let fs = FakeFileSystem::new();
    let session = open(&fs);
    let table = "CREATE TABLE ks.t (k int PRIMARY KEY, v int)";
    for cql in [KEYSPACE, table, "INSERT INTO ks.t (k, v) VALUES (1, 1)", "DROP TABLE ks.t", table] {
        session.execute(cql, ()).unwrap();
    }
    assert_eq!(session.execute("SELECT * FROM ks.t", ()).unwrap().len(), 0);
    drop(session);
    let session = open(&fs.kill());
    assert_eq!(session.execute("SELECT * FROM ks.t", ()).unwrap().len(), 0);
}

#[test]
fn rows_written_before_columns_changed_are_read_after() {
    let fs = FakeFileSystem::new();
    let session = open(&fs);
    for cql in [
        KEYSPACE,
        "CREATE TABLE ks.t (k int PRIMARY KEY, a int, b int)",
        "INSERT INTO ks.t (k, a, b) VALUES (1, 2, 3)",
        "ALTER TABLE ks.t DROP a",
        "ALTER TABLE ks.t ADD aa text",
        "ALTER TABLE ks.t ADD a int",
        "ALTER TABLE ks.t RENAME k TO kk",
    ] {
        session.execute(cql, ()).unwrap();
    }
    let check = |session: &Session| {
        let rows = session.execute("SELECT kk, a, aa, b FROM ks.t", ()).unwrap();
        let row = rows.first().unwrap();
        assert_eq!(row.get::<i32>("kk").unwrap(), 1);
        assert_eq!(row.get::<Option<i32>>("a").unwrap(), None, "dropped with its values");
        assert_eq!(row.get::<Option<String>>("aa").unwrap(), None);
        assert_eq!(row.get::<i32>("b").unwrap(), 3);
    };
    check(&session);
    drop(session);
    let survivor = fs.kill();
    let session = open(&survivor);
    check(&session);
    session.database().close().unwrap();
    drop(session);
    check(&open(&survivor));
}

#[test]
fn virtual_tables_tell_of_themselves() {
    let session = open(&FakeFileSystem::new());
    let rows = session
        .execute(
            "SELECT table_name FROM system_virtual_schema.tables WHERE keyspace_name = 'system_views'",
            (),
        )
        .unwrap();
    let names: Vec<_> = rows.iter().map(|row| row.get::<String>(0).unwrap()).collect();
    assert!(names.contains(&"settings".to_owned()) && names.contains(&"clients".to_owned()), "{names:?}");
    let rows =
        session.execute("SELECT value FROM system_views.settings WHERE name = 'commitlog_sync'", ()).unwrap();
    assert_eq!(rows.first().unwrap().get::<String>("value").unwrap(), "periodic");
    let error = session.execute("INSERT INTO system_views.settings (name) VALUES ('a')", ()).unwrap_err();
    assert_eq!(error.to_string(), "Modification is not supported by table system_views.settings");
}

/// Snapshots that TRUNCATE takes of a table with one row, and when they expire.
fn snapshots_of_a_truncated_table(change: impl FnOnce(&mut Options), table: &str) -> Vec<Option<i64>> {
    let fs = FakeFileSystem::new();
    let mut options = options(&fs);
    change(&mut options);
    let session = Database::open(options).unwrap().session();
    session.execute(KEYSPACE, ()).unwrap();
    session.execute(&format!("CREATE TABLE ks.t (k int PRIMARY KEY) {table}"), ()).unwrap();
    session.execute("INSERT INTO ks.t (k) VALUES (1)", ()).unwrap();
    session.execute("TRUNCATE ks.t", ()).unwrap();
    let left = session.database().snapshots().unwrap();
    left.iter().map(|snapshot| snapshot.expires_at_millis.map(|at| at - snapshot.created_at_millis)).collect()
}

#[test]
fn the_node_and_the_table_decide_whether_a_truncation_leaves_a_snapshot_and_for_how_long() {
    assert_eq!(snapshots_of_a_truncated_table(|_| {}, ""), [None]);
    let off = |options: &mut Options| options.engine.auto_snapshot = false;
    assert_eq!(snapshots_of_a_truncated_table(off, ""), []);
    assert_eq!(snapshots_of_a_truncated_table(|_| {}, "WITH allow_auto_snapshot = false"), []);
    let hour = |options: &mut Options| options.engine.auto_snapshot_ttl_seconds = Some(3600);
    assert_eq!(snapshots_of_a_truncated_table(hour, ""), [Some(3_600_000)]);
}

#[test]
fn tables_made_without_compaction_options_take_the_nodes_and_keep_them() {
    let fs = FakeFileSystem::new();
    let with = |class: &str| {
        let mut options = options(&fs);
        options.default_compaction.class = class.into();
        options.default_compaction.options.clear();
        Database::open(options).map(|database| database.session())
    };
    let class = |session: &Session, table: &str| {
        let catalog = session.database().catalog();
        catalog.keyspace("ks").unwrap().tables[table].params.compaction.class.clone()
    };
    let session = with("UnifiedCompactionStrategy").unwrap();
    session.execute(KEYSPACE, ()).unwrap();
    session.execute("CREATE TABLE ks.t (k int PRIMARY KEY)", ()).unwrap();
    let leveled =
        "CREATE TABLE ks.u (k int PRIMARY KEY) WITH compaction = {'class': 'LeveledCompactionStrategy'}";
    session.execute(leveled, ()).unwrap();
    session.execute("ALTER TABLE ks.t WITH comment = 'altered'", ()).unwrap();
    drop(session);
    let session = with("TimeWindowCompactionStrategy").unwrap();
    session.execute("CREATE TABLE ks.v (k int PRIMARY KEY)", ()).unwrap();
    assert_eq!(
        ["t", "u", "v"].map(|table| class(&session, table)),
        ["UnifiedCompactionStrategy", "LeveledCompactionStrategy", "TimeWindowCompactionStrategy"]
    );
    drop(session);
    let error = with("NoStrategy").map(drop).unwrap_err().to_string();
    assert!(error.contains("default_compaction: Unable to find compaction strategy class"), "{error}");
}

#[test]
fn listeners_are_told_of_all_that_changes_with_a_statement() {
    let fs = FakeFileSystem::new();
    let options = Options { materialized_views_enabled: true, ..options(&fs) };
    let session = Database::open(options).unwrap().session();
    let told = Arc::new(Mutex::new(Vec::new()));
    let heard = told.clone();
    let _subscription = session.database().on_schema_change(move |change| {
        let name = if change.name.is_empty() { &change.keyspace } else { &change.name };
        heard.lock().push(format!("{:?} {:?} {name}", change.kind, change.target));
    });
    let told_of = |cql: &str| {
        session.execute(cql, ()).unwrap();
        std::mem::take(&mut *told.lock()).join(", ")
    };
    assert_eq!(told_of(KEYSPACE), "Created Keyspace ks");
    assert_eq!(told_of("CREATE TYPE ks.a (x int)"), "Created Type a");
    assert_eq!(told_of("CREATE TYPE ks.b (a frozen<a>)"), "Created Type b");
    assert_eq!(told_of("CREATE TABLE ks.t (k int PRIMARY KEY, v int, b frozen<b>)"), "Created Table t");
    assert_eq!(told_of("CREATE TABLE ks.u (k int PRIMARY KEY, v int)"), "Created Table u");
    let view = "CREATE MATERIALIZED VIEW ks.by_k AS SELECT * FROM ks.t WHERE k IS NOT NULL PRIMARY KEY (k)";
    assert_eq!(told_of(view), "Created Table by_k");
    assert_eq!(told_of("CREATE INDEX ON ks.u (v)"), "Updated Table u");
    assert_eq!(told_of("ALTER TABLE ks.t ADD n int"), "Updated Table t, Updated Table by_k");
    assert_eq!(told_of("ALTER TABLE ks.t WITH comment = 'x'"), "Updated Table t");
    assert_eq!(
        told_of("ALTER TYPE ks.a ADD y int"),
        "Updated Type a, Updated Type b, Updated Table t, Updated Table by_k"
    );
    assert_eq!(told_of("ALTER KEYSPACE ks WITH durable_writes = false"), "Updated Keyspace ks");
    assert_eq!(told_of("DROP INDEX ks.u_v_idx"), "Updated Table u");
    assert_eq!(
        told_of("DROP KEYSPACE ks"),
        "Dropped Table by_k, Dropped Table t, Dropped Table u, Dropped Type a, Dropped Type b, Dropped Keyspace ks"
    );
}
