//! DDL: the changes of the catalog by schema statements.
//!
//! Decisions are pure: the module of each statement computes a [`Change`] from the catalog, or
//! nothing if there is nothing to do. [`commit`] executes it: rows of `system_schema`, the engine's
//! tables, the new catalog, the event.

pub(crate) mod absent;
pub(crate) mod aggregates;
mod alter_table;
pub(crate) mod commit;
mod create_table;
mod events;
mod functions;
mod indexes;
mod keyspaces;
mod masks;
mod permissions;

#[cfg(test)]
mod tests;
mod user_types;
mod views;
#[cfg(test)]
mod wide_tests;

use std::sync::Arc;

use cassette_cql::ast::Statement;
use cassette_functions::Functions;
use cassette_rows::TableParams;
use uuid::Uuid;

use crate::basics::error::{DatabaseError, Result, bail_invalid};
use crate::basics::response::{Outcome, SchemaChange, SchemaChangeKind, SchemaChangeTarget};
use crate::execution::Execution;
use crate::planning::context::{BindContext, PlanContext};
use crate::schema::catalog::{Catalog, Keyspace, KeyspaceKind};
use crate::schema::guardrails::Guard;
use crate::schema::is_word;
use crate::schema::options::replication::DataCenters;
use crate::schema::system::TESTING;

/// The maximum length of a keyspace name.
const KEYSPACE_NAME_LENGTH: usize = 48;

/// A schema statement, and the keyspace that it changes.
#[derive(Debug)]
pub(crate) struct SchemaStatement {
    statement: Statement,
    keyspace: String,
}

/// The inputs of a decision.
pub(crate) struct SchemaContext<'a> {
    /// The current catalog.
    pub catalog: &'a Catalog,
    /// The data centers of the cluster.
    pub data_centers: DataCenters,
    /// The time of the change, microseconds: the write timestamp of its rows, and the drop time of
    /// columns.
    pub timestamp: i64,
    /// The id of a new table, unless the statement specifies one.
    pub new_id: Uuid,
    /// `materialized_views_enabled`.
    pub materialized_views_enabled: bool,
    /// `dynamic_data_masking_enabled`.
    pub dynamic_data_masking_enabled: bool,
    /// `sasi_indexes_enabled`.
    pub sasi_indexes_enabled: bool,
    /// `drop_compact_storage_enabled`.
    pub drop_compact_storage_enabled: bool,
    /// The user-defined functions of the database, compiled.
    pub functions: &'a Functions,
    /// The execution, for the values of arguments of masks and INITCOND.
    pub bound: &'a BindContext<'a>,
    /// The options of a new table that the statement omits.
    pub default_params: &'a TableParams,
    /// The guardrails, which collect warnings.
    pub guard: Guard<'a>,
}

/// The change of the catalog by a statement.
#[derive(Debug)]
pub(crate) struct Change {
    /// The keyspace that changes.
    pub keyspace: KeyspaceChange,
    /// The event for the client of the statement. Listeners receive all [`events`].
    pub event: SchemaChange,
    /// Warnings for the client of the statement.
    pub warnings: Vec<String>,
}

/// A changed keyspace.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "one exists for each schema change")]
pub(crate) enum KeyspaceChange {
    /// The keyspace is created or replaced.
    Put(Keyspace),
    /// The keyspace is dropped.
    Drop(String),
}

