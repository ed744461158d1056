//! Restoring a backup into an open database.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cassette_database::{
    Database, DatabaseError, ImportOptions, RestoreNames, SnapshotRestore, keyspace_definitions,
};
use cassette_vfs::encryption::Encryption;
use cassette_vfs::{StagedDirectory, StagingError};

use crate::copy::read_small;
use crate::create::AUTH;
use crate::error::{Error, Result};
use crate::log::Until;
use crate::manifest::{SCHEMA, TableRecord};
use crate::repository::{Backup, Repository};

/// The maximum length of the definitions of a keyspace, bytes.
const DEFINITION_LENGTH_MAX: u64 = 16 << 20;

/// The options of a restore.
#[derive(Debug, Clone, Default)]
pub struct RestoreOptions {
    /// The keyspaces, or tables as `keyspace.table`. If empty, everything; into an open database,
    /// everything except roles and permissions, which are restored if `system_auth` is specified.
    pub names: Vec<String>,
    /// Other names: a keyspace, or for a single table also its name. Types, indexes and, unless the
    /// table is renamed, views are created there too.
    pub rename: RestoreNames,
    /// Whether the rows of the tables are replaced. Otherwise the rows of the backup are added to
    /// theirs, and newer rows and deletions remain effective.
    pub truncate: bool,
    /// Whether the checksums of the files are not verified before.
    pub skip_verification: bool,
    /// How far the archived commit log is replayed; only into a new data directory.
    pub until: Option<Until>,
    /// Decrypts archived segments of an encrypted commit log.
    pub commitlog_encryption: Option<Arc<dyn Encryption>>,
}

/// What was restored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Restored {
    /// The number of tables.
    pub tables: usize,
    /// The number of SSTables.
    pub sstables: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Mutations of the archived commit log, if it was replayed.
    pub mutations: Option<u64>,
    /// What is missing although the restore succeeded, one sentence each.
    pub warnings: Vec<String>,
}

impl fmt::Display for Restored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "restored {} tables, {} SSTables, {} bytes", self.tables, self.sstables, self.bytes)?;
        match self.mutations {
            Some(mutations) => write!(f, ", {mutations} mutations of the commit log"),
            None => Ok(()),
        }
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
        let tables = || backup.manifest.tables.iter().filter(|table| table.keyspace != SCHEMA);
        let is_named = |table: &TableRecord, name: &str| {
            table.keyspace == name || name.split_once('.') == Some((&table.keyspace, &table.table))
        };
        let is_empty_keyspace = |name: &str| backup.manifest.keyspaces.iter().any(|file| file.name == name);
        for name in names {
            if !tables().any(|table| is_named(table, name)) && !is_empty_keyspace(name) {
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
        Ok(tables().filter(is_meant).collect())
    }

    /// Restores a backup into an open database: creates missing keyspaces, types, tables, indexes
    /// and views, and adds the SSTables, or replaces those of the tables. Each table is restored as
    /// a whole or not at all, also after a crash; after an error, the same call can be repeated.
    ///
    /// # Errors
    /// Damaged, if a file differs from the manifest, or Invalid, if a table exists with other
    /// columns or with views: nothing was changed. Otherwise those of the database.
    pub fn restore(
        &self,
        backup: &Backup,
        database: &Database,
        options: &RestoreOptions,
    ) -> Result<Restored> {
        if options.until.is_some() {
            return Err(Error::invalid(
                "cannot restore to a point in time into an existing database: specify a new data directory",
            ));
        }
        let tables = self.selected(backup, &options.names, false)?;
        self.verify_unless_fetched(backup, options)?;
        let data = &database.engine().options().data_dir;
        let files = self.fetch(backup, &tables, data)?;
        self.restore_tables(backup, &tables, &files, database, options, false)
    }

    /// Verifies all checksums before anything is changed. What is fetched is verified by that.
    pub(crate) fn verify_unless_fetched(&self, backup: &Backup, options: &RestoreOptions) -> Result<()> {
        if options.skip_verification || self.objects.is_some() {
            return Ok(());
        }
        self.verify(backup).map(drop)
    }

    /// Returns the files of tables and the definitions of their keyspaces: those of the backup, or
    /// downloads beside the data directory `data`: within it, they could not be imported.
    pub(crate) fn fetch(&self, backup: &Backup, tables: &[&TableRecord], data: &Path) -> Result<LocalFiles> {
        let Some(layout) = &self.objects else {
            return Ok(LocalFiles { root: self.root.join(&backup.name), _downloads: None });
        };
        let downloads = StagedDirectory::begin(&self.fs, data, "downloads")
            .map_err(staging_error(data, "download of a backup for"))?;
        let files = LocalFiles { root: downloads.path().to_owned(), _downloads: Some(downloads) };
        let create =
            |path: &Path| self.fs.create_dir_all(path).map_err(Error::io(path, "create the directory"));
        create(&files.root)?;
        for keyspace in &backup.manifest.keyspaces {
            let directory = files.root.join(&keyspace.name);
            create(&directory)?;
            layout.fetch(self.fs.as_ref(), keyspace, &directory.join("keyspace.cql"))?;
        }
        for table in tables {
            let directory = files.table(table);
            create(&directory)?;
            for file in &table.files {
                layout.fetch(self.fs.as_ref(), file, &directory.join(&file.name))?;
            }
        }
        Ok(files)
    }

    pub(crate) fn restore_tables(
        &self,
        backup: &Backup,
        tables: &[&TableRecord],
        files: &LocalFiles,
        database: &Database,
        options: &RestoreOptions,
        is_new: bool,
    ) -> Result<Restored> {
        options.check_names(tables)?;
        let directory_of = |table: &TableRecord| files.table(table);
        let restore_of = |table: &TableRecord| SnapshotRestore {
            import: ImportOptions {
                // The levels of a set of SSTables are valid for that set alone.
                keep_level: is_new,
                keep_repaired: true,
                verify: false,
                copy_data: true,
                ..ImportOptions::default()
            },
            names: options.rename.clone(),
            replace: options.truncate,
            expected: Some((table.keyspace.clone(), table.table.clone())),
        };
        // All tables, before the first one is changed.
        for table in tables.iter().filter(|table| table.keyspace != AUTH) {
            database.check_restore(&directory_of(table), &restore_of(table)).map_err(
                |error| match error {
                    DatabaseError::Invalid(message) => Error::Invalid(message),
                    error => Error::in_database(format!("cannot restore {}", table.qualified_name()))(error),
                },
            )?;
        }
        self.create_keyspaces(backup, tables, files, database, options)?;
        let mut restored = Restored::default();
        for table in tables {
            let name = table.qualified_name();
            let context = || {
                let before = restored.tables;
                format!("cannot restore {name} ({before} of {} tables were restored before)", tables.len())
            };
            let (directory, restore) = (directory_of(table), restore_of(table));
            // The tables of roles exist in every database, and clients must not create them.
            let imported = match (table.keyspace == AUTH, options.truncate) {
                (true, true) => database.replace(AUTH, &table.table, &directory, &restore.import),
                (true, false) => database.import(AUTH, &table.table, &directory, &restore.import),
                (false, _) => database.restore_as(&directory, &restore),
            };
            let imported = imported.map_err(Error::in_database(context()))?;
            tracing::info!(table = name, sstables = imported.len(), "restored a table");
            restored.tables += 1;
            restored.sstables += imported.len();
            restored.bytes += imported.iter().map(|sstable| sstable.bytes).sum::<u64>();
        }
        Ok(restored)
    }

    /// Creates missing keyspaces of the tables, and their types.
    fn create_keyspaces(
        &self,
        backup: &Backup,
        tables: &[&TableRecord],
        files: &LocalFiles,
        database: &Database,
        options: &RestoreOptions,
    ) -> Result<()> {
        let is_meant = |keyspace: &str| {
            options.names.is_empty() && options.rename.is_empty()
                || options.names.iter().any(|name| name == keyspace)
                || tables.iter().any(|table| table.keyspace == keyspace)
        };
        let session = database.session();
        for keyspace in backup.manifest.keyspaces.iter().filter(|keyspace| is_meant(&keyspace.name)) {
            let path = files.root.join(&keyspace.name).join("keyspace.cql");
            let text = read_small(self.fs.as_ref(), &path, DEFINITION_LENGTH_MAX)?;
            let text = String::from_utf8(text).map_err(|error| Error::damaged(&path, error.to_string()))?;
            keyspace_definitions(&text, &keyspace.name)
                .map_err(Error::in_database(format!("cannot restore keyspace {}", keyspace.name)))?;
            let text = options.rename.rename(&text, &keyspace.name, "");
            for statement in cassette_database::split_statements(&text) {
                session.execute(statement, ()).map_err(Error::in_database(format!(
                    "cannot create keyspace {} or its types",
                    options.rename.keyspace(&keyspace.name)
                )))?;
            }
        }
        Ok(())
    }
}

