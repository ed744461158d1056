//! `cassette sstable metadata`: sstablemetadata.

use std::fmt::{Display, Write};
use std::path::PathBuf;

use anyhow::{Context, bail};
use cassette_cql::values::number::double_to_text;
use cassette_rows::TableMetadata;
use cassette_sstable::compression::CompressionInfo;
use cassette_sstable::dump::{ValueText, partition_key_text};
use cassette_sstable::statistics::{ColumnDefinition, HyperLogLog, SerializationHeader, Statistics, Stats};
use cassette_sstable::{Component, Descriptor};
use clap::Args;

use super::dump::now_seconds;
use super::java::{date_text, duration_words, in_hash_order, list};
use super::values::CassandraText;
use super::{arguments, histogram, metadata_scan, schema};

/// The SSTables.
#[derive(Debug, Args)]
#[command(after_help = "\
Dates are in UTC. Without -s, reads only Statistics.db and the ends of the index, so large files are \
fast, too.

Examples:
  One SSTable:
    cassette sstable metadata nb-1-big-Data.db

  All SSTables of a table:
    cassette sstable metadata data/ks/t-*/

  What a compaction could drop with ten days of grace:
    cassette sstable metadata -g 864000 nb-1-big-Data.db

  Read all rows, too, and show the widest and the largest partitions:
    cassette sstable metadata -s nb-1-big-Data.db")]
pub struct MetadataArguments {
    /// Files of SSTables, or directories of them
    #[arg(required = true)]
    sstables: Vec<PathBuf>,
    /// Seconds of gc_grace_seconds, for the estimate of droppable tombstones
    #[arg(short = 'g', long = "gc_grace_seconds", default_value_t = 0)]
    gc_grace_seconds: u32,
    /// Read all rows: count them, their cells and their tombstones, and show the largest partitions
    #[arg(short = 's', long)]
    scan: bool,
    /// Not supported: sstablemetadata's colors
    #[arg(short = 'c', long, hide = true)]
    colors: bool,
    /// Not supported: sstablemetadata's histograms in Unicode
    #[arg(short = 'u', long, hide = true)]
    unicode: bool,
}

pub fn run(arguments: &MetadataArguments) -> anyhow::Result<bool> {
    for (is_set, option) in [(arguments.colors, "-c (--colors)"), (arguments.unicode, "-u (--unicode)")] {
        if is_set {
            bail!("cassette sstable metadata does not support {option} of sstablemetadata");
        }
    }
    for descriptor in arguments::sstables(&arguments.sstables)? {
        let gc_before = i64::from(now_seconds()) - i64::from(arguments.gc_grace_seconds);
        print!("{}", text(&descriptor, gc_before, arguments.scan)?);
    }
    Ok(true)
}

/// Fields, one per line.
pub(super) struct Fields(pub(super) String);

impl Fields {
    pub(super) fn put(&mut self, label: &str, value: impl Display) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "{label}: {value}");
    }

    fn explained(&mut self, label: &str, value: impl Display, comment: Option<impl Display>) {
        match comment {
            Some(comment) => self.put(label, format_args!("{value} ({comment})")),
            None => self.put(label, value),
        }
    }
}

