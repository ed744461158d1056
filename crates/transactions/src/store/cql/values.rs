//! Encodes bound values and decodes results.

use bytes::{BufMut, Bytes, BytesMut};

use super::{Attempted, Row};
use crate::store::{PutOutcome, StoreError, StoreResult, Version, layout};

/// Encodes a bigint.
pub(super) fn bigint(value: i64) -> Bytes {
    Bytes::copy_from_slice(&value.to_be_bytes())
}

/// Encodes an int, saturating.
pub(super) fn int(value: usize) -> Bytes {
    Bytes::copy_from_slice(&i32::try_from(value).unwrap_or(i32::MAX).to_be_bytes())
}

/// Encodes `[count] ([length] [bytes])*`, all lengths 4 bytes.
pub(super) fn list<T: AsRef<[u8]>>(items: &[T]) -> Bytes {
    let mut out =
        BytesMut::with_capacity(4 + items.iter().map(|item| item.as_ref().len() + 4).sum::<usize>());
    out.put_slice(&int(items.len()));
    for item in items {
        let item = item.as_ref();
        out.put_slice(&int(item.len()));
        out.put_slice(item);
    }
    out.freeze()
}

/// Decodes a row of `column1, column2, value`.
pub(super) fn version(attempted: Attempted<'_>, row: Row) -> StoreResult<(Bytes, Version)> {
    let fail = |why: &str| StoreError::refused(attempted, why);
    let [Some(column), Some(column2), value] =
        <[Option<Bytes>; 3]>::try_from(row).map_err(|_| fail("a row with unexpected columns"))?
    else {
        return Err(fail("a row without clustering columns"));
    };
    let column2 = <[u8; 8]>::try_from(&column2[..]).map_err(|_| fail("column2: expected 8 bytes"))?;
    let timestamp = layout::timestamp(i64::from_be_bytes(column2));
    // Null is never written; a row that lost only its value was deleted in part.
    let value = value.ok_or_else(|| fail("a version without a value"))?;
    Ok((column, Version { timestamp, value }))
}

/// Returns whether a conditional statement was applied.
pub(super) fn is_applied(attempted: Attempted<'_>, names: &[String], rows: &[Row]) -> StoreResult<bool> {
    let value = names
        .iter()
        .position(|name| name == "[applied]")
        .and_then(|index| rows.first()?.get(index)?.as_ref())
        .ok_or_else(|| StoreError::unknown(attempted, "the result lacks column [applied]"))?;
    Ok(value[..] == [1])
}

/// Decodes the outcome of a conditional put.
pub(super) fn put_outcome(
    attempted: Attempted<'_>,
    names: &[String],
    rows: Vec<Row>,
) -> StoreResult<PutOutcome> {
    if is_applied(attempted, names, &rows)? {
        return Ok(PutOutcome::Applied);
    }
    let position = |wanted: &str| names.iter().position(|name| name == wanted);
    let (Some(column), Some(value)) = (position("column1"), position("value")) else {
        return Err(StoreError::refused(attempted, "the result lacks the existing values"));
    };
    let existing = rows.into_iter().map(|mut row| {
        let mut take = |index: usize| row.get_mut(index).and_then(Option::take);
        let column = take(column);
        column.zip(take(value))
    });
    match existing.collect::<Option<Vec<_>>>() {
        Some(existing) => Ok(PutOutcome::Exists(existing)),
        None => Err(StoreError::refused(attempted, "the result lacks a column or value of an existing cell")),
    }
}
