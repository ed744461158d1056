//! Cassette as a library for C: `libcassette`, whose header is `include/cassette.h`.
//!
//! - Handles are opaque, and freed by the function that is named after them.
//! - Calls that can fail return a [`Status`], and create an [`Error`] with the message if the
//!   caller provides a place for it.
//! - No panic leaves a call: it becomes [`Status::Internal`].
//! - A null pointer where a handle, a text or a result is required is [`Status::Misuse`]. Pointers
//!   that are not null must be valid, as in every library for C.
//!
//! The guide is `docs/c-api.md` in the sources.

mod bind;
mod column;
mod column_type;
mod database;
mod error;
mod failure;
mod pointer;
mod rows;
mod session;
mod statement;

pub use bind::*;
pub use column::*;
pub use column_type::*;
pub use database::*;
pub use error::*;
pub use failure::Status;
pub use rows::*;
pub use session::*;
pub use statement::*;

/// Callers use handles in several threads, which no compiler checks: databases and sessions at the
/// same time, the others one after the other.
const _: () = {
    const fn shared<T: Send + Sync>() {}
    const fn moved<T: Send>() {}
    shared::<Database>();
    shared::<Session>();
    moved::<Options>();
    moved::<Statement>();
    moved::<Rows>();
    moved::<Error>();
};
