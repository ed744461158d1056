//! Filter.db: the Bloom filter of an SSTable's partition keys.
//!
//! ```text
//! i32 k        hashes per key
//! i32 w        words of 64 bits
//! 8w bytes     bit i is byte i / 8, bit i % 8, least significant first
//! ```
//! In versions of Cassandra 3, the bytes of each word are reversed.
//!
//! With the two halves h1, h2 of the key's Murmur3, hash j sets bit |(h2 + j * h1) rem 64w|,
//! wrapping and with the sign of the dividend.

mod sizing;

use cassette_rows::token::murmur3_hash;

use bytes::BufMut;

use crate::descriptor::Version;
use crate::error::{Malformed, Parsed};
use crate::input::Input;

/// The sizing table has rows up to 20 bits per key; no filter has more hashes than its widest row.
const MAX_HASHES: u32 = 32;

/// A Bloom filter, bit for bit that of Cassandra.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BloomFilter {
    hashes: u32,
    bits: Box<[u8]>,
}

impl BloomFilter {
    /// Creates a filter sized for `keys` keys and a false positive chance; `None` if the chance is
    /// 1 or more, which means no filter.
    pub fn with_chance(keys: u64, fp_chance: f64) -> Option<Self> {
        if fp_chance >= 1.0 {
            return None;
        }
        let spec = sizing::spec(fp_chance);
        // Cassandra adds 20 bits before rounding up to whole words.
        let words = (keys * u64::from(spec.bits_per_key) + 20).div_ceil(64);
        Some(Self { hashes: spec.hashes, bits: vec![0; words as usize * 8].into() })
    }

    /// Returns the smallest supported chance.
    pub fn least_chance() -> f64 {
        sizing::least_chance()
    }

    /// Adds a partition key.
    pub fn add(&mut self, key: &[u8]) {
        self.add_hash(murmur3_hash(key));
    }

    /// Adds a key by its [`murmur3_hash`].
    pub fn add_hash(&mut self, hash: (u64, u64)) {
        for bit in bits(hash, self.hashes, self.bits.len() as i64 * 8) {
            if let Some(byte) = self.bits.get_mut(bit / 8) {
                *byte |= 1 << (bit % 8);
            }
        }
    }

    /// Returns whether the filter may contain the key; `false` is certain.
    pub fn may_contain(&self, key: &[u8]) -> bool {
        self.may_contain_hash(murmur3_hash(key))
    }

    /// [`Self::may_contain`] by the key's [`murmur3_hash`].
    #[inline]
    pub fn may_contain_hash(&self, hash: (u64, u64)) -> bool {
        bits(hash, self.hashes, self.bits.len() as i64 * 8)
            .all(|bit| self.bits.get(bit / 8).is_some_and(|byte| byte >> (bit % 8) & 1 == 1))
    }

    /// Bytes held on the heap.
    pub fn heap_size(&self) -> usize {
        self.bits.len()
    }

    /// The file's content.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(8 + self.bits.len());
        out.put_i32(self.hashes as i32);
        out.put_i32((self.bits.len() / 8) as i32);
        out.put_slice(&self.bits);
        out
    }

    /// Reads the file of an SSTable of `version`.
    pub fn decode_version(bytes: &[u8], version: Version) -> Parsed<Self> {
        let mut filter = Self::decode(bytes)?;
        if version.is_of_cassandra_3() {
            filter.bits.chunks_exact_mut(8).for_each(<[u8]>::reverse);
        }
        Ok(filter)
    }

    /// Reads the file of an nb SSTable.
    pub fn decode(bytes: &[u8]) -> Parsed<Self> {
        let mut input = Input::new(bytes);
        let hashes = input.u32()?;
        if !(1..=MAX_HASHES).contains(&hashes) {
            return Err(Malformed::new(0, format!("1 to {MAX_HASHES} hashes expected, {hashes} found")));
        }
        let words = input.count32(8)?;
        if words == 0 {
            return Err(Malformed::new(4, "a filter of at least one word expected"));
        }
        let bits = input.bytes(words * 8)?.into();
        input.end()?;
        Ok(Self { hashes, bits })
    }
}

/// Returns the bits of a key in a filter of `length` bits.
#[inline]
fn bits((h1, h2): (u64, u64), hashes: u32, length: i64) -> impl Iterator<Item = usize> {
    let mut base = h2 as i64;
    (0..hashes).map(move |_| {
        let bit = (base % length).unsigned_abs() as usize;
        base = base.wrapping_add(h1 as i64);
        bit
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_added_is_found_and_few_others() {
        let mut filter = BloomFilter::with_chance(10_000, 0.01).unwrap();
        for key in 0..10_000u32 {
            filter.add(&key.to_be_bytes());
        }
        let filter = BloomFilter::decode(&filter.encode()).unwrap();
        assert!((0..10_000u32).all(|key| filter.may_contain(&key.to_be_bytes())));
        let wrong = (10_000..110_000u32).filter(|key| filter.may_contain(&key.to_be_bytes())).count();
        assert!((500..2000).contains(&wrong), "{wrong} of 100000 absent keys passed");
    }

    #[test]
    fn words_of_cassandra_3_are_reversed() {
        let mut filter = BloomFilter::with_chance(100, 0.01).unwrap();
        (0..100u32).for_each(|key| filter.add(&key.to_be_bytes()));
        let mut bytes = filter.encode();
        bytes[8..].chunks_exact_mut(8).for_each(<[u8]>::reverse);
        assert_eq!(BloomFilter::decode_version(&bytes, Version::Me).unwrap(), filter);
        assert_ne!(BloomFilter::decode_version(&bytes, Version::Na).unwrap(), filter);
    }

    #[test]
    fn a_chance_of_one_means_no_filter() {
        assert_eq!(BloomFilter::with_chance(10, 1.0), None);
    }

    #[test]
    fn sizes_and_lengths_are_checked() {
        let bytes = BloomFilter::with_chance(100, 0.01).unwrap().encode();
        assert!(BloomFilter::decode(&bytes[..bytes.len() - 1]).is_err());
        assert!(BloomFilter::decode(&[&bytes[..], &[0]].concat()).is_err());
        assert!(BloomFilter::decode(&[0, 0, 0, 3, 0, 0, 0, 0]).is_err());
        assert!(BloomFilter::decode(&[0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]).is_err());
    }
}
