//! Definitions of secondary indexes.
//!
//! ```text
//! definition   what is indexed, and the hidden table of it
//! analyzer     what becomes of a value before it is indexed
//! wanted       what a query looks for
//! ```

mod analyzer;
mod definition;
mod wanted;

pub(crate) use analyzer::{Analyzer, Analyzers, BOOLEAN_OPTIONS, type_of_entries};
pub(crate) use definition::{CLASS_NAME, Finds, Part, Source, TARGET, Target};
pub use definition::{Index, IndexKind};
pub(crate) use wanted::Wanted;
