//! Restoring a backup into an open database, or into a new data directory.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cassette_database::{Database, ImportOptions, Options};
use cassette_vfs::{FileLock, FileSystem};

use crate::copy::write;
use crate::create::{AUTH, quote};
use crate::error::{Error, Result};
use crate::manifest::TableRecord;
use crate::repository::{Backup, Repository, create_with_parents};

/// The suffix of the directory in which a new data directory is built.
const RESTORING: &str = ".restoring";
/// The file that makes such a directory one of this crate, and later tells where it comes from.
const MARKER: &str = "cassette-restore.json";

/// The options of a restore.
#[derive(Debug, Clone, Default)]
pub struct RestoreOptions {
    /// The keyspaces, or tables as `keyspace.table`. If empty, everything; into an open database,
    /// everything except roles and permissions, which are restored if `system_auth` is specified.
    pub names: Vec<String>,
    /// Whether the tables are truncated before. Otherwise the rows of the backup are added to
    /// theirs, and newer rows and deletions remain effective.
    pub truncate: bool,
    /// Whether the checksums of the files are not verified before.
    pub skip_verification: bool,
}

/// What was restored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Restored {
    /// The number of tables.
    pub tables: usize,
    /// The number of SSTables.
    pub sstables: usize,
    /// Their bytes.
    pub bytes: u64,
}

impl fmt::Display for Restored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "restored {} tables, {} SSTables, {} bytes", self.tables, self.sstables, self.bytes)
    }
}

