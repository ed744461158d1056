//! The position of a partition on the ring: Murmur3 of its key, as Cassandra computes it.
//!
//! Cassandra's hashes deviate from Austin Appleby's: the bytes of the tail are sign-extended before
//! they are shifted and xor-ed in, so a tail byte of 0x80 or more sets all bits above it.

/// The position of a partition: partitions are stored, scanned and compacted in the order of
/// (token, key bytes).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub i64);

impl Token {
    /// Below the token of every key except the empty one, which tables do not permit.
    pub const MIN: Self = Self(i64::MIN);
    /// The highest token of a key.
    pub const MAX: Self = Self(i64::MAX);
}

/// The token of a serialized partition key.
pub fn murmur3_token(key: &[u8]) -> Token {
    token_of_hash(key, murmur3_hash(key))
}

/// The token of `key` from its [`murmur3_hash`], for callers that also need the hash for a bloom
/// filter.
#[inline]
pub fn token_of_hash(key: &[u8], hash: (u64, u64)) -> Token {
    // -2^63 means "before everything", so a key that hashes to it is moved to the other end.
    match hash.0 as i64 {
        _ if key.is_empty() => Token::MIN,
        i64::MIN => Token::MAX,
        token => Token(token),
    }
}

/// Both halves of MurmurHash3 x64 128 with seed 0: the first is the token, both feed the bloom
/// filter.
pub fn murmur3_hash(key: &[u8]) -> (u64, u64) {
    const C1: u64 = 0x87c3_7b91_1142_53d5;
    const C2: u64 = 0x4cf5_ad43_2745_937f;
    let mix_1 = |k: u64| k.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2);
    let mix_2 = |k: u64| k.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1);

    let (mut h1, mut h2) = (0_u64, 0_u64);
    let (blocks, tail) = key.as_chunks::<16>();
    for block in blocks {
        let block = u128::from_le_bytes(*block);
        h1 ^= mix_1(block as u64);
        h1 = h1.rotate_left(27).wrapping_add(h2).wrapping_mul(5).wrapping_add(0x52dc_e729);
        h2 ^= mix_2((block >> 64) as u64);
        h2 = h2.rotate_left(31).wrapping_add(h1).wrapping_mul(5).wrapping_add(0x3849_5ab5);
    }
    let (low, high) = tail.split_at(tail.len().min(8));
    h2 ^= mix_2(sign_extended_xor(high));
    h1 ^= mix_1(sign_extended_xor(low));

    h1 ^= key.len() as u64;
    h2 ^= key.len() as u64;
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    h1 = finish(h1);
    h2 = finish(h2);
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    (h1, h2)
}

/// MurmurHash2 64A of `data` with the same deviation; the cardinality sketch of `Statistics.db`
/// hashes keys with it.
pub fn murmur2_64a(data: &[u8], seed: u32) -> u64 {
    const M: u64 = 0xc6a4_a793_5bd1_e995;
    let mut hash = u64::from(seed) ^ M.wrapping_mul(data.len() as u64);
    let (blocks, tail) = data.as_chunks::<8>();
    for block in blocks {
        let mut k = u64::from_le_bytes(*block).wrapping_mul(M);
        k ^= k >> 47;
        hash ^= k.wrapping_mul(M);
        hash = hash.wrapping_mul(M);
    }
    if !tail.is_empty() {
        hash ^= sign_extended_xor(tail);
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 47;
    hash = hash.wrapping_mul(M);
    hash ^ hash >> 47
}

/// The xor of up to eight bytes, each sign-extended to 64 bits and shifted to its little-endian
/// place.
fn sign_extended_xor(bytes: &[u8]) -> u64 {
    bytes.iter().enumerate().fold(0, |k, (i, byte)| k ^ (i64::from(*byte as i8) << (8 * i)) as u64)
}

fn finish(mut k: u64) -> u64 {
    k ^= k >> 33;
    k = k.wrapping_mul(0xff51_afd7_ed55_8ccd);
    k ^= k >> 33;
    k = k.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    k ^ k >> 33
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `murmur3_tokens.csv` contains keys and the results of `SELECT token(k)` for them.
    #[test]
    fn every_key_has_the_token_that_cassandra_gives_it() {
        let mut keys = 0;
        for line in include_str!("../tests/data/murmur3_tokens.csv").lines().skip(1) {
            let (hex, token) = line.split_once(',').unwrap();
            let key: Vec<u8> =
                (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect();
            assert_eq!(murmur3_token(&key), Token(token.parse().unwrap()), "{line}");
            keys += 1;
        }
        assert_eq!(keys, 200);
    }

    #[test]
    fn the_empty_key_comes_before_all_others() {
        assert_eq!(murmur3_token(&[]), Token::MIN);
    }

    /// Expected values from Cassandra 5.0.8's `MurmurHash.hash2_64`.
    #[test]
    fn murmur2_sign_extends_its_tail() {
        for (data, seed, expected) in MURMUR2 {
            assert_eq!(murmur2_64a(data, *seed) as i64, *expected, "{data:?}");
        }
    }

    const MURMUR2: &[(&[u8], u32, i64)] = &[
        (&[], 0, 0),
        (&[], 0x9747_b28c, -8964588313662369710),
        (&[1], 0, -5720937396023583481),
        (&[0x80], 0, 6680495636956922290),
        (&[0x80], 0x9747_b28c, 2882921680602526164),
        (&[1, 2, 0xff, 4, 5, 0x90, 7], 0, 7579661161957536455),
        (&[1, 2, 3, 4, 5, 6, 7, 0xf8], 0, 6490667628100587915),
        (&[1, 2, 3, 4, 5, 6, 7, 0xf8, 9, 0xca], 0, -86873426160897349),
        (&[1, 2, 3, 4, 5, 6, 7, 0xf8, 9, 0xca], 0x9747_b28c, -6563525360522437045),
    ];
}
