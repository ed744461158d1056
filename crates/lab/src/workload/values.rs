//! Values derived from a number.

use serde::{Deserialize, Serialize};

use super::types::ValueType;
use crate::ycsb::hash::fnv_hash_64;
use cassette_transactions::encoding::{tickets, var_long};

/// Generator of a value, as described in a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ValueSpec {
    /// CQL type.
    #[serde(rename = "type")]
    pub cql_type: String,
    /// Source of the value.
    #[serde(default)]
    pub from: Source,
    /// For texts from a number: the format, with `{}` for the number.
    #[serde(default)]
    pub format: Option<String>,
    /// Divisor of the record's number: that many records share the value.
    #[serde(default)]
    pub divide: Option<u64>,
    /// Modulus of the record's number, after dividing.
    #[serde(default)]
    pub modulo: Option<u64>,
    /// Factor, applied last.
    #[serde(default)]
    pub multiply: Option<u64>,
    /// For blobs from a number: the encoding of the number.
    #[serde(default)]
    pub encode: Encoding,
    /// Number of distinct values; without it, as many as records.
    #[serde(default)]
    pub distinct: Option<u64>,
    /// Minimum and maximum, for numbers.
    #[serde(default)]
    pub between: Option<[i64; 2]>,
    /// Length of texts and blobs in bytes, or minimum and maximum.
    #[serde(default)]
    pub length: Option<Span>,
    /// Number of elements in collections, or minimum and maximum.
    #[serde(default)]
    pub elements: Option<Span>,
}

/// Source of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// The number of the record, in the type's encoding of numbers.
    Number,
    /// Pseudo-random, the same for each use of the record.
    #[default]
    Record,
    /// Another one for each operation.
    Operation,
}

/// Encoding of a number in a blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Encoding {
    /// 8 bytes, big-endian.
    #[default]
    Fixed,
    /// VAR_LONG of the transactions.
    VarLong,
    /// 8 bytes, big-endian, of the number with reversed bits: keys of the transactions' tickets.
    BitReversed,
}

/// A number, or a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Span {
    /// Always this number.
    One(u64),
    /// Any of these, including the ends.
    Between([u64; 2]),
}

/// Maximum length of a text and maximum size of a collection.
const SPAN_MAX: u64 = 16 << 20;

/// A generator of one value.
#[derive(Debug, Clone, PartialEq)]
pub struct Value {
    value_type: ValueType,
    spec: ValueSpec,
    /// Distinguishes values of the same record by name.
    salt: u64,
}

impl Value {
    /// Validates the generator of the value `name`.
    pub fn new(name: &str, spec: &ValueSpec) -> Result<Self, String> {
        let value_type = ValueType::parse(&spec.cql_type)?;
        for span in [spec.length, spec.elements].into_iter().flatten() {
            let [low, high] = span.on_phase_end();
            if low > high || high > SPAN_MAX {
                return Err(format!("invalid range {low} to {high}: expected at most {SPAN_MAX}, in order"));
            }
        }
        if spec.between.is_some_and(|[low, high]| low > high) {
            return Err("invalid between: the greatest number comes first".into());
        }
        if [spec.divide, spec.modulo, spec.distinct].contains(&Some(0)) {
            return Err("invalid divide, modulo or distinct: expected above 0".into());
        }
        if spec.encode != Encoding::Fixed && (value_type != ValueType::Blob || spec.from != Source::Number) {
            return Err("encode is for blobs from a number".into());
        }
        if spec.format.as_ref().is_some_and(|format| !format.contains("{}")) {
            return Err("format needs a {} for the number".into());
        }
        let salt = name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Ok(Self { value_type, spec: spec.clone(), salt })
    }

    /// Appends the value for record `number`; `random` is the operation's random number.
    pub fn write(&self, number: u64, random: u64, out: &mut Vec<u8>) {
        let spec = &self.spec;
        let mut number = number / spec.divide.unwrap_or(1);
        number = spec.modulo.map_or(number, |modulo| number % modulo);
        number = number.wrapping_mul(spec.multiply.unwrap_or(1));
        if spec.from == Source::Number {
            let number = spec.distinct.map_or(number, |distinct| number % distinct);
            return self.write_number(number, out);
        }
        let basis = if spec.from == Source::Operation { random } else { number };
        let mut told = Mix(basis ^ self.salt).next();
        if let Some(distinct) = spec.distinct {
            told %= distinct;
        }
        self.write_random(&self.value_type, &mut Mix(told ^ self.salt.rotate_left(17)), out);
    }

