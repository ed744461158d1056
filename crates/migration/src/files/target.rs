//! The nodes of the target, and its tables, before SSTables are sent there.

use cassette_client::ConnectError;
use uuid::Uuid;

use super::topology;
use super::transfers::TargetTable;
use crate::endpoint::Session;
use crate::error::{MoveError, Result, unsuitable};
use crate::event::{Event, Observer};
use crate::plan::Plan;
use crate::schema::{self, Table};
use crate::settings::FileOptions;
use crate::streaming::replicas::{Node, Replication};
use crate::streaming::session::probe;

/// Reads the ring of the target, and connects to its nodes.
///
/// # Errors
/// If the storage port of no node responds, or one is not that of a supported version.
pub fn nodes(target: &mut Session<'_>, options: &FileOptions, observer: &dyn Observer) -> Result<Vec<Node>> {
    let nodes = topology::nodes(target, options.storage_port)?;
    let mut failed = Vec::new();
    for node in &nodes {
        match probe(node.address, options.tls.as_ref()) {
            Ok(()) => {}
            Err(ConnectError::Rejected(reason)) => return unsuitable(reason),
            Err(ConnectError::Failed(reason)) => failed.push(reason),
        }
    }
    if failed.len() == nodes.len() {
        return Err(MoveError::Unreachable {
            address: "the storage port of every node".to_owned(),
            reason: format!(
                "{}; SSTables are sent to the ports that nodes of Cassandra use among each other (--storage-port), \
                 see also --internode-tls-ca; use --by rows if they are not reachable",
                failed[0]
            ),
        });
    }
    for reason in failed {
        observer.event(&Event::Warning { text: format!("{reason}; the move will wait for this node") });
    }
    Ok(nodes)
}

/// Reads what the target has of the tables of a plan, all of which exist there. Calls `check` with
/// the index of each table, and its definition at the target.
///
/// # Errors
/// If a table has no replica, or those of `check`.
pub fn tables(
    target: &mut Session<'_>,
    plan: &Plan,
    nodes: &[Node],
    check: &mut dyn FnMut(&mut Session<'_>, usize, &Table) -> Result<()>,
) -> Result<Vec<TargetTable>> {
    let mut found = Vec::new();
    for keyspace in &plan.keyspaces {
        let Some(existing) = schema::keyspace(target, &keyspace.name)? else {
            return unsuitable(format!("keyspace {} was dropped at the target meanwhile", keyspace.name));
        };
        let replication = Replication::parse(&existing.replication_options).map_err(|reason| {
            MoveError::Unsuitable(format!("replication of keyspace {}: {reason}", keyspace.name))
        })?;
        let ranges = replication.ranges(nodes);
        if ranges.iter().all(Vec::is_empty) {
            return unsuitable(format!(
                "keyspace {} has no replica at the target: alter its replication {}",
                keyspace.name, existing.replication
            ));
        }
        for source in &keyspace.tables {
            let table = existing.tables.iter().find(|table| table.name == source.name);
            let table = table.ok_or_else(|| {
                MoveError::Unsuitable(format!(
                    "table {} was dropped at the target meanwhile",
                    source.quoted()
                ))
            })?;
            check(target, found.len(), table)?;
            let id = Uuid::parse_str(&table.id).map_err(|error| {
                MoveError::Unsuitable(format!("table {} has no id at the target: {error}", table.quoted()))
            })?;
            let has_attached_indexes = has_custom_indexes(target, &keyspace.name, &table.name)?;
            found.push(TargetTable { id, ranges: ranges.clone(), has_attached_indexes });
        }
    }
    Ok(found)
}

fn has_custom_indexes(target: &mut Session<'_>, keyspace: &str, table: &str) -> Result<bool> {
    let quoted = |name: &str| name.replace('\'', "''");
    let page = target.query(&format!(
        "SELECT kind FROM system_schema.indexes WHERE keyspace_name = '{}' AND table_name = '{}'",
        quoted(keyspace),
        quoted(table)
    ))?;
    Ok((0..page.rows.len()).any(|row| page.text(row, 0).as_deref() == Some("CUSTOM")))
}
