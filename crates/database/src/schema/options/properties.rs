//! Access to the options after WITH, with Cassandra's rules.

use cassette_cql::ast::{Properties, PropertyValue};

use crate::basics::error::{DatabaseError, Result};

/// The entries of a map option, as specified.
pub(crate) type Entries = [(Box<str>, Box<str>)];

/// The options of a statement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attributes<'a>(pub &'a Properties);

impl<'a> Attributes<'a> {
    /// Rejects options that are not among `known`.
    pub fn refuse_unknown(&self, known: &[&str]) -> Result<()> {
        match self.0.iter().find(|(name, _)| !known.contains(&name.as_str())) {
            Some((name, _)) => Err(syntax(format!("Unknown property '{}'", name.as_str()))),
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

fn syntax(message: String) -> DatabaseError {
    DatabaseError::syntax(message)
}
