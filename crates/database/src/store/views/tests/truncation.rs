//! TRUNCATE of a base table beside writers and builds of its views.

use std::thread;

use super::{TABLE, VIEWS, World, check, execute, found};
use crate::api::embedded::Session;
use crate::schema::catalog::Keyspace;

#[test]
fn views_show_their_base_after_truncations_beside_writers() {
    let world = World::new();
    let database = world.open();
    let session = database.session();
    execute(&session, &TABLE);
    execute(&session, &VIEWS);
    let update = session.prepare("UPDATE t SET v = ?, w = ? WHERE k = ? AND c = ?").unwrap();
    thread::scope(|scope| {
        let writers: Vec<_> = (0..3_i32)
            .map(|writer| {
                let (session, update) = (&session, &update);
                scope.spawn(move || {
                    for i in 0..400_i32 {
                        session.execute(update, (i % 7, i, i % 20, (i + writer) % 3)).unwrap();
                    }
                })
            })
            .collect();
        while writers.iter().any(|writer| !writer.is_finished()) {
            execute(&session, &["TRUNCATE t"]);
        }
    });
    check(&session, "after truncations beside writers");
    execute(&session, &["TRUNCATE t"]);
    assert!(found(&session, "SELECT k FROM by_v").is_empty());
}

/// Inserts rows, and truncates their table while `statement` builds what `exists` looks for.
fn truncate_during(session: &Session, statement: &str, exists: impl Fn(&Keyspace) -> bool) {
    execute(session, &TABLE);
    let insert = session.prepare("INSERT INTO t (k, c, v) VALUES (?, 0, ?)").unwrap();
    for k in 0..2000 {
        session.execute(&insert, (k, k % 7)).unwrap();
    }
    thread::scope(|scope| {
        scope.spawn(|| execute(session, &[statement]));
        while !session.database().catalog().keyspace("ks").is_some_and(|keyspace| exists(keyspace)) {
            thread::yield_now();
        }
        execute(session, &["TRUNCATE t"]);
    });
    execute(session, &["INSERT INTO t (k, c, v) VALUES (1, 0, 5)"]);
}

/// The build wrote entries of rows that it had read before the truncation, after its view had been
/// truncated.
#[test]
fn a_view_that_is_built_during_a_truncation_shows_its_base() {
    for _ in 0..3 {
        let world = World::new();
        let session = world.open().session();
        truncate_during(&session, VIEWS[0], |keyspace| keyspace.views.contains_key("by_v"));
        assert_eq!(found(&session, "SELECT v, k, c FROM by_v"), found(&session, "SELECT v, k, c FROM t"));
    }
}

#[test]
fn an_index_that_is_built_during_a_truncation_finds_later_rows() {
    let world = World::new();
    let session = world.open().session();
    truncate_during(&session, "CREATE INDEX i ON t (v)", |keyspace| keyspace.indexes.contains_key("i"));
    assert_eq!(found(&session, "SELECT k FROM t WHERE v = 5").len(), 1);
    assert!(found(&session, "SELECT k FROM t WHERE v = 4").is_empty());
}
