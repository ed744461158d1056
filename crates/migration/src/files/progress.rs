//! The progress file of a move by files.
//!
//! ```text
//! {"move_files":1,"from":…,"to":…}
//! {"grace":{"keyspace":…,"table":…,"seconds":…}}    gc_grace_seconds before it was raised
//! {"done":"32 hexadecimal digits"}                   a transfer, by what identifies it
//! ```
//!
//! A line of [`Journal`] each. A transfer is identified by the content of the SSTable, the table at
//! the target, the node and the sections, so that a line never applies to another one.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::journal::{Journal, fail};

const VERSION: u32 = 1;

/// The first line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Header {
    #[serde(rename = "move_files")]
    version: u32,
    from: String,
    to: String,
}

/// `gc_grace_seconds` of a table before it was raised.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grace {
    pub keyspace: String,
    pub table: String,
    pub seconds: i32,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Grace(Grace),
    Done(String),
}

/// The progress, in memory and on disk.
pub struct Progress {
    journal: Journal,
    done: HashSet<String>,
    /// Of keyspaces and tables, the last line of each.
    graces: Mutex<BTreeMap<(String, String), i32>>,
}

impl Progress {
    /// Opens the file of an earlier run between the same places, or creates it.
    ///
    /// # Errors
    /// If it belongs to another move, is in use, or cannot be written.
    pub fn open(path: &Path, from: &str, to: &str) -> Result<Self> {
        let task = Header { version: VERSION, from: from.to_owned(), to: to.to_owned() };
        let (mut done, mut graces) = (HashSet::new(), BTreeMap::new());
        let (journal, is_new) = Journal::open(path, |text| {
            let mut lines = text.lines();
            let Some(first) = lines.next() else { return Ok(true) };
            let found: Header = serde_json::from_str(first).map_err(|_| {
                fail(
                    path,
                    &"expected the progress of a move by files, found something else: specify another \
                             file with --progress",
                )
            })?;
            if found != task {
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
                    Line::Done(key) => _ = done.insert(key),
                    Line::Grace(Grace { keyspace, table, seconds }) => {
                        graces.insert((keyspace, table), seconds);
                    }
                }
            }
            Ok(false)
        })?;
        if is_new {
            journal.append(&task)?;
        }
        Ok(Self { journal, done, graces: Mutex::new(graces) })
    }

    /// Returns whether an earlier run has completed a transfer.
    pub fn is_done(&self, key: &str) -> bool {
        self.done.contains(key)
    }

    /// Records durably that a transfer is complete.
    pub fn finish(&self, key: &str) -> Result<()> {
        self.journal.append(&Line::Done(key.to_owned()))
    }

    /// Returns the recorded `gc_grace_seconds` of a table.
    pub fn grace(&self, keyspace: &str, table: &str) -> Option<i32> {
        self.graces.lock().get(&(keyspace.to_owned(), table.to_owned())).copied()
    }

    /// Returns the keyspaces and names of tables with recorded `gc_grace_seconds`.
    pub fn raised(&self) -> Vec<(String, String)> {
        self.graces.lock().keys().cloned().collect()
    }

    /// Records durably what a table's `gc_grace_seconds` is before it is raised.
    pub fn record_grace(&self, grace: Grace) -> Result<()> {
        self.journal.append(&Line::Grace(grace.clone()))?;
        self.graces.lock().insert((grace.keyspace, grace.table), grace.seconds);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completed_transfers_survive_a_cut_off_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("progress");
        let grace = Grace { keyspace: "ks".into(), table: "t".into(), seconds: 864_000 };
        {
            let progress = Progress::open(&path, "a", "b").unwrap();
            progress.record_grace(grace).unwrap();
            progress.finish("0f").unwrap();
            assert!(Progress::open(&path, "a", "b").is_err(), "it is in use");
        }
        let whole = std::fs::read_to_string(&path).unwrap();
        for cut in 0..=whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let progress = Progress::open(&path, "a", "b").unwrap();
            let lines = whole[..cut].matches('\n').count();
            assert_eq!(progress.is_done("0f"), lines >= 3, "{cut}");
            let recorded = if lines >= 2 { Some(864_000) } else { None };
            assert_eq!(progress.grace("ks", "t"), recorded, "{cut}");
            assert_eq!(progress.raised().len(), usize::from(recorded.is_some()), "{cut}");
            progress.finish("10").unwrap();
            drop(progress);
            assert!(Progress::open(&path, "a", "b").unwrap().is_done("10"), "{cut}");
        }
    }

    #[test]
    fn the_progress_of_another_move_is_left_as_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("progress");
        drop(Progress::open(&path, "a", "b").unwrap());
        // It can be verified by rows.
        assert!(crate::progress::Progress::read_header(&path).unwrap().is_none());
        let other = Progress::open(&path, "a", "c").err().unwrap().to_string();
        assert!(other.contains("from a to b"), "{other}");
        let by_rows = "{\"move\":1}\n{\"done\":[0,0]}\n{\"cut";
        std::fs::write(&path, by_rows).unwrap();
        let error = Progress::open(&path, "a", "b").err().unwrap().to_string();
        assert!(error.contains("progress of a move by files"), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), by_rows);
    }
}
