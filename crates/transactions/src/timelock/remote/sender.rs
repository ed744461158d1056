//! Gathers what threads ask, and sends it: one batch at a time.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::connection::{Repeat, Servers};
use crate::timelock::TimeLockError;
use crate::timelock::messages::{BATCH_FRESH_MAX, BATCH_STARTS_MAX, Batch, BatchReply, HEARTBEAT};
use crate::timestamp::Timestamp;

/// Checks in one batch, at most.
const BATCH_CHECKS_MAX: usize = 10_000;
/// Locks and holds given back with one batch, at most.
const BATCH_ENDS_MAX: usize = 10_000;

/// What a thread asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    Start,
    Timestamp,
    Immutable,
    Check { hold: i64, fence: Option<i64> },
}

/// What it is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    Started { start: i64, immutable: i64, hold: i64 },
    Timestamp(i64),
    Held(bool),
}

type Reply = mpsc::SyncSender<Result<Told, TimeLockError>>;

pub(super) struct Sender {
    servers: Servers,
    session: u64,
    queue: Mutex<Queue>,
    filled: Condvar,
    /// The greatest timestamp that any answer held.
    seen: AtomicI64,
    round_trips: AtomicU64,
}

#[derive(Default)]
struct Queue {
    asked: VecDeque<(Asked, Reply)>,
    unlock: Vec<i64>,
    release: Vec<i64>,
    cancel: Vec<u64>,
    closed: bool,
    /// Why nothing is asked any more.
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

    /// The greatest timestamp that any answer held so far.
    pub fn seen(&self) -> i64 {
        self.seen.load(Ordering::SeqCst)
    }

    /// Checks timestamps of an answer to a question that was asked when `seen` had been seen.
    ///
    /// # Errors
    /// WentBackwards, now and for ever.
    pub fn saw(&self, seen: i64, timestamps: impl IntoIterator<Item = i64>) -> Result<(), TimeLockError> {
        for got in timestamps {
            if got <= seen {
                let error = TimeLockError::WentBackwards {
                    seen: Timestamp(seen),
                    got: Timestamp(got),
                    server: self.servers.current(),
                };
                tracing::error!(%error, "this client gives out no timestamps any more");
                self.queue.lock().failed.get_or_insert_with(|| error.clone());
                return Err(error);
            }
            self.seen.fetch_max(got, Ordering::SeqCst);
        }
        Ok(())
    }

