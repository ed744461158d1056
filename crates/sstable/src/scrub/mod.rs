//! Scrubbing: the readable content of a damaged SSTable, as a stream for a new one.
//!
//! Data is read from its start to its end. If a partition cannot be read, Index locates the next
//! one, and for a large partition its next rows. Keys and rows that are out of order are returned
//! at the end, in order. Data that fails its checksum is not returned, nor, by default, are invalid
//! values of types.

mod entries;
mod rows;

use std::collections::VecDeque;
use std::sync::Arc;

use cassette_rows::{
    DecoratedKey, DeletionTime, PartitionHeader, PartitionStream, Result, StorageError, Unfiltered,
};

use self::entries::{Entries, Entry};
use self::rows::Rows;
use crate::data::Cursor;
pub use crate::reader::Salvage;
use crate::verify_values::{check_key, check_row};

/// The treatment of damage: `nodetool scrub`'s options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScrubOptions {
    /// Whether to continue after unreadable data in a counter table, whose counts are too low then.
    pub skip_corrupted: bool,
    /// Whether to validate every value against its type.
    pub validate: bool,
    /// Whether to set expirations that overflowed (CASSANDRA-14092) to the latest possible time.
    pub reinsert_overflowed_ttl: bool,
}

impl Default for ScrubOptions {
    /// `nodetool scrub`'s defaults.
    fn default() -> Self {
        Self { skip_corrupted: false, validate: true, reinsert_overflowed_ttl: false }
    }
}

/// The results of a scrub.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScrubReport {
    /// Intact partitions.
    pub good: u64,
    /// Partitions with missing parts.
    pub damaged: u64,
    /// Partitions, or parts of Data in their place, of which nothing could be read.
    pub lost: u64,
    /// Empty partitions.
    pub empty: u64,
    /// Partitions, or parts of them, that were out of order.
    pub out_of_order: u64,
    /// Rows whose expiration had overflowed.
    pub fixed_rows: u64,
    /// Descriptions of the damage, in the order of the file; the first [`MOST_MESSAGES`].
    pub messages: Vec<String>,
}

impl ScrubReport {
    /// Returns whether everything is returned.
    pub fn is_whole(&self) -> bool {
        self.damaged == 0 && self.lost == 0
    }
}

/// The maximum number of messages; a file of noise has one for every few bytes.
pub const MOST_MESSAGES: usize = 1000;

/// State collected during a scrub.
#[derive(Default)]
struct Log {
    messages: Vec<String>,
    fixed_rows: u64,
}

impl Log {
    fn warn(&mut self, message: String) {
        if self.messages.len() < MOST_MESSAGES {
            self.messages.push(message);
        }
    }
}

/// Returns whether an error means corrupt bytes. An unreadable disk does not.
fn is_damage(error: &StorageError) -> bool {
    match error {
        StorageError::Corrupt { .. } => true,
        StorageError::Io { source, .. } => source.kind() == std::io::ErrorKind::UnexpectedEof,
        StorageError::WouldBlock { .. }
        | StorageError::Interrupted(_)
        | StorageError::Unsupported { .. }
        | StorageError::Unwritable { .. } => false,
    }
}

