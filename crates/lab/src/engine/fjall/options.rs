//! fjall's options under the names of its functions; a policy applies to every level.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use fjall::compaction::Leveled;
use fjall::config::{
    BlockSizePolicy, BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry,
    HashRatioPolicy, PartitioningPolicy, PinningPolicy, RestartIntervalPolicy,
};
use fjall::{CompressionType, Database, DatabaseBuilder, KeyspaceCreateOptions, KvSeparationOptions};

/// Options of a database and its keyspace.
pub(super) struct Chosen {
    pub database: DatabaseBuilder<Database>,
    pub keyspace: KeyspaceCreateOptions,
    /// Both belong to the leveled compaction strategy.
    l0_threshold: Option<u8>,
    table_target_size: Option<u64>,
}

const NAMES: &str = "cache_size, data_block_compression_policy, data_block_hash_ratio_policy, \
    data_block_restart_interval_policy, data_block_size_policy, expect_point_read_hits, \
    filter_block_partitioning_policy, filter_block_pinning_policy, filter_policy, index_block_compression_policy, \
    index_block_partitioning_policy, index_block_pinning_policy, journal_compression, l0_threshold, \
    manual_journal_persist, max_cached_files, max_journaling_size, max_memtable_size, separation_threshold, \
    table_target_size and worker_threads";

impl Chosen {
    /// Creates the default options for `directory`.
    pub fn new(directory: &Path) -> Self {
        Self {
            database: Database::builder(directory),
            keyspace: KeyspaceCreateOptions::default(),
            l0_threshold: None,
            table_target_size: None,
        }
    }

    /// Applies all of `options`.
    pub fn with_all(self, options: &BTreeMap<String, String>) -> Result<Self, String> {
        options.iter().try_fold(self, |chosen, (name, value)| chosen.with(name, value))
    }

    /// Applies the option `name`. Rejects values on which fjall would panic.
    #[expect(clippy::too_many_lines, reason = "one arm for each option")]
    pub fn with(mut self, name: &str, value: &str) -> Result<Self, String> {
        let Self { database, keyspace, .. } = self;
        let (database, keyspace) = match name {
            "cache_size" => (database.cache_size(number(name, value, 0..=u64::MAX)?), keyspace),
            "worker_threads" => (database.worker_threads(number(name, value, 1..=1024)?), keyspace),
            "max_cached_files" => {
                (database.max_cached_files(Some(number(name, value, 10..=1 << 20)?)), keyspace)
            }
            "max_journaling_size" => {
                (database.max_journaling_size(number(name, value, 64 << 20..=u64::MAX)?), keyspace)
            }
            "manual_journal_persist" => (database.manual_journal_persist(flag(name, value)?), keyspace),
            "journal_compression" => (database.journal_compression(compression(name, value)?), keyspace),
            "max_memtable_size" => (database, keyspace.max_memtable_size(number(name, value, 1..=u64::MAX)?)),
            "data_block_size_policy" => {
                let policy = BlockSizePolicy::all(number(name, value, 1 << 10..=1 << 20)?);
                (database, keyspace.data_block_size_policy(policy))
            }
            "data_block_restart_interval_policy" => {
                let policy = RestartIntervalPolicy::all(number(name, value, 1..=255)?);
                (database, keyspace.data_block_restart_interval_policy(policy))
            }
            "data_block_hash_ratio_policy" => {
                let policy = HashRatioPolicy::all(number(name, value, 0.0..=100.0)?);
                (database, keyspace.data_block_hash_ratio_policy(policy))
            }
            "data_block_compression_policy" => {
                let policy = CompressionPolicy::all(compression(name, value)?);
                (database, keyspace.data_block_compression_policy(policy))
            }
            "index_block_compression_policy" => {
                let policy = CompressionPolicy::all(compression(name, value)?);
                (database, keyspace.index_block_compression_policy(policy))
            }
            // Bits per key; 0 disables the filter.
            "filter_policy" => {
                let bits: f32 = number(name, value, 0.0..=100.0)?;
                let entry = if bits > 0.0 {
                    FilterPolicyEntry::Bloom(BloomConstructionPolicy::BitsPerKey(bits))
                } else {
                    FilterPolicyEntry::None
                };
                (database, keyspace.filter_policy(FilterPolicy::all(entry)))
            }
            "expect_point_read_hits" => (database, keyspace.expect_point_read_hits(flag(name, value)?)),
            "filter_block_pinning_policy" => {
                (database, keyspace.filter_block_pinning_policy(PinningPolicy::all(flag(name, value)?)))
            }
            "index_block_pinning_policy" => {
                (database, keyspace.index_block_pinning_policy(PinningPolicy::all(flag(name, value)?)))
            }
            "filter_block_partitioning_policy" => {
                let policy = PartitioningPolicy::all(flag(name, value)?);
                (database, keyspace.filter_block_partitioning_policy(policy))
            }
            "index_block_partitioning_policy" => {
                let policy = PartitioningPolicy::all(flag(name, value)?);
                (database, keyspace.index_block_partitioning_policy(policy))
            }
            "separation_threshold" => {
                let separated =
                    KvSeparationOptions::default().separation_threshold(number(name, value, 1..=u32::MAX)?);
                (database, keyspace.with_kv_separation(Some(separated)))
            }
            "l0_threshold" => {
                self.l0_threshold = Some(number(name, value, 1..=255)?);
                (database, leveled(keyspace, self.l0_threshold, self.table_target_size))
            }
            "table_target_size" => {
                self.table_target_size = Some(number(name, value, 1 << 10..=u64::MAX)?);
                (database, leveled(keyspace, self.l0_threshold, self.table_target_size))
            }
            _ => return Err(format!("fjall has no option {name} here; it has {NAMES}")),
        };
        Ok(Self { database, keyspace, ..self })
    }
}

