//! Logging to standard error; `cassette nodetool setlogginglevel` changes its levels at runtime.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cassette_server::admin::LogLevels;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::reload::Handle;

const LEVELS: [&str; 6] = ["TRACE", "DEBUG", "INFO", "WARN", "ERROR", "OFF"];

/// The name in nodetool for all other modules.
const ROOT: &str = "ROOT";

/// Cassandra's names of components, and the corresponding modules here.
const COMPONENTS: [(&str, &[&str]); 2] =
    [("compaction", &["cassette_engine::compaction"]), ("cql", &["cassette_database", "cassette_cql"])];

/// Starts logging with the levels of the environment variable `CASSETTE_LOG`.
pub fn init() -> Arc<dyn LogLevels> {
    let asked = std::env::var("CASSETTE_LOG").ok();
    let first = Levels::parse(asked.as_deref().unwrap_or("info")).unwrap_or_else(|_| Levels::of_root("INFO"));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(first.filter())
        .with_writer(std::io::stderr)
        .with_filter_reloading();
    let handle = builder.reload_handle();
    builder.init();
    let apply = move |levels: &Levels| reload(&handle, levels);
    Arc::new(Logging { now: Mutex::new(first.clone()), first, apply: Box::new(apply) })
}

fn reload<S>(handle: &Handle<EnvFilter, S>, levels: &Levels) -> Result<(), String> {
    handle.reload(levels.filter()).map_err(|error| format!("cannot change what is logged: {error}"))
}

struct Logging {
    first: Levels,
    now: Mutex<Levels>,
    apply: Box<Apply>,
}

/// Applies levels.
type Apply = dyn Fn(&Levels) -> Result<(), String> + Send + Sync;

impl Logging {
    fn now(&self) -> MutexGuard<'_, Levels> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LogLevels for Logging {
    fn levels(&self) -> Vec<(String, String)> {
        let levels = self.now();
        let root = (ROOT.to_owned(), levels.root.clone());
        let modules = levels.modules.iter().map(|(module, level)| (module.clone(), level.clone()));
        std::iter::once(root).chain(modules).collect()
    }

    fn set(&self, target: &str, level: &str) -> Result<(), String> {
        let mut now = self.now();
        let changed = now.with(&self.first, target, level)?;
        (self.apply)(&changed)?;
        *now = changed;
        Ok(())
    }
}

/// The levels of named modules, and of all others.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Levels {
    root: String,
    modules: BTreeMap<String, String>,
}

impl Levels {
    fn of_root(level: &str) -> Self {
        Self { root: level.to_owned(), modules: BTreeMap::new() }
    }

    /// Parses `info,cassette_engine=debug`.
    fn parse(text: &str) -> Result<Self, String> {
        let mut levels = Self::of_root("INFO");
        for directive in text.split(',').map(str::trim).filter(|directive| !directive.is_empty()) {
            match directive.split_once('=') {
                Some((module, level)) => {
                    levels.modules.insert(module.trim().to_owned(), self::level(level.trim())?);
                }
                None => levels.root = self::level(directive)?,
            }
        }
        Ok(levels)
    }

    /// Returns these levels with one changed. An empty one restores that of `first`.
    fn with(&self, first: &Self, target: &str, level: &str) -> Result<Self, String> {
        let mut changed = self.clone();
        if target.is_empty() && level.is_empty() {
            return Ok(first.clone());
        }
        let level = if level.is_empty() { None } else { Some(self::level(level)?) };
        if target.is_empty() || target == ROOT {
            changed.root = level.unwrap_or_else(|| first.root.clone());
            return Ok(changed);
        }
        let is_module = |name: &str| name.starts_with("cassette");
        let component = COMPONENTS.iter().find(|(name, _)| *name == target).map(|(_, modules)| *modules);
        let targets = match component {
            Some(modules) => modules,
            None if is_module(target) => &[target],
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

    fn filter(&self) -> EnvFilter {
        let modules = self.modules.iter().map(|(module, level)| format!(",{module}={level}"));
        EnvFilter::new(std::iter::once(self.root.clone()).chain(modules).collect::<String>())
    }
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
}
