//! Deadlines and cancellation of the request that a thread executes.
//!
//! A request may cause more computation than its client or the other clients can wait for. The code
//! that executes it installs a deadline with [`with_deadline`] and a [`Cancellation`] with
//! [`cancellable`]; both apply to the calling thread until the closure returns. Loops whose length
//! a client controls call [`check`], which fails with [`Interrupted`] once the deadline has passed
//! or the request has been cancelled:
//!
//! ```
//! use cassette_rows::interrupt::{self, Cancellation, Interrupted};
//!
//! fn count_up() -> Result<(), Interrupted> {
//!     loop {
//!         interrupt::check()?;
//!     }
//! }
//!
//! let cancellation = Cancellation::new();
//! cancellation.cancel(Interrupted::ClientGone);
//! let result = interrupt::cancellable(&cancellation, count_up);
//! assert_eq!(result, Err(Interrupted::ClientGone));
//! ```
//!
//! | call | cost | use |
//! | --- | --- | --- |
//! | [`check`] | a decrement; reads the clock every [`CHECK_INTERVAL`] calls | once per row, element or term |
//! | [`charge`] | as `check` | steps of very different size: the size in units of about 100 ns |
//! | [`check_now`] | reads the clock | before a step that may take milliseconds, such as a read from disk |
//! | [`check_before_wait`] | as `check_now` | before each wait for another thread |
//!
//! A write must not fail halfway: [`shielded`] hides deadline and cancellation from its closure. It
//! surrounds everything from the point after which a change cannot be undone. Threads without an
//! installed deadline, such as those that flush and compact, are never interrupted.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Duration;

/// The number of calls of [`check`] for each read of the clock.
pub const CHECK_INTERVAL: u32 = 256;

/// The longest wait before the next [`check_before_wait`].
const WAIT_INTERVAL: Duration = Duration::from_millis(50);

/// Why a request was interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Interrupted {
    /// Its deadline has passed.
    #[error("the request exceeded its timeout")]
    TimedOut,
    /// No client waits for the result any more.
    #[error("the client has closed its connection")]
    ClientGone,
    /// The server stops before the request is complete.
    #[error("the node is shutting down")]
    ShuttingDown,
    /// An operator has cancelled it.
    #[error("the request was cancelled by an operator")]
    Cancelled,
}

/// A clock that never steps back, for deadlines.
pub trait MonotonicClock: Send + Sync {
    /// Time since some fixed instant.
    fn monotonic(&self) -> Duration;
}

/// A flag that interrupts a request from another thread. Clones share the flag.
#[derive(Debug, Clone, Default)]
pub struct Cancellation {
    flag: Arc<AtomicU8>,
    /// Interrupts this and other requests together.
    of_all: Option<Arc<AtomicU8>>,
    /// Interrupts it while true.
    of_user: Option<Arc<AtomicBool>>,
}

impl Cancellation {
    /// Creates a flag that is not set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a flag that is also set while `user` is true, which a signal handler can write.
    pub fn by_user(user: Arc<AtomicBool>) -> Self {
        Self { of_user: Some(user), ..Self::default() }
    }

    /// Creates a flag for one of the requests that this one interrupts.
    #[must_use]
    pub fn of_one(&self) -> Self {
        Self { flag: Arc::default(), of_all: Some(Arc::clone(&self.flag)), of_user: self.of_user.clone() }
    }

    /// Interrupts the request at its next check. The first reason is kept.
    pub fn cancel(&self, reason: Interrupted) {
        let _ = self.flag.compare_exchange(0, code(reason), Ordering::AcqRel, Ordering::Acquire);
    }

    /// Returns the reason, if the request has been cancelled.
    pub fn reason(&self) -> Option<Interrupted> {
        let codes = [Some(&self.flag), self.of_all.as_ref()];
        let reason = codes.into_iter().flatten().find_map(|flag| reason_of(flag.load(Ordering::Acquire)));
        let by_user = || self.of_user.as_ref().is_some_and(|user| user.load(Ordering::Acquire));
        reason.or_else(|| by_user().then_some(Interrupted::Cancelled))
    }
}

fn code(reason: Interrupted) -> u8 {
    match reason {
        Interrupted::TimedOut => 1,
        Interrupted::ClientGone => 2,
        Interrupted::ShuttingDown => 3,
        Interrupted::Cancelled => 4,
    }
}

fn reason_of(code: u8) -> Option<Interrupted> {
    match code {
        1 => Some(Interrupted::TimedOut),
        2 => Some(Interrupted::ClientGone),
        3 => Some(Interrupted::ShuttingDown),
        4 => Some(Interrupted::Cancelled),
        _ => None,
    }
}