fn leveled(
    keyspace: KeyspaceCreateOptions,
    l0_threshold: Option<u8>,
    target: Option<u64>,
) -> KeyspaceCreateOptions {
    let mut strategy = Leveled::default();
    if let Some(threshold) = l0_threshold {
        strategy = strategy.with_l0_threshold(threshold);
    }
    if let Some(bytes) = target {
        strategy = strategy.with_table_target_size(bytes);
    }
    keyspace.compaction_strategy(Arc::new(strategy))
}

fn number<N>(name: &str, value: &str, range: RangeInclusive<N>) -> Result<N, String>
where
    N: FromStr + PartialOrd + std::fmt::Display,
{
    let parsed = value.parse().ok().filter(|parsed| range.contains(parsed));
    parsed.ok_or_else(|| {
        format!("invalid {name} {value:?}: expected a number from {} to {}", range.start(), range.end())
    })
}

fn flag(name: &str, value: &str) -> Result<bool, String> {
    value.parse().map_err(|_| format!("invalid {name} {value:?}: expected true or false"))
}

fn compression(name: &str, value: &str) -> Result<CompressionType, String> {
    match value {
        "none" => Ok(CompressionType::None),
        "lz4" => Ok(CompressionType::Lz4),
        _ => Err(format!("invalid {name} {value:?}: expected none or lz4")),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Every option with a value other than its default.
    pub const EVERY: [(&str, &str); 21] = [
        ("cache_size", "1048576"),
        ("data_block_compression_policy", "none"),
        ("data_block_hash_ratio_policy", "0.75"),
        ("data_block_restart_interval_policy", "4"),
        ("data_block_size_policy", "16384"),
        ("expect_point_read_hits", "true"),
        ("filter_block_partitioning_policy", "true"),
        ("filter_block_pinning_policy", "false"),
        ("filter_policy", "12.5"),
        ("index_block_compression_policy", "lz4"),
        ("index_block_partitioning_policy", "true"),
        ("index_block_pinning_policy", "false"),
        ("journal_compression", "none"),
        ("l0_threshold", "8"),
        ("manual_journal_persist", "true"),
        ("max_cached_files", "50"),
        ("max_journaling_size", "134217728"),
        ("max_memtable_size", "1000000"),
        ("separation_threshold", "2048"),
        ("table_target_size", "33554432"),
        ("worker_threads", "1"),
    ];

    #[test]
    fn unknown_options_and_invalid_values_are_rejected() {
        for (name, value, words) in [
            ("nosuch", "1", "no option nosuch"),
            ("worker_threads", "0", "from 1 to 1024"),
            ("max_journaling_size", "1", "from 67108864"),
            ("data_block_size_policy", "2097152", "to 1048576"),
            ("filter_policy", "many", "expected a number"),
            ("expect_point_read_hits", "perhaps", "true or false"),
            ("journal_compression", "zip", "none or lz4"),
        ] {
            let error = Chosen::new(Path::new(".")).with(name, value).err().unwrap();
            assert!(error.contains(words), "{error}");
        }
        assert!(EVERY.iter().all(|(name, _)| NAMES.contains(name)));
    }
}
