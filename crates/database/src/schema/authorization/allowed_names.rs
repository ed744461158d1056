//! The data centers that a role can use, or the CIDR groups that it can connect from.

use std::collections::BTreeSet;
use std::fmt;

/// The names of data centers that a role can use, or of CIDR groups that it can connect from. Shown
/// as by Cassandra's LIST ROLES.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AllowedNames {
    /// None: the role cannot log in.
    None,
    All,
    Only(BTreeSet<String>),
}

impl AllowedNames {
    pub fn contains(&self, name: &str) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::Only(names) => names.contains(name),
        }
    }
}

impl fmt::Display for AllowedNames {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => formatter.write_str("n/a"),
            Self::All => formatter.write_str("ALL"),
            Self::Only(names) => {
                formatter.write_str(&names.iter().map(String::as_str).collect::<Vec<_>>().join(", "))
            }
        }
    }
}
