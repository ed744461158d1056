//! Sessions: statements in a keyspace.

use std::ffi::c_char;
use std::ptr;
use std::sync::Arc;

use crate::database::Database;
use crate::error::{Error, call, call_or};
use crate::failure::Status;
use crate::pointer::{free, get, handle, text};
use crate::rows::{Rows, store};

/// A session, which has its own current keyspace (`USE`). Any number of threads may use it at the
/// same time; they share the keyspace.
pub struct Session(pub(crate) Arc<cassette::Session>);

/// Returns a session; null for null. Free it with `cassette_session_free`, before or after the
/// database is closed.
///
/// # Safety
/// `database` is null or of this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cassette_session_new(database: *const Database) -> *mut Session {
    call_or(ptr::null_mut(), || {
        // SAFETY: by the contract.
        let database = unsafe { get(database, "database") }?;
        Ok(handle(Session(Arc::new(database.0.session()))))
    })
}

/// Frees a session. Its statements and rows stay valid. Does nothing for null.
///
/// # Safety
/// `session` is null or of this library, and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cassette_session_free(session: *mut Session) {
    // SAFETY: by the contract.
    unsafe { free(session) }
}

/// Executes a statement without markers. Its rows are read with `cassette_step`, and freed with
/// `cassette_rows_free`; `rows` may be null if they are not needed.
///
/// # Safety
/// `session` is null or of this library; `cql` is null or ends with a zero byte; `rows` is null or
/// may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cassette_execute(
    session: *const Session,
    cql: *const c_char,
    rows: *mut *mut Rows,
    error: *mut *mut Error,
) -> Status {
    // SAFETY: by the contract.
    unsafe {
        call(error, || {
            store(rows, || {
                let (session, cql) = (get(session, "session")?, text(cql, "cql")?);
                Ok(session.0.query_iter(cql, ())?)
            })
        })
    }
}
