//! Sets of names that cause a warning, are ignored or rejected: table properties and consistency
//! levels.

use cassette_cql::ast::Properties;
use cassette_rows::Consistency;

use super::guard::Level;
use super::value::listed;
use super::{Guard, Key};
use crate::basics::error::Result;
use crate::schema::options::table_params::OPTIONS;

/// The properties of a statement without the ignored ones.
pub(crate) enum Verdict {
    /// No property is ignored.
    AsGiven,
    /// The remaining properties.
    Without(Properties),
}

impl Verdict {
    /// Returns the effective properties of those in the statement.
    pub fn of<'a>(&'a self, given: &'a Properties) -> &'a Properties {
        match self {
            Self::AsGiven => given,
            Self::Without(rest) => rest,
        }
    }
}

impl Guard<'_> {
    /// Applies `table_properties_*` to the properties of a CREATE or ALTER.
    ///
    /// # Errors
    /// Returns Invalid for a property that is disallowed.
    pub fn table_properties(self, properties: &Properties) -> Result<Verdict> {
        let bit = |name: &str| OPTIONS.iter().position(|option| *option == name).map_or(0, |at| 1 << at);
        let given = properties.iter().fold(0, |bits, (name, _)| bits | bit(name.as_str()));
        let names = || OPTIONS.iter().copied();
        let of = |key: Key| self.guardrails().get(key);
        let describe = |how: &str, set: i64, kind: &str| {
            let values = (listed(given & set, names()), listed(set, names()));
            describe(how, "Table Properties", kind, &values)
        };
        const NAME: &str = "table_properties";
        let disallowed = of(Key::TablePropertiesDisallowed);
        if given & disallowed != 0 {
            self.violated(NAME, Level::Fail, &describe("not allowed", disallowed, "disallowed"), "")?;
        }
        let ignored = of(Key::TablePropertiesIgnored);
        let mut verdict = Verdict::AsGiven;
        if given & ignored != 0 {
            let message = format!(
                "Ignoring provided values {} as they are not supported for Table Properties (ignored values are: {})",
                listed(given & ignored, names()),
                listed(ignored, names())
            );
            self.violated(NAME, Level::Warn, &message, "")?;
            let rest = properties.iter().filter(|(name, _)| bit(name.as_str()) & ignored == 0);
            let rest = rest.map(|(name, value)| (name.clone(), value.clone())).collect();
            verdict = Verdict::Without(Properties(rest));
        }
        let warned = of(Key::TablePropertiesWarned);
        if given & warned != 0 {
            self.violated(NAME, Level::Warn, &describe("not recommended", warned, "warned"), "")?;
        }
        Ok(verdict)
    }

    /// Applies `read_consistency_levels_*`.
    #[inline]
    pub fn read_level(self, level: Consistency) -> Result<()> {
        let keys = (Key::ReadConsistencyLevelsWarned, Key::ReadConsistencyLevelsDisallowed);
        self.levels("read_consistency_levels", "read consistency levels", bit_of(level), keys)
    }

    /// Applies `write_consistency_levels_*` to both levels of a write, also of an unconditional
    /// one.
    #[inline]
    pub fn write_levels(self, level: Consistency, serial: Option<Consistency>) -> Result<()> {
        let keys = (Key::WriteConsistencyLevelsWarned, Key::WriteConsistencyLevelsDisallowed);
        let levels = bit_of(level) | bit_of(serial.unwrap_or(Consistency::Serial));
        self.levels("write_consistency_levels", "write consistency levels", levels, keys)
    }

    #[inline]
    fn levels(
        self,
        name: &'static str,
        what: &str,
        given: i64,
        (warned, disallowed): (Key, Key),
    ) -> Result<()> {
        let names = || Consistency::ALL.iter().map(Consistency::to_string);
        for (key, how, kind, level) in [
            (disallowed, "not allowed", "disallowed", Level::Fail),
            (warned, "not recommended", "warned", Level::Warn),
        ] {
            let set = self.guardrails().get(key);
            if given & set != 0 {
                let values = (listed(given & set, names()), listed(set, names()));
                let message = describe(how, what, kind, &values);
                self.violated(name, level, &message, "")?;
            }
        }
        Ok(())
    }
}

fn bit_of(level: Consistency) -> i64 {
    1 << (level as u16)
}

/// `Provided values [a] are not allowed for X (disallowed values are: [a, b])`
fn describe(how: &str, what: &str, kind: &str, (provided, all): &(String, String)) -> String {
    format!("Provided values {provided} are {how} for {what} ({kind} values are: {all})")
}
