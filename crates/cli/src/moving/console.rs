//! What `cassette move` prints.

use std::fs::File;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use cassette_migration::{Difference, Event, Observer};

/// Interval between two lines of progress where there is no terminal.
const LINE_PAUSE: Duration = Duration::from_secs(10);

/// Returns a duration for people.
pub fn duration(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

/// Returns a number of bytes for people.
pub fn size(bytes: u64) -> String {
    match bytes as f64 {
        bytes if bytes < 1e6 => format!("{:.1} kB", bytes / 1e3),
        bytes if bytes < 1e9 => format!("{:.1} MB", bytes / 1e6),
        bytes => format!("{:.2} GB", bytes / 1e9),
    }
}

/// Prints events for people, and as JSON.
pub struct Console {
    json: Option<Mutex<Box<dyn Write + Send>>>,
    is_terminal: bool,
    /// The last line of progress, and whether the terminal shows it.
    progress: Mutex<(Option<Instant>, bool)>,
}

impl Console {
    /// Also appends events as JSON lines to the file `log_json`; `-` stands for standard output.
    pub fn new(log_json: Option<&Path>) -> anyhow::Result<Self> {
        let json: Option<Box<dyn Write + Send>> = match log_json {
            None => None,
            Some(path) if path.as_os_str() == "-" => Some(Box::new(std::io::stdout())),
            Some(path) => {
                let file = File::options().append(true).create(true).open(path);
                Some(Box::new(file.with_context(|| format!("cannot write {}", path.display()))?))
            }
        };
        let is_terminal = std::io::stderr().is_terminal();
        Ok(Self { json: json.map(Mutex::new), is_terminal, progress: Mutex::new((None, false)) })
    }

    /// Prints a line, after what the terminal shows.
    pub fn line(&self, text: &str) {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        let clear = if std::mem::take(&mut progress.1) { "\r\x1b[K" } else { "" };
        // A closed terminal does not end the move.
        let _ = writeln!(std::io::stderr(), "{clear}{text}");
    }

    /// Removes the line of progress from the terminal.
    pub fn clear(&self) {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::take(&mut progress.1) {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }

    /// Replaces the line of progress on a terminal; elsewhere, prints it now and then.
    pub fn show_progress(&self, text: &str) {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_terminal {
            progress.1 = true;
            let _ = write!(std::io::stderr(), "\r\x1b[K{text}");
        } else if progress.0.is_none_or(|last| last.elapsed() >= LINE_PAUSE) {
            progress.0 = Some(Instant::now());
            let _ = writeln!(std::io::stderr(), "{text}");
        }
    }
}

impl Observer for Console {
    fn event(&self, event: &Event) {
        if let Some(json) = &self.json
            && let Ok(mut text) = serde_json::to_vec(event)
        {
            text.push(b'\n');
            let mut json = json.lock().unwrap_or_else(PoisonError::into_inner);
            // A full disk of the log does not end the move.
            let _ = json.write_all(&text).and_then(|()| json.flush());
        }
        match event {
            Event::Started { from, to, tables, ranges, ranges_done } => {
                let resumed = if *ranges_done > 0 {
                    format!(", {ranges_done} of {ranges} token ranges are complete")
                } else {
                    String::new()
                };
                self.line(&format!("{from} -> {to}: {tables} tables{resumed}"));
            }
            Event::Schema { statement } => self.line(statement),
            Event::Warning { text } => self.line(&format!("warning: {text}")),
            Event::Progress { rows, rows_per_second, ranges_done, ranges, seconds_left } => {
                let left = seconds_left.map(|left| format!(", {} left", duration(left)));
                let percent = *ranges_done as f64 * 100.0 / (*ranges).max(1) as f64;
                self.show_progress(&format!(
                    "{percent:.1} %, {rows} rows, {rows_per_second:.0} rows/s{}",
                    left.unwrap_or_default()
                ));
            }
            Event::Sending { sstables, nodes, transfers: 0, bytes, .. } => {
                // Of a dry run, which cannot know the target's tables.
                self.line(&format!("{sstables} SSTables with {}, {nodes} nodes", size(*bytes)));
            }
            Event::Sending { sstables, nodes, transfers, transfers_done, bytes, bytes_done } => {
                let resumed = match *transfers_done {
                    0 => String::new(),
                    done => format!("; {done} of them with {} are complete", size(*bytes_done)),
                };
                self.line(&format!(
                    "{sstables} SSTables, {nodes} nodes, {transfers} transfers with {}{resumed}",
                    size(*bytes)
                ));
            }
            Event::Sent { .. } | Event::Placed { .. } | Event::Nodetool { .. } | Event::Imported { .. } => {
                self.line(&arrived(event));
            }
            Event::SendingProgress { bytes_done, bytes, bytes_per_second, seconds_left, .. } => {
                let left = seconds_left.map(|left| format!(", {} left", duration(left)));
                let percent = *bytes_done as f64 * 100.0 / (*bytes).max(1) as f64;
                self.show_progress(&format!(
                    "{percent:.1} %, {} of {}, {:.1} MB/s{}",
                    size(*bytes_done),
                    size(*bytes),
                    bytes_per_second / 1e6,
                    left.unwrap_or_default()
                ));
            }
            Event::Following { changes, bytes_behind, seconds_behind } => self.show_progress(&format!(
                "{changes} changes applied, {bytes_behind} bytes and {seconds_behind:.1} s behind"
            )),
            Event::CutOver { pause_seconds } => {
                self.line(&format!("cut over: requests were stalled for {:.0} ms", pause_seconds * 1000.0));
            }
            Event::Table { keyspace, table, rows } => self.line(&format!("{keyspace}.{table}: {rows} rows")),
            Event::Different(row) => self.line(&different(row)),
            Event::Finished { .. } => {}
        }
    }
}

/// Returns the line of an event of SSTables for a node.
fn arrived(event: &Event) -> String {
    match event {
        Event::Sent { keyspace, table, sstable, node, bytes, partitions, whole } => {
            let how = if *whole { "whole" } else { "sections" };
            let bytes = size(*bytes);
            format!("{keyspace}.{table} {sstable} -> {node}: {bytes}, {partitions} partitions, {how}")
        }
        Event::Placed { keyspace, table, node, directory, sstables, bytes, linked } => {
            let how = if *linked > 0 { "linked" } else { "copied" };
            let bytes = size(*bytes);
            format!("{keyspace}.{table} -> {node}: {sstables} SSTables with {bytes} {how} into {directory}")
        }
        Event::Nodetool { command } => command.clone(),
        Event::Imported { keyspace, table, node, sstables, bytes } => {
            format!("{keyspace}.{table} -> {node}: {sstables} SSTables with {} imported", size(*bytes))
        }
        _ => String::new(),
    }
}

fn different(row: &Difference) -> String {
    let found = match row.found.as_str() {
        "source" => "absent at the target",
        "target" => "only at the target",
        _ => "cells differ",
    };
    let repaired = if row.repaired { ", repaired" } else { "" };
    format!("{}.{} ({}): {found}{repaired}", row.keyspace, row.table, row.key.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_two_units() {
        let texts = [0.4, 59.0, 61.0, 3599.6, 7300.0].map(duration);
        assert_eq!(texts, ["0 s", "59 s", "1 min 1 s", "1 h 0 min", "2 h 1 min"]);
        assert_eq!([999, 1_500_000, 2_340_000_000].map(size), ["1.0 kB", "1.5 MB", "2.34 GB"]);
    }
}
