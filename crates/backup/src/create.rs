//! Creation of a backup.
//!
//! 1. A snapshot of the tables is taken: from here on, compactions and drops do not matter.
//! 2. Each file of it is compared with the previous backup: [`Source`].
//! 3. The files are linked or copied into `<backup>.incomplete`, and synced.
//! 4. The directory is renamed to `<backup>`, and the snapshot removed.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use cassette_database::embedded::Session;
use cassette_database::{Database, Keyspace, KeyspaceKind, Snapshot, SnapshotFilter, SnapshotOptions};
use cassette_vfs::FileSystem;
use jiff::Timestamp;

use crate::copy::{Content, copy, examine, write};
use crate::error::{Error, Result};
use crate::log::chain_name;
use crate::manifest::{FileRecord, LogPosition, Manifest, SCHEMA, TableRecord};
use crate::object_layout::ObjectLayout;
use crate::repository::{Backup, INCOMPLETE, Repository};

/// The keyspace of roles and permissions, which is part of a backup of everything.
pub(crate) const AUTH: &str = "system_auth";
/// The lifetime of the snapshot, which only an interrupted backup leaves behind.
const SNAPSHOT_TTL_SECONDS: u32 = 7 * 24 * 60 * 60;
/// Files of a known SSTable up to this length are compared by their content.
const COMPARED_LENGTH_MAX: u64 = 1 << 20;
/// Free space beyond the files of a backup that it requires, for directories and the manifest.
const SPACE_RESERVE: u64 = 16 << 20;

/// The options of a backup.
#[derive(Debug, Clone, Default)]
pub struct BackupOptions {
    /// The name; by default the time, such as `2026-11-23T17:30:00.123Z`.
    pub name: Option<String>,
    /// The keyspaces; if empty, all that were created, and roles with their permissions.
    pub keyspaces: Vec<String>,
    /// How new files are transferred.
    pub transfer: Transfer,
}

/// How files that the previous backup does not have are transferred.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Transfer {
    /// Copied: a second copy on whatever volume the repository is on.
    #[default]
    Copy,
    /// Hard-linked, without a second copy: protects against statements and compactions, not
    /// against a damaged disk. The repository must be on the volume of the data directory.
    Link,
}

/// A created backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Created {
    /// The backup.
    pub backup: Backup,
    /// Bytes of the files that were copied.
    pub copied_bytes: u64,
    /// Bytes of the files that are shared with the previous backup or the database.
    pub linked_bytes: u64,
}

impl fmt::Display for Created {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (tables, sstables) = self.backup.manifest.counts();
        write!(
            f,
            "backup {}: {tables} tables, {sstables} SSTables, {} bytes ({} copied, {} linked)",
            self.backup.name,
            self.backup.manifest.bytes(),
            self.copied_bytes,
            self.linked_bytes
        )
    }
}

/// Where a file of the backup comes from.
#[derive(Debug, PartialEq, Eq)]
enum Source {
    /// The previous backup has it; the copy of the database serves where links are not supported.
    Previous { path: PathBuf, record: FileRecord },
    /// The snapshot, by a link, with the checksum that the database recorded if it has one.
    Link { crc32: Option<u32> },
    /// The snapshot, by copying.
    Copy,
}

/// A file to be added to the backup.
struct Planned {
    name: String,
    from: PathBuf,
    bytes: u64,
    source: Source,
}

/// A table to be added to the backup.
struct PlannedTable {
    keyspace: String,
    table: String,
    directory: String,
    files: Vec<Planned>,
}

