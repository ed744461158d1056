//! Aggregates and filters read single values of rows where they can; here, they are compared with
//! results computed from complete rows.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cassette_vfs::ManualClock;
use proptest::prelude::*;

use super::tests::node::open;
use crate::api::database::Database;
use crate::api::embedded::Session;
use crate::basics::request::StatementOptions;

struct Node {
    database: Database,
    session: Session,
    clock: Arc<ManualClock>,
}

fn node() -> Node {
    let (database, session, clock) = open(&[
        // Chunks shorter than some rows: these are not in one.
        "CREATE TABLE wide (k int, c int, a int, l list<int>, n bigint, t text, x double, \
         PRIMARY KEY (k, c)) WITH compression = {'class': 'LZ4Compressor', 'chunk_length_in_kb': 4}",
        "CREATE TABLE statics (k int, c int, a int, n bigint, t text, x double, s int static, \
         PRIMARY KEY (k, c)) WITH CLUSTERING ORDER BY (c DESC)",
        "CREATE TABLE narrow (k int, c int, a int, n bigint, t text, x double, PRIMARY KEY ((k, c))) \
         WITH compression = {'class': 'LZ4Compressor', 'chunk_length_in_kb': 4}",
    ]);
    Node { database, session, clock }
}

const TABLES: [&str; 3] = ["wide", "statics", "narrow"];

/// A row to be written: its key, a number from which values follow, and the length of a text.
type Written = (i32, i32, i32, usize);

/// A change of the rows (k, c) of all tables.
#[derive(Debug, Clone, Copy)]
enum Step {
    Insert(Written),
    InsertWithTtl(Written),
    /// Without some columns, and with an empty text.
    InsertFew(Written),
    /// Without liveness of the primary key.
    Update(Written),
    UpdateList(Written),
    DeleteCell(Written),
    DeleteRow(Written),
    DeleteRange(Written),
    DeletePartition(Written),
    InsertStatic(Written),
    /// Values of the column before it are gone.
    DropAndAddColumn,
    Flush,
    Compact,
    /// What has a TTL has expired afterwards.
    Wait,
}

fn step() -> impl Strategy<Value = Step> {
    use Step::*;
    let length = prop_oneof![4 => Just(1usize), 2 => Just(300), 1 => Just(1500), 1 => Just(9000)];
    let row = (0..5i32, 0..9i32, -40..40i32, length);
    prop_oneof![
        20 => row.clone().prop_map(Insert),
        1 => row.clone().prop_map(InsertWithTtl),
        5 => row.clone().prop_map(InsertFew),
        3 => row.clone().prop_map(Update),
        2 => row.clone().prop_map(UpdateList),
        1 => row.clone().prop_map(DeleteCell),
        1 => row.clone().prop_map(DeleteRow),
        1 => row.clone().prop_map(DeleteRange),
        1 => row.clone().prop_map(DeletePartition),
        1 => row.prop_map(InsertStatic),
        1 => Just(DropAndAddColumn),
        5 => Just(Flush),
        1 => Just(Compact),
        1 => Just(Wait),
    ]
}

impl Node {
    fn execute(&self, cql: &str) {
        self.session.execute(cql, ()).unwrap_or_else(|error| panic!("{cql}: {error}"));
    }

    fn apply(&self, step: Step) {
        let text = |length| "t".repeat(length);
        for table in TABLES {
            let delete = |what: String| self.execute(&format!("DELETE {what}"));
            match step {
                Step::Insert((k, c, v, length)) | Step::InsertWithTtl((k, c, v, length)) => {
                    let ttl = if matches!(step, Step::InsertWithTtl(_)) { "USING TTL 100" } else { "" };
                    let (n, x, t) = (i64::from(v) << 40, f64::from(v) / 8.0, text(length));
                    self.execute(&format!(
                        "INSERT INTO {table} (k, c, a, n, t, x) VALUES ({k}, {c}, {v}, {n}, '{t}', {x}) {ttl}"
                    ));
                }
                Step::InsertFew((k, c, v, _)) if v % 2 == 0 => {
                    self.execute(&format!("INSERT INTO {table} (k, c, t) VALUES ({k}, {c}, '')"));
                }
                Step::InsertFew((k, c, v, _)) => {
                    self.execute(&format!("INSERT INTO {table} (k, c, n) VALUES ({k}, {c}, {v})"));
                }
                Step::Update((k, c, v, length)) => {
                    let t = text(length);
                    self.execute(&format!("UPDATE {table} SET a = {v}, t = '{t}' WHERE k = {k} AND c = {c}"));
                }
                Step::UpdateList((k, c, v, _)) if table == "wide" => {
                    self.execute(&format!("UPDATE wide SET l = l + [{v}, 2] WHERE k = {k} AND c = {c}"));
                }
                Step::DeleteCell((k, c, ..)) => delete(format!("a FROM {table} WHERE k = {k} AND c = {c}")),
                Step::DeleteRow((k, c, ..)) => delete(format!("FROM {table} WHERE k = {k} AND c = {c}")),
                Step::DeleteRange((k, c, ..)) if table != "narrow" => {
                    delete(format!("FROM {table} WHERE k = {k} AND c < {c}"));
                }
                Step::DeletePartition((k, ..)) if table != "narrow" => {
                    delete(format!("FROM {table} WHERE k = {k}"));
                }
                Step::InsertStatic((k, _, v, _)) if table == "statics" => {
                    self.execute(&format!("INSERT INTO statics (k, s) VALUES ({k}, {v})"));
                }
                Step::DropAndAddColumn => {
                    self.execute(&format!("ALTER TABLE {table} DROP x"));
                    self.execute(&format!("ALTER TABLE {table} ADD x double"));
                }
                Step::Compact => {
                    let id = self.database.catalog().table("ks", table).unwrap().id;
                    self.database.engine().compact(id).unwrap();
                }
                _ => {}
            }
        }
        match step {
            Step::Flush => self.database.engine().flush(None).unwrap(),
            Step::Wait => self.clock.advance(Duration::from_secs(200)),
            _ => {}
        }
    }

