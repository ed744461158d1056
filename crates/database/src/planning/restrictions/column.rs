//! Restrictions of one column, and their evaluation.

use std::borrow::Cow;
use std::sync::Arc;

use cassette_cql::ast::{self, InValues, Operator};
use cassette_rows::types::collection;
use cassette_rows::{ColumnMetadata, DataType, TableMetadata};

use super::{named_receiver, receiver};
use crate::basics::error::{Result, bail_invalid};
use crate::planning::context::{BindContext, PlanContext};
use crate::planning::terms::Bound;
use crate::schema::conditions::{ColumnRestriction, InTerms, LikeTerms, SliceTerms, Term};

impl SliceTerms {
    /// Returns the bound of `operator term`; `None` for operators that are not ranges.
    pub fn new(operator: Operator, term: Term) -> Option<Self> {
        let mut slice = Self::default();
        match operator {
            Operator::Gt => slice.lower = Some((term, false)),
            Operator::Gte => slice.lower = Some((term, true)),
            Operator::Lt => slice.upper = Some((term, false)),
            Operator::Lte => slice.upper = Some((term, true)),
            _ => return None,
        }
        Some(slice)
    }

    /// Adds the bounds of `other`; `names` are the restricted columns.
    pub fn merge(&mut self, other: Self, names: &str) -> Result<()> {
        if self.lower.is_some() && other.lower.is_some() {
            bail_invalid!("More than one restriction was found for the start bound on {names}");
        }
        if self.upper.is_some() && other.upper.is_some() {
            bail_invalid!("More than one restriction was found for the end bound on {names}");
        }
        self.lower = self.lower.take().or(other.lower);
        self.upper = self.upper.take().or(other.upper);
        Ok(())
    }
}

impl ColumnRestriction {
    /// Plans `column operator value`.
    pub fn relation(
        column: &ColumnMetadata,
        operator: Operator,
        value: &ast::Term,
        table: &TableMetadata,
        cx: &mut PlanContext<'_>,
    ) -> Result<Self> {
        if matches!(operator, Operator::Lt | Operator::Lte | Operator::Gt | Operator::Gte)
            && column.data_type.contains_duration()
        {
            bail_invalid!(
                "Slice restrictions are not supported on {}",
                match &column.data_type {
                    DataType::Duration => "duration columns",
                    DataType::Tuple(_) => "tuples containing durations",
                    DataType::Udt { .. } => "UDTs containing durations",
                    _ => "collections containing durations",
                }
            );
        }
        validate_receiver(column, operator)?;
        let to = receiver(table, column);
        let part = |name: &str, data_type: &DataType| {
            named_receiver(table, &format!("{name}({})", column.name), data_type.clone())
        };
        Ok(match operator {
            Operator::Eq => Self::Eq(Term::prepare(value, &to, cx)?),
            Operator::Contains => {
                let element = match &column.data_type {
                    DataType::List { element, .. } | DataType::Set { element, .. } => element,
                    DataType::Map { value, .. } => value,
                    _ => bail_invalid!("Cannot use CONTAINS on non-collection column {}", column.name),
                };
                let term = Term::prepare(value, &part("value", element), cx)?;
                Self::Contains { values: vec![term], keys: Vec::new(), entries: Vec::new() }
            }
            Operator::ContainsKey => {
                let DataType::Map { key, .. } = &column.data_type else {
                    bail_invalid!("Cannot use CONTAINS KEY on non-map column {}", column.name)
                };
                let term = Term::prepare(value, &part("key", key), cx)?;
                Self::Contains { values: Vec::new(), keys: vec![term], entries: Vec::new() }
            }
            Operator::Like => Self::Like(LikeTerms::new(column, value, table, cx)?),
            Operator::Neq | Operator::In | Operator::IsNot => {
                let (name, value) = (&column.name, value.shown(None));
                bail_invalid!("Unsupported \"{operator}\" relation: {name} {operator} {value}")
            }
            Operator::Lt | Operator::Lte | Operator::Gt | Operator::Gte => {
                let term = Term::prepare(value, &to, cx)?;
                Self::Slice(SliceTerms::new(operator, term).unwrap_or_default())
            }
        })
    }

