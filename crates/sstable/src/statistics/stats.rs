//! The statistics component of Statistics.db.
//!
//! ```text
//! histogram of partition sizes, histogram of cells per partition
//! i64 segment, i32 position     upper commit log position
//! i64 min ts, i64 max ts, i32 min ldt, i32 max ldt, i32 min TTL, i32 max TTL
//! f64 compression ratio
//! drop times
//! i32 level, i64 repaired at
//! i32 n, n * bytes16            values of the smallest clustering
//! i32 n, n * bytes16            values of the largest clustering
//! u8  has legacy counter shards
//! i64 columns set, i64 rows
//! i64, i32                      lower commit log position
//! i32 n, n * (i64, i32, i64, i32)   commit log intervals
//! u8 0 | 1, 16 bytes            pending repair
//! u8  is transient
//! u8 0 | 1, 16 bytes            host id
//! ```
//! The lower position is there since mb, the intervals since mc, the pending repair and "transient"
//! since na, the host id in me and since nb. The values before md do not cover all markers.

use uuid::Uuid;

use super::{DropTimes, EstimatedHistogram, histogram};
use bytes::BufMut;
use cassette_rows::types::parse_class_name;

use crate::clustering_codec::ClusteringCodec;
use crate::descriptor::Version;
use crate::error::{Malformed, Parsed};
use crate::input::Input;
use crate::output::Output;

/// A position in a node's commit log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct CommitLogPosition {
    /// The segment's id.
    pub segment: i64,
    /// The offset in the segment.
    pub position: i32,
}

impl CommitLogPosition {
    /// No position.
    pub const NONE: Self = Self { segment: -1, position: 0 };
}

/// The statistics of the rows. Reads skip SSTables by them, so they must be correct for all rows;
/// they do not describe absent rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Stats {
    /// Bytes of the partitions in the uncompressed stream.
    pub partition_sizes: EstimatedHistogram,
    /// Cells of the partitions, tombstones too.
    pub cell_counts: EstimatedHistogram,
    /// The smallest write timestamp of anything; `i64::MIN` if nothing has one.
    pub min_timestamp: i64,
    /// The largest write timestamp; `i64::MAX` if nothing has one.
    pub max_timestamp: i64,
    /// The smallest local deletion time; `i32::MAX` if nothing has one.
    pub min_local_deletion_time: i32,
    /// The largest local deletion time; `i32::MAX` as soon as one live cell or liveness exists.
    pub max_local_deletion_time: i32,
    /// The smallest TTL in seconds; 0 for what does not expire.
    pub min_ttl: i32,
    /// The largest TTL in seconds.
    pub max_ttl: i32,
    /// Stored bytes by plain bytes; -1 if not compressed.
    pub compression_ratio: f64,
    /// Deletion and expiration times.
    pub drop_times: DropTimes,
    /// The level in leveled compaction.
    pub level: i32,
    /// The time of its repair, in milliseconds; 0 if never.
    pub repaired_at: i64,
    /// The values of the smallest row or start bound, in stored order; empty without clustering
    /// columns, or if a range begins before all rows.
    pub min_clustering: Vec<Vec<u8>>,
    /// The values of the largest row or end bound.
    pub max_clustering: Vec<Vec<u8>>,
    /// Whether counters of versions before 2.1 occur.
    pub has_legacy_counter_shards: bool,
    /// Columns with a cell, summed over rows.
    pub columns_set: i64,
    /// Rows, static ones included, markers not.
    pub rows: i64,
    /// The parts of the commit log of [`Self::host_id`] from which the data originates.
    pub commit_log_intervals: Vec<(CommitLogPosition, CommitLogPosition)>,
    /// The repair session it belongs to.
    pub pending_repair: Option<Uuid>,
    /// Whether it belongs to a transient replica.
    pub is_transient: bool,
    /// The node that wrote it.
    pub host_id: Option<Uuid>,
    /// The fraction of the ring that it covers; unknown before oa.
    pub token_space_coverage: Option<f64>,
}

impl Default for Stats {
    /// Returns the statistics of an SSTable without rows.
    fn default() -> Self {
        Self {
            partition_sizes: EstimatedHistogram::new(histogram::PARTITION_SIZE_BUCKETS),
            cell_counts: EstimatedHistogram::new(histogram::CELL_COUNT_BUCKETS),
            min_timestamp: i64::MIN,
            max_timestamp: i64::MAX,
            min_local_deletion_time: i32::MAX,
            max_local_deletion_time: i32::MAX,
            min_ttl: 0,
            max_ttl: 0,
            compression_ratio: -1.0,
            drop_times: DropTimes::default(),
            level: 0,
            repaired_at: 0,
            min_clustering: Vec::new(),
            max_clustering: Vec::new(),
            has_legacy_counter_shards: false,
            columns_set: 0,
            rows: 0,
            commit_log_intervals: Vec::new(),
            pending_repair: None,
            is_transient: false,
            host_id: None,
            token_space_coverage: None,
        }
    }
}

