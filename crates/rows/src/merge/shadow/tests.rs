//! The invariant of shadowing, on the same random partitions as the laws of merging.

use proptest::prelude::*;

use super::super::tests::{clustering, collected, int, merged, table, update};
use super::*;
use crate::deletion::LivenessInfo;
use crate::partition::PartitionUpdate;
use crate::schema::ColumnId;
use crate::selection::Selection;

/// Updates as sources, opened again for each partition.
struct Updates {
    updates: Vec<PartitionUpdate>,
    table: Arc<TableMetadata>,
    streams: Vec<Option<Box<dyn PartitionStream>>>,
    dropped: Dropped,
    opened: usize,
    opened_for_deletions: usize,
}

impl Updates {
    fn new(updates: Vec<PartitionUpdate>, table: &Arc<TableMetadata>) -> Self {
        Self {
            updates,
            table: table.clone(),
            streams: Vec::new(),
            dropped: Dropped::default(),
            opened: 0,
            opened_for_deletions: 0,
        }
    }
}

impl ShadowSources for Updates {
    fn begin(&mut self, _: &DecoratedKey) -> usize {
        self.streams = self.updates.iter().map(|_| None).collect();
        self.updates.len()
    }

    fn max_timestamp(&self, _: usize) -> i64 {
        i64::MAX
    }

    /// Returns no more than what was requested.
    fn open(&mut self, index: usize, wanted: ShadowedBy) -> Result<Option<PartitionHeader>> {
        self.opened += 1;
        let mut update = self.updates[index].clone();
        if wanted == ShadowedBy::Deletions {
            self.opened_for_deletions += 1;
            update = only_deletions(&update);
        }
        let mut stream = update.into_stream(self.table.clone(), &Selection::all());
        let header = stream.next_partition()?;
        self.streams[index] = Some(Box::new(stream));
        Ok(header)
    }

    fn next_unfiltered(&mut self, index: usize) -> Result<Option<Unfiltered>> {
        self.streams[index].as_mut().unwrap().next_unfiltered()
    }

    fn end(&mut self, dropped: &Dropped) {
        self.dropped = *dropped;
    }
}

/// Returns the remainder of `data`, and statistics of the work.
fn shadowed(
    data: &PartitionUpdate,
    sources: &[PartitionUpdate],
    by: ShadowedBy,
    held_items: usize,
) -> (PartitionUpdate, Dropped, usize) {
    let table = table();
    let updates: Vec<_> =
        sources.iter().map(|update| collected(std::slice::from_ref(update), &table)).collect();
    let sources = Updates::new(updates, &table);
    let inner = collected(std::slice::from_ref(data), &table).into_stream(table.clone(), &Selection::all());
    let mut stream = ShadowingStream::new(inner, sources, by, table.clone());
    stream.held_items = held_items;
    let mut out = PartitionUpdate::new(data.key.clone());
    let header = stream.next_partition().unwrap().unwrap();
    (out.deletion, out.static_row) = (header.deletion, header.static_row);
    let mut open: Option<(Bound, DeletionTime)> = None;
    let mut last: Option<Unfiltered> = None;
    while let Some(next) = stream.next_unfiltered().unwrap() {
        if let Some(last) = &last {
            assert!(
                table.comparator.compare(last.position(), next.position()).is_lt(),
                "{last:?} then {next:?}"
            );
        }
        match &next {
            Unfiltered::Row(row) => out.add_row(row.clone(), &table),
            Unfiltered::Marker(marker) => {
                assert_eq!(marker.close, open.as_ref().map(|open| open.1), "a marker closes what was open");
                if let Some((start, deletion)) = open.take() {
                    let end = marker.bound.clone();
                    let range = crate::range_tombstones::RangeTombstone { start, end, deletion };
                    out.range_tombstones.add(range, &table.comparator);
                }
                open = marker.open.map(|deletion| (marker.bound.clone(), deletion));
            }
        }
        last = Some(next);
    }
    assert_eq!(open, None, "every range tombstone is closed");
    assert!(stream.next_partition().unwrap().is_none());
    let sources = stream.sources();
    (out, sources.dropped, sources.opened)
}

