//! The guarantees of the commit log, on a fake file system.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cassette_encryption::{AesGcm, Key, KeyError, Keys};
use cassette_vfs::encryption::Encryption;
use cassette_vfs::{FakeFileSystem, FileSystem, ManualClock};

use super::*;

mod appending;
mod crashes;
mod damage;
mod encryption;
mod failures;
mod panics;
mod threads;

pub(super) const DIRECTORY: &str = "commitlog";

/// A record of some tables.
pub(super) struct TestRecord {
    pub(super) tables: Vec<TableVersion>,
    pub(super) content: Vec<u8>,
}

pub(super) fn table(table: u128) -> TableVersion {
    TableVersion { table, schema: 1 }
}

pub(super) fn record(tables: &[u128], content: &[u8]) -> TestRecord {
    TestRecord { tables: tables.iter().map(|id| table(*id)).collect(), content: content.to_vec() }
}

fn dictionary_of(table: TableVersion) -> Vec<u8> {
    format!("columns of {} at {}", table.table, table.schema).into_bytes()
}

impl Record for TestRecord {
    fn tables(&self) -> &[TableVersion] {
        &self.tables
    }

    fn encode_dictionary(&self, table: TableVersion, out: &mut Vec<u8>) {
        out.extend(dictionary_of(table));
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend(&self.content);
    }

    fn size_hint(&self) -> usize {
        self.content.len()
    }
}

/// A replayed record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Replayed {
    pub(super) position: Position,
    pub(super) tables: Vec<TableVersion>,
    pub(super) content: Vec<u8>,
}

/// Small segments, synced by appending threads.
pub(super) fn options(sync: SyncMode) -> CommitLogOptions {
    CommitLogOptions {
        sync,
        segment_size: 2048,
        record_size_max: 8192,
        threads: false,
        ..CommitLogOptions::default()
    }
}

/// Keys that are 32 bytes of the first byte of their alias.
#[derive(Debug)]
pub(super) struct TestKeys(pub(super) &'static [&'static str]);

impl Keys for TestKeys {
    fn key(&self, alias: &str) -> Result<Key, KeyError> {
        let known = self.0.iter().find(|known| **known == alias);
        known.map_or_else(
            || Err(KeyError(format!("no key \"{alias}\""))),
            |_| Key::new(vec![alias.as_bytes()[0]; 32]),
        )
    }
}

/// Encrypts new segments with the key `alias`, of `a` and `b`.
pub(crate) fn encryption(alias: &str) -> Arc<dyn Encryption> {
    Arc::new(AesGcm::new(TestKeys(&["a", "b"]), Some(alias.to_owned())).unwrap())
}

/// The same, encrypted.
pub(super) fn encrypted(sync: SyncMode) -> CommitLogOptions {
    CommitLogOptions { encryption: Some(encryption("a")), ..options(sync) }
}

pub(super) const PERIODIC: SyncMode = SyncMode::Periodic { period: Duration::from_secs(10) };

pub(super) struct Opened {
    pub(super) log: CommitLog,
    pub(super) records: Vec<Replayed>,
    pub(super) summary: ReplaySummary,
}

impl Opened {
    pub(super) fn contents(&self) -> Vec<&[u8]> {
        self.records.iter().map(|record| record.content.as_slice()).collect()
    }
}

pub(super) fn try_open(fs: &FakeFileSystem, options: CommitLogOptions) -> Result<Opened, OpenError> {
    try_open_at(fs, options, Arc::new(ManualClock::default()))
}

/// Opens the log, checking that positions ascend and that the dictionaries of every record precede
/// it in its segment.
pub(super) fn try_open_at(
    fs: &FakeFileSystem,
    options: CommitLogOptions,
    clock: Arc<ManualClock>,
) -> Result<Opened, OpenError> {
    let mut records: Vec<Replayed> = Vec::new();
    let mut defined = HashSet::new();
    let mut handler = |entry: Entry<'_>| {
        match entry {
            Entry::Dictionary { table, content } => {
                assert_eq!(content, dictionary_of(table));
                defined.insert(table);
            }
            Entry::Record { position, tables, content } => {
                assert!(records.last().is_none_or(|last| last.position < position), "positions ascend");
                assert!(tables.iter().all(|table| defined.contains(table)), "dictionaries come first");
                records.push(Replayed { position, tables: tables.to_vec(), content: content.to_vec() });
            }
        }
        Ok(())
    };
    let fs: Arc<dyn FileSystem> = Arc::new(fs.clone());
    let (log, summary) = CommitLog::open(fs, clock, Path::new(DIRECTORY), options, &mut handler)?;
    assert_eq!(summary.records, records.len() as u64);
    Ok(Opened { log, records, summary })
}

pub(super) fn open(fs: &FakeFileSystem, sync: SyncMode) -> Opened {
    try_open(fs, options(sync)).unwrap()
}

/// The segments on disk.
pub(super) fn files(fs: &FakeFileSystem) -> Vec<String> {
    let entries = fs.read_dir(Path::new(DIRECTORY)).unwrap();
    entries.into_iter().map(|entry| format!("{DIRECTORY}/{}", entry.name)).collect()
}
