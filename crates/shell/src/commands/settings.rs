//! Commands that show or change a setting.

use cassette_protocol::Consistency;

use crate::error::Result;
use crate::output::Format;
use crate::session::PAGE_SIZE;
use crate::shell::Shell;
use crate::words::Words;

impl Shell {
    pub(super) fn consistency(&mut self, words: &mut Words<'_>) -> Result<()> {
        if words.is_end() {
            let level = self.session.consistency;
            self.out.say(&format!("Current consistency level is {level}.\n"));
            return Ok(());
        }
        let level = level(words, "CONSISTENCY", |_| true)?;
        self.session.consistency = level;
        self.out.say(&format!("Consistency level set to {level}.\n"));
        Ok(())
    }

    pub(super) fn serial_consistency(&mut self, words: &mut Words<'_>) -> Result<()> {
        if !words.take("CONSISTENCY") {
            return Err(words.improper("SERIAL CONSISTENCY", "CONSISTENCY"));
        }
        if words.is_end() {
            let level = self.session.serial_consistency;
            self.out.say(&format!("Current serial consistency level is {level}.\n"));
            return Ok(());
        }
        let level = level(words, "SERIAL CONSISTENCY", Consistency::is_serial)?;
        self.session.serial_consistency = level;
        self.out.say(&format!("Serial consistency level set to {level}.\n"));
        Ok(())
    }

    pub(super) fn tracing(&mut self, words: &mut Words<'_>) -> Result<()> {
        self.session.traces = self.switch(words, "TRACING", self.session.traces)?;
        Ok(())
    }

    pub(super) fn expand(&mut self, words: &mut Words<'_>) -> Result<()> {
        self.is_expanded = self.switch(words, "EXPAND", self.is_expanded)?;
        Ok(())
    }

    pub(super) fn paging(&mut self, words: &mut Words<'_>) -> Result<()> {
        let number = words.peek().parse::<i32>().ok().filter(|number| *number > 0);
        if let Some(number) = number {
            words.skip();
            words.end("PAGING")?;
            self.session.page_size = Some(number);
        } else {
            let is_on = self.switch(words, "PAGING", self.session.page_size.is_some())?;
            self.session.page_size = is_on.then(|| self.session.page_size.unwrap_or(PAGE_SIZE));
        }
        if let Some(size) = self.session.page_size {
            self.out.say(&format!("Page size: {size}\n"));
        }
        Ok(())
    }

    pub(super) fn select_format(&mut self, words: &mut Words<'_>) -> Result<()> {
        if words.is_end() {
            self.out.say(&format!("FORMAT is {}\n", self.format.name()));
            return Ok(());
        }
        let found = Format::parse(words.peek());
        self.format = found.ok_or_else(|| words.improper("FORMAT", "TABLE, JSON, CSV or MARKDOWN"))?;
        words.skip();
        words.end("FORMAT")?;
        self.out.say(&format!("FORMAT set to {}\n", self.format.name()));
        Ok(())
    }

    /// Shows or changes a switch. Returns its state.
    fn switch(&mut self, words: &mut Words<'_>, name: &str, is_on: bool) -> Result<bool> {
        let text = |state: bool| if state { "ON" } else { "OFF" };
        if words.is_end() {
            self.out.say(&format!("{name} is {}\n", text(is_on)));
            return Ok(is_on);
        }
        let wanted = if words.take("ON") {
            true
        } else if words.take("OFF") {
            false
        } else {
            return Err(words.improper(name, "ON or OFF"));
        };
        words.end(name)?;
        let verb = if wanted == is_on { "is already" } else { "set to" };
        self.out.say(&format!("{name} {verb} {}\n", text(wanted)));
        Ok(wanted)
    }
}

/// Reads a consistency level and the end of the command.
fn level(words: &mut Words<'_>, name: &str, is_allowed: impl Fn(Consistency) -> bool) -> Result<Consistency> {
    let levels = || Consistency::ALL.into_iter().filter(|level| is_allowed(*level));
    let found = levels().find(|level| level.to_string().eq_ignore_ascii_case(words.peek()));
    let Some(level) = found else {
        let names: Vec<String> = levels().map(|level| level.to_string()).collect();
        return Err(words.improper(name, &format!("one of {}", names.join(", "))));
    };
    words.skip();
    words.end(name)?;
    Ok(level)
}
