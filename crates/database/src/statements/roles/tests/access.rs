//! Identities of certificates, data centers, and the keys of caches.

use std::time::Duration;

use super::*;
use crate::store::authorization::AuthCacheSettings;

#[test]
fn identities_are_managed_with_the_errors_of_cassandra() {
    let database = open();
    let unauthorized = "User u does not have sufficient privileges to perform the requested operation";
    script(
        &database,
        &[
            ("", "CREATE ROLE root WITH SUPERUSER = true", ""),
            ("", "CREATE ROLE u", ""),
            ("", "CREATE ROLE w", ""),
            ("root", "ADD IDENTITY 'a' TO ROLE 'nope'", "Can not add identity for non-existent role 'nope'"),
            ("root", "ADD IDENTITY 'a' TO ROLE 'w'", ""),
            ("root", "ADD IDENTITY 'a' TO ROLE 'u'", "a already exists"),
            ("root", "ADD IDENTITY IF NOT EXISTS 'a' TO ROLE 'u'", ""),
            ("root", "ADD IDENTITY '' TO ROLE 'w'", "Key may not be empty"),
            ("root", "DROP IDENTITY 'no'", "identity 'no' doesn't exist"),
            ("root", "DROP IDENTITY IF EXISTS 'no'", ""),
            ("root", "ADD IDENTITY 's' TO ROLE 'root'", ""),
            ("u", "ADD IDENTITY 'b' TO ROLE 'w'", unauthorized),
            ("u", "DROP IDENTITY 'a'", unauthorized),
            ("u", "DROP IDENTITY IF EXISTS 'no'", unauthorized),
            ("", "GRANT CREATE ON ALL ROLES TO u", ""),
            ("", "GRANT DROP ON ALL ROLES TO u", ""),
            (
                "u",
                "ADD IDENTITY 'b' TO ROLE 'root'",
                "Only superusers can bind identities to a role with superuser status",
            ),
            (
                "u",
                "DROP IDENTITY 's'",
                "Only superusers can remove identity bindings from a role with superuser status",
            ),
            ("u", "ADD IDENTITY 'b' TO ROLE 'w'", ""),
            ("u", "DROP IDENTITY 'a'", ""),
            ("u", "ADD IDENTITY 'c' TO ROLE 'w'", ""),
        ],
    );
    let stored = "SELECT identity, role FROM system_auth.identity_to_role";
    let mut found = lines(&database, "", stored);
    found.sort();
    assert_eq!(found, ["'b' 'w'", "'c' 'w'", "'s' 'root'"]);
    script(&database, &[("", "DROP ROLE w", "")]);
    assert_eq!(lines(&database, "", stored), ["'s' 'root'"]);
    let direct = "INSERT INTO system_auth.identity_to_role (identity, role) VALUES ('d', 'w')";
    let left = "Cannot create a role 'w' when identities already exists for it";
    script(
        &database,
        &[
            ("", direct, ""),
            ("", "CREATE ROLE w", left),
            ("", "DROP IDENTITY 'd'", ""),
            ("", "CREATE ROLE w", ""),
        ],
    );
    let long = format!("ADD IDENTITY '{}' TO ROLE 'u'", "x".repeat(65536));
    script(&database, &[("", &long, "Key length of 65536 is longer than maximum of 65535")]);
}

#[test]
fn roles_use_only_their_data_centers() {
    let auth = AuthSettings { network: true, ..settings() };
    let database = Database::open(Options { auth, ..Options::in_memory() }).unwrap();
    let invalid = "Invalid value(s) for DATACENTERS '[dc8, dc9]',All values must be valid datacenters";
    script(
        &database,
        &[
            ("", "CREATE ROLE root WITH SUPERUSER = true AND LOGIN = true", ""),
            ("", "CREATE ROLE n WITH LOGIN = true AND ACCESS TO DATACENTERS {'datacenter1'}", ""),
            ("", "CREATE ROLE everywhere WITH LOGIN = true AND ACCESS TO ALL DATACENTERS", ""),
            ("", "CREATE ROLE off WITH ACCESS TO DATACENTERS {'datacenter1'}", ""),
            ("", "CREATE USER u", ""),
            ("root", "ALTER ROLE n WITH ACCESS TO DATACENTERS {'dc9', 'dc8'}", invalid),
            (
                "u",
                "ALTER ROLE u WITH ACCESS TO DATACENTERS {'datacenter1'}",
                "Only superusers are allowed to alter access to datacenters.",
            ),
            (
                "u",
                "ALTER ROLE u WITH ACCESS FROM ALL CIDRS",
                "Only superusers are allowed to alter access from CIDR groups.",
            ),
            ("root", "ALTER ROLE nope WITH ACCESS TO DATACENTERS {'datacenter1'}", "Role nope doesn't exist"),
            ("n", "SELECT key FROM system.local", ""),
        ],
    );
    let stored = "SELECT role, dcs FROM system_auth.network_permissions";
    let rows = |cql: &str| {
        let mut rows = lines(&database, "", cql);
        rows.sort();
        rows
    };
    assert_eq!(
        rows(stored),
        [
            "'roles/everywhere' {}",
            "'roles/n' {'datacenter1'}",
            "'roles/off' {'datacenter1'}",
            "'roles/root' {}",
            "'roles/u' {}"
        ]
    );
    let listed: Vec<String> = lines(&database, "", "LIST ROLES")
        .iter()
        .map(|line| [line.split(' ').next(), line.rsplit(' ').next()].map(Option::unwrap).join(" "))
        .collect();
    assert_eq!(
        listed,
        ["'everywhere' 'ALL'", "'n' 'datacenter1'", "'off' 'n/a'", "'root' 'ALL'", "'u' 'ALL'"]
    );
    // As if the row were from a cluster with other data centers.
    let elsewhere = "UPDATE system_auth.network_permissions SET dcs = {'elsewhere'} WHERE role = 'roles/n'";
    script(&database, &[("", elsewhere, "")]);
    let refused = "You do not have access to this datacenter (datacenter1)";
    for cql in
        ["SELECT key FROM system.local", "LIST ROLES", "INSERT INTO system_auth.roles (role) VALUES ('x')"]
    {
        // Direct changes have an effect after the validity of the cache, or its invalidation.
        database.invalidate_auth_caches();
        script(&database, &[("n", cql, refused)]);
    }
    script(
        &database,
        &[
            ("root", "ALTER ROLE n WITH ACCESS TO ALL DATACENTERS", ""),
            ("n", "SELECT key FROM system.local", ""),
            ("root", "DROP ROLE n", ""),
        ],
    );
    assert_eq!(rows(stored).len(), 4);
}

