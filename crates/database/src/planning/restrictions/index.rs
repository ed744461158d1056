//! The choice of indexes for a query, and the restrictions that remain to be filtered. The rules
//! are Cassandra's.

use std::sync::Arc;

use cassette_cql::ast;
use cassette_rows::{ColumnMetadata, TableMetadata};

use super::clustering::{NO_TUPLE_IN_FILTERS, NO_TUPLE_SLICE_FILTERS, Shape};
use super::{ClusteringRestrictions, PartitionRestrictions, Restrictions};
use crate::basics::error::{DatabaseError, Result, bail_invalid};
use crate::planning::context::{BindContext, PlanContext};
use crate::planning::terms::Bound;
use crate::schema::conditions::{ColumnRestriction, Filter, LikeTerms, SliceTerms, Term};
use crate::schema::indexes::{Analyzers, Finds, Index, IndexKind, Wanted};

/// The search of an index for a value.
#[derive(Debug)]
pub(crate) struct Search {
    pub index: Arc<Index>,
    wanted: WantedTerms,
}

#[derive(Debug)]
enum WantedTerms {
    Value(Term),
    Entry(Term, Term),
    Range(SliceTerms),
    Like(LikeTerms),
}

/// The maximum number of indexes in one query: each further index costs reads and excludes fewer
/// rows.
const SEARCHES_MAX: usize = 4;

/// The maximum length of a searched value, in bytes.
const VALUE_LENGTH_MAX: usize = u16::MAX as usize;

impl Search {
    /// Returns `None` if the index does not support the restriction.
    fn new(index: &Arc<Index>, column: &ColumnMetadata, restriction: &ColumnRestriction) -> Option<Self> {
        if !index.supports(column, restriction) {
            return None;
        }
        let wanted = match restriction {
            ColumnRestriction::Eq(term) => WantedTerms::Value(term.clone()),
            ColumnRestriction::Slice(slice) => WantedTerms::Range(slice.clone()),
            ColumnRestriction::Like(like) => WantedTerms::Like(like.clone()),
            ColumnRestriction::Contains { values, keys, entries } => {
                let entry =
                    entries.first().map(|(key, value)| WantedTerms::Entry(key.clone(), value.clone()));
                let value = || values.first().cloned().map(WantedTerms::Value);
                let key = || keys.first().cloned().map(WantedTerms::Value);
                match index.finds() {
                    Finds::Entries => entry?,
                    Finds::Keys => key()?,
                    Finds::Values => value()?,
                }
            }
            _ => return None,
        };
        Some(Self { index: index.clone(), wanted })
    }

    /// Whether it searches one value and not a range.
    pub fn is_for_value(&self) -> bool {
        !matches!(self.wanted, WantedTerms::Range(_) | WantedTerms::Like(_))
    }

    /// Returns the indexes of which one is searched, depending on the value.
    pub fn indexes(&self) -> impl Iterator<Item = &Arc<Index>> {
        match &self.wanted {
            WantedTerms::Like(like) => like.indexes.iter(),
            _ => std::slice::from_ref(&self.index).iter(),
        }
    }

    /// Calls `search` with an index and the value of this execution, or not at all if the value is
    /// null.
    ///
    /// # Errors
    /// Invalid, for values that no index contains, and those of `search`.
    pub fn with_value<T>(
        &self,
        cx: &BindContext<'_>,
        search: impl FnOnce(&Arc<Index>, &Wanted<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        let bound = |term: &Term| match term.bind(cx)? {
            Bound::Value(value) if value.len() > VALUE_LENGTH_MAX => {
                bail_invalid!("Index expression values may not be larger than 64K")
            }
            Bound::Value(value) => Ok(Some(value.into_owned())),
            Bound::Null | Bound::Unset => Ok(None),
        };
        Ok(match &self.wanted {
            WantedTerms::Value(term) => match bound(term)? {
                Some(value) => Some(search(&self.index, &Wanted::Value(&value))?),
                None => None,
            },
            WantedTerms::Entry(key, value) => match bound(key)?.zip(bound(value)?) {
                Some((key, value)) => Some(search(&self.index, &Wanted::Entry(&key, &value))?),
                None => None,
            },
            WantedTerms::Like(like) => {
                let bound = like.bind(&self.index.column, cx)?;
                Some(search(bound.index, &Wanted::Like { kind: bound.kind, terms: &bound.terms })?)
            }
            WantedTerms::Range(slice) => {
                let edge = |side: &Option<(Term, bool)>| match side {
                    Some((term, inclusive)) => Ok(bound(term)?.map(|value| (value, *inclusive))),
                    None => Ok::<_, DatabaseError>(None),
                };
                let (lower, upper) = (edge(&slice.lower)?, edge(&slice.upper)?);
                let lower = lower.as_ref().map(|(value, inclusive)| (&value[..], *inclusive));
                let upper = upper.as_ref().map(|(value, inclusive)| (&value[..], *inclusive));
                Some(search(&self.index, &Wanted::Range { lower, upper })?)
            }
        })
    }
}

type Restricted = (Arc<ColumnMetadata>, ColumnRestriction);

/// Collects the restrictions that determine the choice of indexes.
pub(crate) struct IndexChoice<'i> {
    indexes: &'i [Arc<Index>],
    partition: Vec<Restricted>,
    clustering: Vec<Restricted>,
    others: Vec<Restricted>,
    /// `clustering` contains all restrictions of clustering columns except ranges of tuples, which
    /// indexes may support.
    clustering_is_whole: bool,
    /// Whether an index orders the rows by similarity.
    is_ordered: bool,
    /// The reason why the index cannot be used, in Cassandra's words.
    tuple_refusal: Option<&'static str>,
    has_clustering_index: bool,
    has_index: bool,
    is_key_range: bool,
    uses_index: bool,
    /// The parts of the WHERE that must be checked for each row that the index finds.
    checks_partition: bool,
    checks_clustering: bool,
}

