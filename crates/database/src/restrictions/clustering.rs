//! Restrictions of clustering columns: slices, or rows one by one.

use std::borrow::Cow;
use std::sync::Arc;

use cassette_cql::ast::{Operator, TupleInValues, TupleValue};
use cassette_rows::types::collection;
use cassette_rows::{
    Bound as Edge, Clustering, ClusteringComparator, ColumnMetadata, DataType, Slice, Slices, TableMetadata,
};

use super::column::{ColumnRestriction, SliceTerms, names};
use super::{Filter, Rules, named_receiver, receiver};
use crate::error::{Result, bail_invalid};
use crate::execution::Execution;
use crate::plan::PlanContext;
use crate::terms::{Bound, Term};

/// What a WHERE says of the clustering columns.
#[derive(Debug)]
pub(crate) struct ClusteringRestrictions {
    /// Ascending by first column; they do not overlap.
    segments: Vec<Segment>,
    columns: Vec<Arc<ColumnMetadata>>,
    comparator: ClusteringComparator,
    table: Arc<TableMetadata>,
}

/// A restriction of neighbouring columns.
#[derive(Debug)]
struct Segment {
    /// Position of its first column.
    first: usize,
    what: SegmentKind,
}

#[derive(Debug)]
enum SegmentKind {
    /// Of one column.
    Single(ColumnRestriction),
    /// `(a, b) = (…)`
    TupleEq(Tuple),
    /// `(a, b) IN (…)`, with the number of columns.
    TupleIn(TupleIn, usize),
    /// `(a, b) > (…)`, and how many columns the longer bound has.
    TupleSlice { lower: Option<(Tuple, bool)>, upper: Option<(Tuple, bool)>, width: usize },
}

/// A tuple on the right-hand side.
#[derive(Debug)]
enum Tuple {
    Terms(Vec<Term>),
    /// Bound whole.
    Marker(Term, usize),
}

#[derive(Debug)]
enum TupleIn {
    Tuples(Vec<Tuple>),
    /// A list of tuples, bound whole.
    Marker(Term),
}

impl SegmentKind {
    /// A slice of one column, as one of a tuple.
    fn of_slice(slice: SliceTerms) -> Self {
        let bound =
            |side: Option<(Term, bool)>| side.map(|(term, inclusive)| (Tuple::Terms(vec![term]), inclusive));
        Self::TupleSlice { lower: bound(slice.lower), upper: bound(slice.upper), width: 1 }
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

    /// Whether it lists values that rows can be looked up by.
    fn lists_values(&self) -> bool {
        match &self.what {
            SegmentKind::Single(restriction) => restriction.lists_values(),
            SegmentKind::TupleEq(_) | SegmentKind::TupleIn(..) => true,
            SegmentKind::TupleSlice { .. } => false,
        }
    }
}

impl ClusteringRestrictions {
    pub(super) fn new(table: &Arc<TableMetadata>) -> Self {
        Self {
            table: table.clone(),
            segments: Vec::new(),
            columns: table.clustering.clone(),
            comparator: table.comparator.clone(),
        }
    }

    /// Whether nothing is said of the clustering columns.
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Whether some column has an IN.
    pub fn has_in(&self) -> bool {
        self.segments.iter().any(|segment| {
            matches!(segment.what, SegmentKind::TupleIn(..) | SegmentKind::Single(ColumnRestriction::In(_)))
        })
    }

    /// Whether the column at `position` is given one value.
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

    /// Whether every clustering column is given values, so that rows are named one by one. True when the table has
    /// no clustering columns.
    pub fn names_rows(&self) -> bool {
        self.segments.iter().map(Segment::width).sum::<usize>() == self.columns.len()
            && self.segments.iter().all(Segment::lists_values)
    }

