use std::io;
use std::path::Path;

use cassette_vfs::{FakeFileSystem, OperationKind};

use super::*;

const PATH: &str = "data/schema_journal";

fn new() -> FakeFileSystem {
    let fs = FakeFileSystem::new();
    fs.create_dir_all(Path::new("data")).unwrap();
    fs.sync_dir(Path::new("")).unwrap();
    fs
}

fn open(fs: &FakeFileSystem) -> SchemaJournal {
    SchemaJournal::open(Arc::new(fs.clone()), PATH.into()).unwrap()
}

/// Opens a journal whose commit log is intact.
fn settled(fs: &FakeFileSystem) -> SchemaJournal {
    let journal = open(fs);
    journal.settle(true, |_| true);
    journal
}

fn record(number: u32) -> JournalRecord {
    let table = TableVersion { table: u128::from(number) + 1, schema: 7 };
    JournalRecord {
        position: Position { segment: 9, offset: number },
        tables: vec![(table, vec![1, 2])],
        content: vec![number as u8 + 1; 5 + number as usize * 300],
    }
}

/// Appends records, and returns those before the first failure.
fn append_all(journal: &SchemaJournal, numbers: std::ops::Range<u32>) -> Vec<JournalRecord> {
    let append = |number: u32| {
        journal.reserve(&record(number)).ok()?;
        journal.append(record(number)).ok().map(|()| record(number))
    };
    numbers.map_while(append).collect()
}

fn records(journal: &SchemaJournal) -> Vec<JournalRecord> {
    let mut records = Vec::new();
    journal.replay(|record| {
        records.push(record.clone());
        Ok(())
    });
    records
}

#[test]
fn appended_records_survive_a_crash_at_every_operation() {
    let start = new();
    drop(settled(&start));
    for operation in 0.. {
        let fs = start.fork();
        fs.fail_from(fs.operations() + operation);
        let journal = SchemaJournal::open(Arc::new(fs.clone()), PATH.into());
        let mut kept = Vec::new();
        if let Ok(journal) = journal {
            journal.settle(true, |_| true);
            kept = append_all(&journal, 0..8);
            // Some are flushed; whether or not the file is replaced, the others remain.
            let _ = journal.retain(|record| record.position.offset >= 3);
            kept.extend(append_all(&journal, 8..10));
            kept.retain(|record| record.position.offset >= 3);
        }
        let survivor = fs.crash(operation);
        let journal = settled(&survivor);
        let found = records(&journal);
        assert!(kept.iter().all(|record| found.contains(record)), "operation {operation}");
        assert_eq!(journal.damage(), None, "operation {operation}");
        assert_eq!(append_all(&journal, 20..22).len(), 2);
        assert_eq!(records(&settled(&survivor.crash(operation))).len(), found.len() + 2);
        if kept.len() == 7 {
            return;
        }
    }
}

/// Reads a file of these bytes.
fn read(bytes: &[u8]) -> Found {
    let fs = new();
    (&fs as &dyn FileSystem).write_atomically(Path::new(PATH), bytes).unwrap();
    Found::read(&*fs.open(Path::new(PATH)).unwrap()).unwrap()
}

fn content(fs: &FakeFileSystem) -> Vec<u8> {
    (fs as &dyn FileSystem).read(Path::new(PATH)).unwrap()
}

/// The length without reserved space: contents of records do not end in zeros.
fn written(fs: &FakeFileSystem) -> usize {
    content(fs).iter().rposition(|byte| *byte != 0).unwrap() + 1
}

#[test]
fn no_flipped_bit_yields_another_record_or_goes_unnoticed() {
    let fs = new();
    let appended = append_all(&settled(&fs), 0..3);
    let intact = content(&fs)[..written(&fs)].to_vec();
    for bit in 0..intact.len() * 8 {
        let mut bytes = intact.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let found = read(&bytes);
        assert!(found.damage.is_some() || found.torn.is_some(), "bit {bit}");
        let is_appended = |record: &JournalRecord| appended.contains(record);
        assert!(found.records.len() >= 2 && found.records.iter().all(is_appended), "bit {bit}");
    }
}

