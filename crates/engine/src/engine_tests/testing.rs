//! Shared by the engine's tests: tables, random updates, readable results.

use std::sync::Arc;

use bytes::Bytes;
use cassette_rows::schema::CompactionParams;
use cassette_rows::{
    Bound, Cell, Clustering, ColumnId, ColumnKind, ColumnMetadata, DataType, DecoratedKey, DeletionTime,
    LivenessInfo, MergedStream, NO_DELETION_TIME, NO_TTL, PartitionHeader, PartitionStream, PartitionUpdate,
    RangeTombstone, Row, RowBuilder, Selection, Side, Slice, Slices, TableId, TableMetadata, TableParams,
    Unfiltered,
};
use rand::RngExt;
use rand::rngs::SmallRng;
use uuid::Uuid;

/// `k int, c1 int, c2 int DESC, s int static, v int, w int, m map<int, int>`
pub fn table() -> Arc<TableMetadata> {
    table_with("t", TableParams::default())
}

pub fn table_with(name: &str, params: TableParams) -> Arc<TableMetadata> {
    let map = DataType::Map { key: DataType::Int.into(), value: DataType::Int.into(), frozen: false };
    let c2 = ColumnMetadata::new("c2", ColumnKind::Clustering, 1, DataType::Int);
    let columns = vec![
        ColumnMetadata::new("k", ColumnKind::PartitionKey, 0, DataType::Int),
        ColumnMetadata::new("c1", ColumnKind::Clustering, 0, DataType::Int),
        ColumnMetadata { reversed: true, ..c2 },
        ColumnMetadata::new("s", ColumnKind::Static, 0, DataType::Int),
        ColumnMetadata::new("v", ColumnKind::Regular, 0, DataType::Int),
        ColumnMetadata::new("w", ColumnKind::Regular, 0, DataType::Int),
        ColumnMetadata::new("m", ColumnKind::Regular, 0, map),
    ];
    let id = name.bytes().fold(7u128, |id, byte| id.wrapping_mul(31).wrapping_add(u128::from(byte)));
    Arc::new(TableMetadata::new(TableId(Uuid::from_u128(id)), "ks", name, columns, params))
}

/// `k int primary key, v text`
pub fn simple_table(name: &str, params: TableParams) -> Arc<TableMetadata> {
    let columns = vec![
        ColumnMetadata::new("k", ColumnKind::PartitionKey, 0, DataType::Int),
        ColumnMetadata::new("v", ColumnKind::Regular, 0, DataType::Text),
    ];
    let id = name.bytes().fold(8u128, |id, byte| id.wrapping_mul(31).wrapping_add(u128::from(byte)));
    Arc::new(TableMetadata::new(TableId(Uuid::from_u128(id)), "ks", name, columns, params))
}

pub fn key(k: i32) -> DecoratedKey {
    DecoratedKey::new(Bytes::copy_from_slice(&k.to_be_bytes()))
}

/// An INSERT of `v` into a [`simple_table`].
pub fn insert(k: i32, v: &[u8], timestamp: i64) -> PartitionUpdate {
    let mut row = RowBuilder::new(Clustering::empty());
    row.liveness(LivenessInfo::new(timestamp)).live_cell(ColumnId(0), v, timestamp);
    let mut update = PartitionUpdate::new(key(k));
    update.rows.push(row.finish());
    update
}

pub fn clustering(c1: i32, c2: i32) -> Clustering {
    Clustering::of(&[&c1.to_be_bytes(), &c2.to_be_bytes()])
}

/// Draws from small domains, so that versions overlap and timestamps tie.
pub struct Updates {
    pub table: Arc<TableMetadata>,
    pub keys: i32,
    pub clusterings: i32,
    pub timestamps: std::ops::Range<i64>,
    /// One in this many updates deletes something larger than a row; 0 for none.
    pub deletions_one_in: u32,
}

impl Updates {
    pub fn of(table: Arc<TableMetadata>) -> Self {
        Self { table, keys: 4, clusterings: 4, timestamps: 0..8, deletions_one_in: 4 }
    }

    pub fn next(&self, random: &mut SmallRng) -> PartitionUpdate {
        let mut update = PartitionUpdate::new(key(random.random_range(0..self.keys)));
        let one_in = |random: &mut SmallRng, n: u32| n > 0 && random.random_range(0..n) == 0;
        if one_in(random, self.deletions_one_in * 2) {
            update.deletion = self.deletion(random);
        }
        if one_in(random, self.deletions_one_in) {
            let (start, end) = (self.bound(random), self.bound(random));
            let deletion = self.deletion(random);
            update.range_tombstones.add(RangeTombstone { start, end, deletion }, &self.table.comparator);
        }
        if one_in(random, 3) {
            let row = self.row(random, true);
            if !row.is_empty() {
                update.add_static_row(row, &self.table);
            }
        }
        for _ in 0..random.random_range(0..4) {
            let row = self.row(random, false);
            if !row.is_empty() {
                update.add_row(row, &self.table);
            }
        }
        update
    }

