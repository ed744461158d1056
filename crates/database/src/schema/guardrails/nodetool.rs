//! Changes to guardrails by `nodetool setguardrailsconfig`.

use super::{Guardrails, Key, Kind, SETTINGS, Setting};

/// The settings that a name in `setguardrailsconfig` changes.
enum Setter {
    /// A pair of thresholds: failure, then warning.
    Pair(Key, Key),
    /// A flag or a number.
    One(Key),
    /// A set of names, as one argument or several.
    Names(Key),
}

impl Setter {
    /// Returns the setter called `name`: a setting, or `x_threshold` for `x_fail_threshold` and
    /// `x_warn_threshold`.
    fn named(name: &str) -> Option<Self> {
        for setting in SETTINGS {
            match setting.pair() {
                Some((warn, fail)) => {
                    let base = setting.name.strip_suffix("_warn_threshold");
                    if base.is_some_and(|base| name.strip_suffix("_threshold") == Some(base)) {
                        return Some(Self::Pair(fail.key, warn.key));
                    }
                }
                None if setting.name == name => {
                    return Some(match setting.kind {
                        Kind::Properties | Kind::ConsistencyLevels => Self::Names(setting.key),
                        _ => Self::One(setting.key),
                    });
                }
                None => {}
            }
        }
        None
    }
}

impl Setting {
    /// Returns the name in `nodetool getguardrailsconfig`, which is the same for both thresholds of
    /// a pair.
    pub fn listed_name(&self) -> String {
        match self.pair() {
            Some(_) => {
                self.name.replace("_warn_threshold", "_threshold").replace("_fail_threshold", "_threshold")
            }
            None => self.name.to_owned(),
        }
    }
}

impl Guardrails {
    /// Sets the settings that `setter` names to `arguments`.
    ///
    /// # Errors
    /// Returns the message of Cassandra's nodetool.
    pub fn set_by_name(&self, setter: &str, arguments: &[String]) -> Result<(), String> {
        let Some(found) = Setter::named(setter) else {
            return Err(format!("Guardrail {setter} not found."));
        };
        let joined;
        let arguments = match found {
            Setter::Names(_) if arguments.len() > 1 => {
                joined = [arguments.join(",")];
                &joined
            }
            _ => arguments,
        };
        let wanted = if let Setter::Pair(..) = found { 2 } else { 1 };
        let changed = match (found, arguments) {
            (Setter::Pair(fail, warn), [failure, warning]) => self.set(&[(warn, warning), (fail, failure)]),
            (Setter::One(key) | Setter::Names(key), [value]) => self.set(&[(key, value)]),
            _ => {
                return Err(format!(
                    "{setter} is expecting {wanted} argument values. Getting {} instead.",
                    arguments.len()
                ));
            }
        };
        changed.map_err(|reason| {
            format!(
                "Error occured when setting the config for setter {setter} with arguments [{}]: {reason}",
                arguments.join(", ")
            )
        })
    }
}
