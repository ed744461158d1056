//! `cassette transactions copy`.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::bail;
use cassette_transactions::copy::{Copied, Difference, Pass};
use cassette_vfs::{FileSystem, RealFileSystem};
use clap::Args;
use serde_json::json;

use super::open::{Purpose, StoreArguments, TimeLockArguments, make, open};

/// The number of differences that a comparison prints.
const SHOWN: u64 = 20;

/// The interval of progress on the terminal.
const REPORT_EVERY: Duration = Duration::from_secs(5);

/// The source, the target, and what to do.
#[derive(Debug, Args)]
#[command(after_help = "\
A pass makes the target equal to one snapshot of the source, while programs use the source: it reads \
both and writes what differs. Move a store in four steps:

  1. cassette transactions copy ...               fills the target, which must be empty
  2. cassette transactions copy ... --continue    transfers what was committed meanwhile; repeat it
                                                  until it writes little
  3. stop the programs, and the command of step 2 once more
  4. cassette transactions copy ... --compare     exit code 0: nothing differs; start the programs
                                                  on the target

No program may write to the target before step 4. An interrupted pass is completed by the next one \
with --continue. Timestamps continue above those of the source, and the target has its own layout of \
commit records: on a cluster, layout 3. Declare and build indexes at the target after step 4.

The store at the target is specified like that of the source, with --to- before each option. On a \
cluster its timelock servers have created the keyspace, with the replication of `cassette timelock \
start --replication`.")]
pub struct CopyArguments {
    #[command(flatten)]
    source: StoreArguments,
    #[command(flatten)]
    timelock: TimeLockArguments,
    #[command(flatten)]
    target: TargetArguments,
    /// Make a target equal that has been filled before: cells that only it has are removed
    #[arg(long = "continue", conflicts_with = "compare")]
    is_continued: bool,
    /// Compare the stores, and write nothing
    #[arg(long)]
    compare: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// The options of the target: those of [`StoreArguments`] and [`TimeLockArguments`] with a prefix.
#[derive(Debug, Args)]
struct TargetArguments {
    /// The data directory of an embedded target; a missing one is created
    #[arg(
        long,
        value_name = "DIRECTORY",
        required_unless_present = "to_contact",
        conflicts_with = "to_contact"
    )]
    to_data: Option<PathBuf>,
    /// A node of the target's cluster
    #[arg(long, value_name = "HOST:PORT")]
    to_contact: Option<String>,
    /// The target's keyspace
    #[arg(long, value_name = "NAME")]
    to_keyspace: String,
    /// Use only the nodes of this data center of the target
    #[arg(long, value_name = "DATA CENTER", requires = "to_contact")]
    to_local: Option<String>,
    /// The target's user, if its cluster requires authentication
    #[arg(long, value_name = "NAME", requires = "to_contact")]
    to_user: Option<String>,
    /// A file with the password of the target's user
    #[arg(long, value_name = "FILE", requires = "to_user")]
    to_password_file: Option<PathBuf>,
    /// Connect to the target with TLS, as --tls-ca
    #[arg(long, value_name = "FILE", requires = "to_contact")]
    to_tls_ca: Option<PathBuf>,
    /// The certificate of this client for the target
    #[arg(long, value_name = "FILE", requires = "to_tls_ca")]
    to_tls_certificate: Option<PathBuf>,
    /// The file with the private key
    #[arg(long, value_name = "FILE", requires = "to_tls_certificate")]
    to_tls_key: Option<PathBuf>,
    /// Write although nodes of the target acknowledge writes before they are synced
    #[arg(long, requires = "to_contact")]
    to_accept_periodic_sync: bool,
    /// The target's timelock servers
    #[arg(long, value_name = "HOST:PORT", requires = "to_contact", value_delimiter = ',')]
    to_timelock: Vec<String>,
    /// A file with their token
    #[arg(long, value_name = "FILE", requires = "to_timelock")]
    to_timelock_token_file: Option<PathBuf>,
    /// Connect to them with TLS, as --timelock-tls-ca
    #[arg(long, value_name = "FILE", requires = "to_timelock")]
    to_timelock_tls_ca: Option<PathBuf>,
    /// The certificate of this client for them
    #[arg(long, value_name = "FILE", requires = "to_timelock_tls_ca")]
    to_timelock_tls_certificate: Option<PathBuf>,
    /// The file with the private key
    #[arg(long, value_name = "FILE", requires = "to_timelock_tls_certificate")]
    to_timelock_tls_key: Option<PathBuf>,
}

