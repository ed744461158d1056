//! Rows: written cell by cell into the response, decoded without copies.
//!
//! ```text
//! <flags><columns_count>[<paging_state>][<new_metadata_id>][<global_table_spec>?<col_spec_1>…<col_spec_n>]
//! <rows_count> then rows_count * columns_count [bytes]
//! ```

use bytes::Bytes;

use crate::{
    ProtocolError, Version,
    metadata::{ResultMetadata, metadata_flag},
    notation::{Reader, write_bytes, write_int, write_short_bytes},
};

/// The longest cell whose length fits an \[int\].
const CELL_LENGTH_MAX: usize = i32::MAX as usize;

/// The metadata in a Rows result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetadataMode<'a> {
    /// All columns.
    Full,
    /// Only their number: the client has the metadata.
    Skip,
    /// All columns and their new id, because the client has older ones. Before v5 the same as
    /// `Full`.
    Changed {
        /// The id of the metadata.
        new_metadata_id: &'a [u8],
    },
}

/// Appends the body of a Rows result (after its kind) to a buffer.
///
/// Cells are pushed in the order of the columns, and [`RowsEncoder::end_row`] completes each row.
///
/// A long result can be written in pieces: [`RowsEncoder::cut`] moves the content of the buffer to
/// the pieces, so that the result never needs contiguous memory. Cells beyond the
/// [limit](RowsEncoder::limit) are omitted.
#[derive(Debug)]
#[must_use = "rows are complete only after `finish`"]
pub struct RowsEncoder<'a> {
    buffer: &'a mut Vec<u8>,
    /// The start of the result, if it is written in pieces.
    pieces: Option<&'a mut Vec<Vec<u8>>>,
    /// Bytes in the pieces.
    cut_length: usize,
    length_max: usize,
    has_exceeded: bool,
    columns_count: u32,
    /// Cells of the current row so far.
    cells: u32,
    rows: u32,
    flags_at: usize,
    paging_state_at: usize,
    rows_count_at: usize,
}

impl<'a> RowsEncoder<'a> {
    /// Writes the metadata, and reserves space for fields that are known only at the end.
    pub fn begin(
        buffer: &'a mut Vec<u8>,
        version: Version,
        metadata: &ResultMetadata,
        mode: MetadataMode<'_>,
    ) -> Self {
        let columns = metadata.encoded(version);
        let flags_at = buffer.len();
        let mode = match mode {
            MetadataMode::Changed { .. } if version < Version::V5 => MetadataMode::Full,
            mode => mode,
        };
        let flags = match mode {
            MetadataMode::Full => columns.flags(),
            // Cassandra keeps the first flag beside the second; readers must accept both.
            MetadataMode::Skip => columns.flags() | metadata_flag::NO_METADATA,
            MetadataMode::Changed { .. } => columns.flags() | metadata_flag::METADATA_CHANGED,
        };
        write_int(flags, buffer);
        write_int(columns.count(), buffer);
        let paging_state_at = buffer.len();
        if let MetadataMode::Changed { new_metadata_id } = mode {
            write_short_bytes(new_metadata_id, buffer);
        }
        if mode != MetadataMode::Skip {
            buffer.extend_from_slice(columns.specs());
        }
        let rows_count_at = buffer.len();
        write_int(0, buffer);
        Self {
            buffer,
            pieces: None,
            cut_length: 0,
            length_max: CELL_LENGTH_MAX,
            has_exceeded: false,
            columns_count: columns.count() as u32,
            cells: 0,
            rows: 0,
            flags_at,
            paging_state_at,
            rows_count_at,
        }
    }

    /// Limits the bytes of the result. Cells that would exceed it are null, and set
    /// [`has_exceeded`](Self::has_exceeded). The length of a message and of a cell is an \[int\],
    /// so no limit exceeds 2 GiB.
    pub fn limit(mut self, length_max: usize) -> Self {
        self.length_max = length_max.min(CELL_LENGTH_MAX);
        self
    }

    /// Returns whether cells were omitted because of the limit.
    #[inline]
    pub fn has_exceeded(&self) -> bool {
        self.has_exceeded
    }

    /// Enables [`cut`](Self::cut) to move the content of the buffer to `pieces`, which are empty.
    /// The buffer contains only the message of this result.
    pub fn in_pieces(mut self, pieces: &'a mut Vec<Vec<u8>>) -> Self {
        self.pieces = Some(pieces);
        self
    }

    /// Moves the content of the buffer to the pieces and continues with an empty buffer of
    /// `capacity` bytes.
    pub fn cut(&mut self, capacity: usize) {
        if let Some(pieces) = &mut self.pieces {
            self.cut_length += self.buffer.len();
            pieces.push(std::mem::replace(self.buffer, Vec::with_capacity(capacity)));
        }
    }

    /// Bytes in the buffer, without the pieces.
    #[inline]
    pub fn buffered_length(&self) -> usize {
        self.buffer.len()
    }

