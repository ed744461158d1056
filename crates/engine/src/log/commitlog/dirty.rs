//! The tables that still need a segment.

use hashbrown::HashMap;

/// The records of each table in one segment, and the part of them that SSTables contain. Offsets
/// are those of positions: ends of records.
#[derive(Debug, Default)]
pub(super) struct DirtyTables {
    tables: HashMap<u128, DirtyTable>,
}

#[derive(Debug)]
struct DirtyTable {
    /// The ends of its first and its last record.
    first: u32,
    last: u32,
    /// Flushed ranges (from, upto], disjoint and ascending; adjacent ranges are joined.
    clean: Vec<(u32, u32)>,
}

impl DirtyTables {
    /// Records that a record of `table` ends at `offset`, after all others.
    pub(super) fn mark_dirty(&mut self, table: u128, offset: u32) {
        self.tables.entry(table).and_modify(|dirty| dirty.last = offset).or_insert(DirtyTable {
            first: offset,
            last: offset,
            clean: Vec::new(),
        });
    }

    /// Records that SSTables contain the records of `table` ending in (from, upto].
    pub(super) fn mark_clean(&mut self, table: u128, from: u32, upto: u32) {
        if let Some(dirty) = self.tables.get_mut(&table) {
            add(&mut dirty.clean, from, upto);
        }
    }

    /// Removes a table that has been dropped or truncated.
    pub(super) fn forget(&mut self, table: u128) {
        self.tables.remove(&table);
    }

    pub(super) fn is_clean(&self) -> bool {
        self.tables.values().all(DirtyTable::is_clean)
    }

    /// Returns the tables that still need the segment.
    pub(super) fn dirty(&self) -> impl Iterator<Item = u128> {
        self.tables.iter().filter(|(_, dirty)| !dirty.is_clean()).map(|(table, _)| *table)
    }
}

impl DirtyTable {
    fn is_clean(&self) -> bool {
        self.clean.iter().any(|(from, upto)| *from < self.first && self.last <= *upto)
    }
}

fn add(stretches: &mut Vec<(u32, u32)>, mut from: u32, mut upto: u32) {
    if upto <= from {
        return;
    }
    stretches.retain(|&(other_from, other_upto)| {
        let touches = other_from <= upto && from <= other_upto;
        if touches {
            from = from.min(other_from);
            upto = upto.max(other_upto);
        }
        !touches
    });
    let at = stretches.partition_point(|&(other, _)| other < from);
    stretches.insert(at, (from, upto));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_table_written_again_after_its_flush_began_stays_dirty() {
        let mut tables = DirtyTables::default();
        tables.mark_dirty(1, 10);
        tables.mark_dirty(1, 20);
        tables.mark_clean(1, 0, 10);
        assert_eq!(tables.dirty().collect::<Vec<_>>(), [1]);
        tables.mark_clean(1, 10, 20);
        assert!(tables.is_clean());
        tables.mark_dirty(1, 30);
        assert!(!tables.is_clean());
    }

    #[test]
    fn flushes_may_finish_out_of_order() {
        let mut tables = DirtyTables::default();
        for offset in [10, 20, 30] {
            tables.mark_dirty(1, offset);
        }
        tables.mark_clean(1, 20, 30);
        tables.mark_clean(1, 0, 10);
        assert!(!tables.is_clean());
        tables.mark_clean(1, 10, 20);
        assert!(tables.is_clean());
    }

    #[test]
    fn one_clean_table_does_not_clean_another() {
        let mut tables = DirtyTables::default();
        tables.mark_dirty(1, 10);
        tables.mark_dirty(2, 20);
        tables.mark_clean(1, 0, u32::MAX);
        assert_eq!(tables.dirty().collect::<Vec<_>>(), [2]);
        tables.forget(2);
        assert!(tables.is_clean());
    }

    proptest! {
        #[test]
        fn stretches_cover_exactly_what_was_added(added in prop::collection::vec((0_u32..40, 0_u32..40), 0..12)) {
            let mut stretches = Vec::new();
            for (from, upto) in &added {
                add(&mut stretches, *from, *upto);
            }
            for offset in 0..50 {
                let within = |list: &[(u32, u32)]| list.iter().any(|(from, upto)| *from < offset && offset <= *upto);
                prop_assert_eq!(within(&stretches), within(&added));
            }
            prop_assert!(stretches.windows(2).all(|pair| pair[0].1 < pair[1].0));
        }
    }
}
