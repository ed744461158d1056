//! The data centers that a role can use.

use std::collections::BTreeSet;
use std::fmt;

/// The data centers that a role can use. Shown as by Cassandra's LIST ROLES.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DataCenters {
    /// None: the role cannot log in.
    None,
    All,
    Only(BTreeSet<String>),
}

impl DataCenters {
    pub fn contains(&self, name: &str) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::Only(names) => names.contains(name),
        }
    }
}

impl fmt::Display for DataCenters {
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
