//! `cassette cdc …`: the segments of change data capture, without a server.

mod json;

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use cassette_engine::cdc::{ChangeStream, ChangeStreamError, captured_segments, remove_captured};
use cassette_engine::commitlog::Position;
use cassette_vfs::encryption::Encryption;
use cassette_vfs::{FileSystem, RealFileSystem};
use clap::{Args, Subcommand};

/// How often `--follow` looks for new changes. They become visible when the commit log is synced.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(100);

/// Commands on a directory of segments (`cdc_raw_directory`).
#[derive(Debug, Subcommand)]
pub enum CdcCommand {
    /// Print changes as JSON, one operation a line
    Tail(TailArguments),
    /// List the segments with their states
    List(ListArguments),
    /// Remove the segments whose changes have all been processed
    Remove(RemoveArguments),
}

/// Arguments of `cassette cdc tail`.
#[derive(Debug, Args)]
#[command(after_help = "\
Changes are printed in the order of the commit log, at least once. A line is one operation: insert, \
update, delete_row, delete_range or delete_partition. The lines of one atomic write have the same \
position.

Examples:
  Everything that is in the directory:
    cassette cdc tail data/cdc_raw

  Continue after the last position that was processed, and wait for more:
    cassette cdc tail data/cdc_raw --from 1795457677158:4076672 --follow")]
pub struct TailArguments {
    /// The directory of the segments
    directory: PathBuf,
    /// Continue after this position, as printed
    #[arg(long, value_name = "POSITION", value_parser = position)]
    from: Option<Position>,
    /// Wait for further changes
    #[arg(short, long)]
    follow: bool,
    /// Only this table; can be repeated
    #[arg(short, long = "table", value_name = "KEYSPACE.TABLE")]
    tables: Vec<String>,
    /// The configuration of the server, whose keys decrypt segments
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// Arguments of `cassette cdc list`.
#[derive(Debug, Args)]
pub struct ListArguments {
    /// The directory of the segments
    directory: PathBuf,
}

/// Arguments of `cassette cdc remove`.
#[derive(Debug, Args)]
pub struct RemoveArguments {
    /// The directory of the segments
    directory: PathBuf,
    /// The position of the last change that has been processed
    #[arg(long, value_name = "POSITION", value_parser = position)]
    through: Position,
}

/// Parses a position as it is printed.
fn position(text: &str) -> Result<Position, String> {
    let parsed = text.split_once(':').and_then(|(segment, offset)| {
        Some(Position { segment: segment.parse().ok()?, offset: offset.parse().ok()? })
    });
    parsed.ok_or_else(|| "expected SEGMENT:OFFSET, as cassette cdc tail prints it".to_owned())
}

impl CdcCommand {
    /// Runs the command. `encryption` returns what decrypts segments by a configuration file.
    pub fn run(
        &self,
        encryption: impl FnOnce(&Path) -> anyhow::Result<Option<Arc<dyn Encryption>>>,
    ) -> anyhow::Result<bool> {
        let fs: Arc<dyn FileSystem> = Arc::new(RealFileSystem);
        let out = BufWriter::new(io::stdout().lock());
        match self {
            Self::Tail(arguments) => {
                check(&arguments.directory)?;
                let encryption = arguments.config.as_deref().map(encryption).transpose()?.flatten();
                let from = arguments.from.unwrap_or(Position::ZERO);
                let stream = ChangeStream::open(fs, &arguments.directory, encryption, from);
                tail(stream, arguments, out)
            }
            Self::List(arguments) => {
                check(&arguments.directory)?;
                list(fs.as_ref(), &arguments.directory, out)
            }
            Self::Remove(arguments) => {
                check(&arguments.directory)?;
                let removed = remove_captured(fs.as_ref(), &arguments.directory, arguments.through)?;
                println!("{removed} segments removed");
                Ok(true)
            }
        }
    }
}

fn check(directory: &Path) -> anyhow::Result<()> {
    let metadata = std::fs::metadata(directory).with_context(|| directory.display().to_string())?;
    if !metadata.is_dir() {
        bail!("{}: expected a directory of segments, found a file", directory.display());
    }
    Ok(())
}

fn tail(mut stream: ChangeStream, arguments: &TailArguments, mut out: impl Write) -> anyhow::Result<bool> {
    let is_selected = |keyspace: &str, table: &str| {
        let names = arguments.tables.iter().filter_map(|name| name.split_once('.'));
        arguments.tables.is_empty() || names.into_iter().any(|selected| selected == (keyspace, table))
    };
    if let Some(name) = arguments.tables.iter().find(|name| !name.contains('.')) {
        bail!("--table: expected KEYSPACE.TABLE, found {name}");
    }
    loop {
        let record = match stream.next_record() {
            Err(error @ ChangeStreamError::Missing { .. }) => {
                eprintln!("warning: {error}");
                stream.skip_missing();
                continue;
            }
            record => record?,
        };
        let written = match record {
            Some(record) => {
                let mut selected = record.changes.iter();
                selected.try_for_each(|change| {
                    if !is_selected(&change.table.keyspace, &change.table.name) {
                        return Ok(());
                    }
                    json::lines(record.position, change).iter().try_for_each(|line| writeln!(out, "{line}"))
                })
            }
            None if arguments.follow => out.flush().map(|()| std::thread::sleep(FOLLOW_INTERVAL)),
            None => return finished(out.flush()),
        };
        if written.is_err() {
            return finished(written);
        }
    }
}

/// A reader that has read enough closes the pipe.
fn finished(written: io::Result<()>) -> anyhow::Result<bool> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(true),
        written => Ok(written.map(|()| true)?),
    }
}

fn list(fs: &dyn FileSystem, directory: &Path, mut out: impl Write) -> anyhow::Result<bool> {
    let segments = captured_segments(fs, directory)?;
    writeln!(out, "{:<20} {:>12} {:>12}  STATE", "SEGMENT", "BYTES", "DURABLE")?;
    for segment in &segments {
        let state = match (segment.completed, segment.durable) {
            (true, _) => "completed",
            (false, Some(_)) => "active",
            (false, None) => "no changes yet",
        };
        let durable = segment.durable.unwrap_or(0);
        writeln!(out, "{:<20} {:>12} {durable:>12}  {state}", segment.id, segment.length)?;
    }
    finished(out.flush())
}

#[cfg(test)]
mod tests;
