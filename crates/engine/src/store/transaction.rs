//! Adding and removing SSTables of a table so that a crash leaves all of it or nothing.
//!
//! A transaction is a file `nb_txn_<operation>_<time uuid>.log` in the table's directory, in
//! Cassandra's own format, so that Cassandra too tidies up after us should it open the directory
//! next. One record a line:
//!
//! ```text
//! ADD:[/absolute/path/nb-7-big-,0,0][<checksum>]                                   a new SSTable
//! REMOVE:[/absolute/path/nb-5-big-,<last modified, ms>,<files>][<checksum>]        an old one
//! REMOVE:[/absolute/path/log-<segment>-<offset>-,0,0][<checksum>]                  of a truncation
//! COMMIT:[,0,0][<checksum>]
//!
//! checksum = crc32 in decimal of: path, type, i32 low half and i32 high half of the time, i32 files     big-endian
//! ```
//!
//! 1. [`add`](Transaction::add): the line is durable before the first of the SSTable's files is
//!    created.
//! 2. The SSTable's files are written and synced, and their names too, by their writer.
//! 3. [`commit`](Transaction::commit): the REMOVE lines are durable before COMMIT is written, so
//!    that no crash leaves a COMMIT after a line that is not whole. When COMMIT is durable the
//!    change has happened.
//! 4. The removed SSTables' files are deleted, durably, and then the transaction's.
//!
//! [`recover`] does on opening what is left: after COMMIT step 4; without it the added SSTables'
//! files go, durably, and then the transaction's.
//!
//! A truncation also discards rows that are in memtables and the commit log alone. Its transaction
//! contains the position up to which the log is not needed, so that COMMIT is the moment for both.
//! The position is recorded with the [replay positions](crate::log::replay_positions) before the
//! transaction's file is deleted. Its line has the form of an SSTable without files, which other
//! readers of this format accept: for them there is nothing to remove.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cassette_rows::StorageError;
use cassette_sstable::Descriptor;
use cassette_vfs::{DirEntry, FileSystem, WritableFile};
use uuid::Uuid;

use crate::log::commitlog::Position;

/// Begins the name in the line of a position.
const POSITION: &str = "log-";

/// The operation of a transaction, which names its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OperationType {
    Flush,
    Compaction,
    /// Removes SSTables without adding any.
    Truncate,
    /// Adds SSTables from elsewhere.
    Import,
    /// Replaces a damaged SSTable by its readable part.
    Scrub,
}

impl OperationType {
    /// Cassandra has no truncation here; any other name is valid.
    fn file_name(self) -> &'static str {
        match self {
            Self::Flush => "flush",
            Self::Compaction => "compaction",
            Self::Truncate => "cleanup",
            // Cassandra's name for SSTables that arrive from another node.
            Self::Import => "stream",
            Self::Scrub => "scrub",
        }
    }
}

/// A transaction in progress. If it is dropped before the commit, [`recover`] finishes it.
pub(crate) struct Transaction {
    fs: Arc<dyn FileSystem>,
    directory: PathBuf,
    path: PathBuf,
    file: Box<dyn WritableFile>,
    added: Vec<Descriptor>,
    discarded: Option<Position>,
}

type Result<T> = cassette_rows::Result<T>;

impl Transaction {
    /// Begins a transaction in a table's directory.
    pub fn begin(
        fs: Arc<dyn FileSystem>,
        directory: &Path,
        operation: OperationType,
        id: Uuid,
    ) -> Result<Self> {
        let path = directory.join(format!("nb_txn_{}_{id}.log", operation.file_name()));
        Self::create(fs, directory, path)
    }

    fn create(fs: Arc<dyn FileSystem>, directory: &Path, path: PathBuf) -> Result<Self> {
        let file = fs.create(&path).map_err(|e| StorageError::io(&path, "create the transaction log", e))?;
        Ok(Self { fs, directory: directory.to_owned(), path, file, added: Vec::new(), discarded: None })
    }

