//! Gathers the requests of threads and sends them, one batch at a time.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::connection::{Repeat, Servers};
use crate::timelock::TimeLockError;
use crate::timelock::messages::{BATCH_FRESH_MAX, BATCH_STARTS_MAX, Batch, BatchReply, HEARTBEAT};
use crate::timestamp::Timestamp;

/// Maximum number of checks in one batch.
const BATCH_CHECKS_MAX: usize = 10_000;
/// Maximum number of locks, and of holds, released by one batch.
const BATCH_ENDS_MAX: usize = 10_000;

/// A request of one thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Query {
    Start,
    Timestamp,
    Immutable,
    Check { hold: i64, fence: Option<i64> },
}

/// The response to one thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    Started { start: i64, immutable: i64, hold: i64 },
    Timestamp(i64),
    Held(bool),
}

type ReplySender = mpsc::SyncSender<Result<Answer, TimeLockError>>;

pub(super) struct Sender {
    servers: Servers,
    session: u64,
    queue: Mutex<Queue>,
    filled: Condvar,
    /// Greatest timestamp in any response.
    seen: AtomicI64,
    round_trips: AtomicU64,
}

#[derive(Default)]
struct Queue {
    queries: VecDeque<(Query, ReplySender)>,
    unlock: Vec<i64>,
    release: Vec<i64>,
    cancel: Vec<u64>,
    closed: bool,
    /// Why no more requests are sent.
    failed: Option<TimeLockError>,
}

impl Sender {
    pub fn new(servers: Servers) -> Self {
        Self {
            servers,
            session: rand::random(),
            queue: Mutex::default(),
            filled: Condvar::new(),
            seen: AtomicI64::new(0),
            round_trips: AtomicU64::new(0),
        }
    }

    pub fn servers(&self) -> &Servers {
        &self.servers
    }

    pub fn session(&self) -> u64 {
        self.session
    }

    pub fn round_trips(&self) -> u64 {
        self.round_trips.load(Ordering::Relaxed)
    }

    /// Returns the greatest timestamp in any response so far.
    pub fn seen(&self) -> i64 {
        self.seen.load(Ordering::SeqCst)
    }

    /// Checks the timestamps in the response to a request that was sent when `seen` was the
    /// greatest.
    ///
    /// # Errors
    /// `WentBackwards`, from then on for every request.
    pub fn check_increasing(
        &self,
        seen: i64,
        timestamps: impl IntoIterator<Item = i64>,
    ) -> Result<(), TimeLockError> {
        for got in timestamps {
            if got <= seen {
                let error = TimeLockError::WentBackwards {
                    seen: Timestamp(seen),
                    got: Timestamp(got),
                    server: self.servers.current(),
                };
                tracing::error!(%error, "this client stops using timestamps");
                self.queue.lock().failed.get_or_insert_with(|| error.clone());
                return Err(error);
            }
            self.seen.fetch_max(got, Ordering::SeqCst);
        }
        Ok(())
    }

    pub fn ask(&self, queries: Query) -> Result<Answer, TimeLockError> {
        let (reply, answers) = mpsc::sync_channel(1);
        {
            let mut queue = self.queue.lock();
            if let Some(failed) = &queue.failed {
                return Err(failed.clone());
            }
            queue.queries.push_back((queries, reply));
        }
        self.filled.notify_one();
        answers
            .recv()
            .unwrap_or_else(|_| Err(self.servers.invalid_response("the client's sender thread ended")))
    }

    pub fn unlock(&self, fence: i64) {
        self.queue.lock().unlock.push(fence);
        self.filled.notify_one();
    }

    pub fn release(&self, hold: i64) {
        self.queue.lock().release.push(hold);
        self.filled.notify_one();
    }

    pub fn cancel(&self, number: u64) {
        self.queue.lock().cancel.push(number);
        self.filled.notify_one();
    }

    /// Lets [`run`](Self::run) end after everything was sent.
    pub fn close(&self) {
        self.queue.lock().closed = true;
        self.filled.notify_one();
    }

    /// Calls `run`, which sends batches. A panic in it fails all requests, those that wait and
    /// later ones: no thread would answer them.
    pub fn contain(&self, run: impl FnOnce(&Self)) {
        if catch_unwind(AssertUnwindSafe(|| run(self))).is_err() {
            tracing::error!("the thread of the timelock's client panicked: its requests fail");
            let mut queue = self.queue.lock();
            queue.failed = Some(self.servers.invalid_response("this client's sender thread panicked"));
            // Threads that wait for a dropped sender receive an error.
            queue.queries.clear();
        }
    }

