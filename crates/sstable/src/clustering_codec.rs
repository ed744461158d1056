//! The encoding of clustering values and bounds in Data.db and Index.db.
//!
//! ```text
//! values:  per group of 32: vint header, two bits a value: bit 2i empty, bit 2i+1 null; then the values that are
//!          neither, of fixed width without a length, others as vint length + bytes
//! bound:   u8 kind, u16 number of values, values
//! row:     u8 kind 4, values            in Index.db only
//! ```

use bytes::BufMut;
use cassette_rows::{Bound, Clustering, ClusteringComparator, DataType, Position, Side};

use crate::error::{Malformed, Parsed};
use crate::input::Input;
use crate::output::Output;

/// Values in a group, which share a header.
const GROUP: usize = 32;

/// The kind byte of a row.
pub const ROW: u8 = 4;

/// The kind byte of a marker: its side of the prefix, and whether deletions end and begin there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MarkerKind {
    /// The bound's side.
    pub side: Side,
    /// Whether a deletion ends.
    pub closes: bool,
    /// Whether a deletion begins.
    pub opens: bool,
}

impl MarkerKind {
    /// Returns the byte. Every marker closes or opens.
    pub const fn byte(self) -> u8 {
        match (self.side, self.closes, self.opens) {
            // Exclusive end, inclusive start, exclusive end and inclusive start: all before the
            // prefix's rows.
            (Side::Before, true, false) => 0,
            (Side::Before, false, _) => 1,
            (Side::Before, true, true) => 2,
            // Inclusive end and exclusive start, inclusive end, exclusive start: after them.
            (Side::After, true, true) => 5,
            (Side::After, true, false) => 6,
            (Side::After, false, _) => 7,
        }
    }

    fn from_byte(byte: u8) -> Option<Self> {
        let kind = |side, closes, opens| Some(Self { side, closes, opens });
        match byte {
            0 => kind(Side::Before, true, false),
            1 => kind(Side::Before, false, true),
            2 => kind(Side::Before, true, true),
            5 => kind(Side::After, true, true),
            6 => kind(Side::After, true, false),
            7 => kind(Side::After, false, true),
            _ => None,
        }
    }
}

/// Nearly all tables have at most this many clustering columns: their values are located without an
/// allocation.
pub const FEW: usize = 8;

/// The encoding of a table's clustering columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusteringCodec {
    /// The width of each column's values, `None` if they follow their length.
    widths: Box<[Option<usize>]>,
    /// The width of all values of a row together, if each has a fixed one and they share a header.
    row_width: Option<usize>,
}

/// An owned position in a partition: the first or last one of an index block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Prefix {
    /// A row.
    Row(Clustering),
    /// A marker.
    Bound(Bound),
}

impl Prefix {
    /// Returns its position in the partition's order.
    pub fn position(&self) -> Position<'_> {
        match self {
            Self::Row(clustering) => clustering.into(),
            Self::Bound(bound) => bound.position(),
        }
    }
}