thread_local! {
    /// Calls of `check` until the next read of the clock and the flag.
    static COUNTDOWN: Cell<u32> = const { Cell::new(CHECK_INTERVAL) };
    static SHIELDED: Cell<bool> = const { Cell::new(false) };
    /// In the time of `CLOCK`.
    static DEADLINE: Cell<Option<Duration>> = const { Cell::new(None) };
    /// Stays set between requests: most threads use one clock, whose reference count is shared by
    /// all threads.
    static CLOCK: RefCell<Option<Arc<dyn MonotonicClock>>> = const { RefCell::new(None) };
    static CANCELLATION: RefCell<Option<Cancellation>> = const { RefCell::new(None) };
}

/// Runs `work` and interrupts it once `clock` has reached `deadline`. An earlier deadline that is
/// already installed remains in force. All deadlines of one thread must use one clock.
pub fn with_deadline<T>(clock: &Arc<dyn MonotonicClock>, deadline: Duration, work: impl FnOnce() -> T) -> T {
    /// Also when `work` panics: the thread serves other requests afterwards.
    struct Restore(Option<Duration>);
    impl Drop for Restore {
        fn drop(&mut self) {
            DEADLINE.set(self.0);
        }
    }
    let outer = DEADLINE.get();
    let _restore = Restore(outer);
    DEADLINE.set(Some(outer.map_or(deadline, |outer| outer.min(deadline))));
    CLOCK.with_borrow_mut(|current| {
        if !current.as_ref().is_some_and(|current| Arc::ptr_eq(current, clock)) {
            *current = Some(clock.clone());
        }
    });
    COUNTDOWN.set(CHECK_INTERVAL);
    work()
}

/// Runs `work` and interrupts it once `cancellation` is set. Replaces an installed one.
pub fn cancellable<T>(cancellation: &Cancellation, work: impl FnOnce() -> T) -> T {
    struct Restore(Option<Cancellation>);
    impl Drop for Restore {
        fn drop(&mut self) {
            CANCELLATION.replace(self.0.take());
        }
    }
    let _restore = Restore(CANCELLATION.replace(Some(cancellation.clone())));
    COUNTDOWN.set(CHECK_INTERVAL);
    work()
}

/// Runs `work` without interruption: for changes that must not stop halfway.
pub fn shielded<T>(work: impl FnOnce() -> T) -> T {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            SHIELDED.set(self.0);
        }
    }
    let _restore = Restore(SHIELDED.replace(true));
    work()
}

/// Counts one step of the computation.
///
/// # Errors
/// At least every [`CHECK_INTERVAL`] steps, if the request has been cancelled or its deadline has
/// passed.
#[inline]
pub fn check() -> Result<(), Interrupted> {
    charge(1)
}

/// Counts `steps` steps of the computation at once.
///
/// # Errors
/// As [`check`].
#[inline]
pub fn charge(steps: u32) -> Result<(), Interrupted> {
    match COUNTDOWN.get().checked_sub(steps) {
        Some(left) if left > 0 => {
            COUNTDOWN.set(left);
            Ok(())
        }
        _ => check_now(),
    }
}

/// Checks deadline and cancellation at once.
///
/// # Errors
/// If the request has been cancelled or its deadline has passed.
pub fn check_now() -> Result<(), Interrupted> {
    COUNTDOWN.set(CHECK_INTERVAL);
    if SHIELDED.get() {
        return Ok(());
    }
    let cancelled = CANCELLATION.with_borrow(|current| current.as_ref().and_then(Cancellation::reason));
    match cancelled {
        Some(reason) => Err(reason),
        None if remaining().is_some_and(|left| left.is_zero()) => Err(Interrupted::TimedOut),
        None => Ok(()),
    }
}

/// Checks deadline and cancellation at once, and returns how long the thread may wait for another
/// one before it calls this again. A wait in such steps ends at the deadline, and soon after a
/// cancellation.
///
/// # Errors
/// If the request has been cancelled or its deadline has passed.
pub fn check_before_wait() -> Result<Duration, Interrupted> {
    check_now()?;
    Ok(remaining().map_or(WAIT_INTERVAL, |left| left.min(WAIT_INTERVAL)))
}

