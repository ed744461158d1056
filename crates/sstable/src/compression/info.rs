//! CompressionInfo.db: how Data was compressed and where each chunk of it begins.
//!
//! ```text
//! utf  class name without its package
//! i32  number of options; per option utf name, utf value
//! i32  chunk length
//! i32  max compressed length      not in versions of Cassandra 3, which compress every chunk
//! i64  length of the uncompressed stream
//! i32  number of chunks
//! i64  offset of each chunk in Data.db
//! ```

use std::ops::Range;

use super::{ChunkFormat, Compressor, MAX_CHUNK_LENGTH};
use bytes::BufMut;

use crate::descriptor::Version;
use crate::error::{Malformed, Parsed};
use crate::input::Input;
use crate::output::Output;

/// Bytes after each stored chunk: its CRC-32.
pub(crate) const CHUNK_CRC_LENGTH: u64 = 4;

/// The content of CompressionInfo.db.
#[derive(Debug, Clone, PartialEq)]
pub struct CompressionInfo {
    /// Compressor, chunk length, raw rule.
    pub format: ChunkFormat,
    /// Bytes of the uncompressed stream.
    pub data_length: u64,
    /// The offset of each chunk in the Data file. After a compaction by Cassandra the last chunk is
    /// empty.
    offsets: Box<[u64]>,
}

/// Position and length of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredChunk {
    /// Offset in the Data file.
    pub offset: u64,
    /// Stored bytes, without the checksum that follows.
    pub stored_length: usize,
    /// Uncompressed bytes.
    pub plain_length: usize,
    /// Whether it is stored uncompressed (and possibly padded).
    pub raw: bool,
}

impl CompressionInfo {
    /// Describes a Data file with chunks at `offsets`.
    pub fn new(format: ChunkFormat, data_length: u64, offsets: Vec<u64>) -> Self {
        Self { format, data_length, offsets: offsets.into() }
    }

    /// Returns the file's content.
    pub fn encode(&self) -> Vec<u8> {
        let format = &self.format;
        let mut out = Vec::with_capacity(64 + 8 * self.offsets.len());
        out.put_bytes16(format.compressor.class_name().as_bytes());
        out.put_i32(format.options.len() as i32);
        for (name, value) in &format.options {
            out.put_bytes16(name.as_bytes());
            out.put_bytes16(value.as_bytes());
        }
        out.put_i32(format.chunk_length as i32);
        out.put_i32(format.max_compressed_length);
        out.put_i64(self.data_length as i64);
        out.put_i32(self.offsets.len() as i32);
        for offset in &self.offsets {
            out.put_i64(*offset as i64);
        }
        out
    }

    /// Decodes the file of an nb SSTable for a Data file of `file_length` bytes.
    pub fn decode(bytes: &[u8], file_length: u64) -> Parsed<Self> {
        Self::decode_version(bytes, file_length, Version::Nb)
    }

    /// Decodes the file of an SSTable of `version` for a Data file of `file_length` bytes.
    pub fn decode_version(bytes: &[u8], file_length: u64, version: Version) -> Parsed<Self> {
        let mut input = Input::new(bytes);
        let class = input.utf()?;
        let mut options = Vec::new();
        for _ in 0..input.count32(4)? {
            options.push((input.utf()?.to_owned(), input.utf()?.to_owned()));
        }
        let compressor = Compressor::from_class(class, options.iter().map(|(k, v)| (k.as_str(), v.as_str())))
            .map_err(|e| Malformed::new(0, e))?;
        let at = input.offset();
        let chunk_length = input.u32()?;
        if !chunk_length.is_power_of_two() || chunk_length > MAX_CHUNK_LENGTH {
            return Err(Malformed::new(at, format!("a chunk length expected, {chunk_length} found")));
        }
        let at = input.offset();
        let max_compressed_length = if version.is_of_cassandra_3() { i32::MAX } else { input.i32()? };
        if max_compressed_length <= 0 {
            return Err(Malformed::new(
                at,
                format!("a largest chunk expected, {max_compressed_length} found"),
            ));
        }
        let at = input.offset();
        let data_length = input.u64()?;
        let chunks = input.count32(8)?;
        let needed = data_length.div_ceil(u64::from(chunk_length));
        // Cassandra's compactions leave an empty chunk at the end.
        if chunks as u64 != needed && chunks as u64 != needed.saturating_add(1) {
            return Err(Malformed::new(
                at,
                format!("{needed} chunks expected for {data_length} bytes, {chunks} found"),
            ));
        }
        let mut offsets = Vec::with_capacity(chunks);
        let mut least = 0;
        for _ in 0..chunks {
            let at = input.offset();
            let offset = input.u64()?;
            let fits = offset.checked_add(CHUNK_CRC_LENGTH).is_some_and(|end| end <= file_length);
            if offset < least || !fits || (offsets.is_empty() && offset != 0) {
                return Err(Malformed::new(
                    at,
                    format!("the offset of a chunk in {least}..{file_length} expected, {offset} found"),
                ));
            }
            least = offset + CHUNK_CRC_LENGTH;
            offsets.push(offset);
        }
        input.end()?;
        let format = ChunkFormat { compressor, options, chunk_length, max_compressed_length };
        Ok(Self::new(format, data_length, offsets))
    }

