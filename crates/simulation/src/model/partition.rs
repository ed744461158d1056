//! The contents of a partition: every effect of every write on it, reconciled by Cassandra's rules.
//!
//! Written for clarity: all effects are kept, and each read of a partition reconciles all of them.

use std::collections::BTreeMap;

use crate::schema::{Column, Kind, Row, Shape};
use crate::value::{Type, Val};

/// The values of the clustering columns.
pub type Clustering = Vec<Val>;

/// Expiration of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expiry {
    /// The first second at which it has expired.
    pub at: i64,
}

/// The rows between two bounds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Range {
    /// The leading clustering values that all rows have.
    pub prefix: Clustering,
    /// The least value of the next clustering column, and whether it is included.
    pub lower: Option<(Val, bool)>,
    /// The greatest value of the next clustering column, and whether it is included.
    pub upper: Option<(Val, bool)>,
}

impl Range {
    /// Returns whether a row is in the range.
    pub fn contains(&self, clustering: &[Val]) -> bool {
        let Some(next) = clustering.strip_prefix(self.prefix.as_slice()) else { return false };
        let above = |(bound, inclusive): &(Val, bool)| next[0] > *bound || *inclusive && next[0] == *bound;
        let below = |(bound, inclusive): &(Val, bool)| next[0] < *bound || *inclusive && next[0] == *bound;
        self.lower.as_ref().is_none_or(above) && self.upper.as_ref().is_none_or(below)
    }
}

/// Effect of a write on one partition. A clustering of `None` is the static row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Deletes everything.
    DeletePartition,
    /// Deletes the rows of a range.
    DeleteRange(Range),
    /// Deletes a row.
    DeleteRow(Clustering),
    /// Makes a row exist without values.
    Liveness(Clustering, Option<Expiry>),
    /// Sets a cell, or deletes it (`None`).
    Cell {
        /// The row.
        clustering: Option<Clustering>,
        /// The column.
        column: String,
        /// The element of a set, the key of a map, the index of a field, or the place of a list's
        /// element among the others.
        path: Option<i32>,
        /// The value; that of a set's element is empty.
        value: Option<Val>,
        /// When it expires.
        expiry: Option<Expiry>,
    },
    /// Deletes all cells of a collection.
    DeleteComplex {
        /// The row.
        clustering: Option<Clustering>,
        /// The column.
        column: String,
    },
    /// Adds to a counter.
    Add {
        /// The row.
        clustering: Option<Clustering>,
        /// The column.
        column: String,
        /// How much.
        delta: i64,
    },
}

/// An effect and its write timestamp.
pub type Stamped<'a> = (i64, &'a Effect);

/// What a cell is reconciled by when timestamps tie: tombstones beat expiring cells, which beat
/// others; then the later expiry wins, then the greater value.
fn weight(stamp: i64, value: &Option<Val>, expiry: &Option<Expiry>) -> (i64, u8, i64, Vec<u8>) {
    let class = match (value, expiry) {
        (None, _) => 2,
        (Some(_), Some(_)) => 1,
        (Some(_), None) => 0,
    };
    (stamp, class, expiry.map_or(0, |expiry| expiry.at), value.as_ref().map_or(Vec::new(), Val::encode))
}

fn is_live(expiry: &Option<Expiry>, now: i64) -> bool {
    expiry.is_none_or(|expiry| now < expiry.at)
}

