//! Commit records in the three storage layouts.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::ops::RangeInclusive;

use bytes::Bytes;
use cassette_database::DeferredWrite;
use parking_lot::Mutex;

use super::{Recorded, ServiceError, ServiceResult, TransactionService};
use crate::encoding::layout::Layout;
use crate::encoding::two_stage::{self, Stage};
use crate::encoding::{plain, tickets};
use crate::store::{Cell, CheckOutcome, ColumnRange, Effect, Put, PutOutcome, PutRow, Store, StoreResult};
use crate::timestamp::{Timestamp, TransactionStatus};

/// Write time of committed values in layout 3: above that of every conditional write, with room for
/// a correction by an operator.
const FINAL_WRITE_TIME: i64 = i64::MAX - 10;
/// Maximum number of columns put in one row together.
const PUTS_PER_ROW_MAX: usize = 500;
/// Page size of an enumeration, in columns and in rows.
const PAGE: usize = 5_000;

/// Commit records of one layout in a store.
pub struct CommitRecords<S> {
    store: S,
    layout: Layout,
    /// Held while a staging value is touched, one at a time per partition (except for the few that
    /// share a lock), so that readers of one partition do not disturb each other's consensus
    /// rounds.
    touching: [Mutex<()>; 64],
    hasher: RandomState,
}

impl<S: Store> CommitRecords<S> {
    /// Opens the commit records in `store`, creating their table if needed.
    pub fn open(store: S, layout: Layout) -> StoreResult<Self> {
        store.create_table(layout.table(), layout.table_kind())?;
        let touching = std::array::from_fn(|_| Mutex::new(()));
        Ok(Self { store, layout, touching, hasher: RandomState::new() })
    }

