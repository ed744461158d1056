//! Range tombstones as restrictions that CQL can express.
//!
//! A tombstone lies between two bounds of any length: `(1, 5, 2) < clustering < (3)`. CQL restricts
//! columns by equality, and the one after them by a slice:
//!
//! ```text
//! a = 1 AND b = 5 AND c > 2        above the start, below its prefix (1, 5)
//! a = 1 AND b > 5
//! a > 1 AND a < 3
//! ```

use cassette_rows::{Bound, Clustering, RangeTombstone, Side};

/// The value of one end of a slice, and whether it belongs to the slice.
pub type End = (Vec<u8>, bool);

/// Rows with equal first values, and the next one in a slice; without ends, any.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SliceRestriction {
    pub equal: Vec<Vec<u8>>,
    /// In the order of the table, in which descending columns are reversed.
    pub lower: Option<End>,
    pub upper: Option<End>,
}

/// Returns disjoint restrictions that together cover the rows of a tombstone. `None` if a value is
/// null, which base tables do not have.
pub fn restrictions(tombstone: &RangeTombstone) -> Option<Vec<SliceRestriction>> {
    let start = values(&tombstone.start.prefix)?;
    let end = values(&tombstone.end.prefix)?;
    let common = start.iter().zip(&end).take_while(|(a, b)| a == b).count();
    let mut out = Vec::new();
    let includes = |bound: &Bound, side: Side| bound.side == side;
    let (starts, ends) = (includes(&tombstone.start, Side::Before), includes(&tombstone.end, Side::After));
    // A bound is exclusive at all columns but its last.
    let lower = |at: usize| (start[at].clone(), at + 1 == start.len() && starts);
    let upper = |at: usize| (end[at].clone(), at + 1 == end.len() && ends);
    match (start.len() == common, end.len() == common) {
        (true, true) if starts && ends => {
            out.push(SliceRestriction { equal: start, ..SliceRestriction::default() });
        }
        (true, true) => {}
        (true, false) if starts => out.extend((common..end.len()).map(|at| SliceRestriction {
            equal: end[..at].to_vec(),
            lower: None,
            upper: Some(upper(at)),
        })),
        (false, true) if ends => out.extend((common..start.len()).map(|at| SliceRestriction {
            equal: start[..at].to_vec(),
            lower: Some(lower(at)),
            upper: None,
        })),
        // The bound whose prefix the other one extends lies on its other side: nothing is between.
        (true, false) | (false, true) => {}
        (false, false) => {
            out.push(SliceRestriction {
                equal: start[..common].to_vec(),
                lower: Some(lower(common)),
                upper: Some(upper(common)),
            });
            out.extend((common + 1..start.len()).map(|at| SliceRestriction {
                equal: start[..at].to_vec(),
                lower: Some(lower(at)),
                upper: None,
            }));
            out.extend((common + 1..end.len()).map(|at| SliceRestriction {
                equal: end[..at].to_vec(),
                lower: None,
                upper: Some(upper(at)),
            }));
        }
    }
    Some(out)
}

fn values(prefix: &Clustering) -> Option<Vec<Vec<u8>>> {
    prefix.values().map(|value| value.map(<[u8]>::to_vec)).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use cassette_rows::DeletionTime;

    use super::*;

    /// All clusterings of three columns with values 0 to 3, in order.
    fn clusterings() -> Vec<[u8; 3]> {
        let digits = |n: u8| [n / 16, n / 4 % 4, n % 4];
        (0..64).map(digits).collect()
    }

    fn covers(restriction: &SliceRestriction, row: [u8; 3]) -> bool {
        let is_equal = restriction.equal.iter().zip(row).all(|(value, of_row)| *value == [of_row]);
        let Some(next) = row.get(restriction.equal.len()) else { return is_equal };
        let above = |(value, inclusive): &End| value[0] < *next || *inclusive && value[0] == *next;
        let below = |(value, inclusive): &End| value[0] > *next || *inclusive && value[0] == *next;
        is_equal
            && restriction.lower.as_ref().is_none_or(above)
            && restriction.upper.as_ref().is_none_or(below)
    }

    fn is_within(tombstone: &RangeTombstone, row: [u8; 3]) -> bool {
        let is_above = |bound: &Bound| {
            let prefix: Vec<u8> = bound.prefix.values().map(|value| value.unwrap()[0]).collect();
            match row[..prefix.len()].cmp(&prefix[..]) {
                std::cmp::Ordering::Equal => bound.side == Side::Before,
                other => other.is_gt(),
            }
        };
        is_above(&tombstone.start) && !is_above(&tombstone.end)
    }

    fn precedes(one: &Bound, other: &Bound) -> bool {
        let values = |bound: &Bound| values(&bound.prefix).unwrap();
        let (a, b) = (values(one), values(other));
        let length = a.len().min(b.len());
        match a[..length].cmp(&b[..length]) {
            // The shorter prefix has the rows of the longer one.
            std::cmp::Ordering::Equal => match a.len().cmp(&b.len()) {
                std::cmp::Ordering::Less => one.side == Side::Before,
                std::cmp::Ordering::Equal => (one.side, other.side) == (Side::Before, Side::After),
                std::cmp::Ordering::Greater => other.side == Side::After,
            },
            order => order.is_lt(),
        }
    }

    #[test]
    fn every_range_is_covered_by_restrictions_exactly_once() {
        let prefixes: BTreeSet<Vec<u8>> = clusterings()
            .iter()
            .flat_map(|row| (0..=3).map(|length| row[..length].to_vec()))
            .filter(|prefix| prefix.iter().all(|value| *value < 3))
            .collect();
        let bounds: Vec<Bound> = prefixes
            .iter()
            .flat_map(|prefix| {
                let prefix = Clustering::new(prefix.iter().map(|value| Some(std::slice::from_ref(value))));
                [Bound::before(prefix.clone()), Bound::after(prefix)]
            })
            .collect();
        for start in &bounds {
            for end in &bounds {
                // Ends at or before starts do not occur.
                if !precedes(start, end) {
                    continue;
                }
                let deletion = DeletionTime::new(1, 1);
                let tombstone = RangeTombstone { start: start.clone(), end: end.clone(), deletion };
                let found = restrictions(&tombstone).unwrap();
                for row in clusterings() {
                    let count = found.iter().filter(|restriction| covers(restriction, row)).count();
                    let expected = usize::from(is_within(&tombstone, row));
                    assert_eq!(count, expected, "{tombstone:?} {row:?} {found:?}");
                }
            }
        }
    }
}
