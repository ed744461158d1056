//! Aggregates and filters of values of all types that are read alone give what complete rows give.
//! `count` of a clustering column is not computed from single values, so that a statement with it
//! reads complete rows; so does one in reverse order.

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

/// Columns with literals of their values.
static COLUMNS: [(&str, &[&str]); 16] = [
    ("ti", &["-128", "-1", "0", "1", "127"]),
    ("si", &["-32768", "-1", "0", "1", "32767"]),
    ("i", &["-2147483648", "-1", "0", "7", "2147483647", "blobAsInt(0x)"]),
    ("b", &["-9223372036854775808", "-1", "0", "9223372036854775807"]),
    (
        "vi",
        &["-1", "0", "340282366920938463463374607431768211456", "-340282366920938463463374607431768211457"],
    ),
    ("d", &["1.5", "1.50", "-2", "0", "0.000", "1E10", "12345678901234567890.123"]),
    ("f", &["NaN", "Infinity", "-Infinity", "-0.0", "0.0", "1.5", "3.4e38"]),
    ("x", &["NaN", "Infinity", "-Infinity", "-0.0", "0.0", "0.1", "1.7e308"]),
    ("t", &["''", "'a'", "'ab'", "'zz'"]),
    ("bo", &["true", "false"]),
    ("ts", &["0", "1700000000000", "-1"]),
    ("da", &["'2020-01-01'", "'1969-12-31'"]),
    ("tm", &["'00:00:01'", "'23:59:59.999'"]),
    ("u", &["00000001-0000-1000-8000-000000000000", "ffffffff-0000-4000-8000-000000000000"]),
    ("ip", &["'127.0.0.1'", "'::1'"]),
    ("fl", &["[]", "[1]", "[1, 2]"]),
];

fn node() -> Node {
    let (database, session, clock) = open(&[
        "CREATE TABLE types (k int, c int, e decimal, s int static, ti tinyint, si smallint, i int, b bigint, \
         vi varint, d decimal, f float, x double, t text, bo boolean, ts timestamp, da date, tm time, u uuid, \
         ip inet, fl frozen<list<int>>, l list<int>, m map<int, text>, PRIMARY KEY (k, c, e)) \
         WITH CLUSTERING ORDER BY (c DESC, e ASC) \
         AND compression = {'class': 'LZ4Compressor', 'chunk_length_in_kb': 4}",
    ]);
    Node { database, session, clock }
}

#[derive(Debug, Clone, Copy)]
enum Step {
    /// A row, with values and columns that follow from a number.
    Insert(i32, i32, u64),
    InsertWithTtl(i32, i32, u64),
    /// Without liveness of the primary key.
    Update(i32, i32, u64),
    /// Elements of collections, whose cells are between those of other columns.
    Append(i32, i32),
    /// A null, which is a deletion.
    InsertNull(i32, i32),
    DeleteRow(i32, i32),
    InsertStatic(i32),
    Flush,
    Wait,
}

fn step() -> impl Strategy<Value = Step> {
    use Step::*;
    let row = || (0..4i32, 0..12i32, any::<u64>());
    prop_oneof![
        40 => row().prop_map(|(k, c, seed)| Insert(k, c, seed)),
        1 => row().prop_map(|(k, c, seed)| InsertWithTtl(k, c, seed)),
        2 => row().prop_map(|(k, c, seed)| Update(k, c, seed)),
        4 => row().prop_map(|(k, c, _)| Append(k, c)),
        1 => row().prop_map(|(k, c, _)| InsertNull(k, c)),
        1 => row().prop_map(|(k, c, _)| DeleteRow(k, c)),
        1 => row().prop_map(|(k, ..)| InsertStatic(k)),
        3 => Just(Flush),
        1 => Just(Wait),
    ]
}

/// Returns columns and literals that follow from a number.
fn chosen(mut seed: u64) -> Vec<(&'static str, &'static str)> {
    let mut next = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize / 7 % below
    };
    // Many rows have all columns; others lack some.
    let all = next(3) > 0;
    let mut chosen = Vec::new();
    for (column, literals) in COLUMNS {
        let literal = literals[next(literals.len())];
        if all || next(2) == 0 {
            chosen.push((column, literal));
        }
    }
    chosen
}

/// The values of rows, or the error.
type Answer = Result<Vec<Vec<Option<Vec<u8>>>>, String>;

impl Node {
    fn execute(&self, cql: &str) {
        self.session.execute(cql, ()).unwrap_or_else(|error| panic!("{cql}: {error}"));
    }

    fn insert(&self, k: i32, c: i32, seed: u64, using: &str) {
        // Clusterings that are equal, with different bytes.
        let e = ["1.5", "1.50", "-2", "0"][(seed % 4) as usize];
        let (columns, values): (Vec<_>, Vec<_>) = chosen(seed).into_iter().unzip();
        let (mut names, mut literals) = (String::new(), String::new());
        columns.iter().for_each(|column| names += &format!(", {column}"));
        values.iter().for_each(|value| literals += &format!(", {value}"));
        self.execute(&format!("INSERT INTO types (k, c, e{names}) VALUES ({k}, {c}, {e}{literals}) {using}"));
    }

