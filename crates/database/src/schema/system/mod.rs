//! The database's own keyspaces: their tables, and the storage of the schema in them.
//!
//! `system.local`, `system_schema.*`, `system_traces.*` and `system_auth.*` are stored like any
//! other table, with Cassandra's columns and ids. The other tables of `system` and those of
//! `system_distributed` exist for clients that query them, and are empty: peers, repairs and hints
//! are not supported.

pub(crate) mod definitions;
pub(crate) mod encode;
pub(crate) mod expiring_row;
pub(crate) mod local;
pub(crate) mod schema_rows;

use std::collections::BTreeMap;
use std::sync::Arc;

use cassette_rows::schema::CompactionParams;
use cassette_rows::{TableMetadata, TableParams};

use crate::schema::catalog::{Keyspace, KeyspaceKind, KeyspaceParams, Replication};
use crate::schema::options::own_table;
use definitions::Definition;

/// The keyspace of the schema tables.
pub(crate) const SCHEMA: &str = "system_schema";
/// The keyspace of `local` and `peers`.
pub(crate) const SYSTEM: &str = "system";
/// The keyspace of traces.
pub(crate) const SYSTEM_TRACES: &str = "system_traces";
/// The keyspace of roles and permissions.
pub(crate) const SYSTEM_AUTH: &str = "system_auth";

/// The keyspace that exists only in servers for tests.
pub(crate) const TESTING: &str = "system_testing";

/// The table of roles.
pub(crate) const ROLES: &str = "roles";
/// The table of the roles of clients' certificates.
pub(crate) const IDENTITY_TO_ROLE: &str = "identity_to_role";
/// The table of the members of roles.
pub(crate) const ROLE_MEMBERS: &str = "role_members";
/// The table of permissions by role.
pub(crate) const ROLE_PERMISSIONS: &str = "role_permissions";
/// The table of roles by resource; Cassandra spells its name so.
pub(crate) const RESOURCE_INDEX: &str = "resource_role_permissons_index";
/// The table of the data centers that roles can use.
pub(crate) const NETWORK_PERMISSIONS: &str = "network_permissions";
/// The table of the CIDR groups that roles can connect from.
pub(crate) const CIDR_PERMISSIONS: &str = "cidr_permissions";
/// The table of the CIDRs of groups.
pub(crate) const CIDR_GROUPS: &str = "cidr_groups";

/// The table of completed compactions.
pub(crate) const COMPACTION_HISTORY: &str = "compaction_history";
/// The table of statements that clients prepared.
pub(crate) const PREPARED_STATEMENTS: &str = "prepared_statements";
/// The table of views that are built.
pub(crate) const BUILT_VIEWS: &str = "built_views";
/// The table of views that are being built.
pub(crate) const VIEW_BUILDS: &str = "view_builds_in_progress";
/// The table of indexes that are built.
pub(crate) const INDEX_INFO: &str = "IndexInfo";

/// Whether schema changes write to a table: those of the schema itself, and those with the build
/// progress of indexes and views, whose names earlier ones may have had.
pub(crate) fn is_schema(table: &TableMetadata) -> bool {
    let notes = [INDEX_INFO, BUILT_VIEWS, VIEW_BUILDS];
    table.keyspace == SCHEMA || (table.keyspace == SYSTEM && notes.contains(&table.name.as_str()))
}

/// Whether a keyspace is one of the database's own.
pub(crate) fn is_system(keyspace: &str) -> bool {
    [SYSTEM, SCHEMA, SYSTEM_TRACES, SYSTEM_AUTH, "system_distributed"].contains(&keyspace)
}

/// Whether a keyspace comes with the database, stored or virtual.
pub(crate) fn comes_with_database(keyspace: &str) -> bool {
    is_system(keyspace) || ["system_views", "system_virtual_schema", TESTING].contains(&keyspace)
}

/// `system` and `system_schema`.
pub(crate) fn local_keyspaces() -> Vec<Keyspace> {
    let params = || KeyspaceParams { durable_writes: true, replication: Replication::local() };
    let seven_days = 7 * 24 * 60 * 60;
    let mut system = keyspace(SYSTEM, KeyspaceKind::Local, params(), definitions::SYSTEM, 0);
    // Only these tables are stored.
    system.virtual_tables.remove("local");
    for name in [INDEX_INFO, BUILT_VIEWS, VIEW_BUILDS, COMPACTION_HISTORY, PREPARED_STATEMENTS] {
        system.virtual_tables.remove(name);
    }
    let mut schema = keyspace(SCHEMA, KeyspaceKind::Local, params(), definitions::SYSTEM_SCHEMA, seven_days);
    schema.virtual_tables.clear();
    vec![system, schema]
}

/// Returns `system_auth`, `system_distributed` and `system_traces` with their initial replication.
pub(crate) fn replicated_keyspaces() -> Vec<Keyspace> {
    let make = |name, tables, factor, gc_grace_seconds| {
        let params = KeyspaceParams { durable_writes: true, replication: Replication::simple(factor) };
        keyspace(name, KeyspaceKind::Replicated, params, tables, gc_grace_seconds)
    };
    let mut traces = make(SYSTEM_TRACES, definitions::SYSTEM_TRACES, 2, 0);
    traces.virtual_tables.clear();
    let mut auth = make(SYSTEM_AUTH, definitions::SYSTEM_AUTH, 1, 90 * 24 * 60 * 60);
    auth.virtual_tables.clear();
    vec![auth, make("system_distributed", definitions::SYSTEM_DISTRIBUTED, 3, 10 * 24 * 60 * 60), traces]
}

fn keyspace(
    name: &str,
    kind: KeyspaceKind,
    params: KeyspaceParams,
    tables: &[Definition],
    gc_grace_seconds: u32,
) -> Keyspace {
    let mut keyspace = Keyspace::new(name, kind, params);
    let hour_in_ms = 60 * 60 * 1000;
    for definition in tables {
        let table = own_table(name, definition.cql);
        let mut params = TableParams {
            comment: definition.comment.to_owned(),
            gc_grace_seconds,
            memtable_flush_period_in_ms: if kind == KeyspaceKind::Local { hour_in_ms } else { 0 },
            default_time_to_live: definition.default_time_to_live,
            ..table.params.clone()
        };
        if let Some((class, options)) = definition.compaction {
            let options = options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
            params.compaction = CompactionParams { class: class.to_owned(), options: options.collect() };
        }
        let mut table = table;
        table.params = params;
        let table = Arc::new(table);
        keyspace.virtual_tables.insert(table.name.clone());
        keyspace.tables.insert(table.name.clone(), table);
    }
    keyspace
}

/// Names and values of a map option, as stored.
pub(crate) type TextMap = BTreeMap<String, String>;
