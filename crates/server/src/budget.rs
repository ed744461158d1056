//! Memory that connections share: counted in bytes, reserved before it is allocated.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

/// A reservation of at most this many bytes can overtake larger ones that wait.
const SMALL: usize = 64 * 1024;

/// Bytes against a limit.
///
/// A reservation covers everything that a request will need, so that the holder of one never waits
/// for another. It is granted if it fits, or if nothing is reserved: no request is too large to
/// pass alone. Waiting reservations are granted in their order, but small ones overtake, up to the
/// limit's worth of bytes for each waiting one.
#[derive(Debug)]
pub(crate) struct Budget {
    limit: usize,
    state: Mutex<State>,
    /// A copy of `State::used`, for readers without the lock.
    used: AtomicUsize,
    relieved: Notify,
}

#[derive(Debug, Default)]
struct State {
    used: usize,
    waiting: VecDeque<Waiter>,
    next_id: u64,
    /// Bytes that have overtaken the first reservation.
    overtaken: usize,
}

#[derive(Debug)]
struct Waiter {
    id: u64,
    bytes: usize,
    granted: oneshot::Sender<()>,
}

/// Reserved bytes, released on drop.
#[derive(Debug)]
pub(crate) struct Reserved {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Budget {
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, state: Mutex::default(), used: AtomicUsize::new(0), relieved: Notify::new() })
    }

    pub fn limit(&self) -> usize {
        self.limit
    }

    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Returns whether more bytes are reserved than the limit: by one large request, or by
    /// [`reserve_anyway`].
    ///
    /// [`reserve_anyway`]: Self::reserve_anyway
    pub fn is_exceeded(&self) -> bool {
        self.used() > self.limit
    }

    /// Waits until the limit is not exceeded.
    pub async fn relieved(&self) {
        loop {
            let notified = self.relieved.notified();
            if !self.is_exceeded() {
                return;
            }
            notified.await;
        }
    }

    /// Reserves `bytes` if that is possible at once.
    pub fn try_reserve(self: &Arc<Self>, bytes: usize) -> Option<Reserved> {
        let mut state = self.state.lock();
        if !state.waiting.is_empty() && !state.may_overtake(bytes, self.limit) {
            return None;
        }
        if !state.fits(bytes, self.limit) {
            return None;
        }
        if !state.waiting.is_empty() {
            state.overtaken += bytes;
        }
        self.take(&mut state, bytes);
        Some(Reserved { budget: Arc::clone(self), bytes })
    }

    /// Reserves `bytes` regardless of the limit, for memory that exists already.
    pub fn reserve_anyway(self: &Arc<Self>, bytes: usize) -> Reserved {
        self.take(&mut self.state.lock(), bytes);
        Reserved { budget: Arc::clone(self), bytes }
    }

    /// Reserves `bytes`; waits until that is possible.
    pub async fn reserve(self: &Arc<Self>, bytes: usize) -> Reserved {
        /// Releases the place in the queue, or the granted bytes, if the wait is cancelled.
        struct Waiting<'a> {
            budget: &'a Arc<Budget>,
            id: u64,
            bytes: usize,
            is_over: bool,
        }
        impl Drop for Waiting<'_> {
            fn drop(&mut self) {
                if self.is_over {
                    return;
                }
                let mut state = self.budget.state.lock();
                match state.waiting.iter().position(|waiter| waiter.id == self.id) {
                    Some(place) => {
                        state.waiting.remove(place);
                        self.budget.grant(&mut state);
                    }
                    None => self.budget.give_back(&mut state, self.bytes),
                }
            }
        }
        let (granted, is_granted) = oneshot::channel();
        let id = {
            let mut state = self.state.lock();
            let id = state.next_id;
            state.next_id += 1;
            state.waiting.push_back(Waiter { id, bytes, granted });
            self.grant(&mut state);
            id
        };
        let mut waiting = Waiting { budget: self, id, bytes, is_over: false };
        // The sender is dropped only after it has sent.
        let _ = is_granted.await;
        waiting.is_over = true;
        Reserved { budget: Arc::clone(self), bytes }
    }

    fn take(&self, state: &mut State, bytes: usize) {
        state.used += bytes;
        self.used.store(state.used, Ordering::Relaxed);
    }

    fn give_back(&self, state: &mut State, bytes: usize) {
        let was_exceeded = state.used > self.limit;
        state.used -= bytes;
        self.used.store(state.used, Ordering::Relaxed);
        if was_exceeded && state.used <= self.limit {
            self.relieved.notify_waiters();
        }
        self.grant(state);
    }

    /// Grants the reservations that are possible now.
    fn grant(&self, state: &mut State) {
        let mut place = 0;
        while let Some(waiter) = state.waiting.get(place) {
            let bytes = waiter.bytes;
            let is_first = place == 0;
            if !state.fits(bytes, self.limit) || !is_first && !state.may_overtake(bytes, self.limit) {
                place += 1;
                continue;
            }
            let Some(waiter) = state.waiting.remove(place) else { return };
            state.overtaken = if is_first { 0 } else { state.overtaken + bytes };
            self.take(state, bytes);
            // From now on, dropping the wait releases the bytes.
            let _ = waiter.granted.send(());
        }
    }
}

