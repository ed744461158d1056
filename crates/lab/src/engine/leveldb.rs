//! LevelDB through its C interface, `leveldb/c.h` of LevelDB 1.23, in the system's library.
//!
//! The bindings there are as crates have been left alone for years; they no longer build with
//! current compilers, and they seek to the first key and copy every value for each scan, which
//! would make LevelDB slower than it is. So the calls that are needed are declared here. Each
//! handle below is owned by one `struct`, comes from the library's own constructor, and is passed
//! back once, on drop.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{self, NonNull};
use std::slice;

use super::key_value::{KeyValueStore, StoreSettings};
use crate::LabError;
use crate::results::EngineInfo;
use crate::run::Counters;
use crate::workload::Failure;

/// The used part of `leveldb/c.h`.
mod ffi {
    use std::ffi::{c_char, c_int, c_uchar, c_void};

    /// Declares opaque types.
    macro_rules! opaque {
        ($($name:ident),+) => { $(#[repr(C)] #[derive(Debug)] pub struct $name([u8; 0]);)+ };
    }

    opaque!(Database, Options, ReadOptions, WriteOptions, FilterPolicy, Cache, Iterator);

    /// `leveldb_no_compression`
    pub const NO_COMPRESSION: c_int = 0;
    /// `leveldb_snappy_compression`
    pub const SNAPPY_COMPRESSION: c_int = 1;

    #[link(name = "leveldb")]
    unsafe extern "C" {
        pub fn leveldb_open(
            options: *const Options,
            name: *const c_char,
            error: *mut *mut c_char,
        ) -> *mut Database;
        pub fn leveldb_close(database: *mut Database);
        pub fn leveldb_put(
            database: *mut Database,
            options: *const WriteOptions,
            key: *const c_char,
            key_length: usize,
            value: *const c_char,
            value_length: usize,
            error: *mut *mut c_char,
        );
        pub fn leveldb_get(
            database: *mut Database,
            options: *const ReadOptions,
            key: *const c_char,
            key_length: usize,
            value_length: *mut usize,
            error: *mut *mut c_char,
        ) -> *mut c_char;
        pub fn leveldb_create_iterator(database: *mut Database, options: *const ReadOptions)
        -> *mut Iterator;
        pub fn leveldb_iter_destroy(iterator: *mut Iterator);
        pub fn leveldb_iter_valid(iterator: *const Iterator) -> c_uchar;
        pub fn leveldb_iter_seek(iterator: *mut Iterator, key: *const c_char, key_length: usize);
        pub fn leveldb_iter_next(iterator: *mut Iterator);
        pub fn leveldb_iter_key(iterator: *const Iterator, length: *mut usize) -> *const c_char;
        pub fn leveldb_iter_value(iterator: *const Iterator, length: *mut usize) -> *const c_char;
        pub fn leveldb_iter_get_error(iterator: *const Iterator, error: *mut *mut c_char);
        pub fn leveldb_options_create() -> *mut Options;
        pub fn leveldb_options_destroy(options: *mut Options);
        pub fn leveldb_options_set_create_if_missing(options: *mut Options, value: c_uchar);
        pub fn leveldb_options_set_compression(options: *mut Options, compression: c_int);
        pub fn leveldb_options_set_filter_policy(options: *mut Options, filter: *mut FilterPolicy);
        pub fn leveldb_options_set_cache(options: *mut Options, cache: *mut Cache);
        pub fn leveldb_options_set_write_buffer_size(options: *mut Options, bytes: usize);
        pub fn leveldb_options_set_max_file_size(options: *mut Options, bytes: usize);
        pub fn leveldb_options_set_block_size(options: *mut Options, bytes: usize);
        pub fn leveldb_options_set_block_restart_interval(options: *mut Options, keys: c_int);
        pub fn leveldb_options_set_max_open_files(options: *mut Options, files: c_int);
        pub fn leveldb_options_set_paranoid_checks(options: *mut Options, value: c_uchar);
        pub fn leveldb_readoptions_set_verify_checksums(options: *mut ReadOptions, value: c_uchar);
        pub fn leveldb_readoptions_set_fill_cache(options: *mut ReadOptions, value: c_uchar);
        pub fn leveldb_writeoptions_set_sync(options: *mut WriteOptions, value: c_uchar);
        pub fn leveldb_property_value(database: *mut Database, name: *const c_char) -> *mut c_char;
        pub fn leveldb_compact_range(
            database: *mut Database,
            start: *const c_char,
            start_length: usize,
            limit: *const c_char,
            limit_length: usize,
        );
        pub fn leveldb_filterpolicy_create_bloom(bits_per_key: c_int) -> *mut FilterPolicy;
        pub fn leveldb_filterpolicy_destroy(filter: *mut FilterPolicy);
        pub fn leveldb_cache_create_lru(bytes: usize) -> *mut Cache;
        pub fn leveldb_cache_destroy(cache: *mut Cache);
        pub fn leveldb_readoptions_create() -> *mut ReadOptions;
        pub fn leveldb_readoptions_destroy(options: *mut ReadOptions);
        pub fn leveldb_writeoptions_create() -> *mut WriteOptions;
        pub fn leveldb_writeoptions_destroy(options: *mut WriteOptions);
        pub fn leveldb_free(pointer: *mut c_void);
        pub fn leveldb_major_version() -> c_int;
        pub fn leveldb_minor_version() -> c_int;
    }
}

/// An open LevelDB database.
#[derive(Debug)]
pub struct LevelDb {
    database: NonNull<ffi::Database>,
    read: NonNull<ffi::ReadOptions>,
    write: NonNull<ffi::WriteOptions>,
    filter: Option<NonNull<ffi::FilterPolicy>>,
    cache: Option<NonNull<ffi::Cache>>,
}

// SAFETY: LevelDB's documentation (doc/index.md, "Concurrency"): several threads may use a database
// without locking; options are only read after `open`.
unsafe impl Send for LevelDb {}
// SAFETY: as above.
unsafe impl Sync for LevelDb {}

impl Drop for LevelDb {
    fn drop(&mut self) {
        // SAFETY: all handles are live and uniquely owned; the database is destroyed before what it
        // uses.
        unsafe {
            ffi::leveldb_close(self.database.as_ptr());
            ffi::leveldb_readoptions_destroy(self.read.as_ptr());
            ffi::leveldb_writeoptions_destroy(self.write.as_ptr());
            if let Some(filter) = self.filter {
                ffi::leveldb_filterpolicy_destroy(filter.as_ptr());
            }
            if let Some(cache) = self.cache {
                ffi::leveldb_cache_destroy(cache.as_ptr());
            }
        }
    }
}

/// Takes and frees an error text of the library; `Ok` if there is none.
fn taken_error(error: *mut c_char) -> Result<(), String> {
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: a non-null error is a NUL-terminated text that the caller must free.
    unsafe {
        let text = CStr::from_ptr(error).to_string_lossy().into_owned();
        ffi::leveldb_free(error.cast());
        Err(text)
    }
}

/// Wraps a handle from one of the library's constructors, none of which returns null (they allocate
/// with `new`).
fn handle<T>(made: *mut T) -> NonNull<T> {
    NonNull::new(made).expect("LevelDB's constructors do not give null")
}

/// Options under the names of `leveldb/options.h`. `filter_bits`, named as in YCSB's bindings, is
/// the bits per key of the bloom filter, 0 for none. `sync`, `verify_checksums` and `fill_cache`
/// are options of single writes and reads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct LevelDbOptions {
    write_buffer_size: Option<usize>,
    max_file_size: Option<usize>,
    block_size: Option<usize>,
    block_restart_interval: Option<i32>,
    max_open_files: Option<i32>,
    cache_size: Option<usize>,
    filter_bits: Option<i32>,
    compression: Option<bool>,
    paranoid_checks: Option<bool>,
    verify_checksums: Option<bool>,
    fill_cache: Option<bool>,
    sync: Option<bool>,
}

impl LevelDbOptions {
    fn parse(options: &BTreeMap<String, String>) -> Result<Self, String> {
        fn parsed_value<T: std::str::FromStr>(name: &str, value: &str) -> Result<Option<T>, String> {
            let expected =
                if std::any::type_name::<T>() == "bool" { "true or false" } else { "a whole number" };
            value.parse().map(Some).map_err(|_| format!("invalid {name} {value:?}: expected {expected}"))
        }
        let mut parsed = Self::default();
        for (name, value) in options {
            match name.as_str() {
                "write_buffer_size" => parsed.write_buffer_size = parsed_value(name, value)?,
                "max_file_size" => parsed.max_file_size = parsed_value(name, value)?,
                "block_size" => parsed.block_size = parsed_value(name, value)?,
                "block_restart_interval" => parsed.block_restart_interval = parsed_value(name, value)?,
                "max_open_files" => parsed.max_open_files = parsed_value(name, value)?,
                "cache_size" => parsed.cache_size = parsed_value(name, value)?,
                "filter_bits" => parsed.filter_bits = parsed_value(name, value)?,
                "compression" => {
                    parsed.compression = match value.as_str() {
                        "snappy" => Some(true),
                        "none" => Some(false),
                        _ => return Err(format!("compression cannot be {value:?}: expected snappy or none")),
                    }
                }
                "paranoid_checks" => parsed.paranoid_checks = parsed_value(name, value)?,
                "verify_checksums" => parsed.verify_checksums = parsed_value(name, value)?,
                "fill_cache" => parsed.fill_cache = parsed_value(name, value)?,
                "sync" => parsed.sync = parsed_value(name, value)?,
                _ => {
                    return Err(format!(
                        "LevelDB has no option {name}; it has block_restart_interval, block_size, cache_size, \
                         compression, fill_cache, filter_bits, max_file_size, max_open_files, \
                         paranoid_checks, sync, verify_checksums and write_buffer_size"
                    ));
                }
            }
        }
        let too_small = |name: &str, value: Option<i32>, least: i32| match value {
            Some(value) if value < least => Err(format!("invalid {name} {value}: expected at least {least}")),
            _ => Ok(()),
        };
        too_small("block_restart_interval", parsed.block_restart_interval, 1)?;
        too_small("max_open_files", parsed.max_open_files, 1)?;
        too_small("filter_bits", parsed.filter_bits, 0)?;
        Ok(parsed)
    }
}

impl KeyValueStore for LevelDb {
    const NAME: &'static str = "leveldb";