fn key_text(key: &DecoratedKey) -> String {
    key.key().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A partition returned after all others, because it was out of order.
struct Displaced {
    header: PartitionHeader,
    unfiltered: VecDeque<Unfiltered>,
}

enum State {
    /// Between two partitions.
    Between,
    /// In a partition of the file.
    In(Box<Rows>),
    /// At the end; returns the partitions that were out of order.
    Rest(Option<Displaced>),
}

/// The readable content of a damaged SSTable as a stream. Keys ascend, except for those at the end
/// that were out of order: these ascend among themselves, and one can occur twice.
pub struct Scrub {
    source: Arc<Salvage>,
    options: ScrubOptions,
    cursor: Cursor,
    entries: Entries,
    /// The start of the next partition.
    at: u64,
    /// Whether only Index confirms that start.
    jumped: bool,
    last: Option<DecoratedKey>,
    state: State,
    displaced: Vec<Displaced>,
    report: ScrubReport,
    log: Log,
}

impl Scrub {
    /// Creates a scrub at the start of the SSTable.
    pub fn new(source: Arc<Salvage>, options: ScrubOptions) -> Result<Self> {
        let mut log = Log { messages: source.warnings().to_vec(), fixed_rows: 0 };
        let entries = Entries::new(source.clone(), &mut log)?;
        Ok(Self {
            cursor: source.cursor(),
            entries,
            source,
            options,
            at: 0,
            jumped: false,
            last: None,
            state: State::Between,
            displaced: Vec::new(),
            report: ScrubReport::default(),
            log,
        })
    }

    /// Returns the file that is read.
    pub fn path(&self) -> std::path::PathBuf {
        self.source.descriptor().path(crate::Component::Data)
    }

    /// Returns the progress: bytes of the uncompressed Data.
    pub fn position(&self) -> u64 {
        self.cursor.offset()
    }

    /// Returns the results so far.
    pub fn report(&self) -> ScrubReport {
        ScrubReport {
            fixed_rows: self.log.fixed_rows,
            messages: self.log.messages.clone(),
            ..self.report.clone()
        }
    }

    /// Moves to the next partition of the file of which anything can be read.
    fn next_of_file(&mut self) -> Result<Option<(PartitionHeader, Box<Rows>)>> {
        loop {
            let start = self.at;
            if start >= self.source.uncompressed_bytes() {
                return Ok(None);
            }
            self.cursor.seek(start);
            let entry = self.entries.at(start, &mut self.log)?;
            if let Some(begun) = self.begin(start, entry)? {
                return Ok(Some(begun));
            }
            self.report.lost += 1;
            self.check_may_skip(None)?;
            self.go_behind(start)?;
        }
    }

    /// Continues at the first partition after `start` in Index, or ends.
    fn go_behind(&mut self, start: u64) -> Result<()> {
        let next = self.entries.after(start, &mut self.log)?.map(|entry| entry.position);
        self.at = next.unwrap_or(u64::MAX);
        self.jumped = true;
        Ok(())
    }

    /// Reads the header of the partition at `start`; `None` if nothing of it can be read.
    fn begin(&mut self, start: u64, entry: Option<Entry>) -> Result<Option<(PartitionHeader, Box<Rows>)>> {
        let read = match self.cursor.key_and_deletion() {
            Ok((key, deletion)) => match check_key(self.source.table(), key.key()) {
                Ok(()) => Some((key, deletion)),
                Err(wrong) => {
                    self.log.warn(format!("Partition at {start}: {wrong}"));
                    None
                }
            },
            Err(error) if is_damage(&error) => {
                self.log.warn(format!("Error reading partition at {start}: {error}"));
                None
            }
            Err(error) => return Err(error),
        };
        let (read, entry) = match (read, entry) {
            (Some((key, deletion)), Some(entry)) if key != entry.key => {
                self.log.warn(format!(
                    "Key from data file ({}) does not match key from index file ({})",
                    key_text(&key),
                    key_text(&entry.key)
                ));
                if self.jumped {
                    // No information except a foreign entry says that a partition begins here.
                    return Ok(None);
                }
                // No checksum protects the index of Cassandra's SSTables, nor Data without
                // checksums.
                if self.source.is_checksummed() { (Some((key, deletion)), None) } else { (None, Some(entry)) }
            }
            other => other,
        };
        let promoted = entry.as_ref().and_then(|entry| entry.promoted.clone());
        let Some((key, deletion)) = read else {
            // The row index contains the header's fields, and the positions of rows.
            let (Some(entry), Some(promoted)) = (entry, promoted) else { return Ok(None) };
            if check_key(self.source.table(), entry.key.key()).is_err() {
                return Ok(None);
            }
            let deletion = promoted.deletion;
            let mut rows = Box::new(Rows::new(entry.key.clone(), start, Some(promoted)));
            rows.lost(&mut self.log, "its header cannot be read");
            rows.resume(start, &mut self.cursor, &self.source, &mut self.log)?;
            return Ok(Some((PartitionHeader { key: entry.key, deletion, static_row: None }, rows)));
        };
        // The key outlives its piece of Data.
        let key = DecoratedKey::new(bytes::Bytes::copy_from_slice(key.key()));
        let mut rows = Box::new(Rows::new(key.clone(), start, promoted));
        let static_row = self.static_row(&mut rows)?;
        rows.has_content = !deletion.is_live() || static_row.is_some();
        Ok(Some((PartitionHeader { key, deletion, static_row }, rows)))
    }

    fn static_row(&mut self, rows: &mut Rows) -> Result<Option<cassette_rows::Row>> {
        let at = self.cursor.offset();
        match self.cursor.static_row() {
            Ok(Some(row)) if self.options.validate => match check_row(self.source.table(), &row) {
                Ok(()) => Ok(Some(row)),
                Err(wrong) => {
                    rows.lost(&mut self.log, &format!("the static row: {wrong}"));
                    Ok(None)
                }
            },
            Ok(row) => Ok(row),
            Err(error) if is_damage(&error) => {
                rows.lost(&mut self.log, &error.to_string());
                rows.resume(at, &mut self.cursor, &self.source, &mut self.log)?;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// A partition of the file has been read as far as possible.
    fn ended(&mut self, rows: Rows) -> Result<()> {
        match (rows.damaged, rows.has_content) {
            (true, true) => self.report.damaged += 1,
            (true, false) => self.report.lost += 1,
            (false, true) => self.report.good += 1,
            (false, false) => self.report.empty += 1,
        }
        if rows.damaged {
            self.check_may_skip(Some(&rows.key))?;
        }
        match rows.end() {
            Some(end) => {
                self.at = end;
                self.jumped = false;
            }
            None => self.go_behind(self.at)?,
        }
        if !rows.displaced.rows.is_empty() {
            self.log.warn(format!("Out of order rows found in partition: {}", key_text(&rows.key)));
            self.report.out_of_order += 1;
            let header = PartitionHeader { key: rows.key, deletion: DeletionTime::LIVE, static_row: None };
            let unfiltered = rows.displaced.rows.into_iter().map(Unfiltered::Row).collect();
            self.displaced.push(Displaced { header, unfiltered });
        }
        Ok(())
    }

    /// # Errors
    /// If data is missing and that is not permitted.
    fn check_may_skip(&self, key: Option<&DecoratedKey>) -> Result<()> {
        let table = self.source.table();
        let key = key.map_or_else(|| "(unknown)".to_owned(), key_text);
        let detail = match (table.is_counter && !self.options.skip_corrupted, table.index_of.is_some()) {
            (false, false) => return Ok(()),
            (true, _) => format!(
                "An error occurred while scrubbing the partition with key '{key}'.  Skipping corrupt data in \
                 counter tables will result in undercounts for the affected counters (see CASSANDRA-2759 for \
                 more details), so by default the scrub will stop at this point.  If you would like to skip \
                 the row anyway and continue scrubbing, re-run the scrub with the --skip-corrupted option."
            ),
            (false, true) => format!(
                "An error occurred while scrubbing the partition with key '{key}' for an index table. Without \
                 it rows would not be found: drop the index and create it again"
            ),
        };
        let found = self.log.messages.last().cloned().unwrap_or_default();
        let path = self.source.descriptor().path(crate::Component::Data);
        Err(StorageError::corrupt(path, format!("{found}\n{detail}")))
    }

    /// Stores a partition that is out of order for the end.
    fn displace(&mut self, header: PartitionHeader, mut rows: Box<Rows>) -> Result<()> {
        self.log.warn(format!(
            "Out of order partition detected ({} found after {})",
            key_text(&header.key),
            self.last.as_ref().map(key_text).unwrap_or_default()
        ));
        let mut unfiltered = VecDeque::new();
        while let Some(next) = rows.next(&mut self.cursor, &self.source, &self.options, &mut self.log)? {
            unfiltered.push_back(next);
        }
        self.report.out_of_order += 1;
        self.displaced.push(Displaced { header, unfiltered });
        self.ended(*rows)
    }
}

impl PartitionStream for Scrub {
    fn next_partition(&mut self) -> Result<Option<PartitionHeader>> {
        while self.next_unfiltered()?.is_some() {}
        loop {
            match std::mem::replace(&mut self.state, State::Between) {
                State::In(rows) => self.ended(*rows)?,
                State::Between => match self.next_of_file()? {
                    Some((header, rows)) if self.last.as_ref().is_some_and(|last| *last >= header.key) => {
                        self.displace(header, rows)?;
                    }
                    Some((header, rows)) => {
                        self.last = Some(header.key.clone());
                        self.state = State::In(rows);
                        return Ok(Some(header));
                    }
                    None => {
                        // From here on they are removed from the end.
                        self.displaced.sort_by(|a, b| b.header.key.cmp(&a.header.key));
                        self.state = State::Rest(None);
                    }
                },
                State::Rest(_) => {
                    let next = self.displaced.pop();
                    let header = next.as_ref().map(|displaced| displaced.header.clone());
                    self.state = State::Rest(next);
                    return Ok(header);
                }
            }
        }
    }

    fn next_unfiltered(&mut self) -> Result<Option<Unfiltered>> {
        match &mut self.state {
            State::Between => Ok(None),
            State::In(rows) => rows.next(&mut self.cursor, &self.source, &self.options, &mut self.log),
            State::Rest(displaced) => Ok(displaced.as_mut().and_then(|one| one.unfiltered.pop_front())),
        }
    }
}