    /// Returns complete rows, in their order.
    fn rows(&self, rest: &str) -> Vec<Row> {
        let cql = format!("SELECT k, c, a, n, t, x FROM {rest}");
        let rows = self.session.execute(&cql, ()).unwrap_or_else(|error| panic!("{cql}: {error}"));
        let read = rows.iter().map(|row| Row {
            k: row.get(0).unwrap(),
            c: row.get(1).unwrap(),
            a: row.get(2).unwrap(),
            n: row.get(3).unwrap(),
            t: row.get(4).unwrap(),
            x: row.get(5).unwrap(),
        });
        read.collect()
    }

    fn aggregates(&self, rest: &str) -> Vec<Aggregates> {
        let group = if rest.contains("GROUP BY") { "k" } else { "count(*)" };
        let cql = format!(
            "SELECT {group}, count(*), count(t), sum(a), avg(n), min(a), max(t), sum(x), max(x) FROM {rest}"
        );
        let rows = self.session.execute(&cql, ()).unwrap_or_else(|error| panic!("{cql}: {error}"));
        let read = rows.iter().map(|row| Aggregates {
            rows: row.get(1).unwrap(),
            texts: row.get(2).unwrap(),
            sum: row.get(3).unwrap(),
            average: row.get(4).unwrap(),
            least: row.get(5).unwrap(),
            greatest_text: row.get(6).unwrap(),
            // Compared as bits: the order of additions matters.
            sum_of_doubles: row.get::<f64>(7).unwrap().to_bits(),
            greatest_double: row.get::<Option<f64>>(8).unwrap().map(f64::to_bits),
        });
        read.collect()
    }
}

#[derive(Debug, Clone, PartialEq)]
struct Row {
    k: i32,
    c: Option<i32>,
    a: Option<i32>,
    n: Option<i64>,
    t: Option<String>,
    x: Option<f64>,
}

#[derive(Debug, Clone, PartialEq)]
struct Aggregates {
    rows: i64,
    texts: i64,
    sum: i32,
    average: i64,
    least: Option<i32>,
    greatest_text: Option<String>,
    sum_of_doubles: u64,
    greatest_double: Option<u64>,
}

