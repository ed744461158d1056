//! `cassette sstable partitions`: sstablepartitions.

use std::fmt::Write as _;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use cassette_cql::values::text::encode_hex;
use cassette_rows::{Cell, DecoratedKey, LivenessInfo, PartitionHeader, PartitionStream, Row, Unfiltered};
use cassette_sstable::dump::partition_key_text;
use cassette_sstable::statistics::EstimatedHistogram;
use cassette_sstable::{Component, Descriptor, SSTableReader};
use clap::Args;

use super::arguments::{self, Place};
use super::dump::{now_seconds, partition_key};
use super::java::pretty_memory;
use super::schema;
use super::values::CassandraText;

/// The SSTables, and the partitions to list.
#[derive(Debug, Args)]
#[command(after_help = "\
Prints percentiles of partition sizes, rows, cells and tombstones of each SSTable, and lists the \
partitions that reach a threshold. Reads the complete SSTable.

Examples:
  Percentiles of every SSTable of a table:
    cassette sstable partitions data/ks/t-*/

  List partitions of 100 MiB and more:
    cassette sstable partitions -t 100MiB nb-1-big-Data.db

  List partitions with many tombstones or rows, in all tables:
    cassette sstable partitions -o 1000 -w 100000 -r data/

  The same as CSV:
    cassette sstable partitions -t 1MiB -m nb-1-big-Data.db")]
pub struct PartitionsArguments {
    /// Files of SSTables, or directories of them
    #[arg(required = true)]
    sstables: Vec<PathBuf>,
    /// Only the partition with this key; can be repeated
    #[arg(short = 'k', long = "key", value_name = "KEY", allow_hyphen_values = true)]
    keys: Vec<String>,
    /// Exclude the partition with this key; can be repeated
    #[arg(short = 'x', long = "exclude-key", value_name = "KEY", allow_hyphen_values = true)]
    excluded: Vec<String>,
    /// Include subdirectories
    #[arg(short = 'r', long)]
    recursive: bool,
    /// With -r: include SSTables of snapshots
    #[arg(short = 's', long)]
    snapshots: bool,
    /// With -r: include SSTables of backups
    #[arg(short = 'b', long)]
    backups: bool,
    /// Only sizes: rows are skipped
    #[arg(short = 'y', long)]
    partitions_only: bool,
    /// List partitions of at least this many bytes; also as 10KiB, 20MiB, 30GiB
    #[arg(short = 't', long, value_name = "SIZE")]
    min_size: Option<String>,
    /// List partitions with at least this many tombstones
    #[arg(short = 'o', long, value_name = "COUNT")]
    min_tombstones: Option<u64>,
    /// List partitions with at least this many cells
    #[arg(short = 'c', long, value_name = "COUNT")]
    min_cells: Option<u64>,
    /// List partitions with at least this many rows
    #[arg(short = 'w', long, value_name = "COUNT")]
    min_rows: Option<u64>,
    /// Print only the partitions that reach a threshold, as CSV
    #[arg(short = 'm', long)]
    csv: bool,
    /// The time for expiration, in seconds since 1970
    #[arg(short = 'u', long, value_name = "SECONDS")]
    current_timestamp: Option<u32>,
}

pub fn run(arguments: &PartitionsArguments) -> anyhow::Result<bool> {
    let mut out = BufWriter::new(std::io::stdout().lock());
    if arguments.csv {
        writeln!(
            out,
            "key,keyBinary,live,offset,size,rowCount,cellCount,tombstoneCount,rowTombstoneCount,\
             rangeTombstoneCount,complexTombstoneCount,cellTombstoneCount,rowTtlExpired,cellTtlExpired,\
             directory,keyspace,table,index,snapshot,backup,generation,format,version"
        )?;
    }
    let threshold = Thresholds::new(arguments)?;
    let mut sound = true;
    for descriptor in find(arguments)? {
        if let Err(error) = show(&descriptor, arguments, &threshold, &mut out) {
            let is_pipe = error.downcast_ref::<std::io::Error>();
            if is_pipe.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe) {
                return Ok(true);
            }
            sound = false;
            out.flush()?;
            eprintln!("Failure processing sstable {descriptor}: {error:#}");
        }
    }
    out.flush()?;
    Ok(sound)
}

