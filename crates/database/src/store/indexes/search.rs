//! Searches of entries.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::VecDeque;
use std::ops::Bound as RangeBound;
use std::sync::Arc;

use cassette_engine::{Engine, EngineError, KeyRange, PartitionPosition};
use cassette_rows::clustering::Side;
use cassette_rows::{
    Bound, Clustering, ColumnKind, DecoratedKey, DeletionTime, PartitionStream, Result as StorageResult, Row,
    Selection, Slice, Slices, TableMetadata, Token, Unfiltered,
};

use super::entries::{deletion, entries, entry_key, map_entry, ordered_key};
use crate::schema::indexes::{Index, LikeKind, Source, Wanted};

/// The maximum number of entries of a range of values that are sorted into the order of the table.
/// With more, a scan of the table is not much slower, and takes no memory.
const RANGE_HITS_MAX: usize = 50_000;

/// The searched part of the base table.
pub(crate) enum Within<'w> {
    /// A range of partitions.
    Range(&'w KeyRange),
    /// A partition; if entries refer to rows, these slices of it.
    Partition(&'w DecoratedKey, &'w Slices),
}

/// The row or partition that an entry refers to.
#[derive(Debug, Clone)]
pub(crate) struct Hit {
    pub key: DecoratedKey,
    /// The row; empty if the entry refers to a partition or a static row.
    pub clustering: Clustering,
    /// The clustering of the entry in the hidden table.
    entry: Clustering,
    timestamp: i64,
}

impl Hit {
    /// Compares hits in the order of the base table.
    pub fn compare(&self, other: &Self, base: &TableMetadata) -> Ordering {
        let rows = || base.comparator.compare_rows(&self.clustering, &other.clustering);
        self.key.cmp(&other.key).then_with(rows)
    }
}

/// The entries of a value, or of several values.
pub(crate) struct Hits {
    index: Arc<Index>,
    /// The partition of the hidden table.
    partition: DecoratedKey,
    /// Entries that were read ahead.
    ahead: VecDeque<Hit>,
    entries: Entries,
    /// The terms that entries must fit.
    filter: Option<(LikeKind, Vec<Vec<u8>>)>,
    /// The number of SSTables with entries.
    sstables: u64,
    now: u32,
}

/// The entries that have not been read yet.
enum Entries {
    None,
    /// Entries of one value, in the order of the base table.
    OfValue(Box<dyn PartitionStream>),
    /// Entries of several values, in the order of the values.
    OfRange(Box<dyn PartitionStream>),
}

impl Hits {
    /// Starts a search.
    pub fn new(
        engine: &Engine,
        index: &Arc<Index>,
        wanted: &Wanted<'_>,
        within: &Within<'_>,
        now: u32,
    ) -> Result<Self, EngineError> {
        let by_order = index.ordered_by.is_some();
        let (partition, slices) = match wanted {
            Wanted::Value(value) if by_order => {
                (ordered_key(), slices_within(index, within, Some(&analyzed(index, value))))
            }
            Wanted::Value(value) => (entry_key(&analyzed(index, value)), slices_within(index, within, None)),
            Wanted::Entry(key, value) => {
                (entry_key(&map_entry(key, value)), slices_within(index, within, None))
            }
            Wanted::Like { kind: LikeKind::Matches, terms: [term] } => {
                (ordered_key(), slices_within(index, within, Some(term.as_slice())))
            }
            Wanted::Like { kind, terms } => {
                (ordered_key(), terms.iter().map(|term| slice_of_terms(*kind, term)).collect())
            }
            Wanted::Range { lower, upper } => {
                let bound =
                    |value: &[u8], side| Bound { prefix: Clustering::of(&[&analyzed(index, value)]), side };
                let start = lower.map_or(Bound::bottom(), |(value, inclusive)| {
                    bound(value, if inclusive { Side::Before } else { Side::After })
                });
                let end = upper.map_or(Bound::top(), |(value, inclusive)| {
                    bound(value, if inclusive { Side::After } else { Side::Before })
                });
                (ordered_key(), vec![Slice { start, end }])
            }
        };
        let slices = Slices::new(slices, &index.storage.comparator);
        let filter = match wanted {
            Wanted::Like { kind: kind @ (LikeKind::Suffix | LikeKind::Contains), terms } => {
                Some((*kind, terms.to_vec()))
            }
            _ => None,
        };
        let (ahead, entries) = (VecDeque::new(), Entries::None);
        let mut hits = Self { index: index.clone(), partition, ahead, entries, filter, sstables: 0, now };
        if slices.as_slice().is_empty() {
            return Ok(hits);
        }
        let selection = Selection { slices, reversed: false };
        // The row cache is disabled for hidden tables and would not help.
        let (mut stream, sstables) = engine.read_uncached(index.storage.id, &hits.partition, &selection)?;
        hits.sstables = sstables;
        if stream.next_partition()?.is_some() {
            hits.entries = match wanted {
                Wanted::Like { kind: LikeKind::Matches, terms: [_] } => Entries::OfValue(stream),
                Wanted::Range { .. } | Wanted::Like { .. } => Entries::OfRange(stream),
                _ => Entries::OfValue(stream),
            };
        }
        Ok(hits)
    }

