//! `count`, `min`, `max`, `sum`, `avg` and user-defined aggregates: many values to one value.

use std::sync::Arc;

use cassette_rows::types::DataType;
use num_bigint::BigInt;

use super::decimal::{Decimal, Rounding};
use super::functions::{Argument, Surroundings, UserAggregate};
use super::number::{Number, is_numeric};
use super::{ArithmeticFailure, ValueError};

/// An aggregate function for a type.
#[derive(Debug, Clone, PartialEq)]
pub struct AggregateFunction {
    kind: Kind,
    /// One, but none for `count_rows`, and any number of a user-defined aggregate.
    arguments: Vec<DataType>,
    returns: DataType,
}

#[derive(Debug, Clone, PartialEq)]
enum Kind {
    CountRows,
    Count,
    Min,
    Max,
    Sum,
    Avg,
    User(Arc<UserAggregate>),
}

impl From<Arc<UserAggregate>> for AggregateFunction {
    fn from(aggregate: Arc<UserAggregate>) -> Self {
        Self {
            arguments: aggregate.arguments.clone(),
            returns: aggregate.returns().clone(),
            kind: Kind::User(aggregate),
        }
    }
}

impl AggregateFunction {
    /// `count(*)` and `count(1)`, which count all rows.
    pub fn count_rows() -> Self {
        Self { kind: Kind::CountRows, arguments: Vec::new(), returns: DataType::BigInt }
    }

    /// Returns the aggregate `name` for values of type `argument`; `None` if there is none. Sums
    /// and averages have the type of their values: they wrap around, or lose their fraction, as
    /// whole numbers do.
    pub fn of_type(name: &str, argument: &DataType) -> Option<Self> {
        let kind = match name {
            "count" => Kind::Count,
            "min" => Kind::Min,
            "max" => Kind::Max,
            "sum" if is_numeric(argument) => Kind::Sum,
            "avg" if is_numeric(argument) => Kind::Avg,
            _ => return None,
        };
        let returns = if kind == Kind::Count { DataType::BigInt } else { argument.clone() };
        Some(Self { kind, arguments: vec![argument.clone()], returns })
    }

    /// Returns its definition; `None` if it is native.
    pub fn user_defined(&self) -> Option<&Arc<UserAggregate>> {
        match &self.kind {
            Kind::User(aggregate) => Some(aggregate),
            _ => None,
        }
    }

    /// The keyspace; `system` of native aggregates.
    pub fn keyspace(&self) -> &str {
        self.user_defined().map_or("system", |aggregate| &aggregate.keyspace)
    }

    /// The name, without its keyspace.
    pub fn name(&self) -> &str {
        match &self.kind {
            Kind::CountRows => "count_rows",
            Kind::Count => "count",
            Kind::Min => "min",
            Kind::Max => "max",
            Kind::Sum => "sum",
            Kind::Avg => "avg",
            Kind::User(aggregate) => &aggregate.name,
        }
    }

    /// Whether it counts all rows, whatever they contain.
    pub fn counts_rows(&self) -> bool {
        self.kind == Kind::CountRows
    }

    /// The types of the arguments; none for `count_rows`.
    pub fn arguments(&self) -> &[DataType] {
        &self.arguments
    }

    /// The type of the result.
    pub fn returns(&self) -> &DataType {
        &self.returns
    }

    /// Returns an empty accumulator.
    pub fn accumulator(&self) -> Accumulator {
        let state = match (&self.kind, &self.returns) {
            (Kind::CountRows, _) => State::CountRows(0),
            (Kind::Count, _) => State::Count(0),
            (Kind::Min, data_type) => State::Least { data_type: data_type.clone(), value: None, sign: 1 },
            (Kind::Max, data_type) => State::Least { data_type: data_type.clone(), value: None, sign: -1 },
            (Kind::Sum, DataType::Float | DataType::Double) => State::FloatSum(FloatSum::default()),
            (Kind::Avg, DataType::Float | DataType::Double) => {
                State::FloatAverage { sum: FloatSum::default(), count: 0, overflow: None }
            }
            (Kind::Sum, DataType::Decimal) => State::DecimalSum(Decimal::zero()),
            (Kind::Avg, DataType::Decimal) => State::DecimalAverage { average: Decimal::zero(), count: 0 },
            // The sum of whole numbers of a fixed width wraps around like its low bits.
            (Kind::Sum, _) => State::WholeSum(WholeSum::default()),
            (Kind::Avg, _) => State::WholeAverage { sum: WholeSum::default(), count: 0 },
            (Kind::User(aggregate), _) => {
                State::User { state: aggregate.initial_value.clone(), aggregate: aggregate.clone() }
            }
        };
        Accumulator { returns: self.returns.clone(), state }
    }
}

