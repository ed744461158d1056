//! Prepared terms and restrictions of columns, as data. Planning makes and binds them; the catalog keeps those of views.

use std::sync::Arc;

use bytes::Bytes;
use cassette_cql::values::functions::ScalarFunction;
use cassette_rows::{ColumnMetadata, DataType, TableMetadata};

use crate::basics::response::ColumnSpec;
use crate::schema::indexes::Analyzers;

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

/// What is called.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Callable {
    /// A native function.
    Native(ScalarFunction),
    /// `token`: the arguments are the partition key of this table.
    Token(Arc<TableMetadata>),
}

/// All that a WHERE says of one column.
#[derive(Debug, Clone)]
pub(crate) enum ColumnRestriction {
    /// `= term`
    Eq(Term),
    /// `IN (…)`
    In(InTerms),
    /// `> term`, `<= term` or both
    Slice(SliceTerms),
    /// `CONTAINS`, `CONTAINS KEY`, `[key] = value`: all of them must hold.
    Contains {
        /// Values the collection must hold.
        values: Vec<Term>,
        /// Keys the map must hold.
        keys: Vec<Term>,
        /// Entries the map must hold.
        entries: Vec<(Term, Term)>,
    },
}

/// The right-hand side of IN.
#[derive(Debug, Clone)]
pub(crate) enum InTerms {
    /// Terms one by one.
    Terms(Vec<Term>),
    /// A list of values, bound to one marker.
    Marker(Term),
    /// A list of tuples of one value, bound to one marker.
    TupleMarker(Term),
}

/// One or both bounds; each with whether it is included.
#[derive(Debug, Clone, Default)]
pub(crate) struct SliceTerms {
    /// `>` or `>=`
    pub lower: Option<(Term, bool)>,
    /// `<` or `<=`
    pub upper: Option<(Term, bool)>,
}

/// A restriction that is checked on each row, because keys and slices cannot tell.
#[derive(Debug, Clone)]
pub(crate) struct Filter {
    /// The column, of any kind.
    pub column: Arc<ColumnMetadata>,
    /// What its value must be.
    pub restriction: ColumnRestriction,
    /// What becomes of values before they are compared.
    pub analyzers: Analyzers,
}
