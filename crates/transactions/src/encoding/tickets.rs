//! Layout 2, tickets: distributes close start timestamps over a few partitions with many start
//! timestamps each.
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
use crate::timestamp::{Timestamp, TransactionStatus};

/// Parameters of the layout. A table written with one pair cannot be read with another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tickets {
    /// Number of start timestamps that share a set of partitions.
    quantum: i64,
    /// Number of partitions in a set. Conditional writes on one partition are serialized, so this
    /// limits their concurrency.
    rows: i64,
}

impl Tickets {
    /// 25,000,000 start timestamps in 16 partitions: at most 1,562,500 cells per partition, at most
    /// 3 bytes per column name and 21 bytes per cell with `column2` and the longest value, which
    /// makes 33 MB.
    pub const STANDARD: Self = Self { quantum: 25_000_000, rows: 16 };

    /// Creates other parameters; `None` unless 0 < `rows` <= `quantum`.
    pub const fn new(quantum: i64, rows: i64) -> Option<Self> {
        if 0 < rows && rows <= quantum { Some(Self { quantum, rows }) } else { None }
    }

    /// Returns the number of partitions per quantum.
    pub const fn rows_per_quantum(self) -> i64 {
        self.rows
    }

    /// Returns the partition number of `start`, which must not be negative.
    pub const fn row_number(self, start: i64) -> i64 {
        (start / self.quantum) * self.rows + (start % self.quantum) % self.rows
    }

    /// Returns the column number of `start` within its partition.
    pub const fn column_number(self, start: i64) -> i64 {
        (start % self.quantum) / self.rows
    }

    /// Returns the key and the column of `start`, which must not be negative.
    pub fn cell(self, start: Timestamp) -> ([u8; 8], Vec<u8>) {
        debug_assert!(start.0 >= 0, "{start}");
        (row_key(self.row_number(start.0)), var_long::encode(self.column_number(start.0)))
    }

    /// Returns the start timestamp of a key and column.
    ///
    /// # Errors
    /// If there is none.
    pub fn start(self, row: &[u8], column: &[u8]) -> Result<Timestamp, DecodeError> {
        let Ok(reversed) = <[u8; 8]>::try_from(row) else {
            return Err(DecodeError::new("tickets row", row, "expected 8 bytes"));
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
                format!("no start timestamp has column {column_number} there"),
            )),
        }
    }

    /// Returns the numbers of all partitions that may contain start timestamps of the range. They
    /// cover whole quanta, so results must still be compared with the range. `None` if the range is
    /// empty or begins below 0.
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

    /// Returns the column numbers of a range of start timestamps within one quantum; `None` if it
    /// spans several.
    pub fn column_numbers(self, starts: RangeInclusive<i64>) -> Option<RangeInclusive<i64>> {
        let (low, high) = starts.into_inner();
        (low / self.quantum == high / self.quantum)
            .then(|| self.column_number(low)..=self.column_number(high))
    }
}

/// Returns the key of a partition number.
pub const fn row_key(number: i64) -> [u8; 8] {
    number.reverse_bits().to_be_bytes()
}

/// Encodes the status of `start`.
pub fn value(start: Timestamp, status: TransactionStatus) -> Vec<u8> {
    match status {
        TransactionStatus::Committed(commit) => var_long::encode(commit.0.wrapping_sub(start.0)),
        TransactionStatus::Aborted => Vec::new(),
    }
}

/// Decodes the status of `start`.
///
/// # Errors
/// If it is no VAR_LONG, or results in a commit timestamp below the start timestamp.
pub fn status(start: Timestamp, value: &[u8]) -> Result<TransactionStatus, DecodeError> {
    if value.is_empty() {
        return Ok(TransactionStatus::Aborted);
    }
    let delta = var_long::decode_non_negative(value)?;
    match start.0.checked_add(delta) {
        Some(commit) => Ok(TransactionStatus::Committed(Timestamp(commit))),
        None => Err(DecodeError::new(
            "commit timestamp",
            value,
            format!("commit timestamp {start} + {delta} overflows"),
        )),
    }
}
