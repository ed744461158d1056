//! `cassette sstable export`: live rows for other programs.
//!
//! All specified SSTables belong to one table and are merged as for a read, so that each row occurs
//! once, without deleted or expired data. Rows stream from file to file: memory holds one row, or,
//! for Parquet, a group of them.

mod csv;
mod json;
#[cfg(feature = "parquet")]
mod parquet;
mod rows;

use std::fs::File;
use std::io::{BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use cassette_rows::{MergedStream, PartitionStream};
use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};

use super::arguments;
use super::dump::now_seconds;
use super::schema::{self, Schema};
use rows::{Column, LiveRows};

/// The selection and the format.
#[derive(Debug, Args)]
#[command(after_help = "\
SSTables do not contain the names of key columns. Without --schema they are called PartitionKey and \
clustering; a snapshot's schema.cql, any file of CREATE statements, or a data directory provides \
their names.

  JSON     a row per line, in the format of SELECT JSON
  CSV      a header and a row per line; blobs as 0x..., collections and tuples as CQL literals; null \
is an empty field, an empty text is \"\"
  Parquet  typed columns, compressed with Snappy; lists, sets and vectors are LIST, maps are MAP, \
tuples (_1, _2, ...) and user-defined types are groups; varint, decimal, inet and duration are text, \
without loss; requires --output

Examples:
  cassette sstable export data/ks/t-*/ --schema schema.cql -o t.json
  cassette sstable export snapshots/s --schema snapshots/s/schema.cql \\
      --format csv | head
  cassette sstable export data/ks/t-*/ --schema schema.cql -o t.csv")]
pub struct ExportArguments {
    /// Files of SSTables of one table, or its directory
    #[arg(required = true)]
    sstables: Vec<PathBuf>,
    /// Output format; by default that of the output's name, or JSON
    #[arg(short, long, value_enum)]
    format: Option<Format>,
    /// The file to write; standard output by default
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// CREATE statements, or a data directory that no server has open
    #[arg(long, value_name = "FILE")]
    schema: Option<PathBuf>,
}

/// A file format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Json,
    Csv,
    Parquet,
}

/// Accepts rows one by one. Values are those of the columns, in the encoding of the native
/// protocol.
trait RowWriter {
    fn write(&mut self, values: &[Option<Vec<u8>>]) -> anyhow::Result<()>;

    /// Ends the file.
    fn finish(self: Box<Self>) -> anyhow::Result<()>;
}

pub fn run(arguments: &ExportArguments) -> anyhow::Result<bool> {
    let descriptors = arguments::sstables(&arguments.sstables)?;
    let table = match &arguments.schema {
        Some(path) => Schema::read(path)?.table(&descriptors[0])?,
        None => schema::table_of_headers(&descriptors)?,
    };
    let mut sources: Vec<Box<dyn PartitionStream>> = Vec::with_capacity(descriptors.len());
    let mut partitions = 0;
    for descriptor in &descriptors {
        let reader = arguments::open(descriptor, &table)?;
        partitions += reader.estimated_keys();
        sources.push(Box::new(reader.scan_all()?));
    }
    let columns = rows::columns(&table);
    let format = format(arguments);
    let output = arguments.output.as_deref();
    let mut writer = writer(format, output, &columns)?;
    let bar = progress(partitions, output);
    let merged = MergedStream::new(sources, table.clone(), false);
    let mut live = LiveRows::new(merged, &table, &columns, now_seconds());
    let written = write_all(&mut live, &mut *writer, &bar).and_then(|rows| writer.finish().map(|()| rows));
    bar.finish_and_clear();
    match written {
        Ok(rows) => {
            if let Some(output) = output {
                eprintln!("{rows} rows to {}", output.display());
            }
            Ok(true)
        }
        Err(error) if is_broken_pipe(&error) => Ok(true),
        Err(error) => Err(error),
    }
}

fn write_all<S: PartitionStream>(
    live: &mut LiveRows<'_, S>,
    writer: &mut dyn RowWriter,
    bar: &ProgressBar,
) -> anyhow::Result<u64> {
    let mut rows = 0;
    while let Some(values) = live.next()? {
        writer.write(values)?;
        rows += 1;
        if rows % 1024 == 0 {
            bar.set_position(live.partitions());
        }
    }
    Ok(rows)
}

fn format(arguments: &ExportArguments) -> Format {
    let extension = arguments.output.as_deref().and_then(Path::extension).and_then(|text| text.to_str());
    arguments.format.unwrap_or(match extension {
        Some("csv") => Format::Csv,
        Some("parquet") => Format::Parquet,
        _ => Format::Json,
    })
}

fn writer(format: Format, output: Option<&Path>, columns: &[Column]) -> anyhow::Result<Box<dyn RowWriter>> {
    let create =
        |path: &Path| File::create(path).with_context(|| format!("cannot create {}", path.display()));
    let open = || -> anyhow::Result<Box<dyn Write>> {
        Ok(match output {
            Some(path) => Box::new(BufWriter::with_capacity(1 << 16, create(path)?)),
            None => Box::new(BufWriter::with_capacity(1 << 16, std::io::stdout())),
        })
    };
    Ok(match format {
        Format::Json => Box::new(json::JsonRows::new(open()?, columns)),
        Format::Csv => Box::new(csv::CsvRows::new(open()?, columns)?),
        #[cfg(feature = "parquet")]
        Format::Parquet => {
            let Some(path) = output else {
                bail!("Parquet requires an output file: specify it with --output")
            };
            Box::new(parquet::ParquetRows::new(BufWriter::with_capacity(1 << 16, create(path)?), columns)?)
        }
        #[cfg(not(feature = "parquet"))]
        Format::Parquet => bail!("this build cannot write Parquet: build it with the feature `parquet`"),
    })
}

/// Shows a bar on a terminal, unless the rows are printed there too.
fn progress(partitions: u64, output: Option<&Path>) -> ProgressBar {
    if output.is_none() && std::io::stdout().is_terminal() || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(partitions);
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} partitions {per_sec} {eta}") {
        bar.set_style(style);
    }
    bar
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<std::io::Error>();
    error.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}
