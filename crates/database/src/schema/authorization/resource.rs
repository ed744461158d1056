//! What permissions are granted on.

use std::fmt;

use cassette_cql::ast::Permission;
use cassette_rows::types::parse_class_name;

use super::PermissionSet;
use crate::schema::system::comes_with_database;

/// The object of a permission. Its name is the one that Cassandra stores.
///
/// ```text
/// data                     all keyspaces
/// data/<keyspace>          a keyspace
/// data/<keyspace>/*        all its tables
/// data/<keyspace>/<table>  a table
/// roles                    all roles
/// roles/<role>             a role
/// functions                all functions
/// functions/<keyspace>     all functions of a keyspace
/// functions/<keyspace>/<function>  a function
/// mbean                    all MBeans
/// mbean/<name>             an MBean, or a pattern of names
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resource<'a> {
    AllKeyspaces,
    Keyspace(&'a str),
    AllTables(&'a str),
    Table(&'a str, &'a str),
    AllRoles,
    Role(&'a str),
    AllFunctions,
    FunctionsIn(&'a str),
    Function(&'a str, &'a str),
    AllMBeans,
    MBean(&'a str),
}

impl<'a> Resource<'a> {
    /// Returns the resource with a stored name; `None` for text that is no such name.
    pub fn parse(name: &'a str) -> Option<Self> {
        let (kind, rest) = match name.split_once('/') {
            Some((kind, rest)) => (kind, Some(rest)),
            None => (name, None),
        };
        Some(match (kind, rest) {
            ("data", None) => Self::AllKeyspaces,
            ("data", Some(rest)) => match rest.split_once('/') {
                None => Self::Keyspace(rest),
                Some((keyspace, "*")) => Self::AllTables(keyspace),
                Some((keyspace, table)) => Self::Table(keyspace, table),
            },
            ("roles", None) => Self::AllRoles,
            ("roles", Some(role)) => Self::Role(role),
            ("functions", None) => Self::AllFunctions,
            ("functions", Some(rest)) => match rest.split_once('/') {
                None => Self::FunctionsIn(rest),
                Some((keyspace, function)) => Self::Function(keyspace, function),
            },
            ("mbean", None) => Self::AllMBeans,
            ("mbean", Some(name)) => Self::MBean(name),
            _ => return None,
        })
    }

    /// Returns the stored name.
    pub fn name(self) -> String {
        match self {
            Self::AllKeyspaces => "data".to_owned(),
            Self::Keyspace(keyspace) => format!("data/{keyspace}"),
            Self::AllTables(keyspace) => format!("data/{keyspace}/*"),
            Self::Table(keyspace, table) => format!("data/{keyspace}/{table}"),
            Self::AllRoles => "roles".to_owned(),
            Self::Role(role) => format!("roles/{role}"),
            Self::AllFunctions => "functions".to_owned(),
            Self::FunctionsIn(keyspace) => format!("functions/{keyspace}"),
            Self::Function(keyspace, function) => format!("functions/{keyspace}/{function}"),
            Self::AllMBeans => "mbean".to_owned(),
            Self::MBean(name) => format!("mbean/{name}"),
        }
    }

    /// Returns the resource that contains this one: a permission on it applies here, too.
    pub fn parent(self) -> Option<Self> {
        Some(match self {
            Self::Table(keyspace, _) => Self::AllTables(keyspace),
            Self::AllTables(keyspace) => Self::Keyspace(keyspace),
            Self::Keyspace(_) => Self::AllKeyspaces,
            Self::Role(_) => Self::AllRoles,
            Self::Function(keyspace, _) => Self::FunctionsIn(keyspace),
            Self::FunctionsIn(_) => Self::AllFunctions,
            Self::MBean(_) => Self::AllMBeans,
            Self::AllKeyspaces | Self::AllRoles | Self::AllFunctions | Self::AllMBeans => return None,
        })
    }

    /// Iterates over the resource and those that contain it, from the inside.
    pub fn chain(self) -> impl Iterator<Item = Self> {
        std::iter::successors(Some(self), |resource| resource.parent())
    }

    /// Iterates over the resources whose permissions apply to it: [`chain`](Self::chain), but those
    /// on all keyspaces do not apply to the database's own.
    pub fn applying(self) -> impl Iterator<Item = Self> {
        let is_own = self.data_keyspace().is_some_and(comes_with_database);
        self.chain().filter(move |resource| !is_own || *resource != Self::AllKeyspaces)
    }

    /// Returns the permissions that can be granted on it.
    pub const fn applicable(self) -> PermissionSet {
        use Permission::{
            Alter, Authorize, Create, Describe, Drop, Execute, Modify, Select, SelectMasked, Unmask,
        };
        match self {
            Self::AllKeyspaces | Self::Keyspace(_) | Self::AllTables(_) => {
                PermissionSet::of(&[Create, Alter, Drop, Select, Modify, Authorize, Unmask, SelectMasked])
            }
            Self::Table(..) => {
                PermissionSet::of(&[Alter, Drop, Select, Modify, Authorize, Unmask, SelectMasked])
            }
            Self::AllRoles => PermissionSet::of(&[Create, Alter, Drop, Authorize, Describe]),
            Self::Role(_) => PermissionSet::of(&[Alter, Drop, Authorize, Describe]),
            Self::AllFunctions | Self::FunctionsIn(_) => {
                PermissionSet::of(&[Create, Alter, Drop, Authorize, Execute])
            }
            Self::Function(..) => PermissionSet::of(&[Alter, Drop, Authorize, Execute]),
            Self::AllMBeans | Self::MBean(_) => {
                PermissionSet::of(&[Authorize, Describe, Execute, Modify, Select])
            }
        }
    }

    /// Returns the keyspace of data.
    pub fn data_keyspace(self) -> Option<&'a str> {
        match self {
            Self::Keyspace(keyspace) | Self::AllTables(keyspace) | Self::Table(keyspace, _) => Some(keyspace),
            _ => None,
        }
    }
}

/// The form in Cassandra's messages and lists.
impl fmt::Display for Resource<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AllKeyspaces => write!(f, "<all keyspaces>"),
            Self::Keyspace(keyspace) => write!(f, "<keyspace {keyspace}>"),
            Self::AllTables(keyspace) => write!(f, "<all tables in {keyspace}>"),
            Self::Table(keyspace, table) => write!(f, "<table {keyspace}.{table}>"),
            Self::AllRoles => write!(f, "<all roles>"),
            Self::Role(role) => write!(f, "<role {role}>"),
            Self::AllFunctions => write!(f, "<all functions>"),
            Self::FunctionsIn(keyspace) => write!(f, "<all functions in {keyspace}>"),
            Self::Function(keyspace, function) => {
                write!(f, "<function {keyspace}.{}>", shown_function(function))
            }
            Self::AllMBeans => write!(f, "<all mbeans>"),
            Self::MBean(name) => write!(f, "<mbean {name}>"),
        }
    }
}

