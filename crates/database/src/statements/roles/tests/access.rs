//! Identities of certificates, data centers, and the keys of caches.

use super::*;

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
    let long = format!("ADD IDENTITY '{}' TO ROLE 'u'", "x".repeat(65536));
    script(&database, &[("", &long, "Key length of 65536 is longer than maximum of 65535")]);
}
