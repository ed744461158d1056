//! Restrictions of clustering columns: slices, or individual rows.
//!
//! ```text
//! relations --add--> segments of adjacent columns --validate--> slices, and filters for the rest
//! segments + values --ranges--> slices of rows, or individual rows
//! ```

pub(crate) mod add;
pub(crate) mod ranges;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use cassette_rows::{ClusteringComparator, ColumnMetadata, TableMetadata};

use super::Rules;
use crate::basics::error::{Result, bail_invalid};
use crate::schema::conditions::{ColumnRestriction, Filter, InTerms, SliceTerms, Term};
use crate::schema::indexes::Analyzers;

/// The restrictions of the clustering columns in a WHERE.
#[derive(Debug)]
pub(crate) struct ClusteringRestrictions {
    /// Ascending by first column; they do not overlap.
    segments: Vec<Segment>,
    columns: Vec<Arc<ColumnMetadata>>,
    comparator: ClusteringComparator,
    table: Arc<TableMetadata>,
    /// The reason why the remaining restrictions cannot be filters.
    refusal: Option<&'static str>,
    /// Whether the omitted last columns are null: a write to a table with COMPACT STORAGE.
    omits_nulls: bool,
}

pub(crate) const NO_TUPLE_IN_FILTERS: &str = "Multicolumn IN filters are not supported";
pub(crate) const NO_TUPLE_SLICE_FILTERS: &str =
    "Multi-column slice restrictions cannot be used for filtering.";

/// A restriction of adjacent columns.
#[derive(Debug)]
struct Segment {
    /// The index of its first column.
    first: usize,
    what: SegmentKind,
}

#[derive(Debug)]
enum SegmentKind {
    /// A restriction of one column.
    Single(ColumnRestriction),
    /// `(a, b) = (…)`
    TupleEq(Tuple),
    /// `(a, b) IN (…)`, with the number of columns.
    TupleIn(TupleIn, usize),
    /// `(a, b) > (…)`, with the number of columns of the longer bound.
    TupleSlice { lower: Option<(Tuple, bool)>, upper: Option<(Tuple, bool)>, width: usize },
}

/// The form of a restriction of adjacent columns.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Shape<'a> {
    /// A restriction of one column.
    Column(&'a ColumnRestriction),
    TupleEq,
    TupleIn,
    TupleSlice,
}

/// A tuple on the right-hand side.
#[derive(Debug)]
enum Tuple {
    Terms(Vec<Term>),
    /// A tuple that is bound to one marker.
    Marker(Term, usize),
}

#[derive(Debug)]
enum TupleIn {
    Tuples(Vec<Tuple>),
    /// A list of tuples that is bound to one marker.
    Marker(Term),
}

impl SegmentKind {
    /// Converts a slice of one column to a slice of a tuple.
    fn of_slice(slice: SliceTerms) -> Self {
        let bound =
            |side: Option<(Term, bool)>| side.map(|(term, inclusive)| (Tuple::Terms(vec![term]), inclusive));
        Self::TupleSlice { lower: bound(slice.lower), upper: bound(slice.upper), width: 1 }
    }

    /// Returns whether it is a range with a lower bound, and whether with an upper one.
    fn bounds(&self) -> (bool, bool) {
        match self {
            Self::TupleSlice { lower, upper, .. } => (lower.is_some(), upper.is_some()),
            Self::Single(ColumnRestriction::Slice(slice)) => (slice.lower.is_some(), slice.upper.is_some()),
            _ => (false, false),
        }
    }
}

impl Segment {
    fn width(&self) -> usize {
        match &self.what {
            SegmentKind::Single(_) => 1,
            SegmentKind::TupleEq(Tuple::Terms(terms)) => terms.len(),
            SegmentKind::TupleEq(Tuple::Marker(_, width)) => *width,
            SegmentKind::TupleIn(_, width) | SegmentKind::TupleSlice { width, .. } => *width,
        }
    }

    fn is_slice(&self) -> bool {
        matches!(self.what, SegmentKind::TupleSlice { .. } | SegmentKind::Single(ColumnRestriction::Slice(_)))
    }

    /// Whether it lists the values that rows can be found by.
    fn lists_values(&self) -> bool {
        match &self.what {
            SegmentKind::Single(restriction) => restriction.lists_values(),
            SegmentKind::TupleEq(_) | SegmentKind::TupleIn(..) => true,
            SegmentKind::TupleSlice { .. } => false,
        }
    }
}

