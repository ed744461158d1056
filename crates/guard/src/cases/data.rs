//! Reproducible rows.

use cassette_database::BoundValue;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

/// Fields of a record, as in YCSB.
pub const FIELDS: usize = 10;
/// Bytes of a field.
const FIELD_LENGTH: usize = 100;

/// Values consist of words, so that they compress as text does.
const WORDS: [&str; 24] = [
    "abstract", "board", "cassette", "deck", "echo", "felt", "guide", "head", "index", "jack", "key",
    "level", "motor", "noise", "output", "pinch", "quartz", "reel", "shell", "tape", "update", "volume",
    "window", "zero",
];

/// A row of YCSB: a key and ten fields of 100 bytes.
#[derive(Debug, Clone)]
pub struct Record {
    /// The partition key.
    pub key: String,
    /// The values of `field0` to `field9`.
    pub fields: [String; FIELDS],
}

impl Record {
    /// Returns the values for an INSERT of the whole row.
    pub fn values(&self) -> [BoundValue<'_>; FIELDS + 1] {
        std::array::from_fn(|place| match place.checked_sub(1) {
            None => set(&self.key),
            Some(field) => set(&self.fields[field]),
        })
    }
}

/// Returns a text as a bound value.
pub fn set(text: &str) -> BoundValue<'_> {
    BoundValue::Set(text.as_bytes())
}

/// Returns the records `first` to `first + count`. A record depends on its number alone.
pub fn records(first: u64, count: u64) -> Vec<Record> {
    let record = |number: u64| {
        let mut random = SmallRng::seed_from_u64(number);
        Record { key: key(number), fields: std::array::from_fn(|_| text(&mut random, FIELD_LENGTH)) }
    };
    (first..first + count).map(record).collect()
}

/// Returns the key of a record.
pub fn key(number: u64) -> String {
    format!("user{:019}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 1)
}

/// Returns `length` bytes of words.
pub fn text(random: &mut SmallRng, length: usize) -> String {
    let mut text = String::with_capacity(length + 10);
    while text.len() < length {
        text.push_str(WORDS[random.random_range(0..WORDS.len())]);
        text.push(' ');
    }
    text.truncate(length);
    text
}

/// Returns a text of a number.
pub fn text_of(number: u64, length: usize) -> String {
    text(&mut SmallRng::seed_from_u64(number), length)
}

/// Returns a number below `below` for each `i`, in scattered order.
pub fn scattered(i: u64, below: u64) -> u64 {
    (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) % below
}
