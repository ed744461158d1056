//! Standard output, standard error, and the file of CAPTURE.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::values::Color;

/// Where output goes.
pub struct Target {
    out: Box<dyn Write + Send>,
    errors: Box<dyn Write + Send>,
    capture: Option<(PathBuf, BufWriter<File>)>,
    colored: bool,
    /// Whether the output is read no more.
    pub is_closed: bool,
}

impl Target {
    /// Writes to standard output and standard error.
    pub fn standard(colored: bool) -> Self {
        Self::new(Box::new(BufWriter::new(io::stdout())), Box::new(io::stderr()), colored)
    }

    /// Writes to these.
    pub fn new(out: Box<dyn Write + Send>, errors: Box<dyn Write + Send>, colored: bool) -> Self {
        Self { out, errors, capture: None, colored, is_closed: false }
    }

    /// Returns whether results have colors.
    pub fn colored(&self) -> bool {
        self.colored && self.capture.is_none()
    }

    /// Returns the file that captures results.
    pub fn captured(&self) -> Option<&Path> {
        self.capture.as_ref().map(|(path, _)| path.as_path())
    }

    /// Captures results in a file, after its content.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub fn capture(&mut self, path: PathBuf) -> io::Result<()> {
        let file = OpenOptions::new().append(true).create(true).open(&path)?;
        self.capture = Some((path, BufWriter::new(file)));
        Ok(())
    }

    /// Ends the capture.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn end_capture(&mut self) -> io::Result<()> {
        self.capture.take().map_or(Ok(()), |(_, mut file)| file.flush())
    }

    /// Writes a part of a result.
    pub fn result(&mut self, text: &str) {
        let Some((path, file)) = &mut self.capture else { return self.say(text) };
        if let Err(error) = file.write_all(text.as_bytes()) {
            let message = format!("cannot write to {}: {error}", path.display());
            self.capture = None;
            self.error(&message);
        }
    }

    /// Writes what is not captured.
    pub fn say(&mut self, text: &str) {
        self.is_closed |= self.out.write_all(text.as_bytes()).is_err();
    }

    /// Writes an error as a line.
    pub fn error(&mut self, text: &str) {
        self.flush();
        let text = Color::Error.paint(text, self.colored);
        // There is no other place to report this.
        let _ = writeln!(self.errors, "{text}").and_then(|()| self.errors.flush());
    }

    /// Passes on what was written.
    pub fn flush(&mut self) {
        self.is_closed |= self.out.flush().is_err();
        if let Some((_, file)) = &mut self.capture {
            // The error occurs again at the end of the capture, which reports it.
            let _ = file.flush();
        }
    }
}
