//! Snapshots: a table's SSTables under second names, which compactions, truncations and drops leave
//! alone.
//!
//! ```text
//! <table's directory>/snapshots/<name>/nb-*            hard links: no space is taken while the SSTable itself lives
//! <table's directory>/snapshots/<name>/schema.cql      the statements that make the table again
//! <table's directory>/snapshots/<name>/manifest.json   written last: when it was taken, and of what
//! ```
//! Laid out as Cassandra does, so that `nodetool import` there, or
//! [`Engine::import`](crate::Engine::import) here, takes the directory as it is. The directory of a
//! dropped table stays as long as it holds snapshots.

mod manifest;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use cassette_rows::{StorageError, TableId};
use cassette_sstable::{Component, Descriptor};
use cassette_vfs::{DirEntry, FileSystem};
use uuid::Uuid;

use self::manifest::Manifest;
use crate::basics::error::{EngineError, Result};
use crate::basics::options::LEAST_TTL_SECONDS;
use crate::log::change_stream::{ChangeStreamError, captured_chain};
use crate::log::commitlog::Position;
use crate::store::core::Core;
use crate::store::table::{Table, View};

/// The directory below a table's that holds its snapshots.
pub(crate) const SNAPSHOTS: &str = "snapshots";
/// Directories below a table's that outlive it, because their contents are to be kept.
pub(crate) const KEPT: [&str; 2] = [SNAPSHOTS, "backups"];
/// The file that makes a directory a snapshot.
pub(crate) const MANIFEST: &str = "manifest.json";
const SCHEMA: &str = "schema.cql";
/// The options of a snapshot.
#[derive(Debug, Clone, Copy)]
pub struct SnapshotOptions<'a> {
    /// The name, which is that of its directory.
    pub name: &'a str,
    /// Whether to omit data in memtables.
    pub skip_flush: bool,
    /// Its lifetime in seconds, at least 60.
    pub ttl_seconds: Option<u32>,
}

impl SnapshotOptions<'_> {
    /// Checks the minimum lifetime.
    ///
    /// # Errors
    /// [`EngineError::InvalidSnapshot`] if it is too short.
    pub fn check_ttl(&self) -> Result<()> {
        if self.ttl_seconds.is_some_and(|ttl| ttl < LEAST_TTL_SECONDS) {
            let detail = format!("ttl for snapshot must be at least {LEAST_TTL_SECONDS} seconds");
            return Err(EngineError::InvalidSnapshot { detail });
        }
        Ok(())
    }
}

/// A snapshot of one table. Times are milliseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The name.
    pub name: String,
    /// The table's keyspace.
    pub keyspace: String,
    /// The table's name.
    pub table: String,
    /// The table, which may have been dropped since; `None` if its directory name has no id.
    pub table_id: Option<TableId>,
    /// The directory of its files.
    pub directory: PathBuf,
    /// The time of its creation; 0 if unknown.
    pub created_at_millis: i64,
    /// The time of its removal.
    pub expires_at_millis: Option<i64>,
    /// Bytes of all its files.
    pub size_on_disk: u64,
    /// Bytes of its files that the table itself no longer has: what its removal frees.
    pub true_size: u64,
    /// Whether a repair of Cassandra created it.
    pub ephemeral: bool,
}

/// The changes in the stream of a captured table that a snapshot contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotPosition {
    /// It contains those up to here, and no later ones.
    pub position: Position,
    /// The number of the chain of captured segments.
    pub chain: u128,
}

/// Returns the position of the snapshot in a directory; `None` if it was taken while no changes
/// were captured, or by another program.
///
/// # Errors
/// If the manifest cannot be read.
pub fn snapshot_position(
    fs: &dyn FileSystem,
    directory: &Path,
) -> cassette_rows::Result<Option<SnapshotPosition>> {
    let path = directory.join(MANIFEST);
    let content = fs.read(&path).map_err(|error| StorageError::io(&path, "read", error))?;
    let manifest = Manifest::decode(&content).map_err(|detail| StorageError::corrupt(&path, detail))?;
    Ok(manifest.log)
}

/// Selects the snapshots that satisfy all conditions.
#[derive(Debug, Clone, Copy, Default)]
pub struct SnapshotFilter<'a> {
    /// The name; `None` for all.
    pub name: Option<&'a str>,
    /// Of these keyspaces; empty for all.
    pub keyspaces: &'a [String],
    /// Taken before this, milliseconds since 1970.
    pub before_millis: Option<i64>,
}

