//! `cassette sstable verify`: sstableverify, on files.

use std::path::PathBuf;

use cassette_sstable::{Component, Descriptor};
use clap::Args;

use super::java::pretty_memory;
use super::{arguments, schema};

/// Which SSTables.
#[derive(Debug, Args)]
#[command(after_help = "\
Every byte is read: the digest of Data, the checksums of its chunks, that keys and rows ascend, and that index, summary
and filter say the same as the rows. Nothing is changed. The exit status is 1 if any SSTable is not as it should be; what
is wrong with one does not keep the others from being read.

Examples:
  cassette sstable verify nb-1-big-Data.db
  cassette sstable verify -e data/ks/t-*/                 all SSTables of a table, and every value against its type
  cassette sstable verify -e snapshots/before-upgrade     a snapshot, before it is needed")]
pub struct VerifyArguments {
    /// Files of SSTables, or directories of them
    #[arg(required = true)]
    sstables: Vec<PathBuf>,
    /// Hold every value against its type too
    #[arg(short = 'e', long)]
    extended: bool,
    /// Only check that metadata and index can be read
    #[arg(short = 'q', long, conflicts_with = "extended")]
    quick: bool,
}

pub fn run(arguments: &VerifyArguments) -> anyhow::Result<bool> {
    let mut sound = true;
    for descriptor in arguments::sstables(&arguments.sstables)? {
        match verify(&descriptor, arguments) {
            Ok(partitions) => {
                println!("Verify of {descriptor} succeeded. All {partitions} partitions read successfully");
            }
            Err(error) => {
                sound = false;
                eprintln!("Error verifying {descriptor}: {error:#}");
            }
        }
    }
    Ok(sound)
}

/// Gives the number of partitions.
fn verify(descriptor: &Descriptor, arguments: &VerifyArguments) -> anyhow::Result<u64> {
    let data = descriptor.path(Component::Data);
    let bytes = std::fs::metadata(&data).map_or(0, |metadata| metadata.len());
    println!("Verifying {descriptor} ({})", pretty_memory(bytes));
    let table = schema::table_of_header(descriptor)?;
    let reader = arguments::open(descriptor, &table)?;
    if arguments.quick {
        return Ok(reader.estimated_keys());
    }
    let verified = reader.verify()?;
    if arguments.extended {
        reader.verify_values()?;
    }
    Ok(verified.partitions)
}
