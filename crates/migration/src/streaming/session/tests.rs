//! Sessions with a node that behaves as specified.

use std::cell::Cell;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::JoinHandle;

use cassette_database::{Database, Options};
use cassette_rows::TableId;
use cassette_sstable::{Component, SSTableReader};
use tempfile::TempDir;
use uuid::Uuid;

use super::*;
use crate::streaming::sections::{Section, Sections};

const TABLE: Uuid = Uuid::from_u128(77);

/// What a node does.
#[derive(Clone, Copy, PartialEq)]
enum Behavior {
    /// Receives the file, and adds it to its table.
    Complete,
    /// Fails the session in the middle of the file.
    Fail,
    /// Ends without a word in the middle of the file.
    Vanish,
    /// Acknowledges the file, and ends before it adds it.
    Forget,
    /// Speaks another protocol.
    Stranger,
}

/// Listens, and returns its address, and the thread that returns the bytes of the file connection.
fn node(behavior: Behavior, length: usize) -> (SocketAddr, JoinHandle<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (address, std::thread::spawn(move || serve(&listener, behavior, length)))
}

fn accept(listener: &TcpListener, behavior: Behavior) -> TcpStream {
    let mut stream = listener.accept().unwrap().0;
    let mut initiate = [0; 8 + 7 + 4];
    stream.read_exact(&mut initiate).unwrap();
    assert_eq!(initiate[..4], [0xca, 0x55, 0x2d, 0xfa]);
    let mut hasher = crc32fast::Hasher::new();
    let versions = [0, 0, 0, 12, 0, 0, 0, 12];
    hasher.update(&[0xfa, 0x2d, 0x55, 0xca]);
    hasher.update(if behavior == Behavior::Stranger { b"HTTP/1.1" } else { &versions });
    stream.write_all(&versions).unwrap();
    stream.write_all(&hasher.finalize().to_be_bytes()).unwrap();
    stream
}

fn serve(listener: &TcpListener, behavior: Behavior, length: usize) -> Vec<u8> {
    let mut control = accept(listener, behavior);
    if behavior == Behavior::Stranger {
        return Vec::new();
    }
    // STREAM_INIT and PREPARE_SYN.
    let mut prepared = [0; 1 + 7 + 4 + 16 + 11 + 1 + 4 + 1 + 4 + 4 + 16 + 4 + 8];
    control.read_exact(&mut prepared).unwrap();
    assert_eq!((prepared[0], prepared[44]), (10, 1));
    control.write_all(&[8, 0, 0, 0, 0]).unwrap();
    let mut file = accept(listener, behavior);
    let wanted = if matches!(behavior, Behavior::Complete | Behavior::Forget) { length } else { length / 2 };
    let mut received = vec![0; wanted];
    let read = file.read_exact(&mut received);
    if read.is_err() {
        // The sender has ended the session.
        return Vec::new();
    }
    match behavior {
        Behavior::Fail => control.write_all(&[6]).unwrap(),
        Behavior::Vanish | Behavior::Stranger => {}
        Behavior::Complete | Behavior::Forget => {
            control.write_all(&[7, 3]).unwrap();
            control.write_all(TABLE.as_bytes()).unwrap();
            control.write_all(&[0; 4]).unwrap();
            if behavior == Behavior::Complete {
                control.write_all(&[5]).unwrap();
                // Both connections stay open until here.
                assert_eq!(control.read(&mut [0]).unwrap(), 0);
            }
        }
    }
    received
}

