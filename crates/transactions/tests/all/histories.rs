//! Random interleavings of transactions compared with a model of snapshot isolation and of
//! serializability, with sweeping and migration in between, which must not be noticeable.

use std::collections::{BTreeMap, BTreeSet};

use cassette_transactions::sweep::SweepStrategy;
use cassette_transactions::{ConflictHandler, Error, Savepoint, Timestamp, Transaction};
use proptest::prelude::*;

use super::transactions::in_memory;

type Cells = BTreeMap<(u8, u8), String>;
type Writes = BTreeMap<(u8, u8), Option<String>>;

#[derive(Debug, Clone)]
enum Step {
    Begin,
    Get(u8, u8),
    GetForUpdate(u8, u8),
    Put(u8, u8),
    Delete(u8, u8),
    Columns(u8),
    Rows,
    WholeRows,
    Append(u8, u8),
    /// Reads from both ends, in the order of the bits.
    Range(u8, u8, u8),
    Cells,
    /// Reads the state after one of the commits since the beginning.
    Snapshot(u8),
    Savepoint,
    RollBack(u8),
    Release(u8),
    Commit,
    Sweep,
    Migrate(u32),
}

fn step() -> impl Strategy<Value = (usize, Step)> {
    let cell = || (0..3u8, 0..3u8);
    let step = prop_oneof![
        2 => Just(Step::Begin),
        4 => cell().prop_map(|(row, column)| Step::Get(row, column)),
        2 => cell().prop_map(|(row, column)| Step::GetForUpdate(row, column)),
        4 => cell().prop_map(|(row, column)| Step::Put(row, column)),
        1 => cell().prop_map(|(row, column)| Step::Delete(row, column)),
        1 => (0..3u8).prop_map(Step::Columns),
        1 => Just(Step::Rows),
        1 => Just(Step::WholeRows),
        1 => (0..3u8, 0..4u8, any::<u8>()).prop_map(|(row, from, ends)| Step::Range(row, from, ends)),
        1 => Just(Step::Cells),
        2 => any::<u8>().prop_map(Step::Snapshot),
        2 => cell().prop_map(|(row, column)| Step::Append(row, column)),
        2 => Just(Step::Savepoint),
        2 => (0..4u8).prop_map(Step::RollBack),
        1 => (0..4u8).prop_map(Step::Release),
        3 => Just(Step::Commit),
        2 => Just(Step::Sweep),
        1 => (1..4u32).prop_map(Step::Migrate),
    ];
    (0..4usize, step)
}

/// An open transaction and its model.
struct Open {
    tx: Transaction,
    snapshot: Cells,
    began: usize,
    writes: Writes,
    reads: BTreeSet<(u8, u8)>,
    for_update: BTreeSet<(u8, u8)>,
    /// Every savepoint, and the writes at each that has not ended.
    savepoints: Vec<(Savepoint, Option<Writes>)>,
}

impl Open {
    fn sees(&self) -> Cells {
        let mut cells = self.snapshot.clone();
        for (cell, value) in &self.writes {
            match value {
                Some(value) => drop(cells.insert(*cell, value.clone())),
                None => drop(cells.remove(cell)),
            }
        }
        cells
    }
}

