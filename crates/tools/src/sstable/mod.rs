//! `cassette sstable …`: SSTables as files, without a server. Cassandra's own offline tools, in one place and without a JVM.

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
    /// Print what an SSTable holds, every version and tombstone, as sstabledump does
    Dump(dump::DumpArguments),
    /// Print what Statistics.db says of SSTables, as sstablemetadata does
    Metadata(metadata::MetadataArguments),
    /// Read SSTables whole and hold them against their checksums and their own index
    Verify(verify::VerifyArguments),
    /// Print figures about partitions, and which are large, as sstablepartitions does
    Partitions(partitions::PartitionsArguments),
    /// Write live rows as JSON, CSV or Parquet
    Export(export::ExportArguments),
    /// Rewrite the SSTables of a table that no server has open with all that can be read of them, as sstablescrub does
    Scrub(scrub::ScrubArguments),
    /// Put SSTables of a directory into a table of a data directory that no server has open
    Import(import::ImportArguments),
}

impl SSTableCommand {
    /// Runs the command; false if it ran and has found something wrong.
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
