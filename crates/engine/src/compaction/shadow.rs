//! `provide_overlapping_tombstones`: newer SSTables that overlap a compaction, asked what of its
//! rows they shadow.
//!
//! Which sources a partition has, from the cheapest check to the dearest:
//!
//! 1. once a compaction: SSTables outside of it that share keys with its inputs, are not suspect,
//!    and are newer than the oldest thing in them; for deletions alone, those whose statistics do
//!    not rule out any;
//! 2. the range of keys and the bloom filter of each; for deletions alone, those that an SSTable
//!    has apart from its rows, which are walked along with the compaction
//!    ([`deletions`](cassette_sstable::deletions));
//! 3. no more than `max_sources`: the newest ones, or none at all;
//! 4. its place in the index, which is walked along, too; not at all once nothing is left of the
//!    partition. Of what has nothing but deletions left, the deletions that lie apart are asked
//!    instead, as only those can remove it.

use std::sync::Arc;
use std::time::Instant;

use cassette_rows::merge::shadow::{Dropped, ShadowSources, ShadowedBy};
use cassette_rows::token::murmur3_hash;
use cassette_rows::{DecoratedKey, PartitionHeader, Result, Unfiltered};
use cassette_sstable::SSTableId;
use cassette_sstable::reader::Probe;
use hashbrown::HashSet;

use crate::basics::options::OverlappingOptions;
use crate::basics::options::{OverlappingTombstones, SourcesPolicy};
use crate::store::overlapping::{OverlapCounters, OverlapMetrics};
use crate::store::sstable_handle::SSTable;
use crate::store::table::View;
use crate::strategies::options::CompactionOptions;

/// How a compaction uses overlapping SSTables: as the table says, or else the node.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Plan {
    pub by: OverlappingTombstones,
    /// 0 for no limit.
    pub max_sources: usize,
    pub policy: SourcesPolicy,
    /// The share of an SSTable that has to be shadowed for it to be compacted alone.
    pub threshold: f64,
}

impl Plan {
    pub fn new(table: &CompactionOptions, node: &OverlappingOptions) -> Self {
        Self {
            by: table.overlapping_tombstones.unwrap_or(node.provide),
            max_sources: table.max_sources.unwrap_or(node.max_sources),
            policy: table.sources_policy.unwrap_or(node.policy),
            threshold: table.garbage_threshold.unwrap_or(node.threshold),
        }
    }

    /// What the stream is told; `None` for nothing to do.
    pub fn shadowed_by(&self) -> Option<ShadowedBy> {
        match self.by {
            OverlappingTombstones::None => None,
            OverlappingTombstones::Row => Some(ShadowedBy::Deletions),
            OverlappingTombstones::Cell => Some(ShadowedBy::Cells),
        }
    }
}

/// The SSTables that one compaction may ask; those with the greatest timestamps first.
pub(super) struct Sources {
    sources: Vec<Source>,
    plan: Plan,
    /// The sources that may have the current partition.
    asked: Vec<usize>,
    key: Option<DecoratedKey>,
    began: Option<Instant>,
    counted: OverlapMetrics,
    counters: Arc<OverlapCounters>,
}

struct Source {
    sstable: Arc<SSTable>,
    probe: Probe,
    /// The same without rows, where rows are asked for as well and the deletions lie apart.
    deletions: Option<Probe>,
    /// The current partition was opened there.
    in_deletions: bool,
    /// A read of it has failed: it is not asked any more.
    failed: bool,
}

impl Source {
    fn new(sstable: &Arc<SSTable>, only_deletions: bool) -> Result<Self> {
        Ok(Self {
            probe: sstable.reader.probe(only_deletions)?,
            deletions: if only_deletions { None } else { sstable.reader.probe_deletions()? },
            sstable: sstable.clone(),
            in_deletions: false,
            failed: false,
        })
    }

    fn open(&mut self, key: &DecoratedKey, wanted: ShadowedBy) -> Result<Option<PartitionHeader>> {
        self.in_deletions = false;
        if wanted == ShadowedBy::Deletions {
            if !self.sstable.reader.may_have_deletions() {
                return Ok(None);
            }
            if let Some(deletions) = &mut self.deletions {
                self.in_deletions = true;
                return deletions.open(key);
            }
        }
        self.probe.open(key)
    }

    fn next_unfiltered(&mut self) -> Result<Option<Unfiltered>> {
        match &mut self.deletions {
            Some(deletions) if self.in_deletions => deletions.next_unfiltered(),
            _ => self.probe.next_unfiltered(),
        }
    }

