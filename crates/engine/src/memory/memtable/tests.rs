use std::ops::Bound;

use cassette_rows::{
    Clustering, ColumnId, LivenessInfo, PartitionStream, Row, RowBuilder, RowProbe, Slice, Slices,
    TableParams, Unfiltered,
};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::basics::key_range::{KeyRange, PartitionPosition};
use crate::engine_tests::testing::{self, Updates, drain, merged, seeds};

fn scan(
    memtable: &Arc<Memtable>,
    table: &Arc<TableMetadata>,
    selection: &Selection,
) -> Vec<testing::Drained> {
    let (range, selection) = (KeyRange::ALL.bounds(), Arc::new(selection.clone()));
    drain(MemtableScan::new(memtable.clone(), table.clone(), range, selection))
}

#[test]
fn a_memtable_holds_what_merging_its_updates_gives() {
    let table = testing::table();
    for seed in seeds(300) {
        let mut random = SmallRng::seed_from_u64(seed);
        // Few clusterings for conflicts; many for several chunks of rows.
        let clusterings = if seed % 10 == 0 { 16 } else { 4 };
        let generator = Updates { clusterings, ..Updates::of(table.clone()) };
        let count = random.random_range(1..if seed % 10 == 0 { 900 } else { 40 });
        let updates: Vec<_> = (0..count).map(|_| generator.next(&mut random)).collect();
        let memtable = Arc::new(Memtable::new(Position::ZERO, Duration::ZERO));
        for update in &updates {
            memtable.apply(&update.key, [(update, &*table)].into_iter());
        }
        for _ in 0..4 {
            let selection = generator.selection(&mut random);
            let expected = merged(&updates, &table, &selection);
            assert_eq!(scan(&memtable, &table, &selection), expected, "seed {seed}, {selection:?}");
            let one_by_one = (0..4).flat_map(|k| {
                memtable.read(&testing::key(k), &table, &Arc::new(selection.clone())).map(drain)
            });
            let mut one_by_one: Vec<_> = one_by_one.flatten().collect();
            one_by_one.sort_by(|a, b| a.header.key.cmp(&b.header.key));
            assert_eq!(one_by_one, expected, "seed {seed}");
        }
    }
}

#[test]
fn a_memtable_that_lost_everything_again_accounts_for_its_partitions_alone() {
    let table = testing::table();
    let memtable = Memtable::new(Position::ZERO, Duration::ZERO);
    let mut random = SmallRng::seed_from_u64(1);
    let generator = Updates { keys: 1, clusterings: 20, deletions_one_in: 0, ..Updates::of(table.clone()) };
    let mut grown = 0;
    for _ in 0..500 {
        let update = generator.next(&mut random);
        grown += memtable.apply(&update.key, [(&update, &*table)].into_iter());
    }
    assert!(memtable.heap_bytes() > 50_000);
    let mut delete = PartitionUpdate::new(testing::key(0));
    delete.deletion = cassette_rows::DeletionTime::new(100, 1);
    grown += memtable.apply(&delete.key, [(&delete, &*table)].into_iter());
    assert_eq!(grown as usize, memtable.heap_bytes());
    // Only the estimate for lists of rows remains.
    assert!(memtable.heap_bytes() < ENTRY_SIZE + 5_000, "{}", memtable.heap_bytes());
}

#[test]
fn rows_that_come_in_order_or_in_reverse_stay_in_order_across_chunks() {
    let table = testing::table();
    for step in [1, -1, 7] {
        let memtable = Arc::new(Memtable::new(Position::ZERO, Duration::ZERO));
        for i in 0..1000i32 {
            let c1 = (i * step).rem_euclid(1000);
            let mut row = RowBuilder::new(testing::clustering(c1, 0));
            row.liveness(LivenessInfo::new(1));
            let mut update = PartitionUpdate::new(testing::key(0));
            update.rows.push(row.finish());
            memtable.apply(&update.key, [(&update, &*table)].into_iter());
        }
        let start = cassette_rows::Bound::before(Clustering::of(&[&100i32.to_be_bytes()]));
        let end = cassette_rows::Bound::after(Clustering::of(&[&899i32.to_be_bytes()]));
        for reversed in [false, true] {
            let slices =
                Slices::new(vec![Slice { start: start.clone(), end: end.clone() }], &table.comparator);
            let read = scan(&memtable, &table, &Selection { slices, reversed });
            let mut expected: Vec<_> = (100..900).map(|c1| testing::clustering(c1, 0)).collect();
            if reversed {
                expected.reverse();
            }
            let got: Vec<_> =
                read[0].unfiltereds.iter().map(|unfiltered| unfiltered.position().prefix.clone()).collect();
            assert_eq!(got, expected, "step {step}");
        }
    }
}

