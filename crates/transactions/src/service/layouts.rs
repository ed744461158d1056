//! Conclusions as the three layouts store them.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::ops::RangeInclusive;

use bytes::Bytes;
use parking_lot::Mutex;

use super::{Recorded, ServiceError, ServiceResult, TransactionService};
use crate::encoding::tickets::{self, Tickets};
use crate::encoding::two_stage::{self, Stage};
use crate::encoding::{DecodeError, plain};
use crate::store::{Cell, CheckOutcome, ColumnRange, Put, PutOutcome, PutRow, Store, StoreResult, TableKind};
use crate::timestamp::{Conclusion, Timestamp};

/// The write time of committed values in layout 3: above that of every conditional write, with room for an operator's correction above it.
const FINAL_WRITE_TIME: i64 = i64::MAX - 10;
/// Columns put in one row together.
const PUTS_PER_ROW_MAX: usize = 500;
/// Columns, and rows, read in one page of an enumeration.
const PAGE: usize = 5_000;

/// How conclusions are stored: one of `docs/transactions.md`'s layouts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// 1: a partition for each start.
    Plain,
    /// 2: tickets.
    Tickets(Tickets),
    /// 3: tickets with values in two stages.
    TwoStage(Tickets),
}

impl Layout {
    /// The layout of a version number; `None` if it has none.
    pub fn of_version(version: u32) -> Option<Self> {
        match version {
            1 => Some(Self::Plain),
            2 => Some(Self::Tickets(Tickets::STANDARD)),
            3 => Some(Self::TwoStage(Tickets::STANDARD)),
            _ => None,
        }
    }

    /// Its number in the coordination map.
    pub fn version(self) -> u32 {
        match self {
            Self::Plain => 1,
            Self::Tickets(_) => 2,
            Self::TwoStage(_) => 3,
        }
    }

    /// Its table.
    pub fn table(self) -> &'static str {
        match self {
            Self::Plain => "_transactions",
            Self::Tickets(_) => "_transactions2",
            Self::TwoStage(_) => "_transactions3",
        }
    }

    pub(crate) fn table_kind(self) -> TableKind {
        match self {
            Self::Plain => TableKind::SmallPartitions,
            Self::Tickets(_) | Self::TwoStage(_) => TableKind::DensePartitions,
        }
    }

    fn cell(self, start: Timestamp) -> Cell {
        match self {
            Self::Plain => Cell::new(plain::row(start), plain::COLUMN),
            Self::Tickets(tickets) | Self::TwoStage(tickets) => {
                let (row, column) = tickets.cell(start);
                Cell::new(Bytes::copy_from_slice(&row), column)
            }
        }
    }

    fn start(self, row: &[u8], column: &[u8]) -> Result<Timestamp, DecodeError> {
        match self {
            Self::Plain => plain::start(row),
            Self::Tickets(tickets) | Self::TwoStage(tickets) => tickets.start(row, column),
        }
    }

    /// The value that a conditional put puts.
    fn value(self, start: Timestamp, conclusion: Conclusion) -> Bytes {
        match self {
            Self::Plain => plain::value(conclusion),
            Self::Tickets(_) => tickets::value(start, conclusion),
            Self::TwoStage(_) => two_stage::value(start, conclusion, Stage::Staging),
        }
        .into()
    }

    /// What a value says, and whether it is an answer as it is.
    fn decode(self, start: Timestamp, value: &[u8]) -> ServiceResult<(Conclusion, Stage)> {
        let certain = |conclusion| (conclusion, Stage::Committed);
        match self {
            Self::Plain => plain::conclusion(value).map(certain),
            Self::Tickets(_) => tickets::conclusion(start, value).map(certain),
            Self::TwoStage(_) => two_stage::conclusion(start, value),
        }
        .map_err(|error| ServiceError::Decode { start, error })
    }
}

/// Conclusions in a store.
pub struct StoredConclusions<S> {
    store: S,
    layout: Layout,
    /// Held while a staging value is touched: one touch at a time for a partition (but for the few that share a lock), so that
    /// readers of one partition do not disturb each other's rounds.
    touching: [Mutex<()>; 64],
    hasher: RandomState,
}

