//! Typed columns: maps the names and values of a program to the bytes of the store.

use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::encoding::DecodeError;
use crate::error::{Error, Result};
use crate::store::Cell;
use crate::{Table, Transaction};

/// Types of rows, columns and values: text, bytes, integers, flags, unit, and with [`Json`] any
/// serde type. Encodings are persisted. As names, they sort like the values they encode.
///
/// | type | bytes |
/// | --- | --- |
/// | `String` | UTF-8 |
/// | `Bytes` | as they are |
/// | `u32`, `u64` | 4, 8 bytes, big-endian |
/// | `i32`, `i64` | the same of the number with its sign flipped |
/// | `bool` | 0 or 1 |
/// | `()` | 1: only its existence matters |
pub trait Field: Sized {
    /// Argument type: `&str` for text, numbers by value.
    type Ref<'a>: Copy;

    /// Encodes a value.
    fn encode(field: Self::Ref<'_>) -> Bytes;

    /// Decodes a value.
    ///
    /// # Errors
    /// If the bytes do not encode this type.
    fn decode(bytes: &Bytes) -> Result<Self, DecodeError>;
}

impl Field for String {
    type Ref<'a> = &'a str;

    fn encode(field: &str) -> Bytes {
        Bytes::copy_from_slice(field.as_bytes())
    }

    fn decode(bytes: &Bytes) -> Result<Self, DecodeError> {
        Self::from_utf8(bytes.to_vec()).map_err(|error| DecodeError::new("text", bytes, error.to_string()))
    }
}

impl Field for Bytes {
    type Ref<'a> = &'a [u8];

    fn encode(field: &[u8]) -> Bytes {
        Bytes::copy_from_slice(field)
    }

    fn decode(bytes: &Bytes) -> Result<Self, DecodeError> {
        Ok(bytes.clone())
    }
}

/// `$flip` turns the unsigned order of the stored bytes into the order of the type.
macro_rules! integer {
    ($type:ty, $flip:expr) => {
        impl Field for $type {
            type Ref<'a> = $type;

            fn encode(field: $type) -> Bytes {
                Bytes::copy_from_slice(&(field ^ $flip).to_be_bytes())
            }

            fn decode(bytes: &Bytes) -> Result<Self, DecodeError> {
                let array = bytes[..].try_into().map_err(|_| {
                    let expected = format!("expected {} bytes for {}", size_of::<$type>(), stringify!($type));
                    DecodeError::new("number", bytes, expected)
                })?;
                Ok(<$type>::from_be_bytes(array) ^ $flip)
            }
        }
    };
}

integer!(u32, 0);
integer!(u64, 0);
integer!(i32, i32::MIN);
integer!(i64, i64::MIN);

impl Field for bool {
    type Ref<'a> = bool;

    fn encode(field: bool) -> Bytes {
        Bytes::from_static(if field { &[1] } else { &[0] })
    }

    fn decode(bytes: &Bytes) -> Result<Self, DecodeError> {
        match bytes[..] {
            [0] => Ok(false),
            [1] => Ok(true),
            _ => Err(DecodeError::new("flag", bytes, "expected 0 or 1")),
        }
    }
}

impl Field for () {
    type Ref<'a> = ();

    fn encode((): ()) -> Bytes {
        Bytes::from_static(&[1])
    }

    fn decode(bytes: &Bytes) -> Result<Self, DecodeError> {
        match bytes[..] {
            [1] => Ok(()),
            _ => Err(DecodeError::new("presence", bytes, "not 1")),
        }
    }
}

/// Any serde type, as JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Json<T>(pub T);

impl<T: Serialize + DeserializeOwned + 'static> Field for Json<T> {
    type Ref<'a> = &'a T;

    fn encode(field: &T) -> Bytes {
        // Fails only for maps with keys that are not text. The empty result is then rejected as an
        // empty value.
        serde_json::to_vec(field).unwrap_or_default().into()
    }

