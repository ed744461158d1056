//! Looks partitions up in ascending order, for whoever goes through another SSTable and asks this one on the way.

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
    /// The deletions alone, gathered when the SSTable was written.
    Deletions(Box<Deletions>),
}

/// A place in Index and one in Data, both going forwards: what lies between two keys is passed over once, and a chunk that holds several
/// partitions is read once. The cache is looked into and left as it is.
#[derive(Debug)]
struct Rows {
    reader: SSTableReader,
    index: IndexCursor,
    cursor: Cursor,
    only_deletions: bool,
    in_partition: bool,
    /// Where what was read of the partition at hand begins.
    start: u64,
    bytes: u64,
}

impl SSTableReader {
    /// For looking up partitions in ascending order. With `only_deletions` rows are given only if they are deleted, and a partition
    /// in which nothing is deleted may be taken for one that is not here: no row is read where the deletions lie apart
    /// ([`deletions`](crate::deletions)), elsewhere the bodies of other rows are passed over.
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

    /// [`Self::probe`] with `only_deletions`, of an SSTable whose deletions lie apart; `None` if they do not.
    pub fn probe_deletions(&self) -> Result<Option<Probe>> {
        Ok(self.deletions()?.map(|deletions| Probe(Way::Deletions(Box::new(deletions)))))
    }
}

impl Probe {
    /// Whether the partition, which must not come before one asked for earlier, may be here; `false` is certain. `hash` is the key's
    /// [`murmur3_hash`](cassette_rows::token::murmur3_hash).
    #[inline]
    pub fn may_have(&mut self, key: &DecoratedKey, hash: (u64, u64)) -> Result<bool> {
        match &mut self.0 {
            Way::Rows(rows) => Ok(rows.reader.may_contain_hashed(key, hash)),
            Way::Deletions(deletions) => deletions.has(key),
        }
    }

    /// Reads the head of a partition that [`may_have`](Self::may_have) said may be here; `None` if it is not.
    pub fn open(&mut self, key: &DecoratedKey) -> Result<Option<PartitionHeader>> {
        match &mut self.0 {
            Way::Rows(rows) => rows.open(key),
            Way::Deletions(deletions) => deletions.open(key),
        }
    }

    /// The next row or marker of the partition that was opened.
    pub fn next_unfiltered(&mut self) -> Result<Option<Unfiltered>> {
        match &mut self.0 {
            Way::Rows(rows) => rows.next_unfiltered(),
            Way::Deletions(deletions) => deletions.next_unfiltered(),
        }
    }

    /// Bytes of rows gone through so far, before compression; bodies that were passed over count.
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
        // An interval further on: what lies before it need not be passed.
        if self.index.entry_end() < start {
            self.index.seek(start);
        }
        let before = self.index.entry_end();
        if !self.index.find(key.key(), end)? {
            // The filter was wrong. Keys after this one may lie in the same interval.
            self.index.seek(before);
            return Ok(None);
        }
        self.start = self.index.position();
        self.cursor.seek(self.start);
        let Some(header) = self.cursor.partition_header_if(key)? else {
            return Err(self.cursor.corrupt(self.start, "the partition expected that Index.db says is here"));
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
                self.cursor.skip_row(&pending);
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
