//! The progress file of a move in bulk.
//!
//! ```text
//! {"move_bulk":1,"from":…,"to":…,"started_micros":…}
//! {"directory":"…"}                        the directory of parts, which belongs to the move
//! "sending"                                parts may have been sent since
//! {"done":["32 hexadecimal digits",a,b]}    a token range of a table, above a, up to b
//! ```
//!
//! A line of [`Journal`] each. A table is identified by its content at the source, its id at the
//! target, and the nodes that replicate it, so that a line never applies to another one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::journal::{Journal, fail};
use crate::token_range::TokenRange;

const VERSION: u32 = 1;

/// The first line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Header {
    #[serde(rename = "move_bulk")]
    version: u32,
    from: String,
    to: String,
    /// Start of the first run, in microseconds since 1970.
    started_micros: i64,
}

impl Header {
    /// Returns whether an earlier run had the same task.
    fn is_same(&self, other: &Self) -> bool {
        (self.version, &self.from, &self.to) == (other.version, &other.from, &other.to)
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Directory(PathBuf),
    Sending,
    Done(String, i64, i64),
}

/// The progress, in memory and on disk.
pub struct Progress {
    journal: Journal,
    /// Start of the first run, in microseconds since 1970.
    pub started_micros: i64,
    /// Whether an earlier run may have sent parts.
    pub was_sending: bool,
    /// The directories of parts of earlier runs.
    pub directories: Vec<PathBuf>,
    done: BTreeMap<String, Vec<TokenRange>>,
}

impl Progress {
    /// Opens the file of an earlier run between the same places, or creates it.
    ///
    /// # Errors
    /// If it belongs to another move, is in use, or cannot be written.
    pub fn open(path: &Path, from: &str, to: &str, now_micros: i64) -> Result<Self> {
        let (from, to) = (from.to_owned(), to.to_owned());
        let task = Header { version: VERSION, from, to, started_micros: now_micros };
        let (mut directories, mut was_sending) = (Vec::new(), false);
        let mut done = BTreeMap::<_, Vec<_>>::new();
        let (journal, earlier) = Journal::open(path, |text| {
            let mut lines = text.lines();
            let Some(first) = lines.next() else { return Ok(None) };
            let found: Header = serde_json::from_str(first).map_err(|_| {
                let text = "expected the progress of a move in bulk, found something else: specify another file \
                            with --progress";
                fail(path, &text)
            })?;
            if !found.is_same(&task) {
                return Err(fail(
                    path,
                    &format!(
                        "it belongs to another move, from {} to {}: specify another file with --progress",
                        found.from, found.to
                    ),
                ));
            }
            for line in lines {
                match serde_json::from_str(line).map_err(|error| fail(path, &error))? {
                    Line::Directory(path) => directories.push(path),
                    Line::Sending => was_sending = true,
                    Line::Done(table, start, end) => {
                        done.entry(table).or_default().push(TokenRange(start, end));
                    }
                }
            }
            Ok(Some(found.started_micros))
        })?;
        if earlier.is_none() {
            journal.append(&task)?;
        }
        let started_micros = earlier.unwrap_or(now_micros);
        Ok(Self { journal, started_micros, was_sending, directories, done })
    }

    /// Returns the ranges of a table that earlier runs have completed.
    pub fn done(&self, table: &str) -> &[TokenRange] {
        self.done.get(table).map_or(&[], Vec::as_slice)
    }

    /// Records durably that a range of a table is complete.
    pub fn finish(&self, table: &str, range: TokenRange) -> Result<()> {
        self.journal.append(&Line::Done(table.to_owned(), range.0, range.1))
    }

    /// Records durably that parts will be sent.
    pub fn start_sending(&self) -> Result<()> {
        self.journal.append(&Line::Sending)
    }

    /// Records durably that a directory belongs to the move.
    pub fn record_directory(&self, directory: &Path) -> Result<()> {
        self.journal.append(&Line::Directory(directory.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_run_finds_completed_ranges_and_directories() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("progress");
        let first = Progress::open(&path, "a", "b", 1).unwrap();
        assert!(!first.was_sending && first.done("10").is_empty());
        first.start_sending().unwrap();
        first.record_directory(Path::new("/parts")).unwrap();
        let ranges = [TokenRange(i64::MIN, -5), TokenRange(7, i64::MAX)];
        ranges.iter().for_each(|range| first.finish("10", *range).unwrap());
        drop(first);
        let text = std::fs::read_to_string(&path).unwrap();
        let second = Progress::open(&path, "a", "b", 2).unwrap();
        assert_eq!((second.was_sending, second.started_micros), (true, 1));
        assert_eq!((second.done("10"), second.done("11")), (&ranges[..], &[][..]));
        assert_eq!(second.directories, [PathBuf::from("/parts")]);
        drop(second);
        // A line that was cut off is ignored.
        std::fs::write(&path, &text[..text.len() - 1]).unwrap();
        assert_eq!(Progress::open(&path, "a", "b", 3).unwrap().done("10"), &ranges[..1]);
    }

    #[test]
    fn the_progress_of_another_move_is_left_as_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("progress");
        drop(Progress::open(&path, "a", "b", 3).unwrap());
        // It can be verified by rows.
        assert!(crate::progress::Progress::read_header(&path).unwrap().is_none());
        let other = Progress::open(&path, "a", "c", 3).err().unwrap().to_string();
        assert!(other.contains("from a to b"), "{other}");
        let by_files = "{\"move_files\":1,\"from\":\"a\",\"to\":\"b\"}\n{\"done\":\"1\"}\n";
        std::fs::write(&path, by_files).unwrap();
        let error = Progress::open(&path, "a", "b", 3).err().unwrap().to_string();
        assert!(error.contains("progress of a move in bulk"), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), by_files);
    }
}
