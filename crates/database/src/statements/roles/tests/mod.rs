//! Roles and permissions, with the errors of Cassandra 5.0.8 (`PasswordAuthenticator`,
//! `CassandraAuthorizer`).

mod access;
mod cidr;

use crate::api::database::{Database, Options};
use crate::api::embedded::Rows;
use crate::basics::request::{Caller, StatementOptions, Values};
use crate::store::authorization::AuthSettings;

const KEYSPACE: &str =
    "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";

fn settings() -> AuthSettings {
    AuthSettings { passwords: true, permissions: true, ..AuthSettings::default() }
}

fn open() -> Database {
    let options = Options { auth: settings(), materialized_views_enabled: true, ..Options::in_memory() };
    Database::open(options).unwrap()
}

fn options(role: &str) -> StatementOptions {
    let caller = if role.is_empty() { Caller::Program } else { Caller::Role(role.into()) };
    StatementOptions { caller, ..StatementOptions::default() }
}

/// Executes statements one after the other: role, text, and the error or an empty text. The role
/// without a name is the program.
fn script(database: &Database, steps: &[(&str, &str, &str)]) {
    for (role, cql, expected) in steps {
        let mut rows = Rows::default();
        let executed = database.query(None, cql, Values::NONE, &options(role), &mut rows);
        let found = executed.map_or_else(|error| error.to_string(), |_| String::new());
        assert_eq!(found, *expected, "{role}: {cql}");
    }
}

/// The rows of a statement as text, one line each.
fn lines(database: &Database, role: &str, cql: &str) -> Vec<String> {
    let rows = database.session().execute_with(cql, (), &options(role)).unwrap();
    rows.iter()
        .map(|row| {
            let columns = row.columns().iter().enumerate();
            columns.map(|(i, column)| column.literal(row.bytes(i))).collect::<Vec<_>>().join(" ")
        })
        .collect()
}

const UNAUTHORIZED: &str =
    "User alice does not have sufficient privileges to perform the requested operation";

