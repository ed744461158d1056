//! An SSTable is the same whether one thread writes it or a second one compresses and writes its
//! Data, and errors have the same effect.

use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::support::random_table::tables;
use crate::support::{model, write};
use bytes::Bytes;
use cassette_rows::schema::{CompressionParams, Compressor};
use cassette_rows::{
    Clustering, DecoratedKey, DeletionTime, LivenessInfo, PartitionUpdate, Result, RowBuilder, Selection,
    StorageError, TableMetadata,
};
use cassette_sstable::compression::ChunkFormat;
use cassette_sstable::{
    ChunkCache, Component, Descriptor, OpenOptions, SSTableId, SSTableReader, SSTableWriter, WriterOptions,
};
use cassette_vfs::{FakeFileSystem, FileSystem, Operation, OperationKind};

const WAYS: [bool; 2] = [false, true];

fn descriptor() -> Descriptor {
    Descriptor::new("/data", SSTableId::Sequence(1))
}

/// With a key of an `int` and a `v text`.
fn table() -> Arc<TableMetadata> {
    tables()[0].table.clone()
}

/// 4 MiB: rows of 1 KB, some of them compressible; deleted partitions; one row that is larger than
/// a piece.
fn partitions() -> Vec<PartitionUpdate> {
    let v = table().column("v").unwrap().id;
    let mut random = model::random(3);
    let mut partitions: Vec<_> = (0..2600)
        .map(|k: i32| {
            let mut update =
                PartitionUpdate::new(DecoratedKey::new(Bytes::copy_from_slice(&k.to_be_bytes())));
            if k % 50 == 0 {
                update.deletion = DeletionTime::new(5, 1_700_000_000);
            }
            let length = if k == 1300 { 1_500_000 } else { 1000 };
            let value: Vec<u8> = match k % 3 {
                0 => vec![b'a'; length],
                _ => (0..length).map(|_| b' ' + (random() % 64) as u8).collect(),
            };
            let mut row = RowBuilder::new(Clustering::empty());
            row.liveness(LivenessInfo::new(10)).live_cell(v, &value, 10);
            update.rows.push(row.finish());
            update
        })
        .collect();
    partitions.sort_by(|a, b| a.key.cmp(&b.key));
    partitions
}

fn disk() -> Arc<FakeFileSystem> {
    let files = Arc::new(FakeFileSystem::new());
    files.create_dir_all(&descriptor().directory).unwrap();
    files
}

fn files_of(disk: &FakeFileSystem) -> Vec<(String, Vec<u8>)> {
    let names = disk.read_dir(&descriptor().directory).unwrap().into_iter().map(|entry| entry.name);
    let content = |name: &String| (disk as &dyn FileSystem).read(&descriptor().directory.join(name)).unwrap();
    names.map(|name| (name.clone(), content(&name))).collect()
}

fn is_of_data(operation: &Operation, kind: OperationKind) -> bool {
    operation.kind == kind && operation.path.ends_with("nb-1-big-Data.db")
}

/// Returns whether this is the second thread.
fn is_beside() -> bool {
    std::thread::current().name() == Some("data-writer")
}

/// Writes with failures at the operations that `fails` selects; returns the result.
fn failing(
    partitions: &[PartitionUpdate],
    pipelined: bool,
    mut fails: impl FnMut(&Operation) -> bool + Send + 'static,
) -> (Arc<FakeFileSystem>, Result<()>) {
    let disk = disk();
    disk.fail_when(move |operation| fails(operation).then_some(ErrorKind::Other));
    let written = write(disk.clone(), &descriptor(), &table(), partitions, |options| WriterOptions {
        pipelined,
        ..options
    });
    (disk, written.map(drop))
}

#[test]
fn both_ways_give_the_same_bytes() {
    let partitions = partitions();
    let params = |compressor, chunk_length, min_compress_ratio| CompressionParams {
        compressor: Some(compressor),
        chunk_length,
        min_compress_ratio,
        ..CompressionParams::default()
    };
    let formats = [
        Some(params(Compressor::Lz4, 16 << 10, Some(8.0 / 7.0))),
        Some(params(Compressor::Lz4, 4 << 10, None)),
        Some(params(Compressor::Snappy, 1 << 20, None)),
        None,
    ];
    for format in formats {
        let format = format.and_then(|params| ChunkFormat::from_params(&params).unwrap());
        let [one, two] = WAYS.map(|pipelined| {
            let disk = disk();
            let (beside, seen) = std::sync::mpsc::channel();
            disk.fail_when(move |operation| {
                if is_of_data(operation, OperationKind::Write) && is_beside() {
                    beside.send(()).unwrap();
                }
                None
            });
            let change = |options| WriterOptions { compression: format.clone(), pipelined, ..options };
            let finished =
                write(disk.clone(), &descriptor(), &table(), &partitions, change).unwrap().unwrap();
            // The test would be void if the second thread were not used.
            assert_eq!(seen.try_iter().count() > 0, pipelined);
            let cache = Arc::new(ChunkCache::new(1 << 20));
            let reader =
                SSTableReader::open(disk.clone(), descriptor(), table(), cache, OpenOptions::default())
                    .unwrap();
            reader.verify().unwrap();
            (files_of(&disk), finished.bytes_on_disk, finished.data_bytes_on_disk, finished.partitions)
        });
        assert_eq!(one.0.len(), two.0.len());
        for ((name, bytes), (other, same)) in one.0.iter().zip(&two.0) {
            assert_eq!(name, other);
            assert!(bytes == same, "{name} with {format:?}");
        }
        assert_eq!((one.1, one.2, one.3), (two.1, two.2, two.3));
    }
}

