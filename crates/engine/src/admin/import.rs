//! Import of SSTables from elsewhere.
//!
//! 1. The SSTables of the directory are listed, and each is opened in place: its schema must match
//!    the table. With `verify` it is read completely, and checked against its checksums and its
//!    index. Nothing has been written yet. Without `check_first`, step 3 does this.
//! 2. Each gets a new name of the table, announced in a [`Transaction`]. Its files are hard-linked,
//!    or copied if they must remain independent or are on another volume. Files and names are
//!    synced.
//! 3. Each is opened in its new place.
//! 4. The transaction is committed, and the SSTables are added to the view.
//! 5. Files to be moved are removed from the directory: never from a snapshot or a backup, see
//!    [`import_source`](crate::admin::import_source).
//!
//! A replacement flushes the table before step 2, and removes all its earlier SSTables in the same
//! transaction: after a crash, the table has either all its earlier rows or the imported ones.
//!
//! An error before step 4 undoes step 2; after a crash, [`transaction::recover`] does. If step 5 is
//! incomplete, the remaining files contain the same data again: importing them a second time
//! changes no result.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cassette_rows::{StorageError, TableId, TableMetadata};
use cassette_sstable::descriptor::{FileName, parse_file_name};
use cassette_sstable::reader::{ForeignFiles, OpenOptions};
use cassette_sstable::statistics::{self, CommitLogPosition, Statistics};
use cassette_sstable::{Component, Descriptor, SSTableReader, Version};
use cassette_vfs::DirEntry;
use hashbrown::HashSet;
use uuid::Uuid;

use crate::admin::import_source::ImportSource;
use crate::admin::snapshots::Cause;
use crate::admin::tables::{check_is_only, file_names};
use crate::basics::error::{EngineError, Result};
use crate::basics::parallel;
use crate::log::commitlog::EventKind;
use crate::store::core::{Core, Phase};
use crate::store::table::{Table, Unreadable};
use crate::store::transaction::{self, OperationType, Transaction};

/// The options of an import: those of `nodetool import`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImportOptions {
    /// Whether SSTables keep their level; otherwise they begin at level 0.
    pub keep_level: bool,
    /// Whether SSTables remain repaired; otherwise they become unrepaired.
    pub keep_repaired: bool,
    /// Whether all SSTables are read completely before any is imported. Otherwise, those are whose
    /// filter or summary does not match the index; of the others, only opening checks them.
    pub verify: bool,
    /// Whether every value is checked against its type, too.
    pub extended_verify: bool,
    /// Whether the files are copied and remain in the directory. Otherwise those of a snapshot or
    /// backup are linked and remain, and others are moved.
    pub copy_data: bool,
    /// Whether linked files remain in the directory, too.
    pub keep_source: bool,
    /// Whether all SSTables are checked in the directory before anything is written. Otherwise each
    /// is checked in its new place only, which reads it once: for a database that is given up after
    /// an error.
    pub check_first: bool,
}

impl Default for ImportOptions {
    /// Returns the defaults of `nodetool import`.
    fn default() -> Self {
        Self {
            keep_level: false,
            keep_repaired: false,
            verify: true,
            extended_verify: false,
            copy_data: false,
            keep_source: false,
            check_first: true,
        }
    }
}

/// What an import has done with an SSTable, with the bytes of its files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportStep {
    /// It was checked in its directory.
    Checked(u64),
    /// It was linked or copied.
    Transferred(u64),
}

/// How an SSTable was transferred to its table's directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transfer {
    /// Its files were moved.
    Moved,
    /// Its files were linked.
    Linked,
    /// Its files were copied.
    Copied,
    /// It was in the directory already.
    InPlace,
}

impl fmt::Display for Transfer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Moved => "moved",
            Self::Linked => "linked",
            Self::Copied => "copied",
            Self::InPlace => "found in place",
        })
    }
}

/// An imported SSTable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedSSTable {
    /// Its original Data component.
    pub from: PathBuf,
    /// Its Data component in the table's directory.
    pub to: PathBuf,
    /// Its approximate number of partitions.
    pub partitions: u64,
    /// Bytes of its files.
    pub bytes: u64,
    /// How it was transferred.
    pub transfer: Transfer,
    /// The node that wrote it, if it is known.
    pub host_id: Option<Uuid>,
    /// The parts of that node's commit log from which its rows originate.
    pub commit_log_intervals: Vec<(CommitLogPosition, CommitLogPosition)>,
}

