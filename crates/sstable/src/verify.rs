//! Verification: reads every component of an SSTable and compares them.

use std::cmp::Ordering;

use cassette_rows::{
    Clustering, DecoratedKey, DeletionTime, PartitionHeader, Position, Result, Side, StorageError, Unfiltered,
};

use crate::chunked_file::Caching;
use crate::clustering_codec::Prefix;
use crate::data::Cursor;
use crate::deletions::Deletions;
use crate::descriptor::Component;
use crate::index::{Block, PromotedIndex};
use crate::reader::{IndexCursor, SSTableReader};

/// The content that a verification has read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Verified {
    /// Partitions.
    pub partitions: u64,
    /// Rows, static ones not counted.
    pub rows: u64,
    /// Range tombstone markers.
    pub markers: u64,
}

impl SSTableReader {
    /// Verifies everything: the digest of Data, all checksums, that keys and rows ascend, that
    /// Index, Summary and Filter match Data. Returns the first error.
    pub fn verify(&self) -> Result<Verified> {
        self.verify_digest()?;
        self.verify_blocks()?;
        self.verify_rows()
    }

    /// Compares Digest.crc32, if it exists, with the stored bytes of Data.
    fn verify_digest(&self) -> Result<()> {
        let Some(expected) = self.digest()? else { return Ok(()) };
        let data = self.descriptor().path(Component::Data);
        let file = self.file_system().open(&data).map_err(|e| StorageError::io(&data, "open the file", e))?;
        let mut hasher = crc32fast::Hasher::new();
        let mut buffer = vec![0; 1 << 20];
        let mut offset = 0;
        loop {
            let read = file.read_at(&mut buffer, offset);
            let read = read.map_err(|e| StorageError::io(&data, format!("read at {offset}"), e))?;
            if read == 0 {
                break;
            }
            hasher.update(&buffer[..read]);
            offset += read as u64;
        }
        let found = hasher.finalize();
        if found == expected {
            Ok(())
        } else {
            Err(StorageError::corrupt(
                data,
                format!("checksum {expected} expected by Digest.crc32, {found} found"),
            ))
        }
    }

    /// [`Self::verify`] without the digest.
    pub(crate) fn verify_rows(&self) -> Result<Verified> {
        let mut verified = Verified::default();
        let mut index = self.keys(Caching::LeaveAlone);
        let mut cursor = self.data_cursor(Caching::LeaveAlone);
        let mut deletions = self.deletions()?.map(CheckedDeletions::new);
        let mut last: Option<DecoratedKey> = None;
        let mut sampled = self.summary().entries().peekable();
        while index.advance()? {
            let key = index.decorated_key();
            let wrong = |detail: String| {
                let path = self.index_path();
                StorageError::corrupt(path, format!("at {}: {detail}", index.entry_start()))
            };
            if last.as_ref().is_some_and(|last| *last >= key) {
                return Err(wrong(format!("a key after the previous expected, {:02x?} found", key.key())));
            }
            if index.position() != cursor.offset() {
                let found = index.position();
                return Err(wrong(format!("position {} expected, {found} found", cursor.offset())));
            }
            if !self.may_contain(&key) {
                return Err(wrong(format!("key {:02x?} is not in Filter.db or Summary.db", key.key())));
            }
            sampled.next_if(|(sample, position)| **sample == key && *position == index.entry_start());
            self.verify_partition(&index, &key, &mut cursor, &mut deletions, &mut verified)?;
            verified.partitions += 1;
            last = Some(key);
        }
        if let Some(deletions) = &deletions {
            deletions.finish()?;
        }
        if !cursor.at_end() {
            return Err(
                cursor.corrupt(cursor.offset(), "the end expected, more partitions than in Index.db found")
            );
        }
        if let Some((sample, position)) = sampled.next() {
            return Err(StorageError::corrupt(
                self.descriptor().path(Component::Summary),
                format!("key {:02x?} at {position} is not in Index.db", sample.key()),
            ));
        }
        if last.as_ref() != Some(self.last_key()) {
            return Err(StorageError::corrupt(
                self.descriptor().path(Component::Summary),
                format!("last key {:02x?} is not that of Index.db", self.last_key().key()),
            ));
        }
        Ok(verified)
    }

