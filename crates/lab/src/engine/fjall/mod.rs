//! fjall, an LSM store in Rust.

mod options;

use std::collections::BTreeMap;
use std::path::Path;

use fjall::{Database, Keyspace};

use super::key_value::{KeyValueStore, StoreSettings};
use crate::LabError;
use crate::results::EngineInfo;
use crate::run::Counters;
use crate::workload::Failure;
use options::Chosen;

/// An open fjall database with one keyspace.
pub struct Fjall {
    keyspace: Keyspace,
    /// Closes the files of the keyspace when dropped.
    database: Database,
}

impl KeyValueStore for Fjall {
    const NAME: &'static str = "fjall";

    fn describe(settings: &StoreSettings) -> EngineInfo {
        let bytes = |bytes: Option<u64>| bytes.map_or("default".into(), |bytes| bytes.to_string());
        EngineInfo {
            name: Self::NAME.into(),
            version: "3".into(),
            settings: BTreeMap::from([
                ("cache bytes".into(), bytes(settings.cache_bytes)),
                ("memtable bytes".into(), bytes(settings.memtable_bytes)),
                ("compression".into(), "default".into()),
                ("log".into(), "written, not synced".into()),
            ]),
        }
    }

    fn check_options(options: &BTreeMap<String, String>) -> Result<(), String> {
        // Opens nothing.
        Chosen::new(Path::new(".")).with_all(options).map(drop)
    }

    fn open(directory: &Path, settings: &StoreSettings) -> Result<Self, LabError> {
        let refused = |error: fjall::Error| LabError::engine(Self::NAME, "open", error);
        let mut chosen = Chosen::new(directory);
        // Common settings of all engines come first, so that named options override them.
        for (name, bytes) in
            [("cache_size", settings.cache_bytes), ("max_memtable_size", settings.memtable_bytes)]
        {
            if let Some(bytes) = bytes {
                chosen = chosen.with(name, &bytes.to_string()).map_err(LabError::Usage)?;
            }
        }
        let chosen = chosen.with_all(&settings.options).map_err(LabError::Usage)?;
        let database = chosen.database.open().map_err(refused)?;
        let keyspace = database.keyspace("usertable", || chosen.keyspace).map_err(refused)?;
        Ok(Self { keyspace, database })
    }

    fn counters(&self) -> Counters {
        let Self { keyspace, database } = self;
        Counters::from([
            ("sstables".into(), keyspace.table_count() as f64),
            ("sstables_unleveled".into(), keyspace.l0_table_count() as f64),
            ("sstable_bytes".into(), keyspace.disk_space() as f64),
            ("memtable_bytes".into(), database.write_buffer_size() as f64),
            ("flushes_pending".into(), database.outstanding_flushes() as f64),
            ("block_cache_bytes".into(), database.cache_size() as f64),
            ("compactions_running".into(), database.active_compactions() as f64),
            ("compactions_total".into(), database.compactions_completed() as f64),
            ("compaction_seconds_total".into(), database.time_compacting().as_secs_f64()),
        ])
    }

    fn compact(&self) -> Result<(), LabError> {
        let refused = |error: fjall::Error| LabError::engine(Self::NAME, "compact", error);
        self.keyspace.rotate_memtable_and_wait().map_err(refused)?;
        self.keyspace.major_compact().map_err(refused)
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        self.keyspace.insert(key, value).map_err(failure)
    }

    fn get(&self, key: &[u8], take: &mut dyn FnMut(&[u8])) -> Result<(), Failure> {
        if let Some(value) = self.keyspace.get(key).map_err(failure)? {
            take(&value);
        }
        Ok(())
    }

    fn scan(&self, key: &[u8], length: usize, take: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), Failure> {
        for entry in self.keyspace.range(key..).take(length) {
            let (key, value) = entry.into_inner().map_err(failure)?;
            take(&key, &value);
        }
        Ok(())
    }
}

fn failure(error: fjall::Error) -> Failure {
    Failure::new("fjall", error)
}

#[cfg(test)]
mod tests {
    use super::super::key_value::tests::check;
    use super::*;

    #[test]
    fn fjall_keeps_records() {
        check::<Fjall>();
    }

    #[test]
    fn fjall_opens_with_every_option_and_reports_its_metrics() {
        let directory = tempfile::tempdir().unwrap();
        let options = options::tests::EVERY.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let settings = StoreSettings { options: options.into(), ..StoreSettings::default() };
        let store = Fjall::open(directory.path(), &settings).unwrap();
        store.put(b"key", b"value").unwrap();
        store.compact().unwrap();
        let mut found = Vec::new();
        store.get(b"key", &mut |value| found.extend_from_slice(value)).unwrap();
        assert_eq!(found, b"value");
        assert_eq!(store.counters()["sstables"], 1.0, "{:?}", store.counters());
    }
}
