//! `cassette sstable scrub`: sstablescrub.

use std::path::PathBuf;

use cassette_database::{Database, Options};
use cassette_engine::{DiskFailurePolicy, ScrubOptions};
use clap::Args;

/// The table to scrub.
#[derive(Debug, Args)]
#[command(after_help = "\
Rewrites every SSTable of the table with all readable data: the index locates rows after damage. \
Data that fails a checksum is dropped. All SSTables are first kept in a snapshot. While a server has \
the data directory open, use `cassette nodetool scrub`. The exit status is 1 if an SSTable could not \
be scrubbed.

Examples:
  One table:
    cassette sstable scrub --data data ks t

  Also a counter table, which loses counts:
    cassette sstable scrub --data data -s ks hits")]
pub struct ScrubArguments {
    /// The keyspace
    keyspace: String,
    /// The table
    table: String,
    /// The data directory, which no server may have open
    #[arg(long, value_name = "DIRECTORY")]
    data: PathBuf,
    /// Skip corrupt rows in counter tables
    #[arg(short = 's', long)]
    skip_corrupted: bool,
    /// Do not validate columns using column validator
    #[arg(short = 'n', long)]
    no_validate: bool,
    /// Rewrite rows with overflowed expiration date (CASSANDRA-14092) with the maximum supported
    /// expiration date of 2038-01-19T03:14:06+00:00, their timestamps incremented to supersede
    /// their other copies
    #[arg(short = 'r', long)]
    reinsert_overflowed_ttl: bool,
}

pub fn run(arguments: &ScrubArguments) -> anyhow::Result<bool> {
    let mut options = Options::new(&arguments.data);
    // Damaged SSTables are its purpose.
    options.engine.disk_failure_policy = DiskFailurePolicy::BestEffort;
    let database = Database::open(options)?;
    let scrub = ScrubOptions {
        skip_corrupted: arguments.skip_corrupted,
        validate: !arguments.no_validate,
        reinsert_overflowed_ttl: arguments.reinsert_overflowed_ttl,
    };
    let scrubbed = database.scrub(&arguments.keyspace, &arguments.table, &scrub, true)?;
    if let Some(name) = scrubbed.iter().find_map(|sstable| sstable.snapshot.as_ref()) {
        println!("Pre-scrub sstables snapshotted into snapshot {name}");
    }
    let mut sound = true;
    for sstable in &scrubbed {
        sstable.messages().iter().for_each(|message| println!("{message}"));
        if let Err(error) = &sstable.result {
            sound = false;
            eprintln!("Error scrubbing {}: {error}", sstable.path.display());
        }
    }
    database.close()?;
    Ok(sound)
}
