//! The global variables of a call.

use std::sync::Arc;

use mlua::{Lua, Result, Table};

use super::budget::Budget;
use super::{counted, strings, tables};

/// Where the libraries are kept in a state.
const LIBRARIES: &str = "cassette_libraries";

/// The global functions. None of them loads code, reads files, changes metatables or catches
/// errors: an error of the budget must end the call.
const FUNCTIONS: [&str; 10] =
    ["assert", "error", "ipairs", "next", "pairs", "rawequal", "select", "tonumber", "tostring", "type"];

/// Restricts the libraries of a new state.
pub(super) fn prepare(lua: &Lua, budget: &Arc<Budget>) -> Result<()> {
    let globals = lua.globals();
    let string: Table = globals.get("string")?;
    strings::replace(lua, &string, budget)?;
    let table: Table = globals.get("table")?;
    tables::replace(lua, &table, budget)?;
    let math: Table = globals.get("math")?;
    // Its state would be common to all calls.
    math.raw_set("randomseed", mlua::Nil)?;
    let utf8: Table = globals.get("utf8")?;
    counted::replace(lua, &utf8, &["codepoint", "len", "offset"], budget)?;

    let libraries = lua.create_table()?;
    for name in FUNCTIONS {
        libraries.raw_set(name, globals.get::<mlua::Value>(name)?)?;
    }
    for (name, library) in [("string", string), ("table", table), ("math", math), ("utf8", utf8)] {
        libraries.raw_set(name, read_only(lua, library)?)?;
    }
    // `pairs` and `next` of the environment show the function's own globals only.
    let metatable = lua.create_table()?;
    metatable.raw_set("__index", libraries)?;
    metatable.raw_set("__metatable", false)?;
    lua.set_named_registry_value(LIBRARIES, metatable)
}

/// Returns a new table of globals, which contains the libraries.
pub(super) fn environment(lua: &Lua) -> Result<Table> {
    let environment = lua.create_table()?;
    environment.set_metatable(Some(lua.named_registry_value(LIBRARIES)?))?;
    Ok(environment)
}

/// Returns a view of a library that cannot be changed.
fn read_only(lua: &Lua, library: Table) -> Result<Table> {
    let metatable = lua.create_table()?;
    metatable.raw_set("__index", library)?;
    let refuse = |_: &Lua, _: mlua::MultiValue| -> Result<()> {
        Err(mlua::Error::runtime("libraries cannot be changed"))
    };
    metatable.raw_set("__newindex", lua.create_function(refuse)?)?;
    metatable.raw_set("__metatable", false)?;
    let view = lua.create_table()?;
    view.set_metatable(Some(metatable))?;
    Ok(view)
}
