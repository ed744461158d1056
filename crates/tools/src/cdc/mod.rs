//! `cassette cdc …`: the segments of change data capture, without a server.

mod images;
mod json;
mod tail_images;

use std::collections::BTreeSet;
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

use self::images::ImageOptions;
use self::tail_images::ImagesTail;
use crate::units;

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
    /// Remove the processed lines that a copy for images keeps (tail --images)
    Acknowledge(AcknowledgeArguments),
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
    cassette cdc tail data/cdc_raw --from 1795457677158:4076672 --follow

  With the rows before and after each change, from a copy that begins with a snapshot:
    cassette cdc tail data/cdc_raw --images copy --images-from data/data/ks/t-…/snapshots/first")]
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
    /// Add the rows before and after each change, from the copy of the tables in this directory,
    /// which is created if it does not exist
    #[arg(long, value_name = "DIR")]
    images: Option<PathBuf>,
    /// Begin the copy with the rows of this snapshot of a captured table; can be repeated
    #[arg(long, value_name = "SNAPSHOT", requires = "images")]
    images_from: Vec<PathBuf>,
    /// Begin the copy with other tables empty: before the first change that is read, they had no
    /// rows
    #[arg(long, requires = "images")]
    images_empty: bool,
    /// The maximum number of rows in an image of the deletion of a range or a partition
    #[arg(long, value_name = "ROWS", default_value_t = 1000, requires = "images")]
    images_rows: usize,
    /// The maximum size of the lines that the copy keeps because they were not acknowledged
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = units::bytes, requires = "images")]
    images_outbox: u64,
}

impl TailArguments {
    fn image_options(&self) -> ImageOptions {
        ImageOptions {
            from: self.images_from.clone(),
            empty: self.images_empty,
            rows: self.images_rows,
            outbox: self.images_outbox,
            tables: self.tables.iter().cloned().collect::<BTreeSet<_>>(),
            background_threads: true,
        }
    }

    fn check_tables(&self) -> anyhow::Result<()> {
        match self.tables.iter().find(|name| !name.contains('.')) {
            Some(name) => bail!("--table: expected KEYSPACE.TABLE, found {name}"),
            None => Ok(()),
        }
    }
}

/// Arguments of `cassette cdc acknowledge`.
#[derive(Debug, Args)]
pub struct AcknowledgeArguments {
    /// The directory of the copy (--images)
    directory: PathBuf,
    /// The position of the last line that has been processed
    #[arg(long, value_name = "POSITION", value_parser = position)]
    through: Position,
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
                arguments.check_tables()?;
                let encryption = arguments.config.as_deref().map(encryption).transpose()?.flatten();
                if let Some(images) = &arguments.images {
                    let (captured, options) = (arguments.directory.as_path(), arguments.image_options());
                    let (from, follow) = (arguments.from, arguments.follow);
                    return ImagesTail { fs, captured, images, options, encryption, from, follow }.run(out);
                }
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
            Self::Acknowledge(arguments) => {
                images::acknowledge(fs.as_ref(), &arguments.directory, arguments.through)?;
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
    arguments.check_tables()?;
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
                    let mut lines = json::lines(record.position, change).into_iter();
                    lines.try_for_each(|line| writeln!(out, "{}", line.finish()))
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