    fn decode(bytes: &Bytes) -> Result<Self, DecodeError> {
        serde_json::from_slice(bytes)
            .map(Self)
            .map_err(|error| DecodeError::new("JSON", bytes, error.to_string()))
    }
}

/// A column with a fixed name: rows of type `R` have values of type `V` in it.
///
/// ```
/// # use cassette_transactions::{ConflictHandler, Result, Transactions};
/// # fn example(transactions: &Transactions) -> Result<()> {
/// let accounts = transactions.table("accounts", ConflictHandler::WriteWriteByCell)?;
/// let balance = accounts.column::<String, i64>("balance");
/// transactions.run(|tx| {
///     let before = balance.get(tx, "alice")?.unwrap_or(0);
///     balance.put(tx, "alice", before + 20)
/// })
/// # }
/// ```
#[derive(Debug)]
pub struct Column<R, V> {
    pub(crate) table: Table,
    pub(crate) name: Bytes,
    types: PhantomData<fn(R) -> V>,
}

/// Columns whose names are data of type `C`: rows of type `R` have values of type `V` in any number
/// of them, in order.
///
/// ```
/// # use cassette_transactions::{ConflictHandler, Result, Transactions};
/// # fn example(transactions: &Transactions) -> Result<()> {
/// let readings = transactions.table("readings", ConflictHandler::WriteWriteByCell)?.columns::<String, u64, i64>();
/// transactions.run(|tx| readings.put(tx, "kitchen", 1_700_000_000, 21))?;
/// let since = transactions.read(|tx| readings.range(tx, "kitchen", 1_600_000_000.., 100))?;
/// assert_eq!(since, [(1_700_000_000, 21)]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Columns<R, C, V> {
    pub(crate) table: Table,
    types: PhantomData<fn(R, C) -> V>,
}

impl<R, V> Clone for Column<R, V> {
    fn clone(&self) -> Self {
        Self { table: self.table.clone(), name: self.name.clone(), types: PhantomData }
    }
}

impl<R, C, V> Clone for Columns<R, C, V> {
    fn clone(&self) -> Self {
        Self { table: self.table.clone(), types: PhantomData }
    }
}

impl Table {
    /// Returns the typed column `name`.
    pub fn column<R: Field, V: Field>(&self, name: &str) -> Column<R, V> {
        Column { table: self.clone(), name: Bytes::copy_from_slice(name.as_bytes()), types: PhantomData }
    }

    /// Returns typed columns whose names are data.
    pub fn columns<R: Field, C: Field, V: Field>(&self) -> Columns<R, C, V> {
        Columns { table: self.clone(), types: PhantomData }
    }
}

/// Decodes bytes of a table.
pub(crate) fn decode<T: Field>(table: &Table, bytes: &Bytes) -> Result<T> {
    T::decode(bytes).map_err(|error| Error::OtherType { table: table.name().to_owned(), error })
}

fn decode_option<T: Field>(table: &Table, bytes: Option<Bytes>) -> Result<Option<T>> {
    bytes.map(|bytes| decode(table, &bytes)).transpose()
}

impl<R: Field, V: Field> Column<R, V> {
    /// Returns the value of a row.
    ///
    /// # Errors
    /// The errors of [`Transaction::get`], and `OtherType`.
    pub fn get(&self, tx: &Transaction, row: R::Ref<'_>) -> Result<Option<V>> {
        decode_option(&self.table, tx.get(&self.table, R::encode(row), &self.name)?)
    }