    fn describe(settings: &StoreSettings) -> EngineInfo {
        let bytes = |bytes: Option<u64>| bytes.map_or("default".into(), |bytes| bytes.to_string());
        // SAFETY: these only return constants.
        let (major, minor) = unsafe { (ffi::leveldb_major_version(), ffi::leveldb_minor_version()) };
        EngineInfo {
            name: Self::NAME.into(),
            version: format!("{major}.{minor}"),
            settings: BTreeMap::from([
                ("cache bytes".into(), bytes(settings.cache_bytes)),
                ("memtable bytes".into(), bytes(settings.memtable_bytes)),
                ("compression".into(), "snappy".into()),
                ("bloom filter".into(), "10 bits a key".into()),
                ("log".into(), "written, not synced".into()),
            ]),
        }
    }

    fn open(directory: &Path, settings: &StoreSettings) -> Result<Self, LabError> {
        let refused = |reason: String| LabError::engine(Self::NAME, "open", reason);
        let given = LevelDbOptions::parse(&settings.options).map_err(LabError::Usage)?;
        let name =
            CString::new(directory.as_os_str().as_bytes()).map_err(|error| refused(error.to_string()))?;
        // SAFETY: every handle passed on was just created; `options` is destroyed once, after its
        // last use; `name` is NUL-terminated and outlives the call.
        unsafe {
            let options = handle(ffi::leveldb_options_create());
            let set = options.as_ptr();
            ffi::leveldb_options_set_create_if_missing(set, 1);
            let snappy = given.compression.unwrap_or(true);
            let compression = if snappy { ffi::SNAPPY_COMPRESSION } else { ffi::NO_COMPRESSION };
            ffi::leveldb_options_set_compression(set, compression);
            let bits = given.filter_bits.unwrap_or(10);
            let filter = (bits > 0).then(|| handle(ffi::leveldb_filterpolicy_create_bloom(bits)));
            if let Some(filter) = filter {
                ffi::leveldb_options_set_filter_policy(set, filter.as_ptr());
            }
            let cache_bytes = given.cache_size.or(settings.cache_bytes.map(|bytes| bytes as usize));
            let cache = cache_bytes.map(|bytes| handle(ffi::leveldb_cache_create_lru(bytes)));
            if let Some(cache) = cache {
                ffi::leveldb_options_set_cache(set, cache.as_ptr());
            }
            if let Some(bytes) =
                given.write_buffer_size.or(settings.memtable_bytes.map(|bytes| bytes as usize))
            {
                ffi::leveldb_options_set_write_buffer_size(set, bytes);
            }
            given.max_file_size.inspect(|bytes| ffi::leveldb_options_set_max_file_size(set, *bytes));
            given.block_size.inspect(|bytes| ffi::leveldb_options_set_block_size(set, *bytes));
            given
                .block_restart_interval
                .inspect(|keys| ffi::leveldb_options_set_block_restart_interval(set, *keys));
            given.max_open_files.inspect(|files| ffi::leveldb_options_set_max_open_files(set, *files));
            given.paranoid_checks.inspect(|on| ffi::leveldb_options_set_paranoid_checks(set, u8::from(*on)));
            let mut error = ptr::null_mut();
            let database = ffi::leveldb_open(options.as_ptr(), name.as_ptr(), &mut error);
            ffi::leveldb_options_destroy(options.as_ptr());
            match (taken_error(error), NonNull::new(database)) {
                (Ok(()), Some(database)) => {
                    let read = handle(ffi::leveldb_readoptions_create());
                    let write = handle(ffi::leveldb_writeoptions_create());
                    let flag = |on: &bool| u8::from(*on);
                    given.verify_checksums.inspect(|on| {
                        ffi::leveldb_readoptions_set_verify_checksums(read.as_ptr(), flag(on));
                    });
                    given
                        .fill_cache
                        .inspect(|on| ffi::leveldb_readoptions_set_fill_cache(read.as_ptr(), flag(on)));
                    given.sync.inspect(|on| ffi::leveldb_writeoptions_set_sync(write.as_ptr(), flag(on)));
                    Ok(Self { database, read, write, filter, cache })
                }
                (opened, _) => {
                    if let Some(filter) = filter {
                        ffi::leveldb_filterpolicy_destroy(filter.as_ptr());
                    }
                    if let Some(cache) = cache {
                        ffi::leveldb_cache_destroy(cache.as_ptr());
                    }
                    Err(refused(opened.err().unwrap_or_else(|| "no database and no error".into())))
                }
            }
        }
    }

