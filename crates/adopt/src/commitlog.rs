//! Whether a commit log of Cassandra contains writes that its SSTables lack.
//!
//! `nodetool drain` leaves no segments, or new ones whose sections have no records:
//!
//! ```text
//! version int, id long, length of parameters short, parameters, checksum int
//! end of the section int (0 for none yet), checksum int, then the records of the section
//! ```
//!
//! Integers are big-endian.

use std::path::{Path, PathBuf};

use cassette_vfs::FileSystem;

use crate::error::{AdoptError, Result};
use crate::layout::list;

/// Bytes of the marker at the start of a section.
const MARKER: usize = 8;

/// Returns the segments that contain records, or may contain some, with their sizes.
pub(crate) fn segments_with_records(fs: &dyn FileSystem, directory: &Path) -> Result<Vec<(PathBuf, u64)>> {
    let mut found = Vec::new();
    for entry in list(fs, directory)? {
        let is_segment = entry.name.starts_with("CommitLog-") && entry.name.ends_with(".log");
        if !entry.is_dir && is_segment {
            let path = directory.join(&entry.name);
            if has_records(fs, &path)? {
                found.push((path, entry.len));
            }
        }
    }
    Ok(found)
}

/// Whether a segment contains a record. What is not understood counts as one.
fn has_records(fs: &dyn FileSystem, path: &Path) -> Result<bool> {
    /// More than the header, whose parameters are those of compression and encryption.
    const READ: usize = 128 << 10;
    let reading = |error| AdoptError::io("read", path)(error);
    let file = fs.open(path).map_err(reading)?;
    let mut bytes = vec![0; READ];
    let mut length = 0;
    while length < READ {
        let piece = bytes.get_mut(length..).unwrap_or_default();
        let read = file.read_at(piece, length as u64).map_err(reading)?;
        if read == 0 {
            break;
        }
        length += read;
    }
    let is_at_end = length < READ;
    bytes.truncate(length);
    Ok(first_record(&bytes, is_at_end).unwrap_or(true))
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
