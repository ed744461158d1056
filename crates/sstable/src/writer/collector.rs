//! Collects the content of Statistics.db while rows are written.

use cassette_rows::{
    ClusteringComparator, DeletionTime, NO_DELETION_TIME, NO_TTL, RangeTombstoneMarker, Row, Unfiltered,
};

use crate::clustering_codec::Prefix;
use crate::data::deletion_codec::to_stored;
use crate::statistics::{DropTimesBuilder, HyperLogLog, Stats};

/// The smallest and largest of some values.
#[derive(Debug, Clone, Copy)]
struct Range<T> {
    min: T,
    max: T,
}

/// Incomplete statistics.
#[derive(Debug)]
pub struct Collector {
    stats: Stats,
    timestamps: Range<i64>,
    deletion_times: Range<i32>,
    ttls: Range<i32>,
    drop_times: DropTimesBuilder,
    cardinality: HyperLogLog,
    min_clustering: Option<Prefix>,
    max_clustering: Option<Prefix>,
    /// Data expired by this time counts as a tombstone.
    now_seconds: u32,
    /// Of the current partition.
    cells: i64,
    /// Of the current partition.
    tombstones: u64,
}

impl Collector {
    /// `stats` contains the fields that do not depend on rows: level, repair, host, commit log.
    pub fn new(stats: Stats, now_seconds: u32) -> Self {
        Self {
            stats,
            timestamps: Range { min: i64::MAX, max: i64::MIN },
            deletion_times: Range { min: i32::MAX, max: i32::MIN },
            ttls: Range { min: i32::MAX, max: i32::MIN },
            drop_times: DropTimesBuilder::default(),
            cardinality: HyperLogLog::default(),
            min_clustering: None,
            max_clustering: None,
            now_seconds,
            cells: 0,
            tombstones: 0,
        }
    }

    #[inline]
    fn timestamp(&mut self, timestamp: i64) {
        self.timestamps.min = self.timestamps.min.min(timestamp);
        self.timestamps.max = self.timestamps.max.max(timestamp);
    }

    #[inline]
    fn local_deletion_time(&mut self, time: u32) {
        let stored = to_stored(time);
        self.deletion_times.min = self.deletion_times.min.min(stored);
        self.deletion_times.max = self.deletion_times.max.max(stored);
        if time != NO_DELETION_TIME {
            self.drop_times.add(time);
        }
    }

    /// Adds something that has or could have a TTL: cells and liveness.
    #[inline]
    fn written(&mut self, timestamp: i64, ttl: u32, local_deletion_time: u32) {
        self.timestamp(timestamp);
        self.ttls.min = self.ttls.min.min(ttl as i32);
        self.ttls.max = self.ttls.max.max(ttl as i32);
        self.local_deletion_time(local_deletion_time);
    }

    /// Adds a deletion of anything except a cell.
    pub fn deletion(&mut self, deletion: DeletionTime) {
        if !deletion.is_live() {
            self.timestamp(deletion.timestamp);
            self.local_deletion_time(deletion.local_deletion_time);
            self.tombstones += 1;
        }
    }

    /// Adds a row, static or not.
    pub fn row(&mut self, row: &Row) {
        let liveness = row.liveness();
        if !liveness.is_empty() {
            self.tombstones += u64::from(liveness.local_expiration <= self.now_seconds);
            self.written(liveness.timestamp, liveness.ttl, liveness.local_expiration);
        }
        self.deletion(row.deletion());
        row.complex_deletions().iter().for_each(|(_, deletion)| self.deletion(*deletion));
        self.cells += row.cell_count() as i64;
        self.stats.rows += 1;
        if let (false, Some(times)) = (row.has_deletions(), row.timestamps()) {
            self.timestamp(times.0);
            self.timestamp(times.1);
            self.stats.columns_set += row.column_count() as i64;
            self.live_cells(row.cell_count() > 0);
            return;
        }
        let mut last = None;
        for cell in row.cells() {
            if last != Some(cell.column) {
                self.stats.columns_set += 1;
                last = Some(cell.column);
            }
            if cell.local_deletion_time == NO_DELETION_TIME {
                self.timestamp(cell.timestamp);
            } else {
                self.tombstones += u64::from(!cell.is_live(self.now_seconds));
                self.written(cell.timestamp, cell.ttl, cell.local_deletion_time);
            }
        }
        if !row.has_deletions() || row.cells().any(|cell| cell.local_deletion_time == NO_DELETION_TIME) {
            self.live_cells(row.cell_count() > 0);
        }
    }

