//! Deletions.db matches the rows, and a foreign one is never used.

use std::sync::Arc;

use crate::support::random_table::{Contents, tables};
use crate::support::{model, write};
use cassette_rows::token::murmur3_hash;
use cassette_rows::{DeletionTime, PartitionUpdate, Result, Row, RowBuilder, TableMetadata, Unfiltered};
use cassette_sstable::reader::Probe;
use cassette_sstable::{
    ChunkCache, Component, Descriptor, OpenOptions, SSTableId, SSTableReader, WriterOptions, toc,
};
use cassette_vfs::{FakeFileSystem, FileSystem};
use proptest::prelude::*;

fn descriptor() -> Descriptor {
    Descriptor::new("/data", SSTableId::Sequence(1))
}

fn disk(table: &Arc<TableMetadata>, updates: &[PartitionUpdate]) -> Arc<FakeFileSystem> {
    let files = Arc::new(FakeFileSystem::new());
    files.create_dir_all(&descriptor().directory).unwrap();
    write(files.clone(), &descriptor(), table, updates, |options| options).unwrap().unwrap();
    files
}

fn open(files: &Arc<FakeFileSystem>, table: &Arc<TableMetadata>) -> Result<SSTableReader> {
    let cache = Arc::new(ChunkCache::new(1 << 20));
    SSTableReader::open(files.clone(), descriptor(), table.clone(), cache, OpenOptions::default())
}

fn read(files: &Arc<FakeFileSystem>, path: &std::path::Path) -> Vec<u8> {
    (files.as_ref() as &dyn FileSystem).read(path).unwrap()
}

/// As if the writer had written no Deletions.db.
fn without_component(files: &Arc<FakeFileSystem>, reader: &SSTableReader) {
    let kept = reader.components().iter().copied().filter(|c| *c != Component::Deletions);
    let toc = toc::encode(&kept.collect::<Vec<_>>());
    let files: &dyn FileSystem = files.as_ref();
    files.write_atomically(&descriptor().path(Component::Toc), &toc).unwrap();
}

/// The deletions in a partition: its own, that of the static row, deleted rows, markers.
type Deleted = (DeletionTime, DeletionTime, Vec<Unfiltered>);

fn only_deletion(unfiltered: Unfiltered) -> Option<Unfiltered> {
    match unfiltered {
        Unfiltered::Row(row) if row.deletion().is_live() => None,
        Unfiltered::Row(row) => {
            let mut deletion = RowBuilder::new(row.clustering().clone());
            deletion.deletion(row.deletion());
            Some(Unfiltered::Row(deletion.finish()))
        }
        marker => Some(marker),
    }
}

/// The deletions that a probe returns for a partition; none for an absent one.
fn deleted(probe: &mut Probe, update: &PartitionUpdate) -> Result<Deleted> {
    let mut found = (DeletionTime::LIVE, DeletionTime::LIVE, Vec::new());
    if !probe.may_have(&update.key, murmur3_hash(update.key.key()))? {
        return Ok(found);
    }
    let Some(header) = probe.open(&update.key)? else { return Ok(found) };
    found.0 = header.deletion;
    found.1 = header.static_row.as_ref().map_or(DeletionTime::LIVE, Row::deletion);
    while let Some(unfiltered) = probe.next_unfiltered()? {
        found.2.extend(only_deletion(unfiltered));
    }
    Ok(found)
}

