//! HISTORY.

use crate::error::{Result, command};
use crate::shell::Shell;
use crate::words::Words;

/// Lines of HISTORY by default, as in cqlsh.
const COUNT: usize = 50;

impl Shell {
    pub(super) fn history(&mut self, words: &mut Words<'_>) -> Result<()> {
        let count = if words.is_end() {
            COUNT
        } else {
            let count = words.peek().parse().map_err(|_| words.improper("HISTORY", "a number"))?;
            words.skip();
            words.end("HISTORY")?;
            count
        };
        let Some(path) = &self.history else {
            return Err(command("there is no history: it is of a terminal"));
        };
        let text = std::fs::read_to_string(path)
            .map_err(|error| command(format!("cannot read {}: {error}", path.display())))?;
        let lines: Vec<&str> = text.lines().collect();
        for line in &lines[lines.len().saturating_sub(count)..] {
            self.out.say(&format!("{}\n", line.replace("<\\n>", "\n")));
        }
        Ok(())
    }
}
