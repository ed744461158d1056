//! `cassette transactions backup` and `restore`.

use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::{Path, PathBuf};

use anyhow::Context;
use cassette_transactions::backup::Contents;
use clap::Args;
use serde_json::json;

use super::open::{Purpose, StoreArguments, TimeLockArguments, make, open};

/// The store, and the target.
#[derive(Debug, Args)]
#[command(after_help = "\
On a cluster --timelock names the servers from which all programs get their timestamps. The file \
contains everything committed when the backup began, without transactions that were in progress \
then. It can be restored into any empty store, embedded or on a cluster. A program that has the \
store open does the same with Transactions::backup, while it runs.")]
pub struct BackupArguments {
    #[command(flatten)]
    store: StoreArguments,
    #[command(flatten)]
    timelock: TimeLockArguments,
    /// The file; it must not exist
    file: PathBuf,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// The store, and the source.
#[derive(Debug, Args)]
#[command(after_help = "\
The store must be empty. A missing data directory is created; a keyspace on a cluster is created by \
its timelock servers, with the replication of `cassette timelock start --replication`. Everything is \
restored as one transaction: if it fails, nothing of it is ever visible. Timestamps continue above \
those of the store that was backed up.")]
pub struct RestoreArguments {
    #[command(flatten)]
    store: StoreArguments,
    #[command(flatten)]
    timelock: TimeLockArguments,
    /// The backup
    file: PathBuf,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

fn say(what: &str, contents: &Contents, file: &Path, as_json: bool) {
    let Contents { timestamp, tables, rows, cells } = contents;
    if as_json {
        println!("{}", json!({ "timestamp": timestamp, "tables": tables, "rows": rows, "cells": cells }))
    } else {
        println!(
            "{what} {}: {tables} tables, {rows} rows, {cells} cells, as of timestamp {timestamp}",
            file.display()
        )
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
            // An incomplete backup is useless.
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
