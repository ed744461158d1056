//! Functions in Lua 5.4.
//!
//! The body is a chunk whose local variables are the arguments; its `return` is the result. A
//! program has one Lua state for each concurrent call. The globals of a call are discarded with it,
//! and libraries are read-only, so nothing remains in a state.
//!
//! A call is bounded by a hook, which counts instructions and compares the time, and by the
//! allocator of its state. Library functions that can run for long without executing instructions
//! are replaced: see [`strings`], [`tables`] and [`counted`].

mod budget;
mod counted;
mod patterns;
mod sandbox;
mod strings;
mod tables;
#[cfg(test)]
mod tests;
mod values;

use std::sync::Arc;

use cassette_cql::values::functions::user::qualified_name;
use mlua::chunk::ChunkMode;
use mlua::{Function, HookTriggers, Lua, LuaOptions, MultiValue, StdLib, Value, VmState};
use parking_lot::Mutex;

use crate::UserFunction;
use crate::error::CallError;
use crate::settings::Settings;
use budget::Budget;

/// The number of idle states that a program keeps.
const IDLE_MAX: usize = 16;
/// The number of instructions between two checks of the budget.
const INSTRUCTIONS_PER_CHECK: u32 = 200;

/// A compiled body.
pub(crate) struct Program {
    /// The name of the chunk, which begins error messages.
    name: String,
    source: String,
    idle: Mutex<Vec<Instance>>,
}

/// A Lua state with the compiled body.
struct Instance {
    lua: Lua,
    body: Function,
    budget: Arc<Budget>,
}

impl Program {
    /// Compiles the body of a function.
    ///
    /// # Errors
    /// Failed, with Lua's message.
    pub fn compile(function: &UserFunction, settings: &Settings) -> Result<Self, CallError> {
        let source = source(function)?;
        let name = format!("={}", qualified_name(&function.keyspace, &function.name));
        let instance = Instance::new(&name, &source, settings)?;
        Ok(Self { name, source, idle: Mutex::new(vec![instance]) })
    }

    /// Returns the result of the body for these arguments.
    pub fn call(
        &self,
        function: &UserFunction,
        values: &[Option<&[u8]>],
        settings: &Settings,
    ) -> Result<Option<Vec<u8>>, CallError> {
        let idle = self.idle.lock().pop();
        let instance = match idle {
            Some(instance) => instance,
            None => Instance::new(&self.name, &self.source, settings)?,
        };
        let result = instance.call(function, values, settings);
        // The state of a failed call may be full, and failures are rare.
        if result.is_ok() {
            let mut idle = self.idle.lock();
            if idle.len() < IDLE_MAX {
                idle.push(instance);
            }
        }
        result
    }
}

/// Returns the chunk: the body, with the arguments as local variables in its first line.
fn source(function: &UserFunction) -> Result<String, CallError> {
    if let Some((name, _)) = function.arguments.iter().find(|(name, _)| !is_identifier(name)) {
        return Err(CallError::Failed(format!("argument name {name:?} is not a name in Lua: rename it")));
    }
    let names: Vec<&str> = function.arguments.iter().map(|(name, _)| name.as_str()).collect();
    Ok(match &names[..] {
        [] => function.body.clone(),
        names => format!("local {} = ... {}", names.join(", "), function.body),
    })
}

fn is_identifier(name: &str) -> bool {
    const KEYWORDS: [&str; 22] = [
        "and", "break", "do", "else", "elseif", "end", "false", "for", "function", "goto", "if", "in",
        "local", "nil", "not", "or", "repeat", "return", "then", "true", "until", "while",
    ];
    let is_word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    let starts_well = name.bytes().next().is_some_and(|b| !b.is_ascii_digit());
    starts_well && name.bytes().all(is_word) && !KEYWORDS.contains(&name)
}

impl Instance {
    fn new(name: &str, source: &str, settings: &Settings) -> Result<Self, CallError> {
        let lua = Lua::new_with(
            StdLib::STRING | StdLib::TABLE | StdLib::MATH | StdLib::UTF8,
            LuaOptions::new().catch_rust_panics(false),
        );
        let lua = lua.map_err(failed)?;
        lua.set_memory_limit(settings.memory).map_err(failed)?;
        let budget = Arc::new(Budget::default());
        sandbox::prepare(&lua, &budget).map_err(failed)?;
        let of_hook = budget.clone();
        let triggers = HookTriggers::new().every_nth_instruction(INSTRUCTIONS_PER_CHECK);
        lua.set_hook(triggers, move |_, _| {
            of_hook.spend(u64::from(INSTRUCTIONS_PER_CHECK))?;
            Ok(VmState::Continue)
        })
        .map_err(failed)?;
        let chunk = lua.load(source).set_name(name).set_mode(ChunkMode::Text);
        let body = chunk.into_function().map_err(failed)?;
        Ok(Self { lua, body, budget })
    }

    fn call(
        &self,
        function: &UserFunction,
        values: &[Option<&[u8]>],
        settings: &Settings,
    ) -> Result<Option<Vec<u8>>, CallError> {
        self.budget.start(settings);
        let result = self.run(function, values, settings.memory);
        let out_of = self.budget.stop();
        match (result, out_of) {
            (Ok(value), _) => Ok(value),
            (Err(_), Some(budget::OutOf::Time)) => {
                let types: Vec<String> = function.arguments.iter().map(|(_, of)| of.to_string()).collect();
                Err(CallError::Failed(format!(
                    "User defined function {} : ({}) -> {} ran longer than {}ms",
                    qualified_name(&function.keyspace, &function.name),
                    types.join(", "),
                    function.returns,
                    settings.fail_timeout.as_millis()
                )))
            }
            (Err(_), Some(budget::OutOf::Request(reason))) => Err(CallError::Interrupted(reason)),
            (Err(error), _) => Err(error),
        }
    }

    fn run(
        &self,
        function: &UserFunction,
        values: &[Option<&[u8]>],
        memory: usize,
    ) -> Result<Option<Vec<u8>>, CallError> {
        let environment = sandbox::environment(&self.lua).map_err(failed)?;
        self.body.set_environment(environment).map_err(failed)?;
        let mut arguments = MultiValue::with_capacity(values.len());
        for ((_, data_type), value) in function.arguments.iter().zip(values) {
            arguments.push_back(values::to_lua(&self.lua, data_type, *value).map_err(failed)?);
        }
        let result: Value = self.body.call(arguments).map_err(failed)?;
        values::from_lua(&function.returns, &result, &values::Room::new(memory)).map_err(|reason| {
            CallError::Failed(format!("invalid result of type {}: {reason}", function.returns))
        })
    }
}

/// Returns the failure with Lua's message, without a stack trace.
fn failed(error: mlua::Error) -> CallError {
    let text = match &error {
        mlua::Error::RuntimeError(message) => message.clone(),
        mlua::Error::SyntaxError { message, .. } => message.clone(),
        mlua::Error::MemoryError(_) => "out of memory".to_owned(),
        mlua::Error::CallbackError { cause, .. } => cause.to_string(),
        other => other.to_string(),
    };
    let text = text.split("\nstack traceback:").next().unwrap_or_default();
    let text = text.strip_prefix("runtime error: ").unwrap_or(text);
    CallError::Failed(text.to_owned())
}
