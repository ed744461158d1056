//! `tablestats`, also called `cfstats`.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use cassette_admin_api::{AttachedIndexesReport, DistributionReport, TableReport};
use serde_json::{Map, Value, json};

use super::text::{bytes, double, fixed, memory};
use super::{Failure, Result};

/// Selection, order and units.
#[derive(Debug, Clone, Default)]
pub(super) struct Options {
    /// Keyspaces and `keyspace.table`s.
    pub names: Vec<String>,
    /// Whether to exclude those instead.
    pub ignore: bool,
    pub human_readable: bool,
    pub sort_key: String,
    pub top: usize,
    pub location_check: bool,
}

/// The keys for sorting tables.
const SORT_KEYS: [&str; 47] = [
    "average_live_cells_per_slice_last_five_minutes",
    "average_tombstones_per_slice_last_five_minutes",
    "bloom_filter_false_positives",
    "bloom_filter_false_ratio",
    "bloom_filter_off_heap_memory_used",
    "bloom_filter_space_used",
    "compacted_partition_maximum_bytes",
    "compacted_partition_mean_bytes",
    "compacted_partition_minimum_bytes",
    "compression_metadata_off_heap_memory_used",
    "dropped_mutations",
    "full_name",
    "index_summary_off_heap_memory_used",
    "local_read_count",
    "local_read_latency_ms",
    "local_write_latency_ms",
    "maximum_live_cells_per_slice_last_five_minutes",
    "maximum_tombstones_per_slice_last_five_minutes",
    "memtable_cell_count",
    "memtable_data_size",
    "memtable_off_heap_memory_used",
    "memtable_switch_count",
    "number_of_partitions_estimate",
    "off_heap_memory_used_total",
    "pending_flushes",
    "percent_repaired",
    "read_latency",
    "reads",
    "space_used_by_snapshots_total",
    "space_used_live",
    "space_used_total",
    "sstable_compression_ratio",
    "sstable_count",
    "table_name",
    "write_latency",
    "writes",
    "max_sstable_size",
    "local_read_write_ratio",
    "twcs_max_duration",
    "sai_local_query_latency_ms",
    "sai_post_filtering_read_latency",
    "sai_disk_used_bytes",
    "sai_sstable_indexes_hit",
    "sai_index_segments_hit",
    "sai_rows_filtered",
    "sai_total_query_timeouts",
    "sai_total_queryable_index_ratio",
];

/// The selected tables.
#[derive(Debug)]
pub(super) struct Selected {
    tables: Vec<TableReport>,
    /// All tables of the selected keyspaces, for the statistics of the keyspaces.
    of_keyspaces: BTreeMap<String, Vec<TableReport>>,
    options: Options,
}

impl Selected {
    /// Selects tables.
    pub fn new(mut all: Vec<TableReport>, options: Options) -> Result<Self> {
        all.sort_by(|a, b| place(a).cmp(&place(b)));
        let key = options.sort_key.as_str();
        if !key.is_empty() && !SORT_KEYS.contains(&key) {
            return Err(Failure::usage(format!(
                "argument for sort must be one of: {}",
                SORT_KEYS.join(", ")
            )));
        }
        if options.top > 0 && key.is_empty() {
            return Err(Failure::usage("cannot filter top K tables without specifying a sort key."));
        }
        for name in &options.names {
            let (keyspace, table) = name.split_once('.').map_or((&**name, None), |(k, t)| (k, Some(t)));
            if !all.iter().any(|report| report.keyspace == keyspace) {
                return Err(Failure::usage(format!("Unknown keyspace: {keyspace}")));
            }
            if let Some(table) = table
                && !all.iter().any(|report| report.keyspace == keyspace && report.table == table)
            {
                return Err(Failure::usage(format!("Unknown tables: [{table}] in keyspace: {keyspace}")));
            }
        }
        let is_named = |report: &TableReport| {
            options.names.iter().any(|name| match name.split_once('.') {
                Some((keyspace, table)) => report.keyspace == keyspace && report.table == table,
                None => report.keyspace == *name,
            })
        };
        let is_meant = |report: &&TableReport| {
            if options.names.is_empty() { !options.ignore } else { is_named(report) != options.ignore }
        };
        let mut tables: Vec<_> = all.iter().filter(is_meant).cloned().collect();
        let mut of_keyspaces: BTreeMap<String, Vec<TableReport>> = BTreeMap::new();
        for report in all {
            if tables.iter().any(|table| table.keyspace == report.keyspace) {
                of_keyspaces.entry(report.keyspace.clone()).or_default().push(report);
            }
        }
        if !options.sort_key.is_empty() {
            tables.sort_by(|a, b| compare(a, b, &options.sort_key));
        }
        Ok(Self { tables, of_keyspaces, options })
    }

