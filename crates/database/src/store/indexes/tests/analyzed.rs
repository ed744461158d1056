//! Indexes with analyzers.

use super::{Files, ints, run};

/// Several elements of a collection may be analyzed into one value: its entry exists as long as any
/// of them.
#[test]
fn elements_that_an_analyzer_makes_alike_are_found_until_the_last_of_them_goes() {
    let files = Files::new();
    let (database, session) = files.open();
    run(&session, "CREATE TABLE t (k int PRIMARY KEY, st set<text>, l list<text>, m map<text, text>)");
    for (name, target) in [("st", "st"), ("l", "l"), ("mk", "KEYS(m)"), ("mv", "VALUES(m)")] {
        run(
            &session,
            &format!(
                "CREATE INDEX {name} ON t ({target}) USING 'sai' WITH OPTIONS = {{'case_sensitive': 'false'}}"
            ),
        );
    }
    run(
        &session,
        "INSERT INTO t (k, st, l, m) VALUES (1, {'Red', 'RED'}, ['Red', 'RED'], {'Red': 'X', 'RED': 'x'})",
    );
    run(&session, "INSERT INTO t (k, st, l, m) VALUES (2, {'blue'}, ['blue'], {'blue': 'y'})");
    let conditions = ["st CONTAINS 'rEd'", "l CONTAINS 'rEd'", "m CONTAINS KEY 'rEd'", "m CONTAINS 'x'"];
    for flushed in [false, true] {
        for condition in conditions {
            assert_eq!(ints(&session, &format!("SELECT k FROM t WHERE {condition}")), [1], "{condition}");
            // If another index finds the rows, values are compared in the same way.
            let both = format!("SELECT k FROM t WHERE {condition} AND st CONTAINS 'RED'");
            assert_eq!(ints(&session, &both), [1], "{condition}");
        }
        if !flushed {
            run(&session, "UPDATE t SET st = st - {'Red'}, m = m - {'Red'} WHERE k = 1");
            run(&session, "UPDATE t SET l = ['RED'] WHERE k = 1");
            database.engine().flush(None).unwrap();
        }
    }
    run(&session, "UPDATE t SET st = st - {'RED'}, m = m - {'RED'}, l = l - ['RED'] WHERE k = 1");
    for condition in conditions {
        assert_eq!(ints(&session, &format!("SELECT k FROM t WHERE {condition}")), [0i32; 0], "{condition}");
    }
}

#[test]
fn an_index_of_elements_says_the_same_after_a_restart_and_a_build() {
    let files = Files::new();
    {
        let (_database, session) = files.open();
        run(&session, "CREATE TABLE t (k int PRIMARY KEY, st set<text>)");
        run(&session, "INSERT INTO t (k, st) VALUES (1, {'Straße', 'STRASSE'})");
        run(
            &session,
            "CREATE INDEX ON t (st) USING 'sai' WITH OPTIONS = {'case_sensitive': 'false', 'ascii': 'true'}",
        );
        run(&session, "INSERT INTO t (k, st) VALUES (2, {'strasse'})");
        assert_eq!(ints(&session, "SELECT k FROM t WHERE st CONTAINS 'strasse'"), [1, 2]);
    }
    let (_database, session) = files.open();
    run(&session, "DELETE st['Straße'] FROM t WHERE k = 1");
    assert_eq!(ints(&session, "SELECT k FROM t WHERE st CONTAINS 'Strasse'"), [1, 2]);
    run(&session, "DELETE st FROM t WHERE k = 1");
    assert_eq!(ints(&session, "SELECT k FROM t WHERE st CONTAINS 'Strasse'"), [2]);
}
