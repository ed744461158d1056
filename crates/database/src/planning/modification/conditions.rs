//! IF: the conditions of a conditional write.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::HashSet;
use std::sync::Arc;

use cassette_cql::ast::{self, ColumnPart, ConditionValue, InValues, Operator};
use cassette_rows::types::collection;
use cassette_rows::{ColumnKind, ColumnMetadata, DataType, Row, TableMetadata};

use crate::basics::columns::value_of;
use crate::basics::error::{Result, bail_invalid};
use crate::planning::context::{BindContext, PlanContext};
use crate::planning::restrictions::{existing, named_receiver};
use crate::planning::terms::Bound;
use crate::schema::conditions::Term;

/// The IF of a statement.
#[derive(Debug, Default)]
pub(crate) enum Conditions {
    /// No IF.
    #[default]
    None,
    /// `IF NOT EXISTS`
    NotExists,
    /// `IF EXISTS`
    Exists,
    /// `IF a = … AND …`; all must hold.
    Columns(Vec<Condition>),
}

/// A condition on a column or a part of it.
#[derive(Debug)]
pub(crate) struct Condition {
    pub column: Arc<ColumnMetadata>,
    part: Part,
    operator: Operator,
    values: Values,
}

#[derive(Debug)]
enum Part {
    Whole,
    /// `c[key]`
    Element(Term),
    /// `c.field`, by index.
    Field(u16),
}

#[derive(Debug)]
enum Values {
    One(Term),
    List(Vec<Term>),
    /// A list for IN, bound to one marker.
    Marker(Term),
}

impl Conditions {
    /// Plans the IF of an UPDATE or DELETE.
    pub fn new(
        conditions: &ast::Conditions,
        table: &Arc<TableMetadata>,
        cx: &mut PlanContext<'_>,
    ) -> Result<Self> {
        Ok(match conditions {
            ast::Conditions::None => Self::None,
            ast::Conditions::Exists => Self::Exists,
            ast::Conditions::Columns(conditions) => Self::Columns(
                conditions.iter().map(|c| Condition::new(c, table, cx)).collect::<Result<Vec<_>>>()?,
            ),
        })
    }

    pub fn is_empty(&self) -> bool {
        matches!(self, Self::None)
    }

    /// Whether a condition is on a column of this kind.
    pub fn touch(&self, kind: ColumnKind) -> bool {
        match self {
            Self::Columns(conditions) => conditions.iter().any(|c| c.column.kind == kind),
            _ => false,
        }
    }

    /// Returns the columns of the conditions without repetitions: regular columns, then static
    /// columns.
    pub fn columns(&self) -> Vec<Arc<ColumnMetadata>> {
        let Self::Columns(conditions) = self else { return Vec::new() };
        let mut columns: Vec<Arc<ColumnMetadata>> = Vec::new();
        let mut ids = HashSet::with_capacity(conditions.len());
        for kind in [ColumnKind::Regular, ColumnKind::Static] {
            for condition in conditions.iter().filter(|c| c.column.kind == kind) {
                if ids.insert(condition.column.id) {
                    columns.push(condition.column.clone());
                }
            }
        }
        columns
    }

    /// Binds the conditions on columns of a kind.
    ///
    /// # Errors
    /// Invalid, for values that cannot be compared with any value of the column.
    pub fn bind<'a>(&'a self, kind: ColumnKind, cx: &BindContext<'a>) -> Result<Vec<BoundCondition<'a>>> {
        let Self::Columns(conditions) = self else { return Ok(Vec::new()) };
        conditions.iter().filter(|c| c.column.kind == kind).map(|c| c.bind(cx)).collect()
    }
}

