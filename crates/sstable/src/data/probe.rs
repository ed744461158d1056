//! The values of a few columns of a row, without decoding the row.

use cassette_rows::{Bound, ClusteringComparator, ColumnId, PROBED_COLUMNS, Token};

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

    /// [`probe_row`](Self::probe_row) for a partition before the token, without a deletion, that
    /// consists of one row. There must be no static columns.
    #[inline]
    pub fn probe_only_row<'a>(
        &self,
        input: &mut Input<'a>,
        before: Option<Token>,
        probed: &Probed,
        values: &mut Values<'a>,
    ) -> Parsed<bool> {
        Ok(self.pass_live_start(input, before)?
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
        values[..probed.count].fill(None);
        if flags & HAS_ALL_COLUMNS != 0 && self.probe_fixed(timestamp, input.rest(), probed, values) {
            return Ok(true);
        }
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

    /// Reads values at their [offsets](super::row_format::StoredColumns::offsets) in `cells`, which
    /// are those of a row with all columns. Returns `false` for a row in which they are elsewhere.
    #[inline]
    fn probe_fixed<'a>(
        &self,
        timestamp: i64,
        cells: &'a [u8],
        probed: &Probed,
        values: &mut Values<'a>,
    ) -> bool {
        let stored = &probed.columns[..probed.stored];
        let Some((last, _)) = stored.last() else { return true };
        let Some(offsets) = self.regulars.offsets.get(..=*last) else { return false };
        if !offsets.iter().all(|offset| cells.get(*offset) == Some(&CELL_USES_ROW_TIMESTAMP)) {
            return false;
        }
        for (number, place) in stored {
            let column = &self.regulars.columns[*number];
            let start = offsets[*number] + 1;
            let Some(value) = column.width.and_then(|width| cells.get(start..start + width)) else {
                return false;
            };
            if timestamp > column.dropped_at {
                values[*place] = Some(value);
            }
        }
        true
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

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use cassette_rows::{
        Cell, Clustering, ColumnKind, ColumnMetadata, DataType, LivenessInfo, NO_DELETION_TIME, NO_TTL,
        RowBuilder, TableId, TableMetadata,
    };

    use super::*;
    use crate::data::{Head, RowEncoder};

    const NAMES: [&str; 4] = ["a", "b", "t", "z"];

    fn table() -> TableMetadata {
        let types = [DataType::Int, DataType::BigInt, DataType::Text, DataType::Int];
        let regular = NAMES.iter().zip(types);
        let regular = regular.map(|(name, data_type)| (*name, ColumnKind::Regular, data_type));
        let keys = [("k", ColumnKind::PartitionKey), ("c", ColumnKind::Clustering)];
        let columns = keys.map(|(name, kind)| (name, kind, DataType::Int)).into_iter().chain(regular);
        let columns = columns.map(|(name, kind, data_type)| ColumnMetadata::new(name, kind, 0, data_type));
        TableMetadata::new(TableId(uuid::Uuid::nil()), "ks", "t", columns.collect(), Default::default())
    }

    /// The timestamp of rows. Columns were dropped at other ones.
    const TIMESTAMP: i64 = 5;

    fn cell(column: ColumnId, value: &[u8]) -> Cell<'_> {
        let (ttl, local_deletion_time) = (NO_TTL, NO_DELETION_TIME);
        Cell { column, path: None, value, timestamp: TIMESTAMP, ttl, local_deletion_time }
    }

    #[test]
    fn probed_values_are_those_of_decoded_rows() {
        let table = table();
        let ids = NAMES.map(|name| table.column(name).unwrap().id);
        let values: [&[u8]; 4] = [&[1; 4], &[2; 8], b"text", &[4; 4]];
        let mut probed_rows = 0;
        // Each of the four cells: as most are, null, empty, of another time, deleted, expiring.
        for kinds in 0..6usize.pow(4) {
            let kind = |place: usize| kinds / 6usize.pow(place as u32) % 6;
            let mut row = RowBuilder::new(Clustering::of(&[&[0, 0, 0, 1]]));
            row.liveness(LivenessInfo::new(TIMESTAMP));
            for (place, (id, value)) in ids.iter().zip(values).enumerate() {
                let cell = cell(*id, value);
                match kind(place) {
                    0 => row.cell(cell),
                    1 => &mut row,
                    2 => row.cell(Cell { value: &[], ..cell }),
                    3 => row.cell(Cell { timestamp: TIMESTAMP + 1, ..cell }),
                    4 => row.cell(Cell { value: &[], local_deletion_time: 9, ..cell }),
                    _ => row.cell(Cell { ttl: 7, local_deletion_time: 9, ..cell }),
                };
            }
            let row = row.finish();
            for dropped_at in [i64::MIN, TIMESTAMP] {
                let mut format = RowFormat::of_names(&table, &[], &NAMES.map(str::to_owned)).unwrap();
                format.regulars.columns[1].dropped_at = dropped_at;
                let mut out = Vec::new();
                RowEncoder::new(format.clone()).encode_row(&row, 0, &mut out).unwrap();
                let data = Bytes::from(out);
                let mut input = Input::new(&data);
                let Head::Row { flags, clustering, .. } = format.decode_head(&mut input).unwrap() else {
                    panic!("a row")
                };
                let body = input.position()..data.len();
                let decoded = format.decode_row(flags, clustering, &data, body, 0).unwrap().unwrap();
                for places in [&[0][..], &[1], &[2], &[3], &[1, 0], &[3, 1], &[0, 3, 2, 1], &[]] {
                    let wanted: Vec<_> = places.iter().map(|place| ids[*place]).collect();
                    let probed = format.probed(&wanted).unwrap();
                    let mut values = [None; PROBED_COLUMNS];
                    // Cells after the last one that is wanted and present do not matter.
                    let last = places.iter().filter(|place| kind(**place) != 1).max();
                    let lasts = last.is_none_or(|last| (0..=*last).all(|place| kind(place) < 4));
                    let is_probed = format.probe_row(&mut Input::new(&data), &probed, None, &mut values);
                    assert_eq!(is_probed.unwrap(), lasts, "{kinds}");
                    if lasts {
                        let expected: Vec<_> =
                            wanted.iter().map(|id| decoded.cell(*id).map(|cell| cell.value)).collect();
                        assert_eq!(values[..probed.count()], expected, "{kinds}");
                        probed_rows += 1;
                    }
                }
            }
        }
        assert!(probed_rows > 1_000, "{probed_rows}");
    }

    #[test]
    fn cut_rows_are_not_probed() {
        let table = table();
        let ids = NAMES.map(|name| table.column(name).unwrap().id);
        let format = RowFormat::of_names(&table, &[], &NAMES.map(str::to_owned)).unwrap();
        let mut row = RowBuilder::new(Clustering::of(&[&[0, 0, 0, 1]]));
        row.liveness(LivenessInfo::new(TIMESTAMP));
        ids.iter().zip([&[1; 4][..], &[2; 8], b"text", &[4; 4]]).for_each(|(id, value)| {
            row.cell(cell(*id, value));
        });
        let mut out = Vec::new();
        RowEncoder::new(format.clone()).encode_row(&row.finish(), 0, &mut out).unwrap();
        let probed = format.probed(&ids[..2]).unwrap();
        for length in 0..out.len() {
            let mut values = [None; PROBED_COLUMNS];
            let mut input = Input::new(&out[..length]);
            assert!(format.probe_row(&mut input, &probed, None, &mut values).is_err(), "{length}");
        }
    }
}