impl ClusteringCodec {
    /// Creates the codec for clustering columns of these types.
    pub fn new<'a>(types: impl IntoIterator<Item = &'a DataType>) -> Self {
        let widths: Box<[_]> = types.into_iter().map(DataType::fixed_width).collect();
        let add = |sum: usize, width: &Option<usize>| sum.checked_add((*width)?);
        let row_width = match widths.len() {
            1..=GROUP => widths.iter().try_fold(0, add),
            _ => None,
        };
        Self { widths, row_width }
    }

    /// The number of clustering columns.
    pub fn columns(&self) -> usize {
        self.widths.len()
    }

    /// Returns the expected and the actual width of the first value of `clustering` where they
    /// differ.
    #[inline]
    pub fn wrong_width(&self, clustering: &Clustering) -> Option<(usize, usize)> {
        let mut values = clustering.values().zip(&self.widths);
        values.find_map(|(value, width)| match (value, width) {
            (Some(value), Some(width)) if !value.is_empty() && value.len() != *width => {
                Some((*width, value.len()))
            }
            _ => None,
        })
    }

    /// Writes the values of `clustering`, which can be fewer than the columns. Their
    /// [width](Self::wrong_width) must be right.
    #[inline]
    pub fn encode_values(&self, clustering: &Clustering, out: &mut Vec<u8>) {
        if clustering.is_empty() {
            return;
        }
        for start in (0..clustering.len()).step_by(GROUP) {
            let group = || clustering.values().skip(start).take(GROUP);
            let header = group().enumerate().fold(0u64, |bits, (i, value)| match value {
                None => bits | 2 << (2 * i),
                Some([]) => bits | 1 << (2 * i),
                Some(_) => bits,
            });
            out.put_vint(header);
            for (value, width) in group().zip(&self.widths[start..]) {
                match (value, width) {
                    (None | Some([]), _) => {}
                    (Some(value), Some(_)) => out.put_slice(value),
                    (Some(value), None) => out.put_bytes_vint(value),
                }
            }
        }
    }

    /// Reads `count` values.
    #[inline]
    pub fn decode_values(&self, input: &mut Input<'_>, count: usize) -> Parsed<Clustering> {
        if count == 0 {
            return Ok(Clustering::empty());
        }
        if count <= FEW {
            let mut values = [None; FEW];
            self.decode_into(input, &mut values[..count])?;
            return Ok(Clustering::new(values[..count].iter().copied()));
        }
        let mut values = vec![None; count];
        self.decode_into(input, &mut values)?;
        Ok(Clustering::new(values.iter().copied()))
    }

    /// Locates the values of a row without copying them; `None` for a table with many clustering
    /// columns, with `input` at an undefined position.
    #[inline]
    pub fn borrow_values<'a>(
        &self,
        input: &mut Input<'a>,
        values: &mut [Option<&'a [u8]>; FEW],
    ) -> Parsed<Option<usize>> {
        match values.get_mut(..self.columns()) {
            Some(values) => self.decode_into(input, values).map(|()| Some(self.columns())),
            None => Ok(None),
        }
    }

    #[inline]
    fn decode_into<'a>(&self, input: &mut Input<'a>, values: &mut [Option<&'a [u8]>]) -> Parsed<()> {
        let mut header = 0;
        for (index, (value, width)) in values.iter_mut().zip(&self.widths).enumerate() {
            let place = index % GROUP;
            if place == 0 {
                header = input.vint()?;
            }
            *value = match header >> (2 * place) & 3 {
                0 => Some(match width {
                    Some(width) => input.bytes(*width)?,
                    None => input.bytes_vint()?,
                }),
                1 => Some(&[]),
                2 => None,
                _ => return Err(both_empty_and_null(input)),
            };
        }
        Ok(())
    }

    /// Skips `count` values.
    #[inline]
    pub fn skip_values(&self, input: &mut Input<'_>, count: usize) -> Parsed<()> {
        let widths = self.widths.get(..count).unwrap_or(&self.widths);
        match self.row_width {
            Some(row_width) if count == self.widths.len() => match input.vint()? {
                0 => input.bytes(row_width).map(|_| ()),
                header => skip_group(widths, header, input),
            },
            _ => widths.chunks(GROUP).try_for_each(|group| {
                let header = input.vint()?;
                skip_group(group, header, input)
            }),
        }
    }

    /// Writes a marker's kind, count and values.
    pub fn encode_bound(&self, bound: &Bound, kind: MarkerKind, out: &mut Vec<u8>) {
        out.put_u8(kind.byte());
        out.put_u16(bound.prefix.len() as u16);
        self.encode_values(&bound.prefix, out);
    }

    /// Reads a marker's kind, count and values.
    pub fn decode_bound(&self, input: &mut Input<'_>) -> Parsed<(Bound, MarkerKind)> {
        let at = input.offset();
        let byte = input.u8()?;
        match MarkerKind::from_byte(byte) {
            Some(kind) => Ok((self.decode_rest_of_bound(input, kind)?, kind)),
            None => Err(Malformed::new(at, format!("the kind of a bound expected, {byte} found"))),
        }
    }

    fn decode_rest_of_bound(&self, input: &mut Input<'_>, kind: MarkerKind) -> Parsed<Bound> {
        let count = self.count_of_bound(input)?;
        Ok(Bound { prefix: self.decode_values(input, count)?, side: kind.side })
    }

    fn count_of_bound(&self, input: &mut Input<'_>) -> Parsed<usize> {
        let count = usize::from(input.u16()?);
        if count <= self.columns() {
            Ok(count)
        } else {
            Err(input
                .malformed(format!("a bound of up to {} values expected, of {count} found", self.columns())))
        }
    }

    /// Decodes the first or last position of a block in Index.db.
    pub fn decode_prefix(&self, input: &mut Input<'_>) -> Parsed<Prefix> {
        let at = input.offset();
        match input.u8()? {
            ROW => Ok(Prefix::Row(self.decode_values(input, self.columns())?)),
            byte => match MarkerKind::from_byte(byte) {
                Some(kind) => Ok(Prefix::Bound(self.decode_rest_of_bound(input, kind)?)),
                None => Err(Malformed::new(at, format!("the kind of a row or bound expected, {byte} found"))),
            },
        }
    }

    /// Skips the bytes of [`decode_prefix`](Self::decode_prefix).
    pub fn skip_prefix(&self, input: &mut Input<'_>) -> Parsed<()> {
        let count = match input.u8()? {
            ROW => self.columns(),
            _ => self.count_of_bound(input)?,
        };
        self.skip_values(input, count)
    }

    /// Returns whether the position of [`decode_prefix`](Self::decode_prefix) sorts before `bound`.
    /// Leaves `input` at an undefined position.
    pub fn is_prefix_before(
        &self,
        input: &mut Input<'_>,
        bound: &Bound,
        comparator: &ClusteringComparator,
    ) -> Parsed<bool> {
        let mut values = [None; FEW];
        let mut row = input.clone();
        if row.u8()? == ROW
            && let Some(count) = self.borrow_values(&mut row, &mut values)?
        {
            return Ok(comparator.is_row_before(&values[..count], bound));
        }
        Ok(comparator.compare(self.decode_prefix(input)?.position(), bound.position()).is_lt())
    }
}

