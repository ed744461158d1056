//! Layout 2, tickets: starts that lie close together are spread over a few partitions, many starts in each.
//!
//! ```text
//! row number    = (start / quantum) * rows + (start % quantum) % rows
//! column number = (start % quantum) / rows
//! key    = 8 bytes, big-endian, of the row number with its bits reversed
//! column = VAR_LONG(column number)
//! value  = VAR_LONG(commit - start), or empty when aborted
//! ```

use std::ops::RangeInclusive;

use super::{DecodeError, var_long};
use crate::timestamp::{Conclusion, Timestamp};

/// The parameters of the layout. A table written with one pair cannot be read with another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tickets {
    /// Starts that share a set of partitions.
    quantum: i64,
    /// Partitions of a set. Conditional writes on one partition go one after the other, so this bounds how many go at once.
    rows: i64,
}

impl Tickets {
    /// 25,000,000 starts in 16 partitions: at most 1,562,500 cells a partition, at most 3 bytes a column and
    /// 21 bytes a cell with `column2` and the longest value: 33 MB.
    pub const STANDARD: Self = Self { quantum: 25_000_000, rows: 16 };

    /// Other parameters; `None` unless 0 < `rows` <= `quantum`.
    pub const fn new(quantum: i64, rows: i64) -> Option<Self> {
        if 0 < rows && rows <= quantum { Some(Self { quantum, rows }) } else { None }
    }

    /// Partitions of a quantum.
    pub const fn rows_per_quantum(self) -> i64 {
        self.rows
    }

    /// The number of the partition of `start`, which must not be below 0.
    pub const fn row_number(self, start: i64) -> i64 {
        (start / self.quantum) * self.rows + (start % self.quantum) % self.rows
    }

    /// The number of the column of `start` in its partition.
    pub const fn column_number(self, start: i64) -> i64 {
        (start % self.quantum) / self.rows
    }

    /// Key and column of `start`, which must not be below 0.
    pub fn cell(self, start: Timestamp) -> ([u8; 8], Vec<u8>) {
        debug_assert!(start.0 >= 0, "{start}");
        (row_key(self.row_number(start.0)), var_long::encode(self.column_number(start.0)))
    }

    /// The start that has this key and column.
    ///
    /// # Errors
    /// If no start has.
    pub fn start(self, row: &[u8], column: &[u8]) -> Result<Timestamp, DecodeError> {
        let Ok(reversed) = <[u8; 8]>::try_from(row) else {
            return Err(DecodeError::new("tickets row", row, "not 8 bytes"));
        };
        let number = i64::from_be_bytes(reversed).reverse_bits();
        let column_number = var_long::decode_non_negative(column)?;
        let start = (number / self.rows)
            .checked_mul(self.quantum)
            .and_then(|first| first.checked_add(column_number.checked_mul(self.rows)?))
            .and_then(|start| start.checked_add(number % self.rows));
        match start {
            Some(start)
                if start >= 0
                    && self.row_number(start) == number
                    && self.column_number(start) == column_number =>
            {
                Ok(Timestamp(start))
            }
            _ => Err(DecodeError::new(
                "tickets row",
                row,
                format!("no start has it with column {column_number}"),
            )),
        }
    }

    /// The numbers of all partitions in which starts of the range may lie: those of whole quanta, so what is read must
    /// still be compared with the range. `None` if the range is empty or begins below 0.
    pub fn row_numbers(self, starts: RangeInclusive<i64>) -> Option<RangeInclusive<i64>> {
        let (low, high) = starts.into_inner();
        if low < 0 || low > high {
            return None;
        }
        let first = (low / self.quantum) * self.rows;
        // Cannot overflow: rows <= quantum, so this is at most `high` + rows.
        let last = (high / self.quantum).checked_mul(self.rows)?.saturating_add(self.rows - 1);
        Some(first..=last)
    }

    /// The column numbers to look at for a range of starts in one quantum; `None` when it reaches over several.
    pub fn column_numbers(self, starts: RangeInclusive<i64>) -> Option<RangeInclusive<i64>> {
        let (low, high) = starts.into_inner();
        (low / self.quantum == high / self.quantum)
            .then(|| self.column_number(low)..=self.column_number(high))
    }
}

/// The key of the partition with this number.
pub const fn row_key(number: i64) -> [u8; 8] {
    number.reverse_bits().to_be_bytes()
}

/// The value of a conclusion of `start`.
pub fn value(start: Timestamp, conclusion: Conclusion) -> Vec<u8> {
    match conclusion {
        Conclusion::Committed(commit) => var_long::encode(commit.0.wrapping_sub(start.0)),
        Conclusion::Aborted => Vec::new(),
    }
}

/// The conclusion that a value says of `start`.
///
/// # Errors
/// If it is no VAR_LONG, or leads to a commit below the start.
pub fn conclusion(start: Timestamp, value: &[u8]) -> Result<Conclusion, DecodeError> {
    if value.is_empty() {
        return Ok(Conclusion::Aborted);
    }
    let delta = var_long::decode_non_negative(value)?;
    match start.0.checked_add(delta) {
        Some(commit) => Ok(Conclusion::Committed(Timestamp(commit))),
        None => {
            Err(DecodeError::new("commit timestamp", value, format!("{start} + {delta} is no timestamp")))
        }
    }
}