    /// Keeps the chunks that begin within the first `file_length` bytes of the Data file.
    pub fn within(self, file_length: u64) -> Self {
        let fits = |offset: &&u64| offset.saturating_add(CHUNK_CRC_LENGTH) <= file_length;
        let offsets: Vec<u64> = self.offsets.iter().take_while(fits).copied().collect();
        let data_length = self.data_length.min(offsets.len() as u64 * u64::from(self.format.chunk_length));
        Self::new(self.format, data_length, offsets)
    }

    /// Returns the number of chunks that contain bytes of the stream.
    pub fn chunks(&self) -> u64 {
        self.data_length.div_ceil(u64::from(self.format.chunk_length))
    }

    /// Returns the position of chunk `index`; `None` after the last. `file_length` is that of Data.
    pub fn chunk(&self, index: u64, file_length: u64) -> Option<StoredChunk> {
        let index = usize::try_from(index).ok()?;
        let offset = *self.offsets.get(index)?;
        let end = self.offsets.get(index + 1).copied().unwrap_or(file_length);
        let stored_length = usize::try_from(end.checked_sub(offset)?.checked_sub(CHUNK_CRC_LENGTH)?).ok()?;
        let Range { start, end } = self.plain_range(index as u64);
        Some(StoredChunk {
            offset,
            stored_length,
            plain_length: (end - start) as usize,
            raw: stored_length >= self.format.max_compressed_length as usize,
        })
    }

    /// Returns the range of the stream in chunk `index`; empty after the end.
    fn plain_range(&self, index: u64) -> Range<u64> {
        let length = u64::from(self.format.chunk_length);
        let start = (index * length).min(self.data_length);
        start..(start + length).min(self.data_length)
    }

    /// Bytes held on the heap.
    pub fn heap_size(&self) -> usize {
        self.offsets.len() * 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info() -> CompressionInfo {
        let format = ChunkFormat {
            compressor: Compressor::Zstd { level: 5 },
            options: vec![("compression_level".into(), "5".into())],
            chunk_length: 4096,
            max_compressed_length: i32::MAX,
        };
        CompressionInfo::new(format, 5000, vec![0, 1000])
    }

    #[test]
    fn what_is_written_reads_back() {
        let bytes = info().encode();
        assert_eq!(CompressionInfo::decode(&bytes, 1500).unwrap(), info());
        let second = info().chunk(1, 1500).unwrap();
        assert_eq!(second, StoredChunk { offset: 1000, stored_length: 496, plain_length: 904, raw: false });
        assert_eq!(info().chunk(2, 1500), None);
    }

    #[test]
    fn an_empty_last_chunk_is_taken_but_not_two() {
        let mut more = info();
        more.offsets = vec![0, 1000, 1500].into();
        assert_eq!(CompressionInfo::decode(&more.encode(), 1504).unwrap(), more);
        assert_eq!(more.chunk(2, 1504).unwrap().plain_length, 0);
        more.offsets = vec![0, 1000, 1500, 1504].into();
        assert!(CompressionInfo::decode(&more.encode(), 1508).is_err());
    }

    #[test]
    fn offsets_ascend_within_the_file() {
        for offsets in [[0, 3], [4, 1000], [0, 1497], [0, u64::MAX]] {
            let mut bad = info();
            bad.offsets = offsets.into();
            assert!(CompressionInfo::decode(&bad.encode(), 1500).is_err(), "{offsets:?}");
        }
    }
}
