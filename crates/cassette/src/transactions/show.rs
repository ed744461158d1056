//! `cassette transactions show`.

use cassette_transactions::service::Layout;
use cassette_transactions::timelock::stored_bound;
use clap::Args;
use serde::Serialize;

use super::open::{Opened, StoreArguments, open};

/// Which store, and how it is shown.
#[derive(Debug, Args)]
#[command(after_help = "\
timestamps: no timestamp above the bound has been given out yet; a store that is opened again goes on above it.
layouts:    how conclusions are stored, by the first start that has it: `cassette transactions map` explains them.
unswept:    old versions that can go, and have not yet: of transactions that began at this timestamp or later.
open:       transactions that have begun and not ended. An embedded store has none while this command has it open;
            of a cluster only the process that gives out timestamps knows them.")]
pub struct ShowArguments {
    #[command(flatten)]
    store: StoreArguments,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// What a store looks like.
#[derive(Debug, Serialize, PartialEq, Eq)]
struct Shown {
    place: String,
    keyspace: String,
    /// `None` before the first timestamp was given out.
    timestamps_bound: Option<i64>,
    /// First start and version of each range; none before the first transaction.
    layouts: Vec<(i64, u32)>,
    tables: Vec<String>,
    /// `None` where it is not known: before the first transaction, or in a store of a newer program.
    unswept: Option<Unswept>,
    /// Start timestamps; `None` where they are not known.
    open: Option<Vec<i64>>,
}

#[derive(Debug, Serialize, PartialEq, Eq)]
struct Unswept {
    /// Shards of the queue with anything to sweep, of all.
    shards: usize,
    of: usize,
    /// The first start whose writes are not swept.
    since: Option<i64>,
}

/// The layouts whose tables are there.
pub fn layouts(tables: &[String]) -> Vec<Layout> {
    let layouts = (1..=3).filter_map(Layout::of_version);
    layouts.filter(|layout| tables.iter().any(|table| table == layout.table())).collect()
}

pub fn run(arguments: &ShowArguments) -> anyhow::Result<bool> {
    let opened = open(&arguments.store)?;
    let shown = look(&opened)?;
    match arguments.json {
        true => println!("{}", serde_json::to_string_pretty(&shown)?),
        false => print!("{}", text(&shown)),
    }
    Ok(true)
}

fn look(opened: &Opened) -> anyhow::Result<Shown> {
    let mut tables = opened.store.tables()?;
    tables.sort_unstable();
    let agreed = opened.agreed()?;
    let ranges = agreed.map(|agreed| agreed.map.ranges().to_vec()).unwrap_or_default();
    let is_known =
        !ranges.is_empty() && ranges.iter().all(|(_, version)| Layout::of_version(*version).is_some());
    Ok(Shown {
        place: opened.place.clone(),
        keyspace: opened.keyspace.clone(),
        timestamps_bound: stored_bound(&*opened.store)?.map(|bound| bound.0),
        layouts: ranges,
        unswept: if is_known { Some(unswept(opened)?) } else { None },
        tables: tables.into_iter().filter(|table| !table.starts_with('_')).collect(),
        open: opened.database.is_some().then(Vec::new),
    })
}

fn unswept(opened: &Opened) -> anyhow::Result<Unswept> {
    let progress = opened.look()?.sweeper().progress()?;
    let since: Vec<i64> = progress.iter().filter_map(|shard| Some(shard.unswept?.0)).collect();
    Ok(Unswept { shards: since.len(), of: progress.len(), since: since.into_iter().min() })
}

fn text(shown: &Shown) -> String {
    let mut lines = vec![format!("keyspace {} of {}", shown.keyspace, shown.place)];
    let mut line = |name: &str, value: String| lines.push(format!("{name:<11}{value}"));
    let or_none = |items: Vec<String>| if items.is_empty() { "none".to_owned() } else { items.join(", ") };
    line(
        "timestamps",
        match shown.timestamps_bound {
            Some(bound) => format!("given out up to {bound} at most"),
            None => "none given out".to_owned(),
        },
    );
    let layouts = shown.layouts.iter().map(|(first, version)| format!("{version} from {first} on"));
    line("layouts", or_none(layouts.collect()));
    line("tables", or_none(shown.tables.clone()));
    line(
        "unswept",
        match &shown.unswept {
            Some(Unswept { since: Some(since), shards, of }) => {
                format!("from {since} on, in {shards} of {of} shards of the queue")
            }
            Some(_) => "nothing".to_owned(),
            None => "not known".to_owned(),
        },
    );
    line(
        "open",
        match &shown.open {
            Some(open) if open.is_empty() => "no transaction: nobody else has the store open".to_owned(),
            Some(open) => or_none(open.iter().map(i64::to_string).collect()),
            None => "known to the process that gives out timestamps".to_owned(),
        },
    );
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_shown_in_six_lines() {
        let shown = Shown {
            place: "data".to_owned(),
            keyspace: "bank".to_owned(),
            timestamps_bound: Some(1_010_000),
            layouts: vec![(1, 2), (5_000_000, 3)],
            unswept: Some(Unswept { shards: 3, of: 32, since: Some(20_033) }),
            tables: vec!["accounts".to_owned(), "jobs".to_owned()],
            open: Some(Vec::new()),
        };
        assert_eq!(
            text(&shown),
            "keyspace bank of data\n\
             timestamps given out up to 1010000 at most\n\
             layouts    2 from 1 on, 3 from 5000000 on\n\
             tables     accounts, jobs\n\
             unswept    from 20033 on, in 3 of 32 shards of the queue\n\
             open       no transaction: nobody else has the store open\n"
        );
    }
}