impl Stats {
    /// Returns whether anything can be deleted or expire: `false` means no tombstone, deletion or
    /// TTL.
    pub fn may_have_deletions(&self) -> bool {
        // Everything with a local deletion time counts; everything without one counts as the
        // largest.
        self.min_local_deletion_time != i32::MAX || self.max_ttl > 0 || !self.drop_times.points().is_empty()
    }

    /// Returns the approximate fraction of cells that a compaction could drop if it purges data
    /// deleted before `gc_before` (seconds since 1970).
    pub fn droppable_ratio(&self, gc_before: i64) -> f64 {
        let cells = self.cell_counts.mean() * self.cell_counts.count();
        match cells {
            0 => 0.0,
            cells => self.drop_times.count_until(gc_before) / cells as f64,
        }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(5000);
        self.partition_sizes.encode_into(&mut out);
        self.cell_counts.encode_into(&mut out);
        let intervals = &self.commit_log_intervals;
        put_position(&mut out, intervals.iter().map(|i| i.1).max().unwrap_or(CommitLogPosition::NONE));
        out.put_i64(self.min_timestamp);
        out.put_i64(self.max_timestamp);
        out.put_i32(self.min_local_deletion_time);
        out.put_i32(self.max_local_deletion_time);
        out.put_i32(self.min_ttl);
        out.put_i32(self.max_ttl);
        out.put_f64(self.compression_ratio);
        self.drop_times.encode_into(&mut out);
        out.put_i32(self.level);
        out.put_i64(self.repaired_at);
        for values in [&self.min_clustering, &self.max_clustering] {
            out.put_i32(values.len() as i32);
            values.iter().for_each(|value| out.put_bytes16(value));
        }
        out.put_u8(self.has_legacy_counter_shards.into());
        out.put_i64(self.columns_set);
        out.put_i64(self.rows);
        put_position(&mut out, intervals.iter().map(|i| i.0).min().unwrap_or(CommitLogPosition::NONE));
        out.put_i32(intervals.len() as i32);
        for (start, end) in intervals {
            put_position(&mut out, *start);
            put_position(&mut out, *end);
        }
        put_uuid(&mut out, self.pending_repair);
        out.put_u8(self.is_transient.into());
        put_uuid(&mut out, self.host_id);
        out
    }

    /// Decodes the component of an SSTable whose table has `columns` clustering columns.
    pub(super) fn decode(mut input: Input<'_>, version: Version, columns: usize) -> Parsed<Self> {
        let input = &mut input;
        let is_new = version.is_of_cassandra_5();
        let has_host_id = version == Version::Me || version >= Version::Nb;
        let partition_sizes = EstimatedHistogram::decode(input)?;
        let cell_counts = EstimatedHistogram::decode(input)?;
        position(input)?;
        let (min_timestamp, max_timestamp) = (input.i64()?, input.i64()?);
        let mut deletion_time = || {
            let stored = input.i32()?;
            // All ones: none. Times beyond nb's range are equivalent to its largest for all uses.
            Ok(match (is_new, u32::try_from(stored)) {
                (false, _) => stored,
                (true, Ok(_)) => stored.min(i32::MAX - 1),
                (true, Err(_)) if stored == -1 => i32::MAX,
                (true, Err(_)) => i32::MAX - 1,
            })
        };
        let (min_local_deletion_time, max_local_deletion_time) = (deletion_time()?, deletion_time()?);
        let (min_ttl, max_ttl, compression_ratio) = (input.i32()?, input.i32()?, input.f64()?);
        let drop_times =
            if is_new { DropTimes::decode_whole_numbers(input)? } else { DropTimes::decode(input)? };
        let (level, repaired_at) = (input.i32()?, input.i64()?);
        let (min_clustering, max_clustering) = if is_new {
            covered_clustering(input)?
        } else {
            let values = (clustering_values(input)?, clustering_values(input)?);
            // CASSANDRA-14861
            if version < Version::Md { Default::default() } else { values }
        };
        let mut stats = Self {
            partition_sizes,
            cell_counts,
            min_timestamp,
            max_timestamp,
            min_local_deletion_time,
            max_local_deletion_time,
            min_ttl,
            max_ttl,
            compression_ratio,
            drop_times,
            level,
            repaired_at,
            min_clustering,
            max_clustering,
            has_legacy_counter_shards: boolean(input)?,
            columns_set: input.i64()?,
            rows: input.i64()?,
            commit_log_intervals: {
                if version >= Version::Mb {
                    position(input)?;
                }
                let count = if version >= Version::Mc { input.count32(24)? } else { 0 };
                (0..count).map(|_| Ok((position(input)?, position(input)?))).collect::<Parsed<_>>()?
            },
            pending_repair: if version >= Version::Na { optional_uuid(input)? } else { None },
            is_transient: version >= Version::Na && boolean(input)?,
            host_id: if has_host_id { optional_uuid(input)? } else { None },
            token_space_coverage: None,
        };
        if is_new {
            let _has_partition_deletions = boolean(input)?;
            let _first_and_last_key = (input.bytes_vint()?, input.bytes_vint()?);
            stats.token_space_coverage = Some(input.f64()?).filter(|share| !share.is_nan());
            // Cassandra reserves 16 bytes for each drop time, and writes 12 of them.
            let unused = input.remaining();
            if unused == 4 * stats.drop_times.points().len() {
                input.bytes(unused)?;
            }
        } else {
            stats.skip_reserved(input, columns)?;
        }
        input.end()?;
        Ok(stats)
    }

