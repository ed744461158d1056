//! Summary.db: a sample of Index.db, held in memory.
//!
//! ```text
//! i32 min_index_interval
//! i32 n                       entries
//! i64                         bytes of offsets and entries together
//! i32 sampling level          128 = full; less after Cassandra ran short of memory
//! i32                         entries at full sampling
//! n * u32 LITTLE-endian       offset of each entry from the start of these offsets
//! n * (key, u64 LITTLE-endian position in Index.db)
//! bytes32 first key, bytes32 last key
//! ```

use bytes::{BufMut, Bytes};
use cassette_rows::DecoratedKey;

use crate::error::{Malformed, Parsed};
use crate::input::Input;
use crate::output::Output;
use crate::token_search::count_less;

/// The sampling level of a complete summary.
pub const FULL_SAMPLING: u32 = 128;

/// Every n-th entry of Index.db.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// `min_index_interval` of the table when it was written: partitions between two entries at
    /// full sampling.
    pub min_index_interval: u32,
    /// In 128ths of full sampling.
    pub sampling_level: u32,
    /// Entries that full sampling would have.
    pub full_entries: u32,
    entries: Vec<Entry>,
    /// The tokens of the entries, in one array for searches.
    tokens: Box<[i64]>,
    /// The smallest partition key.
    pub first: DecoratedKey,
    /// The largest partition key.
    pub last: DecoratedKey,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    key: DecoratedKey,
    position: u64,
}

impl Summary {
    /// Returns the range of Index.db to search for `key`: from the last entry not after it to the
    /// next one; `None` if `key` is outside of the table's keys. The end is `None` after the last
    /// entry.
    pub fn find(&self, key: &DecoratedKey) -> Option<(u64, Option<u64>)> {
        if *key < self.first || *key > self.last {
            return None;
        }
        let after = self.count_before(key, true);
        let start = after.checked_sub(1)?;
        Some((self.entries[start].position, self.entries.get(after).map(|entry| entry.position)))
    }

    /// Returns the earliest position in Index.db of the first key from `key` on, or after it if
    /// `passed`.
    pub fn seek(&self, key: &DecoratedKey, passed: bool) -> u64 {
        let after = self.count_before(key, passed);
        after.checked_sub(1).and_then(|i| self.entries.get(i)).map_or(0, |entry| entry.position)
    }

    /// Returns the number of entries before `key`, or not after it if `passed`.
    fn count_before(&self, key: &DecoratedKey, passed: bool) -> usize {
        let mut count = count_less(&self.tokens, key.token().0);
        while let Some(entry) = self.entries.get(count)
            && entry.key.token() == key.token()
            && (entry.key.key() < key.key() || passed && entry.key == *key)
        {
            count += 1;
        }
        count
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether there are no entries, which no summary of a table has.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the approximate number of partitions.
    pub fn estimated_keys(&self) -> u64 {
        u64::from(self.full_entries) * u64::from(self.min_index_interval)
    }

    /// The sampled keys and their positions in Index.db, in order.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = (&DecoratedKey, u64)> {
        self.entries.iter().map(|entry| (&entry.key, entry.position))
    }

    /// Returns whether this is `full` (of the same interval), or a downsampled part of it with the
    /// same ends.
    pub fn agrees_with(&self, full: &Summary) -> bool {
        let mut all = full.entries.iter();
        let within = self.entries.iter().all(|entry| all.any(|other| other == entry));
        let whole = self.sampling_level < FULL_SAMPLING || self.entries.len() == full.entries.len();
        within && whole && self.first == full.first && self.last == full.last
    }

    /// Returns the approximate heap bytes: keys share one buffer when read from a file.
    pub fn heap_size(&self) -> usize {
        self.entries.iter().map(|entry| entry.key.key().len() + size_of::<Entry>() + 8).sum()
    }

    /// The file's content.
    pub fn encode(&self) -> Vec<u8> {
        let offsets = self.entries.len() * 4;
        let mut entries = Vec::new();
        let mut out = Vec::new();
        out.put_u32(self.min_index_interval);
        out.put_i32(self.entries.len() as i32);
        let mut table = Vec::with_capacity(offsets);
        for entry in &self.entries {
            table.put_u32_le((offsets + entries.len()) as u32);
            entries.put_slice(entry.key.key());
            entries.put_u64_le(entry.position);
        }
        out.put_i64((table.len() + entries.len()) as i64);
        out.put_u32(self.sampling_level);
        out.put_u32(self.full_entries);
        out.put_slice(&table);
        out.put_slice(&entries);
        out.put_bytes32(self.first.key());
        out.put_bytes32(self.last.key());
        out
    }

