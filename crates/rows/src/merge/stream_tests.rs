//! Merges of sources of many partitions.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use proptest::prelude::*;

use super::MergedStream;
use super::tests::{table, update};
use crate::error::Result;
use crate::key::DecoratedKey;
use crate::partition::{PartitionUpdate, UpdateStream};
use crate::schema::ColumnId;
use crate::selection::Selection;
use crate::stream::{PartitionHeader, PartitionStream, RowProbe, Unfiltered};
use crate::token::Token;

/// Partitions in order, behind a first token.
struct Partitions {
    updates: std::vec::IntoIter<PartitionUpdate>,
    current: Option<UpdateStream>,
    first: Option<Token>,
    reads: Arc<AtomicUsize>,
    /// The partitions that were skipped; `None` if none can be.
    skipped: Option<Skipped>,
}

type Skipped = Arc<Mutex<Vec<DecoratedKey>>>;

struct Counting;

impl RowProbe for Counting {
    fn columns(&self) -> &[ColumnId] {
        &[]
    }

    fn skips(&mut self, _values: &[Option<&[u8]>]) -> bool {
        true
    }
}

impl PartitionStream for Partitions {
    fn next_partition(&mut self) -> Result<Option<PartitionHeader>> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let next = self.updates.next();
        self.current = next.map(|update| update.into_stream(table(), &Selection::all()));
        self.current.as_mut().map_or(Ok(None), PartitionStream::next_partition)
    }

    fn next_unfiltered(&mut self) -> Result<Option<Unfiltered>> {
        self.current.as_mut().map_or(Ok(None), PartitionStream::next_unfiltered)
    }

    fn pass_live_partitions(
        &mut self,
        before: Option<Token>,
        limit: u64,
        _probe: &mut dyn RowProbe,
    ) -> Result<u64> {
        let Some(skipped) = &self.skipped else { return Ok(0) };
        let next = self.updates.as_slice().iter().map(|update| update.key.clone());
        let next = next.take_while(|key| before.is_none_or(|before| key.token() < before));
        let keys: Vec<_> = next.take(limit as usize).collect();
        self.updates.by_ref().take(keys.len()).for_each(drop);
        skipped.lock().unwrap().extend_from_slice(&keys);
        Ok(keys.len() as u64)
    }

    fn is_reconciled(&self) -> bool {
        self.skipped.is_some()
    }

    fn first_token(&self) -> Option<Token> {
        self.first
    }
}

/// Few tokens, so that keys share them; and the one of ended sources.
fn token() -> impl Strategy<Value = i64> {
    prop_oneof![4 => 0i64..4, 1 => Just(i64::MAX), 1 => Just(i64::MIN)]
}

/// The partitions of one source, in order, and how far its first token is before the first one;
/// `None` if it is unknown.
fn source() -> impl Strategy<Value = (Vec<PartitionUpdate>, Option<i64>)> {
    let keys = proptest::collection::btree_set((token(), 0u8..3), 0..5);
    let updates = proptest::collection::vec(update(table()), 5);
    let partitions = (keys, updates).prop_map(|(keys, updates)| {
        let keyed = keys.into_iter().zip(updates).map(|((token, key), update)| PartitionUpdate {
            key: DecoratedKey::with_token(Token(token), Bytes::copy_from_slice(&[key])),
            ..update
        });
        keyed.collect::<Vec<_>>()
    });
    (partitions, proptest::option::of(0i64..3))
}

type Source = (Vec<PartitionUpdate>, Option<i64>);

/// Returns the merge, and the counts of reads of each source.
fn merge(sources: &[Source]) -> (MergedStream, Vec<Arc<AtomicUsize>>) {
    merge_skipping(sources, None)
}

fn merge_skipping(sources: &[Source], skipped: Option<&Skipped>) -> (MergedStream, Vec<Arc<AtomicUsize>>) {
    let reads: Vec<_> = sources.iter().map(|_| Arc::default()).collect();
    let stream = |((updates, before), reads): (&Source, &Arc<AtomicUsize>)| {
        let first = updates.first().zip(*before).map(|(u, before)| u.key.token().0.saturating_sub(before));
        let (updates, reads) = (updates.clone().into_iter(), reads.clone());
        let skipped = skipped.cloned();
        let stream = Partitions { updates, current: None, first: first.map(Token), reads, skipped };
        Box::new(stream) as Box<dyn PartitionStream>
    };
    let streams = sources.iter().zip(&reads).map(stream).collect();
    (MergedStream::new(streams, table(), false), reads)
}

fn drained(mut stream: MergedStream) -> Vec<(PartitionHeader, Vec<Unfiltered>)> {
    let mut out = Vec::new();
    while let Some(header) = stream.next_partition().unwrap() {
        let mut rows = Vec::new();
        while let Some(row) = stream.next_unfiltered().unwrap() {
            rows.push(row);
        }
        out.push((header, rows));
    }
    out
}

proptest! {
    #[test]
    fn first_tokens_do_not_change_the_result(sources in proptest::collection::vec(source(), 0..5)) {
        let unknown: Vec<Source> = sources.iter().map(|(updates, _)| (updates.clone(), None)).collect();
        prop_assert_eq!(drained(merge(&sources).0), drained(merge(&unknown).0));
    }

    #[test]
    fn a_source_is_not_read_before_its_first_token(sources in proptest::collection::vec(source(), 0..5)) {
        let (mut stream, reads) = merge(&sources);
        while let Some(header) = stream.next_partition().unwrap() {
            for ((updates, before), reads) in sources.iter().zip(&reads) {
                let first = updates.first().zip(*before).map(|(u, before)| u.key.token().0.saturating_sub(before));
                if first.is_some_and(|first| first > header.key.token().0) {
                    prop_assert_eq!(reads.load(Ordering::Relaxed), 0);
                }
            }
        }
    }

    #[test]
    fn skipped_and_read_partitions_are_together_all_in_order(
        sources in proptest::collection::vec(source(), 0..5),
        limit in 1u64..3,
    ) {
        let skipped = Skipped::default();
        let mut stream = merge_skipping(&sources, Some(&skipped)).0;
        let mut keys = Vec::new();
        while let Some(header) = stream.next_partition().unwrap() {
            keys.push(header.key);
            let passed = stream.pass_live_partitions(None, limit, &mut Counting).unwrap();
            prop_assert!(passed <= limit);
            keys.append(&mut skipped.lock().unwrap());
        }
        let of_source = |(updates, _): &Source| updates.iter().map(|update| update.key.clone()).collect::<Vec<_>>();
        let mut all: Vec<_> = sources.iter().flat_map(of_source).collect();
        all.sort();
        all.dedup();
        prop_assert_eq!(keys, all);
    }
}
