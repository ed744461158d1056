//! `cassette sstable import`: `nodetool import` without a server.

use std::path::PathBuf;

use anyhow::Context;
use cassette_database::{Database, ImportOptions};
use cassette_engine::import_summary;
use clap::Args;

/// Source and target.
#[derive(Debug, Args)]
#[command(after_help = "\
Imports everything in the directory or nothing: if one SSTable does not match the table's schema, or \
is damaged, the table is unchanged. The table must exist, with the columns of the SSTables; a \
snapshot's schema.cql creates it. While a server has the data directory open, use `cassette nodetool \
import`.

Examples:
  Import a copy of Cassandra's files:
    cassette sstable import /backup/ks/t-*/ --data data --table ks.t -p

  Restore a snapshot:
    cassette sstable import data/data/ks/t-*/snapshots/s --data data \\
        --table ks.t")]
pub struct ImportArguments {
    /// Directories with SSTables of the table
    #[arg(required = true)]
    directories: Vec<PathBuf>,
    /// The data directory, which no server may have open
    #[arg(long, value_name = "DIRECTORY")]
    data: PathBuf,
    /// Their table, as keyspace.table
    #[arg(long, value_name = "KEYSPACE.TABLE")]
    table: String,
    /// Keep the level on the new SSTables
    #[arg(short = 'l', long)]
    keep_level: bool,
    /// Keep any repaired information from the SSTables
    #[arg(short = 'r', long)]
    keep_repaired: bool,
    /// Don't verify new SSTables
    #[arg(short = 'v', long)]
    no_verify: bool,
    /// Run an extended verify, verifying all values in the new SSTables
    #[arg(short = 'e', long, conflicts_with = "no_verify")]
    extended_verify: bool,
    /// Copy data from source directories instead of moving them (snapshots and backups are linked
    /// and stay)
    #[arg(short = 'p', long)]
    copy_data: bool,
}

pub fn run(arguments: &ImportArguments) -> anyhow::Result<bool> {
    let (keyspace, table) = arguments
        .table
        .split_once('.')
        .with_context(|| format!("--table {}: keyspace.table expected", arguments.table))?;
    let options = ImportOptions {
        keep_level: arguments.keep_level,
        keep_repaired: arguments.keep_repaired,
        verify: !arguments.no_verify,
        extended_verify: arguments.extended_verify,
        copy_data: arguments.copy_data,
        ..ImportOptions::default()
    };
    let database = Database::open(&arguments.data)?;
    let mut sound = true;
    for directory in &arguments.directories {
        match database.import(keyspace, table, directory, &options) {
            Ok(imported) => {
                println!("{}: {}", directory.display(), import_summary(&imported));
            }
            Err(error) => {
                sound = false;
                eprintln!("{error}");
            }
        }
    }
    database.close()?;
    Ok(sound)
}
