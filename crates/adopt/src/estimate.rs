//! How long an adoption takes, before it is started.

use std::path::Path;
use std::time::Duration;

use cassette_vfs::FileSystem;

use crate::error::{AdoptError, Result};
use crate::nodes::NodeSummary;
use crate::options::AdoptOptions;
use crate::plan::{Plan, TablePlan};
use crate::sizes::size_text;

/// Bytes per second of reading or copying SSTables, and of building from their rows: slow disks.
const READ_PER_SECOND: u64 = 100 << 20;
const BUILD_PER_SECOND: u64 = 10 << 20;

/// Milliseconds of checking and linking an SSTable: its files are synced.
const SSTABLE_MILLIS: u64 = 30;

/// Returns how long an adoption takes, and of what, as a text.
///
/// # Errors
/// If the parent directory of the target cannot be examined.
pub fn estimate_text(fs: &dyn FileSystem, plan: &Plan, options: &AdoptOptions) -> Result<String> {
    let parent = existing_parent(fs, &options.target);
    let copied = copied_bytes(fs, plan, parent, options.copy)?;
    let sstables: u64 = plan.tables.iter().map(|table| table.sstables).sum();
    let built = built_bytes(plan);
    let mut parts = vec![if copied == 0 {
        format!("{sstables} SSTables are linked")
    } else {
        format!("{sstables} SSTables are taken in, {} are copied", size_text(copied))
    }];
    let mut millis = sstables * SSTABLE_MILLIS + at_rate(copied, READ_PER_SECOND);
    if options.verify {
        parts.push(format!("{} are read", size_text(plan.bytes())));
        millis += at_rate(plan.bytes(), READ_PER_SECOND);
    }
    if built > 0 {
        parts.push(format!("indexes and views are built from {}", size_text(built)));
        millis += at_rate(built, BUILD_PER_SECOND);
    }
    let log: u64 = plan.nodes.iter().flat_map(|node| &node.unflushed).map(|segment| segment.bytes).sum();
    if log > 0 {
        parts.push(format!("{} of the commit log are read", size_text(log)));
        millis += at_rate(log, BUILD_PER_SECOND);
    }
    Ok(format!(
        "The adoption takes about {}: {}",
        duration_text(Duration::from_millis(millis)),
        parts.join(", ")
    ))
}

/// Returns the bytes of the SSTables that cannot be linked into a directory, or are to be copied.
pub(crate) fn copied_bytes(fs: &dyn FileSystem, plan: &Plan, parent: &Path, copy: bool) -> Result<u64> {
    let device = |path: &Path| fs.identity(path).map(|id| id.device);
    let of_target = device(parent).map_err(AdoptError::io("examine", parent))?;
    let is_copied = |table: &&TablePlan| {
        copy || table.directories.iter().any(|path| device(path).is_ok_and(|of| of != of_target))
    };
    Ok(plan.tables.iter().filter(is_copied).map(|table| table.bytes).sum())
}

/// Returns the nearest directory above the target that exists.
fn existing_parent<'a>(fs: &dyn FileSystem, target: &'a Path) -> &'a Path {
    let exists = |path: &&Path| fs.metadata(path).is_ok_and(|found| found.is_dir);
    let above = target
        .ancestors()
        .skip(1)
        .map(|path| if path.as_os_str().is_empty() { Path::new(".") } else { path });
    above.into_iter().find(exists).unwrap_or(Path::new("."))
}

/// Returns the bytes of tables that are read once for each of their indexes, and for each of their
/// views that is not adopted.
fn built_bytes(plan: &Plan) -> u64 {
    let is_adopted = |keyspace: &str, view: &str| {
        matches!(plan.nodes.as_slice(), [NodeSummary { system, unflushed, .. }]
            if unflushed.is_empty() && system.is_built(keyspace, view))
    };
    let of_table = |table: &TablePlan| {
        let keyspace = plan.keyspaces.iter().find(|keyspace| keyspace.name == table.table.keyspace)?;
        let indexes = keyspace.indexes.values().filter(|index| index.base().name == table.table.name).count();
        let views = keyspace
            .views
            .iter()
            .filter(|(name, view)| view.base.name == table.table.name && !is_adopted(&keyspace.name, name));
        Some(table.bytes * (indexes + views.count()) as u64)
    };
    plan.tables.iter().filter_map(of_table).sum()
}

fn at_rate(bytes: u64, per_second: u64) -> u64 {
    bytes.saturating_mul(1000) / per_second
}

/// Returns a duration in the unit that suits an estimate.
fn duration_text(duration: Duration) -> String {
    match duration.as_secs() {
        seconds @ ..100 => format!("{} s", seconds + 1),
        seconds @ 100..7200 => format!("{} min", seconds.div_ceil(60)),
        seconds => format!("{} h", seconds.div_ceil(3600)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_rounded_up_to_a_unit() {
        for (seconds, text) in
            [(0, "1 s"), (99, "100 s"), (100, "2 min"), (7199, "120 min"), (7200, "2 h"), (7201, "3 h")]
        {
            assert_eq!(duration_text(Duration::from_secs(seconds)), text);
        }
    }
}
