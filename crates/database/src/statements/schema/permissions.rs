//! The permissions that schema statements need, and what becomes of permissions when what they were
//! granted on is created or dropped.

use cassette_cql::ast::{CqlType, Permission, Statement};
use cassette_engine::Mutation;

use super::{SchemaStatement, refuse_own_keyspace};
use crate::basics::error::Result;
use crate::basics::request::Caller;
use crate::basics::response::{SchemaChange, SchemaChangeKind, SchemaChangeTarget};
use crate::execution::Execution;
use crate::schema::authorization::Resource;
use crate::schema::catalog::{Catalog, TypeUse, resolve_type};
use crate::schema::functions::{Signature, resource_name};
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
            _ => {
                self.required_of_functions(catalog, required);
                None
            }
        };
        required.extend(needed.map(|(permission, resource)| Required::Permission(permission, resource)));
        Ok(())
    }

    /// Adds what a statement on functions and aggregates needs.
    fn required_of_functions<'a>(&'a self, catalog: &'a Catalog, required: &mut RequiredList<'a>) {
        let keyspace = self.keyspace.as_str();
        match &self.statement {
            Statement::CreateFunction(create) => {
                let types = create.arguments.iter().map(|(_, raw)| raw);
                self.required_to_create(&create.name.name, types, create.or_replace, catalog, required);
            }
            Statement::CreateAggregate(create) => {
                let types = create.arguments.iter();
                self.required_to_create(
                    &create.name.name,
                    types.clone(),
                    create.or_replace,
                    catalog,
                    required,
                );
                let state = std::iter::once(&create.state_type);
                required.extend(self.execute(&create.state_function, state.clone().chain(types), catalog));
                if let Some(function) = &create.final_function {
                    required.extend(self.execute(function, state, catalog));
                }
            }
            Statement::DropFunction(drop) | Statement::DropAggregate(drop) => {
                let types =
                    drop.arguments.as_ref().map(|types| self.resource(&drop.name.name, types, catalog));
                for name in resources_named(keyspace, &drop.name.name, catalog) {
                    if types.as_ref().is_none_or(|wanted| wanted.as_ref() == Some(&name)) {
                        required.push(Required::Function(Permission::Drop, keyspace, name));
                    }
                }
            }
            _ => {}
        }
    }

    /// Adds what CREATE of a function or aggregate needs.
    fn required_to_create<'a>(
        &'a self,
        name: &str,
        types: impl IntoIterator<Item = &'a CqlType>,
        or_replace: bool,
        catalog: &Catalog,
        required: &mut RequiredList<'a>,
    ) {
        let keyspace = self.keyspace.as_str();
        let resource = self.resource(name, types, catalog);
        let existing = resource
            .filter(|name_of| or_replace && resources_named(keyspace, name, catalog).contains(name_of));
        required.push(match existing {
            Some(existing) => Required::Function(Permission::Alter, keyspace, existing),
            None => Required::Permission(Permission::Create, Resource::FunctionsIn(keyspace)),
        });
    }

    fn execute<'a>(
        &'a self,
        name: &str,
        types: impl IntoIterator<Item = &'a CqlType>,
        catalog: &Catalog,
    ) -> Option<Required<'a>> {
        let resource = self.resource(name, types, catalog)?;
        Some(Required::Function(Permission::Execute, &self.keyspace, resource))
    }

    /// Returns the resource name of a function of the keyspace; `None` if a type does not exist.
    fn resource<'a>(
        &self,
        name: &str,
        types: impl IntoIterator<Item = &'a CqlType>,
        catalog: &Catalog,
    ) -> Option<String> {
        let keyspace = catalog.keyspace(&self.keyspace)?;
        let scope = TypeUse { keyspace: &keyspace.name, types: &keyspace.types };
        let types: Option<Vec<_>> = types.into_iter().map(|raw| resolve_type(raw, scope).ok()).collect();
        Some(resource_name(name, &types?))
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
                SchemaChangeTarget::Function | SchemaChangeTarget::Aggregate => {
                    // The catalog still contains it.
                    let dropped = signature_resource(event, &store.catalog());
                    let dropped = dropped.map(|name| Resource::Function(keyspace, &name).name());
                    store.revoke_all_on(|resource| Some(resource) == dropped.as_deref(), timestamp)
                }
            };
        }
        let Caller::Role(creator) = &execution.options.caller else { return Ok(Vec::new()) };
        let catalog = store.catalog();
        let function = match &self.statement {
            Statement::CreateFunction(create) => {
                self.resource(&event.name, create.arguments.iter().map(|(_, raw)| raw), &catalog)
            }
            Statement::CreateAggregate(create) => self.resource(&event.name, &create.arguments, &catalog),
            _ => None,
        };
        let function = function.filter(|_| event.kind == SchemaChangeKind::Created);
        let function = function.as_ref().map(|name| [Resource::Function(keyspace, name)]);
        let created: &[Resource<'_>] = match &self.statement {
            _ if !store.authorization().settings().permissions => &[],
            Statement::CreateKeyspace(_) => &[Resource::Keyspace(keyspace), Resource::FunctionsIn(keyspace)],
            Statement::CreateTable(_) => &[Resource::Table(keyspace, &event.name)],
            Statement::CreateFunction(_) | Statement::CreateAggregate(_) => {
                function.as_ref().map_or(&[], |function| function.as_slice())
            }
            _ => &[],
        };
        let mut mutations = Vec::new();
        for resource in created {
            mutations.extend(store.grant(creator, *resource, resource.applicable(), timestamp)?);
        }
        Ok(mutations)
    }
}

/// Returns the resource names of all functions and aggregates with a name.
fn resources_named(keyspace: &str, name: &str, catalog: &Catalog) -> Vec<String> {
    let Some(keyspace) = catalog.keyspace(keyspace) else { return Vec::new() };
    let functions = keyspace.functions_named(name).map(|f| resource_name(&f.name, &f.argument_types()));
    let aggregates = keyspace.aggregates_named(name).map(|a| resource_name(&a.name, &a.arguments));
    functions.chain(aggregates).collect()
}

/// Returns the resource name of an existing function or aggregate, which an event is about.
fn signature_resource(event: &SchemaChange, catalog: &Catalog) -> Option<String> {
    let signature = Signature { name: event.name.clone(), types: event.arguments.clone() };
    let keyspace = catalog.keyspace(&event.keyspace)?;
    match event.target {
        SchemaChangeTarget::Function => {
            let function = keyspace.functions.get(&signature)?;
            Some(resource_name(&function.name, &function.argument_types()))
        }
        _ => {
            let aggregate = keyspace.aggregates.get(&signature)?;
            Some(resource_name(&aggregate.name, &aggregate.arguments))
        }
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
