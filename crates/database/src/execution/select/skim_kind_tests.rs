//! Statements on tables of all kinds answer from an SSTable whose rows are skimmed what they answer
//! from one with a deletion, of which all rows are decoded.

use std::sync::Arc;

use cassette_vfs::{FakeFileSystem, ManualClock};

use crate::api::database::{Database, Options};
use crate::api::embedded::Session;
use crate::basics::request::StatementOptions;

struct Node {
    database: Database,
    session: Session,
}

const SCHEMA: [&str; 16] = [
    "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "USE ks",
    "CREATE TYPE point (x int, y text)",
    "CREATE TABLE statics (k int, c int, s int static, i int, t text, fl frozen<list<int>>, fm frozen<map<int, \
     text>>, u frozen<point>, p tuple<int, text>, l list<int>, m map<int, text>, w point, PRIMARY KEY (k, c))",
    "CREATE TABLE wide (k int, c int, i int, t text, fl frozen<list<int>>, fm frozen<map<int, text>>, u \
     frozen<point>, p tuple<int, text>, l list<int>, m map<int, text>, w point, PRIMARY KEY (k, c)) WITH \
     CLUSTERING ORDER BY (c DESC)",
    "CREATE TABLE narrow (k int, c int, i int, t text, fl frozen<list<int>>, fm frozen<map<int, text>>, u \
     frozen<point>, p tuple<int, text>, l list<int>, m map<int, text>, w point, PRIMARY KEY ((k, c)))",
    "CREATE TABLE counters (k int, c int, n counter, PRIMARY KEY (k, c))",
    "CREATE TABLE dense (k int, c int, i int, PRIMARY KEY (k, c)) WITH COMPACT STORAGE",
    "CREATE TABLE sparse (k int PRIMARY KEY, i int, t text) WITH COMPACT STORAGE",
    "CREATE TABLE masked (k int PRIMARY KEY, i int MASKED WITH DEFAULT, n int)",
    "CREATE TABLE indexed (k int, c int, i int, n int, PRIMARY KEY (k, c))",
    "CREATE INDEX ON indexed (i)",
    "CREATE TABLE base (k int PRIMARY KEY, i int, n int)",
    "CREATE MATERIALIZED VIEW by_i AS SELECT * FROM base WHERE i IS NOT NULL AND k IS NOT NULL PRIMARY KEY (i, k)",
    "CREATE FUNCTION plus(s int, a int) CALLED ON NULL INPUT RETURNS int LANGUAGE lua AS 'return (s or 0) + (a \
     or 100)'",
    "CREATE AGGREGATE total(int) SFUNC plus STYPE int INITCOND 1",
];

/// Opens a node with flushed tables, which have a deletion each if `deletes`.
fn node(deletes: bool) -> Node {
    let mut options = Options {
        file_system: Arc::new(FakeFileSystem::new()),
        clock: Arc::new(ManualClock::at_micros(1_700_000_000_000_000)),
        materialized_views_enabled: true,
        dynamic_data_masking_enabled: true,
        ..Options::new("/data")
    };
    options.functions.enabled = true;
    options.engine.commitlog_sync = cassette_engine::commitlog::SyncMode::Batch;
    options.engine.background_threads = false;
    let database = Database::open(options).unwrap();
    let node = Node { session: database.session(), database };
    SCHEMA.iter().for_each(|statement| node.execute(statement));
    for (k, c) in (0..12).flat_map(|k| (0..=k).map(move |c| (k, c))) {
        node.insert(k, c);
    }
    node.execute("UPDATE statics SET s = 2 WHERE k IN (2, 3, 5, 8)");
    node.execute("UPDATE statics SET s = 3 WHERE k = 100");
    if deletes {
        for table in ["statics", "wide", "counters", "dense", "sparse", "masked", "indexed", "base"] {
            node.execute(&format!("DELETE FROM {table} WHERE k = 999"));
        }
        node.execute("DELETE FROM narrow WHERE k = 999 AND c = 999");
    }
    node.database.engine().flush(None).unwrap();
    node
}

impl Node {
    fn execute(&self, cql: &str) {
        self.session.execute(cql, ()).unwrap_or_else(|error| panic!("{cql}: {error}"));
    }

