//! Groups puts: while one batch is in flight, the next one gathers. A client therefore has one
//! round in flight per partition, however many of its threads commit. No timer delays a put.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use cassette_database::DeferredWrite;
use parking_lot::{Condvar, Mutex};

use super::{Recorded, ServiceError, ServiceResult, TransactionService};
use crate::timestamp::{Timestamp, TransactionStatus};

/// Maximum number of puts in one batch.
const BATCH_MAX: usize = 4096;

/// A service that sends puts in batches, one at a time. Reads are passed through.
pub struct Batching<T> {
    below: T,
    state: Mutex<State>,
    /// Notified when a batch ends.
    ended: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<(Timestamp, TransactionStatus, Arc<Slot>)>,
    in_flight: bool,
}

/// Where the sending thread leaves the result of a put.
#[derive(Default)]
struct Slot(Mutex<Option<ServiceResult<Recorded>>>);

impl<T: TransactionService> Batching<T> {
    /// Wraps another service.
    pub fn new(below: T) -> Self {
        Self { below, state: Mutex::default(), ended: Condvar::new() }
    }

    /// Sends the pending puts. `in_flight` is set, and cleared at the end even if the service below
    /// panics.
    fn send(&self) {
        struct Ended<'a, T>(&'a Batching<T>, Vec<Arc<Slot>>);
        impl<T> Drop for Ended<'_, T> {
            fn drop(&mut self) {
                for slot in &self.1 {
                    slot.0.lock().get_or_insert_with(|| {
                        let what = "the thread that sent the batch panicked".to_owned();
                        Err(ServiceError::Broken { start: Timestamp::ATOMIC, what })
                    });
                }
                self.0.state.lock().in_flight = false;
                self.0.ended.notify_all();
            }
        }
        let batch: Vec<_> = {
            let mut state = self.state.lock();
            let count = state.waiting.len().min(BATCH_MAX);
            state.waiting.drain(..count).collect()
        };
        let ended = Ended(self, batch.iter().map(|(_, _, slot)| slot.clone()).collect());
        let puts: Vec<_> = batch.iter().map(|(start, status, _)| (*start, *status)).collect();
        for (slot, result) in ended.1.iter().zip(self.below.put_many_unless_exists(&puts)) {
            *slot.0.lock() = Some(result);
        }
    }
}

impl<T: TransactionService> TransactionService for Batching<T> {
    fn get_many(&self, starts: &[Timestamp]) -> ServiceResult<HashMap<Timestamp, TransactionStatus>> {
        self.below.get_many(starts)
    }

    fn put_many_unless_exists(
        &self,
        statuses: &[(Timestamp, TransactionStatus)],
    ) -> Vec<ServiceResult<Recorded>> {
        let slots: Vec<Arc<Slot>> = statuses.iter().map(|_| Arc::default()).collect();
        let mut state = self.state.lock();
        let entries = statuses.iter().zip(&slots);
        state.waiting.extend(entries.map(|((start, status), slot)| (*start, *status, slot.clone())));
        for slot in &slots {
            while slot.0.lock().is_none() {
                if state.in_flight {
                    self.ended.wait(&mut state);
                    continue;
                }
                state.in_flight = true;
                drop(state);
                self.send();
                state = self.state.lock();
            }
        }
        drop(state);
        let missing = || ServiceError::Broken { start: Timestamp::ATOMIC, what: "no result".to_owned() };
        slots.iter().map(|slot| slot.0.lock().take().unwrap_or_else(|| Err(missing()))).collect()
    }

    fn put_with(
        &self,
        start: Timestamp,
        status: TransactionStatus,
        writes: &[DeferredWrite],
    ) -> ServiceResult<Recorded> {
        self.below.put_with(start, status, writes)
    }
}
