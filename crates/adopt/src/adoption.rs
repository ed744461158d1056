//! Makes a data directory from a plan: all of it, or nothing.
//!
//! The database is made in `<target>.adopting`, closed, synced, and renamed: see
//! [`StagedDirectory`]. Cassandra's directories get no new names and no changes; their files get
//! further links.

use std::path::Path;
use std::sync::Arc;

use cassette_database::{Database, Options};
use cassette_engine::{ImportedSSTable, Transfer};
use cassette_rows::TableMetadata;
use cassette_vfs::{Clock, FileSystem, StagedDirectory, StagingError};

use crate::error::{AdoptError, Result};
use crate::estimate::copied_bytes;
use crate::fill::{Filling, Step, fill};
use crate::foreign;
use crate::layout::list;
use crate::options::AdoptOptions;
use crate::plan::Plan;
use crate::sizes::size_text;

/// What was taken in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Adopted {
    /// The number of tables, without views.
    pub tables: u64,
    /// The number of SSTables.
    pub sstables: u64,
    /// Bytes of their files.
    pub bytes: u64,
    /// The number of SSTables that were linked; the others were copied.
    pub linked: u64,
    /// The number of changes of partitions that only commit logs had.
    pub mutations: u64,
    /// What commit logs have of unknown tables, and where they end early.
    pub warnings: Vec<String>,
}

/// Makes the data directory. Calls `report` with what it does, often.
///
/// # Errors
/// Then there is no data directory, as before.
pub fn adopt(
    fs: &Arc<dyn FileSystem>,
    clock: Arc<dyn Clock>,
    plan: &Plan,
    options: &AdoptOptions,
    report: &mut dyn FnMut(Step<'_>),
) -> Result<Adopted> {
    let staged = begin(fs, &options.target)?;
    check_space(fs.as_ref(), plan, staged.parent(), options.copy)?;
    let adopted = make(fs, clock, plan, staged.path(), options, report)?;
    staged.publish().map_err(|error| refused(&options.target, error))?;
    Ok(adopted)
}

/// Excludes other adoptions into the target, which must be free: steps 1 and 2 of
/// [`StagedDirectory`].
fn begin(fs: &Arc<dyn FileSystem>, target: &Path) -> Result<StagedDirectory> {
    foreign::refuse_within(fs.as_ref(), target)?;
    let staged = StagedDirectory::begin(fs, target, "adopting").map_err(|error| refused(target, error))?;
    let entries = list(fs.as_ref(), target)?;
    if entries.iter().any(|entry| entry.name == "cassette.version") {
        return Err(AdoptError::Refused(format!(
            "{} is a data directory of Cassette already: choose one that does not exist, or take single tables \
             in with `cassette nodetool import`",
            target.display()
        )));
    }
    if !entries.is_empty() {
        return Err(AdoptError::Refused(format!(
            "{} is not empty: choose a directory that does not exist",
            target.display()
        )));
    }
    Ok(staged)
}

fn refused(target: &Path, error: StagingError) -> AdoptError {
    let target = target.display();
    AdoptError::Refused(match error {
        StagingError::NoName => format!("{target} cannot be a data directory"),
        StagingError::Foreign(staging) => format!(
            "{} exists, and no interrupted adoption left it: remove it, or choose another --data",
            staging.display()
        ),
        StagingError::Busy(lock) => {
            format!("another adoption into {target} is running: {} is locked", lock.display())
        }
        StagingError::MountPoint => {
            format!("{target} is a mount point, which cannot be replaced: choose a directory in it")
        }
        StagingError::Io { action, path, source } => return AdoptError::io(action, &path)(source),
    })
}

/// Makes the database in `staging`.
fn make(
    fs: &Arc<dyn FileSystem>,
    clock: Arc<dyn Clock>,
    plan: &Plan,
    staging: &Path,
    options: &AdoptOptions,
    report: &mut dyn FnMut(Step<'_>),
) -> Result<Adopted> {
    let mut database = Options { file_system: fs.clone(), clock, ..Options::new(staging) };
    // Nothing runs beside this, so nothing is written after it.
    database.engine.background_threads = false;
    database.materialized_views_enabled = true;
    let database = Database::open(database)?;
    let mut adopted = Adopted::default();
    let filling = Filling { copy: options.copy, verify: options.verify, build: true };
    let taken = |table: &TableMetadata, imported: &[ImportedSSTable]| {
        let is_view = plan.tables.iter().any(|planned| planned.table.id == table.id && planned.is_view);
        adopted.tables += u64::from(!is_view);
        adopted.sstables += imported.len() as u64;
        adopted.bytes += imported.iter().map(|sstable| sstable.bytes).sum::<u64>();
        adopted.linked +=
            imported.iter().filter(|sstable| sstable.transfer == Transfer::Linked).count() as u64;
    };
    let filled = fill(fs, &database, plan, filling, taken, report);
    report(Step::Flushing);
    let flushed = filled.and_then(|logs| {
        adopted.mutations = logs.mutations;
        adopted.warnings = logs.warnings;
        database
            .engine()
            .flush(None)
            .map_err(|source| AdoptError::Table { table: "flush".to_owned(), source })
    });
    let closed = database.close();
    flushed?;
    closed?;
    Ok(adopted)
}

/// Checks that copies fit: the disk of Cassandra must not become full.
fn check_space(fs: &dyn FileSystem, plan: &Plan, parent: &Path, copy: bool) -> Result<()> {
    let bytes = copied_bytes(fs, plan, parent, copy)?;
    let available = fs.available_space(parent);
    let available = available.map_err(AdoptError::io("examine the free space of", parent))?;
    if bytes > available {
        return Err(AdoptError::Refused(format!(
            "copying {} needs more than the {} that are free in {}: choose a directory on the file system of \
             Cassandra's directories, where files are linked, or free some space",
            size_text(bytes),
            size_text(available),
            parent.display()
        )));
    }
    Ok(())
}