/// Skips the values of a group after their header.
fn skip_group(widths: &[Option<usize>], header: u64, input: &mut Input<'_>) -> Parsed<()> {
    for (place, width) in widths.iter().enumerate() {
        match (header >> (2 * place) & 3, width) {
            (0, Some(width)) => input.bytes(*width)?,
            (0, None) => input.bytes_vint()?,
            (1 | 2, _) => continue,
            _ => return Err(both_empty_and_null(input)),
        };
    }
    Ok(())
}

#[cold]
fn both_empty_and_null(input: &Input<'_>) -> Malformed {
    input.malformed("a clustering value that is both empty and null")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_null_and_many_values_read_back() {
        let types: Vec<_> =
            (0..40).map(|i| if i % 2 == 0 { DataType::Int } else { DataType::Text }).collect();
        let codec = ClusteringCodec::new(&types);
        let values: Vec<Option<&[u8]>> = (0..40)
            .map(|i| match i % 5 {
                0 => Some(&[][..]),
                1 => None,
                _ => Some(b"four".as_slice()),
            })
            .collect();
        for count in [0, 1, 31, 32, 33, 40] {
            let clustering = Clustering::new(values[..count].iter().copied());
            let mut out = Vec::new();
            codec.encode_values(&clustering, &mut out);
            let mut input = Input::new(&out);
            assert_eq!(codec.decode_values(&mut input, count).unwrap(), clustering);
            input.end().unwrap();
            let mut input = Input::new(&out);
            codec.skip_values(&mut input, count).unwrap();
            input.end().unwrap();
        }
    }

    #[test]
    fn rows_of_fixed_widths_are_skipped_with_their_empty_and_null_values() {
        for columns in [1, 2, 31, 32, 33] {
            let types: Vec<_> = (0..columns)
                .map(|i| [DataType::Int, DataType::BigInt, DataType::Uuid][i % 3].clone())
                .collect();
            let codec = ClusteringCodec::new(&types);
            for seed in 0..8 {
                let values = types.iter().enumerate().map(|(i, data_type)| match (seed * (i + 1)) % 7 {
                    5 => None,
                    6 => Some(&[][..]),
                    _ => data_type.fixed_width().map(|width| &[7; 16][..width]),
                });
                let clustering = Clustering::new(values);
                let mut out = Vec::new();
                codec.encode_values(&clustering, &mut out);
                let mut input = Input::new(&out);
                codec.skip_values(&mut input, columns).unwrap();
                input.end().unwrap();
                let short = &out[..out.len() - 1];
                assert!(codec.skip_values(&mut Input::new(short), columns).is_err());
            }
        }
    }

    #[test]
    fn kinds_read_back() {
        for byte in [0, 1, 2, 5, 6, 7] {
            assert_eq!(MarkerKind::from_byte(byte).unwrap().byte(), byte);
        }
        let codec = ClusteringCodec::new(&[DataType::Int]);
        for bad in [&[3, 0, 0][..], &[4, 0, 0], &[8, 0, 0], &[1, 0, 2]] {
            assert!(codec.decode_bound(&mut Input::new(bad)).is_err(), "{bad:?}");
        }
    }
}
