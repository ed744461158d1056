//! The written cells of INSERT, UPDATE and DELETE, as text.

use std::fmt::Write;
use std::sync::Arc;

use cassette_engine::Mutation;
use cassette_rows::{Bound, Clustering, DeletionTime, Row, Side, TableMetadata};
use cassette_vfs::{FakeFileSystem, ManualClock};

use super::Mutations;
use crate::api::database::{Database, Options};
use crate::basics::request::{BoundValue, StatementOptions};
use crate::execution::Execution;
use crate::statements::plan::{Plan, Planned};

/// A database whose clock is at a million seconds.
fn database() -> Database {
    database_at(1_000_000_000_000)
}

/// A database whose clock does not advance, microseconds since 1970.
fn database_at(now: i64) -> Database {
    let options = Options {
        file_system: Arc::new(FakeFileSystem::new()),
        clock: Arc::new(ManualClock::at_micros(now)),
        ..Options::new("/data")
    };
    let database = Database::open(options).unwrap();
    let session = database.session();
    for statement in [
        "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TYPE ks.u (x int, y int)",
        "CREATE TABLE ks.t (k int, c int, s int static, v int, l list<int>, m map<int, int>, u u, PRIMARY KEY (k, c))",
        "CREATE TABLE ks.expiring (k int PRIMARY KEY, v int) WITH default_time_to_live = 60",
    ] {
        session.execute(statement, ()).unwrap();
    }
    database
}

