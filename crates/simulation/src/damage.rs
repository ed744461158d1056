//! Damages files at rest as the last step of a run.
//!
//! After a clean stop, bytes of files change or files are lost, and the node starts again. Each of
//! its responses must be correct or an error, and it must not remove a file of a table, because no
//! statement dropped one.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cassette_vfs::{FakeFileSystem, FileSystem};
use rand::RngExt;

use crate::node::End;
use crate::simulation::Simulation;

impl Simulation {
    /// Damages files of the stopped node and starts it again.
    pub(crate) fn damage(&mut self) -> Result<(), String> {
        self.node.end(End::Stopped);
        let fs = self.node.fs().clone();
        let all = files(&fs, Path::new("/data"));
        if self.one_in(2) { self.change_bytes(&fs, &all) } else { self.lose_files(&fs, &all) }
    }

    fn change_bytes(&mut self, fs: &FakeFileSystem, all: &[PathBuf]) -> Result<(), String> {
        for _ in 0..self.random.random_range(1..4) {
            let file = &all[self.random.random_range(0..all.len())];
            let length = fs.metadata(file).map_err(|error| error.to_string())?.len;
            if length == 0 {
                continue;
            }
            let (offset, mask) = (self.random.random_range(0..length), self.random.random_range(1..=255));
            self.note(format!("-- byte {offset} of {} is changed by {mask:#04x}", file.display()));
            fs.corrupt(file, offset, mask);
        }
        self.node.expect_failures();
        if !self.starts_with_its_files(fs)? {
            return Ok(());
        }
        // Reads of damaged files fail; a result must be correct.
        self.connect()?;
        self.settle_schema()?;
        for table in self.model.tables.keys().cloned().collect::<Vec<_>>() {
            if let Some(seen) = self.scan(&table)? {
                self.compare_scan(&table, &seen)?;
                self.compare_indexes(&table)?;
                self.compare_views(&table)?;
            }
        }
        Ok(())
    }

    fn lose_files(&mut self, fs: &FakeFileSystem, all: &[PathBuf]) -> Result<(), String> {
        let lost: Vec<&PathBuf> = match self.random.random_range(0..4) {
            0 => all.iter().filter(|file| file.starts_with("/data/commitlog")).collect(),
            1 => all.iter().filter(|file| file.starts_with("/data/data/system_schema")).collect(),
            2 => {
                let table = ["tables-", "keyspaces-", "columns-"][self.random.random_range(0..3)];
                let of_table = Path::new("/data/data/system_schema").join(table);
                let of_table = of_table.to_string_lossy().into_owned();
                all.iter().filter(|file| file.to_string_lossy().starts_with(&of_table)).collect()
            }
            _ => all.iter().filter(|_| self.random.random_range(0..10) == 0).collect(),
        };
        for file in lost {
            self.note(format!("-- {} is lost", file.display()));
            fs.remove_file(file).map_err(|error| error.to_string())?;
        }
        self.node.expect_failures();
        self.starts_with_its_files(fs).map(drop)
    }

    /// Starts the node and returns whether it started. All existing files of tables must still
    /// exist afterwards.
    fn starts_with_its_files(&mut self, fs: &FakeFileSystem) -> Result<bool, String> {
        let of_tables = || -> BTreeSet<PathBuf> {
            let all = files(fs, Path::new("/data/data"));
            let is_of_user = |file: &PathBuf| {
                let keyspace = file.strip_prefix("/data/data").ok().and_then(|rest| rest.iter().next());
                keyspace.is_some_and(|keyspace| keyspace == "ks0" || keyspace == "ks1")
            };
            all.into_iter().filter(is_of_user).filter(|file| is_component(file)).collect()
        };
        let before = of_tables();
        let started = self.node.start();
        if let Err(error) = &started {
            self.note(format!("   the start failed: {error}"));
        }
        let after = of_tables();
        // A view whose progress is lost is built again, and its files are kept in a snapshot.
        let names: BTreeSet<_> = after.iter().filter(|file| is_in_snapshot(file)).filter_map(place).collect();
        let is_kept = |file: &&PathBuf| place(file).is_some_and(|place| names.contains(&place));
        let removed: Vec<_> = before.difference(&after).filter(|file| !is_kept(file)).collect();
        if removed.is_empty() { Ok(started.is_ok()) } else { Err(format!("a start removed {removed:?}")) }
    }
}

/// Returns whether the file is a component of an SSTable.
fn is_component(file: &Path) -> bool {
    file.file_name().is_some_and(|name| name.to_string_lossy().starts_with("nb-"))
}

fn is_in_snapshot(file: &Path) -> bool {
    file.iter().any(|part| part == "snapshots")
}

/// Returns the directory of a table and the name of one of its files. A snapshot of the table has
/// the same pair.
fn place(file: impl AsRef<Path>) -> Option<(PathBuf, OsString)> {
    let file = file.as_ref();
    let directory = if is_in_snapshot(file) { file.ancestors().nth(3) } else { file.parent() };
    Some((directory?.to_owned(), file.file_name()?.to_owned()))
}

/// Returns the files below a directory, sorted.
fn files(fs: &FakeFileSystem, directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs.read_dir(directory) else { return Vec::new() };
    let below = entries.into_iter().flat_map(|entry| {
        let path = directory.join(&entry.name);
        if entry.is_dir { files(fs, &path) } else { vec![path] }
    });
    below.collect()
}
