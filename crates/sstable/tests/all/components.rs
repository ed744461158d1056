//! Every component of every golden SSTable is decoded to its last byte, and encoded to the same
//! bytes. The components that Cassandra derived from the keys (Filter, Summary, the cardinality
//! sketch) are derived again and compared.

use crate::support::{component, golden_sstables};
use bytes::Bytes;
use cassette_rows::DecoratedKey;
use cassette_sstable::compression::CompressionInfo;
use cassette_sstable::crc::Checksums;
use cassette_sstable::filter::BloomFilter;
use cassette_sstable::index::{self, EntryHead};
use cassette_sstable::input::Input;
use cassette_sstable::statistics::{HyperLogLog, Statistics};
use cassette_sstable::summary::{Summary, SummaryBuilder};
use cassette_sstable::{Component, Descriptor, digest, toc};

fn keys_of(descriptor: &Descriptor) -> Vec<(DecoratedKey, u64)> {
    let bytes = component(descriptor, Component::Index).unwrap();
    let mut input = Input::new(&bytes);
    let mut keys = Vec::new();
    let mut again = Vec::new();
    while input.remaining() > 0 {
        let at = input.offset();
        let head = EntryHead::decode(&mut input).unwrap();
        keys.push((DecoratedKey::new(Bytes::copy_from_slice(head.key)), at));
        let promoted = input.bytes(head.promoted_length).unwrap();
        index::encode_entry(head.key, head.position, promoted, &mut again);
    }
    assert_eq!(again, bytes, "{descriptor}");
    assert!(keys.is_sorted_by(|a, b| a.0 < b.0), "{descriptor}");
    keys
}

#[test]
fn statistics_are_written_as_they_were() {
    for descriptor in golden_sstables() {
        let bytes = component(&descriptor, Component::Statistics).unwrap();
        let statistics = Statistics::decode(&bytes).unwrap();
        assert_eq!(statistics.encode(), bytes, "{descriptor}");
        let sketch = HyperLogLog::decode(&statistics.cardinality).unwrap();
        assert_eq!(sketch.finish(), *statistics.cardinality, "{descriptor}");
    }
}

#[test]
fn sketch_filter_and_summary_follow_from_the_keys() {
    for descriptor in golden_sstables() {
        let statistics = Statistics::decode(&component(&descriptor, Component::Statistics).unwrap()).unwrap();
        let keys = keys_of(&descriptor);
        let mut sketch = HyperLogLog::default();
        let bytes = Bytes::from(component(&descriptor, Component::Summary).unwrap());
        let index_length = component(&descriptor, Component::Index).unwrap().len() as u64;
        let summary = Summary::decode(&bytes, index_length).unwrap();
        let mut builder = SummaryBuilder::new(summary.min_index_interval);
        let mut filter =
            BloomFilter::with_chance(keys.len() as u64, statistics.validation.bloom_filter_fp_chance);
        for (key, position) in &keys {
            sketch.add_key(key.key());
            builder.add(key, *position);
            if let Some(filter) = &mut filter {
                filter.add(key.key());
            }
        }
        assert_eq!(sketch.finish(), *statistics.cardinality, "{descriptor}");
        assert_eq!(summary.encode(), bytes, "{descriptor}");
        assert_eq!(builder.finish().unwrap(), summary, "{descriptor}");

        let bytes = component(&descriptor, Component::Filter);
        let found = bytes.as_deref().map(|bytes| BloomFilter::decode(bytes).unwrap());
        assert_eq!(found.as_ref().map(BloomFilter::encode), bytes, "{descriptor}");
        // A compaction sizes the filter by an estimate.
        if filter.as_ref().map(BloomFilter::heap_size) == found.as_ref().map(BloomFilter::heap_size) {
            assert_eq!(found, filter, "{descriptor}");
        }
        let found = found.iter().flat_map(|filter| keys.iter().map(|key| filter.may_contain(key.0.key())));
        assert!(found.into_iter().all(|contained| contained), "{descriptor}");
    }
}

#[test]
fn small_components_are_written_as_they_were() {
    for descriptor in golden_sstables() {
        let listed = component(&descriptor, Component::Toc).unwrap();
        assert_eq!(toc::encode(&toc::decode(&listed).unwrap()), listed, "{descriptor}");

        let data = component(&descriptor, Component::Data).unwrap();
        let digest_file = component(&descriptor, Component::Digest).unwrap();
        assert_eq!(digest::decode(&digest_file).unwrap(), crc32fast::hash(&data), "{descriptor}");
        assert_eq!(digest::encode(crc32fast::hash(&data)), digest_file, "{descriptor}");

        match component(&descriptor, Component::CompressionInfo) {
            Some(bytes) => {
                let info = CompressionInfo::decode(&bytes, data.len() as u64).unwrap();
                assert_eq!(info.encode(), bytes, "{descriptor}");
            }
            None => {
                let bytes = component(&descriptor, Component::Crc).unwrap();
                let checksums = Checksums::decode(&bytes, data.len() as u64).unwrap();
                assert_eq!(checksums.encode(), bytes, "{descriptor}");
                let block = checksums.block_size as usize;
                assert!(data.chunks(block).map(crc32fast::hash).eq(checksums.crcs.iter().copied()));
            }
        }
    }
}
