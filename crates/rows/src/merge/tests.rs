//! The laws of merging, checked with random partitions: versions can be merged in any order and
//! grouping.

use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use uuid::Uuid;

use super::*;
use crate::clustering::{Bound, Clustering, Side};
use crate::deletion::{DeletionTime, LivenessInfo, NO_DELETION_TIME, NO_TTL};
use crate::key::DecoratedKey;
use crate::partition::PartitionUpdate;
use crate::range_tombstones::RangeTombstone;
use crate::row::{Cell, Row, RowBuilder};
use crate::schema::{ColumnId, ColumnKind, ColumnMetadata, TableId, TableMetadata, TableParams};
use crate::selection::{Selection, Slice, Slices};
use crate::stream::{PartitionStream, Unfiltered};
use crate::types::DataType;

pub(super) fn table() -> Arc<TableMetadata> {
    let map = DataType::Map { key: DataType::Int.into(), value: DataType::Int.into(), frozen: false };
    let column = ColumnMetadata::new;
    let columns = vec![
        column("k", ColumnKind::PartitionKey, 0, DataType::Int),
        column("c1", ColumnKind::Clustering, 0, DataType::Int),
        ColumnMetadata { reversed: true, ..column("c2", ColumnKind::Clustering, 1, DataType::Int) },
        column("s", ColumnKind::Static, 0, DataType::Int),
        column("v", ColumnKind::Regular, 0, DataType::Int),
        column("m", ColumnKind::Regular, 0, map),
    ];
    Arc::new(TableMetadata::new(TableId(Uuid::nil()), "ks", "t", columns, TableParams::default()))
}

pub(super) fn int(value: i32) -> [u8; 4] {
    value.to_be_bytes()
}

pub(super) fn clustering(c1: i32, c2: i32) -> Clustering {
    Clustering::of(&[&int(c1), &int(c2)])
}

/// Few timestamps, so that ties are common.
fn deletion() -> impl Strategy<Value = DeletionTime> {
    (0i64..6, 0u32..3).prop_map(|(timestamp, seconds)| DeletionTime::new(timestamp, seconds))
}

pub(super) fn maybe_deletion() -> impl Strategy<Value = DeletionTime> {
    prop_oneof![4 => Just(DeletionTime::LIVE), 1 => deletion()]
}

type CellSpec = (i64, u8, u8);

fn cell_spec() -> impl Strategy<Value = CellSpec> {
    (0i64..6, 0u8..3, 0u8..3)
}

fn cell<'a>(column: u16, path: Option<&'a [u8]>, value: &'a [u8], spec: CellSpec) -> Cell<'a> {
    let (timestamp, kind, seconds) = spec;
    let (ttl, local_deletion_time, value) = match kind {
        0 => (NO_TTL, NO_DELETION_TIME, value),
        1 => (10 + u32::from(seconds), 100 + u32::from(seconds), value),
        _ => (NO_TTL, 90 + u32::from(seconds), &[][..]),
    };
    Cell { column: ColumnId(column), path, value, timestamp, ttl, local_deletion_time }
}

pub(super) fn row(table: Arc<TableMetadata>, is_static: bool) -> impl Strategy<Value = Row> {
    let id = move |name: &str| table.column(name).map_or(0, |c| c.id.0);
    let (s, v, m) = (id("s"), id("v"), id("m"));
    let liveness = prop_oneof![
        Just(LivenessInfo::EMPTY),
        (0i64..6).prop_map(LivenessInfo::new),
        (0i64..6, 100u32..103).prop_map(|(t, e)| LivenessInfo::expiring(t, 10, e)),
    ];
    let elements = proptest::collection::btree_map(0i32..3, (cell_spec(), 0i32..3), 0..3);
    let parts = (
        (0i32..3, 0i32..3),
        liveness,
        maybe_deletion(),
        proptest::option::of((cell_spec(), 0i32..3)),
        maybe_deletion(),
        elements,
    );
    parts.prop_map(move |((c1, c2), liveness, deletion, simple, complex_deletion, elements)| {
        let clustering = if is_static { Clustering::empty() } else { clustering(c1, c2) };
        let mut row = RowBuilder::new(clustering);
        if is_static {
            if let Some((spec, value)) = simple {
                row.cell(cell(s, None, &int(value), spec));
            }
            return row.finish();
        }
        row.liveness(liveness).deletion(deletion).complex_deletion(ColumnId(m), complex_deletion);
        assert!(v < m, "simple columns come before complex ones");
        if let Some((spec, value)) = simple {
            row.cell(cell(v, None, &int(value), spec));
        }
        for (key, (spec, value)) in elements {
            row.cell(cell(m, Some(&int(key)), &int(value), spec));
        }
        row.finish()
    })
}