impl Repository {
    /// Creates a backup of an open database. It contains every write that was acknowledged before
    /// the call, and of concurrent writes any; tables are not of the same moment.
    ///
    /// # Errors
    /// Invalid, if the name exists, a keyspace does not, or there is too little space; otherwise
    /// those of the database and the file system. No backup exists after an error.
    pub fn back_up(&self, database: &Database, options: &BackupOptions) -> Result<Created> {
        let now = || {
            let micros = database.now_micros();
            Timestamp::from_microsecond(micros)
                .map_err(|error| Error::invalid(format!("the clock shows an invalid time: {error}")))
        };
        let started = now()?;
        let name = match &options.name {
            Some(name) => name.clone(),
            None => started.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string(),
        };
        self.check_new(&name)?;
        if let Some(layout) = &self.objects
            && options.transfer == Transfer::Link
        {
            let what = if layout.is_directory() { "encrypted backups" } else { "an object store" };
            return Err(Error::invalid(format!(
                "{}: files cannot be linked into {what}; back up without linking",
                self.root.display()
            )));
        }
        let previous = self.latest_readable()?;
        // Before the tables are listed: the snapshot contains all of their records up to here, and
        // the archived log everything of tables that are created later.
        let position = database.engine().archive_position().filter(|_| options.keyspaces.is_empty());
        let mut keyspaces = keyspaces(database, &options.keyspaces)?;
        let log = position.map(|(chain, position)| LogPosition {
            chain: chain_name(chain.as_u128()),
            segment: position.segment,
            offset: position.offset,
        });
        if log.is_some() {
            keyspaces.extend(database.catalog().keyspace(SCHEMA).map(|keyspace| (**keyspace).clone()));
        }
        let snapshot_name = format!("backup-{name}");
        // The remains of an interrupted backup of this name.
        clear_snapshot(database, &snapshot_name)?;
        let mut manifest = Manifest::new(started.as_millisecond());
        manifest.number = previous.as_ref().map_or(0, |previous| previous.manifest.number).saturating_add(1);
        manifest.log = log;
        manifest.key =
            self.objects.as_ref().and_then(|layout| Some(layout.keys.as_ref()?.alias().to_owned()));
        let done = self.take(database, options, &name, &snapshot_name, &keyspaces, previous, manifest);
        if let Err(error) = clear_snapshot(database, &snapshot_name) {
            tracing::warn!(%error, snapshot = snapshot_name, "the snapshot of a backup stays until it expires");
        }
        if done.is_err() && self.objects.is_none() {
            // The next command removes it otherwise.
            let _ = self.remove_directory(&self.root.join(format!("{name}{INCOMPLETE}")));
        }
        done
    }

    #[expect(clippy::too_many_arguments, reason = "the decisions of `back_up`, which has to clean up")]
    fn take(
        &self,
        database: &Database,
        options: &BackupOptions,
        name: &str,
        snapshot_name: &str,
        keyspaces: &[Keyspace],
        previous: Option<Backup>,
        mut manifest: Manifest,
    ) -> Result<Created> {
        let tables: Vec<String> = keyspaces.iter().flat_map(tables_of).collect();
        let snapshots = if tables.is_empty() {
            Vec::new()
        } else {
            let ttl_seconds = Some(SNAPSHOT_TTL_SECONDS);
            let options = SnapshotOptions { name: snapshot_name, skip_flush: false, ttl_seconds };
            database.snapshot(&tables, &options).map_err(Error::in_database("cannot take a snapshot"))?
        };
        let mut planned = Vec::with_capacity(snapshots.len());
        for snapshot in &snapshots {
            planned.push(self.plan(snapshot, previous.as_ref(), options.transfer)?);
        }
        let (copied_bytes, linked_bytes) = match &self.objects {
            None => self.write_directory(database, name, keyspaces, planned, &mut manifest)?,
            Some(layout) => {
                if layout.is_directory() {
                    self.check_space(&planned)?;
                }
                write_objects(layout, self.fs.as_ref(), database, keyspaces, planned, &mut manifest)?
            }
        };
        // Rounded up: what it contains was written before.
        manifest.ended_at_millis = database.now_micros().div_euclid(1000) + 1;
        match &self.objects {
            None => self.publish_directory(name, &manifest)?,
            Some(layout) => layout.put_manifest(name, &manifest)?,
        }
        let backup = Backup { name: name.to_owned(), manifest };
        Ok(Created { backup, copied_bytes, linked_bytes })
    }