    fn shown(&self) -> &[TableReport] {
        match self.options.top {
            0 => &self.tables,
            top => &self.tables[..top.min(self.tables.len())],
        }
    }

    /// As text.
    pub fn text(&self) -> String {
        if self.tables.is_empty() {
            return String::new();
        }
        let mut text = format!("Total number of tables: {}", self.tables.len());
        if !self.options.sort_key.is_empty() {
            if self.options.top > 0 {
                let (top, key) = (self.shown().len(), &self.options.sort_key);
                text += &format!(" (showing top {top} by {key})");
            }
            text += "\n----------------\n";
            for table in self.shown() {
                self.table(table, &format!("{}.{}", table.keyspace, table.table), "\t", &mut text);
            }
            return text + "----------------\n";
        }
        text += "\n----------------\n";
        for (name, all) in &self.of_keyspaces {
            let sums = Sums::of(all);
            text += &format!("Keyspace: {name}\n");
            text += &format!("\tRead Count: {}\n", sums.reads);
            text += &format!("\tRead Latency: {} ms\n", double(sums.read_latency()));
            text += &format!("\tWrite Count: {}\n", sums.writes);
            text += &format!("\tWrite Latency: {} ms\n", double(sums.write_latency()));
            text += &format!("\tPending Flushes: {}\n", sums.pending_flushes);
            for table in self.tables.iter().filter(|table| table.keyspace == *name) {
                self.table(table, &table.table, "\t\t", &mut text);
            }
            text += "----------------\n";
        }
        text
    }

