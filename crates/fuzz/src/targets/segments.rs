//! Segments of Cassandra's commit logs: header, sections, compression, records.
//!
//! ```text
//! u8 bits 0-1: what follows: 0 a segment, 1 the content of a record, 2 the records of a section, 3 a section as stored
//!    bits 2-4: the compression of the segment, as in `COMPRESSORS`
//!    bit 5: whether it is the last segment of its log
//! ```
//! What follows is put into a segment with right checksums around it, after one with two records.

use cassette_adopt::read_segment;
use cassette_sstable::compression::{Compressor, Workspace};
use crc32fast::Hasher;

use super::split;
use crate::Target;

pub const TARGET: Target =
    Target { name: "segments", run, seeds, words: &[b"LZ4Compressor", b"\0\0\0\x0a"], inputs: 20_000 };

const ID: u64 = 0x0190_1234_5678;

/// The maximum plain length that a section claims: more is valid, and only needs memory.
const CLAIM_MAX: u32 = 1 << 20;

/// The maximum length of a segment as it is, whose sections claim at most 32,768 times as much.
const SEGMENT_MAX: usize = 1500;

fn compressor(number: u8) -> Option<Compressor> {
    match number & 7 {
        1 => Some(Compressor::Lz4 { high: None }),
        2 => Some(Compressor::Snappy),
        3 => Some(Compressor::Zstd { level: 3 }),
        4 => Some(Compressor::Deflate),
        _ => None,
    }
}

fn run(input: &[u8]) {
    let (kind, content) = split(input);
    let (compressor, is_last) = (compressor(kind >> 2), kind & 0x20 != 0);
    let (mut segment, mut expected) = (header(compressor.as_ref()), Vec::new());
    if kind & 3 == 0 {
        if content.len() > SEGMENT_MAX {
            return;
        }
        segment = content.to_vec();
    } else {
        expected = vec![b"the first record".to_vec(), b"the second one".to_vec()];
        let records: Vec<u8> = expected.iter().flat_map(|record| framed(record)).collect();
        append(&mut segment, &stored(compressor.as_ref(), &records));
        match kind & 3 {
            1 => {
                if content.len() >= 10 {
                    expected.push(content.to_vec());
                }
                append(&mut segment, &stored(compressor.as_ref(), &framed(content)));
            }
            2 => append(&mut segment, &stored(compressor.as_ref(), content)),
            _ => {
                let claims = content.first_chunk().is_some_and(|n| u32::from_be_bytes(*n) > CLAIM_MAX);
                if compressor.is_some() && claims {
                    return;
                }
                append(&mut segment, content);
            }
        }
    }
    let (mut found, mut last) = (Vec::new(), 0);
    let read = read_segment(&segment, ID, is_last, |position, record| {
        assert!(position > last, "{position} after {last}");
        last = position;
        found.push(record.to_vec());
    });
    assert!(found.starts_with(&expected), "{read:?}");
    if kind & 3 == 1 && content.len() >= 10 {
        assert_eq!((read, found.len()), (Ok(()), expected.len()));
    }
}

fn header(compressor: Option<&Compressor>) -> Vec<u8> {
    let parameters = match compressor {
        None => "{}".to_owned(),
        Some(compressor) => format!(r#"{{"compressionClass":"{}"}}"#, compressor.class_name()),
    };
    let mut bytes = 7u32.to_be_bytes().to_vec();
    bytes.extend(ID.to_be_bytes());
    bytes.extend((parameters.len() as u16).to_be_bytes());
    bytes.extend_from_slice(parameters.as_bytes());
    let checksum =
        checksum(&[7, ID as u32, (ID >> 32) as u32, parameters.len() as u32], parameters.as_bytes());
    bytes.extend(checksum.to_be_bytes());
    bytes
}

fn checksum(fields: &[u32], bytes: &[u8]) -> u32 {
    let mut crc = Hasher::new();
    fields.iter().for_each(|field| crc.update(&field.to_be_bytes()));
    crc.update(bytes);
    crc.finalize()
}

/// Appends a section.
fn append(segment: &mut Vec<u8>, stored: &[u8]) {
    let at = segment.len();
    segment.extend(((at + 8 + stored.len()) as u32).to_be_bytes());
    segment.extend(checksum(&[ID as u32, (ID >> 32) as u32, at as u32], &[]).to_be_bytes());
    segment.extend_from_slice(stored);
}

fn stored(compressor: Option<&Compressor>, plain: &[u8]) -> Vec<u8> {
    let Some(compressor) = compressor else { return plain.to_vec() };
    let mut stored = (plain.len() as u32).to_be_bytes().to_vec();
    compressor.compress(plain, &mut Workspace::default(), &mut stored).unwrap();
    stored
}

fn framed(content: &[u8]) -> Vec<u8> {
    let length = content.len() as u32;
    let mut bytes = length.to_be_bytes().to_vec();
    bytes.extend(checksum(&[length], &[]).to_be_bytes());
    bytes.extend_from_slice(content);
    bytes.extend(checksum(&[length], content).to_be_bytes());
    bytes
}

fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for number in 0..5u8 {
        let (of, kind) = (compressor(number), number << 2);
        let records: Vec<u8> = (0..4).flat_map(|n| framed(format!("the record {n}").as_bytes())).collect();
        let section = stored(of.as_ref(), &records);
        let mut segment = header(of.as_ref());
        append(&mut segment, &section);
        append(&mut segment, &section);
        let open = [segment.as_slice(), &[0; 8], records.as_slice(), &[0; 40]].concat();
        seeds.extend([
            [&[kind][..], &segment].concat(),
            [&[kind | 0x20][..], &segment[..segment.len() - 9]].concat(),
            [&[kind][..], &open].concat(),
            [&[kind | 1][..], b"another record"].concat(),
            [&[kind | 2][..], &records].concat(),
            [&[kind | 3][..], &section].concat(),
        ]);
    }
    seeds
}
