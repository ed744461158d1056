//! `cassette querylog …`: the files of the audit log and the full query log, without a server.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use cassette_query_log::{AuditEntry, Damage, End, Kind, LogFile, LoggedQuery, Records, files};
use cassette_vfs::RealFileSystem;
use clap::{Args, Subcommand, ValueEnum};

/// Commands on files of logs and directories of them.
#[derive(Debug, Subcommand)]
pub enum QueryLogCommand {
    /// Print records in order, as auditlogviewer and fqltool dump do: JSON, one record a line
    Dump(DumpArguments),
    /// Read files completely and compare them with their checksums
    Verify(VerifyArguments),
}

/// Arguments of `cassette querylog dump`.
#[derive(Debug, Args)]
pub struct DumpArguments {
    /// Files, or directories with files
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,

    /// The form of the output; `text` prints audit entries as Cassandra's FileAuditLogger does
    #[arg(long, value_enum, default_value_t = Format::Json)]
    format: Format,
}

/// Arguments of `cassette querylog verify`.
#[derive(Debug, Args)]
pub struct VerifyArguments {
    /// Files, or directories with files
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
}

/// The form of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Json,
    Text,
}

impl QueryLogCommand {
    /// Runs the command; returns false if it completed and found damage.
    pub fn run(&self) -> anyhow::Result<bool> {
        let out = BufWriter::new(io::stdout().lock());
        match self {
            Self::Dump(arguments) => dump(&arguments.paths, arguments.format, out),
            Self::Verify(arguments) => verify(&arguments.paths, out),
        }
    }
}

/// Prints all records, and reports damage of files at the end of each.
fn dump(paths: &[PathBuf], format: Format, mut out: impl Write) -> anyhow::Result<bool> {
    let mut is_whole = true;
    for path in selected(paths)?.iter().map(|file| &file.path) {
        if let Err(damage) = dump_file(path, format, &mut out)? {
            out.flush()?;
            eprintln!("{damage}");
            is_whole = false;
        }
    }
    out.flush()?;
    Ok(is_whole)
}

fn dump_file(path: &Path, format: Format, out: &mut impl Write) -> anyhow::Result<Result<(), Damage>> {
    let mut records = match Records::open(&RealFileSystem, path) {
        Ok(records) => records,
        Err(damage) => return Ok(Err(damage)),
    };
    loop {
        let record = match records.next_record() {
            Ok(Some(record)) => record,
            Ok(None) => return Ok(Ok(())),
            Err(damage) => return Ok(Err(damage)),
        };
        let text = text(records.kind(), format, &record).with_context(|| path.display().to_string())?;
        match writeln!(out, "{text}") {
            // A reader that has read enough closes the pipe.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(Ok(())),
            written => written?,
        }
    }
}

fn text(kind: Kind, format: Format, record: &[u8]) -> anyhow::Result<String> {
    Ok(match (kind, format) {
        (Kind::Audit, Format::Json) => AuditEntry::decode(record)?.json().to_string(),
        (Kind::Audit, Format::Text) => AuditEntry::decode(record)?.line(),
        (Kind::Queries, Format::Json) => LoggedQuery::decode(record)?.json().to_string(),
        (Kind::Queries, Format::Text) => {
            bail!("--format text is for audit logs: expected json for a full query log")
        }
    })
}

/// Prints the state of each file, and files that are missing between others.
fn verify(paths: &[PathBuf], mut out: impl Write) -> anyhow::Result<bool> {
    let (mut damaged, mut last) = (0, BTreeMap::<(PathBuf, &str), u64>::new());
    let files = selected(paths)?;
    for file in &files {
        let directory = file.path.parent().unwrap_or(Path::new("")).to_owned();
        let before = last.insert((directory, file.kind.name()), file.number);
        if let Some(before) = before.filter(|before| file.number != before + 1) {
            writeln!(out, "{}: files are missing after number {before}", file.path.display())?;
            damaged += 1;
        }
        let path = file.path.display();
        match verify_file(file) {
            Ok((records, End::Closed)) => writeln!(out, "{path}: {records} records, closed")?,
            Ok((records, End::Open)) => writeln!(out, "{path}: {records} records, not closed")?,
            Err(reason) => {
                writeln!(out, "{reason}")?;
                damaged += 1;
            }
        }
    }
    writeln!(out, "{} files, {damaged} problems", files.len())?;
    out.flush()?;
    Ok(damaged == 0)
}