impl<'i> IndexChoice<'i> {
    /// Analyzes restrictions that have not been validated yet.
    /// `is_ordered`: whether an index orders the rows by similarity.
    pub fn new(restrictions: &Restrictions, indexes: &'i [Arc<Index>], is_ordered: bool) -> Self {
        let mut choice = Self {
            indexes,
            partition: Vec::new(),
            clustering: Vec::new(),
            others: Vec::new(),
            clustering_is_whole: true,
            is_ordered,
            tuple_refusal: None,
            has_clustering_index: false,
            has_index: false,
            is_key_range: false,
            uses_index: false,
            checks_partition: false,
            checks_clustering: false,
        };
        if indexes.is_empty() {
            return choice;
        }
        let columns = restrictions.partition.single_columns();
        choice.partition =
            columns.map(|(column, restriction)| (column.clone(), restriction.clone())).collect();
        choice.clustering = restrictions.clustering.single_columns();
        let answers_tuple_slices = choice.add_shapes(&restrictions.clustering);
        let filters = restrictions.filters.iter();
        choice.others = filters.map(|filter| (filter.column.clone(), filter.restriction.clone())).collect();
        let supported = |restricted: &[Restricted]| {
            restricted
                .iter()
                .any(|(column, restriction)| indexes.iter().any(|index| index.supports(column, restriction)))
        };
        choice.has_clustering_index = supported(&choice.clustering) || answers_tuple_slices;
        choice.has_index = is_ordered
            || choice.has_clustering_index
            || supported(&choice.partition)
            || supported(&choice.others)
            || choice.others.iter().any(|(column, restriction)| {
                // Refused later: no index answers it, which Cassandra knows only then.
                column.data_type.is_float_vector()
                    && matches!(restriction, ColumnRestriction::Eq(_))
                    && indexes.iter().any(|index| index.column.name == column.name)
            });
        choice
    }

    /// Whether an index supports any restriction.
    pub fn has_index(&self) -> bool {
        self.has_index
    }

    pub fn partition_checked(&mut self, partition: &PartitionRestrictions, needs_filtering: bool) {
        // As in Cassandra, a range of tokens only filters keys that are named.
        self.is_key_range = !partition.names_keys() || partition.is_on_token() && needs_filtering;
        if (self.partition.is_empty() && !partition.is_on_token()) || needs_filtering {
            self.uses_index = self.has_index && self.is_key_range;
        }
        self.checks_partition = self.uses_index || needs_filtering;
    }

    pub fn clustering_checked(&mut self, needs_filtering: bool) {
        if self.has_index && (needs_filtering || self.is_key_range && self.has_clustering_index) {
            self.uses_index = true;
        }
        self.checks_clustering = self.uses_index || needs_filtering;
    }

    pub fn others_checked(&mut self, are_any: bool) {
        self.uses_index |= are_any && self.has_index;
    }

    pub fn uses_index(&self) -> bool {
        self.uses_index
    }

    /// Records which restrictions of clustering columns the indexes support. Returns whether one
    /// supports a range of a tuple.
    ///
    /// Cassandra filters each row by the restrictions that an index supports and by those of later
    /// columns; it cannot do so for ranges of tuples.
    fn add_shapes(&mut self, clustering: &ClusteringRestrictions) -> bool {
        let (equal, slice) =
            (ColumnRestriction::Eq(Term::Null), ColumnRestriction::Slice(SliceTerms::default()));
        let (mut is_behind, mut answers_slices, mut all_slices) = (false, false, true);
        for (columns, shape) in clustering.shapes() {
            let answers = |restriction: &ColumnRestriction| {
                columns.iter().any(|column| self.indexes.iter().any(|i| i.supports(column, restriction)))
            };
            let is_answered = match shape {
                Shape::Column(restriction) => answers(restriction),
                Shape::TupleEq => answers(&equal),
                Shape::TupleIn => false,
                Shape::TupleSlice => answers(&slice),
            };
            let is_filtered = is_answered || is_behind;
            let refusal = match shape {
                Shape::TupleIn if columns.len() > 1 => Some(NO_TUPLE_IN_FILTERS),
                Shape::TupleSlice => Some(NO_TUPLE_SLICE_FILTERS),
                _ => None,
            };
            self.tuple_refusal = self.tuple_refusal.or(refusal.filter(|_| is_filtered));
            if matches!(shape, Shape::TupleSlice) {
                answers_slices |= is_answered;
                all_slices &= is_answered;
            }
            is_behind |= is_answered;
        }
        self.clustering_is_whole = clustering.is_of_single_columns_and_slices() && all_slices;
        answers_slices
    }

