//! Fills an empty database with the schema and the SSTables of a plan.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use cassette_database::{Database, Keyspace};
use cassette_engine::{ImportOptions, ImportStep, ImportedSSTable};
use cassette_rows::{TableId, TableMetadata};
use cassette_vfs::FileSystem;

use crate::commitlog::{Flushed, ReplayTable, replay};
use crate::error::{AdoptError, Result};
use crate::nodes::NodeSummary;
use crate::plan::{Plan, TablePlan, is_system};

/// How a database is filled.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Filling {
    /// Whether files are copied, not linked.
    pub copy: bool,
    /// Whether all SSTables are read completely.
    pub verify: bool,
    /// Whether indexes are built, and views that Cassandra had not built.
    pub build: bool,
}

/// What an adoption is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step<'a> {
    /// SSTables of a table are checked, and linked or copied.
    SSTables {
        /// The table, with its keyspace.
        table: &'a str,
        /// The share of all bytes that is done, from 0 to 1000.
        permille: u64,
    },
    /// The writes of a commit log are read and applied.
    CommitLog {
        /// Bytes of its segments.
        bytes: u64,
    },
    /// Indexes and views are built from the rows.
    Building {
        /// Their number.
        count: usize,
    },
    /// What was written is made durable.
    Flushing,
}

/// Reports the progress of the SSTables.
struct Progress<'a> {
    /// Bytes that were checked, and bytes that were transferred.
    done: u64,
    /// The sum of both at the end.
    total: u64,
    report: &'a mut dyn FnMut(Step<'_>),
}

impl Progress<'_> {
    fn begin(&mut self, table: &str) {
        let permille = self.done.saturating_mul(1000).checked_div(self.total).unwrap_or(1000).min(1000);
        (self.report)(Step::SSTables { table, permille });
    }

    fn add(&mut self, table: &str, step: ImportStep) {
        let (ImportStep::Checked(bytes) | ImportStep::Transferred(bytes)) = step;
        self.done += bytes;
        self.begin(table);
    }
}

/// What was taken in from commit logs.
#[derive(Debug, Default)]
pub(crate) struct FilledLogs {
    /// The number of changes of partitions that no SSTable had.
    pub mutations: u64,
    /// What was skipped, or ends early.
    pub warnings: Vec<String>,
}