    /// Discards the table's records in the commit log up to `position` with the commit. The caller
    /// saves the position before [`Committed::finish`].
    pub fn discard_log(&mut self, position: Position) {
        self.discarded = Some(position);
    }

    /// Announces a new SSTable, before any of its files is created.
    pub fn add(&mut self, sstable: &Descriptor) -> Result<()> {
        let first = self.added.is_empty();
        self.added.push(sstable.clone());
        self.append(&line("ADD", &absolute_prefix(sstable), 0, 0))?;
        if first { self.sync_directory() } else { Ok(()) }
    }

    /// Commits the change: the added SSTables are kept, and the `removed` ones are removed.
    pub fn commit(mut self, removed: &[Descriptor]) -> std::result::Result<Committed, CommitError> {
        match self.write_commit(removed) {
            Ok(()) => Ok(Committed {
                fs: self.fs,
                directory: self.directory,
                path: self.path,
                removed: removed.iter().map(Descriptor::file_prefix).collect(),
            }),
            Err(cause) => match self.undo() {
                Ok(()) => Err(CommitError::Undone(cause)),
                Err(_) => Err(CommitError::Unknown(cause)),
            },
        }
    }

    fn write_commit(&mut self, removed: &[Descriptor]) -> Result<()> {
        let mut lines = String::new();
        for sstable in removed {
            let files = files_of(self.fs.as_ref(), &self.directory, &sstable.file_prefix())?;
            let mut modified = 0;
            for file in files.iter().filter(|file| !file.ends_with("-Statistics.db")) {
                let path = self.directory.join(file);
                let metadata =
                    self.fs.metadata(&path).map_err(|e| StorageError::io(&path, "look at it", e))?;
                modified = modified.max(metadata.modified_millis);
            }
            lines.push_str(&line("REMOVE", &absolute_prefix(sstable), modified, files.len()));
        }
        if let Some(position) = self.discarded {
            let name = format!("{POSITION}{}-{}-", position.segment, position.offset);
            lines.push_str(&line("REMOVE", &absolute(&self.directory.join(name)), 0, 0));
        }
        if !lines.is_empty() {
            self.append(&lines)?;
        }
        self.append(&line("COMMIT", "", 0, 0))?;
        if self.added.is_empty() { self.sync_directory() } else { Ok(()) }
    }

    /// Removes the added SSTables after a failed commit. COMMIT may be on disk or not: the log must
    /// be gone, durably, before a file of an added SSTable is removed. A second log without COMMIT
    /// then names the added SSTables, so that [`recover`] finishes a removal that fails halfway.
    fn undo(self) -> Result<()> {
        let Self { fs, directory, path, file, added, discarded: _ } = self;
        drop(file);
        finish(fs.as_ref(), &directory, &path, &[])?;
        if added.is_empty() {
            return Ok(());
        }
        let mut removal = Self::create(fs, &directory, path)?;
        for sstable in &added {
            removal.add(sstable)?;
        }
        removal.abort()
    }

    /// Aborts: removes the files of the added SSTables. [`recover`] repeats what fails here.
    pub fn abort(self) -> Result<()> {
        let added: Vec<_> = self.added.iter().map(Descriptor::file_prefix).collect();
        drop(self.file);
        finish(self.fs.as_ref(), &self.directory, &self.path, &added)
    }

    fn append(&mut self, lines: &str) -> Result<()> {
        let written = self.file.write_all(lines.as_bytes()).and_then(|()| self.file.sync());
        written.map_err(|e| StorageError::io(&self.path, "write the transaction log", e))
    }

    fn sync_directory(&self) -> Result<()> {
        let synced = self.fs.sync_dir(&self.directory);
        synced.map_err(|e| StorageError::io(&self.directory, "sync the directory", e))
    }
}

/// The error of a commit.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommitError {
    /// The change did not happen, and nothing of it is left.
    #[error(transparent)]
    Undone(StorageError),
    /// The next start determines whether it happened. Until then no operation may depend on either.
    #[error(transparent)]
    Unknown(StorageError),
}

