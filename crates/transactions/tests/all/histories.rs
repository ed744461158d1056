//! Random interleavings of transactions compared with a model of snapshot isolation and of
//! serializability, with sweeping and migration in between, which must not be noticeable.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use cassette_transactions::sweep::SweepStrategy;
use cassette_transactions::{ConflictHandler, Error, Savepoint, Table, Timestamp, Transaction, Transactions};
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

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
    /// Number of commits before it began.
    began: usize,
    writes: Writes,
    reads: BTreeSet<(u8, u8)>,
    for_update: BTreeSet<(u8, u8)>,
    /// Every savepoint, and the writes at each that has not ended.
    savepoints: Vec<(Savepoint, Option<Writes>)>,
}

/// The store, its model, and the open transactions.
struct History {
    transactions: Transactions,
    table: Table,
    is_serializable: bool,
    open: [Option<Open>; 4],
    committed: Cells,
    /// Cells written by each commit, in order.
    log: Vec<BTreeSet<(u8, u8)>>,
    /// The commit timestamp of each, and the state after it.
    states: Vec<(Timestamp, Cells)>,
}

fn name(part: u8) -> String {
    part.to_string()
}

fn number(name: &[u8]) -> u8 {
    std::str::from_utf8(name).unwrap().parse().unwrap()
}

fn text(value: &[u8]) -> String {
    String::from_utf8(value.to_vec()).unwrap()
}