impl ImportedSSTable {
    fn new(from: PathBuf, reader: &SSTableReader, transfer: Transfer) -> Self {
        Self {
            from,
            to: reader.descriptor().path(Component::Data),
            partitions: reader.estimated_keys(),
            bytes: reader.bytes_on_disk(),
            transfer,
            host_id: reader.stats().host_id,
            commit_log_intervals: reader.stats().commit_log_intervals.clone(),
        }
    }
}

/// Returns how many SSTables were imported, of how many bytes, and how:
/// `2 SSTables (4711 bytes) moved`.
pub fn import_summary(imported: &[ImportedSSTable]) -> String {
    let of = |transfer| {
        let meant = || imported.iter().filter(move |sstable| sstable.transfer == transfer);
        let (count, bytes) = (meant().count(), meant().map(|sstable| sstable.bytes).sum::<u64>());
        let noun = if count == 1 { "SSTable" } else { "SSTables" };
        (count > 0).then(|| format!("{count} {noun} ({bytes} bytes) {transfer}"))
    };
    let transfers = [Transfer::Moved, Transfer::Linked, Transfer::Copied, Transfer::InPlace];
    let parts: Vec<_> = transfers.into_iter().filter_map(of).collect();
    if parts.is_empty() { "no SSTables found".to_owned() } else { parts.join(", ") }
}

/// An SSTable in its new place.
struct Brought {
    reader: SSTableReader,
    /// Linked or copied.
    transfer: Transfer,
    /// Whether a name in the source is a symbolic link. Such an SSTable is not moved: the files
    /// belong to another directory.
    is_linked_elsewhere: bool,
}

/// Logs what was imported.
fn log_imported(imported: &[ImportedSSTable], options: &ImportOptions) {
    for sstable in imported {
        let (from, to) = (sstable.from.display(), sstable.to.display());
        let (bytes, how) = (sstable.bytes, sstable.transfer);
        if options.keep_source {
            // Those of a whole node.
            tracing::debug!(%from, %to, bytes, %how, "imported an SSTable");
        } else {
            tracing::info!(%from, %to, bytes, %how, "imported an SSTable");
        }
    }
}

/// What an import replaces: all that the table has.
struct Replaced<'a> {
    /// The schema.cql of a snapshot that is taken of it; `None` for no snapshot.
    keep: Option<&'a str>,
}

/// Checks an SSTable to the degree that the options require.
fn check(reader: &SSTableReader, options: &ImportOptions) -> Result<()> {
    if options.verify || options.extended_verify || !reader.is_index_confirmed() {
        reader.verify()?;
    }
    if options.extended_verify {
        reader.verify_values()?;
    }
    Ok(())
}

fn refused(directory: &Path) -> impl FnOnce(EngineError) -> EngineError {
    let directory = directory.to_owned();
    move |cause| EngineError::ImportRefused { directory, cause: Box::new(cause) }
}

impl Core {
    /// See [`Engine::import`](crate::Engine::import).
    pub fn import(
        self: &Arc<Self>,
        id: TableId,
        directory: &Path,
        options: &ImportOptions,
        observe: &mut dyn FnMut(ImportStep),
    ) -> Result<Vec<ImportedSSTable>> {
        self.check_running()?;
        if self.phase() == Phase::Recovering {
            return Err(EngineError::Recovering);
        }
        let table = self.table(id)?;
        let _alone = table.importing.lock();
        self.import_alone(&table, directory, options, None, observe).map_err(refused(directory))
    }

    /// See [`Engine::replace`](crate::Engine::replace).
    pub fn replace(
        self: &Arc<Self>,
        id: TableId,
        directory: &Path,
        options: &ImportOptions,
        keep: Option<&str>,
    ) -> Result<Vec<ImportedSSTable>> {
        self.check_running()?;
        if self.phase() == Phase::Recovering {
            return Err(EngineError::Recovering);
        }
        let table = self.table(id)?;
        let _alone = table.importing.lock();
        let _no_compaction = self.pause_compactions(&table);
        let _no_flush = table.flush.lock();
        self.import_alone(&table, directory, options, Some(Replaced { keep }), &mut |_| {})
            .map_err(refused(directory))
    }

