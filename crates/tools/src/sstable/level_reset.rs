//! `cassette sstable level-reset`: sstablelevelreset.

use std::path::PathBuf;

use anyhow::{Context, bail};
use cassette_database::{Database, Options};
use cassette_sstable::{Component, statistics};
use cassette_vfs::{FileSystem, RealFileSystem};
use clap::Args;

use super::{arguments, schema};

/// The table.
#[derive(Debug, Args)]
#[command(after_help = "\
Sets the level of every SSTable of the table to 0, in its Statistics.db: leveled compaction starts \
again with the next start of the server.

Example:
  cassette sstable level-reset --data data --really-reset ks t")]
pub struct LevelResetArguments {
    /// The keyspace
    keyspace: String,
    /// The table
    table: String,
    /// The data directory, which no server may have open
    #[arg(long, value_name = "DIRECTORY")]
    data: PathBuf,
    /// Required: all SSTables will be compacted again
    #[arg(long)]
    really_reset: bool,
}

pub fn run(arguments: &LevelResetArguments) -> anyhow::Result<bool> {
    if !arguments.really_reset {
        bail!("all SSTables of the table will be compacted again: repeat the command with --really-reset");
    }
    let mut options = Options::new(&arguments.data);
    // No compaction may use the old levels, or replace an SSTable meanwhile.
    options.engine.background_threads = false;
    let database = Database::open(options)?;
    let name = format!("{}.{}", arguments.keyspace, arguments.table);
    let tables = database.named_tables(std::slice::from_ref(&name))?;
    let table = tables.first().with_context(|| format!("{name} has no files"))?;
    let directory = database.engine().table_stats(table.id)?.directory;
    let descriptors = arguments::in_directory(&directory)?;
    if descriptors.is_empty() {
        println!("Found no sstables, did you give the correct keyspace/table?");
    }
    let fs: &dyn FileSystem = &RealFileSystem;
    for descriptor in &descriptors {
        let data = descriptor.path(Component::Data);
        let level = schema::statistics(descriptor)?.stats.level;
        if level == 0 {
            println!("Skipped {} since it is already level 0", data.display());
            continue;
        }
        let path = descriptor.path(Component::Statistics);
        let bytes = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let changed = statistics::with_level_and_repair(&bytes, descriptor.version, Some(0), None);
        let changed = changed.map_err(|malformed| malformed.at(&path))?;
        println!("Changing level from {level} to 0 on {}", data.display());
        fs.write_atomically(&path, &changed).with_context(|| format!("cannot write {}", path.display()))?;
    }
    database.close()?;
    Ok(true)
}
