//! Faults that tests inject into requests: rules, the requests that they match, and their effects.
//! No I/O: the server that receives a request applies its fault.

mod checked;
mod effect;
mod outcome;
mod pattern;
mod request;
mod rule;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::RwLock;

use checked::CheckedRule;
pub use checked::FaultCounts;
pub use effect::EFFECTS;
pub use outcome::{Failure, FaultError, Injected};
pub(crate) use request::{FaultedRequest, StatementClass};
pub(crate) use rule::{FAULT_COLUMNS, FaultColumnType};
pub use rule::{FaultRule, FaultValue};

use crate::basics::error::{DatabaseError, Result, bail_invalid};

/// The kinds of statements that a rule can name.
pub const KINDS: [&str; 12] = [
    "read",
    "select",
    "write",
    "insert",
    "update",
    "delete",
    "batch",
    "conditional",
    "counter",
    "truncate",
    "schema",
    "prepare",
];

/// The write types of the native protocol.
pub const WRITE_TYPES: [&str; 8] =
    ["SIMPLE", "BATCH", "UNLOGGED_BATCH", "COUNTER", "BATCH_LOG", "CAS", "VIEW", "CDC"];

/// The maximum number of rules.
const RULES_MAX: usize = 1000;

/// The maximum length of an id, a pattern or a message, bytes.
const TEXT_MAX: usize = 4096;

/// The rules of a server that was started for tests.
#[derive(Debug, Default)]
pub struct Faults {
    /// By id, which is the order in which they are tried.
    rules: RwLock<BTreeMap<String, Arc<CheckedRule>>>,
    /// Whether there are rules.
    is_active: AtomicBool,
}

impl Faults {
    /// Whether there are rules.
    #[inline]
    pub fn is_active(&self) -> bool {
        self.is_active.load(Ordering::Relaxed)
    }

    /// Adds a rule, or replaces the one with its id. Its counts begin at zero.
    ///
    /// # Errors
    /// Invalid, with the column and what it can contain.
    pub fn put(&self, rule: FaultRule) -> Result<()> {
        self.insert(&mut self.rules.write(), rule)
    }

    fn insert(&self, rules: &mut BTreeMap<String, Arc<CheckedRule>>, rule: FaultRule) -> Result<()> {
        let id = rule.id.clone();
        let texts = rule.values().into_iter().filter_map(|(name, value)| match value {
            FaultValue::Text(text) => Some((name, text.len())),
            _ => None,
        });
        if let Some((name, length)) = texts.chain([("id", id.len())]).find(|(_, length)| *length > TEXT_MAX) {
            bail_invalid!("{name}: expected at most {TEXT_MAX} bytes, found {length}");
        }
        if id.is_empty() {
            bail_invalid!("id: expected a name, found an empty text");
        }
        let rule = Arc::new(CheckedRule::new(rule)?);
        if rules.len() >= RULES_MAX && !rules.contains_key(&id) {
            bail_invalid!("expected at most {RULES_MAX} rules; remove others first");
        }
        rules.insert(id, rule);
        self.is_active.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Changes columns of a rule, or adds it if it does not exist. Its counts begin at zero.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn change(&self, id: &str, values: Vec<(String, Option<FaultValue>)>) -> Result<()> {
        let mut rules = self.rules.write();
        let known = rules.get(id).map(|rule| rule.written.clone());
        let mut rule = known.unwrap_or_else(|| FaultRule { id: id.to_owned(), ..FaultRule::default() });
        for (name, value) in values {
            if !rule.set(&name, value) {
                return Err(DatabaseError::Invalid(format!("{name}: it cannot be changed")));
            }
        }
        self.insert(&mut rules, rule)
    }

    /// Removes a rule. Returns whether it existed.
    pub fn remove(&self, id: &str) -> bool {
        let mut rules = self.rules.write();
        let removed = rules.remove(id).is_some();
        self.is_active.store(!rules.is_empty(), Ordering::Relaxed);
        removed
    }

    /// Removes all rules.
    pub fn clear(&self) {
        let mut rules = self.rules.write();
        rules.clear();
        self.is_active.store(false, Ordering::Relaxed);
    }

    /// Returns all rules, by id, with how often they matched.
    pub fn list(&self) -> Vec<(FaultRule, FaultCounts)> {
        self.rules.read().values().map(|rule| (rule.written.clone(), rule.counts())).collect()
    }

    /// Returns what a request meets: that of the first rule, by id, that affects it. Rules after
    /// that one do not count the request.
    pub(crate) fn injected(&self, request: &FaultedRequest) -> Option<Injected> {
        if request.is_on_testing() {
            return None;
        }
        let rules = self.rules.read();
        rules.values().find_map(|rule| rule.injected(request))
    }
}
