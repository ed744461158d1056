//! An SSTable, or sections of it, as the bytes that a node receives.
//!
//! ```text
//! whole        the components, one after the other
//! compressed   chunks as stored, each with its checksum
//! plain        blocks: i32 length, i32 uncompressed length, LZ4
//! ```
//!
//! Every chunk and block of Data is compared with its checksum before it is sent. Source:
//! `db.streaming.CassandraEntireSSTableStreamWriter`, `CassandraCompressedStreamWriter`,
//! `CassandraStreamWriter`, `streaming.async.StreamCompressionSerializer`.

use std::io::{self, Write};

use cassette_rows::StorageError;
use cassette_sstable::{Component, SSTableReader, Version};

use super::header::{self, Chunks, Content, FileHeader, SSTableHeader};
use super::sections::Sections;

/// The components that a node copies, in Cassandra's order. It needs Data first, and Statistics
/// before it opens the SSTable.
const COMPONENTS: [Component; 8] = [
    Component::Data,
    Component::Index,
    Component::Statistics,
    Component::CompressionInfo,
    Component::Filter,
    Component::Summary,
    Component::Digest,
    Component::Crc,
];

/// Why sending failed.
#[derive(Debug)]
pub enum SendError {
    /// The SSTable is damaged, or cannot be read.
    Source(StorageError),
    /// The receiver failed.
    Network(io::Error),
}

impl From<StorageError> for SendError {
    fn from(error: StorageError) -> Self {
        Self::Source(error)
    }
}

impl From<io::Error> for SendError {
    fn from(error: io::Error) -> Self {
        Self::Network(error)
    }
}

/// An SSTable for one node.
pub struct Outgoing<'r> {
    reader: &'r SSTableReader,
    sections: &'r Sections,
    /// The components with their lengths, if it is sent whole.
    components: Option<Vec<(Component, u64)>>,
}

/// Returns whether the components of an SSTable may be copied as they are. Sections of others are
/// written again by the node.
pub fn may_be_whole(reader: &SSTableReader) -> bool {
    // The indexes of other versions have no checksums.
    reader.descriptor().version == Version::Nb && reader.is_index_confirmed()
}

impl<'r> Outgoing<'r> {
    /// Prepares to send sections, which are the whole SSTable if `whole`.
    ///
    /// # Errors
    /// If a component cannot be read.
    pub fn new(reader: &'r SSTableReader, sections: &'r Sections, whole: bool) -> Result<Self, SendError> {
        let present = |component: &Component| reader.components().contains(component);
        let length = |component: Component| Ok((component, reader.stored(component)?.length()));
        let components = whole
            .then(|| COMPONENTS.into_iter().filter(present).map(length).collect::<Result<_, StorageError>>())
            .transpose()?;
        Ok(Self { reader, sections, components })
    }

    /// The files that a node counts.
    pub fn files(&self) -> u32 {
        self.components.as_ref().map_or(1, |components| components.len() as u32)
    }

    /// The bytes that a node expects to read.
    pub fn length(&self) -> u64 {
        match (&self.components, self.reader.compression()) {
            (Some(components), _) => components.iter().map(|(_, length)| length).sum(),
            (None, Some(_)) => self.chunks().map(|chunk| chunk.stored_length as u64 + 4).sum(),
            (None, None) => self.sections.length(),
        }
    }

