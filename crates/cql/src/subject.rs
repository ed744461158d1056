//! What a statement does, and to which object: for logs of queries.

use crate::ast::{Modification, QualifiedName, Resource, Statement};

/// The kind of a statement, as Cassandra's audit log distinguishes them.
#[expect(missing_docs, reason = "many names are the words of the grammar")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatementKind {
    Select,
    /// INSERT and UPDATE.
    Update,
    Delete,
    Batch,
    Use,
    Truncate,
    CreateKeyspace,
    AlterKeyspace,
    DropKeyspace,
    CreateTable,
    AlterTable,
    DropTable,
    CreateType,
    AlterType,
    DropType,
    CreateIndex,
    DropIndex,
    CreateView,
    AlterView,
    DropView,
    CreateFunction,
    DropFunction,
    CreateAggregate,
    DropAggregate,
    CreateTrigger,
    DropTrigger,
    CreateRole,
    AlterRole,
    DropRole,
    Grant,
    Revoke,
    ListPermissions,
    /// LIST ROLES and LIST USERS.
    ListRoles,
    AddIdentity,
    DropIdentity,
    Describe,
}

/// What a statement does, and to which object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// The kind of the statement.
    pub kind: StatementKind,
    /// The keyspace of the object, or the session's; of GRANT and REVOKE of permissions, the
    /// resource above theirs, as in Cassandra. `None` for statements on no keyspace.
    pub keyspace: Option<Box<str>>,
    /// The table, index, view, type or function; of GRANT and REVOKE of permissions, the resource.
    pub name: Option<Box<str>>,
}

impl Subject {
    /// Returns the subject of a statement in the keyspace of a session.
    pub fn of(statement: &Statement, session_keyspace: Option<&str>) -> Self {
        use StatementKind as Kind;
        let named = |kind, name: &QualifiedName| {
            let keyspace = name.keyspace.as_deref().or(session_keyspace);
            Self { kind, keyspace: keyspace.map(Into::into), name: Some(name.name.as_str().into()) }
        };
        let keyspace = |kind, name: &str| Self { kind, keyspace: Some(name.into()), name: None };
        let plain = |kind| Self { kind, keyspace: None, name: None };
        match statement {
            Statement::Select(select) => named(Kind::Select, &select.table),
            Statement::Modification(modification) => {
                let is_delete = matches!(&**modification, Modification::Delete(_));
                named(if is_delete { Kind::Delete } else { Kind::Update }, modification.table())
            }
            Statement::Batch(_) => plain(Kind::Batch),
            Statement::Use(name) => keyspace(Kind::Use, name),
            Statement::Truncate(name) => named(Kind::Truncate, name),
            Statement::CreateKeyspace(create) => keyspace(Kind::CreateKeyspace, &create.name),
            Statement::AlterKeyspace(alter) => keyspace(Kind::AlterKeyspace, &alter.name),
            Statement::DropKeyspace(drop) => keyspace(Kind::DropKeyspace, &drop.name),
            Statement::CreateTable(create) => named(Kind::CreateTable, &create.name),
            Statement::AlterTable(alter) => named(Kind::AlterTable, &alter.name),
            Statement::DropTable(drop) => named(Kind::DropTable, &drop.name),
            Statement::CreateType(create) => named(Kind::CreateType, &create.name),
            Statement::AlterType(alter) => named(Kind::AlterType, &alter.name),
            Statement::DropType(drop) => named(Kind::DropType, &drop.name),
            Statement::CreateIndex(create) => {
                let index = create.name.as_ref().map(|name| name.as_str().into());
                Self { name: index, ..named(Kind::CreateIndex, &create.table) }
            }
            Statement::DropIndex(drop) => named(Kind::DropIndex, &drop.name),
            Statement::CreateView(create) => named(Kind::CreateView, &create.name),
            Statement::AlterView(alter) => named(Kind::AlterView, &alter.name),
            Statement::DropView(drop) => named(Kind::DropView, &drop.name),
            Statement::CreateFunction(create) => named(Kind::CreateFunction, &create.name),
            Statement::DropFunction(drop) => named(Kind::DropFunction, &drop.name),
            Statement::CreateAggregate(create) => named(Kind::CreateAggregate, &create.name),
            Statement::DropAggregate(drop) => named(Kind::DropAggregate, &drop.name),
            Statement::CreateTrigger(create) => named(Kind::CreateTrigger, &create.table),
            Statement::DropTrigger(drop) => named(Kind::DropTrigger, &drop.table),
            Statement::CreateRole(_) => plain(Kind::CreateRole),
            Statement::AlterRole(_) => plain(Kind::AlterRole),
            Statement::DropRole(_) => plain(Kind::DropRole),
            Statement::GrantRole(_) => plain(Kind::Grant),
            Statement::RevokeRole(_) => plain(Kind::Revoke),
            Statement::GrantPermissions(grant) => of_resource(Kind::Grant, &grant.resource, session_keyspace),
            Statement::RevokePermissions(revoke) => {
                of_resource(Kind::Revoke, &revoke.resource, session_keyspace)
            }
            Statement::ListPermissions(_) => plain(Kind::ListPermissions),
            Statement::ListRoles(_) | Statement::ListUsers => plain(Kind::ListRoles),
            Statement::AddIdentity(_) => plain(Kind::AddIdentity),
            Statement::DropIdentity(_) => plain(Kind::DropIdentity),
            Statement::Describe(_) => plain(Kind::Describe),
        }
    }
}