    /// Inserts rows without a null or a whole collection that is not frozen: those are deletions.
    fn insert(&self, k: i32, c: i32) {
        let i = (7 * k + c) % 10;
        let t = ["", "a", "b", "long"][(i % 4) as usize].repeat(1 + 40 * (k as usize % 3));
        for table in ["statics", "wide", "narrow"] {
            if (k + c) % 4 == 0 {
                self.execute(&format!("INSERT INTO {table} (k, c, t) VALUES ({k}, {c}, '{t}')"));
            } else {
                self.execute(&format!(
                    "INSERT INTO {table} (k, c, i, t, fl, fm, u, p) VALUES ({k}, {c}, {i}, '{t}', [{i}, {c}], {{{i}: \
                     'm{c}'}}, {{x: {i}, y: 'a'}}, ({i}, 'p'))"
                ));
            }
            if c % 3 == 0 {
                self.execute(&format!(
                    "UPDATE {table} SET l = l + [{i}, 2], m[{c}] = 'm', w.x = {i} WHERE k = {k} AND c = {c}"
                ));
            }
            if c % 5 == 4 {
                self.execute(&format!("UPDATE {table} SET i = 1 WHERE k = {} AND c = {c}", k + 50));
            }
        }
        self.execute(&format!("UPDATE counters SET n = n + {i} WHERE k = {k} AND c = {c}"));
        self.execute(&format!("INSERT INTO dense (k, c, i) VALUES ({k}, {c}, {i})"));
        self.execute(&format!("INSERT INTO sparse (k, i, t) VALUES ({}, {i}, '{t}')", 20 * k + c));
        self.execute(&format!("INSERT INTO masked (k, i, n) VALUES ({}, {i}, {c})", 20 * k + c));
        self.execute(&format!("INSERT INTO indexed (k, c, i, n) VALUES ({k}, {c}, {i}, {c})"));
        self.execute(&format!("INSERT INTO base (k, i, n) VALUES ({}, {i}, {c})", 20 * k + c));
    }

    /// Returns the values of all rows, read in pages if a size is specified.
    fn read(&self, cql: &str, page_size: Option<i32>) -> Vec<Vec<Option<Vec<u8>>>> {
        let options = StatementOptions { page_size, ..StatementOptions::default() };
        let rows = self.session.query_iter_with(cql, (), &options);
        let rows = rows.unwrap_or_else(|error| panic!("{cql}: {error}"));
        let values = rows.map(|row| {
            let row = row.unwrap_or_else(|error| panic!("{cql}: {error}"));
            let row = row.as_row();
            (0..row.columns().len()).map(|index| row.bytes(index).map(<[u8]>::to_vec)).collect()
        });
        values.collect()
    }
}

/// Filters of [`ROWS`].
const FILTERS: [&str; 13] = [
    "i > 3",
    "i IN (1, 3)",
    "t = ''",
    "t >= 'a' AND i < 8",
    "fl CONTAINS 2",
    "fl = [3, 1]",
    "fm CONTAINS KEY 3 AND fm CONTAINS 'm1'",
    "u = {x: 3, y: 'a'}",
    "p = (3, 'p')",
    "l CONTAINS 2 AND i >= 0",
    "m[3] = 'm' AND t = 'a'",
    "c > 2 AND i < 9",
    "i = 1000",
];

/// Tables with the same columns.
const ROWS: [&str; 3] = ["statics", "wide", "narrow"];

const SELECTED: [&str; 11] = [
    "*",
    "k, i, fl",
    "count(*)",
    "count(*), sum(i), avg(i), max(t), min(fl), max(u), count(p), max(fm)",
    "sum(i), count(*), sum(i), count(l), count(w), max(c)",
    "total(i)",
    "k, total(i), count(*)",
    "k, sum(i), max(t)",
    "max(writetime(i)), min(ttl(t)), count(i)",
    "JSON count(*), max(i)",
    "cast(count(*) AS text)",
];