/// Returns the number of records and how the file ends.
fn verify_file(file: &LogFile) -> anyhow::Result<(u64, End)> {
    let mut records = Records::open(&RealFileSystem, &file.path)?;
    if (records.kind(), records.number()) != (file.kind, file.number) {
        bail!("{}: damaged file: its name is that of another", file.path.display());
    }
    let mut count = 0;
    while let Some(record) = records.next_record()? {
        let decoded = match records.kind() {
            Kind::Audit => AuditEntry::decode(&record).map(drop),
            Kind::Queries => LoggedQuery::decode(&record).map(drop),
        };
        decoded.with_context(|| format!("{}: record {count}", file.path.display()))?;
        count += 1;
    }
    Ok((count, records.end().unwrap_or(End::Open)))
}

/// Returns the files of paths: a file each, or directories with all in them, in order.
fn selected(paths: &[PathBuf]) -> anyhow::Result<Vec<LogFile>> {
    let mut selected = Vec::new();
    for path in paths {
        let directory = if path.is_dir() { path.as_path() } else { path.parent().unwrap_or(Path::new("")) };
        let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
        let found = files(&RealFileSystem, directory)
            .with_context(|| format!("cannot list {}", directory.display()))?;
        let before = selected.len();
        let is_meant = |file: &LogFile| path.is_dir() || file.path.file_name() == path.file_name();
        selected.extend(found.into_iter().filter(is_meant));
        if selected.len() == before {
            bail!("{}: no file of an audit log or full query log", path.display());
        }
    }
    Ok(selected)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;

    use cassette_query_log::{AuditEntryType, Full, Log, Options};
    use cassette_vfs::SystemClock;

    use super::*;

    /// Writes files with one entry each, and returns their paths.
    fn written(directory: &Path, count: u64) -> Vec<PathBuf> {
        for timestamp in 0..count {
            let (fs, clock) = (Arc::new(RealFileSystem), Arc::new(SystemClock::new()));
            let log = Log::open(fs, clock, Kind::Audit, Options::new(directory)).unwrap();
            let entry = AuditEntry {
                user: None,
                host: "/127.0.0.1:9042".into(),
                source: "127.0.0.1".into(),
                port: 1,
                timestamp: timestamp as i64,
                entry_type: AuditEntryType::Select,
                batch: None,
                keyspace: None,
                scope: None,
                operation: "SELECT".into(),
            };
            assert!(log.push(entry.encode(), Full::Wait));
        }
        files(&RealFileSystem, directory).unwrap().into_iter().map(|file| file.path).collect()
    }

    fn verified(path: &Path) -> (bool, String) {
        let mut out = Vec::new();
        let is_whole = verify(&[path.to_owned()], &mut out).unwrap();
        (is_whole, String::from_utf8(out).unwrap())
    }

    #[test]
    fn records_of_a_directory_are_printed_in_order() {
        let directory = tempfile::tempdir().unwrap();
        let paths = written(directory.path(), 2);
        let mut out = Vec::new();
        assert!(dump(&[directory.path().to_owned()], Format::Json, &mut out).unwrap());
        let timestamp = |line: &str| {
            serde_json::from_str::<serde_json::Value>(line).unwrap()["timestamp"].as_i64().unwrap()
        };
        let out = String::from_utf8(out).unwrap();
        assert_eq!(out.lines().map(timestamp).collect::<Vec<_>>(), [0, 1]);
        let mut out = Vec::new();
        assert!(dump(&paths[1..], Format::Text, &mut out).unwrap());
        let out = String::from_utf8(out).unwrap();
        assert!(out.starts_with("user:null|host:/127.0.0.1:9042|") && out.lines().count() == 1, "{out}");
    }

    #[test]
    fn damaged_and_missing_files_are_found() {
        let directory = tempfile::tempdir().unwrap();
        let paths = written(directory.path(), 3);
        let (is_whole, out) = verified(directory.path());
        assert!(is_whole && out.contains("1 records, closed"), "{out}");
        let mut content = fs::read(&paths[2]).unwrap();
        let at = content.len() - 20;
        content[at] ^= 1;
        fs::write(&paths[2], content).unwrap();
        fs::remove_file(&paths[1]).unwrap();
        let (is_whole, out) = verified(directory.path());
        assert!(!is_whole, "{out}");
        assert!(out.contains("its checksum is wrong"), "{out}");
        assert!(out.contains("files are missing after number 1"), "{out}");
        assert!(out.ends_with("2 files, 2 problems\n"), "{out}");
        assert!(!dump(&paths[2..], Format::Json, Vec::new()).unwrap());
    }
}
