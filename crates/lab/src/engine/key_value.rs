//! Records in engines that store only keys and values.
//!
//! As in YCSB's binding of RocksDB, a record is one value with all its fields, and an update reads
//! the record, changes a field and writes it whole. As there, two threads that update the same
//! record at the same time may lose a change. An update of all fields is written without reading,
//! as CQL's is.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{Engine, Session};
use crate::LabError;
use crate::results::EngineInfo;
use crate::run::{Action, Counters, Sampler};
use crate::workload::{Failure, RowSink, TableShape};
use crate::ycsb::FieldValues;

/// Settings common to these engines.
#[derive(Debug, Clone, Default)]
pub struct StoreSettings {
    /// Size of the block cache in bytes; `None` for the engine's default.
    pub cache_bytes: Option<u64>,
    /// Size of the memtable in bytes; `None` for the engine's default.
    pub memtable_bytes: Option<u64>,
    /// Other options, under the engine's names.
    pub options: BTreeMap<String, String>,
}

/// An ordered key-value store.
pub trait KeyValueStore: Send + Sync + Sized {
    /// Name of the store and of its directory.
    const NAME: &'static str;

    /// Returns its version and settings.
    fn describe(settings: &StoreSettings) -> EngineInfo;

    /// Checks the names and values of options without opening anything.
    fn check_options(options: &BTreeMap<String, String>) -> Result<(), String> {
        match options.keys().next() {
            Some(name) => Err(format!("{}: unknown option {name}", Self::NAME)),
            None => Ok(()),
        }
    }

    /// Returns the settings reported by the open store, if it reports any.
    fn settings(&self, _directory: &Path) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    /// Returns the store's metrics.
    fn counters(&self) -> Counters {
        Counters::new()
    }

    /// Compacts everything.
    fn compact(&self) -> Result<(), LabError> {
        Err(LabError::Usage(format!("{} cannot compact", Self::NAME)))
    }

    /// Opens or creates the store in the existing `directory`.
    fn open(directory: &Path, settings: &StoreSettings) -> Result<Self, LabError>;

    /// Sets the value of `key`.
    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Failure>;

    /// Passes the value of `key` to `take`, if there is one.
    fn get(&self, key: &[u8], take: &mut dyn FnMut(&[u8])) -> Result<(), Failure>;

    /// Passes up to `length` keys with their values to `take`, from `key` on.
    fn scan(&self, key: &[u8], length: usize, take: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), Failure>;
}

/// A store as an engine under test.
#[derive(Debug)]
pub struct KeyValueEngine<S> {
    directory: PathBuf,
    settings: StoreSettings,
    store: Option<S>,
    /// Number of fields in a record.
    fields: usize,
}

impl<S: KeyValueStore> KeyValueEngine<S> {
    /// Creates an engine for a store in a subdirectory of `data`.
    pub fn new(data: &Path, settings: StoreSettings) -> Self {
        Self { directory: data.join(S::NAME), settings, store: None, fields: 0 }
    }
}

impl<S: KeyValueStore> Engine for KeyValueEngine<S> {
    fn describe(&self) -> EngineInfo {
        let mut info = S::describe(&self.settings);
        info.settings.extend(self.settings.options.clone());
        if let Some(store) = &self.store {
            info.settings.extend(store.settings(&self.directory));
        }
        info
    }

    fn create_table(&mut self, _shape: &TableShape, replace: bool) -> Result<(), LabError> {
        let shown = self.directory.display();
        if replace && self.directory.exists() {
            self.store = None;
            std::fs::remove_dir_all(&self.directory)
                .map_err(|error| LabError::io(format!("removing {shown}"), error))?;
        }
        std::fs::create_dir_all(&self.directory)
            .map_err(|error| LabError::io(format!("making {shown}"), error))
    }

    fn use_table(&mut self, shape: &TableShape) -> Result<(), LabError> {
        self.fields = shape.field_names.len();
        if !self.directory.exists() {
            let shown = self.directory.display();
            return Err(LabError::Usage(format!(
                "{shown} does not exist: load it first, and keep it with --data"
            )));
        }
        if self.store.is_none() {
            self.store = Some(S::open(&self.directory, &self.settings)?);
        }
        Ok(())
    }

    fn act(&mut self, action: &Action) -> Result<(), LabError> {
        match (action, &self.store) {
            (Action::Compact, Some(store)) => store.compact(),
            (Action::Restart | Action::DropCaches, Some(_)) => {
                self.store = None;
                if *action == Action::DropCaches {
                    super::drop_page_cache()?;
                }
                self.store = Some(S::open(&self.directory, &self.settings)?);
                Ok(())
            }
            _ => Err(LabError::Usage(format!("{} cannot {action}", S::NAME))),
        }
    }

    fn sampler(&self) -> Option<Sampler<'_>> {
        let store = self.store.as_ref()?;
        Some(Box::new(|| {
            let mut counters = store.counters();
            let files = std::fs::read_dir(&self.directory).into_iter().flatten().flatten();
            let bytes: u64 = files.filter_map(|file| Some(file.metadata().ok()?.len())).sum();
            counters.insert("disk_bytes".into(), bytes as f64);
            counters
        }))
    }

    fn session(&self) -> Result<Box<dyn Session + '_>, LabError> {
        let store = self.store.as_ref().ok_or_else(|| LabError::engine(S::NAME, "session", "not open"))?;
        let fields = self.fields;
        Ok(Box::new(KeyValueSession { store, fields, record: Vec::new(), changed: Vec::new() }))
    }
}

