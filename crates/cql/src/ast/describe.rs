//! DESCRIBE.

use super::identifiers::{Identifier, QualifiedName};

/// `DESCRIBE ... [WITH INTERNALS]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Describe {
    pub target: DescribeTarget,
    /// `WITH INTERNALS`: includes parts that users do not write, such as ids and dropped columns.
    pub with_internals: bool,
}

/// The subject of a DESCRIBE.
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
        /// `ONLY`: without its contents.
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
