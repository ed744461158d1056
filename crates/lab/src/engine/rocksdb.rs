//! RocksDB through its Rust crate.
//!
//! The crate builds RocksDB from source, which takes many minutes. With `ROCKSDB_LIB_DIR` set, it
//! links the library found there instead and reports that library's version.

use std::collections::BTreeMap;
use std::path::Path;

use rocksdb::statistics::{StatsLevel, Ticker};
use rocksdb::{BlockBasedOptions, Cache, DB, Options};

use super::key_value::{KeyValueStore, StoreSettings};
use crate::LabError;
use crate::results::EngineInfo;
use crate::run::Counters;
use crate::workload::Failure;

/// An open RocksDB database.
pub struct RocksDb {
    database: DB,
    /// Options of the database; they own its statistics.
    options: Options,
    keeps_statistics: bool,
}

/// The only option that is not RocksDB's: `true` counts the bytes that flushes and compactions
/// write, at some cost.
const STATISTICS: &str = "statistics";

impl std::fmt::Debug for RocksDb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RocksDb").field("database", &self.database).finish_non_exhaustive()
    }
}

impl KeyValueStore for RocksDb {
    const NAME: &'static str = "rocksdb";

    fn describe(settings: &StoreSettings) -> EngineInfo {
        let bytes = |bytes: Option<u64>| bytes.map_or("default".into(), |bytes| bytes.to_string());
        let version = match option_env!("ROCKSDB_LIB_DIR") {
            Some(directory) => format!("as in {directory}"),
            None => "as built by crate rocksdb 0.25".into(),
        };
        EngineInfo {
            name: Self::NAME.into(),
            version,
            settings: BTreeMap::from([
                ("cache bytes".into(), bytes(settings.cache_bytes)),
                ("memtable bytes".into(), bytes(settings.memtable_bytes)),
                ("compression".into(), "lz4".into()),
                ("bloom filter".into(), "10 bits a key".into()),
                ("background threads".into(), "2".into()),
                ("log".into(), "written, not synced".into()),
            ]),
        }
    }

    fn open(directory: &Path, settings: &StoreSettings) -> Result<Self, LabError> {
        let mut options = options(settings).map_err(LabError::Usage)?;
        let keeps_statistics = settings.options.get(STATISTICS).is_some_and(|value| value == "true");
        if keeps_statistics {
            options.enable_statistics();
            options.set_statistics_level(StatsLevel::ExceptHistogramOrTimers);
        }
        let database =
            DB::open(&options, directory).map_err(|error| LabError::engine(Self::NAME, "open", error))?;
        Ok(Self { database, options, keeps_statistics })
    }

    fn check_options(options: &BTreeMap<String, String>) -> Result<(), String> {
        let settings = StoreSettings { options: options.clone(), ..StoreSettings::default() };
        self::options(&settings).map(drop)
    }

    fn settings(&self, directory: &Path) -> BTreeMap<String, String> {
        newest_options_file(directory).map(|text| parse_options_file(&text)).unwrap_or_default()
    }

    fn counters(&self) -> Counters {
        const PROPERTIES: [(&str, &str); 6] = [
            ("rocksdb.num-running-compactions", "compactions_running"),
            ("rocksdb.estimate-pending-compaction-bytes", "compaction_pending_bytes"),
            ("rocksdb.cur-size-all-mem-tables", "memtable_bytes"),
            ("rocksdb.block-cache-usage", "block_cache_bytes"),
            ("rocksdb.total-sst-files-size", "sstable_bytes"),
            ("rocksdb.live-sst-files-size", "sstable_bytes_live"),
        ];
        let mut counters = Counters::new();
        for (property, name) in PROPERTIES {
            if let Ok(Some(value)) = self.database.property_int_value(property) {
                counters.insert(name.into(), value as f64);
            }
        }
        if self.keeps_statistics {
            let count = |ticker| self.options.get_ticker_count(ticker) as f64;
            counters.insert("flushed_bytes_total".into(), count(Ticker::FlushWriteBytes));
            counters.insert("compacted_bytes_total".into(), count(Ticker::CompactWriteBytes));
        }
        if let Ok(files) = self.database.live_files() {
            counters.insert("sstables".into(), files.len() as f64);
            let unleveled = files.iter().filter(|file| file.level == 0).count();
            counters.insert("sstables_unleveled".into(), unleveled as f64);
        }
        counters
    }

    fn compact(&self) -> Result<(), LabError> {
        self.database.compact_range(None::<&[u8]>, None::<&[u8]>);
        Ok(())
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        self.database.put(key, value).map_err(failure)
    }

    fn get(&self, key: &[u8], take: &mut dyn FnMut(&[u8])) -> Result<(), Failure> {
        if let Some(value) = self.database.get_pinned(key).map_err(failure)? {
            take(&value);
        }
        Ok(())
    }