    pub(super) fn add(
        &mut self,
        column: &ColumnMetadata,
        restriction: ColumnRestriction,
        allow_filtering: bool,
    ) -> Result<()> {
        for segment in &mut self.segments {
            if segment.first <= column.position && column.position < segment.first + segment.width() {
                return match (&mut segment.what, restriction) {
                    (SegmentKind::Single(old), restriction) => old.merge(restriction, &column.name),
                    (SegmentKind::TupleSlice { .. }, ColumnRestriction::Slice(slice)) => {
                        let columns = self.columns[column.position..=column.position].to_vec();
                        let what = SegmentKind::of_slice(slice);
                        self.add_multi(&columns, Segment { first: column.position, what }, allow_filtering)
                    }
                    (SegmentKind::TupleSlice { .. }, _) => bail_invalid!(
                        "Column \"{}\" cannot be restricted by both an equality and an inequality relation",
                        column.name
                    ),
                    (SegmentKind::TupleEq(_), _) => bail_invalid!(
                        "{} cannot be restricted by more than one relation if it includes an Equal",
                        column.name
                    ),
                    (SegmentKind::TupleIn(..), _) => bail_invalid!(
                        "{} cannot be restricted by more than one relation if it includes a IN",
                        column.name
                    ),
                };
            }
        }
        self.insert(
            Segment { first: column.position, what: SegmentKind::Single(restriction) },
            allow_filtering,
        )
    }

    pub(super) fn add_tuple(
        &mut self,
        columns: &[Arc<ColumnMetadata>],
        operator: Operator,
        value: &TupleValue,
        allow_filtering: bool,
        cx: &mut PlanContext<'_>,
    ) -> Result<()> {
        let tuple = self.tuple(columns, value, cx)?;
        let width = columns.len();
        let first = columns.first().map_or(0, |c| c.position);
        let what = match operator {
            Operator::Eq => SegmentKind::TupleEq(tuple),
            Operator::Gt | Operator::Gte => SegmentKind::TupleSlice {
                lower: Some((tuple, operator == Operator::Gte)),
                upper: None,
                width,
            },
            Operator::Lt | Operator::Lte => SegmentKind::TupleSlice {
                lower: None,
                upper: Some((tuple, operator == Operator::Lte)),
                width,
            },
            _ => bail_invalid!("{operator} cannot be used for multi-column relations"),
        };
        self.add_multi(columns, Segment { first, what }, allow_filtering)
    }

    pub(super) fn add_tuple_in(
        &mut self,
        columns: &[Arc<ColumnMetadata>],
        values: &TupleInValues,
        allow_filtering: bool,
        cx: &mut PlanContext<'_>,
    ) -> Result<()> {
        let first = columns.first().map_or(0, |c| c.position);
        let tuples = match values {
            TupleInValues::Literals(tuples) => TupleIn::Tuples(
                tuples
                    .iter()
                    .map(|terms| self.tuple(columns, &TupleValue::Literal(terms.clone()), cx))
                    .collect::<Result<Vec<_>>>()?,
            ),
            TupleInValues::BindMarkers(markers) => TupleIn::Tuples(
                markers
                    .iter()
                    .map(|marker| self.tuple(columns, &TupleValue::BindMarker(marker.clone()), cx))
                    .collect::<Result<Vec<_>>>()?,
            ),
            TupleInValues::BindMarker(marker) => {
                let list = DataType::list(tuple_type(columns)).freeze();
                let spec = named_receiver(&self.table, &format!("in({})", joined(columns)), list);
                TupleIn::Marker(Term::marker(marker, &spec, cx))
            }
        };
        let what = match tuples {
            TupleIn::Tuples(mut tuples) if tuples.len() == 1 => SegmentKind::TupleEq(tuples.remove(0)),
            tuples => SegmentKind::TupleIn(tuples, columns.len()),
        };
        self.add_multi(columns, Segment { first, what }, allow_filtering)
    }