/// The reason for an automatic snapshot (`auto_snapshot`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    Truncated,
    Dropped,
}

impl Core {
    /// See [`Engine::snapshot`](crate::Engine::snapshot).
    pub fn snapshot(
        self: &Arc<Self>,
        tables: &[(TableId, String)],
        options: &SnapshotOptions<'_>,
    ) -> Result<Vec<Snapshot>> {
        self.check_running()?;
        check_name(options.name)?;
        options.check_ttl()?;
        let tables = tables
            .iter()
            .map(|(id, schema)| Ok((self.table(*id)?, schema.as_str())))
            .collect::<Result<Vec<_>>>()?;
        let _one_at_a_time = self.snapshots.lock();
        for (table, _) in &tables {
            let directory = snapshot_directory(table, options.name);
            if self.fs.exists(&directory).map_err(|e| StorageError::io(&directory, "look for", e))? {
                return Err(EngineError::SnapshotExists { name: options.name.to_owned() });
            }
        }
        let created = self.clock.now_micros() / 1000;
        let mut taken = Vec::with_capacity(tables.len());
        for (table, schema) in &tables {
            let flushed = if options.skip_flush { Ok(()) } else { self.flush(table) };
            let done = flushed.and_then(|()| self.snapshot_table(table, schema, options, created));
            if let Err(error) = done {
                // All tables or none: the snapshot is of one moment.
                for (table, _) in &tables {
                    let _ = remove_directory(self.fs.as_ref(), &snapshot_directory(table, options.name));
                }
                return Err(error);
            }
        }
        for (table, _) in &tables {
            taken.push(self.describe(&table.directory, options.name)?);
        }
        Ok(taken)
    }

    /// Takes a snapshot `<prefix>-<milliseconds>` of SSTables that are about to be rewritten,
    /// including damaged ones, and returns its name. No compaction may run.
    pub fn snapshot_before_rewrite(
        &self,
        table: &Table,
        sstables: &[Descriptor],
        schema: &str,
        prefix: &str,
    ) -> Result<String> {
        let _one_at_a_time = self.snapshots.lock();
        let name = |created: i64| format!("{prefix}-{created}");
        Ok(self.snapshot_named(table, sstables, schema, None, name)?)
    }

    /// Takes the snapshot of a table that is about to lose its data, unless it has none. Memtables
    /// must have been flushed, and no compaction may run.
    pub fn snapshot_before(self: &Arc<Self>, table: &Table, cause: Cause, schema: &str) -> Result<()> {
        let descriptors = self.data_files(&table.directory)?;
        if descriptors.is_empty() {
            return Ok(());
        }
        let cause = match cause {
            Cause::Truncated => "truncated",
            Cause::Dropped => "dropped",
        };
        let _one_at_a_time = self.snapshots.lock();
        let name = |created: i64| format!("{cause}-{created}-{}", table.metadata().name);
        let ttl_seconds = self.options.auto_snapshot_ttl_seconds;
        self.snapshot_named(table, &descriptors, schema, ttl_seconds, name)?;
        Ok(())
    }

    /// Takes a snapshot of SSTables with a name derived from the time, milliseconds since 1970, and
    /// returns the name.
    fn snapshot_named(
        &self,
        table: &Table,
        sstables: &[Descriptor],
        schema: &str,
        ttl_seconds: Option<u32>,
        name: impl Fn(i64) -> String,
    ) -> cassette_rows::Result<String> {
        let mut created = self.clock.now_micros() / 1000;
        let (name, directory) = loop {
            let name = name(created);
            let directory = snapshot_directory(table, &name);
            if !self.fs.exists(&directory).map_err(|e| StorageError::io(&directory, "look for", e))? {
                break (name, directory);
            }
            // A snapshot of the same millisecond is not changed.
            created += 1;
        };
        let manifest = Manifest {
            created_at: Some(created),
            expires_at: ttl_seconds.map(|ttl| created + i64::from(ttl) * 1000),
            ..Manifest::default()
        };
        let done = self
            .make_directory(table, &directory)
            .and_then(|()| self.link(&table.directory, sstables, &directory))
            .and_then(|()| self.complete(sstables, &directory, schema, manifest));
        if let Err(error) = done {
            let _ = remove_directory(self.fs.as_ref(), &directory);
            return Err(error);
        }
        Ok(name)
    }

