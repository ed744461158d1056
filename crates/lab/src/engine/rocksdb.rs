//! RocksDB through its Rust crate.
//!
//! The crate builds RocksDB from its source, which takes many minutes; with `ROCKSDB_LIB_DIR` set it links the library
//! found there instead, whose version is then that library's.

use std::collections::BTreeMap;
use std::path::Path;

use rocksdb::{BlockBasedOptions, Cache, DB, Options};

use super::key_value::{KeyValueStore, StoreSettings};
use super::{EngineInfo, Failure};
use crate::LabError;

/// An open RocksDB database.
#[derive(Debug)]
pub struct RocksDb {
    database: DB,
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
        let database =
            DB::open(&options, directory).map_err(|error| LabError::engine(Self::NAME, "open", error))?;
        Ok(Self { database })
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

fn failure(error: rocksdb::Error) -> Failure {
    Failure::new("rocksdb", error)
}

#[cfg(test)]
#[test]
fn rocksdb_keeps_records() {
    super::key_value::tests::check::<RocksDb>();
}