#[test]
fn a_file_cut_anywhere_keeps_the_records_before_the_cut() {
    let fs = new();
    let appended = append_all(&settled(&fs), 0..3);
    let bytes = content(&fs);
    for length in 0..bytes.len() {
        let found = read(&bytes[..length]);
        assert_eq!(found.records, appended[..found.records.len()]);
        assert_eq!(found.damage.is_some(), length < HEADER_LEN);
    }
}

#[test]
fn a_torn_tail_matters_only_without_an_intact_commit_log() {
    for log_is_intact in [true, false] {
        let fs = new();
        append_all(&settled(&fs), 0..3);
        fs.corrupt(Path::new(PATH), written(&fs) as u64 - 1, 0x10);
        let journal = open(&fs);
        journal.settle(log_is_intact, |_| true);
        assert_eq!(journal.damage().is_none(), log_is_intact);
        let copy = (&fs as &dyn FileSystem).exists(Path::new("data/schema_journal.damaged")).unwrap();
        assert_eq!(copy, !log_is_intact);
        assert_eq!(records(&settled(&fs)), [record(0), record(1)]);
    }
}

#[test]
fn damage_before_an_intact_record_is_reported_and_a_copy_kept() {
    let fs = new();
    append_all(&settled(&fs), 0..3);
    fs.corrupt(Path::new(PATH), HEADER_LEN as u64 + 9, 1);
    let damaged = content(&fs);
    let journal = settled(&fs);
    assert!(journal.damage().unwrap().contains("expected a record at byte 16"));
    assert_eq!(records(&journal), [record(1), record(2)]);
    let copy = (&fs as &dyn FileSystem).read(Path::new("data/schema_journal.damaged")).unwrap();
    assert_eq!(copy, damaged);
    assert_eq!(settled(&fs).damage(), None);
}

#[test]
fn a_failed_append_is_repeated_by_the_next() {
    for kind in [OperationKind::Write, OperationKind::Sync] {
        let fs = new();
        let journal = settled(&fs);
        append_all(&journal, 0..1);
        fs.fail_when(move |operation| (operation.kind == kind).then_some(io::ErrorKind::Other));
        assert!(journal.append(record(1)).is_err());
        fs.heal();
        journal.append(record(2)).unwrap();
        assert_eq!(records(&settled(&fs.crash(1))), [record(0), record(1), record(2)]);
    }
}

#[test]
fn a_reserved_record_can_be_appended_to_a_full_disk() {
    let fs = new();
    let journal = settled(&fs);
    journal.reserve(&record(1)).unwrap();
    fs.set_capacity(fs.used());
    assert_eq!(append_all(&journal, 1..2).len(), 1);
    let large = JournalRecord { content: vec![0; 1 << 20], ..record(2) };
    assert!(journal.reserve(&large).is_err());
    // A start reads it while the disk is still full; nothing can be appended then.
    let survivor = fs.crash(2);
    let journal = settled(&survivor);
    assert_eq!(records(&journal), [record(1)]);
    assert!(journal.reserve(&record(2)).is_err());
    survivor.set_capacity(u64::MAX);
    assert_eq!(append_all(&journal, 2..3).len(), 1);
    assert_eq!(records(&settled(&survivor.crash(3))), [record(1), record(2)]);
}

/// A record whose content is not shorter than a piece of the file.
fn large(number: u32) -> JournalRecord {
    JournalRecord { content: vec![number as u8 + 1; 70_000], ..record(number) }
}

#[test]
fn records_across_pieces_of_the_file_are_found_behind_damage() {
    let fs = new();
    let journal = settled(&fs);
    for number in 0..4 {
        journal.reserve(&large(number)).unwrap();
        journal.append(large(number)).unwrap();
    }
    assert_eq!(records(&open(&fs)), [large(0), large(1), large(2), large(3)]);
    // The length of the first record, the content of the third.
    fs.corrupt(Path::new(PATH), HEADER_LEN as u64 + 3, 1);
    fs.corrupt(Path::new(PATH), 190_000, 1);
    let found = read(&content(&fs));
    assert_eq!(found.records, [large(1), large(3)]);
    assert!(found.damage.unwrap().starts_with("expected a record at byte 16, found the next one at byte 70"));
}

