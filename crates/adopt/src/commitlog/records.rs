//! The records of a segment.
//!
//! ```text
//! section: i32 end of the section in the file, 0 if it is still written
//!          u32 CRC-32 of the low and the high half of the segment's id, and the offset of the section
//!          [i32 plain length], records, or their compression
//! record:  i32 length n, u32 CRC-32 of the length, n bytes, u32 CRC-32 of length and bytes
//! ```
//! A length of 0 ends the records of a section. Positions of records are those of their ends in the
//! segment; in a compressed one, as if it were not compressed.
//!
//! The marker of a section is written when all of its records are, so damage in a section is an
//! error. Two sections may be incomplete: one that has no end yet, whose complete records are read,
//! and the last one of the last segment, which was being written to the disk when the machine
//! stopped: acknowledged records are in earlier ones.
//!
//! Source: `CommitLogSegmentReader` and `CommitLogReader` of Cassandra.

use std::borrow::Cow;

use cassette_sstable::compression::Compressor;
use crc32fast::Hasher;

use super::MARKER;
use super::header::SegmentHeader;

/// The maximum plain length of a compressed section: of a whole segment.
const SECTION_MAX: usize = 1 << 30;

/// The maximum ratio of plain to compressed bytes: Zstd's for equal bytes is below it.
const RATIO_MAX: usize = 1 << 15;

/// The minimum length of a record, as in Cassandra.
const RECORD_MIN: usize = 10;

/// Bytes around a record.
const FRAME: usize = 12;

/// A place in a segment, and what is wrong there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Problem {
    pub offset: u64,
    pub detail: String,
}

/// Why the records of a segment ended.
#[derive(Debug)]
pub(super) enum Stopped<E> {
    Damaged(Problem),
    /// The error of `each`.
    Failed(E),
}

/// A section: its plain bytes, and where it is.
struct Section<'a> {
    plain: Cow<'a, [u8]>,
    /// The position of the first byte.
    position: usize,
    /// The offset of the section in the file.
    offset: usize,
}

/// Calls `each` with the position and the content of every record. Returns the incomplete record at
/// which a torn section ends. `is_last` is true for the last segment of the log.
///
/// # Errors
/// If a section is damaged, or `each` fails.
pub(super) fn for_each_record<E>(
    header: &SegmentHeader,
    id: u64,
    segment: &[u8],
    is_last: bool,
    mut each: impl FnMut(i32, &[u8]) -> Result<(), E>,
) -> Result<Option<Problem>, Stopped<E>> {
    let mut at = header.length;
    let mut position = header.length;
    loop {
        let marker = match section_end(segment, id, at) {
            Ok(marker) => marker,
            Err(problem) => return Err(Stopped::Damaged(problem)),
        };
        let (end, is_open) = match marker {
            End::None => return Ok(None),
            End::Open => (segment.len(), true),
            End::At(end) => (end, false),
        };
        let start = at + MARKER;
        // The marker may be on the disk, and the rest of its section not.
        let is_cut = end > segment.len();
        let follows =
            !is_open && matches!(section_end(segment, id, end), Ok(End::At(_) | End::Open) | Err(_));
        let may_be_torn = is_open && header.compressor.is_none() || is_last && !follows;
        if is_cut && !may_be_torn {
            let detail = format!("a section up to {end} expected, the file ends at {}", segment.len());
            return Err(Stopped::Damaged(Problem { offset: at as u64, detail }));
        }
        let stored = segment.get(start..end.min(segment.len())).unwrap_or_default();
        position += MARKER;
        let plain = match &header.compressor {
            None => Cow::Borrowed(stored),
            Some(compressor) => match decompress(compressor, stored) {
                Ok(plain) => Cow::Owned(plain),
                Err(detail) => {
                    let problem = Problem { offset: start as u64, detail };
                    return torn_or_damaged(segment, id, start, may_be_torn, problem);
                }
            },
        };
        let length = plain.len();
        let section = Section { plain, position, offset: start };
        if let Some(problem) = records(&section, header.compressor.is_some(), &mut each)? {
            return torn_or_damaged(segment, id, start, may_be_torn, problem);
        }
        if is_cut {
            let detail = format!("a section up to {end} expected, the file ends");
            let problem = Problem { offset: segment.len() as u64, detail };
            return torn_or_damaged(segment, id, start, may_be_torn, problem);
        }
        if is_open {
            return Ok(None);
        }
        position += length;
        at = end;
    }
}

