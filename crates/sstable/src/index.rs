//! Index.db: every partition's key and position, and for large partitions an index of their rows.
//!
//! ```text
//! bytes16 key
//! vint    position of the partition in Data.db
//! vint    size of the rest: 0 if the partition has fewer than two blocks
//! ---
//! vint    header length: from the partition's start to its first row or marker
//! i32 ldt, i64 ts        the partition's deletion
//! vint    number of blocks
//! blocks, and then an i32 each: its offset from the first block
//!
//! block:  prefix of its first row or marker, prefix of its last one
//!         vint  offset from the partition's start
//!         svint width - 65536          the last block's includes the end of the partition
//!         u8 1, i32 ldt, i64 ts        the range tombstone open at its end; or u8 0
//! ```

use std::ops::Range;

use bytes::{BufMut, Bytes};
use cassette_rows::{Bound, ClusteringComparator, DeletionTime, Position};

use crate::clustering_codec::{ClusteringCodec, Prefix};
use crate::data::deletion_codec;
use crate::error::{Malformed, Parsed};
use crate::input::Input;
use crate::output::Output;

/// The base of widths.
const WIDTH_BASE: i64 = 65536;

/// The minimum bytes of a block: two kinds, offset, width and flag, and its offset.
const BLOCK_LEAST: usize = 9;

/// The fixed part of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryHead<'a> {
    /// The partition key.
    pub key: &'a [u8],
    /// Where the partition begins in the uncompressed Data.
    pub position: u64,
    /// Bytes of the index of rows that follow.
    pub promoted_length: usize,
}

impl<'a> EntryHead<'a> {
    /// Decodes key, position and size. Does not read the promoted index, which need not be in
    /// `input`.
    #[inline]
    pub fn decode(input: &mut Input<'a>) -> Parsed<Self> {
        let key = input.bytes16()?;
        let position = input.vint()?;
        let at = input.offset();
        let length = input.vint()?;
        match usize::try_from(length) {
            Ok(promoted_length) if length < i32::MAX as u64 => Ok(Self { key, position, promoted_length }),
            _ => Err(Malformed::new(at, format!("the size of a row index expected, {length} found"))),
        }
    }
}

/// Writes an entry without an index of rows.
pub fn encode_entry(key: &[u8], position: u64, promoted: &[u8], out: &mut Vec<u8>) {
    out.put_bytes16(key);
    out.put_vint(position);
    out.put_vint(promoted.len() as u64);
    out.put_slice(promoted);
}

/// A range of at least `column_index_size` bytes of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// The first row or marker.
    pub first: Prefix,
    /// The last row or marker.
    pub last: Prefix,
    /// Offset from the partition's start.
    pub offset: u64,
    /// Length in bytes; in the last block including the end of the partition.
    pub width: u64,
    /// The range tombstone open at its end; live if none.
    pub open: DeletionTime,
}

/// The position of a [`Block`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockPlace {
    /// Offset from the partition's start.
    pub offset: u64,
    /// Length in bytes.
    pub width: u64,
    /// The range tombstone open at its end; live if none.
    pub open: DeletionTime,
}

/// The block at which a read starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Landing {
    /// Its number.
    pub number: usize,
    /// Its position.
    pub place: BlockPlace,
    /// The range tombstone open at its beginning; live if none.
    pub open: DeletionTime,
}

/// The index of a partition's rows; blocks are decoded on demand.
#[derive(Debug, Clone)]
pub struct PromotedIndex {
    /// From the partition's start to its first row or marker.
    pub header_length: u64,
    /// The partition's deletion.
    pub deletion: DeletionTime,
    blocks: usize,
    bytes: Bytes,
    blocks_start: usize,
    offsets_start: usize,
    base: u64,
    /// [`ClusteringComparator::leading`] of the last position of each block; empty if not computed,
    /// or if not all have one.
    leading: Box<[u64]>,
}