fn all_merged(
    data: PartitionUpdate,
    sources: &[PartitionUpdate],
) -> (DeletionTime, Option<Row>, Vec<Unfiltered>) {
    let updates: Vec<_> = std::iter::once(data).chain(sources.iter().cloned()).collect();
    merged(&updates, &table(), &Selection::all())
}

fn only_deletions(source: &PartitionUpdate) -> PartitionUpdate {
    let only_deletion = |row: &Row| {
        let mut deletion = RowBuilder::new(row.clustering().clone());
        deletion.deletion(row.deletion());
        deletion.finish()
    };
    let merged = collected(std::slice::from_ref(source), &table());
    let mut alone = PartitionUpdate::new(merged.key.clone());
    alone.deletion = merged.deletion;
    alone.range_tombstones = merged.range_tombstones.clone();
    alone.static_row = merged.static_row.as_ref().map(only_deletion).filter(|row| !row.is_empty());
    alone.rows = merged.rows.iter().map(only_deletion).filter(|row| !row.is_empty()).collect();
    alone
}

fn ways() -> impl Strategy<Value = (ShadowedBy, usize)> {
    let by = prop_oneof![Just(ShadowedBy::Deletions), Just(ShadowedBy::Cells)];
    // Without a buffer everything takes the streaming path; a small one mixes both paths.
    (by, prop_oneof![Just(0usize), Just(2), Just(1000)])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn what_is_left_answers_with_the_sources_as_the_input_did(
        data in update(table()),
        sources in proptest::collection::vec(update(table()), 0..4),
        (by, held) in ways()
    ) {
        let (left, ..) = shadowed(&data, &sources, by, held);
        prop_assert_eq!(all_merged(left, &sources), all_merged(data, &sources));
    }

    /// The separately stored deletions of an SSTable are enough to answer a request for deletions.
    #[test]
    fn the_deletions_of_a_source_alone_remove_what_it_removes(
        data in update(table()),
        sources in proptest::collection::vec(update(table()), 0..4),
        held in prop_oneof![Just(0usize), Just(2), Just(1000)]
    ) {
        let alone: Vec<_> = sources.iter().map(only_deletions).collect();
        let (left, dropped, _) = shadowed(&data, &sources, ShadowedBy::Deletions, held);
        let (left_by_alone, dropped_by_alone, _) = shadowed(&data, &alone, ShadowedBy::Deletions, held);
        prop_assert_eq!(&left_by_alone, &left);
        prop_assert_eq!(dropped_by_alone, dropped);
        prop_assert_eq!(all_merged(left, &sources), all_merged(data, &sources));
    }

    #[test]
    fn two_compactions_may_be_each_others_sources(a in update(table()), b in update(table()), (by, held) in ways()) {
        let (left_of_a, ..) = shadowed(&a, std::slice::from_ref(&b), by, held);
        let (left_of_b, ..) = shadowed(&b, std::slice::from_ref(&a), by, held);
        prop_assert_eq!(all_merged(left_of_a, &[left_of_b]), all_merged(a, &[b]));
    }

    #[test]
    fn cells_leave_nothing_that_a_source_deletes_or_overwrites(data in update(table()), source in update(table())) {
        let (left, ..) = shadowed(&data, std::slice::from_ref(&source), ShadowedBy::Cells, 1000);
        let table = table();
        // Everything that remains of a row makes a difference.
        for row in &left.rows {
            let mut without = left.clone();
            without.rows.retain(|other| other.clustering() != row.clustering());
            let is_deletion_again = !row.deletion().is_live() || !row.complex_deletions().is_empty();
            let cells_again = row.cells().all(|cell| cell.is_tombstone() || source.rows.iter().any(|theirs| {
                theirs.clustering() == row.clustering() && theirs.cells().any(|other| other == cell)
            }));
            if !is_deletion_again && !cells_again && row.liveness().is_empty() {
                let sources = std::slice::from_ref(&source);
                prop_assert_ne!(all_merged(without, sources), all_merged(left.clone(), sources), "{:?}", table.name);
            }
        }
    }
}

