//! Access of roles by the addresses of their clients.

use std::sync::Arc;
use std::time::Duration;

use cassette_vfs::ManualClock;

use super::*;
use crate::store::authorization::{AuthCacheSettings, CidrSettings};

const CIDR: CidrSettings =
    CidrSettings { enforces: true, checks_superusers: false, refresh_interval: Duration::from_secs(300) };
const LOCAL: &str = "SELECT key FROM system.local";

/// Opens a database with roles `root`, a superuser, and `n`, and with groups `g1` and `g2`.
fn open(cidr: CidrSettings, clock: &Arc<ManualClock>) -> Database {
    // Entries do not expire during the test.
    let roles_cache =
        AuthCacheSettings { validity: Duration::from_secs(3600), ..AuthCacheSettings::default() };
    let auth = AuthSettings { cidr: Some(cidr), roles_cache, ..settings() };
    let database = Database::open(Options { auth, clock: clock.clone(), ..Options::in_memory() }).unwrap();
    update(&database, "g1", &["127.0.0.1/32"]);
    update(&database, "g2", &["127.0.0.2/32", "2001:db8::/32"]);
    database.reload_cidr_groups().unwrap();
    script(
        &database,
        &[
            ("", "CREATE ROLE root WITH SUPERUSER = true AND LOGIN = true", ""),
            ("root", "CREATE ROLE n WITH LOGIN = true", ""),
        ],
    );
    database
}

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::at_micros(1_000_000_000_000))
}

fn update(database: &Database, group: &str, cidrs: &[&str]) {
    let cidrs: Vec<String> = cidrs.iter().map(|cidr| (*cidr).to_owned()).collect();
    database.update_cidr_group(group, &cidrs).unwrap();
}

/// Executes a statement as a client at an address; returns the error or an empty text.
fn execute(database: &Database, role: &str, address: &str, cql: &str) -> String {
    let client_address = Some(address.parse().unwrap());
    let options = StatementOptions { client_address, ..options(role) };
    let executed = database.query(None, cql, Values::NONE, &options, &mut Rows::default());
    executed.map_or_else(|error| error.to_string(), |_| String::new())
}

fn refused(address: &str) -> String {
    format!("You do not have access from this IP {address}")
}

#[test]
fn a_role_has_access_from_its_cidr_groups_only() {
    let database = open(CIDR, &clock());
    for cql in [
        "CREATE ROLE c WITH LOGIN = true AND ACCESS FROM CIDRS {'g2', 'g1'}",
        "ALTER ROLE n WITH ACCESS FROM CIDRS {'g2'}",
        "ALTER ROLE root WITH ACCESS FROM CIDRS {'g2'}",
        "CREATE ROLE member WITH LOGIN = true",
        "GRANT n TO member",
    ] {
        script(&database, &[("root", cql, "")]);
    }
    for (role, address, shown) in [
        ("c", "127.0.0.1", ""),
        ("c", "127.0.0.2", ""),
        ("c", "127.0.0.3", "127.0.0.3"),
        ("n", "127.0.0.1", "127.0.0.1"),
        ("n", "127.0.0.2", ""),
        ("n", "2001:db8::1", ""),
        ("n", "2001:db9::1", "2001:db9:0:0:0:0:0:1"),
        // Those of a granted role do not apply, and superusers are not checked.
        ("member", "127.0.0.3", ""),
        ("root", "127.0.0.1", ""),
        ("", "127.0.0.3", ""),
    ] {
        let expected = if shown.is_empty() { String::new() } else { refused(shown) };
        assert_eq!(execute(&database, role, address, LOCAL), expected, "{role} {address}");
    }
    for cql in [
        "USE system",
        "LIST ROLES OF n",
        "DESCRIBE KEYSPACES",
        "ALTER ROLE n WITH PASSWORD = 'x'",
        "INSERT INTO system_auth.cidr_groups (cidr_group) VALUES ('x')",
        "BEGIN BATCH INSERT INTO system_auth.cidr_groups (cidr_group) VALUES ('x'); APPLY BATCH",
        KEYSPACE,
    ] {
        assert_eq!(execute(&database, "n", "127.0.0.1", cql), refused("127.0.0.1"), "{cql}");
    }
    script(&database, &[("root", "ALTER ROLE n WITH ACCESS FROM ALL CIDRS", "")]);
    assert_eq!(execute(&database, "n", "127.0.0.1", LOCAL), "");
    script(&database, &[("root", "ALTER ROLE n WITH LOGIN = false", "")]);
    assert_eq!(execute(&database, "n", "127.0.0.1", LOCAL), refused("127.0.0.1"));
    script(&database, &[("root", "DROP ROLE c", "")]);
    assert_eq!(execute(&database, "c", "127.0.0.1", LOCAL), refused("127.0.0.1"));
}