/// Returns the aggregates that `name` can refer to with these arguments.
pub(super) fn candidates(
    name: &str,
    arguments: &[&dyn Argument],
    receiver: Option<&DataType>,
) -> Result<Vec<AggregateFunction>, ValueError> {
    use DataType::*;
    let numeric = [TinyInt, SmallInt, Int, BigInt, Float, Double, Decimal, VarInt, Counter];
    Ok(match name {
        "count_rows" => vec![AggregateFunction::count_rows()],
        // A value of any type has bytes.
        "count" => AggregateFunction::of_type(name, &Blob).into_iter().collect(),
        "sum" | "avg" => {
            numeric.iter().filter_map(|number| AggregateFunction::of_type(name, number)).collect()
        }
        "min" | "max" => {
            let [argument] = arguments else {
                return Err(ValueError::invalid(format!(
                    "Invalid number of arguments for function system.{name}(any)"
                )));
            };
            let Some(data_type) = argument.known_type().or_else(|| receiver.cloned()) else {
                return Err(ValueError::invalid(format!(
                    "Cannot infer type of argument {argument} in call to function system.{name}(any): use \
                     type casts to disambiguate"
                )));
            };
            AggregateFunction::of_type(name, &data_type).into_iter().collect()
        }
        _ => Vec::new(),
    })
}

/// A partially computed aggregate.
#[derive(Debug, Clone)]
pub struct Accumulator {
    returns: DataType,
    state: State,
}

#[derive(Debug, Clone)]
enum State {
    CountRows(i64),
    Count(i64),
    /// The least value, or with sign -1 the greatest.
    Least {
        data_type: DataType,
        value: Option<Vec<u8>>,
        sign: i8,
    },
    WholeSum(WholeSum),
    WholeAverage {
        sum: WholeSum,
        count: i64,
    },
    DecimalSum(Decimal),
    DecimalAverage {
        average: Decimal,
        count: i64,
    },
    FloatSum(FloatSum),
    /// `overflow` is the sum once it exceeds the range of a double.
    FloatAverage {
        sum: FloatSum,
        count: i64,
        overflow: Option<Decimal>,
    },
    User {
        aggregate: Arc<UserAggregate>,
        state: Option<Vec<u8>>,
    },
}

impl Accumulator {
    /// Adds rows whose values were not read. No-op unless it counts all rows.
    pub fn add_rows(&mut self, rows: u64) {
        if let State::CountRows(count) = &mut self.state {
            *count = count.saturating_add_unsigned(rows);
        }
    }