fn all_deleted(reader: &SSTableReader, asked: &[PartitionUpdate]) -> Result<Vec<Deleted>> {
    let mut probe = reader.probe(true)?;
    asked.iter().map(|update| deleted(&mut probe, update)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn deletions_are_the_same_with_the_component_and_without(
        seed in any::<u64>(),
        sizes in prop::collection::vec(prop_oneof![Just(0usize), 1..5usize, 1..100usize], 1..12),
        others in prop::collection::vec(1..3usize, 0..12),
    ) {
        let mut random = model::random(seed);
        let tables = tables();
        let table = tables[random() % tables.len()].table.clone();
        let updates = Contents { random: &mut random, table: table.clone() }.partitions(&sizes);
        prop_assume!(!updates.is_empty());
        let files = disk(&table, &updates);
        let reader = open(&files, &table).unwrap();
        reader.verify().unwrap();
        // Absent partitions are requested, too, and some existing ones are not.
        let mut asked = Contents { random: &mut random, table: table.clone() }.partitions(&others);
        asked.extend(updates.iter().filter(|_| !random().is_multiple_of(3)).cloned());
        asked.sort_by(|a, b| a.key.cmp(&b.key));
        asked.dedup_by(|a, b| a.key == b.key);
        let with = all_deleted(&reader, &asked).unwrap();
        without_component(&files, &reader);
        let plain = open(&files, &table).unwrap();
        prop_assert!(!plain.components().contains(&Component::Deletions));
        prop_assert_eq!(with, all_deleted(&plain, &asked).unwrap());
    }
}

/// The first random table with deletions, and its content.
fn with_deletions() -> (Arc<TableMetadata>, Vec<PartitionUpdate>, Arc<FakeFileSystem>) {
    let table = tables()[3].table.clone();
    let mut random = model::random(3);
    let updates = Contents { random: &mut random, table: table.clone() }.partitions(&[5, 9, 0, 2, 1]);
    let files = disk(&table, &updates);
    assert!(open(&files, &table).unwrap().components().contains(&Component::Deletions));
    (table, updates, files)
}

#[test]
fn damage_is_an_error_and_never_another_answer() {
    let (table, updates, files) = with_deletions();
    let expected = all_deleted(&open(&files, &table).unwrap(), &updates).unwrap();
    let path = descriptor().path(Component::Deletions);
    for offset in 0..files.metadata(&path).unwrap().len {
        files.corrupt(&path, offset, 1 << (offset % 8));
        let reader = open(&files, &table).unwrap();
        let error = all_deleted(&reader, &updates).expect_err("a flipped bit");
        assert!(error.to_string().contains("Deletions.db"), "{error}");
        assert!(reader.verify().is_err());
        files.corrupt(&path, offset, 1 << (offset % 8));
    }
    let whole = read(&files, &path);
    for length in 0..whole.len() {
        (files.as_ref() as &dyn FileSystem).write_atomically(&path, &whole[..length]).unwrap();
        assert!(all_deleted(&open(&files, &table).unwrap(), &updates).is_err());
    }
    (files.as_ref() as &dyn FileSystem).write_atomically(&path, &whole).unwrap();
    assert_eq!(all_deleted(&open(&files, &table).unwrap(), &updates).unwrap(), expected);
}

#[test]
fn the_deletions_of_another_sstable_are_refused() {
    let (table, updates, files) = with_deletions();
    let path = descriptor().path(Component::Deletions);
    let own = read(&files, &path);
    let other = read(&disk(&table, &updates[1..]), &path);
    assert_ne!(own, other);
    (files.as_ref() as &dyn FileSystem).write_atomically(&path, &other).unwrap();
    let error = open(&files, &table).unwrap().deletions().unwrap_err().to_string();
    assert!(error.contains("Deletions.db") && error.contains("expected"), "{error}");
}

#[test]
fn an_sstable_without_deletions_and_one_of_little_else_have_no_component() {
    let table = tables()[0].table.clone();
    let mut random = model::random(1);
    let updates = Contents { random: &mut random, table: table.clone() }.partitions(&[3; 40]);
    let live: Vec<_> = updates
        .iter()
        .map(|update| {
            let mut live = PartitionUpdate::new(update.key.clone());
            live.rows = update.rows.iter().filter(|row| !row.has_deletions()).cloned().collect();
            live
        })
        .filter(|update| !update.rows.is_empty())
        .collect();
    let reader = open(&disk(&table, &live), &table).unwrap();
    assert!(!reader.components().contains(&Component::Deletions) && reader.deletions().unwrap().is_none());

    // Only tombstones: as many bytes as Data has, and more than the minimum limit.
    let tombstones: Vec<_> = (0..5000u32)
        .map(|n| {
            let mut update = PartitionUpdate::new(cassette_rows::DecoratedKey::new(
                bytes::Bytes::copy_from_slice(&n.to_be_bytes()),
            ));
            update.deletion = DeletionTime::new(i64::from(n), 1000);
            update
        })
        .collect();
    let mut tombstones = tombstones;
    tombstones.sort_by(|a, b| a.key.cmp(&b.key));
    let files = disk(&table, &tombstones);
    let reader = open(&files, &table).unwrap();
    assert!(!reader.components().contains(&Component::Deletions));
    assert!(files.metadata(&descriptor().path(Component::Deletions)).is_err());
    assert_eq!(all_deleted(&reader, &tombstones).unwrap().len(), 5000);
}

#[test]
fn where_only_cells_are_deleted_no_row_is_asked_for() {
    let table = tables()[0].table.clone();
    let mut update =
        PartitionUpdate::new(cassette_rows::DecoratedKey::new(bytes::Bytes::from_static(&[0, 0, 0, 1])));
    let mut row = RowBuilder::new(cassette_rows::Clustering::empty());
    row.cell(cassette_rows::Cell {
        column: table.column("v").unwrap().id,
        path: None,
        value: &[],
        timestamp: 1,
        ttl: cassette_rows::NO_TTL,
        local_deletion_time: 1000,
    });
    update.rows.push(row.finish());
    let files = disk(&table, std::slice::from_ref(&update));
    // Reading a row would fail here.
    files.corrupt(&descriptor().path(Component::Data), 3, 0xff);
    let reader = open(&files, &table).unwrap();
    assert!(reader.may_have_deletions());
    let found = all_deleted(&reader, &[update]).unwrap();
    assert_eq!(found, [(DeletionTime::LIVE, DeletionTime::LIVE, Vec::new())]);
}

#[test]
fn a_file_of_deletions_that_no_list_names_is_left_alone() {
    let (table, updates, files) = with_deletions();
    let reader = open(&files, &table).unwrap();
    let expected = all_deleted(&reader, &updates).unwrap();
    without_component(&files, &reader);
    files.corrupt(&descriptor().path(Component::Deletions), 3, 0xff);
    let reader = open(&files, &table).unwrap();
    assert!(!reader.components().contains(&Component::Deletions));
    assert_eq!(all_deleted(&reader, &updates).unwrap(), expected);
}

#[test]
fn options_of_the_writer_do_not_matter() {
    let (table, updates, _) = with_deletions();
    let files = Arc::new(FakeFileSystem::new());
    files.create_dir_all(&descriptor().directory).unwrap();
    let plain = |options| WriterOptions { compression: None, column_index_size: 1, ..options };
    write(files.clone(), &descriptor(), &table, &updates, plain).unwrap().unwrap();
    open(&files, &table).unwrap().verify().unwrap();
}
