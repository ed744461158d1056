//! Reads the stream of Data.db from any position, one row at a time.

mod passing;

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use cassette_rows::{
    Bound, Clustering, ClusteringComparator, DecoratedKey, DeletionTime, PartitionHeader,
    RangeTombstoneMarker, Result, Row, StorageError, Unfiltered,
};

use super::RowFormat;
use super::decode::Head;
use crate::chunked_file::{Caching, ChunkedFile, Piece};
use crate::clustering_codec::{self, ClusteringCodec, MarkerKind};
use crate::error::Parsed;
use crate::input::Input;
use crate::read_ahead::ReadAhead;

/// A position in the stream, and the bytes around it.
///
/// The window is a piece of the stream, shared with the cache, or a copy of the end of one and the
/// beginning of the next. A row within one piece is decoded in place.
#[derive(Debug)]
pub struct Cursor {
    file: Arc<ChunkedFile>,
    format: Arc<RowFormat>,
    caching: Caching,
    /// Whether it reads a partition, and blocks where that is faster.
    in_blocks: bool,
    window: Bytes,
    /// Offset of the window in the stream.
    window_start: u64,
    /// The next byte to read, counted in the window.
    position: usize,
    /// The last chunks read, with their numbers: a row across two of them must not cause either to
    /// be read twice.
    recent: [(u64, Bytes); 2],
    ahead: ReadAhead,
}

/// No chunk has this number.
const NO_CHUNK: u64 = u64::MAX;

/// A row or marker whose body has not been read yet; or the end of the partition.
#[derive(Debug)]
pub struct Pending {
    head: Head,
    /// Its offset in the stream.
    start: u64,
}

impl Pending {
    /// Returns whether the partition ends here.
    pub fn is_end(&self) -> bool {
        self.head == Head::EndOfPartition
    }

    /// Returns its position in the partition's order; `None` at the end.
    pub fn position(&self) -> Option<cassette_rows::Position<'_>> {
        match &self.head {
            Head::EndOfPartition => None,
            Head::Row { clustering, .. } => Some(clustering.into()),
            Head::Marker { bound, .. } => Some(bound.position()),
        }
    }

    /// Returns its offset in the stream.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Returns whether it is a row without a deletion of the row.
    pub fn is_live_row(&self) -> bool {
        matches!(self.head, Head::Row { flags, .. } if flags.0 & super::flags::HAS_DELETION == 0)
    }

    /// Returns whether it is a row whose primary key is live at any time, and that is not deleted.
    pub fn is_lasting_row(&self) -> bool {
        matches!(self.head, Head::Row { flags, .. } if RowFormat::is_lasting(flags.0) && flags.1 == 0)
    }

    /// Appends its prefix in the encoding of the row index; nothing at the end.
    pub fn encode_prefix(&self, codec: &ClusteringCodec, out: &mut Vec<u8>) {
        match &self.head {
            Head::EndOfPartition => {}
            Head::Row { clustering, .. } => {
                out.push(clustering_codec::ROW);
                codec.encode_values(clustering, out);
            }
            Head::Marker { bound, kind, .. } => codec.encode_bound(bound, *kind, out),
        }
    }

    /// Returns the clustering of a row, and the length of its body.
    pub fn row(&self) -> Option<(&Clustering, usize)> {
        match &self.head {
            Head::Row { clustering, body_length, .. } => Some((clustering, *body_length)),
            _ => None,
        }
    }

    /// Returns the offset of the end of its body, which begins at offset `body`; `None` at the end.
    pub fn end_of_body(&self, body: u64) -> Option<u64> {
        match self.head {
            Head::EndOfPartition => None,
            Head::Row { body_length, .. } | Head::Marker { body_length, .. } => {
                body.checked_add(body_length as u64)
            }
        }
    }

    /// Returns whether it is a marker.
    pub fn is_marker(&self) -> bool {
        matches!(self.head, Head::Marker { .. })
    }
}

impl Cursor {
    /// Creates a cursor at the start of the stream.
    pub fn new(file: Arc<ChunkedFile>, format: Arc<RowFormat>, caching: Caching) -> Self {
        let recent = [const { (NO_CHUNK, Bytes::new()) }; 2];
        let ahead = ReadAhead::new();
        Self {
            file,
            format,
            caching,
            in_blocks: false,
            window: Bytes::new(),
            window_start: 0,
            position: 0,
            recent,
            ahead,
        }
    }

    /// Creates a cursor for reading a partition.
    pub fn of_partition(file: Arc<ChunkedFile>, format: Arc<RowFormat>) -> Self {
        Self { in_blocks: true, ..Self::new(file, format, Caching::Use) }
    }

