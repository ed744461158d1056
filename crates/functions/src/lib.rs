//! Runtimes of user-defined functions.
//!
//! A schema contains definitions alone ([`UserFunction`]). [`Functions`] compiles the body of a
//! function at its first call, keeps the program, and executes it within limits of time,
//! instructions and memory. A body has no access to files, the network, the clock or other
//! functions, and nothing of one call is visible in another.
//!
//! Languages are cargo features: `lua`. Without any, schemas with functions can be loaded, and
//! calls fail with an error that names what is missing.

mod error;
mod functions;
#[cfg(feature = "lua")]
mod lua;
mod program;
mod settings;

pub use cassette_cql::values::functions::UserFunction;
pub use error::CallError;
pub use functions::{Called, Functions};
pub use program::is_supported;
pub use settings::Settings;
