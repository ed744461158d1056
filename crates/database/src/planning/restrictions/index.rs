//! Whether an index finds the rows, which, and what it leaves to be looked at row by row. The rules are Cassandra's.

use std::sync::Arc;

use cassette_cql::ast;
use cassette_rows::{ColumnMetadata, TableMetadata};

use super::clustering::{NO_TUPLE_IN_FILTERS, NO_TUPLE_SLICE_FILTERS, Shape};
use super::{ClusteringRestrictions, PartitionRestrictions, Restrictions};
use crate::basics::error::{DatabaseError, Result, bail_invalid};
use crate::planning::context::{BindContext, PlanContext};
use crate::planning::terms::Bound;
use crate::schema::conditions::{ColumnRestriction, Filter, SliceTerms, Term};
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
}

/// How many indexes one query asks: each more costs something, and says less and less.
const SEARCHES_MAX: usize = 4;

/// The longest value that is looked for, in bytes.
const VALUE_LENGTH_MAX: usize = u16::MAX as usize;

impl Search {
    /// `None` if the index does not support the restriction.
    fn new(index: &Arc<Index>, column: &ColumnMetadata, restriction: &ColumnRestriction) -> Option<Self> {
        if !index.supports(column, restriction) {
            return None;
        }
        let wanted = match restriction {
            ColumnRestriction::Eq(term) => WantedTerms::Value(term.clone()),
            ColumnRestriction::Slice(slice) => WantedTerms::Range(slice.clone()),
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

    /// Whether it is for one value, not for all between two.
    pub fn is_for_value(&self) -> bool {
        !matches!(self.wanted, WantedTerms::Range(_))
    }

    /// Calls `search` with the value of this cx; there is none if it is null.
    ///
    /// # Errors
    /// Invalid, for values that no index holds, and those of `search`.
    pub fn with_value<T>(
        &self,
        cx: &BindContext<'_>,
        search: impl FnOnce(&Wanted<'_>) -> Result<T>,
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
                Some(value) => Some(search(&Wanted::Value(&value))?),
                None => None,
            },
            WantedTerms::Entry(key, value) => match bound(key)?.zip(bound(value)?) {
                Some((key, value)) => Some(search(&Wanted::Entry(&key, &value))?),
                None => None,
            },
            WantedTerms::Range(slice) => {
                let edge = |side: &Option<(Term, bool)>| match side {
                    Some((term, inclusive)) => Ok(bound(term)?.map(|value| (value, *inclusive))),
                    None => Ok::<_, DatabaseError>(None),
                };
                let (lower, upper) = (edge(&slice.lower)?, edge(&slice.upper)?);
                let lower = lower.as_ref().map(|(value, inclusive)| (&value[..], *inclusive));
                let upper = upper.as_ref().map(|(value, inclusive)| (&value[..], *inclusive));
                Some(search(&Wanted::Range { lower, upper })?)
            }
        })
    }
}

type Restricted = (Arc<ColumnMetadata>, ColumnRestriction);

/// Collects what decides on the index, part by part of the WHERE.
pub(crate) struct IndexChoice<'i> {
    indexes: &'i [Arc<Index>],
    partition: Vec<Restricted>,
    clustering: Vec<Restricted>,
    others: Vec<Restricted>,
    /// No restriction of clustering columns is left out of `clustering`, but for ranges of tuples that indexes answer.
    clustering_is_whole: bool,
    /// Why the index cannot be used, in Cassandra's words.
    tuple_refusal: Option<&'static str>,
    has_clustering_index: bool,
    has_index: bool,
    is_key_range: bool,
    uses_index: bool,
    /// Which parts have to be true of each row that the index finds.
    checks_partition: bool,
    checks_clustering: bool,
}