    fn verify_partition(
        &self,
        index: &IndexCursor,
        key: &DecoratedKey,
        cursor: &mut Cursor,
        deletions: &mut Option<CheckedDeletions>,
        verified: &mut Verified,
    ) -> Result<()> {
        let start = cursor.offset();
        let header = cursor.partition_header()?;
        if header.key != *key {
            return Err(
                cursor.corrupt(start, &format!("partition key {:02x?} expected by Index.db", key.key()))
            );
        }
        if let Some(deletions) = deletions {
            deletions.begin(&header)?;
        }
        let promoted = index.promoted_index()?;
        let mut blocks = match &promoted {
            Some(promoted) => {
                if start + promoted.header_length != cursor.offset() || promoted.deletion != header.deletion {
                    return Err(cursor.corrupt(start, "header or deletion differ from Index.db"));
                }
                Some(Blocks::new(self, promoted, start)?)
            }
            None => None,
        };
        let mut last: Option<(Clustering, Option<Side>)> = None;
        let mut open = DeletionTime::LIVE;
        loop {
            let pending = cursor.next_head()?;
            let at = pending.start();
            let Some(position) = pending.position() else { break };
            let place = (position.prefix.clone(), position.side);
            if let Some((prefix, side)) = &last {
                let before = Position { prefix, side: *side };
                if self.table().comparator.compare(before, position) != Ordering::Less {
                    return Err(cursor.corrupt(at, "a row or marker after the previous expected"));
                }
            }
            let body = cursor.body(pending)?;
            if let (Some(deletions), Some(unfiltered)) = (&mut *deletions, &body) {
                deletions.check(unfiltered)?;
            }
            match body {
                Some(Unfiltered::Marker(marker)) => {
                    let closes = marker.close.unwrap_or(DeletionTime::LIVE);
                    if closes != open {
                        return Err(
                            cursor.corrupt(at, "a marker that ends the deletion that is open expected")
                        );
                    }
                    open = marker.open.unwrap_or(DeletionTime::LIVE);
                    verified.markers += 1;
                }
                Some(Unfiltered::Row(_)) => verified.rows += 1,
                None => {}
            }
            if let Some(blocks) = &mut blocks {
                blocks.check(at, cursor.offset(), &place, open)?;
            }
            last = Some(place);
        }
        if !open.is_live() {
            return Err(
                cursor.corrupt(cursor.offset(), "a marker expected that ends the deletion that is open")
            );
        }
        if let Some(deletions) = deletions {
            deletions.end()?;
        }
        match blocks {
            Some(blocks) => blocks.finish(cursor.offset()),
            None => Ok(()),
        }
    }
}

/// Compares Deletions.db with the rows.
struct CheckedDeletions {
    deletions: Deletions,
    /// Partitions with deletions so far.
    opened: u64,
    /// Whether the current partition is one.
    within: bool,
}

impl CheckedDeletions {
    fn new(deletions: Deletions) -> Self {
        Self { deletions, opened: 0, within: false }
    }

    fn begin(&mut self, header: &PartitionHeader) -> Result<()> {
        let of_static = |header: &PartitionHeader| {
            header.static_row.as_ref().map_or(DeletionTime::LIVE, cassette_rows::Row::deletion)
        };
        let theirs = self.deletions.open(&header.key)?;
        self.within = theirs.is_some();
        self.opened += u64::from(self.within);
        let found = theirs.map_or((DeletionTime::LIVE, DeletionTime::LIVE), |h| (h.deletion, of_static(&h)));
        if found == (header.deletion, of_static(header)) { Ok(()) } else { Err(self.differs()) }
    }

