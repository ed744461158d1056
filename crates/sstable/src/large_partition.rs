//! A partition with a row index in the key cache: its position, and after the first read its header
//! and its index. The next read begins at a block of rows, without reading Index or the header of
//! the partition again.

use std::sync::OnceLock;

use cassette_rows::{ClusteringComparator, DecoratedKey, DeletionTime};

use crate::clustering_codec::ClusteringCodec;
use crate::index::PromotedIndex;

/// The entry of a partition in Index.db.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionPlace {
    /// The partition's offset in the uncompressed Data.
    pub position: u64,
    /// The offset of its row index in Index.db.
    pub promoted_start: u64,
    /// Length of the row index; 0 if it has none.
    pub promoted_length: u32,
}

/// A large partition of an SSTable.
#[derive(Debug)]
pub(crate) struct LargePartition {
    place: PartitionPlace,
    seen: OnceLock<Seen>,
}

/// The parts that a read has loaded.
#[derive(Debug)]
pub(crate) struct Seen {
    key: Box<[u8]>,
    /// The partition's deletion.
    pub deletion: DeletionTime,
    /// The row index, in dedicated memory.
    pub index: PromotedIndex,
}

impl LargePartition {
    /// Creates a partition at this position, of which nothing was loaded yet.
    pub fn at(place: PartitionPlace) -> Self {
        Self { place, seen: OnceLock::new() }
    }

    /// Returns its position.
    pub fn place(&self) -> PartitionPlace {
        self.place
    }

    /// Returns the loaded parts; `None` if there are none, or if they belong to another key.
    pub fn seen(&self, key: &DecoratedKey) -> Option<&Seen> {
        self.seen.get().filter(|seen| seen.key[..] == key.key()[..])
    }

    /// Returns the row index, once any read has loaded it.
    pub fn index(&self) -> Option<&PromotedIndex> {
        self.seen.get().map(|seen| &seen.index)
    }

    /// Stores the parts that a read loaded. Index and Data must have been found to agree. A
    /// partition with a static row must not be stored.
    pub fn note(
        &self,
        key: &DecoratedKey,
        deletion: DeletionTime,
        index: &PromotedIndex,
        (codec, comparator): (&ClusteringCodec, &ClusteringComparator),
    ) {
        self.seen.get_or_init(|| Seen {
            key: key.key()[..].into(),
            deletion,
            index: index.detached(codec, comparator),
        });
    }

    /// Returns the maximum heap bytes, including parts that may be loaded later: a cache asks once.
    pub fn heap_size(&self) -> u64 {
        /// The counts of the `Arc`, and an allocator's overhead of four allocations; a key of 64
        /// bytes.
        const AROUND: u64 = 16 + 4 * 16 + 64;
        size_of::<Self>() as u64 + AROUND + PromotedIndex::detached_size(self.place.promoted_length)
    }
}