fn bound() -> impl Strategy<Value = Bound> {
    let prefix = prop_oneof![
        1 => Just(Clustering::empty()),
        2 => (0i32..3).prop_map(|c1| Clustering::of(&[&int(c1)])),
        4 => (0i32..3, 0i32..3).prop_map(|(c1, c2)| clustering(c1, c2)),
    ];
    (prefix, any::<bool>())
        .prop_map(|(prefix, before)| Bound { prefix, side: if before { Side::Before } else { Side::After } })
}

pub(super) fn update(table: Arc<TableMetadata>) -> impl Strategy<Value = PartitionUpdate> {
    let rows = proptest::collection::vec(row(table.clone(), false), 0..5);
    let static_row = proptest::option::of(row(table.clone(), true));
    let tombstones = proptest::collection::vec((bound(), bound(), deletion()), 0..4);
    (rows, static_row, tombstones, maybe_deletion()).prop_map(
        move |(rows, static_row, tombstones, deletion)| {
            let key = DecoratedKey::new(Bytes::from_static(b"key"));
            let mut update = PartitionUpdate::new(key);
            update.deletion = deletion;
            for row in rows.into_iter().filter(|r| !r.is_empty()) {
                update.add_row(row, &table);
            }
            if let Some(row) = static_row.filter(|r| !r.is_empty()) {
                update.add_static_row(row, &table);
            }
            for (start, end, deletion) in tombstones {
                update.range_tombstones.add(RangeTombstone { start, end, deletion }, &table.comparator);
            }
            update
        },
    )
}

/// The complete output of merging `updates`; checks that the stream is well formed.
pub(super) fn merged(
    updates: &[PartitionUpdate],
    table: &Arc<TableMetadata>,
    selection: &Selection,
) -> (DeletionTime, Option<Row>, Vec<Unfiltered>) {
    let sources = updates
        .iter()
        .map(|u| Box::new(u.clone().into_stream(table.clone(), selection)) as Box<dyn PartitionStream>)
        .collect();
    let mut stream = MergedStream::new(sources, table.clone(), selection.reversed);
    let Some(header) = stream.next_partition().unwrap() else {
        return (DeletionTime::LIVE, None, Vec::new());
    };
    let mut out: Vec<Unfiltered> = Vec::new();
    let mut open = None;
    while let Some(next) = stream.next_unfiltered().unwrap() {
        if let Some(last) = out.last() {
            let order = table.comparator.compare(last.position(), next.position());
            assert!(if selection.reversed { order.is_gt() } else { order.is_lt() }, "{last:?} then {next:?}");
        }
        if let Unfiltered::Marker(marker) = &next {
            assert_eq!(marker.close, open, "a marker closes what was open");
            open = marker.open;
        }
        out.push(next);
    }
    assert_eq!(open, None, "every range tombstone is closed");
    assert!(stream.next_partition().unwrap().is_none());
    (header.deletion, header.static_row, out)
}

/// Collects the output of a merge into an update, for further merges.
pub(super) fn collected(updates: &[PartitionUpdate], table: &Arc<TableMetadata>) -> PartitionUpdate {
    let (deletion, static_row, unfiltereds) = merged(updates, table, &Selection::all());
    let mut update = PartitionUpdate::new(updates[0].key.clone());
    update.deletion = deletion;
    update.static_row = static_row;
    let mut start = None;
    for unfiltered in unfiltereds {
        match unfiltered {
            Unfiltered::Row(row) => update.add_row(row, table),
            Unfiltered::Marker(marker) => {
                if let (Some(start), Some(deletion)) = (start.take(), marker.close) {
                    let tombstone = RangeTombstone { start, end: marker.bound.clone(), deletion };
                    update.range_tombstones.add(tombstone, &table.comparator);
                }
                start = marker.open.map(|_| marker.bound);
            }
        }
    }
    update
}

/// The values by row that a reader sees at a time when all expiring cells are alive.
fn visible(updates: &[PartitionUpdate], table: &Arc<TableMetadata>, selection: &Selection) -> Vec<Row> {
    let (_, _, unfiltereds) = merged(updates, table, selection);
    unfiltereds
        .into_iter()
        .filter_map(|u| match u {
            Unfiltered::Row(row) if row.is_live(50) => Some(row),
            _ => None,
        })
        .collect()
}