fn name(part: u8) -> String {
    part.to_string()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn snapshots_hold_and_the_first_of_two_conflicting_commits_wins(
        (serializable, by_row) in any::<(bool, bool)>(),
        strategy in prop_oneof![
            Just(SweepStrategy::Nothing), Just(SweepStrategy::Conservative), Just(SweepStrategy::Thorough)
        ],
        steps in prop::collection::vec(step(), 1..80),
    ) {
        let transactions = in_memory();
        let handler = match (serializable, by_row) {
            (true, false) => ConflictHandler::SerializableByCell,
            (true, true) => ConflictHandler::SerializableByRow,
            (false, false) => ConflictHandler::WriteWriteByCell,
            (false, true) => ConflictHandler::WriteWriteByRow,
        };
        let table = transactions.table_swept("t", handler, strategy).unwrap();
        let mut open: [Option<Open>; 4] = [const { None }; 4];
        let mut committed: Cells = Cells::new();
        // Cells written by each commit, in order.
        let mut log: Vec<BTreeSet<(u8, u8)>> = Vec::new();
        // The commit timestamp of each, and the state after it.
        let mut states: Vec<(Timestamp, Cells)> = Vec::new();
        for (number, (slot, step)) in steps.into_iter().enumerate() {
            match step {
                Step::Sweep => {
                    transactions.sweep().unwrap();
                    continue;
                }
                Step::Migrate(version) => {
                    transactions.migrate(version).unwrap();
                    continue;
                }
                _ => {}
            }
            let Some(current) = &mut open[slot] else {
                if let Step::Begin = step {
                    open[slot] = Some(Open {
                        tx: transactions.start().unwrap(),
                        snapshot: committed.clone(),
                        began: log.len(),
                        writes: BTreeMap::new(),
                        reads: BTreeSet::new(),
                        for_update: BTreeSet::new(),
                        savepoints: Vec::new(),
                    });
                }
                continue;
            };
            match step {
                Step::Begin | Step::Sweep | Step::Migrate(_) => {}
                Step::Get(row, column) => {
                    let found = current.tx.get(&table, name(row), name(column)).unwrap();
                    let expected = current.sees().remove(&(row, column)).map(bytes::Bytes::from);
                    prop_assert_eq!(found, expected);
                    if !current.writes.contains_key(&(row, column)) {
                        current.reads.insert((row, column));
                    }
                }
                Step::GetForUpdate(row, column) => {
                    let found = current.tx.get_for_update(&table, name(row), name(column)).unwrap();
                    let expected = current.sees().remove(&(row, column)).map(bytes::Bytes::from);
                    prop_assert_eq!(found, expected);
                    if !current.writes.contains_key(&(row, column)) {
                        current.reads.insert((row, column));
                    }
                    current.for_update.insert((row, column));
                }
                Step::Append(row, column) => {
                    let before = current.sees().remove(&(row, column));
                    let after = format!("{}+{number}", before.unwrap_or_default());
                    let append = |before: Option<bytes::Bytes>| {
                        let before = String::from_utf8(before.unwrap_or_default().to_vec()).unwrap();
                        Ok(Some(format!("{before}+{number}").into()))
                    };
                    let found = current.tx.update(&table, name(row), name(column), append).unwrap();
                    prop_assert_eq!(found, Some(after.clone().into()));
                    if !current.writes.contains_key(&(row, column)) {
                        current.reads.insert((row, column));
                    }
                    current.for_update.insert((row, column));
                    current.writes.insert((row, column), Some(after));
                }
                Step::Savepoint => {
                    let savepoint = current.tx.savepoint();
                    current.savepoints.push((savepoint, Some(current.writes.clone())));
                }
                Step::RollBack(which) | Step::Release(which) => {
                    let Some((savepoint, before)) = current.savepoints.get(usize::from(which)).cloned() else {
                        continue;
                    };
                    let is_release = matches!(step, Step::Release(_));
                    let done = if is_release {
                        current.tx.release(savepoint)
                    } else {
                        current.tx.roll_back_to(savepoint)
                    };
                    prop_assert_eq!(done.is_ok(), before.is_some());
                    if let Some(before) = before {
                        let kept = usize::from(which) + usize::from(!is_release);
                        current.savepoints[kept..].iter_mut().for_each(|(_, writes)| *writes = None);
                        if !is_release {
                            current.writes = before;
                        }
                    }
                }
                Step::Put(row, column) => {
                    let value = format!("v{number}");
                    current.tx.put(&table, name(row), name(column), &value).unwrap();
                    current.writes.insert((row, column), Some(value));
                }
                Step::Delete(row, column) => {
                    current.tx.delete(&table, name(row), name(column)).unwrap();
                    current.writes.insert((row, column), None);
                }
                Step::Columns(row) => {
                    let found = current.tx.columns::<&str>(&table, name(row), .., 10).unwrap();
                    let sees = current.sees();
                    let expected: Vec<_> = sees
                        .iter()
                        .filter(|((r, _), _)| *r == row)
                        .map(|((_, column), value)| (name(*column).into(), value.clone().into()))
                        .collect();
                    prop_assert_eq!(found, expected);
                    current.reads.extend((0..3).map(|column| (row, column)));
                }
                Step::Rows => {
                    let mut found = Cells::new();
                    for row in current.tx.rows(&table, None, 10).unwrap() {
                        for (column, value) in row.columns {
                            let number = |b: &[u8]| std::str::from_utf8(b).unwrap().parse().unwrap();
                            let value = String::from_utf8(value.to_vec()).unwrap();
                            found.insert((number(&row.row), number(&column)), value);
                        }
                    }
                    prop_assert_eq!(found, current.sees());
                    current.reads.extend((0..9).map(|n| (n / 3, n % 3)));
                }
                Step::Range(row, from, ends) => {
                    let mut range = current.tx.range(&table, name(row), name(from)..);
                    let (mut first, mut last) = (Vec::new(), Vec::new());
                    for bit in (0..8).cycle() {
                        let is_last = ends >> bit & 1 == 1;
                        let column = if is_last { range.next_back() } else { range.next() };
                        let Some(column) = column else { break };
                        if is_last { &mut last } else { &mut first }.push(column.unwrap());
                    }
                    prop_assert!(range.next().is_none() && range.next_back().is_none());
                    first.extend(last.into_iter().rev());
                    let sees = current.sees();
                    let expected: Vec<(bytes::Bytes, bytes::Bytes)> = sees
                        .iter()
                        .filter(|((r, column), _)| *r == row && *column >= from)
                        .map(|((_, column), value)| (name(*column).into(), value.clone().into()))
                        .collect();
                    prop_assert_eq!(first, expected);
                    current.reads.extend((from..3).map(|column| (row, column)));
                }
                Step::Snapshot(which) => {
                    let since = &states[current.began..];
                    let (at, expected) = match since.len() {
                        0 => (current.tx.start_timestamp(), &current.snapshot),
                        commits => {
                            let (commit, state) = &since[usize::from(which) % commits];
                            (Timestamp(commit.0 + 1), state)
                        }
                    };
                    let snapshot = current.tx.snapshot_at(at).unwrap();
                    let mut found = Cells::new();
                    for cell in snapshot.cells(&table) {
                        let (cell, value) = cell.unwrap();
                        let number = |b: &[u8]| std::str::from_utf8(b).unwrap().parse().unwrap();
                        let value = String::from_utf8(value.to_vec()).unwrap();
                        found.insert((number(&cell.row), number(&cell.column)), value);
                    }
                    prop_assert_eq!(&found, expected);
                }
                Step::Cells => {
                    let mut found = Cells::new();
                    for cell in current.tx.cells(&table) {
                        let (cell, value) = cell.unwrap();
                        let number = |b: &[u8]| std::str::from_utf8(b).unwrap().parse().unwrap();
                        let value = String::from_utf8(value.to_vec()).unwrap();
                        found.insert((number(&cell.row), number(&cell.column)), value);
                    }
                    prop_assert_eq!(found, current.sees());
                    current.reads.extend((0..9).map(|n| (n / 3, n % 3)));
                }
                Step::WholeRows => {
                    let rows = current.tx.get_rows(&table, ["2", "0", "1"]).unwrap();
                    let mut found = Cells::new();
                    for (row, cells) in [2, 0, 1].into_iter().zip(rows) {
                        for (column, value) in cells.columns {
                            let column = std::str::from_utf8(&column).unwrap().parse().unwrap();
                            found.insert((row, column), String::from_utf8(value.to_vec()).unwrap());
                        }
                    }
                    prop_assert_eq!(found, current.sees());
                    current.reads.extend((0..9).map(|n| (n / 3, n % 3)));
                }
                Step::Commit => {
                    let Some(ended) = open[slot].take() else { continue };
                    let since: BTreeSet<_> = log[ended.began..].iter().flatten().copied().collect();
                    let writes = ended.writes.keys().any(|cell| since.contains(cell));
                    // Values are never repeated; deleting nothing changes nothing.
                    let is_changed = |c: &(u8, u8)| ended.snapshot.get(c) != committed.get(c);
                    let others = |c: &&(u8, u8)| !ended.writes.contains_key(*c);
                    let reads = serializable && ended.reads.iter().filter(others).any(is_changed);
                    // Also a deletion of nothing is a write.
                    let reads = reads || ended.for_update.iter().filter(others).any(|c| since.contains(c));
                    let expected = match (ended.writes.is_empty(), writes, reads) {
                        (true, ..) | (_, false, false) => "committed",
                        (_, true, _) => "write-write",
                        _ => "read-write",
                    };
                    let after = ended.sees();
                    let mut committed_at = None;
                    let found = match ended.tx.commit() {
                        Ok(commit) => {
                            committed_at = commit;
                            "committed"
                        }
                        Err(Error::WriteWriteConflict { .. }) => "write-write",
                        Err(Error::ReadWriteConflict { .. }) => "read-write",
                        Err(error) => return Err(TestCaseError::fail(error.to_string())),
                    };
                    prop_assert_eq!(found, expected);
                    if found == "committed" {
                        for cell in ended.writes.keys() {
                            match after.get(cell) {
                                Some(value) => drop(committed.insert(*cell, value.clone())),
                                None => drop(committed.remove(cell)),
                            }
                        }
                        // Transactions without writes commit at no timestamp.
                        if let Some(commit) = committed_at {
                            log.push(ended.writes.into_keys().collect());
                            states.push((commit, committed.clone()));
                        }
                    }
                }
            }
        }
    }
}
