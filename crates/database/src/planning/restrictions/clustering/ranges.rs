//! From restrictions and the values of one execution to slices and rows.

use std::borrow::Cow;

use cassette_rows::types::collection;
use cassette_rows::{Bound as Edge, Clustering, Slice, Slices, interrupt};

use super::add::joined;
use super::{Segment, SegmentKind, Tuple, TupleIn};
use crate::basics::error::{Result, bail_invalid};
use crate::planning::context::BindContext;
use crate::planning::restrictions::ClusteringRestrictions;
use crate::planning::restrictions::column::{names, not_null};
use crate::planning::restrictions::product::{self, Product};
use crate::planning::terms::Bound;
use crate::schema::conditions::{ColumnRestriction, SliceTerms, Term};

impl ClusteringRestrictions {
    /// Whether no row is named, or only empty ranges.
    pub fn excludes_all(&self, cx: &BindContext<'_>) -> Result<bool> {
        Ok(if self.names_rows() {
            self.clusterings(cx)?.is_empty()
        } else {
            self.slices(cx)?.as_slice().is_empty()
        })
    }

    /// Returns the slices of one execution, in the table's order.
    ///
    /// # Errors
    /// Invalid, for null and unset values.
    pub fn slices(&self, cx: &BindContext<'_>) -> Result<Slices> {
        let mut prefixes: Vec<Vec<Cow<'_, [u8]>>> = vec![Vec::new()];
        for segment in &self.segments {
            match &segment.what {
                SegmentKind::Single(ColumnRestriction::Slice(slice)) => {
                    return self.slices_of_column(&prefixes, segment.first, slice, cx);
                }
                SegmentKind::TupleSlice { lower, upper, .. } => {
                    return self.slices_of_tuple(&prefixes, segment.first, lower, upper, cx);
                }
                _ => prefixes = self.extend(prefixes, segment, cx)?,
            }
        }
        let slices = prefixes.iter().map(|prefix| Slice::prefix(clustering(prefix))).collect();
        Ok(Slices::new(slices, &self.comparator))
    }

    /// Returns the named rows of one execution, ascending in the table's order without repetitions.
    pub fn clusterings(&self, cx: &BindContext<'_>) -> Result<Vec<Clustering>> {
        let mut prefixes: Vec<Vec<Cow<'_, [u8]>>> = vec![Vec::new()];
        for segment in &self.segments {
            prefixes = self.extend(prefixes, segment, cx)?;
        }
        let mut rows: Vec<Clustering> = if self.omits_nulls {
            prefixes.iter().map(|prefix| self.with_nulls(prefix)).collect()
        } else {
            prefixes.iter().map(|prefix| clustering(prefix)).collect()
        };
        rows.sort_by(|a, b| self.comparator.compare_rows(a, b));
        rows.dedup_by(|a, b| self.comparator.compare_rows(a, b).is_eq());
        Ok(rows)
    }