/// A committed transaction whose removed SSTables still have files.
#[must_use = "the removed SSTables' files are still there"]
pub(crate) struct Committed {
    fs: Arc<dyn FileSystem>,
    directory: PathBuf,
    path: PathBuf,
    removed: Vec<String>,
}

impl Committed {
    /// Removes the files of the removed SSTables, and keeps the transaction's.
    pub fn remove_files(&self) -> Result<()> {
        remove_files(self.fs.as_ref(), &self.directory, &self.removed)
    }

    /// Removes the files of the removed SSTables, and then the transaction's. [`recover`] repeats
    /// what fails here.
    pub fn finish(self) -> Result<()> {
        finish(self.fs.as_ref(), &self.directory, &self.path, &self.removed)
    }
}

/// Removes the files with these prefixes, then the transaction's, each durably before the next.
fn finish(fs: &dyn FileSystem, directory: &Path, transaction: &Path, prefixes: &[String]) -> Result<()> {
    remove_files(fs, directory, prefixes)?;
    fs.remove_file(transaction).map_err(|e| StorageError::io(transaction, "remove", e))?;
    fs.sync_dir(directory).map_err(|e| StorageError::io(directory, "sync the directory", e))
}

/// Removes the files with these prefixes, durably: also those that an earlier attempt removed
/// without syncing the directory.
fn remove_files(fs: &dyn FileSystem, directory: &Path, prefixes: &[String]) -> Result<()> {
    if prefixes.is_empty() {
        return Ok(());
    }
    for prefix in prefixes {
        for file in files_of(fs, directory, prefix)? {
            let path = directory.join(file);
            fs.remove_file(&path).map_err(|e| StorageError::io(&path, "remove", e))?;
        }
    }
    fs.sync_dir(directory).map_err(|e| StorageError::io(directory, "sync the directory", e))
}

/// Completes or undoes the transactions that a crash left in a table's directory. Returns what the
/// directory contains then. `discard` durably records a position up to which the table's records in
/// the commit log are not needed.
pub(crate) fn recover(
    fs: &dyn FileSystem,
    directory: &Path,
    mut discard: impl FnMut(Position) -> Result<()>,
) -> Result<Vec<DirEntry>> {
    let list = || fs.read_dir(directory).map_err(|e| StorageError::io(directory, "list", e));
    let entries = list()?;
    let mut is_changed = false;
    for entry in entries.iter().filter(|entry| !entry.is_dir && is_transaction(&entry.name)) {
        let path = directory.join(&entry.name);
        let content = fs.read(&path).map_err(|e| StorageError::io(&path, "read", e))?;
        let leftover = Leftover::parse(&content).map_err(|line| {
            let line = String::from_utf8_lossy(&line).into_owned();
            StorageError::corrupt(
                &path,
                format!(
                    "line {line:?} of a committed transaction fails its checksum. Remove the SSTables that its other \
                     lines call REMOVE, or, if that is not known, those of its ADD lines, and the file itself"
                ),
            )
        })?;
        tracing::info!(path = %path.display(), committed = leftover.committed, "finishing an interrupted transaction");
        leftover.discarded.map_or(Ok(()), &mut discard)?;
        finish(fs, directory, &path, &leftover.doomed)?;
        is_changed = true;
    }
    if is_changed { list() } else { Ok(entries) }
}

/// Returns the file name prefixes of SSTables in a directory with these `entries` that do not
/// count: those that a running or interrupted transaction has not added yet or has removed.
pub(crate) fn doomed(fs: &dyn FileSystem, directory: &Path, entries: &[DirEntry]) -> Result<Vec<String>> {
    let mut doomed = Vec::new();
    for entry in entries.iter().filter(|entry| !entry.is_dir && is_transaction(&entry.name)) {
        let path = directory.join(&entry.name);
        let content = fs.read(&path).map_err(|e| StorageError::io(&path, "read", e))?;
        let leftover = Leftover::parse(&content).map_err(|line| {
            let line = String::from_utf8_lossy(&line).into_owned();
            StorageError::corrupt(
                &path,
                format!("line {line:?} of a committed transaction fails its checksum"),
            )
        })?;
        doomed.extend(leftover.doomed);
    }
    Ok(doomed)
}

