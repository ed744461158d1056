//! Roles, users, identities and permissions.

use std::fmt;

use super::identifiers::{Identifier, QualifiedName};
use super::types::CqlType;

/// `CREATE ROLE`, and `CREATE USER`, which is a role that can log in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateRole {
    pub name: Identifier,
    /// `IF NOT EXISTS`
    pub if_not_exists: bool,
    /// `WITH ...`; `CREATE USER` sets `login` and `superuser`.
    pub options: RoleOptions,
}

/// `ALTER ROLE`, `ALTER USER`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterRole {
    pub name: Identifier,
    /// `IF EXISTS`
    pub if_exists: bool,
    /// `WITH ...`
    pub options: RoleOptions,
}

/// `DROP ROLE`, `DROP USER`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropRole {
    pub name: Identifier,
    /// `IF EXISTS`
    pub if_exists: bool,
}

/// The options of a role; absent ones are `None`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct RoleOptions {
    /// `PASSWORD = '...'`
    pub password: Option<Box<str>>,
    /// `HASHED PASSWORD = '...'`; never together with `password`.
    pub hashed_password: Option<Box<str>>,
    /// `OPTIONS = {...}`
    pub custom: Option<Vec<(Box<str>, Box<str>)>>,
    /// `SUPERUSER = ...`
    pub superuser: Option<bool>,
    /// `LOGIN = ...`
    pub login: Option<bool>,
    /// `ACCESS TO ... DATACENTERS ...`
    pub datacenters: Option<Access>,
    /// `ACCESS FROM ... CIDRS ...`
    pub cidrs: Option<Access>,
}

/// Omits secrets, so that an AST can be logged.
impl fmt::Debug for RoleOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RoleOptions")
            .field("password", &self.password.as_ref().map(|_| "*******"))
            .field("hashed_password", &self.hashed_password.as_ref().map(|_| "*******"))
            .field("custom", &self.custom)
            .field("superuser", &self.superuser)
            .field("login", &self.login)
            .field("datacenters", &self.datacenters)
            .field("cidrs", &self.cidrs)
            .finish()
    }
}

/// The networks or data centers that a role can use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// Everywhere.
    All,
    /// Only these; never empty.
    Only(Vec<Box<str>>),
}

/// `GRANT role TO grantee`, `REVOKE role FROM grantee`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleGrant {
    pub role: Identifier,
    pub grantee: Identifier,
}

/// `GRANT permissions ON resource TO grantee`, `REVOKE permissions ON resource FROM grantee`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PermissionGrant {
    /// The permissions; never empty.
    pub permissions: Permissions,
    pub resource: Resource,
    pub grantee: Identifier,
}

/// `LIST permissions [ON resource] [OF grantee] [NORECURSIVE]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListPermissions {
    pub permissions: Permissions,
    /// `None` for everything.
    pub resource: Option<Resource>,
    /// `None` for everyone.
    pub grantee: Option<Identifier>,
    /// Whether to omit inherited ones.
    pub no_recursive: bool,
}

/// `LIST ROLES [OF grantee] [NORECURSIVE]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListRoles {
    /// `None` for all.
    pub grantee: Option<Identifier>,
    /// Whether to omit inherited ones.
    pub no_recursive: bool,
}

/// A set of permissions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Permissions {
    /// `ALL [PERMISSIONS]`: all that apply to the resource.
    All,
    /// The listed ones; never empty.
    Listed(Vec<Permission>),
}

/// A permission of a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Permission {
    /// `CREATE`
    Create,
    /// `ALTER`
    Alter,
    /// `DROP`
    Drop,
    /// `SELECT`
    Select,
    /// `MODIFY`
    Modify,
    /// `AUTHORIZE`
    Authorize,
    /// `DESCRIBE`
    Describe,
    /// `EXECUTE`
    Execute,
    /// `UNMASK`
    Unmask,
    /// `SELECT_MASKED`
    SelectMasked,
}