/// Returns all cells that a transaction reads.
fn all_cells(tx: &Transaction, table: &Table) -> Cells {
    let cells = tx.cells(table).map(|cell| cell.unwrap());
    cells.map(|(cell, value)| ((number(&cell.row), number(&cell.column)), text(&value))).collect()
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

    /// Returns the columns of a row that it sees, from a column on.
    fn sees_in(&self, row: u8, from: u8) -> Vec<(Bytes, Bytes)> {
        let sees = self.sees().into_iter().filter(|((r, column), _)| *r == row && *column >= from);
        sees.map(|((_, column), value)| (name(column).into(), value.into())).collect()
    }

    fn reads_all(&mut self) {
        self.reads.extend((0..9).map(|n| (n / 3, n % 3)));
    }

    /// Records a read of a cell, which is checked unless the transaction has written the cell.
    fn has_read(&mut self, cell: (u8, u8)) {
        if !self.writes.contains_key(&cell) {
            self.reads.insert(cell);
        }
    }

    fn read(&mut self, table: &Table, step: &Step, states: &[(Timestamp, Cells)]) -> TestCaseResult {
        match *step {
            Step::Get(row, column) => {
                let found = self.tx.get(table, name(row), name(column)).unwrap();
                prop_assert_eq!(found, self.sees().remove(&(row, column)).map(Bytes::from));
                self.has_read((row, column));
            }
            Step::GetForUpdate(row, column) => {
                let found = self.tx.get_for_update(table, name(row), name(column)).unwrap();
                prop_assert_eq!(found, self.sees().remove(&(row, column)).map(Bytes::from));
                self.has_read((row, column));
                self.for_update.insert((row, column));
            }
            Step::Columns(row) => {
                let found = self.tx.columns::<&str>(table, name(row), .., 10).unwrap();
                prop_assert_eq!(found, self.sees_in(row, 0));
                self.reads.extend((0..3).map(|column| (row, column)));
            }
            Step::Rows => {
                let rows = self.tx.rows(table, None, 10).unwrap().into_iter();
                let cells = rows.flat_map(|row| {
                    let of_row = number(&row.row);
                    row.columns.into_iter().map(move |(c, value)| ((of_row, number(&c)), text(&value)))
                });
                prop_assert_eq!(cells.collect::<Cells>(), self.sees());
                self.reads_all();
            }
            Step::Range(row, from, ends) => self.read_range(table, row, from, ends)?,
            Step::Snapshot(which) => self.read_snapshot(table, which, states)?,
            Step::Cells => {
                prop_assert_eq!(all_cells(&self.tx, table), self.sees());
                self.reads_all();
            }
            Step::WholeRows => {
                let rows = [2, 0, 1].into_iter().zip(self.tx.get_rows(table, ["2", "0", "1"]).unwrap());
                let cells = rows.flat_map(|(row, cells)| {
                    cells.columns.into_iter().map(move |(c, value)| ((row, number(&c)), text(&value)))
                });
                prop_assert_eq!(cells.collect::<Cells>(), self.sees());
                self.reads_all();
            }
            _ => {}
        }
        Ok(())
    }

    fn read_range(&mut self, table: &Table, row: u8, from: u8, ends: u8) -> TestCaseResult {
        let mut range = self.tx.range(table, name(row), name(from)..);
        let (mut first, mut last) = (Vec::new(), Vec::new());
        for bit in (0..8).cycle() {
            let is_last = ends >> bit & 1 == 1;
            let column = if is_last { range.next_back() } else { range.next() };
            let Some(column) = column else { break };
            if is_last { &mut last } else { &mut first }.push(column.unwrap());
        }
        prop_assert!(range.next().is_none() && range.next_back().is_none());
        drop(range);
        first.extend(last.into_iter().rev());
        prop_assert_eq!(first, self.sees_in(row, from));
        self.reads.extend((from..3).map(|column| (row, column)));
        Ok(())
    }

    fn read_snapshot(&self, table: &Table, which: u8, states: &[(Timestamp, Cells)]) -> TestCaseResult {
        let since = &states[self.began..];
        let (at, expected) = match since.len() {
            0 => (self.tx.start_timestamp(), &self.snapshot),
            commits => {
                let (commit, state) = &since[usize::from(which) % commits];
                (Timestamp(commit.0 + 1), state)
            }
        };
        let snapshot = self.tx.snapshot_at(at).unwrap();
        prop_assert_eq!(&all_cells(&snapshot, table), expected);
        Ok(())
    }

    fn write(&mut self, table: &Table, step: &Step, step_number: usize) -> TestCaseResult {
        match *step {
            Step::Append(row, column) => {
                let before = self.sees().remove(&(row, column));
                let after = format!("{}+{step_number}", before.unwrap_or_default());
                let append = |before: Option<Bytes>| {
                    let before = text(&before.unwrap_or_default());
                    Ok(Some(format!("{before}+{step_number}").into()))
                };
                let found = self.tx.update(table, name(row), name(column), append).unwrap();
                prop_assert_eq!(found, Some(after.clone().into()));
                self.has_read((row, column));
                self.for_update.insert((row, column));
                self.writes.insert((row, column), Some(after));
            }
            Step::Put(row, column) => {
                let value = format!("v{step_number}");
                self.tx.put(table, name(row), name(column), &value).unwrap();
                self.writes.insert((row, column), Some(value));
            }
            Step::Delete(row, column) => {
                self.tx.delete(table, name(row), name(column)).unwrap();
                self.writes.insert((row, column), None);
            }
            Step::Savepoint => {
                let savepoint = self.tx.savepoint();
                self.savepoints.push((savepoint, Some(self.writes.clone())));
            }
            Step::RollBack(which) => self.end_savepoint(usize::from(which), false)?,
            Step::Release(which) => self.end_savepoint(usize::from(which), true)?,
            _ => {}
        }
        Ok(())
    }

    /// Rolls back to a savepoint or releases it, if it was ever made.
    fn end_savepoint(&mut self, which: usize, is_release: bool) -> TestCaseResult {
        let Some((savepoint, before)) = self.savepoints.get(which).cloned() else { return Ok(()) };
        let done = if is_release { self.tx.release(savepoint) } else { self.tx.roll_back_to(savepoint) };
        prop_assert_eq!(done.is_ok(), before.is_some());
        if let Some(before) = before {
            let kept = which + usize::from(!is_release);
            self.savepoints[kept..].iter_mut().for_each(|(_, writes)| *writes = None);
            if !is_release {
                self.writes = before;
            }
        }
        Ok(())
    }
}

