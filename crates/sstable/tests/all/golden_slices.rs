//! Slices, forward and reversed, by key and in scans, return the rows of the whole partition
//! between their bounds.

use std::ops::Bound;
use std::sync::Arc;

use crate::support::{collect, golden_tables, model};
use cassette_sstable::Caching;

#[test]
fn slices_of_every_golden_partition_match_the_partition() {
    let mut random = model::random(1);
    for golden in golden_tables() {
        for reader in golden.open() {
            let partitions = collect(&mut reader.scan_all().unwrap()).unwrap();
            let step = (partitions.len() / 50).max(1);
            for partition in partitions.iter().step_by(step) {
                for selection in model::selections(partition, &golden.table, &mut random) {
                    let expected = model::expected(partition, &golden.table, &selection);
                    let selection = Arc::new(selection);
                    let mut read = reader.partition(&partition.header.key, &selection).unwrap().unwrap();
                    let found = collect(&mut read).unwrap();
                    assert_eq!(found, [expected], "{reader:?} {:?} {selection:?}", partition.header.key);
                }
            }
        }
    }
}

#[test]
fn scans_of_key_ranges_match_the_table() {
    let mut random = model::random(2);
    for golden in golden_tables() {
        for reader in golden.open() {
            let partitions = collect(&mut reader.scan_all().unwrap()).unwrap();
            for _ in 0..20 {
                let mut edge = || {
                    let index = random() % partitions.len();
                    let key = &partitions[index].header.key;
                    match random() % 3 {
                        0 => (index, index, Bound::Included(key)),
                        1 => (index + 1, index.wrapping_sub(1), Bound::Excluded(key)),
                        _ => (0, partitions.len() - 1, Bound::Unbounded),
                    }
                };
                let (from, _, start) = edge();
                let (_, to, end) = edge();
                let to = to.wrapping_add(1);
                let within = partitions.get(from..to).unwrap_or_default();
                for selection in
                    model::selections(&partitions[from.min(partitions.len() - 1)], &golden.table, &mut random)
                {
                    let selection = Arc::new(selection);
                    let mut scan = reader.scan(start, end, &selection, Caching::Use).unwrap();
                    let found = collect(&mut scan).unwrap();
                    let expected: Vec<_> =
                        within.iter().map(|p| model::expected(p, &golden.table, &selection)).collect();
                    assert_eq!(found.len(), expected.len(), "{reader:?} {start:?}..{end:?}");
                    assert_eq!(found, expected, "{reader:?} {start:?}..{end:?} {selection:?}");
                }
            }
        }
    }
}