    /// Returns the offset of the next byte in the stream.
    pub fn offset(&self) -> u64 {
        self.window_start + self.position as u64
    }

    /// Returns whether the stream has ended.
    pub fn at_end(&self) -> bool {
        self.offset() >= self.file.data_length()
    }

    /// Moves to `offset` of the stream. Keeps the window if it contains the offset.
    pub fn seek(&mut self, offset: u64) {
        match offset.checked_sub(self.window_start) {
            Some(position) if position <= self.window.len() as u64 => self.position = position as usize,
            _ => {
                self.window = Bytes::new();
                self.window_start = offset;
                self.position = 0;
            }
        }
    }

    /// Reads nothing ahead from `offset` of the stream on.
    pub fn read_ahead_until(&mut self, offset: u64) {
        self.ahead.end_at(offset.div_ceil(self.file.chunk_length()));
    }

    /// Loads the bytes at the position.
    pub fn load(&mut self) -> Result<()> {
        self.fill(1)
    }

    /// Returns the file that is read.
    pub fn file(&self) -> &Arc<ChunkedFile> {
        &self.file
    }

    /// Returns whether reads fill the cache.
    pub fn caching(&self) -> Caching {
        self.caching
    }

    /// Returns the row format.
    pub fn format(&self) -> &Arc<RowFormat> {
        &self.format
    }

    /// Extends the window to `wanted` bytes from the position, or to the end of the stream.
    #[inline]
    fn fill(&mut self, wanted: usize) -> Result<()> {
        if self.window.len() - self.position >= wanted {
            return Ok(());
        }
        self.fill_slowly(wanted)
    }

    fn fill_slowly(&mut self, wanted: usize) -> Result<()> {
        let offset = self.offset();
        let end = offset.saturating_add(wanted as u64).min(self.file.data_length());
        if end <= self.window_start + self.window.len() as u64 {
            return Ok(());
        }
        let window_end = self.window_start + self.window.len() as u64;
        // Unless the rest of the window is the end of a piece, one piece may have all of the bytes.
        if offset >= window_end || !self.file.may_end_piece(window_end) {
            let Piece { start, bytes } = self.piece(offset)?;
            self.window = bytes;
            self.window_start = start;
            self.position = (offset - start) as usize;
            if end <= start + self.window.len() as u64 {
                return Ok(());
            }
        }
        let mut assembly = Vec::with_capacity((end - offset) as usize);
        assembly.extend_from_slice(self.window.get(self.position..).unwrap_or_default());
        let mut missing = offset + assembly.len() as u64;
        while missing < end {
            let Piece { start, bytes } = self.piece(missing)?;
            let to = (end - start).min(bytes.len() as u64) as usize;
            let found = bytes.get((missing - start) as usize..to).filter(|found| !found.is_empty());
            let Some(found) = found else { return Err(self.corrupt(missing, "more bytes expected")) };
            assembly.extend_from_slice(found);
            missing += found.len() as u64;
        }
        self.window = assembly.into();
        self.window_start = offset;
        self.position = 0;
        Ok(())
    }

    /// Returns the piece with the byte at `offset` of the stream.
    fn piece(&mut self, offset: u64) -> Result<Piece> {
        if self.in_blocks {
            return self.file.piece_of_partition(offset, &mut self.ahead);
        }
        let length = self.file.chunk_length();
        let index = offset / length;
        if let Some((_, chunk)) = self.recent.iter().find(|(number, _)| *number == index) {
            return Ok(Piece { start: index * length, bytes: chunk.clone() });
        }
        let bytes = self.file.chunk_after(index, self.caching, &mut self.ahead)?;
        // Chunks in the cache need not be kept here as well.
        if self.caching != Caching::Use {
            self.recent.swap(0, 1);
            self.recent[0] = (index, bytes.clone());
        }
        Ok(Piece { start: index * length, bytes })
    }