    /// Returns the reason why the chosen index cannot be used.
    pub fn refusal(&self) -> Option<&'static str> {
        self.tuple_refusal.filter(|_| self.uses_index && self.checks_clustering)
    }

    /// Whether rows found by the chosen index must be filtered.
    pub fn leaves_to_filter(&self) -> bool {
        if !self.uses_index {
            return false;
        }
        let empty = Vec::new();
        let partition = if self.checks_partition { &self.partition } else { &empty };
        let clustering = if self.checks_clustering { &self.clustering } else { &empty };
        let checked = || partition.iter().chain(clustering).chain(&self.others);
        // An index of the other kinds is used alone; storage-attached indexes are used together.
        let satisfied_by = |indexes: &[&Arc<Index>]| {
            (self.clustering_is_whole || !self.checks_clustering)
                && checked().all(|(column, restriction)| {
                    indexes.iter().any(|index| index.satisfies(column, restriction))
                })
        };
        let (attached, others) = self.attached_and_others();
        let is_satisfied =
            satisfied_by(&attached) || !self.is_ordered && others.iter().any(|index| satisfied_by(&[*index]));
        let is_any = checked().next().is_some() || self.checks_clustering && !self.clustering_is_whole;
        is_any && !is_satisfied
    }

    /// Returns the storage-attached indexes, and the others.
    fn attached_and_others(&self) -> (Vec<&Arc<Index>>, Vec<&Arc<Index>>) {
        self.indexes.iter().partition(|index| index.kind == IndexKind::StorageAttached)
    }

    /// Returns the searches, each of which finds all rows, the most selective ones first; none if
    /// no index is used.
    pub fn searches(&self) -> Vec<Search> {
        if !self.uses_index {
            return Vec::new();
        }
        let (attached, others) = self.attached_and_others();
        // Equalities before ranges and non-key columns first, which tend to be more selective.
        let all = || self.others.iter().chain(&self.clustering).chain(&self.partition);
        let indexes = || attached.iter().chain(&others);
        let is_range = |restriction: &ColumnRestriction| {
            matches!(restriction, ColumnRestriction::Slice(_) | ColumnRestriction::Like(_))
        };
        let equalities = all().filter(|(_, restriction)| !is_range(restriction));
        let ranges = all().filter(|(_, restriction)| is_range(restriction));
        let searches = equalities.chain(ranges).filter_map(|(column, restriction)| {
            indexes().find_map(|index| Search::new(index, column, restriction))
        });
        searches.take(SEARCHES_MAX).collect()
    }

    /// Returns the restrictions of clustering columns that indexes support; slices contain them,
    /// too.
    pub fn answered_clustering(&self) -> Vec<Filter> {
        if !self.uses_index || !self.checks_clustering {
            return Vec::new();
        }
        let is_answered = |(column, restriction): &&Restricted| {
            self.indexes.iter().any(|i| i.supports(column, restriction))
        };
        let answered = self.clustering.iter().filter(is_answered).cloned();
        let filter = |(column, restriction): Restricted| Filter {
            analyzers: self.analyzers(&column, &restriction),
            column,
            restriction,
        };
        answered.map(filter).collect()
    }

    /// Returns the analyzers applied to a column's values before they are compared, because an
    /// index on the column compares analyzed values.
    pub fn analyzers(&self, column: &ColumnMetadata, restriction: &ColumnRestriction) -> Analyzers {
        if !self.uses_index {
            return Analyzers::default();
        }
        let of_column = || self.indexes.iter().filter(|index| index.supports(column, restriction));
        let first = |finds| of_column().find(|index| index.finds() == finds).and_then(|index| index.analyzer);
        Analyzers { values: first(Finds::Values), keys: first(Finds::Keys) }
    }
}

/// Rejects expressions of custom indexes: no index supports any.
pub(crate) fn refuse_expressions(
    expressions: &[ast::CustomIndexExpression],
    table: &TableMetadata,
    cx: &PlanContext<'_>,
) -> DatabaseError {
    let [expression] = expressions else {
        return DatabaseError::invalid(
            "Multiple custom index expressions in a single query are not supported",
        );
    };
    let name = &expression.index;
    if cx.catalog.indexes_of(table.id).iter().all(|index| index.name != name.as_str()) {
        return DatabaseError::Invalid(format!(
            "Invalid index expression, index {} not found for {}",
            name.as_str(),
            table.qualified_name()
        ));
    }
    let of_table = cx.catalog.indexes_of(table.id).iter();
    if { of_table }.any(|index| index.name == name.as_str() && index.kind != IndexKind::Composites) {
        return DatabaseError::Invalid(format!(
            "Index {} does not support custom expressions",
            name.as_str()
        ));
    }
    DatabaseError::Invalid(format!(
        "Only CUSTOM indexes may be used in custom index expressions, {} is not valid",
        name.as_str()
    ))
}
