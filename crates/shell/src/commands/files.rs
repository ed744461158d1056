//! SOURCE and CAPTURE.

use crate::cqlshrc::expand_home;
use crate::error::{Result, command};
use crate::shell::{Shell, Source};
use crate::words::Words;

/// The deepest nesting of SOURCE.
const SOURCE_DEPTH_MAX: usize = 16;

impl Shell {
    pub(super) fn source(&mut self, words: &mut Words<'_>) -> Result<()> {
        let Some(name) = words.string() else { return Err(words.improper("SOURCE", "a file in quotes")) };
        words.end("SOURCE")?;
        if self.source_depth == SOURCE_DEPTH_MAX {
            return Err(command(format!("SOURCE is nested more than {SOURCE_DEPTH_MAX} times")));
        }
        let text = read_script(&expand_home(&name))
            .map_err(|error| command(format!("Could not open '{name}': {error}")))?;
        let was_terminal = self.is_terminal;
        self.is_terminal = false;
        self.source_depth += 1;
        self.run(&text, &Source { name: &name, first_line: 1 }, false);
        self.source_depth -= 1;
        self.is_terminal = was_terminal;
        // EXIT ends the file, not the shell.
        self.has_ended = false;
        Ok(())
    }

    pub(super) fn capture(&mut self, words: &mut Words<'_>) -> Result<()> {
        let captured = self.out.captured().map(|path| path.display().to_string());
        if words.is_end() {
            self.out.say(&match captured {
                Some(path) => format!("Currently capturing query output to '{path}'.\n"),
                None => "Currently not capturing query output.\n".to_owned(),
            });
            return Ok(());
        }
        if words.take("OFF") {
            words.end("CAPTURE")?;
            return match captured {
                Some(_) => Ok(self.out.end_capture()?),
                None => Err(command("Not currently capturing output.")),
            };
        }
        let Some(name) = words.string() else {
            return Err(words.improper("CAPTURE", "a file in quotes, or OFF"));
        };
        words.end("CAPTURE")?;
        if let Some(path) = captured {
            return Err(command(format!("Already capturing output to {path}. Use CAPTURE OFF to disable.")));
        }
        self.out
            .capture(expand_home(&name))
            .map_err(|error| command(format!("Could not open '{name}' for append: {error}")))?;
        self.out.say(&format!("Now capturing query output to '{name}'.\n"));
        Ok(())
    }
}

/// Reads a script in UTF-8 or UTF-16, with or without a byte order mark.
///
/// # Errors
/// If the file cannot be read, or is no text.
pub fn read_script(path: &std::path::Path) -> std::io::Result<String> {
    let bytes = std::fs::read(path)?;
    let invalid = || std::io::Error::new(std::io::ErrorKind::InvalidData, "the file is no text in UTF-8");
    let utf_16 = |order: fn([u8; 2]) -> u16, rest: &[u8]| {
        let units: Vec<u16> = rest.chunks_exact(2).map(|pair| order([pair[0], pair[1]])).collect();
        String::from_utf16(&units).map_err(|_| invalid())
    };
    match bytes.as_slice() {
        [0xef, 0xbb, 0xbf, rest @ ..] => String::from_utf8(rest.to_vec()).map_err(|_| invalid()),
        [0xff, 0xfe, rest @ ..] => utf_16(u16::from_le_bytes, rest),
        [0xfe, 0xff, rest @ ..] => utf_16(u16::from_be_bytes, rest),
        _ => String::from_utf8(bytes).map_err(|_| invalid()),
    }
}
