//! Commit logs of Cassandra: the writes that its SSTables lack.
//!
//! `nodetool drain` leaves no segments, or new ones whose sections have no records. Otherwise the
//! records that no SSTable of the node covers are decoded and applied ([`replay`]).

mod header;
mod records;
mod replay;

pub(crate) use replay::{Flushed, ReplayTable, replay};

use std::path::{Path, PathBuf};

use cassette_vfs::FileSystem;

use self::header::SegmentHeader;
use crate::error::{AdoptError, Result};
use crate::layout::list;

/// Bytes of the marker at the start of a section.
const MARKER: usize = 8;

/// A segment that contains records, or may contain some.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Segment {
    pub path: PathBuf,
    /// The number in its name: later segments have larger ones.
    pub id: u64,
    pub bytes: u64,
}

/// Returns the segments that contain records, or may contain some, in the order of their ids.
pub(crate) fn segments_with_records(fs: &dyn FileSystem, directory: &Path) -> Result<Vec<Segment>> {
    let mut found = Vec::new();
    for entry in list(fs, directory)?.into_iter().filter(|entry| !entry.is_dir) {
        let Some(id) = segment_id(&entry.name) else { continue };
        let path = directory.join(&entry.name);
        if has_records(fs, &path)? {
            found.push(Segment { path, id, bytes: entry.len });
        }
    }
    found.sort_by_key(|segment| segment.id);
    Ok(found)
}

/// Returns the id in the name of a segment: `CommitLog-7-1700000000000.log`.
fn segment_id(name: &str) -> Option<u64> {
    let (_version, id) = name.strip_prefix("CommitLog-")?.strip_suffix(".log")?.split_once('-')?;
    id.parse().ok()
}

/// Checks that the versions, compressions and headers of segments are supported.
///
/// # Errors
/// [`AdoptError::CommitLog`] with the first segment that is not.
pub(crate) fn check_segments(fs: &dyn FileSystem, segments: &[Segment]) -> Result<()> {
    for segment in segments {
        let bytes = read_start(fs, &segment.path)?;
        SegmentHeader::decode(&bytes, segment.id).map_err(|detail| segment.damaged(0, &detail))?;
    }
    Ok(())
}

/// Calls `each` with the position and the content of every record of a segment with this id: for
/// the fuzz target. `is_last` is true for the last segment of a log.
///
/// # Errors
/// A text for users, if the segment is damaged or not supported.
#[doc(hidden)]
pub fn read_segment(
    content: &[u8],
    id: u64,
    is_last: bool,
    mut each: impl FnMut(i32, &[u8]),
) -> std::result::Result<(), String> {
    let header = SegmentHeader::decode(content, id)?;
    let each = |position, record: &[u8]| -> std::result::Result<(), std::convert::Infallible> {
        each(position, record);
        Ok(())
    };
    match records::for_each_record(&header, id, content, is_last, each) {
        Ok(_) => Ok(()),
        Err(records::Stopped::Damaged(problem)) => Err(problem.detail),
        Err(records::Stopped::Failed(never)) => match never {},
    }
}

impl Segment {
    fn damaged(&self, offset: u64, detail: &str) -> AdoptError {
        AdoptError::CommitLog { segment: self.path.clone(), offset, detail: detail.to_owned() }
    }
}

/// Whether a segment contains a record. What is not understood counts as one.
fn has_records(fs: &dyn FileSystem, path: &Path) -> Result<bool> {
    let bytes = read_start(fs, path)?;
    Ok(first_record(&bytes, bytes.len() < START).unwrap_or(true))
}

/// Bytes of a segment that are read to examine it: more than the header, whose parameters are those
/// of compression and encryption.
const START: usize = 128 << 10;

fn read_start(fs: &dyn FileSystem, path: &Path) -> Result<Vec<u8>> {
    let reading = |error| AdoptError::io("read", path)(error);
    let file = fs.open(path).map_err(reading)?;
    let mut bytes = vec![0; START];
    let mut length = 0;
    while length < START {
        let piece = bytes.get_mut(length..).unwrap_or_default();
        let read = file.read_at(piece, length as u64).map_err(reading)?;
        if read == 0 {
            break;
        }
        length += read;
    }
    bytes.truncate(length);
    Ok(bytes)
}

/// Whether there is a record in the beginning of a segment; `None` if that is not clear.
fn first_record(bytes: &[u8], is_all: bool) -> Option<bool> {
    if is_all && bytes.iter().all(|byte| *byte == 0) {
        return Some(false);
    }
    let parameters = u16::from_be_bytes(bytes.get(12..14)?.try_into().ok()?);
    let start = 14 + usize::from(parameters) + 4;
    let int = |at: usize| bytes.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes);
    let mut at = start;
    loop {
        let rest = bytes.get(at..).unwrap_or_default();
        // Also after a crash: its records follow the marker of a section that has no end yet.
        if rest.iter().all(|byte| *byte == 0) {
            return (is_all || !rest.is_empty()).then_some(false);
        }
        let end = usize::try_from(int(at)?).ok()?;
        if end != at + MARKER {
            return Some(true);
        }
        at = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(parameters: &[u8], after: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 1];
        bytes.extend(u16::try_from(parameters.len()).unwrap().to_be_bytes());
        bytes.extend_from_slice(parameters);
        bytes.extend([1, 2, 3, 4]);
        bytes.extend_from_slice(after);
        bytes
    }

    #[test]
    fn only_segments_without_records_are_empty() {
        for (bytes, expected) in [
            (segment(b"{}", &[]), Some(false)),
            (segment(b"{}", &[0; 100]), Some(false)),
            (segment(b"{}", &[0, 0, 0, 60, 9, 9, 9, 9, 0, 0, 0, 12, 1, 1, 1, 1]), Some(true)),
            (segment(b"{}", &[0, 0, 0, 28, 9, 9, 9, 9, 0, 0, 0, 0, 0, 0, 0, 0]), Some(false)),
            (segment(b"{}", &[0, 0, 0, 28, 9, 9, 9, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 12]), Some(true)),
            (vec![0; 50], Some(false)),
            (Vec::new(), Some(false)),
            (vec![1, 2, 3], None),
        ] {
            assert_eq!(first_record(&bytes, true), expected, "{bytes:?}");
            for length in 0..bytes.len() {
                // A piece may be unclear, and never fails.
                let _ = first_record(&bytes[..length], false);
            }
        }
    }
}