/// The files of a backup on this machine. Downloads are removed on drop.
pub(crate) struct LocalFiles {
    /// The directory of the keyspaces' directories.
    pub root: PathBuf,
    _downloads: Option<StagedDirectory>,
}

impl LocalFiles {
    /// Returns the directory of a table.
    pub fn table(&self, table: &TableRecord) -> PathBuf {
        self.root.join(&table.keyspace).join(&table.directory)
    }
}

/// Returns a function that explains the failure of a staged directory. `what` is what another
/// command does with the target.
pub(crate) fn staging_error(target: &Path, what: &'static str) -> impl FnOnce(StagingError) -> Error {
    let target = target.to_owned();
    move |error| {
        let shown = target.display();
        Error::invalid(match error {
            StagingError::NoName => format!("{shown}: expected the name of a directory"),
            StagingError::Busy(_) => {
                format!("another {what} {shown} is running: wait until it ends")
            }
            StagingError::Foreign(staging) => format!(
                "{}: the directory exists and was not created by a restore; remove it or specify another target",
                staging.display()
            ),
            StagingError::MountPoint => {
                format!("{shown} is a mount point, which cannot be replaced: specify a directory in it")
            }
            StagingError::Io { action, path, source } => return Error::io(&path, action)(source),
        })
    }
}

impl RestoreOptions {
    /// Checks that no two tables get the same name.
    fn check_names(&self, tables: &[&TableRecord]) -> Result<()> {
        if self.rename.is_empty() {
            return Ok(());
        }
        if let Some(table) = &self.rename.table
            && tables.len() != 1
        {
            return Err(Error::invalid(format!(
                "cannot restore as table {table}: expected one table as KEYSPACE.TABLE, found {}",
                tables.len()
            )));
        }
        let first = tables.first().map(|table| &table.keyspace);
        if let Some(keyspace) = &self.rename.keyspace
            && let Some(other) = tables.iter().find(|table| Some(&table.keyspace) != first)
        {
            return Err(Error::invalid(format!(
                "cannot restore into keyspace {keyspace}: expected tables of one keyspace, found {} and {}",
                first.map_or("", String::as_str),
                other.keyspace
            )));
        }
        if let Some(table) = tables.iter().find(|table| table.keyspace == AUTH) {
            return Err(Error::invalid(format!(
                "cannot restore {} under another name: only this table has a use for its rows",
                table.qualified_name()
            )));
        }
        Ok(())
    }
}