#[test]
fn a_scan_of_a_range_gives_its_keys_in_order() {
    let table = testing::simple_table("t", Default::default());
    let memtable = Arc::new(Memtable::new(Position::ZERO, Duration::ZERO));
    let mut keys: Vec<_> = (0..2000).map(testing::key).collect();
    for k in 0..2000 {
        let update = testing::insert(k, b"value", 1);
        memtable.apply(&update.key, [(&update, &*table)].into_iter());
    }
    keys.sort();
    let mut random = SmallRng::seed_from_u64(3);
    for _ in 0..50 {
        let (from, to) = (random.random_range(0..2000), random.random_range(0..2000));
        let range = KeyRange {
            start: Bound::Excluded(PartitionPosition::At(keys[from].clone())),
            end: Bound::Included(PartitionPosition::At(keys[to].clone())),
        };
        let selection = Arc::new(Selection::all());
        let read = drain(MemtableScan::new(memtable.clone(), table.clone(), range.bounds(), selection));
        let got: Vec<_> = read.into_iter().map(|partition| partition.header.key).collect();
        assert_eq!(got, keys.get(from + 1..=to).unwrap_or_default());
    }
}

#[test]
fn a_snapshot_does_not_see_later_writes() {
    let table = testing::table();
    let memtable = Memtable::new(Position::ZERO, Duration::ZERO);
    let mut random = SmallRng::seed_from_u64(5);
    let generator = Updates { keys: 1, clusterings: 12, ..Updates::of(table.clone()) };
    let mut updates = Vec::new();
    let mut snapshots = Vec::new();
    for _ in 0..200 {
        let update = generator.next(&mut random);
        memtable.apply(&update.key, [(&update, &*table)].into_iter());
        updates.push(update);
        let selection = Arc::new(Selection::all());
        snapshots.push(memtable.read(&testing::key(0), &table, &selection));
    }
    for (i, snapshot) in snapshots.into_iter().enumerate() {
        let expected = merged(&updates[..=i], &table, &Selection::all());
        assert_eq!(drain(snapshot.unwrap()), expected);
    }
}

#[test]
fn readers_see_updates_of_a_partition_whole() {
    let table = testing::table();
    let memtable = Memtable::new(Position::ZERO, Duration::ZERO);
    let write = |timestamp: i64| {
        let mut update = PartitionUpdate::new(testing::key(0));
        for c1 in 0..200 {
            let mut row = RowBuilder::new(testing::clustering(c1, 0));
            row.live_cell(ColumnId(1), &timestamp.to_be_bytes(), timestamp);
            update.rows.push(row.finish());
        }
        memtable.apply(&update.key, [(&update, &*table)].into_iter());
    };
    write(0);
    std::thread::scope(|scope| {
        scope.spawn(|| (1..200).for_each(write));
        for _ in 0..200 {
            let read = memtable.read(&testing::key(0), &table, &Arc::new(Selection::all())).unwrap();
            let read = drain(read);
            let timestamps: std::collections::BTreeSet<_> = read[0]
                .unfiltereds
                .iter()
                .map(|unfiltered| match unfiltered {
                    Unfiltered::Row(row) => row.cell(ColumnId(1)).unwrap().timestamp,
                    Unfiltered::Marker(_) => unreachable!("nothing was deleted"),
                })
                .collect();
            assert_eq!((read[0].unfiltereds.len(), timestamps.len()), (200, 1));
        }
    });
}

/// The values of some columns of a row.
type Values = Vec<Option<Vec<u8>>>;

fn values(row: &Row, columns: &[ColumnId]) -> Values {
    columns.iter().map(|column| row.cell(*column).map(|cell| cell.value.to_vec())).collect()
}

/// Skips most rows, and stops at others.
struct Sampler<'r> {
    columns: &'r [ColumnId],
    random: &'r mut SmallRng,
    skipped: Vec<Values>,
}

impl RowProbe for Sampler<'_> {
    fn columns(&self) -> &[ColumnId] {
        self.columns
    }

    fn skips(&mut self, values: &[Option<&[u8]>]) -> bool {
        let skips = self.random.random_range(0..5) > 0;
        if skips {
            self.skipped.push(values.iter().map(|value| value.map(<[u8]>::to_vec)).collect());
        }
        skips
    }
}