    fn table(&self, table: &TableReport, name: &str, indent: &str, text: &mut String) {
        let sized = |size: u64| bytes(size, self.options.human_readable);
        let mut line = |label: &str, value: String| *text += &format!("{indent}{label}: {value}\n");
        line(if table.is_index { "Table (index)" } else { "Table" }, name.to_owned());
        line("SSTable count", table.sstables.to_string());
        line("Old SSTable count", table.old_sstables.to_string());
        line("Max SSTable size", memory(table.max_sstable_bytes));
        if let Some(windows) = windows(table) {
            line("SSTables Time Window", windows);
        }
        if !table.levels.is_empty() {
            line("SSTables in each level", format!("[{}]", sstables_in_levels(table).join(", ")));
            let sizes: Vec<_> = table.levels.iter().map(|level| sized(level.bytes)).collect();
            line("SSTable bytes in each level", format!("[{}]", sizes.join(", ")));
        }
        line("Space used (live)", sized(table.live_bytes));
        line("Space used (total)", sized(table.total_bytes));
        line("Space used by snapshots (total)", sized(table.snapshot_bytes));
        line("Off heap memory used (total)", sized(off_heap(table)));
        line("SSTable Compression Ratio", fixed(table.compression_ratio, 5));
        line("Number of partitions (estimate)", table.partitions.to_string());
        line("Memtable cell count", table.memtable_operations.to_string());
        line("Memtable data size", sized(table.memtable_data_bytes));
        line("Memtable off heap memory used", sized(0));
        line("Memtable switch count", table.flushes.to_string());
        line("Speculative retries", "0".to_owned());
        line("Local read count", table.read.count.to_string());
        line("Local read latency", format!("{} ms", fixed(latency_ms(table.read.mean), 3)));
        line("Local write count", table.write.count.to_string());
        line("Local write latency", format!("{} ms", fixed(latency_ms(table.write.mean), 3)));
        line("Local read/write ratio", fixed(read_write_ratio(table), 5));
        line("Pending flushes", table.pending_flushes.to_string());
        line("Percent repaired", double(percent_repaired(table)));
        line("Bytes repaired", memory(table.repaired_bytes));
        line("Bytes unrepaired", memory(unrepaired(table)));
        line("Bytes pending repair", memory(table.pending_repair_bytes));
        line("Bloom filter false positives", table.filter_false_positives.to_string());
        line("Bloom filter false ratio", fixed(false_ratio(table), 5));
        line("Bloom filter space used", sized(table.filter_disk_bytes));
        line("Bloom filter off heap memory used", sized(table.filter_bytes));
        line("Index summary off heap memory used", sized(table.summary_bytes));
        line("Compression metadata off heap memory used", sized(table.compression_metadata_bytes));
        line("Compacted partition minimum bytes", table.min_partition_bytes.to_string());
        line("Compacted partition maximum bytes", table.max_partition_bytes.to_string());
        line("Compacted partition mean bytes", table.mean_partition_bytes.to_string());
        for (what, scanned) in
            [("live cells", &table.live_scanned), ("tombstones", &table.tombstones_scanned)]
        {
            let mean = double(scanned.mean.unwrap_or(f64::NAN));
            line(&format!("Average {what} per slice (last five minutes)"), mean);
            line(&format!("Maximum {what} per slice (last five minutes)"), scanned.max.to_string());
        }
        line("Droppable tombstone ratio", fixed(table.droppable_ratio, 5));
        if self.options.location_check {
            line("SSTables in correct location", "true".to_owned());
        }
        if let Some(indexes) = &table.attached_indexes {
            let milliseconds =
                |latency: &DistributionReport| format!("{} ms", fixed(latency_ms(latency.mean), 3));
            line("SAI local query latency (mean)", milliseconds(&indexes.queries));
            line("SAI post-filtering latency (mean)", milliseconds(&indexes.filtering));
            line("SAI space used (bytes)", sized(indexes.disk_bytes));
            // The content of an index's SSTable is one segment.
            line("SAI sstable indexes hit per query (mean)", double(hundredths(&indexes.sstables_hit)));
            line("SAI index segments hit per query (mean)", double(hundredths(&indexes.sstables_hit)));
            line("SAI rows filtered per query (mean)", double(hundredths(&indexes.rows_filtered)));
            line("SAI local query timeouts", QUERY_TIMEOUTS.to_string());
            line("SAI queryable/total indexes", queryable(indexes));
        }
        text.push('\n');
    }

    /// Returns the keys of Cassandra's `-F json`.
    pub fn data(&self) -> Value {
        let mut all = Map::new();
        all.insert("total_number_of_tables".to_owned(), self.tables.len().into());
        if !self.options.sort_key.is_empty() {
            for table in self.shown() {
                all.insert(format!("{}.{}", table.keyspace, table.table), self.table_data(table));
            }
            return Value::Object(all);
        }
        for (name, reports) in &self.of_keyspaces {
            let sums = Sums::of(reports);
            let tables: Map<_, _> = self
                .tables
                .iter()
                .filter(|table| table.keyspace == *name)
                .map(|table| (table.table.clone(), self.table_data(table)))
                .collect();
            let keyspace = json!({
                "read_latency": sums.read_latency(),
                "read_count": sums.reads,
                "read_latency_ms": sums.read_latency(),
                "write_count": sums.writes,
                "write_latency_ms": sums.write_latency(),
                "pending_flushes": sums.pending_flushes,
                "tables": tables,
            });
            all.insert(name.clone(), keyspace);
        }
        Value::Object(all)
    }

