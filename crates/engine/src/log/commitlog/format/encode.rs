//! Encoding records.

use cassette_vfs::encryption::{PieceCipher, TAG_LENGTH};
use crc32fast::Hasher;

use super::{
    EVENT_IMPORTED, EVENT_TRUNCATED, Event, EventKind, FRAMING_LEN, KIND_DICTIONARY, KIND_ENCRYPTED,
    KIND_ENCRYPTION, KIND_END, KIND_ENTRY, KIND_EVENT, KIND_SYNC_MARK, KIND_TIME, body_checksum,
    length_checksum, length_context,
};
use crate::log::commitlog::{Position, TableVersion};

/// Appends records to a buffer that will be written at `base` of segment `segment`.
pub(in crate::log::commitlog) struct Encoder<'a> {
    pub(in crate::log::commitlog) segment: u64,
    pub(in crate::log::commitlog) base: u32,
    /// Whether the buffer is passed to [`seal`] before it is written: dictionaries and entries have
    /// space for their tags, and no checksums.
    pub(in crate::log::commitlog) encrypted: bool,
    pub(in crate::log::commitlog) out: &'a mut Vec<u8>,
}

impl Encoder<'_> {
    /// Appends the parameters of the segment's cipher.
    pub(in crate::log::commitlog) fn encryption(&mut self, parameters: &[u8]) {
        self.record(KIND_ENCRYPTION, |out| out.extend_from_slice(parameters));
    }

    pub(in crate::log::commitlog) fn end(&mut self) {
        self.record(KIND_END, |_| {});
    }

    pub(in crate::log::commitlog) fn sync_mark(&mut self, synced: Position) {
        self.record(KIND_SYNC_MARK, |out| {
            out.extend(synced.segment.to_be_bytes());
            out.extend(synced.offset.to_be_bytes());
        });
    }

    /// Appends the time of the following records, microseconds since 1970.
    pub(in crate::log::commitlog) fn time(&mut self, micros: i64) {
        self.record(KIND_TIME, |out| out.extend(micros.to_be_bytes()));
    }

    pub(in crate::log::commitlog) fn event(&mut self, event: &Event) {
        let kind = match event.kind {
            EventKind::Truncated => EVENT_TRUNCATED,
            EventKind::Imported => EVENT_IMPORTED,
        };
        self.record(KIND_EVENT, |out| {
            out.push(kind);
            out.extend(event.table.to_be_bytes());
            out.extend(event.position.segment.to_be_bytes());
            out.extend(event.position.offset.to_be_bytes());
        });
    }

    /// Returns the appended bytes, including framing.
    pub(in crate::log::commitlog) fn dictionary(
        &mut self,
        index: u16,
        table: TableVersion,
        content: impl FnOnce(&mut Vec<u8>),
    ) -> usize {
        self.content(KIND_DICTIONARY, |out| {
            out.extend(index.to_be_bytes());
            out.extend(table.table.to_be_bytes());
            out.extend(table.schema.to_be_bytes());
            content(out);
        })
    }

    /// Returns the appended bytes, including framing.
    pub(in crate::log::commitlog) fn entry(
        &mut self,
        indexes: impl ExactSizeIterator<Item = u16>,
        content: impl FnOnce(&mut Vec<u8>),
    ) -> usize {
        self.content(KIND_ENTRY, |out| {
            // The caller limits the number of tables of a record.
            out.extend((indexes.len() as u16).to_be_bytes());
            for index in indexes {
                out.extend(index.to_be_bytes());
            }
            content(out);
        })
    }

    /// Appends a record that is encrypted in encrypted segments.
    fn content(&mut self, kind: u8, content: impl FnOnce(&mut Vec<u8>)) -> usize {
        if !self.encrypted {
            return self.record(kind, content);
        }
        self.record(KIND_ENCRYPTED, |out| {
            out.push(kind);
            content(out);
            out.extend([0; TAG_LENGTH]);
        })
    }

    fn record(&mut self, kind: u8, content: impl FnOnce(&mut Vec<u8>)) -> usize {
        let start = self.out.len();
        self.out.extend([0; 8]);
        self.out.push(kind);
        content(self.out);
        let body = start + 8;
        // A body of more than four gigabytes gets a wrong length here; the caller rejects it by its
        // size.
        let length = (self.out.len() - body) as u32;
        let length_checksum = length_checksum(self.segment, self.base.wrapping_add(start as u32), length);
        self.out[start..start + 4].copy_from_slice(&length.to_be_bytes());
        self.out[start + 4..body].copy_from_slice(&length_checksum.to_be_bytes());
        // That of an encrypted body is computed by `seal`.
        let is_final = kind != KIND_ENCRYPTED;
        let body_checksum = if is_final { body_checksum(length_checksum, &self.out[body..]) } else { 0 };
        self.out.extend(body_checksum.to_be_bytes());
        self.out.len() - start
    }
}

