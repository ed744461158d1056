//! DDL: what a schema statement makes of the catalog.
//!
//! Deciding is pure: each statement's module takes the catalog and gives a [`Change`], or nothing when there is nothing
//! to do. Doing is [`commit`]'s: rows of `system_schema`, the engine's tables, the new catalog, the event.

mod absent;
mod alter_table;
pub(crate) mod commit;
mod create_table;
mod events;
mod indexes;
mod keyspaces;

#[cfg(test)]
mod tests;
mod user_types;
mod views;
#[cfg(test)]
mod wide_tests;

use std::sync::Arc;

use cassette_cql::ast::Statement;
use cassette_rows::TableParams;
use uuid::Uuid;

use crate::basics::error::{DatabaseError, Result, bail_invalid};
use crate::basics::response::{Outcome, SchemaChange, SchemaChangeKind, SchemaChangeTarget};
use crate::execution::Execution;
use crate::planning::context::PlanContext;
use crate::schema::catalog::{Catalog, Keyspace, KeyspaceKind};
use crate::schema::guardrails::Guard;

/// The longest name of a keyspace.
const KEYSPACE_NAME_LENGTH: usize = 48;

/// A schema statement, and the keyspace it changes.
#[derive(Debug)]
pub(crate) struct SchemaStatement {
    statement: Statement,
    keyspace: String,
}

/// What deciding looks at.
pub(crate) struct SchemaContext<'a> {
    /// The catalog to change.
    pub catalog: &'a Catalog,
    /// The one data center, `data_center` of `system.local`.
    pub data_center: &'a str,
    /// When the change is made, microseconds: the write time of its rows, and of dropped columns.
    pub timestamp: i64,
    /// The id of a table to create, unless the statement gives one.
    pub new_id: Uuid,
    /// `materialized_views_enabled`.
    pub materialized_views_enabled: bool,
    /// The options of a table to create, where the statement gives none.
    pub default_params: &'a TableParams,
    /// The guardrails, and where their warnings go.
    pub guard: Guard<'a>,
}

/// What a statement makes of the catalog.
#[derive(Debug)]
pub(crate) struct Change {
    /// The keyspace that changes.
    pub keyspace: KeyspaceChange,
    /// What the client that asked is told. Those that listen are told of all that changed: [`events`].
    pub event: SchemaChange,
    /// What the client that asked is warned of.
    pub warnings: Vec<String>,
}

/// A changed keyspace.
#[derive(Debug)]
pub(crate) enum KeyspaceChange {
    /// It is there, like this.
    Put(Keyspace),
    /// It is gone.
    Drop(String),
}

impl SchemaStatement {
    /// Finds the keyspace; other names are looked up when it runs, under the schema's lock.
    pub fn new(statement: &Statement, cx: &mut PlanContext<'_>) -> Result<Self> {
        if let Some(error) = absent::refuse_roles(statement) {
            return Err(error);
        }
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
            Statement::DropFunction(drop) | Statement::DropAggregate(drop) => cx.keyspace_of(&drop.name)?,
            Statement::DropTrigger(drop) => cx.keyspace_of(&drop.table)?,
            other => return Err(DatabaseError::not_supported(unsupported(other))),
        };
        Ok(Self { statement: statement.clone(), keyspace: keyspace.to_owned() })
    }

    /// What it makes of the catalog; `None` when nothing changes, as with `IF NOT EXISTS` of what exists.
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
            Statement::DropFunction(drop) => absent::drop_function(drop, keyspace, "Function"),
            Statement::DropAggregate(drop) => absent::drop_function(drop, keyspace, "Aggregate"),
            Statement::DropTrigger(drop) => absent::drop_trigger(drop, keyspace),
            other => Err(DatabaseError::not_supported(unsupported(other))),
        }
    }
}

/// Changes the schema: durable before it returns.
pub(crate) fn change(statement: &SchemaStatement, execution: &Execution<'_>) -> Result<Outcome> {
    let change = commit::change_schema(execution, |cx| {
        refuse_own_keyspace(statement, cx.catalog)?;
        validate_keyspace_name(&statement.keyspace)?;
        statement.decide(cx)
    })?;
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

/// Refuses changes of the keyspaces that the database itself depends on.
fn refuse_own_keyspace(statement: &SchemaStatement, catalog: &Catalog) -> Result<()> {
    let name = &statement.keyspace;
    // Whatever the case: directories might differ by it alone.
    let kind = catalog.keyspace(&name.to_lowercase()).map(|keyspace| keyspace.kind);
    match (kind, &statement.statement) {
        // Nobody has asked for permissions on a keyspace that is still to be made, so this is found out later.
        // Nor on an index or a function, which these keyspaces do not have.
        (
            Some(KeyspaceKind::Local | KeyspaceKind::Virtual),
            Statement::CreateKeyspace(_)
            | Statement::DropIndex(_)
            | Statement::DropFunction(_)
            | Statement::DropAggregate(_),
        ) => {
            bail_invalid!("System keyspace '{name}' is not user-modifiable")
        }
        (Some(KeyspaceKind::Local | KeyspaceKind::Virtual), _) => {
            Err(DatabaseError::Unauthorized(format!("{name} keyspace is not user-modifiable.")))
        }
        // Only their replication is the user's to alter: what they hold is the database's.
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

/// The permission that a change of a keyspace's elements takes, and on which table; `None` for what nobody is asked for: what
/// concerns the keyspace itself, or what is not there to be dropped.
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
            "Keyspace name must not be empty and must contain alphanumeric or underscore characters only (got \"{name}\")"
        );
    }
    if name.len() > KEYSPACE_NAME_LENGTH {
        bail_invalid!(
            "Keyspace name must not be more than {KEYSPACE_NAME_LENGTH} characters long (got {} characters for \"{name}\")",
            name.len()
        );
    }
    Ok(())
}

/// Java's `\w+`: what may be part of a directory's name.
fn is_word(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// The keyspace that a CREATE adds to.
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
    }
}

/// What a statement is about that is not there yet, as the beginning of a sentence.
fn unsupported(statement: &Statement) -> &'static str {
    match statement {
        Statement::CreateFunction(_) => "User-defined functions are",
        Statement::CreateAggregate(_) => "User-defined aggregates are",
        Statement::CreateTrigger(_) => "Triggers are",
        _ => "This statement is",
    }
}