    /// Returns the layout.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Calls `found` for every start timestamp of the range that has a commit record: partition by
    /// partition in layouts 2 and 3, in the store's order after reading all keys in layout 1.
    ///
    /// # Errors
    /// The errors of the store, of malformed values, and of `found`.
    pub fn enumerate(
        &self,
        starts: RangeInclusive<Timestamp>,
        mut found: impl FnMut(Timestamp, TransactionStatus) -> ServiceResult<()>,
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
                    for (start, status) in self.get_many(&wanted)? {
                        found(start, status)?;
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
        found: &mut impl FnMut(Timestamp, TransactionStatus) -> ServiceResult<()>,
    ) -> ServiceResult<()> {
        let below = Timestamp(Timestamp::ATOMIC.0 + 1);
        let mut from = Bytes::new();
        loop {
            let range =
                ColumnRange { row: row.clone(), start: from, end: None, limit: PAGE, is_reversed: false };
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

    fn decode(&self, start: Timestamp, value: &[u8]) -> ServiceResult<(TransactionStatus, Stage)> {
        self.layout.decode(start, value).map_err(|error| ServiceError::Decode { start, error })
    }

    /// Returns the status of a value that was read, after touching a staging value.
    fn answer(&self, start: Timestamp, value: Bytes) -> ServiceResult<TransactionStatus> {
        match self.decode(start, &value)? {
            (status, Stage::Committed) => Ok(status),
            (status, Stage::Staging) => self.finish(start, status, value),
        }
    }

    /// Finishes a staging value: T1 and T2 of the protocol.
    fn finish(
        &self,
        start: Timestamp,
        status: TransactionStatus,
        staging: Bytes,
    ) -> ServiceResult<TransactionStatus> {
        let cell = self.layout.cell(start);
        let lock = self.hasher.hash_one(&cell.row) as usize % self.touching.len();
        let _one_at_a_time = self.touching[lock].lock();
        let table = self.layout.table();
        // Another thread may have finished it meanwhile.
        let below = Timestamp(Timestamp::ATOMIC.0 + 1);
        let now = self.store.get(table, &[(&cell, below)])?.pop().flatten();
        if let Some(version) = now
            && self.decode(start, &version.value)? == (status, Stage::Committed)
        {
            return Ok(status);
        }
        match self.store.check_and_set(table, &cell, &staging, &staging)? {
            CheckOutcome::Applied => {
                self.put_final(&[(start, status)]);
                Ok(status)
            }
            CheckOutcome::Actual(Some(value))
                if self.decode(start, &value)? == (status, Stage::Committed) =>
            {
                Ok(status)
            }
            CheckOutcome::Actual(other) => Err(ServiceError::Broken {
                start,
                what: format!("expected staging or committed {status:?}, found {other:02x?}"),
            }),
        }
    }

    /// Puts the committed values of statuses whose staging values are certain. It only saves later
    /// readers the touch, so an error has no consequence.
    fn put_final(&self, statuses: &[(Timestamp, TransactionStatus)]) {
        let cells: Vec<_> = statuses.iter().map(|(start, _)| self.layout.cell(*start)).collect();
        let mut puts = Vec::with_capacity(cells.len());
        for ((start, status), cell) in statuses.iter().zip(&cells) {
            puts.push(Put {
                table: self.layout.table(),
                cell,
                timestamp: Timestamp::ATOMIC,
                value: two_stage::value(*start, *status, Stage::Committed).into(),
                write_time: FINAL_WRITE_TIME,
            });
        }
        if let Err(error) = self.store.put(&puts) {
            tracing::debug!(%error, "commit records stay in staging");
        }
    }

    /// Returns the result of W1 for one start timestamp, after W2.
    fn recorded(
        &self,
        start: Timestamp,
        status: TransactionStatus,
        column: &Bytes,
        outcome: PutOutcome,
    ) -> ServiceResult<Recorded> {
        match outcome {
            PutOutcome::Applied => {
                // W2.
                if matches!(self.layout, Layout::TwoStage(_)) {
                    self.put_final(&[(start, status)]);
                }
                Ok(Recorded::Recorded)
            }
            PutOutcome::Exists(existing) => {
                let standing = existing.into_iter().find(|(existing, _)| existing == column);
                let (_, value) = standing.ok_or_else(|| ServiceError::Broken {
                    start,
                    what: "a put was refused because of columns that it does not have".to_owned(),
                })?;
                Ok(against(self.answer(start, value)?, status))
            }
        }
    }

    /// Puts the statuses of distinct start timestamps, all at least 1.
    ///
    /// Each round puts at most one batch per partition. What a refused batch leaves open is put
    /// again in the next round, together with what exceeded the batch size.
    fn put_distinct(
        &self,
        mut pending: Vec<(Timestamp, TransactionStatus)>,
        results: &mut HashMap<Timestamp, ServiceResult<Recorded>>,
    ) {
        while !pending.is_empty() {
            let mut by_row: HashMap<Bytes, Vec<(Timestamp, TransactionStatus, Bytes, Bytes)>> =
                HashMap::new();
            for (start, status) in pending.drain(..) {
                let Cell { row, column } = self.layout.cell(start);
                let value = self.layout.value(start, status);
                by_row.entry(row).or_default().push((start, status, column, value));
            }
            let mut rows = Vec::with_capacity(by_row.len());
            let mut puts = Vec::with_capacity(by_row.len());
            for (row, mut of_row) in by_row {
                // The rest of the row goes into the next round: two batches on one partition would
                // only disturb each other.
                for (start, status, ..) in of_row.drain(of_row.len().min(PUTS_PER_ROW_MAX)..) {
                    pending.push((start, status));
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
                        for (start, status, ..) in of_row {
                            applied.push((start, status));
                            results.insert(start, Ok(Recorded::Recorded));
                        }
                    }
                    Ok(PutOutcome::Exists(existing)) => {
                        let existing: HashMap<Bytes, Bytes> = existing.into_iter().collect();
                        let mut met = false;
                        let mut rest = Vec::new();
                        for (start, status, column, _) in of_row {
                            match existing.get(&column) {
                                None => rest.push((start, status)),
                                Some(value) => {
                                    met = true;
                                    let answer = self.answer(start, value.clone());
                                    let result = answer.map(|standing| against(standing, status));
                                    results.insert(start, result);
                                }
                            }
                        }
                        if met {
                            pending.extend(rest)
                        } else {
                            results.extend(rest.into_iter().map(|(start, _)| {
                                let what = "a put was refused because of columns that it does not have";
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

/// Compares the status that stands with the one to put.
fn against(standing: TransactionStatus, wanted: TransactionStatus) -> Recorded {
    if standing == wanted { Recorded::Recorded } else { Recorded::Exists(standing) }
}

impl<S: Store> TransactionService for CommitRecords<S> {
    fn get_many(&self, starts: &[Timestamp]) -> ServiceResult<HashMap<Timestamp, TransactionStatus>> {
        let mut found = HashMap::with_capacity(starts.len());
        let mut asked = Vec::with_capacity(starts.len());
        for start in starts {
            if *start < Timestamp::FIRST {
                found.insert(*start, TransactionStatus::Committed(Timestamp::ATOMIC));
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
        statuses: &[(Timestamp, TransactionStatus)],
    ) -> Vec<ServiceResult<Recorded>> {
        let mut first: HashMap<Timestamp, TransactionStatus> = HashMap::with_capacity(statuses.len());
        for (start, status) in statuses {
            // In one batch, the last of two values would win, and both puts would report success.
            first.entry(*start).or_insert(*status);
        }
        let mut results = HashMap::with_capacity(first.len());
        let (distinct, before): (Vec<_>, Vec<_>) =
            first.iter().map(|(start, c)| (*start, *c)).partition(|(start, _)| *start >= Timestamp::FIRST);
        results.extend(before.into_iter().map(|(start, _)| (start, Err(ServiceError::BeforeTime(start)))));
        self.put_distinct(distinct, &mut results);
        let result = |(start, status): &(Timestamp, TransactionStatus)| match results.get(start) {
            Some(Ok(Recorded::Recorded)) => Ok(against(first[start], *status)),
            Some(Ok(Recorded::Exists(standing))) => Ok(against(*standing, *status)),
            Some(Err(error)) => Err(error.clone()),
            None => Err(ServiceError::Broken { start: *start, what: "a put had no result".to_owned() }),
        };
        statuses.iter().map(result).collect()
    }

    fn put_unless_exists(&self, start: Timestamp, status: TransactionStatus) -> ServiceResult<Recorded> {
        if start < Timestamp::FIRST {
            return Err(ServiceError::BeforeTime(start));
        }
        let Cell { row, column } = self.layout.cell(start);
        let put = PutRow { row, columns: vec![(column, self.layout.value(start, status))] };
        // W1.
        let mut outcomes = self.store.put_unless_exists(self.layout.table(), std::slice::from_ref(&put));
        let outcome = outcomes
            .pop()
            .ok_or_else(|| ServiceError::Broken { start, what: "a put had no result".to_owned() })?;
        self.recorded(start, status, &put.columns[0].0, outcome?)
    }

    fn put_with(
        &self,
        start: Timestamp,
        status: TransactionStatus,
        writes: &[DeferredWrite],
    ) -> ServiceResult<Recorded> {
        let Cell { row, column } = self.layout.cell(start);
        let put = (column, self.layout.value(start, status));
        // W1, which decides: a staging value is always completed, never replaced.
        match self.store.put_unless_exists_with(self.layout.table(), &row, &put, writes) {
            Ok(outcome) => self.recorded(start, status, &put.0, outcome),
            Err(error) if error.effect == Effect::None => {
                Err(ServiceError::NotPut { start, cause: Box::new(error.into()) })
            }
            Err(error) => Err(error.into()),
        }
    }
}