    fn timestamp(&self, random: &mut SmallRng) -> i64 {
        random.random_range(self.timestamps.clone())
    }

    fn deletion(&self, random: &mut SmallRng) -> DeletionTime {
        DeletionTime::new(self.timestamp(random), random.random_range(0..3))
    }

    fn bound(&self, random: &mut SmallRng) -> Bound {
        let c1 = random.random_range(0..self.clusterings);
        let c2 = random.random_range(0..self.clusterings);
        let prefix = match random.random_range(0..6) {
            0 => Clustering::empty(),
            1 | 2 => Clustering::of(&[&c1.to_be_bytes()]),
            _ => clustering(c1, c2),
        };
        let side = if random.random() { Side::Before } else { Side::After };
        Bound { prefix, side }
    }

    fn row(&self, random: &mut SmallRng, is_static: bool) -> Row {
        let c1 = random.random_range(0..self.clusterings);
        let c2 = random.random_range(0..self.clusterings);
        let mut row = RowBuilder::new(if is_static { Clustering::empty() } else { clustering(c1, c2) });
        let one_in = |random: &mut SmallRng, n: u32| random.random_range(0..n) == 0;
        let id = |name: &str| self.table.column(name).map(|column| column.id);
        if is_static {
            if let Some(s) = id("s") {
                self.cell(random, s, None, &mut row);
            }
            return row.finish();
        }
        if one_in(random, 2) {
            let timestamp = self.timestamp(random);
            row.liveness(if one_in(random, 3) {
                LivenessInfo::expiring(timestamp, 10, random.random_range(100..103))
            } else {
                LivenessInfo::new(timestamp)
            });
        }
        if self.deletions_one_in > 0 && one_in(random, self.deletions_one_in * 2) {
            row.deletion(self.deletion(random));
        }
        let mut columns: Vec<_> = ["v", "w", "m"].into_iter().filter_map(id).collect();
        columns.sort();
        for column in columns {
            if one_in(random, 2) {
                continue;
            }
            if Some(column) != id("m") {
                self.cell(random, column, None, &mut row);
                continue;
            }
            if self.deletions_one_in > 0 && one_in(random, 4) {
                row.complex_deletion(column, self.deletion(random));
            }
            for path in 0..3i32 {
                if one_in(random, 2) {
                    self.cell(random, column, Some(&path.to_be_bytes()), &mut row);
                }
            }
        }
        row.finish()
    }

    fn cell(&self, random: &mut SmallRng, column: ColumnId, path: Option<&[u8]>, row: &mut RowBuilder) {
        let value = random.random_range(0..3i32).to_be_bytes();
        let timestamp = self.timestamp(random);
        let seconds = random.random_range(0..3u32);
        let (ttl, local_deletion_time, value) = match random.random_range(0..6) {
            0 => (10 + seconds, 100 + seconds, &value[..]),
            1 if self.deletions_one_in > 0 => (NO_TTL, 90 + seconds, &[][..]),
            _ => (NO_TTL, NO_DELETION_TIME, &value[..]),
        };
        row.cell(Cell { column, path, value, timestamp, ttl, local_deletion_time });
    }

    /// A selection of up to three slices, in either direction.
    pub fn selection(&self, random: &mut SmallRng) -> Selection {
        let slices = match random.random_range(0..4) {
            0 => Slices::all(),
            n => {
                let slices = (0..n).map(|_| Slice { start: self.bound(random), end: self.bound(random) });
                Slices::new(slices.collect(), &self.table.comparator)
            }
        };
        Selection { slices, reversed: random.random() }
    }
}

/// A partition that was read to its end.
#[derive(Debug, Clone, PartialEq)]
pub struct Drained {
    pub header: PartitionHeader,
    pub unfiltereds: Vec<Unfiltered>,
}

/// The contents of a stream, without empty partitions.
pub fn drain(mut stream: impl PartitionStream) -> Vec<Drained> {
    let mut out = Vec::new();
    while let Some(header) = stream.next_partition().unwrap() {
        let mut unfiltereds = Vec::new();
        while let Some(unfiltered) = stream.next_unfiltered().unwrap() {
            unfiltereds.push(unfiltered);
        }
        if !unfiltereds.is_empty() || header.static_row.is_some() || !header.deletion.is_live() {
            out.push(Drained { header, unfiltereds });
        }
    }
    out
}

