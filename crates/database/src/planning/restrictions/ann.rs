//! `ORDER BY v ANN OF vector`: the rows whose vectors are the most similar to one. The rules are
//! Cassandra's.

use std::sync::Arc;

use cassette_cql::ast::{self, Direction};
use cassette_rows::{ColumnKind, ColumnMetadata, TableMetadata};

use super::{Restrictions, existing, receiver};
use crate::basics::error::{Result, bail_invalid};
use crate::planning::context::PlanContext;
use crate::schema::conditions::{ColumnRestriction, Filter, Term};
use crate::schema::indexes::{Index, IndexKind};

/// Cassandra's message for restrictions that no index supports.
const REQUIRES_INDEXES: &str = "ANN ordering by vector requires all restricted column(s) to be indexed";

/// The similarity search that orders the rows of a SELECT.
#[derive(Debug)]
pub(crate) struct Ann {
    /// The column with the vectors.
    pub column: Arc<ColumnMetadata>,
    /// The vector that rows are compared with.
    pub term: Term,
    /// The index of the column.
    pub index: Arc<Index>,
}

/// An item of ORDER BY with `ANN OF`, before it is validated.
pub(crate) struct AnnOrdering {
    column: Arc<ColumnMetadata>,
    term: Term,
    direction: Direction,
}

/// The items of ORDER BY with `ANN OF`, and whether there are others.
#[derive(Default)]
pub(crate) struct AnnOrderings {
    orderings: Vec<AnnOrdering>,
    has_others: bool,
}

impl AnnOrderings {
    /// Prepares the vectors of ORDER BY.
    ///
    /// # Errors
    /// Invalid, for columns that do not exist, and terms that do not fit their type.
    pub fn new(select: &ast::Select, table: &TableMetadata, cx: &mut PlanContext<'_>) -> Result<Self> {
        let mut prepared = Self::default();
        for ordering in &select.order_by {
            let column = existing(table, &ordering.column)?;
            match &ordering.ann_of {
                Some(term) => {
                    let term = Term::prepare(term, &receiver(table, &column), cx)?;
                    prepared.orderings.push(AnnOrdering { column, term, direction: ordering.direction });
                }
                None => prepared.has_others = true,
            }
        }
        Ok(prepared)
    }

    /// Returns the only item with `ANN OF`, and the index of its column if that has one; `None` if
    /// there is none.
    ///
    /// # Errors
    /// Invalid, for several items, another direction, and restrictions of the column by `filters`.
    pub fn only(self, filters: &[Filter], indexes: &[Arc<Index>]) -> Result<Option<Candidate>> {
        let has_others = self.has_others;
        let mut orderings = self.orderings.into_iter();
        let Some(ordering) = orderings.next() else { return Ok(None) };
        if orderings.next().is_some() {
            bail_invalid!("Cannot specify more than one ANN ordering");
        }
        if has_others {
            bail_invalid!("ANN ordering does not support any other ordering");
        }
        if ordering.direction != Direction::Asc {
            bail_invalid!("Descending ANN ordering is not supported");
        }
        let name = &ordering.column.name;
        match filters.iter().find(|filter| filter.column.name == *name).map(|filter| &filter.restriction) {
            None => {}
            Some(ColumnRestriction::Slice(_)) => bail_invalid!(
                "Column \"{name}\" cannot be restricted by both an equality and an inequality relation"
            ),
            Some(ColumnRestriction::In(_)) => {
                bail_invalid!("{name} cannot be restricted by more than one relation if it includes a IN")
            }
            Some(_) => {
                bail_invalid!("{name} cannot be restricted by more than one relation if it includes an Equal")
            }
        }
        let of_column =
            |index: &&Arc<Index>| index.column.name == *name && index.kind == IndexKind::StorageAttached;
        let index = indexes.iter().find(of_column).cloned();
        Ok(Some(Candidate { column: ordering.column, term: ordering.term, index }))
    }
}

/// A similarity search whose restrictions have not been validated.
pub(crate) struct Candidate {
    column: Arc<ColumnMetadata>,
    term: Term,
    index: Option<Arc<Index>>,
}

impl Candidate {
    /// Whether an index orders the rows.
    pub fn has_index(&self) -> bool {
        self.index.as_ref().is_some_and(|index| index.similarity.is_some())
    }

    /// Validates the search with the other restrictions. `filtered_key` and `filtered_clustering`:
    /// whether partition keys and clustering columns have to be filtered.
    ///
    /// # Errors
    /// Invalid, for columns without an index of vectors, and for restrictions that neither an index
    /// nor the primary key supports.
    pub fn validate(
        self,
        restrictions: &Restrictions,
        indexes: &[Arc<Index>],
        (filtered_key, filtered_clustering): (bool, bool),
        restricted_clustering: &[Arc<ColumnMetadata>],
    ) -> Result<Ann> {
        if !self.column.data_type.is_float_vector() {
            bail_invalid!("ANN ordering is only supported on float vector indexes");
        }
        let Some(index) = self.index.filter(|index| index.similarity.is_some()) else {
            bail_invalid!("ANN ordering by vector requires the column to be indexed");
        };
        if filtered_key {
            bail_invalid!("{REQUIRES_INDEXES}");
        }
        let is_indexed = |column: &ColumnMetadata| indexes.iter().any(|i| i.column.name == column.name);
        let others_are_indexed = restrictions.filters.iter().all(|filter| is_indexed(&filter.column));
        let clustering_is_indexed = restricted_clustering.iter().all(|column| is_indexed(column));
        let names_partition = restrictions.partition.names_keys();
        if !others_are_indexed || !clustering_is_indexed && (!names_partition || filtered_clustering) {
            bail_invalid!("{REQUIRES_INDEXES}");
        }
        Ok(Ann { column: self.column, term: self.term, index })
    }
}

impl Ann {
    /// Whether the vectors are in rows, so that DISTINCT, which shows partitions, has no order.
    pub fn is_of_rows(&self) -> bool {
        matches!(self.column.kind, ColumnKind::Regular | ColumnKind::Clustering)
    }
}

/// Rejects a restriction of vectors by value if they are indexed.
pub(crate) fn refuse_values_of_vectors(filters: &[Filter], indexes: &[Arc<Index>]) -> Result<()> {
    let is_vector =
        |filter: &&Filter| matches!(filter.column.data_type, cassette_rows::DataType::Vector { .. });
    let vector = filters.iter().find(is_vector);
    if let Some(filter) = vector
        && indexes.iter().any(|index| index.column.name == filter.column.name)
    {
        bail_invalid!("Vector indexes only support ANN queries");
    }
    Ok(())
}
