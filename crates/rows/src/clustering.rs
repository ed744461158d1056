//! Clusterings, bounds between them, and their order.

use std::cmp::Ordering;

use smallvec::SmallVec;

use crate::key::MAX_KEY_LENGTH;
use crate::types::DataType;

/// The values of a row's clustering columns, or of the first few of them in a [`Bound`].
///
/// ```text
/// per value: i32 length (-1 = null), bytes        big-endian; one allocation for all values, none if they are short
/// ```
/// Null values occur only in the tables of old indexes. Values are in column order and raw: a DESC
/// column changes the comparator, not the bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Clustering {
    count: u16,
    bytes: SmallVec<[u8; SHORT]>,
}

/// Bytes that are stored in the clustering itself: a UUID and an integer of any kind with their
/// lengths, 4 + 16 + 4 + 8, or an index entry of a short key. A search in a memtable then follows
/// one pointer for each row that it compares, not two.
const SHORT: usize = 32;

impl Clustering {
    /// No values: the clustering of a static row, of a row in a table without clustering columns,
    /// or the prefix of an unbounded [`Bound`].
    pub fn empty() -> Self {
        Self::default()
    }

    /// From values in column order.
    pub fn new<'a>(values: impl IntoIterator<Item = Option<&'a [u8]>, IntoIter: Clone>) -> Self {
        let values = values.into_iter();
        let total = values.clone().map(|v| 4 + v.map_or(0, <[u8]>::len)).sum();
        let mut bytes = SmallVec::with_capacity(total);
        let mut count = 0;
        for value in values {
            count += 1;
            match value {
                Some(value) => {
                    bytes.extend_from_slice(&(value.len() as i32).to_be_bytes());
                    bytes.extend_from_slice(value);
                }
                None => bytes.extend_from_slice(&(-1i32).to_be_bytes()),
            }
        }
        Self { count, bytes }
    }

    /// From values none of which is null.
    pub fn of(values: &[&[u8]]) -> Self {
        Self::new(values.iter().map(|v| Some(*v)))
    }

    /// The number of values.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Returns whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The values in column order.
    pub fn values(&self) -> Values<'_> {
        Values { rest: &self.bytes, left: self.count }
    }

    /// The value of clustering column `index`; `None` when it is null or absent.
    pub fn value(&self, index: usize) -> Option<&[u8]> {
        self.values().nth(index).flatten()
    }

    /// Returns the total bytes of its values if they exceed Cassandra's limit for a row's
    /// clustering, [`MAX_KEY_LENGTH`](crate::key::MAX_KEY_LENGTH).
    pub fn excessive_length(&self) -> Option<usize> {
        // The buffer also contains lengths, so it is longer than the values alone.
        if self.bytes.len() <= MAX_KEY_LENGTH {
            return None;
        }
        let length = self.values().flatten().map(<[u8]>::len).sum();
        (length > MAX_KEY_LENGTH).then_some(length)
    }

    /// The first `count` values (all, if there are fewer).
    pub fn prefix(&self, count: usize) -> Self {
        Self::new(self.values().take(count))
    }

    /// Bytes of its values, with their lengths.
    pub fn data_size(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes held on the heap.
    pub fn heap_size(&self) -> usize {
        if self.bytes.spilled() { self.bytes.capacity() } else { 0 }
    }
}

/// Iterates over the values of a [`Clustering`].
#[derive(Debug, Clone)]
pub struct Values<'a> {
    rest: &'a [u8],
    left: u16,
}

impl<'a> Iterator for Values<'a> {
    type Item = Option<&'a [u8]>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let (length, rest) = self.rest.split_first_chunk::<4>()?;
        let length = i32::from_be_bytes(*length);
        if length < 0 {
            self.rest = rest;
            return Some(None);
        }
        let (value, rest) = rest.split_at(length as usize);
        self.rest = rest;
        Some(Some(value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl ExactSizeIterator for Values<'_> {}

/// On which side of the rows that share its prefix a bound lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// Below them all: an inclusive start or an exclusive end.
    Before,
    /// Above them all: an exclusive start or an inclusive end.
    After,
}

/// A point between rows: just before or just after all rows whose clustering begins with `prefix`.
///
/// Start or end, inclusive or exclusive follow from use: as a start, [`Side::Before`] includes the
/// prefix's rows; as an end, [`Side::After`] does.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Bound {
    /// Zero to all clustering values.
    pub prefix: Clustering,
    /// Which side of the prefix's rows.
    pub side: Side,
}

impl Bound {
    /// Just before all rows that begin with `prefix`.
    pub fn before(prefix: Clustering) -> Self {
        Self { prefix, side: Side::Before }
    }

    /// Just after all rows that begin with `prefix`.
    pub fn after(prefix: Clustering) -> Self {
        Self { prefix, side: Side::After }
    }

    /// Before every row.
    pub fn bottom() -> Self {
        Self::before(Clustering::empty())
    }

    /// After every row.
    pub fn top() -> Self {
        Self::after(Clustering::empty())
    }

    /// Returns its position in the partition's order.
    pub fn position(&self) -> Position<'_> {
        Position { prefix: &self.prefix, side: Some(self.side) }
    }
}

