//! Library functions whose work is proportional to their arguments, which one instruction can
//! repeat.

use std::sync::Arc;

use mlua::{Function, Lua, MultiValue, Result, Table, Value};

use super::budget::Budget;

/// Bytes of a text that count for one instruction.
pub(super) const BYTES_PER_INSTRUCTION: usize = 16;

/// Calls `sort` with a comparison in Lua, whose instructions the hook counts. Texts can be long,
/// and functions of the libraries that compare them execute no instructions.
const SORT: &str = "
    local sort, type = ...
    return function(t, f)
        if f == nil then return sort(t, function(a, b) return a < b end) end
        if type(f) ~= 'function' then return sort(t, f) end
        return sort(t, function(a, b) return f(a, b) end)
    end";

/// Lets these functions of a library spend the budget: the lengths of their tables, and of their
/// texts divided by [`BYTES_PER_INSTRUCTION`].
pub(super) fn replace(lua: &Lua, library: &Table, names: &[&str], budget: &Arc<Budget>) -> Result<()> {
    for name in names {
        let original: Function = library.raw_get(*name)?;
        let budget = budget.clone();
        let counted = move |_: &Lua, arguments: MultiValue| -> Result<MultiValue> {
            budget.spend(arguments.iter().map(cost).fold(0, u64::saturating_add))?;
            original.call(arguments)
        };
        library.raw_set(*name, lua.create_function(counted)?)?;
    }
    Ok(())
}

/// Replaces `table.sort`.
pub(super) fn replace_sort(lua: &Lua, table: &Table) -> Result<()> {
    let (sort, kind): (Function, Function) = (table.raw_get("sort")?, lua.globals().get("type")?);
    let counted: Function = lua.load(SORT).set_name("=table.sort").call((sort, kind))?;
    table.raw_set("sort", counted)
}

fn cost(argument: &Value) -> u64 {
    match argument {
        Value::String(text) => (text.as_bytes().len() / BYTES_PER_INSTRUCTION) as u64,
        Value::Table(table) => table.raw_len() as u64,
        _ => 0,
    }
}
