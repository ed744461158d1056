//! Signals during calls of the library.
//!
//! Python runs the handlers of signals in its main thread, between instructions of the interpreter.
//! While that thread executes a statement, the handlers run within the statement's checks for
//! interruption instead: the check reads the clock of its deadline, and [`Handlers`] is that clock.
//! If a handler raises an exception, as that of SIGINT does, the statement is interrupted, and the
//! exception is raised.
//!
//! The library may hold locks at such a check, so a handler that uses a database there could wait
//! for its own thread. [`detached`] refuses these calls.

use std::cell::{Cell, RefCell};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use cassette::internals::rows::Interrupted;
use cassette::internals::rows::interrupt::{self, Cancellation, MonotonicClock};
use pyo3::prelude::*;

use crate::errors::interface_error;

/// The least time between two runs of the handlers. Each has to wait for the lock of the
/// interpreter.
const INTERVAL: Duration = Duration::from_millis(10);

/// A deadline that is never reached. Waits for locks of the schema last as long.
const NEVER: Duration = Duration::from_secs(u32::MAX as u64);

thread_local! {
    /// Whether this is the main thread of the interpreter; `None` if that is not known yet.
    static IS_MAIN: Cell<Option<bool>> = const { Cell::new(None) };
    /// Whether the thread executes a call.
    static IS_EXECUTING: Cell<bool> = const { Cell::new(false) };
    /// The call that handlers can interrupt.
    static CALL: RefCell<Option<Call>> = const { RefCell::new(None) };
}

struct Call {
    cancellation: Cancellation,
    /// When the handlers ran last.
    checked: Instant,
    /// The exception of a handler.
    raised: Option<PyErr>,
}

/// The clock of the deadline. Its time is always zero.
struct Handlers;

static HANDLERS: LazyLock<Arc<dyn MonotonicClock>> = LazyLock::new(|| Arc::new(Handlers));

impl MonotonicClock for Handlers {
    fn monotonic(&self) -> Duration {
        if is_due() {
            // The handlers are arbitrary code, so nothing is borrowed meanwhile.
            let raised = Python::attach(|py| py.check_signals()).err();
            CALL.with_borrow_mut(|call| {
                if let Some(call) = call {
                    call.checked = Instant::now();
                    if raised.is_some() {
                        call.raised = raised;
                        call.cancellation.cancel(Interrupted::Cancelled);
                    }
                }
            });
        }
        Duration::ZERO
    }
}

fn is_due() -> bool {
    CALL.with_borrow(|call| {
        call.as_ref().is_some_and(|call| call.raised.is_none() && call.checked.elapsed() >= INTERVAL)
    })
}

/// Marks the thread as executing, until it is dropped.
struct Executing;

impl Executing {
    fn begin() -> Option<Self> {
        if IS_EXECUTING.replace(true) { None } else { Some(Self) }
    }
}

impl Drop for Executing {
    fn drop(&mut self) {
        IS_EXECUTING.set(false);
        CALL.take();
    }
}

/// Runs `work` without the lock of the interpreter. Handlers of signals run meanwhile; fails with
/// the exception that one raises.
pub fn detached<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> PyResult<T> {
    let Some(_executing) = Executing::begin() else {
        let message = "the thread executes a statement: a handler of a signal, or a conversion of its values, \
                       cannot use a database";
        return Err(interface_error(py, message));
    };
    if !is_main_thread(py)? {
        return Ok(py.detach(work));
    }
    let cancellation = Cancellation::new();
    let call = Call { cancellation: cancellation.clone(), checked: Instant::now(), raised: None };
    CALL.set(Some(call));
    let done = py.detach(|| {
        interrupt::cancellable(&cancellation, || interrupt::with_deadline(&HANDLERS, NEVER, work))
    });
    match CALL.take().and_then(|call| call.raised) {
        Some(raised) => Err(raised),
        None => Ok(done),
    }
}

fn is_main_thread(py: Python<'_>) -> PyResult<bool> {
    if let Some(known) = IS_MAIN.get() {
        return Ok(known);
    }
    let threading = py.import("threading")?;
    let main = threading.call_method0("main_thread")?.getattr("ident")?;
    let is_main = threading.call_method0("get_ident")?.eq(main)?;
    IS_MAIN.set(Some(is_main));
    Ok(is_main)
}