/// The mutations of a statement, one line for each partition.
fn written(database: &Database, cql: &str, values: &[BoundValue<'_>]) -> Result<Vec<String>, String> {
    let planned = Planned::new(cql, &database.catalog(), None).map_err(|error| error.to_string())?;
    let Plan::Modification(modification) = &planned.plan else { panic!("{cql}") };
    let options = StatementOptions { timestamp: Some(9), ..StatementOptions::default() };
    let execution = Execution::new(database.store(), &planned.catalog, values, &options, None);
    let collect = || {
        let mut mutations = Mutations::default();
        let rows = modification.rows_of(&execution)?;
        let table = modification.table();
        let timestamp = || execution.default_timestamp(std::iter::once(&**table));
        let times = rows.attributes.times(&execution, table, timestamp)?;
        rows.add_to(&mut mutations, &times, &execution)?;
        Ok::<_, crate::basics::error::DatabaseError>(mutations.list.iter().map(text).collect())
    };
    collect().map_err(|error| error.to_string())
}

fn text(mutation: &Mutation) -> String {
    let (table, update) = (&mutation.table, &mutation.update);
    let mut out = format!("{}:", number(update.key.key()));
    if !update.deletion.is_live() {
        write!(out, " deleted{}", at(update.deletion)).unwrap();
    }
    if let Some(row) = &update.static_row {
        write!(out, " static({})", row_text(row, table)).unwrap();
    }
    for row in &update.rows {
        write!(out, " {}({})", clustering(row.clustering()), row_text(row, table)).unwrap();
    }
    for tombstone in update.range_tombstones.as_slice() {
        let bound = |bound: &Bound| {
            format!(
                "{}{}",
                if bound.side == Side::Before { "before " } else { "after " },
                clustering(&bound.prefix)
            )
        };
        write!(out, " {} to {}{}", bound(&tombstone.start), bound(&tombstone.end), at(tombstone.deletion))
            .unwrap();
    }
    out
}

fn row_text(row: &Row, table: &TableMetadata) -> String {
    let mut parts = Vec::new();
    let liveness = row.liveness();
    if !liveness.is_empty() {
        let ttl = if liveness.is_expiring() { format!(" ttl {}", liveness.ttl) } else { String::new() };
        parts.push(format!("live@{}{ttl}", liveness.timestamp));
    }
    if !row.deletion().is_live() {
        parts.push(format!("deleted{}", at(row.deletion())));
    }
    let name = |id| {
        table
            .all_columns()
            .find(|column| {
                column.id == id
                    && matches!(
                        column.kind,
                        cassette_rows::ColumnKind::Static | cassette_rows::ColumnKind::Regular
                    )
            })
            .unwrap()
            .name
            .clone()
    };
    for (column, deletion) in row.complex_deletions() {
        parts.push(format!("{} deleted{}", name(*column), at(*deletion)));
    }
    for cell in row.cells() {
        let path = match cell.path {
            // The path of a list element is a time UUID, which differs each time.
            Some(path) if path.len() == 16 => "[]".to_owned(),
            Some(path) => format!("[{}]", number(path)),
            None => String::new(),
        };
        let value = if cell.is_tombstone() { "gone".to_owned() } else { number(cell.value) };
        let ttl = if cell.is_expiring() { format!(" ttl {}", cell.ttl) } else { String::new() };
        parts.push(format!("{}{path}={value}@{}{ttl}", name(cell.column), cell.timestamp));
    }
    parts.join(", ")
}

fn at(deletion: DeletionTime) -> String {
    format!("@{}", deletion.timestamp)
}

fn clustering(clustering: &Clustering) -> String {
    clustering.values().map(|value| value.map_or("null".into(), number)).collect::<Vec<_>>().join(",")
}

fn number(bytes: &[u8]) -> String {
    bytes.iter().fold(0_i64, |number, byte| number << 8 | i64::from(*byte)).to_string()
}

#[test]
fn statements_write_cells_liveness_and_tombstones_as_cassandra_does() {
    let database = database();
    for (cql, expected) in [
        ("INSERT INTO ks.t (k, c, v) VALUES (1, 2, 3)", "1: 2(live@9, v=3@9)"),
        ("INSERT INTO ks.t (k, c) VALUES (1, 2) USING TIMESTAMP 5 AND TTL 60", "1: 2(live@5 ttl 60)"),
        ("INSERT INTO ks.t (k, c, v) VALUES (1, 2, null)", "1: 2(live@9, v=gone@9)"),
        ("INSERT INTO ks.t (k, s) VALUES (1, 4)", "1: static(s=4@9)"),
        ("INSERT INTO ks.t (k, c, s) VALUES (1, 2, 4)", "1: static(s=4@9) 2(live@9)"),
        ("UPDATE ks.t SET v = 3 WHERE k = 1 AND c = 2", "1: 2(v=3@9)"),
        ("UPDATE ks.t SET s = 3 WHERE k = 1", "1: static(s=3@9)"),
        ("UPDATE ks.t USING TTL 7 SET v = 3 WHERE k = 1 AND c IN (2, 5)", "1: 2(v=3@9 ttl 7) 5(v=3@9 ttl 7)"),
        // The previous elements are deleted a microsecond before the new ones are written.
        ("UPDATE ks.t SET m = {2: 1, 1: 7} WHERE k = 1 AND c = 2", "1: 2(m deleted@8, m[1]=7@9, m[2]=1@9)"),
        ("UPDATE ks.t SET m = m + {2: 1} WHERE k = 1 AND c = 2", "1: 2(m[2]=1@9)"),
        ("UPDATE ks.t SET m[4] = null, m[3] = 1 WHERE k = 1 AND c = 2", "1: 2(m[3]=1@9, m[4]=gone@9)"),
        ("UPDATE ks.t SET m = m - {2, 1} WHERE k = 1 AND c = 2", "1: 2(m[1]=gone@9, m[2]=gone@9)"),
        ("UPDATE ks.t SET m = null WHERE k = 1 AND c = 2", "1: 2(m deleted@8)"),
        ("UPDATE ks.t SET l = [5, 6] WHERE k = 1 AND c = 2", "1: 2(l deleted@8, l[]=5@9, l[]=6@9)"),
        ("UPDATE ks.t SET l = [5] + l WHERE k = 1 AND c = 2", "1: 2(l[]=5@9)"),
        ("UPDATE ks.t SET u = {x: 1} WHERE k = 1 AND c = 2", "1: 2(u deleted@8, u[0]=1@9)"),
        ("UPDATE ks.t SET u.y = 1 WHERE k = 1 AND c = 2", "1: 2(u[1]=1@9)"),
        ("DELETE FROM ks.t WHERE k = 1", "1: deleted@9"),
        ("DELETE FROM ks.t USING TIMESTAMP 4 WHERE k = 1 AND c = 2", "1: 2(deleted@4)"),
        ("DELETE FROM ks.t WHERE k = 1 AND c > 2 AND c <= 5", "1: after 2 to after 5@9"),
        ("DELETE v, m FROM ks.t WHERE k = 1 AND c = 2", "1: 2(m deleted@9, v=gone@9)"),
        ("DELETE m[3] FROM ks.t WHERE k = 1 AND c = 2", "1: 2(m[3]=gone@9)"),
        ("DELETE s FROM ks.t WHERE k = 1", "1: static(s=gone@9)"),
        ("INSERT INTO ks.expiring (k, v) VALUES (1, 2)", "1: (live@9 ttl 60, v=2@9 ttl 60)"),
        ("INSERT INTO ks.expiring (k, v) VALUES (1, 2) USING TTL 0", "1: (live@9, v=2@9)"),
    ] {
        assert_eq!(written(&database, cql, &[]), Ok(vec![expected.to_owned()]), "{cql}");
    }
}

#[test]
fn a_statement_on_many_partitions_writes_each_once() {
    let database = database();
    let written = written(&database, "UPDATE ks.t SET v = 3 WHERE k IN (2, 1, 2) AND c = 0", &[]).unwrap();
    let mut sorted = written.clone();
    sorted.sort();
    assert_eq!(sorted, ["1: 0(v=3@9)", "2: 0(v=3@9)"]);
}

#[test]
fn unset_values_leave_columns_alone_and_null_keys_are_refused() {
    let database = database();
    let one = 1_i32.to_be_bytes();
    let (one, unset, null) = (BoundValue::Set(&one), BoundValue::Unset, BoundValue::Null);
    let insert = "INSERT INTO ks.t (k, c, v, m) VALUES (?, ?, ?, ?)";
    assert_eq!(written(&database, insert, &[one, one, unset, unset]), Ok(vec!["1: 1(live@9)".into()]));
    assert_eq!(
        written(&database, insert, &[one, one, null, null]),
        Ok(vec!["1: 1(live@9, m deleted@8, v=gone@9)".into()])
    );
    let delete = "DELETE l[?] FROM ks.t WHERE k = 1 AND c = 2";
    assert_eq!(written(&database, delete, &[unset]), Ok(vec![]));
    let set = "UPDATE ks.t SET l[?] = 1 WHERE k = 1 AND c = 2";
    assert_eq!(written(&database, set, &[unset]), Err("Invalid unset value for list index".into()));
    for (values, expected) in [
        ([null, one, one, unset], "Invalid null value in condition for column k"),
        ([one, null, one, unset], "Invalid null value in condition for column c"),
        ([one, unset, one, unset], "Invalid unset value for column c"),
    ] {
        assert_eq!(written(&database, insert, &values), Err(expected.into()));
    }
}

#[test]
fn what_depends_on_a_list_reads_it() {
    let database = database();
    let session = database.session();
    session.execute("UPDATE ks.t USING TIMESTAMP 1 SET l = [7, 8, 7] WHERE k = 1 AND c = 2", ()).unwrap();
    for (set, expected) in [("l[1] = 5", "l[]=5@9"), ("l = l - [7]", "l[]=gone@9, l[]=gone@9")] {
        let cql = format!("UPDATE ks.t SET {set} WHERE k = 1 AND c = 2");
        assert_eq!(written(&database, &cql, &[]), Ok(vec![format!("1: 2({expected})")]), "{cql}");
    }
    assert_eq!(
        written(&database, "UPDATE ks.t SET l[3] = 5 WHERE k = 1 AND c = 2", &[]),
        Err("List index 3 out of bound, list has size 3".into())
    );
}

#[test]
fn operations_of_one_statement_on_a_list_see_what_the_ones_before_left() {
    // Prepended elements sort before others only after 2010.
    let database = database_at(1_800_000_000_000_000);
    let session = database.session();
    let list = |of: i32| -> Vec<i32> {
        let rows = session.execute(&format!("SELECT l FROM ks.t WHERE k = {of} AND c = 1"), ()).unwrap();
        rows.first()
            .map(|row| row.get::<Option<Vec<i32>>>(0).unwrap().unwrap_or_default())
            .unwrap_or_default()
    };
    // The results of Cassandra 5.0.8 for [1, 2, 3, 4].
    for (statement, expected) in [
        ("DELETE l[0], l[1] FROM ks.t", &[2, 4][..]),
        ("UPDATE ks.t SET l = l - [1], l[0] = 9", &[9, 3, 4]),
        ("UPDATE ks.t SET l = [7] + l, l[0] = 9", &[9, 1, 2, 3, 4]),
        ("UPDATE ks.t SET l[0] = null, l[1] = 9", &[2, 9, 4]),
        ("UPDATE ks.t SET l[0] = 5, l = l - [5]", &[2, 3, 4]),
        ("UPDATE ks.t SET l = l + [5], l[4] = 9", &[1, 2, 3, 4, 9]),
        // Of two values with one timestamp, the greater wins.
        ("UPDATE ks.t SET l[0] = 9, l[0] = 7", &[9, 2, 3, 4]),
        // The list is newer than the statement.
        ("UPDATE ks.t USING TIMESTAMP 1 SET l[0] = 5, l = l - [1]", &[1, 2, 3, 4]),
    ] {
        session.execute("UPDATE ks.t SET l = [1, 2, 3, 4] WHERE k = 1 AND c = 1", ()).unwrap();
        session.execute(&format!("{statement} WHERE k = 1 AND c = 1"), ()).unwrap();
        assert_eq!(list(1), expected, "{statement}");
    }
    // If no row existed, elements deleted by the statement itself still count, and remain deleted.
    session
        .execute("UPDATE ks.t SET l = l + [1, 2], l[0] = null, l[1] = 9 WHERE k = 2 AND c = 1", ())
        .unwrap();
    assert_eq!(list(2), [9]);
    let deleted = "DELETE l, l[0] FROM ks.t WHERE k = 1 AND c = 1";
    assert_eq!(
        session.execute(deleted, ()).unwrap_err().to_string(),
        "Attempted to delete an element from a list which is null"
    );
}

/// A database with `ks.l (p, c, s static, v)`, whose partition 1 has the static value 5 and the row
/// 2.
fn database_of_statics() -> Database {
    let database = database();
    let session = database.session();
    for statement in [
        "CREATE TABLE ks.l (p int, c int, s int static, z int static, v int, PRIMARY KEY (p, c))",
        "INSERT INTO ks.l (p, c, s, v) VALUES (1, 2, 5, 7)",
    ] {
        session.execute(statement, ()).unwrap();
    }
    database
}

#[test]
fn a_condition_on_a_row_has_to_name_the_row() {
    let database = database_of_statics();
    let session = database.session();
    let refused = |cql: &str| session.execute(cql, ()).unwrap_err().to_string();
    assert_eq!(refused("UPDATE ks.l SET s = 6 WHERE p = 1 IF v = 7"), "Some clustering keys are missing: c");
    let applied = |cql: &str| session.execute(cql, ()).unwrap().first().unwrap().get::<bool>(0).unwrap();
    assert!(applied("UPDATE ks.l SET s = 6 WHERE p = 1 IF s = 5"));
    assert!(!applied("UPDATE ks.l SET s = 7 WHERE p = 1 AND c = 1 IF v = 7"));
    assert!(applied("UPDATE ks.l SET s = 7 WHERE p = 1 AND c = 2 IF v = 7"));
    assert!(applied("DELETE s FROM ks.l WHERE p = 1 AND c = 2 IF v = 7 AND s = 7"));
}

#[test]
fn a_refused_write_of_a_missing_row_shows_the_static_columns_that_it_asked_for() {
    let database = database_of_statics();
    let session = database.session();
    for (cql, expected) in [
        ("UPDATE ks.l SET v = 1 WHERE p = 1 AND c = 1 IF v = 0 AND s = 6", "[applied]=0 v=null s=5"),
        ("UPDATE ks.l SET v = 1 WHERE p = 1 AND c = 1 IF v = 0", "[applied]=0"),
        // The static column in the condition has no value, and the other one is not read.
        ("UPDATE ks.l SET v = 1 WHERE p = 1 AND c = 1 IF v = 0 AND z = 6", "[applied]=0"),
        ("UPDATE ks.l SET v = 1 WHERE p = 1 AND c = 2 IF v = 0 AND s = 6", "[applied]=0 v=7 s=5"),
    ] {
        let rows = session.execute(cql, ()).unwrap();
        let row = rows.first().unwrap();
        let shown = rows
            .columns()
            .iter()
            .enumerate()
            .map(|(i, column)| format!("{}={}", column.name, row.bytes(i).map_or("null".into(), number)));
        assert_eq!(shown.collect::<Vec<_>>().join(" "), expected, "{cql}");
        assert_eq!(rows.len(), 1, "{cql}");
    }
}

/// The columns and rows of a conditional write's result, one text for each row.
fn shown(session: &crate::api::embedded::Session, cql: &str) -> Result<Vec<String>, String> {
    let rows = session.execute(cql, ()).map_err(|error| error.to_string())?;
    let row = |row: &crate::api::embedded::Row<'_>| {
        let values = rows
            .columns()
            .iter()
            .enumerate()
            .map(|(i, column)| format!("{}={}", column.name, row.bytes(i).map_or("null".into(), number)));
        values.collect::<Vec<_>>().join(" ")
    };
    Ok(rows.iter().map(|r| row(&r)).collect())
}