const OTHERS: [&str; 36] = [
    "SELECT DISTINCT k, s FROM statics",
    "SELECT DISTINCT k, s FROM statics WHERE s > 2 ALLOW FILTERING",
    "SELECT * FROM statics WHERE s = 2 AND i > 3 ALLOW FILTERING",
    "SELECT count(*), sum(i) FROM statics WHERE s = 2 ALLOW FILTERING",
    "SELECT count(s), max(s) FROM statics",
    "SELECT k, s, count(*), sum(i) FROM statics GROUP BY k",
    "SELECT k, s, count(*), sum(i) FROM statics WHERE i > 3 GROUP BY k ALLOW FILTERING",
    "SELECT k, count(*), total(i) FROM wide GROUP BY k",
    "SELECT k, count(*) FROM wide GROUP BY k LIMIT 5",
    "SELECT k, c, count(*), sum(i) FROM wide GROUP BY k, c PER PARTITION LIMIT 2",
    "SELECT k, i, sum(i) FROM wide GROUP BY k PER PARTITION LIMIT 1 LIMIT 7",
    "SELECT * FROM wide WHERE i > 3 PER PARTITION LIMIT 2 LIMIT 9 ALLOW FILTERING",
    "SELECT * FROM wide WHERE k = 9 AND c > 1 AND c < 7 AND i > 3 ALLOW FILTERING",
    "SELECT sum(i), count(*) FROM wide WHERE k IN (3, 9) AND c > 1",
    "SELECT sum(i) FROM wide WHERE k = 9 AND c IN (1, 4, 7)",
    "SELECT sum(i) FROM wide WHERE token(k) > 0 AND i > 2 ALLOW FILTERING",
    "SELECT sum(i) FROM wide WHERE k = 9 AND c > 2 ORDER BY c ASC",
    "SELECT * FROM wide WHERE k = 9 AND i > 2 ORDER BY c ASC ALLOW FILTERING",
    "SELECT count(*), sum(n), max(n), avg(n) FROM counters",
    "SELECT * FROM counters WHERE n > 3 ALLOW FILTERING",
    "SELECT k, sum(n) FROM counters GROUP BY k",
    "SELECT count(*), sum(i), max(i) FROM dense",
    "SELECT * FROM dense WHERE i > 3 ALLOW FILTERING",
    "SELECT k, count(*), sum(i) FROM dense GROUP BY k",
    "SELECT count(*), sum(i), max(t) FROM sparse",
    "SELECT * FROM sparse WHERE i > 3 AND t >= 'a' ALLOW FILTERING",
    "SELECT count(*), max(i), sum(n) FROM masked",
    "SELECT * FROM masked WHERE n > 3 ALLOW FILTERING",
    "SELECT * FROM masked WHERE i > 3 ALLOW FILTERING",
    "SELECT * FROM indexed WHERE i = 3",
    "SELECT * FROM indexed WHERE i = 3 AND n > 1 ALLOW FILTERING",
    "SELECT count(*), sum(n), max(i) FROM indexed WHERE i = 3",
    "SELECT k, count(*), sum(n) FROM indexed WHERE i = 3 GROUP BY k",
    "SELECT * FROM by_i WHERE n > 3 ALLOW FILTERING",
    "SELECT count(*), sum(n) FROM by_i",
    "SELECT i, count(*), sum(n) FROM by_i GROUP BY i",
];

#[test]
fn skimmed_tables_of_all_kinds_answer_as_decoded_ones() {
    let (skimmed, decoded) = (node(false), node(true));
    let mut statements: Vec<String> = OTHERS.iter().map(|&statement| statement.to_owned()).collect();
    for (table, selected) in ROWS.iter().flat_map(|table| SELECTED.map(|selected| (table, selected))) {
        statements.push(format!("SELECT {selected} FROM {table}"));
        for filter in FILTERS {
            statements.push(format!("SELECT {selected} FROM {table} WHERE {filter} ALLOW FILTERING"));
        }
    }
    let (mut rows, mut empty) = (0, 0);
    for statement in &statements {
        let expected = decoded.read(statement, None);
        assert_eq!(skimmed.read(statement, None), expected, "{statement}");
        rows += expected.len();
        empty += usize::from(expected.is_empty());
    }
    let filtered = ROWS.iter().flat_map(|table| {
        FILTERS.map(|filter| format!("SELECT * FROM {table} WHERE {filter} ALLOW FILTERING"))
    });
    for statement in OTHERS.iter().map(|&statement| statement.to_owned()).chain(filtered) {
        let expected = decoded.read(&statement, None);
        for page_size in [1, 2, 5] {
            let paged = skimmed.read(&statement, Some(page_size));
            assert_eq!(paged, expected, "{statement} in pages of {page_size}");
        }
    }
    assert!(rows > 1_000, "{rows} rows");
    // Those of `i = 1000`.
    assert_eq!(empty, 6);
}

#[test]
fn rows_beside_those_of_a_memtable_are_skimmed_with_the_right_ones() {
    let (skimmed, decoded) = (node(false), node(true));
    for node in [&skimmed, &decoded] {
        for k in [2, 7, 30, 31] {
            for table in ROWS {
                node.execute(&format!("INSERT INTO {table} (k, c, i) VALUES ({k}, 1, 5)"));
            }
        }
        node.execute("DELETE FROM wide WHERE k = 4");
        node.execute("DELETE FROM narrow WHERE k = 6 AND c = 2");
        node.execute("DELETE i FROM narrow WHERE k = 6 AND c = 3");
    }
    for table in ROWS {
        for selected in ["count(*)", "sum(i), count(*), max(t)", "*"] {
            for rest in ["", "WHERE i > 3 ALLOW FILTERING", "WHERE t = '' ALLOW FILTERING"] {
                let statement = format!("SELECT {selected} FROM {table} {rest}");
                assert_eq!(skimmed.read(&statement, None), decoded.read(&statement, None), "{statement}");
            }
        }
    }
}
