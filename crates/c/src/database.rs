//! Databases, and the options of opening them.

use std::ffi::c_char;
use std::ptr;

use cassette::OpenOptions;

use crate::error::{Error, call, call_or};
use crate::failure::Status;
use crate::pointer::{free, get, get_mut, handle, out, text};

/// An open database. Any number of threads may use it at the same time.
pub struct Database(pub(crate) cassette::Database);

/// Options of opening a database. One thread at a time may use them.
#[derive(Default)]
pub struct Options(OpenOptions);

/// Returns the version of the library, which is valid for the life of the process.
#[unsafe(no_mangle)]
pub extern "C" fn cassette_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// Returns options with their defaults; null after an internal error. Free them with
/// `cassette_options_free`.
#[unsafe(no_mangle)]
pub extern "C" fn cassette_options_new() -> *mut Options {
    call_or(ptr::null_mut(), || Ok(handle(Options::default())))
}

/// Sets an option by its name in cassandra.yaml. Sizes are numbers of bytes, switches are `true` or
/// `false`: `commitlog_sync` (`periodic`, `batch` or `group`), `commitlog_segment_size`,
/// `commitlog_total_space`, `memtable_heap_space`, `file_cache_size`, `key_cache_size`,
/// `row_cache_size`, `counter_cache_size`, `prepared_statements_cache_size`, `auto_snapshot`,
/// `materialized_views_enabled`, and the names of guardrails.
///
/// # Safety
/// `options` is null or of this library; `name` and `value` are null or end with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cassette_options_set(
    options: *mut Options,
    name: *const c_char,
    value: *const c_char,
    error: *mut *mut Error,
) -> Status {
    // SAFETY: by the contract.
    unsafe {
        call(error, || {
            let options = get_mut(options, "options")?;
            let (name, value) = (text(name, "name")?, text(value, "value")?);
            options.0 = cassette::options::set(options.0.clone(), name, value)?;
            Ok(Status::Ok)
        })
    }
}

/// Frees options. Does nothing for null.
///
/// # Safety
/// `options` is null or of this library, and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cassette_options_free(options: *mut Options) {
    // SAFETY: by the contract.
    unsafe { free(options) }
}

/// Opens the database in a directory, which is created if it does not exist, or an empty one in
/// memory for `:memory:`. The path is in UTF-8. `options` may be null; they are copied. Close it
/// with `cassette_close`.
///
/// # Safety
/// `path` is null or ends with a zero byte; `options` is null or of this library; `database` is
/// null or may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cassette_open(
    path: *const c_char,
    options: *const Options,
    database: *mut *mut Database,
    error: *mut *mut Error,
) -> Status {
    // SAFETY: by the contract.
    unsafe {
        call(error, || {
            let mut database = out(database, "database")?;
            database.set(ptr::null_mut());
            let path = text(path, "path")?;
            let options = options.as_ref().map(|options| options.0.clone()).unwrap_or_default();
            let opened = if path == ":memory:" { options.open_in_memory() } else { options.open(path) };
            database.set(handle(Database(opened?)));
            Ok(Status::Ok)
        })
    }
}

/// Opens a data directory or a snapshot for reading only. Close it with `cassette_close`.
///
/// # Safety
/// `path` is null or ends with a zero byte; `database` is null or may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cassette_open_read_only(
    path: *const c_char,
    database: *mut *mut Database,
    error: *mut *mut Error,
) -> Status {
    // SAFETY: by the contract.
    unsafe {
        call(error, || {
            let mut database = out(database, "database")?;
            database.set(ptr::null_mut());
            database.set(handle(Database(cassette::Database::open_read_only(text(path, "path")?)?)));
            Ok(Status::Ok)
        })
    }
}

/// Writes memtables to SSTables, so that the next start has nothing to replay.
///
/// # Safety
/// `database` is null or of this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cassette_flush(database: *const Database, error: *mut *mut Error) -> Status {
    // SAFETY: by the contract.
    unsafe {
        call(error, || {
            get(database, "database")?.0.flush()?;
            Ok(Status::Ok)
        })
    }
}

/// Closes a database and frees its handle, also if it fails. Later statements of its sessions fail
/// with `CASSETTE_STATUS_CLOSED`. All acknowledged writes are kept, also without this call. Does
/// nothing for null.
///
/// # Safety
/// `database` is null or of this library, and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cassette_close(database: *mut Database, error: *mut *mut Error) -> Status {
    // SAFETY: by the contract.
    unsafe {
        call(error, || {
            if database.is_null() {
                return Ok(Status::Ok);
            }
            let database = Box::from_raw(database);
            database.0.close()?;
            Ok(Status::Ok)
        })
    }
}
