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

/// Appends records; those before the first failure.
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
            // Some are flushed; whether the file is replaced or not, the others stay.
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

fn content(fs: &FakeFileSystem) -> Vec<u8> {
    (fs as &dyn FileSystem).read(Path::new(PATH)).unwrap()
}

/// The length without what is only reserved: contents of records do not end in zeros.
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
        let found = Found::read(&bytes);
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
        let found = Found::read(&bytes[..length]);
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
