//! The nodes whose directories are specified.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use cassette_database::{DatabaseError, ForeignNode, ForeignTable, Keyspace};
use cassette_rows::TableId;
use cassette_vfs::FileSystem;
use uuid::Uuid;

use crate::commitlog::{self, Flushed, ReplayTable, Segment};
use crate::error::{AdoptError, Result};
use crate::layout::{CassandraDirectory, TableDirectory, table_directories};

/// A node of Cassandra, as its directories describe it.
#[derive(Debug, Clone)]
pub struct NodeSummary {
    /// Its data directories.
    pub directories: Vec<PathBuf>,
    /// What its system tables contain.
    pub system: ForeignNode,
    pub(crate) tables: Vec<TableDirectory>,
    /// The commit logs beside its data directories.
    pub(crate) commitlogs: Vec<PathBuf>,
    /// The segments with writes that SSTables may lack.
    pub(crate) unflushed: Vec<Segment>,
}

impl NodeSummary {
    /// Whether all SSTables of the system tables can be read.
    fn is_readable(&self) -> bool {
        self.tables.iter().all(|table| !is_read(table) || table.unsupported.is_empty())
    }

    /// Reads the system tables again, with the writes to them in the commit log.
    pub(crate) fn replay_system(&mut self, fs: &Arc<dyn FileSystem>) -> Result<()> {
        if self.unflushed.is_empty() || !self.is_readable() {
            return Ok(());
        }
        let failed = RefCell::new(None);
        let host = self.system.host_id;
        let unflushed = |tables: &[ForeignTable]| {
            let mut mutations = Vec::new();
            let known = of_system(tables, host);
            // Mutations of tables of users have nothing for these: a mutation has one keyspace.
            let replayed = commitlog::replay(fs.as_ref(), &self.unflushed, &known, &|_| true, |update| {
                mutations.extend_from_slice(update);
                Ok(())
            });
            replayed.map(|_| mutations).map_err(|error| {
                let message = error.to_string();
                *failed.borrow_mut() = Some(error);
                DatabaseError::invalid(message)
            })
        };
        let read = ForeignNode::read_unflushed(fs.clone(), &self.directories, &unflushed);
        let host_id = self.system.host_id;
        match (read, failed.into_inner()) {
            (_, Some(error)) => return Err(error),
            (read, None) => self.system = read?,
        }
        self.system.host_id = host_id;
        Ok(())
    }

    /// Removes directories of commit logs that occur under more than one path: each segment must
    /// be replayed once.
    pub(crate) fn remove_repeated_logs(&mut self, fs: &dyn FileSystem) {
        let mut known = Vec::new();
        self.commitlogs.retain(|log| match fs.identity(log) {
            Ok(id) if known.contains(&id) => false,
            Ok(id) => {
                known.push(id);
                true
            }
            Err(_) => true,
        });
    }

    /// Returns the id of the table that a directory belongs to; `None` if Cassandra ignores the
    /// directory. As it does, if a table has directories without an id in their names, only these
    /// count: those of tables that were created before Cassandra 2.1.
    pub(crate) fn id_of(&self, directory: &TableDirectory, keyspaces: &[Keyspace]) -> Option<TableId> {
        let same =
            |other: &&TableDirectory| other.keyspace == directory.keyspace && other.table == directory.table;
        let is_former = |other: &TableDirectory| other.id.is_none();
        let keyspace = keyspaces.iter().find(|keyspace| keyspace.name == directory.keyspace);
        let of_name =
            keyspace.and_then(|keyspace| keyspace.tables.get(&directory.table)).map(|table| table.id);
        match directory.id {
            // One of a dropped table of the same name is not the table's.
            Some(id) if of_name == Some(id) && self.tables.iter().filter(same).any(is_former) => None,
            Some(id) => Some(id),
            None => of_name,
        }
    }

    /// Returns the first data directory, which identifies the node in messages.
    pub fn name(&self) -> String {
        self.directories.first().map(|path| path.display().to_string()).unwrap_or_default()
    }
}

/// A data directory, and the node that its `system.local` belongs to.
struct Found {
    directory: CassandraDirectory,
    tables: Vec<TableDirectory>,
    system: ForeignNode,
}

