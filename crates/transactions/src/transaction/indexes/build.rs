//! Builds of indexes: entries of the cells that were written before the index was maintained, in
//! bounded transactions beside others.
//!
//! A build begins when all transactions that do not maintain the index have ended. From then on
//! each step reads a part of the table in its snapshot, and writes what is missing together with
//! its progress. A transaction that changes one of these cells at the same time writes the same
//! entry, the one that the step adds, so one of the two fails with a conflict: entries have
//! conflict checks until the index is complete.

use std::time::{Duration, Instant};

use bytes::{Buf, BufMut, Bytes};

use super::{COMPLETE, ENTRY, Maintained, builds, entry, owner, progress};
use crate::encoding::DecodeError;
use crate::error::{Error, Result};
use crate::store::Cell;
use crate::transaction::scans::{self, Span, successor};
use crate::transaction::{
    ConflictHandler, Range, Retries, Table, Transaction, Transactions, check_length, check_name,
};

use super::catalog::Definition;

/// Maximum number of cells that one step reads.
const CELLS: usize = 500;
/// Bytes of names and values after which a step ends.
const BYTES: usize = 1 << 20;
/// Entries after which a step ends.
const ENTRIES: usize = 5_000;
/// Pause between two checks of the oldest open transaction.
const PAUSE: Duration = Duration::from_millis(2);

/// What a build did: [`Index::build`](crate::Index::build).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Built {
    /// Cells that were read.
    pub cells: u64,
    /// Entries that were missing.
    pub entries: u64,
}

/// The cells that a build has completed: up to a row and, within the row, up to a column.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Position {
    row: Option<Bytes>,
    /// `None`: the row is complete.
    column: Option<Bytes>,
}

impl Position {
    /// ```text
    /// 0 | 1 if the row is complete | length of row, 4 bytes | row | column
    /// ```
    fn encode(&self) -> Vec<u8> {
        let row = self.row.as_deref().unwrap_or_default();
        let mut out = vec![0, u8::from(self.column.is_none())];
        // Row names have at most 65,535 bytes.
        out.put_u32(row.len() as u32);
        out.extend_from_slice(row);
        out.extend_from_slice(self.column.as_deref().unwrap_or_default());
        out
    }

    fn decode(bytes: &Bytes) -> Result<Self> {
        let malformed = || Error::Indexes(DecodeError::new("progress of a build", bytes, "malformed"));
        let mut rest = bytes.clone();
        if rest.len() < 6 || rest.get_u8() != 0 {
            return Err(malformed());
        }
        let is_complete = rest.get_u8() == 1;
        let length = rest.get_u32() as usize;
        if length > rest.len() {
            return Err(malformed());
        }
        let row = rest.split_to(length);
        Ok(Self { row: Some(row).filter(|row| !row.is_empty()), column: Some(rest).filter(|_| !is_complete) })
    }
}

/// Cells of a part of a table, and where the next part begins; `None` at the end.
struct Part {
    cells: Vec<(Cell, Bytes)>,
    next: Option<Position>,
}

impl Transactions {
    pub(crate) fn build_index(&self, base: &Table, wanted: &Definition) -> Result<Built> {
        let Transactions(inner, _) = self;
        let busy =
            |oldest| Error::IndexBusy { table: wanted.table.clone(), index: wanted.name.clone(), oldest };
        let known = self.run(|tx| {
            let index = inner.indexes.of_reader(tx, wanted)?;
            Ok((index.is_complete(tx)?, index.definition.born.unwrap_or(i64::MAX)))
        });
        let (is_complete, born) = known?;
        if is_complete {
            return Ok(Built::default());
        }
        self.wait_until_ended(born, busy)?;
        let (mut built, mut limit) = (Built::default(), CELLS);
        loop {
            let step = match self.run_with(Retries::none(), |tx| tx.build_step(base, wanted, limit)) {
                // Many writers would make every large step fail.
                Err(Error::WriteWriteConflict { .. } | Error::ReadWriteConflict { .. }) if limit > 1 => {
                    limit = limit.div_ceil(4);
                    continue;
                }
                Err(error) if error.is_retriable() => self.run(|tx| tx.build_step(base, wanted, limit)),
                step => step,
            };
            let Some(step) = step? else { return Ok(built) };
            built.cells += step.cells;
            built.entries += step.entries;
            limit = (limit * 2).min(CELLS);
        }
    }

    /// Waits until every transaction with a start timestamp up to `last` has ended, and ensures
    /// that later ones begin above it.
    pub(super) fn wait_until_ended(&self, last: i64, busy: impl Fn(crate::Timestamp) -> Error) -> Result<()> {
        let Transactions(inner, _) = self;
        let began = Instant::now();
        if inner.timelock.timestamp()?.0 <= last {
            inner.timelock.fast_forward(crate::Timestamp(last))?;
        }
        loop {
            // A hold lies below the start timestamp that it protects.
            let oldest = inner.timelock.immutable()?;
            if oldest.0 > last {
                return Ok(());
            }
            if began.elapsed() >= inner.options.lock_timeout {
                return Err(busy(oldest));
            }
            std::thread::sleep(PAUSE);
        }
    }
}