/// Returns the values of all rows of a stream, of which some are skipped, and the number of those.
fn read_and_skip(
    mut stream: impl PartitionStream,
    columns: &[ColumnId],
    random: &mut SmallRng,
) -> (Vec<Values>, usize) {
    let (mut rows, mut skipped) = (Vec::new(), 0);
    loop {
        skipped += skip(&mut stream, true, columns, random, &mut rows);
        if stream.next_partition().unwrap().is_none() {
            return (rows, skipped);
        }
        loop {
            skipped += skip(&mut stream, false, columns, random, &mut rows);
            match stream.next_unfiltered().unwrap() {
                Some(Unfiltered::Row(row)) => rows.push(values(&row, columns)),
                Some(Unfiltered::Marker(_)) => {}
                None => break,
            }
        }
    }
}

/// Skips a few rows or partitions, and returns their number.
fn skip(
    stream: &mut impl PartitionStream,
    partitions: bool,
    columns: &[ColumnId],
    random: &mut SmallRng,
    rows: &mut Vec<Values>,
) -> usize {
    let limit = random.random_range(0..4);
    let before = random.random_bool(0.5).then(|| Token(random.random()));
    let mut probe = Sampler { columns, random, skipped: Vec::new() };
    let passed = if partitions {
        stream.pass_live_partitions(before, limit, &mut probe).unwrap()
    } else {
        stream.pass_live_rows(limit, &mut probe).unwrap()
    };
    assert!(passed <= limit);
    if columns.is_empty() {
        rows.resize(rows.len() + passed as usize, Values::new());
    } else {
        assert_eq!(passed, probe.skipped.len() as u64);
    }
    rows.extend(probe.skipped);
    passed as usize
}

#[test]
fn partitions_before_a_token_are_skipped() {
    let table = testing::simple_table("t", TableParams::default());
    let memtable = Arc::new(Memtable::new(Position::ZERO, Duration::ZERO));
    for k in 0..100i32 {
        let key = DecoratedKey::new(k.to_be_bytes().to_vec().into());
        let mut row = RowBuilder::new(Clustering::empty());
        row.liveness(LivenessInfo::new(1));
        let mut update = PartitionUpdate::new(key);
        update.rows.push(row.finish());
        memtable.apply(&update.key, [(&update, &*table)].into_iter());
    }
    let all = scan(&memtable, &table, &Selection::all());
    let before = all[60].header.key.token();
    let range = KeyRange::ALL.bounds();
    let mut stream = MemtableScan::new(memtable, table, range, Arc::new(Selection::all()));
    let mut random = SmallRng::seed_from_u64(1);
    let mut probe = Sampler { columns: &[], random: &mut random, skipped: Vec::new() };
    assert_eq!(stream.pass_live_partitions(Some(before), 1_000, &mut probe).unwrap(), 60);
    assert_eq!(stream.pass_live_partitions(None, 7, &mut probe).unwrap(), 7);
    assert_eq!(stream.next_partition().unwrap().unwrap().key, all[67].header.key);
    assert_eq!(stream.pass_live_partitions(None, 1_000, &mut probe).unwrap(), 32);
    assert!(stream.next_partition().unwrap().is_none());
}

#[test]
fn skipped_rows_and_read_rows_are_together_all_rows_in_order() {
    let table = testing::table();
    let column = |name: &str| table.column(name).unwrap().id;
    let columns = [column("w"), column("v")];
    let mut skipped = 0;
    for seed in seeds(200) {
        let mut random = SmallRng::seed_from_u64(seed);
        // Without deletions in most memtables, so that rows are skipped.
        let deletions_one_in = if seed % 4 == 0 { 4 } else { 0 };
        let generator = Updates { clusterings: 6, deletions_one_in, ..Updates::of(table.clone()) };
        let memtable = Arc::new(Memtable::new(Position::ZERO, Duration::ZERO));
        for _ in 0..random.random_range(1..60) {
            let update = generator.next(&mut random);
            memtable.apply(&update.key, [(&update, &*table)].into_iter());
        }
        for count in [0, 1, 2] {
            let columns = &columns[..count];
            let selection = generator.selection(&mut random);
            let expected: Vec<Values> = scan(&memtable, &table, &selection)
                .iter()
                .flat_map(|partition| &partition.unfiltereds)
                .filter_map(|unfiltered| match unfiltered {
                    Unfiltered::Row(row) => Some(values(row, columns)),
                    Unfiltered::Marker(_) => None,
                })
                .collect();
            let (range, selection) = (KeyRange::ALL.bounds(), Arc::new(selection));
            let scan = MemtableScan::new(memtable.clone(), table.clone(), range, selection);
            let (rows, of_scan) = read_and_skip(scan, columns, &mut random);
            assert_eq!(rows, expected, "seed {seed}");
            skipped += of_scan;
        }
    }
    assert!(skipped > 500, "{skipped} rows were skipped");
}
