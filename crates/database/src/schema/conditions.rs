//! Prepared terms and column restrictions, as data. Planning creates and binds them; the catalog
//! stores those of views.

use std::sync::Arc;

use bytes::Bytes;
use cassette_cql::values::functions::ScalarFunction;
use cassette_rows::{ColumnMetadata, DataType, TableMetadata};

use crate::basics::response::ColumnSpec;
use crate::schema::indexes::{Analyzers, Index};

/// A prepared term.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Term {
    /// `null`
    Null,
    /// The bytes of a constant, which may be a whole collection.
    Value(Bytes),
    /// The value of marker `index`, to be validated against the receiver's type.
    Marker {
        /// The index of the marker.
        index: u32,
        /// The column or part that receives the value.
        receiver: Arc<ColumnSpec>,
    },
    /// A list, set, vector or map literal that is not constant.
    Elements {
        /// The literal's type.
        data_type: DataType,
        /// The elements; keys and values alternate in a map.
        elements: Vec<Term>,
    },
    /// A tuple or UDT literal that is not constant; one term for each item of the type.
    Items {
        /// The literal's type.
        data_type: DataType,
        /// The items; [`Term::Null`] for omitted ones.
        items: Vec<Term>,
    },
    /// An item of a tuple that is bound as a whole; null if the tuple has fewer items.
    Item {
        /// The tuple.
        of: Box<Term>,
        /// The index of the item.
        index: usize,
    },
    /// The result of a function.
    Function(Box<FunctionTerm>),
}

/// A function that is called in each execution.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FunctionTerm {
    /// The function, resolved by the types of its arguments.
    pub function: Callable,
    /// The arguments.
    pub arguments: Vec<Term>,
}

/// A callable function.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Callable {
    /// A native or user-defined function.
    Function(ScalarFunction),
    /// `token`; the arguments are the partition key of this table.
    Token(Arc<TableMetadata>),
}

/// All restrictions of one column in a WHERE.
#[derive(Debug, Clone)]
pub(crate) enum ColumnRestriction {
    /// `= term`
    Eq(Term),
    /// `IN (…)`
    In(InTerms),
    /// `> term`, `<= term` or both
    Slice(SliceTerms),
    /// `CONTAINS`, `CONTAINS KEY`, `[key] = value`; all of them must hold.
    Contains {
        /// Values that the collection must contain.
        values: Vec<Term>,
        /// Keys that the map must contain.
        keys: Vec<Term>,
        /// Entries that the map must contain.
        entries: Vec<(Term, Term)>,
    },
    /// `LIKE pattern`
    Like(LikeTerms),
}

/// The right-hand side of LIKE.
#[derive(Debug, Clone)]
pub(crate) struct LikeTerms {
    /// The pattern.
    pub pattern: Term,
    /// The indexes on the column that support LIKE, not each of them every pattern; at least one.
    pub indexes: Vec<Arc<Index>>,
}

/// The right-hand side of IN.
#[derive(Debug, Clone)]
pub(crate) enum InTerms {
    /// Individual terms.
    Terms(Vec<Term>),
    /// A list of values that is bound to one marker.
    Marker(Term),
    /// A list of one-item tuples that is bound to one marker.
    TupleMarker(Term),
}

/// One or both bounds, each with whether it is inclusive.
#[derive(Debug, Clone, Default)]
pub(crate) struct SliceTerms {
    /// `>` or `>=`
    pub lower: Option<(Term, bool)>,
    /// `<` or `<=`
    pub upper: Option<(Term, bool)>,
}

/// A restriction that is checked on each row, because keys and slices do not express it.
#[derive(Debug, Clone)]
pub(crate) struct Filter {
    /// The column, of any kind.
    pub column: Arc<ColumnMetadata>,
    /// The required value.
    pub restriction: ColumnRestriction,
    /// The analyzers that are applied to values before they are compared.
    pub analyzers: Analyzers,
}
