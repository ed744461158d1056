//! COPY: files of comma-separated values into and out of tables, with the options of cqlsh.

mod dialect;
mod export;
mod import;
mod meter;
mod options;
mod ranges;

use cassette_cql::lexer::Symbol;

use crate::error::{Result, command};
use crate::shell::Shell;
use crate::words::Words;

pub(crate) use dialect::Dialect;
use options::{CopyOptions, Direction};

/// A COPY with its parts.
struct Copy {
    keyspace: String,
    table: String,
    columns: Vec<String>,
    direction: Direction,
    /// The files; none for standard input or output.
    files: Option<String>,
    options: CopyOptions,
}

/// Executes COPY.
///
/// # Errors
/// If the command is invalid, or a file or the server fails.
pub fn run(shell: &mut Shell, words: &mut Words<'_>) -> Result<()> {
    let copy = parse(shell, words)?;
    match copy.direction {
        Direction::From => import::run(shell, &copy),
        Direction::To => export::run(shell, &copy),
    }
}

fn parse(shell: &mut Shell, words: &mut Words<'_>) -> Result<Copy> {
    let Some((keyspace, table)) = words.qualified_name() else {
        return Err(words.improper("COPY", "a table"));
    };
    let mut columns = Vec::new();
    if words.take_symbol(Symbol::ParenOpen) {
        loop {
            columns.push(words.name().ok_or_else(|| words.improper("COPY", "a column"))?);
            if !words.take_symbol(Symbol::Comma) {
                break;
            }
        }
        if !words.take_symbol(Symbol::ParenClose) {
            return Err(words.improper("COPY", "a comma or )"));
        }
    }
    let direction = if words.take("FROM") {
        Direction::From
    } else if words.take("TO") {
        Direction::To
    } else {
        return Err(words.improper("COPY", "FROM or TO"));
    };
    let standard = if direction == Direction::From { "STDIN" } else { "STDOUT" };
    let files = if words.take(standard) {
        None
    } else {
        Some(
            words
                .string()
                .ok_or_else(|| words.improper("COPY", &format!("a file in quotes, or {standard}")))?,
        )
    };
    let mut given = Vec::new();
    if words.take("WITH") {
        loop {
            let name = words.name().ok_or_else(|| words.improper("COPY", "the name of an option"))?;
            if !words.take_symbol(Symbol::Equal) {
                return Err(words.improper("COPY", "="));
            }
            let is_negative = words.take_symbol(Symbol::Minus);
            let value = match words.string() {
                Some(value) => value,
                None if words.is_end() => return Err(words.improper("COPY", "the value of the option")),
                None => words.skip().trim_matches('"').to_owned(),
            };
            given.push((name, if is_negative { format!("-{value}") } else { value }));
            if !words.take("AND") {
                break;
            }
        }
    }
    words.end("COPY")?;
    let keyspace = keyspace.or_else(|| shell.session.keyspace.clone());
    let keyspace = keyspace.ok_or_else(|| command("Not in any keyspace."))?;
    let known = shell.schema()?.table(&keyspace, &table)?;
    if columns.is_empty() {
        columns = known.iter().map(|column| column.name.clone()).collect();
    }
    if let Some(wrong) = columns.iter().find(|name| !known.iter().any(|column| column.name == **name)) {
        return Err(command(format!("Invalid column name {wrong}")));
    }
    let options = CopyOptions::read(direction, &keyspace, &table, given, shell)?;
    Ok(Copy { keyspace, table, columns, direction, files, options })
}

/// Describes a duration as cqlsh does.
fn describe_interval(seconds: f64) -> String {
    let mut parts = Vec::new();
    let mut rest = seconds;
    for (length, unit) in [(86_400.0, "day"), (3_600.0, "hour"), (60.0, "minute")] {
        let count = (rest / length) as u64;
        if count > 0 {
            parts.push(format!("{count} {unit}{}", if count > 1 { "s" } else { "" }));
        }
        rest %= length;
    }
    let seconds = format!("{rest:.3} seconds");
    match parts.as_slice() {
        [] => seconds,
        [one] => format!("{one} and {seconds}"),
        several => format!("{}, and {seconds}", several.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_have_their_largest_units() {
        assert_eq!(describe_interval(1.5), "1.500 seconds");
        assert_eq!(describe_interval(61.0), "1 minute and 1.000 seconds");
        assert_eq!(describe_interval(7325.25), "2 hours, 2 minutes, and 5.250 seconds");
    }
}