/// Statements on roles: role, text, and the error or an empty text.
const ROLES: &[(&str, &str, &str)] = &[
    ("", "CREATE ROLE root WITH SUPERUSER = true AND LOGIN = true", ""),
    ("root", "CREATE ROLE alice WITH LOGIN = true", ""),
    ("root", "CREATE ROLE alice", "alice already exists"),
    ("root", "CREATE ROLE IF NOT EXISTS alice", ""),
    ("root", "CREATE ROLE ''", "Role name can't be an empty string"),
    ("root", "CREATE USER bob NOSUPERUSER", ""),
    ("root", "CREATE ROLE r1", ""),
    ("root", "CREATE ROLE r2", ""),
    (
        "root",
        "CREATE ROLE r3 WITH OPTIONS = {'a': 'b'}",
        "The option OPTIONS of roles is not supported: omit it.",
    ),
    (
        "root",
        "CREATE ROLE r3 WITH ACCESS TO DATACENTERS {'dc1'}",
        "Invalid value(s) for DATACENTERS '[dc1]',All values must be valid datacenters",
    ),
    (
        "root",
        "CREATE ROLE r3 WITH ACCESS FROM CIDRS {'x'}",
        "Invalid CIDR group(s): [x]. Available CIDR Groups are: []",
    ),
    ("root", "CREATE ROLE r3 WITH ACCESS TO ALL DATACENTERS AND ACCESS FROM ALL CIDRS", ""),
    (
        "root",
        "ALTER ROLE r3 WITH ACCESS TO ALL DATACENTERS",
        "ACCESS TO DATACENTERS operations not supported by AllowAllNetworkAuthorizer",
    ),
    (
        "root",
        "CREATE ROLE h WITH HASHED PASSWORD = 'nonsense'",
        "Invalid hashed password value. Please use jBcrypt.",
    ),
    ("root", "GRANT r1 TO alice", ""),
    ("root", "GRANT r1 TO alice", "alice is a member of r1"),
    ("root", "GRANT r2 TO r1", ""),
    ("root", "GRANT r1 TO r2", "r1 is a member of r2"),
    ("root", "GRANT alice TO alice", "alice is a member of alice"),
    ("root", "GRANT nope TO alice", "nope doesn't exist"),
    ("root", "GRANT alice TO r2", "alice is a member of r2"),
    ("root", "REVOKE r2 FROM alice", "alice is not a member of r2"),
    ("root", "REVOKE r1 FROM nope", "nope doesn't exist"),
    ("root", "LIST ROLES OF nope", "<role nope> doesn't exist"),
    ("alice", "LIST ROLES OF bob", "You are not authorized to view roles granted to bob "),
    ("alice", "CREATE ROLE x", UNAUTHORIZED),
    ("alice", "ALTER ROLE bob WITH PASSWORD = 'x'", UNAUTHORIZED),
    ("alice", "ALTER ROLE nope WITH PASSWORD = 'x'", UNAUTHORIZED),
    ("alice", "ALTER ROLE alice WITH LOGIN = false", "You aren't allowed to alter LOGIN"),
    (
        "alice",
        "ALTER ROLE alice WITH SUPERUSER = true",
        "You aren't allowed to alter your own superuser status or that of a role granted to you",
    ),
    (
        "alice",
        "ALTER ROLE bob WITH SUPERUSER = true",
        "Only superusers are allowed to alter superuser status",
    ),
    ("alice", "DROP ROLE alice", UNAUTHORIZED),
    ("alice", "DROP ROLE IF EXISTS nope", UNAUTHORIZED),
    ("alice", "GRANT r2 TO bob", UNAUTHORIZED),
    ("alice", "ALTER ROLE alice WITH PASSWORD = 'a'", ""),
    ("root", "DROP ROLE root", "Cannot DROP primary role for current login"),
    ("root", "ALTER ROLE alice", "ALTER [ROLE|USER] can't be empty"),
    ("root", "ALTER ROLE nope WITH LOGIN = true", "Role nope doesn't exist"),
    ("root", "ALTER ROLE IF EXISTS nope WITH LOGIN = true", ""),
    ("root", "DROP ROLE nope", "nope doesn't exist"),
    ("root", "DROP ROLE IF EXISTS nope", ""),
];

#[test]
fn roles_are_managed_with_the_errors_of_cassandra() {
    let database = open();
    script(&database, ROLES);
    assert_eq!(lines(&database, "alice", "LIST ROLES").len(), 3);
    assert_eq!(lines(&database, "root", "LIST ROLES OF alice NORECURSIVE").len(), 2);
    assert_eq!(lines(&database, "root", "LIST ROLES").len(), 6);
    assert_eq!(lines(&database, "root", "LIST USERS").len(), 3);
    let members = "SELECT role, member FROM system_auth.role_members";
    assert_eq!(lines(&database, "root", members).len(), 2);
    script(&database, &[("root", "DROP ROLE r1", "")]);
    assert_eq!(lines(&database, "root", members), Vec::<String>::new());
    assert_eq!(lines(&database, "alice", "LIST ROLES").len(), 1);
}

#[test]
fn a_role_with_a_superuser_role_is_a_superuser_until_it_is_revoked() {
    let database = open();
    script(
        &database,
        &[
            ("", "CREATE ROLE s WITH SUPERUSER = true", ""),
            ("", "CREATE ROLE u WITH LOGIN = true", ""),
            ("", "CREATE ROLE v", ""),
            ("", "GRANT DROP ON ALL ROLES TO v", ""),
            ("", "GRANT s TO u", ""),
            ("u", "CREATE ROLE x", ""),
            ("v", "DROP ROLE s", "Only superusers can drop a role with superuser status"),
            ("u", "REVOKE s FROM u", ""),
            (
                "u",
                "CREATE ROLE y",
                "User u does not have sufficient privileges to perform the requested operation",
            ),
        ],
    );
}