/// Returns the problem of a section as its torn end, if it may have one. With a later section it is
/// damaged: the checksum of a marker does not cover the end of its section.
fn torn_or_damaged<E>(
    segment: &[u8],
    id: u64,
    start: usize,
    may_be_torn: bool,
    problem: Problem,
) -> Result<Option<Problem>, Stopped<E>> {
    let is_section = |at: usize| {
        let is_written = segment.get(at + 4..at + MARKER).is_some_and(|checksum| checksum != [0; 4]);
        is_written && matches!(section_end(segment, id, at), Ok(End::At(end)) if end <= segment.len())
    };
    let is_followed = || (start..segment.len().saturating_sub(MARKER)).any(is_section);
    if may_be_torn && !is_followed() { Ok(Some(problem)) } else { Err(Stopped::Damaged(problem)) }
}

/// Where a section ends.
enum End {
    /// There is no section.
    None,
    /// It has no end yet, or one without a checksum: the two are not written at once.
    Open,
    At(usize),
}

fn section_end(segment: &[u8], id: u64, at: usize) -> Result<End, Problem> {
    let int = |at: usize| segment.get(at..)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes));
    let (Some(end), Some(checksum)) = (int(at), int(at + 4)) else { return Ok(End::None) };
    if checksum == 0 {
        let rest = segment.get(at..).unwrap_or_default();
        return Ok(if rest.iter().all(|byte| *byte == 0) { End::None } else { End::Open });
    }
    let problem = |detail: String| Problem { offset: at as u64, detail };
    let mut crc = Hasher::new();
    for field in [id as u32, (id >> 32) as u32, at as u32] {
        crc.update(&field.to_be_bytes());
    }
    if crc.finalize() != checksum {
        return Err(problem("the marker of a section fails its checksum".to_owned()));
    }
    match usize::try_from(end) {
        Ok(end) if end >= at + MARKER && end <= i32::MAX as usize => Ok(End::At(end)),
        _ => Err(problem(format!("the end of a section after this expected, {end} found"))),
    }
}

/// Decompresses a section: its plain length, and the compressed bytes.
fn decompress(compressor: &Compressor, stored: &[u8]) -> Result<Vec<u8>, String> {
    let Some((length, compressed)) = stored.split_first_chunk::<4>() else {
        return if stored.is_empty() {
            Ok(Vec::new())
        } else {
            Err("a compressed section expected".to_owned())
        };
    };
    let length = u32::from_be_bytes(*length) as usize;
    let most = compressed.len().saturating_mul(RATIO_MAX).min(SECTION_MAX);
    if length > most {
        return Err(format!("a section of at most {most} plain bytes expected, of {length} found"));
    }
    let mut plain = vec![0; length];
    compressor.decompress(compressed, &mut plain)?;
    Ok(plain)
}

/// Calls `each` with the records of a section. Returns the place of one that is not complete.
fn records<E>(
    section: &Section<'_>,
    is_compressed: bool,
    each: &mut impl FnMut(i32, &[u8]) -> Result<(), E>,
) -> Result<Option<Problem>, Stopped<E>> {
    let plain = section.plain.as_ref();
    let mut at = 0;
    loop {
        let rest = plain.get(at..).unwrap_or_default();
        let (record, length) = match record(rest) {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(None),
            Err(detail) => {
                // Offsets in the file are known in plain sections only.
                let offset = if is_compressed { section.offset } else { section.offset + at };
                return Ok(Some(Problem { offset: offset as u64, detail }));
            }
        };
        at += length;
        let position = i32::try_from(section.position + at).map_err(|_| {
            let detail = "a segment of less than 2 GiB expected".to_owned();
            Stopped::Damaged(Problem { offset: section.offset as u64, detail })
        })?;
        each(position, record).map_err(Stopped::Failed)?;
    }
}

