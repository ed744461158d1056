//! The permissions that schema statements need, and what becomes of permissions when what they were
//! granted on is created or dropped.

use cassette_cql::ast::{Permission, Statement};
use cassette_engine::Mutation;

use super::{SchemaStatement, refuse_own_keyspace};
use crate::basics::error::Result;
use crate::basics::request::Caller;
use crate::basics::response::{SchemaChange, SchemaChangeKind, SchemaChangeTarget};
use crate::execution::Execution;
use crate::schema::authorization::Resource;
use crate::schema::catalog::Catalog;
use crate::statements::required::{Required, RequiredList};

impl SchemaStatement {
    /// Adds what the statement needs. A statement on an index, a view or a function that does not
    /// exist needs nothing, and fails when it is executed.
    ///
    /// # Errors
    /// Unauthorized, for the database's own keyspaces.
    pub fn required<'a>(&'a self, catalog: &'a Catalog, required: &mut RequiredList<'a>) -> Result<()> {
        if !matches!(self.statement, Statement::CreateKeyspace(_)) {
            refuse_own_keyspace(self, catalog)?;
        }
        let keyspace = self.keyspace.as_str();
        let base_of_view = |view: &str| {
            let view = catalog.keyspace(keyspace)?.views.get(view)?;
            Some(Resource::Table(keyspace, &view.base.name))
        };
        let needed = match &self.statement {
            Statement::CreateKeyspace(_) => Some((Permission::Create, Resource::AllKeyspaces)),
            Statement::AlterKeyspace(_) => Some((Permission::Alter, Resource::Keyspace(keyspace))),
            Statement::DropKeyspace(_) => Some((Permission::Drop, Resource::Keyspace(keyspace))),
            Statement::CreateTable(_) | Statement::CreateType(_) => {
                Some((Permission::Create, Resource::AllTables(keyspace)))
            }
            Statement::AlterType(_) => Some((Permission::Alter, Resource::AllTables(keyspace))),
            Statement::DropType(_) => Some((Permission::Drop, Resource::AllTables(keyspace))),
            Statement::AlterTable(alter) => {
                Some((Permission::Alter, Resource::Table(keyspace, &alter.name.name)))
            }
            Statement::DropTable(drop) => {
                Some((Permission::Drop, Resource::Table(keyspace, &drop.name.name)))
            }
            Statement::CreateIndex(create) => {
                Some((Permission::Alter, Resource::Table(keyspace, &create.table.name)))
            }
            Statement::DropIndex(drop) => {
                let index = catalog.keyspace(keyspace).and_then(|own| own.indexes.get(&*drop.name.name));
                index.map(|index| (Permission::Alter, Resource::Table(keyspace, &index.base.name)))
            }
            Statement::CreateView(create) => {
                Some((Permission::Alter, Resource::Table(keyspace, &create.base_table.name)))
            }
            Statement::AlterView(alter) => {
                base_of_view(&alter.name.name).map(|base| (Permission::Alter, base))
            }
            Statement::DropView(drop) => base_of_view(&drop.name.name).map(|base| (Permission::Alter, base)),
            Statement::DropTrigger(_) => {
                // The typing error is Cassandra's.
                let message = "Only superusers are allowed to perfrom DROP TRIGGER queries";
                required.push(Required::Superuser(message));
                None
            }
            _ => None,
        };
        required.extend(needed.map(|(permission, resource)| Required::Permission(permission, resource)));
        Ok(())
    }

    /// Returns the changes of permissions that belong to a change of the schema: grants to the
    /// caller of all permissions on a created keyspace or table, and revocations of all on what was
    /// dropped, lest another of the same name inherits them. The caller has locked the roles.
    pub(super) fn permission_changes(
        &self,
        event: &SchemaChange,
        execution: &Execution<'_>,
        timestamp: i64,
    ) -> Result<Vec<Mutation>> {
        let (store, keyspace) = (execution.store, event.keyspace.as_str());
        if event.kind == SchemaChangeKind::Dropped {
            return match event.target {
                SchemaChangeTarget::Keyspace => {
                    store.revoke_all_on(|resource| is_within(resource, keyspace), timestamp)
                }
                SchemaChangeTarget::Table => {
                    let dropped = Resource::Table(keyspace, &event.name).name();
                    store.revoke_all_on(|resource| resource == dropped, timestamp)
                }
                SchemaChangeTarget::Type => Ok(Vec::new()),
            };
        }
        let Caller::Role(creator) = &execution.options.caller else { return Ok(Vec::new()) };
        let created: &[Resource<'_>] = match &self.statement {
            _ if !store.authorization().settings().permissions => &[],
            Statement::CreateKeyspace(_) => &[Resource::Keyspace(keyspace), Resource::FunctionsIn(keyspace)],
            Statement::CreateTable(_) => &[Resource::Table(keyspace, &event.name)],
            _ => &[],
        };
        let mut mutations = Vec::new();
        for resource in created {
            mutations.extend(store.grant(creator, *resource, resource.applicable(), timestamp)?);
        }
        Ok(mutations)
    }
}

/// Returns whether a resource is a keyspace or something in it, given its stored name.
fn is_within(resource: &str, keyspace: &str) -> bool {
    match Resource::parse(resource) {
        Some(Resource::FunctionsIn(name) | Resource::Function(name, _)) => name == keyspace,
        Some(resource) => resource.data_keyspace() == Some(keyspace),
        None => false,
    }
}