#[test]
fn zeros_and_garbage_longer_than_a_piece_hide_no_record() {
    let fs = new();
    append_all(&settled(&fs), 0..1);
    let mut bytes = content(&fs)[..written(&fs)].to_vec();
    bytes.resize(bytes.len() + 200_003, 0);
    assert!(read(&bytes).damage.is_none() && read(&bytes).torn.is_none());
    bytes.extend((0..150_001).map(|n: u32| (n.wrapping_mul(n) >> 3) as u8 | 1));
    assert!(read(&bytes).torn.is_some());
    let offset = bytes.len() as u64;
    frame(&record(1).encode(), offset, &mut bytes);
    let found = read(&bytes);
    assert_eq!(found.records, [record(0), record(1)]);
    assert!(found.damage.unwrap().ends_with(&format!("found the next one at byte {offset}")));
}

#[test]
fn a_length_beyond_the_end_of_the_file_is_not_believed() {
    let offset = HEADER_LEN as u64;
    for length in [u32::MAX, 1 << 30, 100] {
        let mut bytes = header();
        bytes.put_u32(length);
        bytes.put_u32(length_checksum(offset, length));
        bytes.put_slice(&[7; 90]);
        let found = read(&bytes);
        assert!(found.records.is_empty() && found.torn.is_some(), "{length}");
    }
}

#[test]
fn a_file_longer_than_any_journal_is_refused_by_name_and_kept() {
    let fs = new();
    append_all(&settled(&fs), 0..3);
    let bytes = content(&fs);
    let open = |length_max| SchemaJournal::open_within(Arc::new(fs.clone()), PATH.into(), length_max);
    let length = bytes.len() as u64;
    let error = open(length - 1).err().unwrap().to_string();
    let expected =
        format!("data/schema_journal: corrupt: expected at most {} bytes, found {length}", length - 1);
    assert!(error.starts_with(&expected), "{error}");
    assert_eq!(content(&fs), bytes);
    assert_eq!(records(&open(length).unwrap()).len(), 3);
}

#[test]
fn a_record_that_a_start_would_not_read_is_refused() {
    let fs = new();
    let journal = SchemaJournal::open_within(Arc::new(fs.clone()), PATH.into(), RESERVED).unwrap();
    journal.settle(true, |_| true);
    let appended = append_all(&journal, 0..100);
    assert!((2..100).contains(&appended.len()), "{}", appended.len());
    let error = journal.reserve(&record(99)).unwrap_err().to_string();
    assert!(error.contains("expected at most 16384 bytes of schema changes"), "{error}");
    drop(journal);
    let journal = SchemaJournal::open_within(Arc::new(fs.clone()), PATH.into(), RESERVED).unwrap();
    assert_eq!(records(&journal), appended);
    journal.settle(true, |_| true);
    // Once SSTables contain some, there is space again.
    journal.retain(|record| record.position.offset > 5).unwrap();
    assert!(journal.reserve(&record(6)).is_ok());
}

#[test]
fn a_failure_while_a_damaged_file_is_kept_loses_neither_it_nor_the_records() {
    let start = new();
    append_all(&settled(&start), 0..3);
    start.corrupt(Path::new(PATH), HEADER_LEN as u64 + 9, 1);
    (&start as &dyn FileSystem)
        .write_atomically(Path::new("data/schema_journal.damaged"), b"an older one")
        .unwrap();
    let damaged = content(&start);
    for operation in 0.. {
        let fs = start.fork();
        let journal = open(&fs);
        fs.fail_from(fs.operations() + 1 + operation);
        journal.settle(true, |_| true);
        assert!(journal.damage().is_some());
        fs.heal();
        let is_done = journal.append(record(7)).is_ok() && operation > 20;
        let survivor = fs.crash(operation);
        let found = records(&open(&survivor));
        assert_eq!(found, [record(1), record(2), record(7)], "operation {operation}");
        let kept = (&survivor as &dyn FileSystem).read(Path::new("data/schema_journal.damaged"));
        let is_kept = kept.is_ok_and(|kept| kept == damaged);
        // If the file could be neither kept nor replaced, it still exists.
        assert!(is_kept || content(&survivor) == damaged, "operation {operation}");
        if is_done {
            return;
        }
    }
}
