//! Values of a record's fields: random, or derived from key and field.

use std::io::Write;

use rand::Rng;

/// Some fields of one record with their values, in one buffer that is reused for each operation.
#[derive(Debug, Default, Clone)]
pub struct FieldValues {
    bytes: Vec<u8>,
    /// Index of the field, and the end of its value in `bytes`.
    fields: Vec<(u32, u32)>,
}

impl FieldValues {
    /// Removes all fields, keeping the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.fields.clear();
    }

    /// Appends the value of the field with index `field`.
    pub fn push(&mut self, field: usize, value: &[u8]) {
        self.bytes.extend_from_slice(value);
        self.end_field(field);
    }

    /// Appends the value that `write` appends to its buffer.
    pub fn push_with(&mut self, field: usize, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.bytes);
        self.end_field(field);
    }

    fn end_field(&mut self, field: usize) {
        self.fields.push((field as u32, self.bytes.len() as u32));
    }

    /// Appends `length` random bytes like YCSB's `RandomByteIterator`.
    pub fn push_random(&mut self, field: usize, length: usize, rng: &mut impl Rng) {
        let start = self.bytes.len();
        self.bytes.resize(start + length, 0);
        fill_random(&mut self.bytes[start..], rng);
        self.end_field(field);
    }

    /// Appends the value of [`write_deterministic`] for `key` and the field's `name`.
    pub fn push_deterministic(&mut self, field: usize, length: usize, key: &str, name: &str) {
        write_deterministic(key, name, length, &mut self.bytes);
        self.end_field(field);
    }

    /// Returns the fields in the order they were added.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &[u8])> {
        let mut start = 0;
        self.fields.iter().map(move |(field, end)| {
            let value = &self.bytes[start..*end as usize];
            start = *end as usize;
            (*field as usize, value)
        })
    }

    /// Returns the number of fields.
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// Returns whether there are no fields.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Returns the index of the only field; `None` if there are several or none.
    pub fn only_field(&self) -> Option<usize> {
        match self.fields[..] {
            [(field, _)] => Some(field as usize),
            _ => None,
        }
    }
}

/// Fills `out` with YCSB's random text: each 32 random bits become six bytes of 5, 6, 5, 5, 6 and 6
/// bits, all of them ASCII from space up. The compression ratio of a store depends on exactly these
/// bits.
fn fill_random(out: &mut [u8], rng: &mut impl Rng) {
    let (sixes, rest) = out.as_chunks_mut();
    for six in sixes {
        *six = random_six(rng.next_u32());
    }
    if !rest.is_empty() {
        rest.copy_from_slice(&random_six(rng.next_u32())[..rest.len()]);
    }
}

fn random_six(bits: u32) -> [u8; 6] {
    // The third and the sixth mask are 95, not 127: bit 5 is omitted, as in YCSB.
    [
        (bits & 31) as u8 + b' ',
        (bits >> 5 & 63) as u8 + b' ',
        (bits >> 10 & 95) as u8 + b' ',
        (bits >> 15 & 31) as u8 + b' ',
        (bits >> 20 & 63) as u8 + b' ',
        (bits >> 25 & 95) as u8 + b' ',
    ]
}

/// Appends YCSB's `buildDeterministicValue` to `out`: `key:field`, then repeatedly `:` and the hash
/// of the text so far (Java's `String.hashCode`, in decimal), truncated to `length` bytes.
pub fn write_deterministic(key: &str, field: &str, length: usize, out: &mut Vec<u8>) {
    let start = out.len();
    let _ = write!(out, "{key}:{field}");
    let mut hash = 0i32;
    let mut hashed = start;
    while out.len() - start < length {
        out.push(b':');
        // h(s + c) = 31 * h(s) + c, so each byte is hashed once; keys and fields are ASCII.
        for byte in &out[hashed..] {
            hash = hash.wrapping_mul(31).wrapping_add(i32::from(*byte));
        }
        hashed = out.len();
        let _ = write!(out, "{hash}");
    }
    out.truncate(start + length);
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand::rngs::SmallRng;

    #[test]
    fn deterministic_values_match_the_java_class() {
        let value = |key, field, length| {
            let mut out = b"before".to_vec();
            write_deterministic(key, field, length, &mut out);
            String::from_utf8(out.split_off(6)).unwrap()
        };
        assert_eq!(
            value("user6284781860667377211", "field0", 100),
            "user6284781860667377211:field0:-56807877:2032869390:-165488160:1762371712:-169193395:-1039977118:-10"
        );
        assert_eq!(value("user6284781860667377211", "field9", 10), "user628478");
        assert_eq!(value("user1", "field1", 37), "user1:field1:-1268391185:451622966:-7");
    }

    #[test]
    fn random_bytes_match_the_java_class() {
        assert_eq!(random_six(0), [32; 6]);
        assert_eq!(random_six(u32::MAX), [63, 95, 127, 63, 95, 127]);
        assert_eq!(random_six(0x1234_5678), [56, 83, 53, 40, 67, 41]);
        assert_eq!(random_six(0x8765_4321), [33, 57, 112, 42, 86, 99]);
    }

    #[test]
    fn values_keep_their_lengths_and_fields() {
        let mut rng = SmallRng::seed_from_u64(1);
        let mut values = FieldValues::default();
        values.push_random(3, 100, &mut rng);
        assert_eq!(values.only_field(), Some(3));
        values.push(1, b"abc");
        values.push_deterministic(7, 20, "user1", "field7");
        assert_eq!(values.only_field(), None);
        let seen: Vec<(usize, usize)> = values.iter().map(|(field, value)| (field, value.len())).collect();
        assert_eq!(seen, [(3, 100), (1, 3), (7, 20)]);
        assert_eq!(values.iter().nth(1), Some((1, &b"abc"[..])));
        values.clear();
        assert!(values.is_empty());
    }
}