impl<'i> IndexChoice<'i> {
    /// Of restrictions that have not been validated yet.
    pub fn new(restrictions: &Restrictions, indexes: &'i [Arc<Index>]) -> Self {
        let mut choice = Self {
            indexes,
            partition: Vec::new(),
            clustering: Vec::new(),
            others: Vec::new(),
            clustering_is_whole: true,
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
        choice.has_index =
            choice.has_clustering_index || supported(&choice.partition) || supported(&choice.others);
        choice
    }

    /// Whether some restriction can be answered by an index.
    pub fn has_index(&self) -> bool {
        self.has_index
    }

    pub fn partition_checked(&mut self, partition: &PartitionRestrictions, needs_filtering: bool) {
        self.is_key_range = partition.is_on_token() || !partition.names_keys();
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

    /// Notes what indexes can do with each restriction of clustering columns. Whether one answers a range of a tuple.
    ///
    /// What an index answers, and all that is restricted behind it, Cassandra asks of each row, which it cannot do for
    /// ranges of tuples.
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

    /// Why the index that is used cannot be.
    pub fn refusal(&self) -> Option<&'static str> {
        self.tuple_refusal.filter(|_| self.uses_index && self.checks_clustering)
    }

    /// Whether the index that is used leaves something to be looked at row by row.
    pub fn leaves_to_filter(&self) -> bool {
        if !self.uses_index {
            return false;
        }
        let empty = Vec::new();
        let partition = if self.checks_partition { &self.partition } else { &empty };
        let clustering = if self.checks_clustering { &self.clustering } else { &empty };
        let checked = || partition.iter().chain(clustering).chain(&self.others);
        // An index of its own kind answers alone; all storage-attached ones answer together.
        let satisfied_by = |indexes: &[&Arc<Index>]| {
            (self.clustering_is_whole || !self.checks_clustering)
                && checked().all(|(column, restriction)| {
                    indexes.iter().any(|index| index.satisfies(column, restriction))
                })
        };
        let (attached, others) = self.attached_and_others();
        let is_satisfied = satisfied_by(&attached) || others.iter().any(|index| satisfied_by(&[*index]));
        let is_any = checked().next().is_some() || self.checks_clustering && !self.clustering_is_whole;
        is_any && !is_satisfied
    }

    /// Storage-attached indexes, and the others.
    fn attached_and_others(&self) -> (Vec<&Arc<Index>>, Vec<&Arc<Index>>) {
        self.indexes.iter().partition(|index| index.kind == IndexKind::StorageAttached)
    }

    /// The searches of which each finds the rows, the more promising ones first; none, if no index is used.
    pub fn searches(&self) -> Vec<Search> {
        if !self.uses_index {
            return Vec::new();
        }
        let (attached, others) = self.attached_and_others();
        // Equalities before ranges, and non-key columns first: they tend to say more.
        let all = || self.others.iter().chain(&self.clustering).chain(&self.partition);
        let indexes = || attached.iter().chain(&others);
        let is_range = |restriction: &ColumnRestriction| matches!(restriction, ColumnRestriction::Slice(_));
        let equalities = all().filter(|(_, restriction)| !is_range(restriction));
        let ranges = all().filter(|(_, restriction)| is_range(restriction));
        let searches = equalities.chain(ranges).filter_map(|(column, restriction)| {
            indexes().find_map(|index| Search::new(index, column, restriction))
        });
        searches.take(SEARCHES_MAX).collect()
    }

    /// The restrictions of clustering columns that indexes answer: slices hold them, too.
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

    /// What becomes of the values of a column before they are compared, since an index of it compares them so.
    pub fn analyzers(&self, column: &ColumnMetadata, restriction: &ColumnRestriction) -> Analyzers {
        if !self.uses_index {
            return Analyzers::default();
        }
        let of_column = || self.indexes.iter().filter(|index| index.supports(column, restriction));
        let first = |finds| of_column().find(|index| index.finds() == finds).and_then(|index| index.analyzer);
        Analyzers { values: first(Finds::Values), keys: first(Finds::Keys) }
    }
}

/// Why expressions of custom indexes cannot be answered: no index that there is understands any.
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
    if { of_table }.any(|index| index.name == name.as_str() && index.kind == IndexKind::StorageAttached) {
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