    /// Skips the 2 bytes that Cassandra 5.0 reserves for each null in the least and the greatest
    /// clustering (of a table with COMPACT STORAGE), where it writes nothing.
    fn skip_reserved(&self, input: &mut Input<'_>, columns: usize) -> Parsed<()> {
        let present = self.min_clustering.len() + self.max_clustering.len();
        let nulls = (2 * columns).saturating_sub(present);
        let unused = input.remaining();
        if unused <= 2 * nulls && input.clone().bytes(unused)?.iter().all(|byte| *byte == 0) {
            input.bytes(unused)?;
        }
        Ok(())
    }

    /// Returns the offset of the level in the component, an i32, followed by an i64 of the repair's
    /// time.
    pub(super) fn place_of_level(mut input: Input<'_>, version: Version) -> Parsed<u64> {
        /// Position, timestamps, local deletion times, TTLs, compression ratio.
        const FIXED: usize = 12 + 2 * 8 + 2 * 4 + 2 * 4 + 8;
        EstimatedHistogram::decode(&mut input)?;
        EstimatedHistogram::decode(&mut input)?;
        input.bytes(FIXED)?;
        if version.is_of_cassandra_5() {
            DropTimes::decode_whole_numbers(&mut input)?
        } else {
            DropTimes::decode(&mut input)?
        };
        let place = input.offset();
        input.bytes(12)?;
        Ok(place)
    }
}

/// Values of a clustering, or of the first of its columns.
type ClusteringValues = Vec<Vec<u8>>;

/// Decodes the least and the greatest clustering of oa and da: types, then two bounds. Omits values
/// after a null, which only widens the range.
fn covered_clustering(input: &mut Input<'_>) -> Parsed<(ClusteringValues, ClusteringValues)> {
    let at = input.offset();
    let mut types = Vec::new();
    for _ in 0..input.count(1)? {
        let name = String::from_utf8_lossy(input.bytes_vint()?).into_owned();
        let (data_type, _) =
            parse_class_name(&name).map_err(|error| Malformed::new(at, error.to_string()))?;
        types.push(data_type);
    }
    let codec = ClusteringCodec::new(types.iter());
    let mut bound = || {
        let (bound, _) = codec.decode_bound(input)?;
        let values = bound.prefix.values().map_while(|value| value.map(<[u8]>::to_vec));
        Ok(values.collect())
    };
    Ok((bound()?, bound()?))
}

fn put_position(out: &mut Vec<u8>, position: CommitLogPosition) {
    out.put_i64(position.segment);
    out.put_i32(position.position);
}

fn position(input: &mut Input<'_>) -> Parsed<CommitLogPosition> {
    Ok(CommitLogPosition { segment: input.i64()?, position: input.i32()? })
}

fn put_uuid(out: &mut Vec<u8>, uuid: Option<Uuid>) {
    out.put_u8(uuid.is_some().into());
    if let Some(uuid) = uuid {
        out.put_slice(uuid.as_bytes());
    }
}

fn optional_uuid(input: &mut Input<'_>) -> Parsed<Option<Uuid>> {
    if !boolean(input)? {
        return Ok(None);
    }
    let at = input.offset();
    Uuid::from_slice(input.bytes(16)?).map(Some).map_err(|e| Malformed::new(at, e.to_string()))
}

fn boolean(input: &mut Input<'_>) -> Parsed<bool> {
    match input.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(Malformed::new(input.offset() - 1, format!("0 or 1 expected, {other} found"))),
    }
}

fn clustering_values(input: &mut Input<'_>) -> Parsed<ClusteringValues> {
    let count = input.count32(2)?;
    (0..count).map(|_| Ok(input.bytes16()?.to_vec())).collect()
}
