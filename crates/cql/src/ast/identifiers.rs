//! Names: of keyspaces, tables, columns, types, fields, functions.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;

pub use cassette_rows::types::quote_identifier;

use crate::keywords::{is_plain_function_name, is_plain_type_name};

/// A name in the form of the schema: lower-cased if it was written bare, verbatim if it was quoted.
///
/// [`Display`](fmt::Display) writes it so that it parses to the same name, quoting only where
/// needed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Identifier(Box<str>);

impl Identifier {
    /// Creates the identifier with exactly this text, without folding to lower case.
    pub fn new(text: impl Into<Box<str>>) -> Identifier {
        Identifier(text.into())
    }

    /// The bare text, without quotes.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The bare text, without quotes.
    pub fn into_string(self) -> String {
        self.0.into_string()
    }
}

impl Deref for Identifier {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Identifier {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for Identifier {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Identifier {
    fn from(text: &str) -> Identifier {
        Identifier(text.into())
    }
}

impl From<String> for Identifier {
    fn from(text: String) -> Identifier {
        Identifier(text.into())
    }
}

impl PartialEq<str> for Identifier {
    fn eq(&self, other: &str) -> bool {
        &*self.0 == other
    }
}

impl PartialEq<&str> for Identifier {
    fn eq(&self, other: &&str) -> bool {
        &*self.0 == *other
    }
}

impl fmt::Display for Identifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&quote_identifier(&self.0))
    }
}

/// Writes the name of a user-defined type so that it does not parse as a native type.
pub(crate) struct TypeName<'a>(pub &'a QualifiedName);

impl fmt::Display for TypeName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_keyspace(f, &self.0.keyspace)?;
        let name = &self.0.name;
        if is_plain_type_name(name) { write!(f, "{name}") } else { f.write_str(&in_double_quotes(name)) }
    }
}

/// Writes the name of a called function so that it does not parse as a special form.
pub(crate) struct FunctionName<'a>(pub &'a QualifiedName);

impl fmt::Display for FunctionName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_keyspace(f, &self.0.keyspace)?;
        match self.0.name.as_str() {
            // Reserved, but also the name of a function.
            "token" => f.write_str("token"),
            name if is_plain_function_name(name) => f.write_str(&quote_identifier(name)),
            name => f.write_str(&in_double_quotes(name)),
        }
    }
}

/// `keyspace.`, if there is one.
fn write_keyspace(f: &mut fmt::Formatter<'_>, keyspace: &Option<Identifier>) -> fmt::Result {
    match keyspace {
        Some(keyspace) => write!(f, "{keyspace}."),
        None => Ok(()),
    }
}

fn in_double_quotes(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// `text` as a CQL string literal: in single quotes, inner quotes doubled.
pub fn quote_string(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// The name of a table, index, view or other schema element, with the keyspace if it is present.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct QualifiedName {
    /// The keyspace before the dot; `None` for the session's current one.
    pub keyspace: Option<Identifier>,
    /// The name of the element.
    pub name: Identifier,
}

impl QualifiedName {
    pub fn new(keyspace: Option<Identifier>, name: Identifier) -> QualifiedName {
        QualifiedName { keyspace, name }
    }
}

impl fmt::Display for QualifiedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.keyspace {
            Some(keyspace) => write!(f, "{keyspace}.{}", self.name),
            None => write!(f, "{}", self.name),
        }
    }
}
