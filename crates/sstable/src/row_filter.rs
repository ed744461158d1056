//! Row filters: which first clustering values a block of rows has.
//!
//! The filter of partition keys answers for a partition that is not there, and nothing answers for a row that is not in one that is: such a
//! read searches as one that finds its row does. One that found no row in a block where many found none before goes through the block once, and
//! leaves a Bloom filter of the first values of its clusterings beside the block's marks ([`row_marks`](crate::row_marks)); the next one that looks for what is not
//! there ends at the filter: three of a hundred search all the same. It takes a byte a row, about as little beside the smallest rows as their
//! marks. A filter is true of a block as long as its file exists.

use std::ops::Range;

use cassette_rows::token::murmur3_hash;
use cassette_rows::{ClusteringComparator, Result, Slice};

use crate::data::Cursor;
use crate::line_filter::LineFilter;

/// Blocks beyond this, of bytes of rows, get none: going through one takes some milliseconds. They are 64 KiB unless `column_index_size` says otherwise.
const BLOCK_MAX: u64 = 1 << 20;

/// What is known of the first clustering values of a block's rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum RowFilter {
    /// Nothing.
    #[default]
    Unknown,
    /// Nothing, and that stays so: there are range tombstones in the block, which a read must find.
    None,
    /// All of them.
    Of(LineFilter),
}

impl RowFilter {
    /// The first clustering value of all rows of `slice`, if they have the same one and a filter can tell it from others by its bytes.
    #[inline]
    pub fn value_of<'a>(slice: &'a Slice, comparator: &ClusteringComparator) -> Option<&'a [u8]> {
        let value = slice.start.prefix.value(0)?;
        let (data_type, _) = comparator.columns().first()?;
        (slice.end.prefix.value(0) == Some(value) && data_type.is_equal_by_bytes()).then_some(value)
    }

    /// Whether a block of so many bytes can have one.
    pub fn can_filter(block: &Range<u64>) -> bool {
        block.end - block.start <= BLOCK_MAX
    }

    /// Goes through the rows at `block` of the stream.
    pub fn of_block(mut cursor: Cursor, block: Range<u64>) -> Result<Self> {
        let mut hashes = Vec::new();
        cursor.seek(block.start);
        while cursor.offset() < block.end {
            let pending = cursor.next_head()?;
            if pending.is_end() {
                break;
            }
            let Some((clustering, _)) = pending.row() else { return Ok(Self::None) };
            // A read never looks for null.
            if let Some(value) = clustering.value(0) {
                hashes.push(murmur3_hash(value));
            }
            cursor.skip_row(&pending);
        }
        Ok(Self::Of(LineFilter::of_hashes(&hashes)))
    }

    /// Whether no row of the block has this value. `true` is certain.
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