    /// Writes everything but the manifest into the directory of an incomplete backup, synced.
    /// Returns the bytes that were copied, and those that take no space.
    fn write_directory(
        &self,
        database: &Database,
        name: &str,
        keyspaces: &[Keyspace],
        planned: Vec<PlannedTable>,
        manifest: &mut Manifest,
    ) -> Result<(u64, u64)> {
        self.check_space(&planned)?;
        let directory = self.root.join(format!("{name}{INCOMPLETE}"));
        self.create_directory(&directory)?;
        let session = database.session();
        for keyspace in keyspaces {
            let path = directory.join(&keyspace.name);
            self.create_directory(&path)?;
            if keyspace.kind == KeyspaceKind::User {
                let cql = keyspace_cql(&session, &keyspace.name)?;
                let content = write(self.fs.as_ref(), &path.join("keyspace.cql"), cql.as_bytes())?;
                manifest.keyspaces.push(record(keyspace.name.clone(), content));
            }
        }
        let (mut copied_bytes, mut linked_bytes) = (0, 0);
        for table in planned {
            let path = directory.join(&table.keyspace).join(&table.directory);
            self.create_directory(&path)?;
            let mut files = Vec::with_capacity(table.files.len());
            for file in table.files {
                let (content, is_linked) = self.add(&file, &path.join(&file.name))?;
                *(if is_linked { &mut linked_bytes } else { &mut copied_bytes }) += content.bytes;
                files.push(record(file.name, content));
            }
            self.sync(&path)?;
            let (keyspace, table, directory) = (table.keyspace, table.table, table.directory);
            manifest.tables.push(TableRecord { keyspace, table, directory, files });
        }
        for keyspace in keyspaces {
            self.sync(&directory.join(&keyspace.name))?;
        }
        Ok((copied_bytes, linked_bytes))
    }

    fn publish_directory(&self, name: &str, manifest: &Manifest) -> Result<()> {
        let directory = self.root.join(format!("{name}{INCOMPLETE}"));
        self.write_manifest(&directory, manifest)?;
        let complete = self.root.join(name);
        self.fs.rename(&directory, &complete).map_err(Error::io(&directory, "rename"))?;
        self.sync(&self.root)
    }

    /// Decides where each file of a table's snapshot comes from.
    fn plan(
        &self,
        snapshot: &Snapshot,
        previous: Option<&Backup>,
        transfer: Transfer,
    ) -> Result<PlannedTable> {
        let fs = self.fs.as_ref();
        // <table's directory>/snapshots/<name>
        let directory = snapshot.directory.ancestors().nth(2).and_then(Path::file_name);
        let directory = directory.and_then(|name| name.to_str()).unwrap_or(&snapshot.table).to_owned();
        let known = previous.and_then(|backup| {
            let record = backup.manifest.table(&snapshot.keyspace, &directory)?;
            Some((self.table_directory(&backup.name, &snapshot.keyspace, &directory), record))
        });
        let entries = fs.read_dir(&snapshot.directory).map_err(Error::io(&snapshot.directory, "list"))?;
        let mut data = BTreeMap::new();
        for entry in entries.iter().filter(|entry| entry.name.ends_with("-Data.db")) {
            let prefix = entry.name.trim_end_matches("Data.db");
            data.insert(prefix, digest(fs, &snapshot.directory.join(format!("{prefix}Digest.crc32")))?);
        }
        let mut files = Vec::with_capacity(entries.len());
        for entry in entries.iter().filter(|entry| !entry.is_dir) {
            let from = snapshot.directory.join(&entry.name);
            let sstable = data.iter().find(|(prefix, _)| entry.name.starts_with(**prefix));
            let crc32 = sstable.and_then(|(_, crc)| *crc);
            let is_data = entry.name.ends_with("-Data.db");
            let mut source = match transfer {
                Transfer::Copy => Source::Copy,
                Transfer::Link => Source::Link { crc32: crc32.filter(|_| is_data) },
            };
            if let (Some((prefix, Some(crc32))), Some((path, record))) = (sstable, &known)
                && has_data(record, prefix, *crc32)
                && let Some(file) = record.files.iter().find(|file| file.name == entry.name)
                && file.bytes == entry.len
                && (is_data || is_same(fs, &from, file)?)
            {
                source = Source::Previous { path: path.join(&entry.name), record: file.clone() };
            }
            files.push(Planned { name: entry.name.clone(), from, bytes: entry.len, source });
        }
        let (keyspace, table) = (snapshot.keyspace.clone(), snapshot.table.clone());
        Ok(PlannedTable { keyspace, table, directory, files })
    }

