//! `cassette transactions …`: inspects and backs up a store of transactions.

mod backup;
mod copy;
mod map;
mod open;
mod show;
mod status;
mod sweep;

use cassette_transactions::Error;
use cassette_transactions::backup::BackupError;
use cassette_transactions::copy::CopyError;
use clap::Subcommand;

/// Commands on a store of transactions.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
A store of transactions is a keyspace with a table _timestamp, in an embedded data directory or on a \
cluster. Every transaction begins at a start timestamp, and has at most one final status: committed \
at a commit timestamp, or aborted. docs/transactions.md describes the protocol.

On a cluster the nodes must sync a write before they acknowledge it (`commitlog_sync: batch` or \
`group` in cassandra.yaml). Commands that write reject a store whose nodes do not, without \
--accept-periodic-sync.

Examples:
  Print a summary:
    cassette transactions show --data data

  Print the status of the transaction that began at 20033:
    cassette transactions status --data data 20033

  Print the layouts of transactions:
    cassette transactions map --data data

  Change the layout of new transactions:
    cassette transactions migrate --data data --to 3

  Remove old versions:
    cassette transactions sweep --contact 10.0.0.1:9042 --keyspace bank \\
        --timelock 10.0.0.5:8421

  Back up everything committed into one file:
    cassette transactions backup --data data bank.backup

  Restore into an empty store:
    cassette transactions restore --data new --keyspace bank bank.backup

  Copy a store to a cluster while programs use it:
    cassette transactions copy --data data --to-contact 10.0.0.1:9042 --to-keyspace bank \\
        --to-timelock 10.0.0.5:8421")]
pub enum TransactionsCommand {
    /// Show a store: its timestamps, layouts and tables. Reads only
    Show(show::ShowArguments),
    /// Print the status of transactions, by their start timestamps
    Status(status::StatusArguments),
    /// Show the layout of commit records by start timestamp. Read-only
    Map(map::MapArguments),
    /// Change the layout of new transactions
    Migrate(map::MigrateArguments),
    /// Remove all versions that no transaction can read any more
    Sweep(sweep::SweepArguments),
    /// Write everything committed at one timestamp to a file
    Backup(backup::BackupArguments),
    /// Restore a backup into an empty store, completely or not at all
    Restore(backup::RestoreArguments),
    /// Copy a store to another place while it is in use, or compare two stores
    Copy(Box<copy::CopyArguments>),
}

/// Returns the advice for an error that transactions caused.
pub fn advice(error: &anyhow::Error) -> Option<&'static str> {
    error.chain().find_map(|cause| {
        let backup = cause.downcast_ref::<BackupError>();
        let of_backup = backup.and_then(|error| match error {
            BackupError::Transaction(error) => Some(error),
            _ => None,
        });
        let of_copy = cause.downcast_ref::<CopyError>().and_then(|error| match error {
            CopyError::Transaction(error) => Some(error),
            _ => None,
        });
        of_backup.or(of_copy).or_else(|| cause.downcast_ref::<Error>()).map(Error::advice)
    })
}

impl TransactionsCommand {
    /// Runs the command; returns false if it completed and found an error.
    pub fn run(&self) -> anyhow::Result<bool> {
        match self {
            Self::Show(arguments) => show::run(arguments),
            Self::Status(arguments) => status::run(arguments),
            Self::Map(arguments) => map::map(arguments),
            Self::Migrate(arguments) => map::migrate(arguments),
            Self::Sweep(arguments) => sweep::run(arguments),
            Self::Backup(arguments) => backup::back_up(arguments),
            Self::Restore(arguments) => backup::restore(arguments),
            Self::Copy(arguments) => copy::run(arguments),
        }
    }
}
