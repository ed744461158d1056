//! `cassette sstable …`: SSTables as files, without a server. Cassandra's offline tools in one
//! place and without a JVM.

mod arguments;
mod dump;
mod export;
mod histogram;
mod import;
mod java;
mod metadata;
mod partitions;
mod schema;
mod scrub;
mod values;
mod verify;

use clap::Subcommand;

/// Commands on SSTables and directories of them.
#[derive(Debug, Subcommand)]
pub enum SSTableCommand {
    /// Print the content of an SSTable, every version and tombstone, as sstabledump does
    Dump(dump::DumpArguments),
    /// Print Statistics.db of SSTables, as sstablemetadata does
    Metadata(metadata::MetadataArguments),
    /// Read SSTables completely and compare them with their checksums and their index
    Verify(verify::VerifyArguments),
    /// Print statistics of partitions, and the large ones, as sstablepartitions does
    Partitions(partitions::PartitionsArguments),
    /// Write live rows as JSON, CSV or Parquet
    Export(export::ExportArguments),
    /// Rewrite the SSTables of a table that no server has open with all readable data, as
    /// sstablescrub does
    Scrub(scrub::ScrubArguments),
    /// Put SSTables of a directory into a table of a data directory that no server has open
    Import(import::ImportArguments),
}

impl SSTableCommand {
    /// Runs the command; returns false if it completed and found an error.
    pub fn run(&self) -> anyhow::Result<bool> {
        match self {
            Self::Dump(arguments) => dump::run(arguments),
            Self::Metadata(arguments) => metadata::run(arguments),
            Self::Verify(arguments) => verify::run(arguments),
            Self::Partitions(arguments) => partitions::run(arguments),
            Self::Export(arguments) => export::run(arguments),
            Self::Scrub(arguments) => scrub::run(arguments),
            Self::Import(arguments) => import::run(arguments),
        }
    }
}