impl Repository {
    /// Returns the tables of a backup that `options` selects.
    ///
    /// # Errors
    /// Invalid, for a name that the backup does not contain.
    pub fn selected<'b>(
        &self,
        backup: &'b Backup,
        names: &[String],
        with_roles: bool,
    ) -> Result<Vec<&'b TableRecord>> {
        let tables = &backup.manifest.tables;
        let is_named = |table: &TableRecord, name: &str| {
            table.keyspace == name || name.split_once('.') == Some((&table.keyspace, &table.table))
        };
        let is_empty_keyspace = |name: &str| backup.manifest.keyspaces.iter().any(|file| file.name == name);
        for name in names {
            if !tables.iter().any(|table| is_named(table, name)) && !is_empty_keyspace(name) {
                return Err(Error::invalid(format!(
                    "backup {} contains no keyspace or table {name}",
                    backup.name
                )));
            }
        }
        let is_meant = |table: &&TableRecord| {
            if names.is_empty() {
                with_roles || table.keyspace != AUTH
            } else {
                names.iter().any(|name| is_named(table, name))
            }
        };
        Ok(tables.iter().filter(is_meant).collect())
    }

    /// Restores a backup into an open database: creates missing keyspaces, types, tables, indexes
    /// and views, and adds the SSTables. Each table is restored as a whole or not at all; after an
    /// error, the same call can be repeated.
    ///
    /// # Errors
    /// Damaged, if a file differs from the manifest: nothing was changed. Otherwise those of the
    /// database: a table that exists with other columns, views of a table that exists.
    pub fn restore(
        &self,
        backup: &Backup,
        database: &Database,
        options: &RestoreOptions,
    ) -> Result<Restored> {
        let tables = self.selected(backup, &options.names, false)?;
        self.restore_tables(backup, &tables, database, options, false)
    }

    /// Restores a backup into a data directory that does not exist yet. After an error or a crash,
    /// there is no such directory.
    ///
    /// # Errors
    /// Invalid, if the directory exists and is not empty; otherwise as for
    /// [`restore`](Self::restore).
    pub fn restore_into_new(
        &self,
        backup: &Backup,
        target: &Path,
        options: &RestoreOptions,
    ) -> Result<Restored> {
        let tables = self.selected(backup, &options.names, true)?;
        let fs = self.fs.as_ref();
        match fs.read_dir(target) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            entries => {
                if let Some(entry) = entries.map_err(Error::io(target, "list"))?.first() {
                    return Err(Error::invalid(format!(
                        "{}: expected a missing or empty directory, found {}; to restore into a database that \
                         exists, specify its data directory as such, or its server",
                        target.display(),
                        entry.name
                    )));
                }
            }
        }
        let (data, _alone) = self.prepare_staging(backup, target)?;
        let done = self.build(backup, &tables, &data, options).and_then(|restored| {
            sync_tree(fs, &data)?;
            fs.rename(&data, target).map_err(Error::io(target, "create"))?;
            let parent = parent_of(target);
            fs.sync_dir(parent).map_err(Error::io(parent, "sync the directory"))?;
            Ok(restored)
        });
        if done.is_err()
            && let Err(error) = fs.remove_dir_all(&data)
        {
            tracing::warn!(%error, path = %data.display(), "the directory of a failed restore remains");
        }
        done
    }

    /// Builds a data directory.
    fn build(
        &self,
        backup: &Backup,
        tables: &[&TableRecord],
        data: &Path,
        options: &RestoreOptions,
    ) -> Result<Restored> {
        let mut settings = Options::new(data);
        settings.file_system = Arc::clone(&self.fs);
        // The definitions of the backup may need them, whatever the server allows later.
        settings.materialized_views_enabled = true;
        settings.dynamic_data_masking_enabled = true;
        let database =
            Database::open(settings).map_err(Error::in_database("cannot create the data directory"))?;
        let restored = self.restore_tables(backup, tables, &database, options, true);
        let closed = database.close().map_err(Error::in_database("cannot close the data directory"));
        let restored = restored?;
        closed?;
        Ok(restored)
    }

    fn restore_tables(
        &self,
        backup: &Backup,
        tables: &[&TableRecord],
        database: &Database,
        options: &RestoreOptions,
        is_new: bool,
    ) -> Result<Restored> {
        if !options.skip_verification {
            self.verify(backup)?;
        }
        let is_meant = |keyspace: &str| {
            options.names.is_empty()
                || options.names.iter().any(|name| name.split('.').next() == Some(keyspace))
        };
        let session = database.session();
        for keyspace in backup.manifest.keyspaces.iter().filter(|keyspace| is_meant(&keyspace.name)) {
            let path = self.root.join(&backup.name).join(&keyspace.name).join("keyspace.cql");
            let text = self.fs.read(&path).map_err(Error::io(&path, "read"))?;
            let text = String::from_utf8(text).map_err(|error| Error::damaged(&path, error.to_string()))?;
            for statement in cassette_database::split_statements(&text) {
                session.execute(statement, ()).map_err(Error::in_database(format!(
                    "cannot create keyspace {} or its types",
                    keyspace.name
                )))?;
            }
        }
        if options.truncate {
            check_accepts(database, tables)?;
        }
        let mut restored = Restored::default();
        for table in tables {
            let name = table.qualified_name();
            let context = || {
                let before = restored.tables;
                format!("cannot restore {name} ({before} of {} tables were restored before)", tables.len())
            };
            if options.truncate && database.catalog().table(&table.keyspace, &table.table).is_some() {
                let truncate = format!("TRUNCATE {}.{}", quote(&table.keyspace), quote(&table.table));
                session.execute(&truncate, ()).map_err(Error::in_database(context()))?;
            }
            let directory = self.table_directory(&backup.name, &table.keyspace, &table.directory);
            let import = ImportOptions {
                // The levels of a set of SSTables are valid for that set alone.
                keep_level: is_new,
                keep_repaired: true,
                verify: false,
                copy_data: true,
                ..ImportOptions::default()
            };
            // The tables of roles exist in every database, and clients must not create them.
            let imported = if table.keyspace == AUTH {
                database.import(&table.keyspace, &table.table, &directory, &import)
            } else {
                database.restore_with(&directory, &import)
            };
            let imported = imported.map_err(Error::in_database(context()))?;
            tracing::info!(table = name, sstables = imported.len(), "restored a table");
            restored.tables += 1;
            restored.sstables += imported.len();
            restored.bytes += imported.iter().map(|sstable| sstable.bytes).sum::<u64>();
        }
        Ok(restored)
    }

    /// Creates an empty directory beside `target`, in place of one that an interrupted restore
    /// left. The lock, beside it too, excludes other restores into the same target.
    fn prepare_staging(&self, backup: &Backup, target: &Path) -> Result<(PathBuf, Box<dyn FileLock>)> {
        let fs = self.fs.as_ref();
        let Some(name) = target.file_name() else {
            return Err(Error::invalid(format!("{}: expected the name of a directory", target.display())));
        };
        let mut name = name.to_owned();
        name.push(RESTORING);
        let staging = parent_of(target).join(name);
        let lock = lock_beside(fs, target)?;
        let marker = staging.join(MARKER);
        if fs.exists(&staging).map_err(Error::io(&staging, "examine"))? {
            let entries = fs.read_dir(&staging).map_err(Error::io(&staging, "list"))?;
            if !entries.is_empty() && !entries.iter().any(|entry| entry.name == MARKER) {
                return Err(Error::invalid(format!(
                    "{}: the directory exists and was not created by a restore; remove it or specify another target",
                    staging.display()
                )));
            }
            fs.remove_dir_all(&staging).map_err(Error::io(&staging, "remove"))?;
        }
        create_with_parents(fs, &staging)?;
        let content = serde_json::json!({ "backup": backup.name, "repository": self.root }).to_string();
        write(fs, &marker, content.as_bytes())?;
        fs.sync_dir(&staging).map_err(Error::io(&staging, "sync the directory"))?;
        Ok((staging, lock))
    }
}