    fn table_data(&self, table: &TableReport) -> Value {
        let sized = |size: u64| bytes(size, self.options.human_readable);
        let levels = if table.levels.is_empty() { Vec::new() } else { sstables_in_levels(table) };
        let level_bytes: Vec<_> = table.levels.iter().map(|level| sized(level.bytes)).collect();
        let mut data = json!({
            "sstable_count": table.sstables,
            "old_sstable_count": table.old_sstables,
            "sstables_in_each_level": levels,
            "sstable_bytes_in_each_level": level_bytes,
            "max_sstable_size": table.max_sstable_bytes,
            "twcs": windows(table),
            "space_used_live": sized(table.live_bytes),
            "space_used_total": sized(table.total_bytes),
            "space_used_by_snapshots_total": sized(table.snapshot_bytes),
            "off_heap_memory_used_total": sized(off_heap(table)),
            "sstable_compression_ratio": table.compression_ratio,
            "number_of_partitions_estimate": table.partitions,
            "memtable_cell_count": table.memtable_operations,
            "memtable_data_size": sized(table.memtable_data_bytes),
            "memtable_off_heap_memory_used": sized(0),
            "memtable_switch_count": table.flushes,
            "speculative_retries": 0,
            "local_read_count": table.read.count,
            "local_read_latency_ms": fixed(latency_ms(table.read.mean), 3),
            "local_write_count": table.write.count,
            "local_write_latency_ms": fixed(latency_ms(table.write.mean), 3),
            "local_read_write_ratio": fixed(read_write_ratio(table), 5),
            "pending_flushes": table.pending_flushes,
            "percent_repaired": percent_repaired(table),
            "bytes_repaired": table.repaired_bytes,
            "bytes_unrepaired": unrepaired(table),
            "bytes_pending_repair": table.pending_repair_bytes,
            "bloom_filter_false_positives": table.filter_false_positives,
            "bloom_filter_false_ratio": fixed(false_ratio(table), 5),
            "bloom_filter_space_used": sized(table.filter_disk_bytes),
            "bloom_filter_off_heap_memory_used": sized(table.filter_bytes),
            "index_summary_off_heap_memory_used": sized(table.summary_bytes),
            "compression_metadata_off_heap_memory_used": sized(table.compression_metadata_bytes),
        });
        // Zeros and null without storage-attached indexes, as in Cassandra.
        let indexes = table.attached_indexes.as_ref();
        let milliseconds = |latency: &DistributionReport| fixed(latency_ms(latency.mean), 3);
        let zero = || fixed(0.0, 3);
        let rest = json!({
            "compacted_partition_minimum_bytes": table.min_partition_bytes,
            "compacted_partition_maximum_bytes": table.max_partition_bytes,
            "compacted_partition_mean_bytes": table.mean_partition_bytes,
            "average_live_cells_per_slice_last_five_minutes": table.live_scanned.mean,
            "maximum_live_cells_per_slice_last_five_minutes": table.live_scanned.max,
            "average_tombstones_per_slice_last_five_minutes": table.tombstones_scanned.mean,
            "maximum_tombstones_per_slice_last_five_minutes": table.tombstones_scanned.max,
            "droppable_tombstone_ratio": fixed(table.droppable_ratio, 5),
            "top_size_partitions": {},
            "top_tombstone_partitions": {},
            "sai_local_query_latency_ms": indexes.map_or_else(zero, |indexes| milliseconds(&indexes.queries)),
            "sai_post_filtering_read_latency":
                indexes.map_or_else(zero, |indexes| milliseconds(&indexes.filtering)),
            "sai_disk_used_bytes": indexes.map(|indexes| sized(indexes.disk_bytes)),
            "sai_sstable_indexes_hit": indexes.map_or(0.0, |indexes| hundredths(&indexes.sstables_hit)),
            "sai_index_segments_hit": indexes.map_or(0.0, |indexes| hundredths(&indexes.sstables_hit)),
            "sai_rows_filtered": indexes.map_or(0.0, |indexes| hundredths(&indexes.rows_filtered)),
            "sai_total_query_timeouts": QUERY_TIMEOUTS,
            "sai_total_queryable_index_ratio": indexes.map(queryable),
        });
        if let (Value::Object(data), Value::Object(rest)) = (&mut data, rest) {
            data.extend(rest);
            if self.options.location_check {
                data.insert("sstables_in_correct_location".to_owned(), true.into());
            }
        }
        data
    }
}

/// The sort key: by name, and the tables of indexes before their base tables.
fn place(table: &TableReport) -> (&str, &str, bool, &str) {
    let base = table.table.split_once('.').map_or(&*table.table, |(base, _)| base);
    (&table.keyspace, base, !table.is_index, &table.table)
}

/// The sums over the tables of a keyspace.
#[derive(Debug, Default)]
struct Sums {
    reads: u64,
    read_micros: u64,
    writes: u64,
    write_micros: u64,
    pending_flushes: u64,
}

