//! COPY FROM.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use cassette_rows::DataType;

use super::dialect::{Dialect, Record};
use super::meter::Meter;
use super::options::CopyOptions;
use super::{Copy, describe_interval};
use crate::cqlshrc::expand_home;
use crate::error::{Result, command};
use crate::load::{self, Loaded, Rejected, RowValues, Settings, Target};
use crate::schema::ColumnKind;
use crate::shell::Shell;
use crate::values::ParseFormats;

/// Reasons of rejected rows that are shown; the file has all rows.
const REASONS_MAX: usize = 20;
const BUFFER_LENGTH: usize = 1 << 20;

/// Inserts the rows of files or of standard input into a table.
///
/// # Errors
/// If a file or the server fails, or rows were rejected.
pub fn run(shell: &mut Shell, copy: &Copy) -> Result<()> {
    let options = &copy.options;
    let columns: Vec<String> =
        copy.columns.iter().filter(|name| !options.skipcols.contains(name)).cloned().collect();
    let known = shell.schema()?.table(&copy.keyspace, &copy.table)?.to_vec();
    let mut target = Target::new(&copy.keyspace, &copy.table, &known, &columns, options.ttl)?;
    let is_key: Vec<bool> = target
        .columns
        .iter()
        .map(|name| known.iter().any(|column| column.name == *name && column.kind < ColumnKind::Static))
        .collect();
    target.prepare(&mut shell.session)?;
    let fields = Fields {
        order: target
            .columns
            .iter()
            .map(|name| copy.columns.iter().position(|column| column == name))
            .collect(),
        count: copy.columns.len(),
        formats: options.parse_formats(),
        types: &target.types,
        names: &target.columns,
        is_key: &is_key,
        is_counter: target.is_counter,
    };
    let mut sources = Sources::open(copy)?;
    shell.out.say(&format!(
        "\nStarting copy of {}.{} with columns [{}].\n",
        copy.keyspace,
        copy.table,
        columns.join(", ")
    ));
    if copy.files.is_none() {
        shell.out.say("[Use . on a line by itself to end input]\n");
    }
    shell.out.flush();
    let mut meter = Meter::new(options.reportfrequency, options.ratefile.as_deref(), true)?;
    let mut errors = ErrorFile::new(&options.errfile, Dialect::of(options));
    let loaded = load::load(
        &shell.session,
        &target,
        &settings(shell, options),
        || sources.next_chunk(),
        |record| fields.convert(record),
        |rejected| errors.add(&rejected),
        |progress| meter.update(progress.done.load(Ordering::Relaxed), false),
    );
    let loaded = loaded?;
    meter.update(loaded.rows + loaded.rejected, true);
    shell.out.say(&format!(
        "\n{} rows imported from {} files in {} ({} skipped).\n",
        loaded.rows,
        sources.files,
        describe_interval(meter.seconds()),
        sources.skipped
    ));
    shell.out.flush();
    errors.finish(&loaded)
}

fn settings(shell: &Shell, options: &CopyOptions) -> Settings {
    Settings {
        threads: options.numprocesses,
        batch_rows_max: options.maxbatchsize.max(options.minbatchsize),
        attempts_max: options.maxattempts,
        rate_max: options.ingestrate,
        prepared: options.preparedstatements,
        unset_nulls: false,
        consistency: shell.session.consistency,
        conversion_errors_max: options.maxparseerrors,
        insert_errors_max: options.maxinserterrors,
    }
}

/// The fields of rows as values.
struct Fields<'a> {
    /// The field of each value.
    order: Vec<Option<usize>>,
    count: usize,
    formats: ParseFormats,
    types: &'a [DataType],
    names: &'a [String],
    is_key: &'a [bool],
    is_counter: bool,
}

impl Fields<'_> {
    fn convert(&self, record: &Record) -> std::result::Result<RowValues, String> {
        if record.len() != self.count {
            return Err(format!("ParseError - Invalid row length {} should be {}", record.len(), self.count));
        }
        let fields: Vec<&[u8]> = record.fields().collect();
        let mut values = Vec::with_capacity(self.order.len());
        for (index, field) in self.order.iter().enumerate() {
            let field = field.and_then(|field| fields.get(field)).copied().unwrap_or_default();
            let text = std::str::from_utf8(field)
                .map_err(|_| format!("ParseError - column {}: expected UTF-8", self.names[index]))?;
            let value = self.formats.parse(&self.types[index], text).map_err(|reason| {
                format!("ParseError - Failed to parse {text} : column {}: {reason}", self.names[index])
            })?;
            if value.is_none() && self.is_key[index] {
                let advice = if self.formats.null.is_empty() {
                    " If you want to insert empty strings, consider using the WITH NULL=<marker> option for COPY."
                } else {
                    ""
                };
                let name = &self.names[index];
                return Err(format!(
                    "ParseError - Cannot insert null value for primary key column '{name}'.{advice}"
                ));
            }
            // A counter without a value is not incremented.
            let is_increment = self.is_counter && !self.is_key[index];
            values.push(value.or_else(|| is_increment.then(|| 0i64.to_be_bytes().to_vec())));
        }
        Ok(values)
    }
}