    /// Adds a row's values of the arguments. Only `count_rows` counts nulls and empty numbers.
    pub fn add(
        &mut self,
        values: &[Option<&[u8]>],
        surroundings: &dyn Surroundings,
    ) -> Result<(), ValueError> {
        let value = values.first().copied().flatten();
        let number = || value.and_then(|bytes| Number::decode(&self.returns, bytes));
        match &mut self.state {
            State::CountRows(count) => *count += 1,
            State::Count(count) => *count += i64::from(value.is_some()),
            State::Least { data_type, value: least, sign } => {
                let Some(bytes) = value else { return Ok(()) };
                let is_less = least.as_ref().is_none_or(|least| {
                    let order = data_type.compare(bytes, least);
                    if *sign > 0 { order.is_lt() } else { order.is_gt() }
                });
                if is_less {
                    *least = Some(bytes.to_vec());
                }
            }
            State::WholeSum(sum) => {
                if let Some(number) = number() {
                    sum.add(number);
                }
            }
            State::WholeAverage { sum, count } => {
                let Some(number) = number() else { return Ok(()) };
                *count += 1;
                sum.add(number);
            }
            State::DecimalSum(sum) => {
                if let Some(Number::Decimal(number)) = number() {
                    *sum = sum.add_exactly(&number).map_err(invalid)?;
                }
            }
            State::DecimalAverage { average, count } => {
                if let Some(Number::Decimal(number)) = number() {
                    *count += 1;
                    let difference = number.add_exactly(&average.negate()).map_err(invalid)?;
                    let step = difference
                        .divide_to_scale(&Decimal::whole(*count), difference.scale, Rounding::HalfEven)
                        .map_err(invalid)?;
                    *average = average.add_exactly(&step).map_err(invalid)?;
                }
            }
            State::FloatSum(sum) => {
                if let Some(number) = number() {
                    sum.add(number.to_double());
                }
            }
            State::FloatAverage { sum, count, overflow } => {
                let Some(number) = number().map(|number| number.to_double()) else { return Ok(()) };
                *count += 1;
                let decimal = |number: f64| Decimal::from_double(number).unwrap_or_else(Decimal::zero);
                if let Some(large) = overflow {
                    *large = large.add_exactly(&decimal(number)).map_err(invalid)?;
                    return Ok(());
                }
                let before = sum.sum;
                sum.add(number);
                if sum.sum.is_infinite() && !number.is_infinite() && !before.is_infinite() {
                    *overflow = Some(decimal(before).add_exactly(&decimal(number)).map_err(invalid)?);
                }
            }
            State::User { aggregate, state } => next_state(aggregate, state, values, surroundings)?,
        }
        Ok(())
    }

    /// Returns the result. Without any value, counts, sums and averages are 0, the least and
    /// greatest null.
    pub fn finish(self, surroundings: &dyn Surroundings) -> Result<Option<Vec<u8>>, ValueError> {
        let number = match self.state {
            State::CountRows(count) | State::Count(count) => Number::BigInt(count),
            State::Least { value, .. } => return Ok(value),
            State::User { aggregate, state } => {
                let Some(function) = &aggregate.final_function else { return Ok(state) };
                let arguments = [state.as_deref()];
                let is_callable = function.is_callable(&arguments);
                return if is_callable { surroundings.call(function, &arguments) } else { Ok(None) };
            }
            State::WholeSum(sum) => Number::VarInt(sum.total()),
            State::WholeAverage { count: 0, .. } => Number::VarInt(BigInt::ZERO),
            State::WholeAverage { sum, count } => Number::VarInt(sum.total() / count),
            State::DecimalSum(sum) => Number::Decimal(sum),
            State::DecimalAverage { average, .. } => Number::Decimal(average),
            State::FloatSum(sum) => Number::Double(sum.total()),
            State::FloatAverage { count: 0, .. } => Number::Double(0.0),
            State::FloatAverage { count, overflow: Some(large), .. } => Number::Double(
                large
                    .divide_to_scale(&Decimal::whole(count), large.scale, Rounding::HalfEven)
                    .map_err(invalid)?
                    .to_double(),
            ),
            State::FloatAverage { sum, count, overflow: None } => Number::Double(sum.total() / count as f64),
        };
        Ok(number.convert(&self.returns).map(|number| number.encode()))
    }
}

/// Replaces the state of a user-defined aggregate by that after a row.
fn next_state(
    aggregate: &UserAggregate,
    state: &mut Option<Vec<u8>>,
    values: &[Option<&[u8]>],
    surroundings: &dyn Surroundings,
) -> Result<(), ValueError> {
    let mut arguments = Vec::with_capacity(1 + values.len());
    arguments.push(state.as_deref());
    arguments.extend_from_slice(values);
    let function = &aggregate.state_function;
    // A row that the function is not called for leaves the state as it is.
    if function.is_callable(&arguments) {
        *state = surroundings.call(function, &arguments)?;
    }
    Ok(())
}

fn invalid(ArithmeticFailure(reason): ArithmeticFailure) -> ValueError {
    ValueError::invalid(reason)
}

