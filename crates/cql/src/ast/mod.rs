//! Statements as plain data: faithful to their text, not checked against a schema.

#![expect(missing_docs, reason = "many names are the words of the grammar")]

pub mod describe;
pub mod identifiers;
pub mod modification;
pub mod relations;
pub mod roles;
pub mod schema;
pub mod select;
pub mod selectors;
pub mod shown;
pub mod terms;
pub mod types;

pub use describe::*;
pub use identifiers::*;
pub use modification::*;
pub use relations::*;
pub use roles::*;
pub use schema::*;
pub use select::*;
pub use selectors::*;
pub use terms::*;
pub use types::*;

/// A parsed statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Statement {
    /// `SELECT`
    Select(Box<Select>),
    /// `INSERT`, `UPDATE`, `DELETE`
    Modification(Box<Modification>),
    /// `BEGIN BATCH ... APPLY BATCH`
    Batch(Batch),
    /// `USE keyspace`
    Use(Identifier),
    /// `TRUNCATE [TABLE] table`
    Truncate(QualifiedName),
    /// `CREATE KEYSPACE`
    CreateKeyspace(CreateKeyspace),
    /// `ALTER KEYSPACE`
    AlterKeyspace(AlterKeyspace),
    /// `DROP KEYSPACE`
    DropKeyspace(DropKeyspace),
    /// `CREATE TABLE`
    CreateTable(Box<CreateTable>),
    /// `ALTER TABLE`
    AlterTable(Box<AlterTable>),
    /// `DROP TABLE`
    DropTable(DropElement),
    /// `CREATE TYPE`
    CreateType(CreateType),
    /// `ALTER TYPE`
    AlterType(AlterType),
    /// `DROP TYPE`
    DropType(DropElement),
    /// `CREATE INDEX`
    CreateIndex(Box<CreateIndex>),
    /// `DROP INDEX`
    DropIndex(DropElement),
    /// `CREATE MATERIALIZED VIEW`
    CreateView(Box<CreateView>),
    /// `ALTER MATERIALIZED VIEW`
    AlterView(AlterView),
    /// `DROP MATERIALIZED VIEW`
    DropView(DropElement),
    /// `CREATE FUNCTION`
    CreateFunction(Box<CreateFunction>),
    /// `DROP FUNCTION`
    DropFunction(DropFunction),
    /// `CREATE AGGREGATE`
    CreateAggregate(Box<CreateAggregate>),
    /// `DROP AGGREGATE`
    DropAggregate(DropFunction),
    /// `CREATE TRIGGER`
    CreateTrigger(CreateTrigger),
    /// `DROP TRIGGER`
    DropTrigger(DropTrigger),
    /// `CREATE ROLE`, `CREATE USER`
    CreateRole(Box<CreateRole>),
    /// `ALTER ROLE`, `ALTER USER`
    AlterRole(Box<AlterRole>),
    /// `DROP ROLE`, `DROP USER`
    DropRole(DropRole),
    /// `GRANT role`
    GrantRole(RoleGrant),
    /// `REVOKE role`
    RevokeRole(RoleGrant),
    /// `GRANT permissions`
    GrantPermissions(PermissionGrant),
    /// `REVOKE permissions`
    RevokePermissions(PermissionGrant),
    /// `LIST permissions`
    ListPermissions(ListPermissions),
    /// `LIST ROLES`
    ListRoles(ListRoles),
    /// `LIST USERS`
    ListUsers,
    /// `ADD IDENTITY`
    AddIdentity(AddIdentity),
    /// `DROP IDENTITY`
    DropIdentity(DropIdentity),
    /// `DESCRIBE`, `DESC`
    Describe(Describe),
}

/// A statement and its bind markers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsedStatement {
    pub statement: Statement,
    /// The name of each marker, in order of appearance; `None` for `?`. [`BindMarker::index`]
    /// points here.
    pub bind_markers: Vec<Option<Identifier>>,
}