    fn check(&mut self, unfiltered: &Unfiltered) -> Result<()> {
        if matches!(unfiltered, Unfiltered::Row(row) if row.deletion().is_live()) {
            return Ok(());
        }
        let theirs = if self.within { self.deletions.next_unfiltered()? } else { None };
        let same = match (unfiltered, &theirs) {
            (Unfiltered::Row(row), Some(Unfiltered::Row(theirs))) => {
                (row.clustering(), row.deletion()) == (theirs.clustering(), theirs.deletion())
            }
            (unfiltered, theirs) => Some(unfiltered) == theirs.as_ref(),
        };
        if same { Ok(()) } else { Err(self.differs()) }
    }

    fn end(&mut self) -> Result<()> {
        if self.within && self.deletions.next_unfiltered()?.is_some() { Err(self.differs()) } else { Ok(()) }
    }

    fn finish(&self) -> Result<()> {
        if self.deletions.partitions() == self.opened { Ok(()) } else { Err(self.differs()) }
    }

    #[cold]
    fn differs(&self) -> StorageError {
        self.deletions.corrupt("the deletions of Data.db expected before this")
    }
}

/// Compares the blocks of a row index with the rows.
struct Blocks<'a> {
    reader: &'a SSTableReader,
    promoted: &'a PromotedIndex,
    partition_start: u64,
    number: usize,
    block: Block,
    /// Whether the block's first row has been reached.
    begun: bool,
    /// Whether the last row of the last block has been reached.
    ended: bool,
}

impl<'a> Blocks<'a> {
    fn new(reader: &'a SSTableReader, promoted: &'a PromotedIndex, partition_start: u64) -> Result<Self> {
        let block = Self::load(reader, promoted, 0)?;
        Ok(Self { reader, promoted, partition_start, number: 0, block, begun: false, ended: false })
    }

    fn load(reader: &SSTableReader, promoted: &PromotedIndex, number: usize) -> Result<Block> {
        let codec = &reader.row_format().clustering;
        promoted.block(number, codec).map_err(|e| e.at(reader.index_path()))
    }

    fn wrong(&self, detail: &str) -> StorageError {
        StorageError::corrupt(
            self.reader.index_path(),
            format!(
                "block {} of the partition at {} of Data.db: {detail}",
                self.number, self.partition_start
            ),
        )
    }

    /// Checks a row or marker at `start..end` of the stream.
    fn check(
        &mut self,
        start: u64,
        end: u64,
        place: &(Clustering, Option<Side>),
        open: DeletionTime,
    ) -> Result<()> {
        let is = |prefix: &Prefix| {
            let position = prefix.position();
            *position.prefix == place.0 && position.side == place.1
        };
        if !self.begun {
            if start != self.partition_start + self.block.offset || !is(&self.block.first) {
                return Err(self.wrong("it does not begin where a row does, or with another"));
            }
            self.begun = true;
        }
        let block_end = self.partition_start + self.block.offset + self.block.width;
        let last_block = self.number + 1 == self.promoted.len();
        let last_row = is(&self.block.last);
        if self.ended
            || end > block_end
            || !last_row && end == block_end
            || last_row && end < block_end && !last_block
        {
            return Err(self.wrong("its end differs from the index"));
        }
        if !last_row {
            return Ok(());
        }
        if open != self.block.open {
            return Err(self.wrong("another deletion is open at its end"));
        }
        if last_block {
            // Its width can include the end of the partition.
            self.ended = true;
            return Ok(());
        }
        self.number += 1;
        self.block = Self::load(self.reader, self.promoted, self.number)?;
        self.begun = false;
        Ok(())
    }

    /// Checks the end of the partition at `end`, including its end marker.
    fn finish(self, end: u64) -> Result<()> {
        let block_end = self.partition_start + self.block.offset + self.block.width;
        if self.ended && (block_end == end || block_end + 1 == end) {
            Ok(())
        } else {
            Err(self.wrong("the index does not end with the partition"))
        }
    }
}
