//! Looks up partitions in ascending order, for a caller that iterates over another SSTable.

use cassette_rows::{DecoratedKey, PartitionHeader, Result, Unfiltered};

use super::SSTableReader;
use super::index_cursor::IndexCursor;
use crate::chunked_file::Caching;
use crate::data::Cursor;
use crate::deletions::Deletions;

/// Looks partitions up in ascending order.
#[derive(Debug)]
pub struct Probe(Way);

#[derive(Debug)]
enum Way {
    Rows(Box<Rows>),
    /// The deletions alone, stored when the SSTable was written.
    Deletions(Box<Deletions>),
}

/// Forward positions in Index and Data: the part between two keys is skipped once, and a chunk with
/// several partitions is read once. Reads the cache without changing it.
#[derive(Debug)]
struct Rows {
    reader: SSTableReader,
    index: IndexCursor,
    cursor: Cursor,
    only_deletions: bool,
    in_partition: bool,
    /// The start of the bytes read for the current partition.
    start: u64,
    bytes: u64,
}

impl SSTableReader {
    /// Creates a probe for looking up partitions in ascending order. With `only_deletions` it
    /// returns only deleted rows, and may report a partition without deletions as absent: no row is
    /// read if the deletions are stored separately ([`deletions`](crate::deletions)), otherwise the
    /// bodies of other rows are skipped.
    pub fn probe(&self, only_deletions: bool) -> Result<Probe> {
        if only_deletions && let Some(deletions) = self.probe_deletions()? {
            return Ok(deletions);
        }
        Ok(Probe(Way::Rows(Box::new(Rows {
            index: IndexCursor::new(self.shared.index.clone(), 0, Caching::LeaveAlone),
            cursor: self.cursor(Caching::LeaveAlone),
            reader: self.clone(),
            only_deletions,
            in_partition: false,
            start: 0,
            bytes: 0,
        }))))
    }

    /// Does [`Self::probe`] with `only_deletions`, for an SSTable with separately stored deletions;
    /// `None` without these.
    pub fn probe_deletions(&self) -> Result<Option<Probe>> {
        Ok(self.deletions()?.map(|deletions| Probe(Way::Deletions(Box::new(deletions)))))
    }
}

impl Probe {
    /// Returns whether the partition may exist; `false` is certain. Partitions must be requested in
    /// ascending order. `hash` is the key's [`murmur3_hash`](cassette_rows::token::murmur3_hash).
    #[inline]
    pub fn may_have(&mut self, key: &DecoratedKey, hash: (u64, u64)) -> Result<bool> {
        match &mut self.0 {
            Way::Rows(rows) => Ok(rows.reader.may_contain_hashed(key, hash)),
            Way::Deletions(deletions) => deletions.has(key),
        }
    }

    /// Reads the head of a partition for which [`may_have`](Self::may_have) returned true; `None`
    /// if it is absent.
    pub fn open(&mut self, key: &DecoratedKey) -> Result<Option<PartitionHeader>> {
        match &mut self.0 {
            Way::Rows(rows) => rows.open(key),
            Way::Deletions(deletions) => deletions.open(key),
        }
    }

    /// Returns the next row or marker of the opened partition.
    pub fn next_unfiltered(&mut self) -> Result<Option<Unfiltered>> {
        match &mut self.0 {
            Way::Rows(rows) => rows.next_unfiltered(),
            Way::Deletions(deletions) => deletions.next_unfiltered(),
        }
    }

    /// Returns the bytes of rows processed so far, before compression, including skipped bodies.
    pub fn bytes(&self) -> u64 {
        match &self.0 {
            Way::Rows(rows) => rows.bytes,
            Way::Deletions(deletions) => deletions.position(),
        }
    }
}

impl Rows {
    fn open(&mut self, key: &DecoratedKey) -> Result<Option<PartitionHeader>> {
        self.close();
        let shared = &self.reader.shared;
        let Some((start, end)) = shared.summary.find(key) else { return Ok(None) };
        let end = end.unwrap_or(shared.index.data_length());
        // A later interval: the entries before it can be skipped.
        if self.index.entry_end() < start {
            self.index.seek(start);
        }
        let before = self.index.entry_end();
        if !self.index.find(key.key(), end)? {
            // A false positive of the filter. Later keys may be in the same interval.
            self.index.seek(before);
            return Ok(None);
        }
        self.start = self.index.position();
        self.cursor.seek(self.start);
        let Some(header) = self.cursor.partition_header_if(key)? else {
            return Err(self.cursor.corrupt(self.start, "expected the partition of Index.db"));
        };
        self.in_partition = true;
        Ok(Some(header))
    }

    fn next_unfiltered(&mut self) -> Result<Option<Unfiltered>> {
        while self.in_partition {
            let pending = self.cursor.next_head()?;
            if pending.is_end() {
                self.close();
                break;
            }
            if self.only_deletions && pending.is_live_row() {
                self.cursor.skip_body(&pending);
                continue;
            }
            if let Some(unfiltered) = self.cursor.body(pending)? {
                return Ok(Some(unfiltered));
            }
        }
        Ok(None)
    }

    fn close(&mut self) {
        if std::mem::take(&mut self.in_partition) {
            self.bytes += self.cursor.offset().saturating_sub(self.start);
        }
    }
}
