//! CRC.db: a checksum for each block of an uncompressed Data file.
//!
//! ```text
//! i32 block size (65536)
//! per block of Data: i32 CRC-32 of its bytes          the last block can be shorter
//! ```
//! After a compaction by Cassandra there is one more, of an empty block: 0.

use bytes::BufMut;

use crate::error::{Malformed, Parsed};
use crate::input::Input;

/// The block size that Cassandra writes.
pub const BLOCK_SIZE: u32 = 65536;

/// The checksums of an uncompressed Data file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checksums {
    /// Bytes of Data in each block except the last.
    pub block_size: u32,
    /// One per block.
    pub crcs: Vec<u32>,
}

impl Checksums {
    /// Returns the file's content.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(4 + 4 * self.crcs.len());
        out.put_u32(self.block_size);
        for crc in &self.crcs {
            out.put_u32(*crc);
        }
        out
    }

    /// Decodes the file for a Data file of `data_length` bytes.
    pub fn decode(bytes: &[u8], data_length: u64) -> Parsed<Self> {
        let mut input = Input::new(bytes);
        let block_size = input.u32()?;
        if !(512..=1 << 28).contains(&block_size) {
            return Err(Malformed::new(0, format!("a block size expected, {block_size} found")));
        }
        let blocks = data_length.div_ceil(u64::from(block_size));
        let has_one_more = input.remaining() as u64 == (blocks + 1) * 4 && bytes.ends_with(&[0; 4]);
        if input.remaining() as u64 != blocks * 4 && !has_one_more {
            return Err(input.malformed(format!(
                "{blocks} checksums expected for {data_length} bytes of Data, {} bytes found",
                input.remaining()
            )));
        }
        let crcs = (0..blocks).map(|_| input.u32()).collect::<Parsed<_>>()?;
        Ok(Self { block_size, crcs })
    }

    /// Decodes the checksums for a Data file of `data_length` bytes, which may be shorter than the
    /// original.
    pub fn decode_first(bytes: &[u8], data_length: u64) -> Parsed<Self> {
        let blocks = match bytes.first_chunk::<4>() {
            Some(size) => data_length.div_ceil(u64::from(u32::from_be_bytes(*size)).max(1)),
            None => 0,
        };
        let wanted = usize::try_from(blocks.saturating_mul(4).saturating_add(4)).unwrap_or(usize::MAX);
        Self::decode(bytes.get(..wanted).unwrap_or(bytes), data_length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_checksum_for_every_block() {
        let checksums = Checksums { block_size: BLOCK_SIZE, crcs: vec![1, 0xffff_fffe] };
        let bytes = checksums.encode();
        assert_eq!(Checksums::decode(&bytes, 65537).unwrap(), checksums);
        assert!(Checksums::decode(&bytes, 65536).is_err());
        assert!(Checksums::decode(&bytes, 131_073).is_err());
        assert!(Checksums::decode(&bytes[..11], 65537).is_err());
        let compacted = [&bytes[..], &[0; 4]].concat();
        assert_eq!(Checksums::decode(&compacted, 65537).unwrap(), checksums);
    }
}