/// The error of role `u` without a permission.
fn no(permission: &str, resource: &str) -> String {
    format!("User u has no {permission} permission on <{resource}> or any of its parents")
}

/// Opens a database with tables, one of them with a view and an index, and role `u`.
fn open_with_tables() -> Database {
    let database = open();
    script(
        &database,
        &[
            ("", KEYSPACE, ""),
            ("", "CREATE TABLE k.t (k int PRIMARY KEY, v int)", ""),
            ("", "CREATE TABLE k.plain (k int PRIMARY KEY, v int)", ""),
            ("", "CREATE TYPE k.ty (a int)", ""),
            (
                "",
                "CREATE MATERIALIZED VIEW k.mv AS SELECT * FROM k.t WHERE k IS NOT NULL AND v IS NOT NULL \
                 PRIMARY KEY (v, k)",
                "",
            ),
            ("", "CREATE INDEX i ON k.t (v)", ""),
            ("", "CREATE ROLE u", ""),
        ],
    );
    database
}

#[test]
fn statements_on_data_need_the_permissions_of_cassandra() {
    let database = open_with_tables();
    let view = "CREATE MATERIALIZED VIEW k.m2 AS SELECT * FROM k.t WHERE k IS NOT NULL AND v IS NOT NULL \
                PRIMARY KEY (v, k)";
    let create = KEYSPACE.replace(" k ", " k2 ");
    let batch = "BEGIN BATCH INSERT INTO k.plain (k, v) VALUES (1, 1); APPLY BATCH";
    for (cql, expected) in [
        ("SELECT * FROM k.t", no("SELECT", "table k.t")),
        ("SELECT * FROM k.mv", no("SELECT", "table k.t")),
        ("INSERT INTO k.t (k, v) VALUES (1, 1)", no("MODIFY", "table k.t")),
        (batch, no("MODIFY", "table k.plain")),
        ("TRUNCATE k.t", no("MODIFY", "table k.t")),
        (&create, no("CREATE", "all keyspaces")),
        ("ALTER KEYSPACE nope WITH durable_writes = true", no("ALTER", "keyspace nope")),
        ("DROP KEYSPACE IF EXISTS nope", no("DROP", "keyspace nope")),
        ("CREATE TABLE k.t2 (k int PRIMARY KEY)", no("CREATE", "all tables in k")),
        ("ALTER TABLE k.t ADD x int", no("ALTER", "table k.t")),
        ("DROP TABLE IF EXISTS k.nope", no("DROP", "table k.nope")),
        ("CREATE TYPE k.ty2 (a int)", no("CREATE", "all tables in k")),
        ("ALTER TYPE k.ty ADD b int", no("ALTER", "all tables in k")),
        ("DROP TYPE k.ty", no("DROP", "all tables in k")),
        ("CREATE INDEX i2 ON k.t (v)", no("ALTER", "table k.t")),
        ("DROP INDEX k.i", no("ALTER", "table k.t")),
        ("DROP INDEX IF EXISTS k.nope", String::new()),
        (view, no("ALTER", "table k.t")),
        ("ALTER MATERIALIZED VIEW k.mv WITH comment = 'x'", no("ALTER", "table k.t")),
        ("DROP MATERIALIZED VIEW k.mv", no("ALTER", "table k.t")),
        ("DROP TRIGGER tr ON k.t", "Only superusers are allowed to perfrom DROP TRIGGER queries".to_owned()),
        ("USE k", String::new()),
        ("DESCRIBE TABLE k.t", String::new()),
        ("SELECT role FROM system_auth.roles", no("SELECT", "table system_auth.roles")),
        ("SELECT * FROM system_views.settings", no("SELECT", "table system_views.settings")),
        ("SELECT * FROM system.compaction_history", no("SELECT", "table system.compaction_history")),
        ("SELECT * FROM system.built_views", no("SELECT", "table system.built_views")),
        ("SELECT key FROM system.local", String::new()),
        ("SELECT * FROM system.peers_v2", String::new()),
        ("SELECT * FROM system.size_estimates", String::new()),
        ("SELECT * FROM system_schema.column_masks", String::new()),
        ("SELECT * FROM system_virtual_schema.tables", String::new()),
        ("SELECT * FROM system_traces.sessions", String::new()),
        ("INSERT INTO system_auth.roles (role) VALUES ('x')", no("MODIFY", "table system_auth.roles")),
    ] {
        script(&database, &[("u", cql, &expected)]);
    }
}

