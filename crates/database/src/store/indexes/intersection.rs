//! Several indexes that could each find the rows: which one does, and how the others help.
//!
//! Nobody keeps count of the entries of a value. So the first few of each index are read side by side, more and more of them,
//! until one comes to its end: it has the fewest, and finds the rows, for about as many entries read of each other one. Where
//! none ends soon, the rows that one index leads to are looked for in the others, and not read where these know nothing of
//! them: an entry may be stale, but never is one missing.

use std::sync::Arc;

use cassette_rows::{Result, TableMetadata};

use super::{Hit, Hits, Within};

/// Entries of each index that are read before the next is looked at: at first, and at most. Few in tests, so that they see both.
const FIRST_READ: usize = if cfg!(test) { 2 } else { 16 };
const READ_MAX: usize = if cfg!(test) { 8 } else { 1024 };

/// Where so few rows are left, they are read without asking others.
const FEW: usize = if cfg!(test) { 1 } else { 16 };

/// Entries of another index that are passed over for one hit at most: about what reading the row would cost. Where there are
/// more, that index is not asked again.
const SKIPS_MAX: usize = if cfg!(test) { 3 } else { 32 };

/// The hits of one index, without those that others know nothing of.
pub(crate) struct Intersection {
    /// Of the index that finds the rows.
    pub hits: Hits,
    others: Vec<Other>,
    base: Arc<TableMetadata>,
}

struct Other {
    hits: Hits,
    /// Read from `hits`, and not before the last hit that was asked for.
    next: Option<Hit>,
}

impl Intersection {
    /// Of indexes of `base`, the more promising ones first. `None` if they find so much that looking at all rows is no worse.
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
                // A range that was read to its end is in order but for being sorted.
                if other.sort(within)? {
                    let next = other.next()?;
                    others.push(Other { hits: other, next });
                }
            }
        }
        Ok(Some(Self { hits, others, base: base.clone() }))
    }

    /// The next hit in the order of the table.
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
    /// Whether there is an entry of the row of a hit, not before those asked for earlier; `None` if that takes too long to say.
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

/// Which has the fewest entries, as far as can be told at little cost; `None` if all have too many.
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
    // Those of a range have to be sorted first.
    let in_order = contenders.iter().position(Hits::are_in_order);
    Ok(Some(in_order.unwrap_or(0)))
}