/// Groups the directories by node: those with the same host id, and those without one, which are
/// further `data_file_directories`, with the node that is specified before them.
pub(crate) fn group(
    fs: &Arc<dyn FileSystem>,
    directories: &[CassandraDirectory],
) -> Result<Vec<NodeSummary>> {
    let mut found = Vec::with_capacity(directories.len());
    for directory in directories {
        let tables = table_directories(fs.as_ref(), &directory.data)?;
        let is_readable = tables.iter().all(|table| !is_read(table) || table.unsupported.is_empty());
        let system = if is_readable {
            ForeignNode::read(fs.clone(), std::slice::from_ref(&directory.data))?
        } else {
            ForeignNode::default()
        };
        found.push(Found { directory: directory.clone(), tables, system });
    }
    let first_host = found.iter().find_map(|found| found.system.host_id);
    let mut nodes: Vec<NodeSummary> = Vec::new();
    for Found { directory, tables, system } in found {
        let current = nodes.last().and_then(|node| node.system.host_id);
        // Directories before the first one with a host id belong to that node.
        let host = system.host_id.or(current).or(first_host);
        let same = |node: &&mut NodeSummary| node.system.host_id == host;
        if let Some(node) = nodes.iter_mut().find(same) {
            node.directories.push(directory.data);
            node.tables.extend(tables);
            node.commitlogs.extend(directory.commitlog);
        } else {
            let mut system = system;
            system.host_id = host;
            nodes.push(NodeSummary {
                directories: vec![directory.data],
                system,
                tables,
                commitlogs: directory.commitlog.into_iter().collect(),
                unflushed: Vec::new(),
            });
        }
    }
    for node in &mut nodes {
        if node.directories.len() > 1 && node.is_readable() {
            node.system = ForeignNode::read(fs.clone(), &node.directories)?;
        }
    }
    Ok(nodes)
}

/// Returns the system tables of a node, with what its SSTables contain of its commit log.
fn of_system(tables: &[ForeignTable], host: Option<Uuid>) -> HashMap<TableId, ReplayTable> {
    let of_table = |ForeignTable { table, sstables }: &ForeignTable| {
        let mut flushed = Flushed::default();
        sstables.iter().for_each(|sstable| flushed.add(sstable, host));
        (table.id, ReplayTable { table: table.clone(), flushed, is_wanted: true })
    };
    tables.iter().map(of_table).collect()
}

/// Whether a table is one of those that contain the schema and the description of the node.
pub(crate) fn is_read(table: &TableDirectory) -> bool {
    let of_system = ["local", "peers", "peers_v2", "batches", "built_views"];
    table.keyspace == "system_schema"
        || table.keyspace == "system" && of_system.contains(&table.table.as_str())
}

/// Checks that all nodes are of one cluster and have the same schema.
///
/// # Errors
/// [`AdoptError::Refused`], with the first difference.
pub(crate) fn check_same(nodes: &[NodeSummary]) -> Result<()> {
    let Some((first, others)) = nodes.split_first() else { return Ok(()) };
    for other in others {
        if let (Some(a), Some(b)) = (&first.system.cluster_name, &other.system.cluster_name)
            && a != b
        {
            return Err(AdoptError::Refused(format!(
                "{} is of the cluster {a}, and {} of the cluster {b}: adopt each cluster into its own directory",
                first.name(),
                other.name()
            )));
        }
        if let Some(difference) = difference(&first.system, &other.system) {
            return Err(AdoptError::Refused(format!(
                "the nodes {} and {} have different schemas: {difference}. Start them, wait until `nodetool \
                 describecluster` shows one schema version, and drain them",
                first.name(),
                other.name()
            )));
        }
    }
    Ok(())
}

/// Returns the first difference between two schemas.
fn difference(a: &ForeignNode, b: &ForeignNode) -> Option<String> {
    let name = |keyspace: &cassette_database::Keyspace| keyspace.name.clone();
    for keyspace in a.keyspaces.iter().chain(&b.keyspaces) {
        let of = |node: &ForeignNode| node.keyspaces.iter().position(|other| name(other) == name(keyspace));
        let (Some(at_a), Some(at_b)) = (of(a), of(b)) else {
            return Some(format!("one of them lacks the keyspace {}", keyspace.name));
        };
        let (a, b) = (a.keyspaces.get(at_a)?, b.keyspaces.get(at_b)?);
        if a.params != b.params {
            return Some(format!("the replication or the durability of keyspace {}", keyspace.name));
        }
        for table in a.tables.keys().chain(b.tables.keys()) {
            if a.tables.get(table) != b.tables.get(table) {
                return Some(format!("table {}.{table}", keyspace.name));
            }
        }
        for of_type in a.types.keys().chain(b.types.keys()) {
            if a.types.get(of_type) != b.types.get(of_type) {
                return Some(format!("type {}.{of_type}", keyspace.name));
            }
        }
        for index in a.indexes.keys().chain(b.indexes.keys()) {
            let options = |keyspace: &cassette_database::Keyspace| {
                keyspace.indexes.get(index).map(|index| (index.kind, index.options.clone()))
            };
            if options(a) != options(b) {
                return Some(format!("index {}.{index}", keyspace.name));
            }
        }
        for view in a.views.keys().chain(b.views.keys()) {
            if a.views.contains_key(view) != b.views.contains_key(view) {
                return Some(format!("view {}.{view}", keyspace.name));
            }
        }
    }
    None
}
