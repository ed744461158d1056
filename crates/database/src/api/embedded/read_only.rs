//! Read-only databases.

use std::path::Path;
use std::sync::Arc;

use cassette_engine::ImportOptions;
use cassette_vfs::{FileSystem, OverlayFileSystem, RealFileSystem};

use crate::api::database::{Database, Options};
use crate::basics::error::{DatabaseError, Result, bail_invalid};

/// The path of an opened snapshot in memory.
const IN_MEMORY: &str = "/cassette-read-only";

impl Database {
    /// Opens a directory without writing to it: a data directory, or a directory with the SSTables
    /// and the `schema.cql` of one table, such as a snapshot or a copy of one.
    ///
    /// Statements that write fail. Files written by opening itself stay in memory, including the
    /// rows that only the commit log contains. Any number of processes can open a directory
    /// read-only at the same time, but not while a process has it open for writing. There are no
    /// background threads. A directory whose server was cut over to another one lacks later writes,
    /// which is logged.
    ///
    /// # Errors
    /// Those of [`open`](Self::open). Invalid, if the directory is neither.
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_read_only_on(Arc::new(RealFileSystem), path.as_ref())
    }

    /// [`open_read_only`](Self::open_read_only) of a directory in a file system.
    ///
    /// # Errors
    /// Those of [`open_read_only`](Self::open_read_only).
    pub fn open_read_only_on(file_system: Arc<dyn FileSystem>, path: &Path) -> Result<Self> {
        Self::open_read_only_with(Options { file_system, ..Options::new(path) })
    }

    /// [`open_read_only`](Self::open_read_only) of the directory and the file system in `options`.
    ///
    /// # Errors
    /// Those of [`open_read_only`](Self::open_read_only).
    pub fn open_read_only_with(mut options: Options) -> Result<Self> {
        let (file_system, path) = (options.file_system.clone(), options.engine.data_dir.clone());
        let path = path.as_path();
        let listed = file_system.read_dir(path).map_err(|error| {
            DatabaseError::storage(cassette_rows::StorageError::io(path, "list the directory", error))
        })?;
        let has = |name: &str| listed.iter().any(|entry| entry.name == name);
        let is_data_directory = has("cassette.version");
        if !is_data_directory && !has("schema.cql") {
            bail_invalid!(
                "cannot open {} for reading: expected a data directory or a snapshot, found neither \
                 cassette.version nor schema.cql",
                path.display()
            );
        }
        if !is_data_directory {
            options.engine.data_dir = IN_MEMORY.into();
        }
        options.file_system = Arc::new(OverlayFileSystem::new(file_system));
        Self::open_in_memory_and(options, |database| {
            if is_data_directory { Ok(()) } else { database.show_snapshot(path) }
        })
    }

    /// Opens a database for reading only, after `fill` has written to it. The file system of the
    /// options keeps changes in memory.
    #[doc(hidden)]
    pub fn open_in_memory_and<E: From<DatabaseError>>(
        mut options: Options,
        fill: impl FnOnce(&Self) -> std::result::Result<(), E>,
    ) -> std::result::Result<Self, E> {
        options.engine.background_threads = false;
        options.engine.auto_snapshot = false;
        // Such as those in the schema of a base table's snapshot.
        options.materialized_views_enabled = true;
        options.sasi_indexes_enabled = true;
        options.dynamic_data_masking_enabled = true;
        let database = Self::open_for(options, true)?;
        fill(&database)?;
        database.refuse_writes();
        Ok(database)
    }

    /// Creates the schema of a snapshot, and links its files into the table's directory.
    fn show_snapshot(&self, directory: &Path) -> Result<()> {
        let options = ImportOptions {
            verify: false,
            keep_level: true,
            keep_repaired: true,
            copy_data: false,
            ..ImportOptions::default()
        };
        self.restore_with(directory, &options)?;
        Ok(())
    }
}
