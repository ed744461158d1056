//! `cassette sstable expired`: sstableexpiredblockers.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Context;
use cassette_database::Database;
use cassette_sstable::statistics::Stats;
use cassette_sstable::{Component, Descriptor};
use clap::Args;

use super::arguments;
use super::dump::now_seconds;
use super::schema;

/// The table.
#[derive(Debug, Args)]
#[command(after_help = "\
An SSTable whose data is all deleted or expired, for longer than gc_grace_seconds, can be dropped as \
a whole, unless another SSTable has older data that it deletes. Prints these others, and what they \
block. Nothing is written.

Example:
  cassette sstable expired --data data ks t")]
pub struct ExpiredArguments {
    /// The keyspace
    keyspace: String,
    /// The table
    table: String,
    /// The data directory
    #[arg(long, value_name = "DIRECTORY")]
    data: PathBuf,
    /// The time for expiration, in seconds since 1970
    #[arg(short = 'u', long, value_name = "SECONDS")]
    current_timestamp: Option<u32>,
}

/// The times that decide whether an SSTable has expired, or blocks another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Times {
    min_timestamp: i64,
    max_timestamp: i64,
    /// Seconds since 1970; `i32::MAX` as soon as anything is live.
    max_deletion: i32,
}

impl Times {
    fn of(stats: &Stats) -> Self {
        Self {
            min_timestamp: stats.min_timestamp,
            max_timestamp: stats.max_timestamp,
            max_deletion: stats.max_local_deletion_time,
        }
    }

    fn text(&self, descriptor: &Descriptor) -> String {
        format!(
            "[{} (minTS = {}, maxTS = {}, maxLDT = {})]",
            descriptor.path(Component::Data).display(),
            self.min_timestamp,
            self.max_timestamp,
            self.max_deletion
        )
    }
}

/// Returns the expired SSTables that each other one blocks, by their positions. Cassandra's rule:
/// the other one has older data, and has not expired.
fn blockers(times: &[Times], purgeable_before: i64) -> BTreeMap<usize, Vec<usize>> {
    let mut found: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    let is_expired = |times: &Times| i64::from(times.max_deletion) < purgeable_before;
    for (candidate, expired) in times.iter().enumerate().filter(|(_, times)| is_expired(times)) {
        for (blocker, other) in times.iter().enumerate().filter(|(at, _)| *at != candidate) {
            let has_later = i64::from(other.max_deletion) > purgeable_before;
            if expired.max_timestamp >= other.min_timestamp && has_later {
                found.entry(blocker).or_default().push(candidate);
            }
        }
    }
    found
}

pub fn run(arguments: &ExpiredArguments) -> anyhow::Result<bool> {
    let database = Database::open_read_only(&arguments.data)?;
    let name = format!("{}.{}", arguments.keyspace, arguments.table);
    let tables = database.named_tables(std::slice::from_ref(&name))?;
    let table = tables.first().with_context(|| format!("{name} has no files"))?;
    let directory = database.engine().table_stats(table.id)?.directory;
    let descriptors = arguments::in_directory(&directory)?;
    let mut times = Vec::with_capacity(descriptors.len());
    for descriptor in &descriptors {
        times.push(Times::of(&schema::statistics(descriptor)?.stats));
    }
    let now = arguments.current_timestamp.unwrap_or_else(now_seconds);
    let blocked = blockers(&times, i64::from(now) - i64::from(table.params.gc_grace_seconds));
    if blocked.is_empty() {
        println!("No sstables for {name} block expired ones ({} sstables)", descriptors.len());
    }
    let text = |at: &usize| match (times.get(*at), descriptors.get(*at)) {
        (Some(times), Some(descriptor)) => times.text(descriptor),
        _ => String::new(),
    };
    for (blocker, expired) in &blocked {
        let expired_text: Vec<String> = expired.iter().map(text).collect();
        println!(
            "{} blocks {} expired sstables from getting dropped: {}",
            text(blocker),
            expired.len(),
            expired_text.join(", ")
        );
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_data_that_has_not_expired_blocks_what_has() {
        let times =
            |min_timestamp, max_timestamp, max_deletion| Times { min_timestamp, max_timestamp, max_deletion };
        let sstables = [
            times(100, 200, 10),
            times(150, 300, i32::MAX),
            times(201, 400, i32::MAX),
            times(90, 95, 20),
            times(0, 500, 15),
        ];
        let found = blockers(&sstables, 18);
        assert_eq!(found, BTreeMap::from([(1, vec![0, 4]), (2, vec![4]), (3, vec![0, 4])]));
        assert!(blockers(&sstables, 5).is_empty());
    }
}
