//! Results of conditional writes.

use super::{FromRow, Rows};
use crate::basics::error::{Result, bail_invalid};

/// Whether a conditional write was applied, and what prevented it otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Applied<T> {
    /// The conditions held, and the write is applied.
    Yes,
    /// The conditions did not hold, and nothing was written. The values that they were compared
    /// with: all columns for `IF NOT EXISTS`, those of the conditions for `IF column = …`. `None`
    /// where there is no row.
    No(Option<T>),
}

impl<T> Applied<T> {
    /// Whether the write was applied.
    pub fn is_yes(&self) -> bool {
        matches!(self, Self::Yes)
    }
}

impl Rows {
    /// Whether a conditional write was applied: `if session.execute(update, values)?.is_applied()?
    /// { … }`.
    ///
    /// # Errors
    /// Invalid, if this is no result of a conditional write.
    pub fn is_applied(&self) -> Result<bool> {
        match (self.columns().first(), self.first()) {
            (Some(column), Some(row)) if &*column.name == "[applied]" => row.get(0),
            _ => bail_invalid!("cannot tell whether the write was applied: it had no conditions"),
        }
    }

    /// Whether a conditional write was applied, and the present values otherwise; of a batch, those
    /// of its first row.
    ///
    /// # Errors
    /// Invalid, if this is no result of a conditional write, or the values do not convert to `T`.
    pub fn applied<T: FromRow>(&self) -> Result<Applied<T>> {
        if self.is_applied()? {
            return Ok(Applied::Yes);
        }
        let present = self.first().map(|row| row.without_first()).filter(|row| !row.columns().is_empty());
        present.map(|row| T::from_row(&row)).transpose().map(Applied::No)
    }
}
