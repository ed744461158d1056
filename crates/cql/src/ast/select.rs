//! SELECT.

use super::identifiers::{Identifier, QualifiedName};
use super::relations::WhereClause;
use super::selectors::{Selection, Selector};
use super::terms::Term;

/// `SELECT [JSON] [DISTINCT] ... FROM ...`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Select {
    /// `SELECT JSON`
    pub json: bool,
    /// `SELECT DISTINCT`
    pub distinct: bool,
    /// The expressions to select; empty for `*`.
    pub selections: Vec<Selection>,
    pub table: QualifiedName,
    /// `WHERE ...`
    pub where_clause: WhereClause,
    /// `GROUP BY ...`
    pub group_by: Vec<Selector>,
    /// `ORDER BY ...`
    pub order_by: Vec<Ordering>,
    /// `PER PARTITION LIMIT n`: an integer literal or a marker.
    pub per_partition_limit: Option<Term>,
    /// `LIMIT n`: an integer literal or a marker.
    pub limit: Option<Term>,
    /// `ALLOW FILTERING`
    pub allow_filtering: bool,
}

/// One item of ORDER BY.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ordering {
    pub column: Identifier,
    /// `ANN OF term`: by similarity to this vector instead of by value.
    pub ann_of: Option<Term>,
    /// Ascending unless DESC was written.
    pub direction: Direction,
}

/// The direction of an order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Direction {
    /// `ASC`
    #[default]
    Asc,
    /// `DESC`
    Desc,
}
