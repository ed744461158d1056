//! Checking rows one by one: what ALLOW FILTERING allows.

use cassette_rows::DataType;
use cassette_rows::types::collection;

use super::row::CurrentRow;
use crate::error::{Result, bail_invalid};
use crate::execution::Execution;
use crate::restrictions::{ColumnRestriction, Filter};
use crate::terms::{Bound, Term};

/// Whether a row's value is what `filter` wants.
pub(super) fn matches(filter: &Filter, row: &CurrentRow, execution: &Execution<'_>) -> Result<bool> {
    let column = &filter.column;
    let data_type = &column.data_type;
    let name = &column.name;
    let value = row.value(column, execution.now_seconds);
    match &filter.restriction {
        ColumnRestriction::Eq(_) | ColumnRestriction::In(_) => {
            let wanted = filter.restriction.values(name, execution)?;
            Ok(value.is_some_and(|value| wanted.iter().any(|w| data_type.compare(&value, w).is_eq())))
        }
        ColumnRestriction::Slice(slice) => {
            for (side, above) in [(&slice.lower, true), (&slice.upper, false)] {
                let Some((term, inclusive)) = side else { continue };
                let edge = match term.bind(execution)? {
                    Bound::Unset => continue,
                    Bound::Null => bail_invalid!("Invalid null value in condition for column {name}"),
                    Bound::Value(edge) => edge,
                };
                let Some(value) = &value else { return Ok(false) };
                let order = data_type.compare(value, &edge);
                let within = order.is_eq() && *inclusive || if above { order.is_gt() } else { order.is_lt() };
                if !within {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        ColumnRestriction::Contains { values, keys, entries } => {
            let required = |term: &Term| match term.bind(execution)? {
                Bound::Value(value) => Ok(value.into_owned()),
                Bound::Null => bail_invalid!("Invalid null value in condition for column {name}"),
                Bound::Unset => bail_invalid!("Invalid unset value for column {name}"),
            };
            let values = values.iter().map(required).collect::<Result<Vec<_>>>()?;
            let keys = keys.iter().map(required).collect::<Result<Vec<_>>>()?;
            let mut wanted = Vec::with_capacity(entries.len());
            for (key, value) in entries {
                wanted.push((required(key)?, required(value)?));
            }
            let Some(held) = value else { return Ok(false) };
            Ok(match data_type {
                DataType::List { element, .. } | DataType::Set { element, .. } => {
                    values.iter().all(|wanted| {
                        collection::read_list(&held).flatten().any(|v| element.compare(v, wanted).is_eq())
                    })
                }
                DataType::Map { key, value, .. } => {
                    let any = |test: &dyn Fn(&[u8], &[u8]) -> bool| {
                        collection::read_map(&held).any(|(k, v)| test(k, v))
                    };
                    values.iter().all(|wanted| any(&|_, v| value.compare(v, wanted).is_eq()))
                        && keys.iter().all(|wanted| any(&|k, _| key.compare(k, wanted).is_eq()))
                        && wanted.iter().all(|(wanted_key, wanted_value)| {
                            any(&|k, v| {
                                key.compare(k, wanted_key).is_eq() && value.compare(v, wanted_value).is_eq()
                            })
                        })
                }
                _ => false,
            })
        }
    }
}