impl Permission {
    /// All permissions, in the order in which Cassandra lists them.
    pub const ALL: [Permission; 10] = [
        Permission::Create,
        Permission::Alter,
        Permission::Drop,
        Permission::Select,
        Permission::Modify,
        Permission::Authorize,
        Permission::Describe,
        Permission::Execute,
        Permission::Unmask,
        Permission::SelectMasked,
    ];

    /// Returns the name in CQL, which is also the stored one.
    pub fn name(self) -> &'static str {
        match self {
            Permission::Create => "CREATE",
            Permission::Alter => "ALTER",
            Permission::Drop => "DROP",
            Permission::Select => "SELECT",
            Permission::Modify => "MODIFY",
            Permission::Authorize => "AUTHORIZE",
            Permission::Describe => "DESCRIBE",
            Permission::Execute => "EXECUTE",
            Permission::Unmask => "UNMASK",
            Permission::SelectMasked => "SELECT_MASKED",
        }
    }
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The object of a permission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resource {
    /// `ALL KEYSPACES`
    AllKeyspaces,
    /// `KEYSPACE name`
    Keyspace(Identifier),
    /// `ALL TABLES IN KEYSPACE name`
    AllTables(Identifier),
    /// `[TABLE] name`
    Table(QualifiedName),
    /// `ALL ROLES`
    AllRoles,
    /// `ROLE name`
    Role(Identifier),
    /// `ALL FUNCTIONS`
    AllFunctions,
    /// `ALL FUNCTIONS IN KEYSPACE name`
    AllFunctionsIn(Identifier),
    /// `FUNCTION name(types)`
    Function(QualifiedName, Vec<CqlType>),
    /// `ALL MBEANS`
    AllMBeans,
    /// `MBEAN 'name'`
    MBean(Box<str>),
    /// `MBEANS 'pattern'`
    MBeans(Box<str>),
}

impl Resource {
    /// Returns whether the permission applies to this resource. GRANT and REVOKE skip permissions
    /// that do not, as long as one does.
    pub fn supports(&self, permission: Permission) -> bool {
        use Permission::*;
        match self {
            Resource::AllKeyspaces | Resource::Keyspace(_) | Resource::AllTables(_) => {
                !matches!(permission, Describe | Execute)
            }
            Resource::Table(_) => !matches!(permission, Create | Describe | Execute),
            Resource::AllRoles => matches!(permission, Create | Alter | Drop | Authorize | Describe),
            Resource::Role(_) => matches!(permission, Alter | Drop | Authorize | Describe),
            Resource::AllFunctions | Resource::AllFunctionsIn(_) => {
                matches!(permission, Create | Alter | Drop | Authorize | Execute)
            }
            Resource::Function(..) => matches!(permission, Alter | Drop | Authorize | Execute),
            Resource::AllMBeans | Resource::MBean(_) | Resource::MBeans(_) => {
                matches!(permission, Authorize | Describe | Execute | Modify | Select)
            }
        }
    }

    /// Returns Cassandra's name of this kind of resource in messages.
    pub fn class_name(&self) -> &'static str {
        match self {
            Resource::AllKeyspaces | Resource::Keyspace(_) | Resource::AllTables(_) | Resource::Table(_) => {
                "DataResource"
            }
            Resource::AllRoles | Resource::Role(_) => "RoleResource",
            Resource::AllFunctions | Resource::AllFunctionsIn(_) | Resource::Function(..) => {
                "FunctionResource"
            }
            Resource::AllMBeans | Resource::MBean(_) | Resource::MBeans(_) => "JMXResource",
        }
    }
}

/// `ADD IDENTITY 'identity' TO ROLE 'role'`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddIdentity {
    /// The identity, as in a client's certificate.
    pub identity: Box<str>,
    pub role: Box<str>,
    /// `IF NOT EXISTS`
    pub if_not_exists: bool,
}

/// `DROP IDENTITY 'identity'`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropIdentity {
    pub identity: Box<str>,
    /// `IF EXISTS`
    pub if_exists: bool,
}
