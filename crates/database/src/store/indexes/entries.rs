//! The index entries of a row. Pure functions.

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use cassette_engine::Mutation;
use cassette_rows::row::Cell;
use cassette_rows::{
    Clustering, ColumnId, DecoratedKey, DeletionTime, LivenessInfo, PartitionUpdate, Row, RowBuilder, key,
};
use smallvec::SmallVec;

use crate::schema::indexes::{Index, Source};

/// An index entry, which refers to a row, or to a partition by its static row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry<'r> {
    /// The indexed value.
    pub value: Cow<'r, [u8]>,
    /// The path of its element, if several elements of the row may have the value.
    pub path: Option<&'r [u8]>,
    /// The write timestamp and the expiration.
    pub liveness: LivenessInfo,
}

/// The entries of one row in an index; mostly one.
pub(crate) type Entries<'r> = SmallVec<[Entry<'r>; 1]>;

/// The position of an entry in the hidden table.
pub(crate) struct Place<'v> {
    pub key: DecoratedKey,
    /// The value, if all values are in one partition: the first clustering value.
    pub value: Option<&'v [u8]>,
}

impl<'v> Place<'v> {
    pub fn new(index: &Index, value: &'v [u8]) -> Self {
        match index.ordered_by {
            Some(_) => Self { key: ordered_key(), value: Some(value) },
            None => Self { key: entry_key(value), value: None },
        }
    }
}

/// Returns the partition key of an index that is sorted by value.
pub(crate) fn ordered_key() -> DecoratedKey {
    static KEY: LazyLock<DecoratedKey> = LazyLock::new(|| DecoratedKey::new(Bytes::from_static(&[2])));
    KEY.clone()
}

/// Returns the live entries of a row of partition `key` at `now` (seconds); none for the static row
/// in an index of rows, and for rows in an index of a static column.
pub(crate) fn entries<'r>(
    index: &Index,
    key: &'r DecoratedKey,
    row: &'r Row,
    is_static: bool,
    now: u32,
) -> Entries<'r> {
    let mut entries = raw_entries(index, key, row, is_static, now);
    if index.sasi.is_some() {
        return terms_of(index, entries);
    }
    if index.analyzer.is_some() {
        for entry in &mut entries {
            entry.value = index.analyzed(std::mem::take(&mut entry.value));
        }
    }
    entries
}

/// Returns an entry for each term of the values.
fn terms_of<'r>(index: &Index, entries: Entries<'r>) -> Entries<'r> {
    let of_value = |Entry { value, path, liveness }: Entry<'r>| {
        index.terms(value).into_iter().map(move |value| Entry { value, path, liveness })
    };
    entries.into_iter().flat_map(of_value).collect()
}

fn raw_entries<'r>(
    index: &Index,
    key: &'r DecoratedKey,
    row: &'r Row,
    is_static: bool,
    now: u32,
) -> Entries<'r> {
    let of_cells = |column: ColumnId, value: &dyn Fn(Cell<'r>) -> Entry<'r>| -> Entries<'r> {
        if index.is_of_static() != is_static {
            return Entries::new();
        }
        row.cells_of(column).filter(|cell| cell.is_live(now)).map(value).collect()
    };
    let entry =
        |cell: &Cell<'r>, value: Cow<'r, [u8]>, path| Entry { value, path, liveness: liveness_of(cell) };
    match index.source {
        Source::PartitionKey(position) => {
            let value = component(index, key, position);
            of_row(value, row, now)
        }
        Source::Clustering(_) if is_static => Entries::new(),
        Source::Clustering(position) => of_row(row.clustering().value(position), row, now),
        Source::Cell(column) => of_cells(column, &|cell| entry(&cell, Cow::Borrowed(cell.value), None)),
        Source::Paths(column) => {
            of_cells(column, &|cell| entry(&cell, Cow::Borrowed(cell.path.unwrap_or_default()), None))
        }
        Source::AnalyzedPaths(column) => of_cells(column, &|cell| {
            let path = cell.path.unwrap_or_default();
            entry(&cell, Cow::Borrowed(path), Some(path))
        }),
        Source::Values(column) => of_cells(column, &|cell| {
            entry(&cell, Cow::Borrowed(cell.value), Some(cell.path.unwrap_or_default()))
        }),
        Source::Entries(column) => of_cells(column, &|cell| {
            let value = map_entry(cell.path.unwrap_or_default(), cell.value);
            entry(&cell, Cow::Owned(value), None)
        }),
    }
}

/// Serializes a map's entry as an indexed value: `u32 length of the key, key, value`.
pub(crate) fn map_entry(key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(4 + key.len() + value.len());
    out.extend_from_slice(&(key.len() as u32).to_be_bytes());
    out.extend_from_slice(key);
    out.extend_from_slice(value);
    out
}

fn component<'r>(index: &Index, key: &'r DecoratedKey, position: usize) -> Option<&'r [u8]> {
    key::components(key.key(), index.base.partition_key.len())?.get(position).copied()
}

/// The path of the entry for the permanent part of a row.
pub(crate) const LASTING: &[u8] = &[];
/// The path of the entry for the expiring part of a row.
const EXPIRING: &[u8] = &[1];

