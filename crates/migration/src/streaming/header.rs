//! STREAM: what precedes the bytes of a file.
//!
//! ```text
//! u8 2
//! 16 bytes table id, endpoint of the sender, 16 bytes plan id
//! u8 0                      sent by the side that opened the session
//! i32 session = 0, i32 sequence number of the file
//! i64 time of repair, u8 0  never repaired, and no repair in progress
//!
//! utf version, utf format   "nb", "big"
//! i64 partitions
//! i32 n, n * (i64 start, i64 end)      the sections
//! i32 -1 | compression
//! i32 level
//! serialization header      as in Statistics.db
//! 16 bytes table id
//! u8 0 | u8 1, vint n, n * (utf component, vint length), vint length and bytes of the first key
//!
//! compression               i32 n, n * (i64 offset, i32 length without checksum)    the chunks
//!                           utf compressor, i32 n, n * (utf option, utf value)
//!                           i32 chunk length, i32 maximum compressed length
//! ```
//!
//! A whole SSTable needs neither sections nor chunks here: the node copies its components.
//! Source: `streaming.messages.StreamMessageHeader`, `db.streaming.CassandraStreamHeader`,
//! `CompressionInfo` and `ComponentManifest`.

use std::io::{self, Write};
use std::net::SocketAddr;

use bytes::BufMut;
use cassette_sstable::compression::{ChunkFormat, StoredChunk};
use cassette_sstable::output::Output;
use uuid::Uuid;

use super::sections::Section;
use super::wire::Fields;

const STREAM: u8 = 2;

/// The only file of a session.
pub struct FileHeader {
    pub table: Uuid,
    pub from: SocketAddr,
    pub plan: Uuid,
    pub sequence: i32,
}

/// Describes an SSTable.
pub struct SSTableHeader<'a> {
    /// `nb`
    pub version: &'static str,
    /// `big`
    pub format: &'static str,
    /// Partitions.
    pub keys: u64,
    /// As in Statistics.db.
    pub serialization_header: &'a [u8],
    pub content: Content<'a>,
}

/// What follows the headers.
pub enum Content<'a> {
    /// All components.
    Whole { components: &'a [(&'static str, u64)], first_key: &'a [u8] },
    /// The partitions of sections.
    Sections { sections: &'a [Section], chunks: Option<Chunks<'a>> },
}

/// The compressed chunks with the bytes of the sections.
pub struct Chunks<'a> {
    pub format: &'a ChunkFormat,
    pub count: u32,
    /// All of them, in order.
    pub chunks: &'a mut dyn Iterator<Item = StoredChunk>,
}

/// Writes the headers of a file. The chunks of a large SSTable are many: they are not collected.
pub fn write(out: &mut dyn Write, file: &FileHeader, sstable: SSTableHeader<'_>) -> io::Result<()> {
    let mut bytes = vec![STREAM];
    bytes.put_slice(file.table.as_bytes());
    bytes.put_endpoint(file.from);
    bytes.put_slice(file.plan.as_bytes());
    bytes.put_u8(0);
    bytes.put_i32(0);
    bytes.put_i32(file.sequence);
    bytes.put_i64(0);
    bytes.put_u8(0);

    bytes.put_utf(sstable.version);
    bytes.put_utf(sstable.format);
    bytes.put_u64(sstable.keys);
    let whole = match sstable.content {
        Content::Whole { components, first_key } => {
            bytes.put_i32(0);
            bytes.put_i32(-1);
            Some((components, first_key))
        }
        Content::Sections { sections, chunks } => {
            bytes.put_u32(sections.len() as u32);
            for section in sections {
                bytes.put_u64(section.start);
                bytes.put_u64(section.end);
            }
            match chunks {
                None => bytes.put_i32(-1),
                Some(chunks) => write_chunks(out, &mut bytes, chunks)?,
            }
            None
        }
    };
    // L0: levels of another node's SSTables overlap.
    bytes.put_i32(0);
    bytes.put_slice(sstable.serialization_header);
    bytes.put_slice(file.table.as_bytes());
    match whole {
        None => bytes.put_u8(0),
        Some((components, first_key)) => {
            bytes.put_u8(1);
            bytes.put_vint(components.len() as u64);
            for (name, length) in components {
                bytes.put_utf(name);
                bytes.put_vint(*length);
            }
            bytes.put_bytes_vint(first_key);
        }
    }
    out.write_all(&bytes)
}

