//! The sketch of the number of different partition keys of an SSTable: HyperLogLog++ with p = 13
//! and a sparse p' = 25, in the bytes of the library that Cassandra uses (stream-lib).
//!
//! It only sizes the output of compactions. Its bytes are nevertheless the same as Cassandra's, so
//! that a file can be compared with one that Cassandra wrote.
//!
//! ```text
//! i32 -2 (version), varint 13, varint 25, varint kind      varints here: 7 bits a byte, least significant first
//! kind 1, sparse:  varint n, n * varint of the difference to the value before (32 bits, wrapping)
//! kind 0, normal:  varint 5464, 1366 * i32: six registers of five bits in each, from the low end
//! ```
//!
//! A sparse value k represents a hash x: i = the top 25 bits of x; if the low 12 bits of i are zero
//! the bits after them matter, so k = ((i << 6 | (r ^ 63)) << 1) | 1 with r their leading zeros
//! plus one, else k = i << 1.

use cassette_rows::token::murmur2_64a;

use bytes::BufMut;

use crate::error::{Malformed, Parsed};
use crate::input::Input;

/// Index bits of the registers.
const P: u32 = 13;
/// Index bits of sparse values.
const SPARSE_P: u32 = 25;
const REGISTERS: usize = 1 << P;
const REGISTERS_PER_WORD: usize = 6;
const REGISTER_BITS: usize = 5;
const WORDS: usize = REGISTERS.div_ceil(REGISTERS_PER_WORD);
/// Sparse values are buffered up to a quarter of the threshold; one more triggers a merge.
const BUFFER_FULL: usize = SPARSE_THRESHOLD / 4 + 1;
/// More sparse values than this become registers: 3/4 of the number of registers.
const SPARSE_THRESHOLD: usize = REGISTERS / 4 * 3;
const VERSION: i32 = -2;

/// Estimates the number of different keys.
#[derive(Debug, Clone, Default)]
pub struct HyperLogLog {
    sparse: Vec<u32>,
    buffer: Vec<u32>,
    /// Empty while sparse.
    registers: Vec<u8>,
}

impl HyperLogLog {
    /// Counts a partition key.
    pub fn add_key(&mut self, key: &[u8]) {
        self.add_hash(murmur2_64a(key, 0));
    }

    fn add_hash(&mut self, hash: u64) {
        if !self.registers.is_empty() {
            let rank = (hash << P | 1 << (P - 1)).leading_zeros() as u8 + 1;
            let register = &mut self.registers[(hash >> (64 - P)) as usize];
            *register = (*register).max(rank);
            return;
        }
        self.buffer.push(encode_hash(hash));
        if self.buffer.len() >= BUFFER_FULL {
            self.merge_buffer();
            if self.sparse.len() > SPARSE_THRESHOLD {
                self.registers = self.sparse_as_registers();
                self.sparse = Vec::new();
            }
        }
    }

    /// Merges the buffered values into the list.
    ///
    /// The list is ordered by encoded value while the buffer is by sparse index: flagged values are
    /// larger than their index, so the result is sorted by neither. This is how the library
    /// behaves, and what it writes.
    fn merge_buffer(&mut self) {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.sort_by_key(|&k| (sparse_index(k), (k << 19) as i32));
        let mut merged = Vec::with_capacity(self.sparse.len() + buffer.len());
        let mut old = self.sparse.iter().copied().peekable();
        let mut new = buffer.iter().copied().peekable();
        loop {
            match (old.peek().copied(), new.peek().copied()) {
                (None, None) => break,
                (Some(value), None) => {
                    merged.push(value);
                    old.next();
                }
                (None, Some(value)) => {
                    merged.push(value);
                    skip_index(&mut new, value);
                }
                (Some(a), Some(b)) if sparse_index(a) == sparse_index(b) => {
                    merged.push(a.min(b));
                    old.next();
                    skip_index(&mut new, b);
                }
                (Some(a), Some(b)) if a < b => {
                    merged.push(a);
                    old.next();
                }
                (_, Some(b)) => {
                    merged.push(b);
                    skip_index(&mut new, b);
                }
            }
        }
        self.sparse = merged;
        buffer.clear();
        self.buffer = buffer;
    }

    fn sparse_as_registers(&self) -> Vec<u8> {
        let mut registers = vec![0; REGISTERS];
        for &value in &self.sparse {
            let index = (sparse_index(value) >> (SPARSE_P - P)) as usize;
            let register: &mut u8 = &mut registers[index];
            *register = (*register).max(rank(value));
        }
        registers
    }