/// A sum of whole numbers.
#[derive(Debug, Clone, Default)]
struct WholeSum {
    /// The sum of numbers of a fixed width: 2^64 of them do not overflow it.
    fixed: i128,
    varints: BigInt,
}

impl WholeSum {
    #[inline]
    fn add(&mut self, number: Number) {
        match number {
            Number::VarInt(number) => self.varints += number,
            number => self.fixed += i128::from(number.to_long()),
        }
    }

    fn total(self) -> BigInt {
        self.varints + self.fixed
    }
}

/// Kahan's summation, which compensates for rounding errors.
#[derive(Debug, Clone, Default)]
struct FloatSum {
    sum: f64,
    compensation: f64,
    /// Without compensation: correct where infinities turn the other into NaN.
    simple: f64,
}

impl FloatSum {
    fn add(&mut self, number: f64) {
        self.simple += number;
        let compensated = number - self.compensation;
        let rounded = self.sum + compensated;
        self.compensation = (rounded - self.sum) - compensated;
        self.sum = rounded;
    }

    fn total(&self) -> f64 {
        let total = self.sum + self.compensation;
        if total.is_nan() && self.simple.is_infinite() { self.simple } else { total }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::oracle_tests::Nowhere;
    use crate::values::{from_text, to_text};

    fn aggregate(name: &str, data_type: &DataType, values: &[&str]) -> Option<String> {
        let function = AggregateFunction::of_type(name, data_type).unwrap();
        let mut accumulator = function.accumulator();
        accumulator.add(&[None], &Nowhere).unwrap();
        for value in values {
            accumulator.add(&[Some(&from_text(data_type, value).unwrap())], &Nowhere).unwrap();
        }
        accumulator.finish(&Nowhere).unwrap().map(|bytes| to_text(function.returns(), &bytes))
    }

    #[test]
    fn sums_and_averages_are_of_the_type_of_their_values() {
        for (name, data_type, values, result) in [
            ("sum", DataType::Int, &["2147483647", "1"][..], "-2147483648"),
            ("sum", DataType::TinyInt, &["100", "100"], "-56"),
            ("sum", DataType::BigInt, &["9223372036854775807", "2"], "-9223372036854775807"),
            ("avg", DataType::BigInt, &["9223372036854775807", "9223372036854775805"], "9223372036854775806"),
            ("avg", DataType::Int, &["1", "2"], "1"),
            ("avg", DataType::Int, &["-1", "-2"], "-1"),
            ("avg", DataType::Int, &[], "0"),
            ("sum", DataType::Double, &["0.1", "0.2", "0.3"], "0.6"),
            ("avg", DataType::Float, &["1", "2"], "1.5"),
            ("avg", DataType::Double, &["1.7e308", "1.7e308"], "1.7E308"),
            ("sum", DataType::Double, &["Infinity", "Infinity"], "Infinity"),
            ("sum", DataType::VarInt, &["99999999999999999999", "1"], "100000000000000000000"),
            ("sum", DataType::Decimal, &["1.5", "2.25"], "3.75"),
            ("avg", DataType::Decimal, &["1", "2"], "1"),
            ("avg", DataType::Decimal, &["1.00", "2.00"], "1.50"),
            ("count", DataType::Int, &["1", "2"], "2"),
        ] {
            assert_eq!(
                aggregate(name, &data_type, values).as_deref(),
                Some(result),
                "{name} of {data_type} {values:?}"
            );
        }
    }

    #[test]
    fn least_and_greatest_go_by_the_order_of_the_type() {
        assert_eq!(aggregate("min", &DataType::Int, &["1", "-5", "3"]).as_deref(), Some("-5"));
        assert_eq!(aggregate("max", &DataType::Text, &["a", "c", "b"]).as_deref(), Some("c"));
        assert_eq!(aggregate("max", &DataType::Int, &[]), None);
    }

    #[test]
    fn rows_count_whatever_is_in_them() {
        let mut accumulator = AggregateFunction::count_rows().accumulator();
        accumulator.add(&[None], &Nowhere).unwrap();
        accumulator.add(&[None], &Nowhere).unwrap();
        assert_eq!(accumulator.finish(&Nowhere).unwrap(), Some(2_i64.to_be_bytes().to_vec()));
    }
}