/// Whether a file name is that of a transaction.
fn is_transaction(name: &str) -> bool {
    name.ends_with(".log")
        && (name.starts_with("txn_") || name.get(2..).is_some_and(|n| n.starts_with("_txn_")))
}

/// The remaining work of a transaction.
#[derive(Debug, PartialEq, Eq)]
struct Leftover {
    committed: bool,
    /// File name prefixes of the SSTables to remove.
    doomed: Vec<String>,
    /// The position up to which a truncation discarded the log.
    discarded: Option<Position>,
}

impl Leftover {
    /// Returns a damaged line as the error if a COMMIT follows it.
    fn parse(content: &[u8]) -> std::result::Result<Self, Vec<u8>> {
        let (mut added, mut removed) = (Vec::new(), Vec::new());
        let (mut damaged, mut discarded) = (None, None);
        for raw in content.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            match parse_line(raw) {
                Some(("COMMIT", _)) => match damaged {
                    Some(line) => return Err(line),
                    None => return Ok(Self { committed: true, doomed: removed, discarded }),
                },
                Some(("ADD", prefix)) => added.push(prefix),
                Some(("REMOVE", prefix)) => match parse_position(&prefix) {
                    Some(position) => discarded = discarded.max(Some(position)),
                    None => removed.push(prefix),
                },
                Some(_) => {}
                None => damaged = Some(raw.to_owned()),
            }
        }
        Ok(Self { committed: false, doomed: added, discarded: None })
    }
}

/// Returns the position in the name of a line.
fn parse_position(name: &str) -> Option<Position> {
    let (segment, offset) = name.strip_prefix(POSITION)?.strip_suffix('-')?.split_once('-')?;
    Some(Position { segment: segment.parse().ok()?, offset: offset.parse().ok()? })
}

/// Returns a line's type and file name prefix; `None` if it is damaged.
fn parse_line(line: &[u8]) -> Option<(&str, String)> {
    let text = std::str::from_utf8(line).ok()?;
    let (kind, rest) = text.split_once(":[")?;
    let (fields, sum) = rest.strip_suffix(']')?.rsplit_once("][")?;
    let mut fields = fields.rsplitn(3, ',');
    let files = fields.next()?.parse().ok()?;
    let modified = fields.next()?.parse().ok()?;
    let path = fields.next()?;
    if sum.parse().ok() != Some(checksum(kind, path, modified, files)) {
        return None;
    }
    let prefix = path.rsplit('/').next().unwrap_or_default();
    // An empty prefix would match every file.
    let names_files = prefix.ends_with('-');
    (names_files || !matches!(kind, "ADD" | "REMOVE")).then(|| (kind, prefix.to_owned()))
}

fn line(kind: &str, path: &str, modified: i64, files: usize) -> String {
    let files = i32::try_from(files).unwrap_or(i32::MAX);
    format!("{kind}:[{path},{modified},{files}][{}]\n", checksum(kind, path, modified, files))
}

fn checksum(kind: &str, path: &str, modified: i64, files: i32) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(path.as_bytes());
    crc.update(kind.as_bytes());
    crc.update(&(modified as i32).to_be_bytes());
    crc.update(&((modified >> 32) as i32).to_be_bytes());
    crc.update(&files.to_be_bytes());
    crc.finalize()
}

fn absolute_prefix(sstable: &Descriptor) -> String {
    absolute(&sstable.directory.join(sstable.file_prefix()))
}

fn absolute(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string()
}