/// Checks that tables with views or incomplete indexes are not truncated: their import would be
/// refused.
fn check_accepts(database: &Database, tables: &[&TableRecord]) -> Result<()> {
    let catalog = database.catalog();
    for record in tables {
        let Some(table) = catalog.table(&record.keyspace, &record.table) else { continue };
        let name = record.qualified_name();
        if let Some(view) = catalog.views_of(table.id).first() {
            return Err(Error::invalid(format!(
                "cannot restore {name}: nothing was truncated; drop its view {} first, which the restore creates again",
                view.name()
            )));
        }
        if let Some(index) = catalog.indexes_of(table.id).iter().find(|index| !database.is_built(index)) {
            return Err(Error::invalid(format!(
                "cannot restore {name}: nothing was truncated; its index {} is being built, try again when it is done",
                index.name
            )));
        }
    }
    Ok(())
}

/// Makes all names below a directory durable: some of a data directory's are not, as the next start
/// would create them again.
fn sync_tree(fs: &dyn FileSystem, directory: &Path) -> Result<()> {
    for entry in fs.read_dir(directory).map_err(Error::io(directory, "list"))? {
        if entry.is_dir {
            sync_tree(fs, &directory.join(entry.name))?;
        }
    }
    fs.sync_dir(directory).map_err(Error::io(directory, "sync the directory"))
}

/// Locks `<target>.restoring.lock`. The file is empty and stays: removing it would let two others
/// lock different files of that name.
fn lock_beside(fs: &dyn FileSystem, target: &Path) -> Result<Box<dyn FileLock>> {
    let mut name = target.file_name().unwrap_or_default().to_owned();
    name.push(format!("{RESTORING}.lock"));
    let parent = parent_of(target);
    create_with_parents(fs, parent)?;
    let path = parent.join(name);
    fs.lock(&path).map_err(|error| {
        if error.kind() == io::ErrorKind::WouldBlock {
            let target = target.display();
            return Error::invalid(format!("another restore into {target} is running: wait until it ends"));
        }
        Error::io(&path, "lock")(error)
    })
}

fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}