impl Condition {
    fn new(raw: &ast::Condition, table: &Arc<TableMetadata>, cx: &mut PlanContext<'_>) -> Result<Self> {
        let column = existing(table, &raw.column)?;
        let name = &column.name;
        if matches!(column.kind, ColumnKind::PartitionKey | ColumnKind::Clustering) {
            bail_invalid!("PRIMARY KEY column '{name}' cannot have IF conditions");
        }
        if column.data_type.is_counter() {
            bail_invalid!("Conditions on counters are not supported");
        }
        let (part, compared) = part(raw.part.as_ref(), &column, table, cx)?;
        let compared = match (raw.operator, &compared.data_type) {
            (Operator::Contains, DataType::List { element, .. } | DataType::Set { element, .. }) => {
                named_receiver(table, &format!("value({name})"), (**element).clone())
            }
            (Operator::Contains, DataType::Map { value, .. }) => {
                named_receiver(table, &format!("value({name})"), (**value).clone())
            }
            (Operator::Contains, _) => bail_invalid!("Cannot use CONTAINS on non-collection column {name}"),
            (Operator::ContainsKey, DataType::Map { key, .. }) => {
                named_receiver(table, &format!("key({name})"), (**key).clone())
            }
            (Operator::ContainsKey, _) => bail_invalid!("Cannot use CONTAINS KEY on non-map column {name}"),
            _ => compared,
        };
        if matches!(raw.operator, Operator::Lt | Operator::Lte | Operator::Gt | Operator::Gte)
            && compared.data_type.contains_duration()
        {
            bail_invalid!(
                "Slice conditions {}",
                match &compared.data_type {
                    DataType::Duration => format!("( {} ) are not supported on durations", raw.operator),
                    DataType::Tuple(_) => "are not supported on tuples containing durations".into(),
                    DataType::Udt { .. } => "are not supported on UDTs containing durations".into(),
                    _ => "are not supported on collections containing durations".to_owned(),
                }
            );
        }
        let values = match &raw.value {
            ConditionValue::Term(term) => Values::One(Term::prepare(term, &compared, cx)?),
            ConditionValue::In(InValues::List(terms)) => Values::List(
                terms.iter().map(|term| Term::prepare(term, &compared, cx)).collect::<Result<Vec<_>>>()?,
            ),
            ConditionValue::In(InValues::BindMarker(marker)) => {
                let list = DataType::list(compared.data_type.clone()).freeze();
                Values::Marker(Term::marker(marker, &named_receiver(table, &format!("in({name})"), list), cx))
            }
        };
        Ok(Self { column, part, operator: raw.operator, values })
    }

    fn bind<'a>(&'a self, cx: &BindContext<'a>) -> Result<BoundCondition<'a>> {
        let element = match &self.part {
            Part::Element(key) => Some(key.bind(cx)?),
            Part::Whole | Part::Field(_) => None,
        };
        let mut values = match &self.values {
            Values::One(term) => vec![term.bind(cx)?],
            Values::List(terms) => terms.iter().map(|term| term.bind(cx)).collect::<Result<_>>()?,
            Values::Marker(marker) => match marker.bind_in_values(cx)? {
                Bound::Null => bail_invalid!("Invalid null list in IN condition"),
                Bound::Unset => bail_invalid!("Invalid 'unset' value in condition"),
                Bound::Value(list) => collection::read_list(&list)
                    .map(|value| value.map_or(Bound::Null, |v| Bound::Value(Cow::Owned(v.to_vec()))))
                    .collect(),
            },
        };
        if self.operator == Operator::In {
            values.retain(|value| !value.is_unset());
        }
        Ok(BoundCondition { condition: self, element, values })
    }

    fn is_whole_collection(&self) -> bool {
        matches!(self.part, Part::Whole)
            && !matches!(self.operator, Operator::Contains | Operator::ContainsKey)
            && self.column.data_type.is_multi_cell()
            && !matches!(self.column.data_type, DataType::Udt { .. })
    }
}

/// A condition with its values.
#[derive(Debug)]
pub(crate) struct BoundCondition<'a> {
    condition: &'a Condition,
    /// The key or index of a [`Part::Element`].
    element: Option<Bound<'a>>,
    /// One value, or those of IN.
    values: Vec<Bound<'a>>,
}