    /// Whether an entry refers to a row, rather than to all rows of a partition.
    pub fn is_of_rows(&self) -> bool {
        self.index.is_of_rows()
    }

    /// Returns the number of SSTables of the index with entries.
    pub fn sstables(&self) -> u64 {
        self.sstables
    }

    /// Whether the entries are in the order of the base table without sorting.
    pub fn are_in_order(&self) -> bool {
        !matches!(self.entries, Entries::OfRange(_))
    }

    /// Reads `more` further entries ahead. Returns whether the end was reached.
    pub fn read_ahead(&mut self, more: usize, within: &Within<'_>) -> StorageResult<bool> {
        for _ in 0..more {
            let is_within = !self.are_in_order();
            let Some(hit) = self.read()? else { return Ok(true) };
            if !is_within || self.lies_within(&hit, within) {
                self.ahead.push_back(hit);
            }
        }
        Ok(matches!(self.entries, Entries::None))
    }

    /// Sorts the remaining entries into the order of the base table. Returns whether they were few
    /// enough.
    pub fn sort(&mut self, within: &Within<'_>) -> StorageResult<bool> {
        while !self.are_in_order() && !self.read_ahead(RANGE_HITS_MAX / 64, within)? {
            if self.ahead.len() > RANGE_HITS_MAX {
                return Ok(false);
            }
        }
        let base = &self.index.base;
        self.ahead.make_contiguous().sort_by(|a, b| a.compare(b, base));
        Ok(true)
    }

    /// Returns the number of entries that were read ahead.
    pub fn ahead(&self) -> usize {
        self.ahead.len()
    }

    fn lies_within(&self, hit: &Hit, within: &Within<'_>) -> bool {
        match within {
            Within::Range(range) => is_in_range(&hit.key, range),
            Within::Partition(key, _) if !self.is_of_rows() => hit.key == **key,
            Within::Partition(key, slices) => {
                let comparator = &self.index.base.comparator;
                hit.key == **key && slices.contains((&hit.clustering).into(), comparator)
            }
        }
    }

    /// Returns the next hit in the order of the base table.
    pub fn next(&mut self) -> StorageResult<Option<Hit>> {
        match self.ahead.pop_front() {
            Some(hit) => Ok(Some(hit)),
            None => self.read(),
        }
    }

    /// Reads the next entry in stored order.
    fn read(&mut self) -> StorageResult<Option<Hit>> {
        let stream = match &mut self.entries {
            Entries::None => return Ok(None),
            Entries::OfValue(stream) | Entries::OfRange(stream) => stream,
        };
        while let Some(next) = stream.next_unfiltered()? {
            let Unfiltered::Row(row) = next else { continue };
            let fits = |(kind, wanted): &(LikeKind, Vec<Vec<u8>>)| {
                let term = row.clustering().value(0).unwrap_or_default();
                wanted.iter().any(|wanted| kind.fits(term, wanted))
            };
            if self.filter.as_ref().is_some_and(|filter| !fits(filter)) {
                continue;
            }
            if row.liveness().is_live(self.now)
                && let Some(hit) = hit(&self.index, &row)
            {
                return Ok(Some(hit));
            }
        }
        self.entries = Entries::None;
        Ok(None)
    }

    /// Whether the entries refer to partitions by a value of their static rows.
    pub fn is_of_static_column(&self) -> bool {
        self.index.column.kind == ColumnKind::Static
    }

    /// Whether the row of a hit no longer has the value.
    pub fn is_stale(&self, hit: &Hit, row: &Row, is_static: bool) -> bool {
        if self.index.is_of_key() {
            return entries(&self.index, &hit.key, row, is_static, self.now).is_empty();
        }
        let path = match self.index.source {
            Source::Values(_) | Source::AnalyzedPaths(_) => hit.entry.values().last().flatten(),
            _ => None,
        };
        let value = match self.index.ordered_by {
            Some(_) => hit.entry.value(0).unwrap_or_default(),
            // The first byte of each key is a prefix.
            None => self.partition.key().get(1..).unwrap_or_default(),
        };
        let entries = entries(&self.index, &hit.key, row, is_static, self.now);
        !entries.iter().any(|entry| self.index.same_value(&entry.value, value) && entry.path == path)
    }

    /// Returns the deletion of a stale entry; `None` in an index of a key column, where an earlier
    /// write may make the row exist again.
    pub fn removal(&self, hit: &Hit) -> Option<cassette_engine::Mutation> {
        let entry = || {
            deletion(
                &self.index,
                self.partition.clone(),
                hit.entry.clone(),
                DeletionTime::new(hit.timestamp, self.now),
            )
        };
        (!self.index.is_of_key()).then(entry)
    }
}

