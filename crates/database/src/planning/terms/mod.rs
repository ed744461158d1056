//! Terms: from what stands for a value in a statement to the value's bytes.
//!
//! A term is prepared once, against the column (or pseudo-column) that is to receive it, and then bound for every
//! execution:
//!
//! ```text
//! ast::Term + receiver --Term::prepare--> Term --Term::bind(values)--> Bound: null, unset, or bytes
//! ```
//!
//! Preparing checks what Cassandra checks, with its messages, and collects the specifications of bind markers. Binding
//! checks the bytes of bound values. A collection's value is its whole serialization, also for non-frozen columns: who
//! writes cells takes it apart with [`cassette_rows::types::collection`].

pub(crate) mod assignment;
pub(crate) mod bind;
pub(crate) mod calls;
pub(crate) mod markers;
pub(crate) mod prepare;
pub(crate) mod sorted;

use std::borrow::Cow;

pub(crate) use assignment::test_assignment;
pub(crate) use markers::Markers;

/// A term's value in one execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Bound<'a> {
    /// Null.
    Null,
    /// Unset: leave what it would be given to.
    Unset,
    /// The value's bytes, checked against the receiver's type.
    Value(Cow<'a, [u8]>),
}

impl<'a> Bound<'a> {
    /// The bytes; `None` when null or unset.
    pub fn value(&self) -> Option<&[u8]> {
        match self {
            Self::Value(bytes) => Some(bytes),
            Self::Null | Self::Unset => None,
        }
    }

    /// Whether it is unset.
    pub fn is_unset(&self) -> bool {
        matches!(self, Self::Unset)
    }
}