impl PromotedIndex {
    /// Decodes the part after an entry's head; `base` is the offset of `bytes` in Index.db.
    pub fn decode(bytes: Bytes, base: u64) -> Parsed<Self> {
        let mut input = Input::at(&bytes, base);
        let header_length = input.vint()?;
        let deletion = deletion_codec::decode_plain(&mut input)?;
        let blocks = input.count(BLOCK_LEAST)?;
        if blocks == 0 {
            return Err(input.malformed("a row index of at least one block expected"));
        }
        let blocks_start = input.position();
        let offsets_start = bytes.len() - blocks * 4;
        if offsets_start < blocks_start {
            return Err(
                input.malformed(format!("{blocks} blocks expected, {} bytes left", input.remaining()))
            );
        }
        let leading = Box::default();
        Ok(Self { header_length, deletion, blocks, blocks_start, offsets_start, base, bytes, leading })
    }

    /// Returns a copy in dedicated memory, prepared for many searches; the original buffer can be
    /// dropped.
    pub fn detached(&self, codec: &ClusteringCodec, comparator: &ClusteringComparator) -> Self {
        let leading = |index| {
            let mut input = self.block_input(index).ok()?;
            codec.skip_prefix(&mut input).ok()?;
            comparator.leading(codec.decode_prefix(&mut input).ok()?.position().prefix)
        };
        let leading: Option<_> = (0..self.blocks).map(leading).collect();
        Self {
            bytes: Bytes::copy_from_slice(&self.bytes),
            leading: leading.unwrap_or_default(),
            ..self.clone()
        }
    }

    /// Returns the maximum heap bytes of a [`detached`](Self::detached) index of so many bytes:
    /// eight more for each of its blocks.
    pub fn detached_size(bytes: u32) -> u64 {
        u64::from(bytes) + u64::from(bytes) / BLOCK_LEAST as u64 * 8
    }

    /// The number of blocks.
    pub fn len(&self) -> usize {
        self.blocks
    }

    /// Returns whether there are no blocks, which no valid index has.
    pub fn is_empty(&self) -> bool {
        self.blocks == 0
    }

    /// Block `index`.
    pub fn block(&self, index: usize, codec: &ClusteringCodec) -> Parsed<Block> {
        let mut input = self.block_input(index)?;
        let first = codec.decode_prefix(&mut input)?;
        let last = codec.decode_prefix(&mut input)?;
        let BlockPlace { offset, width, open } = self.rest_of_block(index, &mut input)?;
        Ok(Block { first, last, offset, width, open })
    }

    /// Returns the first position of block `index`.
    pub fn first(&self, index: usize, codec: &ClusteringCodec) -> Parsed<Prefix> {
        codec.decode_prefix(&mut self.block_input(index)?)
    }

    /// Returns the position of block `index`.
    pub fn place(&self, index: usize, codec: &ClusteringCodec) -> Parsed<BlockPlace> {
        let mut input = self.block_input(index)?;
        codec.skip_prefix(&mut input)?;
        codec.skip_prefix(&mut input)?;
        self.rest_of_block(index, &mut input)
    }

    fn rest_of_block(&self, index: usize, input: &mut Input<'_>) -> Parsed<BlockPlace> {
        let at = input.offset();
        let (offset, delta) = (input.vint()?, input.svint()?);
        let width = delta
            .checked_add(WIDTH_BASE)
            .and_then(|width| u64::try_from(width).ok())
            .filter(|&width| width > 0 && offset.checked_add(width).is_some())
            .ok_or_else(|| Malformed::new(at, format!("a block's place expected, {offset} {delta} found")))?;
        let open = match input.u8()? {
            0 => DeletionTime::LIVE,
            1 => deletion_codec::decode_plain(input)?,
            other => return Err(input.malformed(format!("0 or 1 expected, {other} found"))),
        };
        // The next block, or the offsets, follow directly.
        if input.position() != self.block_end(index)? {
            return Err(input.malformed(format!("invalid block {index}: expected its end here")));
        }
        Ok(BlockPlace { offset, width, open })
    }

