//! GROUP BY: the division of rows into groups.

use std::cmp::Ordering;

use cassette_cql::ast;
use cassette_cql::values::functions::user::qualified_name;
use cassette_cql::values::functions::{Function, ScalarFunction};
use cassette_rows::{Clustering, ColumnKind, ColumnMetadata, DataType, DecoratedKey, TableMetadata};

use super::CurrentRow;
use super::builder::{Builder, PlannedTerm};
use super::expression::{Expression, Input};
use super::outputs::bind_terms;
use super::selectable::{Scope, Selectable};
use crate::basics::error::{Result, bail_invalid};
use crate::planning::context::{BindContext, PlanContext};
use crate::planning::restrictions::Restrictions;
use crate::planning::terms::Bound;

/// A group consists of rows with equal partition keys, equal first clustering columns and, if
/// grouped by a function, equal results of the function.
#[derive(Debug)]
pub(crate) struct GroupBy {
    /// The types of the first clustering columns, which must be equal.
    prefix: Vec<DataType>,
    function: Option<GroupFunction>,
}

/// A function of the clustering column after the prefix.
#[derive(Debug)]
struct GroupFunction {
    expression: Expression,
    data_type: DataType,
    terms: Vec<PlannedTerm>,
}

impl GroupBy {
    /// Plans the selectors after GROUP BY; `None` if there are none.
    ///
    /// # Errors
    /// Invalid, with Cassandra's texts, for groups that do not follow the order of rows.
    pub fn new(
        selectors: &[ast::Selector],
        table: &TableMetadata,
        restrictions: &Restrictions,
        distinct: bool,
        cx: &mut PlanContext<'_>,
    ) -> Result<Option<Self>> {
        const ORDER: &str = "Group by currently only support groups of columns following their declared \
            order in the PRIMARY KEY";
        if selectors.is_empty() {
            return Ok(None);
        }
        let mut key = table.partition_key.iter().chain(&table.clustering).peekable();
        let mut prefix = Vec::new();
        let mut function = None;
        for selector in selectors {
            let selectable = Selectable::resolve(selector, Scope { table, cx })?;
            let column = match &selectable {
                Selectable::Call { .. } | Selectable::Token(_) => {
                    let (column, new) = group_function(&selectable, table, cx)?;
                    function = Some(new);
                    column
                }
                Selectable::Column(column) => {
                    if !is_key(column) {
                        bail_invalid!(
                            "Group by is currently only supported on the columns of the PRIMARY KEY, got {}",
                            column.name
                        );
                    }
                    if function.is_some() {
                        bail_invalid!(
                            "Functions are only supported on the last element of the GROUP BY clause"
                        );
                    }
                    column.clone()
                }
                other => bail_invalid!("GROUP BY takes columns and functions of them, not {other}"),
            };
            loop {
                let Some(next) = key.next() else { bail_invalid!("{ORDER}") };
                if next.kind == ColumnKind::Clustering {
                    prefix.push(next.data_type.clone());
                }
                if next.name == column.name {
                    break;
                }
                if !restrictions.is_equal(next) {
                    bail_invalid!("{ORDER}");
                }
            }
        }
        if key.peek().is_some_and(|next| next.kind == ColumnKind::PartitionKey) {
            bail_invalid!("Group by is not supported on only a part of the partition key");
        }
        if !prefix.is_empty() && distinct {
            bail_invalid!("Grouping on clustering columns is not allowed for SELECT DISTINCT queries");
        }
        if function.is_some() {
            // The function replaces its column.
            prefix.pop();
        }
        Ok(Some(Self { prefix, function }))
    }

    /// Whether each partition is a group.
    pub fn is_by_partition(&self) -> bool {
        self.prefix.is_empty() && self.function.is_none()
    }

    /// Returns the detection of groups for one execution.
    pub fn bind<'e>(&'e self, cx: &'e BindContext<'e>) -> Result<Groups<'e>> {
        let terms = match &self.function {
            Some(function) => bind_terms(&function.terms, cx)?,
            None => Vec::new(),
        };
        Ok(Groups { by: self, terms, cx, last: None })
    }
}

fn is_key(column: &ColumnMetadata) -> bool {
    matches!(column.kind, ColumnKind::PartitionKey | ColumnKind::Clustering)
}

