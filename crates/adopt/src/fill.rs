//! Fills an empty database with the schema and the SSTables of a plan.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use cassette_database::{Database, Keyspace};
use cassette_engine::{ImportOptions, ImportedSSTable};
use cassette_rows::TableMetadata;

use crate::error::{AdoptError, Result};
use crate::nodes::NodeSummary;
use crate::plan::Plan;

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

/// Creates the keyspaces of a plan, takes in the SSTables, and builds what is derived from them.
/// Calls `taken` with the SSTables of each table.
///
/// 1. Keyspaces, types, tables and, of a single node, the views that it had built. No index or view
///    is built from rows that are not imported yet.
/// 2. SSTables of tables and of these views. Replicas of several nodes are added to one table, and
///    reads merge them.
/// 3. Indexes and the other views, which are built from the rows.
pub(crate) fn fill(
    database: &Database,
    plan: &Plan,
    filling: Filling,
    mut taken: impl FnMut(&TableMetadata, &[ImportedSSTable]),
) -> Result<()> {
    let bare: Vec<Keyspace> = plan.keyspaces.iter().map(|keyspace| bare(keyspace, &plan.nodes)).collect();
    database.put_keyspaces(&bare)?;
    let options = ImportOptions {
        // Levels of one node do not overlap; those of several do.
        keep_level: plan.nodes.len() == 1,
        keep_repaired: plan.nodes.len() == 1,
        verify: filling.verify,
        extended_verify: filling.verify,
        copy_data: filling.copy,
        keep_source: true,
    };
    let import = |table: &TableMetadata, directory: &Path| {
        let imported = database.engine().import(table.id, directory, &options);
        imported.map_err(|source| AdoptError::Table { table: table.qualified_name(), source })
    };
    for planned in &plan.tables {
        // A view that is not built has no table yet, and its SSTables are left out.
        let keyspace = bare.iter().find(|keyspace| keyspace.name == planned.table.keyspace);
        if keyspace.is_none_or(|keyspace| !keyspace.tables.contains_key(&planned.table.name)) {
            continue;
        }
        let mut of_table = Vec::new();
        for directory in &planned.directories {
            of_table.extend(import(&planned.table, directory)?);
        }
        taken(&planned.table, &of_table);
    }
    take_roles(database, &plan.roles, import)?;
    if filling.build {
        database.put_keyspaces(&plan.keyspaces)?;
        check_built(database, &plan.keyspaces)?;
    }
    Ok(())
}

/// Returns a keyspace without indexes, and without the views that are to be built.
fn bare(keyspace: &Keyspace, nodes: &[NodeSummary]) -> Keyspace {
    // Replicas that differ have entries of rows that others have overwritten: merged base tables
    // hide these rows, merged views do not.
    let is_built = |view: &str| matches!(nodes, [node] if node.system.is_built(&keyspace.name, view));
    let mut bare = keyspace.clone();
    bare.indexes.clear();
    bare.views.retain(|view, _| is_built(view));
    bare.tables.retain(|table, _| !keyspace.views.contains_key(table) || is_built(table));
    bare
}

fn take_roles(
    database: &Database,
    roles: &BTreeMap<String, Vec<std::path::PathBuf>>,
    import: impl Fn(&TableMetadata, &Path) -> Result<Vec<ImportedSSTable>>,
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
