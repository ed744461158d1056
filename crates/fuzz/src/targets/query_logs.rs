//! Files and records of the audit log and the full query log, which `cassette querylog` and
//! `cassette lab replay` read.

use std::path::Path;
use std::sync::Arc;

use cassette_query_log::{
    AuditEntry, AuditEntryType, BatchKind, Full, Kind, Log, LoggedQuery, LoggedStatement, LoggedValue,
    LoggedValues, Options, Records, files,
};
use cassette_vfs::{FakeFileSystem, FileSystem, SystemClock};

use super::split;
use crate::Target;

pub const TARGET: Target =
    Target { name: "query_logs", run, seeds, words: &[b"CSTQLOG\n", b"\xff\xff\xff\xff"], inputs: 5000 };

const FILE: &str = "/logs/queries-0000000001-0.log";

fn run(input: &[u8]) {
    match split(input) {
        (0, record) => {
            if let Ok(entry) = AuditEntry::decode(record) {
                assert_eq!(entry.encode(), record);
                assert!(!entry.line().contains('\n'));
                drop(entry.json());
            }
        }
        (1, record) => {
            if let Ok(query) = LoggedQuery::decode(record) {
                assert_eq!(query.encode(), record);
                drop(query.json());
            }
        }
        (_, file) => read(file),
    }
}

fn read(content: &[u8]) {
    let fs = FakeFileSystem::new();
    let tree: &dyn FileSystem = &fs;
    tree.create_dir_all(Path::new("/logs")).unwrap();
    tree.write_atomically(Path::new(FILE), content).unwrap();
    assert_eq!(files(tree, Path::new("/logs")).unwrap()[0].length, content.len() as u64);
    let Ok(mut records) = Records::open(tree, Path::new(FILE)) else { return };
    let mut length = 0;
    while let Ok(Some(record)) = records.next_record() {
        length += record.len();
    }
    assert!(length <= content.len());
}

fn seeds() -> Vec<Vec<u8>> {
    let entry = AuditEntry {
        user: None,
        host: "/127.0.0.1:9042".into(),
        source: "127.0.0.1".into(),
        port: 1,
        timestamp: 2,
        entry_type: AuditEntryType::Batch,
        batch: None,
        keyspace: Some("ks".into()),
        scope: Some("t".into()),
        operation: "SELECT".into(),
    };
    let value = LoggedValue::Set(vec![1, 2, 3]);
    let query = LoggedQuery {
        started_micros: 1,
        duration_micros: 2,
        connection: 3,
        protocol_version: 5,
        consistency: 1,
        serial_consistency: Some(8),
        page_size: Some(4),
        is_next_page: true,
        timestamp: Some(5),
        now_in_seconds: Some(6),
        keyspace: None,
        batch: Some(BatchKind::Logged),
        statements: vec![
            LoggedStatement {
                query: "a".into(),
                is_prepared: true,
                values: LoggedValues::Positional(vec![value.clone(), LoggedValue::Unset]),
            },
            LoggedStatement {
                query: "b".into(),
                is_prepared: false,
                values: LoggedValues::Named(vec![("n".into(), LoggedValue::Null)]),
            },
        ],
    };
    let fs = FakeFileSystem::new();
    let options = Options::new("/logs");
    let log = Log::open(Arc::new(fs.clone()), Arc::new(SystemClock::new()), Kind::Queries, options).unwrap();
    log.push(query.encode(), Full::Wait);
    log.push(query.encode(), Full::Wait);
    log.stop();
    let file = files(&fs, Path::new("/logs")).unwrap().remove(0);
    let file = (&fs as &dyn FileSystem).read(&file.path).unwrap();
    [(0, entry.encode()), (1, query.encode()), (2, file)]
        .into_iter()
        .map(|(kind, bytes)| [vec![kind], bytes].concat())
        .collect()
}