    fn check_options(options: &BTreeMap<String, String>) -> Result<(), String> {
        LevelDbOptions::parse(options).map(drop)
    }

    fn counters(&self) -> Counters {
        let mut counters = Counters::new();
        let mut sstables = 0.0;
        for level in 0..LEVELS {
            let files = self
                .property(&format!("leveldb.num-files-at-level{level}"))
                .and_then(|text| text.parse().ok());
            sstables += files.unwrap_or(0.0);
            if level == 0 {
                counters.insert("sstables_unleveled".into(), sstables);
            }
        }
        counters.insert("sstables".into(), sstables);
        let memory = self.property("leveldb.approximate-memory-usage").and_then(|text| text.parse().ok());
        counters.insert("memory_bytes".into(), memory.unwrap_or(0.0));
        if let Some(stats) = self.property("leveldb.stats") {
            let (read, written) = compaction_megabytes(&stats);
            counters.insert("compaction_read_megabytes_total".into(), read);
            counters.insert("compaction_written_megabytes_total".into(), written);
        }
        counters
    }

    fn compact(&self) -> Result<(), LabError> {
        // SAFETY: the handle is live; null keys mean before the first and after the last key.
        unsafe { ffi::leveldb_compact_range(self.database.as_ptr(), ptr::null(), 0, ptr::null(), 0) };
        Ok(())
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        let mut error = ptr::null_mut();
        // SAFETY: key and value are read only during the call, within their lengths; the handles
        // live as long as `self`.
        unsafe {
            ffi::leveldb_put(
                self.database.as_ptr(),
                self.write.as_ptr(),
                key.as_ptr().cast(),
                key.len(),
                value.as_ptr().cast(),
                value.len(),
                &mut error,
            );
        }
        taken_error(error).map_err(failure)
    }

