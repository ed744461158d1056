//! The configuration file of cqlsh, `~/.cassandra/cqlshrc`, and its credentials file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::error::{Result, command};

/// The options of a configuration file: by section and name.
#[derive(Clone, Debug, Default)]
pub struct Cqlshrc {
    sections: BTreeMap<String, BTreeMap<String, String>>,
}

impl Cqlshrc {
    /// Reads a file; one that does not exist is empty.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn read(path: &Path) -> Result<Self> {
        match std::fs::read_to_string(path) {
            Ok(text) => Ok(Self::parse(&text)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(command(format!("cannot read {}: {error}", path.display()))),
        }
    }

    /// Parses sections of `name = value` or `name: value`. Lines that begin with `;` or `#` are
    /// comments, and indented lines continue a value, as in Python's `configparser`.
    pub fn parse(text: &str) -> Self {
        let mut parsed = Self::default();
        let mut section = String::new();
        let mut last: Option<String> = None;
        for line in text.lines() {
            let trimmed = line.trim();
            if trimmed.is_empty() || trimmed.starts_with([';', '#']) {
                continue;
            }
            if let Some(name) = trimmed.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                section = name.trim().to_owned();
                last = None;
                continue;
            }
            let options = parsed.sections.entry(section.clone()).or_default();
            if let Some(name) = last.as_ref().filter(|_| line.starts_with([' ', '\t'])) {
                if let Some(value) = options.get_mut(name) {
                    value.push('\n');
                    value.push_str(trimmed);
                }
                continue;
            }
            if let Some((name, value)) = trimmed.split_once(['=', ':']) {
                let name = name.trim().to_lowercase();
                options.insert(name.clone(), value.trim().to_owned());
                last = Some(name);
            }
        }
        parsed
    }

    /// Returns an option.
    pub fn get(&self, section: &str, name: &str) -> Option<&str> {
        self.sections.get(section)?.get(name).map(String::as_str)
    }

    /// Returns an option that is a number; none if it is no number.
    pub fn number<T: std::str::FromStr>(&self, section: &str, name: &str) -> Option<T> {
        self.get(section, name)?.parse().ok()
    }

    /// Returns an option that is yes or no.
    pub fn flag(&self, section: &str, name: &str) -> Option<bool> {
        match self.get(section, name)?.to_lowercase().as_str() {
            "1" | "yes" | "true" | "on" => Some(true),
            "0" | "no" | "false" | "off" => Some(false),
            _ => None,
        }
    }

    /// Returns an option that is a path, with `~` expanded.
    pub fn path(&self, section: &str, name: &str) -> Option<PathBuf> {
        self.get(section, name).map(expand_home)
    }

    /// Returns the options of a section.
    pub fn section(&self, name: &str) -> impl Iterator<Item = (&str, &str)> {
        self.sections.get(name).into_iter().flatten().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

/// Returns a path with a leading `~/` replaced by the home directory.
pub fn expand_home(path: &str) -> PathBuf {
    match (path.strip_prefix("~/"), std::env::var_os("HOME")) {
        (Some(rest), Some(home)) => PathBuf::from(home).join(rest),
        _ => PathBuf::from(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_and_options_are_read_as_python_reads_them() {
        let parsed = Cqlshrc::parse(
            "; comment\n[connection]\nHostname = db1\nport: 9043\nssl = yes\n\n[ui]\ntime_format = %Y-%m\n\
             [csv]\nlong = a\n  b\n",
        );
        assert_eq!(parsed.get("connection", "hostname"), Some("db1"));
        assert_eq!(parsed.number("connection", "port"), Some(9043));
        assert_eq!(parsed.flag("connection", "ssl"), Some(true));
        assert_eq!(parsed.get("ui", "time_format"), Some("%Y-%m"));
        assert_eq!(parsed.get("csv", "long"), Some("a\nb"));
        assert_eq!(parsed.get("ui", "none"), None);
        assert_eq!(parsed.section("ui").count(), 1);
    }
}
