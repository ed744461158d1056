//! Transfers in parallel: a few sessions with each node.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::delivery::{Deliveries, Delivery, sessions_per_node};
use super::progress::Progress;
use super::transfers::{SourceTable, TargetTable, Transfer, damaged};
use crate::error::{MoveError, Result, unsuitable};
use crate::event::{Event, Observer};
use crate::settings::FileOptions;
use crate::streaming::replicas::Node;

/// Interval between two reports of progress.
const REPORT_PAUSE: Duration = Duration::from_secs(1);

/// What the threads share.
pub struct Pool<'p> {
    pub tables: &'p [SourceTable<'p>],
    pub targets: &'p [TargetTable],
    pub nodes: &'p [Node],
    pub transfers: &'p [Transfer],
    pub progress: &'p Progress,
    pub options: &'p FileOptions,
    pub patience: Duration,
    pub observer: &'p dyn Observer,
}

struct State<'p> {
    /// For each node.
    queues: Vec<Mutex<VecDeque<&'p Transfer>>>,
    deliveries: Deliveries<'p>,
    done: AtomicU64,
    failure: Mutex<Option<MoveError>>,
    running: Mutex<usize>,
    ended: Condvar,
}

impl<'p> Pool<'p> {
    /// Completes all transfers that no earlier run has, and returns the bytes sent.
    ///
    /// # Errors
    /// The first error; the other threads then stop.
    pub fn run(&self) -> Result<u64> {
        let is_left = |transfer: &&Transfer| !self.progress.is_done(&transfer.key);
        let left: Vec<&Transfer> = self.transfers.iter().filter(is_left).collect();
        let total: u64 = self.transfers.iter().map(|transfer| transfer.share.bytes).sum();
        let bytes_left: u64 = left.iter().map(|transfer| transfer.share.bytes).sum();
        let (bytes_before, done_before) = (total - bytes_left, (self.transfers.len() - left.len()) as u64);
        self.observer.event(&Event::Sending {
            sstables: self.tables.iter().map(|of| of.readers.len()).sum(),
            nodes: self.nodes.len(),
            transfers: self.transfers.len() as u64,
            transfers_done: done_before,
            bytes: total,
            bytes_done: bytes_before,
        });
        let of_node = |node| left.iter().copied().filter(|transfer| transfer.share.node == node).collect();
        let sessions = sessions_per_node(self.options);
        let state = State {
            queues: (0..self.nodes.len()).map(|node| Mutex::new(of_node(node))).collect(),
            deliveries: Deliveries::new(self.options, self.patience, self.observer, damaged),
            done: AtomicU64::new(done_before),
            failure: Mutex::new(None),
            running: Mutex::new(self.nodes.len() * sessions),
            ended: Condvar::new(),
        };
        std::thread::scope(|scope| {
            for node in (0..self.nodes.len()).flat_map(|node| std::iter::repeat_n(node, sessions)) {
                let state = &state;
                scope.spawn(move || {
                    let _end = End(state);
                    self.work(state, node);
                });
            }
            self.report(&state, total, bytes_before);
        });
        match state.failure.into_inner() {
            Some(error) => Err(error),
            None if state.deliveries.is_stopped() => unsuitable("a thread of the move panicked"),
            None => Ok(state.deliveries.bytes()),
        }
    }

    fn work(&self, state: &State<'p>, node: usize) {
        while !state.deliveries.is_stopped() {
            // The guard must not live as long as the transfer.
            let next = state.queues[node].lock().pop_front();
            let Some(transfer) = next else { return };
            if let Err(error) = self.deliver(state, transfer) {
                state.failure.lock().get_or_insert(error);
                state.deliveries.stop();
            }
        }
    }

    fn deliver(&self, state: &State<'_>, transfer: &Transfer) -> Result<()> {
        let delivery = Delivery {
            reader: self.reader(transfer),
            sections: &transfer.share.sections,
            is_whole: transfer.share.is_whole,
            node: &self.nodes[transfer.share.node],
            table: self.targets[transfer.table].id,
            name: &self.tables[transfer.table].table.quoted(),
        };
        if state.deliveries.deliver(&delivery)? { self.complete(state, transfer) } else { Ok(()) }
    }

    fn reader(&self, transfer: &Transfer) -> &cassette_sstable::SSTableReader {
        &self.tables[transfer.table].readers[transfer.sstable]
    }

    fn complete(&self, state: &State<'_>, transfer: &Transfer) -> Result<()> {
        self.progress.finish(&transfer.key)?;
        state.done.fetch_add(1, Ordering::Relaxed);
        let table = self.tables[transfer.table].table;
        self.observer.event(&Event::Sent {
            keyspace: table.keyspace.clone(),
            table: table.name.clone(),
            sstable: self.reader(transfer).descriptor().file_prefix().trim_end_matches('-').to_owned(),
            node: self.nodes[transfer.share.node].address.to_string(),
            bytes: transfer.share.bytes,
            partitions: transfer.share.sections.keys,
            whole: transfer.share.is_whole,
        });
        Ok(())
    }

    /// Reports progress until all threads have ended.
    fn report(&self, state: &State<'_>, total: u64, before: u64) {
        let start = Instant::now();
        let mut running = state.running.lock();
        while *running > 0 {
            if !state.ended.wait_for(&mut running, REPORT_PAUSE).timed_out() {
                continue;
            }
            let sent = state.deliveries.bytes();
            let rate = sent as f64 / start.elapsed().as_secs_f64();
            let left = total.saturating_sub(before + sent);
            self.observer.event(&Event::SendingProgress {
                bytes_done: before + sent,
                bytes: total,
                bytes_per_second: rate,
                transfers_done: state.done.load(Ordering::Relaxed),
                transfers: self.transfers.len() as u64,
                seconds_left: (sent > 0).then(|| left as f64 / rate),
            });
        }
    }
}

/// Counts a thread as ended, also if it panics.
struct End<'s, 'p>(&'s State<'p>);

impl Drop for End<'_, '_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.deliveries.stop();
        }
        *self.0.running.lock() -= 1;
        self.0.ended.notify_all();
    }
}