    fn add_multi(
        &mut self,
        columns: &[Arc<ColumnMetadata>],
        segment: Segment,
        allow_filtering: bool,
    ) -> Result<()> {
        let end = segment.first + columns.len();
        let overlapping =
            self.segments.iter_mut().find(|old| old.first < end && segment.first < old.first + old.width());
        let Some(old) = overlapping else { return self.insert(segment, allow_filtering) };
        let restricted = old.first..old.first + old.width();
        let common = columns.iter().filter(|column| restricted.contains(&column.position));
        let common = common.map(|column| column.name.as_str()).collect::<Vec<_>>().join(" ,");
        if let (SegmentKind::Single(ColumnRestriction::Slice(slice)), SegmentKind::TupleSlice { .. }) =
            (&mut old.what, &segment.what)
        {
            old.what = SegmentKind::of_slice(std::mem::take(slice));
        }
        match (&mut old.what, segment.what) {
            (
                SegmentKind::TupleSlice { lower, upper, width },
                SegmentKind::TupleSlice { lower: new_lower, upper: new_upper, width: new_width },
            ) => {
                if old.first != segment.first {
                    bail_invalid!(
                        "Column \"{}\" cannot be restricted by two inequalities not starting with the same column",
                        self.columns[old.first.max(segment.first)].name
                    );
                }
                if lower.is_some() && new_lower.is_some() {
                    bail_invalid!("More than one restriction was found for the start bound on {common}");
                }
                if upper.is_some() && new_upper.is_some() {
                    bail_invalid!("More than one restriction was found for the end bound on {common}");
                }
                *lower = lower.take().or(new_lower);
                *upper = upper.take().or(new_upper);
                *width = (*width).max(new_width);
                Ok(())
            }
            (SegmentKind::TupleSlice { .. } | SegmentKind::Single(ColumnRestriction::Slice(_)), _) => {
                bail_invalid!(
                    "Column \"{common}\" cannot be restricted by both an equality and an inequality relation"
                )
            }
            (SegmentKind::TupleIn(..) | SegmentKind::Single(ColumnRestriction::In(_)), _) => {
                bail_invalid!("{common} cannot be restricted by more than one relation if it includes a IN")
            }
            _ => bail_invalid!(
                "{common} cannot be restricted by more than one relation if it includes an Equal"
            ),
        }
    }

    fn insert(&mut self, segment: Segment, allow_filtering: bool) -> Result<()> {
        if !allow_filtering && let Some(last) = self.segments.last() {
            let name = |position: usize| self.columns.get(position).map_or("", |c| c.name.as_str());
            if last.is_slice() && segment.first > last.first {
                bail_invalid!(
                    "Clustering column \"{}\" cannot be restricted (preceding column \"{}\" is restricted by a non-EQ relation)",
                    name(segment.first),
                    name(last.first)
                );
            }
            if segment.first < last.first && segment.is_slice() {
                let next = self.segments.iter().find(|s| s.first > segment.first).map_or(0, |s| s.first);
                bail_invalid!(
                    "PRIMARY KEY column \"{}\" cannot be restricted (preceding column \"{}\" is restricted by a non-EQ relation)",
                    name(next),
                    name(segment.first)
                );
            }
        }
        let at = self.segments.partition_point(|s| s.first < segment.first);
        self.segments.insert(at, segment);
        Ok(())
    }

    fn tuple(
        &self,
        columns: &[Arc<ColumnMetadata>],
        value: &TupleValue,
        cx: &mut PlanContext<'_>,
    ) -> Result<Tuple> {
        match value {
            TupleValue::Literal(terms) => {
                if terms.len() != columns.len() {
                    bail_invalid!(
                        "Expected {} elements in value tuple, but got {}: ({})",
                        columns.len(),
                        terms.len(),
                        terms.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
                    );
                }
                let terms = terms
                    .iter()
                    .zip(columns)
                    .map(|(term, column)| Term::prepare(term, &receiver(&self.table, column), cx))
                    .collect::<Result<Vec<_>>>()?;
                Ok(Tuple::Terms(terms))
            }
            TupleValue::BindMarker(marker) => {
                let spec = named_receiver(&self.table, &joined(columns), tuple_type(columns));
                Ok(Tuple::Marker(Term::marker(marker, &spec, cx), columns.len()))
            }
        }
    }