impl<S: Store> StoredConclusions<S> {
    /// Conclusions in `store`, their table made if it is not there.
    pub fn open(store: S, layout: Layout) -> StoreResult<Self> {
        store.create_table(layout.table(), layout.table_kind())?;
        let touching = std::array::from_fn(|_| Mutex::new(()));
        Ok(Self { store, layout, touching, hasher: RandomState::new() })
    }

    /// The layout.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Calls `found` with every start of the range that has a conclusion: for layouts 2 and 3 partition by partition, for 1 in the store's
    /// order after reading all keys.
    ///
    /// # Errors
    /// Those of the store, of values that are none, and of `found`.
    pub fn enumerate(
        &self,
        starts: RangeInclusive<Timestamp>,
        mut found: impl FnMut(Timestamp, Conclusion) -> ServiceResult<()>,
    ) -> ServiceResult<()> {
        let bounds = starts.start().0.max(Timestamp::FIRST.0)..=starts.end().0;
        match self.layout {
            Layout::Plain => {
                let mut after: Option<Bytes> = None;
                loop {
                    let rows = self.store.rows(self.layout.table(), after.as_deref(), PAGE)?;
                    let decoded: Result<Vec<_>, _> = rows.iter().map(|row| plain::start(row)).collect();
                    let mut wanted =
                        decoded.map_err(|error| ServiceError::Decode { start: *starts.start(), error })?;
                    wanted.retain(|start| bounds.contains(&start.0));
                    for (start, conclusion) in self.get_many(&wanted)? {
                        found(start, conclusion)?;
                    }
                    if rows.len() < PAGE {
                        return Ok(());
                    }
                    after = rows.last().cloned();
                }
            }
            Layout::Tickets(tickets) | Layout::TwoStage(tickets) => {
                for number in tickets.row_numbers(bounds.clone()).into_iter().flatten() {
                    let row = Bytes::copy_from_slice(&tickets::row_key(number));
                    self.enumerate_row(row, &bounds, &mut found)?;
                }
                Ok(())
            }
        }
    }

    fn enumerate_row(
        &self,
        row: Bytes,
        bounds: &RangeInclusive<i64>,
        found: &mut impl FnMut(Timestamp, Conclusion) -> ServiceResult<()>,
    ) -> ServiceResult<()> {
        let below = Timestamp(Timestamp::ATOMIC.0 + 1);
        let mut from = Bytes::new();
        loop {
            let range = ColumnRange { row: row.clone(), start: from, end: None, limit: PAGE };
            let page = self.store.columns(self.layout.table(), &[range], below)?.pop().unwrap_or_default();
            let last = page.last().map(|(column, _)| [column, &[0][..]].concat());
            let is_last = page.len() < PAGE;
            for (column, version) in page {
                let start = self
                    .layout
                    .start(&row, &column)
                    .map_err(|error| ServiceError::Decode { start: Timestamp(*bounds.start()), error })?;
                if bounds.contains(&start.0) {
                    found(start, self.answer(start, version.value)?)?;
                }
            }
            match last {
                Some(last) if !is_last => from = last.into(),
                _ => return Ok(()),
            }
        }
    }

    /// The conclusion of a value that was read: of a staging one after it was touched.
    fn answer(&self, start: Timestamp, value: Bytes) -> ServiceResult<Conclusion> {
        match self.layout.decode(start, &value)? {
            (conclusion, Stage::Committed) => Ok(conclusion),
            (conclusion, Stage::Staging) => self.finish(start, conclusion, value),
        }
    }