impl SchemaStatement {
    /// Resolves the keyspace; other names are resolved at execution, under the schema lock.
    pub fn new(statement: &Statement, cx: &mut PlanContext<'_>) -> Result<Self> {
        let keyspace = match statement {
            Statement::CreateKeyspace(create) => create.name.as_str(),
            Statement::AlterKeyspace(alter) => alter.name.as_str(),
            Statement::DropKeyspace(drop) => drop.name.as_str(),
            Statement::CreateTable(create) => cx.keyspace_of(&create.name)?,
            Statement::AlterTable(alter) => cx.keyspace_of(&alter.name)?,
            Statement::DropTable(drop) => cx.keyspace_of(&drop.name)?,
            Statement::CreateIndex(create) => cx.keyspace_of(&create.table)?,
            Statement::DropIndex(drop) => cx.keyspace_of(&drop.name)?,
            Statement::CreateView(create) => cx.keyspace_of(&create.name)?,
            Statement::AlterView(alter) => cx.keyspace_of(&alter.name)?,
            Statement::DropView(drop) => cx.keyspace_of(&drop.name)?,
            Statement::CreateType(create) => cx.keyspace_of(&create.name)?,
            Statement::AlterType(alter) => cx.keyspace_of(&alter.name)?,
            Statement::DropType(drop) => cx.keyspace_of(&drop.name)?,
            Statement::CreateFunction(create) => cx.keyspace_of(&create.name)?,
            Statement::CreateAggregate(create) => cx.keyspace_of(&create.name)?,
            Statement::DropFunction(drop) | Statement::DropAggregate(drop) => cx.keyspace_of(&drop.name)?,
            Statement::DropTrigger(drop) => cx.keyspace_of(&drop.table)?,
            other => return Err(DatabaseError::not_supported(unsupported(other))),
        };
        Ok(Self { statement: statement.clone(), keyspace: keyspace.to_owned() })
    }

    /// Returns the change of the catalog; `None` if nothing changes, as with `IF NOT EXISTS` of an
    /// existing object.
    fn decide(&self, cx: &SchemaContext<'_>) -> Result<Option<Change>> {
        let keyspace = &self.keyspace;
        match &self.statement {
            Statement::CreateKeyspace(create) => keyspaces::create(create, cx),
            Statement::AlterKeyspace(alter) => keyspaces::alter(alter, cx),
            Statement::DropKeyspace(drop) => keyspaces::drop(drop, cx),
            Statement::CreateTable(create) => create_table::create(create, keyspace, cx),
            Statement::AlterTable(alter) => alter_table::alter(alter, keyspace, cx),
            Statement::DropTable(drop) => alter_table::drop(drop, keyspace, cx),
            Statement::CreateIndex(create) => indexes::create(create, keyspace, cx),
            Statement::DropIndex(drop) => indexes::drop(drop, keyspace, cx),
            Statement::CreateView(create) => views::create(create, keyspace, cx),
            Statement::AlterView(alter) => views::alter(alter, keyspace, cx),
            Statement::DropView(drop) => views::drop(drop, keyspace, cx),
            Statement::CreateType(create) => user_types::create(create, keyspace, cx),
            Statement::AlterType(alter) => user_types::alter(alter, keyspace, cx),
            Statement::DropType(drop) => user_types::drop(drop, keyspace, cx),
            Statement::CreateFunction(create) => functions::create(create, keyspace, cx),
            Statement::DropFunction(drop) => functions::drop(drop, keyspace, cx),
            Statement::CreateAggregate(create) => aggregates::create(create, keyspace, cx),
            Statement::DropAggregate(drop) => aggregates::drop(drop, keyspace, cx),
            Statement::DropTrigger(drop) => absent::drop_trigger(drop, keyspace),
            other => Err(DatabaseError::not_supported(unsupported(other))),
        }
    }
}

/// Executes a schema change, which is durable when this returns.
pub(crate) fn change(statement: &SchemaStatement, execution: &Execution<'_>) -> Result<Outcome> {
    let decide = |cx: &SchemaContext<'_>| {
        refuse_own_keyspace(statement, cx.catalog)?;
        validate_keyspace_name(&statement.keyspace)?;
        statement.decide(cx)
    };
    let permissions =
        |event: &SchemaChange, timestamp| statement.permission_changes(event, execution, timestamp);
    let change = commit::change_schema(execution, decide, permissions)?;
    Ok(match change {
        Some((event, warnings)) => {
            warnings.into_iter().for_each(|warning| execution.warn(warning));
            Outcome::SchemaChange(event)
        }
        None => {
            if matches!(statement.statement, Statement::CreateView(_)) {
                execution.warn(views::WARNING);
            }
            Outcome::Void
        }
    })
}

