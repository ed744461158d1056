//! The progress file: which token ranges have been copied.
//!
//! ```text
//! {"move":1,"from":…,"to":…,"ranges":…,"started_micros":…,"tables":[[keyspace, table, id, was empty],…],
//!  "follows":{"segment":…,"offset":…,"chain":…,"state":…}}     only of moves that follow changes
//! {"started":[table, range]}      only of tables whose writes must not be repeated blindly
//! {"done":[table, range]}
//! {"followed":[segment, offset]}  the target has all captured changes up to this position
//! ```
//!
//! A line of [`Journal`] each.

use std::collections::HashSet;
use std::path::Path;

use cassette_database::Position;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::journal::{Journal, fail};

/// The start of the progress of moves by files and in bulk, which can be verified by rows.
const OF_OTHERS: [&str; 2] = ["{\"move_files\":", "{\"move_bulk\":"];

/// The first line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Version of the format.
    #[serde(rename = "move")]
    pub version: u32,
    pub from: String,
    pub to: String,
    /// Token ranges per table.
    pub ranges: u32,
    /// Start of the first run, in microseconds since 1970.
    pub started_micros: i64,
    pub tables: Vec<TableEntry>,
    /// Where the changes begin that follow the copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follows: Option<FollowStart>,
}

/// The point of the source's log before the copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FollowStart {
    pub segment: u64,
    pub offset: u32,
    /// Of the captured segments.
    #[serde(default)]
    pub chain: String,
    /// Of the schema and of truncations.
    pub state: String,
}

/// A table of the source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableEntry {
    pub keyspace: String,
    pub name: String,
    pub id: String,
    /// Whether the target had no row of it at the start of the first run.
    pub was_empty: bool,
}

impl Header {
    /// Returns whether an earlier run had the same task.
    fn is_same(&self, other: &Self) -> bool {
        let tables = |header: &Self| {
            let table = |entry: &TableEntry| (entry.keyspace.clone(), entry.name.clone(), entry.id.clone());
            header.tables.iter().map(table).collect::<Vec<_>>()
        };
        (self.version, &self.from, &self.to, self.ranges, self.follows.is_some())
            == (other.version, &other.from, &other.to, other.ranges, other.follows.is_some())
            && tables(self) == tables(other)
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Started(usize, u32),
    Done(usize, u32),
    Followed(u64, u32),
}

/// The progress of a move, in memory and on disk.
pub struct Progress {
    journal: Journal,
    /// Of the first run.
    pub header: Header,
    started: HashSet<(usize, u32)>,
    done: HashSet<(usize, u32)>,
    followed: Option<Position>,
}

impl Progress {
    /// Reads the header of an existing file; `None` if there is none, it is empty, or it is that of
    /// a move by files or in bulk.
    pub fn read_header(path: &Path) -> Result<Option<Header>> {
        let Some(text) = Journal::read(path)? else { return Ok(None) };
        if OF_OTHERS.iter().any(|start| text.starts_with(start)) { Ok(None) } else { header(path, &text) }
    }

    /// Opens the file of an earlier run with the same task, or creates it.
    ///
    /// # Errors
    /// If it belongs to another move, is in use, or cannot be written.
    pub fn open(path: &Path, task: &Header) -> Result<Self> {
        let (mut started, mut done, mut followed) = (HashSet::new(), HashSet::new(), None);
        let (journal, found) = Journal::open(path, |text| {
            let found = header(path, text)?;
            if let Some(other) = found.as_ref().filter(|found| !found.is_same(task)) {
                return Err(fail(
                    path,
                    &format!(
                        "it belongs to another move, from {} to {}, or with other options, or the tables have \
                         changed: specify another file with --progress, or remove it to copy all rows again",
                        other.from, other.to
                    ),
                ));
            }
            for line in text.lines().skip(1) {
                match serde_json::from_str(line).map_err(|error| fail(path, &error))? {
                    Line::Started(table, range) => _ = started.insert((table, range)),
                    Line::Done(table, range) => _ = done.insert((table, range)),
                    Line::Followed(segment, offset) => followed = Some(Position { segment, offset }),
                }
            }
            Ok(found)
        })?;
        if found.is_none() {
            journal.append(task)?;
        }
        Ok(Self { journal, header: found.unwrap_or_else(|| task.clone()), started, done, followed })
    }

    /// Returns whether a range is complete.
    pub fn is_done(&self, table: usize, range: u32) -> bool {
        self.done.contains(&(table, range))
    }