#[test]
fn only_superusers_can_use_the_tables_that_control_a_server_in_tests() {
    const INSERT: &str = "INSERT INTO system_testing.cassette_faults (id, effect) VALUES ('a', 'overloaded')";
    const BATCH: &str = "BEGIN UNLOGGED BATCH INSERT INTO system_testing.cassette_faults (id, effect) \
                         VALUES ('a', 'overloaded') APPLY BATCH";
    const REFUSED: &str = "Only superusers are allowed to use system_testing";
    // Without an authorizer, too.
    for permissions in [true, false] {
        let auth = AuthSettings { permissions, ..settings() };
        let database =
            Database::open(Options { auth, fault_injection: true, ..Options::in_memory() }).unwrap();
        let roles = [
            ("", "CREATE ROLE root WITH SUPERUSER = true AND LOGIN = true", ""),
            ("", "CREATE ROLE u WITH LOGIN = true", ""),
        ];
        script(&database, &roles);
        if permissions {
            script(&database, &[("", "GRANT ALL ON ALL KEYSPACES TO u", "")]);
        }
        let steps = [
            ("u", INSERT, REFUSED),
            ("u", "UPDATE system_testing.cassette_faults SET times = 1 WHERE id = 'a'", REFUSED),
            ("u", "DELETE FROM system_testing.cassette_faults WHERE id = 'a'", REFUSED),
            ("u", "SELECT * FROM system_testing.cassette_faults", REFUSED),
            ("u", "TRUNCATE system_testing.cassette_faults", REFUSED),
            ("u", "UPDATE system_testing.cassette_nodes SET state = 'down' WHERE address = '::1'", REFUSED),
            ("u", "TRUNCATE system_testing.cassette_clock", REFUSED),
            ("root", INSERT, ""),
            ("root", "SELECT * FROM system_testing.cassette_faults", ""),
            ("root", "TRUNCATE system_testing.cassette_faults", ""),
        ];
        script(&database, &steps);
        let mut rows = Rows::default();
        let refused = database.query(None, BATCH, Values::NONE, &options("u"), &mut rows);
        assert!(refused.is_err(), "batches cannot contain rules");
        assert!(database.faults().unwrap().list().is_empty());
    }
}

#[test]
fn conditional_writes_and_writes_of_tables_with_views_need_more_permissions() {
    let database = open_with_tables();
    script(
        &database,
        &[
            ("", "GRANT MODIFY ON k.plain TO u", ""),
            ("u", "INSERT INTO k.plain (k, v) VALUES (1, 1)", ""),
            ("u", "UPDATE k.plain SET v = 2 WHERE k = 1 IF EXISTS", &no("SELECT", "table k.plain")),
            ("", "GRANT SELECT ON k.plain TO u", ""),
            ("u", "UPDATE k.plain SET v = 2 WHERE k = 1 IF EXISTS", ""),
            // A write of a table with views reads it and writes them.
            ("", "GRANT MODIFY ON k.t TO u", ""),
            ("u", "INSERT INTO k.t (k, v) VALUES (1, 1)", &no("SELECT", "table k.t")),
            ("", "GRANT SELECT ON k.t TO u", ""),
            ("u", "INSERT INTO k.t (k, v) VALUES (1, 1)", &no("MODIFY", "table k.mv")),
            ("", "GRANT MODIFY ON KEYSPACE k TO u", ""),
            ("u", "INSERT INTO k.t (k, v) VALUES (1, 1)", ""),
            ("u", "SELECT * FROM k.mv", ""),
        ],
    );
}

