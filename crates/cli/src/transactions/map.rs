//! `cassette transactions map` and `migrate`: the layout of commit records by start timestamp.

use anyhow::Context;
use cassette_transactions::service::{Agreed, Layout};
use clap::Args;
use serde_json::{Value, json};

use super::open::{Purpose, StoreArguments, TimeLockArguments, open};

/// The store.
#[derive(Debug, Args)]
#[command(after_help = "\
Commit records are stored in one of three layouts: 1 a partition per start timestamp, 2 tickets, 3 \
tickets with values in two stages, for stores whose conditional writes are not linearizable after \
failures. A range of start timestamps has one layout permanently. Up to the bound all programs \
follow the map; above it, the map is a forecast.")]
pub struct MapArguments {
    #[command(flatten)]
    store: StoreArguments,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The store, and the new layout.
#[derive(Debug, Args)]
#[command(after_help = "\
New transactions get the layout; earlier ones keep theirs, and both are read side by side. \
Timestamps jump to the start of the new range, so the migration is complete when the command \
returns. The same command migrates back. A store on a cluster has layout 3; one that was embedded \
and moves to a cluster is migrated to it. All programs that use the store must support the layout: \
all versions of this program with migration do.

A program that has an embedded store open does the same with Transactions::migrate, while its \
transactions run.")]
pub struct MigrateArguments {
    #[command(flatten)]
    store: StoreArguments,
    #[command(flatten)]
    timelock: TimeLockArguments,
    /// The layout of new transactions: 1, 2 or 3
    #[arg(long, value_name = "LAYOUT", value_parser = clap::value_parser!(u32).range(1..=3))]
    to: u32,
    /// Use layout 1 or 2 also on a cluster, where readers may then disagree on whether a
    /// transaction whose commit failed has committed
    #[arg(long)]
    force: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Returns ranges with their layouts, as text.
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

/// Returns ranges with their layouts, as data.
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
    let agreed = opened.agreed()?.context("the store has no map before its first transaction")?;
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&data(&agreed))?)
    } else {
        print!("{}", text(&agreed))
    }
    // A layout of a newer program is an error here.
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