    /// With `replaced`, the caller holds the table's flush lock, and no compaction runs.
    fn import_alone(
        self: &Arc<Self>,
        table: &Arc<Table>,
        directory: &Path,
        options: &ImportOptions,
        replaced: Option<Replaced<'_>>,
        observe: &mut dyn FnMut(ImportStep),
    ) -> Result<Vec<ImportedSSTable>> {
        let ImportSource { directory, is_backup } = self.import_source(directory)?;
        let metadata = table.metadata();
        let sources = self.sources(&directory)?;
        self.check_sources(&sources, &metadata, options, observe)?;
        if table.is_dropped() || sources.is_empty() && replaced.is_none() {
            return Ok(Vec::new());
        }
        // With periodic sync, an import must not survive a crash that loses earlier writes.
        let log = self.usable_log()?;
        let position = log.event_position();
        log.sync()?;
        let removed = match &replaced {
            None => Vec::new(),
            Some(replaced) => self.prepare_replacement(table, replaced)?,
        };
        let position = position.max(self.positions.get(table.id));
        let id = self.time_uuid();
        let mut transaction =
            Transaction::begin(self.fs.clone(), &table.directory, OperationType::Import, id)?;
        let brought = self.bring(table, &metadata, &sources, options, &mut transaction, observe);
        let brought = match brought {
            Ok(brought) => brought,
            Err(error) => {
                if let Err(left) = transaction.abort() {
                    tracing::warn!(error = %left, "files of a failed import stay until the next start");
                }
                return Err(error);
            }
        };
        let (mut readers, mut imported, mut stays) = (Vec::new(), Vec::new(), Vec::new());
        for (source, Brought { reader, transfer, is_linked_elsewhere }) in sources.iter().zip(brought) {
            imported.push(ImportedSSTable::new(source.path(Component::Data), &reader, transfer));
            readers.push(reader);
            stays.push(options.copy_data || options.keep_source || is_backup || is_linked_elsewhere);
        }
        // Before the commit: an import that does not happen is reported for nothing, and one whose
        // event a crash loses would not be. What fails after the commit has changed the table.
        if let Err(error) = self.log_event(table, EventKind::Imported, log.event_position()) {
            drop(readers);
            if let Err(left) = transaction.abort() {
                tracing::warn!(error = %left, "files of a failed import stay until the next start");
            }
            return Err(error);
        }
        let committed = self.commit(table, transaction, &removed)?;
        self.take_in(table, readers, replaced.is_some())?;
        if replaced.is_some() {
            self.row_cache.forget(table.id);
            self.log_event(table, EventKind::Truncated, position)?;
        }
        if let Err(error) = committed.finish() {
            tracing::warn!(%error, "the log of an import stays until the next start");
        }
        // Again, for a backup that was taken between the first time and the commit.
        if let Err(error) = self.log_event(table, EventKind::Imported, log.event_position()) {
            tracing::warn!(%error, "an import is not in the archived commit log");
        }
        let moved = sources.iter().zip(&mut imported).zip(stays).filter(|(_, stays)| !stays);
        for ((sstable, imported), _) in moved {
            match self.remove_source(sstable) {
                Ok(()) => imported.transfer = Transfer::Moved,
                Err(error) => {
                    tracing::warn!(%error, "what has been imported stays in its old place too");
                }
            }
        }
        log_imported(&imported, options);
        Ok(imported)
    }

    /// Flushes a table whose SSTables are to be replaced, takes the snapshot of them, and returns
    /// them, including those that could not be opened. As for a truncation, the log must not
    /// restore their data.
    fn prepare_replacement(
        self: &Arc<Self>,
        table: &Arc<Table>,
        replaced: &Replaced<'_>,
    ) -> Result<Vec<Descriptor>> {
        self.flush_alone(table)?;
        self.usable_log()?.sync()?;
        self.positions.ensure_saved()?;
        if let Some(schema) = replaced.keep {
            self.snapshot_before(table, Cause::Truncated, schema)?;
        }
        self.data_files(&table.directory)
    }

