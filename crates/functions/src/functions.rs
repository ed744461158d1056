//! Programs by function, and their calls.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::RwLock;

use crate::UserFunction;
use crate::error::CallError;
use crate::program::{Program, check_language};
use crate::settings::Settings;

/// The error of statements on functions while they are disabled.
pub(crate) const DISABLED: &str = "User-defined functions are disabled. Set \
    `user_defined_functions_enabled: true` in the configuration file (--config) to enable them.";

/// The compiled functions of a database.
pub struct Functions {
    settings: Settings,
    /// By the address of the definition, which the entry keeps alive. A replaced function is
    /// another definition.
    programs: RwLock<HashMap<usize, Compiled>>,
}

struct Compiled {
    function: Arc<UserFunction>,
    program: Arc<Program>,
}

/// A completed call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Called {
    /// The result; `None` is null.
    pub value: Option<Vec<u8>>,
    /// The warning timeout, if the call took longer.
    pub exceeded: Option<Duration>,
}

impl Functions {
    /// Returns an empty set of programs.
    pub fn new(settings: Settings) -> Self {
        Self { settings, programs: RwLock::new(HashMap::new()) }
    }

    /// Checks that functions are enabled, and in this language.
    ///
    /// # Errors
    /// Refused if functions are disabled.
    pub fn check_enabled(&self, language: &str) -> Result<(), CallError> {
        if !self.settings.enabled {
            return Err(CallError::Refused(DISABLED.to_owned()));
        }
        check_language(language)
    }

    /// Compiles a function without keeping the program, to find out whether it is valid.
    ///
    /// # Errors
    /// Failed, with the compiler's message.
    pub fn check(&self, function: &UserFunction) -> Result<(), CallError> {
        Program::compile(function, &self.settings).map(drop)
    }

    /// Returns the result of a function for these arguments, whose number and types must match.
    /// Blocks for at most the fail timeout.
    ///
    /// # Errors
    /// See [`CallError`].
    pub fn call(&self, function: &Arc<UserFunction>, values: &[Option<&[u8]>]) -> Result<Called, CallError> {
        self.check_enabled(&function.language)?;
        let program = self.program(function)?;
        let start = Instant::now();
        let value = program.call(function, values, &self.settings)?;
        let warn = self.settings.warn_timeout;
        Ok(Called { value, exceeded: (start.elapsed() > warn).then_some(warn) })
    }

    /// Discards the programs of definitions for which `is_current` is false.
    pub fn retain(&self, is_current: impl Fn(&Arc<UserFunction>) -> bool) {
        self.programs.write().retain(|_, compiled| is_current(&compiled.function));
    }

    fn program(&self, function: &Arc<UserFunction>) -> Result<Arc<Program>, CallError> {
        let address = Arc::as_ptr(function) as usize;
        if let Some(compiled) = self.programs.read().get(&address) {
            return Ok(compiled.program.clone());
        }
        let program = Arc::new(Program::compile(function, &self.settings)?);
        let compiled = Compiled { function: function.clone(), program: program.clone() };
        self.programs.write().insert(address, compiled);
        Ok(program)
    }
}

impl fmt::Debug for Functions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let programs = self.programs.read().len();
        f.debug_struct("Functions").field("settings", &self.settings).field("programs", &programs).finish()
    }
}
