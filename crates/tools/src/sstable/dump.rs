//! `cassette sstable dump`: sstabledump.

use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;
use cassette_cql::values::text::from_text;
use cassette_rows::{DecoratedKey, TableMetadata, key};
use cassette_sstable::dump::{DumpError, DumpFormat, DumpOptions};
use clap::Args;

use super::values::CassandraText;
use super::{arguments, schema};

/// The selection and the format.
#[derive(Debug, Args)]
#[command(after_help = "\
The schema is read from the SSTable, so neither a server nor a schema is needed. It contains no \
names of key columns, which are not needed here.

Examples:
  Everything, as one JSON array:
    cassette sstable dump nb-1-big-Data.db

  A partition per line, streaming:
    cassette sstable dump nb-1-big-Data.db -l | jq .

  A row or tombstone per line, readable:
    cassette sstable dump nb-1-big-Data.db -d

  The partition keys alone:
    cassette sstable dump nb-1-big-Data.db -e

  Two partitions (a composite key is written as 1:abc):
    cassette sstable dump nb-1-big-Data.db -k 1 -k 2")]
pub struct DumpArguments {
    /// A file of the SSTable, such as nb-1-big-Data.db
    sstable: PathBuf,
    /// Only the partition with this key; can be repeated
    #[arg(short = 'k', long = "key", value_name = "KEY", allow_hyphen_values = true)]
    keys: Vec<String>,
    /// Exclude the partition with this key; can be repeated
    #[arg(short = 'x', long = "exclude-key", value_name = "KEY", allow_hyphen_values = true)]
    excluded: Vec<String>,
    /// A row or tombstone per line, in Cassandra's internal representation
    #[arg(short = 'd', long = "debug")]
    debug: bool,
    /// Partition keys only
    #[arg(short = 'e', long = "enumerate-keys", conflicts_with = "debug")]
    enumerate: bool,
    /// A partition per line, each a JSON object
    #[arg(short = 'l', long = "json-lines", conflicts_with_all = ["debug", "enumerate"])]
    lines: bool,
    /// Timestamps as numbers instead of dates
    #[arg(short = 't', long = "raw-timestamps")]
    raw_timestamps: bool,
}

pub fn run(arguments: &DumpArguments) -> anyhow::Result<bool> {
    let descriptor = arguments::sstable(&arguments.sstable)?;
    let table = schema::table_of_header(&descriptor)?;
    let reader = arguments::open(&descriptor, &table)?;
    let keys = match &arguments.keys[..] {
        [] => None,
        keys => {
            let keys = keys.iter().filter(|key| !arguments.excluded.contains(key));
            let mut keys = keys.map(|key| partition_key(&table, key)).collect::<anyhow::Result<Vec<_>>>()?;
            keys.sort();
            keys.dedup();
            Some(keys)
        }
    };
    let format = match arguments {
        DumpArguments { enumerate: true, .. } => DumpFormat::Keys,
        DumpArguments { debug: true, .. } => DumpFormat::Rows,
        DumpArguments { lines: true, .. } => DumpFormat::JsonLines,
        _ => DumpFormat::Json,
    };
    let options = DumpOptions {
        format,
        raw_timestamps: arguments.raw_timestamps,
        keys: keys.as_deref(),
        excluded: &arguments.excluded,
        now: now_seconds(),
    };
    let mut out = BufWriter::with_capacity(1 << 16, std::io::stdout().lock());
    let dumped = reader.dump(&CassandraText, &options, &mut out);
    let dumped = dumped.and_then(|()| match format {
        DumpFormat::Rows => Ok(()),
        _ => Ok(writeln!(out).and_then(|()| out.flush())?),
    });
    match dumped {
        // The reader has read enough.
        Err(DumpError::Write(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(true),
        dumped => dumped.map(|()| true).map_err(anyhow::Error::from),
    }
}

/// Seconds since 1970.
pub fn now_seconds() -> u32 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u32::try_from(now.as_secs()).unwrap_or(u32::MAX)
}

/// Parses a partition key in its printed form: components separated by colons, where a colon inside
/// one is preceded by a backslash.
pub fn partition_key(table: &TableMetadata, text: &str) -> anyhow::Result<DecoratedKey> {
    let columns = &table.partition_key;
    let components = if columns.len() == 1 { vec![text.to_owned()] } else { split_components(text) };
    if components.len() != columns.len() {
        anyhow::bail!("key {text}: {} components expected, {} found", columns.len(), components.len());
    }
    let mut values = Vec::with_capacity(columns.len());
    for (column, component) in columns.iter().zip(&components) {
        let value = from_text(&column.data_type, component).map_err(|error| anyhow::anyhow!("{error}"));
        values.push(value.with_context(|| format!("key {text}"))?);
    }
    let key =
        key::compose(values.iter().map(Vec::as_slice)).with_context(|| format!("key {text} is too long"))?;
    Ok(DecoratedKey::new(key))
}

fn split_components(text: &str) -> Vec<String> {
    let mut components = vec![String::new()];
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match (character, components.last_mut()) {
            ('\\', Some(last)) if characters.peek() == Some(&':') => {
                characters.next();
                last.push(':');
            }
            (':', _) => components.push(String::new()),
            (_, Some(last)) => last.push(character),
            (_, None) => {}
        }
    }
    for component in &mut components {
        if component.ends_with('!') {
            component.pop();
        }
    }
    components
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_of_a_key_are_split_at_bare_colons() {
        assert_eq!(split_components("1:a\\:b:"), ["1", "a:b", ""]);
        assert_eq!(split_components("x\\!:y"), ["x\\", "y"]);
    }
}
