//! The progress of COPY, as cqlsh shows it.

use std::fs::File;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// Counts rows, and prints their rate on a terminal and into a file.
pub struct Meter {
    began: Instant,
    shown_at: Instant,
    shown_rows: u64,
    frequency: Duration,
    is_terminal: bool,
    file: Option<File>,
}

impl Meter {
    /// Starts to measure. Nothing is shown if standard output has the rows.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub fn new(frequency: Duration, file: Option<&Path>, is_shown: bool) -> std::io::Result<Self> {
        let now = Instant::now();
        Ok(Self {
            began: now,
            shown_at: now,
            shown_rows: 0,
            frequency,
            is_terminal: is_shown && std::io::stderr().is_terminal(),
            file: file.map(File::create).transpose()?,
        })
    }

    /// Returns the seconds since the start.
    pub fn seconds(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    /// Shows the rate of `rows`, if it is time, or `is_last`.
    pub fn update(&mut self, rows: u64, is_last: bool) {
        let since = self.shown_at.elapsed();
        if since < self.frequency && !is_last || !self.is_terminal && self.file.is_none() {
            return;
        }
        let rate = rows.saturating_sub(self.shown_rows) as f64 / since.as_secs_f64().max(1e-6);
        let average = rows as f64 / self.seconds().max(1e-6);
        let text =
            format!("Processed: {rows} rows; Rate: {rate:7.0} rows/s; Avg. rate: {average:7.0} rows/s");
        if self.is_terminal {
            // Progress is worth no error.
            let _ = write!(std::io::stderr(), "\r{text}{}", if is_last { "\n" } else { "" });
        }
        if let Some(file) = &mut self.file {
            let _ = writeln!(file, "{text}");
        }
        self.shown_at = Instant::now();
        self.shown_rows = rows;
    }
}
