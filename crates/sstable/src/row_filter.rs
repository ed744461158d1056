//! Row filters: the first clustering values in a block of rows.
//!
//! The filter of partition keys excludes absent partitions, but not absent rows of existing
//! partitions: such a read searches like one that finds its row. A read that found no row in a
//! block where many found none before scans the block once, and stores a Bloom filter of the first
//! values of its clusterings with the block's marks ([`row_marks`](crate::row_marks)); the next
//! read of an absent row ends at the filter, except for three of a hundred. The filter takes a byte
//! per row, about as little as the marks of the smallest rows. A filter is valid as long as the
//! file of its block exists.

use std::ops::Range;

use cassette_rows::token::murmur3_hash;
use cassette_rows::{ClusteringComparator, Result, Slice};

use crate::data::Cursor;
use crate::line_filter::LineFilter;

/// Larger blocks, in bytes of rows, have no filter: scanning one takes some milliseconds. Blocks
/// have 64 KiB unless `column_index_size` is set.
const BLOCK_MAX: u64 = 1 << 20;

/// The filter state of a block.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum RowFilter {
    /// No filter yet.
    #[default]
    Unknown,
    /// No filter ever: the block contains range tombstones, which a read must find.
    None,
    /// A filter of all values.
    Of(LineFilter),
}

impl RowFilter {
    /// Returns the first clustering value of all rows of `slice`, if it is unique and
    /// distinguishable by its bytes.
    #[inline]
    pub fn value_of<'a>(slice: &'a Slice, comparator: &ClusteringComparator) -> Option<&'a [u8]> {
        let value = slice.start.prefix.value(0)?;
        let (data_type, _) = comparator.columns().first()?;
        (slice.end.prefix.value(0) == Some(value) && data_type.is_equal_by_bytes()).then_some(value)
    }

    /// Returns whether a block of this size can have one.
    pub fn can_filter(block: &Range<u64>) -> bool {
        block.end - block.start <= BLOCK_MAX
    }

    /// Builds the filter of the rows at `block` of the stream.
    pub fn of_block(mut cursor: Cursor, block: Range<u64>) -> Result<Self> {
        let mut hashes = Vec::new();
        cursor.seek(block.start);
        while cursor.offset() < block.end {
            let pending = cursor.next_head()?;
            if pending.is_end() {
                break;
            }
            let Some((clustering, _)) = pending.row() else { return Ok(Self::None) };
            // Reads never search for null.
            if let Some(value) = clustering.value(0) {
                hashes.push(murmur3_hash(value));
            }
            cursor.skip_body(&pending);
        }
        Ok(Self::Of(LineFilter::of_hashes(&hashes)))
    }

    /// Returns whether no row of the block has this value. `true` is certain.
    #[inline]
    pub fn rules_out(&self, value: &[u8]) -> bool {
        match self {
            Self::Of(filter) => !filter.may_contain(value),
            Self::Unknown | Self::None => false,
        }
    }

    /// Bytes on the heap.
    pub fn heap_size(&self) -> usize {
        match self {
            Self::Of(filter) => filter.heap_size(),
            Self::Unknown | Self::None => 0,
        }
    }
}
