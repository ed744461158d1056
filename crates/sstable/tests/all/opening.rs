//! Opening: missing components are rebuilt or named; foreign ones are verified and then adopted; a
//! write that was interrupted at any step leaves nothing that looks complete.

use std::sync::Arc;

use crate::support::random_table::{Contents, tables};
use crate::support::{Partition, collect, component, golden_tables, model, write};
use cassette_rows::{StorageError, TableMetadata};
use cassette_sstable::{
    ChunkCache, Component, Descriptor, ForeignFiles, OpenOptions, SSTableId, SSTableReader,
};
use cassette_vfs::{FakeFileSystem, FileSystem};

fn descriptor() -> Descriptor {
    Descriptor::new("/data", SSTableId::Sequence(1))
}

fn open_with(
    files: &Arc<FakeFileSystem>,
    table: &Arc<TableMetadata>,
    foreign: ForeignFiles,
) -> cassette_rows::Result<SSTableReader> {
    let cache = Arc::new(ChunkCache::new(1 << 20));
    SSTableReader::open(files.clone(), descriptor(), table.clone(), cache, OpenOptions { foreign })
}

fn open(files: &Arc<FakeFileSystem>, table: &Arc<TableMetadata>) -> cassette_rows::Result<SSTableReader> {
    open_with(files, table, ForeignFiles::Verify)
}

fn rows(reader: &SSTableReader) -> Vec<Partition> {
    collect(&mut reader.scan_all().unwrap()).unwrap()
}

/// A disk with one random SSTable.
fn disk() -> (Arc<FakeFileSystem>, Arc<TableMetadata>) {
    let table = tables()[1].table.clone();
    let updates =
        Contents { random: &mut model::random(5), table: table.clone() }.partitions(&[10, 1, 3, 0, 20]);
    let files = Arc::new(FakeFileSystem::new());
    files.create_dir_all(&descriptor().directory).unwrap();
    write(files.clone(), &descriptor(), &table, &updates, |options| options).unwrap().unwrap();
    (files, table)
}

#[test]
fn summary_and_filter_are_made_again_when_they_are_missing() {
    let (files, table) = disk();
    let before = open(&files, &table).unwrap();
    for component in [Component::Summary, Component::Filter] {
        files.remove_file(&descriptor().path(component)).unwrap();
    }
    let after = open(&files, &table).unwrap();
    assert_eq!(after.summary(), before.summary());
    assert_eq!(after.filter_heap_size(), before.filter_heap_size());
    after.verify().unwrap();
    assert_eq!(rows(&after), rows(&before));
}

#[test]
fn other_files_that_are_missing_are_named() {
    for component in [
        Component::Data,
        Component::Index,
        Component::Statistics,
        Component::CompressionInfo,
        Component::Checksums,
    ] {
        let (files, table) = disk();
        files.remove_file(&descriptor().path(component)).unwrap();
        let error = open(&files, &table).unwrap_err().to_string();
        assert!(error.contains(component.file_name()), "{component:?}: {error}");
    }
}

#[test]
fn a_table_without_a_list_of_components_opens() {
    let (files, table) = disk();
    let before = rows(&open(&files, &table).unwrap());
    files.remove_file(&descriptor().path(Component::Toc)).unwrap();
    assert_eq!(rows(&open(&files, &table).unwrap()), before);
}

#[test]
fn a_column_that_the_table_never_had_is_refused_and_a_dropped_one_passed_over() {
    let (files, table) = disk();
    let reader = open(&files, &table).unwrap();
    let mut stranger = (*table).clone();
    stranger.columns.iter_mut().for_each(|slot| drop(slot.take_if(|column| column.name == "n")));
    let error = reader.with_table(Arc::new(stranger)).unwrap_err();
    assert!(
        matches!(&error, StorageError::Unsupported { detail, .. } if detail.contains("\"n\"")),
        "{error}"
    );

    let id = table.column("n").unwrap().id;
    let dropped = reader.with_table(Arc::new(table.with_column_dropped("n", i64::MAX))).unwrap();
    let has = |partitions: Vec<Partition>| {
        let rows = partitions.iter().flat_map(|partition| &partition.rows);
        rows.filter(|row| matches!(row, cassette_rows::Unfiltered::Row(row) if row.cell(id).is_some()))
            .count()
    };
    assert!(has(rows(&reader)) > 0);
    assert_eq!(has(rows(&dropped)), 0);
}

#[test]
fn a_table_of_cassandras_is_adopted() {
    for golden in golden_tables().into_iter().filter(|golden| golden.table.name == "statics") {
        let files = Arc::new(FakeFileSystem::new());
        files.create_dir_all(&descriptor().directory).unwrap();
        for part in Component::ALL {
            if let Some(bytes) = component(&golden.sstables[0], part) {
                (&*files as &dyn FileSystem).write_atomically(&descriptor().path(part), &bytes).unwrap();
            }
        }
        let trusted = open_with(&files, &golden.table, ForeignFiles::Trust).unwrap();
        let verified = open(&files, &golden.table).unwrap();
        assert_eq!(rows(&trusted), rows(&verified));
        assert!(!verified.is_checksummed());
        verified.adopt().unwrap();
        let adopted = open(&files, &golden.table).unwrap();
        assert!(adopted.is_checksummed());
        adopted.verify().unwrap();
        assert_eq!(rows(&adopted), rows(&verified));
    }
}

/// Fails every operation of a write in turn, and crashes the machine there: a list of components
/// means a complete table.
#[test]
fn a_write_cut_off_at_any_step_leaves_nothing_that_looks_whole() {
    let table = tables()[1].table.clone();
    let updates =
        Contents { random: &mut model::random(9), table: table.clone() }.partitions(&[30, 1, 200, 0, 20]);
    let start = || {
        let files = FakeFileSystem::new();
        files.create_dir_all(&descriptor().directory).unwrap();
        files.sync_dir(std::path::Path::new("/")).unwrap();
        files
    };
    let write_to = |files: FakeFileSystem| {
        let files = Arc::new(files);
        let result = write(files.clone(), &descriptor(), &table, &updates, |options| options);
        (files, result)
    };
    let (files, result) = write_to(start());
    result.unwrap().unwrap();
    let expected = rows(&open(&files, &table).unwrap());
    let begun = start().operations();
    let steps = files.fork().operations().max(files.operations());
    let toc = descriptor().path(Component::Toc);
    let (mut whole, mut cut) = (0, 0);
    for step in begun..steps {
        let files = start();
        files.fail_from(step);
        let (files, result) = write_to(files);
        for seed in 0..4 {
            let files = Arc::new(files.fork().crash(seed));
            if (&*files as &dyn FileSystem).exists(&toc).unwrap() {
                // The list may exist although the writer did not return; torn, it is an error,
                // never another table.
                match open(&files, &table) {
                    Ok(reader) => assert_eq!(rows(&reader), expected, "step {step}, seed {seed}"),
                    Err(error) => {
                        assert!(error.to_string().contains("TOC.txt"), "step {step}, seed {seed}: {error}")
                    }
                }
                whole += 1;
            } else {
                // Once the writer has returned, the table exists.
                assert!(result.is_err(), "step {step}, seed {seed}");
                cut += 1;
            }
        }
    }
    assert!(whole > 0 && cut > 0, "{whole} whole, {cut} cut off");
}