/// Returns the first record and its length with the frame; `None` at the end.
fn record(bytes: &[u8]) -> Result<Option<(&[u8], usize)>, String> {
    let int = |at: usize| bytes.get(at..)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes));
    let Some(length) = int(0).filter(|length| *length != 0) else {
        // Nothing, or the unused rest of the segment.
        let is_end = bytes.iter().all(|byte| *byte == 0);
        return if is_end {
            Ok(None)
        } else {
            Err("the end of the section expected, more bytes found".to_owned())
        };
    };
    let checksum = int(4).ok_or("a record expected, the section ends")?;
    let mut crc = Hasher::new();
    crc.update(&length.to_be_bytes());
    if crc.clone().finalize() != checksum {
        return Err(format!("the length of a record fails its checksum: {length}"));
    }
    let length = length as usize;
    if length < RECORD_MIN {
        return Err(format!("a record of at least {RECORD_MIN} bytes expected, of {length} found"));
    }
    let (content, checksum) = match (bytes.get(8..).and_then(|rest| rest.get(..length)), int(8 + length)) {
        (Some(content), Some(checksum)) => (content, checksum),
        _ => return Err(format!("a record of {length} bytes expected, the section ends")),
    };
    crc.update(content);
    if crc.finalize() != checksum {
        return Err("a record fails its checksum".to_owned());
    }
    Ok(Some((content, length + FRAME)))
}

#[cfg(test)]
mod tests {
    use cassette_sstable::compression::Workspace;

    use super::*;
    use crate::commitlog::header;

    const ID: u64 = 0x0000_0190_1234_5678;

    fn framed(content: &[u8]) -> Vec<u8> {
        let length = (content.len() as u32).to_be_bytes();
        let mut crc = Hasher::new();
        crc.update(&length);
        let mut out = [length, crc.clone().finalize().to_be_bytes()].concat();
        crc.update(content);
        out.extend_from_slice(content);
        out.extend(crc.finalize().to_be_bytes());
        out
    }

    fn marker(at: usize, end: usize) -> Vec<u8> {
        let mut crc = Hasher::new();
        for field in [ID as u32, (ID >> 32) as u32, at as u32] {
            crc.update(&field.to_be_bytes());
        }
        [(end as u32).to_be_bytes(), crc.finalize().to_be_bytes()].concat()
    }

