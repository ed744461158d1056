//! `cassette transactions show`.

use cassette_transactions::service::Layout;
use cassette_transactions::sweep;
use cassette_transactions::timelock::{ReadOnlyTimeLock, TimeLock, known_timestamp, stored_bound};
use clap::Args;
use serde::Serialize;

use super::open::{Opened, Purpose, StoreArguments, TimeLockArguments, open};

/// The store, and the format.
#[derive(Debug, Args)]
#[command(after_help = "\
timestamps: no timestamp above the bound has been issued yet; a reopened store continues above it.
known:      the greatest issued timestamp that the store records outside of its tables.
layouts:    storage of commit records, by the first start timestamp: `cassette transactions map` \
explains them.
unswept:    old versions that are not removed yet: of transactions that began at this timestamp or \
later.
open:       the immutable timestamp: every transaction that began below it has ended. An embedded \
store has none open while this command has it; for a cluster the timelock servers report it \
(--timelock).")]
pub struct ShowArguments {
    #[command(flatten)]
    store: StoreArguments,
    #[command(flatten)]
    timelock: TimeLockArguments,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A summary of a store.
#[derive(Debug, Serialize, PartialEq, Eq)]
struct Shown {
    place: String,
    keyspace: String,
    /// `None` before the first timestamp was issued.
    timestamps_bound: Option<i64>,
    /// The greatest timestamp that is known to have been issued.
    known_timestamp: Option<i64>,
    /// First start and version of each range; none before the first transaction.
    layouts: Vec<(i64, u32)>,
    tables: Vec<String>,
    /// `None` if unknown: before the first transaction, or in a store of a newer program.
    unswept: Option<Unswept>,
    /// All transactions below it have ended; `None` if no server was named.
    immutable: Option<i64>,
}

#[derive(Debug, Serialize, PartialEq, Eq)]
struct Unswept {
    /// Shards of the queue with anything to sweep, of all.
    shards: usize,
    of: usize,
    /// The first start whose writes are not swept.
    since: Option<i64>,
}

/// Returns the layouts whose tables exist.
pub fn layouts(tables: &[String]) -> Vec<Layout> {
    let layouts = (1..=3).filter_map(Layout::of_version);
    layouts.filter(|layout| tables.iter().any(|table| table == layout.table())).collect()
}

pub fn run(arguments: &ShowArguments) -> anyhow::Result<bool> {
    let opened = open(&arguments.store, Purpose::Read)?;
    let shown = look(&opened, &arguments.timelock)?;
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&shown)?)
    } else {
        print!("{}", text(&shown))
    }
    Ok(true)
}

fn look(opened: &Opened, timelock: &TimeLockArguments) -> anyhow::Result<Shown> {
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
        known_timestamp: known_timestamp(&opened.store)?.map(|known| known.0),
        layouts: ranges,
        unswept: if is_known { unswept(opened)? } else { None },
        tables: tables.into_iter().filter(|table| !table.starts_with('_')).collect(),
        immutable: opened.immutable(timelock)?.map(|immutable| immutable.0),
    })
}

fn unswept(opened: &Opened) -> anyhow::Result<Option<Unswept>> {
    let immutable = ReadOnlyTimeLock::open(&*opened.store)?.immutable()?;
    let Some(progress) = sweep::progress(opened.store.clone(), immutable)? else { return Ok(None) };
    let since: Vec<i64> = progress.iter().filter_map(|shard| Some(shard.unswept?.0)).collect();
    Ok(Some(Unswept { shards: since.len(), of: progress.len(), since: since.into_iter().min() }))
}

fn text(shown: &Shown) -> String {
    let mut lines = vec![format!("keyspace {} of {}", shown.keyspace, shown.place)];
    let mut line = |name: &str, value: String| lines.push(format!("{name:<11}{value}"));
    let or_none = |items: Vec<String>| if items.is_empty() { "none".to_owned() } else { items.join(", ") };
    line(
        "timestamps",
        match shown.timestamps_bound {
            Some(bound) => format!("issued up to {bound} at most"),
            None => "none issued".to_owned(),
        },
    );
    line(
        "known",
        shown.known_timestamp.map_or_else(|| "none".to_owned(), |known| format!("{known} was issued")),
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
        match shown.immutable {
            Some(immutable) => format!("no transaction that began below {immutable}"),
            None => "known to the timelock servers: name them with --timelock".to_owned(),
        },
    );
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_shown_line_by_line() {
        let shown = Shown {
            place: "data".to_owned(),
            keyspace: "bank".to_owned(),
            timestamps_bound: Some(1_010_000),
            known_timestamp: Some(20_040),
            layouts: vec![(1, 2), (5_000_000, 3)],
            unswept: Some(Unswept { shards: 3, of: 32, since: Some(20_033) }),
            tables: vec!["accounts".to_owned(), "jobs".to_owned()],
            immutable: Some(1_010_001),
        };
        assert_eq!(
            text(&shown),
            "keyspace bank of data\n\
             timestamps issued up to 1010000 at most\n\
             known      20040 was issued\n\
             layouts    2 from 1 on, 3 from 5000000 on\n\
             tables     accounts, jobs\n\
             unswept    from 20033 on, in 3 of 32 shards of the queue\n\
             open       no transaction that began below 1010001\n"
        );
    }
}