#[test]
fn changed_groups_take_effect_with_a_reload_or_after_the_interval() {
    let clock = clock();
    let database = open(CIDR, &clock);
    script(&database, &[("root", "ALTER ROLE n WITH ACCESS FROM CIDRS {'g1'}", "")]);
    assert_eq!(execute(&database, "n", "127.0.0.3", LOCAL), refused("127.0.0.3"));
    update(&database, "g1", &["127.0.0.3/32"]);
    clock.advance(Duration::from_secs(299));
    assert_eq!(execute(&database, "n", "127.0.0.3", LOCAL), refused("127.0.0.3"));
    assert_eq!(database.cidr_filtering().reloads, 2);
    clock.advance(Duration::from_secs(1));
    assert_eq!(execute(&database, "n", "127.0.0.3", LOCAL), "");
    assert_eq!(database.cidr_filtering().reloads, 3);
    database.drop_cidr_group("g1").unwrap();
    assert_eq!(execute(&database, "n", "127.0.0.3", LOCAL), "");
    database.reload_cidr_groups().unwrap();
    assert_eq!(execute(&database, "n", "127.0.0.3", LOCAL), refused("127.0.0.3"));
}

#[test]
fn a_request_that_may_not_wait_leaves_the_refresh_to_one_that_may() {
    let clock = clock();
    let database = open(CIDR, &clock);
    clock.advance(CIDR.refresh_interval);
    let execute = || execute(&database, "n", "127.0.0.1", LOCAL);
    let found = cassette_engine::without_waiting(execute);
    assert_eq!(found, crate::basics::error::DatabaseError::WouldBlock.to_string());
    assert_eq!(database.cidr_filtering().reloads, 2);
    assert_eq!(execute(), "");
    assert_eq!(database.cidr_filtering().reloads, 3);
}

#[test]
fn accesses_are_monitored_without_being_refused() {
    let database = open(CidrSettings { enforces: false, ..CIDR }, &clock());
    script(&database, &[("root", "ALTER ROLE n WITH ACCESS FROM CIDRS {'g2'}", "")]);
    for address in ["127.0.0.1", "127.0.0.2", "127.0.0.2", "127.0.0.3"] {
        assert_eq!(execute(&database, "n", address, LOCAL), "", "{address}");
    }
    let mut counts = lines(&database, "", "SELECT * FROM system_views.cidr_filtering_metrics_counts");
    counts.sort();
    assert_eq!(
        counts,
        [
            "'CIDR groups cache reload count' 2",
            "'Number of CIDR accesses accepted from CIDR group - Undefined' 1",
            "'Number of CIDR accesses accepted from CIDR group - g1' 1",
            "'Number of CIDR accesses accepted from CIDR group - g2' 2",
        ]
    );
}

#[test]
fn superusers_are_checked_only_if_so_configured() {
    let database = open(CidrSettings { checks_superusers: true, ..CIDR }, &clock());
    script(&database, &[("root", "ALTER ROLE root WITH ACCESS FROM CIDRS {'g2'}", "")]);
    assert_eq!(execute(&database, "root", "127.0.0.1", LOCAL), refused("127.0.0.1"));
    assert_eq!(execute(&database, "root", "127.0.0.2", LOCAL), "");
    assert_eq!(database.cidr_filtering().accesses.iter().map(|(_, _, rejected)| rejected).sum::<u64>(), 1);
}

#[test]
fn groups_are_stored_as_by_cassandra_and_outlast_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let auth = AuthSettings { cidr: Some(CIDR), ..settings() };
    let open = || Database::open(Options { auth, ..Options::new(directory.path()) }).unwrap();
    let database = open();
    update(&database, "g", &["127.0.0.1/8", "10.0.0.0/8", "10.1.2.3/8", "2001:db8::1/32"]);
    script(&database, &[("", "CREATE ROLE n WITH LOGIN = true AND ACCESS FROM CIDRS {'g'}", "")]);
    let stored = lines(&database, "", "SELECT * FROM system_auth.cidr_groups");
    assert_eq!(stored, ["'g' {('10.0.0.0', 8), ('2001:db8:0:0:0:0:0:0', 32), ('127.0.0.0', 8)}"]);
    let direct = "INSERT INTO system_auth.cidr_groups (cidr_group, cidrs) \
                  VALUES ('direct', {('9.9.9.9', 8), ('9.9.9.9', 40), ('9.9.9.9', -1), ('9.9.9.9', null)})";
    script(
        &database,
        &[("", direct, ""), ("", "INSERT INTO system_auth.cidr_groups (cidr_group) VALUES ('none')", "")],
    );
    database.close().unwrap();
    drop(database);

    let database = open();
    let groups = database.cidr_groups().unwrap();
    let shown: Vec<String> =
        groups.iter().map(|group| format!("{}: {}", group.name, group.cidrs.join(" "))).collect();
    assert_eq!(shown, ["direct: 9.0.0.0/8", "g: 10.0.0.0/8 127.0.0.0/8 2001:db8:0:0:0:0:0:0/32", "none: "]);
    assert_eq!(database.cidr_groups_of("9.1.1.1".parse().unwrap()).unwrap(), ["direct"]);
    assert_eq!(execute(&database, "n", "::ffff:10.1.2.3", LOCAL), "");
    assert_eq!(execute(&database, "n", "9.1.1.1", LOCAL), refused("9.1.1.1"));
    for (group, expected) in [
        ("none", "CIDR group 'none' doesn't exists"),
        ("nosuch", "CIDR group 'nosuch' doesn't exists"),
        ("", "CIDR group '' doesn't exists"),
    ] {
        assert_eq!(database.drop_cidr_group(group).unwrap_err().to_string(), expected);
    }
    let cidrs = ["1.2.3.4/8".to_owned()];
    let refused = |name: &str| database.update_cidr_group(name, &cidrs).unwrap_err().to_string();
    assert_eq!(refused(""), "Key may not be empty");
    assert_eq!(refused(&"x".repeat(65536)), "Key length of 65536 is longer than maximum of 65535");
}