impl State {
    fn fits(&self, bytes: usize, limit: usize) -> bool {
        self.used == 0 || self.used.saturating_add(bytes) <= limit
    }

    fn may_overtake(&self, bytes: usize, limit: usize) -> bool {
        bytes <= SMALL && self.overtaken + bytes <= limit
    }
}

impl Reserved {
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Releases all except `bytes`.
    pub fn shrink_to(&mut self, bytes: usize) {
        if bytes < self.bytes {
            self.budget.give_back(&mut self.budget.state.lock(), self.bytes - bytes);
            self.bytes = bytes;
        }
    }

    /// Merges with `other`, which belongs to the same budget.
    pub fn add(&mut self, mut other: Self) {
        debug_assert!(Arc::ptr_eq(&self.budget, &other.budget));
        self.bytes += std::mem::take(&mut other.bytes);
    }

    /// Adds `bytes` if they fit now.
    pub fn try_grow(&mut self, bytes: usize) -> bool {
        self.budget.try_reserve(bytes).map(|more| self.add(more)).is_some()
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.budget.give_back(&mut self.budget.state.lock(), self.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn poll<F: Future>(future: Pin<&mut F>) -> Option<F::Output> {
        match future.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }

    #[test]
    fn reservations_are_granted_in_their_order_when_they_fit() {
        let budget = Budget::new(1_000_000);
        let first = budget.try_reserve(900_000).unwrap();
        let mut second = pin!(budget.reserve(800_000));
        let mut third = pin!(budget.reserve(100_000));
        assert!(poll(second.as_mut()).is_none() && poll(third.as_mut()).is_none());
        assert!(budget.try_reserve(100_000).is_none(), "two wait already");
        drop(first);
        let second = poll(second.as_mut()).unwrap();
        let third = poll(third.as_mut()).unwrap();
        assert_eq!(budget.used(), 900_000);
        drop((second, third));
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn a_request_larger_than_the_limit_passes_alone() {
        let budget = Budget::new(100);
        let large = budget.try_reserve(1000).unwrap();
        assert!(budget.is_exceeded());
        assert!(budget.try_reserve(1).is_none());
        drop(large);
        let small = budget.try_reserve(1).unwrap();
        let mut large = pin!(budget.reserve(1000));
        assert!(poll(large.as_mut()).is_none());
        drop(small);
        assert_eq!(poll(large.as_mut()).unwrap().bytes(), 1000);
    }

    #[test]
    fn small_requests_overtake_a_large_one_but_not_for_ever() {
        let budget = Budget::new(2 * SMALL);
        let held = budget.try_reserve(SMALL).unwrap();
        let mut large = pin!(budget.reserve(2 * SMALL));
        assert!(poll(large.as_mut()).is_none());
        for _ in 0..2 {
            drop(budget.try_reserve(SMALL).expect("it fits and is small"));
        }
        assert!(budget.try_reserve(1).is_none(), "as much as the limit has overtaken");
        drop(held);
        assert!(poll(large.as_mut()).is_some());
    }

    #[test]
    fn an_abandoned_wait_leaves_nothing_reserved() {
        let budget = Budget::new(100);
        let held = budget.try_reserve(100).unwrap();
        {
            let mut waiting = Box::pin(budget.reserve(50));
            assert!(poll(waiting.as_mut()).is_none());
            let mut granted = Box::pin(budget.reserve(60));
            assert!(poll(granted.as_mut()).is_none());
            drop(waiting);
            drop(held);
            assert_eq!(budget.used(), 60, "granted, but not yet received");
        }
        assert_eq!(budget.used(), 0);
        assert!(budget.try_reserve(100).is_some());
    }

    #[test]
    fn a_reservation_grows_only_within_the_limit() {
        let budget = Budget::new(100);
        let mut reserved = budget.try_reserve(40).unwrap();
        assert!(reserved.try_grow(60) && !reserved.try_grow(1));
        reserved.shrink_to(10);
        assert_eq!((reserved.bytes(), budget.used()), (10, 10));
    }
}
