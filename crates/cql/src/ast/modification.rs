//! INSERT, UPDATE, DELETE, BATCH and TRUNCATE.

use super::identifiers::{Identifier, QualifiedName};
use super::relations::{Conditions, WhereClause};
use super::terms::{BindMarker, Term};

/// A statement that changes rows; batches consist of these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Modification {
    /// `INSERT`, also `INSERT JSON`
    Insert(Insert),
    /// `UPDATE`
    Update(Update),
    /// `DELETE`
    Delete(Delete),
}

impl Modification {
    /// The table it changes.
    pub fn table(&self) -> &QualifiedName {
        match self {
            Modification::Insert(insert) => &insert.table,
            Modification::Update(update) => &update.table,
            Modification::Delete(delete) => &delete.table,
        }
    }
}

/// `INSERT INTO table ...`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Insert {
    pub table: QualifiedName,
    pub source: InsertSource,
    /// `IF NOT EXISTS`
    pub if_not_exists: bool,
    /// `USING ...`
    pub using: Using,
}

/// The source of an INSERT's values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InsertSource {
    /// `(columns) VALUES (values)`: both as written, so their lengths can differ.
    Values {
        /// The columns; never empty.
        columns: Vec<Identifier>,
        /// The values; never empty.
        values: Vec<Term>,
    },
    /// `JSON value [DEFAULT NULL | DEFAULT UNSET]`
    Json {
        /// The JSON text.
        value: JsonValue,
        /// `DEFAULT UNSET`: columns that the text omits keep their value. Otherwise they become
        /// null.
        default_unset: bool,
    },
}

/// The text of an `INSERT JSON`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JsonValue {
    /// A string literal's content.
    Literal(Box<str>),
    BindMarker(BindMarker),
}

/// `USING TIMESTAMP t AND TTL s`: integer literals or markers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Using {
    /// Write time in microseconds since the epoch.
    pub timestamp: Option<Term>,
    /// Time to live in seconds.
    pub ttl: Option<Term>,
}

/// `UPDATE table SET ... WHERE ...`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    pub table: QualifiedName,
    /// `USING ...`
    pub using: Using,
    /// `SET ...`; never empty.
    pub assignments: Vec<Assignment>,
    /// `WHERE ...`; never empty.
    pub where_clause: WhereClause,
    /// `IF ...`
    pub conditions: Conditions,
}

/// One item of SET.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    pub column: Identifier,
    pub operation: AssignmentOperation,
}

/// The change of a column in an UPDATE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AssignmentOperation {
    /// `c = term`
    Set(Term),
    /// `c = c + term`, `c += term`, and `c = c -1` (which adds the literal `-1`): append, add,
    /// increment.
    Add(Term),
    /// `c = c - term`, `c -= term`: remove, decrement.
    Subtract(Term),
    /// `c = term + c`: prepend.
    Prepend(Term),
    /// `c[key] = term`
    SetElement(Term, Term),
    /// `c.field = term`
    SetField(Identifier, Term),
}

/// `DELETE ... FROM table WHERE ...`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delete {
    /// Empty for whole rows.
    pub targets: Vec<DeleteTarget>,
    pub table: QualifiedName,
    /// `USING TIMESTAMP t`: microseconds since the epoch; an integer literal or a marker.
    pub timestamp: Option<Term>,
    /// `WHERE ...`; never empty.
    pub where_clause: WhereClause,
    /// `IF ...`
    pub conditions: Conditions,
}

/// The part of a row that a DELETE removes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeleteTarget {
    /// `c`
    Column(Identifier),
    /// `c[key]`
    Element(Identifier, Term),
    /// `c.field`
    Field(Identifier, Identifier),
}

/// `BEGIN [UNLOGGED | COUNTER] BATCH ... APPLY BATCH`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Logged by default.
    pub kind: BatchKind,
    /// `USING ...`
    pub using: Using,
    /// The statements in order; possibly none.
    pub statements: Vec<Modification>,
}

/// The atomicity of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BatchKind {
    /// All or nothing.
    Logged,
    /// Only atomic within a partition.
    Unlogged,
    /// Counter updates.
    Counter,
}