    fn snapshot_table(
        &self,
        table: &Table,
        schema: &str,
        options: &SnapshotOptions<'_>,
        created: i64,
    ) -> Result<()> {
        let directory = snapshot_directory(table, options.name);
        let chain = if self.options.cdc.enabled { self.change_stream_chain()? } else { None };
        loop {
            self.make_directory(table, &directory)?;
            // Before the view: a flush replaces the view first, and then advances the position.
            let recorded = self.positions.get(table.id);
            let view = Arc::clone(&table.view());
            let memtable = view.flushing.first().map_or(&view.memtable, |frozen| &frozen.memtable);
            // A memtable that began before the last restart has no position.
            let position = memtable.begins.max(recorded);
            let manifest = Manifest {
                created_at: Some(created),
                expires_at: options.ttl_seconds.map(|ttl| created + i64::from(ttl) * 1000),
                log: chain.map(|chain| SnapshotPosition { position, chain }),
                ..Manifest::default()
            };
            let descriptors = descriptors(&view);
            match self.link(&table.directory, &descriptors, &directory) {
                Ok(()) => return Ok(self.complete(&descriptors, &directory, schema, manifest)?),
                // A compaction has replaced some of them: repeat with its outputs.
                Err(error) if is_not_found(&error) && !Arc::ptr_eq(&view, &table.view()) => {
                    remove_directory(self.fs.as_ref(), &directory)?;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Returns the number of the chain of captured segments.
    fn change_stream_chain(&self) -> Result<Option<u128>> {
        captured_chain(self.fs.as_ref(), &self.cdc_directory()).map_err(|error| match error {
            ChangeStreamError::Storage(error) => error.into(),
            error => EngineError::InvalidSnapshot { detail: error.to_string() },
        })
    }

    fn make_directory(&self, table: &Table, directory: &Path) -> cassette_rows::Result<()> {
        let created = self.fs.create_dir_all(directory);
        created.map_err(|e| StorageError::io(directory, "create the directory", e))?;
        for parent in [table.directory.as_path(), &table.directory.join(SNAPSHOTS)] {
            sync_dir(self.fs.as_ref(), parent)?;
        }
        Ok(())
    }

    /// Links every file of the SSTables in directory `from` into `to`.
    fn link(&self, from: &Path, sstables: &[Descriptor], to: &Path) -> cassette_rows::Result<()> {
        let entries = self.fs.read_dir(from).map_err(|e| StorageError::io(from, "list", e))?;
        for sstable in sstables {
            let prefix = sstable.file_prefix();
            let mut has_data = false;
            for file in entries.iter().filter(|entry| !entry.is_dir && entry.name.starts_with(&prefix)) {
                let path = from.join(&file.name);
                let linked = self.fs.hard_link(&path, &to.join(&file.name));
                linked.map_err(|e| StorageError::io(&path, "link it into a snapshot", e))?;
                has_data |= file.name.ends_with(Component::Data.file_name());
            }
            if !has_data {
                let path = sstable.path(Component::Data);
                return Err(StorageError::io(
                    path,
                    "link it into a snapshot",
                    io::ErrorKind::NotFound.into(),
                ));
            }
        }
        Ok(())
    }

    fn complete(
        &self,
        sstables: &[Descriptor],
        directory: &Path,
        schema: &str,
        mut manifest: Manifest,
    ) -> cassette_rows::Result<()> {
        manifest.files = sstables.iter().map(|sstable| sstable.file_name(Component::Data)).collect();
        manifest.files.sort_unstable();
        for (name, content) in [(SCHEMA, schema), (MANIFEST, &manifest.encode())] {
            let path = directory.join(name);
            let written = self.fs.write_atomically(&path, content.as_bytes());
            written.map_err(|e| StorageError::io(&path, "write", e))?;
        }
        if let Some(expires) = manifest.expires_at {
            self.next_snapshot_expiry.fetch_min(expires, Ordering::AcqRel);
        }
        Ok(())
    }

    /// See [`Engine::snapshots`](crate::Engine::snapshots).
    pub fn list_snapshots(&self) -> Result<Vec<Snapshot>> {
        self.check_running()?;
        let root = self.directory.tables();
        let mut found = Vec::new();
        for keyspace in directories(self.fs.as_ref(), &root)? {
            for table in directories(self.fs.as_ref(), &root.join(&keyspace))? {
                let table = root.join(&keyspace).join(table);
                for name in directories(self.fs.as_ref(), &table.join(SNAPSHOTS))? {
                    match self.describe(&table, &name) {
                        Ok(snapshot) => found.push(snapshot),
                        // Removed since it was listed.
                        Err(error) if is_not_found(&error) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
            }
        }
        found.sort_by(|a, b| (&a.name, &a.keyspace, &a.table).cmp(&(&b.name, &b.keyspace, &b.table)));
        Ok(found)
    }

    /// Returns the description of snapshot `name` in a table's directory.
    fn describe(&self, table: &Path, name: &str) -> cassette_rows::Result<Snapshot> {
        let directory = table.join(SNAPSHOTS).join(name);
        let path = directory.join(MANIFEST);
        let manifest = match self.fs.read(&path) {
            Ok(content) => Manifest::decode(&content).unwrap_or_else(|error| {
                tracing::warn!(path = %path.display(), error, "a snapshot's manifest cannot be read");
                Manifest::default()
            }),
            Err(_) => Manifest::default(),
        };
        let modified = || {
            let metadata = self.fs.metadata(&directory);
            metadata
                .map(|metadata| metadata.modified_millis)
                .map_err(|e| StorageError::io(&directory, "look at", e))
        };
        let created_at_millis = manifest.created_at.map_or_else(modified, Ok)?;
        let (size_on_disk, true_size) = self.sizes(&directory, table)?;
        let name_of = |path: Option<&Path>| {
            path.and_then(Path::file_name).and_then(|name| name.to_str()).unwrap_or_default().to_owned()
        };
        let directory_name = name_of(Some(table));
        let (table_name, id) = directory_name.rsplit_once('-').unwrap_or((&directory_name, ""));
        Ok(Snapshot {
            name: name.to_owned(),
            keyspace: name_of(table.parent()),
            table: table_name.to_owned(),
            table_id: Uuid::try_parse(id).ok().map(TableId),
            directory,
            created_at_millis,
            expires_at_millis: manifest.expires_at,
            size_on_disk,
            true_size,
            ephemeral: manifest.ephemeral,
        })
    }

    /// Returns the bytes of the files in `directory` and below, and of those that are not in
    /// `live`.
    fn sizes(&self, directory: &Path, live: &Path) -> cassette_rows::Result<(u64, u64)> {
        let list = |path: &Path| match self.fs.read_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            other => other.map_err(|e| StorageError::io(path, "list", e)),
        };
        let is_live: std::collections::HashSet<String> =
            list(live)?.into_iter().filter(|entry| !entry.is_dir).map(|entry| entry.name).collect();
        let (mut size, mut apart) = (0, 0);
        for entry in list(directory)? {
            if entry.is_dir {
                let (below, below_apart) =
                    self.sizes(&directory.join(&entry.name), &live.join(&entry.name))?;
                size += below;
                apart += below_apart;
                continue;
            }
            size += entry.len;
            apart += if is_live.contains(&entry.name) { 0 } else { entry.len };
        }
        Ok((size, apart))
    }

    /// See [`Engine::clear_snapshots`](crate::Engine::clear_snapshots).
    pub fn clear_snapshots(&self, filter: &SnapshotFilter<'_>) -> Result<Vec<Snapshot>> {
        let _one_at_a_time = self.snapshots.lock();
        let mut found = self.list_snapshots()?;
        found.retain(|snapshot| {
            filter.name.is_none_or(|name| snapshot.name == name)
                && (filter.keyspaces.is_empty() || filter.keyspaces.contains(&snapshot.keyspace))
                && filter.before_millis.is_none_or(|before| snapshot.created_at_millis < before)
        });
        for snapshot in &found {
            self.remove_snapshot(snapshot)?;
        }
        Ok(found)
    }

    fn remove_snapshot(&self, snapshot: &Snapshot) -> Result<()> {
        remove_directory(self.fs.as_ref(), &snapshot.directory)?;
        // A table that is being created may use the directory next.
        let _changing = self.changing_tables.lock();
        let is_known = snapshot.table_id.is_some_and(|id| self.tables.load().contains_key(&id));
        if let (false, Some(table)) = (is_known, snapshot.directory.ancestors().nth(2)) {
            // The directory of a dropped table is removed. Other unknown tables keep their files.
            remove_if_empty(self.fs.as_ref(), table)?;
        }
        Ok(())
    }

    /// Removes expired snapshots. Reads the disk only if there may be one.
    pub fn clear_expired_snapshots(&self) -> Result<()> {
        let now = self.clock.now_micros() / 1000;
        if self.next_snapshot_expiry.load(Ordering::Acquire) > now {
            return Ok(());
        }
        let _one_at_a_time = self.snapshots.lock();
        let mut next = i64::MAX;
        for snapshot in self.list_snapshots()? {
            match snapshot.expires_at_millis {
                Some(expires) if expires <= now => {
                    tracing::info!(
                        name = snapshot.name,
                        table = snapshot.table,
                        "removing an expired snapshot"
                    );
                    self.remove_snapshot(&snapshot)?;
                }
                Some(expires) => next = next.min(expires),
                None => {}
            }
        }
        self.next_snapshot_expiry.store(next, Ordering::Release);
        Ok(())
    }
}

/// Removes the files of a dropped table except its snapshots and backups, and its directory if it
/// has none of these. Returns whether there was anything to remove.
pub(crate) fn remove_table_files(fs: &dyn FileSystem, directory: &Path) -> cassette_rows::Result<bool> {
    let list = |path: &Path| fs.read_dir(path).map_err(|e| StorageError::io(path, "list", e));
    let mut keeps = false;
    let mut doomed = Vec::new();
    for entry in list(directory)? {
        let is_kept = entry.is_dir
            && KEPT.contains(&entry.name.as_str())
            && !list(&directory.join(&entry.name))?.is_empty();
        keeps |= is_kept;
        if !is_kept {
            doomed.push(entry);
        }
    }
    if !keeps {
        remove_directory(fs, directory)?;
        return Ok(true);
    }
    for DirEntry { name, is_dir, .. } in &doomed {
        let path = directory.join(name);
        let removed = if *is_dir { fs.remove_dir_all(&path) } else { fs.remove_file(&path) };
        removed.map_err(|e| StorageError::io(&path, "remove", e))?;
    }
    if !doomed.is_empty() {
        sync_dir(fs, directory)?;
    }
    Ok(!doomed.is_empty())
}

/// Removes a directory that contains no file, including in subdirectories.
pub(crate) fn remove_if_empty(fs: &dyn FileSystem, directory: &Path) -> cassette_rows::Result<()> {
    if has_files(fs, directory)? { Ok(()) } else { remove_directory(fs, directory) }
}

fn has_files(fs: &dyn FileSystem, directory: &Path) -> cassette_rows::Result<bool> {
    for entry in fs.read_dir(directory).map_err(|e| StorageError::io(directory, "list", e))? {
        if !entry.is_dir || has_files(fs, &directory.join(&entry.name))? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Durably removes a directory with all its contents; no-op if it does not exist.
fn remove_directory(fs: &dyn FileSystem, directory: &Path) -> cassette_rows::Result<()> {
    match fs.remove_dir_all(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        removed => removed.map_err(|e| StorageError::io(directory, "remove the directory", e))?,
    }
    sync_dir(fs, directory.parent().unwrap_or(directory))
}

fn sync_dir(fs: &dyn FileSystem, directory: &Path) -> cassette_rows::Result<()> {
    fs.sync_dir(directory).map_err(|e| StorageError::io(directory, "sync the directory", e))
}

/// Returns the names of the subdirectories; none if the directory does not exist.
fn directories(fs: &dyn FileSystem, directory: &Path) -> cassette_rows::Result<Vec<String>> {
    match fs.read_dir(directory) {
        Ok(entries) => Ok(entries.into_iter().filter(|entry| entry.is_dir).map(|entry| entry.name).collect()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(StorageError::io(directory, "list", error)),
    }
}

fn snapshot_directory(table: &Table, name: &str) -> PathBuf {
    table.directory.join(SNAPSHOTS).join(name)
}

/// Returns all SSTables with the table's data, including those excluded from reads.
fn descriptors(view: &View) -> Vec<Descriptor> {
    view.sstables
        .iter()
        .chain(&*view.quarantined)
        .map(|sstable| sstable.reader.descriptor().clone())
        .collect()
}

fn is_not_found(error: &StorageError) -> bool {
    matches!(error, StorageError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
}

/// Checks that a name is that of a single directory, neither hidden nor `..`, and that a list of
/// names can show it in one line.
fn check_name(name: &str) -> Result<()> {
    let detail = match name {
        "" => "You must supply a snapshot name.".to_owned(),
        _ if name.starts_with('.')
            || name.contains(['/', '\\'])
            || name.contains(char::is_control)
            || name.len() > 255 =>
        {
            format!("Snapshot name {name:?} cannot be that of a directory")
        }
        _ => return Ok(()),
    };
    Err(EngineError::InvalidSnapshot { detail })
}