impl ClusteringRestrictions {
    pub(crate) fn new(table: &Arc<TableMetadata>) -> Self {
        Self {
            table: table.clone(),
            segments: Vec::new(),
            columns: table.clustering.clone(),
            comparator: table.comparator.clone(),
            refusal: None,
            omits_nulls: false,
        }
    }

    /// Whether no clustering column is restricted.
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Whether any column has an IN.
    pub fn has_in(&self) -> bool {
        self.segments.iter().any(|segment| {
            matches!(segment.what, SegmentKind::TupleIn(..) | SegmentKind::Single(ColumnRestriction::In(_)))
        })
    }

    /// Whether the column at `position` is restricted to one value.
    pub fn is_equal(&self, position: usize) -> bool {
        self.segments.iter().any(|segment| {
            let within = (segment.first..segment.first + segment.width()).contains(&position);
            within
                && matches!(
                    segment.what,
                    SegmentKind::TupleEq(_) | SegmentKind::Single(ColumnRestriction::Eq(_))
                )
        })
    }

    /// Whether every clustering column is restricted to listed values, or is omitted and therefore
    /// null, so that individual rows are named. True if the table has no clustering columns.
    pub fn names_rows(&self) -> bool {
        (self.omits_nulls || self.segments.iter().map(Segment::width).sum::<usize>() == self.columns.len())
            && self.segments.iter().all(Segment::lists_values)
    }

    /// Returns the restrictions of single columns, and the equalities of tuples, column by column.
    pub(crate) fn single_columns(&self) -> Vec<(Arc<ColumnMetadata>, ColumnRestriction)> {
        let mut all = Vec::new();
        for segment in &self.segments {
            let columns = self.columns[segment.first..].iter().cloned();
            match &segment.what {
                SegmentKind::Single(restriction) => {
                    all.extend(columns.take(1).map(|column| (column, restriction.clone())));
                }
                SegmentKind::TupleEq(Tuple::Terms(terms)) => {
                    all.extend(columns.zip(terms.iter().cloned().map(ColumnRestriction::Eq)));
                }
                SegmentKind::TupleEq(Tuple::Marker(..))
                | SegmentKind::TupleIn(..)
                | SegmentKind::TupleSlice { .. } => {}
            }
        }
        all
    }

    /// Returns all restricted columns.
    pub(crate) fn restricted_columns(&self) -> Vec<Arc<ColumnMetadata>> {
        let of_segment = |segment: &Segment| self.columns.get(segment.first..segment.first + segment.width());
        self.segments.iter().filter_map(of_segment).flatten().cloned().collect()
    }

    /// Returns the form of each restriction with its columns, in their order.
    pub(crate) fn shapes(&self) -> impl Iterator<Item = (&[Arc<ColumnMetadata>], Shape<'_>)> {
        self.segments.iter().filter_map(|segment| {
            let columns = self.columns.get(segment.first..segment.first + segment.width())?;
            let shape = match &segment.what {
                SegmentKind::Single(restriction) => Shape::Column(restriction),
                SegmentKind::TupleEq(_) => Shape::TupleEq,
                SegmentKind::TupleIn(..) => Shape::TupleIn,
                SegmentKind::TupleSlice { .. } => Shape::TupleSlice,
            };
            Some((columns, shape))
        })
    }

    /// Whether [`single_columns`](Self::single_columns) contain all restrictions except ranges of
    /// tuples.
    pub(crate) fn is_of_single_columns_and_slices(&self) -> bool {
        self.segments.iter().all(|segment| {
            !matches!(segment.what, SegmentKind::TupleIn(..) | SegmentKind::TupleEq(Tuple::Marker(..)))
        })
    }

