//! `cassette sstable import`: `nodetool import` without a server.

use std::path::PathBuf;

use anyhow::Context;
use cassette_database::{Database, ImportOptions};
use cassette_engine::import_summary;
use clap::Args;

/// From where to where.
#[derive(Debug, Args)]
#[command(after_help = "\
Everything that is in the directory comes into the table, or nothing: if one SSTable does not fit the table's schema, or
is damaged, the table stays as it was. The table must be there, with the columns that the SSTables have; a snapshot's
schema.cql makes it. While a server has the data directory open, `cassette nodetool import` does the same through it.

Examples:
  cassette sstable import /backup/ks/t-*/ --data data --table ks.t -p     take a copy of Cassandra's own files
  cassette sstable import data/data/ks/t-*/snapshots/s --data data --table ks.t     put a snapshot back")]
pub struct ImportArguments {
    /// Directories with SSTables of the table
    #[arg(required = true)]
    directories: Vec<PathBuf>,
    /// The data directory, which no server may have open
    #[arg(long, value_name = "DIRECTORY")]
    data: PathBuf,
    /// The table that they are of, as keyspace.table
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
    /// Copy data from source directories instead of moving them (snapshots and backups are linked and stay)
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