#[test]
fn a_refused_batch_shows_the_rows_that_have_conditions_and_the_columns_that_were_read() {
    let database = database_of_statics();
    let session = database.session();
    for cql in ["INSERT INTO ks.l (p, c, v) VALUES (1, 1, 8)", "UPDATE ks.l SET v = 1 WHERE p = 2 AND c = 2"]
    {
        session.execute(cql, ()).unwrap();
    }
    session.execute("UPDATE ks.l SET z = 3 WHERE p = 1", ()).unwrap();
    let refused = "UPDATE ks.l SET v = 0 WHERE p = 1 AND c = 2 IF v = 0";
    for (cql, expected) in [
        (format!("INSERT INTO ks.l (p, c, v) VALUES (1, 1, 0); {refused}"), &["[applied]=0 p=1 c=2 v=7"][..]),
        (format!("DELETE FROM ks.l WHERE p = 1 AND c < 5; {refused}"), &["[applied]=0 p=1 c=2 v=7"]),
        (
            format!("UPDATE ks.l SET v = 0 WHERE p = 1 AND c = 1 IF v = 0; {refused}"),
            &["[applied]=0 p=1 c=1 v=8", "[applied]=0 p=1 c=2 v=7"],
        ),
        // Static columns that are not changed are read if they are in the conditions.
        (
            format!("INSERT INTO ks.l (p, c) VALUES (1, 1) IF NOT EXISTS; {refused} AND s = 5"),
            &["[applied]=0 p=1 c=1 s=5 z=null v=8", "[applied]=0 p=1 c=2 s=5 z=null v=7"],
        ),
        // If the conditions are on the static row only, the first row is shown with it.
        (
            "UPDATE ks.l SET s = 0 WHERE p = 1 IF s = 0; UPDATE ks.l SET v = 0 WHERE p = 1 AND c = 2".into(),
            &["[applied]=0 p=1 c=1 s=5"],
        ),
        (
            "UPDATE ks.l SET s = 0 WHERE p = 1; UPDATE ks.l SET v = 0 WHERE p = 1 AND c = 9 IF v = 0".into(),
            &["[applied]=0"],
        ),
    ] {
        let batch = format!("BEGIN BATCH {cql}; APPLY BATCH");
        assert_eq!(shown(&session, &batch).unwrap(), expected, "{batch}");
    }
    for (cql, expected) in [
        // Row 2 is live only by a cell, which is not read.
        ("UPDATE ks.l SET s = 0 WHERE p = 2 IF s = 0", "[applied]=0"),
        ("INSERT INTO ks.l (p, s) VALUES (1, 0) IF NOT EXISTS", "[applied]=0 p=1 c=1 s=5 z=3 v=null"),
        ("INSERT INTO ks.l (p, c) VALUES (1, 1) IF NOT EXISTS", "[applied]=0 p=1 c=1 s=null z=null v=8"),
        (
            "INSERT INTO ks.l JSON '{\"p\": 1, \"c\": 1}' DEFAULT UNSET IF NOT EXISTS",
            "[applied]=0 p=1 c=1 s=5 z=3 v=8",
        ),
    ] {
        assert_eq!(shown(&session, cql), Ok(vec![expected.to_owned()]), "{cql}");
    }
}

