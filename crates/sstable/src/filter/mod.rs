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
    length: Divisor,
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
        Some(Self::new(spec.hashes, vec![0; words as usize * 8].into()))
    }

    fn new(hashes: u32, bits: Box<[u8]>) -> Self {
        Self { hashes, length: Divisor::new(bits.len() as u64 * 8), bits }
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
        for bit in bits(hash, self.hashes, self.length) {
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
        bits(hash, self.hashes, self.length)
            .all(|bit| self.bits.get(bit / 8).is_some_and(|byte| byte >> (bit % 8) & 1 == 1))
    }

    /// Returns whether the filter may contain all keys with these [hashes](murmur3_hash). Unlike
    /// single lookups, does not wait for one bit before it accesses the next.
    pub fn may_contain_all(&self, hashes: &[(u64, u64)]) -> bool {
        let set = hashes.iter().flat_map(|hash| bits(*hash, self.hashes, self.length)).fold(1, |set, bit| {
            let byte = self.bits.get(bit / 8).copied().unwrap_or_default();
            set & byte >> (bit % 8)
        });
        set & 1 == 1
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
        Ok(Self::new(hashes, bits))
    }
}

/// A number by which many are divided, with its reciprocal: a multiplication takes a fraction of
/// the time of a division.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Divisor {
    divisor: u64,
    /// ⌊(2⁶⁴ − 1) / divisor⌋
    reciprocal: u64,
}

impl Divisor {
    fn new(divisor: u64) -> Self {
        let divisor = divisor.max(1);
        Self { divisor, reciprocal: u64::MAX / divisor }
    }

    #[inline]
    fn remainder_of(self, number: u64) -> u64 {
        // The product is above number / divisor - 1, so the quotient is right or too small by one.
        let quotient = ((u128::from(number) * u128::from(self.reciprocal)) >> 64) as u64;
        let remainder = number - quotient * self.divisor;
        if remainder >= self.divisor { remainder - self.divisor } else { remainder }
    }
}

/// Returns the bits of a key in a filter of `length` bits. The absolute value of a signed remainder
/// is the remainder of the absolute value.
#[inline]
fn bits((h1, h2): (u64, u64), hashes: u32, length: Divisor) -> impl Iterator<Item = usize> {
    let mut base = h2 as i64;
    (0..hashes).map(move |_| {
        let bit = length.remainder_of(base.unsigned_abs()) as usize;
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
        let mut hashes: Vec<_> = (0..1_000u32).map(|key| murmur3_hash(&key.to_be_bytes())).collect();
        assert!(filter.may_contain_all(&hashes) && filter.may_contain_all(&[]));
        let absent = (10_000..).map(|key: u32| murmur3_hash(&key.to_be_bytes()));
        hashes[500] = absent.into_iter().find(|hash| !filter.may_contain_hash(*hash)).unwrap();
        assert!(!filter.may_contain_all(&hashes));
    }

    #[test]
    fn remainders_by_a_reciprocal_are_those_of_a_division() {
        let near = |n: u64| [n.wrapping_sub(1), n, n.wrapping_add(1)];
        let lengths = [64u64, 128, 192, 1 << 20, 8 * 12_500_008, (1 << 34) - 64, i64::MAX as u64];
        for length in lengths.into_iter().flat_map(near) {
            let divisor = Divisor::new(length);
            for n in 0..1_000u64 {
                let numbers = near(length.wrapping_mul(n)).into_iter();
                for number in numbers.chain([n, u64::MAX - n, murmur3_hash(&n.to_be_bytes()).0]) {
                    assert_eq!(divisor.remainder_of(number), number % length, "{number} by {length}");
                }
            }
        }
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
