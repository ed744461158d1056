//! The time that a request spends for the audit log and the full query log: building, encoding and
//! queueing a record. The thread of the log writes to files meanwhile.

use std::hint::black_box;
use std::sync::Arc;

use cassette_query_log::{
    AuditEntry, AuditEntryType, Full, Kind, Log, LoggedQuery, LoggedStatement, LoggedValue, LoggedValues,
    Options,
};
use cassette_vfs::{RealFileSystem, SystemClock};
use criterion::{Criterion, criterion_group, criterion_main};

const QUERY: &str = "SELECT v FROM ks.t WHERE k = ? AND c > ? LIMIT 10";

fn entry() -> AuditEntry {
    AuditEntry {
        user: Some("cassandra".to_owned()),
        host: format!("/{}:{}", "127.0.0.1", 9042),
        source: "127.0.0.1".to_owned(),
        port: 59_116,
        timestamp: 1_795_443_842_076,
        entry_type: AuditEntryType::Select,
        batch: None,
        keyspace: Some("ks".to_owned()),
        scope: Some("t".to_owned()),
        operation: QUERY.to_owned(),
    }
}

fn query() -> LoggedQuery {
    LoggedQuery {
        started_micros: 1_795_443_842_076_123,
        duration_micros: 100,
        connection: 1,
        protocol_version: 5,
        consistency: 1,
        serial_consistency: None,
        page_size: Some(5000),
        is_next_page: false,
        timestamp: Some(1_795_443_842_076_123),
        now_in_seconds: None,
        keyspace: Some("ks".to_owned()),
        batch: None,
        statements: vec![LoggedStatement {
            query: QUERY.to_owned(),
            is_prepared: true,
            values: LoggedValues::Positional(vec![
                LoggedValue::Set(vec![0; 4]),
                LoggedValue::Set(vec![0; 100]),
            ]),
        }],
    }
}

fn records(criterion: &mut Criterion) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let open = |kind| {
        let options = Options { max_log_size: 256 << 20, ..Options::new(directory.path()) };
        Log::open(Arc::new(RealFileSystem), Arc::new(SystemClock::new()), kind, options).expect("a log")
    };
    let (audit, queries) = (open(Kind::Audit), open(Kind::Queries));
    let mut group = criterion.benchmark_group("record");
    group.bench_function("audit entry", |b| {
        b.iter(|| black_box(audit.push(black_box(entry()).encode(), Full::Wait)));
    });
    group.bench_function("query with two values", |b| {
        b.iter(|| black_box(queries.push(black_box(query()).encode(), Full::Wait)));
    });
    group.finish();
}

criterion_group!(benches, records);
criterion_main!(benches);
