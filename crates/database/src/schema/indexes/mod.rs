//! Definitions of secondary indexes.
//!
//! ```text
//! definition   the indexed column, and the hidden table
//! analyzer     analysis of values before they are indexed
//! sasi         options, terms and patterns of SASI indexes
//! wanted       the values that a query searches
//! ```

mod analyzer;
mod definition;
mod sasi;
mod wanted;

pub(crate) use analyzer::{Analyzer, Analyzers, BOOLEAN_OPTIONS, type_of_entries};
pub(crate) use definition::{
    CLASS_NAME, Finds, Part, SIMILARITY_FUNCTION, Source, TARGET, Target, is_storage_attached,
};
pub use definition::{Index, IndexKind};
pub(crate) use sasi::{LikeKind, SASI, Sasi, TERMS_MAX, Terms};
pub(crate) use wanted::Wanted;