fn files_of(fs: &dyn FileSystem, directory: &Path, prefix: &str) -> Result<Vec<String>> {
    let entries = fs.read_dir(directory).map_err(|e| StorageError::io(directory, "list", e))?;
    Ok(entries.into_iter().map(|entry| entry.name).filter(|name| name.starts_with(prefix)).collect())
}

#[cfg(test)]
mod tests {
    use cassette_sstable::{Component, SSTableId};
    use cassette_vfs::FakeFileSystem;

    use super::*;

    const DIRECTORY: &str = "t";

    /// A durable directory with SSTables 1 and 2, each with two files.
    fn directory() -> FakeFileSystem {
        let fs = FakeFileSystem::new();
        fs.create_dir_all(Path::new(DIRECTORY)).unwrap();
        fs.sync_dir(Path::new("")).unwrap();
        write(&fs, 1).unwrap();
        write(&fs, 2).unwrap();
        fs
    }

    fn descriptor(number: u64) -> Descriptor {
        Descriptor::new(DIRECTORY, SSTableId::Sequence(number))
    }

    fn write(fs: &FakeFileSystem, number: u64) -> std::io::Result<()> {
        for component in [Component::Data, Component::Toc] {
            let mut file = fs.create(&descriptor(number).path(component))?;
            file.write_all(b"content")?;
            file.sync()?;
        }
        fs.sync_dir(Path::new(DIRECTORY))
    }

    /// Returns the SSTables that have all their files; panics if one has only some.
    fn sstables(fs: &FakeFileSystem) -> Vec<u64> {
        let names: Vec<_> =
            fs.read_dir(Path::new(DIRECTORY)).unwrap().into_iter().map(|entry| entry.name).collect();
        assert!(!names.iter().any(|name| is_transaction(name)), "{names:?}");
        let whole = (1..10).filter(|number| {
            let files =
                [Component::Data, Component::Toc].map(|component| descriptor(*number).file_name(component));
            let there = files.iter().filter(|file| names.contains(file)).count();
            assert_ne!(there, 1, "{names:?}");
            there == 2
        });
        whole.collect()
    }

    /// Recovers the directory. Returns the position up to which the log is discarded.
    fn recovered(fs: &FakeFileSystem) -> Result<Option<Position>> {
        let mut discarded = None;
        recover(fs, Path::new(DIRECTORY), |position| {
            discarded = Some(position);
            Ok(())
        })?;
        Ok(discarded)
    }

    /// Crashes `fs`, recovers the directory, and returns its SSTables.
    fn sstables_after_crash(fs: &FakeFileSystem, seed: u64) -> Vec<u64> {
        let fs = fs.crash(seed);
        recovered(&fs).unwrap();
        sstables(&fs)
    }

    /// A replacement that failed at an operation, followed by a crash.
    fn crashed_replacement(operation: u64, seed: u64) -> FakeFileSystem {
        let fs = directory();
        fs.fail_from(fs.operations() + operation);
        let _ = replace(&fs);
        fs.crash(seed)
    }

    /// Replaces SSTables 1 and 2 by 3; an error if it was not committed.
    fn replace(fs: &FakeFileSystem) -> std::result::Result<(), Box<dyn std::error::Error>> {
        let shared = Arc::new(fs.clone());
        let mut transaction =
            Transaction::begin(shared, Path::new(DIRECTORY), OperationType::Compaction, Uuid::nil())?;
        transaction.add(&descriptor(3))?;
        write(fs, 3)?;
        let _ = transaction.commit(&[descriptor(1), descriptor(2)])?.finish();
        Ok(())
    }

    #[test]
    fn a_crash_at_any_step_leaves_the_old_sstables_or_the_new_one() {
        let steps = {
            let fs = directory();
            let before = fs.operations();
            replace(&fs).unwrap();
            assert_eq!(sstables(&fs), [3]);
            fs.operations() - before
        };
        assert!(steps > 15);
        for step in 1..=steps {
            for seed in 0..40 {
                let fs = directory();
                fs.fail_from(fs.operations() + step);
                let committed = replace(&fs).is_ok();
                let left = sstables_after_crash(&fs, seed);
                assert!(left == [3] || left == [1, 2] && !committed, "step {step}, seed {seed}: {left:?}");
            }
        }
    }