impl Sums {
    fn of(tables: &[TableReport]) -> Self {
        tables.iter().fold(Self::default(), |sums, table| Self {
            reads: sums.reads + table.read.count,
            read_micros: sums.read_micros + table.read.sum,
            writes: sums.writes + table.write.count,
            write_micros: sums.write_micros + table.write.sum,
            pending_flushes: sums.pending_flushes + table.pending_flushes,
        })
    }

    /// Milliseconds per read, NaN without reads.
    fn read_latency(&self) -> f64 {
        self.read_micros as f64 / self.reads as f64 / 1000.0
    }

    fn write_latency(&self) -> f64 {
        self.write_micros as f64 / self.writes as f64 / 1000.0
    }
}

fn latency_ms(mean_micros: Option<f64>) -> f64 {
    mean_micros.filter(|mean| *mean > 0.0).map_or(f64::NAN, |mean| mean / 1000.0)
}

/// Queries run until they have answered or failed: none times out.
const QUERY_TIMEOUTS: u64 = 0;

/// The mean, rounded to hundredths; 0 without values.
fn hundredths(values: &DistributionReport) -> f64 {
    (values.mean.unwrap_or(0.0) * 100.0).round() / 100.0
}

fn queryable(indexes: &AttachedIndexesReport) -> String {
    format!("{}/{}", indexes.queryable, indexes.indexes)
}

fn off_heap(table: &TableReport) -> u64 {
    table.filter_bytes + table.summary_bytes + table.compression_metadata_bytes + table.checksum_bytes
}

fn read_write_ratio(table: &TableReport) -> f64 {
    match table.write.count {
        0 => 0.0,
        writes => table.read.count as f64 / writes as f64,
    }
}

fn percent_repaired(table: &TableReport) -> f64 {
    match table.uncompressed_bytes {
        0 => 100.0,
        all => (1e4 * table.repaired_bytes as f64 / all as f64).round() / 100.0,
    }
}

fn unrepaired(table: &TableReport) -> u64 {
    table.uncompressed_bytes.saturating_sub(table.repaired_bytes + table.pending_repair_bytes)
}

fn false_ratio(table: &TableReport) -> f64 {
    let all = table.filter_false_positives + table.filter_true_positives + table.filter_true_negatives;
    if all == 0 { 0.0 } else { table.filter_false_positives as f64 / all as f64 }
}

/// Returns the number of SSTables in each level, with the limit where it is exceeded.
fn sstables_in_levels(table: &TableReport) -> Vec<String> {
    let level = |(number, level): (usize, &cassette_admin_api::LevelReport)| {
        let most = match u32::try_from(number) {
            Ok(0) => 4,
            Ok(number) => table.fanout.saturating_pow(number),
            Err(_) => u64::MAX,
        };
        if level.sstables > most { format!("{}/{most}", level.sstables) } else { level.sstables.to_string() }
    };
    table.levels.iter().enumerate().map(level).collect()
}

/// Formats the windows of time-window compaction, and the longest span of write times in an
/// SSTable.
fn windows(table: &TableReport) -> Option<String> {
    if table.compaction.get("class").map(String::as_str) != Some("TimeWindowCompactionStrategy") {
        return None;
    }
    let option = |name: &str, default: &str| {
        table.compaction.get(name).map_or_else(|| default.to_owned(), Clone::clone)
    };
    let (size, unit) = (option("compaction_window_size", "1"), option("compaction_window_unit", "DAYS"));
    Some(format!("{size} {unit}, max duration: {}", duration_words(table.max_sstable_millis)))
}

/// Formats `2 days 1 hour 0 minutes 5 seconds`, without leading and trailing zeros.
fn duration_words(millis: u64) -> String {
    let seconds = millis / 1000;
    let parts = [
        (seconds / 86_400, "day"),
        (seconds / 3600 % 24, "hour"),
        (seconds / 60 % 60, "minute"),
        (seconds % 60, "second"),
    ];
    let first = parts.iter().position(|(n, _)| *n > 0).unwrap_or(3);
    let last = parts.iter().rposition(|(n, _)| *n > 0).unwrap_or(3);
    let word = |(n, unit): &(u64, &str)| format!("{n} {unit}{}", if *n == 1 { "" } else { "s" });
    parts[first..=last].iter().map(word).collect::<Vec<_>>().join(" ")
}

