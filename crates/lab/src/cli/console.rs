//! The terminal: progress, interruption, results.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use signal_hook::consts::SIGINT;

use crate::LabError;
use crate::benchmark::Observer;
use crate::format::grouped;
use crate::recording::LiveView;
use crate::report::text;
use crate::results::PhaseReport;
use crate::results::disturbance::others_now;
use crate::run::PhasePlan;

/// How long the machine is watched before a benchmark.
const BUSY_SAMPLE: Duration = Duration::from_millis(200);

/// Returns the command as it could be typed again, without the argument of `--password`.
pub(crate) fn command_line(arguments: impl Iterator<Item = String>) -> String {
    let mut shown = Vec::new();
    let mut hide_next = false;
    for argument in arguments {
        let argument = match argument.split_once('=') {
            _ if std::mem::take(&mut hide_next) => "***".to_string(),
            Some(("--password", _)) => "--password=***".to_string(),
            _ => argument,
        };
        hide_next = argument == "--password";
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,*".contains(c);
        shown.push(if argument.chars().all(plain) && !argument.is_empty() {
            argument
        } else {
            format!("'{}'", argument.replace('\'', r"'\''"))
        });
    }
    shown.join(" ")
}

/// Shows progress on standard error, if it is a terminal, and results on standard output.
pub(crate) struct Console {
    bar: ProgressBar,
    /// Whether the bar shows milliseconds instead of operations.
    by_time: AtomicBool,
    interrupted: Arc<AtomicBool>,
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl Console {
    /// Installs a handler: the first Ctrl-C ends the phase, so that results so far are reported; a
    /// second one ends the process.
    pub(crate) fn new() -> Result<Self, LabError> {
        let interrupted = Arc::new(AtomicBool::new(false));
        let handled = signal_hook::flag::register_conditional_shutdown(SIGINT, 130, Arc::clone(&interrupted))
            .and_then(|_| signal_hook::flag::register(SIGINT, Arc::clone(&interrupted)));
        handled.map_err(|error| LabError::io("handling Ctrl-C", error))?;
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        Ok(Self { bar, by_time: AtomicBool::new(false), interrupted })
    }

    /// Removes the progress bar.
    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }

    /// Warns if other programs use the processors before anything is measured.
    pub(crate) fn warn_if_busy(&self) {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let busy = others_now(BUSY_SAMPLE).and_then(|disturbance| disturbance.text(processors));
        if let Some(text) = busy {
            self.print(&format!("warning: the machine is busy: {text}. Results will be noisy.\n"));
        }
    }

    pub(crate) fn print(&self, text: &str) {
        self.bar.suspend(|| {
            let mut out = std::io::stdout().lock();
            // A closed output is no reason to lose the report that is still to be written.
            let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        });
    }
}

impl Observer for Console {
    fn on_phase_start(&self, plan: &PhasePlan) {
        // If a phase is bounded by both, the remaining time is known better.
        let length = plan.time.map(milliseconds).or(plan.operations);
        let style = match length {
            Some(_) => "{prefix:<6} {wide_bar} {percent:>3} %  {msg}  {eta} left",
            None => "{prefix:<6} {spinner}  {msg}  {elapsed}",
        };
        self.by_time.store(plan.time.is_some(), Ordering::Relaxed);
        self.bar.reset();
        self.bar.set_style(ProgressStyle::with_template(style).expect("the templates are right"));
        self.bar.set_prefix(plan.name.clone());
        self.bar.set_message("");
        match length {
            Some(length) => self.bar.set_length(length),
            None => self.bar.unset_length(),
        }
    }

    fn on_progress(&self, view: &LiveView) {
        let failed = match view.failures {
            0 => String::new(),
            failures => format!("  {} FAILED", grouped(failures)),
        };
        let p99 = view.recent_p99_ns.map_or("-".into(), |ns| grouped(ns.div_ceil(1000)));
        self.bar.set_position(if self.by_time.load(Ordering::Relaxed) {
            milliseconds(self.bar.elapsed())
        } else {
            view.operations + view.failures
        });
        self.bar.set_message(format!(
            "{:>9} ops/s  p99 {p99:>7} µs{failed}",
            grouped((view.recent_operations as f64 / view.recent_seconds).round() as u64)
        ));
    }

    fn stop_reason(&self) -> Option<String> {
        self.interrupted.load(Ordering::Relaxed).then(|| "interrupted".to_owned())
    }

    fn on_phase_end(&self, report: &PhaseReport) {
        self.bar.finish_and_clear();
        self.print(&text::phase(report));
    }
}

/// Shows progress, and only the failures of phases: their results are shown together at the end.
pub(crate) struct Progress<'a>(pub(crate) &'a Console);

impl Observer for Progress<'_> {
    fn on_phase_start(&self, plan: &PhasePlan) {
        self.0.on_phase_start(plan);
    }

    fn on_progress(&self, view: &LiveView) {
        self.0.on_progress(view);
    }

    fn stop_reason(&self) -> Option<String> {
        self.0.stop_reason()
    }

    fn on_phase_end(&self, report: &PhaseReport) {
        if report.failed == 0 && report.stopped.is_none() {
            self.0.clear();
        } else {
            self.0.on_phase_end(report);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(arguments: &[&str]) -> String {
        command_line(arguments.iter().map(ToString::to_string))
    }

    #[test]
    fn the_command_line_is_quoted_and_hides_passwords() {
        assert_eq!(line(&["cassette", "lab", "-p", "a=b c"]), "cassette lab -p 'a=b c'");
        assert_eq!(line(&["x", "--password", "secret", "y"]), "x --password *** y");
        assert_eq!(line(&["x", "--password=secret=", "y"]), "x --password=*** y");
        assert_eq!(line(&["it's"]), r"'it'\''s'");
    }
}
