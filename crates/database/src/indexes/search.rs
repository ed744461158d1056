//! Finding entries.

use std::sync::Arc;

use cassette_engine::{Engine, EngineError, KeyRange, PartitionPosition};
use cassette_rows::clustering::Side;
use cassette_rows::{
    Bound, Clustering, ColumnKind, DecoratedKey, PartitionStream, Result as StorageResult, Row, Selection,
    Slice, Slices, Token, Unfiltered,
};

use super::Index;
use super::entries::{deletion, entries, entry_key, map_entry};

/// A value to look for.
#[derive(Debug)]
pub(crate) enum Wanted<'e> {
    /// A value, of a column or of an element.
    Value(&'e [u8]),
    /// A map's entry.
    Entry(&'e [u8], &'e [u8]),
}

/// Where to look.
pub(crate) enum Within<'w> {
    /// In a range of partitions.
    Range(&'w KeyRange),
    /// In a partition; of its rows, in these slices if entries are of rows.
    Partition(&'w DecoratedKey, &'w Slices),
}

/// What an entry leads to.
#[derive(Debug, Clone)]
pub(crate) struct Hit {
    /// The partition.
    pub key: DecoratedKey,
    /// The row; empty if the entry is of a partition or leads to a static row.
    pub clustering: Clustering,
    /// The entry's own clustering in the hidden table.
    entry: Clustering,
    timestamp: i64,
}

/// The entries of one value, in the order of the base table.
pub(crate) struct Hits {
    index: Arc<Index>,
    /// The partition of the hidden table.
    value: DecoratedKey,
    stream: Option<Box<dyn PartitionStream>>,
    now: u32,
}

impl Hits {
    /// Begins to read.
    pub fn new(
        engine: &Engine,
        index: &Arc<Index>,
        wanted: &Wanted<'_>,
        within: &Within<'_>,
        now: u32,
    ) -> Result<Self, EngineError> {
        let value = match wanted {
            Wanted::Value(value) => entry_key(value),
            Wanted::Entry(key, value) => entry_key(&map_entry(key, value)),
        };
        let slices = match within {
            Within::Range(range) => vec![slice_of_range(range)],
            Within::Partition(key, slices) => slices_of_partition(index, key, slices),
        };
        let slices = Slices::new(slices, &index.storage.comparator);
        let mut hits = Self { index: index.clone(), value, stream: None, now };
        if !slices.as_slice().is_empty() {
            let selection = Selection { slices, reversed: false };
            let mut stream = engine.read(index.storage.id, &hits.value, &selection)?;
            hits.stream = stream.next_partition()?.map(|_| stream);
        }
        Ok(hits)
    }

    /// The next entry.
    pub fn next(&mut self) -> StorageResult<Option<Hit>> {
        let Some(stream) = &mut self.stream else { return Ok(None) };
        while let Some(next) = stream.next_unfiltered()? {
            let Unfiltered::Row(row) = next else { continue };
            if row.liveness().is_live(self.now)
                && let Some(hit) = hit(&self.index, &row)
            {
                return Ok(Some(hit));
            }
        }
        self.stream = None;
        Ok(None)
    }

    /// Whether they lead to partitions by a value of their static rows.
    pub fn is_of_static_column(&self) -> bool {
        self.index.column.kind == ColumnKind::Static
    }

    /// Whether the row that a hit leads to does not hold the value any more.
    pub fn is_stale(&self, hit: &Hit, row: &Row, is_static: bool) -> bool {
        let path = match self.index.source {
            super::definition::Source::Values(_) => hit.entry.values().last().flatten(),
            _ => None,
        };
        // Behind the byte that each key begins with.
        let value = self.value.key().get(1..).unwrap_or_default();
        let entries = entries(&self.index, &hit.key, row, is_static, self.now);
        !entries.iter().any(|entry| *entry.value == *value && entry.path == path)
    }

    /// What removes the entry of a hit that was found stale.
    pub fn removal(&self, hit: &Hit) -> cassette_engine::Mutation {
        deletion(&self.index, self.value.clone(), hit.entry.clone(), hit.timestamp, self.now)
    }
}

/// What an entry says; `None` if it is none of ours.
fn hit(index: &Index, row: &Row) -> Option<Hit> {
    let entry = row.clustering();
    let mut values = entry.values();
    let token = i64::from_be_bytes(values.next()??.try_into().ok()?);
    let key = bytes::Bytes::copy_from_slice(values.next()??);
    let rest = values.take(index.clustering_columns());
    // A static row has nulls where rows have values.
    let clustering = match rest.clone().all(|value| value.is_some()) {
        true => Clustering::new(rest),
        false => Clustering::empty(),
    };
    Some(Hit {
        key: DecoratedKey::with_token(Token(token), key),
        clustering,
        entry: entry.clone(),
        timestamp: row.liveness().timestamp,
    })
}

fn slice_of_range(range: &KeyRange) -> Slice {
    use std::ops::Bound::{Excluded, Included, Unbounded};
    let bound = |position: &PartitionPosition, side: Side| match position {
        PartitionPosition::Before(token) => at_token(*token, Side::Before),
        PartitionPosition::After(token) => at_token(*token, Side::After),
        PartitionPosition::At(key) => at_key(key, side),
    };
    Slice {
        start: match &range.start {
            Unbounded => Bound::bottom(),
            Included(position) => bound(position, Side::Before),
            Excluded(position) => bound(position, Side::After),
        },
        end: match &range.end {
            Unbounded => Bound::top(),
            Included(position) => bound(position, Side::After),
            Excluded(position) => bound(position, Side::Before),
        },
    }
}

fn slices_of_partition(index: &Index, key: &DecoratedKey, slices: &Slices) -> Vec<Slice> {
    if !index.is_of_rows() {
        return vec![Slice { start: at_key(key, Side::Before), end: at_key(key, Side::After) }];
    }
    let within = |bound: &Bound| {
        let token = key.token().0.to_be_bytes();
        let values = [Some(&token[..]), Some(key.key())].into_iter().chain(bound.prefix.values());
        Bound { prefix: Clustering::new(values), side: bound.side }
    };
    let slices = slices.as_slice().iter();
    slices.map(|slice| Slice { start: within(&slice.start), end: within(&slice.end) }).collect()
}

fn at_token(token: Token, side: Side) -> Bound {
    Bound { prefix: Clustering::of(&[&token.0.to_be_bytes()]), side }
}

fn at_key(key: &DecoratedKey, side: Side) -> Bound {
    Bound { prefix: Clustering::of(&[&key.token().0.to_be_bytes(), key.key()]), side }
}
