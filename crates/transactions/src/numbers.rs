//! Updates of numbers in place: sums, maxima and minima.
//!
//! Each is a read for update and a write. Two concurrent changes of one number conflict, and
//! [`Transactions::run`](crate::Transactions::run) repeats one of them, so the results are those of
//! some order. A merge without conflicts would need versions that are sums of others; a counter
//! that many transactions change at the same time is spread over several cells instead, and read
//! as their sum.

use bytes::Bytes;

use crate::error::{Error, Result};
use crate::store::Cell;
use crate::transaction::shortened;
use crate::typed::decode;
use crate::{Column, Columns, Field, Table, Transaction};

/// Integers as values: `u32`, `u64`, `i32` and `i64`.
pub trait Number: for<'a> Field<Ref<'a> = Self> + Copy + Ord + Default + private::Sealed {
    /// Returns the sum, or `None` if it is outside of the range of the type.
    fn sum(self, other: Self) -> Option<Self>;
}

mod private {
    pub trait Sealed {}
}

macro_rules! number {
    ($($type:ty),*) => {$(
        impl private::Sealed for $type {}

        impl Number for $type {
            fn sum(self, other: Self) -> Option<Self> {
                self.checked_add(other)
            }
        }
    )*};
}

number!(u32, u64, i32, i64);

/// Replaces a number by a function of it; `None` if that fails.
fn change<V: Number>(
    tx: &mut Transaction,
    table: &Table,
    row: Bytes,
    column: Bytes,
    new: impl FnOnce(Option<V>) -> Option<V>,
) -> Result<V> {
    let mut changed = V::default();
    tx.update(table, &row, &column, |before| {
        let before = before.map(|before| decode::<V>(table, &before)).transpose()?;
        changed = new(before).ok_or_else(|| Error::Overflow {
            table: table.name().to_owned(),
            cell: shortened(&Cell::new(row.clone(), column.clone())),
        })?;
        Ok(Some(V::encode(changed)))
    })?;
    Ok(changed)
}

fn add<V: Number>(amount: V) -> impl FnOnce(Option<V>) -> Option<V> {
    move |before| before.unwrap_or_default().sum(amount)
}

fn max<V: Number>(value: V) -> impl FnOnce(Option<V>) -> Option<V> {
    move |before| Some(before.map_or(value, |before| before.max(value)))
}

fn min<V: Number>(value: V) -> impl FnOnce(Option<V>) -> Option<V> {
    move |before| Some(before.map_or(value, |before| before.min(value)))
}

impl<R: Field, V: Number> Column<R, V> {
    /// Adds to the number of a row, and returns the sum. An absent number counts as 0. Concurrent
    /// transactions that change the number conflict; none of their changes is lost.
    ///
    /// ```
    /// # use cassette_transactions::{ConflictHandler, Result, Transactions};
    /// # fn example(transactions: &Transactions) -> Result<()> {
    /// let accounts = transactions.table("accounts", ConflictHandler::WriteWriteByCell)?;
    /// let balance = accounts.column::<String, i64>("balance");
    /// transactions.run(|tx| {
    ///     balance.add(tx, "alice", -20)?;
    ///     balance.add(tx, "bob", 20)
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The errors of [`Transaction::update`]; `OtherType`; `Overflow`.
    pub fn add(&self, tx: &mut Transaction, row: R::Ref<'_>, amount: V) -> Result<V> {
        change(tx, &self.table, R::encode(row), self.name.clone(), add(amount))
    }

    /// Replaces the number of a row by `value` if that is greater or there is none. Returns the
    /// greater one. If the number stays, nothing is written, and it counts as read for update.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub fn max(&self, tx: &mut Transaction, row: R::Ref<'_>, value: V) -> Result<V> {
        change(tx, &self.table, R::encode(row), self.name.clone(), max(value))
    }

    /// As [`max`](Self::max), for the smaller one.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub fn min(&self, tx: &mut Transaction, row: R::Ref<'_>, value: V) -> Result<V> {
        change(tx, &self.table, R::encode(row), self.name.clone(), min(value))
    }
}

impl<R: Field, C: Field, V: Number> Columns<R, C, V> {
    /// Adds to a number, and returns the sum: [`Column::add`].
    ///
    /// # Errors
    /// As [`Column::add`].
    pub fn add(&self, tx: &mut Transaction, row: R::Ref<'_>, column: C::Ref<'_>, amount: V) -> Result<V> {
        change(tx, &self.table, R::encode(row), C::encode(column), add(amount))
    }

    /// Replaces a number by `value` if that is greater or there is none: [`Column::max`].
    ///
    /// # Errors
    /// As [`Column::add`].
    pub fn max(&self, tx: &mut Transaction, row: R::Ref<'_>, column: C::Ref<'_>, value: V) -> Result<V> {
        change(tx, &self.table, R::encode(row), C::encode(column), max(value))
    }

    /// Replaces a number by `value` if that is smaller or there is none: [`Column::max`].
    ///
    /// # Errors
    /// As [`Column::add`].
    pub fn min(&self, tx: &mut Transaction, row: R::Ref<'_>, column: C::Ref<'_>, value: V) -> Result<V> {
        change(tx, &self.table, R::encode(row), C::encode(column), min(value))
    }
}