fn write_chunks(out: &mut dyn Write, bytes: &mut Vec<u8>, chunks: Chunks<'_>) -> io::Result<()> {
    const BUFFERED: usize = 64 << 10;
    bytes.put_u32(chunks.count);
    for chunk in chunks.chunks {
        bytes.put_u64(chunk.offset);
        bytes.put_u32(chunk.stored_length as u32);
        if bytes.len() >= BUFFERED {
            out.write_all(bytes)?;
            bytes.clear();
        }
    }
    let format = chunks.format;
    bytes.put_utf(format.compressor.class_name());
    bytes.put_u32(format.options.len() as u32);
    for (name, value) in &format.options {
        bytes.put_utf(name);
        bytes.put_utf(value);
    }
    bytes.put_u32(format.chunk_length);
    bytes.put_i32(format.max_compressed_length);
    Ok(())
}

#[cfg(test)]
mod tests {
    use cassette_sstable::compression::Compressor;

    use super::*;

    const TABLE: Uuid = Uuid::from_u128(1);
    const PLAN: Uuid = Uuid::from_u128(2);

    fn encoded(content: Content<'_>) -> Vec<u8> {
        let file = FileHeader { table: TABLE, from: ([127, 0, 0, 1], 0).into(), plan: PLAN, sequence: 0 };
        let sstable =
            SSTableHeader { version: "nb", format: "big", keys: 3, serialization_header: b"HEADER", content };
        let mut out = Vec::new();
        write(&mut out, &file, sstable).unwrap();
        out
    }

    /// What precedes sections.
    fn start() -> Vec<u8> {
        let mut bytes = vec![2];
        bytes.extend(TABLE.as_bytes());
        bytes.extend([6, 127, 0, 0, 1, 0, 0]);
        bytes.extend(PLAN.as_bytes());
        bytes.extend([0; 1 + 4 + 4 + 8 + 1]);
        bytes.extend(b"\0\x02nb\0\x03big");
        bytes.extend([0, 0, 0, 0, 0, 0, 0, 3]);
        bytes
    }

    #[test]
    fn a_whole_sstable_is_a_list_of_components() {
        let components = [("Data.db", 300), ("Digest.crc32", 9)];
        let found = encoded(Content::Whole { components: &components, first_key: b"key" });
        let mut expected = start();
        expected.extend([0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
        expected.extend(b"HEADER");
        expected.extend(TABLE.as_bytes());
        expected.extend([1, 2]);
        expected.extend(b"\0\x07Data.db\x81\x2c\0\x0cDigest.crc32\x09\x03key");
        assert_eq!(found, expected);
    }

    #[test]
    fn sections_are_followed_by_their_chunks_and_the_compressor() {
        let sections = [Section { start: 1, end: 20_000 }];
        let plain = encoded(Content::Sections { sections: &sections, chunks: None });
        let mut expected = start();
        expected.extend([0, 0, 0, 1]);
        expected.extend(1u64.to_be_bytes());
        expected.extend(20_000u64.to_be_bytes());
        let of_sections = expected.clone();
        expected.extend([0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
        expected.extend(b"HEADER");
        expected.extend(TABLE.as_bytes());
        expected.push(0);
        assert_eq!(plain, expected);

        let format = ChunkFormat {
            compressor: Compressor::Zstd { level: 5 },
            options: vec![("compression_level".into(), "5".into())],
            chunk_length: 16384,
            max_compressed_length: i32::MAX,
        };
        let chunk = StoredChunk { offset: 7, stored_length: 500, plain_length: 16384, raw: false };
        let count = 70_000;
        let chunks =
            Chunks { format: &format, count, chunks: &mut std::iter::repeat_n(chunk, count as usize) };
        let found = encoded(Content::Sections { sections: &sections, chunks: Some(chunks) });
        let mut expected = of_sections;
        expected.extend(count.to_be_bytes());
        for _ in 0..count {
            expected.extend(7u64.to_be_bytes());
            expected.extend(500u32.to_be_bytes());
        }
        expected.extend(b"\0\x0eZstdCompressor\0\0\0\x01\0\x11compression_level\0\x015");
        expected.extend([0, 0, 0x40, 0, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
        expected.extend(b"HEADER");
        expected.extend(TABLE.as_bytes());
        expected.push(0);
        assert_eq!(found, expected);
    }
}