/// The SSTables, by directory and id.
fn find(arguments: &PartitionsArguments) -> anyhow::Result<Vec<Descriptor>> {
    let mut found = Vec::new();
    let mut wrong = false;
    for path in &arguments.sstables {
        if path.is_dir() {
            find_in(path, arguments, &mut found)?;
        } else if path.exists() {
            found.push(arguments::sstable(path)?);
        } else {
            eprintln!("Argument '{}' does not resolve to a file or directory", path.display());
            wrong = true;
        }
    }
    if wrong {
        bail!("nothing was read");
    }
    found.sort_by(|a, b| (&a.directory, a.id.to_string()).cmp(&(&b.directory, b.id.to_string())));
    Ok(found)
}

fn find_in(
    directory: &Path,
    arguments: &PartitionsArguments,
    found: &mut Vec<Descriptor>,
) -> anyhow::Result<()> {
    let place = Place::guess(directory);
    if (place.snapshot.is_none() || arguments.snapshots) && (place.backup.is_none() || arguments.backups) {
        found.extend(arguments::in_directory(directory)?);
    }
    if arguments.recursive {
        let list = || format!("cannot list {}", directory.display());
        for entry in std::fs::read_dir(directory).with_context(list)? {
            let path = entry.with_context(list)?.path();
            if path.is_dir() {
                find_in(&path, arguments, found)?;
            }
        }
    }
    Ok(())
}

/// The thresholds for listing partitions; none by default.
struct Thresholds {
    size: u64,
    rows: u64,
    cells: u64,
    tombstones: u64,
}

impl Thresholds {
    fn new(arguments: &PartitionsArguments) -> anyhow::Result<Self> {
        let size = match &arguments.min_size {
            Some(text) => match text.parse() {
                Ok(bytes) => bytes,
                Err(_) => crate::units::bytes(text).context("--min-size")?,
            },
            None => u64::MAX,
        };
        Ok(Self {
            size,
            rows: arguments.min_rows.unwrap_or(u64::MAX),
            cells: arguments.min_cells.unwrap_or(u64::MAX),
            tombstones: arguments.min_tombstones.unwrap_or(u64::MAX),
        })
    }

    fn are_reached_by(&self, partition: &Partition) -> bool {
        partition.size >= self.size
            || partition.rows >= self.rows
            || partition.cells >= self.cells
            || partition.tombstones() >= self.tombstones
    }
}

/// Statistics of one partition.
#[derive(Debug, Default)]
struct Partition {
    key: Vec<u8>,
    offset: u64,
    size: u64,
    is_live: bool,
    rows: u64,
    cells: u64,
    row_tombstones: u64,
    range_tombstones: u64,
    complex_tombstones: u64,
    cell_tombstones: u64,
    rows_expired: u64,
    cells_expired: u64,
}

impl Partition {
    fn new(header: &PartitionHeader, offset: u64) -> Self {
        let (key, is_live) = (header.key.key().to_vec(), header.deletion.is_live());
        Self { key, offset, is_live, ..Self::default() }
    }

    fn tombstones(&self) -> u64 {
        self.row_tombstones
            + self.range_tombstones
            + self.complex_tombstones
            + self.cell_tombstones
            + self.rows_expired
            + self.cells_expired
    }

    fn add(&mut self, unfiltered: &Unfiltered, now: u32) {
        match unfiltered {
            Unfiltered::Row(row) => self.add_row(row, now),
            Unfiltered::Marker(_) => self.range_tombstones += 1,
        }
    }

    fn add_row(&mut self, row: &Row, now: u32) {
        self.rows += 1;
        self.row_tombstones += u64::from(!row.deletion().is_live());
        let liveness = row.liveness();
        self.rows_expired += u64::from(liveness.is_expiring() && liveness.local_expiration < now);
        self.complex_tombstones += row.complex_deletions().len() as u64;
        row.cells().for_each(|cell| self.add_cell(&cell, &liveness, now));
    }

    fn add_cell(&mut self, cell: &Cell<'_>, liveness: &LivenessInfo, now: u32) {
        self.cells += 1;
        self.cell_tombstones += u64::from(cell.is_tombstone());
        let has_own_ttl = cell.is_expiring() && (liveness.is_empty() || cell.ttl != liveness.ttl);
        self.cells_expired += u64::from(has_own_ttl && cell.local_deletion_time <= now);
    }
}

/// Statistics of all partitions of an SSTable.
struct Summary {
    sizes: EstimatedHistogram,
    rows: EstimatedHistogram,
    cells: EstimatedHistogram,
    tombstones: EstimatedHistogram,
    /// Minimum and maximum of size, rows, cells, tombstones. As in Cassandra's tool any value
    /// replaces a least of 0.
    extremes: [(u64, u64); 4],
}