/// The files to read, one after the other.
struct Sources<'a> {
    options: &'a CopyOptions,
    paths: std::vec::IntoIter<PathBuf>,
    current: Option<Box<dyn BufRead>>,
    /// The name of the current file, for errors.
    name: String,
    files: u64,
    rows: u64,
    skipped: u64,
}

impl<'a> Sources<'a> {
    fn open(copy: &'a Copy) -> Result<Self> {
        let mut sources = Self {
            options: &copy.options,
            paths: Vec::new().into_iter(),
            current: None,
            name: "STDIN".to_owned(),
            files: 0,
            rows: 0,
            skipped: 0,
        };
        match &copy.files {
            None => {
                let input: Box<dyn BufRead> =
                    Box::new(BufReader::new(UntilEnd::new(std::io::stdin().lock())));
                sources.begin(input)?;
            }
            Some(patterns) => {
                let mut paths = Vec::new();
                for pattern in patterns.split(',') {
                    paths.extend(matching(pattern.trim())?);
                }
                sources.paths = paths.into_iter();
                sources.next_file()?;
            }
        }
        Ok(sources)
    }

    fn begin(&mut self, mut input: Box<dyn BufRead>) -> Result<()> {
        self.files += 1;
        if self.options.header {
            Dialect::of(self.options).read(&mut input)?;
        }
        self.current = Some(input);
        Ok(())
    }

    fn next_file(&mut self) -> Result<()> {
        self.current = None;
        let Some(path) = self.paths.next() else { return Ok(()) };
        let failed = |error| command(format!("Can't open '{}' for reading: {error}", path.display()));
        let file = File::open(&path).map_err(failed)?;
        self.name = path.display().to_string();
        self.begin(Box::new(BufReader::with_capacity(BUFFER_LENGTH, file)))
    }

    fn next_chunk(&mut self) -> Result<Option<Vec<Record>>> {
        let dialect = Dialect::of(self.options);
        let mut chunk = Vec::new();
        while chunk.len() < self.options.chunksize {
            if self.options.maxrows.is_some_and(|limit| self.rows >= limit) {
                break;
            }
            let Some(current) = &mut self.current else { break };
            let read = dialect.read(current);
            match read.map_err(|error| command(format!("cannot read {}: {error}", self.name)))? {
                None => self.next_file()?,
                Some(record) => {
                    self.rows += 1;
                    if self.rows > self.options.skiprows {
                        chunk.push(record);
                    } else {
                        self.skipped += 1;
                    }
                }
            }
        }
        Ok((!chunk.is_empty()).then_some(chunk))
    }
}

/// Returns the files that a pattern with `*` and `?` in its last part names, sorted.
fn matching(pattern: &str) -> Result<Vec<PathBuf>> {
    let path = expand_home(pattern);
    if path.is_file() {
        return Ok(vec![path]);
    }
    let none = || command(format!("Can't open '{pattern}' for reading: no matching file found"));
    let name = path.file_name().and_then(|name| name.to_str()).ok_or_else(none)?.to_owned();
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let folder = parent.unwrap_or_else(|| Path::new("."));
    let entries = std::fs::read_dir(folder).map_err(|_| none())?;
    let mut found: Vec<PathBuf> = entries
        .filter_map(std::result::Result::ok)
        .filter(|entry| entry.file_name().to_str().is_some_and(|found| matches(&name, found)))
        .map(|entry| entry.path())
        .filter(|path| path.is_file())
        .collect();
    found.sort();
    if found.is_empty() { Err(none()) } else { Ok(found) }
}

