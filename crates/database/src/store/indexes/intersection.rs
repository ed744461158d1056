//! The choice between several indexes that could each find the rows, and their intersection.
//!
//! The number of entries of a value is not recorded. So the first entries of each index are read in
//! turn, in growing portions, until one index ends: it has the fewest entries and finds the rows,
//! at the cost of about as many entries read from each other index. If none ends soon, the rows
//! found by one index are looked up in the others, and not read if another has no entry for them:
//! entries may be stale but never missing.

use std::sync::Arc;

use cassette_rows::{Result, TableMetadata};

use super::{Hit, Hits, Within};

/// The number of entries read from each index in a turn: at first, and at most. Few in tests, to
/// cover both.
const FIRST_READ: usize = if cfg!(test) { 2 } else { 16 };
const READ_MAX: usize = if cfg!(test) { 8 } else { 1024 };

/// With at most this many remaining rows, these are read without consulting other indexes.
const FEW: usize = if cfg!(test) { 1 } else { 16 };

/// The maximum number of skipped entries of another index for one hit, which cost about as much as
/// reading the row. Beyond it, that index is not consulted again.
const SKIPS_MAX: usize = if cfg!(test) { 3 } else { 32 };

/// The hits of one index, without those that have no entry in the others.
pub(crate) struct Intersection {
    /// The hits of the index that finds the rows.
    pub hits: Hits,
    others: Vec<Other>,
    base: Arc<TableMetadata>,
}

struct Other {
    hits: Hits,
    /// The next entry, at or after the last requested hit.
    next: Option<Hit>,
}

impl Intersection {
    /// Intersects indexes of `base`, the most selective ones first. Returns `None` if they find so
    /// many rows that a scan is no slower.
    pub fn new(
        mut contenders: Vec<Hits>,
        within: &Within<'_>,
        base: &Arc<TableMetadata>,
    ) -> Result<Option<Self>> {
        let Some(best) = fewest(&mut contenders, within)? else { return Ok(None) };
        let mut hits = contenders.remove(best);
        if !hits.sort(within)? {
            return Ok(None);
        }
        let mut others = Vec::new();
        if !hits.read_ahead(0, within)? || hits.ahead() > FEW {
            let alike = |other: &Hits| other.are_in_order() && other.is_of_rows() == hits.is_of_rows();
            for mut other in contenders.into_iter().filter(alike) {
                // A range that was read to its end only has to be sorted.
                if other.sort(within)? {
                    let next = other.next()?;
                    others.push(Other { hits: other, next });
                }
            }
        }
        Ok(Some(Self { hits, others, base: base.clone() }))
    }

    /// Returns the next hit in the order of the table.
    pub fn next(&mut self) -> Result<Option<Hit>> {
        'hits: while let Some(hit) = self.hits.next()? {
            let mut i = 0;
            while let Some(other) = self.others.get_mut(i) {
                match other.has(&hit, &self.base)? {
                    Some(true) => i += 1,
                    Some(false) => continue 'hits,
                    None => drop(self.others.swap_remove(i)),
                }
            }
            return Ok(Some(hit));
        }
        Ok(None)
    }
}

impl Other {
    /// Returns whether there is an entry for the row of a hit, which must not precede earlier ones;
    /// `None` if finding out is too expensive.
    fn has(&mut self, hit: &Hit, base: &TableMetadata) -> Result<Option<bool>> {
        for _ in 0..=SKIPS_MAX {
            let Some(next) = &self.next else { return Ok(Some(false)) };
            let order = next.compare(hit, base);
            if order.is_ge() {
                return Ok(Some(order.is_eq()));
            }
            self.next = self.hits.next()?;
        }
        Ok(None)
    }
}

/// Returns the index with the fewest entries, as far as can be determined cheaply; `None` if all
/// have too many.
fn fewest(contenders: &mut [Hits], within: &Within<'_>) -> Result<Option<usize>> {
    if contenders.len() < 2 {
        return Ok((!contenders.is_empty()).then_some(0));
    }
    let mut more = FIRST_READ;
    while more <= READ_MAX {
        for (i, hits) in contenders.iter_mut().enumerate() {
            if hits.read_ahead(more, within)? {
                return Ok(Some(i));
            }
        }
        more *= 4;
    }
    // Entries of a range have to be sorted first.
    let in_order = contenders.iter().position(Hits::are_in_order);
    Ok(Some(in_order.unwrap_or(0)))
}
