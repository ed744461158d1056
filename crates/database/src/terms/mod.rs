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

mod assignment;
mod bind;
mod calls;
mod markers;
mod prepare;
mod sorted;

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use cassette_rows::DataType;

use crate::response::ColumnSpec;
pub(crate) use assignment::test_assignment;
pub(crate) use calls::Callable;
pub(crate) use markers::Markers;

/// A prepared term.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Term {
    /// `null`
    Null,
    /// A constant's bytes, whole collections of constants too.
    Value(Bytes),
    /// What is bound to marker `index`, to be checked against the receiver's type.
    Marker {
        /// Which marker.
        index: u32,
        /// What it is bound to.
        receiver: Arc<ColumnSpec>,
    },
    /// A list, set, vector or map literal with parts that are no constants.
    Elements {
        /// The literal's type.
        data_type: DataType,
        /// The elements; keys and values in turn for a map.
        elements: Vec<Term>,
    },
    /// A tuple or UDT literal with parts that are no constants; one term per item of the type.
    Items {
        /// The literal's type.
        data_type: DataType,
        /// The items; [`Term::Null`] for those that the literal leaves out.
        items: Vec<Term>,
    },
    /// An item of a tuple that is bound whole; null beyond those it has.
    Item {
        /// The tuple.
        of: Box<Term>,
        /// Which item.
        index: usize,
    },
    /// A function's result.
    Function(Box<FunctionTerm>),
}

/// A function that is called for each execution.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FunctionTerm {
    /// The function, resolved by its arguments' types.
    pub function: Callable,
    /// The arguments.
    pub arguments: Vec<Term>,
}

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