fn row(c1: i32, timestamp: i64, deletion: DeletionTime) -> Row {
    let v = table().column("v").unwrap().id;
    let mut row = RowBuilder::new(clustering(c1, 0));
    row.liveness(LivenessInfo::new(timestamp)).deletion(deletion).live_cell(v, &int(7), timestamp);
    row.finish()
}

fn partition(rows: Vec<Row>) -> PartitionUpdate {
    let mut update = PartitionUpdate::new(DecoratedKey::new(bytes::Bytes::from_static(b"key")));
    rows.into_iter().for_each(|row| update.add_row(row, &table()));
    update
}

#[test]
fn rows_remove_what_they_delete_and_cells_also_what_they_overwrite() {
    let data = partition(vec![row(1, 1, DeletionTime::LIVE), row(2, 1, DeletionTime::LIVE)]);
    let mut deleted = RowBuilder::new(clustering(1, 0));
    deleted.deletion(DeletionTime::new(5, 5));
    let source = partition(vec![deleted.finish(), row(2, 5, DeletionTime::LIVE)]);
    let sources = std::slice::from_ref(&source);
    let (left, dropped, _) = shadowed(&data, sources, ShadowedBy::Deletions, 1000);
    assert_eq!(left.rows, [row(2, 1, DeletionTime::LIVE)]);
    assert_eq!((dropped.rows, dropped.cells), (1, 1));
    let (left, dropped, _) = shadowed(&data, sources, ShadowedBy::Cells, 1000);
    assert!(left.is_empty());
    assert_eq!((dropped.rows, dropped.cells), (2, 2));
}

#[test]
fn no_further_source_is_opened_once_nothing_is_left() {
    let data = partition(vec![row(1, 1, DeletionTime::LIVE), row(2, 1, DeletionTime::LIVE)]);
    let newer = partition(vec![row(1, 9, DeletionTime::LIVE), row(2, 9, DeletionTime::LIVE)]);
    let sources = vec![newer; 20];
    let (left, _, opened) = shadowed(&data, &sources, ShadowedBy::Cells, 1000);
    assert!(left.is_empty());
    assert_eq!(opened, 1);
    let (left, _, opened) = shadowed(&data, &sources, ShadowedBy::Deletions, 1000);
    assert_eq!(left.rows.len(), 2);
    assert_eq!(opened, 20);
}

#[test]
fn what_has_deletions_alone_left_is_asked_for_deletions_alone() {
    let deleted = |timestamp| row(1, timestamp, DeletionTime::new(timestamp - 1, 5));
    let data = partition(vec![deleted(2)]);
    let overwritten = partition(vec![row(1, 9, DeletionTime::LIVE)]);
    let table = table();
    let updates = vec![overwritten.clone(), overwritten.clone(), partition(vec![deleted(8)]), overwritten];
    let sources = Updates::new(updates, &table);
    let inner = data.into_stream(table.clone(), &Selection::all());
    let mut stream = ShadowingStream::new(inner, sources, ShadowedBy::Cells, table);
    assert!(stream.next_partition().unwrap().is_some());
    assert!(stream.next_unfiltered().unwrap().is_none());
    // The first removes the cells, the third the deletion: it and the second are asked for
    // deletions only, and the fourth is not opened.
    assert_eq!((stream.sources().opened, stream.sources().opened_for_deletions), (3, 2));
}

#[test]
fn counters_are_never_overwritten() {
    assert_eq!(table().column("v").map(|column| column.id), Some(ColumnId(1)));
    let counter = crate::schema::ColumnMetadata {
        data_type: DataType::Counter,
        ..(**table().column("v").unwrap()).clone()
    };
    let mut counters = (*table()).clone();
    counters.columns[1] = Some(Arc::new(counter));
    let mut dropped = Dropped::default();
    let (old, new) = (row(1, 1, DeletionTime::LIVE), row(1, 9, DeletionTime::LIVE));
    let left = shadow_row(&old, Some(&new), DeletionTime::LIVE, ShadowedBy::Cells, &counters, &mut dropped);
    let Shadowed::Left(Some(left)) = left else { panic!("the liveness goes") };
    assert_eq!(left.cell_count(), 1);
}