/// Merging does not depend on order, and neither may the construction of an update. Reads the
/// deletion of a row directly from the parts of the updates.
fn deletion_by_definition(updates: &[PartitionUpdate], row: &Row, table: &TableMetadata) -> DeletionTime {
    updates.iter().fold(DeletionTime::LIVE, |deletion, update| {
        deletion
            .max(update.deletion)
            .max(update.range_tombstones.covering(row.clustering().into(), &table.comparator))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn merging_is_commutative(a in update(table()), b in update(table())) {
        let table = table();
        let all = Selection::all();
        prop_assert_eq!(merged(&[a.clone(), b.clone()], &table, &all), merged(&[b, a], &table, &all));
    }

    #[test]
    fn merging_is_associative(a in update(table()), b in update(table()), c in update(table())) {
        let table = table();
        let all = Selection::all();
        let at_once = merged(&[a.clone(), b.clone(), c.clone()], &table, &all);
        let left = collected(&[a.clone(), b.clone()], &table);
        let right = collected(&[b, c.clone()], &table);
        prop_assert_eq!(&merged(&[left, c], &table, &all), &at_once);
        prop_assert_eq!(&merged(&[a, right], &table, &all), &at_once);
    }

    #[test]
    fn merging_is_idempotent(a in update(table())) {
        let table = table();
        let all = Selection::all();
        let once = merged(std::slice::from_ref(&a), &table, &all);
        let clean = collected(std::slice::from_ref(&a), &table);
        prop_assert_eq!(&merged(&[a.clone(), a], &table, &all), &merged(std::slice::from_ref(&clean), &table, &all));
        prop_assert_eq!(&merged(&[clean.clone(), clean], &table, &all), &once);
    }

    #[test]
    fn no_visible_cell_is_at_or_below_the_deletion_that_covers_it(
        updates in proptest::collection::vec(update(table()), 1..4)
    ) {
        let table = table();
        for row in visible(&updates, &table, &Selection::all()) {
            let deletion = deletion_by_definition(&updates, &row, &table);
            prop_assert!(row.cells().all(|c| !deletion.deletes(c.timestamp)));
            prop_assert!(row.liveness().is_empty() || !deletion.deletes(row.liveness().timestamp));
        }
    }

    #[test]
    fn a_reversed_read_is_the_forward_read_backwards(
        updates in proptest::collection::vec(update(table()), 1..4),
        slices in proptest::collection::vec((bound(), bound()), 0..3)
    ) {
        let table = table();
        let slices = slices.into_iter().map(|(start, end)| Slice { start, end }).collect();
        let slices = Slices::new(slices, &table.comparator);
        let forward = visible(&updates, &table, &Selection { slices: slices.clone(), reversed: false });
        let mut backward = visible(&updates, &table, &Selection { slices, reversed: true });
        backward.reverse();
        prop_assert_eq!(forward, backward);
    }

    #[test]
    fn a_slice_holds_just_the_rows_within_it(
        updates in proptest::collection::vec(update(table()), 1..4),
        slices in proptest::collection::vec((bound(), bound()), 0..3)
    ) {
        let table = table();
        let slices = slices.into_iter().map(|(start, end)| Slice { start, end }).collect();
        let slices = Slices::new(slices, &table.comparator);
        let mut expected = visible(&updates, &table, &Selection::all());
        expected.retain(|row| slices.contains(row.clustering().into(), &table.comparator));
        let sliced = visible(&updates, &table, &Selection { slices, reversed: false });
        prop_assert_eq!(sliced, expected);
    }

    #[test]
    fn range_tombstones_keep_the_greatest_deletion_of_every_place(
        tombstones in proptest::collection::vec((bound(), bound(), deletion()), 0..8),
        place in bound(),
        row in (0i32..3, 0i32..3)
    ) {
        let table = table();
        let comparator = &table.comparator;
        let mut list = crate::range_tombstones::RangeTombstoneList::default();
        for (start, end, deletion) in &tombstones {
            list.add(RangeTombstone { start: start.clone(), end: end.clone(), deletion: *deletion }, comparator);
        }
        for pair in list.as_slice().windows(2) {
            prop_assert!(comparator.compare(pair[0].end.position(), pair[1].start.position()).is_le());
        }
        let row = clustering(row.0, row.1);
        for position in [(&row).into(), place.position()] {
            let expected = tombstones
                .iter()
                .filter(|(start, end, _)| {
                    comparator.compare(start.position(), position).is_lt()
                        && comparator.compare(position, end.position()).is_lt()
                })
                .fold(DeletionTime::LIVE, |max, (_, _, deletion)| max.max(*deletion));
            if position.side.is_none() {
                prop_assert_eq!(list.covering(position, comparator), expected);
            }
        }
    }
}
