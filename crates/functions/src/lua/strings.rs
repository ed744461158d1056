//! Functions of the library `string` that can run for long without executing instructions.

use std::sync::Arc;

use mlua::{Function, Integer, IntoLua, Lua, LuaString, MultiValue, Result, Table, Value};
use parking_lot::Mutex;

use super::budget::Budget;
use super::counted::{self, BYTES_PER_INSTRUCTION};
use super::patterns::{Captured, Matcher};
use super::tables::position;

/// The characters that make a text a pattern.
const SPECIAL: &[u8] = b"^$*+?.([%-";

/// Replaces functions of the library `string`, and removes `dump`.
pub(super) fn replace(lua: &Lua, string: &Table, budget: &Arc<Budget>) -> Result<()> {
    string.raw_set("dump", mlua::Nil)?;
    let budget_of = || budget.clone();
    let budget = budget_of();
    let find = move |lua: &Lua, arguments: FindArguments| find(lua, &arguments, &budget);
    string.raw_set("find", lua.create_function(find)?)?;
    let budget = budget_of();
    let matching = move |lua: &Lua, (text, pattern, init): (LuaString, LuaString, Option<Integer>)| {
        match_once(lua, &text, &pattern, init, &budget)
    };
    string.raw_set("match", lua.create_function(matching)?)?;
    let budget = budget_of();
    let gmatch = move |lua: &Lua, (text, pattern, init): (LuaString, LuaString, Option<Integer>)| {
        match_all(lua, text, pattern, init, budget.clone())
    };
    string.raw_set("gmatch", lua.create_function(gmatch)?)?;
    let budget = budget_of();
    let gsub = move |lua: &Lua, arguments: (LuaString, LuaString, Value, Option<Integer>)| {
        substitute(lua, &arguments.0, &arguments.1, &arguments.2, arguments.3, &budget)
    };
    string.raw_set("gsub", lua.create_function(gsub)?)?;

    // An empty text is repeated in a loop.
    let original: Function = string.raw_get("rep")?;
    let rep = move |_: &Lua, (text, count, separator): (LuaString, Integer, Option<LuaString>)| {
        let is_empty =
            text.as_bytes().is_empty() && separator.as_ref().is_none_or(|s| s.as_bytes().is_empty());
        original.call::<LuaString>((text, if is_empty { count.min(1) } else { count }, separator))
    };
    string.raw_set("rep", lua.create_function(rep)?)?;
    let names = ["byte", "format", "lower", "pack", "rep", "reverse", "unpack", "upper"];
    counted::replace(lua, string, &names, &budget_of())
}

type FindArguments = (LuaString, LuaString, Option<Integer>, Option<bool>);

/// Splits the anchor from a pattern.
fn anchored(pattern: &[u8]) -> (bool, &[u8]) {
    match pattern.split_first() {
        Some((b'^', rest)) => (true, rest),
        _ => (false, pattern),
    }
}

fn find(lua: &Lua, (text, pattern, init, plain): &FindArguments, budget: &Budget) -> Result<MultiValue> {
    let (text, pattern) = (text.as_bytes(), pattern.as_bytes());
    let (text, pattern): (&[u8], &[u8]) = (&text, &pattern);
    let init = position(init.unwrap_or(1), text.len());
    if init > text.len() {
        return Ok(MultiValue::from_iter([Value::Nil]));
    }
    let is_plain = plain.unwrap_or(false) || !pattern.iter().any(|byte| SPECIAL.contains(byte));
    let found = if is_plain {
        budget.spend((text.len() / BYTES_PER_INSTRUCTION) as u64)?;
        let start = find_plain(text, pattern, init, budget)?;
        start.map(|start| (start, start + pattern.len(), Vec::new()))
    } else {
        search(text, pattern, init, budget, |matcher, _, _| matcher.captured_only())?
    };
    let Some((start, end, captures)) = found else { return Ok(MultiValue::from_iter([Value::Nil])) };
    let mut results = MultiValue::from_iter([Value::Integer(start as i64 + 1), Value::Integer(end as i64)]);
    for capture in captures {
        results.push_back(value(lua, capture)?);
    }
    Ok(results)
}

fn find_plain(text: &[u8], pattern: &[u8], init: usize, budget: &Budget) -> Result<Option<usize>> {
    let last = match text.len().checked_sub(pattern.len()) {
        Some(last) => last,
        None => return Ok(None),
    };
    for start in init..=last {
        if text[start..].starts_with(pattern) {
            return Ok(Some(start));
        }
        // The comparison of a long pattern can fail late each time.
        if pattern.len() > BYTES_PER_INSTRUCTION {
            budget.spend((pattern.len() / BYTES_PER_INSTRUCTION) as u64)?;
        }
    }
    Ok(None)
}

type Found<T> = Option<(usize, usize, T)>;

/// Returns the first match from `init` on with what `captures` returns for it.
fn search<'a, T>(
    text: &'a [u8],
    pattern: &'a [u8],
    init: usize,
    budget: &'a Budget,
    captures: impl Fn(&Matcher<'a>, usize, usize) -> Result<T>,
) -> Result<Found<T>> {
    let (is_anchored, pattern) = anchored(pattern);
    let mut matcher = Matcher::new(text, pattern, budget);
    for start in init..=text.len() {
        if let Some(end) = matcher.match_at(start)? {
            return Ok(Some((start, end, captures(&matcher, start, end)?)));
        }
        if is_anchored {
            break;
        }
    }
    Ok(None)
}

fn value(lua: &Lua, captured: Captured<'_>) -> Result<Value> {
    match captured {
        Captured::Text(text) => lua.create_string(text)?.into_lua(lua),
        Captured::Position(position) => Ok(Value::Integer(position as i64)),
    }
}

