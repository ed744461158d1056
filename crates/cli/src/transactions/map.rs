//! `cassette transactions map` and `migrate`: the layout of commit records by start timestamp.

use anyhow::Context;
use cassette_transactions::service::{Agreed, Layout};
use clap::Args;
use serde_json::{Value, json};

use super::open::{Purpose, StoreArguments, TimeLockArguments, open};

/// Which store.
#[derive(Debug, Args)]
#[command(after_help = "\
Commit records are stored in one of three layouts: 1 a partition per start timestamp, 2 tickets, 3 tickets with values in two
stages, for stores whose conditional writes are not linearizable after failures. A range of start timestamps has one layout
for ever. Up to the bound everybody decides by the map; above it, it is a forecast.")]
pub struct MapArguments {
    #[command(flatten)]
    store: StoreArguments,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// Which store, and to which layout.
#[derive(Debug, Args)]
#[command(after_help = "\
New transactions get the layout; those that began before keep theirs, and both are read side by side. Timestamps jump to
where the new range begins, so it is over when the command returns. Going back is the same command. A store on a cluster has
layout 3; one that was embedded and moves to a cluster is migrated to it. Everybody who uses the
store must know the layout: all versions of this program since transactions could be migrated do.

A program that has an embedded store open does the same with Transactions::migrate, while its transactions run.")]
pub struct MigrateArguments {
    #[command(flatten)]
    store: StoreArguments,
    #[command(flatten)]
    timelock: TimeLockArguments,
    /// The layout of new transactions: 1, 2 or 3
    #[arg(long, value_name = "LAYOUT", value_parser = clap::value_parser!(u32).range(1..=3))]
    to: u32,
    /// Take layout 1 or 2 also on a cluster, where readers may then disagree on whether a transaction whose commit failed has committed
    #[arg(long)]
    force: bool,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// Ranges with their layouts, for people.
pub fn text(agreed: &Agreed) -> String {
    let ranges = agreed.map.ranges();
    let mut lines = vec![format!("{:>20}  {:>20}  layout", "from", "to")];
    for (index, (first, version)) in ranges.iter().enumerate() {
        let last = ranges.get(index + 1).map_or_else(|| "...".to_owned(), |(next, _)| (next - 1).to_string());
        let table = Layout::of_version(*version).map_or("not known to this program", Layout::table);
        lines.push(format!("{first:>20}  {last:>20}  {version} ({table})"));
    }
    lines.push(format!("decided up to {}", agreed.bound));
    lines.join("\n") + "\n"
}

/// Ranges with their layouts, for programs.
pub fn data(agreed: &Agreed) -> Value {
    let ranges = agreed.map.ranges();
    let range = |(index, (first, version)): (usize, &(i64, u32))| {
        let last = ranges.get(index + 1).map(|(next, _)| next - 1);
        json!({ "from": first, "to": last, "layout": version })
    };
    json!({
        "ranges": ranges.iter().enumerate().map(range).collect::<Vec<_>>(),
        "bound": agreed.bound.0,
        "sequence": agreed.sequence.0,
    })
}

pub fn map(arguments: &MapArguments) -> anyhow::Result<bool> {
    let opened = open(&arguments.store, Purpose::Read)?;
    let agreed = opened.agreed()?.context("the store has no map yet: nobody has begun a transaction")?;
    match arguments.json {
        true => println!("{}", serde_json::to_string_pretty(&data(&agreed))?),
        false => print!("{}", text(&agreed)),
    }
    // A layout of a newer program is something wrong here.
    Ok(agreed.map.ranges().iter().all(|(_, version)| Layout::of_version(*version).is_some()))
}

pub fn migrate(arguments: &MigrateArguments) -> anyhow::Result<bool> {
    let opened = open(&arguments.store, Purpose::Write)?;
    let transactions = opened.transactions(&arguments.timelock, arguments.force)?;
    let migrated = transactions.migrate(arguments.to)?;
    drop(transactions);
    opened.close()?;
    let (from, to, first) = (migrated.from, migrated.to, migrated.first.0);
    match arguments.json {
        true => println!("{}", json!({ "from": from, "to": to, "first": first })),
        false if from == to => println!("new transactions have layout {to} already, since {first}"),
        false => println!(
            "new transactions have layout {to} instead of {from}: all that begin at {first} or later"
        ),
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use cassette_transactions::Timestamp;
    use cassette_transactions::encoding::coordination::VersionMap;

    use super::*;

    #[test]
    fn a_map_is_shown_range_by_range() {
        let map = VersionMap::all(1).install(999, 2).unwrap().install(4_999, 7).unwrap();
        let agreed = Agreed { sequence: Timestamp(900), bound: Timestamp(5_000), map };
        let lines: Vec<_> =
            text(&agreed).lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(
            lines,
            [
                "from to layout",
                "1 999 1 (_transactions)",
                "1000 4999 2 (_transactions2)",
                "5000 ... 7 (not known to this program)",
                "decided up to 5000"
            ]
        );
        assert_eq!(data(&agreed)["ranges"][2], json!({ "from": 5_000, "to": null, "layout": 7 }));
    }
}