#[test]
fn statements_name_only_groups_that_exist() {
    let database = open(CIDR, &clock());
    let unknown = "Invalid CIDR group(s): [G1, g1]. Available CIDR Groups are: [g1, g2]";
    script(
        &database,
        &[
            ("root", "CREATE ROLE c WITH ACCESS FROM CIDRS {'g1', 'G1'}", unknown),
            ("root", "CREATE ROLE IF NOT EXISTS n WITH ACCESS FROM CIDRS {'g1', 'G1'}", unknown),
            ("root", "ALTER ROLE n WITH ACCESS FROM CIDRS {'g1', 'G1'}", unknown),
            ("root", "ALTER ROLE IF EXISTS nosuch WITH ACCESS FROM CIDRS {'g1', 'G1'}", unknown),
            ("root", "CREATE ROLE '' WITH ACCESS FROM CIDRS {'x'}", "Role name can't be an empty string"),
            ("root", "CREATE ROLE c WITH ACCESS FROM CIDRS {'g2', 'g1', 'g1'}", ""),
        ],
    );
    let stored = "SELECT * FROM system_auth.cidr_permissions";
    let rows = || {
        let mut rows = lines(&database, "", stored);
        rows.sort();
        rows
    };
    assert_eq!(rows(), ["'c' {'g1', 'g2'}", "'n' {}", "'root' {}"]);
    script(&database, &[("root", "DROP ROLE c", "")]);
    assert_eq!(rows(), ["'n' {}", "'root' {}"]);
}

#[test]
fn the_cached_access_of_a_role_is_invalidated_by_name() {
    let database = open(CIDR, &clock());
    execute(&database, "n", "127.0.0.1", LOCAL);
    assert!(!database.invalidate_cidr_access(Some("nosuch")).unwrap());
    assert!(database.invalidate_cidr_access(Some("n")).unwrap());
    assert!(!database.invalidate_cidr_access(Some("n")).unwrap());
    execute(&database, "n", "127.0.0.1", LOCAL);
    let direct = "UPDATE system_auth.cidr_permissions SET cidr_groups = {'g2'} WHERE role = 'n'";
    script(&database, &[("", direct, "")]);
    assert_eq!(execute(&database, "n", "127.0.0.1", LOCAL), "");
    assert!(database.invalidate_cidr_access(None).unwrap());
    assert_eq!(execute(&database, "n", "127.0.0.1", LOCAL), refused("127.0.0.1"));
}

#[test]
fn without_the_authorizer_groups_are_stored_but_not_used() {
    let database = super::open();
    update(&database, "g1", &["127.0.0.1/32"]);
    script(
        &database,
        &[
            ("", "CREATE ROLE n WITH LOGIN = true", ""),
            ("", "ALTER ROLE n WITH ACCESS FROM CIDRS {'g1'}", ""),
        ],
    );
    assert_eq!(execute(&database, "n", "127.0.0.2", LOCAL), "");
    let unsupported = "operation not supported by AllowAllCIDRAuthorizer";
    for (done, operation) in [
        (database.reload_cidr_groups().map(drop), "Load CIDR groups cache"),
        (database.invalidate_cidr_access(None).map(drop), "Invalidate CIDR permissions cache"),
        (database.cidr_groups_of("::".parse().unwrap()).map(drop), "'Get CIDR groups for IP'"),
    ] {
        assert_eq!(done.unwrap_err().to_string(), format!("{operation} {unsupported}"));
    }
    let latencies = lines(&database, "", "SELECT * FROM system_views.cidr_filtering_metrics_latencies");
    assert_eq!(latencies.len(), 3);
    assert!(latencies.iter().all(|line| line.ends_with(" 0.0 0.0 0.0 0.0 0.0")), "{latencies:?}");
}
