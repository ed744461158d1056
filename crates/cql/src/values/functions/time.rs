//! Functions of time: now, limits of time UUIDs, conversions between timestamps, dates and time
//! UUIDs, floors.

use cassette_rows::types::DataType;

use super::{Evaluated, ScalarFunction, Surroundings, Values, present};
use crate::values::duration::Duration;
use crate::values::temporal::{DAY_NS, date_of_millis, date_to_millis};
use crate::values::{ValueError, timeuuid};

/// Returns the functions called `name`, in the present naming or in that before 5.0.
pub(super) fn functions(name: &str) -> Vec<ScalarFunction> {
    use DataType::{Date, Time, TimeUuid, Timestamp};
    let now = |returns: DataType| {
        vec![ScalarFunction { is_pure: false, ..ScalarFunction::new(name, [], returns, now) }]
    };
    let convert = |from: &[DataType], to: DataType| {
        from.iter().map(|from| ScalarFunction::new(name, [from.clone()], to.clone(), convert)).collect()
    };
    let floor = |from: DataType, returns: DataType, start: DataType| {
        let with = |arguments: Vec<DataType>| ScalarFunction::new(name, arguments, returns.clone(), floor);
        [with(vec![from.clone(), DataType::Duration]), with(vec![from.clone(), DataType::Duration, start])]
    };
    match name {
        "now" | "current_timeuuid" | "currenttimeuuid" => now(TimeUuid),
        "current_timestamp" | "currenttimestamp" => now(Timestamp),
        "current_date" | "currentdate" => now(Date),
        "current_time" | "currenttime" => now(Time),
        "uuid" => now(DataType::Uuid),
        "min_timeuuid" | "mintimeuuid" => {
            vec![ScalarFunction::new(name, [Timestamp], TimeUuid, |_, values, _| {
                Ok(millis(&Timestamp, values, 0)?.map(|ms| timeuuid::min_at_millis(ms).to_vec()))
            })]
        }
        "max_timeuuid" | "maxtimeuuid" => {
            vec![ScalarFunction::new(name, [Timestamp], TimeUuid, |_, values, _| {
                Ok(millis(&Timestamp, values, 0)?.map(|ms| timeuuid::max_at_millis(ms).to_vec()))
            })]
        }
        "to_date" | "todate" => convert(&[TimeUuid, Timestamp], Date),
        "to_timestamp" | "totimestamp" => convert(&[TimeUuid, Date], Timestamp),
        "to_unix_timestamp" | "tounixtimestamp" => convert(&[TimeUuid, Timestamp, Date], DataType::BigInt),
        "floor" => {
            let mut floors = Vec::new();
            floors.extend(floor(Timestamp, Timestamp, Timestamp));
            floors.extend(floor(TimeUuid, Timestamp, Timestamp));
            floors.extend(floor(Date, Date, Date));
            floors.push(ScalarFunction::new(name, [Time, DataType::Duration], Time, floor_time));
            floors
        }
        _ => Vec::new(),
    }
}

fn now(function: &ScalarFunction, _: &Values<'_>, surroundings: &dyn Surroundings) -> Evaluated {
    Ok(Some(match function.returns {
        DataType::TimeUuid => surroundings.next_time_uuid().to_vec(),
        DataType::Uuid => surroundings.random_uuid().to_vec(),
        DataType::Time => {
            let nanoseconds = i128::from(surroundings.now_us()) * 1000;
            (nanoseconds.rem_euclid(i128::from(DAY_NS)) as i64).to_be_bytes().to_vec()
        }
        ref temporal => from_millis(temporal, surroundings.now_us().div_euclid(1000)),
    }))
}

/// Converts through milliseconds since 1970; see [`from_millis`].
pub(super) fn convert(function: &ScalarFunction, values: &Values<'_>, _: &dyn Surroundings) -> Evaluated {
    let ms = millis(&function.arguments[0], values, 0)?;
    Ok(ms.map(|ms| from_millis(&function.returns, ms)))
}

/// The argument's milliseconds since 1970; `None` if it is null.
pub(super) fn millis(
    data_type: &DataType,
    values: &Values<'_>,
    index: usize,
) -> Result<Option<i64>, ValueError> {
    let Some(bytes) = present(values, index) else { return Ok(None) };
    let ms = match data_type {
        DataType::TimeUuid => bytes.try_into().map(timeuuid::to_millis),
        DataType::Date => bytes.try_into().map(|date| date_to_millis(u32::from_be_bytes(date))),
        _ => bytes.try_into().map(i64::from_be_bytes),
    };
    ms.map(Some)
        .map_err(|_| ValueError::invalid(format!("a value of {} bytes is no {data_type}", bytes.len())))
}

/// Returns a date as such, all other types as milliseconds.
pub(super) fn from_millis(data_type: &DataType, ms: i64) -> Vec<u8> {
    match data_type {
        DataType::Date => date_of_millis(ms).to_be_bytes().to_vec(),
        _ => ms.to_be_bytes().to_vec(),
    }
}

fn floor(function: &ScalarFunction, values: &Values<'_>, _: &dyn Surroundings) -> Evaluated {
    let ms = millis(&function.arguments[0], values, 0)?;
    let start = match function.arguments.get(2) {
        Some(data_type) => millis(data_type, values, 2)?,
        None => Some(0),
    };
    let (Some(ms), Some(length), Some(start)) = (ms, present(values, 1).and_then(Duration::decode), start)
    else {
        return Ok(None);
    };
    if function.returns == DataType::Date && length.nanoseconds != 0 {
        return Err(ValueError::invalid(format!(
            "The floor on date values cannot be computed for the {length} duration as precision is below 1 day"
        )));
    }
    if length.nanoseconds % 1_000_000 != 0 {
        return Err(ValueError::invalid(format!(
            "The floor cannot be computed for the {length} duration as precision is below 1 millisecond"
        )));
    }
    Ok(Some(from_millis(&function.returns, length.floor(ms, start)?)))
}

fn floor_time(_: &ScalarFunction, values: &Values<'_>, _: &dyn Surroundings) -> Evaluated {
    let (Some(time), Some(length)) = (
        present(values, 0).and_then(|time| time.try_into().ok()),
        present(values, 1).and_then(Duration::decode),
    ) else {
        return Ok(None);
    };
    Ok(Some(length.floor_time(i64::from_be_bytes(time))?.to_be_bytes().to_vec()))
}