struct KeyValueSession<'a, S> {
    store: &'a S,
    fields: usize,
    record: Vec<u8>,
    changed: Vec<u8>,
}

impl<S: KeyValueStore> Session for KeyValueSession<'_, S> {
    fn insert(&mut self, key: &str, values: &FieldValues) -> Result<(), Failure> {
        self.record.clear();
        values.iter().for_each(|(field, value)| push_field(&mut self.record, field, value));
        self.store.put(key.as_bytes(), &self.record)
    }

    fn update(&mut self, key: &str, values: &FieldValues) -> Result<(), Failure> {
        if values.iter().count() == self.fields {
            return self.insert(key, values);
        }
        let Self { store, record, changed, .. } = self;
        record.clear();
        store.get(key.as_bytes(), &mut |found| record.extend_from_slice(found))?;
        if record.is_empty() {
            return Err(Failure::not_found(key));
        }
        changed.clear();
        for (field, old) in fields(record) {
            let new = values.iter().find(|(changed, _)| *changed == field).map(|(_, value)| value);
            push_field(changed, field, new.unwrap_or(old));
        }
        store.put(key.as_bytes(), changed)
    }

    fn read(&mut self, key: &str, field: Option<usize>, rows: &mut RowSink) -> Result<(), Failure> {
        self.store.get(key.as_bytes(), &mut |record| push_row(rows, key.as_bytes(), record, field))
    }

    fn scan(
        &mut self,
        key: &str,
        length: usize,
        field: Option<usize>,
        rows: &mut RowSink,
    ) -> Result<(), Failure> {
        self.store.scan(key.as_bytes(), length, &mut |key, record| push_row(rows, key, record, field))
    }
}

fn push_row(rows: &mut RowSink, key: &[u8], record: &[u8], only: Option<usize>) {
    rows.row(key);
    fields(record)
        .filter(|(field, _)| only.is_none_or(|only| only == *field))
        .for_each(|(field, value)| rows.field(field, value));
}

/// Appends `<field's index: u16><length: u32><value>`, little-endian.
fn push_field(record: &mut Vec<u8>, field: usize, value: &[u8]) {
    record.extend_from_slice(&(field as u16).to_le_bytes());
    record.extend_from_slice(&(value.len() as u32).to_le_bytes());
    record.extend_from_slice(value);
}

/// Returns the fields of a record up to its end or to the first malformed one.
fn fields(mut record: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    std::iter::from_fn(move || {
        let (field, rest) = record.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        let (value, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        record = rest;
        Some((usize::from(u16::from_le_bytes(*field)), value))
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Contract of every store: reads see writes, updates change a field, scans are in order,
    /// replacing empties, data survives reopening.
    #[cfg_attr(
        not(any(feature = "leveldb", feature = "rocksdb", feature = "fjall")),
        expect(dead_code, reason = "for the stores behind features")
    )]
    pub fn check<S: KeyValueStore>() {
        let directory = tempfile::tempdir().unwrap();
        let shape = TableShape {
            table: "usertable".into(),
            field_names: vec!["a".into(), "b".into()],
            statements: None,
        };
        let open = |replace| {
            let mut engine = KeyValueEngine::<S>::new(directory.path(), StoreSettings::default());
            engine.create_table(&shape, replace).unwrap();
            engine.use_table(&shape).unwrap();
            engine
        };
        let read = |session: &mut dyn Session, key: &str, length: usize, field: Option<usize>| {
            let mut rows = RowSink::new(None);
            session.scan(key, length, field, &mut rows).unwrap();
            (rows.rows(), rows.bytes())
        };
        let engine = open(false);
        let mut session = engine.session().unwrap();
        let mut values = FieldValues::default();
        values.push(0, b"one");
        values.push(1, b"two");
        for key in ["k2", "k1", "k3"] {
            session.insert(key, &values).unwrap();
        }
        values.clear();
        values.push(1, b"longer");
        session.update("k2", &values).unwrap();
        assert_eq!(session.update("none", &values), Err(Failure::not_found("none")));
        let mut rows = RowSink::new(None);
        session.read("k2", None, &mut rows).unwrap();
        assert_eq!((rows.rows(), rows.bytes()), (1, 2 + 3 + 6));
        rows.clear();
        session.read("absent", None, &mut rows).unwrap();
        assert_eq!(rows.rows(), 0);
        assert_eq!(read(session.as_mut(), "k1", 2, None), (2, 8 + 11));
        assert_eq!(read(session.as_mut(), "k15", 9, Some(1)), (2, 8 + 5));
        drop(session);
        drop(engine);

        let engine = open(false);
        assert_eq!(read(engine.session().unwrap().as_mut(), "", 9, Some(0)), (3, 15));
        drop(engine);
        let engine = open(true);
        assert_eq!(read(engine.session().unwrap().as_mut(), "", 9, None), (0, 0));
    }

    #[test]
    fn records_round_trip_and_truncated_ones_end_early() {
        let mut record = Vec::new();
        push_field(&mut record, 3, b"abc");
        push_field(&mut record, 700, b"");
        let whole: Vec<(usize, &[u8])> = fields(&record).collect();
        assert_eq!(whole, [(3, &b"abc"[..]), (700, b"")]);
        assert_eq!(fields(&record[..8]).count(), 0);
        assert_eq!(fields(&record[..12]).count(), 1);
    }
}