/// Returns the time until the deadline, zero once it has passed; `None` without a deadline, and
/// inside [`shielded`].
pub fn remaining() -> Option<Duration> {
    if SHIELDED.get() {
        return None;
    }
    let deadline = DEADLINE.get()?;
    CLOCK.with_borrow(|clock| Some(deadline.saturating_sub(clock.as_ref()?.monotonic())))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    /// Advances by a millisecond whenever it is read.
    #[derive(Default)]
    struct Ticking(AtomicU64);

    impl MonotonicClock for Ticking {
        fn monotonic(&self) -> Duration {
            Duration::from_millis(self.0.fetch_add(1, Ordering::Relaxed))
        }
    }

    #[test]
    fn one_of_several_requests_is_interrupted_alone_or_with_all() {
        let all = Cancellation::new();
        let (one, other) = (all.of_one(), all.of_one());
        one.cancel(Interrupted::Cancelled);
        assert_eq!((one.reason(), other.reason(), all.reason()), (Some(Interrupted::Cancelled), None, None));
        all.cancel(Interrupted::ClientGone);
        assert_eq!(other.reason(), Some(Interrupted::ClientGone));
        assert_eq!(one.reason(), Some(Interrupted::Cancelled), "the first reason is kept");
        for code in 0..=5 {
            assert!(reason_of(code).is_none_or(|reason| self::code(reason) == code));
        }
    }

    fn checks_until_interrupted() -> (u32, Interrupted) {
        (0..).find_map(|n| check().err().map(|reason| (n, reason))).unwrap()
    }

    #[test]
    fn a_loop_ends_soon_after_its_deadline() {
        let clock: Arc<dyn MonotonicClock> = Arc::new(Ticking::default());
        let (checks, reason) = with_deadline(&clock, Duration::from_millis(10), checks_until_interrupted);
        assert_eq!(reason, Interrupted::TimedOut);
        assert!(checks < 12 * CHECK_INTERVAL, "{checks}");
        assert_eq!(check_now(), Ok(()), "the deadline was that of the closure");
    }

    #[test]
    fn large_steps_reach_the_deadline_in_fewer_checks() {
        let clock: Arc<dyn MonotonicClock> = Arc::new(Ticking::default());
        let interrupted = with_deadline(&clock, Duration::from_millis(10), || {
            (0..).find_map(|n| charge(CHECK_INTERVAL).err().map(|_| n)).unwrap()
        });
        assert_eq!(interrupted, 10);
    }

    #[test]
    fn an_inner_deadline_does_not_extend_the_outer_one() {
        let clock: Arc<dyn MonotonicClock> = Arc::new(Ticking::default());
        let reason = with_deadline(&clock, Duration::ZERO, || {
            with_deadline(&clock, Duration::from_secs(1_000_000), check_now)
        });
        assert_eq!(reason, Err(Interrupted::TimedOut));
    }

    #[test]
    fn a_wait_lasts_until_the_deadline_at_most() {
        let clock: Arc<dyn MonotonicClock> = Arc::new(Ticking::default());
        assert_eq!(check_before_wait(), Ok(WAIT_INTERVAL));
        with_deadline(&clock, Duration::from_millis(10), || {
            let wait = check_before_wait().unwrap();
            assert!(!wait.is_zero() && wait < Duration::from_millis(10), "{wait:?}");
        });
        let passed = with_deadline(&clock, Duration::ZERO, check_before_wait);
        assert_eq!(passed, Err(Interrupted::TimedOut));
    }

    #[test]
    fn a_cancelled_request_reports_the_first_reason_also_from_another_thread() {
        let cancellation = Cancellation::new();
        let reason = cancellable(&cancellation, || {
            let remote = cancellation.clone();
            std::thread::spawn(move || remote.cancel(Interrupted::ShuttingDown)).join().unwrap();
            cancellation.cancel(Interrupted::ClientGone);
            checks_until_interrupted().1
        });
        assert_eq!(reason, Interrupted::ShuttingDown);
        assert_eq!(check_now(), Ok(()));
    }

    #[test]
    fn a_request_of_a_user_is_interrupted_while_the_flag_is_set() {
        let user = Arc::new(AtomicBool::new(true));
        let cancellation = Cancellation::by_user(Arc::clone(&user));
        let interrupted = || cancellable(&cancellation.of_one(), check_now);
        assert_eq!(interrupted(), Err(Interrupted::Cancelled));
        user.store(false, Ordering::Release);
        assert_eq!(interrupted(), Ok(()));
    }

    #[test]
    fn a_shielded_change_is_not_interrupted() {
        let clock: Arc<dyn MonotonicClock> = Arc::new(Ticking::default());
        with_deadline(&clock, Duration::ZERO, || {
            assert_eq!(shielded(check_now), Ok(()));
            assert_eq!(shielded(remaining), None);
            assert_eq!(check_now(), Err(Interrupted::TimedOut));
        });
    }

    #[test]
    fn a_panic_uninstalls_deadline_and_cancellation() {
        let clock: Arc<dyn MonotonicClock> = Arc::new(Ticking::default());
        let cancellation = Cancellation::new();
        cancellation.cancel(Interrupted::ClientGone);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            with_deadline(&clock, Duration::ZERO, || cancellable(&cancellation, || panic!("a bug")))
        }));
        assert!(panicked.is_err());
        assert_eq!(check_now(), Ok(()));
    }
}