#[test]
fn conditions_are_bound_before_any_is_asked_and_the_static_row_is_asked_first() {
    let database = database_of_statics();
    let session = database.session();
    let refused = |cql: &str| shown(&session, cql).unwrap_err();
    const OTHER: &str = "UPDATE ks.l SET v = 0 WHERE p = 1 AND c = 2 IF v = 0";
    assert_eq!(refused(&format!("{OTHER} AND s > null")), "Invalid comparison with null for operator \">\"");
    assert_eq!(
        refused(&format!("BEGIN BATCH {OTHER}; DELETE FROM ks.l WHERE p = 1 AND c IN (1, 2); APPLY BATCH")),
        "IN on the clustering key columns is not supported with conditional deletions"
    );
    assert_eq!(
        refused(&format!("BEGIN BATCH {OTHER}; INSERT INTO ks.l JSON '{{\"p\": 1, \"s\": 1}}'; APPLY BATCH")),
        "Invalid null value in condition for column c"
    );
    assert_eq!(
        refused("INSERT INTO ks.l JSON '{\"p\": 1, \"s\": 1}' DEFAULT UNSET"),
        "Invalid unset value for column c"
    );
    session.execute("UPDATE ks.t SET v = 1 WHERE k = 1 AND c = 1", ()).unwrap();
    for (condition, kind) in [("l <= []", "list"), ("m < {}", "map")] {
        let operator = condition.split(' ').nth(1).unwrap();
        assert_eq!(
            refused(&format!("UPDATE ks.t SET v = 2 WHERE k = 1 AND c = 1 IF {condition}")),
            format!("Invalid comparison with an empty {kind} for operator \"{operator}\"")
        );
    }
    let mut rows = crate::api::embedded::Rows::default();
    let values = [BoundValue::Unset, BoundValue::Set(&[0, 0, 0, 1])];
    let cql = "UPDATE ks.t SET v = 2 WHERE k = 1 AND c = 1 IF v IN (?, ?)";
    let options = StatementOptions::default();
    database
        .query(None, cql, crate::basics::request::Values::positional(&values), &options, &mut rows)
        .unwrap();
    assert_eq!(rows.first().unwrap().get::<bool>(0), Ok(true), "what is unset is left out of an IN");
}

