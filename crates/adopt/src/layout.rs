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
    /// `None` if its name has none: that of a table that was created before Cassandra 2.1.
    pub id: Option<TableId>,
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
        let canonical = fs.canonicalize(&data).map_err(AdoptError::io("resolve", &data))?;
        let beside = |name: &str| {
            // A path without a name, such as `.`, is not within its parent. Of a symbolic link,
            // either place is possible.
            let named = Some(data.as_path()).filter(|data| data.file_name().is_some());
            let siblings = named.into_iter().chain([canonical.as_path()]).filter_map(Path::parent);
            let candidates = siblings.chain([path]).map(|parent| parent.join(name));
            candidates.into_iter().find(|path| is_directory(fs, path))
        };
        let (commitlog, hints) = (beside("commitlog"), beside("hints"));
        return Ok(Some(CassandraDirectory { data, commitlog, hints }));
    }
    Ok(None)
}

/// Whether a directory contains directories of keyspaces with those of tables.
pub(crate) fn is_data_directory(fs: &dyn FileSystem, path: &Path) -> Result<bool> {
    for keyspace in names_of_directories(fs, path)?.iter().filter(|name| is_name(name)) {
        let tables = names_of_directories(fs, &path.join(keyspace))?;
        if tables.iter().any(|table| table_name(table).is_some()) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the data directories of Cassandra beside one. What cannot be read is none.
pub(crate) fn data_directories_beside(fs: &dyn FileSystem, data: &Path) -> Vec<PathBuf> {
    let canonical = fs.canonicalize(data).unwrap_or_default();
    let Some(parent) = canonical.parent() else { return Vec::new() };
    let beside =
        names_of_directories(fs, parent).unwrap_or_default().into_iter().map(|name| parent.join(name));
    let is_data = |path: &PathBuf| {
        *path != canonical
            && is_data_directory(fs, path).unwrap_or(false)
            && !is_cassettes(fs, path).unwrap_or(true)
    };
    beside.filter(is_data).collect()
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
    // Others, such as `lost+found`, may not be readable.
    for keyspace in names_of_directories(fs, data)?.into_iter().filter(|name| is_name(name)) {
        let of_keyspace = data.join(&keyspace);
        for directory in names_of_directories(fs, &of_keyspace)? {
            let (table, id) = match table_name(&directory) {
                Some((table, id)) => (table, Some(id)),
                None if is_name(&directory) => (directory.as_str(), None),
                None => continue,
            };
            let mut table = TableDirectory {
                path: of_keyspace.join(&directory),
                keyspace: keyspace.clone(),
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

/// Returns the names of the directories in a directory, and of the symbolic links to some: the
/// tables of a keyspace can be on another volume.
fn names_of_directories(fs: &dyn FileSystem, path: &Path) -> Result<Vec<String>> {
    let entries = list(fs, path)?.into_iter();
    let directories = entries.filter(|entry| entry.is_dir || is_directory(fs, &path.join(&entry.name)));
    Ok(directories.map(|entry| entry.name).collect())
}

/// Whether a text can be the name of a keyspace or a table.
fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn is_directory(fs: &dyn FileSystem, path: &Path) -> bool {
    fs.metadata(path).is_ok_and(|found| found.is_dir)
}
