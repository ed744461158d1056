//! The shell on a terminal: an editor with history, completion and highlighting.

mod complete;
mod editor;
mod vocabulary;

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use reedline::Signal;

use crate::cqlshrc::expand_home;
use crate::error::{Result, command};
use crate::input::split;
use crate::shell::{Shell, Source};
pub(crate) use complete::{Names, complete};
use editor::{ShellPrompt, editor};

/// How long names for completion are used before they are read again: others change the schema,
/// too.
const NAMES_AGE_MAX: Duration = Duration::from_secs(60);

/// Reads and executes input until EXIT or Ctrl-D.
///
/// # Errors
/// If there is no terminal.
pub fn run(shell: &mut Shell, disable_history: bool) -> Result<()> {
    let disabled = disable_history || shell.cqlshrc.flag("history", "disabled") == Some(true);
    shell.history = (!disabled).then(history_file);
    shell.show_host()?;
    shell.show_version()?;
    shell.out.say("Use HELP for help.\n");
    shell.out.flush();
    let names = Arc::new(Mutex::new(Names::default()));
    let failed = |error: String| command(format!("cannot edit at this terminal: {error}"));
    let mut editor = editor(shell.history.clone(), names.clone(), shell.out.colored())
        .map_err(|error| failed(error.to_string()))?;
    // Ctrl-C ends a statement; without this, it would end the shell.
    signal_hook::flag::register(signal_hook::consts::SIGINT, shell.interrupt.clone())?;
    let mut read_at: Option<Instant> = None;
    while !shell.has_ended && !shell.out.is_closed {
        if read_at.is_none_or(|at| at.elapsed() > NAMES_AGE_MAX) {
            shell.forget_schema();
            read_at = Some(Instant::now());
        }
        shell.interrupt.store(false, Ordering::Relaxed);
        refresh(shell, &names);
        let prompt = ShellPrompt::new(shell.session.endpoint().user(), shell.session.keyspace.as_deref());
        // A shell that is killed keeps its history.
        let _ = editor.sync_history();
        match editor.read_line(&prompt).map_err(|error| failed(error.to_string()))? {
            Signal::Success(text) => {
                let text = text + "\n";
                let is_empty = split(&text).units.is_empty();
                if !is_empty {
                    shell.run(&text, &Source { name: "<stdin>", first_line: 1 }, false);
                }
            }
            Signal::CtrlD => break,
            _ => {}
        }
    }
    shell.out.say("\n");
    Ok(())
}

/// Passes the names of the schema on to completion. Without them, keywords are completed.
fn refresh(shell: &mut Shell, names: &Mutex<Names>) {
    let keyspace = shell.session.keyspace.clone();
    let schema = shell.schema().cloned().unwrap_or_default();
    *names.lock().unwrap_or_else(PoisonError::into_inner) = Names { schema, keyspace };
}

/// Returns the file with the history.
fn history_file() -> PathBuf {
    match std::env::var_os("CQL_HISTORY").filter(|path| !path.is_empty()) {
        Some(path) => PathBuf::from(path),
        None => expand_home("~/.cassandra/cassette_history"),
    }
}