    /// Sends batches until closed.
    ///
    /// A failed batch fails its requests, and its releases are sent again with the next batch: they
    /// are idempotent, unlike the requests.
    pub fn run(&self) {
        let mut number = 0;
        let mut answered = 0;
        let mut sent = Instant::now();
        loop {
            let (mut batch, queries) = {
                let mut queue = self.queue.lock();
                while queue.is_empty() && !queue.closed && sent.elapsed() < HEARTBEAT {
                    self.filled.wait_until(&mut queue, sent + HEARTBEAT);
                }
                if queue.closed && queue.is_empty() {
                    return;
                }
                queue.take()
            };
            number += 1;
            (batch.session, batch.batch, batch.answered) = (self.session, number, answered);
            sent = Instant::now();
            let answers = self.send(&mut batch, &queries);
            match answers {
                Ok(answers) => {
                    answered = number;
                    for ((_, reply), answers) in queries.into_iter().zip(answers) {
                        // Fails only if the thread no longer waits.
                        let _ = reply.send(Ok(answers));
                    }
                }
                Err(error) => {
                    tracing::debug!(%error, "a batch of timelock requests failed");
                    for (_, reply) in queries {
                        let _ = reply.send(Err(error.clone()));
                    }
                    let mut queue = self.queue.lock();
                    if queue.closed {
                        return;
                    }
                    // Releasing a lock twice has no effect. Holds are counted, and have expired by
                    // now: the server received no heartbeat for too long.
                    queue.unlock.append(&mut batch.unlock);
                    queue.cancel.append(&mut batch.cancel);
                }
            }
        }
    }

    /// Sends a batch until it is answered, and returns the response of each request.
    fn send(
        &self,
        batch: &mut Batch,
        queries: &[(Query, ReplySender)],
    ) -> Result<Vec<Answer>, TimeLockError> {
        let seen = self.seen();
        let reply: BatchReply = self.servers.ask(
            "/v1/batch",
            Repeat::Renumbered,
            |attempt| {
                self.round_trips.fetch_add(1, Ordering::Relaxed);
                batch.attempt = attempt;
                batch.clone()
            },
            Duration::ZERO,
        )?;
        let answers = distribute(batch, &reply, queries)
            .ok_or_else(|| self.servers.invalid_response("the response answers another batch"))?;
        let fresh = answers.iter().filter_map(|answers| match answers {
            Answer::Started { start, .. } => Some(*start),
            _ => None,
        });
        let timestamps = (0..i64::from(batch.timestamps)).filter_map(|n| reply.timestamps?.checked_add(n));
        self.check_increasing(seen, fresh.chain(timestamps))?;
        Ok(answers)
    }
}

impl Queue {
    fn is_empty(&self) -> bool {
        self.queries.is_empty() && self.unlock.is_empty() && self.release.is_empty() && self.cancel.is_empty()
    }

    /// Takes the requests of the next batch, in arrival order.
    fn take(&mut self) -> (Batch, Vec<(Query, ReplySender)>) {
        let mut batch = Batch::default();
        let mut queries = Vec::new();
        while let Some((next, _)) = self.queries.front() {
            match next {
                Query::Start if batch.starts < BATCH_STARTS_MAX => batch.starts += 1,
                Query::Timestamp if batch.timestamps < BATCH_FRESH_MAX => batch.timestamps += 1,
                Query::Immutable => batch.immutable = true,
                Query::Check { hold, fence } if batch.checks.len() < BATCH_CHECKS_MAX => {
                    batch.checks.push((*hold, *fence));
                }
                _ => break,
            }
            queries.extend(self.queries.pop_front());
        }
        let first = |list: &mut Vec<i64>| list.drain(..list.len().min(BATCH_ENDS_MAX)).collect();
        (batch.unlock, batch.release) = (first(&mut self.unlock), first(&mut self.release));
        batch.cancel = self.cancel.drain(..self.cancel.len().min(BATCH_ENDS_MAX)).collect();
        (batch, queries)
    }
}

