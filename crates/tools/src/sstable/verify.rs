//! `cassette sstable verify`: sstableverify, on files.

use std::path::PathBuf;

use cassette_sstable::{Component, Descriptor};
use clap::Args;

use super::java::pretty_memory;
use super::{arguments, schema};

/// The SSTables.
#[derive(Debug, Args)]
#[command(after_help = "\
Reads every byte: the digest of Data, the checksums of its chunks, the order of keys and rows, and \
that index, summary and filter match the rows. Changes nothing. The exit status is 1 if any SSTable \
is damaged; the others are verified nevertheless.

Examples:
  cassette sstable verify nb-1-big-Data.db

  All SSTables of a table, and the validity of every value:
    cassette sstable verify -e data/ks/t-*/

  A snapshot, before it is needed:
    cassette sstable verify -e snapshots/before-upgrade")]
pub struct VerifyArguments {
    /// Files of SSTables, or directories of them
    #[arg(required = true)]
    sstables: Vec<PathBuf>,
    /// Also validate every value against its type
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

/// Returns the number of partitions.
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