    /// Applies `parse` with as many bytes as it needs.
    ///
    /// A failure of `parse` can be caused by missing or by invalid bytes, so it is repeated with
    /// more of them until the stream ends. Most items are in the window at once.
    fn parse<T>(&mut self, parse: impl Fn(&RowFormat, &mut Input<'_>) -> Parsed<T>) -> Result<T> {
        // Most heads are shorter. A longer one is parsed again after each doubling.
        let mut wanted = 64;
        self.fill(1)?;
        loop {
            let mut input = Input::over(&self.window, self.position, self.window_start);
            match parse(&self.format, &mut input) {
                Ok(parsed) => {
                    self.position = input.position();
                    return Ok(parsed);
                }
                Err(malformed) => {
                    let before = self.window.len() - self.position;
                    let at_end = self.window_start + self.window.len() as u64 >= self.file.data_length();
                    if at_end || before >= MAX_HEAD {
                        return Err(malformed.at(self.file.path()));
                    }
                    wanted = (before + 1).max(wanted);
                    self.fill(wanted)?;
                    wanted *= 2;
                }
            }
        }
    }

    /// Reads key and deletion at the start of a partition.
    fn partition_start(&mut self) -> Result<(Range<usize>, DeletionTime)> {
        self.parse(|format, input| {
            let key = input.bytes16()?;
            let range = input.position() - key.len()..input.position();
            Ok((range, format.partition_deletion(input)?))
        })
    }

    /// Reads the static row, if the header contains static columns.
    pub fn static_row(&mut self) -> Result<Option<Row>> {
        if self.format.statics.is_empty() {
            return Ok(None);
        }
        let start = self.offset();
        match self.parse(RowFormat::decode_head)? {
            Head::Row { flags, clustering, body_length } if flags.1 & super::flags::IS_STATIC != 0 => {
                self.row(flags, clustering, body_length)
            }
            _ => Err(self.corrupt(start, "a static row expected")),
        }
    }

    /// Reads a partition up to its first row or marker.
    pub fn partition_header(&mut self) -> Result<PartitionHeader> {
        let (key, deletion) = self.key_and_deletion()?;
        Ok(PartitionHeader { key, deletion, static_row: self.static_row()? })
    }

    /// Reads a partition up to its static row.
    pub fn key_and_deletion(&mut self) -> Result<(DecoratedKey, DeletionTime)> {
        let (key, deletion) = self.partition_start()?;
        // The key keeps the chunk alive, as the rows do. Callers that keep keys for longer copy
        // them.
        Ok((DecoratedKey::new(self.window.slice(key)), deletion))
    }

    /// Does [`Self::partition_header`] if the partition has this key; returns `None`, with the
    /// cursor at an undefined position, if it has another.
    pub fn partition_header_if(&mut self, expected: &DecoratedKey) -> Result<Option<PartitionHeader>> {
        let (key, deletion) = self.partition_start()?;
        if self.window[key] != *expected.key() {
            return Ok(None);
        }
        Ok(Some(PartitionHeader { key: expected.clone(), deletion, static_row: self.static_row()? }))
    }

    /// Reads the next complete row or marker; returns `None` after the partition's end marker.
    /// Skips rows of which nothing is left.
    #[inline]
    pub fn next_unfiltered(&mut self) -> Result<Option<Unfiltered>> {
        loop {
            // Most rows are completely in the window and are decoded in one step.
            let mut input = Input::over(&self.window, self.position, self.window_start);
            match self.format.decode_head(&mut input) {
                Ok(Head::Row { flags, clustering, body_length })
                    if body_length <= input.remaining() && flags.1 & super::flags::IS_STATIC == 0 =>
                {
                    self.position = input.position();
                    if let Some(row) = self.row(flags, clustering, body_length)? {
                        return Ok(Some(Unfiltered::Row(row)));
                    }
                    continue;
                }
                Ok(Head::EndOfPartition) => {
                    self.position = input.position();
                    return Ok(None);
                }
                _ => {}
            }
            let pending = self.next_head()?;
            if pending.is_end() {
                return Ok(None);
            }
            if let Some(unfiltered) = self.body(pending)? {
                return Ok(Some(unfiltered));
            }
        }
    }

    /// Reads the head of the next row or marker. The caller must read or skip its body next.
    pub fn next_head(&mut self) -> Result<Pending> {
        let start = self.offset();
        let head = self.parse(RowFormat::decode_head)?;
        if matches!(head, Head::Row { flags, .. } if flags.1 & super::flags::IS_STATIC != 0) {
            return Err(self.corrupt(start, "a row expected, a static one found"));
        }
        Ok(Pending { head, start })
    }

    /// Reads the body after `pending`'s head. Returns `None` for a row of which nothing is left,
    /// and at the end.
    pub fn body(&mut self, pending: Pending) -> Result<Option<Unfiltered>> {
        match pending.head {
            Head::EndOfPartition => Ok(None),
            Head::Row { flags, clustering, body_length } => {
                Ok(self.row(flags, clustering, body_length)?.map(Unfiltered::Row))
            }
            Head::Marker { bound, kind, body_length } => {
                Ok(Some(self.marker(bound, kind, body_length)?.into()))
            }
        }
    }

    /// Returns the length of the row or marker before the one whose body begins at the position;
    /// after the first of a partition, the distance from the partition's start. Does not move.
    pub fn length_of_previous(&mut self) -> Result<u64> {
        let body = self.offset();
        let length = self.parse(|_, input| input.vint())?;
        self.seek(body);
        Ok(length)
    }

    /// Skips rows before `bound` without decoding them, as far as they are completely in the
    /// window. A block of a partition's index can contain thousands of small rows before the
    /// required one. `passed` receives the start, end and encoded clustering of each, and returns
    /// whether to continue.
    #[inline]
    pub fn pass_rows_before(
        &mut self,
        bound: &Bound,
        comparator: &ClusteringComparator,
        mut passed: impl FnMut(u64, u64, &[u8]) -> bool,
    ) -> Result<()> {
        self.fill(1)?;
        let mut input = Input::over(&self.window, self.position, self.window_start);
        while let Ok(Some(clustering)) = self.format.pass_row_before(&mut input, bound, comparator) {
            let start = self.offset();
            self.position = input.position();
            if !passed(start, self.offset(), clustering) {
                break;
            }
        }
        Ok(())
    }

    /// Skips the body of a row or marker. A read forward must read markers, because they determine
    /// the open deletion.
    pub fn skip_body(&mut self, pending: &Pending) {
        if let Head::Row { body_length, .. } | Head::Marker { body_length, .. } = pending.head {
            self.seek(self.offset() + body_length as u64);
        }
    }

    /// Skips rows that begin before `end` and are completely in the window, and appends the offset
    /// of each to `starts`. Stops early at a marker, at the end of the partition, and at rows with
    /// rare features.
    pub fn pass_rows(&mut self, end: u64, starts: &mut Vec<u64>) -> Result<()> {
        self.fill(1)?;
        let mut input = Input::over(&self.window, self.position, self.window_start);
        while self.offset() < end && matches!(self.format.pass_row(&mut input), Ok(true)) {
            starts.push(self.offset());
            self.position = input.position();
        }
        Ok(())
    }

    /// Skips the rest of the partition.
    pub fn skip_partition(&mut self) -> Result<()> {
        loop {
            let pending = self.next_head()?;
            if pending.is_end() {
                return Ok(());
            }
            self.skip_body(&pending);
        }
    }

    fn row(&mut self, flags: (u8, u8), clustering: Clustering, length: usize) -> Result<Option<Row>> {
        let body = self.take(length)?;
        load_lines(&self.window[body.clone()]);
        let row = self.format.decode_row(flags, clustering, &self.window, body, self.window_start);
        row.map_err(|e| e.at(self.file.path()))
    }

    fn marker(
        &mut self,
        bound: cassette_rows::Bound,
        kind: MarkerKind,
        length: usize,
    ) -> Result<RangeTombstoneMarker> {
        let body = self.take(length)?;
        let input = Input::over(&self.window[..body.end], body.start, self.window_start);
        self.format.decode_marker(bound, kind, input).map_err(|e| e.at(self.file.path()))
    }

    /// Returns the window's range of the next `length` bytes and skips them.
    #[inline]
    fn take(&mut self, length: usize) -> Result<Range<usize>> {
        self.fill(length)?;
        if self.window.len() - self.position < length {
            let left = self.file.data_length().saturating_sub(self.offset());
            return Err(
                self.corrupt(self.offset(), &format!("{length} bytes of a row expected, {left} left"))
            );
        }
        let start = self.position;
        self.position += length;
        Ok(start..self.position)
    }

    /// Creates an error with the file and an offset in its stream.
    #[cold]
    pub fn corrupt(&self, offset: u64, detail: &str) -> StorageError {
        StorageError::corrupt(self.file.path(), format!("at {offset} of the uncompressed data: {detail}"))
    }
}

/// Prefetches the cache lines of a row. Decoding locates each cell by the length of the one before
/// it, and would otherwise wait for memory once per cell.
#[inline]
fn load_lines(bytes: &[u8]) {
    const LINE: usize = 64;
    /// About as many lines as a processor loads concurrently: 64.
    const LINES: usize = 64;
    let firsts = bytes.iter().step_by(LINE).take(LINES);
    std::hint::black_box(firsts.fold(0, |all, byte| all | byte));
}

/// The maximum length of a head: 65535 bytes for each of some clustering columns. Limits the bytes
/// read for a damaged one.
const MAX_HEAD: usize = 64 << 20;
