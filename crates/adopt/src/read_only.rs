//! Opens directories of Cassandra and snapshots without writing to them.

use std::path::PathBuf;
use std::sync::Arc;

use cassette_database::{Database, Options};
use cassette_vfs::OverlayFileSystem;

use crate::error::{AdoptError, Result};
use crate::fill::{Filling, fill};
use crate::layout::{Recognised, recognise};
use crate::plan::{Plan, PlanRequest, Reason};

/// The path of the database in memory.
const IN_MEMORY: &str = "/cassette-read-only";

/// A database that is open for reading only.
pub struct ReadOnly {
    /// The database. Statements that write fail.
    pub database: Database,
    /// What is missing in it, or could be.
    pub warnings: Vec<String>,
}

/// Opens directories for reading only: a data directory of this program, a snapshot, or data
/// directories of Cassandra, of one or several nodes. Nothing is written to any of them. The data
/// directory in `options` is ignored.
///
/// Of directories of Cassandra, the metadata and the indexes of all SSTables are read, and the
/// commit log is read into memory as far as it is not damaged. Secondary indexes are left out:
/// queries need ALLOW FILTERING. With authentication or
/// authorization in `options`, their roles are those of the directories.
///
/// # Errors
/// Those of [`Plan::of`] and [`Database::open_read_only`].
pub fn open_read_only(mut options: Options, paths: &[PathBuf]) -> Result<ReadOnly> {
    if let [path] = paths
        && !matches!(recognise(options.file_system.as_ref(), path)?, Recognised::Cassandra(_))
    {
        options.engine.data_dir.clone_from(path);
        let database = Database::open_read_only_with(options)?;
        return Ok(ReadOnly { database, warnings: Vec::new() });
    }
    let request = PlanRequest {
        directories: paths.to_vec(),
        commitlogs: Vec::new(),
        ignore_commitlog: false,
        roles: options.auth.passwords || options.auth.certificates,
    };
    let mut plan = Plan::of(&options.file_system, &request)?;
    plan.check(|reason| reason != Reason::Final)?;
    let mut warnings = std::mem::take(&mut plan.warnings);
    warnings.extend(plan.refusals.iter().map(|refusal| refusal.text.clone()));
    for keyspace in &plan.keyspaces {
        for index in keyspace.indexes.keys() {
            warnings
                .push(format!("index {}.{index} is not used: queries need ALLOW FILTERING", keyspace.name));
        }
    }
    options.engine.data_dir = IN_MEMORY.into();
    let fs = options.file_system.clone();
    options.file_system = Arc::new(OverlayFileSystem::new(fs.clone()));
    let filling = Filling { copy: false, verify: false, build: false };
    let database = Database::open_in_memory_and::<AdoptError>(options, |database| {
        match fill(&fs, database, &plan, filling, |_, _| {}, &mut |_| {}) {
            Ok(logs) => warnings.extend(logs.warnings),
            // Everything but a part of the commit log is there.
            Err(error @ AdoptError::CommitLog { .. }) => {
                let text = error.to_string();
                if !warnings.contains(&text) {
                    warnings.push(text);
                }
            }
            Err(error) => return Err(error),
        }
        Ok(())
    })?;
    Ok(ReadOnly { database, warnings })
}