    /// Returns a clustering whose last values are null.
    fn with_nulls(&self, prefix: &[Cow<'_, [u8]>]) -> Clustering {
        let values = prefix.iter().map(|value| Some(&**value)).chain(std::iter::repeat(None));
        Clustering::new(values.take(self.columns.len()))
    }

    /// Appends each of the segment's values to each prefix.
    fn extend<'a>(
        &'a self,
        mut prefixes: Vec<Vec<Cow<'a, [u8]>>>,
        segment: &'a Segment,
        cx: &BindContext<'a>,
    ) -> Result<Vec<Vec<Cow<'a, [u8]>>>> {
        // The common case: one value and one prefix.
        if let (SegmentKind::Single(ColumnRestriction::Eq(term)), [prefix]) =
            (&segment.what, &mut prefixes[..])
        {
            prefix.push(not_null(term.bind(cx)?, &self.columns[segment.first].name)?);
            return Ok(prefixes);
        }
        let tails: Vec<Vec<Cow<'a, [u8]>>> = match &segment.what {
            SegmentKind::Single(restriction) => {
                let column = &self.columns[segment.first];
                let mut values = restriction.values(&column.name, cx)?;
                // Repeated values must not count as combinations.
                values.sort_by(|a, b| column.data_type.compare(a, b));
                values.dedup_by(|a, b| column.data_type.compare(a, b).is_eq());
                values.into_iter().map(|value| vec![value]).collect()
            }
            SegmentKind::TupleEq(tuple) => {
                let values = self.values(tuple, segment.first, cx)?.into_iter();
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
                    let values = self.values(tuple, segment.first, cx)?;
                    self.all_present(values, segment.first, *width)
                })
                .collect::<Result<Vec<_>>>()?,
            SegmentKind::TupleIn(TupleIn::Marker(marker), width) => match marker.bind(cx)? {
                Bound::Value(list) => collection::read_list(&list)
                    .map(|tuple| match tuple {
                        Some(tuple) => self.all_present(items(tuple, *width), segment.first, *width),
                        None => bail_invalid!("Invalid null value for IN restriction"),
                    })
                    .collect::<Result<Vec<_>>>()?,
                Bound::Unset => bail_invalid!(
                    "Invalid unset value for in{}",
                    joined(&self.columns[segment.first..segment.first + width])
                ),
                Bound::Null => bail_invalid!("Invalid null value for IN restriction"),
            },
            SegmentKind::TupleSlice { .. } => Vec::new(),
        };
        if let ([prefix], [tail]) = (&prefixes[..], &tails[..]) {
            return Ok(vec![[&prefix[..], &tail[..]].concat()]);
        }
        // As in Cassandra, if individual rows are named by values of all columns.
        if self.has_in() && self.names_rows() {
            cx.guard().product("clustering key", prefixes.len().saturating_mul(tails.len()))?;
        }
        let mut combinations =
            Vec::with_capacity(product::count(prefixes.len(), tails.len(), Product::ClusteringKeys)?);
        for prefix in &prefixes {
            for tail in &tails {
                interrupt::check()?;
                combinations.push([&prefix[..], &tail[..]].concat());
            }
        }
        Ok(combinations)
    }

    /// Returns the values of a tuple in IN, none of which may be null.
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

    /// Returns the values of a tuple that begins at column `first`.
    fn values<'a>(
        &self,
        tuple: &'a Tuple,
        first: usize,
        cx: &BindContext<'a>,
    ) -> Result<Vec<Option<Cow<'a, [u8]>>>> {
        match tuple {
            Tuple::Terms(terms) => terms
                .iter()
                .enumerate()
                .map(|(index, term)| match term.bind(cx)? {
                    Bound::Value(value) => Ok(Some(value)),
                    Bound::Null => Ok(None),
                    Bound::Unset => bail_invalid!("Invalid unset value for tuple field number {index}"),
                })
                .collect(),
            Tuple::Marker(marker, width) => match marker.bind(cx)? {
                Bound::Value(bytes) => Ok(items(&bytes, *width)),
                Bound::Unset => bail_invalid!(
                    "Invalid unset value for tuple {}",
                    joined(&self.columns[first..first + width])
                ),
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
        cx: &BindContext<'_>,
    ) -> Result<Slices> {
        let name = &self.columns[position].name;
        let bound = |side: &Option<(Term, bool)>| match side {
            None => Ok(None),
            Some((term, inclusive)) => match term.bind(cx)? {
                Bound::Value(value) => Ok(Some((Some(value.into_owned()), *inclusive))),
                // As in Cassandra, null sorts before all values.
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

    /// Returns the slice of rows that begin with `prefix` and whose next column is between two
    /// values, in the order of its type.
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
        cx: &BindContext<'_>,
    ) -> Result<Slices> {
        let mut all = Vec::new();
        for prefix in prefixes {
            interrupt::check()?;
            let whole = Slices::new(vec![Slice::prefix(clustering(prefix))], &self.comparator);
            let mut within = whole;
            for (side, above) in [(lower, true), (upper, false)] {
                if let Some((tuple, inclusive)) = side {
                    let values = self.values(tuple, first, cx)?.into_iter();
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

    /// Returns the rows that begin with `prefix` and whose next columns are above (or below)
    /// `values`, compared column by column in the order of their types: `(a, b) > (1, 2)` is
    /// `a = 1 AND b > 2` or `a > 1`. If the columns have different orders, these are separate
    /// slices.
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

/// Returns the first `width` items of a tuple bound to one marker.
fn items(bytes: &[u8], width: usize) -> Vec<Option<Cow<'static, [u8]>>> {
    let items = collection::read_tuple(bytes).chain(std::iter::repeat(None));
    items.take(width).map(|item| item.map(|value| Cow::Owned(value.to_vec()))).collect()
}

fn clustering(values: &[Cow<'_, [u8]>]) -> Clustering {
    Clustering::new(values.iter().map(|v| Some(&**v)))
}