    fn get(&self, key: &[u8], take: &mut dyn FnMut(&[u8])) -> Result<(), Failure> {
        let mut error = ptr::null_mut();
        let mut length = 0;
        // SAFETY: as in `put`; a non-null value has `length` bytes and is freed here, after `take`.
        unsafe {
            let value = ffi::leveldb_get(
                self.database.as_ptr(),
                self.read.as_ptr(),
                key.as_ptr().cast(),
                key.len(),
                &mut length,
                &mut error,
            );
            if !value.is_null() {
                take(slice::from_raw_parts(value.cast(), length));
                ffi::leveldb_free(value.cast());
            }
        }
        taken_error(error).map_err(failure)
    }

    fn scan(&self, key: &[u8], length: usize, take: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), Failure> {
        // SAFETY: the iterator belongs to this call and is destroyed before the database; its key
        // and value stay valid until it moves, with `length` bytes each, written through a pointer
        // that allows it; `key` is read only during the call.
        unsafe {
            let iterator = ffi::leveldb_create_iterator(self.database.as_ptr(), self.read.as_ptr());
            ffi::leveldb_iter_seek(iterator, key.as_ptr().cast(), key.len());
            for _ in 0..length {
                if ffi::leveldb_iter_valid(iterator) == 0 {
                    break;
                }
                let (mut key_length, mut value_length) = (0usize, 0usize);
                let key = ffi::leveldb_iter_key(iterator, &raw mut key_length);
                let value = ffi::leveldb_iter_value(iterator, &raw mut value_length);
                take(
                    slice::from_raw_parts(key.cast(), key_length),
                    slice::from_raw_parts(value.cast(), value_length),
                );
                ffi::leveldb_iter_next(iterator);
            }
            let mut error: *mut c_char = ptr::null_mut();
            ffi::leveldb_iter_get_error(iterator, &raw mut error);
            ffi::leveldb_iter_destroy(iterator);
            taken_error(error).map_err(failure)
        }
    }
}

/// `config::kNumLevels`
const LEVELS: usize = 7;

impl LevelDb {
    /// Returns a property as text; `None` if unknown.
    fn property(&self, name: &str) -> Option<String> {
        let name = CString::new(name).ok()?;
        // SAFETY: the handle is live, `name` is NUL-terminated; a non-null text is freed here.
        unsafe {
            let text = ffi::leveldb_property_value(self.database.as_ptr(), name.as_ptr());
            if text.is_null() {
                return None;
            }
            let owned = CStr::from_ptr(text).to_string_lossy().into_owned();
            ffi::leveldb_free(text.cast());
            Some(owned)
        }
    }
}

/// Parses the megabytes that compactions read and wrote from `leveldb.stats`: after three heading
/// lines, one line per level with Level, Files, Size(MB), Time(sec), Read(MB), Write(MB).
fn compaction_megabytes(stats: &str) -> (f64, f64) {
    let mut sums = (0.0, 0.0);
    for line in stats.lines().skip(3) {
        let numbers: Vec<f64> = line.split_whitespace().map_while(|word| word.parse().ok()).collect();
        if let [_, _, _, _, read, written] = numbers[..] {
            sums = (sums.0 + read, sums.1 + written);
        }
    }
    sums
}

fn failure(error: String) -> Failure {
    Failure::new("leveldb", error)
}

#[cfg(test)]
#[test]
fn leveldb_keeps_records() {
    super::key_value::tests::check::<LevelDb>();
}

#[cfg(test)]
#[test]
fn options_have_leveldbs_own_names() {
    let options = |pairs: &[(&str, &str)]| {
        pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect::<BTreeMap<_, _>>()
    };
    let parsed =
        LevelDbOptions::parse(&options(&[("block_size", "2097152"), ("compression", "none")])).unwrap();
    assert_eq!((parsed.block_size, parsed.compression), (Some(2_097_152), Some(false)));
    for (name, value) in
        [("blok_size", "1"), ("compression", "zstd"), ("filter_bits", "-1"), ("block_size", "x")]
    {
        assert!(LevelDbOptions::parse(&options(&[(name, value)])).unwrap_err().contains(name));
    }
}

#[cfg(test)]
#[test]
fn compaction_megabytes_are_parsed_from_the_statistics() {
    let stats = "                               Compactions\nLevel  Files Size(MB) Time(sec) Read(MB) Write(MB)\n----\n\
        \u{20} 0        1        2         0        0         4\n\
        \u{20} 1        3        5         1        7         8\n";
    assert_eq!(compaction_megabytes(stats), (7.0, 12.0));
}
