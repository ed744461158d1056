//! The shell's own commands, those of cqlsh and a few more.

mod describe;
mod files;
mod help;
mod history;
mod login;
mod replicas;
mod settings;
mod show;
mod trace;

use crate::error::{Result, command};
use crate::input::Unit;
use crate::shell::Shell;
use crate::words::Words;

pub use files::read_script;
pub use help::topics;
pub use login::ask_password;

impl Shell {
    /// Executes a command; `None` if it is a statement.
    pub fn command(&mut self, unit: &Unit<'_>) -> Option<Result<()>> {
        let word = unit.word();
        let mut words = Words::new(unit.text);
        words.skip();
        let words = &mut words;
        Some(match word.as_str() {
            "describe" | "desc" => self.describe(unit.text, words),
            "consistency" => self.consistency(words),
            "serial" => self.serial_consistency(words),
            "tracing" => self.tracing(words),
            "expand" => self.expand(words),
            "paging" => self.paging(words),
            "format" => self.select_format(words),
            "show" => self.show(words),
            "source" => self.source(words),
            "capture" => self.capture(words),
            "login" => self.login(words),
            "copy" => crate::copy::run(self, words),
            ".import" => crate::import::run(self, unit.text),
            "help" | "?" => self.help(unit.text),
            "history" => self.history(words),
            "clear" | "cls" => self.clear(words),
            "exit" | "quit" => self.exit(words),
            _ if word.starts_with('.') => Err(command(format!("unknown command {word}: expected .import"))),
            _ => return None,
        })
    }

    fn clear(&mut self, words: &mut Words<'_>) -> Result<()> {
        words.end("CLEAR")?;
        self.out.say("\x1b[H\x1b[2J");
        Ok(())
    }

    fn exit(&mut self, words: &mut Words<'_>) -> Result<()> {
        words.end("EXIT")?;
        self.has_ended = true;
        Ok(())
    }
}
