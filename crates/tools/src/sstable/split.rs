//! `cassette sstable split`: sstablesplit.

use std::path::PathBuf;

use anyhow::bail;
use cassette_database::{Database, Options};
use cassette_sstable::{Component, Descriptor};
use clap::Args;

use super::arguments::{self, Place};

/// The SSTables to split.
#[derive(Debug, Args)]
#[command(after_help = "\
Rewrites each SSTable that is larger than the size as several, each in one step: a crash leaves \
either the SSTable or its parts. They are kept in a snapshot first. Compactions of the table may \
merge the parts again: disable or change its compaction first. A partition is never split.

Examples:
  One SSTable, into parts of 50 MB:
    cassette sstable split --data data data/data/ks/t-*/nb-7-big-Data.db

  All SSTables of a table, into parts of 200 MB:
    cassette sstable split --data data -s 200 data/data/ks/t-*/")]
pub struct SplitArguments {
    /// Files of SSTables of one table, or its directory
    #[arg(required = true)]
    sstables: Vec<PathBuf>,
    /// The data directory, which no server may have open
    #[arg(long, value_name = "DIRECTORY")]
    data: PathBuf,
    /// Maximum size in MB for the output sstables
    #[arg(short = 's', long, value_name = "MB", default_value_t = 50)]
    size: u32,
    /// Don't snapshot the sstables before splitting
    #[arg(long)]
    no_snapshot: bool,
}

pub fn run(arguments: &SplitArguments) -> anyhow::Result<bool> {
    if arguments.size == 0 {
        bail!("invalid size of the outputs: expected at least 1 MB, found 0");
    }
    let descriptors = arguments::sstables(&arguments.sstables)?;
    let (keyspace, table) = table_of(&descriptors)?;
    let mut options = Options::new(&arguments.data);
    // Nothing else may compact them meanwhile.
    options.engine.background_threads = false;
    let database = Database::open(options)?;
    check_place(&database, &keyspace, &table, &descriptors)?;
    let ids: Vec<_> = descriptors.iter().map(|descriptor| descriptor.id).collect();
    let size = u64::from(arguments.size) << 20;
    let split = database.split(&keyspace, &table, &ids, size, !arguments.no_snapshot)?;
    if let Some(name) = split.iter().find_map(|sstable| sstable.snapshot.as_ref()) {
        println!("Pre-split sstables snapshotted into snapshot {name}");
    }
    for sstable in &split {
        let path = sstable.path.display();
        if sstable.outputs.is_empty() {
            let megabytes = sstable.bytes as f64 / f64::from(1 << 20);
            println!(
                "Skipping {path}: it's size ({megabytes:.3} MB) is less than the split size ({} MB)",
                arguments.size
            );
        } else {
            println!("Split {path} into {} sstables", sstable.outputs.len());
        }
    }
    if split.iter().all(|sstable| sstable.outputs.is_empty()) {
        println!("No sstables needed splitting.");
    }
    database.close()?;
    Ok(true)
}

/// Returns the keyspace and the table of SSTables, by their directories.
fn table_of(descriptors: &[Descriptor]) -> anyhow::Result<(String, String)> {
    let mut found: Option<(String, String)> = None;
    for descriptor in descriptors {
        let place = Place::guess(&descriptor.directory);
        let (Some(keyspace), Some(table), None, None, None) =
            (place.keyspace, place.table, place.snapshot, place.backup, place.index)
        else {
            bail!("{}: not in the directory of a table", descriptor.path(Component::Data).display());
        };
        match &found {
            Some((of, _)) if *of != keyspace => bail!("All sstables must be part of the same keyspace"),
            Some((_, of)) if *of != table => bail!("All sstables must be part of the same table"),
            _ => found = Some((keyspace, table)),
        }
    }
    let Some(found) = found else { bail!("No valid sstables to split") };
    Ok(found)
}

/// Checks that the files are those of the data directory: another one may have the same names.
fn check_place(
    database: &Database,
    keyspace: &str,
    table: &str,
    descriptors: &[Descriptor],
) -> anyhow::Result<()> {
    let name = format!("{keyspace}.{table}");
    let tables = database.named_tables(std::slice::from_ref(&name))?;
    let Some(table) = tables.first() else { bail!("{name} has no files") };
    let directory = database.engine().table_stats(table.id)?.directory.canonicalize()?;
    for descriptor in descriptors {
        if descriptor.directory.canonicalize()? != directory {
            bail!(
                "{}: not in {}, the directory of {name}",
                descriptor.path(Component::Data).display(),
                directory.display()
            );
        }
    }
    Ok(())
}