impl TargetArguments {
    fn store(&self) -> StoreArguments {
        StoreArguments {
            data: self.to_data.clone(),
            contact: self.to_contact.clone(),
            keyspace: Some(self.to_keyspace.clone()),
            local: self.to_local.clone(),
            user: self.to_user.clone(),
            password: None,
            password_file: self.to_password_file.clone(),
            tls_ca: self.to_tls_ca.clone(),
            tls_certificate: self.to_tls_certificate.clone(),
            tls_key: self.to_tls_key.clone(),
            accept_periodic_sync: self.to_accept_periodic_sync,
        }
    }

    fn timelock(&self) -> TimeLockArguments {
        TimeLockArguments {
            timelock: self.to_timelock.clone(),
            timelock_token_file: self.to_timelock_token_file.clone(),
            timelock_tls_ca: self.to_timelock_tls_ca.clone(),
            timelock_tls_certificate: self.to_timelock_tls_certificate.clone(),
            timelock_tls_key: self.to_timelock_tls_key.clone(),
        }
    }
}

/// Runs a pass. Returns false if a comparison found a difference.
pub fn run(arguments: &CopyArguments) -> anyhow::Result<bool> {
    let pass = match (arguments.compare, arguments.is_continued) {
        (true, _) => Pass::Compare,
        (_, true) => Pass::Next,
        _ => Pass::First,
    };
    let (target_store, target_timelock) = (arguments.target.store(), arguments.target.timelock());
    // All other ways to name one store are noticed by its locks, after both are open.
    let identity = |path: &Option<PathBuf>| path.as_ref().and_then(|path| RealFileSystem.identity(path).ok());
    let of_source = identity(&arguments.source.data);
    if of_source.is_some() && of_source == identity(&target_store.data) {
        bail!("--data and --to-data are the same directory");
    }
    let opened = open(&arguments.source, Purpose::Read)?;
    let source = opened.transactions(&arguments.timelock, false)?;
    let (target, database) = make(&target_store, &target_timelock)?;
    let mut last = Instant::now();
    let copied = source.copy_to(&target, pass, |copied, difference| {
        if pass == Pass::Compare && !arguments.json && copied.different + copied.superfluous <= SHOWN {
            println!("{}", line(difference));
        }
        if last.elapsed() >= REPORT_EVERY {
            last = Instant::now();
            eprintln!("{} rows, {} cells, {} differ", copied.rows, copied.cells, copied.different);
        }
    })?;
    drop((source, target));
    opened.close()?;
    if let Some(database) = database {
        database.close()?;
    }
    show(&copied, pass, arguments.json);
    Ok(pass != Pass::Compare || copied.is_equal())
}

fn line(difference: &Difference) -> String {
    let Difference { table, cell, value } = difference;
    let what =
        if value.is_some() { "the target lacks or has another value of" } else { "only the target has" };
    format!("{what} {table}: row {}, column {}", cell.row.escape_ascii(), cell.column.escape_ascii())
}

fn show(copied: &Copied, pass: Pass, as_json: bool) {
    let Copied { timestamp, tables, rows, cells, different, superfluous } = copied;
    if as_json {
        println!(
            "{}",
            json!({
                "timestamp": timestamp, "tables": tables, "rows": rows, "cells": cells,
                "different": different, "superfluous": superfluous,
            })
        );
        return;
    }
    let read = format!("{tables} tables, {rows} rows, {cells} cells, as of timestamp {timestamp}");
    if pass == Pass::Compare {
        println!("compared {read}: {different} cells differ, {superfluous} are only at the target");
    } else {
        println!("copied {read}: {different} cells written, {superfluous} removed");
    }
}
