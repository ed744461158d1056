//! The text of statements: parsed, printed and parsed again, planned.
//!
//! ```text
//! u8 what the text is: a statement (even), a term (1), a type (3), a prepared id's statement with a fixed schema
//! UTF-8
//! ```

use cassette_cql::{parse, parse_term, parse_type};
use cassette_database::DatabaseError;

use super::split;
use crate::Target;
use crate::subjects::{KEYSPACE, with_world};

pub const TARGET: Target = Target {
    name: "cql",
    run,
    seeds,
    words: &[
        b"SELECT ",
        b"FROM ",
        b"WHERE ",
        b" AND ",
        b" IN ",
        b"(",
        b")",
        b"[",
        b"]",
        b"{",
        b"}",
        b"<",
        b">",
        b"frozen<",
        b"list<",
        b"map<",
        b"tuple<",
        b"vector<",
        b"?",
        b":m",
        b"'",
        b"\"",
        b"$$",
        b"--",
        b"/*",
        b"*/",
        b"null",
        b"NaN",
        b"1e999",
        b"0x",
        b"JSON ",
        b"CAST(",
        b" AS ",
        b" IF ",
        b" EXISTS",
        b"NOT ",
        b"USING TTL ",
        b"TIMESTAMP ",
        b" LIMIT ",
        b" GROUP BY ",
        b" ORDER BY ",
        b"ALLOW FILTERING",
        b"token(",
        b"writetime(",
        b"BEGIN ",
        b"BATCH ",
        b"APPLY BATCH",
        b"-",
        b"+",
        b"%",
        b".",
        b";",
        b"\xf0\x9f\x92\xa9",
    ],
    inputs: 6000,
};

fn run(input: &[u8]) {
    let (mode, text) = split(input);
    let text = String::from_utf8_lossy(text);
    match mode {
        1 => {
            let Ok(term) = parse_term(&text) else { return };
            let printed = term.to_string();
            let again = parse_term(&printed).unwrap_or_else(|error| panic!("{printed}: {error}"));
            assert_eq!(again.to_string(), printed);
        }
        3 => {
            let Ok(of) = parse_type(&text) else { return };
            let printed = of.to_string();
            let again = parse_type(&printed).unwrap_or_else(|error| panic!("{printed}: {error}"));
            assert_eq!(again.to_string(), printed);
        }
        _ => {
            let is_syntax = parse(&text).is_ok();
            let planned = with_world(|world| world.database.prepare(Some(KEYSPACE), &text));
            match planned {
                Ok(_) => assert!(is_syntax, "planned without having been parsed"),
                Err(error) => assert!(
                    !matches!(error, DatabaseError::Server(_) | DatabaseError::Storage { .. }),
                    "{text}: {error}"
                ),
            }
        }
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let statements = [
        "SELECT * FROM t WHERE p = 1 AND c IN (1, 2, ?) ORDER BY c ASC PER PARTITION LIMIT 1 LIMIT 10 ALLOW FILTERING",
        "SELECT JSON p, c AS \"x\", writetime(v), ttl(v), CAST(c AS text), m['a'], l[0] FROM ks.t WHERE token(p) > ?",
        "SELECT count(*), max(c), sum(-c + 2 * p) FROM t WHERE v = 'v1' GROUP BY p",
        "SELECT DISTINCT p, s FROM t WHERE (c) >= (1) AND p = 0 ALLOW FILTERING",
        "INSERT INTO t (p, c, v, l, m) VALUES (?, :c, 'it''s', [1, 2], {'a': 1}) IF NOT EXISTS USING TTL 10 AND \
         TIMESTAMP 5",
        "INSERT INTO v JSON '{\"k\": 1, \"c5\": 1.5}' DEFAULT UNSET",
        "UPDATE t USING TTL ? SET v = 'a', l = l + [1], m['x'] = 2, s = 3 WHERE p = 1 AND c = 2 IF v = 'x' AND \
         l[0] > 1",
        "UPDATE n SET n = n + 1 WHERE p = 'a' AND c = now()",
        "DELETE v, m['a'] FROM t USING TIMESTAMP 1 WHERE p = 1 AND c > 2 AND c <= 5",
        "BEGIN UNLOGGED BATCH USING TIMESTAMP 3 INSERT INTO t (p, c) VALUES (1, 2); DELETE FROM t WHERE p = 3; \
         APPLY BATCH",
        "CREATE TABLE IF NOT EXISTS a.b (k frozen<tuple<int, text>>, c vector<float, 3>, PRIMARY KEY ((k), c)) \
         WITH CLUSTERING ORDER BY (c DESC) AND comment = 'x' AND compression = {'class': 'LZ4Compressor'}",
        "CREATE MATERIALIZED VIEW w AS SELECT * FROM t WHERE p IS NOT NULL AND c IS NOT NULL AND v IS NOT NULL \
         PRIMARY KEY (v, p, c)",
        "CREATE CUSTOM INDEX i ON t (values(m)) USING 'StorageAttachedIndex' WITH OPTIONS = {'case_sensitive': \
         'false'}",
        "CREATE TYPE x (a int, b frozen<list<text>>)",
        "ALTER TABLE t ADD (x int, y map<int, frozen<set<inet>>>)",
        "ALTER KEYSPACE ks WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': '3'} AND \
         durable_writes = false",
        "CREATE FUNCTION f(a int, b text) RETURNS NULL ON NULL INPUT RETURNS int LANGUAGE java AS $$ return 1; $$",
        "GRANT SELECT PERMISSION ON KEYSPACE ks TO 'bob'",
        "DESCRIBE TABLE t",
        "TRUNCATE t",
        "USE ks",
        "SELECT c5 * 1e10 - 0x00 FROM v WHERE k = 1 AND c26 CONTAINS 'a' AND c28 CONTAINS KEY 1 AND c24 = [1.0, \
         NaN, -Infinity] ALLOW FILTERING",
        "SELECT * FROM v ORDER BY c24 ANN OF [1, 2, 3] LIMIT 2",
    ];
    let terms = [
        "[1, -2.5e10, 'a''b', {1: (2, 0xff)}, ?, :name, $$x$$, 1h30m, P1Y2M, true, null, {a: 1}, f(1, x), (int) ?]",
        "{'k': {1, 2}, 'l': []}",
        "123e4567-e89b-12d3-a456-426614174000",
        "-(1 + 2) * 3 % x",
    ];
    let types = [
        "frozen<map<text, frozen<list<tuple<int, \"Q\".u, vector<float, 12>>>>>>",
        "'org.apache.cassandra.db.marshal.Int32Type'",
    ];
    let with = |mode: u8, texts: &[&str]| -> Vec<Vec<u8>> {
        texts.iter().map(|text| [&[mode], text.as_bytes()].concat()).collect()
    };
    [with(0, &statements), with(1, &terms), with(3, &types)].concat()
}