    pub fn ask(&self, asked: Asked) -> Result<Told, TimeLockError> {
        let (reply, told) = mpsc::sync_channel(1);
        {
            let mut queue = self.queue.lock();
            if let Some(failed) = &queue.failed {
                return Err(failed.clone());
            }
            queue.asked.push_back((asked, reply));
        }
        self.filled.notify_one();
        told.recv().unwrap_or_else(|_| Err(self.servers.nonsense("the client's thread ended")))
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

    /// Lets [`run`](Self::run) end when everything was sent.
    pub fn close(&self) {
        self.queue.lock().closed = true;
        self.filled.notify_one();
    }

    /// Sends batches until it is closed.
    pub fn run(&self) {
        let mut number = 0;
        let mut answered = 0;
        let mut sent = Instant::now();
        loop {
            let (mut batch, asked) = {
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
            let told = self.send(&mut batch, &asked);
            match told {
                Ok(told) => {
                    answered = number;
                    for ((_, reply), told) in asked.into_iter().zip(told) {
                        // Nobody waits any more if this fails.
                        let _ = reply.send(Ok(told));
                    }
                }
                Err(error) => {
                    tracing::debug!(%error, "a batch of questions to the timelock was lost");
                    for (_, reply) in asked {
                        let _ = reply.send(Err(error.clone()));
                    }
                    let mut queue = self.queue.lock();
                    if queue.closed {
                        return;
                    }
                    // To give a lock back twice does nothing. Holds are counted, and gone by now: nothing was heard of this client for too long.
                    queue.unlock.append(&mut batch.unlock);
                    queue.cancel.append(&mut batch.cancel);
                }
            }
        }
    }

    /// Sends a batch until it is answered, and tells what each asked for.
    fn send(&self, batch: &mut Batch, asked: &[(Asked, Reply)]) -> Result<Vec<Told>, TimeLockError> {
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
        let told =
            tell(batch, &reply, asked).ok_or_else(|| self.servers.nonsense("it answers another batch"))?;
        let fresh = told.iter().filter_map(|told| match told {
            Told::Started { start, .. } => Some(*start),
            _ => None,
        });
        let timestamps = (0..i64::from(batch.timestamps)).filter_map(|n| reply.timestamps?.checked_add(n));
        self.saw(seen, fresh.chain(timestamps))?;
        Ok(told)
    }
}

impl Queue {
    fn is_empty(&self) -> bool {
        self.asked.is_empty() && self.unlock.is_empty() && self.release.is_empty() && self.cancel.is_empty()
    }

    /// What goes in one batch, in the order of asking.
    fn take(&mut self) -> (Batch, Vec<(Asked, Reply)>) {
        let mut batch = Batch::default();
        let mut asked = Vec::new();
        while let Some((next, _)) = self.asked.front() {
            match next {
                Asked::Start if batch.starts < BATCH_STARTS_MAX => batch.starts += 1,
                Asked::Timestamp if batch.timestamps < BATCH_FRESH_MAX => batch.timestamps += 1,
                Asked::Immutable => batch.immutable = true,
                Asked::Check { hold, fence } if batch.checks.len() < BATCH_CHECKS_MAX => {
                    batch.checks.push((*hold, *fence));
                }
                _ => break,
            }
            asked.extend(self.asked.pop_front());
        }
        let first = |list: &mut Vec<i64>| list.drain(..list.len().min(BATCH_ENDS_MAX)).collect();
        (batch.unlock, batch.release) = (first(&mut self.unlock), first(&mut self.release));
        batch.cancel = self.cancel.drain(..self.cancel.len().min(BATCH_ENDS_MAX)).collect();
        (batch, asked)
    }
}

/// Who is told what; `None` if the answer is to another question.
fn tell(batch: &Batch, reply: &BatchReply, asked: &[(Asked, Reply)]) -> Option<Vec<Told>> {
    if (reply.batch, reply.attempt) != (batch.batch, batch.attempt) {
        return None;
    }
    let (mut starts, mut fresh) = (0..i64::from(batch.starts), 0..i64::from(batch.timestamps));
    let mut held = reply.held.iter();
    asked
        .iter()
        .map(|(asked, _)| {
            Some(match asked {
                Asked::Start => {
                    let given = reply.starts?;
                    let start = given.first.checked_add(given.step.checked_mul(starts.next()?)?)?;
                    // B4 after B2.
                    let in_order = given.step > 0 && given.immutable <= given.hold && given.hold < start;
                    in_order.then_some(Told::Started {
                        start,
                        immutable: given.immutable,
                        hold: given.hold,
                    })?
                }
                Asked::Timestamp => Told::Timestamp(reply.timestamps?.checked_add(fresh.next()?)?),
                Asked::Immutable => Told::Timestamp(reply.immutable?),
                Asked::Check { .. } => Told::Held(*held.next()?),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timelock::messages::Starts;

    fn asked(kinds: &[Asked]) -> Vec<(Asked, Reply)> {
        kinds.iter().map(|kind| (*kind, mpsc::sync_channel(1).0)).collect()
    }

    fn queue(kinds: &[Asked]) -> Queue {
        Queue { asked: asked(kinds).into(), ..Queue::default() }
    }

    const CHECK: Asked = Asked::Check { hold: 7, fence: Some(8) };

    #[test]
    fn what_is_asked_together_is_one_batch_and_each_is_told_its_own() {
        let (mut batch, asked) =
            queue(&[Asked::Start, Asked::Timestamp, CHECK, Asked::Start, Asked::Immutable, Asked::Timestamp])
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
        let started = |start| Told::Started { start, immutable: 90, hold: 102 };
        let all = vec![
            started(105),
            Told::Timestamp(100),
            Told::Held(true),
            started(121),
            Told::Timestamp(90),
            Told::Timestamp(101),
        ];
        assert_eq!(tell(&batch, &reply, &asked), Some(all));
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
            assert_eq!(tell(&batch, &wrong, &asked), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_batch_asks_for_no_more_than_a_server_gives() {
        let mut queue = queue(&vec![Asked::Start; BATCH_STARTS_MAX as usize + 3]);
        assert_eq!(queue.take().0.starts, BATCH_STARTS_MAX);
        assert_eq!(queue.take().0.starts, 3);
        assert!(queue.is_empty());
    }
}
