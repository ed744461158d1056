//! Which modules log at which level.

use std::collections::BTreeMap;

use tracing_subscriber::EnvFilter;

const LEVELS: [&str; 6] = ["TRACE", "DEBUG", "INFO", "WARN", "ERROR", "OFF"];

/// The name in nodetool for all other modules.
pub const ROOT: &str = "ROOT";

/// Cassandra's names of components, and the corresponding modules here.
const COMPONENTS: [(&str, &[&str]); 2] =
    [("compaction", &["cassette_engine::compaction"]), ("cql", &["cassette_database", "cassette_cql"])];

/// The levels of named modules, and of all others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Levels {
    pub root: String,
    pub modules: BTreeMap<String, String>,
}

impl Levels {
    /// Parses `info,cassette_engine=debug`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut levels = Self { root: "INFO".to_owned(), modules: BTreeMap::new() };
        for directive in text.split(',').map(str::trim).filter(|directive| !directive.is_empty()) {
            match directive.split_once('=') {
                Some((module, level)) => {
                    let module = module.trim();
                    if !is_module(module) {
                        return Err(format!(
                            "{module:?} is no module: modules are called cassette_engine, \
                             cassette_engine::compaction, …"
                        ));
                    }
                    levels.modules.insert(module.to_owned(), self::level(level.trim())?);
                }
                None => levels.root = self::level(directive)?,
            }
        }
        Ok(levels)
    }

    /// Returns these levels with one changed. An empty one restores that of `first`.
    pub fn with(&self, first: &Self, target: &str, level: &str) -> Result<Self, String> {
        let mut changed = self.clone();
        if target.is_empty() && level.is_empty() {
            return Ok(first.clone());
        }
        let level = if level.is_empty() { None } else { Some(self::level(level)?) };
        if target.is_empty() || target == ROOT {
            changed.root = level.unwrap_or_else(|| first.root.clone());
            return Ok(changed);
        }
        let component = COMPONENTS.iter().find(|(name, _)| *name == target).map(|(_, modules)| *modules);
        let targets = match component {
            Some(modules) => modules,
            None if target.starts_with("cassette") && is_module(target) => &[target],
            None => {
                return Err(format!(
                    "{target} is no module that logs: modules are called cassette_engine, \
                     cassette_engine::compaction, …, components compaction and cql"
                ));
            }
        };
        for module in targets {
            match level.as_ref().or(first.modules.get(*module)) {
                Some(level) => changed.modules.insert((*module).to_owned(), level.clone()),
                None => changed.modules.remove(*module),
            };
        }
        Ok(changed)
    }

    pub fn filter(&self) -> EnvFilter {
        let modules = self.modules.iter().map(|(module, level)| format!(",{module}={level}"));
        EnvFilter::new(std::iter::once(self.root.clone()).chain(modules).collect::<String>())
    }
}

/// Returns whether `name` can be the path of a module.
fn is_module(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == ':')
}

/// Returns a level in capitals.
fn level(text: &str) -> Result<String, String> {
    match text.to_ascii_uppercase() {
        all if all == "ALL" => Ok("TRACE".to_owned()),
        level if LEVELS.contains(&&*level) => Ok(level),
        _ => Err(format!("{text} is no level: levels are {}", LEVELS.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_set_and_put_back() {
        let first = Levels::parse("warn, cassette_engine=debug").unwrap();
        let set = first.with(&first, "cql", "trace").unwrap().with(&first, "ROOT", "ERROR").unwrap();
        assert_eq!(set.filter().to_string().matches("trace").count(), 2);
        assert_eq!((&*set.root, set.modules.len()), ("ERROR", 3));
        assert_eq!(set.with(&first, "cql", "").unwrap().modules, first.modules);
        assert_eq!(set.with(&first, "", "").unwrap(), first);
        assert!(first.with(&first, "org.apache.cassandra.db", "DEBUG").is_err());
        assert!(first.with(&first, "cql", "loud").is_err());
    }

    #[test]
    fn what_is_no_level_and_no_module_is_refused() {
        for text in ["nonsense=ddd", "loud", "info,=debug", "info,cassette engine=debug", "info;debug"] {
            assert!(Levels::parse(text).is_err(), "{text}");
        }
        assert_eq!(Levels::parse("").unwrap(), Levels::parse("info").unwrap());
    }
}
