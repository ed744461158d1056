//! Flushes, compactions, and the commit log.

use std::hint::black_box;
use std::sync::Arc;

use cassette_engine::Engine;
use cassette_engine::commitlog::{CommitLog, CommitLogOptions, Record, TableVersion};
use cassette_sstable::compression::{Compressor, Workspace};
use cassette_vfs::{ManualClock, RealFileSystem};

use super::data::{records, text_of};
use super::node::{self, Node};
use super::{Case, case};
use crate::meter::{Counted, Meter};

pub const CASES: &[Case] = &[
    case("flush_row", 4_000, flush),
    case("compact_row", 4_000, compact),
    case("append_to_log", 8_000, append_to_log),
    case("replay_mutation", 4_000, replay),
    case("compress_chunk", 200, compress_chunk),
    case("decompress_chunk", 500, decompress_chunk),
];

/// The default length of chunks, bytes.
const CHUNK_LENGTH: usize = 16 << 10;

fn flush(meter: Meter) -> Counted {
    let node = Node::new();
    node.create_usertable("");
    node.load(meter.operations());
    let counted = meter.together(|| node.flush("usertable"));
    assert_eq!(node.sstables("usertable"), 1);
    counted
}

/// Four SSTables become one. A row is an input row; every fourth is also in the next SSTable.
fn compact(meter: Meter) -> Counted {
    let node = Node::new();
    node.create_usertable("");
    let insert = node.insert_record();
    let rows = meter.operations() / 4;
    for sstable in 0..4 {
        for record in records(sstable * (rows - rows / 4), rows) {
            node.execute(&insert, &record.values());
        }
        node.flush("usertable");
    }
    assert_eq!(node.sstables("usertable"), 4);
    let counted = meter.together(|| node.compact("usertable"));
    assert_eq!(node.sstables("usertable"), 1);
    counted
}

/// 1 KiB for one table.
struct LogRecord([u8; 1024]);

impl Record for LogRecord {
    fn tables(&self) -> &[TableVersion] {
        &[TableVersion { table: 1, schema: 1 }]
    }

    fn encode_dictionary(&self, _: TableVersion, out: &mut Vec<u8>) {
        out.extend_from_slice(b"columns");
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0);
    }

    fn size_hint(&self) -> usize {
        self.0.len()
    }
}

fn append_to_log(meter: Meter) -> Counted {
    let directory = tempfile::tempdir().expect("a directory");
    let options = CommitLogOptions { threads: false, ..CommitLogOptions::default() };
    let clock = Arc::new(ManualClock::at_micros(1));
    let opened = CommitLog::open(Arc::new(RealFileSystem), clock, directory.path(), options, &mut |_| Ok(()));
    let (log, _) = opened.expect("a log");
    let record = LogRecord([0xa5; 1024]);
    let append = |_| _ = black_box(log.append(black_box(&record)).expect("a position"));
    (0..100).for_each(append);
    meter.each(append)
}

/// Applies the logged inserts of a table at the start. Segments are small, because their reserved
/// rest is read, too.
fn replay(meter: Meter) -> Counted {
    const SEGMENT_SIZE: u32 = 1 << 20;
    let node = Node::with(|options| options.engine.commitlog_segment_size = SEGMENT_SIZE);
    node.create_usertable("");
    node.load(meter.operations());
    let table = node.table("usertable");
    let directory = node.into_directory();
    let mut options = node::options(&directory);
    options.engine.commitlog_segment_size = SEGMENT_SIZE;
    let engine = Engine::open(options.engine, options.file_system, options.clock).expect("an engine");
    // Its other tables are absent, and keep their files.
    engine.mark_schema_incomplete();
    engine.create_table(table.clone()).expect("a table");
    let counted = meter.together(|| _ = black_box(engine.replay().expect("a log")));
    engine.finish_recovery().expect("an open engine");
    engine.flush(Some(table.id)).expect("a flush");
    assert_eq!(engine.sstables(table.id).expect("the SSTables").len(), 1);
    counted
}

fn compress_chunk(meter: Meter) -> Counted {
    let plain = text_of(1, CHUNK_LENGTH);
    let (compressor, mut workspace) = (Compressor::Lz4 { high: None }, Workspace::default());
    let mut stored = Vec::with_capacity(2 * CHUNK_LENGTH);
    meter.each(|_| {
        stored.clear();
        compressor.compress(black_box(plain.as_bytes()), &mut workspace, &mut stored).expect("a chunk");
    })
}

fn decompress_chunk(meter: Meter) -> Counted {
    let plain = text_of(1, CHUNK_LENGTH);
    let (compressor, mut workspace) = (Compressor::Lz4 { high: None }, Workspace::default());
    let mut stored = Vec::new();
    compressor.compress(plain.as_bytes(), &mut workspace, &mut stored).expect("a chunk");
    let mut decompressed = vec![0; CHUNK_LENGTH];
    let counted = meter.each(|_| {
        compressor.decompress(black_box(&stored), &mut decompressed).expect("a chunk");
    });
    assert_eq!(decompressed, plain.as_bytes());
    counted
}
