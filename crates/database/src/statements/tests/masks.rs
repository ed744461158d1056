//! Dynamic data masking. `tests/clients/test_masking.py` compares the answers with Cassandra's.

use std::sync::Arc;

use cassette_vfs::FakeFileSystem;

use super::role_testing::{error, lines, options, run};
use crate::api::database::{Database, Options};
use crate::schema::system::SCHEMA;
use crate::schema::system::encode::{Value, mutation, row};
use crate::store::authorization::AuthSettings;

const KEYSPACE: &str =
    "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
const STORED: &str = "SELECT table_name, column_name, function_name, function_argument_values FROM \
                      system_schema.column_masks WHERE keyspace_name = 'k'";

fn open_at(fs: &FakeFileSystem, is_enabled: bool) -> Database {
    let mut options = Options {
        auth: AuthSettings { passwords: true, permissions: true, ..AuthSettings::default() },
        file_system: Arc::new(fs.clone()),
        materialized_views_enabled: true,
        dynamic_data_masking_enabled: is_enabled,
        ..Options::new("/data")
    };
    options.engine.background_threads = false;
    options.engine.auto_snapshot = false;
    options.engine.commitlog_segment_size = 1 << 20;
    Database::open(options).unwrap()
}

fn open() -> Database {
    open_at(&FakeFileSystem::new(), true)
}

/// A table with a masked column, and a role that can read and write it.
fn with_table(database: &Database) {
    run(
        database,
        &[
            KEYSPACE,
            "CREATE TABLE k.t (k int PRIMARY KEY, v text MASKED WITH DEFAULT, w int)",
            "INSERT INTO k.t (k, v, w) VALUES (1, 'secret', 2)",
            "CREATE ROLE u",
            "GRANT SELECT ON k.t TO u",
            "GRANT MODIFY ON k.t TO u",
        ],
    );
}

#[test]
fn the_program_and_superusers_read_clear_values() {
    let database = open();
    with_table(&database);
    run(&database, &["CREATE ROLE root WITH SUPERUSER = true"]);
    for role in ["", "root"] {
        assert_eq!(
            lines(&database, role, "SELECT v FROM k.t WHERE v = 'secret' ALLOW FILTERING"),
            ["'secret'"]
        );
    }
    assert_eq!(lines(&database, "u", "SELECT v FROM k.t"), ["'****'"]);
}

#[test]
fn results_of_conditional_writes_are_masked_without_unmask() {
    let database = open();
    with_table(&database);
    let writes = [
        "INSERT INTO k.t (k, v) VALUES (1, 'x') IF NOT EXISTS",
        "UPDATE k.t SET w = 3 WHERE k = 1 IF v = 'x'",
        "BEGIN BATCH UPDATE k.t SET w = 3 WHERE k = 1 IF v = 'x'; APPLY BATCH",
        "BEGIN BATCH UPDATE k.t SET w = 3 WHERE k = 1; INSERT INTO k.t (k) VALUES (1) IF NOT EXISTS; APPLY BATCH",
    ];
    let masked = ["false 1 '****' 2", "false '****'", "false 1 '****'", "false 1 '****' 2"];
    for (cql, masked) in writes.iter().zip(masked) {
        assert_eq!(lines(&database, "u", cql), [masked], "{cql}");
    }
    run(&database, &["GRANT UNMASK ON k.t TO u"]);
    for (cql, masked) in writes.iter().zip(masked) {
        assert_eq!(lines(&database, "u", cql), [masked.replace("****", "secret")], "{cql}");
    }
    // The condition itself is evaluated on the clear value.
    run(&database, &["REVOKE UNMASK ON k.t FROM u"]);
    assert_eq!(lines(&database, "u", "UPDATE k.t SET w = 3 WHERE k = 1 IF v = 'secret'"), ["true"]);
}

#[test]
fn prepared_statements_follow_changes_of_masks_and_permissions() {
    let database = open();
    with_table(&database);
    let session = database.session();
    let prepared = session.prepare("SELECT v FROM k.t WHERE k = ?").unwrap();
    let value = |role: &str| {
        let rows = session.execute_with(&prepared, (1,), &options(role)).unwrap();
        rows.iter().next().map(|row| row.columns()[0].literal(row.bytes(0))).unwrap()
    };
    assert_eq!(value("u"), "'****'");
    run(&database, &["ALTER TABLE k.t ALTER v MASKED WITH mask_inner(1, 1, '#')"]);
    assert_eq!(value("u"), "'s####t'");
    run(&database, &["GRANT UNMASK ON KEYSPACE k TO u"]);
    assert_eq!(value("u"), "'secret'");
    run(&database, &["REVOKE UNMASK ON KEYSPACE k FROM u"]);
    assert_eq!(value("u"), "'s####t'");
    run(&database, &["ALTER TABLE k.t ALTER v DROP MASKED"]);
    assert_eq!(value("u"), "'secret'");
}