/// Assigns the response to its requests; `None` if it answers another batch.
fn distribute(batch: &Batch, reply: &BatchReply, queries: &[(Query, ReplySender)]) -> Option<Vec<Answer>> {
    if (reply.batch, reply.attempt) != (batch.batch, batch.attempt) {
        return None;
    }
    let (mut starts, mut fresh) = (0..i64::from(batch.starts), 0..i64::from(batch.timestamps));
    let mut held = reply.held.iter();
    queries
        .iter()
        .map(|(queries, _)| {
            Some(match queries {
                Query::Start => {
                    let given = reply.starts?;
                    let start = given.first.checked_add(given.step.checked_mul(starts.next()?)?)?;
                    // B4 after B2.
                    let in_order = given.step > 0 && given.immutable <= given.hold && given.hold < start;
                    in_order.then_some(Answer::Started {
                        start,
                        immutable: given.immutable,
                        hold: given.hold,
                    })?
                }
                Query::Timestamp => Answer::Timestamp(reply.timestamps?.checked_add(fresh.next()?)?),
                Query::Immutable => Answer::Timestamp(reply.immutable?),
                Query::Check { .. } => Answer::Held(*held.next()?),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timelock::RemoteOptions;
    use crate::timelock::messages::Starts;

    fn queries(kinds: &[Query]) -> Vec<(Query, ReplySender)> {
        kinds.iter().map(|kind| (*kind, mpsc::sync_channel(1).0)).collect()
    }

    fn queue(kinds: &[Query]) -> Queue {
        Queue { queries: queries(kinds).into(), ..Queue::default() }
    }

    const CHECK: Query = Query::Check { hold: 7, fence: Some(8) };

    #[test]
    fn a_panic_of_the_thread_fails_requests_instead_of_leaving_them_waiting() {
        let sender = Sender::new(Servers::new(&RemoteOptions::new(vec!["127.0.0.1:1".to_owned()])));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| sender.ask(Query::Start));
            sender.contain(|sender| {
                let mut queue = sender.queue.lock();
                while queue.queries.is_empty() {
                    sender.filled.wait(&mut queue);
                }
                drop(queue);
                panic!("injected");
            });
            assert!(waiting.join().unwrap().is_err());
        });
        let error = sender.ask(Query::Timestamp).unwrap_err();
        assert!(error.to_string().contains("panicked"), "{error}");
    }

    #[test]
    fn concurrent_requests_share_a_batch_and_each_gets_its_answer() {
        let (mut batch, queries) =
            queue(&[Query::Start, Query::Timestamp, CHECK, Query::Start, Query::Immutable, Query::Timestamp])
                .take();
        (batch.batch, batch.attempt) = (4, 1);
        assert_eq!((batch.starts, batch.timestamps, batch.checks.len(), batch.immutable), (2, 2, 1, true));
        let reply = BatchReply {
            batch: 4,
            attempt: 1,
            starts: Some(Starts { hold: 102, immutable: 90, first: 105, step: 16 }),
            timestamps: Some(100),
            immutable: Some(90),
            held: vec![true],
        };
        let started = |start| Answer::Started { start, immutable: 90, hold: 102 };
        let all = vec![
            started(105),
            Answer::Timestamp(100),
            Answer::Held(true),
            started(121),
            Answer::Timestamp(90),
            Answer::Timestamp(101),
        ];
        assert_eq!(distribute(&batch, &reply, &queries), Some(all));
        for wrong in [
            BatchReply { attempt: 0, ..reply.clone() },
            BatchReply { batch: 3, ..reply.clone() },
            BatchReply { starts: None, ..reply.clone() },
            BatchReply { held: vec![], ..reply.clone() },
            BatchReply {
                starts: Some(Starts { hold: 105, immutable: 90, first: 105, step: 16 }),
                ..reply.clone()
            },
            BatchReply {
                starts: Some(Starts { hold: 1, immutable: 1, first: i64::MAX - 1, step: 16 }),
                ..reply
            },
        ] {
            assert_eq!(distribute(&batch, &wrong, &queries), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_batch_respects_the_limits_of_the_server() {
        let mut queue = queue(&vec![Query::Start; BATCH_STARTS_MAX as usize + 3]);
        assert_eq!(queue.take().0.starts, BATCH_STARTS_MAX);
        assert_eq!(queue.take().0.starts, 3);
        assert!(queue.is_empty());
    }
}
