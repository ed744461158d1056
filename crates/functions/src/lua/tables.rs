//! Functions of the library `table` that can loop for long without executing instructions.

use std::sync::Arc;

use mlua::{Function, Integer, Lua, MultiValue, Result, Table, Value};

use super::budget::Budget;
use super::counted;

/// The number of elements that one call may move.
const MOVED_MAX: usize = 1 << 20;

/// Adds limits to the functions of the library `table`.
pub(super) fn replace(lua: &Lua, table: &Table, budget: &Arc<Budget>) -> Result<()> {
    counted::replace(lua, table, &["concat", "unpack"], budget)?;
    counted::replace_sort(lua, table)?;
    // The length of a table with holes can be any number, up to the largest.
    for name in ["insert", "remove"] {
        let original: Function = table.raw_get(name)?;
        let limited = move |_: &Lua, arguments: MultiValue| -> Result<MultiValue> {
            if let Some(Value::Table(of)) = arguments.front() {
                check(of.raw_len())?;
            }
            original.call(arguments)
        };
        table.raw_set(name, lua.create_function(limited)?)?;
    }
    let original: Function = table.raw_get("move")?;
    let limited = move |_: &Lua, arguments: MultiValue| -> Result<MultiValue> {
        let number = |at: usize| match arguments.get(at) {
            Some(Value::Integer(number)) => Some(i128::from(*number)),
            Some(Value::Number(number)) => Some(*number as i128),
            _ => None,
        };
        if let (Some(first), Some(last)) = (number(1), number(2)) {
            check(usize::try_from(last - first).unwrap_or(0))?;
        }
        original.call(arguments)
    };
    table.raw_set("move", lua.create_function(limited)?)
}

fn check(moved: usize) -> Result<()> {
    if moved > MOVED_MAX {
        return Err(mlua::Error::runtime(format!(
            "too many elements: expected at most {MOVED_MAX}, found {moved}"
        )));
    }
    Ok(())
}

/// Converts a position in a text or table, which counts from 1 and, if negative, from the end.
pub(super) fn position(at: Integer, length: usize) -> usize {
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    let from_start = match at {
        at if at > 0 => at - 1,
        0 => 0,
        at => length.saturating_add(at).max(0),
    };
    usize::try_from(from_start).unwrap_or(usize::MAX)
}