impl Transaction {
    /// Builds a part of an index, up to `limit` cells. `None` if the index is complete.
    fn build_step(&mut self, base: &Table, wanted: &Definition, limit: usize) -> Result<Option<Built>> {
        let index = self.inner.indexes.of_reader(self, wanted)?;
        let progress = progress(wanted);
        let before = self.get_many_for_update(&builds(), std::slice::from_ref(&progress))?;
        let position = match before.into_iter().next().flatten() {
            Some(before) if before[..] == *COMPLETE => return Ok(None),
            Some(before) => Position::decode(&before)?,
            None => Position::default(),
        };
        // Reads for a build are not validated: conflicts of the entries are.
        let readable = Table::new(base.name(), ConflictHandler::Ignore, base.sweep());
        let part = self.part_of(&readable, wanted, position, limit)?;
        let mut built = Built { cells: part.cells.len() as u64, entries: 0 };
        let entries = index.entries(base, false);
        let mut next = part.next;
        let total = part.cells.len();
        for (number, (cell, value)) in part.cells.into_iter().enumerate() {
            built.entries += self.build_cell(&index, &entries, &cell, &value)?;
            if built.entries >= ENTRIES as u64 && number + 1 < total {
                built.cells = number as u64 + 1;
                next = Some(Position { row: Some(cell.row), column: Some(cell.column) });
                break;
            }
        }
        let value = next.map_or_else(|| Bytes::from_static(COMPLETE), |next| next.encode().into());
        self.write(&builds(), progress, value)?;
        Ok(Some(built))
    }

    /// Writes the missing entries of a cell. Returns their number.
    fn build_cell(&mut self, index: &Maintained, entries: &Table, cell: &Cell, value: &Bytes) -> Result<u64> {
        let definition = &index.definition;
        let keys = index.keys_of(cell, value)?;
        let owner = owner(definition, cell);
        let cells: Vec<Cell> = keys.iter().map(|key| entry(definition, key, &owner)).collect();
        let found = self.committed(entries, &cells.iter().collect::<Vec<_>>())?;
        let mut count = 0;
        for ((entry, found), key) in cells.into_iter().zip(found).zip(&keys) {
            // Another cell of this part may have the same unique key.
            let found = self.writes.get(entries, &entry).cloned().or(found);
            match found {
                Some(other) if definition.is_unique && other != owner => {
                    return Err(index.violation(key, &owner, &other));
                }
                Some(_) => {}
                None => {
                    let value = if definition.is_unique { owner.clone() } else { Bytes::from_static(ENTRY) };
                    check_name(entries, &entry)?;
                    check_length(entries.name(), &entry, value.len(), self.inner.version_max)?;
                    self.writes.put(entries, entry, value);
                    count += 1;
                }
            }
        }
        Ok(count)
    }

    /// Reads the cells after a position.
    fn part_of(
        &self,
        base: &Table,
        definition: &Definition,
        position: Position,
        limit: usize,
    ) -> Result<Part> {
        self.check_age()?;
        let Some(column) = &definition.column else { return self.part_of_rows(base, position, limit) };
        let (rows, next) = scans::row_names(self, base, position.row.as_deref(), limit)?;
        let column = Bytes::copy_from_slice(column.as_bytes());
        let cells: Vec<Cell> = rows.into_iter().map(|row| Cell::new(row, column.clone())).collect();
        let values = self.committed(base, &cells.iter().collect::<Vec<_>>())?;
        let cells = cells.into_iter().zip(values);
        let cells: Vec<_> = cells.filter_map(|(cell, value)| Some((cell, value?))).collect();
        Ok(Part { cells, next: next.map(|row| Position { row: Some(row), column: None }) })
    }

    fn part_of_rows(&self, base: &Table, position: Position, limit: usize) -> Result<Part> {
        let mut cells = Vec::new();
        let mut bytes = 0;
        // Returns whether the row is complete.
        let mut read = |row: &Bytes, span: Span| -> Result<bool> {
            for column in Range::new(self, base, row.clone(), span) {
                let (column, value) = column?;
                bytes += row.len() + column.len() + value.len();
                cells.push((Cell::new(row.clone(), column), value));
                if cells.len() >= limit || bytes >= BYTES {
                    return Ok(false);
                }
            }
            Ok(true)
        };
        let is_complete = match &position {
            Position { row: Some(row), column: Some(column) } => {
                read(row, Span { start: successor(column), end: None })?
            }
            _ => true,
        };
        let mut next = None;
        if is_complete {
            let (rows, more) = scans::row_names(self, base, position.row.as_deref(), limit)?;
            next = more.map(|row| Position { row: Some(row), column: None });
            for row in rows {
                if !read(&row, Span::ALL)? {
                    next = None;
                    break;
                }
            }
        }
        if cells.len() >= limit || bytes >= BYTES {
            next = cells.last().map(|(Cell { row, column }, _)| Position {
                row: Some(row.clone()),
                column: Some(column.clone()),
            });
        }
        Ok(Part { cells, next })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_decode_to_what_was_encoded_and_malformed_ones_are_rejected() {
        let row = || Some(Bytes::from_static(b"row"));
        for position in [
            Position { row: row(), column: None },
            Position { row: row(), column: Some(Bytes::new()) },
            Position { row: row(), column: Some(Bytes::from_static(b"c")) },
        ] {
            assert_eq!(Position::decode(&position.encode().into()).unwrap(), position);
        }
        for malformed in [&[][..], &[1], &[0, 1, 0, 0, 0, 9, 1], &[2, 1, 0, 0, 0, 0]] {
            assert!(Position::decode(&Bytes::copy_from_slice(malformed)).is_err(), "{malformed:?}");
        }
    }
}