/// A position in a partition's order: that of a row or of a bound.
#[derive(Debug, Clone, Copy)]
pub struct Position<'a> {
    /// The clustering, or the bound's prefix.
    pub prefix: &'a Clustering,
    /// `None` for a row.
    pub side: Option<Side>,
}

impl<'a> From<&'a Clustering> for Position<'a> {
    fn from(prefix: &'a Clustering) -> Self {
        Position { prefix, side: None }
    }
}

/// Orders the rows and bounds of one table's partitions. Built once per table.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClusteringComparator {
    columns: Box<[(DataType, bool)]>,
}

impl ClusteringComparator {
    /// From the clustering columns' types, each with whether its order is reversed (DESC).
    pub fn new(columns: impl IntoIterator<Item = (DataType, bool)>) -> Self {
        Self { columns: columns.into_iter().collect() }
    }

    /// The number of clustering columns.
    pub fn len(&self) -> usize {
        self.columns.len()
    }

    /// Returns whether the table has no clustering columns.
    pub fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    /// The types of the clustering columns, each with whether it is reversed.
    pub fn columns(&self) -> &[(DataType, bool)] {
        &self.columns
    }

    /// The order of two rows of a partition.
    pub fn compare_rows(&self, a: &Clustering, b: &Clustering) -> Ordering {
        self.compare_common(a, b).then(a.count.cmp(&b.count))
    }

    /// Returns the order of two positions in a partition.
    ///
    /// Values are compared first. If all common values are equal, the position with fewer values is
    /// the bound that surrounds the other, and its side decides; with as many values on both,
    /// `Before` < row < `After`.
    pub fn compare(&self, a: Position<'_>, b: Position<'_>) -> Ordering {
        let common = self.compare_common(a.prefix, b.prefix);
        if common != Ordering::Equal {
            return common;
        }
        let weight = |p: Position<'_>| match p.side {
            Some(Side::Before) => -1i8,
            None => 0,
            Some(Side::After) => 1,
        };
        match a.prefix.count.cmp(&b.prefix.count) {
            Ordering::Less => weight(a).cmp(&0),
            Ordering::Greater => 0.cmp(&weight(b)),
            Ordering::Equal => weight(a).cmp(&weight(b)),
        }
    }

    /// Returns whether the row with these values of all clustering columns sorts before `bound`:
    /// like [`compare`](Self::compare), without a [`Clustering`].
    #[inline]
    pub fn is_row_before(&self, row: &[Option<&[u8]>], bound: &Bound) -> bool {
        match self.compare_values(row.iter().copied(), bound.prefix.values()) {
            Ordering::Less => true,
            Ordering::Greater => false,
            // A row never has fewer values than a bound.
            Ordering::Equal => bound.side == Side::After,
        }
    }

    /// Returns a number that is monotonic in the order of positions and distinguishes most of them
    /// by their first value; see [`DataType::leading`]. `None` for a position without values, which
    /// sorts before or after all others.
    #[inline]
    pub fn leading(&self, prefix: &Clustering) -> Option<u64> {
        let (first, (data_type, reversed)) = (prefix.values().next()?, self.columns.first()?);
        // Null sorts first in either order of the column.
        let Some(first) = first else { return Some(0) };
        let number = data_type.leading(first);
        Some(if *reversed { !number } else { number })
    }

    /// Compares the values that both have.
    fn compare_common(&self, a: &Clustering, b: &Clustering) -> Ordering {
        self.compare_values(a.values(), b.values())
    }

    #[inline]
    fn compare_values<'a>(
        &self,
        a: impl Iterator<Item = Option<&'a [u8]>>,
        b: impl Iterator<Item = Option<&'a [u8]>>,
    ) -> Ordering {
        for ((a, b), (data_type, reversed)) in a.zip(b).zip(&self.columns) {
            let order = match (a, b) {
                (Some(a), Some(b)) if *reversed => data_type.compare(b, a),
                (Some(a), Some(b)) => data_type.compare(a, b),
                // Null sorts first in either order of the column.
                (a, b) => a.is_some().cmp(&b.is_some()),
            };
            if order != Ordering::Equal {
                return order;
            }
        }
        Ordering::Equal
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_before_the_same_bounds_whether_they_are_held_or_lie_somewhere() {
        let comparator = ClusteringComparator::new([(DataType::Blob, false), (DataType::Blob, true)]);
        let values: [Option<&[u8]>; 4] = [None, Some(b""), Some(b"a"), Some(b"ab")];
        let rows = values.iter().flat_map(|first| values.iter().map(move |second| [*first, *second]));
        let mut before = 0;
        for row in rows.clone() {
            let held = Clustering::new(row);
            for other in rows.clone() {
                for prefix in [&other[..0], &other[..1], &other[..]] {
                    for side in [Side::Before, Side::After] {
                        let bound = Bound { prefix: Clustering::new(prefix.iter().copied()), side };
                        let expected = comparator.compare((&held).into(), bound.position()).is_lt();
                        assert_eq!(comparator.is_row_before(&row, &bound), expected, "{row:?} {bound:?}");
                        before += usize::from(expected);
                    }
                }
            }
        }
        assert!((1..16 * 16 * 6).contains(&before));
    }
}