    /// Returns the values of several rows, in order, with one read.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn get_many<'r>(
        &self,
        tx: &Transaction,
        rows: impl IntoIterator<Item = R::Ref<'r>>,
    ) -> Result<Vec<Option<V>>> {
        let cells: Vec<Cell> =
            rows.into_iter().map(|row| Cell::new(R::encode(row), self.name.clone())).collect();
        let values = tx.get_many(&self.table, &cells)?;
        values.into_iter().map(|value| decode_option(&self.table, value)).collect()
    }

    /// Returns the value of a row, and makes the commit fail if another transaction changes it:
    /// [`Transaction::get_for_update`].
    ///
    /// # Errors
    /// The errors of [`Transaction::get_for_update`], and `OtherType`.
    pub fn get_for_update(&self, tx: &Transaction, row: R::Ref<'_>) -> Result<Option<V>> {
        decode_option(&self.table, tx.get_for_update(&self.table, R::encode(row), &self.name)?)
    }

    /// Buffers the write of a row's value until the commit.
    ///
    /// # Errors
    /// The errors of [`Transaction::put`]. Empty text is rejected because it would be a deletion.
    pub fn put(&self, tx: &mut Transaction, row: R::Ref<'_>, value: V::Ref<'_>) -> Result<()> {
        tx.put(&self.table, R::encode(row), &self.name, V::encode(value))
    }

    /// Buffers the deletion of a row's value until the commit.
    pub fn delete(&self, tx: &mut Transaction, row: R::Ref<'_>) -> Result<()> {
        tx.delete(&self.table, R::encode(row), &self.name)
    }
}

impl<R: Field, V: Field> Columns<R, String, V> {
    /// Returns the columns of a row whose names begin with `prefix`, as [`iter`](Self::iter).
    pub fn prefix<'t>(
        &'t self,
        tx: &'t Transaction,
        row: R::Ref<'_>,
        prefix: &str,
    ) -> impl DoubleEndedIterator<Item = Result<(String, V)>> + use<'t, R, V> {
        let found = tx.prefix(&self.table, R::encode(row), prefix);
        found.map(|column| self.typed(column?))
    }
}

