//! `writetime`, `maxwritetime` and `ttl`: functions of the metadata of cells.

use cassette_rows::types::collection;
use cassette_rows::{Cell, ColumnMetadata, DataType};

use super::expression::{Expression, Input};
use crate::basics::error::Result;
use crate::planning::terms::Bound;

/// The kind of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CellTime {
    /// Microseconds since 1970.
    WriteTime,
    /// The latest write timestamp of a collection.
    MaxWriteTime,
    /// Remaining seconds.
    Ttl,
}

/// The times of a column, or of a part of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Times {
    /// There is no cell.
    None,
    /// The time of a single cell; `None` without TTL.
    One(Option<i64>),
    /// The times of a collection or UDT, one for each element or field.
    Many(Vec<Option<i64>>),
}

impl CellTime {
    /// Returns the function's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::WriteTime => "writetime",
            Self::MaxWriteTime => "maxwritetime",
            Self::Ttl => "ttl",
        }
    }

    /// Returns the type of the result for a column with one cell, or with many.
    pub fn data_type(self, is_multi_cell: bool) -> DataType {
        let one = match self {
            Self::WriteTime | Self::MaxWriteTime => DataType::BigInt,
            Self::Ttl => DataType::Int,
        };
        if is_multi_cell && self != Self::MaxWriteTime { DataType::list(one).freeze() } else { one }
    }

    fn of(self, cell: &Cell<'_>, now: u32) -> Option<i64> {
        match self {
            Self::WriteTime | Self::MaxWriteTime => Some(cell.timestamp),
            Self::Ttl => cell.is_expiring().then(|| i64::from(cell.local_deletion_time.saturating_sub(now))),
        }
    }

    fn append(self, time: i64, out: &mut Vec<u8>) {
        match self {
            Self::WriteTime | Self::MaxWriteTime => out.extend_from_slice(&time.to_be_bytes()),
            Self::Ttl => out.extend_from_slice(&i32::try_from(time).unwrap_or(i32::MAX).to_be_bytes()),
        }
    }
}

impl Times {
    /// Returns the value of the function; `None` is null.
    pub fn write(self, what: CellTime) -> Option<Vec<u8>> {
        let one = |time: i64| {
            let mut out = Vec::with_capacity(8);
            what.append(time, &mut out);
            out
        };
        match self {
            Self::None => None,
            Self::One(time) => time.map(one),
            Self::Many(times) if what == CellTime::MaxWriteTime => times.into_iter().flatten().max().map(one),
            Self::Many(times) if times.is_empty() => None,
            Self::Many(times) => {
                let mut out = Vec::new();
                collection::write_count(&mut out, times.len());
                for time in times {
                    collection::write_item(&mut out, time.map(one).as_deref());
                }
                Some(out)
            }
        }
    }

    /// Returns the time of one element or field; a single cell determines the time of all.
    fn get(self, index: usize) -> Self {
        match self {
            Self::Many(times) => times.get(index).map_or(Self::None, |time| Self::One(*time)),
            whole => whole,
        }
    }

    fn slice(self, range: std::ops::Range<usize>) -> Self {
        match self {
            _ if range.is_empty() => Self::None,
            Self::Many(times) => times.get(range).map_or(Self::None, |part| Self::Many(part.to_vec())),
            whole => whole,
        }
    }
}

/// Returns the times of `of`: a column, or fields, elements and slices of one.
pub(crate) fn of(of: &Expression, what: CellTime, input: Input<'_, '_>) -> Result<Times> {
    let term = |index: usize| input.terms.get(index).and_then(Bound::value);
    Ok(match of {
        Expression::Column(column) => of_column(column, what, input),
        Expression::Masked(masked) => of_column(&masked.column, what, input),
        Expression::Field(inner, index) => match of.evaluate(input)? {
            Some(_) => crate::planning::select::cell_times::of(inner, what, input)?.get(*index),
            None => Times::None,
        },
        Expression::Element(collection, key) => match (collection.of.evaluate(input)?, term(*key)) {
            (Some(whole), Some(key)) => match collection.index_of(&whole, key) {
                Some(index) => {
                    crate::planning::select::cell_times::of(&collection.of, what, input)?.get(index)
                }
                None => Times::None,
            },
            _ => Times::None,
        },
        Expression::Slice(collection, from, to) => match collection.of.evaluate(input)? {
            Some(whole) => {
                let range = collection.indexes(&whole, from.and_then(term), to.and_then(term));
                crate::planning::select::cell_times::of(&collection.of, what, input)?.slice(range)
            }
            None => Times::None,
        },
        _ => Times::None,
    })
}

fn of_column(column: &ColumnMetadata, what: CellTime, input: Input<'_, '_>) -> Times {
    let now = input.now();
    if !column.data_type.is_multi_cell() {
        let cell = input.row.and_then(|row| row.cell(column, now));
        return cell.map_or(Times::None, |cell| Times::One(what.of(&cell, now)));
    }
    let mut cells = input.row.into_iter().flat_map(|row| row.cells(column, now)).peekable();
    if cells.peek().is_none() {
        return Times::None;
    }
    match &column.data_type {
        DataType::Udt { definition, .. } => {
            let mut times = vec![None; definition.fields.len()];
            for cell in cells {
                let index = cell.path.and_then(|path| path.try_into().ok()).map(u16::from_be_bytes);
                if let Some(time) = index.and_then(|index| times.get_mut(usize::from(index))) {
                    *time = what.of(&cell, now);
                }
            }
            Times::Many(times)
        }
        _ => Times::Many(cells.map(|cell| what.of(&cell, now)).collect()),
    }
}
