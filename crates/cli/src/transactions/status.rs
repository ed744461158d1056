//! `cassette transactions status`.

use cassette_transactions::service::{Agreed, CommitRecords, Layout, TransactionService};
use cassette_transactions::timelock::stored_bound;
use cassette_transactions::{Timestamp, TransactionStatus};
use clap::Args;
use serde::Serialize;

use super::open::{Purpose, StoreArguments, TimeLockArguments, open};
use super::show::layouts;

/// The transactions.
#[derive(Debug, Args)]
#[command(after_help = "\
committed: its writes are visible permanently to all transactions that begin above its commit \
timestamp.
aborted:   its writes are never visible.
none:      it has no commit record: it is in progress, or its client is dead, and the next reader of \
its writes aborts it; or the timestamp was used for something else.
dead:      it has no commit record and has ended, which is known for an embedded store, and for a \
cluster from its timelock servers (--timelock): the next reader of its writes aborts it.
unknown:   its commit record has a layout that only a newer program supports.

The second stage of a two-stage commit record (layout 3) is put if it is missing, as every reader \
does.")]
pub struct StatusArguments {
    #[command(flatten)]
    store: StoreArguments,
    #[command(flatten)]
    timelock: TimeLockArguments,
    /// Start timestamps
    #[arg(required = true, allow_negative_numbers = true)]
    starts: Vec<i64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The status of a start timestamp.
#[derive(Debug, Serialize, PartialEq, Eq)]
struct Status {
    start: i64,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    commit: Option<i64>,
    /// Versions of the layouts that have a commit record.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    layouts: Vec<u32>,
}

/// The known timestamps of a store.
#[derive(Default)]
struct Known {
    /// Where they end.
    bound: Option<i64>,
    /// Transactions that began below it have ended.
    immutable: Option<i64>,
    /// The layouts of start timestamps.
    agreed: Option<Agreed>,
}

impl Known {
    /// Returns the layout of a start timestamp, if this program does not support it.
    fn newer_layout(&self, start: i64) -> Option<u32> {
        let version = self.agreed.as_ref()?.map.version(Timestamp(start))?;
        Layout::of_version(version).is_none().then_some(version)
    }
}

/// `found` are the statuses by layout.
fn status(start: i64, known: &Known, found: &[(u32, TransactionStatus)]) -> Status {
    let mut layouts: Vec<u32> = found.iter().map(|(version, _)| *version).collect();
    let newer = known.newer_layout(start);
    let (status, commit) = match found {
        _ if start < Timestamp::FIRST.0 => ("before time", Some(Timestamp::ATOMIC.0)),
        [(_, TransactionStatus::Committed(commit))] => ("committed", Some(commit.0)),
        [(_, TransactionStatus::Aborted)] => ("aborted", None),
        [] if known.bound.is_none_or(|bound| start > bound) => ("not issued", None),
        [] if newer.is_some() => {
            layouts.extend(newer);
            ("unknown", None)
        }
        [] if known.immutable.is_some_and(|immutable| start < immutable) => ("dead", None),
        [] => ("none", None),
        _ => ("contradictory", None),
    };
    Status { start, status, commit, layouts }
}

fn text(status: &Status) -> String {
    let what = match (status.status, status.commit) {
        ("before time", _) => "before time: committed at 0".to_owned(),
        ("committed", Some(commit)) => format!("committed at {commit}"),
        ("none", _) => "no commit record: in progress, or dead".to_owned(),
        ("dead", _) => "dead: no commit record, and it has ended".to_owned(),
        ("unknown", _) => "unknown: use the newer program that the store was migrated with".to_owned(),
        ("not issued", _) => "not issued yet".to_owned(),
        ("contradictory", _) => {
            "commit records in several layouts: timestamps went backwards, stop all writers".to_owned()
        }
        (other, _) => other.to_owned(),
    };
    let layouts: Vec<_> = status.layouts.iter().map(u32::to_string).collect();
    let layouts =
        if layouts.is_empty() { String::new() } else { format!("  (layout {})", layouts.join(", ")) };
    format!("{}  {what}{layouts}", status.start)
}

pub fn run(arguments: &StatusArguments) -> anyhow::Result<bool> {
    let opened = open(&arguments.store, Purpose::Read)?;
    // Before the commit records are read: transactions that had ended by then have their final
    // status.
    let immutable = opened.immutable(&arguments.timelock)?.map(|immutable| immutable.0);
    let bound = stored_bound(&*opened.store)?.map(|bound| bound.0);
    let known = Known { bound, immutable, agreed: opened.agreed()? };
    let starts: Vec<Timestamp> = arguments
        .starts
        .iter()
        .filter(|start| **start >= Timestamp::FIRST.0)
        .map(|start| Timestamp(*start))
        .collect();
    let mut found = Vec::new();
    for layout in layouts(&opened.store.tables()?) {
        let stored = CommitRecords::open(opened.store.clone(), layout)?;
        found.push((layout.version(), stored.get_many(&starts)?));
    }
    let of_start = |start: &i64| {
        let of_layout =
            |(version, statuses): &(u32, std::collections::HashMap<Timestamp, TransactionStatus>)| {
                Some((*version, *statuses.get(&Timestamp(*start))?))
            };
        status(*start, &known, &found.iter().filter_map(of_layout).collect::<Vec<_>>())
    };
    let statuses: Vec<Status> = arguments.starts.iter().map(of_start).collect();
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&statuses)?)
    } else {
        statuses.iter().for_each(|status| println!("{}", text(status)))
    }
    Ok(statuses.iter().all(|status| status.status != "contradictory"))
}

#[cfg(test)]
mod tests {
    use cassette_transactions::encoding::coordination::VersionMap;

    use super::*;

    #[test]
    fn every_status_says_what_it_means() {
        let committed = (2, TransactionStatus::Committed(Timestamp(30)));
        let map = VersionMap::all(2).install(89, 7).unwrap();
        let agreed = Some(Agreed { sequence: Timestamp(1), bound: Timestamp(90), map });
        let known = Known { bound: Some(100), immutable: Some(15), agreed };
        let says = |start, found: &[(u32, TransactionStatus)]| text(&status(start, &known, found));
        assert_eq!(says(14, &[]), "14  dead: no commit record, and it has ended");
        assert!(says(95, &[]).contains("newer program") && says(95, &[]).contains("layout 7"));
        assert_eq!(says(20, &[committed]), "20  committed at 30  (layout 2)");
        assert_eq!(says(20, &[(3, TransactionStatus::Aborted)]), "20  aborted  (layout 3)");
        assert_eq!(says(20, &[]), "20  no commit record: in progress, or dead");
        assert_eq!(says(101, &[]), "101  not issued yet");
        assert_eq!(says(-1, &[]), "-1  before time: committed at 0");
        assert!(says(20, &[committed, (3, TransactionStatus::Aborted)]).contains("stop all writers"));
    }
}