    /// A segment with sections of these numbers of records; the records count up.
    fn segment(compressor: Option<&Compressor>, sections: &[usize]) -> (SegmentHeader, Vec<u8>) {
        let parameters = match compressor {
            None => "{}".to_owned(),
            Some(compressor) => format!(r#"{{"compressionClass":"{}"}}"#, compressor.class_name()),
        };
        let mut bytes = header::encode(7, ID, &parameters);
        let header = SegmentHeader::decode(&bytes, ID).unwrap();
        let mut number = 0..;
        for count in sections {
            let plain: Vec<u8> = (0..*count).flat_map(|_| framed(&content(number.next().unwrap()))).collect();
            let mut stored = Vec::new();
            match compressor {
                None => stored = plain,
                Some(compressor) => {
                    stored.extend((plain.len() as u32).to_be_bytes());
                    compressor.compress(&plain, &mut Workspace::default(), &mut stored).unwrap();
                }
            }
            let at = bytes.len();
            bytes.extend(marker(at, at + MARKER + stored.len()));
            bytes.extend(stored);
        }
        (header, bytes)
    }

    fn content(number: usize) -> Vec<u8> {
        format!("the record with the number {number}").into_bytes()
    }

    type Read = Result<(Vec<i32>, Option<Problem>), Problem>;

    fn read(header: &SegmentHeader, bytes: &[u8], is_last: bool) -> Read {
        let mut positions = Vec::new();
        let mut number = 0..;
        let result = for_each_record(header, ID, bytes, is_last, |position, record| {
            assert_eq!(record, content(number.next().unwrap()));
            positions.push(position);
            Ok::<(), ()>(())
        });
        match result {
            Ok(torn) => Ok((positions, torn)),
            Err(Stopped::Damaged(problem)) => Err(problem),
            Err(Stopped::Failed(())) => unreachable!(),
        }
    }

    #[test]
    fn records_have_the_positions_of_their_ends_before_compression() {
        let (header, plain) = segment(None, &[2, 0, 3]);
        let (positions, torn) = read(&header, &plain, false).unwrap();
        assert_eq!((positions.len(), torn), (5, None));
        assert_eq!(*positions.last().unwrap() as usize, plain.len());
        let unused = [plain.as_slice(), &[0; 64]].concat();
        assert_eq!(read(&header, &unused, false).unwrap().0, positions);
        for compressor in [
            Compressor::Lz4 { high: None },
            Compressor::Snappy,
            Compressor::Zstd { level: 3 },
            Compressor::Deflate,
        ] {
            let (header, bytes) = segment(Some(&compressor), &[2, 0, 3]);
            let read = read(&header, &bytes, false).unwrap().0;
            let parameters = header.length - "{}".len() - 18;
            let moved: Vec<i32> = positions.iter().map(|at| at + parameters as i32).collect();
            assert_eq!(read, moved, "{compressor:?}");
        }
    }

    #[test]
    fn records_of_a_section_without_an_end_are_read_as_far_as_they_are_complete() {
        let (header, closed) = segment(None, &[2]);
        let more = [framed(&content(2)), framed(&content(3))].concat();
        for end in [0u32, 4711] {
            let open = [closed.as_slice(), &end.to_be_bytes(), &[0; 4], &more, &[0; 32]].concat();
            let (positions, torn) = read(&header, &open, false).unwrap();
            assert_eq!((positions.len(), torn), (4, None));
            let cut = open.len() - 32 - 5;
            let torn = [&open[..cut], &[0; 64]].concat();
            let (positions, problem) = read(&header, &torn, false).unwrap();
            assert_eq!(positions.len(), 3);
            assert!(problem.unwrap().detail.contains("checksum"));
        }
    }

    #[test]
    fn only_the_last_section_of_the_last_segment_may_be_torn() {
        for compressor in [None, Some(Compressor::Lz4 { high: None })] {
            let (header, bytes) = segment(compressor.as_ref(), &[2, 2]);
            let (_, first) = segment(compressor.as_ref(), &[2]);
            for cut in [bytes.len() - 1, bytes.len() - 20, first.len() + MARKER + 1] {
                let (positions, torn) = read(&header, &bytes[..cut], true).unwrap();
                assert!((2..4).contains(&positions.len()) && torn.is_some(), "{compressor:?}: {positions:?}");
                let problem = read(&header, &bytes[..cut], false).unwrap_err();
                assert_eq!(problem.offset, first.len() as u64);
            }
            for at in header.length..bytes.len() {
                let mut damaged = bytes.clone();
                damaged[at] ^= 0x10;
                let found = read(&header, &damaged, true);
                if (first.len()..first.len() + 4).contains(&at) {
                    // The end of the last section, which no checksum covers.
                    assert!(found.is_err() || found.unwrap().1.is_some(), "{compressor:?} at {at}");
                } else if at >= first.len() + MARKER {
                    let (positions, torn) = found.unwrap();
                    assert!(positions.len() >= 2 && torn.is_some(), "{compressor:?} at {at}");
                } else {
                    let offset = found.unwrap_err().offset as usize;
                    // A wrong end of a section is found where a record should begin.
                    assert!(offset.abs_diff(at) < 128, "{compressor:?} at {at}: {offset}");
                }
                assert!(read(&header, &damaged, false).is_err(), "{compressor:?} at {at}");
            }
        }
    }

    #[test]
    fn a_claimed_length_is_bounded_before_memory_is_allocated() {
        let lz4 = Compressor::Lz4 { high: None };
        let (header, mut bytes) = segment(Some(&lz4), &[1]);
        let length = header.length + MARKER;
        bytes[length..length + 4].fill(0xff);
        assert!(read(&header, &bytes, false).unwrap_err().detail.contains("at most"));
    }
}