/// Returns the entries of a row in an index of a key column. The row exists as long as any part of
/// it does, whichever write it is from. So its permanent and its expiring part have an entry each.
///
/// The timestamp of the second entry is its expiration: of several, the last to expire wins, and
/// none has to be deleted. The timestamp of the first entry is the latest write timestamp. Only a
/// deletion that covers it removes it, since a write of an earlier timestamp may still make the row
/// exist.
fn of_row<'r>(value: Option<&'r [u8]>, row: &'r Row, now: u32) -> Entries<'r> {
    let Some(value) = value else { return Entries::new() };
    let (mut lasting, mut expiring) = (LivenessInfo::EMPTY, LivenessInfo::EMPTY);
    let liveness = Some(row.liveness()).filter(|liveness| liveness.is_live(now));
    for live in row.cells().filter(|cell| cell.is_live(now)).map(|cell| liveness_of(&cell)).chain(liveness) {
        if !live.is_expiring() {
            lasting = LivenessInfo::new(lasting.timestamp.max(live.timestamp));
        } else if expiring.is_empty() || live.local_expiration > expiring.local_expiration {
            let timestamp = i64::from(live.local_expiration) * 1_000_000;
            expiring = LivenessInfo::expiring(timestamp, live.ttl, live.local_expiration);
        }
    }
    let entry = |path, liveness| Entry { value: Cow::Borrowed(value), path: Some(path), liveness };
    let both = [entry(LASTING, lasting), entry(EXPIRING, expiring)];
    both.into_iter().filter(|entry| !entry.liveness.is_empty()).collect()
}

fn liveness_of(cell: &Cell<'_>) -> LivenessInfo {
    if cell.is_expiring() {
        LivenessInfo::expiring(cell.timestamp, cell.ttl, cell.local_deletion_time)
    } else {
        LivenessInfo::new(cell.timestamp)
    }
}

/// Returns the partition key of a value in the hidden table.
pub(crate) fn entry_key(value: &[u8]) -> DecoratedKey {
    let mut key = Vec::with_capacity(1 + value.len());
    key.push(1);
    key.extend_from_slice(value);
    DecoratedKey::new(Bytes::from(key))
}

/// Returns the clustering of an entry in the hidden table, after the value if that is part of it.
/// The clustering columns of the base row are null for a static row.
pub(crate) fn entry_clustering(
    index: &Index,
    value: Option<&[u8]>,
    key: &DecoratedKey,
    row: &Clustering,
    path: Option<&[u8]>,
) -> Clustering {
    let token = key.token().0.to_be_bytes();
    let columns = index.clustering_columns();
    let nulls = std::iter::repeat_n(None, columns.saturating_sub(row.len()));
    let leading = [value, Some(&token[..]), Some(key.key())];
    let values = leading.into_iter().skip(usize::from(value.is_none()));
    Clustering::new(values.chain(row.values().take(columns)).chain(nulls).chain(path.map(Some)))
}

/// A change of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// Writes it with this TTL and write timestamp.
    Write(LivenessInfo),
    /// Deletes what was written up to the deletion's timestamp; later writes remain.
    Delete(DeletionTime),
}

/// Creates the mutations of the entries of one row.
///
/// An entry contains only a reference to its row. Therefore one statement mostly writes the same
/// row under several values into several indexes; it is created once and shared by their memtables.
pub(crate) struct Changes<'a> {
    key: &'a DecoratedKey,
    row: &'a Clustering,
    /// The last row that other entries can share, with its number of clustering columns of the base
    /// table.
    last: Option<(usize, Change, Row)>,
}

impl<'a> Changes<'a> {
    /// Creates mutations of entries for a row of partition `key`.
    pub fn new(key: &'a DecoratedKey, row: &'a Clustering) -> Self {
        Self { key, row, last: None }
    }

    /// Returns the mutation that applies `change` to the entry of `value`, and of an element's
    /// `path` if it has one.
    pub fn make(&mut self, index: &Index, value: &[u8], path: Option<&[u8]>, change: Change) -> Mutation {
        let place = Place::new(index, value);
        let columns = index.clustering_columns();
        let row = match &self.last {
            _ if place.value.is_some() || path.is_some() => self.entry(index, place.value, path, change),
            Some((same_columns, same, row)) if *same_columns == columns && *same == change => row.clone(),
            _ => {
                let row = self.entry(index, None, None, change);
                self.last = Some((columns, change, row.clone()));
                row
            }
        };
        let update = PartitionUpdate { rows: vec![row], ..PartitionUpdate::new(place.key) };
        Mutation { table: Arc::clone(&index.storage), update }
    }

    fn entry(&self, index: &Index, value: Option<&[u8]>, path: Option<&[u8]>, change: Change) -> Row {
        let mut builder = RowBuilder::new(entry_clustering(index, value, self.key, self.row, path));
        match change {
            Change::Write(liveness) => builder.liveness(liveness),
            Change::Delete(deletion) => builder.deletion(deletion),
        };
        builder.finish()
    }
}

/// Returns the deletion of an entry by its key and clustering.
pub(crate) fn deletion(
    index: &Index,
    entry_key: DecoratedKey,
    clustering: Clustering,
    deletion: DeletionTime,
) -> Mutation {
    let mut builder = RowBuilder::new(clustering);
    builder.deletion(deletion);
    let update = PartitionUpdate { rows: vec![builder.finish()], ..PartitionUpdate::new(entry_key) };
    Mutation { table: Arc::clone(&index.storage), update }
}