/// The expected result of reading `updates`: each update a separate source, merged.
pub fn merged(
    updates: &[PartitionUpdate],
    table: &Arc<TableMetadata>,
    selection: &Selection,
) -> Vec<Drained> {
    let mut keys: Vec<_> = updates.iter().map(|update| update.key.clone()).collect();
    keys.sort();
    keys.dedup();
    let of_key = |key| {
        let sources = updates.iter().filter(|update| update.key == key).map(|update| {
            Box::new(update.clone().into_stream(table.clone(), selection)) as Box<dyn PartitionStream>
        });
        drain(MergedStream::new(sources.collect(), table.clone(), selection.reversed))
    };
    keys.into_iter().flat_map(of_key).collect()
}

/// Each strategy, with small limits so that little data triggers it, and each way to use
/// overlapping SSTables.
pub fn strategies() -> Vec<CompactionParams> {
    let params = |class: &str, options: &[(&str, &str)]| CompactionParams {
        class: format!("{class}CompactionStrategy"),
        options: options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
    };
    let row = ("provide_overlapping_tombstones", "row");
    let cell = ("provide_overlapping_tombstones", "cell");
    // SSTables are compacted alone as soon as very little of them is shadowed.
    let often = ("overlapping_tombstones_threshold", "0.01");
    let few = [("min_threshold", "2"), ("max_threshold", "4")];
    let [min, max] = few;
    vec![
        params("SizeTiered", &[min, max]),
        params("Leveled", &[("sstable_size_in_mb", "1"), ("fanout_size", "2"), row, often]),
        params(
            "TimeWindow",
            &[
                min,
                ("compaction_window_unit", "MINUTES"),
                ("timestamp_resolution", "SECONDS"),
                ("tombstone_compaction_interval", "1"),
                cell,
                ("overlapping_tombstones_max_sources", "1"),
            ],
        ),
        params(
            "Unified",
            &[
                ("scaling_parameters", "L2,T3"),
                ("min_sstable_size", "0B"),
                ("target_sstable_size", "1MiB"),
                ("flush_size_override", "1MiB"),
                cell,
                often,
            ],
        ),
        params(
            "SizeTiered",
            &[
                min,
                max,
                cell,
                ("overlapping_tombstones_max_sources", "2"),
                ("overlapping_tombstones_policy", "skip"),
            ],
        ),
        params("Leveled", &[("sstable_size_in_mb", "1"), ("single_sstable_uplevel", "true"), cell]),
    ]
}

/// A seed for each of `count` runs, or only that of the variable `SEED`, to repeat a run that
/// failed.
pub fn seeds(count: u64) -> impl Iterator<Item = u64> {
    let only = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok());
    let all = if only.is_some() { 0..0 } else { 0..count };
    only.into_iter().chain(all)
}

/// The visible part of a row at some moment.
#[derive(Debug, Clone, PartialEq)]
pub struct VisibleRow {
    pub clustering: Clustering,
    pub has_liveness: bool,
    pub cells: Vec<VisibleCell>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct VisibleCell {
    pub column: ColumnId,
    pub path: Option<Vec<u8>>,
    pub value: Vec<u8>,
    pub timestamp: i64,
}

/// The visible part of a partition at some moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Visible {
    pub key: DecoratedKey,
    pub static_row: Option<VisibleRow>,
    pub rows: Vec<VisibleRow>,
}

/// The visible part of a stream's contents at `now` (seconds). Partitions without any are omitted.
pub fn visible(partitions: Vec<Drained>, now: u32) -> Vec<Visible> {
    let visible_row = |row: &Row| {
        let cells = row.cells().filter(|cell| cell.is_live(now));
        let row = VisibleRow {
            clustering: row.clustering().clone(),
            has_liveness: row.liveness().is_live(now),
            cells: cells
                .map(|cell| VisibleCell {
                    column: cell.column,
                    path: cell.path.map(<[u8]>::to_vec),
                    value: cell.value.to_vec(),
                    timestamp: cell.timestamp,
                })
                .collect(),
        };
        (row.has_liveness || !row.cells.is_empty()).then_some(row)
    };
    let visible_partition = |partition: Drained| {
        let rows = partition.unfiltereds.iter().filter_map(|unfiltered| match unfiltered {
            Unfiltered::Row(row) => visible_row(row),
            Unfiltered::Marker(_) => None,
        });
        let visible = Visible {
            rows: rows.collect(),
            static_row: partition.header.static_row.as_ref().and_then(visible_row),
            key: partition.header.key,
        };
        (visible.static_row.is_some() || !visible.rows.is_empty()).then_some(visible)
    };
    partitions.into_iter().filter_map(visible_partition).collect()
}