    /// Rejects an operator that a column of this type does not support.
    pub fn validate_operator(column: &ColumnMetadata, operator: Operator) -> Result<()> {
        validate_receiver(column, operator)
    }

    /// Plans `column IN values`.
    pub fn in_relation(
        column: &ColumnMetadata,
        values: &InValues,
        table: &TableMetadata,
        cx: &mut PlanContext<'_>,
    ) -> Result<Self> {
        validate_receiver(column, Operator::In)?;
        let to = receiver(table, column);
        Ok(Self::In(match values {
            InValues::List(terms) if terms.len() == 1 => {
                return Ok(Self::Eq(Term::prepare(&terms[0], &to, cx)?));
            }
            InValues::List(terms) => InTerms::Terms(
                terms.iter().map(|term| Term::prepare(term, &to, cx)).collect::<Result<Vec<_>>>()?,
            ),
            InValues::BindMarker(marker) => {
                let list = DataType::list(column.data_type.clone()).freeze();
                let to = named_receiver(table, &format!("in({})", column.name), list);
                InTerms::Marker(Term::marker(marker, &to, cx))
            }
        }))
    }

    /// Plans `column[key] operator value`.
    pub fn element(
        column: &ColumnMetadata,
        key: &ast::Term,
        operator: Operator,
        value: &ast::Term,
        table: &TableMetadata,
        cx: &mut PlanContext<'_>,
    ) -> Result<Self> {
        match &column.data_type {
            DataType::List { .. } => bail_invalid!(
                "Indexes on list entries ({}[index] = value) are not currently supported.",
                column.name
            ),
            DataType::Map { key: key_type, value: value_type, frozen } => {
                if *frozen {
                    bail_invalid!(
                        "Map-entry equality predicates on frozen map column {} are not supported",
                        column.name
                    );
                }
                if operator != Operator::Eq {
                    bail_invalid!("Only EQ relations are supported on map entries");
                }
                let key_to = named_receiver(table, &format!("key({})", column.name), (**key_type).clone());
                let value_to =
                    named_receiver(table, &format!("value({})", column.name), (**value_type).clone());
                let entry = (Term::prepare(key, &key_to, cx)?, Term::prepare(value, &value_to, cx)?);
                Ok(Self::Contains { values: Vec::new(), keys: Vec::new(), entries: vec![entry] })
            }
            _ => bail_invalid!("Column {} cannot be used as a map", column.name),
        }
    }

    /// Adds another relation on the same column.
    pub fn merge(&mut self, other: Self, name: &str) -> Result<()> {
        match (self, other) {
            (Self::Eq(_), _) => {
                bail_invalid!("{name} cannot be restricted by more than one relation if it includes an Equal")
            }
            (Self::In(_), _) => {
                bail_invalid!("{name} cannot be restricted by more than one relation if it includes a IN")
            }
            (Self::Like(_), _) => {
                bail_invalid!("{name} cannot be restricted by more than one relation if it includes a LIKE")
            }
            (Self::Slice(slice), Self::Slice(other)) => slice.merge(other, name),
            (Self::Slice(_), _) => bail_invalid!(
                "Column \"{name}\" cannot be restricted by both an equality and an inequality relation"
            ),
            (Self::Contains { values, keys, entries }, Self::Contains { values: v, keys: k, entries: e }) => {
                values.extend(v);
                keys.extend(k);
                entries.extend(e);
                Ok(())
            }
            (Self::Contains { .. }, _) => bail_invalid!(
                "Collection column {name} can only be restricted by CONTAINS, CONTAINS KEY, or map-entry equality"
            ),
        }
    }

    /// Whether it is `=` or IN, whose values can be listed.
    pub fn lists_values(&self) -> bool {
        matches!(self, Self::Eq(_) | Self::In(_))
    }

