//! Definitions of secondary indexes.
//!
//! ```text
//! definition   what is indexed, and the hidden table of it
//! analyzer     what becomes of a value before it is indexed
//! wanted       what a query looks for
//! figures      metrics of queries by storage-attached indexes
//! ```

mod analyzer;
mod definition;
mod figures;
mod wanted;

pub(crate) use analyzer::{Analyzer, Analyzers, BOOLEAN_OPTIONS, type_of_entries};
pub(crate) use definition::{CLASS_NAME, Finds, Part, Source, TARGET, Target};
pub use definition::{Index, IndexKind};
pub use figures::SearchFigures;
pub(crate) use figures::SearchTally;
pub(crate) use wanted::Wanted;
