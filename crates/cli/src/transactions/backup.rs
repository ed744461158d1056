//! `cassette transactions backup` and `restore`.

use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::{Path, PathBuf};

use anyhow::Context;
use cassette_transactions::backup::Contents;
use clap::Args;
use serde_json::json;

use super::open::{Purpose, StoreArguments, TimeLockArguments, make, open};

/// Which store, and where to.
#[derive(Debug, Args)]
#[command(after_help = "\
On a cluster --timelock names the servers that all programs have their timestamps from.
The file has what was committed when the backup began: transactions that were in progress then are not in it, whatever
became of them. It can be restored into any empty store, embedded or on a cluster. A program that has the store open makes
the same with Transactions::backup, while it runs.")]
pub struct BackupArguments {
    #[command(flatten)]
    store: StoreArguments,
    #[command(flatten)]
    timelock: TimeLockArguments,
    /// The file; it must not be there
    file: PathBuf,
    /// Say what was done as JSON
    #[arg(long)]
    json: bool,
}

/// Which store, and what from.
#[derive(Debug, Args)]
#[command(after_help = "\
The store must be empty. A data directory that is not there is made; a keyspace on a cluster is made by its timelock servers, which
`cassette timelock start --replication` tells how. Everything is restored as one transaction:
if it fails, nothing of it is ever seen. Timestamps go on above those of the store that was backed up.")]
pub struct RestoreArguments {
    #[command(flatten)]
    store: StoreArguments,
    #[command(flatten)]
    timelock: TimeLockArguments,
    /// The backup
    file: PathBuf,
    /// Say what was done as JSON
    #[arg(long)]
    json: bool,
}

fn say(what: &str, contents: &Contents, file: &Path, as_json: bool) {
    let Contents { timestamp, tables, rows, cells } = contents;
    match as_json {
        true => {
            println!("{}", json!({ "timestamp": timestamp, "tables": tables, "rows": rows, "cells": cells }))
        }
        false => println!(
            "{what} {}: {tables} tables, {rows} rows, {cells} cells, as of timestamp {timestamp}",
            file.display()
        ),
    }
}

pub fn back_up(arguments: &BackupArguments) -> anyhow::Result<bool> {
    let file = &arguments.file;
    let opened = open(&arguments.store, Purpose::Read)?;
    let transactions = opened.transactions(&arguments.timelock, false)?;
    let attempt = || format!("cannot write {}", file.display());
    let out = File::create_new(file).with_context(attempt)?;
    let written = transactions.backup(BufWriter::new(&out)).map_err(anyhow::Error::from);
    let synced = written.and_then(|contents| out.sync_all().map(|()| contents).with_context(attempt));
    let contents = match synced {
        Ok(contents) => contents,
        Err(error) => {
            // Half a backup is none.
            let _ = std::fs::remove_file(file);
            return Err(error);
        }
    };
    drop(transactions);
    opened.close()?;
    say("backed up to", &contents, file, arguments.json);
    Ok(true)
}

pub fn restore(arguments: &RestoreArguments) -> anyhow::Result<bool> {
    let file = &arguments.file;
    let input = File::open(file).with_context(|| format!("cannot read {}", file.display()))?;
    let (transactions, database) = make(&arguments.store, &arguments.timelock)?;
    let contents = transactions.restore(BufReader::new(input))?;
    drop(transactions);
    if let Some(database) = database {
        database.close()?;
    }
    say("restored", &contents, file, arguments.json);
    Ok(true)
}