    /// Adds a file to the backup; returns its content, and whether it takes no space.
    fn add(&self, file: &Planned, to: &Path) -> Result<(Content, bool)> {
        let fs = self.fs.as_ref();
        match &file.source {
            Source::Previous { path, record } => {
                // A file that has been cut off is not spread.
                let is_complete = fs.metadata(path).is_ok_and(|found| found.len == record.bytes);
                if is_complete && fs.hard_link(path, to).is_ok() {
                    return Ok((Content { bytes: record.bytes, crc32: record.crc32 }, true));
                }
                // Volumes without links, or with a maximum number of them.
                Ok((copy(fs, &file.from, to)?, false))
            }
            Source::Copy => Ok((copy(fs, &file.from, to)?, false)),
            Source::Link { crc32 } => {
                fs.hard_link(&file.from, to).map_err(|error| {
                    if error.kind() == io::ErrorKind::CrossesDevices {
                        return Error::invalid(format!(
                            "{}: it is on another volume than the data directory, so files cannot be linked; \
                             back up without linking",
                            self.root.display()
                        ));
                    }
                    Error::io(to, "link")(error)
                })?;
                let content = match crc32 {
                    Some(crc32) => Content { bytes: file.bytes, crc32: *crc32 },
                    None => examine(fs, to)?,
                };
                Ok((content, true))
            }
        }
    }

    fn check_space(&self, tables: &[PlannedTable]) -> Result<()> {
        let files = tables.iter().flat_map(|table| &table.files);
        let copied = files.filter(|file| file.source == Source::Copy).map(|file| file.bytes);
        let required = copied.sum::<u64>() + SPACE_RESERVE;
        let available = self.fs.available_space(&self.root).map_err(Error::io(&self.root, "examine"))?;
        if required > available {
            return Err(Error::invalid(format!(
                "{}: expected {required} bytes of free space, found {available}; remove old backups or specify \
                 another directory",
                self.root.display()
            )));
        }
        Ok(())
    }
}

fn record(name: String, content: Content) -> FileRecord {
    FileRecord { name, bytes: content.bytes, crc32: content.crc32, sha256: None, object: None }
}

/// Stores the files that a repository of objects does not have. Returns the bytes that were stored,
/// and those that were not.
fn write_objects(
    layout: &ObjectLayout,
    fs: &dyn FileSystem,
    database: &Database,
    keyspaces: &[Keyspace],
    planned: Vec<PlannedTable>,
    manifest: &mut Manifest,
) -> Result<(u64, u64)> {
    // Also those of an interrupted backup.
    let mut known = layout.files()?;
    let session = database.session();
    for keyspace in keyspaces.iter().filter(|keyspace| keyspace.kind == KeyspaceKind::User) {
        let cql = keyspace_cql(&session, &keyspace.name)?;
        manifest.keyspaces.push(layout.add_text(&cql, keyspace.name.clone(), &mut known)?);
    }
    let (mut stored_bytes, mut shared_bytes) = (0, 0);
    for table in planned {
        let mut files = Vec::with_capacity(table.files.len());
        for file in table.files {
            // Without reading the file, if the previous backup has it.
            if let Source::Previous { record, .. } = &file.source
                && record
                    .object
                    .as_ref()
                    .is_some_and(|object| known.contains(object) && layout.is_current(object))
            {
                shared_bytes += record.bytes;
                files.push(record.clone());
                continue;
            }
            let (record, is_new) = layout.add(fs, &file.from, file.name, &mut known)?;
            *(if is_new { &mut stored_bytes } else { &mut shared_bytes }) += record.bytes;
            files.push(record);
        }
        let (keyspace, table, directory) = (table.keyspace, table.table, table.directory);
        manifest.tables.push(TableRecord { keyspace, table, directory, files });
    }
    Ok((stored_bytes, shared_bytes))
}

