//! What a call may spend.

use std::time::{Duration, Instant};

use cassette_rows::{Interrupted, interrupt};
use parking_lot::Mutex;

use crate::settings::Settings;

/// The budget of the call that a state executes.
#[derive(Debug, Default)]
pub(super) struct Budget(Mutex<Option<Call>>);

#[derive(Debug)]
struct Call {
    start: Instant,
    duration: Duration,
    instructions: u64,
    out_of: Option<OutOf>,
}

/// What a call ran out of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OutOf {
    Time,
    Instructions,
    /// The request that it belongs to was interrupted.
    Request(Interrupted),
}

impl Budget {
    /// Begins a call.
    pub fn start(&self, settings: &Settings) {
        *self.0.lock() = Some(Call {
            start: Instant::now(),
            duration: settings.fail_timeout,
            instructions: settings.instructions,
            out_of: None,
        });
    }

    /// Ends the call. Returns what it ran out of.
    pub fn stop(&self) -> Option<OutOf> {
        self.0.lock().take()?.out_of
    }

    /// Accounts for a number of instructions, or steps of comparable duration.
    ///
    /// # Errors
    /// When the budget is used up; every later call in the same state then fails, too.
    pub fn spend(&self, instructions: u64) -> mlua::Result<()> {
        let mut guard = self.0.lock();
        let Some(call) = &mut *guard else { return Ok(()) };
        if call.out_of.is_none() {
            call.out_of = call.spend(instructions).err();
        }
        match call.out_of {
            None => Ok(()),
            Some(OutOf::Time) => Err(mlua::Error::runtime("the function ran too long")),
            Some(OutOf::Instructions) => {
                Err(mlua::Error::runtime("the function executed too many instructions"))
            }
            Some(OutOf::Request(reason)) => Err(mlua::Error::runtime(reason.to_string())),
        }
    }
}

impl Call {
    fn spend(&mut self, instructions: u64) -> Result<(), OutOf> {
        self.instructions = self.instructions.checked_sub(instructions).ok_or(OutOf::Instructions)?;
        if self.start.elapsed() > self.duration {
            return Err(OutOf::Time);
        }
        interrupt::check_now().map_err(OutOf::Request)
    }
}