/// Returns the form of a value that is indexed.
fn analyzed<'v>(index: &Index, value: &'v [u8]) -> Cow<'v, [u8]> {
    match &index.analyzer {
        Some(analyzer) => analyzer.analyze(Cow::Borrowed(value)),
        None => Cow::Borrowed(value),
    }
}

/// Decodes an entry; `None` if it is invalid.
fn hit(index: &Index, row: &Row) -> Option<Hit> {
    let entry = row.clustering();
    let mut values = entry.values();
    if index.ordered_by.is_some() {
        values.next()?;
    }
    let token = i64::from_be_bytes(values.next()??.try_into().ok()?);
    let key = bytes::Bytes::copy_from_slice(values.next()??);
    let rest = values.take(index.clustering_columns());
    // The clustering columns are null for a static row.
    let clustering =
        if rest.clone().all(|value| value.is_some()) { Clustering::new(rest) } else { Clustering::empty() };
    Some(Hit {
        key: DecoratedKey::with_token(Token(token), key),
        clustering,
        entry: entry.clone(),
        timestamp: row.liveness().timestamp,
    })
}

/// Returns the slices of entries that refer to rows in `within`, after `value` if that is part of
/// their clustering.
fn slices_within(index: &Index, within: &Within<'_>, value: Option<&[u8]>) -> Vec<Slice> {
    let bound = |rest: &[&[u8]], side| {
        let values = value.iter().chain(rest).map(|value| Some(*value));
        Bound { prefix: Clustering::new(values), side }
    };
    let at_key = |key: &DecoratedKey, side| bound(&[&key.token().0.to_be_bytes(), key.key()], side);
    let at = |position: &PartitionPosition, side| match position {
        PartitionPosition::Before(token) => bound(&[&token.0.to_be_bytes()], Side::Before),
        PartitionPosition::After(token) => bound(&[&token.0.to_be_bytes()], Side::After),
        PartitionPosition::At(key) => at_key(key, side),
    };
    match within {
        Within::Range(range) => vec![Slice {
            start: match &range.start {
                RangeBound::Unbounded => bound(&[], Side::Before),
                RangeBound::Included(position) => at(position, Side::Before),
                RangeBound::Excluded(position) => at(position, Side::After),
            },
            end: match &range.end {
                RangeBound::Unbounded => bound(&[], Side::After),
                RangeBound::Included(position) => at(position, Side::After),
                RangeBound::Excluded(position) => at(position, Side::Before),
            },
        }],
        Within::Partition(key, _) if !index.is_of_rows() => {
            vec![Slice { start: at_key(key, Side::Before), end: at_key(key, Side::After) }]
        }
        Within::Partition(key, slices) => {
            let token = key.token().0.to_be_bytes();
            let behind = |edge: &Bound| {
                let leading = [value, Some(&token[..]), Some(key.key())];
                let leading = leading.into_iter().skip(usize::from(value.is_none()));
                Bound { prefix: Clustering::new(leading.chain(edge.prefix.values())), side: edge.side }
            };
            let slices = slices.as_slice().iter();
            slices.map(|slice| Slice { start: behind(&slice.start), end: behind(&slice.end) }).collect()
        }
    }
}

/// Returns the slice with the terms that a term of a pattern can fit. Terms that end with it or
/// contain it can be anywhere.
fn slice_of_terms(kind: LikeKind, term: &[u8]) -> Slice {
    let bound = |term: &[u8], side| Bound { prefix: Clustering::of(&[term]), side };
    match kind {
        LikeKind::Suffix | LikeKind::Contains => Slice { start: Bound::bottom(), end: Bound::top() },
        LikeKind::Matches => Slice { start: bound(term, Side::Before), end: bound(term, Side::After) },
        LikeKind::Prefix => {
            // The first term after those with the prefix.
            let kept = term.iter().rposition(|byte| *byte != u8::MAX);
            let end = kept.map_or(Bound::top(), |last| {
                let mut next = term[..=last].to_vec();
                next[last] += 1;
                bound(&next, Side::Before)
            });
            Slice { start: bound(term, Side::Before), end }
        }
    }
}

fn is_in_range(key: &DecoratedKey, range: &KeyRange) -> bool {
    let compare = |position: &PartitionPosition| match position {
        PartitionPosition::Before(token) => key.token().cmp(token).then(Ordering::Greater),
        PartitionPosition::After(token) => key.token().cmp(token).then(Ordering::Less),
        PartitionPosition::At(other) => key.cmp(other),
    };
    let after_start = match &range.start {
        RangeBound::Unbounded => true,
        RangeBound::Included(position) => compare(position).is_ge(),
        RangeBound::Excluded(position) => compare(position).is_gt(),
    };
    let before_end = match &range.end {
        RangeBound::Unbounded => true,
        RangeBound::Included(position) => compare(position).is_le(),
        RangeBound::Excluded(position) => compare(position).is_lt(),
    };
    after_start && before_end
}
