//! Time to parse the most frequent statements.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};

const STATEMENTS: &[(&str, &str)] = &[
    (
        "insert_12_literals",
        "INSERT INTO ycsb.usertable (y_id, field0, field1, field2, field3, field4, field5, field6, field7, \
         field8, field9, n) VALUES ('user6284781860667377211', 'a', 'bb', 'ccc', 'dddd', 'eeeee', 'ffffff', \
         'ggggggg', 'hhhhhhhh', 'iiiiiiiii', 'jjjjjjjjjj', 42) USING TIMESTAMP 1700000000000000",
    ),
    (
        "insert_12_markers",
        "INSERT INTO ycsb.usertable (y_id, field0, field1, field2, field3, field4, field5, field6, field7, \
         field8, field9, n) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    ),
    ("update_one", "UPDATE ycsb.usertable SET field3 = ? WHERE y_id = ?"),
    ("select_by_key", "SELECT * FROM ycsb.usertable WHERE y_id = ? LIMIT 1"),
    (
        "select_slice",
        "SELECT k, c, v, writetime(v) FROM ks.wide WHERE k = 'key' AND c > 10 AND c <= 20 ORDER BY c DESC LIMIT 100",
    ),
    (
        "create_table",
        "CREATE TABLE IF NOT EXISTS ks.t (k text, c1 int, c2 timeuuid, s map<text, frozen<list<int>>> \
         static, v text, PRIMARY KEY ((k), c1, c2)) WITH CLUSTERING ORDER BY (c1 DESC, c2 ASC) AND \
         gc_grace_seconds = 3600 AND compression = {'class': 'LZ4Compressor', 'chunk_length_in_kb': 16}",
    ),
];

fn parse(c: &mut Criterion) {
    let mut group = c.benchmark_group("parse");
    for (name, statement) in STATEMENTS {
        group.throughput(Throughput::Bytes(statement.len() as u64));
        group.bench_function(*name, |b| {
            b.iter(|| cassette_cql::parse(black_box(statement)).expect("a statement that parses"));
        });
    }
    group.finish();
}

criterion_group!(benches, parse);
criterion_main!(benches);