    fn write_number(&self, number: u64, out: &mut Vec<u8>) {
        match &self.value_type {
            ValueType::Text => match &self.spec.format {
                Some(format) => out.extend_from_slice(format.replace("{}", &number.to_string()).as_bytes()),
                None => out.extend_from_slice(number.to_string().as_bytes()),
            },
            ValueType::TinyInt => out.push(number as u8),
            ValueType::SmallInt => out.extend_from_slice(&(number as u16).to_be_bytes()),
            ValueType::Int => out.extend_from_slice(&(number as u32).to_be_bytes()),
            ValueType::Blob if self.spec.encode == Encoding::VarLong => {
                var_long::encode_into(number.cast_signed(), out);
            }
            ValueType::Blob if self.spec.encode == Encoding::BitReversed => {
                out.extend_from_slice(&tickets::row_key(number.cast_signed()));
            }
            ValueType::BigInt | ValueType::Timestamp | ValueType::Blob => {
                out.extend_from_slice(&number.to_be_bytes());
            }
            ValueType::Float => out.extend_from_slice(&(number as f32).to_be_bytes()),
            ValueType::Double => out.extend_from_slice(&(number as f64).to_be_bytes()),
            ValueType::Boolean => out.push((number % 2) as u8),
            ValueType::Uuid => write_uuid(fnv_hash_64(number) as u64, number, out),
            collection => self.write_random(collection, &mut Mix(number ^ self.salt), out),
        }
    }

    fn write_random(&self, value_type: &ValueType, mix: &mut Mix, out: &mut Vec<u8>) {
        match value_type {
            ValueType::Text => self.write_text(mix, out),
            ValueType::Blob => {
                let length = self.spec.length.unwrap_or(Span::One(16)).pick(mix);
                (0..length).for_each(|_| out.push(mix.next() as u8));
            }
            ValueType::Boolean => out.push((mix.next() & 1) as u8),
            ValueType::TinyInt => out.push(self.number(mix) as u8),
            ValueType::SmallInt => out.extend_from_slice(&(self.number(mix) as i16).to_be_bytes()),
            ValueType::Int => out.extend_from_slice(&(self.number(mix) as i32).to_be_bytes()),
            ValueType::BigInt | ValueType::Timestamp => {
                out.extend_from_slice(&self.number(mix).to_be_bytes());
            }
            ValueType::Float => out.extend_from_slice(&(mix.share() as f32).to_be_bytes()),
            ValueType::Double => out.extend_from_slice(&mix.share().to_be_bytes()),
            ValueType::Uuid => write_uuid(mix.next(), mix.next(), out),
            ValueType::List(element) | ValueType::Set(element) => {
                let mut elements: Vec<Vec<u8>> =
                    (0..self.count(mix)).map(|_| self.element(element, mix)).collect();
                if matches!(value_type, ValueType::Set(_)) {
                    elements.sort();
                    elements.dedup();
                }
                write_length(elements.len(), out);
                elements.iter().for_each(|element| write_element(element, out));
            }
            ValueType::Map(key, value) => {
                let mut pairs: Vec<(Vec<u8>, Vec<u8>)> = (0..self.count(mix))
                    .map(|_| (self.element(key, mix), self.element(value, mix)))
                    .collect();
                pairs.sort();
                pairs.dedup_by(|a, b| a.0 == b.0);
                write_length(pairs.len(), out);
                for (key, value) in &pairs {
                    write_element(key, out);
                    write_element(value, out);
                }
            }
        }
    }

    fn element(&self, value_type: &ValueType, mix: &mut Mix) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.write_random(value_type, mix, &mut bytes);
        bytes
    }

    fn count(&self, mix: &mut Mix) -> u64 {
        self.spec.elements.unwrap_or(Span::Between([1, 5])).pick(mix)
    }

    fn number(&self, mix: &mut Mix) -> i64 {
        let random = mix.next();
        match self.spec.between {
            Some([low, high]) => {
                let count = high.wrapping_sub(low) as u64;
                let over = if count == u64::MAX { random } else { random % (count + 1) };
                low.wrapping_add(over as i64)
            }
            None => random as i64,
        }
    }

    /// Appends letters and digits, six bits of randomness each: text that compresses about as well
    /// as names and addresses.
    fn write_text(&self, mix: &mut Mix, out: &mut Vec<u8>) {
        const LETTERS: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz0123456789 -";
        let length = self.spec.length.unwrap_or(Span::One(16)).pick(mix);
        let (mut bits, mut left) = (0, 0);
        for _ in 0..length {
            if left == 0 {
                (bits, left) = (mix.next(), 10);
            }
            out.push(LETTERS[(bits & 63) as usize]);
            (bits, left) = (bits >> 6, left - 1);
        }
    }
}

impl Span {
    fn on_phase_end(self) -> [u64; 2] {
        match self {
            Self::One(one) => [one, one],
            Self::Between(ends) => ends,
        }
    }

