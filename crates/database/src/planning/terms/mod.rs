//! Terms: from the text of a value in a statement to the value's bytes.
//!
//! A term is prepared once, for the column (or pseudo-column) that receives it, and then bound in
//! every execution:
//!
//! ```text
//! ast::Term + receiver --Term::prepare--> Term --Term::bind(values)--> Bound: null, unset, or bytes
//! ```
//!
//! Preparation performs Cassandra's checks, with its messages, and collects the specifications of
//! bind markers. Binding validates the bytes of bound values. A collection's value is its whole
//! serialization, also for non-frozen columns: writing cells splits it with
//! [`cassette_rows::types::collection`].

pub(crate) mod assignment;
pub(crate) mod bind;
pub(crate) mod calls;
pub(crate) mod markers;
pub(crate) mod prepare;
pub(crate) mod sorted;

use std::borrow::Cow;

pub(crate) use assignment::{TermArgument, test_assignment};
pub(crate) use markers::Markers;

/// The value of a term in one execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Bound<'a> {
    /// Null.
    Null,
    /// Unset: the receiver is not changed.
    Unset,
    /// The value's bytes, validated against the receiver's type.
    Value(Cow<'a, [u8]>),
}

impl<'a> Bound<'a> {
    /// Returns the bytes; `None` if null or unset.
    pub fn value(&self) -> Option<&[u8]> {
        match self {
            Self::Value(bytes) => Some(bytes),
            Self::Null | Self::Unset => None,
        }
    }

    pub fn is_unset(&self) -> bool {
        matches!(self, Self::Unset)
    }
}
