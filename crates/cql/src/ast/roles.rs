//! Roles, users, identities and permissions.

use std::fmt;

use super::identifiers::{Identifier, QualifiedName};
use super::types::CqlType;

/// `CREATE ROLE`, and `CREATE USER`, which is a role that may log in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateRole {
    /// The role.
    pub name: Identifier,
    /// `IF NOT EXISTS`
    pub if_not_exists: bool,
    /// `WITH ...`; `CREATE USER` sets `login` and `superuser`.
    pub options: RoleOptions,
}

/// `ALTER ROLE`, `ALTER USER`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterRole {
    /// The role.
    pub name: Identifier,
    /// `IF EXISTS`
    pub if_exists: bool,
    /// `WITH ...`
    pub options: RoleOptions,
}

/// `DROP ROLE`, `DROP USER`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropRole {
    /// The role.
    pub name: Identifier,
    /// `IF EXISTS`
    pub if_exists: bool,
}

/// The options of a role; what was not written is `None`.
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

/// Secrets are left out, so that an AST may be logged.
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

/// From or to where a role may connect.
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
    /// The role given or taken.
    pub role: Identifier,
    /// Who gets or loses it.
    pub grantee: Identifier,
}

/// `GRANT permissions ON resource TO grantee`, `REVOKE permissions ON resource FROM grantee`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PermissionGrant {
    /// The permissions; never empty.
    pub permissions: Permissions,
    /// On what.
    pub resource: Resource,
    /// Who gets or loses them.
    pub grantee: Identifier,
}

/// `LIST permissions [ON resource] [OF grantee] [NORECURSIVE]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListPermissions {
    /// Which permissions.
    pub permissions: Permissions,
    /// On what; `None` for everything.
    pub resource: Option<Resource>,
    /// Of whom; `None` for everyone.
    pub grantee: Option<Identifier>,
    /// Whether inherited ones are left out.
    pub no_recursive: bool,
}

/// `LIST ROLES [OF grantee] [NORECURSIVE]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListRoles {
    /// Of whom; `None` for all.
    pub grantee: Option<Identifier>,
    /// Whether inherited ones are left out.
    pub no_recursive: bool,
}

/// A choice of permissions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Permissions {
    /// `ALL [PERMISSIONS]`: all that apply to the resource.
    All,
    /// The listed ones; never empty.
    Listed(Vec<Permission>),
}

/// What a role may be allowed to do.
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

/// What a permission is about.
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
    /// Whether the permission means anything on this resource. GRANT and REVOKE pass over those that do not, as
    /// long as one does.
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

    /// What Cassandra calls this sort of resource in messages.
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
    /// The role it takes.
    pub role: Box<str>,
    /// `IF NOT EXISTS`
    pub if_not_exists: bool,
}

/// `DROP IDENTITY 'identity'`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropIdentity {
    /// The identity.
    pub identity: Box<str>,
    /// `IF EXISTS`
    pub if_exists: bool,
}
