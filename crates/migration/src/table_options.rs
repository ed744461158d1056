//! Options of tables that an older target does not have.

use std::collections::BTreeSet;

/// Options with the values that a table has without them.
const DEFAULTS: [(&str, &str); 3] =
    [("allow_auto_snapshot", "true"), ("incremental_backups", "true"), ("memtable", "'default'")];

/// Removes the options that are not `known` from a CREATE statement, as DESCRIBE shows it: one
/// option in a line after `AND`. The first one, after `WITH`, is one that all versions have.
/// Returns the statement, and the removed options whose values differ from the default.
pub fn without_unknown(statement: &str, known: &BTreeSet<String>) -> (String, Vec<String>) {
    let (mut kept, mut removed) = (Vec::<String>::new(), Vec::new());
    // Comments can have lines that look like options.
    let mut is_in_text = false;
    for line in statement.split('\n') {
        let began_in_text = is_in_text;
        is_in_text ^= line.matches('\'').count() % 2 == 1;
        let is_whole = !began_in_text && !is_in_text;
        match option(line).filter(|(name, _)| is_whole && !known.contains(*name)) {
            Some((name, value)) => {
                let is_last = value.ends_with(';');
                let value = value.trim_end_matches(';');
                if !DEFAULTS.contains(&(name, value)) {
                    removed.push(format!("{name} = {value}"));
                }
                if is_last && let Some(last) = kept.last_mut() {
                    last.push(';');
                }
            }
            None => kept.push(line.to_owned()),
        }
    }
    (kept.join("\n"), removed)
}

/// Returns the name and the value of the option in a line.
fn option(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.trim_start().strip_prefix("AND ")?.split_once(" = ")?;
    let is_name = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    is_name.then_some((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATEMENT: &str = "CREATE TABLE ks.t (\n    k int PRIMARY KEY\n) WITH additional_write_policy = '99p'\n    \
         AND allow_auto_snapshot = true\n    AND comment = 'it''s\n    AND memtable = none'\n    AND memtable = \
         'trie'\n    AND incremental_backups = true;";

    #[test]
    fn options_that_the_target_has_stay() {
        let known = ["allow_auto_snapshot", "comment", "memtable", "incremental_backups"];
        let known = known.map(str::to_owned).into();
        assert_eq!(without_unknown(STATEMENT, &known), (STATEMENT.to_owned(), Vec::new()));
    }

    #[test]
    fn unknown_options_are_removed_and_reported_unless_they_are_defaults() {
        let known = ["comment".to_owned()].into();
        let (statement, removed) = without_unknown(STATEMENT, &known);
        let expected = "CREATE TABLE ks.t (\n    k int PRIMARY KEY\n) WITH additional_write_policy = '99p'\n    AND \
             comment = 'it''s\n    AND memtable = none';";
        assert_eq!(statement, expected);
        assert_eq!(removed, ["memtable = 'trie'"]);
    }
}
