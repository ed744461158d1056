//! fjall, an LSM store in Rust.

use std::collections::BTreeMap;
use std::path::Path;

use fjall::{Database, Keyspace, KeyspaceCreateOptions};

use super::key_value::{KeyValueStore, StoreSettings};
use super::{EngineInfo, Failure};
use crate::LabError;

/// An open fjall database with one keyspace.
pub struct Fjall {
    keyspace: Keyspace,
    /// Closes the keyspace's files when dropped.
    _database: Database,
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
        for (name, value) in options {
            if !["cache_size", "max_memtable_size"].contains(&name.as_str()) {
                return Err(format!(
                    "fjall has no option {name} here; it has cache_size and max_memtable_size"
                ));
            }
            value.parse::<u64>().map_err(|_| format!("{name} cannot be {value:?}: expected bytes"))?;
        }
        Ok(())
    }

    fn open(directory: &Path, settings: &StoreSettings) -> Result<Self, LabError> {
        let refused = |error: fjall::Error| LabError::engine(Self::NAME, "open", error);
        let given = |name: &str| settings.options.get(name).and_then(|value| value.parse().ok());
        let mut builder = Database::builder(directory);
        if let Some(bytes) = given("cache_size").or(settings.cache_bytes) {
            builder = builder.cache_size(bytes);
        }
        let options = || {
            let options = KeyspaceCreateOptions::default();
            match given("max_memtable_size").or(settings.memtable_bytes) {
                Some(bytes) => options.max_memtable_size(bytes),
                None => options,
            }
        };
        let database = builder.open().map_err(refused)?;
        let keyspace = database.keyspace("usertable", options).map_err(refused)?;
        Ok(Self { keyspace, _database: database })
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
#[test]
fn fjall_keeps_records() {
    super::key_value::tests::check::<Fjall>();
}