    /// T1 and T2 of the protocol.
    fn finish(&self, start: Timestamp, conclusion: Conclusion, staging: Bytes) -> ServiceResult<Conclusion> {
        let cell = self.layout.cell(start);
        let lock = self.hasher.hash_one(&cell.row) as usize % self.touching.len();
        let _one_at_a_time = self.touching[lock].lock();
        let table = self.layout.table();
        // Another thread may have finished it meanwhile.
        let below = Timestamp(Timestamp::ATOMIC.0 + 1);
        let now = self.store.get(table, &[(&cell, below)])?.pop().flatten();
        if let Some(version) = now
            && self.layout.decode(start, &version.value)? == (conclusion, Stage::Committed)
        {
            return Ok(conclusion);
        }
        match self.store.check_and_set(table, &cell, &staging, &staging)? {
            CheckOutcome::Applied => {
                self.put_final(&[(start, conclusion)]);
                Ok(conclusion)
            }
            CheckOutcome::Actual(Some(value))
                if self.layout.decode(start, &value)? == (conclusion, Stage::Committed) =>
            {
                Ok(conclusion)
            }
            CheckOutcome::Actual(other) => Err(ServiceError::Broken {
                start,
                what: format!("{conclusion:?} was put in two stages, and is {other:02x?} now"),
            }),
        }
    }

    /// Puts committed values of conclusions whose staging values are certain. It only saves later readers the touch, so an error changes
    /// nothing.
    fn put_final(&self, conclusions: &[(Timestamp, Conclusion)]) {
        let cells: Vec<_> = conclusions.iter().map(|(start, _)| self.layout.cell(*start)).collect();
        let mut puts = Vec::with_capacity(cells.len());
        for ((start, conclusion), cell) in conclusions.iter().zip(&cells) {
            puts.push(Put {
                table: self.layout.table(),
                cell,
                timestamp: Timestamp::ATOMIC,
                value: two_stage::value(*start, *conclusion, Stage::Committed).into(),
                write_time: FINAL_WRITE_TIME,
            });
        }
        if let Err(error) = self.store.put(&puts) {
            tracing::debug!(%error, "conclusions stay in staging");
        }
    }

    /// Puts conclusions of different starts, each of them 1 or more.
    fn put_distinct(
        &self,
        mut pending: Vec<(Timestamp, Conclusion)>,
        results: &mut HashMap<Timestamp, ServiceResult<Recorded>>,
    ) {
        while !pending.is_empty() {
            let mut by_row: HashMap<Bytes, Vec<(Timestamp, Conclusion, Bytes, Bytes)>> = HashMap::new();
            for (start, conclusion) in pending.drain(..) {
                let Cell { row, column } = self.layout.cell(start);
                let value = self.layout.value(start, conclusion);
                by_row.entry(row).or_default().push((start, conclusion, column, value));
            }
            let mut rows = Vec::with_capacity(by_row.len());
            let mut puts = Vec::with_capacity(by_row.len());
            for (row, mut of_row) in by_row {
                // The rest of a row waits for the next round: two batches on one partition would only disturb each other.
                for (start, conclusion, ..) in of_row.drain(of_row.len().min(PUTS_PER_ROW_MAX)..) {
                    pending.push((start, conclusion));
                }
                let columns = of_row.iter().map(|(.., column, value)| (column.clone(), value.clone()));
                rows.push(PutRow { row, columns: columns.collect() });
                puts.push(of_row);
            }
            // W1.
            let outcomes = self.store.put_unless_exists(self.layout.table(), &rows);
            let mut applied = Vec::new();
            for (of_row, outcome) in puts.into_iter().zip(outcomes) {
                match outcome {
                    Ok(PutOutcome::Applied) => {
                        for (start, conclusion, ..) in of_row {
                            applied.push((start, conclusion));
                            results.insert(start, Ok(Recorded::Recorded));
                        }
                    }
                    Ok(PutOutcome::Exists(existing)) => {
                        let existing: HashMap<Bytes, Bytes> = existing.into_iter().collect();
                        let mut met = false;
                        let mut rest = Vec::new();
                        for (start, conclusion, column, _) in of_row {
                            match existing.get(&column) {
                                None => rest.push((start, conclusion)),
                                Some(value) => {
                                    met = true;
                                    let answer = self.answer(start, value.clone());
                                    let result = answer.map(|standing| against(standing, conclusion));
                                    results.insert(start, result);
                                }
                            }
                        }
                        if met {
                            pending.extend(rest)
                        } else {
                            results.extend(rest.into_iter().map(|(start, _)| {
                                let what = "a put was refused for columns that were not asked for";
                                (start, Err(ServiceError::Broken { start, what: what.to_owned() }))
                            }))
                        }
                    }
                    Err(error) => {
                        results
                            .extend(of_row.into_iter().map(|(start, ..)| (start, Err(error.clone().into()))));
                    }
                }
            }
            // W2.
            if matches!(self.layout, Layout::TwoStage(_)) && !applied.is_empty() {
                self.put_final(&applied);
            }
        }
    }
}

