//! Access to the options after WITH, with Cassandra's rules.

use cassette_cql::ast::{Properties, PropertyValue};

use crate::basics::error::{DatabaseError, Result};

/// The entries of a map option, as specified.
pub(crate) type Entries = [(Box<str>, Box<str>)];

/// The options of a statement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attributes<'a>(pub &'a Properties);

impl<'a> Attributes<'a> {
    /// Rejects options that are not among `known`. Of several, the error names the one that
    /// Cassandra finds first.
    pub fn refuse_unknown(&self, known: &[&str]) -> Result<()> {
        let count = self.0.iter().count();
        let unknown = self.0.iter().map(|(name, _)| name.as_str()).filter(|name| !known.contains(name));
        match unknown.min_by_key(|name| java_bucket(name, count)) {
            Some(name) => Err(syntax(format!("Unknown property '{name}'"))),
            None => Ok(()),
        }
    }

    /// Returns the option's text, if it is specified.
    pub fn string(&self, name: &str) -> Result<Option<&'a str>> {
        match self.0.get(name) {
            None => Ok(None),
            Some(PropertyValue::Simple(literal)) => Ok(Some(&literal.text)),
            Some(PropertyValue::Map(_)) => {
                Err(syntax(format!("Invalid value for property '{name}'. It should be a string")))
            }
        }
    }

    /// Returns the option's entries, if it is specified.
    pub fn map(&self, name: &str) -> Result<Option<&'a Entries>> {
        match self.0.get(name) {
            None => Ok(None),
            Some(PropertyValue::Map(entries)) => Ok(Some(entries)),
            Some(PropertyValue::Simple(_)) => {
                Err(syntax(format!("Invalid value for property '{name}'. It should be a map.")))
            }
        }
    }

    /// Returns the option as a boolean, if it is specified.
    pub fn boolean(&self, name: &str) -> Result<Option<bool>> {
        let Some(text) = self.string(name)? else { return Ok(None) };
        match text.to_lowercase().as_str() {
            "1" | "true" | "yes" => Ok(Some(true)),
            "0" | "false" | "no" => Ok(Some(false)),
            _ => Err(syntax(format!(
                "Invalid boolean value {text} for '{name}'. Positive values can be '1', 'true' or 'yes'. \
                 Negative values can be '0', 'false' or 'no'."
            ))),
        }
    }

    /// Returns the option as an integer, if it is specified.
    pub fn int(&self, name: &str) -> Result<Option<i32>> {
        let Some(text) = self.string(name)? else { return Ok(None) };
        match text.parse() {
            Ok(value) => Ok(Some(value)),
            Err(_) => Err(syntax(format!("Invalid integer value {text} for '{name}'"))),
        }
    }

    /// Returns the option as a number, if it is specified.
    pub fn double(&self, name: &str) -> Result<Option<f64>> {
        let Some(text) = self.string(name)? else { return Ok(None) };
        match text.parse() {
            Ok(value) => Ok(Some(value)),
            Err(_) => Err(syntax(format!("Invalid double value {text} for '{name}'"))),
        }
    }
}

/// Returns the bucket of a key in a `java.util.HashMap` of `count` entries, which are iterated by
/// their buckets, and within one in the order of insertion.
fn java_bucket(key: &str, count: usize) -> u32 {
    let hash = key.encode_utf16().fold(0_u32, |hash, unit| hash.wrapping_mul(31).wrapping_add(unit.into()));
    // The table doubles when it is filled to more than three quarters.
    let mut buckets = 16_u32;
    while count > buckets as usize / 4 * 3 && buckets < 1 << 30 {
        buckets *= 2;
    }
    (hash ^ hash >> 16) & (buckets - 1)
}

fn syntax(message: String) -> DatabaseError {
    DatabaseError::syntax(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Recorded from Cassandra 5.0.8.
    #[test]
    fn of_several_unknown_options_the_same_as_in_cassandra_is_named() {
        for (names, named) in [
            (&["foo", "bar"][..], "bar"),
            (&["bar", "foo"], "bar"),
            (&["zeta", "alpha", "beta"], "zeta"),
            (&["beta", "zeta", "alpha"], "zeta"),
            (&["read_repair_chance", "dclocal_read_repair_chance"], "dclocal_read_repair_chance"),
            (&["zz", "comment", "aa"], "zz"),
            (&["abc", "abd", "abe"], "abd"),
        ] {
            let unknown = names.iter().filter(|name| **name != "comment");
            assert_eq!(unknown.min_by_key(|name| java_bucket(name, names.len())), Some(&named), "{names:?}");
        }
    }
}