    fn apply(&self, step: Step) {
        match step {
            Step::Insert(k, c, seed) => self.insert(k, c, seed, ""),
            Step::InsertWithTtl(k, c, seed) => self.insert(k, c, seed, "USING TTL 100"),
            Step::Update(k, c, seed) => {
                let i = (seed >> 40) as i32;
                self.execute(&format!("UPDATE types SET i = {i} WHERE k = {k} AND c = {c} AND e = 0"));
            }
            Step::Append(k, c) => {
                let row = format!("k = {k} AND c = {c} AND e = 0");
                self.execute(&format!("UPDATE types SET l = l + [1, 4], m[1] = 'one' WHERE {row}"));
            }
            Step::InsertNull(k, c) => {
                self.execute(&format!("INSERT INTO types (k, c, e, i, t) VALUES ({k}, {c}, 0, null, 'n')"));
            }
            Step::DeleteRow(k, c) => self.execute(&format!("DELETE FROM types WHERE k = {k} AND c = {c}")),
            Step::InsertStatic(k) => self.execute(&format!("INSERT INTO types (k, s) VALUES ({k}, 1)")),
            Step::Flush => self.database.engine().flush(None).unwrap(),
            Step::Wait => self.clock.advance(Duration::from_secs(200)),
        }
    }

    /// Returns the first `count` values of each row.
    fn read(&self, cql: &str, count: usize) -> Answer {
        let rows = self.session.execute(cql, ()).map_err(|error| error.to_string())?;
        let values = rows
            .iter()
            .map(|row| (0..count).map(|index| row.bytes(index).map(<[u8]>::to_vec)).collect::<Vec<_>>());
        Ok(values.collect())
    }

    /// Compares aggregates of single values with those of complete rows.
    fn check_aggregates(&self, rest: &str) -> Result<(), TestCaseError> {
        let numbers = ["sum", "avg", "min", "max", "count"];
        let others = &numbers[2..];
        for (columns, functions) in [(&COLUMNS[..8], &numbers[..]), (&COLUMNS[8..16], others)] {
            let calls = columns.iter().flat_map(|(column, _)| {
                functions.iter().map(move |function| format!("{function}({column})"))
            });
            let mut selected = vec!["count(*)".to_owned()];
            selected.extend(calls);
            if rest.contains("GROUP BY") {
                selected.insert(0, "k, c, s, i".to_owned());
            }
            let count = selected.len() + if rest.contains("GROUP BY") { 3 } else { 0 };
            let selected = selected.join(", ");
            let single = self.read(&format!("SELECT {selected} FROM types {rest}"), count);
            let complete = self.read(&format!("SELECT {selected}, count(c) FROM types {rest}"), count);
            prop_assert_eq!(single, complete, "{} of {:?}", rest, columns);
        }
        Ok(())
    }

    fn check(&self) -> Result<(), TestCaseError> {
        for rest in ["", "WHERE k = 1", "WHERE k = 2 AND c > 3", "WHERE k IN (0, 3) AND c <= 8"] {
            self.check_aggregates(rest)?;
            self.check_aggregates(&format!("{rest} GROUP BY k"))?;
        }
        for filter in FILTERS {
            self.check_aggregates(&format!("WHERE {filter} ALLOW FILTERING"))?;
            let rest = format!("FROM types WHERE k = 1 AND {filter}");
            let skimmed = self.read(&format!("SELECT * {rest} ALLOW FILTERING"), 22);
            let reversed = self.read(&format!("SELECT * {rest} ORDER BY c ASC ALLOW FILTERING"), 22);
            let complete: Answer = reversed.map(|rows| rows.into_iter().rev().collect());
            prop_assert_eq!(skimmed, complete, "{}", filter);
        }
        Ok(())
    }
}

const FILTERS: [&str; 12] = [
    "i > 0",
    "ti IN (-128, 1)",
    "vi >= 0 AND b >= -1",
    "d = 1.5",
    "d < 1.6 AND e = 1.5",
    "f >= 0.0",
    "x > 0.0 AND x <= 1.7e308",
    "t = ''",
    "t >= 'ab' AND bo = true",
    "u < ffffffff-0000-4000-8000-000000000000",
    "da > '2000-01-01' AND l CONTAINS 4",
    "fl = [1, 2]",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 2, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn single_values_of_all_types_give_what_complete_rows_give(
        steps in prop::collection::vec(step(), 30..80),
    ) {
        let node = node();
        for (number, step) in steps.iter().enumerate() {
            node.apply(*step);
            if number % 40 == 39 || number + 1 == steps.len() {
                node.check()?;
            }
        }
    }
}

#[test]
fn filters_that_all_types_are_tested_with_are_valid_and_find_rows() {
    let node = node();
    for i in 0..160u64 {
        let (k, c) = ((i % 4) as i32, (i / 16) as i32);
        node.insert(k, c, i.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ i << 29, "");
        node.apply(Step::Append(k, c));
    }
    for filter in FILTERS {
        let found = node.read(&format!("SELECT k FROM types WHERE {filter} ALLOW FILTERING"), 1).unwrap();
        assert!(!found.is_empty(), "{filter}");
    }
    node.check().unwrap();
    node.database.engine().flush(None).unwrap();
    node.check().unwrap();
}
