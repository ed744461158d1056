//! LOGIN.

use crate::error::{Result, command};
use crate::shell::Shell;
use crate::words::Words;

impl Shell {
    pub(super) fn login(&mut self, words: &mut Words<'_>) -> Result<()> {
        let user = words.name().or_else(|| words.string());
        let Some(user) = user else { return Err(words.improper("LOGIN", "a user")) };
        let password = match words.string() {
            Some(password) => password,
            None if words.is_end() => ask_password()?,
            None => return Err(words.improper("LOGIN", "a password in quotes")),
        };
        words.end("LOGIN")?;
        self.session.log_in(user, password)
    }
}

/// Asks for a password at the terminal, without showing it.
///
/// # Errors
/// If there is no terminal.
pub fn ask_password() -> Result<String> {
    rpassword::prompt_password("Password: ")
        .map_err(|error| command(format!("cannot ask for the password: {error}")))
}