    /// Adds the next cell of the row; `None` is null.
    #[inline]
    pub fn push(&mut self, cell: Option<&[u8]>) {
        self.cells += 1;
        if cell.is_some_and(|cell| cell.len() > self.length_max.saturating_sub(self.length())) {
            self.has_exceeded = true;
            write_bytes(None, self.buffer);
        } else {
            write_bytes(cell, self.buffer);
        }
    }

    /// Adds the next cell of the row, which `write` appends to the buffer, for composed values.
    #[inline]
    pub fn push_with<T>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        self.cells += 1;
        let length_at = self.buffer.len();
        write_int(0, self.buffer);
        let result = write(self.buffer);
        match i32::try_from(self.buffer.len() - length_at - 4) {
            Ok(length) if self.length() <= self.length_max => {
                self.buffer[length_at..length_at + 4].copy_from_slice(&length.to_be_bytes());
            }
            _ => {
                self.has_exceeded = true;
                self.buffer.truncate(length_at);
                write_bytes(None, self.buffer);
            }
        }
        result
    }

    /// Completes the row.
    ///
    /// # Panics
    /// If it does not have as many cells as there are columns.
    #[inline]
    pub fn end_row(&mut self) {
        assert_eq!(self.cells, self.columns_count, "a row has a cell for every column");
        self.cells = 0;
        self.rows += 1;
    }

    /// Returns the number of complete rows.
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// Returns the number of bytes written so far, to limit a page by its size.
    #[inline]
    pub fn length(&self) -> usize {
        self.cut_length + self.buffer.len() - self.flags_at
    }

    /// Completes the result; a `paging_state` means that more pages follow, and where. Returns the
    /// number of rows.
    ///
    /// # Panics
    /// If a row is incomplete.
    pub fn finish(self, paging_state: Option<&[u8]>) -> u32 {
        assert_eq!(self.cells, 0, "the last row is closed before the result is finished");
        let Self { buffer, pieces, rows, flags_at, paging_state_at, rows_count_at, .. } = self;
        // The fields that are known only now are in the first piece.
        let buffer = pieces.and_then(|pieces| pieces.first_mut()).unwrap_or(buffer);
        buffer[rows_count_at..rows_count_at + 4].copy_from_slice(&rows.to_be_bytes());
        if let Some(paging_state) = paging_state {
            buffer[flags_at + 3] |= metadata_flag::HAS_MORE_PAGES as u8;
            // Its place is before the rows, but only the last row determines it. One move of a page
            // that is sent over a socket anyway costs less than computing it in advance.
            let end = buffer.len();
            write_bytes(Some(paging_state), buffer);
            let added = buffer.len() - end;
            buffer[paging_state_at..].rotate_right(added);
        }
        rows
    }
}

/// The encoded body of a Rows result, in the encoding of one version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedRows {
    body: Bytes,
    version: Version,
}

impl EncodedRows {
    /// Wraps the output of [`RowsEncoder`] or a peer's bytes. [`EncodedRows::decode`] checks them.
    pub fn new(body: Bytes, version: Version) -> Self {
        Self { body, version }
    }

    /// Returns the encoded bytes.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// Checks and decodes the bytes. `known` replaces omitted metadata.
    pub fn decode(&self, known: Option<&ResultMetadata>) -> Result<Rows, ProtocolError> {
        Rows::decode(&self.body, self.version, known)
    }
}

/// A Rows result with verified lengths, so that reading it cannot fail.
#[derive(Debug, Clone)]
pub struct Rows {
    /// The columns; none if the metadata was omitted and is unknown.
    pub metadata: ResultMetadata,
    /// The new id of the metadata, if the client's is out of date.
    pub new_metadata_id: Option<Bytes>,
    /// Where the next page starts; `None` on the last page.
    pub paging_state: Option<Bytes>,
    columns_count: usize,
    rows_count: usize,
    content: Bytes,
}

impl Rows {
    fn decode(body: &Bytes, version: Version, known: Option<&ResultMetadata>) -> Result<Self, ProtocolError> {
        let mut reader = Reader::new(body);
        let flags = reader.read_int()?;
        let has = |flag| flags & flag != 0;
        let columns_count = reader.read_length("the list of columns")?;
        let paging_state =
            if has(metadata_flag::HAS_MORE_PAGES) { reader.read_bytes_shared()? } else { None };
        let new_metadata_id = if has(metadata_flag::METADATA_CHANGED) && version >= Version::V5 {
            Some(reader.read_short_bytes()?)
        } else {
            None
        };
        let metadata = if has(metadata_flag::NO_METADATA) {
            known.filter(|known| known.columns().len() == columns_count).cloned().unwrap_or_default()
        } else {
            ResultMetadata::decode_columns(
                &mut reader,
                columns_count,
                has(metadata_flag::GLOBAL_TABLES_SPEC),
            )?
        };
        let rows_count = reader.read_length("the list of rows")?;
        if columns_count == 0 && rows_count > 0 {
            return Err(ProtocolError::Invalid(format!("{rows_count} rows without columns")));
        }
        let content = reader.rest();
        for _ in 0..rows_count {
            for _ in 0..columns_count {
                reader.read_bytes()?;
            }
        }
        Ok(Self { metadata, new_metadata_id, paging_state, columns_count, rows_count, content })
    }

