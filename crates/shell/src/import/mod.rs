//! `.import`: the rows of CSV, JSON and Parquet files into a table.

mod parquet_rows;
mod rejects;
mod rows;

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use cassette_cql::values::json::decode_value;
use cassette_rows::DataType;
use indicatif::{ProgressBar, ProgressStyle};

use crate::cqlshrc::expand_home;
use crate::error::{Result, command};
use crate::load::{self, RowValues, Settings, Target};
use crate::schema::ColumnKind;
use crate::shell::Shell;
use crate::values::{ParseFormats, TimestampFormat};
use crate::words::Words;
use rejects::Rejects;
use rows::{Field, FileRows, Row};

/// Rejected rows that end the import.
const ERRORS_MAX: u64 = 100_000;
const USAGE: &str = "expected .import <file> [<keyspace>.]<table> [--rejects <file>] [--threads <n>]; HELP IMPORT \
                     describes it";

/// An import with its parts.
struct Import {
    path: PathBuf,
    keyspace: Option<String>,
    table: String,
    rejects: PathBuf,
    threads: usize,
}

/// Executes `.import`.
///
/// # Errors
/// If the command is invalid, the file or the server fails, or rows were rejected.
pub fn run(shell: &mut Shell, text: &str) -> Result<()> {
    let import = parse(text)?;
    let keyspace = import.keyspace.clone().or_else(|| shell.session.keyspace.clone());
    let keyspace = keyspace.ok_or_else(|| command("no keyspace: expected <keyspace>.<table>, or USE"))?;
    let known = shell.schema()?.table(&keyspace, &import.table)?.to_vec();
    let mut file = FileRows::open(&import.path)?;
    let columns: Vec<String> = file.columns()?;
    let mut target = Target::new(&keyspace, &import.table, &known, &columns, None)?;
    target.prepare(&mut shell.session)?;
    let is_key: Vec<bool> = target
        .columns
        .iter()
        .map(|name| known.iter().any(|column| column.name == *name && column.kind < ColumnKind::Static))
        .collect();
    let formats = ParseFormats {
        null: String::new(),
        timestamp: TimestampFormat::default(),
        decimal_separator: None,
        thousands_separator: None,
        booleans: ("True".to_owned(), "False".to_owned()),
    };
    let settings = Settings {
        threads: import.threads,
        batch_rows_max: 20,
        attempts_max: 5,
        rate_max: None,
        prepared: true,
        unset_nulls: true,
        consistency: shell.session.consistency,
        conversion_errors_max: Some(ERRORS_MAX),
        insert_errors_max: Some(ERRORS_MAX),
    };
    let bar = progress_bar(file.length());
    let mut rejects = Rejects::new(&import.rejects);
    let position = file.position();
    let began = std::time::Instant::now();
    let loaded = load::load(
        &shell.session,
        &target,
        &settings,
        || file.next_chunk(),
        |row: &Row| values(row, &target.columns, &target.types, &is_key, &formats),
        |rejected| rejects.add(&rejected),
        |progress| {
            bar.set_position(position.load(Ordering::Relaxed));
            bar.set_message(format!("{} rows", progress.done.load(Ordering::Relaxed)));
        },
    );
    bar.finish_and_clear();
    let loaded = loaded?;
    let seconds = began.elapsed().as_secs_f64();
    shell.out.say(&format!(
        "{} rows imported into {keyspace}.{} in {seconds:.3} seconds.\n",
        loaded.rows, import.table
    ));
    rejects.finish(loaded.rejected, loaded.gave_up)
}

