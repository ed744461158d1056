//! The mutations of a commit log that no SSTable covers.
//!
//! As Cassandra does when it starts: a mutation of a table is applied unless an interval of the
//! commit log, in the Statistics of an SSTable that the same node wrote, or the position of its
//! last TRUNCATE covers the end of its record.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use cassette_engine::{ImportedSSTable, Mutation};
use cassette_rows::{TableId, TableMetadata};
use cassette_sstable::data::message::{UpdateFormats, table_of_update, updates_of_mutation};
use cassette_sstable::error::Malformed;
use cassette_sstable::input::Input;
use cassette_vfs::FileSystem;
use uuid::Uuid;

use super::header::SegmentHeader;
use super::records::{Stopped, for_each_record};
use super::{Segment, check_segments};
use crate::error::{AdoptError, Result};

/// A segment's id, and an offset in it.
type Position = (i64, i32);

/// What SSTables contain of a node's commit log.
#[derive(Debug, Clone, Default)]
pub(crate) struct Flushed(Vec<(Position, Position)>);

impl Flushed {
    /// Adds the intervals of an SSTable, if the node `host` wrote it: positions are those of the
    /// node's own log.
    pub fn add(&mut self, sstable: &ImportedSSTable, host: Option<Uuid>) {
        if host.is_some() && sstable.host_id == host {
            let position = |at: cassette_sstable::statistics::CommitLogPosition| (at.segment, at.position);
            let intervals = sstable.commit_log_intervals.iter();
            self.0.extend(intervals.map(|(start, end)| (position(*start), position(*end))));
        }
    }

    /// Adds everything up to a position.
    pub fn add_until(&mut self, end: Position) {
        self.0.push(((i64::MIN, i32::MIN), end));
    }

    fn contains(&self, at: Position) -> bool {
        self.0.iter().any(|(start, end)| *start <= at && at <= *end)
    }
}

/// A table whose mutations can be decoded.
#[derive(Debug)]
pub(crate) struct ReplayTable {
    pub table: Arc<TableMetadata>,
    pub flushed: Flushed,
    /// Whether its mutations are applied.
    pub is_wanted: bool,
}

/// What a replay applied and skipped.
#[derive(Debug, Default)]
pub(crate) struct Replayed {
    /// The number of applied mutations of partitions.
    pub applied: u64,
    /// The number of mutations of tables that are not known, by table.
    pub unknown: BTreeMap<TableId, u64>,
    /// Sections that ended early: their segments, offsets and what was found.
    pub torn: Vec<String>,
}

/// Applies the mutations of `tables` that are not flushed, in the order of the log. The updates of
/// one mutation are applied by one call.
///
/// A mutation can contain updates of several tables of a keyspace. Those after an update of an
/// unknown table cannot be found: that is an error, unless `is_omitted` is true for the unknown
/// table, whose keyspace is not read then.
///
/// # Errors
/// [`AdoptError::CommitLog`] if a segment is damaged or not supported. Mutations before the damage
/// may have been applied.
pub(crate) fn replay(
    fs: &dyn FileSystem,
    segments: &[Segment],
    tables: &HashMap<TableId, ReplayTable>,
    is_omitted: &dyn Fn(TableId) -> bool,
    mut apply: impl FnMut(&[Mutation]) -> Result<()>,
) -> Result<Replayed> {
    check_segments(fs, segments)?;
    let mut replayed = Replayed::default();
    let mut formats = UpdateFormats::default();
    for (index, segment) in segments.iter().enumerate() {
        if segment.bytes > i32::MAX as u64 {
            return Err(segment.damaged(0, "a segment of less than 2 GiB expected"));
        }
        let content = read(fs, &segment.path)?;
        let header =
            SegmentHeader::decode(&content, segment.id).map_err(|detail| segment.damaged(0, &detail))?;
        let is_last = index + 1 == segments.len();
        let of_segment = segment.id.cast_signed();
        let read = for_each_record(&header, segment.id, &content, is_last, |position, record| {
            let at = (of_segment, position);
            let decoded = decode(record, at, tables, is_omitted, &mut formats, &mut replayed);
            let mutations = decoded.map_err(|error| {
                segment.damaged(position.unsigned_abs().into(), &format!("the record before this is {error}"))
            })?;
            replayed.applied += mutations.len() as u64;
            if mutations.is_empty() { Ok(()) } else { apply(&mutations) }
        });
        match read {
            Ok(None) => {}
            Ok(Some(torn)) => replayed.torn.push(format!(
                "{} at {}: {}; what follows was being written when Cassandra stopped",
                segment.path.display(),
                torn.offset,
                torn.detail
            )),
            Err(Stopped::Damaged(problem)) => return Err(segment.damaged(problem.offset, &problem.detail)),
            Err(Stopped::Failed(error)) => return Err(error),
        }
    }
    Ok(replayed)
}

fn read(fs: &dyn FileSystem, path: &Path) -> Result<Vec<u8>> {
    fs.read(path).map_err(AdoptError::io("read", path))
}

/// Returns the updates of a record that are to be applied.
fn decode(
    record: &[u8],
    at: Position,
    tables: &HashMap<TableId, ReplayTable>,
    is_omitted: &dyn Fn(TableId) -> bool,
    formats: &mut UpdateFormats,
    replayed: &mut Replayed,
) -> Result<Vec<Mutation>, Malformed> {
    let data = Bytes::copy_from_slice(record);
    let mut input = Input::new(&data);
    let count = updates_of_mutation(&mut input)?;
    let mut mutations = Vec::new();
    for index in 0..count {
        let id = table_of_update(&mut input)?;
        let Some(known) = tables.get(&id) else {
            if is_omitted(id) {
                return Ok(mutations);
            }
            *replayed.unknown.entry(id).or_default() += 1;
            if index + 1 < count {
                let detail = format!("a batch with writes of the unknown table {}", id.0);
                return Err(input.malformed(detail));
            }
            return Ok(mutations);
        };
        let update = formats.decode(&known.table, &data, &mut input)?;
        if known.is_wanted && !known.flushed.contains(at) && !update.is_empty() {
            mutations.push(Mutation { table: known.table.clone(), update });
        }
    }
    input.end()?;
    Ok(mutations)
}
