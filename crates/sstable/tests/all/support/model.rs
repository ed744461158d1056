//! What a read must give, from the partition read whole: the selection applied in memory.

use std::sync::Arc;

use cassette_rows::{
    Bound, Clustering, PartitionUpdate, RangeTombstone, Selection, Side, Slice, Slices, TableMetadata,
    Unfiltered,
};

use super::{Partition, collect};

/// The same partition in memory.
pub fn update_of(partition: &Partition, table: &TableMetadata) -> PartitionUpdate {
    let mut update = PartitionUpdate::new(partition.header.key.clone());
    update.deletion = partition.header.deletion;
    update.static_row = partition.header.static_row.clone();
    let mut start: Option<Bound> = None;
    for unfiltered in &partition.rows {
        match unfiltered {
            Unfiltered::Row(row) => update.rows.push(row.clone()),
            Unfiltered::Marker(marker) => {
                if let (Some(start), Some(deletion)) = (start.take(), marker.close) {
                    let tombstone = RangeTombstone { start, end: marker.bound.clone(), deletion };
                    update.range_tombstones.add(tombstone, &table.comparator);
                }
                start = marker.open.map(|_| marker.bound.clone());
            }
        }
    }
    update
}

/// What `selection` wants of the partition.
pub fn expected(partition: &Partition, table: &Arc<TableMetadata>, selection: &Selection) -> Partition {
    let mut stream = update_of(partition, table).into_stream(table.clone(), selection);
    collect(&mut stream).unwrap().remove(0)
}

/// Selections around the rows of a partition, by random numbers.
pub fn selections(
    partition: &Partition,
    table: &TableMetadata,
    random: &mut impl FnMut() -> usize,
) -> Vec<Selection> {
    let places: Vec<&Clustering> = partition
        .rows
        .iter()
        .map(|unfiltered| match unfiltered {
            Unfiltered::Row(row) => row.clustering(),
            Unfiltered::Marker(marker) => &marker.bound.prefix,
        })
        .collect();
    let mut bound = |places: &[&Clustering]| {
        let prefix = if places.is_empty() {
            Clustering::empty()
        } else {
            let prefix = places[random() % places.len()];
            let length = [prefix.len(), prefix.len(), random() % (prefix.len() + 1)][random() % 3];
            prefix.prefix(length)
        };
        Bound { prefix, side: if random().is_multiple_of(2) { Side::Before } else { Side::After } }
    };
    let mut selections = Vec::new();
    for reversed in [false, true] {
        selections.push(Selection { slices: Slices::all(), reversed });
        selections.push(Selection { slices: Slices::none(), reversed });
        for count in [1, 1, 1, 2, 3, 8] {
            let slices = (0..count).map(|_| Slice { start: bound(&places), end: bound(&places) }).collect();
            selections.push(Selection { slices: Slices::new(slices, &table.comparator), reversed });
        }
        if let Some(row) = places.last() {
            let slices = Slices::new(vec![Slice::prefix((*row).clone())], &table.comparator);
            selections.push(Selection { slices, reversed });
        }
    }
    selections
}

/// A sequence of numbers from a seed (xorshift).
pub fn random(seed: u64) -> impl FnMut() -> usize {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as usize
    }
}
