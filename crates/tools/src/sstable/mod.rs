//! `cassette sstable …`: SSTables as files, without a server. Cassandra's offline tools in one
//! place and without a JVM.

mod arguments;
mod dump;
mod expired;
mod export;
mod histogram;
mod import;
mod java;
mod level_reset;
mod metadata;
mod metadata_scan;
mod partitions;
mod query;
mod schema;
mod scrub;
mod split;
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
    /// Print the SSTables that keep expired ones from being dropped, as sstableexpiredblockers does
    Expired(expired::ExpiredArguments),
    /// Set the level of a table's SSTables to 0, as sstablelevelreset does
    LevelReset(level_reset::LevelResetArguments),
    /// Execute a SELECT on files: a snapshot, or directories of Cassette or Cassandra
    Query(query::QueryArguments),
    /// Write live rows as JSON, CSV or Parquet
    Export(export::ExportArguments),
    /// Rewrite the SSTables of a table that no server has open with all readable data, as
    /// sstablescrub does
    Scrub(scrub::ScrubArguments),
    /// Rewrite large SSTables of a table that no server has open as smaller ones, as sstablesplit
    /// does
    Split(split::SplitArguments),
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
            Self::Expired(arguments) => expired::run(arguments),
            Self::LevelReset(arguments) => level_reset::run(arguments),
            Self::Query(arguments) => query::run(arguments),
            Self::Export(arguments) => export::run(arguments),
            Self::Scrub(arguments) => scrub::run(arguments),
            Self::Split(arguments) => split::run(arguments),
            Self::Import(arguments) => import::run(arguments),
        }
    }
}