/// What putting `wanted` did, where `standing` stands.
fn against(standing: Conclusion, wanted: Conclusion) -> Recorded {
    if standing == wanted { Recorded::Recorded } else { Recorded::Exists(standing) }
}

impl<S: Store> TransactionService for StoredConclusions<S> {
    fn get_many(&self, starts: &[Timestamp]) -> ServiceResult<HashMap<Timestamp, Conclusion>> {
        let mut found = HashMap::with_capacity(starts.len());
        let mut asked = Vec::with_capacity(starts.len());
        for start in starts {
            if *start < Timestamp::FIRST {
                drop(found.insert(*start, Conclusion::Committed(Timestamp::ATOMIC)))
            } else {
                asked.push((*start, self.layout.cell(*start)))
            }
        }
        let below = Timestamp(Timestamp::ATOMIC.0 + 1);
        let cells: Vec<_> = asked.iter().map(|(_, cell)| (cell, below)).collect();
        let versions =
            if cells.is_empty() { Vec::new() } else { self.store.get(self.layout.table(), &cells)? };
        for ((start, _), version) in asked.iter().zip(versions) {
            if let Some(version) = version {
                found.insert(*start, self.answer(*start, version.value)?);
            }
        }
        Ok(found)
    }

    fn put_many_unless_exists(
        &self,
        conclusions: &[(Timestamp, Conclusion)],
    ) -> Vec<ServiceResult<Recorded>> {
        let mut first: HashMap<Timestamp, Conclusion> = HashMap::with_capacity(conclusions.len());
        for (start, conclusion) in conclusions {
            // In one batch the last of two would win, and both be told that they had.
            first.entry(*start).or_insert(*conclusion);
        }
        let mut results = HashMap::with_capacity(first.len());
        let (distinct, before): (Vec<_>, Vec<_>) =
            first.iter().map(|(start, c)| (*start, *c)).partition(|(start, _)| *start >= Timestamp::FIRST);
        results.extend(before.into_iter().map(|(start, _)| (start, Err(ServiceError::BeforeTime(start)))));
        self.put_distinct(distinct, &mut results);
        let result = |(start, conclusion): &(Timestamp, Conclusion)| match results.get(start) {
            Some(Ok(Recorded::Recorded)) => Ok(against(first[start], *conclusion)),
            Some(Ok(Recorded::Exists(standing))) => Ok(against(*standing, *conclusion)),
            Some(Err(error)) => Err(error.clone()),
            None => Err(ServiceError::Broken { start: *start, what: "a put had no result".to_owned() }),
        };
        conclusions.iter().map(result).collect()
    }

    fn put_unless_exists(&self, start: Timestamp, conclusion: Conclusion) -> ServiceResult<Recorded> {
        if start < Timestamp::FIRST {
            return Err(ServiceError::BeforeTime(start));
        }
        let Cell { row, column } = self.layout.cell(start);
        let put = PutRow { row, columns: vec![(column, self.layout.value(start, conclusion))] };
        let broken = |what: &str| ServiceError::Broken { start, what: what.to_owned() };
        // W1.
        let mut outcomes = self.store.put_unless_exists(self.layout.table(), std::slice::from_ref(&put));
        match outcomes.pop().ok_or_else(|| broken("a put had no result"))?? {
            PutOutcome::Applied => {
                // W2.
                if matches!(self.layout, Layout::TwoStage(_)) {
                    self.put_final(&[(start, conclusion)]);
                }
                Ok(Recorded::Recorded)
            }
            PutOutcome::Exists(existing) => {
                let standing = existing.into_iter().find(|(column, _)| *column == put.columns[0].0);
                let (_, value) = standing
                    .ok_or_else(|| broken("a put was refused for columns that were not asked for"))?;
                Ok(against(self.answer(start, value)?, conclusion))
            }
        }
    }
}