fn values(lua: &Lua, captured: Vec<Captured<'_>>) -> Result<MultiValue> {
    captured.into_iter().map(|captured| value(lua, captured)).collect()
}

fn match_once(
    lua: &Lua,
    text: &LuaString,
    pattern: &LuaString,
    init: Option<Integer>,
    budget: &Budget,
) -> Result<MultiValue> {
    let (text, pattern) = (text.as_bytes(), pattern.as_bytes());
    let init = position(init.unwrap_or(1), text.len());
    match search(&text, &pattern, init, budget, Matcher::captured)? {
        Some((.., captures)) => values(lua, captures),
        None => Ok(MultiValue::from_iter([Value::Nil])),
    }
}

fn match_all(
    lua: &Lua,
    text: LuaString,
    pattern: LuaString,
    init: Option<Integer>,
    budget: Arc<Budget>,
) -> Result<Function> {
    let start = position(init.unwrap_or(1), text.as_bytes().len());
    // Where the next search begins, and the end of the last match: an empty match there is none.
    let state = Mutex::new((start, None));
    lua.create_function(move |lua, ()| {
        let (text, pattern) = (text.as_bytes(), pattern.as_bytes());
        let mut state = state.lock();
        let mut matcher = Matcher::new(&text, &pattern, &budget);
        for start in state.0..=text.len() {
            if let Some(end) = matcher.match_at(start)?
                && state.1 != Some(end)
            {
                *state = (end, Some(end));
                return values(lua, matcher.captured(start, end)?);
            }
        }
        state.0 = text.len() + 1;
        Ok(MultiValue::from_iter([Value::Nil]))
    })
}

fn substitute(
    lua: &Lua,
    text: &LuaString,
    pattern: &LuaString,
    replacement: &Value,
    most: Option<Integer>,
    budget: &Budget,
) -> Result<(LuaString, Integer)> {
    let (text, pattern) = (text.as_bytes(), pattern.as_bytes());
    let (is_anchored, pattern) = anchored(&pattern);
    let mut matcher = Matcher::new(&text, pattern, budget);
    let mut out = Vec::new();
    let (mut at, mut last_end, mut count) = (0, None, 0);
    while most.is_none_or(|most| count < most) {
        let found = matcher.match_at(at)?.filter(|end| last_end != Some(*end));
        if let Some(end) = found {
            count += 1;
            replace_match(lua, &matcher, (&text, at, end), replacement, &mut out)?;
            budget.spend(1)?;
            at = end;
            last_end = Some(end);
        } else if let Some(byte) = text.get(at) {
            out.push(*byte);
            at += 1;
        } else {
            break;
        }
        // The text outside of the state counts as inside.
        if out.len() > TEXT_MAX {
            return Err(mlua::Error::runtime("out of memory"));
        }
        if is_anchored {
            break;
        }
    }
    out.extend_from_slice(text.get(at..).unwrap_or_default());
    Ok((lua.create_string(&out)?, count))
}

/// The longest result of `gsub` in bytes.
const TEXT_MAX: usize = 16 << 20;

/// Appends what replaces the match of `text[start..end]`.
fn replace_match(
    lua: &Lua,
    matcher: &Matcher<'_>,
    (text, start, end): (&[u8], usize, usize),
    replacement: &Value,
    out: &mut Vec<u8>,
) -> Result<()> {
    let whole = text.get(start..end).unwrap_or_default();
    let captures = matcher.captured(start, end)?;
    let first = |captures: &[Captured<'_>]| match captures.first() {
        Some(captured) => value(lua, *captured),
        None => Ok(Value::Nil),
    };
    let result = match replacement {
        Value::String(template) => return expand(&template.as_bytes(), whole, &captures, out),
        Value::Integer(_) | Value::Number(_) => {
            out.extend_from_slice(replacement.to_string()?.as_bytes());
            return Ok(());
        }
        Value::Table(table) => table.raw_get::<Value>(first(&captures)?)?,
        Value::Function(function) => function.call::<Value>(values(lua, captures)?)?,
        other => {
            return Err(mlua::Error::runtime(format!(
                "bad argument #3 to 'gsub' (string/function/table expected, got {})",
                other.type_name()
            )));
        }
    };
    match &result {
        Value::Nil | Value::Boolean(false) => out.extend_from_slice(whole),
        Value::String(text) => out.extend_from_slice(&text.as_bytes()),
        Value::Integer(_) | Value::Number(_) => out.extend_from_slice(result.to_string()?.as_bytes()),
        other => {
            return Err(mlua::Error::runtime(format!("invalid replacement value (a {})", other.type_name())));
        }
    }
    Ok(())
}

/// Appends a template in which `%0` to `%9` stand for captures.
fn expand(template: &[u8], whole: &[u8], captures: &[Captured<'_>], out: &mut Vec<u8>) -> Result<()> {
    let mut bytes = template.iter();
    while let Some(byte) = bytes.next() {
        if *byte != b'%' {
            out.push(*byte);
            continue;
        }
        match bytes.next() {
            Some(b'%') => out.push(b'%'),
            Some(b'0') => out.extend_from_slice(whole),
            Some(digit @ b'1'..=b'9') => match captures.get(usize::from(digit - b'1')) {
                Some(Captured::Text(text)) => out.extend_from_slice(text),
                Some(Captured::Position(position)) => out.extend_from_slice(position.to_string().as_bytes()),
                None => {
                    let index = char::from(*digit);
                    return Err(mlua::Error::runtime(format!(
                        "invalid capture index %{index} in replacement string"
                    )));
                }
            },
            _ => return Err(mlua::Error::runtime("invalid use of '%' in replacement string")),
        }
    }
    Ok(())
}
