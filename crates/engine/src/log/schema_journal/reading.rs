//! Reading the journal's file, in pieces.

use std::io;

use cassette_vfs::RandomAccessFile;

use super::{FRAMING_LEN, HEADER_LEN, JournalRecord, VERSION, header, length_checksum};

/// Bytes that are searched at a time.
const PIECE: usize = 64 << 10;
/// Bytes of a record before its content: 4 length + 4 checksum of it.
const PREFIX_LEN: usize = 8;

/// The contents of a journal's file.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The intact records.
    pub records: Vec<JournalRecord>,
    /// Damage that a crash does not explain.
    pub damage: Option<String>,
    /// A tail that cannot be decoded.
    pub torn: Option<String>,
    /// Whether the file is that of a journal without records.
    pub is_pristine: bool,
}

impl Found {
    /// Reads a file. The caller has checked its length.
    pub fn read(file: &dyn RandomAccessFile) -> io::Result<Self> {
        let mut input = Input::new(file)?;
        let mut start = [0; HEADER_LEN];
        let read = file.read_at(&mut start, 0)?;
        let has_header = start[..read] == *header();
        let is_pristine = has_header && input.length == HEADER_LEN as u64;
        let mut found = Self { is_pristine, ..Self::default() };
        if !has_header {
            found.damage = Some(format!("expected the header of version {VERSION}, found other bytes"));
        }
        let mut offset = HEADER_LEN as u64;
        while offset < input.length {
            if let Some((record, end)) = input.record_at(offset)? {
                found.records.push(record);
                offset = end;
                continue;
            }
            if input.next_not_zero(offset)?.is_none() {
                break;
            }
            let Some(next) = input.next_record(offset + 1)? else {
                found.torn = Some(format!("expected a record at byte {offset}, found other bytes"));
                break;
            };
            let detail = format!("expected a record at byte {offset}, found the next one at byte {next}");
            found.damage.get_or_insert(detail);
            offset = next;
        }
        Ok(found)
    }
}

/// A file, and a piece of it in memory.
struct Input<'f> {
    file: &'f dyn RandomAccessFile,
    length: u64,
    piece: Vec<u8>,
    /// The offset of `piece`.
    begins: u64,
}

impl<'f> Input<'f> {
    fn new(file: &'f dyn RandomAccessFile) -> io::Result<Self> {
        Ok(Self { file, length: file.len()?, piece: Vec::new(), begins: 0 })
    }

    /// Returns the bytes from `offset` to the end of a piece: at least `wanted`, unless the file
    /// ends before.
    fn bytes(&mut self, offset: u64, wanted: usize) -> io::Result<&[u8]> {
        let left = self.length.saturating_sub(offset);
        let in_piece = |input: &Self| {
            let skipped = usize::try_from(offset.checked_sub(input.begins)?).ok()?;
            (skipped <= input.piece.len()).then_some(skipped)
        };
        let wanted = wanted.min(usize::try_from(left).unwrap_or(usize::MAX));
        if in_piece(self).is_none_or(|skipped| self.piece.len() - skipped < wanted) {
            self.piece.resize(PIECE.min(usize::try_from(left).unwrap_or(PIECE)), 0);
            self.file.read_exact_at(&mut self.piece, offset)?;
            self.begins = offset;
        }
        Ok(in_piece(self).and_then(|skipped| self.piece.get(skipped..)).unwrap_or_default())
    }

    /// Returns the intact record at `offset`, and its end. Its content is read only if the checksum
    /// of its length matches and the file is long enough.
    fn record_at(&mut self, offset: u64) -> io::Result<Option<(JournalRecord, u64)>> {
        let Some((length, rest)) = self.bytes(offset, PREFIX_LEN)?.split_first_chunk() else {
            return Ok(None);
        };
        let Some((checksum, _)) = rest.split_first_chunk() else { return Ok(None) };
        let length = u32::from_be_bytes(*length);
        let end = offset + FRAMING_LEN as u64 + u64::from(length);
        if u32::from_be_bytes(*checksum) != length_checksum(offset, length) || end > self.length {
            return Ok(None);
        }
        let mut content = vec![0; length as usize + 4];
        self.file.read_exact_at(&mut content, offset + PREFIX_LEN as u64)?;
        let Some((content, checksum)) = content.split_last_chunk() else { return Ok(None) };
        if u32::from_be_bytes(*checksum) != crc32fast::hash(content) {
            return Ok(None);
        }
        Ok(JournalRecord::decode(content).map(|record| (record, end)))
    }

    /// Returns the first offset from `from` on of an intact record.
    fn next_record(&mut self, from: u64) -> io::Result<Option<u64>> {
        let mut offset = from;
        // At least one of the four bytes of a length is not zero: continue where the next nonzero
        // byte could be the last of four.
        while let Some(at) = self.next_not_zero(offset)? {
            offset = offset.max(at.saturating_sub(3));
            if self.record_at(offset)?.is_some() {
                return Ok(Some(offset));
            }
            offset += 1;
        }
        Ok(None)
    }

    /// Returns the first offset from `from` on of a byte that is not zero.
    fn next_not_zero(&mut self, from: u64) -> io::Result<Option<u64>> {
        let mut offset = from;
        while offset < self.length {
            let bytes = self.bytes(offset, 1)?;
            if let Some(at) = bytes.iter().position(|byte| *byte != 0) {
                return Ok(Some(offset + at as u64));
            }
            offset += bytes.len() as u64;
        }
        Ok(None)
    }
}
