//! Recognition of directories by their contents.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use cassette_rows::TableId;
use cassette_sstable::Component;
use cassette_sstable::descriptor::{FileName, parse_file_name};
use cassette_vfs::{DirEntry, FileSystem};
use uuid::Uuid;

use crate::error::{AdoptError, Result};
use crate::versions;

/// What a directory is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recognised {
    /// A data directory of this program.
    Cassette,
    /// A data directory of Cassandra, or a directory that contains one.
    Cassandra(CassandraDirectory),
    /// SSTables of one table: a snapshot, a backup, or the table's own directory.
    TableFiles {
        /// Whether they have a `schema.cql`, as snapshots do.
        has_schema: bool,
    },
    /// Missing, empty, or anything else.
    Other,
}

/// A data directory of Cassandra and the directories beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CassandraDirectory {
    /// One of `data_file_directories`: it contains the keyspaces' directories.
    pub data: PathBuf,
    /// `commitlog` beside it.
    pub commitlog: Option<PathBuf>,
    /// `hints` beside it.
    pub hints: Option<PathBuf>,
}

/// The directory of a table in a data directory.
#[derive(Debug, Clone)]
pub(crate) struct TableDirectory {
    pub path: PathBuf,
    pub keyspace: String,
    pub table: String,
    pub id: TableId,
    /// The number of Data components.
    pub sstables: u64,
    /// Bytes of all components.
    pub bytes: u64,
    /// The versions of SSTables that cannot be read.
    pub unsupported: BTreeSet<String>,
}

/// Returns what a directory is. A missing one is [`Recognised::Other`].
///
/// # Errors
/// If a directory cannot be listed.
pub fn recognise(fs: &dyn FileSystem, path: &Path) -> Result<Recognised> {
    let entries = list(fs, path)?;
    let has = |name: &str| entries.iter().any(|entry| entry.name == name);
    if has("cassette.version") {
        return Ok(Recognised::Cassette);
    }
    if entries.iter().any(|entry| !entry.is_dir && parse_file_name(&entry.name).is_some()) {
        return Ok(Recognised::TableFiles { has_schema: has("schema.cql") });
    }
    if has("schema.cql") && has("manifest.json") {
        // The snapshot of an empty table.
        return Ok(Recognised::TableFiles { has_schema: true });
    }
    let found = find(fs, path)?;
    Ok(found.map_or(Recognised::Other, Recognised::Cassandra))
}

/// Returns the data directory of Cassandra at `path`, in its `data`, or in its `data/data`: the
/// places in `cassandra.storagedir` and in an unpacked distribution.
fn find(fs: &dyn FileSystem, path: &Path) -> Result<Option<CassandraDirectory>> {
    for below in ["", "data", "data/data"] {
        let data = if below.is_empty() { path.to_owned() } else { path.join(below) };
        if !is_data_directory(fs, &data)? || is_cassettes(fs, &data)? {
            continue;
        }
        let beside = |name: &str| {
            let sibling = data.parent().map(|parent| parent.join(name));
            let candidates = sibling.into_iter().chain([path.join(name)]);
            candidates.into_iter().find(|path| is_directory(fs, path))
        };
        let (commitlog, hints) = (beside("commitlog"), beside("hints"));
        return Ok(Some(CassandraDirectory { data, commitlog, hints }));
    }
    Ok(None)
}

/// Whether a directory contains directories of keyspaces with those of tables.
pub(crate) fn is_data_directory(fs: &dyn FileSystem, path: &Path) -> Result<bool> {
    for keyspace in list(fs, path)?.iter().filter(|entry| entry.is_dir) {
        let tables = list(fs, &path.join(&keyspace.name))?;
        if tables.iter().any(|table| table.is_dir && table_name(&table.name).is_some()) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a directory of tables is one of this program, in its data directory.
fn is_cassettes(fs: &dyn FileSystem, data: &Path) -> Result<bool> {
    let Ok(data) = fs.canonicalize(data) else { return Ok(false) };
    let Some(parent) = data.parent() else { return Ok(false) };
    let version = parent.join("cassette.version");
    fs.exists(&version).map_err(AdoptError::io("look for", &version))
}

/// Returns the name and the id of a table from the name of its directory.
pub(crate) fn table_name(directory: &str) -> Option<(&str, TableId)> {
    let (name, id) = directory.rsplit_once('-')?;
    let id = Uuid::try_parse(id).ok().filter(|_| id.len() == 32)?;
    Some((name, TableId(id)))
}

/// Returns the directories of all tables in a data directory of Cassandra.
pub(crate) fn table_directories(fs: &dyn FileSystem, data: &Path) -> Result<Vec<TableDirectory>> {
    let mut found = Vec::new();
    for keyspace in list(fs, data)?.into_iter().filter(|entry| entry.is_dir) {
        let of_keyspace = data.join(&keyspace.name);
        for directory in list(fs, &of_keyspace)?.iter().filter(|entry| entry.is_dir) {
            if let Some((table, id)) = table_name(&directory.name) {
                let path = of_keyspace.join(&directory.name);
                let mut table = TableDirectory {
                    path,
                    keyspace: keyspace.name.clone(),
                    table: table.to_owned(),
                    id,
                    sstables: 0,
                    bytes: 0,
                    unsupported: BTreeSet::new(),
                };
                table.count(&list(fs, &table.path)?);
                found.push(table);
            }
        }
    }
    Ok(found)
}

impl TableDirectory {
    fn count(&mut self, entries: &[DirEntry]) {
        for entry in entries.iter().filter(|entry| !entry.is_dir) {
            match parse_file_name(&entry.name) {
                Some(FileName::Known(_, _, component)) => {
                    self.sstables += u64::from(component == Component::Data);
                    self.bytes += entry.len;
                }
                Some(FileName::OtherVersion { version, .. }) => {
                    self.unsupported.insert(version);
                }
                None => self.unsupported.extend(versions::old_version(&entry.name).map(str::to_owned)),
            }
        }
    }
}

/// Lists a directory; a missing one is empty.
pub(crate) fn list(fs: &dyn FileSystem, path: &Path) -> Result<Vec<DirEntry>> {
    match fs.read_dir(path) {
        Ok(entries) => Ok(entries),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(Vec::new())
        }
        Err(error) => Err(AdoptError::io("list", path)(error)),
    }
}

fn is_directory(fs: &dyn FileSystem, path: &Path) -> bool {
    fs.metadata(path).is_ok_and(|found| found.is_dir)
}