/// Compares two tables by a key: the greater first, also for names.
fn compare(a: &TableReport, b: &TableReport, key: &str) -> Ordering {
    let name = |table: &TableReport| (table.keyspace.clone(), table.table.clone());
    match key {
        "full_name" => name(b).cmp(&name(a)),
        "table_name" => b.table.cmp(&a.table),
        // Compared as texts: a table without indexes comes last.
        "sai_total_queryable_index_ratio" => {
            let ratio = |table: &TableReport| table.attached_indexes.as_ref().map(queryable);
            ratio(b).cmp(&ratio(a)).then_with(|| name(a).cmp(&name(b)))
        }
        key => {
            let figure = |table| figure(table, key);
            figure(b).total_cmp(&figure(a)).then_with(|| name(a).cmp(&name(b)))
        }
    }
}

fn figure(table: &TableReport, key: &str) -> f64 {
    let number = |n: u64| n as f64;
    let or_zero = |n: f64| if n.is_nan() { 0.0 } else { n };
    let of_indexes =
        |figure: &dyn Fn(&AttachedIndexesReport) -> f64| table.attached_indexes.as_ref().map_or(0.0, figure);
    match key {
        "average_live_cells_per_slice_last_five_minutes" => table.live_scanned.mean.unwrap_or(0.0),
        "average_tombstones_per_slice_last_five_minutes" => table.tombstones_scanned.mean.unwrap_or(0.0),
        "bloom_filter_false_positives" => number(table.filter_false_positives),
        "bloom_filter_false_ratio" => false_ratio(table),
        "bloom_filter_off_heap_memory_used" => number(table.filter_bytes),
        "bloom_filter_space_used" => number(table.filter_disk_bytes),
        "compacted_partition_maximum_bytes" => number(table.max_partition_bytes),
        "compacted_partition_mean_bytes" => number(table.mean_partition_bytes),
        "compacted_partition_minimum_bytes" => number(table.min_partition_bytes),
        "compression_metadata_off_heap_memory_used" => number(table.compression_metadata_bytes),
        "index_summary_off_heap_memory_used" => number(table.summary_bytes),
        "local_read_count" | "reads" => number(table.read.count),
        "local_read_latency_ms" | "read_latency" => or_zero(latency_ms(table.read.mean)),
        "local_write_latency_ms" | "write_latency" => or_zero(latency_ms(table.write.mean)),
        "writes" => number(table.write.count),
        "local_read_write_ratio" => read_write_ratio(table),
        "maximum_live_cells_per_slice_last_five_minutes" => number(table.live_scanned.max),
        "maximum_tombstones_per_slice_last_five_minutes" => number(table.tombstones_scanned.max),
        "memtable_cell_count" => number(table.memtable_operations),
        "memtable_data_size" => number(table.memtable_data_bytes),
        "memtable_switch_count" => number(table.flushes),
        "number_of_partitions_estimate" => number(table.partitions),
        "off_heap_memory_used_total" => number(off_heap(table)),
        "pending_flushes" => number(table.pending_flushes),
        "percent_repaired" => percent_repaired(table),
        "space_used_by_snapshots_total" => number(table.snapshot_bytes),
        "space_used_live" => number(table.live_bytes),
        "space_used_total" => number(table.total_bytes),
        "sstable_compression_ratio" => table.compression_ratio,
        "sstable_count" => number(table.sstables),
        "sai_local_query_latency_ms" => of_indexes(&|indexes| or_zero(latency_ms(indexes.queries.mean))),
        "sai_post_filtering_read_latency" => {
            of_indexes(&|indexes| or_zero(latency_ms(indexes.filtering.mean)))
        }
        "sai_disk_used_bytes" => of_indexes(&|indexes| number(indexes.disk_bytes)),
        "sai_sstable_indexes_hit" | "sai_index_segments_hit" => {
            of_indexes(&|indexes| hundredths(&indexes.sstables_hit))
        }
        "sai_rows_filtered" => of_indexes(&|indexes| hundredths(&indexes.rows_filtered)),
        "max_sstable_size" => number(table.max_sstable_bytes),
        "twcs_max_duration" if windows(table).is_some() => number(table.max_sstable_millis),
        // Statistics that are always zero.
        _ => 0.0,
    }
}
