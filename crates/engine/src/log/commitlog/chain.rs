//! The chain of captured segments, by which a consumer notices that it has missed changes.
//!
//! ```text
//! <cdc_raw>/chain                the number of the chain, 32 hexadecimal digits, and the ids of its segments,
//!                                each in a line
//! <log's directory>/cdc_chain    the number of the chain that the log continues
//! ```
//!
//! A chain contains every change of captured tables since it began. It ends when the log is opened
//! without change data capture or with another directory, because changes are captured elsewhere,
//! or not at all, from then on.
//!
//! # Invariants
//!
//! 1. A segment is durably in the chain before its index is written. Indexes are written in the
//!    order of segments, so a reader that sees an index sees all earlier segments of the chain.
//! 2. Removing a segment leaves its id in the chain: another consumer may not have read it. Only
//!    the log removes ids, of segments that turn out to have no captured changes, and does so
//!    before it removes the segments.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use cassette_vfs::FileSystem;

const OF_DIRECTORY: &str = "chain";
const OF_LOG: &str = "cdc_chain";

/// Ids of removed segments that stay in the file, for consumers that are behind: 128 GiB of
/// segments with 32 MiB each.
const REMOVED_KEPT: usize = 4096;

/// The maximum length of the file, bytes: three million segments.
const LENGTH_MAX: u64 = 64 << 20;

/// The content of the file in the directory of captured segments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chain {
    /// Its number.
    pub number: u128,
    /// Its segments with captured changes, whether or not they have been removed. If older ones
    /// are forgotten, the first one has been removed.
    pub segments: BTreeSet<u64>,
}

impl Chain {
    /// Reads the chain of a directory; `None` if it has none.
    pub fn read(fs: &dyn FileSystem, directory: &Path) -> io::Result<Option<Self>> {
        let path = directory.join(OF_DIRECTORY);
        let length = match fs.metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            metadata => metadata?.len,
        };
        let invalid = |what: &str| {
            let text = format!("{}: {what}", path.display());
            io::Error::new(io::ErrorKind::InvalidData, text)
        };
        if length > LENGTH_MAX {
            return Err(invalid("expected a chain of captured segments, found a longer file"));
        }
        let text = fs.read(&path)?;
        Self::decode(&text).map(Some).ok_or_else(|| invalid("expected a chain of captured segments"))
    }

    /// Continues the chain of the log and of the directory if both have the same, and begins the
    /// chain `new` otherwise. Called before the log accepts records.
    pub fn begin_or_continue(
        fs: &dyn FileSystem,
        directory: &Path,
        log: &Path,
        new: u128,
    ) -> io::Result<Self> {
        let path = log.join(OF_LOG);
        let continued = if fs.exists(&path)? { parse_number(&fs.read(&path)?) } else { None };
        if let Some(chain) = Self::read_valid(fs, directory)?
            && Some(chain.number) == continued
        {
            return Ok(chain);
        }
        let chain = Self { number: new, segments: BTreeSet::new() };
        // A crash in between leaves two numbers, so the next start begins another chain.
        chain.write(fs, directory)?;
        fs.create_dir_all(log)?;
        fs.write_atomically(&path, format!("{new:032x}").as_bytes())?;
        Ok(chain)
    }

    /// Reads the chain of a directory; `None` if it has none or a damaged one.
    pub fn read_valid(fs: &dyn FileSystem, directory: &Path) -> io::Result<Option<Self>> {
        match Self::read(fs, directory) {
            Err(error) if error.kind() == io::ErrorKind::InvalidData => Ok(None),
            read => read,
        }
    }

    /// Ends the chain of a log, if it has one: changes are not captured from now on.
    pub fn end(fs: &dyn FileSystem, log: &Path) -> io::Result<()> {
        let path = log.join(OF_LOG);
        if fs.exists(&path)? {
            fs.remove_file(&path)?;
            fs.sync_dir(log)?;
        }
        Ok(())
    }

    /// Durably adds a segment. `exists` returns the ids of those that have not been removed; it is
    /// called when old ones must be forgotten.
    pub fn add(
        &mut self,
        fs: &dyn FileSystem,
        directory: &Path,
        segment: u64,
        exists: impl FnOnce() -> io::Result<BTreeSet<u64>>,
    ) -> io::Result<()> {
        if self.segments.contains(&segment) {
            return Ok(());
        }
        let mut changed = self.clone();
        changed.segments.insert(segment);
        if changed.segments.len() >= 2 * REMOVED_KEPT {
            changed.forget(&exists()?);
        }
        changed.write(fs, directory)?;
        *self = changed;
        Ok(())
    }

    /// Forgets removed segments but the last ones, of which the first shows that there were more.
    fn forget(&mut self, existing: &BTreeSet<u64>) {
        let mut removed = self.segments.iter().rev().filter(|segment| !existing.contains(segment));
        if let Some(first) = removed.nth(REMOVED_KEPT - 1).copied() {
            self.segments.retain(|segment| *segment >= first || existing.contains(segment));
        }
    }

    /// Durably removes segments that have no captured changes.
    pub fn discard(&mut self, fs: &dyn FileSystem, directory: &Path, segments: &[u64]) -> io::Result<()> {
        if segments.iter().any(|segment| self.segments.contains(segment)) {
            let mut changed = self.clone();
            changed.segments.retain(|segment| !segments.contains(segment));
            changed.write(fs, directory)?;
            *self = changed;
        }
        Ok(())
    }

    fn write(&self, fs: &dyn FileSystem, directory: &Path) -> io::Result<()> {
        fs.write_atomically(&directory.join(OF_DIRECTORY), self.encode().as_bytes())
    }

    fn encode(&self) -> String {
        let mut text = format!("{:032x}\n", self.number);
        for segment in &self.segments {
            text.push_str(&segment.to_string());
            text.push('\n');
        }
        text
    }

    fn decode(text: &[u8]) -> Option<Self> {
        let mut lines = std::str::from_utf8(text).ok()?.lines();
        let number = parse_number(lines.next()?.as_bytes())?;
        let segments = lines.map(|line| line.parse().ok()).collect::<Option<_>>()?;
        Some(Self { number, segments })
    }
}

fn parse_number(text: &[u8]) -> Option<u128> {
    let text = std::str::from_utf8(text).ok().filter(|text| text.len() == 32)?;
    u128::from_str_radix(text, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_is_decoded_as_encoded_and_damage_is_noticed() {
        let chain = Chain { number: 7 << 90, segments: BTreeSet::from([3, 5, u64::MAX]) };
        let text = chain.encode();
        assert_eq!(Chain::decode(text.as_bytes()), Some(chain));
        for damaged in ["", "7\n", &text[1..], &format!("{text}x\n"), &format!("{text}-1\n")] {
            assert_eq!(Chain::decode(damaged.as_bytes()), None, "{damaged}");
        }
    }

    #[test]
    fn forgetting_keeps_what_exists_and_a_removed_segment_before_the_rest() {
        let count = 3 * REMOVED_KEPT as u64;
        let mut chain = Chain { number: 1, segments: (0..count).collect() };
        let existing = BTreeSet::from([5, count - 1]);
        chain.forget(&existing);
        let first = count - 1 - REMOVED_KEPT as u64;
        assert_eq!(chain.segments, (first..count).chain([5]).collect());
        let before = chain.clone();
        chain.forget(&(0..count).collect());
        assert_eq!(chain, before);
    }
}