impl<R: Field, C: Field, V: Field> Columns<R, C, V> {
    /// Returns the columns of a row within bounds, with their values, as an iterator in order that
    /// reads page by page and can be reversed: [`Transaction::range`].
    ///
    /// ```
    /// # use cassette_transactions::{ConflictHandler, Result, Transactions};
    /// # fn example(transactions: &Transactions) -> Result<()> {
    /// let readings = transactions.table("readings", ConflictHandler::WriteWriteByCell)?.columns::<String, u64, i64>();
    /// let newest = transactions.read(|tx| readings.iter(tx, "kitchen", ..).next_back().transpose())?;
    /// # drop(newest);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Each item: the errors of [`Transaction::columns`], and `OtherType`.
    pub fn iter<'t, 'c, B: RangeBounds<C::Ref<'c>>>(
        &'t self,
        tx: &'t Transaction,
        row: R::Ref<'_>,
        columns: B,
    ) -> impl DoubleEndedIterator<Item = Result<(C, V)>> + use<'t, R, C, V, B> {
        let encode = |bound: Bound<&C::Ref<'c>>| bound.map(|column| C::encode(*column));
        let bounds = (encode(columns.start_bound()), encode(columns.end_bound()));
        let found = tx.range(&self.table, R::encode(row), bounds);
        found.map(|column| self.typed(column?))
    }

    fn typed(&self, (column, value): (Bytes, Bytes)) -> Result<(C, V)> {
        Ok((decode(&self.table, &column)?, decode(&self.table, &value)?))
    }

    /// Returns the value of a row in a column.
    ///
    /// # Errors
    /// The errors of [`Transaction::get`], and `OtherType`.
    pub fn get(&self, tx: &Transaction, row: R::Ref<'_>, column: C::Ref<'_>) -> Result<Option<V>> {
        decode_option(&self.table, tx.get(&self.table, R::encode(row), C::encode(column))?)
    }

    /// Returns the value of a row in a column, and makes the commit fail if another transaction
    /// changes it: [`Transaction::get_for_update`].
    ///
    /// # Errors
    /// The errors of [`Transaction::get_for_update`], and `OtherType`.
    pub fn get_for_update(&self, tx: &Transaction, row: R::Ref<'_>, column: C::Ref<'_>) -> Result<Option<V>> {
        decode_option(&self.table, tx.get_for_update(&self.table, R::encode(row), C::encode(column))?)
    }

    /// Returns the values of several columns of a row, in order, with one read.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn get_many<'c>(
        &self,
        tx: &Transaction,
        row: R::Ref<'_>,
        columns: impl IntoIterator<Item = C::Ref<'c>>,
    ) -> Result<Vec<Option<V>>> {
        let row = R::encode(row);
        let cells: Vec<Cell> =
            columns.into_iter().map(|column| Cell::new(row.clone(), C::encode(column))).collect();
        let values = tx.get_many(&self.table, &cells)?;
        values.into_iter().map(|value| decode_option(&self.table, value)).collect()
    }

    /// Returns up to `limit` columns of a row in order, with their values.
    ///
    /// # Errors
    /// The errors of [`Transaction::columns`], and `OtherType`.
    pub fn range<'c>(
        &self,
        tx: &Transaction,
        row: R::Ref<'_>,
        columns: impl RangeBounds<C::Ref<'c>>,
        limit: usize,
    ) -> Result<Vec<(C, V)>> {
        let encode = |bound: Bound<&C::Ref<'c>>| bound.map(|column| C::encode(*column));
        let bounds = (encode(columns.start_bound()), encode(columns.end_bound()));
        let found = tx.columns(&self.table, R::encode(row), bounds, limit)?;
        found.into_iter().map(|column| self.typed(column)).collect()
    }

    /// Buffers the write of a value until the commit.
    ///
    /// # Errors
    /// The errors of [`Transaction::put`]. Empty text is rejected because it would be a deletion.
    pub fn put(
        &self,
        tx: &mut Transaction,
        row: R::Ref<'_>,
        column: C::Ref<'_>,
        value: V::Ref<'_>,
    ) -> Result<()> {
        tx.put(&self.table, R::encode(row), C::encode(column), V::encode(value))
    }

    /// Buffers the deletion of a value until the commit.
    pub fn delete(&self, tx: &mut Transaction, row: R::Ref<'_>, column: C::Ref<'_>) -> Result<()> {
        tx.delete(&self.table, R::encode(row), C::encode(column))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn same<F: Field + PartialEq + std::fmt::Debug>(field: F::Ref<'_>, expected: F) {
        assert_eq!(F::decode(&F::encode(field)), Ok(expected));
    }

    #[test]
    fn encoded_fields_decode_to_the_same_values() {
        same::<String>("grün", "grün".to_owned());
        same::<Bytes>(&[0, 255], Bytes::from_static(&[0, 255]));
        same::<bool>(true, true);
        same::<()>((), ());
        same::<Json<Vec<u8>>>(&vec![1, 2], Json(vec![1, 2]));
        assert!(!<()>::encode(()).is_empty() && !bool::encode(false).is_empty(), "empty would be a deletion");
    }

    #[test]
    fn decoding_another_type_reports_expected_and_found() {
        let error = i64::decode(&Bytes::from_static(b"70")).unwrap_err();
        assert_eq!(error.to_string(), "number 0x3730: expected 8 bytes for i64");
        assert!(String::decode(&Bytes::from_static(&[0xff])).is_err());
        assert!(bool::decode(&Bytes::from_static(&[2])).is_err());
        assert!(Json::<u8>::decode(&Bytes::from_static(b"{")).is_err());
        assert!(<()>::decode(&Bytes::new()).is_err());
    }

    proptest! {
        #[test]
        fn numbers_sort_as_their_bytes_do(a: i64, b: i64, c: u32, d: u32, e: i32, f: i32) {
            prop_assert_eq!(i64::encode(a).cmp(&i64::encode(b)), a.cmp(&b));
            prop_assert_eq!(u32::encode(c).cmp(&u32::encode(d)), c.cmp(&d));
            prop_assert_eq!(i32::encode(e).cmp(&i32::encode(f)), e.cmp(&f));
            prop_assert_eq!(i64::decode(&i64::encode(a)), Ok(a));
            prop_assert_eq!(i32::decode(&i32::encode(e)), Ok(e));
            prop_assert_eq!(u64::decode(&u64::encode(a as u64)), Ok(a as u64));
        }
    }
}