    /// Checks what the statement can do with it; what must be filtered comes back.
    pub(super) fn validate(&mut self, rules: Rules) -> Result<Vec<Filter>> {
        let has_slice = self.segments.iter().any(Segment::is_slice);
        if !rules.allow_clustering_slices {
            if has_slice {
                bail_invalid!(
                    "Slice restrictions are not supported on the clustering columns in {} statements",
                    rules.kind
                );
            }
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
            // An INSERT of static columns that names some clustering columns must name all.
            if rules.only_static_columns && !self.segments.is_empty() && !missing.is_empty() {
                bail_invalid!("Some clustering keys are missing: {}", missing.join(", "));
            }
            return Ok(Vec::new());
        }
        if !rules.allow_filtering
            && self
                .segments
                .iter()
                .any(|s| matches!(s.what, SegmentKind::Single(ColumnRestriction::Contains { .. })))
        {
            bail_invalid!(
                "Clustering columns can only be restricted with CONTAINS with a secondary index or filtering"
            );
        }
        // From the first gap, or the first slice that something follows, the rest can only be filtered.
        let mut position = 0;
        let mut usable = 0;
        for segment in &self.segments {
            let contains = matches!(segment.what, SegmentKind::Single(ColumnRestriction::Contains { .. }));
            if segment.first != position || contains {
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
        if !rules.allow_filtering {
            let restricted = self.segments[usable].first;
            let (column, preceding) = (&self.columns[restricted], &self.columns[position.min(restricted)]);
            bail_invalid!(
                "PRIMARY KEY column \"{}\" cannot be restricted as preceding column \"{}\" is not restricted",
                column.name,
                preceding.name
            );
        }
        let filters = self
            .segments
            .split_off(usable)
            .into_iter()
            .map(|segment| self.filters(segment))
            .collect::<Result<Vec<_>>>();
        Ok(filters?.into_iter().flatten().collect())
    }

    fn filters(&self, segment: Segment) -> Result<Vec<Filter>> {
        let filter = |position: usize, restriction: ColumnRestriction| Filter {
            column: self.columns[position].clone(),
            restriction,
        };
        match segment.what {
            SegmentKind::Single(restriction) => Ok(vec![filter(segment.first, restriction)]),
            SegmentKind::TupleIn(..) => bail_invalid!("Multicolumn IN filters are not supported"),
            SegmentKind::TupleSlice { .. } => {
                bail_invalid!("Multi-column slice restrictions cannot be used for filtering.")
            }
            SegmentKind::TupleEq(Tuple::Terms(terms)) => Ok((segment.first..)
                .zip(terms)
                .map(|(position, term)| filter(position, ColumnRestriction::Eq(term)))
                .collect()),
            SegmentKind::TupleEq(Tuple::Marker(..)) => {
                bail_invalid!("Filtering by a tuple that is bound whole is not supported by Cassette yet")
            }
        }
    }

    /// The slices of one execution, in the table's order.
    ///
    /// # Errors
    /// Invalid, for null and unset values.
    pub fn slices(&self, execution: &Execution<'_>) -> Result<Slices> {
        let mut prefixes: Vec<Vec<Cow<'_, [u8]>>> = vec![Vec::new()];
        for segment in &self.segments {
            match &segment.what {
                SegmentKind::Single(ColumnRestriction::Slice(slice)) => {
                    return self.slices_of_column(&prefixes, segment.first, slice, execution);
                }
                SegmentKind::TupleSlice { lower, upper, .. } => {
                    return self.slices_of_tuple(&prefixes, segment.first, lower, upper, execution);
                }
                _ => prefixes = self.extend(prefixes, segment, execution)?,
            }
        }
        let slices = prefixes.iter().map(|prefix| Slice::prefix(clustering(prefix))).collect();
        Ok(Slices::new(slices, &self.comparator))
    }

    /// The rows of one execution, when rows are named: ascending in the table's order, none twice.
    pub fn clusterings(&self, execution: &Execution<'_>) -> Result<Vec<Clustering>> {
        let mut prefixes: Vec<Vec<Cow<'_, [u8]>>> = vec![Vec::new()];
        for segment in &self.segments {
            prefixes = self.extend(prefixes, segment, execution)?;
        }
        let mut rows: Vec<Clustering> = prefixes.iter().map(|prefix| clustering(prefix)).collect();
        rows.sort_by(|a, b| self.comparator.compare_rows(a, b));
        rows.dedup_by(|a, b| self.comparator.compare_rows(a, b).is_eq());
        Ok(rows)
    }

    /// Each prefix with each of the segment's values behind it.
    fn extend<'a>(
        &'a self,
        prefixes: Vec<Vec<Cow<'a, [u8]>>>,
        segment: &'a Segment,
        execution: &Execution<'a>,
    ) -> Result<Vec<Vec<Cow<'a, [u8]>>>> {
        let tails: Vec<Vec<Cow<'a, [u8]>>> = match &segment.what {
            SegmentKind::Single(restriction) => {
                let name = &self.columns[segment.first].name;
                restriction.values(name, execution)?.into_iter().map(|value| vec![value]).collect()
            }
            SegmentKind::TupleEq(tuple) => {
                let values = self.values(tuple, segment.first, execution)?.into_iter();
                vec![
                    values
                        .zip(&self.columns[segment.first..])
                        .map(|(value, column)| match value {
                            Some(value) => Ok(value),
                            None => bail_invalid!("Invalid null value for column {}", column.name),
                        })
                        .collect::<Result<Vec<_>>>()?,
                ]
            }
            SegmentKind::TupleIn(TupleIn::Tuples(tuples), width) => tuples
                .iter()
                .map(|tuple| {
                    let values = self.values(tuple, segment.first, execution)?;
                    self.all_present(values, segment.first, *width)
                })
                .collect::<Result<Vec<_>>>()?,
            SegmentKind::TupleIn(TupleIn::Marker(marker), width) => match marker.bind(execution)? {
                Bound::Value(list) => collection::read_list(&list)
                    .map(|tuple| match tuple {
                        Some(tuple) => self.all_present(items(tuple, *width), segment.first, *width),
                        None => bail_invalid!("Invalid null value for IN restriction"),
                    })
                    .collect::<Result<Vec<_>>>()?,
                _ => bail_invalid!("Invalid null value for IN restriction"),
            },
            SegmentKind::TupleSlice { .. } => Vec::new(),
        };
        if let ([prefix], [tail]) = (&prefixes[..], &tails[..]) {
            return Ok(vec![[&prefix[..], &tail[..]].concat()]);
        }
        let product = prefixes
            .iter()
            .flat_map(|prefix| tails.iter().map(move |tail| [&prefix[..], &tail[..]].concat()));
        Ok(product.collect())
    }

