//! Adding relations: which combinations are valid.

use std::sync::Arc;

use cassette_cql::ast::{Operator, TupleInValues, TupleValue};
use cassette_rows::{ColumnMetadata, DataType};

use super::{Segment, SegmentKind, Tuple, TupleIn};
use crate::basics::error::{Result, bail_invalid};
use crate::planning::context::PlanContext;
use crate::planning::restrictions::{ClusteringRestrictions, named_receiver, receiver};
use crate::schema::conditions::{ColumnRestriction, Term};

impl ClusteringRestrictions {
    /// Adds a restriction. With `allow_gaps`, it may follow a range of another column, due to ALLOW
    /// FILTERING or an index on its column.
    pub(in crate::planning::restrictions) fn add(
        &mut self,
        column: &ColumnMetadata,
        restriction: ColumnRestriction,
        allow_gaps: bool,
    ) -> Result<()> {
        let behind = self.segments.iter().find(|segment| segment.first > column.position);
        let behind = behind.map(|segment| self.columns[segment.first].name.clone());
        for segment in &mut self.segments {
            if segment.first <= column.position && column.position < segment.first + segment.width() {
                return match (&mut segment.what, restriction) {
                    (SegmentKind::Single(old), restriction) => {
                        let is_slice = matches!(restriction, ColumnRestriction::Slice(_));
                        old.merge(restriction, &column.name)?;
                        match behind.filter(|_| is_slice && !allow_gaps) {
                            Some(next) => bail_invalid!(
                                "PRIMARY KEY column \"{next}\" cannot be restricted (preceding \
                                 column \"{}\" is restricted by a non-EQ relation)",
                                column.name
                            ),
                            None => Ok(()),
                        }
                    }
                    (SegmentKind::TupleSlice { .. }, ColumnRestriction::Slice(slice)) => {
                        let columns = self.columns[column.position..=column.position].to_vec();
                        let what = SegmentKind::of_slice(slice);
                        self.add_multi(&columns, Segment { first: column.position, what }, allow_gaps)
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
        self.insert(Segment { first: column.position, what: SegmentKind::Single(restriction) }, allow_gaps)
    }

    pub(in crate::planning::restrictions) fn add_tuple(
        &mut self,
        columns: &[Arc<ColumnMetadata>],
        operator: Operator,
        value: &TupleValue,
        allow_gaps: bool,
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
        self.add_multi(columns, Segment { first, what }, allow_gaps)
    }

    pub(in crate::planning::restrictions) fn add_tuple_in(
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
                let spec = named_receiver(&self.table, &format!("in{}", joined(columns)), list);
                TupleIn::Marker(Term::marker(marker, &spec, cx))
            }
        };
        let what = match tuples {
            TupleIn::Tuples(mut tuples) if tuples.len() == 1 => SegmentKind::TupleEq(tuples.remove(0)),
            tuples => SegmentKind::TupleIn(tuples, columns.len()),
        };
        self.add_multi(columns, Segment { first, what }, allow_filtering)
    }

    /// Adds a restriction of `columns`, which may be merged with another one of the same columns.
    fn add_multi(
        &mut self,
        columns: &[Arc<ColumnMetadata>],
        segment: Segment,
        allow_filtering: bool,
    ) -> Result<()> {
        let end = segment.first + columns.len();
        let overlaps = |old: &Segment| old.first < end && segment.first < old.first + old.width();
        for old in self.segments.iter().filter(|old| overlaps(old)) {
            self.check_merge(columns, old, &segment)?;
        }
        let Some(old) = self.segments.iter_mut().find(|old| overlaps(old)) else {
            return self.insert(segment, allow_filtering);
        };
        if let SegmentKind::Single(ColumnRestriction::Slice(slice)) = &mut old.what {
            old.what = SegmentKind::of_slice(std::mem::take(slice));
        }
        if let (
            SegmentKind::TupleSlice { lower, upper, width },
            SegmentKind::TupleSlice { lower: new_lower, upper: new_upper, width: new_width },
        ) = (&mut old.what, segment.what)
        {
            *lower = lower.take().or(new_lower);
            *upper = upper.take().or(new_upper);
            *width = (*width).max(new_width);
        }
        Ok(())
    }

    /// Rejects a restriction of `columns` that cannot be merged with one of some of these columns:
    /// only two ranges with the same first column can, which have different bounds.
    fn check_merge(&self, columns: &[Arc<ColumnMetadata>], old: &Segment, new: &Segment) -> Result<()> {
        let restricted = old.first..old.first + old.width();
        let common = columns.iter().filter(|column| restricted.contains(&column.position));
        let common = common.map(|column| column.name.as_str()).collect::<Vec<_>>().join(" ,");
        match &old.what {
            _ if old.is_slice() && !new.is_slice() => bail_invalid!(
                "Column \"{common}\" cannot be restricted by both an equality and an inequality relation"
            ),
            _ if old.is_slice() => {
                if old.first != new.first {
                    bail_invalid!(
                        "Column \"{}\" cannot be restricted by two inequalities not starting with the same column",
                        self.columns[old.first.max(new.first)].name
                    );
                }
                let ((lower, upper), (new_lower, new_upper)) = (old.what.bounds(), new.what.bounds());
                if lower && new_lower {
                    bail_invalid!("More than one restriction was found for the start bound on {common}");
                }
                if upper && new_upper {
                    bail_invalid!("More than one restriction was found for the end bound on {common}");
                }
                Ok(())
            }
            SegmentKind::TupleIn(..) | SegmentKind::Single(ColumnRestriction::In(_)) => {
                bail_invalid!("{common} cannot be restricted by more than one relation if it includes a IN")
            }
            SegmentKind::Single(ColumnRestriction::Contains { .. }) => bail_invalid!(
                "Collection column {common} can only be restricted by CONTAINS, CONTAINS KEY, or map-entry equality"
            ),
            SegmentKind::Single(ColumnRestriction::Like(_)) => {
                bail_invalid!("{common} cannot be restricted by more than one relation if it includes a LIKE")
            }
            _ => bail_invalid!(
                "{common} cannot be restricted by more than one relation if it includes an Equal"
            ),
        }
    }

    fn insert(&mut self, segment: Segment, allow_gaps: bool) -> Result<()> {
        if !allow_gaps && let Some(last) = self.segments.last() {
            let name = |position: usize| self.columns.get(position).map_or("", |c| c.name.as_str());
            if last.is_slice() && segment.first > last.first {
                bail_invalid!(
                    "Clustering column \"{}\" cannot be restricted (preceding column \"{}\" is restricted \
                     by a non-EQ relation)",
                    name(segment.first),
                    name(last.first)
                );
            }
            if segment.first < last.first && segment.is_slice() {
                let next = self.segments.iter().find(|s| s.first > segment.first).map_or(0, |s| s.first);
                bail_invalid!(
                    "PRIMARY KEY column \"{}\" cannot be restricted (preceding column \"{}\" is restricted \
                     by a non-EQ relation)",
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
                        terms.iter().map(|term| term.shown(None).to_string()).collect::<Vec<_>>().join(", ")
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
}

fn tuple_type(columns: &[Arc<ColumnMetadata>]) -> DataType {
    DataType::tuple(columns.iter().map(|c| c.data_type.clone()))
}

/// `(a,b)`
pub(super) fn joined(columns: &[Arc<ColumnMetadata>]) -> String {
    format!("({})", columns.iter().map(|c| c.name.as_str()).collect::<Vec<_>>().join(","))
}