/// Parses the command: file and table, with quotes around what has blanks, and options.
fn parse(text: &str) -> Result<Import> {
    let mut words = split(text).into_iter().skip(1);
    let (mut parts, mut rejects, mut threads) = (Vec::new(), None, None);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--rejects" => rejects = Some(words.next().ok_or_else(|| command(USAGE))?),
            "--threads" => threads = words.next(),
            _ if word.starts_with("--") => return Err(command(format!("unknown option {word}: {USAGE}"))),
            _ => parts.push(word),
        }
    }
    let [path, table] = parts.as_slice() else { return Err(command(USAGE)) };
    let mut words = Words::new(table);
    let named = words.qualified_name().filter(|_| words.is_end());
    let (keyspace, table) = named.ok_or_else(|| command(format!("invalid table {table}: {USAGE}")))?;
    let processors = std::thread::available_parallelism().map_or(2, usize::from);
    let threads = threads.map_or(Ok(processors), |threads| threads.parse());
    let threads = threads.map_err(|_| command(format!("invalid --threads: {USAGE}")))?.clamp(1, 64);
    let rejects = rejects.unwrap_or_else(|| format!("{path}.rejected.jsonl"));
    Ok(Import { path: expand_home(path), keyspace, table, rejects: expand_home(&rejects), threads })
}

/// Splits at blanks outside of single quotes, which are removed.
fn split(text: &str) -> Vec<String> {
    let (mut words, mut word, mut is_quoted, mut has_begun) = (Vec::new(), String::new(), false, false);
    for c in text.chars() {
        match c {
            '\'' => {
                is_quoted = !is_quoted;
                has_begun = true;
            }
            c if c.is_whitespace() && !is_quoted => {
                if std::mem::take(&mut has_begun) {
                    words.push(std::mem::take(&mut word));
                }
            }
            c => {
                word.push(c);
                has_begun = true;
            }
        }
    }
    if has_begun {
        words.push(word);
    }
    words
}

fn progress_bar(length: u64) -> ProgressBar {
    // Hidden unless standard error is a terminal.
    let bar = ProgressBar::new(length);
    let style = ProgressStyle::with_template("{bar:30} {percent:>3} % {msg} {eta}");
    if let Ok(style) = style {
        bar.set_style(style);
    }
    bar
}

/// Converts the fields of a row to the types of the columns.
fn values(
    row: &Row,
    columns: &[String],
    types: &[DataType],
    is_key: &[bool],
    formats: &ParseFormats,
) -> std::result::Result<RowValues, String> {
    if let Some(problem) = &row.problem {
        return Err(problem.clone());
    }
    if let Some((name, _)) = row.fields.iter().find(|(name, _)| !columns.contains(name)) {
        return Err(format!("the table has no column {name}, or the first row does not have it"));
    }
    let mut values = Vec::with_capacity(columns.len());
    for ((name, data_type), is_key) in columns.iter().zip(types).zip(is_key) {
        let field = row.fields.iter().find(|(known, _)| known == name).map(|(_, field)| field);
        let value = match field {
            None | Some(Field::Null) => Ok(None),
            Some(Field::Text(text)) => formats.parse(data_type, text),
            Some(Field::Json(json)) => {
                decode_value(data_type, json).map(Some).map_err(|error| error.to_string())
            }
            Some(Field::Parquet(field)) => parquet_rows::value(data_type, field, formats),
        };
        let value = value.map_err(|reason| format!("column {name}: {reason}"))?;
        if value.is_none() && *is_key {
            return Err(format!("column {name} of the primary key is null"));
        }
        values.push(value);
    }
    Ok(values)
}

/// Returns the extension of a file in lower case.
fn extension(path: &Path) -> String {
    path.extension().map(|extension| extension.to_string_lossy().to_lowercase()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_have_a_file_a_table_and_options() {
        let import = parse(".import 'a b.csv' ks.\"T\" --threads 3").unwrap();
        assert_eq!(import.path, Path::new("a b.csv"));
        assert_eq!((import.keyspace.as_deref(), import.table.as_str()), (Some("ks"), "T"));
        assert_eq!((import.rejects.as_path(), import.threads), (Path::new("a b.csv.rejected.jsonl"), 3));
        let error = |text| parse(text).err().unwrap().to_string();
        assert!(error(".import a").contains("expected .import"));
        assert!(error(".import a t --nothing").contains("--nothing"));
        assert!(error(".import a t-x").contains("invalid table"));
    }
}
