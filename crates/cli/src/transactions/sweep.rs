//! `cassette transactions sweep`.

use clap::Args;
use serde_json::json;

use super::open::{Purpose, StoreArguments, TimeLockArguments, open};

/// Which store.
#[derive(Debug, Args)]
#[command(after_help = "\
Old versions that nobody can read any more are removed: all that are old when the command begins. An embedded store does
that by itself while it is open; of those that use a store on a cluster only programs that ask for it (Options::sweep_pause).
It may be stopped at any time, and goes on where it stopped. Several at once do no harm.")]
pub struct SweepArguments {
    #[command(flatten)]
    store: StoreArguments,
    #[command(flatten)]
    timelock: TimeLockArguments,
    /// Say what was done as JSON
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
    match arguments.json {
        true => println!("{}", json!({ "entries": entries, "cells": cells, "aborted": aborted })),
        false => println!(
            "swept what {entries} transactions wrote: old versions of {cells} cells, and {aborted} versions of aborted transactions, are gone"
        ),
    }
    Ok(true)
}