    fn offset(&self, index: usize) -> Parsed<usize> {
        let at = self.offsets_start + index * 4;
        let mut input = Input::at(self.bytes.get(at..).unwrap_or_default(), self.base + at as u64);
        Ok(input.u32()? as usize)
    }

    fn block_end(&self, index: usize) -> Parsed<usize> {
        if index + 1 < self.blocks {
            Ok(self.blocks_start.saturating_add(self.offset(index + 1)?))
        } else {
            Ok(self.offsets_start)
        }
    }

    fn block_input(&self, index: usize) -> Parsed<Input<'_>> {
        let start = self.blocks_start.saturating_add(self.offset(index)?);
        // The slice begins where `bytes` does, so that positions can be compared with those of
        // block_end().
        let mut input = Input::at(self.bytes.get(..self.offsets_start).unwrap_or_default(), self.base);
        input.bytes(start)?;
        Ok(input)
    }

    /// Returns the first block whose last row or marker is not before `bound`; the number of blocks
    /// if there is none.
    fn first_reaching(
        &self,
        bound: &Bound,
        codec: &ClusteringCodec,
        comparator: &ClusteringComparator,
    ) -> Parsed<usize> {
        let within = match comparator.leading(&bound.prefix) {
            Some(number) if !self.leading.is_empty() => {
                let from = self.leading.partition_point(|leading| *leading < number);
                let same = self.leading[from..].partition_point(|leading| *leading == number);
                from..from + same
            }
            _ => 0..self.blocks,
        };
        self.partition_point(within, |index| {
            let mut input = self.block_input(index)?;
            codec.skip_prefix(&mut input)?;
            codec.is_prefix_before(&mut input, bound, comparator)
        })
    }

    /// Returns the block at which a read of the rows after `bound` begins: the first block that
    /// reaches it. If none does it is the last one, at whose end nothing is open.
    pub fn landing(
        &self,
        bound: &Bound,
        codec: &ClusteringCodec,
        comparator: &ClusteringComparator,
    ) -> Parsed<Landing> {
        let reaching = self.first_reaching(bound, codec, comparator)?;
        let number = reaching.min(self.blocks - 1);
        let open = match reaching.checked_sub(1) {
            Some(before) => self.place(before, codec)?.open,
            None => DeletionTime::LIVE,
        };
        Ok(Landing { number, place: self.place(number, codec)?, open })
    }

    /// Returns the last block whose first row or marker is not after `position`; 0 if there is
    /// none.
    pub fn last_beginning(
        &self,
        position: Position<'_>,
        codec: &ClusteringCodec,
        comparator: &ClusteringComparator,
    ) -> Parsed<usize> {
        let after = self.partition_point(0..self.blocks, |index| {
            Ok(comparator.compare(self.first(index, codec)?.position(), position).is_le())
        })?;
        Ok(after.saturating_sub(1))
    }

    /// Returns the first of these blocks for which `before` is false; the end of the range if there
    /// is none.
    fn partition_point(&self, blocks: Range<usize>, before: impl Fn(usize) -> Parsed<bool>) -> Parsed<usize> {
        let (mut low, mut high) = (blocks.start, blocks.end);
        while low < high {
            let middle = low + (high - low) / 2;
            if before(middle)? { low = middle + 1 } else { high = middle }
        }
        Ok(low)
    }
}

/// Collects the index of one partition's rows while they are written.
#[derive(Debug, Default)]
pub struct PromotedIndexBuilder {
    blocks: Vec<u8>,
    offsets: Vec<u32>,
}