/// Formats the metadata of an SSTable. Data deleted before `gc_before` (seconds since 1970) counts
/// as droppable. With `scans`, all rows are read.
fn text(descriptor: &Descriptor, gc_before: i64, scans: bool) -> anyhow::Result<String> {
    let statistics = schema::statistics(descriptor)?;
    let table = schema::table_of_header(descriptor)?;
    let Statistics { validation, stats, header, cardinality } = &statistics;
    let mut out = Fields(String::new());
    let reader = arguments::open(descriptor, &table)?;
    out.put("SSTable", descriptor);
    if scans {
        metadata_scan::Scan::of(&reader)?.put(&table, &mut out);
    }
    out.put("Partitioner", &validation.partitioner);
    out.put("Bloom Filter FP chance", double_to_text(validation.bloom_filter_fp_chance));
    out.explained("Minimum timestamp", timestamp(stats.min_timestamp), Some(stats.min_timestamp));
    out.explained("Maximum timestamp", timestamp(stats.max_timestamp), Some(stats.max_timestamp));
    out.put("Duration", duration(stats.max_timestamp.wrapping_sub(stats.min_timestamp)));
    for (label, time) in [
        ("SSTable min local deletion time", stats.min_local_deletion_time),
        ("SSTable max local deletion time", stats.max_local_deletion_time),
    ] {
        let (text, seconds) = match time {
            i32::MAX => ("no tombstones".to_owned(), i64::MAX),
            0 => ("no tombstones".to_owned(), 0),
            seconds => (date_text(i64::from(seconds) * 1000), i64::from(seconds)),
        };
        out.explained(label, text, Some(seconds));
    }
    match compressor(descriptor)? {
        Some(class) => {
            out.put("Compressor", class);
            out.put("Compression ratio", double_to_text(stats.compression_ratio));
        }
        None => out.put("Compressor", "-"),
    }
    out.explained("TTL min", stats.min_ttl, ttl(stats.min_ttl));
    out.explained("TTL max", stats.max_ttl, ttl(stats.max_ttl));
    for (label, key) in [("First token", reader.first_key()), ("Last token", reader.last_key())] {
        let text = partition_key_text(&table, &CassandraText, key.key());
        out.explained(label, key.token().0, Some(text));
    }
    out.put("Covered clusterings", clusterings(&table, &stats.min_clustering, &stats.max_clustering));
    out.put("Estimated droppable tombstones", double_to_text(stats.droppable_ratio(gc_before)));
    out.put("SSTable Level", stats.level);
    let repaired = (stats.repaired_at != 0).then(|| date_text(stats.repaired_at));
    out.explained("Repaired at", stats.repaired_at, repaired);
    let or_dashes = |uuid: Option<uuid::Uuid>| uuid.map_or("--".to_owned(), |uuid| uuid.to_string());
    out.put("Originating host id", or_dashes(stats.host_id));
    out.put("Pending repair", or_dashes(stats.pending_repair));
    let intervals = stats.commit_log_intervals.iter().map(|(start, end)| {
        let position = |at: &cassette_sstable::statistics::CommitLogPosition| {
            format!("CommitLogPosition(segmentId={}, position={})", at.segment, at.position)
        };
        format!("{}={}", position(start), position(end))
    });
    out.put("Replay positions covered", format_args!("{{{}}}", intervals.collect::<Vec<_>>().join(", ")));
    out.put("totalColumnsSet", stats.columns_set);
    out.put("totalRows", stats.rows);
    add_histograms(&mut out, stats);
    let coverage = stats.token_space_coverage.unwrap_or(f64::NAN);
    out.put("Local token space coverage", double_to_text(coverage));
    let sketch = HyperLogLog::decode(cardinality)
        .map_err(|malformed| malformed.at(&descriptor.path(Component::Statistics)))?;
    out.put("Estimated cardinality", sketch.estimate());
    add_header(&mut out, header);
    out.put("IsTransient", stats.is_transient);
    Ok(out.0)
}

/// Formats microseconds since 1970; 0 stands for no timestamp.
fn timestamp(micros: i64) -> String {
    if micros == 0 { "--".to_owned() } else { date_text(micros / 1000) }
}

/// Adds the distributions of tombstones, partition sizes and columns.
fn add_histograms(out: &mut Fields, stats: &Stats) {
    out.put("Estimated tombstone drop times", "");
    let in_brackets = |text: Option<String>| text.map_or(String::new(), |text| format!("({text})"));
    out.0 += &histogram::draw(stats.drop_times.points(), "Drop Time", |time| {
        let date = (time != 0).then(|| date_text(time.saturating_mul(1000)));
        format!("{time} {}", in_brackets(date))
    });
    let points = |histogram: &cassette_sstable::statistics::EstimatedHistogram| {
        let filled = histogram.buckets().filter(|(_, count)| *count > 0);
        filled.filter_map(|(upper, count)| Some((upper?, count))).collect::<Vec<_>>()
    };
    out.put("Partition Size", "");
    out.0 += &histogram::draw(&points(&stats.partition_sizes), "Size (bytes)", |size| {
        format!("{size} {}", in_brackets(bytes_text(size)))
    });
    out.put("Column Count", "");
    out.0 += &histogram::draw(&points(&stats.cell_counts), "Columns", |count| count.to_string());
}

