//! `provide_overlapping_tombstones`: checks which rows of a compaction newer overlapping SSTables
//! shadow.
//!
//! The sources of a partition are determined from the cheapest check to the most expensive:
//!
//! 1. once for each compaction: SSTables outside of it that share keys with its inputs, are not
//!    suspect, and are newer than the oldest data in them; for deletions alone, those whose
//!    statistics do not exclude any;
//! 2. the range of keys and the bloom filter of each; for deletions alone, those that an SSTable
//!    stores separately from its rows, which are read along with the compaction
//!    ([`deletions`](cassette_sstable::deletions));
//! 3. at most `max_sources`: the newest ones, or none;
//! 4. its position in the index, which is also read along; not at all once nothing of the partition
//!    is left. If only deletions are left, the separately stored deletions are used, as only those
//!    can remove them.

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

/// How a compaction uses overlapping SSTables, by the options of the table, or else of the node.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Plan {
    pub by: OverlappingTombstones,
    /// 0 for no limit.
    pub max_sources: usize,
    pub policy: SourcesPolicy,
    /// The fraction of an SSTable that has to be shadowed for it to be compacted alone.
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

    /// Returns the setting of the stream; `None` if nothing is to be done.
    pub fn shadowed_by(&self) -> Option<ShadowedBy> {
        match self.by {
            OverlappingTombstones::None => None,
            OverlappingTombstones::Row => Some(ShadowedBy::Deletions),
            OverlappingTombstones::Cell => Some(ShadowedBy::Cells),
        }
    }
}

/// The sources of one compaction, in descending order of maximum timestamps.
pub(super) struct Sources {
    sources: Vec<Source>,
    plan: Plan,
    /// The sources that may contain the current partition.
    asked: Vec<usize>,
    key: Option<DecoratedKey>,
    began: Option<Instant>,
    counted: OverlapMetrics,
    counters: Arc<OverlapCounters>,
}

struct Source {
    sstable: Arc<SSTable>,
    probe: Probe,
    /// The separately stored deletions, if rows are used as well.
    deletions: Option<Probe>,
    /// Whether the current partition was opened in the separate deletions.
    in_deletions: bool,
    /// A read of it has failed: it is not used any more.
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

    /// Returns the bytes of rows and deletions read.
    fn bytes(&self) -> u64 {
        self.probe.bytes() + self.deletions.as_ref().map_or(0, Probe::bytes)
    }
}

impl Sources {
    /// Returns the sources of a compaction that reads `inputs`. They are those of the view at its
    /// start: an SSTable that is compacted away meanwhile remains readable, and its replacements
    /// shadow the same data.
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
        // The view is sorted by maximum timestamp.
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

    /// Disables a source after a failure: any subset of sources is correct, and the compaction must
    /// not fail because of a file that it does not rewrite.
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
        // A range that it left open would cover all that follows: the compaction fails, and is
        // retried without this source.
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