#[test]
fn a_batch_with_conditions_keeps_the_rows_it_writes_beside_deletions_of_their_partition_or_range() {
    let database = database_of_statics();
    let session = database.session();
    for (deletion, kept) in [
        ("DELETE FROM ks.l WHERE p = 1", &["c=3 s=6 v=9"][..]),
        ("DELETE FROM ks.l WHERE p = 1 AND c > 0", &["c=3 s=6 v=9"]),
        ("DELETE FROM ks.l WHERE p = 1 AND c > 2", &["c=2 s=6 v=7", "c=3 s=6 v=9"]),
        // The deletion of a row wins over the batch's writes to it.
        ("DELETE FROM ks.l WHERE p = 1 AND c = 3", &["c=2 s=6 v=7"]),
    ] {
        session.execute("DELETE FROM ks.l WHERE p = 1", ()).unwrap();
        session.execute("INSERT INTO ks.l (p, c, s, v) VALUES (1, 2, 5, 7)", ()).unwrap();
        let insert = "INSERT INTO ks.l (p, c, s, v) VALUES (1, 3, 6, 9)";
        // USING TIMESTAMP of a statement without a condition is ignored.
        let batch = format!(
            "BEGIN BATCH {insert} IF NOT EXISTS; {deletion}; UPDATE ks.l USING TIMESTAMP 5 SET s = 6 WHERE \
             p = 1; APPLY BATCH"
        );
        assert_eq!(shown(&session, &batch), Ok(vec!["[applied]=1".to_owned()]), "{batch}");
        assert_eq!(shown(&session, "SELECT c, s, v FROM ks.l WHERE p = 1").unwrap(), kept, "{batch}");
    }
}