impl Summary {
    fn new() -> Self {
        /// Up to 3.5 TB, and to four billion rows, cells and tombstones.
        const BUCKETS: (usize, usize) = (155, 118);
        let counts = || EstimatedHistogram::with_zero(BUCKETS.1);
        Self {
            sizes: EstimatedHistogram::with_zero(BUCKETS.0),
            rows: counts(),
            cells: counts(),
            tombstones: counts(),
            extremes: [(0, 0); 4],
        }
    }

    fn add(&mut self, partition: &Partition) {
        let values = [partition.size, partition.rows, partition.cells, partition.tombstones()];
        for ((least, greatest), value) in self.extremes.iter_mut().zip(values) {
            if *least == 0 || value < *least {
                *least = value;
            }
            *greatest = (*greatest).max(value);
        }
        let histograms = [&mut self.sizes, &mut self.rows, &mut self.cells, &mut self.tombstones];
        for (histogram, value) in histograms.into_iter().zip(values) {
            histogram.add(i64::try_from(value).unwrap_or(i64::MAX));
        }
    }

    fn text(&self, partitions_only: bool) -> String {
        let mut out = String::new();
        // Writing to a string cannot fail.
        let _ = if partitions_only {
            writeln!(out, "         {:>20}", "Partition size")
        } else {
            writeln!(
                out,
                "         {:>20} {:>20} {:>20} {:>20}",
                "Partition size", "Row count", "Cell count", "Tombstone count"
            )
        };
        let mut line = |label: &str, values: [u64; 4]| {
            let [size, rows, cells, tombstones] = values;
            let size = pretty_memory(size);
            let _ = if partitions_only {
                writeln!(out, "  {label:<5}  {size:>20}")
            } else {
                writeln!(out, "  {label:<5}  {size:>20} {rows:>20} {cells:>20} {tombstones:>20}")
            };
        };
        for (label, fraction) in
            [("~p50", 0.5), ("~p75", 0.75), ("~p90", 0.9), ("~p95", 0.95), ("~p99", 0.99), ("~p999", 0.999)]
        {
            let of =
                |histogram: &EstimatedHistogram| u64::try_from(histogram.percentile(fraction)).unwrap_or(0);
            line(label, [of(&self.sizes), of(&self.rows), of(&self.cells), of(&self.tombstones)]);
        }
        line("min", self.extremes.map(|(least, _)| least));
        line("max", self.extremes.map(|(_, greatest)| greatest));
        let _ = writeln!(out, "  count  {:>20}", self.sizes.count());
        out
    }
}

fn show(
    descriptor: &Descriptor,
    arguments: &PartitionsArguments,
    thresholds: &Thresholds,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let table = schema::table_of_header(descriptor)?;
    let reader = arguments::open(descriptor, &table)?;
    let place = Place::guess(&descriptor.directory);
    let name = name(&place, descriptor);
    let data = descriptor.path(Component::Data);
    let data = std::path::absolute(&data).unwrap_or(data);
    if !arguments.csv {
        writeln!(
            out,
            "\nProcessing {name} ({} uncompressed, {} on disk)",
            pretty_memory(reader.uncompressed_bytes()),
            pretty_memory(reader.data_bytes_on_disk())
        )?;
    }
    let mut summary = Summary::new();
    let mut named = Vec::new();
    let keys = keys(&reader, arguments)?;
    each_partition(&reader, keys.as_deref(), arguments, |partition| {
        let text = partition_key_text(&table, &CassandraText, &partition.key);
        if arguments.excluded.contains(&text) {
            return Ok(());
        }
        summary.add(&partition);
        if !thresholds.are_reached_by(&partition) {
            return Ok(());
        }
        let summary_key =
            if text.contains(' ') { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.clone() };
        if arguments.csv {
            csv_line(&partition, &summary_key, &place, descriptor, &data, out)?
        } else {
            partition_line(&partition, &text, arguments.partitions_only, out)?
        }
        named.push(summary_key);
        Ok(())
    })?;
    if arguments.csv {
        return Ok(());
    }
    if !named.is_empty() {
        writeln!(
            out,
            "Summary of {name}:\n  File: {}\n  {} partitions match\n  Keys: {}",
            data.display(),
            named.len(),
            named.join(" ")
        )?;
    }
    Ok(out.write_all(summary.text(arguments.partitions_only).as_bytes())?)
}