/// Whether the previous backup has the Data component of the SSTable with this checksum.
fn has_data(record: &TableRecord, prefix: &str, crc32: u32) -> bool {
    let name = format!("{prefix}Data.db");
    record.files.iter().any(|file| file.name == name && file.crc32 == crc32)
}

/// Whether a component of an SSTable with the same data is the recorded one. Large ones are
/// derived from the data alone.
fn is_same(fs: &dyn FileSystem, path: &Path, file: &FileRecord) -> Result<bool> {
    // Statistics.db contains what changes without the data: the level, and the time of a repair.
    if file.bytes > COMPARED_LENGTH_MAX && !file.name.ends_with("Statistics.db") {
        return Ok(true);
    }
    Ok(examine(fs, path)?.crc32 == file.crc32)
}

/// Returns the checksum in a Digest.crc32: that of the whole Data component. `None` without one.
fn digest(fs: &dyn FileSystem, path: &Path) -> Result<Option<u32>> {
    match fs.metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        // At most ten digits.
        Ok(metadata) if metadata.len > 10 => return Ok(None),
        metadata => metadata.map_err(Error::io(path, "examine"))?,
    };
    let content = fs.read(path).map_err(Error::io(path, "read"))?;
    Ok(std::str::from_utf8(&content).ok().and_then(|text| text.parse().ok()))
}

fn clear_snapshot(database: &Database, name: &str) -> Result<()> {
    let filter = SnapshotFilter { name: Some(name), ..SnapshotFilter::default() };
    database.clear_snapshots(&filter).map_err(Error::in_database("cannot remove a snapshot"))?;
    Ok(())
}

/// Returns the keyspaces of a backup.
fn keyspaces(database: &Database, names: &[String]) -> Result<Vec<Keyspace>> {
    let catalog = database.catalog();
    let mut keyspaces = Vec::new();
    if names.is_empty() {
        let is_meant = |keyspace: &Keyspace| keyspace.kind == KeyspaceKind::User || keyspace.name == AUTH;
        keyspaces.extend(catalog.keyspaces().filter(|keyspace| is_meant(keyspace)).map(|k| (**k).clone()));
    }
    for name in names {
        match catalog.keyspace(name) {
            Some(keyspace) if keyspace.kind == KeyspaceKind::User || keyspace.name == AUTH => {
                keyspaces.push((**keyspace).clone());
            }
            Some(_) => {
                return Err(Error::invalid(format!(
                    "cannot back up {name}: its tables describe this node; back up other keyspaces"
                )));
            }
            None => return Err(Error::invalid(format!("keyspace {name} does not exist"))),
        }
    }
    Ok(keyspaces)
}

/// Returns the tables of a keyspace as `keyspace.table`, without views: a restore builds them.
fn tables_of(keyspace: &Keyspace) -> Vec<String> {
    let tables = keyspace.tables.keys().filter(|name| !keyspace.views.contains_key(*name));
    tables.map(|table| format!("{}.{table}", keyspace.name)).collect()
}

/// Returns the statements that create a keyspace and its types, unless they exist.
fn keyspace_cql(session: &Session, name: &str) -> Result<String> {
    let describing = || format!("cannot describe keyspace {name}");
    let rows = session
        .execute(&format!("DESCRIBE KEYSPACE {}", quote(name)), ())
        .map_err(Error::in_database(describing()))?;
    let mut text = String::new();
    for row in &rows {
        let kind: String = row.get("type").map_err(Error::in_database(describing()))?;
        let statement: String = row.get("create_statement").map_err(Error::in_database(describing()))?;
        if kind == "keyspace" || kind == "type" {
            let create = format!("CREATE {} ", kind.to_uppercase());
            text += &statement.replacen(&create, &format!("{create}IF NOT EXISTS "), 1);
            text.push('\n');
        }
    }
    Ok(text)
}

/// Returns a keyspace's name as a quoted identifier.
pub(crate) fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
