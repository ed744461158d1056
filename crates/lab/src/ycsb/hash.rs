//! YCSB's hash and key names.

use std::fmt::Write;

/// YCSB's `Utils.fnvhash64`: FNV-1a over the eight bytes of `value`, lowest first, made
/// non-negative.
///
/// Like Java's `Math.abs`, leaves `Long.MIN_VALUE` negative.
pub fn fnv_hash_64(value: u64) -> i64 {
    const OFFSET_BASIS: u64 = 0xCBF2_9CE4_8422_2325;
    const PRIME: u64 = 1_099_511_628_211;
    let mut hash = OFFSET_BASIS;
    for octet in value.to_le_bytes() {
        hash ^= u64::from(octet);
        hash = hash.wrapping_mul(PRIME);
    }
    hash.cast_signed().wrapping_abs()
}

/// How a key's number becomes its name: `user`, then the number (`ordered`) or its hash, padded
/// with zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyNaming {
    /// YCSB's `insertorder=ordered`; the default is hashed.
    pub ordered: bool,
    /// YCSB's `zeropadding`: minimum number of digits.
    pub zero_padding: usize,
}

impl KeyNaming {
    /// Writes the name of key `number` into `name`, replacing its content.
    pub fn write(&self, number: u64, name: &mut String) {
        name.clear();
        let shown = if self.ordered { number.cast_signed() } else { fnv_hash_64(number) };
        let width = self.zero_padding;
        write!(name, "user{shown:0width$}").expect("a String takes every write");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_match_the_java_class() {
        // Computed with YCSB's Utils.fnvhash64.
        for (value, hash) in [
            (0, 6284781860667377211),
            (1, 8517097267634966620),
            (2, 1820151046732198393),
            (3, 4052466453699787802),
            (999, 2071219101098386137),
            (1_000_000, 1011632231655643464),
            (10_000_000_000, 1201321332300452516),
            (1 << 40, 6908947124047430886),
        ] {
            assert_eq!(fnv_hash_64(value), hash, "hash of {value}");
        }
    }

    #[test]
    fn key_names_match_those_of_ycsb() {
        let mut name = String::new();
        let hashed = KeyNaming { ordered: false, zero_padding: 1 };
        hashed.write(0, &mut name);
        assert_eq!(name, "user6284781860667377211");
        hashed.write(1, &mut name);
        assert_eq!(name, "user8517097267634966620");
    }

    #[test]
    fn ordered_names_are_padded_so_that_they_sort_by_number() {
        let mut name = String::new();
        KeyNaming { ordered: true, zero_padding: 8 }.write(5, &mut name);
        assert_eq!(name, "user00000005");
        KeyNaming { ordered: true, zero_padding: 1 }.write(5, &mut name);
        assert_eq!(name, "user5");
    }
}