    /// The values of a tuple in IN, none of which may be null.
    fn all_present<'a>(
        &self,
        values: Vec<Option<Cow<'a, [u8]>>>,
        first: usize,
        width: usize,
    ) -> Result<Vec<Cow<'a, [u8]>>> {
        match values.into_iter().collect() {
            Some(values) => Ok(values),
            None => bail_invalid!(
                "Invalid null value in condition for columns: [{}]",
                names(&self.columns[first..first + width])
            ),
        }
    }

    /// The values of a tuple that begins at column `first`.
    fn values<'a>(
        &self,
        tuple: &'a Tuple,
        first: usize,
        execution: &Execution<'a>,
    ) -> Result<Vec<Option<Cow<'a, [u8]>>>> {
        match tuple {
            Tuple::Terms(terms) => terms
                .iter()
                .zip(&self.columns[first..])
                .map(|(term, column)| match term.bind(execution)? {
                    Bound::Value(value) => Ok(Some(value)),
                    Bound::Null => Ok(None),
                    Bound::Unset => bail_invalid!("Invalid unset value for column {}", column.name),
                })
                .collect(),
            Tuple::Marker(marker, width) => match marker.bind(execution)? {
                Bound::Value(bytes) => Ok(items(&bytes, *width)),
                _ => bail_invalid!(
                    "Invalid null value in condition for columns: [{}]",
                    names(&self.columns[first..first + width])
                ),
            },
        }
    }

    fn slices_of_column(
        &self,
        prefixes: &[Vec<Cow<'_, [u8]>>],
        position: usize,
        slice: &SliceTerms,
        execution: &Execution<'_>,
    ) -> Result<Slices> {
        let name = &self.columns[position].name;
        let bound = |side: &Option<(Term, bool)>| match side {
            None => Ok(None),
            Some((term, inclusive)) => match term.bind(execution)? {
                Bound::Value(value) => Ok(Some((Some(value.into_owned()), *inclusive))),
                // As in Cassandra, null comes before all values.
                Bound::Null => Ok(Some((None, *inclusive))),
                Bound::Unset => bail_invalid!("Invalid unset value for column {name}"),
            },
        };
        let (lower, upper) = (bound(&slice.lower)?, bound(&slice.upper)?);
        let slices = prefixes
            .iter()
            .map(|prefix| {
                let lower = lower.as_ref().map(|(value, inclusive)| (value.as_deref(), *inclusive));
                let upper = upper.as_ref().map(|(value, inclusive)| (value.as_deref(), *inclusive));
                self.range(prefix, lower, upper)
            })
            .collect();
        Ok(Slices::new(slices, &self.comparator))
    }

    /// The rows that begin with `prefix` and whose next column lies between two values, in the order of its type.
    fn range(
        &self,
        prefix: &[Cow<'_, [u8]>],
        lower: Option<(Option<&[u8]>, bool)>,
        upper: Option<(Option<&[u8]>, bool)>,
    ) -> Slice {
        let reversed = self.columns.get(prefix.len()).is_some_and(|c| c.reversed);
        let (first, last) = if reversed { (upper, lower) } else { (lower, upper) };
        let with = |value: Option<&[u8]>| {
            Clustering::new(prefix.iter().map(|v| Some(&**v)).chain(std::iter::once(value)))
        };
        Slice {
            start: match first {
                None => Edge::before(clustering(prefix)),
                Some((value, true)) => Edge::before(with(value)),
                Some((value, false)) => Edge::after(with(value)),
            },
            end: match last {
                None => Edge::after(clustering(prefix)),
                Some((value, true)) => Edge::after(with(value)),
                Some((value, false)) => Edge::before(with(value)),
            },
        }
    }

    fn slices_of_tuple(
        &self,
        prefixes: &[Vec<Cow<'_, [u8]>>],
        first: usize,
        lower: &Option<(Tuple, bool)>,
        upper: &Option<(Tuple, bool)>,
        execution: &Execution<'_>,
    ) -> Result<Slices> {
        let mut all = Vec::new();
        for prefix in prefixes {
            let whole = Slices::new(vec![Slice::prefix(clustering(prefix))], &self.comparator);
            let mut within = whole;
            for (side, above) in [(lower, true), (upper, false)] {
                if let Some((tuple, inclusive)) = side {
                    let values = self.values(tuple, first, execution)?.into_iter();
                    let values = values
                        .zip(&self.columns[first..])
                        .map(|(value, column)| match value {
                            Some(value) => Ok(value),
                            None => {
                                bail_invalid!("Invalid null value in condition for column {}", column.name)
                            }
                        })
                        .collect::<Result<Vec<_>>>()?;
                    let pieces = self.beyond(prefix, &values, above, *inclusive);
                    within = within.intersection(&Slices::new(pieces, &self.comparator), &self.comparator);
                }
            }
            all.extend_from_slice(within.as_slice());
        }
        Ok(Slices::new(all, &self.comparator))
    }

    /// The rows that begin with `prefix` and whose next columns are above (or below) `values`, compared one after the
    /// other in the order of their types: `(a, b) > (1, 2)` is `a = 1 AND b > 2` or `a > 1`. With columns of both
    /// orders these are no neighbours.
    fn beyond(
        &self,
        prefix: &[Cow<'_, [u8]>],
        values: &[Cow<'_, [u8]>],
        above: bool,
        inclusive: bool,
    ) -> Vec<Slice> {
        (0..values.len())
            .map(|i| {
                let equal: Vec<Cow<'_, [u8]>> = prefix.iter().chain(&values[..i]).cloned().collect();
                let edge = Some((Some(&*values[i]), inclusive && i + 1 == values.len()));
                if above { self.range(&equal, edge, None) } else { self.range(&equal, None, edge) }
            })
            .collect()
    }
}

/// The first `width` items of a tuple that was bound whole.
fn items(bytes: &[u8], width: usize) -> Vec<Option<Cow<'static, [u8]>>> {
    let items = collection::read_tuple(bytes).chain(std::iter::repeat(None));
    items.take(width).map(|item| item.map(|value| Cow::Owned(value.to_vec()))).collect()
}

fn clustering(values: &[Cow<'_, [u8]>]) -> Clustering {
    Clustering::new(values.iter().map(|v| Some(&**v)))
}

fn tuple_type(columns: &[Arc<ColumnMetadata>]) -> DataType {
    DataType::tuple(columns.iter().map(|c| c.data_type.clone()))
}

fn joined(columns: &[Arc<ColumnMetadata>]) -> String {
    format!("({})", columns.iter().map(|c| c.name.as_str()).collect::<Vec<_>>().join(","))
}