    /// Returns whether an earlier run may have copied a part of a range.
    pub fn was_started(&self, table: usize, range: u32) -> bool {
        self.started.contains(&(table, range))
    }

    /// Number of complete ranges of earlier runs.
    pub fn done_count(&self) -> u64 {
        self.done.len() as u64
    }

    /// Records durably that a range is about to be copied.
    pub fn start(&self, table: usize, range: u32) -> Result<()> {
        self.journal.append(&Line::Started(table, range))
    }

    /// Records durably that a range is complete.
    pub fn finish(&self, table: usize, range: u32) -> Result<()> {
        self.journal.append(&Line::Done(table, range))
    }

    /// Returns the position up to which earlier runs applied changes, or where they begin; `None`
    /// of a move that does not follow them.
    pub fn followed(&self) -> Option<Position> {
        let start = self.header.follows.as_ref()?;
        Some(self.followed.unwrap_or(Position { segment: start.segment, offset: start.offset }))
    }

    /// Records durably that the target has all changes up to a position.
    pub fn follow(&self, position: Position) -> Result<()> {
        self.journal.append(&Line::Followed(position.segment, position.offset))
    }
}

/// Parses the first line; `None` if it is incomplete.
fn header(path: &Path, text: &str) -> Result<Option<Header>> {
    let Some((first, _)) = text.split_once('\n') else { return Ok(None) };
    let found: Header = serde_json::from_str(first).map_err(|_| {
        fail(
            path,
            &"expected the progress of a move, found something else: specify another file with --progress",
        )
    })?;
    Ok(Some(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(to: &str) -> Header {
        let table = |name: &str| TableEntry {
            keyspace: "ks".into(),
            name: name.into(),
            id: "1".into(),
            was_empty: true,
        };
        Header {
            version: 1,
            from: "a".into(),
            to: to.into(),
            ranges: 4,
            started_micros: 7,
            tables: vec![table("t"), table("u")],
            follows: None,
        }
    }

    #[test]
    fn the_position_of_followed_changes_survives_and_begins_where_the_copy_did() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("progress");
        let follows = Some(FollowStart { segment: 5, offset: 6, chain: "c".into(), state: "s".into() });
        let following = Header { follows, ..task("b") };
        let at = |segment, offset| Some(Position { segment, offset });
        {
            let progress = Progress::open(&path, &following).unwrap();
            assert_eq!(progress.followed(), at(5, 6));
            progress.follow(Position { segment: 5, offset: 70 }).unwrap();
            progress.follow(Position { segment: 7, offset: 8 }).unwrap();
        }
        assert_eq!(Progress::open(&path, &following).unwrap().followed(), at(7, 8));
        assert!(Progress::open(&path, &task("b")).is_err(), "a move without --follow must not continue it");
    }

    #[test]
    fn progress_survives_a_cut_off_line_and_belongs_to_one_task() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("progress");
        assert_eq!(Progress::read_header(&path).unwrap(), None);
        {
            let progress = Progress::open(&path, &task("b")).unwrap();
            progress.start(0, 1).unwrap();
            progress.finish(0, 1).unwrap();
            progress.start(1, 3).unwrap();
            let second = Progress::open(&path, &task("b")).err().unwrap().to_string();
            assert!(second.contains("another move uses it"), "{second}");
        }
        let whole = std::fs::read_to_string(&path).unwrap();
        for cut in 0..=whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let later = Header { started_micros: 9, ..task("b") };
            let progress = Progress::open(&path, &later).unwrap();
            let lines = whole[..cut].matches('\n').count();
            assert_eq!(progress.is_done(0, 1), lines >= 3, "{cut}");
            assert_eq!(progress.was_started(1, 3), lines >= 4, "{cut}");
            assert_eq!(progress.header.started_micros, if lines >= 1 { 7 } else { 9 }, "{cut}");
            progress.finish(1, 2).unwrap();
            drop(progress);
            assert!(Progress::open(&path, &task("b")).unwrap().is_done(1, 2), "{cut}");
        }
        let other = Progress::open(&path, &task("c")).err().unwrap().to_string();
        assert!(other.contains("from a to b"), "{other}");
        std::fs::write(&path, "{\"move_files\":1,\"from\":\"a\",\"to\":\"b\"}\n").unwrap();
        assert_eq!(Progress::read_header(&path).unwrap(), None);
        assert!(Progress::open(&path, &task("b")).is_err());
        std::fs::write(&path, "my notes\n").unwrap();
        assert!(Progress::open(&path, &task("b")).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "my notes\n");
    }
}