/// An SSTable of 200 partitions of 4 KB.
fn sstable(compression: &str) -> (TempDir, Database, SSTableReader) {
    let directory = TempDir::new().unwrap();
    let mut options = Options::new(directory.path());
    options.engine.background_threads = false;
    let database = Database::open(options).unwrap();
    let session = database.session();
    let run = |cql: &str| _ = session.execute(cql, ()).unwrap();
    run("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    run(&format!("CREATE TABLE ks.t (k int PRIMARY KEY, v text) WITH compression = {compression}"));
    for key in 0..200u32 {
        let value: String = (0..1000).map(|at| format!("{:04x}", (key * 7919 + at * at) & 0xffff)).collect();
        run(&format!("INSERT INTO ks.t (k, v) VALUES ({key}, '{value}')"));
    }
    let id: TableId = database.catalog().keyspace("ks").unwrap().tables["t"].id;
    let reader = database.engine().flushed_sstables(id).unwrap().remove(0);
    (directory, database, reader)
}

fn whole(reader: &SSTableReader) -> Sections {
    let section = Section { start: 0, end: reader.uncompressed_bytes() };
    Sections { sections: vec![section], keys: 200 }
}

/// Returns the bytes of the file connection, of which the ids differ in each session.
fn expected(outgoing: &Outgoing<'_>) -> Vec<u8> {
    let file = FileHeader { table: TABLE, from: ([127, 0, 0, 1], 0).into(), plan: Uuid::nil(), sequence: 0 };
    let mut bytes = Vec::new();
    outgoing.write_header(&mut bytes, &file).unwrap();
    outgoing
        .write_body(&mut |piece| {
            bytes.extend_from_slice(piece);
            Ok(())
        })
        .unwrap();
    bytes
}

/// Sends at most `pieces` pieces.
fn send_to(node: SocketAddr, outgoing: &Outgoing<'_>, pieces: usize) -> Result<(), Failure> {
    let left = Cell::new(pieces);
    let before_piece = |_| left.replace(left.get().saturating_sub(1)) > 0;
    send(outgoing, &SessionSettings { node, tls: None, table: TABLE, before_piece: &before_piece })
}

#[test]
fn a_file_arrives_as_its_headers_and_bytes_whole_and_in_sections() {
    for compression in ["{'class': 'LZ4Compressor', 'chunk_length_in_kb': '4'}", "{'enabled': 'false'}"] {
        let (_directory, _database, reader) = sstable(compression);
        let middle = Section { start: 4_100, end: 300_000 };
        let some = Sections { sections: vec![middle], keys: 70 };
        for (sections, is_whole) in [(whole(&reader), true), (whole(&reader), false), (some, false)] {
            let outgoing = Outgoing::new(&reader, &sections, is_whole).unwrap();
            let expected = expected(&outgoing);
            let (address, thread) = node(Behavior::Complete, expected.len());
            send_to(address, &outgoing, usize::MAX).unwrap();
            let received = thread.join().unwrap();
            let plan = 1 + 16 + 7..1 + 16 + 7 + 16;
            assert_eq!(received[plan.clone()][6] >> 4, 1, "a time-based UUID");
            assert_eq!(received[..plan.start], expected[..plan.start]);
            assert!(received[plan.end..] == expected[plan.end..], "{compression} {is_whole}");
        }
        let sections = whole(&reader);
        let outgoing = Outgoing::new(&reader, &sections, true).unwrap();
        let data = std::fs::read(reader.descriptor().path(Component::Data)).unwrap();
        let bytes = expected(&outgoing);
        assert!(bytes.windows(data.len()).any(|window| window == data), "Data as it is");
        assert!(outgoing.files() >= 7 && outgoing.length() > data.len() as u64);
    }
}

#[test]
fn a_node_that_fails_or_vanishes_has_not_got_the_file() {
    let (_directory, _database, reader) = sstable("{'class': 'LZ4Compressor'}");
    let sections = whole(&reader);
    let outgoing = Outgoing::new(&reader, &sections, true).unwrap();
    let length = expected(&outgoing).len();
    let run = |behavior| {
        let (address, thread) = node(behavior, length);
        let result = send_to(address, &outgoing, usize::MAX);
        thread.join().unwrap();
        result
    };
    assert!(matches!(run(Behavior::Fail), Err(Failure::Failed)));
    assert!(matches!(run(Behavior::Vanish), Err(Failure::Lost(_))));
    let forgotten = run(Behavior::Forget);
    assert!(matches!(&forgotten, Err(Failure::Lost(reason)) if reason.contains("closed")), "{forgotten:?}");
    let stranger = run(Behavior::Stranger);
    assert!(
        matches!(&stranger, Err(Failure::Rejected(reason)) if reason.contains("--storage-port")),
        "{stranger:?}"
    );
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert!(matches!(send_to(closed, &outgoing, 1), Err(Failure::Lost(_))));
}

#[test]
fn a_cancelled_session_and_a_damaged_sstable_end_before_the_file_is_complete() {
    for compression in ["{'class': 'LZ4Compressor', 'chunk_length_in_kb': '4'}", "{'enabled': 'false'}"] {
        let (_directory, _database, reader) = sstable(compression);
        let sections = whole(&reader);
        for is_whole in [true, false] {
            let outgoing = Outgoing::new(&reader, &sections, is_whole).unwrap();
            let length = expected(&outgoing).len();
            let (address, thread) = node(Behavior::Complete, length);
            assert!(matches!(send_to(address, &outgoing, 3), Err(Failure::Cancelled)));
            assert!(thread.join().unwrap().is_empty(), "incomplete");

            let path = reader.descriptor().path(Component::Data);
            let sound = std::fs::read(&path).unwrap();
            let mut damaged = sound.clone();
            damaged[sound.len() / 2] ^= 4;
            std::fs::write(&path, &damaged).unwrap();
            let (address, thread) = node(Behavior::Complete, length);
            let result = send_to(address, &outgoing, usize::MAX);
            assert!(matches!(&result, Err(Failure::Source(StorageError::Corrupt { .. }))), "{result:?}");
            assert!(thread.join().unwrap().is_empty(), "incomplete");
            std::fs::write(&path, &sound).unwrap();
        }
    }
}