impl Aggregates {
    fn of(rows: &[&Row]) -> Self {
        let numbers: Vec<i64> = rows.iter().filter_map(|row| row.n).collect();
        let sum: i128 = numbers.iter().map(|n| i128::from(*n)).sum();
        let doubles = rows.iter().filter_map(|row| row.x);
        Self {
            rows: rows.len() as i64,
            texts: rows.iter().filter(|row| row.t.is_some()).count() as i64,
            sum: rows.iter().filter_map(|row| row.a).fold(0, i32::wrapping_add),
            average: if numbers.is_empty() { 0 } else { (sum / numbers.len() as i128) as i64 },
            least: rows.iter().filter_map(|row| row.a).min(),
            greatest_text: rows.iter().filter_map(|row| row.t.clone()).max(),
            // All of them are exact.
            sum_of_doubles: (doubles.clone().sum::<f64>() + 0.0).to_bits(),
            greatest_double: doubles.max_by(f64::total_cmp).map(f64::to_bits),
        }
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

/// A filter, and what it means.
type Filter = (&'static str, fn(&Row) -> bool);

const FILTERS: [Filter; 6] = [
    ("a > 0", |row| row.a.is_some_and(|a| a > 0)),
    ("a = 7", |row| row.a == Some(7)),
    ("t = ''", |row| row.t.as_deref() == Some("")),
    ("n < 0 AND x >= -2", |row| row.n.is_some_and(|n| n < 0) && row.x.is_some_and(|x| x >= -2.0)),
    ("a IN (1, 2, 3, -4)", |row| row.a.is_some_and(|a| [1, 2, 3, -4].contains(&a))),
    ("x < 1 AND c > 3", |row| row.x.is_some_and(|x| x < 1.0) && row.c.is_some_and(|c| c > 3)),
];

impl Node {
    fn check(&self) -> Result<(), TestCaseError> {
        for rest in SELECTED {
            let all = self.rows(rest);
            // A partition with a static row alone is a row of SELECT, too, which is not filtered.
            let rows: Vec<&Row> = all.iter().collect();
            prop_assert_eq!(self.aggregates(rest), vec![Aggregates::of(&rows)], "{}", rest);
            for (filter, is_match) in FILTERS {
                let and = if rest.contains("WHERE") { "AND" } else { "WHERE" };
                if rest.contains("AND c") && filter.contains("c > ") {
                    continue;
                }
                let filtered = format!("{rest} {and} {filter} ALLOW FILTERING");
                let matching: Vec<&Row> = all.iter().filter(|row| is_match(row)).collect();
                let found = self.rows(&filtered);
                prop_assert_eq!(found.iter().collect::<Vec<_>>(), matching.clone(), "{}", &filtered);
                prop_assert_eq!(self.aggregates(&filtered), vec![Aggregates::of(&matching)], "{}", &filtered);
            }
            if rest.starts_with("narrow") {
                continue;
            }
            let mut groups: Vec<(i32, Vec<&Row>)> = Vec::new();
            for row in &all {
                match groups.last_mut() {
                    Some((k, rows)) if *k == row.k => rows.push(row),
                    _ => groups.push((row.k, vec![row])),
                }
            }
            let expected: Vec<Aggregates> = groups.iter().map(|(_, rows)| Aggregates::of(rows)).collect();
            prop_assert_eq!(self.aggregates(&format!("{rest} GROUP BY k")), expected, "{} by group", rest);
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn skimmed_values_are_those_of_complete_rows(steps in prop::collection::vec(step(), 20..60)) {
        let node = node();
        for (number, step) in steps.iter().enumerate() {
            node.apply(*step);
            // After each step would take most of the time.
            if number % 19 == 18 || number + 1 == steps.len() {
                node.check()?;
            }
        }
    }
}

#[test]
fn groups_of_partitions_are_paged_and_limited() {
    let node = node();
    let mut expected = BTreeMap::new();
    for k in 0..30 {
        for c in 0..=k {
            node.execute(&format!(
                "INSERT INTO wide (k, c, a, t) VALUES ({k}, {c}, {c}, '{}')",
                "x".repeat(200)
            ));
        }
        expected.insert(k, (i64::from(k) + 1, k * (k + 1) / 2));
    }
    node.database.engine().flush(None).unwrap();
    for page_size in [1, 3, 7, 30, 31] {
        let options = StatementOptions { page_size: Some(page_size), ..StatementOptions::default() };
        let cql = "SELECT k, count(*), sum(a) FROM wide GROUP BY k";
        let rows = node.session.query_iter_with(cql, (), &options).unwrap();
        let found: BTreeMap<i32, (i64, i32)> = rows
            .map(|row| row.unwrap())
            .map(|row| (row.get(0).unwrap(), (row.get(1).unwrap(), row.get(2).unwrap())))
            .collect();
        assert_eq!(found, expected, "pages of {page_size}");
    }
    let counted = node.session.execute("SELECT k, count(*) FROM wide GROUP BY k LIMIT 4", ()).unwrap();
    assert_eq!(counted.len(), 4);
    for row in counted.iter() {
        let k: i32 = row.get(0).unwrap();
        assert_eq!(row.get::<i64>(1).unwrap(), expected[&k].0);
    }
}

#[test]
fn an_aggregate_that_fails_fails_the_statement() {
    let node = node();
    node.execute("CREATE TABLE sums (k int PRIMARY KEY, d decimal)");
    node.execute("INSERT INTO sums (k, d) VALUES (1, 1E40000)");
    node.execute("INSERT INTO sums (k, d) VALUES (2, 1E-40000)");
    let read = || node.session.execute("SELECT sum(d) FROM sums", ()).unwrap_err().to_string();
    let in_memtable = read();
    node.database.engine().flush(None).unwrap();
    assert_eq!(read(), in_memtable);
}