    fn scan(&self, key: &[u8], length: usize, take: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), Failure> {
        let mut iterator = self.database.raw_iterator();
        iterator.seek(key);
        for _ in 0..length {
            let Some((key, value)) = iterator.item() else { break };
            take(key, value);
            iterator.next();
        }
        iterator.status().map_err(failure)
    }
}

/// Builds the options: first the common settings, then RocksDB's by the names in its OPTIONS file,
/// for the database, the tables and, within `block_based_table_factory = "{block_size=16384;…}"`,
/// blocks. RocksDB validates them.
fn options(settings: &StoreSettings) -> Result<Options, String> {
    let mut options = Options::default();
    options.create_if_missing(true);
    options.increase_parallelism(2);
    options.set_compression_type(rocksdb::DBCompressionType::Lz4);
    if let Some(bytes) = settings.memtable_bytes {
        options.set_write_buffer_size(bytes as usize);
    }
    let mut blocks = BlockBasedOptions::default();
    blocks.set_bloom_filter(10.0, false);
    if let Some(bytes) = settings.cache_bytes {
        blocks.set_block_cache(&Cache::new_lru_cache(bytes as usize));
    }
    options.set_block_based_table_factory(&blocks);
    // One at a time, so that an error can name the invalid one.
    for (name, value) in settings.options.iter().filter(|(name, _)| *name != STATISTICS) {
        options = options
            .get_options_from_string(format!("{name}={value}"))
            .map_err(|error| format!("RocksDB's {name} cannot be {value:?}: {}", error.to_string().trim()))?;
    }
    Ok(options)
}

/// Returns the text of the newest `OPTIONS-<number>`, which RocksDB writes whenever options change.
fn newest_options_file(directory: &Path) -> Option<String> {
    let names = std::fs::read_dir(directory).ok()?.flatten().map(|entry| entry.file_name());
    let newest =
        names.filter_map(|name| name.into_string().ok()).filter(|name| name.starts_with("OPTIONS-")).max()?;
    std::fs::read_to_string(directory.join(newest)).ok()
}

/// Parses `name=value` lines of the sections of the database and the tables.
fn parse_options_file(text: &str) -> BTreeMap<String, String> {
    let pairs = text.lines().filter_map(|line| line.trim().split_once('='));
    pairs.map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned())).collect()
}

fn failure(error: rocksdb::Error) -> Failure {
    Failure::new("rocksdb", error)
}

#[cfg(test)]
mod tests {
    use super::super::key_value::tests::check;
    use super::*;

    #[test]
    fn rocksdb_keeps_records() {
        check::<RocksDb>();
    }

    #[test]
    fn rocksdb_statistics_count_bytes_written_by_flushes() {
        let directory = tempfile::tempdir().unwrap();
        let settings = |name: &str, value: &str| StoreSettings {
            options: BTreeMap::from([(name.into(), value.into()), (STATISTICS.into(), "true".into())]),
            ..StoreSettings::default()
        };
        assert!(RocksDb::open(directory.path(), &settings("no_such_option", "1")).is_err());
        // One that cannot change while the database is open.
        let settings = settings("level_compaction_dynamic_level_bytes", "false");
        let store = RocksDb::open(directory.path(), &settings).unwrap();
        assert_eq!(store.settings(directory.path())["level_compaction_dynamic_level_bytes"], "false");
        store.put(b"k", b"v").unwrap();
        store.database.flush().unwrap();
        assert!(store.counters()["flushed_bytes_total"] > 0.0);
    }

    #[test]
    fn rocksdb_options_are_set_by_name_and_reported() {
        let directory = tempfile::tempdir().unwrap();
        // The first three cannot change while the database is open.
        let given = [
            ("max_open_files", "77"),
            ("num_levels", "5"),
            (
                "block_based_table_factory",
                "{block_size=16384;block_restart_interval=4;filter_policy=bloomfilter:5:false}",
            ),
            ("write_buffer_size", "1234567"),
            ("compression", "kNoCompression"),
        ];
        let options = given.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let settings = StoreSettings { options, ..StoreSettings::default() };
        let reported = RocksDb::open(directory.path(), &settings).unwrap().settings(directory.path());
        for (name, value) in [
            ("max_open_files", "77"),
            ("num_levels", "5"),
            ("block_size", "16384"),
            ("block_restart_interval", "4"),
            ("write_buffer_size", "1234567"),
            ("compression", "kNoCompression"),
        ] {
            assert_eq!(reported[name], value, "{name}");
        }
        assert!(reported["filter_policy"].contains("bloomfilter:5"), "{}", reported["filter_policy"]);
    }

    #[test]
    fn unknown_rocksdb_options_are_rejected_by_name() {
        for (name, value) in [("write_bufer_size", "1"), ("num_levels", "some")] {
            let wrong = BTreeMap::from([(name.to_owned(), value.to_owned())]);
            let error = RocksDb::check_options(&wrong).unwrap_err();
            assert!(error.contains(name), "{error}");
        }
    }
}