    #[test]
    fn a_crash_during_recovery_is_recovered_from() {
        for step in 1..30 {
            for seed in 0..20 {
                let fs = crashed_replacement(11 + seed % 12, seed);
                fs.fail_from(fs.operations() + step);
                let _ = recovered(&fs);
                let left = sstables_after_crash(&fs, seed + 1);
                assert!(left == [3] || left == [1, 2], "{left:?}");
            }
        }
    }

    #[test]
    fn one_failure_leaves_the_old_or_the_new_and_says_which() {
        for step in 1..40 {
            let fs = directory();
            fs.fail_at(fs.operations() + step);
            let committed = replace(&fs).is_ok();
            fs.heal();
            recovered(&fs).unwrap();
            let left = sstables(&fs);
            // After a failed commit the new SSTable may exist beside the old ones, complete: the
            // same data twice.
            let expected = if committed { left == [3] } else { left == [1, 2] || left == [1, 2, 3] };
            assert!(expected, "step {step}: {left:?}, committed: {committed}");
        }
    }

    /// Fails the operations with these numbers, counted from 1 from here on.
    fn fail_each(fs: &FakeFileSystem, numbers: [u64; 2]) {
        let mut number = 0;
        fs.fail_when(move |_| {
            number += 1;
            numbers.contains(&number).then_some(std::io::ErrorKind::Other)
        });
    }

    #[test]
    fn two_failures_leave_no_sstable_with_only_some_of_its_files() {
        for first in 1..40 {
            for second in first + 1..40 {
                let fs = directory();
                fail_each(&fs, [first, second]);
                let committed = replace(&fs).is_ok();
                fs.heal();
                recovered(&fs).unwrap();
                let left = sstables(&fs);
                // A commit that failed, and could not be undone either, may have happened.
                let expected = left == [3] || !committed && (left == [1, 2] || left == [1, 2, 3]);
                assert!(expected, "steps {first} and {second}: {left:?}, committed: {committed}");
            }
        }
    }

    #[test]
    fn failures_and_a_crash_leave_no_sstable_with_only_some_of_its_files() {
        for first in 1..30 {
            for second in first + 1..30 {
                for seed in 0..8 {
                    let fs = directory();
                    fail_each(&fs, [first, second]);
                    let committed = replace(&fs).is_ok();
                    fs.heal();
                    let left = sstables_after_crash(&fs, seed);
                    let expected = left == [3] || !committed && (left == [1, 2] || left == [1, 2, 3]);
                    assert!(expected, "steps {first} and {second}: {left:?}, committed: {committed}");
                }
            }
        }
    }

    #[test]
    fn a_recovery_that_fails_is_finished_by_the_next_one() {
        for (begun, step, second, seed) in (11..23).flat_map(|begun| {
            (1..15).flat_map(move |step| {
                (1..8).flat_map(move |second| (0..6).map(move |seed| (begun, step, second, seed)))
            })
        }) {
            let fs = crashed_replacement(begun, seed);
            // The process starts twice before the machine crashes.
            fs.fail_at(fs.operations() + step);
            let _ = recovered(&fs);
            fs.heal();
            fs.fail_from(fs.operations() + second);
            let _ = recovered(&fs);
            let left = sstables_after_crash(&fs, seed + 1);
            assert!(left == [3] || left == [1, 2], "{begun} {step} {second} {seed}: {left:?}");
        }
    }