impl BoundCondition<'_> {
    /// Returns whether the condition holds for the row that contains its column, at `now` (seconds
    /// since 1970).
    ///
    /// # Errors
    /// Invalid, for impossible comparisons: order comparisons with null, element access with null.
    pub fn holds(&self, row: Option<&Row>, now: u32) -> Result<bool> {
        let (actual, data_type) = self.actual(row, now)?;
        for value in &self.values {
            if self.compare(actual.as_deref(), &data_type, value)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the compared value and its type.
    fn actual<'r>(&self, row: Option<&'r Row>, now: u32) -> Result<(Option<Cow<'r, [u8]>>, DataType)> {
        let column = &self.condition.column;
        let whole = row.and_then(|row| value_of(row, column, now));
        let element = self.element.as_ref().map(Bound::value);
        match (&self.condition.part, &column.data_type) {
            (Part::Field(index), DataType::Udt { definition, .. }) => {
                let field = whole.and_then(|value| {
                    let item = collection::read_tuple(&value).nth(usize::from(*index)).flatten();
                    item.map(|item| Cow::Owned(item.to_vec()))
                });
                let data_type = definition.fields.get(usize::from(*index)).map(|(_, t)| t.clone());
                Ok((field, data_type.unwrap_or(DataType::Empty)))
            }
            (Part::Element(_), DataType::Map { key: key_type, value, .. }) => {
                let Some(key) = element.flatten() else {
                    bail_invalid!("Invalid null value for map element access");
                };
                let found = whole.and_then(|map| {
                    let entry = collection::read_map(&map).find(|(k, _)| key_type.compare(k, key).is_eq());
                    entry.map(|(_, value)| Cow::Owned(value.to_vec()))
                });
                Ok((found, (**value).clone()))
            }
            (Part::Element(_), DataType::List { element: of, .. }) => {
                let Some(index) = element.flatten() else {
                    bail_invalid!("Invalid null value for list element access");
                };
                let index = <[u8; 4]>::try_from(index).map_or(-1, i32::from_be_bytes);
                let Ok(at) = usize::try_from(index) else {
                    bail_invalid!("Invalid negative list index {index}");
                };
                let found = whole.and_then(|list| {
                    collection::read_list(&list).nth(at).flatten().map(|value| Cow::Owned(value.to_vec()))
                });
                Ok((found, (**of).clone()))
            }
            (_, data_type) => Ok((whole, data_type.clone())),
        }
    }

    /// Evaluates `actual operator value`.
    fn compare(&self, actual: Option<&[u8]>, data_type: &DataType, value: &Bound<'_>) -> Result<bool> {
        let operator = self.condition.operator;
        let bound = match value {
            Bound::Unset => bail_invalid!("Invalid 'unset' value in condition"),
            Bound::Null => None,
            Bound::Value(value) => Some(&**value),
        };
        // An empty non-frozen collection is stored without cells.
        let value = bound.filter(|v| !(self.condition.is_whole_collection() && collection::count(v) == 0));
        let equal = || match (actual, value) {
            (Some(actual), Some(value)) => data_type.compare(actual, value).is_eq(),
            (actual, value) => actual.is_none() && value.is_none(),
        };
        match operator {
            Operator::Eq | Operator::In => return Ok(equal()),
            Operator::Neq => return Ok(!equal()),
            _ => {}
        }
        let Some(value) = value else {
            let what = match data_type {
                _ if bound.is_none() => "null",
                DataType::List { .. } => "an empty list",
                DataType::Set { .. } => "an empty set",
                _ => "an empty map",
            };
            bail_invalid!("Invalid comparison with {what} for operator \"{operator}\"");
        };
        let Some(actual) = actual else { return Ok(false) };
        Ok(match operator {
            Operator::Contains | Operator::ContainsKey => contains(actual, data_type, operator, value),
            Operator::Lt => data_type.compare(actual, value) == Ordering::Less,
            Operator::Lte => data_type.compare(actual, value) != Ordering::Greater,
            Operator::Gt => data_type.compare(actual, value) == Ordering::Greater,
            Operator::Gte => data_type.compare(actual, value) != Ordering::Less,
            _ => false,
        })
    }
}

/// Returns the part of a column in a condition, and the receiver of the compared value.
fn part(
    raw: Option<&ColumnPart>,
    column: &ColumnMetadata,
    table: &TableMetadata,
    cx: &mut PlanContext<'_>,
) -> Result<(Part, Arc<crate::basics::response::ColumnSpec>)> {
    let name = &column.name;
    match raw {
        None => Ok((Part::Whole, named_receiver(table, name, column.data_type.clone()))),
        Some(ColumnPart::Element(key)) => {
            let (what, key_type, value_type) = match &column.data_type {
                DataType::List { element, .. } => ("idx", &DataType::Int, element),
                DataType::Map { key, value, .. } => ("key", &**key, value),
                DataType::Set { .. } => bail_invalid!("Invalid element access syntax for set column {name}"),
                _ => bail_invalid!("Invalid element access syntax for non-collection column {name}"),
            };
            let key_to = named_receiver(table, &format!("{what}({name})"), key_type.clone());
            let key = Term::prepare(key, &key_to, cx)?;
            Ok((Part::Element(key), named_receiver(table, &format!("value({name})"), (**value_type).clone())))
        }
        Some(ColumnPart::Field(field)) => {
            let found = match &column.data_type {
                DataType::Udt { definition, .. } => definition.field(field),
                _ => None,
            };
            let Some((index, data_type)) = found else {
                bail_invalid!("Unknown field {field} for column {name}");
            };
            let to = named_receiver(table, &format!("{name}.{field}"), data_type.clone());
            Ok((Part::Field(u16::try_from(index).unwrap_or(u16::MAX)), to))
        }
    }
}

fn contains(actual: &[u8], data_type: &DataType, operator: Operator, wanted: &[u8]) -> bool {
    match data_type {
        DataType::List { element, .. } | DataType::Set { element, .. } => {
            collection::read_list(actual).flatten().any(|value| element.compare(value, wanted).is_eq())
        }
        DataType::Map { key, value, .. } => collection::read_map(actual).any(|(k, v)| match operator {
            Operator::ContainsKey => key.compare(k, wanted).is_eq(),
            _ => value.compare(v, wanted).is_eq(),
        }),
        _ => false,
    }
}