    /// Adds cells that are not deleted and do not expire: the same for all of them.
    fn live_cells(&mut self, any: bool) {
        if any {
            self.ttls.min = self.ttls.min.min(NO_TTL as i32);
            self.ttls.max = self.ttls.max.max(NO_TTL as i32);
            self.local_deletion_time(NO_DELETION_TIME);
        }
    }

    /// Adds a marker.
    pub fn marker(&mut self, marker: &RangeTombstoneMarker) {
        [marker.close, marker.open].into_iter().flatten().for_each(|deletion| self.deletion(deletion));
    }

    /// Ends a partition of `size` bytes, which began and ended with these rows or markers. Returns
    /// its number of tombstones.
    pub fn partition(
        &mut self,
        key: &[u8],
        size: u64,
        ends: Option<(&Unfiltered, &Unfiltered)>,
        comparator: &ClusteringComparator,
    ) -> u64 {
        if let Some((first, last)) = ends {
            // A partition begins with a row or a start and ends with a row or an end.
            let before = |a: &Unfiltered, b: &Prefix| comparator.compare(a.position(), b.position());
            if self.min_clustering.as_ref().is_none_or(|min| before(first, min).is_lt()) {
                self.min_clustering = Some(prefix_of(first));
            }
            if self.max_clustering.as_ref().is_none_or(|max| before(last, max).is_gt()) {
                self.max_clustering = Some(prefix_of(last));
            }
        }
        self.stats.partition_sizes.add(size as i64);
        self.stats.cell_counts.add(std::mem::take(&mut self.cells));
        self.cardinality.add_key(key);
        std::mem::take(&mut self.tombstones)
    }

    /// Returns the statistics, and the sketch of the keys.
    pub fn finish(self, compression_ratio: f64) -> (Stats, Vec<u8>) {
        let mut stats = self.stats;
        // Without data the defaults remain.
        if self.timestamps.min <= self.timestamps.max {
            (stats.min_timestamp, stats.max_timestamp) = (self.timestamps.min, self.timestamps.max);
        }
        if self.deletion_times.min <= self.deletion_times.max {
            stats.min_local_deletion_time = self.deletion_times.min;
            stats.max_local_deletion_time = self.deletion_times.max;
        }
        if self.ttls.min <= self.ttls.max {
            (stats.min_ttl, stats.max_ttl) = (self.ttls.min, self.ttls.max);
        }
        stats.compression_ratio = compression_ratio;
        stats.drop_times = self.drop_times.finish();
        stats.min_clustering = values_of(self.min_clustering);
        stats.max_clustering = values_of(self.max_clustering);
        (stats, self.cardinality.finish())
    }
}

fn prefix_of(unfiltered: &Unfiltered) -> Prefix {
    match unfiltered {
        Unfiltered::Row(row) => Prefix::Row(row.clustering().clone()),
        Unfiltered::Marker(marker) => Prefix::Bound(marker.bound.clone()),
    }
}

/// Returns the values up to the first that is null, which Statistics.db cannot contain, or that
/// exceeds its 16-bit length: the shorter prefix covers everything that begins with it.
fn values_of(prefix: Option<Prefix>) -> Vec<Vec<u8>> {
    let Some(prefix) = prefix else { return Vec::new() };
    let values = prefix.position().prefix.values().map_while(|value| value);
    values.take_while(|value| value.len() <= usize::from(u16::MAX)).map(<[u8]>::to_vec).collect()
}
