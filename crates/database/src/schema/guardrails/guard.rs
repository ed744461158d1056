//! Guardrails applied to one statement.

use std::cell::RefCell;

use super::{Guardrails, Key};
use crate::basics::error::{DatabaseError, Result};

/// Applies guardrails to one statement: collects warnings, and turns violations into errors.
#[derive(Clone, Copy)]
pub(crate) struct Guard<'a> {
    guardrails: &'a Guardrails,
    warnings: &'a RefCell<Vec<String>>,
}

/// The threshold of a guardrail that was crossed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    Warn,
    Fail,
}

impl Level {
    /// Returns the name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Warn => "warning",
            Self::Fail => "failure",
        }
    }
}

/// A guardrail with a warning and a failure threshold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Threshold {
    /// The name in messages.
    pub name: &'static str,
    pub warn: Key,
    pub fail: Key,
    /// The reason for the limit, in Cassandra's message; may be empty.
    pub reason: &'static str,
}

/// A guardrail that allows or rejects a feature.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flag {
    /// The name in messages.
    pub name: &'static str,
    pub enabled: Key,
    /// The setting that makes it warn when it allows the feature.
    pub warned: Option<Key>,
    /// The reason, in Cassandra's message; may be empty.
    pub reason: &'static str,
}

/// Returns the whole message of a violation.
pub(crate) fn violation(name: &str, message: &str, reason: &str) -> String {
    let separator = match (reason, message.ends_with('.')) {
        ("", _) => "",
        (_, true) => " ",
        (_, false) => ". ",
    };
    format!("Guardrail {name} violated: {message}{separator}{reason}")
}

impl<'a> Guard<'a> {
    /// Returns the guard of a statement whose warnings are collected in `warnings`.
    pub fn new(guardrails: &'a Guardrails, warnings: &'a RefCell<Vec<String>>) -> Self {
        Self { guardrails, warnings }
    }

    pub(crate) fn guardrails(self) -> &'a Guardrails {
        self.guardrails
    }

    /// Returns the number stored for a setting.
    #[inline]
    pub fn value(self, key: Key) -> i64 {
        self.guardrails.get(key)
    }

    /// Whether a flag is set.
    #[inline]
    pub fn is_set(self, key: Key) -> bool {
        self.guardrails.is_set(key)
    }

    /// Returns a threshold, unless it is disabled.
    pub fn limit(self, key: Key) -> Option<i64> {
        self.guardrails.threshold(key)
    }

    /// Logs a violation without warning the client. `name` is the setting.
    pub fn log(self, name: &'static str, message: &str) {
        self.guardrails.log.note(name, message);
    }

    /// Checks that `value` does not exceed the thresholds of `limit`. `message` receives the level
    /// and the threshold.
    #[inline]
    pub(crate) fn at_most(
        self,
        limit: &Threshold,
        value: i64,
        message: impl FnOnce(Level, i64) -> String,
    ) -> Result<()> {
        self.within(limit, |threshold| value <= threshold, message)
    }

    /// Checks that `value` is not below the thresholds of `limit`; otherwise as [`Self::at_most`].
    pub(crate) fn at_least(
        self,
        limit: &Threshold,
        value: i64,
        message: impl FnOnce(Level, i64) -> String,
    ) -> Result<()> {
        self.within(limit, |threshold| value >= threshold, message)
    }

    /// Fails, or else warns, if a threshold of `limit` is set and violated.
    #[inline]
    fn within(
        self,
        limit: &Threshold,
        respects: impl Fn(i64) -> bool,
        message: impl FnOnce(Level, i64) -> String,
    ) -> Result<()> {
        for (key, level) in [(limit.fail, Level::Fail), (limit.warn, Level::Warn)] {
            if let Some(threshold) = self.guardrails.threshold(key)
                && !respects(threshold)
            {
                return self.violated(limit.name, level, &message(level, threshold), limit.reason);
            }
        }
        Ok(())
    }

    /// Rejects `what` unless the flag allows it.
    #[inline]
    pub(crate) fn allowed(self, flag: &Flag, what: &str) -> Result<()> {
        if !self.guardrails.is_set(flag.enabled) {
            return self.violated(flag.name, Level::Fail, &format!("{what} is not allowed"), flag.reason);
        }
        match flag.warned {
            Some(warned) if self.guardrails.is_set(warned) => {
                self.violated(flag.name, Level::Warn, &format!("{what} is not recommended"), flag.reason)
            }
            _ => Ok(()),
        }
    }

    /// Warns or fails, and logs the violation.
    #[cold]
    pub(crate) fn violated(
        self,
        name: &'static str,
        level: Level,
        message: &str,
        reason: &str,
    ) -> Result<()> {
        let message = violation(name, message, reason);
        self.guardrails.log.note(name, &message);
        match level {
            Level::Fail => Err(DatabaseError::Invalid(message)),
            Level::Warn => {
                self.warnings.borrow_mut().push(message);
                Ok(())
            }
        }
    }

    /// Warns about a limit that is no guardrail in Cassandra, so the message contains no name.
    /// `name` is the setting.
    #[cold]
    pub fn warn(self, name: &'static str, message: String) {
        self.guardrails.log.note(name, &message);
        self.warnings.borrow_mut().push(message);
    }
}