    /// Decodes the file for an Index.db of `index_length` bytes. Keys and positions must ascend:
    /// only this order protects them, because the file has no checksum. Keys share the file's
    /// buffer.
    pub fn decode(bytes: &Bytes, index_length: u64) -> Parsed<Self> {
        let mut input = Input::new(bytes);
        let min_index_interval = input.u32()?;
        if !(1..=i32::MAX as u32).contains(&min_index_interval) {
            return Err(Malformed::new(0, format!("an interval expected, {min_index_interval} found")));
        }
        let count = input.u32()? as usize;
        let size = input.u64()?;
        let sampling_level = input.u32()?;
        let full_entries = input.u32()?;
        if !(1..=FULL_SAMPLING).contains(&sampling_level) || count == 0 || count > full_entries as usize {
            return Err(Malformed::new(
                4,
                format!("{count} of {full_entries} entries at sampling level {sampling_level} found"),
            ));
        }
        let start = input.position();
        let table_length = count.saturating_mul(4);
        if size > input.remaining() as u64 || size < table_length as u64 {
            return Err(Malformed::new(
                8,
                format!("{size} bytes of entries expected, {} bytes left", input.remaining()),
            ));
        }
        let body = input.bytes(size as usize)?;
        let mut table = Input::at(&body[..table_length], start as u64);
        let mut entries: Vec<Entry> = Vec::with_capacity(count);
        let mut from = table.u32_le()? as usize;
        if from != table_length {
            return Err(Malformed::new(
                start as u64,
                format!("offset {table_length} expected, {from} found"),
            ));
        }
        for index in 0..count {
            let to = if index + 1 < count { table.u32_le()? as usize } else { body.len() };
            let entry = body.get(from..to).and_then(|entry| entry.split_last_chunk::<8>());
            let Some((key, position)) = entry else {
                return Err(Malformed::new(
                    (start + index * 4) as u64,
                    format!("an entry at {from} expected, the next begins at {to} of {}", body.len()),
                ));
            };
            let key = DecoratedKey::new(bytes.slice_ref(key));
            let position = u64::from_le_bytes(*position);
            let ascends = match entries.last() {
                Some(last) => last.key < key && last.position < position,
                None => position == 0,
            };
            if !ascends || position >= index_length {
                return Err(Malformed::new(
                    (start + from) as u64,
                    format!("a key and position after the previous expected, position {position} found"),
                ));
            }
            entries.push(Entry { key, position });
            from = to;
        }
        let first = DecoratedKey::new(bytes.slice_ref(input.bytes32()?));
        let at = input.offset();
        let last = DecoratedKey::new(bytes.slice_ref(input.bytes32()?));
        input.end()?;
        if entries.first().map(|entry| &entry.key) != Some(&first)
            || entries.last().is_none_or(|entry| entry.key > last)
        {
            return Err(Malformed::new(at, "first and last key around the sampled ones expected"));
        }
        let tokens = tokens(&entries);
        Ok(Self { min_index_interval, sampling_level, full_entries, entries, tokens, first, last })
    }
}

fn tokens(entries: &[Entry]) -> Box<[i64]> {
    entries.iter().map(|entry| entry.key.token().0).collect()
}

/// Collects a summary while Index.db is written or read.
#[derive(Debug)]
pub struct SummaryBuilder {
    min_index_interval: u32,
    keys: u64,
    entries: Vec<Entry>,
    last: Option<DecoratedKey>,
}

impl SummaryBuilder {
    /// Creates a builder with the table's `min_index_interval`.
    pub fn new(min_index_interval: u32) -> Self {
        Self { min_index_interval: min_index_interval.max(1), keys: 0, entries: Vec::new(), last: None }
    }

    /// Adds the next key, whose entry in Index.db begins at `position`.
    pub fn add(&mut self, key: &DecoratedKey, position: u64) {
        if self.keys.is_multiple_of(u64::from(self.min_index_interval)) {
            self.entries.push(Entry { key: copy(key), position });
        }
        self.keys += 1;
        self.last = Some(key.clone());
    }

    /// Returns the number of keys added.
    pub fn keys(&self) -> u64 {
        self.keys
    }

    /// Returns the summary; `None` if no key was added.
    pub fn finish(self) -> Option<Summary> {
        let first = self.entries.first()?.key.clone();
        Some(Summary {
            min_index_interval: self.min_index_interval,
            sampling_level: FULL_SAMPLING,
            full_entries: self.keys.div_ceil(u64::from(self.min_index_interval)) as u32,
            tokens: tokens(&self.entries),
            entries: self.entries,
            first,
            last: copy(&self.last?),
        })
    }
}

/// Copies a key, which may share a buffer much larger than itself.
fn copy(key: &DecoratedKey) -> DecoratedKey {
    DecoratedKey::with_token(key.token(), Bytes::copy_from_slice(key.key()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(keys: u32, interval: u32) -> (Summary, Vec<DecoratedKey>) {
        let mut sorted: Vec<_> =
            (0..keys).map(|k| DecoratedKey::new(Bytes::copy_from_slice(&k.to_be_bytes()))).collect();
        sorted.sort();
        let mut builder = SummaryBuilder::new(interval);
        sorted.iter().zip((0..).step_by(10)).for_each(|(key, position)| builder.add(key, position));
        (builder.finish().unwrap(), sorted)
    }

    #[test]
    fn a_key_is_found_between_two_entries() {
        let (summary, keys) = summary(100, 8);
        assert_eq!(summary.len(), 13);
        for (index, key) in keys.iter().enumerate() {
            let (start, end) = summary.find(key).unwrap();
            let sampled = index as u64 / 8 * 80;
            assert_eq!((start, end), (sampled, (sampled < 960).then_some(sampled + 80)));
            assert_eq!(summary.seek(key, false), (index as u64).saturating_sub(1) / 8 * 80);
        }
    }

    #[test]
    fn what_is_written_reads_back_and_what_is_not_is_refused() {
        let (summary, _) = summary(10, 3);
        let bytes = Bytes::from(summary.encode());
        assert_eq!(Summary::decode(&bytes, 100).unwrap(), summary);
        assert!(Summary::decode(&bytes, 90).is_err(), "a position beyond the index");
        for length in 0..bytes.len() {
            assert!(Summary::decode(&bytes.slice(..length), 100).is_err());
        }
    }
}
