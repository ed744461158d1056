//! DESCRIBE.

use super::identifiers::{Identifier, QualifiedName};

/// `DESCRIBE ... [WITH INTERNALS]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Describe {
    /// What to describe.
    pub target: DescribeTarget,
    /// `WITH INTERNALS`: also what users do not write, like ids and dropped columns.
    pub with_internals: bool,
}

/// What a DESCRIBE is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DescribeTarget {
    /// `CLUSTER`
    Cluster,
    /// `[FULL] SCHEMA`
    Schema {
        /// `FULL`: system keyspaces too.
        full: bool,
    },
    /// `KEYSPACES`
    Keyspaces,
    /// `[ONLY] KEYSPACE [name]`
    Keyspace {
        /// `ONLY`: without what is in it.
        only: bool,
        /// The keyspace; `None` for the current one.
        name: Option<Identifier>,
    },
    /// `TABLES`
    Tables,
    /// `TABLE name`
    Table(QualifiedName),
    /// `INDEX name`
    Index(QualifiedName),
    /// `MATERIALIZED VIEW name`
    View(QualifiedName),
    /// `TYPES`
    Types,
    /// `TYPE name`
    Type(QualifiedName),
    /// `FUNCTIONS`
    Functions,
    /// `FUNCTION name`
    Function(QualifiedName),
    /// `AGGREGATES`
    Aggregates,
    /// `AGGREGATE name`
    Aggregate(QualifiedName),
    /// A bare name: a keyspace, table, view or index, in that order of preference.
    Any(QualifiedName),
}
