//! Guardrails: limits on statements, with the names and texts of Cassandra 5.0.
//!
//! [`SETTINGS`] describes every key once. The configuration file, `system_views.settings`, the
//! admin endpoint and `nodetool` are derived from it. [`Guardrails`] holds the values, which can
//! change while statements run; [`Guard`] applies them to one statement.
//!
//! Cassandra exempts superusers. There are no roles here, so guardrails apply to every client and
//! to embedded sessions. Internal statements are exempt from those on batches and tombstones.

pub(crate) mod collections;
pub(crate) mod disk_usage;
pub(crate) mod guard;
pub(crate) mod log;
pub(crate) mod nodetool;
pub(crate) mod partitions;
pub(crate) mod properties;
pub(crate) mod requests;
pub(crate) mod schema;
pub(crate) mod settings;
pub(crate) mod value;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicI64, Ordering};

use parking_lot::RwLock;

pub(crate) use disk_usage::DiskUsage;
pub(crate) use guard::Guard;
use log::Log;
pub(crate) use properties::Verdict;
pub(crate) use requests::ListOperation;
pub use settings::{Key, Kind, SETTINGS, Setting};
use value::DISABLED;

/// The values of all guardrails. Reading one is an atomic load; no reader waits for a writer.
#[derive(Debug)]
pub struct Guardrails {
    /// Indexed by [`Key`]: counts, bytes, microseconds, 0 or 1, or a bit for each name of a set.
    values: [AtomicI64; SETTINGS.len()],
    /// The units that sizes and durations were written with, which Cassandra keeps.
    spelled: RwLock<BTreeMap<&'static str, String>>,
    log: Log,
}

impl Default for Guardrails {
    fn default() -> Self {
        let guardrails = Self {
            values: std::array::from_fn(|_| AtomicI64::new(DISABLED)),
            spelled: RwLock::default(),
            log: Log::default(),
        };
        for setting in SETTINGS {
            // A test checks that every default can be read.
            if let Ok(value) = setting.kind.read(setting.name, setting.default) {
                guardrails.store(setting, value, setting.default);
            }
        }
        guardrails
    }
}

impl Guardrails {
    /// Returns the guardrails of internal statements: the defaults, without those on batches and
    /// tombstones.
    pub(crate) fn internal() -> &'static Self {
        static INTERNAL: LazyLock<Guardrails> = LazyLock::new(|| {
            let guardrails = Guardrails::default();
            for key in [
                Key::BatchSizeWarn,
                Key::BatchSizeFail,
                Key::UnloggedBatchAcrossPartitionsWarn,
                Key::TombstoneWarn,
                Key::TombstoneFailure,
                Key::SaiSSTableIndexesPerQueryWarn,
            ] {
                guardrails.values[key as usize].store(DISABLED, Ordering::Relaxed);
            }
            guardrails
        });
        &INTERNAL
    }

    /// Returns the default guardrails with the values of `configured`: texts by their names in
    /// cassandra.yaml, an empty text for null.
    ///
    /// # Errors
    /// Returns Cassandra's message for an invalid value.
    pub fn configured(configured: &BTreeMap<String, String>) -> Result<Self, String> {
        let guardrails = Self::default();
        let mut changes = Vec::with_capacity(configured.len());
        for (name, text) in configured {
            let setting = Setting::named(name)
                .ok_or_else(|| format!("unknown guardrail {name}: expected a name of cassandra.yaml"))?;
            changes.push((setting.key, text.as_str()));
        }
        guardrails.set(&changes)?;
        Ok(guardrails)
    }

    /// Changes settings: all of `changes`, or none.
    ///
    /// # Errors
    /// Returns Cassandra's message for an invalid value.
    pub fn set(&self, changes: &[(Key, &str)]) -> Result<(), String> {
        // Held while pairs are compared, so concurrent changes cannot leave a warning threshold
        // above its failure threshold.
        let mut spelled = self.spelled.write();
        let mut read = Vec::with_capacity(changes.len());
        for (key, text) in changes {
            let setting = key.setting();
            read.push((setting, setting.kind.read(setting.name, text)?, *text));
        }
        for (setting, _, _) in &read {
            let Some((warn, fail)) = setting.pair() else { continue };
            let current = |setting: &'static Setting| {
                let changed = read.iter().find(|(changed, ..)| changed.key == setting.key);
                let unchanged = || (self.get(setting.key), text_of(setting, self.get(setting.key), &spelled));
                changed.map_or_else(unchanged, |(_, value, text)| (*value, Some((*text).to_owned())))
            };
            value::check_pair(warn, &current(warn), fail, &current(fail))?;
        }
        for (setting, value, text) in read {
            self.values[setting.key as usize].store(value, Ordering::Relaxed);
            note_spelling(&mut spelled, setting, value, text);
        }
        Ok(())
    }

    /// Returns the value as in cassandra.yaml; `None` for null.
    pub fn text(&self, key: Key) -> Option<String> {
        text_of(key.setting(), self.get(key), &self.spelled.read())
    }

    /// Returns the number stored for a setting: a count, bytes, microseconds, 0 or 1, or the bits
    /// of a set; -1 for a disabled threshold.
    #[inline]
    pub(crate) fn get(&self, key: Key) -> i64 {
        self.values[key as usize].load(Ordering::Relaxed)
    }

    /// Whether a flag is set.
    #[inline]
    pub(crate) fn is_set(&self, key: Key) -> bool {
        self.get(key) == 1
    }

    /// Returns a threshold, unless it is disabled.
    #[inline]
    pub(crate) fn threshold(&self, key: Key) -> Option<i64> {
        Some(self.get(key)).filter(|value| *value > 0)
    }

    fn store(&self, setting: &'static Setting, value: i64, text: &str) {
        self.values[setting.key as usize].store(value, Ordering::Relaxed);
        note_spelling(&mut self.spelled.write(), setting, value, text);
    }
}

fn note_spelling(
    spelled: &mut BTreeMap<&'static str, String>,
    setting: &'static Setting,
    value: i64,
    text: &str,
) {
    match setting.kind {
        Kind::Size | Kind::Duration if value != DISABLED => {
            spelled.insert(setting.name, text.trim().to_owned());
        }
        _ => {
            spelled.remove(setting.name);
        }
    }
}

fn text_of(setting: &Setting, value: i64, spelled: &BTreeMap<&'static str, String>) -> Option<String> {
    match setting.kind {
        Kind::Size | Kind::Duration => spelled.get(setting.name).cloned(),
        kind => Some(kind.text(value)),
    }
}
