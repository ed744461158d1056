//! A partition that has an index of its rows, as the key cache holds it: where it lies, and once a read was there, what its header and its
//! index say. The next read begins at a block of rows, with neither Index nor the header of the partition read again.

use std::sync::OnceLock;

use cassette_rows::{ClusteringComparator, DecoratedKey, DeletionTime};

use crate::data::clustering_codec::ClusteringCodec;
use crate::index::PromotedIndex;
use crate::key_cache::PartitionPlace;

/// A large partition of an SSTable.
#[derive(Debug)]
pub(crate) struct LargePartition {
    place: PartitionPlace,
    seen: OnceLock<Seen>,
}

/// What a read has seen of it.
#[derive(Debug)]
pub(crate) struct Seen {
    key: Box<[u8]>,
    /// The partition's deletion.
    pub deletion: DeletionTime,
    /// The index of its rows, in memory of its own.
    pub index: PromotedIndex,
}

impl LargePartition {
    /// One that lies there, of which nothing was seen yet.
    pub fn at(place: PartitionPlace) -> Self {
        Self { place, seen: OnceLock::new() }
    }

    /// Where it lies.
    pub fn place(&self) -> PartitionPlace {
        self.place
    }

    /// What was seen of it; `None` if nothing was, or if it is the partition of another key.
    pub fn seen(&self, key: &DecoratedKey) -> Option<&Seen> {
        self.seen.get().filter(|seen| seen.key[..] == key.key()[..])
    }

    /// The index of its rows, once it was seen, by whatever read.
    pub fn index(&self) -> Option<&PromotedIndex> {
        self.seen.get().map(|seen| &seen.index)
    }

    /// Takes note of what a read saw. Index and Data must have been found to agree. A partition with a static row is not to be noted.
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

    /// Bytes on the heap at most, of what may be seen too: a cache is told once.
    pub fn heap_size(&self) -> u64 {
        /// The counts of the `Arc`, and what an allocator adds to four allocations; a key of 64 bytes.
        const AROUND: u64 = 16 + 4 * 16 + 64;
        size_of::<Self>() as u64 + AROUND + PromotedIndex::detached_size(self.place.promoted_length)
    }
}