/// Creates the keyspaces of a plan, takes in the SSTables, and builds what is derived from them.
/// Calls `taken` with the SSTables of each table, and `report` with what is done.
///
/// 1. Keyspaces, types, tables and, of a single node, the views that it had built. No index or view
///    is built from rows that are not imported yet.
/// 2. SSTables of tables and of these views. Replicas of several nodes are added to one table, and
///    reads merge them.
/// 3. The writes in commit logs that no SSTable of their node has.
/// 4. Indexes and the other views, which are built from the rows.
///
/// # Errors
/// Then the database is filled in part; after [`AdoptError::CommitLog`], with all SSTables.
pub(crate) fn fill(
    fs: &Arc<dyn FileSystem>,
    database: &Database,
    plan: &Plan,
    filling: Filling,
    mut taken: impl FnMut(&TableMetadata, &[ImportedSSTable]),
    report: &mut dyn FnMut(Step<'_>),
) -> Result<FilledLogs> {
    // Cassandra may have stopped between a write of a table and those of its views.
    let trusts_views = !filling.build || plan.nodes.iter().all(|node| node.unflushed.is_empty());
    let bare: Vec<Keyspace> =
        plan.keyspaces.iter().map(|keyspace| bare(keyspace, &plan.nodes, trusts_views)).collect();
    database.put_keyspaces(&bare)?;
    let options = ImportOptions {
        // Levels of one node do not overlap; those of several do.
        keep_level: plan.nodes.len() == 1,
        keep_repaired: plan.nodes.len() == 1,
        verify: filling.verify,
        extended_verify: filling.verify,
        copy_data: filling.copy,
        keep_source: true,
        // Nothing is kept of a database for reading only after an error.
        check_first: filling.build,
    };
    let mut flushed = FlushedByNode::new(&plan.nodes);
    // A view that is not built has no table yet, and its SSTables are left out.
    let is_created = |planned: &&TablePlan| {
        let TableMetadata { keyspace, name, .. } = planned.table.as_ref();
        bare.iter().any(|bare| bare.name == *keyspace && bare.tables.contains_key(name))
    };
    let created: Vec<&TablePlan> = plan.tables.iter().filter(is_created).collect();
    let total: u64 = created.iter().map(|planned| planned.bytes).sum();
    let mut progress = Progress { done: 0, total: total.saturating_mul(2), report: &mut *report };
    let mut import = |table: &TableMetadata, directory: &Path| {
        let name = table.qualified_name();
        progress.begin(&name);
        let imported = database.engine().import_observed(table.id, directory, &options, &mut |step| {
            progress.add(&name, step);
        });
        let imported = imported.map_err(|source| AdoptError::Table { table: name, source })?;
        flushed.add(&plan.nodes, table.id, directory, &imported);
        Ok(imported)
    };
    for planned in created {
        let mut of_table = Vec::new();
        for directory in &planned.directories {
            of_table.extend(import(&planned.table, directory)?);
        }
        taken(&planned.table, &of_table);
    }
    take_roles(database, &plan.roles, &mut import)?;
    let mut logs = FilledLogs::default();
    for (node, flushed) in plan.nodes.iter().zip(flushed.of_nodes) {
        if !node.unflushed.is_empty() {
            report(Step::CommitLog { bytes: node.unflushed.iter().map(|segment| segment.bytes).sum() });
        }
        take_log(fs.as_ref(), database, plan, node, flushed, &mut logs)?;
    }
    if filling.build {
        let built = |keyspaces: &[Keyspace]| -> usize {
            keyspaces.iter().map(|keyspace| keyspace.indexes.len() + keyspace.views.len()).sum()
        };
        let count = built(&plan.keyspaces) - built(&bare);
        if count > 0 {
            report(Step::Building { count });
        }
        database.put_keyspaces(&plan.keyspaces)?;
        check_built(database, &plan.keyspaces)?;
    }
    Ok(logs)
}

/// What the SSTables of each node contain of its commit log.
struct FlushedByNode {
    /// The places of nodes, by the directories of their tables.
    nodes: HashMap<std::path::PathBuf, usize>,
    of_nodes: Vec<HashMap<TableId, Flushed>>,
}

impl FlushedByNode {
    fn new(nodes: &[NodeSummary]) -> Self {
        let places = nodes.iter().enumerate();
        let directories =
            places.flat_map(|(at, node)| node.tables.iter().map(move |of| (of.path.clone(), at)));
        Self { nodes: directories.collect(), of_nodes: nodes.iter().map(|_| HashMap::new()).collect() }
    }

    fn add(&mut self, nodes: &[NodeSummary], table: TableId, directory: &Path, sstables: &[ImportedSSTable]) {
        let Some(&at) = self.nodes.get(directory) else { return };
        let (Some(node), Some(of_node)) = (nodes.get(at), self.of_nodes.get_mut(at)) else { return };
        let flushed = of_node.entry(table).or_default();
        sstables.iter().for_each(|sstable| flushed.add(sstable, node.system.host_id));
    }
}

/// Applies the writes in a node's commit log that its SSTables lack.
fn take_log(
    fs: &dyn FileSystem,
    database: &Database,
    plan: &Plan,
    node: &NodeSummary,
    mut flushed: HashMap<TableId, Flushed>,
    logs: &mut FilledLogs,
) -> Result<()> {
    if node.unflushed.is_empty() {
        return Ok(());
    }
    let catalog = database.catalog();
    let mut tables = HashMap::new();
    for planned in &plan.tables {
        let (id, keyspace) = (planned.table.id, catalog.keyspace(&planned.table.keyspace));
        // A view that is built later is only decoded: others may be in the same mutation.
        let created = keyspace.and_then(|keyspace| keyspace.tables.get(&planned.table.name));
        let table = created.unwrap_or(&planned.table).clone();
        let flushed = flushed.remove(&id).unwrap_or_default();
        tables.insert(id, ReplayTable { table, flushed, is_wanted: created.is_some() });
    }
    if plan.takes_roles {
        for table in database.tables_of_roles() {
            let flushed = flushed.remove(&table.id).unwrap_or_default();
            tables.insert(table.id, ReplayTable { table, flushed, is_wanted: true });
        }
    }
    for (id, position) in &node.system.truncated {
        if let Some(table) = tables.get_mut(id) {
            table.flushed.add_until(*position);
        }
    }
    let is_omitted =
        |id: TableId| node.tables.iter().any(|table| table.id == Some(id) && is_system(&table.keyspace));
    let replayed = replay(fs, &node.unflushed, &tables, &is_omitted, |mutations| {
        let applied = database.engine().apply(mutations);
        applied.map_err(|source| AdoptError::Table { table: "the commit log".to_owned(), source })
    })?;
    logs.mutations += replayed.applied;
    logs.warnings.extend(replayed.torn);
    for (id, count) in &replayed.unknown {
        logs.warnings.push(format!(
            "{count} writes in the commit log are of the table with the id {}, which was dropped or is not adopted",
            id.0
        ));
    }
    Ok(())
}

/// Returns a keyspace without indexes, and without the views that are to be built.
fn bare(keyspace: &Keyspace, nodes: &[NodeSummary], trusts_views: bool) -> Keyspace {
    // Replicas that differ have entries of rows that others have overwritten: merged base tables
    // hide these rows, merged views do not.
    let is_built =
        |view: &str| trusts_views && matches!(nodes, [node] if node.system.is_built(&keyspace.name, view));
    let mut bare = keyspace.clone();
    bare.indexes.clear();
    bare.views.retain(|view, _| is_built(view));
    bare.tables.retain(|table, _| !keyspace.views.contains_key(table) || is_built(table));
    bare
}

fn take_roles(
    database: &Database,
    roles: &BTreeMap<String, Vec<std::path::PathBuf>>,
    import: &mut impl FnMut(&TableMetadata, &Path) -> Result<Vec<ImportedSSTable>>,
) -> Result<()> {
    let tables: Vec<Arc<TableMetadata>> = database.tables_of_roles();
    for (name, directories) in roles {
        let Some(table) = tables.iter().find(|table| table.name == *name) else { continue };
        for directory in directories {
            import(table, directory)?;
        }
    }
    Ok(())
}

/// Checks that all indexes are built: a build that fails is only logged.
fn check_built(database: &Database, keyspaces: &[Keyspace]) -> Result<()> {
    let catalog = database.catalog();
    for planned in keyspaces {
        let Some(keyspace) = catalog.keyspace(&planned.name) else { continue };
        if let Some(index) = keyspace.indexes.values().find(|index| !database.is_built(index)) {
            let text = format!("cannot build index {}.{}: see the log", keyspace.name, index.name);
            return Err(AdoptError::Refused(text));
        }
    }
    Ok(())
}