#[test]
fn a_statement_sent_as_text_needs_as_many_values_as_it_has_markers() {
    let database = database();
    let cql = "INSERT INTO ks.expiring (k, v) VALUES (?, ?)";
    let sent = |values: &[BoundValue<'_>]| {
        let (values, options) =
            (crate::basics::request::Values::positional(values), StatementOptions::default());
        database.query(None, cql, values, &options, &mut crate::api::embedded::Rows::default()).map(drop)
    };
    let one = BoundValue::Set(&[0, 0, 0, 1]);
    for values in [&[][..], &[one], &[one, one, one]] {
        assert_eq!(sent(values).unwrap_err().to_string(), "Invalid amount of bind variables");
    }
    assert_eq!(sent(&[one, one]).map_err(|error| error.to_string()), Ok(()));
}

#[test]
fn a_batch_takes_every_consistency_level_and_a_single_write_does_not() {
    let database = database();
    let session = database.session();
    session.execute("CREATE TABLE ks.n (k int PRIMARY KEY, v counter)", ()).unwrap();
    let write = "UPDATE ks.expiring SET v = 1 WHERE k = 1";
    let count = "UPDATE ks.n SET v = v + 1 WHERE k = 1";
    for consistency in [crate::basics::request::Consistency::Any, crate::basics::request::Consistency::Serial]
    {
        let options = StatementOptions { consistency, ..StatementOptions::default() };
        for batch in [
            format!("BEGIN BATCH {write}; APPLY BATCH"),
            format!("BEGIN UNLOGGED BATCH {write}; APPLY BATCH"),
            format!("BEGIN COUNTER BATCH {count}; APPLY BATCH"),
        ] {
            assert!(session.execute_with(&batch, (), &options).is_ok(), "{batch} at {consistency}");
        }
        assert!(session.execute_with(count, (), &options).is_err());
        let is_any = consistency == crate::basics::request::Consistency::Any;
        assert_eq!(session.execute_with(write, (), &options).is_ok(), is_any);
    }
}

