//! Compiled bodies.

use crate::UserFunction;
use crate::error::CallError;
use crate::settings::Settings;

/// A compiled body.
pub(crate) enum Program {
    #[cfg(feature = "lua")]
    Lua(crate::lua::Program),
}

/// The languages of this build.
const LANGUAGES: &[&str] = &[
    #[cfg(feature = "lua")]
    "lua",
];

/// Whether this build can execute functions in a language.
pub fn is_supported(language: &str) -> bool {
    LANGUAGES.contains(&language)
}

/// Checks that a language is supported.
pub(crate) fn check_language(language: &str) -> Result<(), CallError> {
    if is_supported(language) { Ok(()) } else { Err(unsupported(language)) }
}

fn unsupported(language: &str) -> CallError {
    let supported = match LANGUAGES {
        [] => "this build supports none (cargo feature `lua`)".to_owned(),
        languages => format!("supported are: {}", languages.join(", ")),
    };
    CallError::Refused(format!(
        "User-defined functions in language '{language}' are not supported by Cassette; {supported}"
    ))
}

impl Program {
    /// Compiles the body of a function.
    ///
    /// # Errors
    /// Refused, if its language is not supported; Failed, if the body is not valid in it.
    #[cfg_attr(not(feature = "lua"), expect(unused_variables, reason = "no language is enabled"))]
    pub fn compile(function: &UserFunction, settings: &Settings) -> Result<Self, CallError> {
        match function.language.as_str() {
            #[cfg(feature = "lua")]
            "lua" => crate::lua::Program::compile(function, settings).map(Self::Lua),
            other => Err(unsupported(other)),
        }
    }

    /// Returns the result for these arguments.
    #[cfg_attr(not(feature = "lua"), expect(unused_variables, reason = "no language is enabled"))]
    pub fn call(
        &self,
        function: &UserFunction,
        values: &[Option<&[u8]>],
        settings: &Settings,
    ) -> Result<Option<Vec<u8>>, CallError> {
        match *self {
            #[cfg(feature = "lua")]
            Self::Lua(ref program) => program.call(function, values, settings),
        }
    }
}