    fn pick(self, mix: &mut Mix) -> u64 {
        let [low, high] = self.on_phase_end();
        if low == high { low } else { low + mix.next() % (high - low + 1) }
    }
}

/// Appends the length of a collection or an element as an int, as in protocol version 3 and above.
fn write_length(length: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(&(length as u32).to_be_bytes());
}

fn write_element(element: &[u8], out: &mut Vec<u8>) {
    write_length(element.len(), out);
    out.extend_from_slice(element);
}

/// Appends a UUID of version 4 and the RFC's variant, from 122 of the provided bits.
fn write_uuid(high: u64, low: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(&(high & !0xf000 | 0x4000).to_be_bytes());
    out.extend_from_slice(&(low & (u64::MAX >> 2) | 1 << 63).to_be_bytes());
}

/// SplitMix64, by Vigna: a pseudo-random sequence determined by its start.
struct Mix(u64);

impl Mix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// Returns a number from 0 to below 1.
    fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(spec: &str, number: u64, random: u64) -> Vec<u8> {
        let mut out = Vec::new();
        Value::new("v", &toml::from_str(spec).unwrap()).unwrap().write(number, random, &mut out);
        out
    }

    #[test]
    fn values_are_stable_per_record_and_new_per_operation() {
        let record = "type = 'text'\nlength = [5, 9]";
        assert_eq!(written(record, 7, 1), written(record, 7, 2));
        assert_ne!(written(record, 7, 1), written(record, 8, 1));
        assert!((5..=9).contains(&written(record, 7, 1).len()));
        let operation = "type = 'bigint'\nfrom = 'operation'";
        assert_ne!(written(operation, 7, 1), written(operation, 7, 2));
    }

    #[test]
    fn numbers_are_divided_and_formatted() {
        assert_eq!(written("type='text'\nfrom='number'\nformat='p{}'\ndivide=10", 123, 0), b"p12");
        assert_eq!(written("type='int'\nfrom='number'\nmodulo=10", 123, 0), [0, 0, 0, 3]);
        for random in 0..100 {
            let bytes = written("type='int'\nfrom='operation'\nbetween=[1, 3]", 0, random);
            assert!((1..=3).contains(&bytes[3]), "{bytes:?}");
        }
        let statuses: std::collections::BTreeSet<_> =
            (0..100).map(|number| written("type='int'\ndistinct=4", number, 0)).collect();
        assert_eq!(statuses.len(), 4);
    }

    #[test]
    fn numbers_are_encoded_as_in_the_transactions_table() {
        // Start timestamp 25,000,000 in layout 1, and the row and the column of 999,999 in layout
        // 2.
        let var_long = "type='blob'\nfrom='number'\nencode='var-long'";
        assert_eq!(written(&format!("{var_long}\nmultiply=2"), 12_500_000, 0), [0xe1, 0x7d, 0x78, 0x40]);
        assert_eq!(written(&format!("{var_long}\ndivide=16"), 999_999, 0), [0xc0, 0xf4, 0x23]);
        let row = "type='blob'\nfrom='number'\nmodulo=16\nencode='bit-reversed'";
        assert_eq!(written(row, 999_999, 0), [0xf0, 0, 0, 0, 0, 0, 0, 0]);
        let wrong = toml::from_str("type='text'\nfrom='number'\nencode='var-long'").unwrap();
        assert!(Value::new("v", &wrong).unwrap_err().contains("blobs"));
    }

    #[test]
    fn collections_are_counted_and_sets_are_sorted_and_unique() {
        let set = written("type='set<tinyint>'\nelements=200", 1, 0);
        let count = u32::from_be_bytes(set[..4].try_into().unwrap()) as usize;
        assert_eq!(set.len(), 4 + 5 * count);
        let elements: Vec<u8> = set[4..].chunks(5).map(|element| element[4]).collect();
        assert!(elements.is_sorted() && elements.windows(2).all(|pair| pair[0] != pair[1]));
        let map = written("type='map<text, frozen<list<text>>>'\nelements=2\nlength=3", 1, 0);
        // Two pairs of a 4 + 3 byte key and a list of 4 + 4 + 2 * (4 + 3) bytes.
        assert_eq!(map.len(), 4 + 2 * (7 + 22));
    }

    #[test]
    fn contradictory_settings_are_rejected() {
        for wrong in [
            "type='nosuch'",
            "type='text'\nlength=[9,5]",
            "type='text'\nlength=99999999999",
            "type='int'\nbetween=[2,1]",
            "type='int'\nmodulo=0",
            "type='text'\nformat='x'",
        ] {
            assert!(Value::new("v", &toml::from_str(wrong).unwrap()).is_err(), "{wrong}");
        }
    }
}