/// Returns `f(int, text)` for `f[org.apache.cassandra.db.marshal.Int32Type^…]`.
fn shown_function(function: &str) -> String {
    let parts = function.split_once('[').and_then(|(name, rest)| Some((name, rest.strip_suffix(']')?)));
    let Some((name, classes)) = parts else { return function.to_owned() };
    let shown = |class: &str| match parse_class_name(class) {
        Ok((data_type, _)) => data_type.to_string(),
        Err(_) => class.to_owned(),
    };
    let types: Vec<String> = classes.split('^').filter(|class| !class.is_empty()).map(shown).collect();
    format!("{name}({})", types.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_names_are_those_of_cassandra_and_parse_back() {
        let resources = [
            (Resource::AllKeyspaces, "data"),
            (Resource::Keyspace("k"), "data/k"),
            (Resource::AllTables("k"), "data/k/*"),
            (Resource::Table("k", "t"), "data/k/t"),
            (Resource::AllRoles, "roles"),
            (Resource::Role("a/b"), "roles/a/b"),
            (Resource::AllFunctions, "functions"),
            (Resource::FunctionsIn("k"), "functions/k"),
            (Resource::Function("k", "f[Int32Type]"), "functions/k/f[Int32Type]"),
            (Resource::AllMBeans, "mbean"),
            (Resource::MBean("java.lang:type=Memory"), "mbean/java.lang:type=Memory"),
        ];
        for (resource, name) in resources {
            assert_eq!(resource.name(), name);
            assert_eq!(Resource::parse(name), Some(resource));
            for permission in resource.applicable().iter() {
                assert!(resource.chain().all(|r| r.applicable().contains(permission)), "{permission} {name}");
            }
        }
        assert_eq!(Resource::parse("nonsense/x"), None);
    }

    #[test]
    fn a_table_is_contained_in_its_keyspace_and_in_all_tables_of_it() {
        let chain: Vec<String> = Resource::Table("k", "t").chain().map(Resource::name).collect();
        assert_eq!(chain, ["data/k/t", "data/k/*", "data/k", "data"]);
    }
}
