//! The values of a few columns of a row, without decoding the row.

use cassette_rows::{Bound, ClusteringComparator, ColumnId, PROBED_COLUMNS};

use super::decode::body_length;
use super::flags::*;
use super::row_format::{RowFormat, StoredColumn};
use crate::clustering_codec::FEW;
use crate::error::Parsed;
use crate::input::Input;

/// The values of a probe, by the position of their columns in it.
pub type Values<'a> = [Option<&'a [u8]>; PROBED_COLUMNS];

/// The end of the rows that are probed: only rows before the bound are.
pub type End<'e> = Option<(&'e Bound, &'e ClusteringComparator)>;

/// The columns of a probe in the rows of one SSTable.
#[derive(Debug)]
pub struct Probed {
    /// The number of a column in the header, and its number in the probe; ascending.
    columns: [(usize, usize); PROBED_COLUMNS],
    /// The number of those that the header has.
    stored: usize,
    /// The number of columns of the probe.
    count: usize,
}

impl Probed {
    /// Returns the number of columns of the probe.
    pub fn count(&self) -> usize {
        self.count
    }
}

impl RowFormat {
    /// Locates the columns of a probe; `None` if it cannot be answered without decoding rows.
    /// Columns that the header lacks are null.
    pub fn probed(&self, ids: &[ColumnId]) -> Option<Probed> {
        if ids.len() > PROBED_COLUMNS {
            return None;
        }
        let (mut columns, mut count) = ([(0, 0); PROBED_COLUMNS], 0);
        for (number, stored) in self.regulars.columns.iter().enumerate() {
            if let Some(place) = ids.iter().position(|id| stored.id == Some(*id)) {
                if stored.complex {
                    return None;
                }
                *columns.get_mut(count)? = (number, place);
                count += 1;
            }
        }
        Some(Probed { columns, stored: count, count: ids.len() })
    }

    /// Reads the values of a row that [lasts](Self::is_lasting) and is before `end`, and skips it.
    /// Returns `false`, with `input` at an undefined position, for other items, and for rows that
    /// have to be decoded.
    #[inline]
    pub fn probe_row<'a>(
        &self,
        input: &mut Input<'a>,
        probed: &Probed,
        end: End<'_>,
        values: &mut Values<'a>,
    ) -> Parsed<bool> {
        let flags = input.u8()?;
        if !Self::is_lasting(flags) {
            return Ok(false);
        }
        match end {
            None => self.clustering.skip_values(input, self.clustering.columns())?,
            Some((bound, comparator)) => {
                let mut clustering = [None; FEW];
                match self.clustering.borrow_values(input, &mut clustering)? {
                    Some(count) if comparator.is_row_before(&clustering[..count], bound) => {}
                    _ => return Ok(false),
                }
            }
        }
        let length = body_length(input)?;
        self.probe_body(flags, &mut Input::new(input.bytes(length)?), probed, values)
    }

    /// [`probe_row`](Self::probe_row) for a partition without a deletion that consists of one row.
    /// There must be no static columns.
    #[inline]
    pub fn probe_only_row<'a>(
        &self,
        input: &mut Input<'a>,
        probed: &Probed,
        values: &mut Values<'a>,
    ) -> Parsed<bool> {
        input.bytes16()?;
        Ok(self.partition_deletion(input)?.is_live()
            && self.probe_row(input, probed, None, values)?
            && input.u8()? == END_OF_PARTITION)
    }

    /// Reads values in the body of a row, of which `input` consists.
    #[inline]
    fn probe_body<'a>(
        &self,
        flags: u8,
        input: &mut Input<'a>,
        probed: &Probed,
        values: &mut Values<'a>,
    ) -> Parsed<bool> {
        // The size of the previous row.
        input.vint()?;
        let timestamp = self.timestamp(input)?;
        *values = [None; PROBED_COLUMNS];
        let columns = &self.regulars.columns[..];
        let all = 1u64.checked_shl(columns.len() as u32).map_or(u64::MAX, |bit| bit - 1);
        let missing = if flags & HAS_ALL_COLUMNS != 0 {
            0
        } else if columns.len() < 64 {
            input.vint()?
        } else {
            // Lists of many columns are decoded with the row.
            return Ok(false);
        };
        if missing & !all != 0 {
            return Ok(false);
        }
        let is_present = |number: usize| number >= 64 || missing >> number & 1 == 0;
        let mut next = 0;
        for (wanted, place) in &probed.columns[..probed.stored] {
            if !is_present(*wanted) {
                continue;
            }
            for column in columns[next..*wanted].iter().zip(next..).filter(|(_, number)| is_present(*number))
            {
                if !self.probe_column(column.0, timestamp, input, &mut None)? {
                    return Ok(false);
                }
            }
            if !self.probe_column(&columns[*wanted], timestamp, input, &mut values[*place])? {
                return Ok(false);
            }
            next = wanted + 1;
        }
        Ok(true)
    }

    /// Reads a column; its value, too, if it is a simple one. Returns `false` at cells that are
    /// deleted or expire.
    #[inline]
    fn probe_column<'a>(
        &self,
        column: &StoredColumn,
        row_timestamp: i64,
        input: &mut Input<'a>,
        value: &mut Option<&'a [u8]>,
    ) -> Parsed<bool> {
        if column.complex {
            for _ in 0..input.count(2)? {
                if !self.probe_cell(column, row_timestamp, input, &mut None)? {
                    return Ok(false);
                }
            }
            return Ok(true);
        }
        self.probe_cell(column, row_timestamp, input, value)
    }

    #[inline]
    fn probe_cell<'a>(
        &self,
        column: &StoredColumn,
        row_timestamp: i64,
        input: &mut Input<'a>,
        value: &mut Option<&'a [u8]>,
    ) -> Parsed<bool> {
        let flags = input.u8()?;
        if flags & !(CELL_USES_ROW_TIMESTAMP | CELL_HAS_EMPTY_VALUE) != 0 {
            return Ok(false);
        }
        let timestamp =
            if flags & CELL_USES_ROW_TIMESTAMP != 0 { row_timestamp } else { self.timestamp(input)? };
        if column.complex {
            input.bytes_vint()?;
        }
        let bytes = match (flags & CELL_HAS_EMPTY_VALUE != 0, column.complex, column.width) {
            (true, _, _) => &[],
            (false, false, Some(width)) => input.bytes(width)?,
            _ => input.bytes_vint()?,
        };
        if timestamp > column.dropped_at {
            *value = Some(bytes);
        }
        Ok(true)
    }
}
