//! A plan as text.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::plan::{Plan, TablePlan, describe_segments};
use crate::sizes::size_text;

/// Returns the nodes, keyspaces and tables of a plan, what is missing, and why it may be refused.
pub fn plan_text(plan: &Plan) -> String {
    let mut text = String::new();
    for node in &plan.nodes {
        let unknown = || "unknown".to_owned();
        let release = node.system.release_version.clone().unwrap_or_else(unknown);
        let cluster = node.system.cluster_name.clone().unwrap_or_else(unknown);
        let host = node.system.host_id.map_or_else(unknown, |id| id.to_string());
        let _ = writeln!(text, "Node {host} of the cluster {cluster}, Cassandra {release}:");
        for directory in &node.directories {
            let _ = writeln!(text, "  {}", directory.display());
        }
        if !node.unflushed.is_empty() {
            let _ = writeln!(
                text,
                "  {}: those that SSTables lack are taken in",
                describe_segments(&node.unflushed)
            );
        }
    }
    let mut of_keyspace: BTreeMap<&str, Vec<&TablePlan>> = BTreeMap::new();
    for keyspace in &plan.keyspaces {
        of_keyspace.entry(&keyspace.name).or_default();
    }
    for table in &plan.tables {
        of_keyspace.entry(&table.table.keyspace).or_default().push(table);
    }
    for (keyspace, tables) in of_keyspace {
        let bytes: u64 = tables.iter().map(|table| table.bytes).sum();
        let _ = writeln!(text, "Keyspace {keyspace}: {} tables, {}", tables.len(), size_text(bytes));
        for table in tables {
            let kind = if table.is_view { " (view)" } else { "" };
            let _ = writeln!(
                text,
                "  {}{kind}: {} SSTables, {}",
                table.table.name,
                table.sstables,
                size_text(table.bytes)
            );
        }
    }
    for warning in &plan.warnings {
        let _ = writeln!(text, "Warning: {warning}");
    }
    for refusal in &plan.refusals {
        let _ = writeln!(text, "Not supported as it is: {}", refusal.text);
    }
    text
}