#[test]
fn what_is_small_is_written_without_a_second_thread() {
    let (disk, written) = failing(&partitions()[..500], true, |_| is_beside());
    written.unwrap();
    assert!(!files_of(&disk).is_empty());
}

#[test]
fn any_write_that_fails_fails_the_whole_and_leaves_nothing() {
    let partitions = partitions();
    for pipelined in WAYS {
        let (mut at, mut failures) = (0, 0);
        loop {
            let mut seen = 0;
            let (disk, written) = failing(&partitions, pipelined, move |operation| {
                let counts =
                    is_of_data(operation, OperationKind::Write) || is_of_data(operation, OperationKind::Sync);
                seen += usize::from(counts);
                counts && seen == at + 1
            });
            let Err(error) = written else { break };
            let StorageError::Io { path, .. } = &error else { panic!("{error}") };
            assert_eq!(*path, descriptor().path(Component::Data), "{error}");
            assert_eq!(files_of(&disk), [], "{error}");
            (at, failures) = (at + 1, failures + 1);
        }
        assert!(failures > 10, "{failures} writes");
    }
}

#[test]
fn a_full_disk_is_told_as_what_it_is() {
    let partitions = partitions();
    for pipelined in WAYS {
        let disk = disk();
        disk.set_capacity(2 << 20);
        let change = |options| WriterOptions { pipelined, ..options };
        let error = write(disk.clone(), &descriptor(), &table(), &partitions, change).unwrap_err();
        let StorageError::Io { source, .. } = &error else { panic!("{error}") };
        assert_eq!(source.kind(), ErrorKind::StorageFull, "{error}");
        assert_eq!(files_of(&disk), []);
    }
}

#[test]
fn a_writer_dropped_at_any_time_leaves_nothing() {
    let partitions = partitions();
    for pipelined in WAYS {
        for written in (0..partitions.len()).step_by(200) {
            let disk = disk();
            let options =
                WriterOptions { pipelined, ..WriterOptions::new(&table(), partitions.len() as u64).unwrap() };
            let mut writer = SSTableWriter::create(disk.clone(), descriptor(), table(), options).unwrap();
            for partition in &partitions[..written] {
                writer.write_all(&mut partition.clone().into_stream(table(), &Selection::all())).unwrap();
            }
            drop(writer);
            assert_eq!(files_of(&disk), [], "{written} partitions");
        }
    }
}

#[test]
fn what_a_write_has_failed_in_is_never_finished() {
    let partitions = partitions();
    for pipelined in WAYS {
        let disk = disk();
        let options =
            WriterOptions { pipelined, ..WriterOptions::new(&table(), partitions.len() as u64).unwrap() };
        let mut writer = SSTableWriter::create(disk.clone(), descriptor(), table(), options).unwrap();
        let write = |writer: &mut SSTableWriter, partition: &PartitionUpdate| {
            writer.write_all(&mut partition.clone().into_stream(table(), &Selection::all()))
        };
        disk.fail_when(|operation| is_of_data(operation, OperationKind::Write).then_some(ErrorKind::Other));
        let mut left = partitions.iter();
        assert!(left.any(|partition| write(&mut writer, partition).is_err()));
        disk.heal();
        assert!(left.filter(|partition| write(&mut writer, partition).is_err()).count() > 0);
        assert!(writer.finish().is_err());
        assert_eq!(files_of(&disk), []);
    }
}

#[test]
fn misuse_of_the_writer_is_not_reported_as_corruption() {
    let disk = disk();
    let options = WriterOptions::new(&table(), 2).unwrap();
    let mut writer = SSTableWriter::create(disk.clone(), descriptor(), table(), options).unwrap();
    let mut write = |partition: &PartitionUpdate| {
        writer.write_all(&mut partition.clone().into_stream(table(), &Selection::all()))
    };
    let partitions = partitions();
    write(&partitions[1]).unwrap();
    let error = write(&partitions[0]).unwrap_err();
    assert!(matches!(error, StorageError::Unwritable { .. }), "{error}");
    assert!(error.to_string().contains("cannot be written: partition"), "{error}");
}

/// As if the second thread had panicked.
#[test]
fn a_panic_reaches_who_writes() {
    let partitions = partitions();
    for pipelined in WAYS {
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let mut writes = 0;
            failing(&partitions, pipelined, move |operation| {
                if is_of_data(operation, OperationKind::Write) {
                    writes += 1;
                    assert!(writes != 8, "a panic that the test wants");
                }
                false
            })
        }));
        let said = panicked.err().and_then(|said| said.downcast_ref::<&str>().copied());
        assert_eq!(said, Some("a panic that the test wants"));
    }
}