/// Encrypts the records in `records`, which an [`Encoder`] with `encrypted` has appended for offset
/// `base` of segment `segment`. Called once for each record.
pub(in crate::log::commitlog) fn seal(segment: u64, base: u32, records: &mut [u8], cipher: &dyn PieceCipher) {
    let mut start = 0;
    while let Some(&length) = records[start..].first_chunk() {
        let length = u32::from_be_bytes(length);
        let body = start + 8;
        let end = body + length as usize;
        if records[body] == KIND_ENCRYPTED {
            let offset = base + start as u32;
            let context = length_context(segment, offset, length);
            let tag = end - TAG_LENGTH;
            let sealed = cipher.seal(offset.into(), &context, &mut records[body + 1..tag]);
            records[tag..end].copy_from_slice(&sealed);
            let checksum = body_checksum(crc32fast::hash(&context), &records[body..end]);
            records[end..end + 4].copy_from_slice(&checksum.to_be_bytes());
        }
        start = end + 4;
    }
}

/// An entry that is encoded before its position in the log is known.
pub(in crate::log::commitlog) struct DetachedEntry {
    /// As in the log, with zeros for the parts that depend on the position: length, both checksums,
    /// and indexes.
    bytes: Vec<u8>,
    tables: usize,
    content: Hasher,
    encrypted: bool,
}

impl DetachedEntry {
    /// Encodes an entry of `tables` tables. Its content has about `size_hint` bytes.
    pub(in crate::log::commitlog) fn encode(
        tables: usize,
        size_hint: usize,
        encrypted: bool,
        content: impl FnOnce(&mut Vec<u8>),
    ) -> Self {
        let head = Self::head_len(tables) + usize::from(encrypted);
        let tag = if encrypted { TAG_LENGTH } else { 0 };
        let mut bytes = Vec::with_capacity(head + size_hint + tag + 4);
        bytes.resize(head, 0);
        content(&mut bytes);
        let mut checksum = Hasher::new();
        if !encrypted {
            checksum.update(&bytes[head..]);
        }
        bytes.resize(bytes.len() + tag + 4, 0);
        Self { bytes, tables, content: checksum, encrypted }
    }

    /// Returns the number of bytes, including framing.
    pub(in crate::log::commitlog) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the bytes to write at `offset` of segment `segment`. `indexes` has one index for
    /// each table.
    pub(in crate::log::commitlog) fn place(mut self, segment: u64, offset: u32, indexes: &[u16]) -> Vec<u8> {
        debug_assert_eq!(self.tables, indexes.len());
        let length = (self.bytes.len() - FRAMING_LEN) as u32;
        let length_checksum = length_checksum(segment, offset, length);
        let shift = usize::from(self.encrypted);
        let head = &mut self.bytes[..Self::head_len(self.tables) + shift];
        head[..4].copy_from_slice(&length.to_be_bytes());
        head[4..8].copy_from_slice(&length_checksum.to_be_bytes());
        head[8] = KIND_ENCRYPTED;
        head[8 + shift] = KIND_ENTRY;
        head[9 + shift..11 + shift].copy_from_slice(&(indexes.len() as u16).to_be_bytes());
        for (place, index) in head[11 + shift..].chunks_exact_mut(2).zip(indexes) {
            place.copy_from_slice(&index.to_be_bytes());
        }
        if self.encrypted {
            return self.bytes;
        }
        let mut checksum = Hasher::new_with_initial(length_checksum);
        checksum.update(&head[8..]);
        checksum.combine(&self.content);
        let end = self.bytes.len() - 4;
        self.bytes[end..].copy_from_slice(&checksum.finalize().to_be_bytes());
        self.bytes
    }

    /// Length, its checksum, kind, count, indexes.
    fn head_len(tables: usize) -> usize {
        8 + 1 + 2 + 2 * tables
    }
}
