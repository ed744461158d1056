//! Filtering of rows, as allowed by ALLOW FILTERING.

use std::borrow::Cow;

use cassette_rows::types::collection;
use cassette_rows::{ColumnMetadata, DataType};

use super::CurrentRow;
use crate::basics::error::{DatabaseError, Result, bail_invalid};
use crate::planning::context::BindContext;
use crate::planning::restrictions::like::BoundLike;
use crate::planning::terms::Bound;
use crate::schema::conditions::{ColumnRestriction, Filter, Term};
use crate::schema::indexes::{Analyzer, Analyzers};

/// A filter with its values for one execution.
pub(crate) struct BoundFilter<'e> {
    column: &'e ColumnMetadata,
    test: Test<'e>,
    analyzers: Analyzers,
}

enum Test<'e> {
    /// The value must equal one of these.
    OneOf(Vec<Value<'e>>),
    /// The value must be between these, each with whether it is inclusive.
    Between(Option<Edge<'e>>, Option<Edge<'e>>),
    /// The value must match this pattern.
    Like(BoundLike<'e>),
    /// The collection must contain all of these.
    Holds { values: Vec<Value<'e>>, keys: Vec<Value<'e>>, entries: Vec<(Value<'e>, Value<'e>)> },
}

type Value<'e> = Cow<'e, [u8]>;
type Edge<'e> = (Value<'e>, bool);

impl<'e> BoundFilter<'e> {
    /// # Errors
    /// Invalid, for nulls, which cannot be compared.
    pub fn new(filter: &'e Filter, cx: &BindContext<'e>) -> Result<Self> {
        let name = &filter.column.name;
        let required = |term: &'e Term, what: &str| match term.bind(cx)? {
            Bound::Value(value) => Ok(value),
            Bound::Null => bail_invalid!("Unsupported null {what} for column {name}"),
            Bound::Unset => bail_invalid!("Unsupported unset {what} for column {name}"),
        };
        let Analyzers { values: of_values, keys: of_keys } = filter.analyzers;
        let value = |term: &'e Term| Ok::<_, DatabaseError>(analyzed(of_values, required(term, "value")?));
        let key = |term: &'e Term| Ok::<_, DatabaseError>(analyzed(of_keys, required(term, "value")?));
        let edge = |side: &'e Option<(Term, bool)>| match side {
            Some((term, inclusive)) => Ok::<_, DatabaseError>(Some((value(term)?, *inclusive))),
            None => Ok(None),
        };
        let test = match &filter.restriction {
            ColumnRestriction::Eq(term) => Test::OneOf(vec![value(term)?]),
            // Null is not equal to anything, including null.
            ColumnRestriction::In(terms) => {
                Test::OneOf(terms.values(name, cx)?.into_iter().flatten().collect())
            }
            ColumnRestriction::Slice(slice) => Test::Between(edge(&slice.lower)?, edge(&slice.upper)?),
            ColumnRestriction::Like(like) => Test::Like(like.bind(&filter.column, cx)?),
            ColumnRestriction::Contains { values, keys, entries } => Test::Holds {
                values: values.iter().map(value).collect::<Result<_>>()?,
                keys: keys.iter().map(key).collect::<Result<_>>()?,
                entries: entries
                    .iter()
                    .map(|(key, value)| Ok((required(key, "map key")?, required(value, "map value")?)))
                    .collect::<Result<_>>()?,
            },
        };
        Ok(Self { column: &filter.column, test, analyzers: filter.analyzers })
    }

    /// Returns the column whose values it tests.
    pub fn column(&self) -> &ColumnMetadata {
        self.column
    }

    /// Returns whether the row's value at `now` (seconds) matches. Null never matches.
    pub fn matches(&self, row: CurrentRow<'_>, now: u32) -> bool {
        row.value(self.column, now).is_some_and(|value| self.matches_value(&value))
    }

    /// Returns whether a value of the column matches.
    pub fn matches_value(&self, held: &[u8]) -> bool {
        match self.analyzers.values {
            Some(analyzer) if matches!(self.test, Test::OneOf(_) | Test::Between(..)) => {
                self.test(&analyzer.analyze(held.into()))
            }
            _ => self.test(held),
        }
    }

    /// Returns whether a value matches that is analyzed if the test compares it as a whole.
    fn test(&self, held: &[u8]) -> bool {
        let Analyzers { values: of_values, keys: of_keys } = self.analyzers;
        let data_type = &self.column.data_type;
        let is_value = |data_type: &DataType, held: &[u8], wanted: &[u8]| {
            data_type.compare(&analyzed(of_values, held.into()), wanted).is_eq()
        };
        match &self.test {
            Test::OneOf(wanted) => wanted.iter().any(|wanted| data_type.compare(held, wanted).is_eq()),
            Test::Between(lower, upper) => {
                let above = |(edge, inclusive): &Edge<'_>| {
                    let order = data_type.compare(held, edge);
                    order.is_gt() || (order.is_eq() && *inclusive)
                };
                let below = |(edge, inclusive): &Edge<'_>| {
                    let order = data_type.compare(held, edge);
                    order.is_lt() || (order.is_eq() && *inclusive)
                };
                lower.as_ref().is_none_or(above) && upper.as_ref().is_none_or(below)
            }
            Test::Like(like) => like.matches(held),
            Test::Holds { values, keys, entries } => match data_type {
                DataType::List { element, .. } | DataType::Set { element, .. } => {
                    values.iter().all(|wanted| {
                        collection::read_list(held).flatten().any(|v| is_value(element, v, wanted))
                    })
                }
                DataType::Map { key, value, .. } => {
                    let any = |test: &dyn Fn(&[u8], &[u8]) -> bool| {
                        collection::read_map(held).any(|(k, v)| test(k, v))
                    };
                    let is_key =
                        |k: &[u8], wanted: &[u8]| key.compare(&analyzed(of_keys, k.into()), wanted).is_eq();
                    values.iter().all(|wanted| any(&|_, v| is_value(value, v, wanted)))
                        && keys.iter().all(|wanted| any(&|k, _| is_key(k, wanted)))
                        && entries.iter().all(|(wanted_key, wanted)| {
                            any(&|k, v| {
                                key.compare(k, wanted_key).is_eq() && value.compare(v, wanted).is_eq()
                            })
                        })
                }
                _ => false,
            },
        }
    }
}

fn analyzed(analyzer: Option<Analyzer>, value: Value<'_>) -> Value<'_> {
    match analyzer {
        Some(analyzer) => analyzer.analyze(value),
        None => value,
    }
}
