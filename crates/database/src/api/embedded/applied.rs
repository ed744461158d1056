//! Results of conditional writes.

use super::{FromRow, Rows};
use crate::basics::error::{Result, bail_invalid};

/// Whether a conditional write was applied, and otherwise the values that prevented it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Applied<T> {
    /// The conditions held, and the write was applied.
    Yes,
    /// The conditions did not hold, and nothing was written. Contains the compared values: all
    /// columns for `IF NOT EXISTS`, those of the conditions for `IF column = …`. `None` if the row
    /// does not exist.
    No(Option<T>),
}

impl<T> Applied<T> {
    /// Whether the write was applied.
    pub fn is_yes(&self) -> bool {
        matches!(self, Self::Yes)
    }
}

impl Rows {
    /// Whether a conditional write was applied:
    /// `if session.execute(update, values)?.is_applied()? { … }`.
    ///
    /// # Errors
    /// Invalid, if this is not the result of a conditional write.
    pub fn is_applied(&self) -> Result<bool> {
        match (self.columns().first(), self.first()) {
            (Some(column), Some(row)) if &*column.name == "[applied]" => row.get(0),
            _ => bail_invalid!("cannot tell whether the write was applied: it had no conditions"),
        }
    }

    /// Returns whether a conditional write was applied, and otherwise the current values; for a
    /// batch, those of its first row.
    ///
    /// # Errors
    /// Invalid, if this is not the result of a conditional write, or the values do not convert to
    /// `T`.
    pub fn applied<T: FromRow>(&self) -> Result<Applied<T>> {
        if self.is_applied()? {
            return Ok(Applied::Yes);
        }
        let present = self.first().map(|row| row.without_first()).filter(|row| !row.columns().is_empty());
        present.map(|row| T::from_row(&row)).transpose().map(Applied::No)
    }
}
