//! `cassette transactions sweep`.

use clap::Args;
use serde_json::json;

use super::open::{Purpose, StoreArguments, TimeLockArguments, open};

/// The store.
#[derive(Debug, Args)]
#[command(after_help = "\
Removes old versions that no transaction can read any more: all that are old when the command \
begins. Programs sweep a store automatically while they have it open, unless they disable it \
(Options::without_sweeping). The command can be stopped at any time and continues where it stopped. \
Several at once are harmless.")]
pub struct SweepArguments {
    #[command(flatten)]
    store: StoreArguments,
    #[command(flatten)]
    timelock: TimeLockArguments,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &SweepArguments) -> anyhow::Result<bool> {
    let opened = open(&arguments.store, Purpose::Write)?;
    let transactions = opened.transactions(&arguments.timelock, false)?;
    let mut shown = std::time::Instant::now();
    let swept = transactions.sweeper().sweep_all_with(|shards, of, so_far| {
        if !arguments.json && shown.elapsed().as_secs() >= 1 {
            shown = std::time::Instant::now();
            eprintln!("{shards} of {of} shards, {} transactions, {} cells", so_far.entries, so_far.cells);
        }
    })?;
    drop(transactions);
    opened.close()?;
    let (entries, cells, aborted) = (swept.entries, swept.cells, swept.aborted);
    if arguments.json {
        println!("{}", json!({ "entries": entries, "cells": cells, "aborted": aborted }))
    } else {
        println!(
            "swept what {entries} transactions wrote: old versions of {cells} cells, and {aborted} versions \
             of aborted transactions, are gone"
        )
    }
    Ok(true)
}
