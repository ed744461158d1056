//! Common code of the commands: selects and opens SSTables.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use cassette_rows::{TableId, TableMetadata};
use cassette_sstable::chunk_cache::ChunkCache;
use cassette_sstable::reader::{ForeignFiles, OpenOptions};
use cassette_sstable::{Component, Descriptor, SSTableReader};
use cassette_vfs::RealFileSystem;
use uuid::Uuid;

/// The size of the chunk cache while a file is read.
const CACHE_BYTES: u64 = 4 << 20;

/// Returns the SSTables of paths: a file of one each, or directories with all in them, in the order
/// of their names.
pub fn sstables(paths: &[PathBuf]) -> anyhow::Result<Vec<Descriptor>> {
    let mut found = Vec::new();
    for path in paths {
        if path.is_dir() {
            let before = found.len();
            found.extend(in_directory(path)?);
            if found.len() == before {
                bail!("{}: no SSTable in this directory", path.display());
            }
        } else {
            found.push(sstable(path)?);
        }
    }
    Ok(found)
}

/// Returns the SSTable of a file, or of a path without the component.
pub fn sstable(path: &Path) -> anyhow::Result<Descriptor> {
    let whole = |path: &Path| Descriptor::from_path(path).map(|(descriptor, _)| descriptor);
    let mut with_component = path.as_os_str().to_owned();
    with_component.push("-Data.db");
    if let Some(descriptor) = whole(path).or_else(|| whole(Path::new(&with_component))) {
        let data = descriptor.path(Component::Data);
        if !data.exists() {
            bail!("Cannot find file {}", data.display());
        }
        return Ok(descriptor);
    }
    if !path.exists() {
        bail!("Cannot find file {}", path.display());
    }
    bail!(
        "{}: not a file of an SSTable that can be read: nb-<id>-big-<Component>, or of another version, from \
         ma-<id>-big-… to da-<id>-bti-…",
        path.display()
    );
}

/// The SSTables in a directory, by their ids.
pub fn in_directory(directory: &Path) -> anyhow::Result<Vec<Descriptor>> {
    let mut found = Vec::new();
    let entries =
        std::fs::read_dir(directory).with_context(|| format!("cannot list {}", directory.display()))?;
    for entry in entries {
        let path = entry.with_context(|| format!("cannot list {}", directory.display()))?.path();
        if let Some((descriptor, Component::Data)) = Descriptor::from_path(&path) {
            found.push(descriptor);
        }
    }
    found.sort_by_key(|descriptor| descriptor.id);
    Ok(found)
}

/// Opens an SSTable for one complete read. Verifies only what reading requires, and writes nothing.
pub fn open(descriptor: &Descriptor, table: &Arc<TableMetadata>) -> anyhow::Result<SSTableReader> {
    let cache = Arc::new(ChunkCache::new(CACHE_BYTES));
    let options = OpenOptions { foreign: ForeignFiles::Trust };
    Ok(SSTableReader::open(Arc::new(RealFileSystem), descriptor.clone(), table.clone(), cache, options)?)
}

/// The location of an SSTable, by the names of its directories.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place {
    pub keyspace: Option<String>,
    pub table: Option<String>,
    /// The table's id.
    pub table_id: Option<TableId>,
    /// The built-in index that it belongs to.
    pub index: Option<String>,
    /// The snapshot that it is in.
    pub snapshot: Option<String>,
    /// `backups`, if it is in there.
    pub backup: Option<String>,
}

impl Place {
    /// Returns the location of the SSTables in a directory:
    /// `<keyspace>/<table>-<id>[/snapshots/<name> | /backups][/.<index>]`.
    pub fn guess(directory: &Path) -> Self {
        let absolute = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
        let name = |path: Option<&Path>| {
            path.and_then(Path::file_name).and_then(|name| name.to_str()).unwrap_or_default().to_owned()
        };
        let mut place = Self::default();
        let mut at = absolute.as_path();
        let own = name(Some(at));
        if own.len() > 1 && own.starts_with('.') && !own.starts_with("..") {
            place.index = Some(own[1..].to_owned());
            at = at.parent().unwrap_or(at);
        }
        if name(Some(at)) == "backups" {
            place.backup = Some("backups".to_owned());
            at = at.parent().unwrap_or(at);
        }
        if name(at.parent()) == "snapshots" {
            place.snapshot = Some(name(Some(at)));
            at = at.parent().and_then(Path::parent).unwrap_or(at);
        }
        if let Some((table, id)) = name(Some(at)).rsplit_once('-')
            && let Ok(id) = Uuid::try_parse(id)
        {
            place.keyspace = Some(name(at.parent()));
            place.table = Some(table.to_owned());
            place.table_id = Some(TableId(id));
        }
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_sstables_is_read_from_their_directory() {
        let id = "35ac221c64155c029dc7231a6e9b8ca5";
        let place = Place::guess(Path::new(&format!("/d/ks/t-{id}")));
        assert_eq!((place.keyspace.as_deref(), place.table.as_deref()), (Some("ks"), Some("t")));
        let place = Place::guess(Path::new(&format!("/d/ks/t-{id}/snapshots/s/.i")));
        assert_eq!((place.snapshot.as_deref(), place.index.as_deref()), (Some("s"), Some("i")));
        assert_eq!(place.keyspace.as_deref(), Some("ks"));
        let place = Place::guess(Path::new(&format!("/d/ks/t-{id}/backups")));
        assert_eq!((place.backup.as_deref(), place.table.as_deref()), (Some("backups"), Some("t")));
        assert_eq!(Place::guess(Path::new("/somewhere/else")), Place::default());
    }
}