#[test]
fn a_revoked_permission_ends_the_use_of_prepared_statements_and_pages_at_once() {
    let database = open();
    script(
        &database,
        &[
            ("", KEYSPACE, ""),
            ("", "CREATE TABLE k.t (k int PRIMARY KEY)", ""),
            ("", "INSERT INTO k.t (k) VALUES (1)", ""),
            ("", "INSERT INTO k.t (k) VALUES (2)", ""),
            ("", "CREATE ROLE u", ""),
            ("", "GRANT SELECT ON k.t TO u", ""),
        ],
    );
    let prepared = database.prepare(None, "SELECT k FROM k.t").unwrap();
    let page = |paging_state| {
        let options = StatementOptions { page_size: Some(1), paging_state, ..options("u") };
        let mut rows = Rows::default();
        database.execute(None, &prepared, Values::NONE, &options, &mut rows).map(|executed| executed.outcome)
    };
    let crate::basics::response::Outcome::Rows { paging_state } = page(None).unwrap() else { panic!() };
    assert!(paging_state.is_some());
    page(paging_state.clone()).unwrap();
    script(&database, &[("", "REVOKE SELECT ON k.t FROM u", "")]);
    let refused = "User u has no SELECT permission on <table k.t> or any of its parents";
    assert_eq!(page(paging_state).unwrap_err().to_string(), refused);
    assert_eq!(page(None).unwrap_err().to_string(), refused);
}

/// Statements on permissions: role, text, and the error or an empty text.
const PERMISSIONS: &[(&str, &str, &str)] = &[
    ("", KEYSPACE, ""),
    ("", "CREATE TABLE k.t (k int PRIMARY KEY)", ""),
    ("", "CREATE ROLE u", ""),
    ("", "CREATE ROLE w", ""),
    ("", "GRANT SELECT ON k.nope TO u", "Resource <table k.nope> doesn't exist"),
    ("", "GRANT SELECT ON KEYSPACE nope TO u", "Resource <keyspace nope> doesn't exist"),
    ("", "GRANT SELECT ON k.t TO nope", "Role nope doesn't exist"),
    ("", "GRANT DESCRIBE ON ROLE nope TO u", "Resource <role nope> doesn't exist"),
    (
        "",
        "GRANT EXECUTE ON ALL FUNCTIONS IN KEYSPACE system TO u",
        "Altering permissions on builtin functions is not supported",
    ),
    ("", "GRANT SELECT ON MBEAN 'a:b=c' TO u", "Resource <mbean a:b=c> doesn't exist"),
    ("", "GRANT SELECT, EXECUTE ON KEYSPACE k TO u", ""),
    ("", "GRANT SELECT ON system_auth.roles TO u", ""),
    (
        "",
        "GRANT MODIFY ON system_auth.roles TO u",
        "Granting permissions on system keyspaces is strictly limited, this operation is not permitted",
    ),
    ("", "GRANT ALL ON ALL TABLES IN KEYSPACE k TO u", ""),
    ("", "GRANT DESCRIBE ON ALL ROLES TO u", ""),
    ("", "GRANT SELECT ON ALL MBEANS TO u", ""),
    ("", "LIST ALL PERMISSIONS OF nope", "<role nope> doesn't exist"),
    ("", "LIST ALL PERMISSIONS ON k.nope", "<table k.nope> doesn't exist"),
    ("w", "LIST ALL PERMISSIONS", "You are not authorized to view everyone's permissions"),
    ("w", "LIST ALL PERMISSIONS OF u", "You are not authorized to view u's permissions"),
    ("w", "LIST ALL PERMISSIONS OF w", ""),
    (
        "w",
        "GRANT SELECT ON k.t TO w",
        "User w has no AUTHORIZE permission on <table k.t> or any of its parents",
    ),
    ("", "GRANT AUTHORIZE ON k.t TO w", ""),
    ("w", "GRANT SELECT ON k.t TO w", "User w has no SELECT permission on <table k.t> or any of its parents"),
    ("w", "GRANT AUTHORIZE ON k.t TO u", ""),
    ("w", "REVOKE AUTHORIZE ON k.t FROM u", ""),
];