#[test]
fn masks_and_their_arguments_survive_reopening() {
    let fs = FakeFileSystem::new();
    let database = open_at(&fs, true);
    run(
        &database,
        &[
            KEYSPACE,
            "CREATE TYPE k.ty (a int, b text)",
            "CREATE TABLE k.t (k int MASKED WITH DEFAULT, c text MASKED WITH mask_inner(1, null), s text STATIC \
             MASKED WITH mask_outer(1, 2, '#'), v text MASKED WITH mask_replace('it''s:@\\'), n int MASKED WITH \
             mask_null(), l list<int> MASKED WITH mask_replace([1, 2]), u ty MASKED WITH mask_replace({a: 1, b: \
             'x:y@'}), tp tuple<int, text> MASKED WITH mask_replace((null, 'x')), h blob MASKED WITH \
             mask_hash('MD5'), p int, PRIMARY KEY (k, c)) WITH CLUSTERING ORDER BY (c DESC)",
            "CREATE TABLE k.base (k int, c int MASKED WITH mask_replace(7), v text MASKED WITH DEFAULT, PRIMARY KEY \
             (k, c))",
            "CREATE MATERIALIZED VIEW k.mv AS SELECT * FROM k.base WHERE k IS NOT NULL AND c IS NOT NULL PRIMARY \
             KEY (c, k)",
            "INSERT INTO k.base (k, c, v) VALUES (1, 2, 'x')",
            "ALTER TABLE k.base RENAME c TO d",
            "ALTER TABLE k.base ALTER v MASKED WITH mask_replace('y')",
            "ALTER TABLE k.base ADD added text MASKED WITH mask_null()",
            "INSERT INTO k.t (k, c, s, v, n, l, u, tp, h, p) VALUES (1, 'secret', 'static', 'v', 1, [3], {a: 5}, \
             (1, 'y'), 0x01, 6)",
            "ALTER TABLE k.t RENAME c TO d",
            "ALTER TABLE k.t ADD added int MASKED WITH mask_replace(-1)",
            "ALTER TYPE k.ty ADD z int",
            "ALTER TABLE k.t ALTER p MASKED WITH mask_replace(1 + 1)",
            "CREATE ROLE u",
            "GRANT SELECT ON KEYSPACE k TO u",
        ],
    );
    let questions = [
        "SELECT * FROM k.t",
        "SELECT * FROM k.mv",
        STORED,
        "DESCRIBE TABLE k.t WITH INTERNALS",
        "DESCRIBE MATERIALIZED VIEW k.mv",
    ];
    let before = questions.map(|cql| lines(&database, "u", cql));
    assert_eq!(
        before[0],
        [
            "0 's*****' '#tat##' -1 0x55a54008ad1ba589aa210d2629c1df41 [1, 2] null 2 (null, 'x') {a: 1, b: 'x:y@'} \
             'it''s:@\\'"
        ]
    );
    assert_eq!(before[1], ["7 1 null 'y'"]);
    drop(database);
    let database = open_at(&fs, true);
    let after = questions.map(|cql| lines(&database, "u", cql));
    assert_eq!(after, before);
}

#[test]
fn masks_end_with_their_columns_and_tables() {
    let database = open();
    run(
        &database,
        &[
            KEYSPACE,
            "CREATE TABLE k.t (k int PRIMARY KEY, v text MASKED WITH DEFAULT, w int MASKED WITH mask_null())",
            "ALTER TABLE k.t DROP v",
        ],
    );
    assert_eq!(lines(&database, "", STORED), ["'t' 'w' 'mask_null' []"]);
    run(&database, &["ALTER TABLE k.t ADD v text", "ALTER TABLE k.t ALTER w DROP MASKED"]);
    assert_eq!(lines(&database, "", STORED), [""; 0]);
    run(&database, &["ALTER TABLE k.t ALTER w MASKED WITH DEFAULT", "DROP TABLE k.t"]);
    assert_eq!(lines(&database, "", STORED), [""; 0]);
}

