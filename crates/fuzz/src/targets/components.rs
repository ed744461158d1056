//! The components of SSTables that are read whole, each alone: what decodes is the same after
//! encoding and decoding.
//!
//! ```text
//! u8 the component: 0 Summary, 1 Filter, 2 Statistics (the length chooses the version),
//!    5 TOC, 6 Digest, 7 CRC, 8 Checksums,
//!    9 CompressionInfo, 10 entries of Index, 11 a file name
//! u32 little-endian: the length of the file that the component is about
//! the content; Statistics and Checksums get their checksums corrected in a second attempt
//! ```

use std::path::Path;

use bytes::Bytes;
use cassette_sstable::checksums::{FileChecksums, RowsChecksums};
use cassette_sstable::compression::CompressionInfo;
use cassette_sstable::crc::Checksums;
use cassette_sstable::filter::BloomFilter;
use cassette_sstable::index::EntryHead;
use cassette_sstable::input::Input;
use cassette_sstable::statistics::Statistics;
use cassette_sstable::summary::Summary;
use cassette_sstable::{Component, Descriptor, Version, digest, toc};

use super::split;
use crate::Target;
use crate::golden;

pub const TARGET: Target = Target {
    name: "components",
    run,
    seeds,
    words: &[b"org.apache.cassandra.db.marshal.Int32Type", b"\0\0\0\x03", b"nb-1-big-Data.db", b"\n"],
    inputs: 15_000,
};

fn run(input: &[u8]) {
    let (kind, rest) = split(input);
    let Some((length, content)) = rest.split_first_chunk::<4>() else { return };
    let length = u64::from(u32::from_le_bytes(*length));
    match kind {
        0 => {
            if let Ok(summary) = Summary::decode(&Bytes::copy_from_slice(content), length) {
                let again = Summary::decode(&Bytes::from(summary.encode()), length).unwrap();
                assert_eq!(again, summary);
            }
        }
        1 => {
            if let Ok(filter) = BloomFilter::decode(content) {
                let encoded = filter.encode();
                assert_eq!(BloomFilter::decode(&encoded).unwrap(), filter);
                filter.may_contain(content);
            }
        }
        2 => {
            let version = Version::ALL[length as usize % Version::ALL.len()];
            check_statistics(content, version);
            check_statistics(&with_checksums(content), version);
        }
        5 => {
            if let Ok(components) = toc::decode(content) {
                assert_eq!(toc::decode(&toc::encode(&components)).unwrap(), components);
            }
        }
        6 => {
            if let Ok(crc) = digest::decode(content) {
                assert_eq!(digest::decode(&digest::encode(crc)).unwrap(), crc);
            }
        }
        7 => {
            if let Ok(checksums) = Checksums::decode(content, length) {
                assert_eq!(Checksums::decode(&checksums.encode(), length).unwrap(), checksums);
            }
            drop(Checksums::decode_first(content, length));
        }
        8 => {
            check_checksums(content);
            let body = content.len().saturating_sub(4);
            let crc = crc32fast::hash(&content[..body]).to_be_bytes();
            check_checksums(&[&content[..body], &crc].concat());
        }
        9 => {
            if let Ok(info) = CompressionInfo::decode(content, length) {
                assert_eq!(CompressionInfo::decode(&info.encode(), length).unwrap(), info);
            }
        }
        10 => {
            let mut input = Input::new(content);
            while let Ok(entry) = EntryHead::decode(&mut input) {
                if input.bytes(entry.promoted_length).is_err() {
                    break;
                }
            }
        }
        _ => {
            let name = String::from_utf8_lossy(content);
            if let Some((descriptor, component)) = Descriptor::from_path(Path::new(&*name)) {
                let again = Descriptor::from_path(&descriptor.path(component));
                assert_eq!(again, Some((descriptor, component)));
            }
        }
    }
}

fn check_statistics(content: &[u8], version: Version) {
    if let Ok(statistics) = Statistics::decode_version(content, version)
        && version == Version::Nb
    {
        let encoded = statistics.encode();
        assert_eq!(Statistics::decode(&encoded).unwrap().encode(), encoded);
    }
}

fn check_checksums(content: &[u8]) {
    if let Ok(checksums) = FileChecksums::decode(content) {
        assert_eq!(FileChecksums::decode(&checksums.encode()).unwrap(), checksums);
    }
}

/// Statistics with the checksums that its table of contents and its parts need: u32 count, then per
/// part u32 type and u32 offset, a checksum; each part ends with its checksum.
pub(super) fn with_checksums(content: &[u8]) -> Vec<u8> {
    let mut out = content.to_vec();
    let u32_at = |bytes: &[u8], at: usize| {
        Some(u32::from_be_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?) as usize)
    };
    let Some(count) = u32_at(content, 0).filter(|count| *count <= 16) else { return out };
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&content[..4]);
    let head = 8 + 8 * count;
    if out.len() < head + 4 {
        return out;
    }
    // The count has a checksum, and the table another, over both.
    out.splice(4..8, hasher.clone().finalize().to_be_bytes());
    hasher.update(&content[8..head]);
    out.splice(head..head + 4, hasher.finalize().to_be_bytes());
    let mut starts: Vec<usize> = (0..count).filter_map(|n| u32_at(content, 12 + 8 * n)).collect();
    starts.sort_unstable();
    starts.push(out.len());
    for pair in starts.windows(2) {
        let (start, end) = (pair[0], pair[1].min(out.len()));
        if let Some(body) = end.checked_sub(4).and_then(|end| out.get(start..end)) {
            let crc = crc32fast::hash(body).to_be_bytes();
            out.splice(end - 4..end, crc);
        }
    }
    out
}

fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for table in golden::tables() {
        for (descriptor, component, content) in &table.files {
            let about = |of| table.content(descriptor, of).map_or(0, |content| content.len() as u32);
            let (kind, length) = match component {
                Component::Summary => (0, about(Component::Index)),
                Component::Filter => (1, 0),
                Component::Statistics => {
                    (2, Version::ALL.iter().position(|v| *v == descriptor.version).unwrap_or(0) as u32)
                }
                Component::Toc => (5, 0),
                Component::Digest => (6, 0),
                Component::Crc => (7, about(Component::Data)),
                Component::CompressionInfo => (9, about(Component::Data)),
                Component::Index => (10, 0),
                _ => continue,
            };
            seeds.push([&[kind][..], &length.to_le_bytes(), content].concat());
            let name = descriptor.file_name(*component);
            seeds.push([&[11][..], &[0; 4], name.as_bytes()].concat());
        }
    }
    let files =
        vec![(Component::Statistics, cassette_sstable::checksums::FileChecksum { length: 7, crc: 8 })];
    for rows in [None, Some(RowsChecksums { length: 8193, block_length: 4096, crcs: vec![3, 0, 5] })] {
        let files = files.clone();
        let checksums = FileChecksums { files, index_length: 20_000, index_crcs: vec![1, 2], rows };
        seeds.push([&[8][..], &[0; 4], &checksums.encode()].concat());
    }
    seeds
}