    /// Returns the number of columns per row.
    pub fn columns_count(&self) -> usize {
        self.columns_count
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.rows_count
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows_count == 0
    }

    /// The rows in order.
    pub fn iter(&self) -> RowsIter<'_> {
        RowsIter {
            cells: Cells { content: &self.content, left: usize::MAX },
            columns_count: self.columns_count,
            left: self.rows_count,
        }
    }
}

impl<'a> IntoIterator for &'a Rows {
    type Item = Cells<'a>;
    type IntoIter = RowsIter<'a>;

    fn into_iter(self) -> RowsIter<'a> {
        self.iter()
    }
}

/// Iterates over rows; each is an iterator over its cells.
#[derive(Debug, Clone)]
pub struct RowsIter<'a> {
    cells: Cells<'a>,
    columns_count: usize,
    left: usize,
}

impl<'a> Iterator for RowsIter<'a> {
    type Item = Cells<'a>;

    fn next(&mut self) -> Option<Cells<'a>> {
        self.left = self.left.checked_sub(1)?;
        let row = Cells { content: self.cells.content, left: self.columns_count };
        self.cells.left = self.columns_count;
        self.cells.by_ref().for_each(drop);
        Some(row)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for RowsIter<'_> {}

/// The cells of one row in the order of the columns; `None` is null.
#[derive(Debug, Clone)]
pub struct Cells<'a> {
    content: &'a [u8],
    left: usize,
}

impl<'a> Iterator for Cells<'a> {
    type Item = Option<&'a [u8]>;

    fn next(&mut self) -> Option<Option<&'a [u8]>> {
        self.left = self.left.checked_sub(1)?;
        // `Rows::decode` has checked every length, so the early returns are unreachable.
        let (length, rest) = self.content.split_first_chunk::<4>()?;
        match usize::try_from(i32::from_be_bytes(*length)) {
            Ok(length) => {
                let (cell, rest) = rest.split_at_checked(length)?;
                self.content = rest;
                Some(Some(cell))
            }
            Err(_) => {
                self.content = rest;
                Some(None)
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Cells<'_> {}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cassette_rows::DataType;

    use super::*;
    use crate::ColumnSpec;

    fn metadata() -> ResultMetadata {
        let name = |name: &str| Arc::<str>::from(name);
        let column = |column| ColumnSpec {
            keyspace: name("ks"),
            table: name("t"),
            name: name(column),
            data_type: DataType::Blob,
        };
        ResultMetadata::new(vec![column("a"), column("b")])
    }

    fn push_rows(encoder: &mut RowsEncoder<'_>, cut_at: usize) {
        for n in 0..100u32 {
            encoder.push(Some(&n.to_be_bytes()));
            encoder.push_with(|buffer| buffer.extend_from_slice(&[7; 30]));
            encoder.end_row();
            if encoder.buffered_length() >= cut_at {
                encoder.cut(10);
            }
        }
    }

    #[test]
    fn rows_in_pieces_are_those_in_one_piece() {
        let (mut whole, mut last, mut pieces) = (Vec::new(), Vec::new(), Vec::new());
        let mut encoder = RowsEncoder::begin(&mut whole, Version::V5, &metadata(), MetadataMode::Full);
        push_rows(&mut encoder, usize::MAX);
        encoder.finish(Some(b"state"));
        let encoder = RowsEncoder::begin(&mut last, Version::V5, &metadata(), MetadataMode::Full);
        let mut encoder = encoder.in_pieces(&mut pieces);
        push_rows(&mut encoder, 500);
        let length = encoder.length();
        assert_eq!(encoder.finish(Some(b"state")), 100);
        assert!(pieces.len() > 5);
        pieces.push(last);
        assert_eq!(pieces.concat(), whole);
        assert_eq!(length, whole.len() - 4 - 5, "all but the paging state");
    }

    #[test]
    fn cells_beyond_the_limit_are_left_out_and_reported() {
        for (by_slice, length) in [(true, 60), (false, 60), (true, 10), (false, 10)] {
            let mut body = Vec::new();
            let encoder = RowsEncoder::begin(&mut body, Version::V4, &metadata(), MetadataMode::Skip);
            let mut encoder = encoder.limit(80);
            encoder.push(Some(&[1; 10]));
            if by_slice {
                encoder.push(Some(&vec![2; length]));
            } else {
                encoder.push_with(|buffer| buffer.extend_from_slice(&vec![2; length]));
            }
            encoder.end_row();
            assert_eq!(encoder.has_exceeded(), length == 60);
            assert!(encoder.length() <= 80);
            encoder.finish(None);
            let rows = EncodedRows::new(body.into(), Version::V4).decode(Some(&metadata())).unwrap();
            let second = rows.iter().next().unwrap().nth(1).unwrap();
            assert_eq!(second.is_none(), length == 60);
        }
    }
}