#[test]
fn a_disabled_setting_refuses_masks_and_shows_clear_values() {
    let fs = FakeFileSystem::new();
    let database = open_at(&fs, true);
    with_table(&database);
    drop(database);
    let database = open_at(&fs, false);
    let refusal = "Cannot mask columns because dynamic data masking is not enabled. Set \
        `dynamic_data_masking_enabled: true` in the configuration file (--config) to enable it.";
    for cql in [
        "CREATE TABLE k.other (k int PRIMARY KEY, v text MASKED WITH DEFAULT)",
        "CREATE TABLE IF NOT EXISTS k.t (k int PRIMARY KEY, v text MASKED WITH DEFAULT)",
        "ALTER TABLE k.t ALTER v MASKED WITH nosuch()",
        "ALTER TABLE k.t ALTER IF EXISTS nosuch MASKED WITH DEFAULT",
        "ALTER TABLE k.nosuch ALTER v MASKED WITH DEFAULT",
        "ALTER TABLE k.t ADD x int MASKED WITH DEFAULT",
    ] {
        assert_eq!(error(&database, "", cql), refusal, "{cql}");
    }
    assert_eq!(lines(&database, "u", "SELECT v FROM k.t"), ["'secret'"]);
    assert_eq!(
        error(&database, "u", "SELECT v FROM k.t WHERE v = 'secret' ALLOW FILTERING"),
        "User u has no UNMASK nor SELECT_MASKED permission on table k.t, cannot query masked columns [v]"
    );
    run(&database, &["ALTER TABLE k.t ALTER v DROP MASKED"]);
    assert_eq!(lines(&database, "", STORED), [""; 0]);
    assert_eq!(lines(&database, "u", "SELECT v FROM k.t WHERE v = 'secret' ALLOW FILTERING"), ["'secret'"]);
}

#[test]
fn arguments_that_the_schema_cannot_represent_are_refused() {
    let database = open();
    run(&database, &[KEYSPACE]);
    let cql =
        "CREATE TABLE k.t (k int PRIMARY KEY, v tuple<text, text> MASKED WITH mask_replace(('a\\', 'b')))";
    assert_eq!(
        error(&database, "", cql),
        "invalid mask of column v: system_schema.column_masks cannot represent the arguments of \
         mask_replace(('a\\', 'b'))"
    );
}

/// Writes a row of `column_masks` as another version of the schema would.
fn store_mask(database: &Database, table: &str, column: &str, (keyspace, function): (&str, &str)) {
    let catalog = database.catalog();
    let masks = catalog.table(SCHEMA, "column_masks").unwrap();
    let no_texts: &[String] = &[];
    let no_flags: &[bool] = &[];
    let values = [
        ("function_argument_nulls", Value::from(no_flags)),
        ("function_argument_types", Value::from(no_texts)),
        ("function_argument_values", Value::from(no_texts)),
        ("function_keyspace", keyspace.into()),
        ("function_name", function.into()),
    ];
    let timestamp = database.store().next_timestamp(database.store().clock().now_micros()).unwrap();
    let row = row(masks, &[table, column], &values, timestamp);
    database.engine().apply(&[mutation(masks, "k", vec![row])]).unwrap();
}

#[test]
fn stored_masks_of_missing_columns_do_not_apply_to_later_ones() {
    let fs = FakeFileSystem::new();
    let database = open_at(&fs, true);
    with_table(&database);
    // Cassandra leaves such rows behind.
    store_mask(&database, "t", "x", ("system", "mask_default"));
    store_mask(&database, "other", "v", ("system", "mask_default"));
    run(
        &database,
        &[
            "ALTER TABLE k.t ADD x text",
            "CREATE TABLE k.other (k int PRIMARY KEY, v text)",
            "INSERT INTO k.t (k, x) VALUES (1, 'x')",
        ],
    );
    drop(database);
    let database = open_at(&fs, true);
    assert_eq!(lines(&database, "", STORED), ["'t' 'v' 'mask_default' []"]);
    assert_eq!(lines(&database, "u", "SELECT v, x FROM k.t"), ["'****' 'x'"]);
}

#[test]
fn a_table_with_an_unsupported_stored_mask_is_not_readable() {
    let fs = FakeFileSystem::new();
    let database = open_at(&fs, true);
    with_table(&database);
    run(&database, &["CREATE TABLE k.other (k int PRIMARY KEY)"]);
    store_mask(&database, "t", "v", ("k", "user_function"));
    drop(database);
    let database = open_at(&fs, true);
    assert_eq!(error(&database, "", "SELECT v FROM k.t"), "table t does not exist");
    assert_eq!(lines(&database, "", "SELECT * FROM k.other"), [""; 0]);
}