    /// Returns the reason why the remaining restrictions cannot be filters.
    pub(crate) fn refusal(&self) -> Option<&'static str> {
        self.refusal
    }

    /// Checks that the statement supports the restrictions, and returns the filters. `has_index`:
    /// an index supports some restriction of the statement.
    pub(crate) fn validate(&mut self, rules: Rules, has_index: bool) -> Result<Vec<Filter>> {
        let has_slice = self.segments.iter().any(Segment::is_slice);
        if !rules.allow_clustering_slices {
            if has_slice {
                bail_invalid!(
                    "Slice restrictions are not supported on the clustering columns in {} statements",
                    rules.kind
                );
            }
            self.omits_nulls = self.table.layout.is_compact() && !self.segments.is_empty();
        }
        if !rules.allow_clustering_slices && !self.omits_nulls {
            let missing: Vec<&str> = self
                .columns
                .iter()
                .filter(|c| {
                    !self.segments.iter().any(|s| s.first <= c.position && c.position < s.first + s.width())
                })
                .map(|c| c.name.as_str())
                .collect();
            if !rules.only_static_columns && !missing.is_empty() {
                bail_invalid!("Some clustering keys are missing: {}", missing.join(", "));
            }
            // An INSERT of static columns that names one clustering column must name all.
            if rules.only_static_columns && !self.segments.is_empty() && !missing.is_empty() {
                bail_invalid!("Some clustering keys are missing: {}", missing.join(", "));
            }
            return Ok(Vec::new());
        }
        if !rules.allow_filtering
            && !has_index
            && self
                .segments
                .iter()
                .any(|s| matches!(s.what, SegmentKind::Single(ColumnRestriction::Contains { .. })))
        {
            bail_invalid!(
                "Clustering columns can only be restricted with CONTAINS with a secondary index or filtering"
            );
        }
        // After a gap, or after a slice that is followed by another restriction, only filtering is
        // possible.
        let mut position = 0;
        let mut usable = 0;
        for segment in &self.segments {
            let is_filter = matches!(
                segment.what,
                SegmentKind::Single(ColumnRestriction::Contains { .. } | ColumnRestriction::Like(_))
            );
            if segment.first != position || is_filter {
                break;
            }
            usable += 1;
            position += segment.width();
            if segment.is_slice() {
                break;
            }
        }
        if usable == self.segments.len() {
            return Ok(Vec::new());
        }
        if !rules.allow_filtering && !has_index {
            let restricted = self.segments[usable].first;
            let (column, preceding) = (&self.columns[restricted], &self.columns[position.min(restricted)]);
            bail_invalid!(
                "PRIMARY KEY column \"{}\" cannot be restricted as preceding column \"{}\" is not restricted",
                column.name,
                preceding.name
            );
        }
        let rest = self.segments.split_off(usable);
        Ok(rest.into_iter().flat_map(|segment| self.filters(segment)).collect())
    }

    fn filters(&mut self, segment: Segment) -> Vec<Filter> {
        let filter = |position: usize, restriction: ColumnRestriction| Filter {
            column: self.columns[position].clone(),
            restriction,
            analyzers: Analyzers::default(),
        };
        match segment.what {
            SegmentKind::Single(restriction) => vec![filter(segment.first, restriction)],
            SegmentKind::TupleIn(values, 1) => {
                vec![filter(segment.first, ColumnRestriction::In(only_items(values)))]
            }
            SegmentKind::TupleIn(..) => {
                self.refusal.get_or_insert(NO_TUPLE_IN_FILTERS);
                Vec::new()
            }
            SegmentKind::TupleSlice { .. } => {
                self.refusal.get_or_insert(NO_TUPLE_SLICE_FILTERS);
                Vec::new()
            }
            SegmentKind::TupleEq(Tuple::Terms(terms)) => (segment.first..)
                .zip(terms)
                .map(|(position, term)| filter(position, ColumnRestriction::Eq(term)))
                .collect(),
            SegmentKind::TupleEq(Tuple::Marker(tuple, width)) => (0..width)
                .map(|index| {
                    let item = Term::Item { of: Box::new(tuple.clone()), index };
                    filter(segment.first + index, ColumnRestriction::Eq(item))
                })
                .collect(),
        }
    }
}

/// Converts `(c) IN ((1), (2))` to `c IN (1, 2)`.
fn only_items(values: TupleIn) -> InTerms {
    let item = |tuple: Tuple| match tuple {
        Tuple::Terms(terms) => terms.into_iter().next().unwrap_or(Term::Null),
        Tuple::Marker(tuple, _) => Term::Item { of: Box::new(tuple), index: 0 },
    };
    match values {
        TupleIn::Tuples(tuples) => InTerms::Terms(tuples.into_iter().map(item).collect()),
        TupleIn::Marker(marker) => InTerms::TupleMarker(marker),
    }
}
