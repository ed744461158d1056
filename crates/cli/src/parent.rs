//! Stopping a server when the process that started it ends.

use std::io::{self, Read};

use anyhow::{Context, bail};
use tokio::sync::oneshot;

/// Reads standard input to its end, which comes when the process at the other end of the pipe
/// closes it or ends. The receiver fails to receive then.
pub fn end_of_stdin() -> anyhow::Result<oneshot::Receiver<()>> {
    let (at_end, ended) = oneshot::channel();
    // Not a thread of the runtime, which would wait for it at the end.
    let read = move || {
        let mut buffer = [0; 512];
        while io::stdin().lock().read(&mut buffer).is_ok_and(|length| length > 0) {}
        drop(at_end);
    };
    std::thread::Builder::new().name("stdin".to_owned()).spawn(read).context("cannot start a thread")?;
    Ok(ended)
}

/// Requests SIGTERM for this process when its parent, the process `parent`, ends for any reason.
///
/// # Errors
/// If that process is not the parent of this one, for example because it has already ended.
#[cfg(target_os = "linux")]
pub fn stop_with(parent: u32) -> anyhow::Result<()> {
    use rustix::process::{Signal, getppid, set_parent_process_death_signal};
    set_parent_process_death_signal(Some(Signal::TERM)).context("cannot watch the parent process")?;
    // Checked after the request: a parent that ends between the two would be missed otherwise.
    let is_parent = getppid().is_some_and(|now| i64::from(now.as_raw_nonzero().get()) == i64::from(parent));
    if !is_parent {
        bail!("--stop-with-parent: process {parent} is not the parent of this process, or has ended");
    }
    Ok(())
}

/// Refused: the operating system does not report the end of a parent process.
#[cfg(not(target_os = "linux"))]
pub fn stop_with(_parent: u32) -> anyhow::Result<()> {
    bail!("--stop-with-parent is supported on Linux only")
}
