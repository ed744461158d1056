//! `count(*)` counts rows without decoding them where it can; other reads decode them all.

use std::sync::Arc;
use std::time::Duration;

use cassette_vfs::ManualClock;
use proptest::prelude::*;

use super::tests::node::open;
use crate::api::database::Database;
use crate::api::embedded::Session;

struct Node {
    database: Database,
    session: Session,
    clock: Arc<ManualClock>,
}

fn node() -> Node {
    let (database, session, clock) = open(&[
        // Chunks shorter than some rows: these are not skipped within one.
        "CREATE TABLE wide (k int, c int, v blob, l list<int>, PRIMARY KEY (k, c)) \
         WITH compression = {'class': 'LZ4Compressor', 'chunk_length_in_kb': 4}",
        "CREATE TABLE statics (k int, c int, v blob, s int static, PRIMARY KEY (k, c))",
        "CREATE TABLE narrow (k int PRIMARY KEY, v blob)",
    ]);
    Node { database, session, clock }
}

/// A write of row (k, c), with a length of its value.
#[derive(Debug, Clone, Copy)]
enum Step {
    Insert(i32, i32, usize),
    InsertWithTtl(i32, i32, usize),
    /// Without liveness of the primary key.
    Update(i32, i32, usize),
    UpdateList(i32, i32),
    DeleteCell(i32, i32),
    DeleteRow(i32, i32),
    DeleteRange(i32, i32),
    DeletePartition(i32),
    InsertStatic(i32),
    Flush,
    Compact,
    /// What has a TTL has expired afterwards.
    Wait,
}

fn step() -> impl Strategy<Value = Step> {
    use Step::*;
    let length = prop_oneof![Just(1usize), Just(300), Just(3000), Just(9000)];
    let row = (0..5i32, 0..9i32, length);
    prop_oneof![
        20 => row.clone().prop_map(|(k, c, length)| Insert(k, c, length)),
        1 => row.clone().prop_map(|(k, c, length)| InsertWithTtl(k, c, length)),
        3 => row.clone().prop_map(|(k, c, length)| Update(k, c, length)),
        2 => row.clone().prop_map(|(k, c, _)| UpdateList(k, c)),
        1 => row.clone().prop_map(|(k, c, _)| DeleteCell(k, c)),
        1 => row.clone().prop_map(|(k, c, _)| DeleteRow(k, c)),
        1 => row.clone().prop_map(|(k, c, _)| DeleteRange(k, c)),
        1 => row.prop_map(|(k, _, _)| DeletePartition(k)),
        1 => (0..7i32).prop_map(InsertStatic),
        4 => Just(Flush),
        2 => Just(Compact),
        1 => Just(Wait),
    ]
}

impl Node {
    fn apply(&self, step: Step) {
        let execute = |cql: String| drop(self.session.execute(&cql, ()).unwrap());
        let value = |length| format!("0x{}", "ab".repeat(length));
        match step {
            Step::Insert(k, c, length) => {
                let v = value(length);
                execute(format!("INSERT INTO wide (k, c, v) VALUES ({k}, {c}, {v})"));
                execute(format!("INSERT INTO statics (k, c, v) VALUES ({k}, {c}, {v})"));
                execute(format!("INSERT INTO narrow (k, v) VALUES ({}, {v})", 10 * k + c));
            }
            Step::InsertWithTtl(k, c, length) => {
                let v = value(length);
                execute(format!("INSERT INTO wide (k, c, v) VALUES ({k}, {c}, {v}) USING TTL 100"));
                execute(format!("INSERT INTO narrow (k, v) VALUES ({}, {v}) USING TTL 100", 10 * k + c));
            }
            Step::Update(k, c, length) => {
                let v = value(length);
                execute(format!("UPDATE wide SET v = {v} WHERE k = {k} AND c = {c}"));
                execute(format!("UPDATE statics SET v = {v} WHERE k = {k} AND c = {c}"));
                execute(format!("UPDATE narrow SET v = {v} WHERE k = {}", 10 * k + c));
            }
            Step::UpdateList(k, c) => {
                execute(format!("UPDATE wide SET l = l + [1, 2] WHERE k = {k} AND c = {c}"));
            }
            Step::DeleteCell(k, c) => execute(format!("DELETE v FROM wide WHERE k = {k} AND c = {c}")),
            Step::DeleteRow(k, c) => {
                execute(format!("DELETE FROM wide WHERE k = {k} AND c = {c}"));
                execute(format!("DELETE FROM narrow WHERE k = {}", 10 * k + c));
            }
            Step::DeleteRange(k, c) => execute(format!("DELETE FROM wide WHERE k = {k} AND c < {c}")),
            Step::DeletePartition(k) => {
                execute(format!("DELETE FROM wide WHERE k = {k}"));
                execute(format!("DELETE FROM statics WHERE k = {k}"));
            }
            Step::InsertStatic(k) => execute(format!("INSERT INTO statics (k, s) VALUES ({k}, 1)")),
            Step::Flush => self.database.engine().flush(None).unwrap(),
            Step::Compact => {
                let catalog = self.database.catalog();
                for table in ["wide", "statics", "narrow"] {
                    let id = catalog.table("ks", table).unwrap().id;
                    self.database.engine().compact(id).unwrap();
                }
            }
            Step::Wait => self.clock.advance(Duration::from_secs(200)),
        }
    }

    fn counted(&self, rest: &str) -> i64 {
        let rows = self.session.execute(&format!("SELECT count(*) FROM {rest}"), ()).unwrap();
        rows.iter().next().unwrap().get(0).unwrap()
    }
}

const SELECTED: [&str; 9] = [
    "wide",
    "wide WHERE k = 1",
    "wide WHERE k = 1 AND c > 2",
    "wide WHERE k = 1 AND c IN (1, 2, 5)",
    "wide WHERE k IN (0, 3) AND c >= 1 AND c < 7",
    "wide WHERE token(k) > 0",
    "statics",
    "statics WHERE k = 2",
    "narrow",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn rows_are_counted_as_often_as_they_are_read(steps in prop::collection::vec(step(), 1..60)) {
        let node = node();
        for (number, step) in steps.iter().enumerate() {
            node.apply(*step);
            // After each step would take most of the time.
            if number % 7 > 0 && number + 1 < steps.len() {
                continue;
            }
            for rest in SELECTED {
                let read = node.session.execute(&format!("SELECT * FROM {rest}"), ()).unwrap().len();
                prop_assert_eq!(node.counted(rest), read as i64, "{} after step {}", rest, number);
            }
        }
    }
}

#[test]
fn rows_of_partitions_in_several_chunks_are_counted() {
    let node = node();
    for k in 0..40 {
        for c in 0..k {
            let v = "cd".repeat((k * 37 + c * 11) as usize % 900);
            node.session
                .execute(&format!("INSERT INTO wide (k, c, v) VALUES ({k}, {c}, 0x{v})"), ())
                .unwrap();
        }
        node.session
            .execute(&format!("INSERT INTO narrow (k, v) VALUES ({k}, 0x{})", "ef".repeat(2500)), ())
            .unwrap();
    }
    node.database.engine().flush(None).unwrap();
    assert_eq!(node.counted("wide"), 40 * 39 / 2);
    assert_eq!(node.counted("wide WHERE k = 39"), 39);
    assert_eq!(node.counted("wide WHERE k = 39 AND c >= 5 AND c < 35"), 30);
    assert_eq!(node.counted("narrow"), 40);
}
