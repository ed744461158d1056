//! The permissions that a plan needs, and their check before each execution.
//!
//! A plan names them and nothing else: what the caller is permitted can change between two
//! executions, and does so at once.

use std::sync::Arc;

use cassette_cql::ast::Permission;
use cassette_rows::TableMetadata;
use smallvec::SmallVec;

use crate::basics::error::{DatabaseError, Result};
use crate::basics::request::{Caller, StatementOptions};
use crate::planning::context::Masks;
use crate::planning::functions::UsedFunction;
use crate::planning::modification::ModificationPlan;
use crate::schema::authorization::{Resource, is_readable_by_everyone};
use crate::schema::catalog::Catalog;
use crate::schema::system::TESTING;
use crate::statements::plan::{Plan, Planned};
use crate::statements::roles::Performer;
use crate::store::Store;

/// What a plan needs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Required<'a> {
    /// A permission on a resource or on one that contains it.
    Permission(Permission, Resource<'a>),
    /// A permission on a function of a keyspace, by the name of its resource.
    Function(Permission, &'a str, String),
    /// UNMASK or SELECT_MASKED on a table or view, because these columns determine which rows are
    /// read.
    MaskedColumns(&'a TableMetadata, &'a [String]),
    /// A superuser; with the error for others.
    Superuser(&'static str),
}

/// The list of what a plan needs: mostly one permission.
pub(crate) type RequiredList<'a> = SmallVec<[Required<'a>; 2]>;

impl Plan {
    /// Returns what executing the plan needs, in the order in which Cassandra checks it. Statements
    /// on roles are not included: they check the roles under their lock.
    ///
    /// # Errors
    /// Unauthorized, for a change of the database's own keyspaces, which no role is permitted.
    pub fn required<'a>(&'a self, catalog: &'a Catalog) -> Result<RequiredList<'a>> {
        let mut required = RequiredList::new();
        match self {
            Self::Select(select) => {
                let table = select.table();
                if !is_readable_by_everyone(&table.keyspace, &table.name) {
                    required.push(on_table(Permission::Select, shown_table(table, catalog)));
                }
                if !select.masked_restrictions.is_empty() {
                    required.push(Required::MaskedColumns(table, &select.masked_restrictions));
                }
            }
            Self::Modification(modification) => modification_needs(modification, catalog, &mut required),
            Self::Batch(batch) => {
                for modification in batch.statements() {
                    modification_needs(modification, catalog, &mut required);
                }
            }
            Self::Truncate(table) => required.push(on_table(Permission::Modify, table)),
            Self::Schema(statement) => statement.required(catalog, &mut required)?,
            Self::Use(_) | Self::Describe(_) | Self::Roles(_) => {}
        }
        Ok(required)
    }

    /// Whether it uses a table that controls a server in tests.
    fn is_on_testing(&self) -> bool {
        match self {
            Self::Select(select) => select.table().keyspace == TESTING,
            Self::Modification(modification) => modification.table().keyspace == TESTING,
            Self::Batch(batch) => batch.statements().iter().any(|each| each.table().keyspace == TESTING),
            Self::Truncate(table) => table.keyspace == TESTING,
            Self::Schema(_) | Self::Use(_) | Self::Describe(_) | Self::Roles(_) => false,
        }
    }

    /// Returns the table or view with masks that it reads.
    fn masked_table(&self) -> Option<&TableMetadata> {
        let table = match self {
            Self::Select(select) => select.table(),
            // Results of conditional writes contain current values.
            Self::Modification(modification) => modification.table(),
            Self::Batch(batch) => batch.statements().first()?.table(),
            _ => return None,
        };
        Some(&**table).filter(|table| table.has_masks())
    }
}

/// Checks that the caller is permitted to execute a plan. Returns whether masks apply to its
/// results.
///
/// # Errors
/// Unauthorized; WouldBlock, if the permissions are not in memory and this thread may not wait.
pub(crate) fn authorize(
    store: &Arc<Store>,
    planned: &Planned,
    catalog: &Catalog,
    options: &StatementOptions,
) -> Result<Masks> {
    if let Caller::Role(role) = &options.caller {
        store.check_data_center(role)?;
        if let Some(address) = options.client_address {
            store.check_address(role, address)?;
        }
        if store.is_for_tests() && planned.plan.is_on_testing() && !store.is_superuser(role)? {
            // Independent of the authorizer: these tables control what all clients observe.
            return Err(DatabaseError::Unauthorized(
                "Only superusers are allowed to use system_testing".to_owned(),
            ));
        }
    }
    if !store.authorization().settings().permissions {
        return Ok(Masks::Lifted);
    }
    let role = match &options.caller {
        Caller::Program => return Ok(Masks::Lifted),
        Caller::Anonymous => return Err(DatabaseError::Unauthorized("You have not logged in".to_owned())),
        Caller::Role(role) => role,
    };
    let performer = Performer::role(store, role);
    if store.granted(role)?.is_superuser() {
        return Ok(Masks::Lifted);
    }
    let functions = planned.functions.iter().flat_map(UsedFunction::resources);
    let functions = functions.map(|(keyspace, name)| Required::Function(Permission::Execute, keyspace, name));
    let plan = &planned.plan;
    for required in plan.required(catalog)?.into_iter().chain(functions) {
        match required {
            Required::Permission(permission, resource) => performer.require(permission, resource)?,
            Required::Function(permission, keyspace, name) => {
                performer.require(permission, Resource::Function(keyspace, &name))?;
            }
            Required::MaskedColumns(table, columns) => {
                require_for_masked(&performer, role, table, columns)?;
            }
            Required::Superuser(message) => return Err(DatabaseError::Unauthorized(message.to_owned())),
        }
    }
    match plan.masked_table() {
        Some(table) if store.dynamic_data_masking_enabled() => {
            let resource = Resource::Table(&table.keyspace, &table.name);
            let is_lifted = performer.permits(Permission::Unmask, resource)?;
            Ok(if is_lifted { Masks::Lifted } else { Masks::Applied })
        }
        _ => Ok(Masks::Lifted),
    }
}

/// Checks the permission to find rows by columns with a mask: their values follow from which rows
/// are found.
fn require_for_masked(
    performer: &Performer<'_>,
    role: &str,
    table: &TableMetadata,
    columns: &[String],
) -> Result<()> {
    let resource = Resource::Table(&table.keyspace, &table.name);
    for permission in [Permission::Unmask, Permission::SelectMasked] {
        if performer.permits(permission, resource)? {
            return Ok(());
        }
    }
    Err(DatabaseError::Unauthorized(format!(
        "User {role} has no UNMASK nor SELECT_MASKED permission on table {}, cannot query masked columns [{}]",
        table.qualified_name(),
        columns.join(", ")
    )))
}

/// Adds what a modification needs. One of a table with views reads it and writes the views.
fn modification_needs<'a>(
    modification: &'a ModificationPlan,
    catalog: &'a Catalog,
    required: &mut RequiredList<'a>,
) {
    let table = modification.table();
    let before = required.len();
    required.push(on_table(Permission::Modify, table));
    let views = catalog.views_of(table.id);
    if modification.has_conditions() || !views.is_empty() {
        required.push(on_table(Permission::Select, table));
    }
    required.extend(views.iter().map(|view| on_table(Permission::Modify, &view.table)));
    // A batch of one table needs its permissions once.
    if before > 0 && required.get(..before).is_some_and(|first| first.ends_with(&required[before..])) {
        required.truncate(before);
    }
}

/// Returns the table itself, or the base table of a view: permissions on a view are those on it.
fn shown_table<'a>(table: &'a TableMetadata, catalog: &'a Catalog) -> &'a TableMetadata {
    let keyspace = catalog.keyspace(&table.keyspace);
    match keyspace.and_then(|keyspace| keyspace.views.get(&table.name)) {
        Some(view) => &view.base,
        None => table,
    }
}

fn on_table(permission: Permission, table: &TableMetadata) -> Required<'_> {
    Required::Permission(permission, Resource::Table(&table.keyspace, &table.name))
}
