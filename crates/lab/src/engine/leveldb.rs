//! LevelDB through its C interface, `leveldb/c.h` of LevelDB 1.23, in the system's library.
//!
//! The bindings there are as crates have been left alone for years; they no longer build with current compilers, and
//! they seek to the first key and copy every value for each scan, which would make LevelDB slower than it is. So the
//! calls that are needed are declared here. Each handle below is owned by one `struct`, comes from the library's own
//! constructor, and is given back once, on drop.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{self, NonNull};
use std::slice;

use super::key_value::{KeyValueStore, StoreSettings};
use super::{EngineInfo, Failure};
use crate::LabError;

/// The part of `leveldb/c.h` that is used here.
mod ffi {
    use std::ffi::{c_char, c_int, c_uchar, c_void};

    /// Declares types that are only ever pointed at.
    macro_rules! opaque {
        ($($name:ident),+) => { $(#[repr(C)] #[derive(Debug)] pub struct $name([u8; 0]);)+ };
    }

    opaque!(Database, Options, ReadOptions, WriteOptions, FilterPolicy, Cache, Iterator);

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
    filter: NonNull<ffi::FilterPolicy>,
    cache: Option<NonNull<ffi::Cache>>,
}

// SAFETY: LevelDB's documentation (doc/index.md, "Concurrency"): a database may be used by several threads without
// locking; options are only read after `open`.
unsafe impl Send for LevelDb {}
// SAFETY: as above.
unsafe impl Sync for LevelDb {}

impl Drop for LevelDb {
    fn drop(&mut self) {
        // SAFETY: all handles are live and nobody else's; the database goes before what it uses.
        unsafe {
            ffi::leveldb_close(self.database.as_ptr());
            ffi::leveldb_readoptions_destroy(self.read.as_ptr());
            ffi::leveldb_writeoptions_destroy(self.write.as_ptr());
            ffi::leveldb_filterpolicy_destroy(self.filter.as_ptr());
            if let Some(cache) = self.cache {
                ffi::leveldb_cache_destroy(cache.as_ptr());
            }
        }
    }
}

/// Takes an error text of the library's and frees it; `Ok` when there is none.
fn taken_error(error: *mut c_char) -> Result<(), String> {
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: a non-null error is a text ending in NUL that is ours to free.
    unsafe {
        let text = CStr::from_ptr(error).to_string_lossy().into_owned();
        ffi::leveldb_free(error.cast());
        Err(text)
    }
}

/// A handle from one of the library's constructors, none of which gives null (they allocate with `new`).
fn handle<T>(made: *mut T) -> NonNull<T> {
    NonNull::new(made).expect("LevelDB's constructors do not give null")
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
        let name =
            CString::new(directory.as_os_str().as_bytes()).map_err(|error| refused(error.to_string()))?;
        // SAFETY: every handle passed on was just made; `options` is destroyed once, after its last use; `name` ends in
        // NUL and outlives the call.
        unsafe {
            let options = handle(ffi::leveldb_options_create());
            ffi::leveldb_options_set_create_if_missing(options.as_ptr(), 1);
            ffi::leveldb_options_set_compression(options.as_ptr(), ffi::SNAPPY_COMPRESSION);
            let filter = handle(ffi::leveldb_filterpolicy_create_bloom(10));
            ffi::leveldb_options_set_filter_policy(options.as_ptr(), filter.as_ptr());
            let cache =
                settings.cache_bytes.map(|bytes| handle(ffi::leveldb_cache_create_lru(bytes as usize)));
            if let Some(cache) = cache {
                ffi::leveldb_options_set_cache(options.as_ptr(), cache.as_ptr());
            }
            if let Some(bytes) = settings.memtable_bytes {
                ffi::leveldb_options_set_write_buffer_size(options.as_ptr(), bytes as usize);
            }
            let mut error = ptr::null_mut();
            let database = ffi::leveldb_open(options.as_ptr(), name.as_ptr(), &mut error);
            ffi::leveldb_options_destroy(options.as_ptr());
            match (taken_error(error), NonNull::new(database)) {
                (Ok(()), Some(database)) => Ok(Self {
                    database,
                    read: handle(ffi::leveldb_readoptions_create()),
                    write: handle(ffi::leveldb_writeoptions_create()),
                    filter,
                    cache,
                }),
                (opened, _) => {
                    ffi::leveldb_filterpolicy_destroy(filter.as_ptr());
                    if let Some(cache) = cache {
                        ffi::leveldb_cache_destroy(cache.as_ptr());
                    }
                    Err(refused(opened.err().unwrap_or_else(|| "no database and no error".into())))
                }
            }
        }
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        let mut error = ptr::null_mut();
        // SAFETY: key and value are read for their lengths during the call only; the handles live as long as `self`.
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
        // SAFETY: as in `put`; a value that is not null has `length` bytes and is ours to free, after `take`.
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
        // SAFETY: the iterator is this call's own and goes before the database; its key and value stay valid until it
        // moves, with `length` bytes each, written through a pointer that allows it; `key` is read during the call only.
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

fn failure(error: String) -> Failure {
    Failure::new("leveldb", error)
}

#[cfg(test)]
#[test]
fn leveldb_keeps_records() {
    super::key_value::tests::check::<LevelDb>();
}