impl History {
    fn step(&mut self, slot: usize, step: &Step, number: usize) -> TestCaseResult {
        match (step, &mut self.open[slot]) {
            (Step::Sweep, _) => drop(self.transactions.sweep().unwrap()),
            (Step::Migrate(version), _) => drop(self.transactions.migrate(*version).unwrap()),
            (Step::Begin, open) if open.is_none() => {
                *open = Some(Open {
                    tx: self.transactions.start().unwrap(),
                    snapshot: self.committed.clone(),
                    began: self.log.len(),
                    writes: BTreeMap::new(),
                    reads: BTreeSet::new(),
                    for_update: BTreeSet::new(),
                    savepoints: Vec::new(),
                });
            }
            (_, None) => {}
            (Step::Commit, open) => {
                let ended = open.take();
                return ended.map_or(Ok(()), |ended| self.commit(ended));
            }
            (_, Some(open)) => {
                open.read(&self.table, step, &self.states)?;
                open.write(&self.table, step, number)?;
            }
        }
        Ok(())
    }

    /// Returns the result of a commit by the model.
    fn expected(&self, ended: &Open) -> &'static str {
        let since: BTreeSet<_> = self.log[ended.began..].iter().flatten().copied().collect();
        let writes = ended.writes.keys().any(|cell| since.contains(cell));
        // Values are never repeated; deleting nothing changes nothing.
        let is_changed = |c: &(u8, u8)| ended.snapshot.get(c) != self.committed.get(c);
        let others = |c: &&(u8, u8)| !ended.writes.contains_key(*c);
        let reads = self.is_serializable && ended.reads.iter().filter(others).any(is_changed);
        // A deletion of nothing is a write, too.
        let reads = reads || ended.for_update.iter().filter(others).any(|c| since.contains(c));
        match (ended.writes.is_empty(), writes, reads) {
            (true, ..) | (_, false, false) => "committed",
            (_, true, _) => "write-write",
            _ => "read-write",
        }
    }

    fn commit(&mut self, ended: Open) -> TestCaseResult {
        let (expected, after) = (self.expected(&ended), ended.sees());
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
        // Transactions without writes commit at no timestamp.
        if let Some(commit) = committed_at {
            for cell in ended.writes.keys() {
                match after.get(cell) {
                    Some(value) => drop(self.committed.insert(*cell, value.clone())),
                    None => drop(self.committed.remove(cell)),
                }
            }
            self.log.push(ended.writes.into_keys().collect());
            self.states.push((commit, self.committed.clone()));
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn snapshots_hold_and_the_first_of_two_conflicting_commits_wins(
        (is_serializable, by_row) in any::<(bool, bool)>(),
        strategy in prop_oneof![
            Just(SweepStrategy::Nothing), Just(SweepStrategy::Conservative), Just(SweepStrategy::Thorough)
        ],
        steps in prop::collection::vec(step(), 1..80),
    ) {
        let transactions = in_memory();
        let handler = match (is_serializable, by_row) {
            (true, false) => ConflictHandler::SerializableByCell,
            (true, true) => ConflictHandler::SerializableByRow,
            (false, false) => ConflictHandler::WriteWriteByCell,
            (false, true) => ConflictHandler::WriteWriteByRow,
        };
        let table = transactions.table_swept("t", handler, strategy).unwrap();
        let mut history = History {
            transactions,
            table,
            is_serializable,
            open: [const { None }; 4],
            committed: Cells::new(),
            log: Vec::new(),
            states: Vec::new(),
        };
        for (number, (slot, step)) in steps.into_iter().enumerate() {
            history.step(slot, &step, number)?;
        }
    }
}