/// The value of a column in a row (`None` is the static row) whose effects up to `deleted` are
/// deleted.
fn column_value(
    effects: &[Stamped<'_>],
    row: Option<&Clustering>,
    column: &Column,
    deleted: i64,
    now: i64,
) -> Option<Val> {
    let mut deleted = deleted;
    for (stamp, effect) in effects {
        if let Effect::DeleteComplex { clustering, column: name } = effect
            && clustering.as_ref() == row
            && *name == column.name
        {
            deleted = deleted.max(*stamp);
        }
    }
    // The winner of each path; simple columns have one path.
    type Winner<'a> = ((i64, u8, i64, Vec<u8>), &'a Option<Val>, &'a Option<Expiry>);
    let mut winners: BTreeMap<Option<i32>, Winner<'_>> = BTreeMap::new();
    let mut count: Option<i64> = None;
    for (stamp, effect) in effects {
        match effect {
            Effect::Cell { clustering, column: name, path, value, expiry }
                if clustering.as_ref() == row && *name == column.name && *stamp > deleted =>
            {
                let weight = weight(*stamp, value, expiry);
                if winners.get(path).is_none_or(|winner| winner.0 < weight) {
                    winners.insert(*path, (weight, value, expiry));
                }
            }
            Effect::Add { clustering, column: name, delta }
                if clustering.as_ref() == row && *name == column.name =>
            {
                count = Some(count.unwrap_or(0) + delta);
            }
            _ => {}
        }
    }
    let live = winners.iter().filter(|(_, (_, _, expiry))| is_live(expiry, now));
    let mut live = live.filter_map(|(path, (_, value, _))| Some((path, value.as_ref()?)));
    match column.data_type {
        Type::Counter => count.map(Val::Count),
        Type::List => {
            let number = |(_, value): (&Option<i32>, &Val)| match value {
                Val::Int(value) => Some(*value),
                _ => None,
            };
            let list: Vec<i32> = live.filter_map(number).collect();
            (!list.is_empty()).then_some(Val::List(list))
        }
        Type::Set => {
            let set: std::collections::BTreeSet<i32> = live.filter_map(|(path, _)| *path).collect();
            (!set.is_empty()).then_some(Val::Set(set))
        }
        Type::Map => {
            let entry = |(path, value): (&Option<i32>, &Val)| match value {
                Val::Int(value) => Some(((*path)?, *value)),
                _ => None,
            };
            let map: BTreeMap<i32, i32> = live.filter_map(entry).collect();
            (!map.is_empty()).then_some(Val::Map(map))
        }
        Type::Udt(fields) => {
            let mut values = vec![None; usize::from(fields)];
            for (path, value) in live {
                if let (Some(field), Val::Int(value)) = (path, value) {
                    values[*field as usize] = Some(*value);
                }
            }
            values.iter().any(Option::is_some).then_some(Val::Udt(values))
        }
        _ => live.next().map(|(_, value)| value.clone()),
    }
}

/// The rows that a read of the whole partition shows at second `now`, in clustering order.
pub fn rows(shape: &Shape, key: &[Val], effects: &[Stamped<'_>], now: i64) -> Vec<Row> {
    let mut partition_deleted = i64::MIN;
    let mut clusterings: Vec<&Clustering> = Vec::new();
    for (stamp, effect) in effects {
        match effect {
            Effect::DeletePartition => partition_deleted = partition_deleted.max(*stamp),
            Effect::Liveness(clustering, _)
            | Effect::Cell { clustering: Some(clustering), .. }
            | Effect::Add { clustering: Some(clustering), .. } => clusterings.push(clustering),
            _ => {}
        }
    }
    clusterings.sort_by(|a, b| shape.compare(a, b));
    clusterings.dedup();
    let static_value = |column: &Column| column_value(effects, None, column, partition_deleted, now);
    let statics: Vec<Option<Val>> = shape.columns_of(|kind| kind == Kind::Static).map(static_value).collect();
    let mut rows = Vec::new();
    for clustering in clusterings {
        let mut deleted = partition_deleted;
        for (stamp, effect) in effects {
            match effect {
                Effect::DeleteRow(row) if row == clustering => deleted = deleted.max(*stamp),
                Effect::DeleteRange(range) if range.contains(clustering) => deleted = deleted.max(*stamp),
                _ => {}
            }
        }
        let liveness = effects.iter().filter_map(|(stamp, effect)| match effect {
            Effect::Liveness(row, expiry) if row == clustering && *stamp > deleted => {
                Some((*stamp, expiry.is_some(), expiry.map_or(0, |expiry| expiry.at), *expiry))
            }
            _ => None,
        });
        let liveness = liveness.max_by_key(|(stamp, expires, at, _)| (*stamp, *expires, *at));
        let has_liveness = liveness.is_some_and(|(_, _, _, expiry)| is_live(&expiry, now));
        let regular = |column: &Column| column_value(effects, Some(clustering), column, deleted, now);
        let values: Vec<Option<Val>> = shape.columns_of(|kind| kind == Kind::Regular).map(regular).collect();
        if has_liveness || values.iter().any(Option::is_some) {
            let keys = key.iter().chain(clustering).cloned().map(Some);
            rows.push(keys.chain(statics.iter().cloned()).chain(values).collect());
        }
    }
    if rows.is_empty() && statics.iter().any(Option::is_some) {
        let nulls = |count: usize| std::iter::repeat_n(None, count);
        let regular = shape.columns_of(|kind| kind == Kind::Regular).count();
        let keys = key.iter().cloned().map(Some).chain(nulls(shape.clustering().len()));
        rows.push(keys.chain(statics).chain(nulls(regular)).collect());
    }
    rows
}

/// The order of partitions: by token, as scans return them.
pub fn token_order(key: &[Val]) -> (i64, Vec<u8>) {
    let encoded = match key {
        [only] => only.encode(),
        several => {
            let mut out = Vec::new();
            for value in several {
                let bytes = value.encode();
                out.extend((bytes.len() as u16).to_be_bytes());
                out.extend(bytes);
                out.push(0);
            }
            out
        }
    };
    let key = cassette_rows::DecoratedKey::new(bytes::Bytes::from(encoded.clone()));
    (key.token().0, encoded)
}