fn group_function(
    selectable: &Selectable<'_>,
    table: &TableMetadata,
    cx: &mut PlanContext<'_>,
) -> Result<(std::sync::Arc<ColumnMetadata>, GroupFunction)> {
    if let Selectable::Call { function: Function::Aggregate(aggregate), .. } = selectable {
        bail_invalid!(
            "Aggregate functions are not supported within the GROUP BY clause, got: {}.{}",
            aggregate.keyspace(),
            aggregate.name()
        );
    }
    let mut builder = Builder::new(table);
    let built = builder.build(selectable, None, cx)?;
    let column = match &builder.columns[..] {
        [] => bail_invalid!("GROUP BY functions must have one clustering column name as parameter"),
        [only] => only.clone(),
        several => bail_invalid!(
            "GROUP BY functions accept only one clustering column as parameter, got: {}",
            several.iter().map(|c| ast::quote_identifier(&c.name)).collect::<Vec<_>>().join(",")
        ),
    };
    if column.kind != ColumnKind::Clustering {
        bail_invalid!("Group by functions are only supported on clustering columns, got {}", column.name);
    }
    validate_monotonic(&built.expression)?;
    let (expression, data_type) = (built.expression, built.data_type);
    Ok((column, GroupFunction { expression, data_type, terms: builder.terms }))
}

/// Rejects functions whose results are not in the order of the rows.
fn validate_monotonic(expression: &Expression) -> Result<()> {
    let is_term = |expression: &Expression| matches!(expression, Expression::Term(_));
    match expression {
        Expression::Column(_) => Ok(()),
        Expression::Call(function, arguments) => {
            let monotonic = match arguments.split_first() {
                _ if function.user_defined().is_some() => false,
                Some((first, rest)) if function.name == "floor" => {
                    !is_term(first) && rest.iter().all(is_term)
                }
                _ => is_conversion(function),
            };
            if !monotonic {
                bail_invalid!(
                    "Only monotonic functions are supported in the GROUP BY clause. Got: {} ",
                    applied_text(function, arguments)
                );
            }
            arguments.iter().filter(|argument| !is_term(argument)).try_for_each(validate_monotonic)
        }
        _ => bail_invalid!(
            "Only column names and monotonic scalar functions are supported in the GROUP BY clause."
        ),
    }
}

/// Returns a function as shown in messages, including constant arguments:
/// `system.floor : (timestamp, duration(constant)) -> …`.
fn applied_text(function: &ScalarFunction, arguments: &[Expression]) -> String {
    let argument = |(data_type, argument): (&DataType, &Expression)| match argument {
        Expression::Term(_) => format!("{data_type}(constant)"),
        _ => data_type.to_string(),
    };
    let types: Vec<String> = function.arguments.iter().zip(arguments).map(argument).collect();
    let name = qualified_name(function.keyspace(), &function.name);
    format!("{name} : ({}) -> {}", types.join(", "), function.returns)
}

/// Whether the function converts a time to another type.
fn is_conversion(function: &ScalarFunction) -> bool {
    matches!(
        &*function.name,
        "to_date" | "to_timestamp" | "to_unix_timestamp" | "todate" | "totimestamp" | "tounixtimestamp"
    )
}

/// Detects where groups begin.
pub(crate) struct Groups<'e> {
    by: &'e GroupBy,
    terms: Vec<Bound<'e>>,
    cx: &'e BindContext<'e>,
    last: Option<Last>,
}

/// The previous row.
struct Last {
    key: DecoratedKey,
    /// `None` after a static row, which forms a separate group.
    clustering: Option<Clustering>,
    result: Option<Vec<u8>>,
}

impl Groups<'_> {
    /// Returns whether `row`, which follows the row of the last call, begins a group.
    pub fn begins(&mut self, row: CurrentRow<'_>) -> Result<bool> {
        let result = match (&self.by.function, row.row) {
            (Some(function), Some(_)) => {
                let input = Input { row: Some(row), terms: &self.terms, aggregates: &[], cx: self.cx };
                function.expression.evaluate(input)?.map(|value| value.into_owned())
            }
            _ => None,
        };
        let continues = match (&self.last, row.clustering()) {
            (Some(Last { key, clustering: Some(last), result: of_last }), Some(clustering)) => {
                *key == row.partition.key
                    && self.same_prefix(last, clustering)
                    && self.same_result(of_last.as_deref(), result.as_deref())
            }
            _ => false,
        };
        if !continues || !self.by.prefix.is_empty() || self.by.function.is_some() {
            self.last =
                Some(Last { key: row.partition.key.clone(), clustering: row.clustering().cloned(), result });
        }
        Ok(!continues)
    }

    /// Whether the first clustering columns are equal as values: `1.0` and `1.00` are.
    fn same_prefix(&self, a: &Clustering, b: &Clustering) -> bool {
        let mut values = a.values().zip(b.values()).zip(&self.by.prefix);
        values.all(|((a, b), data_type)| match (a, b) {
            (Some(a), Some(b)) => a == b || data_type.compare(a, b) == Ordering::Equal,
            (a, b) => a == b,
        })
    }

    fn same_result(&self, a: Option<&[u8]>, b: Option<&[u8]>) -> bool {
        match (&self.by.function, a, b) {
            (Some(function), Some(a), Some(b)) => function.data_type.compare(a, b) == Ordering::Equal,
            (_, a, b) => a == b,
        }
    }
}