/// Returns the subject of GRANT and REVOKE: the names of the resource and of the one above it.
fn of_resource(kind: StatementKind, resource: &Resource, session_keyspace: Option<&str>) -> Subject {
    let (above, name) = match resource {
        Resource::AllKeyspaces => ("data".to_owned(), "data".to_owned()),
        Resource::Keyspace(keyspace) => ("data".to_owned(), format!("data/{}", &**keyspace)),
        Resource::AllTables(keyspace) => (format!("data/{}", &**keyspace), format!("data/{}/*", &**keyspace)),
        Resource::Table(table) => {
            let keyspace = table.keyspace.as_deref().or(session_keyspace);
            let keyspace = keyspace.unwrap_or_default();
            (format!("data/{keyspace}/*"), format!("data/{keyspace}/{}", &*table.name))
        }
        Resource::AllRoles => ("roles".to_owned(), "roles".to_owned()),
        Resource::Role(role) => ("roles".to_owned(), format!("roles/{}", &**role)),
        Resource::AllFunctions | Resource::AllFunctionsIn(_) | Resource::Function(..) => {
            ("functions".to_owned(), "functions".to_owned())
        }
        Resource::AllMBeans | Resource::MBean(_) | Resource::MBeans(_) => {
            ("mbean".to_owned(), "mbean".to_owned())
        }
    };
    Subject { kind, keyspace: Some(above.into()), name: Some(name.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(cql: &str) -> (StatementKind, Option<String>, Option<String>) {
        let parsed = crate::parse(cql).unwrap();
        let Subject { kind, keyspace, name } = Subject::of(&parsed.statement, Some("session"));
        (kind, keyspace.map(Into::into), name.map(Into::into))
    }

    /// As recorded from Cassandra 5.0.8.
    #[test]
    fn the_subject_is_the_object_with_its_keyspace() {
        use StatementKind as Kind;
        let owned = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        for (cql, kind, keyspace, name) in [
            ("SELECT * FROM t", Kind::Select, "session", "t"),
            ("INSERT INTO ks.t (k) VALUES (1)", Kind::Update, "ks", "t"),
            ("UPDATE t SET v = 1 WHERE k = 1", Kind::Update, "session", "t"),
            ("DELETE FROM ks.t WHERE k = 1", Kind::Delete, "ks", "t"),
            ("BEGIN BATCH INSERT INTO ks.t (k) VALUES (1); APPLY BATCH", Kind::Batch, "", ""),
            ("USE \"Ks\"", Kind::Use, "Ks", ""),
            ("TRUNCATE ks.t", Kind::Truncate, "ks", "t"),
            ("DROP KEYSPACE ks", Kind::DropKeyspace, "ks", ""),
            ("CREATE INDEX i ON ks.t (v)", Kind::CreateIndex, "ks", "i"),
            ("CREATE INDEX ON ks.t (v)", Kind::CreateIndex, "ks", ""),
            ("DROP INDEX ks.i", Kind::DropIndex, "ks", "i"),
            ("DROP MATERIALIZED VIEW ks.v", Kind::DropView, "ks", "v"),
            ("CREATE USER u WITH PASSWORD 'x'", Kind::CreateRole, "", ""),
            ("LIST USERS", Kind::ListRoles, "", ""),
            ("GRANT a TO b", Kind::Grant, "", ""),
            ("GRANT SELECT ON ks.t TO b", Kind::Grant, "data/ks/*", "data/ks/t"),
            ("REVOKE SELECT ON KEYSPACE ks FROM b", Kind::Revoke, "data", "data/ks"),
            ("GRANT ALTER ON ROLE a TO b", Kind::Grant, "roles", "roles/a"),
            ("LIST ALL PERMISSIONS OF a", Kind::ListPermissions, "", ""),
            ("DESCRIBE TABLE ks.t", Kind::Describe, "", ""),
        ] {
            assert_eq!(subject(cql), (kind, owned(keyspace), owned(name)), "{cql}");
        }
    }
}