#[test]
fn permissions_are_granted_and_listed_as_by_cassandra() {
    let database = open();
    script(&database, PERMISSIONS);
    let listed = lines(&database, "u", "LIST ALL PERMISSIONS OF u");
    let expected = [
        "'<keyspace k>' 'SELECT'",
        "'<all tables in k>' 'CREATE'",
        "'<all tables in k>' 'ALTER'",
        "'<all tables in k>' 'DROP'",
        "'<all tables in k>' 'SELECT'",
        "'<all tables in k>' 'MODIFY'",
        "'<all tables in k>' 'AUTHORIZE'",
        "'<all tables in k>' 'UNMASK'",
        "'<all tables in k>' 'SELECT_MASKED'",
        "'<table system_auth.roles>' 'SELECT'",
        "'<all mbeans>' 'SELECT'",
        "'<all roles>' 'DESCRIBE'",
    ];
    assert_eq!(listed, expected.map(|line| format!("'u' 'u' {line}")));
    assert_eq!(lines(&database, "", "LIST SELECT ON k.t OF u").len(), 2);
    assert_eq!(lines(&database, "", "LIST SELECT ON k.t OF u NORECURSIVE").len(), 0);
    script(&database, &[("", "REVOKE ALL ON ALL TABLES IN KEYSPACE k FROM u", "")]);
    let stored = "SELECT resource FROM system_auth.role_permissions WHERE role = 'u'";
    assert_eq!(lines(&database, "", stored).len(), 4);
    script(&database, &[("", "DROP ROLE u", "")]);
    assert_eq!(lines(&database, "", stored).len(), 0);
    let index = "SELECT resource, role FROM system_auth.resource_role_permissons_index";
    assert_eq!(lines(&database, "", index), ["'data/k/t' 'w'"]);
}

#[test]
fn creators_get_all_permissions_and_what_is_dropped_has_none() {
    let database = open();
    script(
        &database,
        &[
            ("", "CREATE ROLE u", ""),
            ("", "GRANT CREATE ON ALL KEYSPACES TO u", ""),
            ("u", KEYSPACE, ""),
            ("u", "CREATE TABLE k.t (k int PRIMARY KEY, v int)", ""),
            ("u", "INSERT INTO k.t (k, v) VALUES (1, 1)", ""),
            ("u", "CREATE INDEX ON k.t (v)", ""),
            ("u", "CREATE TABLE IF NOT EXISTS k.t (k int PRIMARY KEY)", ""),
        ],
    );
    let stored = "SELECT resource FROM system_auth.role_permissions WHERE role = 'u'";
    assert_eq!(lines(&database, "", stored), ["'data'", "'data/k'", "'data/k/t'", "'functions/k'"]);
    script(&database, &[("u", "DROP TABLE k.t", "")]);
    assert_eq!(lines(&database, "", stored), ["'data'", "'data/k'", "'functions/k'"]);
    script(&database, &[("u", "CREATE TABLE k.t (k int PRIMARY KEY)", ""), ("u", "DROP KEYSPACE k", "")]);
    assert_eq!(lines(&database, "", stored), ["'data'"]);
    assert_eq!(lines(&database, "", "SELECT * FROM system_auth.resource_role_permissons_index").len(), 1);
}