#[test]
fn conditions_of_other_kinds_on_one_row_are_refused_in_a_batch() {
    let database = database_of_statics();
    let session = database.session();
    const EXISTS: &str = "UPDATE ks.l SET v = 1 WHERE p = 1 AND c = 1 IF EXISTS";
    const NOT_EXISTS: &str = "INSERT INTO ks.l (p, c, v) VALUES (1, 1, 1) IF NOT EXISTS";
    const COLUMNS: &str = "UPDATE ks.l SET v = 1 WHERE p = 1 AND c = 1 IF v = 1";
    const OTHER_ROW: &str = "UPDATE ks.l SET v = 1 WHERE p = 1 AND c = 2 IF v = 1";
    const STATIC: &str = "UPDATE ks.l SET s = 1 WHERE p = 1 IF s = 1";
    let batch = |statements: &[&str]| {
        let batch = format!("BEGIN BATCH {}; APPLY BATCH", statements.join("; "));
        session.execute(&batch, ()).map(drop).map_err(|error| error.to_string())
    };
    let mixed = |what: &str| Err(format!("Cannot mix {what} for the same row"));
    for (statements, expected) in [
        (&[EXISTS, NOT_EXISTS][..], mixed("IF EXISTS and IF NOT EXISTS conditions")),
        (&[NOT_EXISTS, OTHER_ROW, EXISTS], mixed("IF EXISTS and IF NOT EXISTS conditions")),
        (&[COLUMNS, EXISTS], mixed("IF conditions and IF EXISTS")),
        (&[COLUMNS, STATIC, NOT_EXISTS], mixed("IF conditions and IF NOT EXISTS")),
        (&[EXISTS, COLUMNS], mixed("IF conditions and IF NOT EXISTS")),
        (&[NOT_EXISTS, OTHER_ROW, STATIC], Ok(())),
        (&[COLUMNS, OTHER_ROW, COLUMNS], Ok(())),
        (&[EXISTS, EXISTS, STATIC], Ok(())),
    ] {
        assert_eq!(batch(statements), expected, "{statements:?}");
    }
}

#[test]
fn a_logged_batch_on_a_table_without_gc_grace_is_warned_of() {
    let database = database_of_statics();
    let session = database.session();
    for table in ["a", "b"] {
        let create = format!("CREATE TABLE ks.{table} (k int PRIMARY KEY, v int) WITH gc_grace_seconds = 0");
        session.execute(&create, ()).unwrap();
    }
    let warnings = |kind: &str, tables: &[&str]| {
        let writes = tables.iter().map(|table| format!("UPDATE ks.{table} SET v = 1 WHERE k = 1; "));
        let batch = format!("BEGIN {kind} BATCH {} APPLY BATCH", writes.collect::<String>());
        session.execute(&batch, ()).unwrap().warnings().to_vec()
    };
    assert_eq!(
        warnings("", &["a", "a"]),
        ["Executing a LOGGED BATCH on table [ks.a], configured with a gc_grace_seconds of 0. The \
             gc_grace_seconds is used to TTL batchlog entries, so setting gc_grace_seconds too low on tables \
             involved in an atomic batch might cause batchlog entries to expire before being replayed."]
    );
    assert!(warnings("", &["a", "b"])[0].starts_with("Executing a LOGGED BATCH on tables [ks.a, ks.b], "));
    assert!(warnings("UNLOGGED", &["a"]).is_empty());
    assert!(warnings("", &["expiring"]).is_empty());
}

