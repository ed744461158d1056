//! Which entries the audit log contains: Cassandra's rules of included and excluded names.

use std::collections::BTreeSet;

use cassette_query_log::{AuditCategory, AuditEntry};

/// Included and excluded names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    /// Only these; all if empty.
    pub included: BTreeSet<String>,
    /// All but these, also if they are included.
    pub excluded: BTreeSet<String>,
}

/// The filter of the audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditFilter {
    /// By the keyspace of an entry.
    pub keyspaces: Names,
    /// By its category.
    pub categories: Names,
    /// By its user.
    pub users: Names,
}

impl Names {
    /// Parses lists of names that are separated by commas.
    pub fn parse(included: &str, excluded: &str) -> Self {
        let names = |text: &str| {
            text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
        };
        Self { included: names(included), excluded: names(excluded) }
    }

    /// An entry without a name is contained unless names are included, as in Cassandra.
    fn contain(&self, name: Option<&str>) -> bool {
        !name.is_some_and(|name| self.excluded.contains(name))
            && (self.included.is_empty()
                || name.is_some_and(|name| self.included.contains(name) && !self.excluded.contains(name)))
    }
}

impl Default for AuditFilter {
    fn default() -> Self {
        let keyspaces = Names::parse("", "system,system_schema,system_virtual_schema");
        Self { keyspaces, categories: Names::default(), users: Names::default() }
    }
}

impl AuditFilter {
    /// Returns an error for a category that does not exist.
    ///
    /// # Errors
    /// The categories that exist.
    pub fn check(&self) -> Result<(), String> {
        let known = |name: &String| AuditCategory::ALL.iter().any(|category| category.name() == name);
        let names = self.categories.included.iter().chain(&self.categories.excluded);
        match names.into_iter().find(|name| !known(name)) {
            None => Ok(()),
            Some(unknown) => {
                let names: Vec<&str> = AuditCategory::ALL.iter().map(|category| category.name()).collect();
                Err(format!("invalid category: expected one of {}, found {unknown}", names.join(", ")))
            }
        }
    }

    /// Returns whether the log contains an entry.
    pub(super) fn contains(&self, entry: &AuditEntry) -> bool {
        self.categories.contain(Some(entry.entry_type.category().name()))
            && self.keyspaces.contain(entry.keyspace.as_deref())
            && self.users.contain(entry.user.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excluded_names_outrank_included_ones() {
        let names = Names::parse("a, b,", "b,c");
        let contained = |name| names.contain(Some(name));
        assert_eq!(["a", "b", "c", "d"].map(contained), [true, false, false, false]);
        assert!(!names.contain(None));
        assert!(Names::parse("", "b").contain(None));
    }

    #[test]
    fn an_unknown_category_is_an_error() {
        let filter =
            |excluded| AuditFilter { categories: Names::parse("QUERY", excluded), ..Default::default() };
        assert_eq!(filter("DDL").check(), Ok(()));
        let error = filter("ddl").check().unwrap_err();
        assert!(error.contains("found ddl"), "{error}");
    }
}