/// Adds the serialization header: the bases of encoded values, and the types of columns.
fn add_header(out: &mut Fields, header: &SerializationHeader) {
    out.explained("EncodingStats minTTL", header.min_ttl, ttl(header.min_ttl));
    let seconds = i64::from(header.min_local_deletion_time);
    let date = if seconds == 0 { "--".to_owned() } else { date_text(seconds * 1000) };
    out.explained("EncodingStats minLocalDeletionTime", date, Some(seconds));
    out.explained("EncodingStats minTimestamp", timestamp(header.min_timestamp), Some(header.min_timestamp));
    out.put("KeyType", &header.key_type);
    out.put("ClusteringTypes", list(&header.clustering_types));
    out.put("StaticColumns", columns(&header.static_columns));
    out.put("RegularColumns", columns(&header.regular_columns));
}

fn duration(micros: i64) -> String {
    let seconds = micros / 1_000_000;
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600, seconds / 60);
    format!(
        "Days: {days} Hours: {} Minutes: {} Seconds: {}",
        hours - days * 24,
        minutes - hours * 60,
        seconds - minutes * 60
    )
}

fn ttl(seconds: i32) -> Option<String> {
    match seconds {
        0 => None,
        i32::MAX => Some("never".to_owned()),
        seconds => Some(duration_words(seconds.into())),
    }
}

/// Returns the class of the compressor; `None` if the SSTable is not compressed.
fn compressor(descriptor: &Descriptor) -> anyhow::Result<Option<String>> {
    let path = descriptor.path(Component::CompressionInfo);
    if !path.exists() {
        return Ok(None);
    }
    let bytes = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let data = descriptor.path(Component::Data);
    let length = std::fs::metadata(&data)
        .with_context(|| format!("cannot read the size of {}", data.display()))?
        .len();
    let info = CompressionInfo::decode_version(&bytes, length, descriptor.version)
        .map_err(|malformed| malformed.at(&path))?;
    Ok(Some(format!("org.apache.cassandra.io.compress.{}", info.format.compressor.class_name())))
}

/// Formats the range of clusterings, in brackets; values of several columns are separated by
/// colons.
fn clusterings(table: &TableMetadata, min: &[Vec<u8>], max: &[Vec<u8>]) -> String {
    if min.is_empty() && max.is_empty() {
        return "ALL".to_owned();
    }
    let bound = |values: &[Vec<u8>]| {
        let texts = table.clustering.iter().zip(values);
        let texts = texts.map(|(column, value)| CassandraText.text(&column.data_type, value));
        texts.collect::<Vec<_>>().join(":")
    };
    format!("[{}, {}]", bound(min), bound(max))
}

fn columns(definitions: &[ColumnDefinition]) -> String {
    let entries = definitions.iter().map(|column| (column.name.clone(), column.type_name.clone())).collect();
    let entries = in_hash_order(entries).into_iter().map(|(name, class)| format!("{name}:{class}"));
    entries.collect::<Vec<_>>().join(", ")
}

/// Formats bytes in the largest unit of 1024s; nothing for zero.
pub(super) fn bytes_text(bytes: i64) -> Option<String> {
    match bytes {
        ..=0 => None,
        1..1024 => Some(format!("{bytes} B")),
        _ => {
            let power = (bytes as f64).ln() / 1024f64.ln();
            let power = power as i32;
            let unit = ["", "k", "M", "G", "T", "P", "E"].get(power as usize).copied().unwrap_or("E");
            Some(format!("{:.1} {unit}B", bytes as f64 / 1024f64.powi(power)))
        }
    }
}