    /// Returns the SSTables of a directory, except those that an interrupted transaction there has
    /// not added, or has removed.
    fn sources(&self, directory: &Path) -> Result<Vec<Descriptor>> {
        let entries =
            self.fs.read_dir(directory).map_err(|error| StorageError::io(directory, "list", error))?;
        let doomed = transaction::doomed(self.fs.as_ref(), directory, &entries)?;
        let mut found = Vec::new();
        for entry in entries.iter().filter(|entry| !entry.is_dir) {
            if doomed.iter().any(|prefix| entry.name.starts_with(prefix)) {
                continue;
            }
            match parse_file_name(&entry.name) {
                Some(FileName::Known(version, id, Component::Data)) => {
                    found.push(Descriptor::of_version(directory, version, id));
                }
                Some(FileName::Known(version, id, Component::Toc)) => {
                    let data = Descriptor::of_version(directory, version, id).file_name(Component::Data);
                    if !entries.iter().any(|other| other.name == data) {
                        let path = directory.join(data);
                        return Err(StorageError::corrupt(path, "listed by its TOC.txt but missing").into());
                    }
                }
                Some(FileName::OtherVersion { version, format }) => {
                    let detail = format!(
                        "SSTables of version {version} of the format {format} are not supported; supported: \
                         ma to oa (big), da (bti)"
                    );
                    let path = directory.join(&entry.name);
                    return Err(StorageError::Unsupported { path, detail }.into());
                }
                _ => {}
            }
        }
        found.sort_unstable_by_key(|descriptor| descriptor.id);
        Ok(found)
    }