impl PromotedIndexBuilder {
    /// Returns whether no block was added.
    pub fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }

    /// Adds a block. `first` and `last` append prefixes: kind, count if a bound, values.
    pub fn add(
        &mut self,
        first: impl FnOnce(&mut Vec<u8>),
        last: impl FnOnce(&mut Vec<u8>),
        offset: u64,
        width: u64,
        open: DeletionTime,
    ) {
        self.offsets.push(self.blocks.len() as u32);
        let out = &mut self.blocks;
        first(out);
        last(out);
        out.put_vint(offset);
        out.put_svint(width as i64 - WIDTH_BASE);
        out.put_u8(u8::from(!open.is_live()));
        if !open.is_live() {
            deletion_codec::encode_plain(open, out);
        }
    }

    /// Appends the part of an entry after its head, nothing if there are fewer than two blocks, and
    /// resets the index.
    pub fn finish_into(&mut self, header_length: u64, deletion: DeletionTime, out: &mut Vec<u8>) {
        if self.offsets.len() > 1 {
            out.put_vint(header_length);
            deletion_codec::encode_plain(deletion, out);
            out.put_vint(self.offsets.len() as u64);
            out.put_slice(&self.blocks);
            self.offsets.iter().for_each(|offset| out.put_u32(*offset));
        }
        self.blocks.clear();
        self.offsets.clear();
    }
}

#[cfg(test)]
mod tests {
    use cassette_rows::{Clustering, DataType, Side};
    use proptest::prelude::*;

    use super::*;
    use crate::clustering_codec::{MarkerKind, ROW};

    /// Values of two columns, the number of them that a bound has, and its side; a row has both,
    /// and no side.
    type Place = (Option<i32>, &'static str, usize, Option<bool>);

    fn place() -> impl Strategy<Value = Place> {
        let number = prop_oneof![1 => Just(None), 20 => (-6..6i32).prop_map(Some)];
        (number, prop::sample::select(vec!["", "a", "ab", "b"]), 0..3usize, any::<Option<bool>>())
    }

    fn prefix((number, text, count, side): Place) -> (Clustering, Option<Side>) {
        let number = number.map(i32::to_be_bytes);
        let values = Clustering::new([number.as_ref().map(|n| &n[..]), Some(text.as_bytes())]);
        match side {
            None => (values, None),
            Some(after) => (values.prefix(count), Some(if after { Side::After } else { Side::Before })),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        #[test]
        fn an_index_that_is_ready_for_many_searches_finds_what_going_through_the_blocks_finds(
            ends in prop::collection::vec(place(), 2..30),
            wanted in place(),
            reversed in any::<bool>(),
        ) {
            let codec = ClusteringCodec::new(&[DataType::Int, DataType::Text]);
            let comparator = ClusteringComparator::new([(DataType::Int, reversed), (DataType::Text, false)]);
            let mut ends: Vec<_> = ends.into_iter().map(prefix).collect();
            ends.sort_by(|a, b| {
                let a = Position { prefix: &a.0, side: a.1 };
                comparator.compare(a, Position { prefix: &b.0, side: b.1 })
            });
            let mut builder = PromotedIndexBuilder::default();
            for (number, (values, side)) in (0..).zip(&ends) {
                let encode = |out: &mut Vec<u8>| match side {
                    None => {
                        out.put_u8(ROW);
                        codec.encode_values(values, out);
                    }
                    Some(side) => {
                        let kind = MarkerKind { side: *side, closes: true, opens: true };
                        codec.encode_bound(&Bound { prefix: values.clone(), side: *side }, kind, out);
                    }
                };
                builder.add(encode, encode, number * 70_000, 70_000, DeletionTime::LIVE);
            }
            let mut bytes = Vec::new();
            builder.finish_into(10, DeletionTime::LIVE, &mut bytes);
            let read = PromotedIndex::decode(bytes.into(), 0).unwrap();

            let (values, side) = prefix(wanted);
            let bound = Bound { prefix: values, side: side.unwrap_or(Side::Before) };
            let is_before = |end: &&(Clustering, Option<Side>)| {
                comparator.compare(Position { prefix: &end.0, side: end.1 }, bound.position()).is_lt()
            };
            let expected = ends.iter().take_while(is_before).count();
            let ready = read.detached(&codec, &comparator);
            for index in [&read, &ready] {
                prop_assert_eq!(index.first_reaching(&bound, &codec, &comparator).unwrap(), expected);
            }
            prop_assert_eq!(ready.leading.is_empty(), ends.iter().any(|(values, _)| values.is_empty()));
        }
    }
}
