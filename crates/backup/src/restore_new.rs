//! Restoring a backup into a new data directory, which appears when it is complete.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cassette_database::{Database, ForeignNode, ImportOptions, Keyspace, Options};
use cassette_engine::ArchivedLog;
use cassette_rows::{TableId, TableMetadata};
use cassette_vfs::StagedDirectory;

use crate::create::AUTH;
use crate::error::{Error, Result};
use crate::log::Until;
use crate::manifest::{SCHEMA, TableRecord};
use crate::repository::{Backup, Repository};
use crate::restore::{LocalFiles, RestoreOptions, Restored, staging_error};

/// The directory of downloaded segments, beside those of keyspaces, which have no such names.
const SEGMENTS: &str = "commitlog-segments";

impl Repository {
    /// Restores a backup into a data directory that does not exist yet, and replays the archived
    /// commit log if `options.until` is specified. After an error or a crash, there is no such
    /// directory.
    ///
    /// # Errors
    /// Invalid, if the directory exists and is not empty, or the moment is not archived; Damaged,
    /// if a file differs from its record, or a segment is missing; otherwise those of the database.
    pub fn restore_into_new(
        &self,
        backup: &Backup,
        target: &Path,
        options: &RestoreOptions,
    ) -> Result<Restored> {
        let tables = self.selected(backup, &options.names, true)?;
        match self.fs.read_dir(target) {
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
        let staged = StagedDirectory::begin(&self.fs, target, "restoring")
            .map_err(staging_error(target, "restore into"))?;
        let restored = match options.until {
            None => self.build(backup, &tables, target, staged.path(), options)?,
            Some(until) => self.build_until(backup, &tables, target, staged.path(), options, until)?,
        };
        staged.publish().map_err(staging_error(target, "restore into"))?;
        Ok(restored)
    }

    /// Builds a data directory.
    fn build(
        &self,
        backup: &Backup,
        tables: &[&TableRecord],
        target: &Path,
        data: &Path,
        options: &RestoreOptions,
    ) -> Result<Restored> {
        self.verify_unless_fetched(backup, options)?;
        let files = self.fetch(backup, tables, target)?;
        let database = self.create(data, true)?;
        close_after(&database, self.restore_tables(backup, tables, &files, &database, options, true))
    }

    fn create(&self, data: &Path, background_threads: bool) -> Result<Database> {
        let mut settings = Options::new(data);
        settings.file_system = Arc::clone(&self.fs);
        settings.engine.background_threads = background_threads;
        // The definitions of the backup may need them, whatever the server allows later.
        settings.materialized_views_enabled = true;
        settings.sasi_indexes_enabled = true;
        settings.dynamic_data_masking_enabled = true;
        Database::open(settings).map_err(Error::in_database("cannot create the data directory"))
    }

    /// Builds a data directory with everything that was acknowledged until a moment:
    ///
    /// 1. the schema of that moment, from the tables of the schema and their records,
    /// 2. the SSTables of its tables, without those that were truncated since,
    /// 3. the records of the commit log up to the moment,
    /// 4. indexes and views, which are built from the rows.
    fn build_until(
        &self,
        backup: &Backup,
        tables: &[&TableRecord],
        target: &Path,
        data: &Path,
        options: &RestoreOptions,
        until: Until,
    ) -> Result<Restored> {
        let Some(position) = &backup.manifest.log else {
            return Err(Error::invalid(format!(
                "the archived commit log does not continue backup {}: restore without --until, or from another backup",
                backup.name
            )));
        };
        if !options.rename.is_empty() {
            return Err(Error::invalid(
                "cannot restore to a point in time under other names: restore into a new data directory, and create a \
                 backup of that",
            ));
        }
        self.verify_unless_fetched(backup, options)?;
        let log = self.log();
        let needed = log.needed(position, until)?;
        let of_schema = backup.manifest.tables.iter().filter(|table| table.keyspace == SCHEMA);
        let fetched: Vec<&TableRecord> = of_schema.chain(tables.iter().copied()).collect();
        let files = self.fetch(backup, &fetched, target)?;
        let segments = log.fetch(&self.fs, &needed, &files.root.join(SEGMENTS))?;
        self.fill_until(backup, tables, &files, data, &segments, options, until)
    }

    #[expect(clippy::too_many_arguments, reason = "the files of `build_until`, which has to remove them")]
    fn fill_until(
        &self,
        backup: &Backup,
        tables: &[&TableRecord],
        files: &LocalFiles,
        data: &Path,
        segments: &[PathBuf],
        options: &RestoreOptions,
        until: Until,
    ) -> Result<Restored> {
        let Some(position) = &backup.manifest.log else { return Ok(Restored::default()) };
        let encryption = options.commitlog_encryption.clone();
        let micros = match until {
            Until::Time(micros) => Some(micros),
            Until::Latest => None,
        };
        let archived = ArchivedLog::open(self.fs.clone(), encryption, segments, position.position(), micros)
            .map_err(|error| Error::Segment(Box::new(error)))?;
        let schema = vec![files.root.clone()];
        let node = ForeignNode::read_with(self.fs.clone(), &schema, Some(&archived))
            .map_err(Error::in_database("cannot read the schema of that time"))?;
        if let Some(unsupported) = node.unsupported.first() {
            return Err(Error::invalid(format!("cannot restore the schema of that time: {unsupported}")));
        }
        let keyspaces = selected_keyspaces(node.keyspaces, &options.names);
        let database = self.create(data, false)?;
        let filled = fill(backup, tables, files, &database, &keyspaces, &archived);
        close_after(&database, filled)
    }
}

/// Steps 2 to 4.
fn fill(
    backup: &Backup,
    tables: &[&TableRecord],
    files: &LocalFiles,
    database: &Database,
    keyspaces: &[Keyspace],
    archived: &ArchivedLog,
) -> Result<Restored> {
    let creating = || Error::in_database("cannot create the schema of that time");
    let bare: Vec<Keyspace> = keyspaces.iter().map(bare).collect();
    database.put_keyspaces(&bare).map_err(creating())?;
    let with_roles = tables.iter().any(|table| table.keyspace == AUTH);
    let mut meant: Vec<Arc<TableMetadata>> =
        bare.iter().flat_map(|keyspace| keyspace.tables.values().cloned()).collect();
    if with_roles {
        meant.extend(database.tables_of_roles());
    }
    let mut restored = Restored::default();
    for table in &meant {
        let directory = table.directory_name();
        let record =
            tables.iter().find(|record| record.keyspace == table.keyspace && record.directory == directory);
        restored.tables += 1;
        let Some(record) = record.filter(|_| !archived.truncates(table.id)) else { continue };
        let directory = files.table(record);
        let import = ImportOptions {
            keep_level: true,
            keep_repaired: true,
            verify: false,
            copy_data: true,
            ..ImportOptions::default()
        };
        let imported = database.engine().import(table.id, &directory, &import);
        let imported = imported.map_err(|source| {
            let context = format!("cannot restore {}", table.qualified_name());
            Error::Engine { context, source }
        })?;
        restored.sstables += imported.len();
        restored.bytes += imported.iter().map(|sstable| sstable.bytes).sum::<u64>();
    }
    let ids: std::collections::HashSet<TableId> = meant.iter().map(|table| table.id).collect();
    let applied = database.engine().apply_archived(archived, &|table| ids.contains(&table.id));
    let applied = applied.map_err(|source| Error::Engine {
        context: "cannot replay the archived commit log".to_owned(),
        source,
    })?;
    restored.mutations = Some(applied.mutations);
    for table in meant.iter().filter(|table| archived.imported().contains(&table.id)) {
        restored.warnings.push(format!(
            "{}: SSTables that were imported after backup {} are missing: the commit log does not contain them; \
             import them again, and create a backup after each import",
            table.qualified_name(),
            backup.name
        ));
    }
    database.put_keyspaces(keyspaces).map_err(creating())?;
    let catalog = database.catalog();
    for keyspace in keyspaces.iter().filter_map(|keyspace| catalog.keyspace(&keyspace.name)) {
        if let Some(index) = keyspace.indexes.values().find(|index| !database.is_built(index)) {
            return Err(Error::invalid(format!(
                "cannot build index {}.{}: see the log",
                keyspace.name, index.name
            )));
        }
    }
    Ok(restored)
}

/// Returns the keyspaces and tables that are named; all if no names are specified.
fn selected_keyspaces(mut keyspaces: Vec<Keyspace>, names: &[String]) -> Vec<Keyspace> {
    if names.is_empty() {
        return keyspaces;
    }
    keyspaces.retain_mut(|keyspace| {
        if names.contains(&keyspace.name) {
            return true;
        }
        let is_named = |table: &str| {
            names.iter().any(|name| name.split_once('.') == Some((keyspace.name.as_str(), table)))
        };
        let meant: Vec<String> = keyspace.tables.keys().filter(|table| is_named(table)).cloned().collect();
        let bases: Vec<TableId> = meant.iter().map(|name| keyspace.tables[name].id).collect();
        keyspace.views.retain(|_, view| bases.contains(&view.base.id));
        keyspace.indexes.retain(|_, index| bases.contains(&index.base().id));
        let views = &keyspace.views;
        keyspace.tables.retain(|name, _| meant.contains(name) || views.contains_key(name));
        !meant.is_empty()
    });
    keyspaces
}

/// Returns a keyspace without indexes and views, which are built when their tables have all rows.
fn bare(keyspace: &Keyspace) -> Keyspace {
    let mut bare = keyspace.clone();
    bare.indexes.clear();
    bare.views.clear();
    bare.tables.retain(|table, _| !keyspace.views.contains_key(table));
    bare
}

/// Closes the database, also after an error.
fn close_after(database: &Database, done: Result<Restored>) -> Result<Restored> {
    let closed = database.close().map_err(Error::in_database("cannot close the data directory"));
    let done = done?;
    closed?;
    Ok(done)
}