    /// Step 1, without the list.
    fn check_sources(
        &self,
        sources: &[Descriptor],
        metadata: &Arc<TableMetadata>,
        options: &ImportOptions,
        observe: &mut dyn FnMut(ImportStep),
    ) -> Result<()> {
        for sstable in sources {
            self.import_files(sstable)?;
        }
        if options.check_first {
            let check = |sstable: &Descriptor| check(&self.open_foreign(sstable, metadata)?, options);
            parallel::for_each(self.file_threads(), sources, check, |sstable| {
                observe(ImportStep::Checked(self.bytes_of(sstable)?));
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Opens an SSTable, without writing.
    fn open_foreign(&self, sstable: &Descriptor, metadata: &Arc<TableMetadata>) -> Result<SSTableReader> {
        let opening = OpenOptions { foreign: ForeignFiles::Trust };
        let (fs, cache) = (self.fs.clone(), self.cache.clone());
        Ok(SSTableReader::open(fs, sstable.clone(), metadata.clone(), cache, opening)?)
    }

    /// Returns the number of threads that open and check SSTables.
    pub(crate) fn file_threads(&self) -> usize {
        if self.options.background_threads { parallel::threads() } else { 1 }
    }

    /// Steps 2 and 3.
    fn bring(
        &self,
        table: &Table,
        metadata: &Arc<TableMetadata>,
        sources: &[Descriptor],
        options: &ImportOptions,
        transaction: &mut Transaction,
        observe: &mut dyn FnMut(ImportStep),
    ) -> Result<Vec<Brought>> {
        let target = |source: &Descriptor| Descriptor { version: source.version, ..table.next_descriptor() };
        let targets: Vec<_> = sources.iter().map(target).collect();
        for target in &targets {
            transaction.add(target)?;
        }
        let mut transfers = Vec::with_capacity(targets.len());
        for (source, target) in sources.iter().zip(&targets) {
            let (mut is_linked, mut is_linked_elsewhere) = (!options.copy_data, false);
            for (name, from) in self.import_files(source)? {
                is_linked_elsewhere |= from != source.directory.join(&name);
                let component = name.strip_prefix(&source.file_prefix()).unwrap_or_default();
                // Such as the components of Cassandra's storage-attached indexes, which are neither
                // read nor removed here.
                if Component::from_file_name(component).is_none() {
                    continue;
                }
                let to = target.directory.join(target.file_prefix() + component);
                if component == Component::Statistics.file_name() {
                    self.bring_statistics(source.version, &from, &to, options)?;
                } else {
                    is_linked &= self.bring_file(&from, &to, options.copy_data)?;
                }
            }
            let transfer = if is_linked { Transfer::Linked } else { Transfer::Copied };
            transfers.push((transfer, is_linked_elsewhere));
            observe(ImportStep::Transferred(self.bytes_of(source)?));
        }
        let directory = &table.directory;
        self.fs.sync_dir(directory).map_err(|e| StorageError::io(directory, "sync the directory", e))?;
        let open = |target: &Descriptor| -> Result<SSTableReader> {
            let reader = self.open_foreign(target, metadata)?;
            if !options.check_first {
                check(&reader, options)?;
            }
            Ok(reader.adopted()?)
        };
        let readers = parallel::for_each(self.file_threads(), &targets, open, |target| {
            if !options.check_first {
                observe(ImportStep::Checked(self.bytes_of(target)?));
            }
            Ok(())
        })?;
        let brought = readers.into_iter().zip(transfers);
        Ok(brought
            .map(|(reader, (transfer, is_linked_elsewhere))| Brought {
                reader,
                transfer,
                is_linked_elsewhere,
            })
            .collect())
    }

    /// Lists the files of an SSTable.
    pub(crate) fn files_of(&self, sstable: &Descriptor) -> Result<Vec<DirEntry>> {
        let directory = &sstable.directory;
        let entries =
            self.fs.read_dir(directory).map_err(|error| StorageError::io(directory, "list", error))?;
        let prefix = sstable.file_prefix();
        Ok(entries.into_iter().filter(|entry| !entry.is_dir && entry.name.starts_with(&prefix)).collect())
    }

    /// Returns the bytes of the files of an SSTable.
    fn bytes_of(&self, sstable: &Descriptor) -> Result<u64> {
        Ok(self.files_of(sstable)?.iter().map(|file| file.len).sum())
    }

    /// Transfers Statistics, which contains an SSTable's level and repair status.
    fn bring_statistics(
        &self,
        version: Version,
        from: &Path,
        to: &Path,
        options: &ImportOptions,
    ) -> Result<()> {
        let content = self.fs.read(from).map_err(|e| StorageError::io(from, "read", e))?;
        let corrupt = |malformed: cassette_sstable::error::Malformed| malformed.at(from);
        let mut statistics = Statistics::decode_version(&content, version).map_err(corrupt)?;
        let stats = &mut statistics.stats;
        let is_repaired = stats.repaired_at != 0 || stats.pending_repair.is_some();
        let level = (stats.level != 0 && !options.keep_level).then_some(0);
        let repaired_at = (is_repaired && !options.keep_repaired).then_some(0);
        let changed = match (version, level.or(repaired_at.map(|_| 0))) {
            (_, None) => return self.bring_file(from, to, options.copy_data).map(|_| ()),
            // A pending repair is removed, too, which shortens the file.
            (Version::Nb, _) if repaired_at.is_some() && stats.pending_repair.take().is_some() => {
                stats.level = level.unwrap_or(stats.level);
                stats.repaired_at = 0;
                statistics.encode()
            }
            _ => statistics::with_level_and_repair(&content, version, level, repaired_at).map_err(corrupt)?,
        };
        let written = self.fs.write_atomically(to, &changed);
        Ok(written.map_err(|e| StorageError::io(to, "write", e))?)
    }

    /// Links a file, or copies it if that is impossible; the content is durable afterwards. Returns
    /// whether it was linked.
    fn bring_file(&self, from: &Path, to: &Path, copy: bool) -> Result<bool> {
        let linked =
            if copy { Err(io::ErrorKind::CrossesDevices.into()) } else { self.fs.hard_link(from, to) };
        match linked {
            Ok(()) => {
                // Its writer may not have synced it.
                let io = |e| StorageError::io(to, "sync", e);
                let length = self.fs.metadata(to).map_err(io)?.len;
                match self.fs.open_writable(to, length).and_then(|file| file.sync()) {
                    Ok(()) => Ok(true),
                    // The file of another user, which this one may only read.
                    Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                        self.fs.remove_file(to).map_err(|e| StorageError::io(to, "remove", e))?;
                        self.copy_file(from, to).map(|()| false)
                    }
                    Err(error) => Err(io(error).into()),
                }
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Err(StorageError::io(to, "link", error).into())
            }
            Err(_) => self.copy_file(from, to).map(|()| false),
        }
    }

    fn copy_file(&self, from: &Path, to: &Path) -> Result<()> {
        const PIECE: usize = 1 << 20;
        let reading = |e| StorageError::io(from, "read", e);
        let writing = |e| StorageError::io(to, "write", e);
        let source = self.fs.open(from).map_err(reading)?;
        let mut target = self.fs.create(to).map_err(writing)?;
        let mut buffer = vec![0; PIECE];
        loop {
            let read = source.read_at(&mut buffer, target.len()).map_err(reading)?;
            let Some(piece) = buffer.get(..read).filter(|piece| !piece.is_empty()) else { break };
            target.write_all(piece).map_err(writing)?;
        }
        Ok(target.sync().map_err(writing)?)
    }

    /// Adds SSTables to the view, with the current schema of the table.
    /// With `replace`, the SSTables that the view has are removed from it.
    fn take_in(self: &Arc<Self>, table: &Table, readers: Vec<SSTableReader>, replace: bool) -> Result<()> {
        table.try_change_view(|view| {
            let in_terms = |reader: SSTableReader| {
                let reader = if Arc::ptr_eq(reader.table(), &view.table) {
                    reader
                } else {
                    reader.with_table(view.table.clone())?
                };
                Ok(Arc::new(self.handle(reader)))
            };
            let added = readers.into_iter().map(in_terms).collect::<cassette_rows::Result<_>>()?;
            if replace {
                view.sstables = Arc::new([]);
                view.quarantined = Arc::new([]);
                view.unreadable = Arc::new([]);
            }
            view.replace_sstables(&HashSet::new(), added);
            Ok(())
        })
    }

    fn remove_source(&self, source: &Descriptor) -> Result<()> {
        for file in self.files_of(source)? {
            let path = source.directory.join(&file.name);
            self.fs.remove_file(&path).map_err(|e| StorageError::io(&path, "remove", e))?;
        }
        let directory = &source.directory;
        let synced = self.fs.sync_dir(directory);
        Ok(synced.map_err(|e| StorageError::io(directory, "sync the directory", e))?)
    }

    /// See [`Engine::refresh`](crate::Engine::refresh).
    ///
    /// Files that no view contains may be those of a running flush or compaction, so none may run.
    pub fn refresh(self: &Arc<Self>, id: TableId) -> Result<Vec<ImportedSSTable>> {
        self.check_running()?;
        if self.phase() == Phase::Recovering {
            return Err(EngineError::Recovering);
        }
        let table = self.table(id)?;
        let _alone = table.importing.lock();
        let _no_compaction = self.pause_compactions(&table);
        let _no_flush = table.flush.lock();
        let metadata = table.metadata();
        let view = table.view();
        let known: HashSet<_> =
            view.sstables.iter().chain(&*view.quarantined).map(|sstable| sstable.id()).collect();
        drop(view);
        let mut found = self.sources(&table.directory)?;
        let entries = self.fs.read_dir(&table.directory);
        let entries = entries.map_err(|error| StorageError::io(&table.directory, "list", error))?;
        let names = file_names(&entries);
        found.iter().try_for_each(|descriptor| check_is_only(&names, descriptor))?;
        found.retain(|descriptor| !known.contains(&descriptor.id));
        let mut readers = Vec::with_capacity(found.len());
        for descriptor in found {
            self.check_no_links(&descriptor)?;
            table.skip_number(descriptor.id);
            let options = OpenOptions { foreign: ForeignFiles::Trust };
            let (fs, cache) = (self.fs.clone(), self.cache.clone());
            let reader = SSTableReader::open(fs, descriptor, metadata.clone(), cache, options)?;
            // Verified completely, even with checksums of this engine: the copy may be damaged.
            reader.verify()?;
            readers.push(reader);
        }
        let readers: Vec<_> =
            readers.into_iter().map(SSTableReader::adopted).collect::<cassette_rows::Result<_>>()?;
        let mut taken = Vec::with_capacity(readers.len());
        for reader in &readers {
            let path = reader.descriptor().path(Component::Data);
            taken.push(ImportedSSTable::new(path, reader, Transfer::InPlace));
        }
        let read: HashSet<_> = readers.iter().map(|reader| reader.descriptor().id).collect();
        let is_changed = !readers.is_empty();
        self.take_in(&table, readers, false)?;
        if is_changed {
            self.log_event(&table, EventKind::Imported, self.usable_log()?.event_position())?;
        }
        // SSTables that could not be opened at the start are open now, or were removed.
        let is_left = |sstable: &Unreadable| {
            !read.contains(&sstable.descriptor.id)
                && entries.iter().any(|entry| entry.name.starts_with(&sstable.descriptor.file_prefix()))
        };
        table.change_view(|view| {
            view.unreadable = view.unreadable.iter().filter(|sstable| is_left(sstable)).cloned().collect();
        });
        Ok(taken)
    }
}
