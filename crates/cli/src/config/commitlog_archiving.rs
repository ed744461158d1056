//! Cassandra's `commitlog_archiving.properties`, whose commands are not executed.
//!
//! Cassandra reads the file beside its cassandra.yaml, and its own copy sets nothing. Who has set a
//! command relies on segments being archived, or on a restore at the start: the server must not
//! start as if it did either.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

use anyhow::{Context, bail};

const NAME: &str = "commitlog_archiving.properties";

/// The maximum length of the file, bytes.
const LENGTH_MAX: u64 = 64 << 10;

/// What to use instead of each property. `precision` has no effect alone.
const PROPERTIES: [(&str, &str); 5] = [
    ("archive_command", ARCHIVE),
    ("restore_command", RESTORE),
    ("restore_directories", RESTORE),
    ("restore_point_in_time", RESTORE),
    ("snapshot_commitlog_position", RESTORE),
];
const ARCHIVE: &str =
    "set backup_options with archive_commitlog: true, which archives segments without a command";
const RESTORE: &str = "restore with `cassette backup restore --until TIME` into a new data directory";

/// Refuses a file beside the configuration file that sets a property.
///
/// # Errors
/// The first property that is set, and what to do; or that the file cannot be read.
pub fn refuse(config: &Path) -> anyhow::Result<()> {
    let path = config.with_file_name(NAME);
    let file = match File::open(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        file => file.with_context(|| format!("cannot read {}", path.display()))?,
    };
    let mut text = Vec::new();
    file.take(LENGTH_MAX + 1)
        .read_to_end(&mut text)
        .with_context(|| format!("cannot read {}", path.display()))?;
    if text.len() as u64 > LENGTH_MAX {
        bail!("{}: expected at most {LENGTH_MAX} bytes, found more", path.display());
    }
    // The names are ASCII, and values are not shown: commands may contain secrets.
    if let Some((name, instead)) = first_set(&String::from_utf8_lossy(&text)) {
        bail!("{}: {name} is not supported; remove its value, and {instead}", path.display());
    }
    Ok(())
}

/// Returns the first property that has a value, and what to use instead.
fn first_set(text: &str) -> Option<(&'static str, &'static str)> {
    let lines = text.lines().map(str::trim_start).filter(|line| !line.starts_with(['#', '!']));
    lines.filter_map(property).find_map(|(name, value)| {
        let known = PROPERTIES.iter().find(|(known, _)| *known == name)?;
        (!value.is_empty()).then_some(*known)
    })
}

/// Splits a line at the first `=`, `:` or white space, as Java does. A value that continues on the
/// next line is not empty: it ends with a backslash.
fn property(line: &str) -> Option<(&str, &str)> {
    let end = line.find(|c: char| c == '=' || c == ':' || c.is_whitespace())?;
    let (name, rest) = line.split_at(end);
    let rest = rest.trim_start();
    Some((name, rest.strip_prefix(['=', ':']).unwrap_or(rest).trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_that_comes_with_cassandra_sets_nothing() {
        let text = "# archive_command=/bin/ln %path /backup/%name\narchive_command=\n\nrestore_command=\n\
                    restore_directories=\nrestore_point_in_time=\nprecision=MICROSECONDS\n";
        assert_eq!(first_set(text), None);
    }

    #[test]
    fn a_property_that_is_set_stops_the_start_and_names_the_replacement() {
        let directory = tempfile::tempdir().unwrap();
        let config = directory.path().join("cassandra.yaml");
        refuse(&config).unwrap();
        for (line, name, instead) in [
            ("archive_command=/bin/ln %path /backup/%name", "archive_command", "archive_commitlog: true"),
            (" archive_command : secret", "archive_command", "archive_commitlog: true"),
            ("restore_command cp -f %from %to", "restore_command", "cassette backup restore --until"),
            ("restore_directories=\\", "restore_directories", "cassette backup restore --until"),
            ("restore_point_in_time=2026:11:24 10:15:30", "restore_point_in_time", "--until"),
        ] {
            std::fs::write(directory.path().join(NAME), format!("# a comment\n{line}\n")).unwrap();
            let error = refuse(&config).unwrap_err().to_string();
            assert!(
                error.contains(&format!("{name} is not supported")) && error.contains(instead),
                "{error}"
            );
            assert!(!error.contains("secret"), "{error}");
        }
        std::fs::write(directory.path().join(NAME), vec![b'#'; LENGTH_MAX as usize + 1]).unwrap();
        assert!(refuse(&config).is_err());
    }
}