/// Rejects changes of the keyspaces that the database itself uses.
fn refuse_own_keyspace(statement: &SchemaStatement, catalog: &Catalog) -> Result<()> {
    let name = &statement.keyspace;
    // Independent of case: directories could differ only in it.
    let kind = catalog.keyspace(&name.to_lowercase()).map(|keyspace| keyspace.kind);
    if name.eq_ignore_ascii_case(TESTING) && matches!(statement.statement, Statement::CreateKeyspace(_)) {
        bail_invalid!("System keyspace '{name}' is not user-modifiable");
    }
    match (kind, &statement.statement) {
        // Cassandra checks no permissions on a keyspace that does not exist yet, so the error comes
        // later. The same applies to indexes and functions, which these keyspaces lack.
        (
            Some(KeyspaceKind::Local | KeyspaceKind::Virtual),
            Statement::CreateKeyspace(_) | Statement::DropIndex(_),
        )
        | (
            Some(KeyspaceKind::Local | KeyspaceKind::Virtual | KeyspaceKind::Replicated),
            Statement::CreateFunction(_)
            | Statement::DropFunction(_)
            | Statement::CreateAggregate(_)
            | Statement::DropAggregate(_),
        ) => {
            bail_invalid!("System keyspace '{name}' is not user-modifiable")
        }
        (Some(KeyspaceKind::Local | KeyspaceKind::Virtual), _) => {
            Err(DatabaseError::Unauthorized(format!("{name} keyspace is not user-modifiable.")))
        }
        // Users can alter only their replication.
        (Some(KeyspaceKind::Replicated), statement) => match permission_needed(statement) {
            Some((permission, resource)) => {
                let resource = match resource {
                    Some(table) => format!("table {name}.{table}"),
                    None if matches!(statement, Statement::DropKeyspace(_)) => format!("keyspace {name}"),
                    None => format!("all tables in {name}"),
                };
                Err(DatabaseError::Unauthorized(format!("Cannot {permission} <{resource}>")))
            }
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

/// Returns the permission that a change of a keyspace's elements requires, and on which table;
/// `None` if no permission is checked: for changes of the keyspace itself, and for objects that do
/// not exist.
fn permission_needed(statement: &Statement) -> Option<(&'static str, Option<&str>)> {
    match statement {
        Statement::CreateTable(_) | Statement::CreateType(_) => Some(("CREATE", None)),
        Statement::AlterType(_) => Some(("ALTER", None)),
        Statement::DropKeyspace(_) | Statement::DropType(_) => Some(("DROP", None)),
        Statement::AlterTable(alter) => Some(("ALTER", Some(alter.name.name.as_str()))),
        Statement::DropTable(drop) => Some(("DROP", Some(drop.name.name.as_str()))),
        Statement::CreateIndex(create) => Some(("ALTER", Some(create.table.name.as_str()))),
        Statement::CreateView(create) => Some(("ALTER", Some(create.base_table.name.as_str()))),
        _ => None,
    }
}

fn validate_keyspace_name(name: &str) -> Result<()> {
    if !is_word(name) {
        bail_invalid!(
            "Keyspace name must not be empty and must contain alphanumeric or underscore characters only \
             (got \"{name}\")"
        );
    }
    if name.len() > KEYSPACE_NAME_LENGTH {
        bail_invalid!(
            "Keyspace name must not be more than {KEYSPACE_NAME_LENGTH} characters long (got {} characters \
             for \"{name}\")",
            name.len()
        );
    }
    Ok(())
}

/// Returns the keyspace that a CREATE adds to.
fn keyspace_to_change<'a>(name: &str, cx: &SchemaContext<'a>) -> Result<&'a Arc<Keyspace>> {
    match cx.catalog.keyspace(name) {
        Some(keyspace) => Ok(keyspace),
        None => bail_invalid!("Keyspace '{name}' doesn't exist"),
    }
}

impl Change {
    /// Returns the change of a table, view or index of the keyspace `after`.
    fn of_table(kind: SchemaChangeKind, after: Keyspace, name: &str) -> Self {
        let event = table_event(kind, &after.name, name);
        Self { keyspace: KeyspaceChange::Put(after), event, warnings: Vec::new() }
    }
}

fn table_event(kind: SchemaChangeKind, keyspace: &str, name: &str) -> SchemaChange {
    SchemaChange {
        kind,
        target: SchemaChangeTarget::Table,
        keyspace: keyspace.to_owned(),
        name: name.to_owned(),
        arguments: Vec::new(),
    }
}

/// Returns the unsupported feature of a statement, as the beginning of a sentence.
fn unsupported(statement: &Statement) -> &'static str {
    match statement {
        Statement::CreateTrigger(_) => "Triggers are",
        _ => "This statement is",
    }
}