    fn chunks(&self) -> impl Iterator<Item = cassette_sstable::compression::StoredChunk> + '_ {
        let (length, reader) = (self.reader.data_bytes_on_disk(), self.reader);
        let of_info = reader.compression().into_iter();
        of_info.flat_map(move |info| {
            let numbers = self.sections.chunks(info.format.chunk_length.into());
            numbers.filter_map(move |number| info.chunk(number, length))
        })
    }

    /// Writes the headers.
    pub fn write_header(&self, out: &mut dyn Write, file: &FileHeader) -> io::Result<()> {
        let descriptor = self.reader.descriptor();
        let encoded = self.reader.header().encode();
        let named: Vec<(&'static str, u64)>;
        let mut chunks = self.chunks();
        let content = match &self.components {
            Some(components) => {
                named =
                    components.iter().map(|(component, length)| (component.file_name(), *length)).collect();
                Content::Whole { components: &named, first_key: self.reader.first_key().key() }
            }
            None => {
                let of_format = self.reader.compression().map(|info| Chunks {
                    format: &info.format,
                    count: self.chunks().count() as u32,
                    chunks: &mut chunks,
                });
                Content::Sections { sections: &self.sections.sections, chunks: of_format }
            }
        };
        let sstable = SSTableHeader {
            version: descriptor.version.letters(),
            format: descriptor.version.format(),
            keys: self.sections.keys,
            serialization_header: &encoded,
            content,
        };
        header::write(out, file, sstable)
    }

    /// Passes the bytes of the file to `send`, piece by piece.
    ///
    /// # Errors
    /// Those of `send`; and `Source` if a checksum does not match: the session must then be ended.
    pub fn write_body(&self, send: &mut dyn FnMut(&[u8]) -> Result<(), SendError>) -> Result<(), SendError> {
        match (&self.components, self.reader.compression()) {
            (Some(components), _) => components.iter().try_for_each(|of| self.write_component(*of, send)),
            (None, Some(info)) => {
                for number in self.sections.chunks(info.format.chunk_length.into()) {
                    send(&self.reader.stored_chunk(number)?)?;
                }
                Ok(())
            }
            (None, None) => self.write_blocks(send),
        }
    }

    fn write_component(
        &self,
        (component, length): (Component, u64),
        send: &mut dyn FnMut(&[u8]) -> Result<(), SendError>,
    ) -> Result<(), SendError> {
        let mut stored = self.reader.stored(component)?;
        let mut sent = 0;
        while let Some(piece) = stored.next_piece()? {
            sent += piece.len() as u64;
            send(piece)?;
        }
        if sent == length {
            return Ok(());
        }
        let path = self.reader.descriptor().path(component);
        Err(StorageError::corrupt(path, format!("{length} bytes expected, {sent} found")).into())
    }

    fn write_blocks(&self, send: &mut dyn FnMut(&[u8]) -> Result<(), SendError>) -> Result<(), SendError> {
        let chunk_length = self.reader.chunk_length();
        for section in &self.sections.sections {
            for number in section.start / chunk_length..section.end.div_ceil(chunk_length) {
                let chunk = self.reader.chunk(number)?;
                let base = number * chunk_length;
                let from = section.start.saturating_sub(base) as usize;
                let to = (section.end - base).min(chunk.len() as u64) as usize;
                let piece = chunk.get(from..to).unwrap_or_default();
                send(&block(piece))?;
            }
        }
        Ok(())
    }
}

/// Encodes a block of uncompressed bytes.
fn block(plain: &[u8]) -> Vec<u8> {
    let mut out = vec![0; 8 + lz4_flex::block::get_maximum_output_size(plain.len())];
    // The buffer has the maximum length, so that compression cannot fail.
    let length = lz4_flex::block::compress_into(plain, &mut out[8..]).unwrap_or_default();
    out[..4].copy_from_slice(&(length as u32).to_be_bytes());
    out[4..8].copy_from_slice(&(plain.len() as u32).to_be_bytes());
    out.truncate(8 + length);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_has_both_lengths_and_decompresses_to_its_bytes() {
        for plain in [vec![7; 65_536], (0..=255).collect::<Vec<u8>>(), vec![1]] {
            let block = block(&plain);
            let length = |at: usize| u32::from_be_bytes(block[at..at + 4].try_into().unwrap()) as usize;
            assert_eq!((length(0), length(4)), (block.len() - 8, plain.len()));
            assert_eq!(lz4_flex::block::decompress(&block[8..], plain.len()).unwrap(), plain);
        }
    }
}
