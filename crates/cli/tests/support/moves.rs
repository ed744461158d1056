//! Moves in progress.

use std::path::Path;
use std::process::{Child, Output};
use std::time::{Duration, Instant};

use super::PATIENCE;

/// Returns what a command has printed.
pub fn text_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Waits until the progress file of a move has this many completed parts.
pub fn wait_for_parts(directory: &Path, child: &mut Child, count: usize) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let text = std::fs::read_to_string(directory.join("cassette-move.progress")).unwrap_or_default();
        if text.matches("\"done\"").count() >= count {
            return;
        }
        assert!(child.try_wait().unwrap().is_none(), "the move has ended before {count} parts");
        assert!(Instant::now() < deadline, "{text}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