    /// Bytes of rows gone through, and of deletions.
    fn bytes(&self) -> u64 {
        self.probe.bytes() + self.deletions.as_ref().map_or(0, Probe::bytes)
    }
}

impl Sources {
    /// For a compaction that reads `inputs`. What it shares keys with is taken from the view that
    /// it begins with: an SSTable that is compacted away meanwhile stays readable, and what it
    /// shadows its successors shadow too.
    pub fn new(
        view: &View,
        compacting: &HashSet<SSTableId>,
        inputs: &[Arc<SSTable>],
        plan: Plan,
        counters: &Arc<OverlapCounters>,
    ) -> Self {
        let oldest = inputs.iter().map(|input| input.min_timestamp()).min().unwrap_or(i64::MAX);
        let only_deletions = plan.by == OverlappingTombstones::Row;
        let may_shadow = |sstable: &&Arc<SSTable>| {
            !compacting.contains(&sstable.id())
                && !sstable.is_suspect()
                && sstable.max_timestamp() >= oldest
                && (!only_deletions || sstable.reader.may_have_deletions())
                && inputs.iter().any(|input| input.overlaps(sstable))
        };
        // The view has those with the greatest timestamps first.
        let source = |sstable: &Arc<SSTable>| {
            Source::new(sstable, only_deletions)
                .inspect_err(
                    |error| tracing::warn!(%error, "an overlapping SSTable is not asked for what it shadows"),
                )
                .ok()
        };
        Self {
            sources: view.sstables.iter().filter(may_shadow).filter_map(source).collect(),
            plan,
            asked: Vec::new(),
            key: None,
            began: None,
            counted: OverlapMetrics::default(),
            counters: counters.clone(),
        }
    }

    /// Whether there are no sources.
    pub fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// After a failure the source is left alone: a subset of sources is as right, and the
    /// compaction is not to fail for a file that it does not rewrite.
    fn failed(&mut self, source: usize, error: &cassette_rows::StorageError) {
        tracing::warn!(%error, "an overlapping SSTable is not asked for what it shadows");
        self.sources[source].sstable.mark_suspect();
        self.sources[source].failed = true;
    }
}

impl ShadowSources for Sources {
    fn begin(&mut self, key: &DecoratedKey) -> usize {
        self.began = Some(Instant::now());
        let hash = murmur3_hash(key.key());
        self.asked.clear();
        for i in 0..self.sources.len() {
            if self.sources[i].failed {
                continue;
            }
            match self.sources[i].probe.may_have(key, hash) {
                Ok(true) => self.asked.push(i),
                Ok(false) => {}
                Err(error) => self.failed(i, &error),
            }
        }
        let limit = self.plan.max_sources;
        if limit > 0 && self.asked.len() > limit {
            match self.plan.policy {
                SourcesPolicy::Newest => self.asked.truncate(limit),
                SourcesPolicy::Skip => {
                    self.asked.clear();
                    self.counted.partitions_skipped += 1;
                }
            }
        }
        if self.asked.is_empty() {
            self.end(&Dropped::default());
            return 0;
        }
        self.counted.partitions_checked += 1;
        self.key = Some(key.clone());
        self.asked.len()
    }

    fn max_timestamp(&self, index: usize) -> i64 {
        self.sources[self.asked[index]].sstable.max_timestamp()
    }

    fn open(&mut self, index: usize, wanted: ShadowedBy) -> Result<Option<PartitionHeader>> {
        let source = self.asked[index];
        let Some(key) = &self.key else { return Ok(None) };
        match self.sources[source].open(key, wanted) {
            Ok(found) => {
                self.counted.sources_opened += u64::from(found.is_some());
                Ok(found)
            }
            Err(error) => {
                self.failed(source, &error);
                Ok(None)
            }
        }
    }

    fn next_unfiltered(&mut self, index: usize) -> Result<Option<Unfiltered>> {
        let source = self.asked[index];
        // A range that it left open would cover all that follows: the compaction fails, and the
        // next one does without it.
        self.sources[source].next_unfiltered().inspect_err(|_| self.sources[source].sstable.mark_suspect())
    }

    fn end(&mut self, dropped: &Dropped) {
        if let Some(began) = self.began.take() {
            self.counted.time += began.elapsed();
        }
        self.counted.rows_dropped += dropped.rows;
        self.counted.cells_dropped += dropped.cells;
        self.counted.bytes_dropped += dropped.bytes;
    }
}

impl Drop for Sources {
    fn drop(&mut self) {
        self.counted.bytes_read = self.sources.iter().map(Source::bytes).sum();
        self.counters.add(&self.counted);
    }
}
