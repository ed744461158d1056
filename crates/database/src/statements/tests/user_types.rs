//! Values of user types.

use std::sync::Arc;

use cassette_vfs::FakeFileSystem;

use super::role_testing::{lines, run};
use crate::api::database::{Database, Options};

/// Cassandra answers such an UPDATE with a server error, so that no recorded answer covers it.
#[test]
fn a_user_type_can_be_written_as_a_tuple() {
    let options = Options { file_system: Arc::new(FakeFileSystem::new()), ..Options::new("/data") };
    let database = Database::open(options).unwrap();
    run(
        &database,
        &[
            "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "CREATE TYPE k.ty (a int, b text)",
            "CREATE TABLE k.t (k int PRIMARY KEY, u frozen<ty>)",
            "UPDATE k.t SET u = (1, 'a') WHERE k = 1",
        ],
    );
    assert_eq!(lines(&database, "", "SELECT u FROM k.t WHERE k = 1"), ["{a: 1, b: 'a'}"]);
}