/// Returns whether a name has the form of a pattern with `*` and `?`.
fn matches(pattern: &str, name: &str) -> bool {
    let mut pattern_rest = pattern.chars();
    match pattern_rest.next() {
        None => name.is_empty(),
        Some('*') => {
            let rest = pattern_rest.as_str();
            name.char_indices().any(|(at, _)| matches(rest, &name[at..])) || matches(rest, "")
        }
        Some(c) => {
            let mut name_rest = name.chars();
            name_rest.next().is_some_and(|found| c == '?' || c == found)
                && matches(pattern_rest.as_str(), name_rest.as_str())
        }
    }
}

/// Standard input up to a line with nothing but `.` or `\.`.
struct UntilEnd<R> {
    input: R,
    line: Vec<u8>,
    at: usize,
    is_over: bool,
}

impl<R: BufRead> UntilEnd<R> {
    fn new(input: R) -> Self {
        Self { input, line: Vec::new(), at: 0, is_over: false }
    }
}

impl<R: BufRead> Read for UntilEnd<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.at == self.line.len() && !self.is_over {
            self.line.clear();
            self.at = 0;
            let length = self.input.read_until(b'\n', &mut self.line)?;
            let text = self.line.trim_ascii_end();
            if length == 0 || text == b"." || text == b"\\." {
                self.is_over = true;
                self.line.clear();
            }
        }
        let rest = &self.line[self.at..];
        let length = rest.len().min(buffer.len());
        buffer[..length].copy_from_slice(&rest[..length]);
        self.at += length;
        Ok(length)
    }
}

/// The file with rejected rows, which is created with the first of them.
struct ErrorFile<'a> {
    path: &'a Path,
    dialect: Dialect,
    file: Option<BufWriter<File>>,
    failure: Option<String>,
    shown: usize,
}

impl<'a> ErrorFile<'a> {
    fn new(path: &'a Path, dialect: Dialect) -> Self {
        Self { path, dialect, file: None, failure: None, shown: 0 }
    }

    fn add(&mut self, rejected: &Rejected<Record>) {
        self.shown += 1;
        if self.shown <= REASONS_MAX {
            eprintln!("Failed to import 1 rows: {},  given up without retries", rejected.reason);
        } else if self.shown == REASONS_MAX + 1 {
            eprintln!("Further reasons are not shown.");
        }
        if let Err(error) = self.write(&rejected.row) {
            self.failure.get_or_insert_with(|| error.to_string());
        }
    }

    fn write(&mut self, record: &Record) -> std::io::Result<()> {
        if self.file.is_none() {
            if self.path.exists() {
                // Rows of an earlier COPY are kept.
                let seconds = jiff::Zoned::now().strftime("%Y%m%d_%H%M%S");
                std::fs::rename(self.path, format!("{}.{seconds}", self.path.display()))?;
            }
            let file = OpenOptions::new().create(true).append(true).open(self.path)?;
            self.file = Some(BufWriter::new(file));
        }
        let fields: Vec<_> = record.fields().map(String::from_utf8_lossy).collect();
        let mut line = Vec::new();
        self.dialect.write(fields.iter().map(|field| &**field), &mut line);
        self.file.as_mut().map_or(Ok(()), |file| file.write_all(&line))
    }

    /// Completes the file.
    ///
    /// # Errors
    /// If rows were rejected.
    fn finish(mut self, loaded: &Loaded) -> Result<()> {
        if let Some(file) = &mut self.file
            && let Err(error) = file.flush()
        {
            self.failure.get_or_insert_with(|| error.to_string());
        }
        if loaded.rejected == 0 {
            return Ok(());
        }
        let gave_up = if loaded.gave_up { "too many errors: the rest was not read. " } else { "" };
        let count = loaded.rejected;
        Err(command(match self.failure {
            None => format!(
                "{gave_up}Failed to process {count} rows; failed rows written to {}",
                self.path.display()
            ),
            Some(error) => {
                format!(
                    "{gave_up}Failed to process {count} rows, and to write them to {}: {error}",
                    self.path.display()
                )
            }
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_names() {
        for (pattern, name, is_match) in [
            ("*.csv", "a.csv", true),
            ("*.csv", "a.txt", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*", "", true),
            ("a*b*c", "aXbYc", true),
        ] {
            assert_eq!(matches(pattern, name), is_match, "{pattern} {name}");
        }
    }

    #[test]
    fn input_ends_at_a_line_with_a_point() {
        let mut text = String::new();
        UntilEnd::new(&b"1,a\n2,b\n\\.\n3,c\n"[..]).read_to_string(&mut text).unwrap();
        assert_eq!(text, "1,a\n2,b\n");
    }
}