/// Opens a database whose caches have entries of role `u`.
fn open_with_cached_role() -> Database {
    // Entries do not expire during the test.
    let cache = AuthCacheSettings { validity: Duration::from_secs(3600), ..AuthCacheSettings::default() };
    let auth =
        AuthSettings { credentials_cache: cache, permissions_cache: cache, roles_cache: cache, ..settings() };
    let database = Database::open(Options { auth, ..Options::in_memory() }).unwrap();
    script(
        &database,
        &[
            ("", "CREATE ROLE root WITH SUPERUSER = true", ""),
            ("", "CREATE ROLE u WITH PASSWORD = 'u' AND LOGIN = true", ""),
            ("", "GRANT SELECT ON KEYSPACE system_views TO u", ""),
            ("", "GRANT SELECT ON system_auth.roles TO u", ""),
            ("u", "SELECT * FROM system_views.settings", ""),
        ],
    );
    database.log_in("u", "u").unwrap();
    database.log_in("unknown", "u").unwrap();
    database
}

/// The rows of a table of cache keys, in order.
fn keys(database: &Database, table: &str) -> Vec<String> {
    let mut keys = lines(database, "", &format!("SELECT * FROM system_views.{table}"));
    keys.sort();
    keys
}

#[test]
fn keys_of_caches_are_shown_and_deleted() {
    let database = open_with_cached_role();
    assert_eq!(keys(&database, "credentials_cache_keys"), ["'u'"]);
    assert_eq!(keys(&database, "roles_cache_keys"), ["'u'"]);
    assert_eq!(
        keys(&database, "permissions_cache_keys"),
        ["'u' 'data/system_auth/roles'", "'u' 'data/system_views'"]
    );
    assert_eq!(keys(&database, "jmx_permissions_cache_keys").len(), 0);
    assert_eq!(keys(&database, "network_permissions_cache_keys").len(), 0);
    let permission = "DELETE FROM system_views.permissions_cache_keys WHERE role = 'u' AND resource = 'data'";
    script(
        &database,
        &[
            ("", "DELETE FROM system_views.credentials_cache_keys WHERE role IN ('u', 'x')", ""),
            ("", permission, ""),
            ("", "TRUNCATE system_views.roles_cache_keys", ""),
            ("", "TRUNCATE system_views.jmx_permissions_cache_keys", ""),
        ],
    );
    for table in ["credentials_cache_keys", "permissions_cache_keys", "roles_cache_keys"] {
        assert_eq!(keys(&database, table).len(), 0, "{table}");
    }
}

#[test]
fn other_changes_of_keys_of_caches_fail_with_the_errors_of_cassandra() {
    let database = open_with_cached_role();
    script(
        &database,
        &[
            (
                "u",
                "DELETE FROM system_views.roles_cache_keys WHERE role = 'u'",
                "User u has no MODIFY permission on <table system_views.roles_cache_keys> or any of its parents",
            ),
            (
                "root",
                "INSERT INTO system_views.roles_cache_keys (role) VALUES ('x')",
                "Column modification is not supported by table system_views.roles_cache_keys",
            ),
            (
                "root",
                "DELETE FROM system_views.permissions_cache_keys WHERE role = 'u'",
                "Some partition key parts are missing: resource",
            ),
            (
                "root",
                "DELETE FROM system_views.roles_cache_keys WHERE role = 'u' IF EXISTS",
                "Conditional updates are not supported by virtual tables",
            ),
            (
                "root",
                "DELETE FROM system_views.roles_cache_keys USING TIMESTAMP 1 WHERE role = 'u'",
                "Custom timestamp is not supported by virtual tables",
            ),
            (
                "root",
                "INSERT INTO system_views.roles_cache_keys (role) VALUES ('x') IF NOT EXISTS USING TTL 10",
                "Expiring columns are not supported by virtual tables",
            ),
            (
                "root",
                "INSERT INTO system_views.roles_cache_keys JSON '{\"role\": \"x\"}' USING TTL 10",
                "Expiring columns are not supported by virtual tables",
            ),
            (
                "root",
                "INSERT INTO system_views.roles_cache_keys (role) VALUES ('x') IF NOT EXISTS",
                "Conditional updates are not supported by virtual tables",
            ),
            (
                "root",
                "BEGIN BATCH DELETE FROM system_views.roles_cache_keys WHERE role = 'u'; APPLY BATCH",
                "Cannot include a virtual table statement in a logged batch",
            ),
        ],
    );
    assert_eq!(keys(&database, "roles_cache_keys"), ["'root'", "'u'"]);
}