/// Returns the selected keys, in order; `None` for all.
fn keys(
    reader: &SSTableReader,
    arguments: &PartitionsArguments,
) -> anyhow::Result<Option<Vec<DecoratedKey>>> {
    if arguments.keys.is_empty() {
        return Ok(None);
    }
    let keys = arguments.keys.iter().filter(|key| !arguments.excluded.contains(key));
    let mut keys = keys.map(|key| partition_key(reader.table(), key)).collect::<anyhow::Result<Vec<_>>>()?;
    keys.sort();
    keys.dedup();
    Ok(Some(keys))
}

fn each_partition(
    reader: &SSTableReader,
    keys: Option<&[DecoratedKey]>,
    arguments: &PartitionsArguments,
    mut take: impl FnMut(Partition) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let now = arguments.current_timestamp.unwrap_or_else(now_seconds);
    let mut read = |start: u64, end: u64| -> anyhow::Result<()> {
        let mut scan = reader.scan_positions(start, end);
        loop {
            let offset = scan.position();
            let Some(header) = scan.next_partition()? else { return Ok(()) };
            let mut partition = Partition::new(&header, offset);
            while let Some(unfiltered) = scan.next_unfiltered()? {
                if !arguments.partitions_only {
                    partition.add(&unfiltered, now);
                }
            }
            partition.size = scan.position() - offset;
            take(partition)?;
        }
    };
    match keys {
        None => read(0, reader.uncompressed_bytes()),
        Some(keys) => {
            for key in keys {
                if let Some(position) = reader.position_of(key)? {
                    // The range ends in this partition, so that no other is read.
                    read(position, position + 1)?;
                }
            }
            Ok(())
        }
    }
}

/// `ks.t-<id> #1 (big-nb)`
fn name(place: &Place, descriptor: &Descriptor) -> String {
    let mut name = String::new();
    for (label, part) in [("Backup:", &place.backup), ("Snapshot:", &place.snapshot)] {
        if let Some(part) = part {
            name += &format!("{label}{part} ");
        }
    }
    if let (Some(keyspace), Some(table)) = (&place.keyspace, &place.table) {
        name += &format!("{keyspace}.{table}");
    }
    if let Some(index) = &place.index {
        name += &format!(".{index}");
    }
    if let Some(id) = place.table_id {
        name += &format!("-{}", id.0.simple());
    }
    name + &format!(" #{} ({}-{})", descriptor.id, descriptor.version.format(), descriptor.version.letters())
}

fn partition_line(
    partition: &Partition,
    key: &str,
    partitions_only: bool,
    out: &mut impl Write,
) -> std::io::Result<()> {
    let live = if partition.is_live { "live" } else { "not live" };
    let (hex, size) = (encode_hex(&partition.key), pretty_memory(partition.size));
    write!(out, "  Partition: '{key}' ({hex}) {live}, size: {size}")?;
    if partitions_only {
        return writeln!(out);
    }
    writeln!(
        out,
        ", rows: {}, cells: {}, tombstones: {} (row:{}, range:{}, complex:{}, cell:{}, row-TTLd:{}, cell-TTLd:{})",
        partition.rows,
        partition.cells,
        partition.tombstones(),
        partition.row_tombstones,
        partition.range_tombstones,
        partition.complex_tombstones,
        partition.cell_tombstones,
        partition.rows_expired,
        partition.cells_expired
    )
}

fn csv_line(
    partition: &Partition,
    key: &str,
    place: &Place,
    descriptor: &Descriptor,
    data: &Path,
    out: &mut impl Write,
) -> std::io::Result<()> {
    let or_nothing = |part: &Option<String>| part.clone().unwrap_or_default();
    writeln!(
        out,
        "\"{key}\",{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}",
        encode_hex(&partition.key),
        partition.is_live,
        partition.offset,
        partition.size,
        partition.rows,
        partition.cells,
        partition.tombstones(),
        partition.row_tombstones,
        partition.range_tombstones,
        partition.complex_tombstones,
        partition.cell_tombstones,
        partition.rows_expired,
        partition.cells_expired,
        data.display(),
        or_nothing(&place.keyspace),
        or_nothing(&place.table),
        or_nothing(&place.index),
        or_nothing(&place.snapshot),
        or_nothing(&place.backup),
        descriptor.id,
        descriptor.version.format(),
        descriptor.version.letters()
    )
}