#[test]
fn a_dropped_role_has_no_permissions_any_more() {
    let database = open();
    script(
        &database,
        &[
            ("", KEYSPACE, ""),
            ("", "CREATE TABLE k.t (k int PRIMARY KEY)", ""),
            ("", "CREATE ROLE u WITH SUPERUSER = true", ""),
            ("u", "SELECT * FROM k.t", ""),
            ("", "DROP ROLE u", ""),
            (
                "u",
                "SELECT * FROM k.t",
                "User u has no SELECT permission on <table k.t> or any of its parents",
            ),
            ("u", "SELECT key FROM system.local", ""),
            ("u", "LIST ROLES", ""),
        ],
    );
}

#[test]
fn without_a_login_statements_on_roles_are_refused_as_by_cassandra() {
    let database = Database::in_memory().unwrap();
    let options = StatementOptions { caller: Caller::Anonymous, ..StatementOptions::default() };
    for (cql, expected) in [
        ("CREATE ROLE a", "You have to be logged in and not anonymous to perform this request"),
        ("LIST ROLES", "You have to be logged in and not anonymous to perform this request"),
        (
            "GRANT SELECT ON ALL KEYSPACES TO a",
            "You have to be logged in and not anonymous to perform this request",
        ),
        ("CREATE ROLE a WITH SUPERUSER = true", "Only superusers can create a role with superuser status"),
        (
            "CREATE ROLE a WITH PASSWORD = 'x'",
            "PASSWORD of roles requires logins. Start the server with `--authenticator \
             PasswordAuthenticator`.",
        ),
        ("SELECT role FROM system_auth.roles", ""),
    ] {
        let mut rows = Rows::default();
        let executed = database.query(None, cql, Values::NONE, &options, &mut rows);
        let found = executed.map_or_else(|error| error.to_string(), |_| String::new());
        assert_eq!(found, expected, "{cql}");
    }
}

#[test]
fn without_an_authorizer_a_logged_in_role_may_do_what_cassandra_lets_it() {
    let auth = AuthSettings { permissions: false, ..settings() };
    let database = Database::open(Options { auth, ..Options::in_memory() }).unwrap();
    script(
        &database,
        &[
            ("", "CREATE ROLE root WITH SUPERUSER = true", ""),
            ("", "CREATE ROLE u WITH PASSWORD = 'u' AND LOGIN = true", ""),
            (
                "u",
                "GRANT SELECT ON ALL KEYSPACES TO u",
                "GRANT operation is not supported by AllowAllAuthorizer",
            ),
            (
                "u",
                "LIST ALL PERMISSIONS",
                "LIST PERMISSIONS operation is not supported by AllowAllAuthorizer",
            ),
            ("u", "CREATE ROLE x", ""),
            (
                "u",
                "CREATE ROLE y WITH SUPERUSER = true",
                "Only superusers can create a role with superuser status",
            ),
            ("u", "DROP ROLE root", "Only superusers can drop a role with superuser status"),
            ("u", KEYSPACE, ""),
            ("u", "DROP ROLE x", ""),
        ],
    );
    assert_eq!(lines(&database, "", "SELECT * FROM system_auth.role_permissions").len(), 0);
}

#[test]
fn roles_and_permissions_survive_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let open = || Database::open(Options { auth: settings(), ..Options::new(directory.path()) }).unwrap();
    let database = open();
    script(
        &database,
        &[
            ("", "CREATE ROLE u WITH PASSWORD = 'geheim' AND LOGIN = true", ""),
            ("", "CREATE ROLE r", ""),
            ("", "GRANT r TO u", ""),
            ("", "GRANT SELECT ON KEYSPACE system_views TO r", ""),
        ],
    );
    drop(database);
    let database = open();
    assert_eq!(database.log_in("u", "geheim").unwrap(), crate::Login::Accepted);
    script(&database, &[("u", "SELECT * FROM system_views.settings", "")]);
}