    /// Returns the values of `=` or IN, which must not be null; no values for other restrictions.
    pub fn values<'a>(&'a self, name: &str, cx: &BindContext<'a>) -> Result<Vec<Cow<'a, [u8]>>> {
        match self {
            Self::Eq(term) => Ok(vec![not_null(term.bind(cx)?, name)?]),
            Self::In(terms) => match terms.values(name, cx)?.into_iter().collect() {
                Some(values) => Ok(values),
                None => bail_invalid!("Invalid null value in condition for column {name}"),
            },
            Self::Slice(_) | Self::Contains { .. } | Self::Like(_) => Ok(Vec::new()),
        }
    }
}

impl InTerms {
    /// Returns the values; `None` for null.
    pub fn values<'a>(&'a self, name: &str, cx: &BindContext<'a>) -> Result<Vec<Option<Cow<'a, [u8]>>>> {
        match self {
            Self::Terms(terms) => terms
                .iter()
                .map(|term| match term.bind(cx)? {
                    Bound::Value(value) => Ok(Some(value)),
                    Bound::Null => Ok(None),
                    Bound::Unset => bail_invalid!("Invalid unset value for column {name}"),
                })
                .collect(),
            Self::Marker(marker) | Self::TupleMarker(marker) => Ok(match marker.bind_in_values(cx)? {
                Bound::Null => bail_invalid!("Invalid null value for column {name}"),
                Bound::Unset => bail_invalid!("Invalid unset value for column {name}"),
                Bound::Value(list) if matches!(self, Self::TupleMarker(_)) => {
                    let item = |tuple| collection::read_tuple(tuple).next().flatten();
                    let items = collection::read_list(&list).map(|tuple| tuple.and_then(item));
                    items.map(|value| value.map(|v| Cow::Owned(v.to_vec()))).collect()
                }
                Bound::Value(Cow::Borrowed(list)) => {
                    collection::read_list(list).map(|value| value.map(Cow::Borrowed)).collect()
                }
                Bound::Value(Cow::Owned(list)) => {
                    collection::read_list(&list).map(|value| value.map(|v| Cow::Owned(v.to_vec()))).collect()
                }
            }),
        }
    }
}

/// Returns the value of a bound term that is compared with a key column.
pub(crate) fn not_null<'a>(bound: Bound<'a>, name: &str) -> Result<Cow<'a, [u8]>> {
    match bound {
        Bound::Value(value) => Ok(value),
        Bound::Null => bail_invalid!("Invalid null value in condition for column {name}"),
        Bound::Unset => bail_invalid!("Invalid unset value for column {name}"),
    }
}

/// Rejects operators that a column of this type does not support.
fn validate_receiver(column: &ColumnMetadata, operator: Operator) -> Result<()> {
    let name = &column.name;
    let data_type = &column.data_type;
    let is_collection =
        matches!(data_type, DataType::List { .. } | DataType::Set { .. } | DataType::Map { .. });
    if operator == Operator::ContainsKey && !matches!(data_type, DataType::Map { .. }) {
        bail_invalid!("Cannot use CONTAINS KEY on non-map column {name}");
    }
    if operator == Operator::Contains && !is_collection {
        bail_invalid!("Cannot use CONTAINS on non-collection column {name}");
    }
    if data_type.is_multi_cell() {
        if matches!(data_type, DataType::Udt { .. }) {
            bail_invalid!(
                "Non-frozen UDT column '{name}' ({data_type}) cannot be restricted by any relation"
            );
        }
        if !matches!(operator, Operator::Contains | Operator::ContainsKey) {
            bail_invalid!(
                "Collection column '{name}' ({data_type}) cannot be restricted by a '{operator}' relation"
            );
        }
    }
    Ok(())
}

/// Returns the names of columns as listed in messages.
pub(crate) fn names(columns: &[Arc<ColumnMetadata>]) -> String {
    columns.iter().map(|c| c.name.as_str()).collect::<Vec<_>>().join(", ")
}