    #[test]
    fn a_file_of_cassandra_is_understood() {
        // Written by Cassandra 5.0.8 while it compacted; only the path is shortened and the
        // checksums recomputed.
        let log = [
            line("REMOVE", "/var/lib/cassandra/data/ks/t-1/nb-1-big-", 1795228485000, 8),
            line("ADD", "/var/lib/cassandra/data/ks/t-1/nb-3-big-", 0, 8),
            line("COMMIT", "", 0, 0),
        ]
        .concat();
        let leftover = Leftover::parse(log.as_bytes()).unwrap();
        assert_eq!(leftover, Leftover { committed: true, doomed: vec!["nb-1-big-".into()], discarded: None });
        let torn = &log.as_bytes()[..log.len() - 3];
        let leftover = Leftover::parse(torn).unwrap();
        assert_eq!(
            leftover,
            Leftover { committed: false, doomed: vec!["nb-3-big-".into()], discarded: None }
        );
        let mut damaged = log.into_bytes();
        damaged[12] ^= 1;
        assert!(Leftover::parse(&damaged).is_err());
    }

    const TRUNCATED: Position = Position { segment: 1_795_228_485_000, offset: u32::MAX };

    /// Removes SSTables 1 and 2 and discards the log; an error if that was not committed.
    fn truncate(fs: &FakeFileSystem) -> std::result::Result<(), Box<dyn std::error::Error>> {
        let shared = Arc::new(fs.clone());
        let mut transaction =
            Transaction::begin(shared, Path::new(DIRECTORY), OperationType::Truncate, Uuid::nil())?;
        transaction.discard_log(TRUNCATED);
        let committed = transaction.commit(&[descriptor(1), descriptor(2)])?;
        let _ = committed.remove_files().and_then(|()| committed.finish());
        Ok(())
    }

    #[test]
    fn a_truncation_discards_the_log_if_and_only_if_it_removes_the_sstables() {
        let steps = {
            let fs = directory();
            let before = fs.operations();
            truncate(&fs).unwrap();
            assert_eq!(sstables(&fs), Vec::<u64>::new());
            fs.operations() - before
        };
        for step in 1..=steps {
            for seed in 0..40 {
                let fs = directory();
                fs.fail_from(fs.operations() + step);
                let committed = truncate(&fs).is_ok();
                let fs = fs.crash(seed);
                let discarded = recovered(&fs).unwrap();
                let what = format!("step {step}, seed {seed}, committed: {committed}");
                match (&sstables(&fs)[..], discarded) {
                    ([1, 2], None) => assert!(!committed, "{what}"),
                    ([], Some(TRUNCATED)) => {}
                    // The caller had saved the position: the transaction's file was removed last.
                    ([], None) => assert!(committed, "{what}"),
                    (left, discarded) => panic!("{what}: {left:?}, {discarded:?}"),
                }
            }
        }
    }

    #[test]
    fn a_position_that_cannot_be_recorded_keeps_the_transaction() {
        let fs = directory();
        fs.fail_when(|operation| {
            (operation.kind == cassette_vfs::OperationKind::RemoveFile).then_some(std::io::ErrorKind::Other)
        });
        truncate(&fs).unwrap();
        fs.heal();
        let refuse = |_| Err(StorageError::corrupt(DIRECTORY, "injected"));
        recover(&fs, Path::new(DIRECTORY), refuse).unwrap_err();
        assert_eq!(recovered(&fs).unwrap(), Some(TRUNCATED));
        assert_eq!(sstables(&fs), Vec::<u64>::new());
    }

    #[test]
    fn only_a_whole_position_is_one() {
        assert_eq!(parse_position("log-7-40-"), Some(Position { segment: 7, offset: 40 }));
        for other in
            ["nb-7-big-", "log-", "log-7-", "log-7-40", "log--7-40-", "log-7-4294967296-", "log-7-4-0-"]
        {
            assert_eq!(parse_position(other), None, "{other}");
        }
    }

    #[test]
    fn a_line_without_a_file_name_removes_nothing() {
        let log = line("ADD", "/", 0, 0);
        assert_eq!(Leftover::parse(log.as_bytes()).unwrap().doomed, Vec::<String>::new());
    }
}
