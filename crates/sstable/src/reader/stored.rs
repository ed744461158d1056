//! The bytes of an SSTable as they are stored, for copies of it elsewhere.

use std::sync::Arc;

use bytes::Bytes;
use cassette_rows::{Result, StorageError};
use cassette_vfs::RandomAccessFile;

use super::SSTableReader;
use super::open::open_file;
use crate::chunked_file::Layout;
use crate::compression::CompressionInfo;
use crate::descriptor::{Component, Version};

/// Bytes of a piece: few enough to stay in a processor's cache between its read, its checksums and
/// its use.
const PIECE: usize = 256 << 10;

/// Reads a component from front to back, as it is stored. Data and the Index of version nb are
/// compared with their checksums; the other components were when the SSTable was opened.
pub struct StoredComponent<'r> {
    reader: &'r SSTableReader,
    component: Component,
    file: Arc<dyn RandomAccessFile>,
    length: u64,
    /// The next chunk, and the chunks; none are left where there are no checksums.
    chunk: u64,
    chunks: u64,
    offset: u64,
    /// The last piece.
    piece: Vec<u8>,
}

impl SSTableReader {
    /// Returns how Data is compressed; `None` if it is not.
    pub fn compression(&self) -> Option<&CompressionInfo> {
        match self.shared.data.layout() {
            Layout::Compressed(info) => Some(info),
            Layout::Plain { .. } => None,
        }
    }

    /// Returns chunk `index` of a compressed Data as it is stored, followed by its checksum, with
    /// which it has been compared.
    pub fn stored_chunk(&self, index: u64) -> Result<Bytes> {
        self.shared.data.stored_chunk(index)
    }

    /// Starts to read a component.
    pub fn stored(&self, component: Component) -> Result<StoredComponent<'_>> {
        let (file, length) = open_file((&self.shared.file_system, &self.shared.descriptor), component)?;
        let (data, index) = (&self.shared.data, &self.shared.index);
        let chunks = match component {
            Component::Data => data.data_length().div_ceil(data.chunk_length()),
            Component::Index if self.shared.descriptor.version == Version::Nb => {
                index.data_length().div_ceil(index.chunk_length())
            }
            _ => 0,
        };
        let piece = Vec::new();
        Ok(StoredComponent { reader: self, component, file, length, chunk: 0, chunks, offset: 0, piece })
    }
}

impl StoredComponent<'_> {
    /// The bytes of the component.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Returns the next bytes; `None` at the end.
    pub fn next_piece(&mut self) -> Result<Option<&[u8]>> {
        if self.chunk < self.chunks {
            let (shared, chunk) = (&self.reader.shared, self.chunk);
            self.chunk += match (self.component, shared.data.layout()) {
                (Component::Data, _) => shared.data.stored_chunks(chunk, PIECE, &mut self.piece)?,
                _ => shared.index.stored_chunks(chunk, PIECE, &mut self.piece)?,
            };
            // The disk loads the next piece while this one is used.
            let file = if self.component == Component::Data { &shared.data } else { &shared.index };
            file.request(self.chunk, PIECE as u64);
        } else {
            // After the chunks of Data: the empty one that Cassandra's compactions leave.
            let length = self.length.saturating_sub(self.offset).min(PIECE as u64);
            if length == 0 {
                return Ok(None);
            }
            self.piece.resize(length as usize, 0);
            let read = self.file.read_exact_at(&mut self.piece, self.offset);
            read.map_err(|e| {
                let path = self.reader.descriptor().path(self.component);
                StorageError::io(path, format!("read {length} bytes at {}", self.offset), e)
            })?;
        }
        self.offset += self.piece.len() as u64;
        Ok(Some(&self.piece))
    }
}