    /// Returns Cassandra's bytes for the keys added.
    pub fn finish(mut self) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_i32(VERSION);
        put_varint(&mut out, P);
        put_varint(&mut out, SPARSE_P);
        if self.registers.is_empty() {
            self.merge_buffer();
            put_varint(&mut out, 1);
            put_varint(&mut out, self.sparse.len() as u32);
            let mut before = 0u32;
            for value in self.sparse {
                put_varint(&mut out, value.wrapping_sub(before));
                before = value;
            }
            return out;
        }
        put_varint(&mut out, 0);
        put_varint(&mut out, WORDS as u32 * 4);
        for registers in self.registers.chunks(REGISTERS_PER_WORD) {
            let word = registers.iter().rev().fold(0, |word, &r| word << REGISTER_BITS | i32::from(r));
            out.put_i32(word);
        }
        out
    }

    /// Reads a sketch.
    pub fn decode(bytes: &[u8]) -> Parsed<Self> {
        let mut input = Input::new(bytes);
        let version = input.i32()?;
        let parameters = (varint(&mut input)?, varint(&mut input)?);
        if version != VERSION || parameters != (P, SPARSE_P) {
            return Err(Malformed::new(
                0,
                format!("sketch {VERSION} with (13, 25) expected, {version} with {parameters:?} found"),
            ));
        }
        let mut out = Self::default();
        match varint(&mut input)? {
            1 => {
                let count = varint(&mut input)? as usize;
                if count > input.remaining() {
                    return Err(
                        input.malformed(format!("{count} values expected, {} bytes left", input.remaining()))
                    );
                }
                let mut value = 0u32;
                for _ in 0..count {
                    value = value.wrapping_add(varint(&mut input)?);
                    out.sparse.push(value);
                }
            }
            0 => {
                let length = varint(&mut input)? as usize;
                if length != WORDS * 4 {
                    return Err(
                        input.malformed(format!("{} bytes of registers expected, {length} found", WORDS * 4))
                    );
                }
                out.registers = vec![0; REGISTERS];
                for registers in out.registers.chunks_mut(REGISTERS_PER_WORD) {
                    let word = input.u32()?;
                    for (place, register) in registers.iter_mut().enumerate() {
                        *register = (word >> (place * REGISTER_BITS) & 31) as u8;
                    }
                }
            }
            kind => return Err(input.malformed(format!("a sketch of kind 0 or 1 expected, {kind} found"))),
        }
        input.end()?;
        Ok(out)
    }

    /// Adds all keys of `other`; equal keys count once.
    pub fn merge(&mut self, other: &Self) {
        let mut ours = std::mem::take(self).into_registers();
        for (register, theirs) in ours.iter_mut().zip(other.clone().into_registers()) {
            *register = theirs.max(*register);
        }
        self.registers = ours;
    }

    fn into_registers(mut self) -> Vec<u8> {
        if self.registers.is_empty() {
            self.merge_buffer();
            return self.sparse_as_registers();
        }
        self.registers
    }

    /// Returns the estimated number of different keys.
    ///
    /// Linear counting while many registers are empty, else the raw estimate of HyperLogLog. (The
    /// library also corrects the bias in between from tables of measurements, which sizing does not
    /// need.)
    pub fn estimate(&self) -> u64 {
        let linear = |buckets: f64, empty: f64| buckets * (buckets / empty).ln();
        if self.registers.is_empty() {
            let mut all = self.clone();
            all.merge_buffer();
            let buckets = f64::from(1 << SPARSE_P);
            return linear(buckets, buckets - all.sparse.len() as f64).round() as u64;
        }
        let buckets = REGISTERS as f64;
        let empty = self.registers.iter().filter(|&&r| r == 0).count() as f64;
        let sum: f64 = self.registers.iter().map(|&r| 2f64.powi(-i32::from(r))).sum();
        let raw = 0.7213 / (1.0 + 1.079 / buckets) * buckets * buckets / sum;
        if empty > 0.0 && linear(buckets, empty) <= 2.5 * buckets {
            linear(buckets, empty).round() as u64
        } else {
            raw.round() as u64
        }
    }
}

fn skip_index(values: &mut std::iter::Peekable<impl Iterator<Item = u32>>, value: u32) {
    while values.next_if(|&next| sparse_index(next) == sparse_index(value)).is_some() {}
}

fn encode_hash(hash: u64) -> u32 {
    let index = (hash >> (64 - SPARSE_P)) as u32;
    if index & ((1 << (SPARSE_P - P)) - 1) != 0 {
        return index << 1;
    }
    // The bits below the index of 25; a guard bit limits the count.
    let rank = (hash << P | 1 << (SPARSE_P - P)).leading_zeros() + 1;
    (index << 6 | (rank ^ 63)) << 1 | 1
}

/// Returns the top 25 bits of the hash of an encoded value.
fn sparse_index(value: u32) -> u32 {
    match value & 1 {
        1 => value >> 7,
        _ => value >> 1,
    }
}

/// Returns leading zeros plus one after the top 13 bits of the hash of an encoded value.
fn rank(value: u32) -> u8 {
    match value & 1 {
        1 => ((value >> 1 & 63) ^ 63) as u8,
        _ => (value << 19).leading_zeros() as u8 + 1,
    }
}

fn put_varint(out: &mut Vec<u8>, mut value: u32) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn varint(input: &mut Input<'_>) -> Parsed<u32> {
    let mut value = 0u32;
    for shift in (0..35).step_by(7) {
        let byte = input.u8()?;
        value |= u32::from(byte & 0x7f).wrapping_shl(shift);
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(input.malformed("a number of at most 5 bytes expected"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(keys: std::ops::Range<u32>) -> HyperLogLog {
        let mut sketch = HyperLogLog::default();
        keys.for_each(|key| sketch.add_key(&key.to_be_bytes()));
        sketch
    }

    #[test]
    fn estimates_are_near_before_and_after_the_registers() {
        for count in [1, 10, 1000, 5000, 20_000, 300_000] {
            let estimate = of(0..count).estimate() as f64;
            let error = (estimate / f64::from(count) - 1.0).abs();
            assert!(error < 0.04, "{estimate} for {count} keys");
        }
    }

    #[test]
    fn what_is_written_reads_back() {
        for count in [0, 3, 4000, 50_000] {
            let sketch = of(0..count);
            let bytes = sketch.clone().finish();
            let back = HyperLogLog::decode(&bytes).unwrap();
            assert_eq!(back.estimate(), sketch.estimate());
            assert_eq!(back.finish(), bytes);
            assert!(HyperLogLog::decode(&bytes[..bytes.len() - 1]).is_err());
        }
    }

    #[test]
    fn a_merge_counts_common_keys_once() {
        let mut sketch = of(0..4000);
        sketch.merge(&of(2000..6000));
        let estimate = sketch.estimate() as f64;
        assert!((estimate / 6000.0 - 1.0).abs() < 0.04, "{estimate}");
    }
}
