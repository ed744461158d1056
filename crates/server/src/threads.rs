//! The threads for requests that may block, shared fairly.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// Returns the number of processors that this process may use. It is determined once: the system
/// answers in some twenty calls.
pub(crate) fn processors() -> usize {
    static PROCESSORS: OnceLock<usize> = OnceLock::new();
    *PROCESSORS.get_or_init(|| std::thread::available_parallelism().map_or(2, usize::from))
}

/// Grants threads to requests.
///
/// A thread that becomes free is granted to the address with the fewest, among its connections to
/// the one with the fewest, and among those to the request that has waited longest. A few threads
/// beyond the maximum are reserved for addresses without one: no address can occupy all.
#[derive(Debug)]
pub(crate) struct Threads {
    max: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    running: usize,
    /// The number of threads of each address that has any.
    addresses: HashMap<IpAddr, usize>,
    connections: HashMap<u64, usize>,
    /// In the order of arrival.
    waiting: Vec<Waiter>,
    next_id: u64,
}

#[derive(Debug)]
struct Waiter {
    id: u64,
    client: ThreadClient,
    granted: oneshot::Sender<()>,
}

/// The address and connection that occupy a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ThreadClient {
    pub address: IpAddr,
    pub connection: u64,
}

/// A granted thread, released on drop.
#[derive(Debug)]
pub(crate) struct ThreadPermit {
    threads: Arc<Threads>,
    client: ThreadClient,
}

/// Returns the threads reserved for addresses without one, where `max` are for all.
pub(crate) fn reserved(max: usize) -> usize {
    (max / 8).max(1)
}

impl Threads {
    pub fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max: max.max(1), state: Mutex::default() })
    }

    pub fn max(&self) -> usize {
        self.max
    }

    pub fn running(&self) -> usize {
        self.state.lock().running
    }

    /// Returns a thread, if one is free for `client` and no other request waits for it.
    pub fn try_acquire(self: &Arc<Self>, client: ThreadClient) -> Option<ThreadPermit> {
        let mut state = self.state.lock();
        if !state.may_start(client, self.max) {
            return None;
        }
        state.start(client);
        drop(state);
        Some(ThreadPermit { threads: Arc::clone(self), client })
    }

    /// Waits for a thread.
    pub async fn acquire(self: Arc<Self>, client: ThreadClient) -> ThreadPermit {
        /// Releases the place in the queue, or the granted thread, if the wait is cancelled.
        struct Waiting<'a> {
            threads: &'a Threads,
            id: u64,
            client: ThreadClient,
            is_over: bool,
        }
        impl Drop for Waiting<'_> {
            fn drop(&mut self) {
                if self.is_over {
                    return;
                }
                let mut state = self.threads.state.lock();
                match state.waiting.iter().position(|waiter| waiter.id == self.id) {
                    Some(place) => drop(state.waiting.remove(place)),
                    None => state.end(self.client, self.threads.max),
                }
            }
        }
        let (granted, is_granted) = oneshot::channel();
        let id = {
            let mut state = self.state.lock();
            let id = state.next_id;
            state.next_id += 1;
            state.waiting.push(Waiter { id, client, granted });
            state.grant(self.max);
            id
        };
        let mut waiting = Waiting { threads: &self, id, client, is_over: false };
        // The sender is dropped only after it has sent.
        let _ = is_granted.await;
        waiting.is_over = true;
        drop(waiting);
        ThreadPermit { threads: self, client }
    }
}

impl State {
    fn of(&self, client: ThreadClient) -> (usize, usize) {
        let of_address = self.addresses.get(&client.address).copied().unwrap_or(0);
        (of_address, self.connections.get(&client.connection).copied().unwrap_or(0))
    }

    fn may_start(&self, client: ThreadClient, max: usize) -> bool {
        self.running < max || self.running < max + reserved(max) && self.of(client).0 == 0
    }

    fn start(&mut self, client: ThreadClient) {
        self.running += 1;
        *self.addresses.entry(client.address).or_default() += 1;
        *self.connections.entry(client.connection).or_default() += 1;
    }

    fn end(&mut self, client: ThreadClient, max: usize) {
        fn subtract<K: std::hash::Hash + Eq>(counts: &mut HashMap<K, usize>, key: K) {
            if let Some(count) = counts.get_mut(&key) {
                *count -= 1;
                if *count == 0 {
                    counts.remove(&key);
                }
            }
        }
        self.running -= 1;
        subtract(&mut self.addresses, client.address);
        subtract(&mut self.connections, client.connection);
        self.grant(max);
    }

    /// Grants the free threads.
    fn grant(&mut self, max: usize) {
        loop {
            let may_start =
                self.waiting.iter().enumerate().filter(|(_, waiter)| self.may_start(waiter.client, max));
            let next = may_start.min_by_key(|(_, waiter)| (self.of(waiter.client), waiter.id));
            let Some((place, _)) = next else { return };
            let waiter = self.waiting.remove(place);
            self.start(waiter.client);
            // From now on, dropping the wait releases the thread.
            let _ = waiter.granted.send(());
        }
    }
}

impl Drop for ThreadPermit {
    fn drop(&mut self) {
        self.threads.state.lock().end(self.client, self.threads.max);
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn client(address: u8, connection: u64) -> ThreadClient {
        ThreadClient { address: IpAddr::from([10, 0, 0, address]), connection }
    }

    fn poll<F: Future + ?Sized>(future: Pin<&mut F>) -> Option<F::Output> {
        match future.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }

    #[test]
    fn a_free_thread_goes_to_the_address_that_has_the_fewest() {
        let threads = Threads::new(4);
        let mut held: Vec<_> = (0..3).map(|_| threads.try_acquire(client(1, 1)).unwrap()).collect();
        held.push(threads.try_acquire(client(2, 2)).unwrap());
        let of = |who| Box::pin(Arc::clone(&threads).acquire(who));
        let (mut first, mut second, mut third) = (of(client(1, 1)), of(client(1, 3)), of(client(2, 2)));
        for waiting in [&mut first, &mut second, &mut third] {
            assert!(poll(waiting.as_mut()).is_none());
        }
        drop(held.pop());
        assert!(poll(third.as_mut()).is_some(), "its address has none");
        drop(third);
        assert!(poll(second.as_mut()).is_some(), "its connection has none");
        drop(second);
        assert!(poll(first.as_mut()).is_some());
        drop((first, held));
        assert_eq!(threads.running(), 0);
    }

    #[test]
    fn no_address_can_occupy_all_threads() {
        let threads = Threads::new(8);
        let held: Vec<_> = (0..8).map(|n| threads.try_acquire(client(1, n)).unwrap()).collect();
        assert!(threads.try_acquire(client(1, 9)).is_none());
        let other = threads.try_acquire(client(2, 10)).expect("one is kept for others");
        assert!(threads.try_acquire(client(2, 10)).is_none());
        drop((held, other));
    }

    #[test]
    fn an_abandoned_wait_takes_no_thread() {
        let threads = Threads::new(1);
        let held = threads.try_acquire(client(1, 1)).unwrap();
        let mut abandoned = Box::pin(Arc::clone(&threads).acquire(client(1, 1)));
        let mut granted = Box::pin(Arc::clone(&threads).acquire(client(1, 2)));
        assert!(poll(abandoned.as_mut()).is_none() && poll(granted.as_mut()).is_none());
        drop(abandoned);
        drop(held);
        assert_eq!(threads.running(), 1);
        drop(granted);
        assert_eq!(threads.running(), 0);
    }
}