#[test]
fn rows_whose_clustering_is_longer_than_cassandra_takes_are_refused() {
    let database = database();
    let create = "CREATE TABLE ks.long (k int, a blob, b blob, v int, PRIMARY KEY (k, a, b))";
    database.session().execute(create, ()).unwrap();
    let (long, half) = (vec![1; 65_536], vec![2; 40_000]);
    for (a, b, length) in [(&long[..], &[][..], 65_536), (&half, &half, 80_000)] {
        for cql in [
            "INSERT INTO ks.long (k, a, b, v) VALUES (1, ?, ?, 1)",
            "UPDATE ks.long SET v = 1 WHERE k = 1 AND a = ? AND b = ?",
            "DELETE FROM ks.long WHERE k = 1 AND a = ? AND b = ?",
        ] {
            let refused = written(&database, cql, &[BoundValue::Set(a), BoundValue::Set(b)]);
            assert_eq!(refused, Err(format!("Key length of {length} is longer than maximum of 65535")));
        }
    }
}

#[test]
fn default_time_to_live_shows_in_droppable_tombstones_tombstones_per_slice_and_what_compactions_leave() {
    let clock = Arc::new(ManualClock::at_micros(1_000_000_000_000));
    let options = Options::new("/data");
    let options = Options {
        file_system: Arc::new(FakeFileSystem::new()),
        clock: clock.clone(),
        engine: cassette_engine::Options { background_threads: false, ..options.engine },
        ..options
    };
    let database = Database::open(options).unwrap();
    let session = database.session();
    let run = |cql: &str| session.execute(cql, ()).unwrap_or_else(|error| panic!("{cql}: {error}"));
    run("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    for (table, seconds) in [("stays", 0), ("expires", 60)] {
        run(&format!(
            "CREATE TABLE ks.{table} (k int, c int, v int, PRIMARY KEY (k, c)) WITH gc_grace_seconds = 0 \
             AND default_time_to_live = {seconds}"
        ));
    }
    let insert = |table: &str, k: i32| {
        (0..10).for_each(|c| drop(run(&format!("INSERT INTO ks.{table} (k, c, v) VALUES ({k}, {c}, 1)"))));
        database.engine().flush(None).unwrap();
    };
    let id = |table: &str| database.catalog().table("ks", table).unwrap().id;
    let stats = |table: &str| database.engine().table_stats(id(table)).unwrap();
    // The rows read from partition 1, and the tombstones scanned by all reads.
    let read = |table: &str| {
        let rows = run(&format!("SELECT * FROM ks.{table} WHERE k = 1")).len();
        let metrics = database.engine().table_metrics(id(table)).unwrap();
        (rows, metrics.tombstones_scanned.snapshot(std::time::Duration::ZERO).sum)
    };
    for table in ["stays", "expires"] {
        insert(table, 1);
        assert_eq!((stats(table).droppable_ratio, read(table)), (0.0, (10, 0)), "{table}");
    }
    // SSTables round expiration times up to minutes.
    clock.advance(std::time::Duration::from_secs(121));
    assert_eq!((stats("stays").droppable_ratio, read("stays")), (0.0, (10, 0)));
    assert!(stats("expires").droppable_ratio > 0.9, "{:?}", stats("expires"));
    assert_eq!(read("expires"), (0, 10));
    for (table, sstables) in [("stays", 1), ("expires", 0)] {
        database.engine().compact(id(table)).unwrap();
        assert_eq!(stats(table).sstables, sstables, "{table}");
    }
    // ALTER affects only later writes.
    run("ALTER TABLE ks.stays WITH default_time_to_live = 60");
    insert("stays", 2);
    clock.advance(std::time::Duration::from_secs(61));
    database.engine().compact(id("stays")).unwrap();
    assert_eq!((stats("stays").estimated_partitions, read("stays").0), (1, 10));
    assert_eq!(run("SELECT * FROM ks.stays WHERE k = 2").len(), 0);
}
